"""Compiles `forward.c` for this processor, once, and loads it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

from wingbeat.errors import UnsupportedError
from wingbeat.model.native.structs import CBlock, CLinear, CModel

SOURCE = Path(__file__).with_name("forward.c")
COMPILE = ("-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-c")
CACHE = Path.home() / ".cache" / "wingbeat" / "native"


def load(cache: Path = CACHE, flags: tuple[str, ...] = COMPILE) -> ctypes.CDLL:
    """The compiled library, built first if this processor, compiler and source have none in `cache` yet.

    Raises UnsupportedError without a C compiler, or when it refuses.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise UnsupportedError("no C compiler (cc) on this machine; install one, such as Debian's gcc")
    library = cache / f"{_key(compiler, flags)}.so"
    if not library.exists():
        _compile(compiler, flags, library)
    return _declare(ctypes.CDLL(str(library)))


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """States the arguments of the functions in `forward.c`."""
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    model, block, linear = (ctypes.POINTER(kind) for kind in (CModel, CBlock, CLinear))
    library.pack.argtypes = [pointer, pointer, size, size]
    library.project.argtypes = [linear, pointer, size, pointer, size]
    library.forward.argtypes = [model, block, pointer, pointer, pointer, pointer]
    library.draft.argtypes = [model, linear, pointer, size, block, *[pointer] * 6, size, ctypes.c_double, pointer]
    library.draft.restype = size
    library.scratch_bytes.argtypes, library.scratch_bytes.restype = [model, size, size], size
    return library


def _compile(compiler: str, flags: tuple[str, ...], library: Path) -> None:
    """Builds beside the final place and renames, so that a build that is stopped leaves nothing half done."""
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        compiled, linked = Path(folder) / "forward.o", Path(folder) / "forward.so"
        for command in (
            [compiler, *flags, str(SOURCE), "-o", str(compiled)],
            [compiler, "-shared", str(compiled), *_openmp(), "-lm", "-o", str(linked)],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise UnsupportedError(f"{' '.join(command)} failed: {done.stderr.strip()[-500:]}")
        os.replace(linked, library)


def _openmp() -> list[str]:
    """PyTorch's own OpenMP, so that both share one pool of threads; two pools would spin against each other."""
    bundled = sorted((Path(torch.__file__).parent / "lib").glob("libgomp*.so*"))
    return [str(bundled[0])] if bundled else ["-fopenmp"]


def _key(compiler: str, options: tuple[str, ...]) -> str:
    """Names everything that the library depends on."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    flags = next((line for line in lines if line.startswith("flags")), "")
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    parts = (SOURCE.read_text(), " ".join(options), version, platform.machine(), flags, " ".join(_openmp()))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
