"""The files and commands of one machine, with a memory of what was read: the door from the probes to the outside."""

from __future__ import annotations

import glob
import hashlib
import os
import re
import subprocess
from typing import Mapping

NOT_FOUND, NOT_ALLOWED = 127, 126  # exit codes of a shell for commands that are missing or not permitted
RAW_LIMIT = 600  # characters of a source that are kept beside a value
PRIVATE = re.compile(r"/proc/\d+/(?:cmdline|environ)$")  # never kept as raw text: nothing tells where an entry ends
OURS = ("/proc/", "/sys/")


def digest(content: bytes) -> str:
    """A short hash."""
    return hashlib.sha256(content).hexdigest()[:16]


class NotReadError(Exception):
    """Something that could not be read. absent: the machine does not have it, rather than not telling."""

    def __init__(self, reason: str, absent: bool = False) -> None:
        super().__init__(reason)
        self.absent = absent


class Host:
    """This machine, or a tree of files that looks like one (`root`)."""

    live = True  # whether the machine is here
    apart = False  # whether files are those of a process that sees others

    def __init__(self, root: str = "/") -> None:
        self.root = root.rstrip("/")
        self._heard: list[tuple[str, str]] = []

    def text(self, path: str) -> str:
        """A file's text without surrounding space. Raises NotReadError."""
        try:
            content = self._read(path)
        except FileNotFoundError:
            raise NotReadError(f"{path} is not there") from None
        except PermissionError:
            raise NotReadError(f"no permission to read {path}") from None
        except OSError as error:
            raise NotReadError(f"{path}: {error.strerror or error}") from None
        self._heard.append((path, "" if PRIVATE.match(path) else content.strip()))
        return content.strip()

    def content(self, path: str) -> bytes:
        """A file's bytes. Raises NotReadError."""
        self._heard.append((path, ""))
        try:
            with open(self.place(path), "rb") as file:
                return file.read()
        except OSError as error:
            raise NotReadError(f"{path}: {error.strerror}") from None

    def maybe(self, path: str) -> str:
        """A file's text, or "" where it cannot be read."""
        try:
            return self.text(path)
        except NotReadError:
            return ""

    def run(self, *argv: str, timeout: float = 10.0) -> str:
        """What a command prints. Raises NotReadError (not installed, no permission, failed, too slow)."""
        line = " ".join(argv)
        try:
            code, output, errors = self._call(argv, timeout)
        except FileNotFoundError:
            raise NotReadError(f"{argv[0]} is not installed") from None
        except PermissionError:
            raise NotReadError(f"no permission to run {argv[0]}") from None
        except subprocess.TimeoutExpired:
            raise NotReadError(f"{line} gave no answer within {timeout:g} s") from None
        except OSError as error:
            raise NotReadError(f"{line}: {error.strerror or error}") from None
        said = (output.strip() if code == 0 else (errors.strip() or output.strip()))
        self._heard.append((line, said))
        if code:
            raise NotReadError(f"{line} failed with exit code {code}: {said[:300] or 'no message'}")
        return said

    def forget(self) -> None:
        """Forgets what was read so far."""
        self._heard.clear()

    def heard(self) -> tuple[str, str]:
        """The sources read since `forget`, and what they said (its beginning)."""
        sources = list(dict.fromkeys(source for source, _ in self._heard))
        more = f" and {len(sources) - 3} more" if len(sources) > 3 else ""
        text = "\n".join(said for _, said in self._heard[:3] if said).replace("\0", " ")
        cut = f"... ({len(text) - RAW_LIMIT} characters more)" if len(text) > RAW_LIMIT else ""
        return "; ".join(sources[:3]) + more, text[:RAW_LIMIT] + cut

    def paths(self, pattern: str) -> list[str]:
        """The files and folders that match, sorted."""
        top = self._top(pattern)
        return sorted(path[len(top) :] for path in glob.glob(top + pattern))

    def names(self, folder: str) -> list[str]:
        """What is in a folder, sorted. Raises NotReadError."""
        try:
            return sorted(os.listdir(self.place(folder)))
        except OSError as error:
            raise NotReadError(f"{folder}: {error.strerror}") from None

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder. Raises NotReadError where that is not told."""
        try:
            os.stat(self.place(path))
        except PermissionError:
            raise NotReadError(f"no permission to look at {path}") from None
        except (OSError, ValueError):
            return False
        return True

    def place(self, path: str) -> str:
        """Where the system finds it."""
        return self.root + path

    def real(self, path: str) -> str:
        """The path with its links followed."""
        return os.path.realpath(self.root + path)[len(os.path.realpath(self.root or "/").rstrip("/")) :]

    def _read(self, path: str) -> str:
        with open(self.place(path), encoding="utf-8", errors="replace") as file:
            return file.read()

    def _top(self, path: str) -> str:
        return self.root

    def _call(self, argv: tuple[str, ...], timeout: float) -> tuple[int, str, str]:
        pipe = subprocess.PIPE
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, timeout=timeout, check=False)
        return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


class Inside(Host):
    """This machine with the files that a process sees in its container; /proc and /sys are those of here."""

    apart = True

    def __init__(self, pid: int) -> None:
        super().__init__(f"/proc/{pid}/root")

    def place(self, path: str) -> str:
        """Where the system finds it."""
        return self._top(path) + self.real(path)

    def real(self, path: str) -> str:
        """The path with its links followed, none of them out of the container."""
        if path.startswith(OURS):
            return path
        pending, done, links = path.split("/"), "", 0
        while pending:
            part = pending.pop(0)
            if part in ("", ".", ".."):
                done = done.rpartition("/")[0] if part == ".." else done
                continue
            try:
                link = os.readlink(f"{self.root}{done}/{part}")
            except OSError:  # no link
                done += f"/{part}"
                continue
            links += 1
            if links > 40:
                raise NotReadError(f"{path} is a link to itself")
            pending = link.split("/") + pending
            done = "" if link.startswith("/") else done
        return done or "/"

    def _top(self, path: str) -> str:
        return "" if path.startswith(OURS) else self.root


def files_of(host: Host, pid: int) -> Host:
    """The host with the files that a process sees: its own where it runs in a container or another root."""
    try:
        places = [host.place(f"/proc/{who}/{what}") for who in ("self", pid) for what in ("ns/mnt", "root")]
        links = [os.readlink(place) for place in places]
        return host if links[:2] == links[2:] else Inside(pid)
    except PermissionError:  # another user's: several process ids tell a container
        return Inside(pid) if re.search(r"^NSpid:\s*\d+\s+\d", host.maybe(f"/proc/{pid}/status"), re.M) else host
    except OSError:
        return host


class CapturedHost(Host):
    """A machine that is known only by what was captured from it: texts of files, and outputs of commands.

    commands: the output by command line; (exit code, errors) for one that failed; links: what paths lead to.
    """

    live = False

    def __init__(
        self,
        files: Mapping[str, str],
        commands: Mapping[str, str | tuple[int, str]],
        links: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__("/")
        self.files = dict(files)
        self.commands = dict(commands)
        self.links = dict(links or {})

    def paths(self, pattern: str) -> list[str]:
        """The captured files that match, and their folders."""
        import fnmatch

        known = {path for file in self.files for path in _with_parents(file)}
        depth = pattern.count("/")
        return sorted(path for path in known if path.count("/") == depth and fnmatch.fnmatchcase(path, pattern))

    def exists(self, path: str) -> bool:
        """Whether the path was captured."""
        return any(path in _with_parents(file) for file in self.files)

    def real(self, path: str) -> str:
        """Where the path leads, as far as it was captured."""
        return self.links.get(path, path)

    def _read(self, path: str) -> str:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def _call(self, argv: tuple[str, ...], timeout: float) -> tuple[int, str, str]:
        answer = self.commands.get(" ".join(argv), (NOT_FOUND, ""))
        if isinstance(answer, str):
            return 0, answer, ""
        if answer[0] in (NOT_FOUND, NOT_ALLOWED):
            raise FileNotFoundError(argv[0]) if answer[0] == NOT_FOUND else PermissionError(argv[0])
        return answer[0], "", answer[1]


def _with_parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts) + 1)]
