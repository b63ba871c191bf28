"""The libraries that a process has loaded, which may be others than those installed: by /proc/PID/maps."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import partial

from wingbeat.probe.host import Host, NotReadError
from wingbeat.probe.process import Target
from wingbeat.probe.reading import Reading, Readings, guarded, unknown

NAMES = {  # field: pattern of the beginning of the file name
    "nccl": "libnccl.so", "rccl": "librccl.so", "cuda": "libcuda.so", "cudart": "libcudart.so",
    "nvml": "libnvidia-ml.so", "cublas": "libcublas.so", "cublaslt": "libcublasLt.so", "cudnn": "libcudnn.so",
    "hip": "libamdhip64.so",
    "torch": "libtorch_cpu.so", "torch_cuda": "libtorch_cuda.so", "gomp": "libgomp", "iomp": "libiomp5",
    "mkl": "libmkl_core", "openblas": "libopenblas", "libc": "libc.so", "stdc++": r"libstdc\+\+.so",
    "allocator": "libjemalloc|libtcmalloc|libmimalloc",
}  # fmt: skip
BUILD_ID = re.compile(rb"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0(.{20})", re.S)
HEAD = 1 << 16  # bytes in which a library's build id is found


def loaded(host: Host, target: Target) -> Readings:
    """`loaded.NAME` for each library of `NAMES` that the process or a child has loaded; "process.maps": how many of
    all, unknown where a child's cannot be read, as then none is known to be absent."""
    lines: dict[str, str] = {}
    read = [guarded(lambda pid=pid: host.text(f"/proc/{pid}/maps"), host) for pid in target.pids]  # type: ignore[misc]
    if read[0].state != "value":
        return {"process.maps": read[0]}
    for maps in read:
        for line in (maps.value or "").splitlines():
            path = line.partition("/")[2]
            if ".so" in path:
                lines.setdefault(f"/{path}", line)
    hidden = [one.reason for pid, one in zip(target.pids, read) if one.state != "value" and host.exists(f"/proc/{pid}")]
    count = unknown(hidden[0]) if hidden else Reading("value", len(lines), source=read[0].source)
    found: Readings = {"process.maps": count}
    for name, start in NAMES.items():
        paths = [path for path in lines if re.match(rf"(?:{start})", os.path.basename(path))]
        if paths:
            raw = "\n".join(lines[path] for path in sorted(paths))
            reading = guarded(partial(_builds, host, paths))
            found[f"loaded.{name}"] = replace(reading, source=f"/proc/{target.pid}/maps", raw=raw[:600])
    return found


def _builds(host: Host, paths: list[str]) -> str | list[str]:
    builds = sorted({describe(host, path) for path in paths})
    return builds[0] if len(builds) == 1 else builds


def describe(host: Host, path: str) -> str:
    """A library by version and build, such as "2.27.5, build 1f0c9a7be011". Raises NotReadError."""
    place, _, gone = path.partition(" (deleted)")
    if gone or path.endswith("(deleted)"):
        raise NotReadError(f"{os.path.basename(place)} was replaced on disk since it was loaded")
    version = _version(host, place)
    build = _build(host, place)
    return ", ".join(part for part in (version or os.path.basename(place), build) if part)


def _version(host: Host, path: str) -> str:
    """From the file's own name, or from the package that brought it."""
    real = os.path.basename(host.real(path))
    numbered = re.search(r"\.so\.(\d+(?:\.\d+)+)$", real)
    package = re.search(r"^(.*/(?:site|dist)-packages)/([^/]+)(?:/([^/]+))?/", path)
    if package:
        folder, top, inner = package[1], package[2], package[3]
        for name in (f"{top}_{inner}_*", f"{top}_{inner}", top):
            dists = host.paths(f"{folder}/{name}-*.dist-info")
            if dists:
                return os.path.basename(dists[0])[: -len(".dist-info")].rpartition("-")[2]
    return numbered[1] if numbered else ""


def _build(host: Host, path: str) -> str:
    try:
        with open(host.place(path), "rb") as file:
            found = BUILD_ID.search(file.read(HEAD))
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise NotReadError(f"{path}: {error.strerror}") from None
    return f"build {found[1].hex()[:12]}" if found else f"{size} bytes"
