"""The state of a git checkout: its commit, and what was changed since, with the change itself."""

from __future__ import annotations

import hashlib
import os
from functools import partial

from wingbeat.probe.host import Host, NotReadError
from wingbeat.probe.reading import Probes, Reading, not_applicable
from wingbeat.probe.redact import clean_code

CLEAN = "no changes"
DIFF_LIMIT = 200_000  # characters of a difference that are kept


def probes(host: Host, folder: str) -> Probes:
    """`git.commit`, `git.diff` and `git.untracked` of the checkout that a folder belongs to."""
    return {
        "git.commit": partial(commit, host, folder),
        "git.diff": partial(diff, host, folder),
        "git.untracked": partial(untracked, host, folder),
    }


def facts(host: Host, folder: str) -> dict[str, str]:
    """Commit and difference of a checkout as texts. Raises NotReadError."""
    readings = {"commit": commit(host, folder), "diff": diff(host, folder)}
    return {name: r.value or r.reason if isinstance(r, Reading) else r for name, r in readings.items()}


def commit(host: Host, folder: str) -> str | Reading:
    """The commit that is checked out."""
    missing = _outside(host, folder)
    return missing or _git(host, folder, "rev-parse", "HEAD")


def diff(host: Host, folder: str) -> str | Reading:
    """A hash of what differs from the commit in tracked files; the difference itself is the raw text."""
    missing = _outside(host, folder)
    if missing:
        return missing
    text = _git(host, folder, "diff", "HEAD", "--no-ext-diff", "--no-color", "--", ":/")
    if not text:
        return Reading("value", CLEAN)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Reading("value", f"changes {digest}", raw=clean_code(text[:DIFF_LIMIT]))


def untracked(host: Host, folder: str) -> list[str] | Reading:
    """Python files that git does not know and does not ignore: they may be imported."""
    missing = _outside(host, folder)
    if missing:
        return missing
    listed = _git(host, folder, "ls-files", "--others", "--exclude-standard", "--full-name", "--", ":/*.py")
    return listed.splitlines()[:200]


def _outside(host: Host, folder: str) -> Reading | None:
    """Why the folder has no commit of its own; None where it has."""
    try:
        top = _git(host, folder, "rev-parse", "--show-toplevel")
        tracked = _git(host, folder, "ls-files", "--", ".")
    except NotReadError as error:
        if "not installed" in str(error) or "dubious ownership" in str(error):
            raise
        return not_applicable("not run from a git checkout")
    return None if tracked else not_applicable(f"inside the checkout {top}, but no part of it")


def _git(host: Host, folder: str, *arguments: str) -> str:
    return host.run("git", "-C", os.path.join(host.root + folder), *arguments)
