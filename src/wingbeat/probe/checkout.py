"""The state of a git checkout: its commit, and what was changed since, with the change itself."""

from __future__ import annotations

import re
from functools import partial

from wingbeat.probe.host import Host, NotReadError, digest
from wingbeat.probe.reading import Probes, Reading, not_applicable
from wingbeat.probe.redact import clean_code

CLEAN = "no changes"
LISTED = 200  # files that are hashed one by one
DIFF_LIMIT = 200_000  # characters of a difference that are kept


def probes(host: Host, folder: str) -> Probes:
    """`git.commit`, `git.diff` and `git.untracked` of the checkout that a folder belongs to."""
    return {
        "git.commit": partial(commit, host, folder),
        "git.diff": partial(diff, host, folder),
        "git.untracked": partial(untracked, host, folder),
    }


def commit(host: Host, folder: str) -> str | Reading:
    """The commit that is checked out."""
    missing = _outside(host, folder)
    return missing or _git(host, folder, "rev-parse", "HEAD")


def diff(host: Host, folder: str) -> str | Reading:
    """A hash of what differs from the commit in tracked files; the difference itself is the raw text."""
    missing = _outside(host, folder)
    if missing:
        return missing
    text = _git(host, folder, "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color", "--", ":/")
    text = re.sub(r"^diff --git [^\n]*(?:\n(?=diff --git )|\Z)", "", text, flags=re.M).strip()  # only touched
    if not text:
        return Reading("value", CLEAN)
    return Reading("value", f"changes {digest(text.encode())}", raw=clean_code(text[:DIFF_LIMIT]))


def untracked(host: Host, folder: str) -> list[str] | Reading:
    """Python files that git does not know and does not ignore, with a hash of each: they may be imported."""
    missing = _outside(host, folder)
    if missing:
        return missing
    listed = _git(host, folder, "ls-files", "--others", "--exclude-standard", "--full-name", "--", ":/*.py")
    top = _git(host, folder, "rev-parse", "--show-toplevel")[len(host.root) :]
    names = listed.splitlines()
    found = [f"{name} {digest(host.content(f'{top}/{name}'))}" for name in names[:LISTED]]
    rest = names[LISTED:]
    return [*found, f"{len(rest)} more, by name {digest(chr(10).join(rest).encode())}"] if rest else found


def _outside(host: Host, folder: str) -> Reading | None:
    """Why the folder has no commit of its own; None where it has."""
    try:
        top = _git(host, folder, "rev-parse", "--show-toplevel")
        tracked = _git(host, folder, "ls-files", "--", ".")
    except NotReadError as error:
        if "not a git repository" not in str(error):
            raise
        return not_applicable("not run from a git checkout")
    return None if tracked else not_applicable(f"inside the checkout {top}, but no part of it")


def _git(host: Host, folder: str, *arguments: str) -> str:
    """Asks git, which writes nothing (it would refresh its index) and starts nothing else."""
    if host.apart:
        raise NotReadError("git cannot be asked from outside about what a container holds")
    quiet = ("-c", "diff.autoRefreshIndex=false", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
    return host.run("git", "-C", host.place(folder), *quiet, *arguments)
