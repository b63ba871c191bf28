"""What a model is, by the files of its folder: configuration, tokenizer, template, sampling defaults, code, weights."""

from __future__ import annotations

import hashlib
import json
import os
from fnmatch import fnmatchcase
from functools import partial

from wingbeat.probe.host import Host, NotReadError, digest
from wingbeat.probe.reading import Probes, Reading, guarded, not_applicable, unknown
from wingbeat.probe.redact import HIDDEN, clean

WEIGHTS = ("*.safetensors", "*.gguf", "*.bin", "*.pt")
TOKENIZER = (
    "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "vocab.txt", "merges.txt", "*.tiktoken", "tiktoken.model",
)  # fmt: skip
FIELDS = ("folder", "config", "generation_config", "tokenizer", "chat_template", "code", "weights")
SAMPLES, SAMPLE = 8, 1 << 16  # places and bytes that are read of every file of weights
CONFIG_LIMIT = 50_000  # characters of a configuration that are kept
FLAGS = {  # where servers are told their models
    "model": ("--model", "--model-path"),
    "head": ("--head", "--speculative-draft-model-path", "--speculative-draft-model", "--speculative-model"),
    "tokenizer": ("--tokenizer", "--tokenizer-path"),
}
REVISIONS = {
    "model": "--revision", "head": "--speculative-draft-model-revision", "tokenizer": "--tokenizer-revision",
}  # fmt: skip


def named_in(arguments: list[str]) -> dict[str, str]:
    """The models that a server's arguments name, as NAME or NAME@REVISION: "model", "head", and a "tokenizer" of
    another place."""
    given = {}
    for argument, following in zip(arguments, [*arguments[1:], ""]):
        flag, sign, value = argument.partition("=")
        given[flag] = value if sign else following
    found = {role: next((given[flag] for flag in flags if flag in given), "") for role, flags in FLAGS.items()}
    found["head"] = found["head"] or _draft_of(given.get("--speculative-config", ""))
    if not found["model"] and "serve" in arguments:
        found["model"] = _positional(clean(arguments)[arguments.index("serve") + 1 :])
    for role, flag in REVISIONS.items():
        found[role] += f"@{given[flag]}" if found[role] and given.get(flag) else ""
    return {role: name for role, name in found.items() if name}


def _positional(arguments: list[str]) -> str:
    """The model of `vllm serve`, which may stand behind flags and their values."""
    if arguments and not arguments[0].startswith("-"):
        return arguments[0]
    free = [
        argument
        for before, argument in zip(arguments, arguments[1:])
        if not argument.startswith("-") and (not before.startswith("-") or "=" in before)
        if "=" not in argument and argument != HIDDEN
    ]
    return next((argument for argument in free if "/" in argument), free[0] if free else "")


def probes(host: Host, role: str, name: str, variables: dict[str, str], folder: str = "") -> Probes:
    """The fields of one model. role: "model", "head", or "tokenizer", which replaces the model's own; name: a path or
    a hub id; variables and folder: the environment and the working directory of the process that loads it."""
    found = guarded(lambda: locate(host, name, variables, folder))
    fields = dict(_fields(host, found.value)) if found.value else {}
    gone = unknown(found.reason or f"{name} is neither a folder, a file nor in the hub's cache of this machine")
    if role == "tokenizer":
        return {f"model.{field}": fields.get(field, gone) for field in ("tokenizer", "chat_template")}
    return {f"{role}.name": Reading("value", name), **{f"{role}.{field}": fields.get(field, gone) for field in FIELDS}}


def _fields(host: Host, place: str) -> Probes:
    return {
        "folder": lambda: host.real(place),
        "config": partial(_config, host, place, "config.json"),
        "generation_config": partial(_config, host, place, "generation_config.json"),
        "tokenizer": partial(_digest, host, place, TOKENIZER),
        "chat_template": partial(chat_template, host, place),
        "code": partial(_digest, host, place, ("*.py",)),
        "weights": partial(weights, host, place),
    }


def locate(host: Host, name: str, variables: dict[str, str], folder: str = "") -> str | None:
    """The folder (or file) of a model: a path, or a hub id among what was downloaded, with its @revision."""
    path = os.path.join(folder, name)
    if path.startswith("/") and host.exists(path):
        return path
    home = variables.get("HF_HOME") or f"{variables.get('HOME', '/root')}/.cache/huggingface"
    cache = variables.get("HF_HUB_CACHE") or f"{home}/hub"
    name, _, revision = name.partition("@")
    place = f"{cache}/models--{name.replace('/', '--')}"
    commit = host.maybe(f"{place}/refs/{revision or 'main'}") or revision
    snapshot = f"{place}/snapshots/{commit}"
    return snapshot if commit and host.exists(snapshot) else None


def chat_template(host: Host, place: str) -> str | Reading:
    """A hash of the template's text: its own file, or the tokenizer's configuration."""
    for file in ("chat_template.jinja", "chat_template.json"):
        if host.exists(f"{place}/{file}"):
            return digest(host.text(f"{place}/{file}").encode())
    if not host.exists(f"{place}/tokenizer_config.json"):
        return not_applicable("no template")
    template = json.loads(host.text(f"{place}/tokenizer_config.json")).get("chat_template")
    return digest(json.dumps(template).encode()) if template else not_applicable("no template")


def weights(host: Host, place: str) -> str | Reading:
    """A hash over the weights' files: names, sizes, headers, and samples spread over each (not every byte)."""
    single = not os.path.isdir(host.place(place))
    files = [place] if single else [f"{place}/{name}" for name in _files(host, place, WEIGHTS)]
    if not files:
        return not_applicable("no weights in the folder")
    digest = hashlib.sha256()
    total = 0
    for path in files:
        try:
            total += _sample(digest, os.path.basename(path), host.place(path))
        except OSError as error:
            raise NotReadError(f"{path}: {error.strerror}") from None
    raw = f"{len(files)} files, {total} bytes; {SAMPLES} x {SAMPLE} bytes of each hashed"
    return Reading("value", digest.hexdigest()[:16], raw=raw)


def _sample(digest: hashlib._Hash, name: str, path: str) -> int:
    size = os.path.getsize(path)
    digest.update(f"{name} {size}\n".encode())
    with open(path, "rb") as file:
        for index in range(SAMPLES):
            file.seek(size * index // SAMPLES)
            digest.update(file.read(SAMPLE))
    return size


def _draft_of(text: str) -> str:
    try:
        found = json.loads(text)
        revision = found.get("revision")
        return f"{found.get('model', '')}{f'@{revision}' if revision else ''}"
    except (ValueError, AttributeError):
        return ""


def _files(host: Host, place: str, patterns: tuple[str, ...]) -> list[str]:
    """The names in a model's folder that match; none where it is a single file. Raises NotReadError."""
    names = host.names(place) if os.path.isdir(host.place(place)) else []
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def _config(host: Host, place: str, name: str) -> Reading:
    if not _files(host, place, (name,)):
        return not_applicable(f"no {name}")
    text = host.text(f"{place}/{name}")
    return Reading("value", digest(f"{name}\n{text}".encode()), raw=text[:CONFIG_LIMIT])


def _digest(host: Host, place: str, patterns: tuple[str, ...]) -> str | Reading:
    names = _files(host, place, patterns)
    if not names:
        return not_applicable(f"no {' or '.join(patterns)}")
    return digest(b"\n".join(name.encode() + b"\n" + host.content(f"{place}/{name}") for name in names))
