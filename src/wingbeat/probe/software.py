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
from dataclasses import replace
from functools import partial
from typing import Iterator, Tuple
from urllib.parse import unquote

from wingbeat.probe import checkout
from wingbeat.probe.host import Host, NotReadError, digest
from wingbeat.probe.process import Target, argv, variables
from wingbeat.probe.reading import Probes, Reading, Readings, guarded, not_applicable, unknown

ENGINES = ("vllm", "sglang", "sgl_kernel", "wingbeat", "flashinfer", "triton", "flash_attn")
FIRST = (*ENGINES, "transformers", "torch", "nvidia_nccl")
Entry = Tuple[str, str, int]  # of a RECORD: path, digest, size
LOOKED = re.compile(r"\.(?:py|json|cu|cuh|cubin|so[.\d]*)$")
LARGE = 1 << 26  # bytes above which a file is compared by its size alone
LISTING, SUSPECTS, SOURCE_SECONDS = 1.2, 0.3, 1.0  # seconds for: files by size and time, those that stand out, a source
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
            place = _editable(host.maybe(f"{path}/direct_url.json"))
            if place:
                state = guarded(partial(_checkout_state, host, place), host)
                own = target.here and name == "wingbeat"  # whose difference is kept as git.diff
                found[f"editable.{name}"] = replace(state, raw="") if own else state
    count = sum(name.startswith("installed.") for name in found)
    return {**found, "python.packages": Reading("value", count, source="; ".join(folders))}


def _editable(origin: str) -> str:
    """The folder that a direct_url.json says a package is run from; "" for none."""
    try:
        found = json.loads(origin)
        return unquote(found["url"].replace("file://", "")) if found["dir_info"]["editable"] else ""
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""


def _checkout_state(host: Host, place: str) -> Reading:
    """Commit, changes and Python files that git does not know, the changes as raw text; else a hash of the source."""
    commit = checkout.commit(host, place)
    if isinstance(commit, Reading):
        return Reading("value", f"no checkout, source {source(host, place)}", raw=commit.reason)
    changes, added = checkout.diff(host, place), checkout.untracked(host, place)
    if not isinstance(changes, Reading) or isinstance(added, Reading):
        raise NotReadError(f"{place} left its checkout while it was read")
    more = f", {len(added)} untracked files {digest(repr(added).encode())}" if added else ""
    return Reading("value", f"{commit}, {changes.value}{more}", raw=changes.raw)


def startup(host: Host, target: Target) -> list[str] | Reading:
    """Files that run whenever Python starts, as "path sha256:...": no RECORD need name them."""
    folders = package_folders(host, target)
    if not folders:
        return unknown("no folder of packages is known for this process")
    patterns = ("*.pth", "sitecustomize.py", "usercustomize.py")
    files = [path for folder in folders for pattern in patterns for path in host.paths(f"{folder}/{pattern}")]
    return [f"{os.path.basename(path)} sha256:{digest(host.content(path))}" for path in files]


def source(host: Host, folder: str) -> str:
    """A hash over the Python and C files below a folder, names included. Raises NotReadError where it takes long."""
    found = hashlib.sha256()
    end = time.monotonic() + SOURCE_SECONDS
    for place, folders, files in os.walk(host.place(folder)):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(file for file in files if file.endswith((".py", ".c", ".h"))):
            with open(os.path.join(place, name), "rb") as file:
                found.update(f"{os.path.relpath(place, host.place(folder))}/{name}\n".encode() + file.read())
        if time.monotonic() > end:
            raise NotReadError(f"{folder} has more source than can be read in {SOURCE_SECONDS:g} s")
    return found.hexdigest()[:16]


def patched(host: Host, target: Target, seconds: float) -> Reading:
    """Installed files that are not what their package's RECORD says, as "path sha256:...", and those that were added
    to an engine's folders.

    Every file's size and time are compared; those that stand out are hashed, then the others, engines first, for
    `seconds`. The raw text says how many were.
    """
    folders = package_folders(host, target)
    if not folders:
        return unknown("no folder of packages is known for this process")
    suspect: list[Entry] = []
    quiet: list[Entry] = []
    late = ""
    end = time.monotonic() + LISTING
    for record in _records(host, folders):
        if time.monotonic() > end:
            late = f", before {record}"
            break
        odd, usual = _compared(host, record)
        suspect += odd
        quiet += usual
    looked = len(suspect) + len(quiet)
    suspect += [] if late else _added(host, folders, {path for path, *_ in suspect + quiet})
    said = _hashed(host, suspect, time.monotonic() + SUSPECTS)
    if late or len(said) < len(suspect):
        changed = ", ".join(filter(None, said)) or "nothing"
        what = f"the time was over after {looked} files{late}, {len(said)} of {len(suspect)} that stand out were hashed"
        return unknown(f"{what}; changed among them: {changed}")
    said += _hashed(host, [entry for entry in quiet if entry[2] <= LARGE], time.monotonic() + seconds)
    raw = f"{looked} files compared by size and time, {len(said)} by content"
    return Reading("value", sorted(filter(None, said)), source="RECORD of every package", raw=raw)


def _compared(host: Host, record: str) -> tuple[list[Entry], list[Entry]]:
    """The files of a RECORD: those whose size or time stands out, and the others."""
    installed = os.path.getmtime(host.place(record))
    found: tuple[list[Entry], list[Entry]] = ([], [])
    for entry in _entries(host, record):
        found[_looks_installed(host.place(entry[0]), entry[2], installed)].append(entry)
    return found


def _added(host: Host, folders: list[str], known: set[str]) -> list[Entry]:
    """Files in the engines' folders that no RECORD names: modules and tuned tables that were put there by hand."""
    tops = [path for folder in folders for name in ENGINES for path in host.paths(f"{folder}/{name}")]
    found: list[Entry] = []
    for top in tops:
        real = host.place(top)
        for place, inner, files in os.walk(real):
            inner[:] = sorted(name for name in inner if name != "__pycache__")
            paths = [top + os.path.join(place, name)[len(real) :] for name in sorted(files) if LOOKED.search(name)]
            found += [(path, "", 0) for path in paths if path not in known]
    return found


def _looks_installed(path: str, size: int, installed: float) -> bool:
    try:
        facts = os.stat(path)
    except OSError:
        return False
    return facts.st_size == size and (facts.st_mtime <= installed + SLACK or size > LARGE)


def _hashed(host: Host, entries: list[Entry], end: float) -> list[str]:
    """What to say of each file, "" of those that are as they were installed, as far as the time lasts."""
    said: list[str] = []
    for entry in entries:
        if time.monotonic() > end:
            break
        said.append(_changed(host, entry))
    return said


def _changed(host: Host, entry: Entry) -> str:
    """What to say of a file whose content is another; "" of the others."""
    path, expected, recorded = entry
    shown = re.sub(r"^.*/(?:site|dist)-packages/", "", path)
    try:
        size = os.path.getsize(host.place(path))
        if size > LARGE:
            return f"{shown} has {size} bytes, not {recorded}" if expected else f"{shown} added, {size} bytes"
        found = hashlib.sha256(host.content(path)).digest()
    except FileNotFoundError:
        return f"{shown} missing"
    except (OSError, NotReadError):
        return f"{shown} not readable"
    same = base64.urlsafe_b64encode(found).rstrip(b"=").decode() == expected
    return "" if same else f"{shown} {'' if expected else 'added '}sha256:{found.hex()[:16]}"


def _records(host: Host, folders: list[str]) -> list[str]:
    """The RECORD files, the engines' first."""
    found = [path for folder in folders for path in host.paths(f"{folder}/*.dist-info/RECORD")]

    def rank(path: str) -> int:
        name = os.path.basename(os.path.dirname(path)).lower()
        return next((index for index, first in enumerate(FIRST) if name.startswith(first)), len(FIRST))

    return sorted(found, key=rank)


def _entries(host: Host, record: str) -> Iterator[Entry]:
    """Path, digest and size of each file of a RECORD that is looked at."""
    folder = os.path.dirname(os.path.dirname(record))
    for row in csv.reader(host.text(record).splitlines()):
        if len(row) == 3 and LOOKED.search(row[0]) and row[1].startswith("sha256=") and row[2].isdigit():
            yield os.path.normpath(f"{folder}/{row[0]}"), row[1][len("sha256=") :], int(row[2])
