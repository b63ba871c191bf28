"""What a model is, by the files of its folder: configuration, tokenizer, template, sampling defaults, weights."""

from __future__ import annotations

import hashlib
import json
import os
from functools import partial

from wingbeat.probe.host import Host
from wingbeat.probe.reading import Probes, Reading, not_applicable

WEIGHTS = ("*.safetensors", "*.gguf", "*.bin", "*.pt")
SAMPLES, SAMPLE = 8, 1 << 16  # places and bytes that are read of every file of weights
FLAGS = {  # where servers are told their models
    "model": ("--model", "--model-path"),
    "head": ("--head", "--speculative-draft-model-path", "--speculative-draft-model", "--speculative-model"),
}


def named_in(arguments: list[str]) -> dict[str, str]:
    """The models that a server's arguments name: "model" and "head"."""
    found = {}
    for role, flags in FLAGS.items():
        for index, argument in enumerate(arguments):
            flag, sign, value = argument.partition("=")
            if flag in flags:
                found[role] = value if sign else next(iter(arguments[index + 1 : index + 2]), "")
    for index, argument in enumerate(arguments):
        flag, sign, value = argument.partition("=")
        if flag == "--speculative-config":
            text = value if sign else next(iter(arguments[index + 1 : index + 2]), "")
            found.setdefault("head", _draft_of(text))
    if "model" not in found and "serve" in arguments[:-1]:
        found["model"] = arguments[arguments.index("serve") + 1]
    return {role: name for role, name in found.items() if name}


def probes(host: Host, role: str, name: str, variables: dict[str, str]) -> Probes:
    """The fields of one model. role: "model" or "head"; name: an absolute path or a hub id; variables: the environment
    of the process that loads it."""
    place = locate(host, name, variables)
    if place is None:
        gone = not_applicable(f"{name} is neither a folder, a file nor in the hub's cache of this machine")
        return {f"{role}.name": Reading("value", name), f"{role}.weights": gone}
    files = {"config": "config.json", "generation_config": "generation_config.json"}
    tokenizer = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json")
    return {
        f"{role}.name": lambda: name,
        f"{role}.folder": lambda: host.real(place),
        **{f"{role}.{field}": partial(_digest, host, place, (file,)) for field, file in files.items()},
        f"{role}.tokenizer": partial(_digest, host, place, tokenizer),
        f"{role}.chat_template": partial(chat_template, host, place),
        f"{role}.weights": partial(weights, host, place),
    }


def locate(host: Host, name: str, variables: dict[str, str]) -> str | None:
    """The folder (or file) of a model: a path, or a hub id among what was downloaded."""
    if host.exists(name):
        return name
    home = variables.get("HF_HOME") or f"{variables.get('HOME', '/root')}/.cache/huggingface"
    cache = variables.get("HF_HUB_CACHE") or f"{home}/hub"
    folder = f"{cache}/models--{name.replace('/', '--')}"
    revision = host.maybe(f"{folder}/refs/main")
    snapshot = f"{folder}/snapshots/{revision}"
    return snapshot if revision and host.exists(snapshot) else None


def chat_template(host: Host, place: str) -> str | Reading:
    """A hash of the template's text: its own file, or the tokenizer's configuration."""
    for file in ("chat_template.jinja", "chat_template.json"):
        if host.exists(f"{place}/{file}"):
            return _hash(host.text(f"{place}/{file}").encode())
    if not host.exists(f"{place}/tokenizer_config.json"):
        return not_applicable("no template")
    template = json.loads(host.text(f"{place}/tokenizer_config.json")).get("chat_template")
    return _hash(json.dumps(template).encode()) if template else not_applicable("no template")


def weights(host: Host, place: str) -> str | Reading:
    """A hash over the weights' files: names, sizes, headers, and samples spread over each (not every byte)."""
    single = not os.path.isdir(host.root + place)
    files = [place] if single else [path for pattern in WEIGHTS for path in host.paths(f"{place}/{pattern}")]
    if not files:
        return not_applicable("no weights in the folder")
    digest = hashlib.sha256()
    total = 0
    for path in files:
        size = os.path.getsize(host.root + path)
        total += size
        digest.update(f"{os.path.basename(path)} {size}\n".encode())
        with open(host.root + path, "rb") as file:
            for index in range(SAMPLES):
                file.seek(size * index // SAMPLES)
                digest.update(file.read(SAMPLE))
    raw = f"{len(files)} files, {total} bytes; {SAMPLES} x {SAMPLE} bytes of each hashed"
    return Reading("value", digest.hexdigest()[:16], raw=raw)


def _draft_of(text: str) -> str:
    try:
        return str(json.loads(text).get("model", ""))
    except (ValueError, AttributeError):
        return ""


def _digest(host: Host, place: str, names: tuple[str, ...]) -> str | Reading:
    present = [name for name in names if host.exists(f"{place}/{name}")]
    if not present:
        return not_applicable(f"no {' or '.join(names)}")
    texts = [f"{name}\n{host.text(f'{place}/{name}')}" for name in present]
    return _hash("\n".join(texts).encode())


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
