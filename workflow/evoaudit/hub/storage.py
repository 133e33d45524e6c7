"""Downloaded files on disk: whole, verified and read-only, one folder a selection.

Layout of a store::

    <owner>--<name>/<commit, 12 digits>-<selection, 8 digits>/…    the data, nothing else
    <owner>--<name>/.<the same>/known.jsonl                        hashes of files by size and time, so that none is read twice
    <owner>--<name>/.<the same>/incoming/                          files on their way

A file enters its folder by a rename after its contents were found right; selections share files by hard links.
"""

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from evoaudit import joblog
from evoaudit.errors import InputError
from evoaudit.fingerprint import walk
from evoaudit.hub.lock import File
from evoaudit.wholefile import write_whole

_FOLDER = re.compile(r"[0-9a-f]{12}-[0-9a-f]{8}")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_CHUNK = 1 << 20
#: Bytes to hash before anything else happens from which on that is said.
_LONG = 2_000_000_000


class Want(NamedTuple):
    """What is known of a file before it is there: its size and its sha256, or the name of its git blob, or both."""

    size: int
    sha256: str | None
    blob: str | None = None

    def fits(self, mark: "Mark") -> bool:
        """Return whether a file of this size and these hashes is the one."""
        if mark.size != self.size or (self.sha256 is not None and mark.sha256 != self.sha256):
            return False
        return self.sha256 is not None or mark.blob == self.blob


class Mark(NamedTuple):
    """What a file is. ``blob`` is None where only the sha256 was asked for."""

    size: int
    sha256: str
    blob: str | None


def folder_of(store: Path, repo: str, commit: str, paths: Iterable[str]) -> Path:
    """Return the folder of a selection of sorted paths of a data set at a commit."""
    digest = hashlib.sha256("\0".join(paths).encode()).hexdigest()[:8]
    return Path(store) / repo.replace("/", "--") / f"{commit[:12]}-{digest}"


def measure(path: Path, blob: bool) -> Mark:
    """Read a file once and return its size and sha256, with ``blob`` also its name as a git blob."""
    sha256, sha1, size = hashlib.sha256(), None, 0
    with open(path, "rb") as handle:
        if blob:
            sha1 = hashlib.sha1(f"blob {os.fstat(handle.fileno()).st_size}\0".encode(), usedforsecurity=False)
        while chunk := handle.read(_CHUNK):
            size += len(chunk)
            sha256.update(chunk)
            if sha1 is not None:
                sha1.update(chunk)
    return Mark(size, sha256.hexdigest(), None if sha1 is None else sha1.hexdigest())


def full_or_denied(error: OSError, store: Path) -> InputError | None:
    """Return a fault of the disk as what a person can mend, or None if it is another fault."""
    if error.errno in _FULL:
        return InputError(store, "the disk is full", "free space, or give another store; finished files are kept, so run again then")
    if error.errno in _DENIED:
        return InputError(
            error.filename or store, f"cannot be written ({error.strerror})", "permit writing, or give another folder in downloads.store"
        )
    if error.errno in (errno.ENOTDIR, errno.ENOENT, errno.EEXIST) and str(error.filename or "").startswith(str(store)):
        return InputError(store, f"cannot hold downloads ({error.strerror}: {error.filename})", "give another folder in downloads.store")
    if error.errno == errno.ENAMETOOLONG:
        return InputError(store, "a file's path is too long here", "give a store with a shorter path")
    return None


class Memory:
    """Hashes of files by path, believed only while size and modification time are the same. Safe for threads."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._guard = threading.Lock()
        self._known: dict[str, tuple[int, int, str, str | None]] = {}
        lines = 0
        try:
            with open(file, encoding="utf-8") as handle:
                for line in handle:
                    lines += 1
                    self._learn(line)
        except (OSError, UnicodeDecodeError):
            pass
        self._wasteful = lines > 2 * len(self._known) + 100

    def _learn(self, line: str) -> None:
        try:
            path, size, time, sha256, blob = json.loads(line)
        except (ValueError, TypeError, RecursionError):  # the last line of a process that was killed
            return
        if isinstance(path, str) and isinstance(sha256, str):
            self._known[path] = (size, time, sha256, blob if isinstance(blob, str) else None)

    def recall(self, path: str, status: os.stat_result) -> Mark | None:
        """Return the hashes of a file that has not changed since it was measured."""
        known = self._known.get(path)
        if known is None or known[:2] != (status.st_size, status.st_mtime_ns):
            return None
        return Mark(known[0], known[2], known[3])

    def remember(self, path: str, status: os.stat_result, mark: Mark) -> None:
        """Keep a file's hashes; where nothing can be written, for this process only."""
        row = (status.st_size, status.st_mtime_ns, mark.sha256, mark.blob)
        with self._guard, suppress(OSError):
            self._known[path] = row
            self.file.parent.mkdir(parents=True, exist_ok=True)
            if self._wasteful:
                write_whole(self.file, "".join(json.dumps([name, *one]) + "\n" for name, one in self._known.items()))
                self._wasteful = False
            else:
                with open(self.file, "a", encoding="utf-8") as handle:
                    handle.write(json.dumps([path, *row]) + "\n")


@dataclass(frozen=True)
class Sibling:
    """A folder of another selection of the same data set."""

    folder: Path
    memory: Memory

    def right(self, path: str, want: Want) -> Mark | None:
        """Return what its file of that path is, if it is the wanted one."""
        file = self.folder / path
        try:
            status = os.lstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_size != want.size:
                return None
            mark = self.memory.recall(path, status)
            if not _tells(mark, want):
                mark = measure(file, _blob(want))
        except OSError:
            return None
        return mark if mark is not None and want.fits(mark) else None


def siblings(home: Path, commit: str, but: str = "") -> list[Sibling]:
    """Return the folders of a data set's selections, those of the commit first."""
    try:
        names = [name for name in os.listdir(home) if _FOLDER.fullmatch(name) and name != but]
    except FileNotFoundError:
        return []
    names.sort(key=lambda name: (name[:12] != commit[:12], name))
    return [Sibling(home / name, Memory(home / f".{name}" / "known.jsonl")) for name in names]


class Place:
    """The folder of one selection: what is there, what is missing, and how files get in.

    ``name`` is the source's in a message about a long check; None for silence.
    """

    def __init__(self, store: Path, folder: Path, threads: int, name: str | None = None) -> None:
        self.store, self.folder, self.threads, self.name = Path(store), folder, max(1, threads), name
        self.work = folder.with_name(f".{folder.name}")
        self.incoming = self.work / "incoming"
        self.memory = Memory(self.work / "known.jsonl")
        self._parents: set[Path] = set()

    @contextmanager
    def alone(self, say: str) -> Iterator[None]:
        """Hold the folder, so that two jobs do not fetch the same; ``say`` is printed once if that means to wait."""
        from filelock import FileLock, Timeout

        self.work.mkdir(parents=True, exist_ok=True)
        guard = FileLock(self.work / "lock")
        try:
            guard.acquire(timeout=0)
        except Timeout:
            joblog.say(say)
            guard.acquire()
        try:
            yield
        finally:
            guard.release()

    def survey(self, wants: Mapping[str, Want]) -> dict[str, File]:
        """Return the files that are there and right; one that is wrong, or that does not belong there, is an error.

        Only what changed since it was last measured is read.
        """
        there = dict(walk(self.folder)) if self.folder.is_dir() else {}
        if strange := sorted(there.keys() - wants.keys()) or [
            path for path in sorted(wants.keys() - there.keys()) if os.path.lexists(self.folder / path)
        ]:
            raise InputError(
                self.folder / strange[0],
                "does not belong in a downloaded folder" + (f", nor do {len(strange) - 1} more" if len(strange) > 1 else ""),
                "move it elsewhere and run again",
            )
        marks = {path: self.memory.recall(path, status) for path, status in there.items()}
        unread = [path for path in sorted(there) if not _tells(marks[path], wants[path]) and there[path].st_size == wants[path].size]
        if self.name is not None and (size := sum(there[path].st_size for path in unread)) >= _LONG:
            joblog.say(f"{self.name}: checking {size / 1e9:.1f} GB that are there already")
        with ThreadPoolExecutor(self.threads) as pool:
            for path, mark in zip(unread, pool.map(lambda path: measure(self.folder / path, _blob(wants[path])), unread), strict=True):
                marks[path] = mark
                if wants[path].fits(mark):
                    self.memory.remember(path, there[path], mark)
        right = {path: File(mark.size, mark.sha256) for path, mark in marks.items() if mark is not None and wants[path].fits(mark)}
        if wrong := sorted(there.keys() - right.keys()):
            more = f"; so are {len(wrong) - 1} more files" if len(wrong) > 1 else ""
            raise InputError(
                self.folder / wrong[0],
                f"differs from what the lock file says of it{more}",
                "delete it and run `snakemake download` again, or restore the lock file if that was edited",
            )
        return right

    def link(self, wants: Mapping[str, Want]) -> dict[str, File]:
        """Take files over from other selections of the data set where their contents are right, and return them."""
        others = siblings(self.folder.parent, self.folder.name, but=self.folder.name) if wants else []
        found: dict[str, File] = {}
        for path, want in sorted(wants.items()):
            for sibling in others:
                mark = sibling.right(path, want)
                if mark is not None and self._share(sibling.folder / path, path, want, mark):
                    found[path] = File(mark.size, mark.sha256)
                    break
        return found

    def adopt(self, wants: Mapping[str, Want]) -> dict[str, File]:
        """Move in what a download that was killed left behind whole, and throw the rest away."""
        found: dict[str, File] = {}
        if self.incoming.is_dir() and not self.incoming.is_symlink():
            for path, _ in sorted(walk(self.incoming)):
                if path in wants:
                    mark = measure(self.incoming / path, _blob(wants[path]))
                    if wants[path].fits(mark):
                        self.take(path, self.incoming / path, mark)
                        found[path] = File(mark.size, mark.sha256)
        self.clear()
        return found

    def take(self, path: str, file: Path, mark: Mark) -> None:
        """Move a file that was found right into the folder, read-only."""
        target = self._target(path)
        os.chmod(file, 0o444)
        os.replace(file, target)
        self.memory.remember(path, os.stat(target), mark)

    def clear(self) -> None:
        """Remove what is on its way."""
        if self.incoming.is_symlink():  # whoever made it, nothing is written or removed through it
            self.incoming.unlink()
        shutil.rmtree(self.incoming, ignore_errors=True)

    def room(self) -> int:
        """Return the free bytes where the store is."""
        here = self.store.absolute()
        while not here.exists() and here != here.parent:
            here = here.parent
        return shutil.disk_usage(here).free

    def _target(self, path: str) -> Path:
        target = self.folder / path
        if target.parent not in self._parents:
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.parent.resolve() != self.folder.resolve() / Path(path).parent:
                raise InputError(target.parent, "a link leads out of the folder", "delete the link and run again")
            self._parents.add(target.parent)
        return target

    def _share(self, source: Path, path: str, want: Want, mark: Mark) -> bool:
        target = self._target(path)
        try:
            os.link(source, target)
        except OSError:  # no links here, or too many of this file
            copy = self.incoming / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
            if not want.fits(measure(copy, _blob(want))):
                return False
            self.take(path, copy, mark)
            return True
        os.chmod(target, 0o444)
        self.memory.remember(path, os.stat(target), mark)
        return True


def _blob(want: Want) -> bool:
    return want.sha256 is None


def _tells(mark: Mark | None, want: Want) -> bool:
    """Return whether a mark is enough to judge by."""
    return mark is not None and (want.sha256 is not None or mark.blob is not None)
