"""Secrets taken out of what a fingerprint keeps: keys, tokens, secrets, passwords, and credentials in addresses."""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "[redacted]"
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.I)
MAYBE = re.compile(r"TOKENIZER|TOKENS?$", re.I)  # a tokenizer, or a count of tokens

_NAME = rf"[\w.-]{{0,60}}(?:{SECRET.pattern})[\w.-]{{0,60}}"
_ASSIGNED = re.compile(rf"(?P<name>{_NAME})(?P<sign>[\"']?\s*[=:]\s*[\"']?)(?P<value>[^\s\"',;&}}]+)", re.I)
_FLAG = re.compile(rf"(?P<name>--?{_NAME})(?P<sign>\s+)(?P<value>(?!-)\S+)", re.I)
_ADDRESS = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^\s/@\"']+@", re.I)
_LITERAL = re.compile(rf"(?P<name>{_NAME})(?P<sign>[\"']?\s*[=:]\s*[\"'])(?P<value>[^\"'\n]{{6,}})", re.I)
_WELL_KNOWN = re.compile(r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,})")


def is_secret(name: str, value: str) -> bool:
    """Whether a setting's value must not be kept. A count of tokens and the name of a tokenizer may be."""
    if not SECRET.search(name):
        return False
    if SECRET.search(MAYBE.sub("", name)):
        return True
    return "TOKENIZER" not in name.upper() and not re.fullmatch(r"\d{1,7}|true|false|on|off|none", value, re.I)


def clean(value: Any) -> Any:
    """The value without its secrets: texts, and all texts inside lists and dictionaries."""
    if isinstance(value, str):
        return _clean_text(value, (_ASSIGNED, _FLAG))
    if isinstance(value, dict):
        return {key: HIDDEN if is_secret(str(key), str(entry)) else clean(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return _clean_list([clean(entry) for entry in value])
    return value


def clean_code(text: str) -> str:
    """Source text without its secrets: only quoted values are taken out, as `key = self.k(x)` hides nothing."""
    return _clean_text(text, (_LITERAL,))


def _clean_text(text: str, patterns: tuple[re.Pattern[str], ...]) -> str:
    for pattern in patterns:
        text = pattern.sub(_hide, text)
    return _WELL_KNOWN.sub(HIDDEN, _ADDRESS.sub(rf"\g<scheme>{HIDDEN}@", text))


def _hide(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"]
    return f"{name}{found['sign']}{HIDDEN}" if is_secret(name, value) else found[0]


def _clean_list(entries: list[Any]) -> list[Any]:
    """Arguments: the one after --api-key is hidden too."""
    for index, (name, value) in enumerate(zip(entries, entries[1:])):
        if isinstance(name, str) and name.startswith("-") and isinstance(value, str) and "=" not in name:
            hide = not value.startswith("-") and is_secret(name, value)
            entries[index + 1] = HIDDEN if hide else value
    return entries
