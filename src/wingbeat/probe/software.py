"""What the code is: versions as installed and as loaded, threads, and the state of the checkout."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from wingbeat.probe.reading import Reading, not_applicable, unknown

PACKAGE = Path(__file__).resolve().parents[1]


def python_version() -> str:
    """Implementation and version of the running Python."""
    return f"{platform.python_implementation()} {platform.python_version()}"


def installed(package: str) -> str | Reading:
    """The version on disk of a distribution."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return not_applicable("not installed")


def torch_loaded() -> str | Reading:
    """The version of torch that this process runs; it is not imported for the question."""
    torch = sys.modules.get("torch")
    return str(torch.__version__) if torch else not_applicable("torch is not loaded in this process")


def torch_threads() -> int | Reading:
    """Threads that one torch operation may use."""
    torch = sys.modules.get("torch")
    return int(torch.get_num_threads()) if torch else not_applicable("torch is not loaded in this process")


def git_commit(package: Path = PACKAGE) -> str | Reading:
    """Commit of the checkout that the package runs from, with "+changes" when tracked files differ from it."""
    try:
        top = _git(package, "rev-parse", "--show-toplevel")
        tracked = _git(package, "ls-files", "__init__.py")
    except FileNotFoundError:
        return unknown("git is not installed")
    except subprocess.CalledProcessError:
        return not_applicable("not run from a git checkout")
    if not tracked:
        return not_applicable(f"installed inside the checkout {top}, but no part of it")
    changes = _git(package, "status", "--porcelain", "--untracked-files=no")
    return _git(package, "rev-parse", "HEAD") + ("+changes" if changes else "")


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
