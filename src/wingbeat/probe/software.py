"""What the code is: the packages as installed, whether somebody changed them by hand, and Python itself."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import platform
import re
import sys
import time
from functools import partial
from typing import Iterator, Tuple

from wingbeat.probe.host import Host, NotReadError
from wingbeat.probe.process import Target, argv, variables
from wingbeat.probe.reading import Probes, Reading, Readings, guarded, not_applicable, unknown

FIRST = (
    "vllm", "sglang", "sgl_kernel", "wingbeat", "flashinfer", "triton", "flash_attn", "transformers", "torch",
    "nvidia_nccl",
)  # fmt: skip
Entry = Tuple[str, str, int]  # of a RECORD: path, digest, size
SLACK = 5.0  # seconds within which the files of one installation are written


def python_probes(host: Host, target: Target) -> Probes:
    """Python, and torch as this process has loaded it; it is not imported for the question."""
    if not target.here:
        hidden = unknown("told only by the process itself; loaded.torch has the version")
        return {"python": partial(_python_of, host, target), "torch.loaded": hidden, "torch.threads": hidden}
    torch = sys.modules.get("torch")
    absent = not_applicable("torch is not loaded in this process")
    return {
        "python": lambda: f"{platform.python_implementation()} {platform.python_version()}",
        "torch.loaded": lambda: str(torch.__version__) if torch else absent,
        "torch.threads": lambda: int(torch.get_num_threads()) if torch else absent,
    }


def _python_of(host: Host, target: Target) -> str:
    """The version that another process's interpreter is named after."""
    found = re.search(r"python(\d\.\d+)", host.maybe(f"/proc/{target.pid}/maps"))
    if not found:
        raise NotReadError("the process shows no Python")
    return f"Python {found[1]}"


def package_folders(host: Host, target: Target) -> list[str]:
    """The site-packages folders of a process: its sys.path, or what its libraries, variables and interpreter show."""
    if target.here:
        found = [path for path in sys.path if re.search(r"(site|dist)-packages$", path)]
    else:
        maps = host.maybe(f"/proc/{target.pid}/maps")
        found = re.findall(r"(/\S*?/(?:site|dist)-packages)/", maps)
        own = guarded(lambda: variables(host, target.pid))
        roots = [(own.value or {}).get("VIRTUAL_ENV", "")]
        command = guarded(lambda: argv(host, target.pid)[0])
        if command.state == "value" and command.value.startswith("/"):
            roots.append(os.path.dirname(os.path.dirname(command.value)))
        for root in filter(None, roots):
            found += host.paths(f"{root.rstrip('/')}/lib/python3*/site-packages")
    return list(dict.fromkeys(found))


def packages(host: Host, target: Target) -> Readings:
    """`installed.NAME` for every distribution of the process, `editable.NAME` for those run from a checkout."""
    folders = package_folders(host, target)
    if not folders:
        return {"python.packages": unknown("no folder of packages is known for this process")}
    found: Readings = {}
    for folder in reversed(folders):  # the first folder of sys.path wins
        for path in host.paths(f"{folder}/*.dist-info"):
            name, _, version = os.path.basename(path)[: -len(".dist-info")].partition("-")
            name = re.sub(r"[-_.]+", "-", name).lower()
            found[f"installed.{name}"] = Reading("value", version, source=folder)
            origin = host.maybe(f"{path}/direct_url.json") if host.exists(f"{path}/direct_url.json") else ""
            if '"editable": true' in origin or '"editable":true' in origin:
                place = json.loads(origin)["url"].replace("file://", "")
                found[f"editable.{name}"] = guarded(partial(_checkout_state, host, place), host)
    count = sum(name.startswith("installed.") for name in found)
    return {**found, "python.packages": Reading("value", count, source="; ".join(folders))}


def startup(host: Host, target: Target) -> dict[str, str] | Reading:
    """Files that run whenever Python starts, by content: no RECORD need name them."""
    folders = package_folders(host, target)
    if not folders:
        return unknown("no folder of packages is known for this process")
    patterns = ("*.pth", "sitecustomize.py", "usercustomize.py")
    files = [path for folder in folders for pattern in patterns for path in host.paths(f"{folder}/{pattern}")]
    return {os.path.basename(path): hashlib.sha256(host.text(path).encode()).hexdigest()[:16] for path in files}


def source(folder: str) -> str:
    """A hash over the Python and C files below a folder, names included."""
    digest = hashlib.sha256()
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(file for file in files if file.endswith((".py", ".c", ".h"))):
            with open(os.path.join(place, name), "rb") as file:
                digest.update(f"{os.path.relpath(place, folder)}/{name}\n".encode() + file.read())
    return digest.hexdigest()[:16]


def _checkout_state(host: Host, place: str) -> str:
    from wingbeat.probe import checkout

    found = checkout.facts(host, place)
    return f"{found['commit']}, {found['diff']}"


def patched(host: Host, target: Target, seconds: float) -> Reading:
    """Installed Python files that are not what their package's RECORD says, as "path sha256:...".

    Every file's size and time are compared (in two seconds at most); those that stand out are hashed, then the others,
    engines first, for `seconds`. The raw text says how many were.
    """
    folders = package_folders(host, target)
    if not folders:
        return unknown("no folder of packages is known for this process")
    suspect: list[Entry] = []
    quiet: list[Entry] = []
    end = time.monotonic() + 2.0
    for record in _records(host, folders):
        if time.monotonic() > end:
            changed = ", ".join(filter(None, (_changed(host, entry) for entry in suspect))) or "nothing"
            looked = len(suspect) + len(quiet)
            return unknown(f"the time was over after {looked} files, before {record}; changed among them: {changed}")
        installed = os.path.getmtime(host.root + record)
        for path, digest, size in _entries(host, record):
            ordinary = _looks_installed(host.root + path, size, installed)
            (quiet if ordinary else suspect).append((path, digest, size))
    found = [_changed(host, entry) for entry in suspect]
    end = time.monotonic() + seconds
    hashed = len(suspect)
    for entry in quiet:
        if time.monotonic() > end:
            break
        found.append(_changed(host, entry))
        hashed += 1
    raw = f"{len(suspect) + len(quiet)} Python files compared by size and time, {hashed} of them by content"
    return Reading("value", sorted(filter(None, found)), source="RECORD of every package", raw=raw)


def _looks_installed(path: str, size: int, installed: float) -> bool:
    try:
        facts = os.stat(path)
    except OSError:
        return False
    return facts.st_size == size and facts.st_mtime <= installed + SLACK


def _changed(host: Host, entry: Entry) -> str:
    """What to say of a file whose content is another; "" of the others."""
    path, expected, _ = entry
    shown = re.sub(r"^.*/(?:site|dist)-packages/", "", path)
    try:
        with open(host.root + path, "rb") as file:
            digest = hashlib.sha256(file.read()).digest()
    except OSError:
        return f"{shown} missing"
    same = base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == expected
    return "" if same else f"{shown} sha256:{digest.hex()[:16]}"


def _records(host: Host, folders: list[str]) -> list[str]:
    """The RECORD files, the engines' first."""
    found = [path for folder in folders for path in host.paths(f"{folder}/*.dist-info/RECORD")]

    def rank(path: str) -> int:
        name = os.path.basename(os.path.dirname(path)).lower()
        return next((index for index, first in enumerate(FIRST) if name.startswith(first)), len(FIRST))

    return sorted(found, key=rank)


def _entries(host: Host, record: str) -> Iterator[Entry]:
    """Path, digest and size of each Python file of a RECORD."""
    folder = os.path.dirname(os.path.dirname(record))
    for row in csv.reader(host.text(record).splitlines()):
        if len(row) == 3 and row[0].endswith(".py") and row[1].startswith("sha256=") and row[2].isdigit():
            yield os.path.normpath(f"{folder}/{row[0]}"), row[1][len("sha256=") :], int(row[2])

