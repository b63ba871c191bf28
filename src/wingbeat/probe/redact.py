"""Secrets taken out of what a fingerprint keeps: keys, tokens, secrets, passwords, and credentials in addresses."""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "[redacted]"
SECRET = re.compile(r"(?<!MON)KEY(?!WORD|BOARD)|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTHORIZATION", re.I)
HARMLESS = re.compile(r"TOKENIZERS?|TOKEN[-_]?MAP", re.I)
COUNTED = re.compile(r"TOKENS|TOKEN[-_]?(?:IDS?|INDEX|THRESHOLD|BUDGET|LIMIT)|KEY[-_]?(?:VALUE[-_]?)?HEADS?", re.I)
COUNT = re.compile(r"\[?\s*-?\d{1,12}(?:[.,]\s*\d{1,12})*[kmg]?\s*\]?", re.I)
SWITCH = re.compile(r"\d|true|false|yes|no|on|off|none|null", re.I)
CODE = (".py", ".pyi", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".rs", ".go", ".js", ".ts")

# A name from its first secret word on; `_hide` looks for its beginning. What closes a name. A quoted value.
_NAME = rf"(?P<name>(?:{SECRET.pattern})[\w.-]{{0,60}})"
_CLOSE = r"\\?[\"']?\]?"
_QUOTE = r"\\?(?P<quote>\"\"\"|'''|[\"'])"
_INSIDE = r"(?:\\.|(?!(?P=quote))[^\\\n])"
_QUOTED = re.compile(rf"{_NAME}(?P<sign>{_CLOSE}\s*[=:]\s*{_QUOTE})(?P<value>{_INSIDE}+)", re.I)
_ASSIGNED = re.compile(
    rf"{_NAME}(?P<sign>{_CLOSE}\s*[=:]\s*\\?[\"']?)"
    r"(?P<value>\[[^\]]{0,2000}(?:\]|\Z)|(?:(?:Bearer|Basic|Token)\s+)?[^\s\"',;&}]+)",
    re.I,
)


def _flag(dash: str, word: str) -> re.Pattern[str]:
    name = rf"(?P<name>{dash}[\w.-]{{0,60}}?(?:{SECRET.pattern})[\w.-]{{0,60}})"
    return re.compile(rf"{name}(?P<sign>\s+)(?P<value>\"[^\"\n]*\"|'[^'\n]*'|(?!-){word}+)", re.I)


_TEXT = (_QUOTED, _ASSIGNED, _flag("-", r"\S"))
# In code only quoted values are hidden, also after a type, a comma or a bracket, and what a shell would read.
_LITERAL = re.compile(
    rf"{_NAME}(?P<sign>{_CLOSE}\s*(?::\s*[\w.\[\]|, ]{{1,40}}\s*)?(?:[=:,(]|\)\s*or\b)[\s(=>:+-]*[rbfu]{{0,2}}{_QUOTE})"
    rf"(?P<value>{_INSIDE}{{4,}})",
    re.I,
)
_SHELL = re.compile(rf"(?P<name>(?:{SECRET.pattern})[A-Z0-9_]{{0,60}})(?P<sign>=)(?P<value>[^\s\"'=,;)]+)")
_LONG = _flag("--", r"[^\s\"']")
_REST = re.compile(
    rf"{_NAME}(?P<sign>{_CLOSE}[^\S\n]*[=:][^\S\n]*)"
    r"(?P<value>(?:\d[\d.]*|true|false|null)(?=\s*[,}\]])|[^\s\"'][^\n]*)",
    re.I,
)

_ADDRESS = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]{0,20}://)[^\s/:\"']*(?::[^\s\"']*)?@", re.I)
_BLOCK = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S)
_WELL_KNOWN = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|(?<=Bearer )[\w.~+/=-]{16,})"
)


def is_secret(name: str, value: str) -> bool:
    """Whether a setting's value must not be kept. A count of tokens and the name of a tokenizer may be."""
    name = HARMLESS.sub("", name)
    if COUNT.fullmatch(value):
        name = COUNTED.sub("", name)
    if SWITCH.fullmatch(value):
        name = re.sub("TOKEN", "", name, flags=re.I)
    return bool(SECRET.search(name))


def clean(value: Any) -> Any:
    """The value without its secrets: texts, and all texts inside lists and dictionaries."""
    if isinstance(value, str):
        return _clean_text(value, _TEXT)
    if isinstance(value, dict):
        return {key: HIDDEN if is_secret(str(key), str(entry)) else clean(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return _clean_list([clean(entry) for entry in value])
    return value


def clean_code(text: str) -> str:
    """Source text, or a difference as git prints it, without its secrets.

    In code only quoted values are taken out, as `key = self.k(x)` hides nothing; in other files also the rest of a
    line after a secret's name.
    """
    parts = re.split(r"^(?=diff --git )", text, flags=re.M)
    return "".join(_clean_text(part, _patterns(part.partition("\n")[0])) for part in parts)


def _patterns(header: str) -> tuple[re.Pattern[str], ...]:
    code = not header.startswith("diff --git ") or header.rstrip('"').endswith(CODE)
    return (*(() if code else (_QUOTED, _REST)), _LITERAL, _SHELL, _LONG)


def _clean_text(text: str, patterns: tuple[re.Pattern[str], ...]) -> str:
    text = _BLOCK.sub(rf"\1{HIDDEN}", text)
    for pattern in patterns:
        text = pattern.sub(_hide, text)
    return _WELL_KNOWN.sub(HIDDEN, _ADDRESS.sub(rf"\g<scheme>{HIDDEN}@", text))


def _hide(found: re.Match[str]) -> str:
    ahead = re.search(r"[\w.-]*$", found.string[max(0, found.start() - 60) : found.start()])
    name = (ahead[0] if ahead else "") + found["name"]
    return f"{found['name']}{found['sign']}{HIDDEN}" if is_secret(name, found["value"].strip("\"'`,;")) else found[0]


def _clean_list(entries: list[Any]) -> list[Any]:
    """Arguments: what follows --api-key is hidden up to the next flag, and all of --api-key=a b."""
    flag = ""
    for index, entry in enumerate(entries):
        if not isinstance(entry, str):
            continue
        name, sign, value = entry.partition("=")
        if not entry.startswith("-") and is_secret(flag, entry):
            entries[index] = HIDDEN
        elif sign and re.fullmatch(r"[\w.-]+", name) and is_secret(name, value):
            entries[index] = f"{name}={HIDDEN}"
        if entry.startswith("-"):
            flag = "" if sign else entry
    return entries
