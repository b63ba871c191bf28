"""Compiled kernels and tuned choices that a process will find on disk: they can differ from launch to launch."""

from __future__ import annotations

import hashlib
import os
import time
from functools import partial
from typing import Any

from wingbeat.probe.host import Host, NotReadError
from wingbeat.probe.reading import Probes, Reading, not_applicable, unknown

MOST = 20_000  # files that are listed
SECONDS = 0.3
TUNED = (".json", ".yaml")  # small files that hold choices: hashed by content
SMALL = 1 << 18


def probes(host: Host, variables: dict[str, str]) -> Probes:
    """`cache.NAME` for each place. variables: the environment of the process, which may have moved them."""
    return {f"cache.{name}": partial(listing, host, path) for name, path in places(variables).items()}


def places(variables: dict[str, str]) -> dict[str, str]:
    """Where the caches of a process are."""
    home = variables.get("HOME", "/root")
    user = variables.get("XDG_CACHE_HOME") or f"{home}/.cache"
    vllm = variables.get("VLLM_CACHE_ROOT") or f"{user}/vllm"
    return {
        "triton": variables.get("TRITON_CACHE_DIR") or f"{home}/.triton/cache",
        "inductor": variables.get("TORCHINDUCTOR_CACHE_DIR") or f"/tmp/torchinductor_{variables.get('USER', 'root')}",
        "vllm_compile": f"{vllm}/torch_compile_cache",
        "vllm_autotune": f"{vllm}/flashinfer_autotune_cache",
        "sglang_autotune": f"{user}/sglang/flashinfer/autotune",
        "flashinfer": f"{user}/flashinfer",
        "cuda": variables.get("CUDA_CACHE_PATH") or f"{home}/.nv/ComputeCache",
        "deep_gemm": variables.get("DG_JIT_CACHE_DIR") or f"{home}/.deep_gemm",
        "wingbeat": f"{user}/wingbeat",
    }


def listing(host: Host, folder: str) -> dict[str, Any] | Reading:
    """Files, bytes, and a hash of names and sizes (of contents, for files of tuned choices)."""
    top = host.place(folder)
    if not host.exists(folder) or not os.path.isdir(top):
        return not_applicable(f"{folder} is not there")
    end = time.monotonic() + SECONDS
    digest = hashlib.sha256()
    count = size = 0
    for place, folders, files in os.walk(top, onerror=_refuse):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(place, name)
            bytes_ = os.path.getsize(path) if os.path.exists(path) else 0
            digest.update(f"{os.path.relpath(path, top)} {bytes_}\n".encode())
            if name.endswith(TUNED) and bytes_ < SMALL:
                digest.update(_content(path))
            count, size = count + 1, size + bytes_
        if count > MOST or time.monotonic() > end:
            return unknown(f"{folder} has too many files to list in {SECONDS:g} s ({count} were)")
    return {"files": count, "bytes": size, "hash": digest.hexdigest()[:16]}


def _refuse(error: OSError) -> None:
    raise NotReadError(f"{error.filename}: {error.strerror}") from None


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b"not readable"
