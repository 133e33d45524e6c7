"""Logs inside zip archives, read where they lie with the calls used for folders; nothing is ever unpacked to disk.

An archive is data from a stranger, so its directory is checked before anything is read. The rules:

- A member's name is relative UTF-8 text with ``/`` between its parts. Absolute names, ``..``, empty parts, drive letters,
  backslashes, control characters and names too long or too deep are left out, and `Tree.refused` reports each.
- Where a name occurs twice the last member counts, as it would after unpacking; the earlier ones are reported.
- Links and devices, members that overlap others, and those that claim to unpack to more than 1,000 times their size are
  listed but refused when read. No member gives more bytes than its directory entry says, and none fewer.
- Only stored and deflated members are read: the other methods cannot be unpacked within a fixed bound of memory.
- An archive inside an archive is a file like any other.

Reasons beside those of `jsonio`: ``bad_archive``, ``too_many_members``, ``unsafe_name``, ``duplicate_member``, ``link``,
``overlap``, ``directory_mismatch``, ``bomb``, ``bad_method``, ``encrypted``, ``wrong_password``, ``damaged``.
"""

import errno
import io
import os
import stat
import struct
import sys
import threading
import weakref
import zipfile
import zlib
from array import array
from collections import OrderedDict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from evoaudit.sources import jsonio
from evoaudit.sources.base import Picture, Skipped

SUFFIX = ".zip"

#: Entries of one archive at most, bytes of memory their names may take, and folders one may lie in.
MEMBERS_LIMIT, NAMES_LIMIT, DEPTH_LIMIT = 2_000_000, 2**29, 64
#: A member above this many bytes may not claim to unpack to more than this many times its packed size.
RATIO_LIMIT, RATIO_BYTES = 1000, 100 * 2**20
#: Archives kept open at most, and the entries they may hold together; the last one used is always kept.
OPEN_LIMIT, OPEN_MEMBERS = 16, 500_000
#: Members that `Tree.refused` names one by one for each reason; the rest are counted.
NAMED_LIMIT = 100

#: Bytes that a folder takes beside its name.
_FOLDER_BYTES = 300

_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL_HEADER = 30
_ENCRYPTED, _UTF8 = 0x1, 0x800
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})

_AGAIN = "fetch the archive again"
_FAULTS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, ValueError, struct.error, OverflowError)


class Unreadable(OSError):
    """A member or an archive that cannot be read. ``status`` is what a picture that cannot be read for this reason is."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(errno.EIO, detail)
        self.reason = reason

    @property
    def status(self) -> str:
        return {"damaged": "truncated", "too_large": "too_large", "bomb": "too_large"}.get(self.reason, "missing")


class Tree:
    """The files under a root: those of the folder itself or, with ``archive``, those inside one zip archive of it.

    Paths are relative to the root or to the archive's top, as POSIX text. ``password`` opens encrypted members (ZipCrypto,
    which the standard library undoes at about a megabyte a second).
    """

    def __init__(self, root: Path, archive: str | None = None, password: bytes | None = None) -> None:
        self.root, self.archive, self.password = root, archive, password

    def item(self, path: str) -> str:
        """Return how messages name a file: its path from the root, the archive's name being one of the parts."""
        if self.archive is None:
            return path
        return jsonio.join(self.archive, path) if path else self.archive

    def refused(self) -> list[Skipped]:
        """Return why the archive cannot be read at all, or which of its members were left out; nothing for a folder."""
        if self.archive is None:
            return []
        found = _opened(self.root, self.archive)
        if isinstance(found, Skipped):
            return [found]
        reports = []
        for reason, (names, count, detail) in sorted(found.refused.items()):
            reports += [Skipped(self.item(name), reason, detail, "file") for name in names]
            if count > len(names):
                reports.append(Skipped(self.archive, reason, f"{count - len(names):,} more: {detail}", "file"))
        return reports

    def walk(self, closed: list[Skipped] | None = None) -> Iterator[tuple[str, list[str]]]:
        """Yield (folder, sorted names of its files), parents first, as `jsonio.walk` does; nothing for an unreadable archive."""
        if self.archive is None:
            yield from jsonio.walk(self.root, closed)
            return
        found = _opened(self.root, self.archive)
        if not isinstance(found, Skipped):
            for folder in sorted(found.folders, key=lambda folder: folder.split("/")):
                yield folder, sorted(found.folders[folder])

    def files(self, *suffixes: str) -> Iterator[str]:
        """Yield the files in `walk`'s order; with ``suffixes``, only those that end in one (any case)."""
        for folder, names in self.walk():
            for name in names:
                if not suffixes or name.lower().endswith(suffixes):
                    yield jsonio.join(folder, name)

    def is_file(self, path: object) -> bool:
        """Return whether ``path`` names a file."""
        if self.archive is None:
            return jsonio.is_file(self.root, path)
        found = _opened(self.root, self.archive)
        return isinstance(path, str) and not isinstance(found, Skipped) and found.find(path) is not None

    def read_bytes(self, path: str, limit: int = jsonio.FILE_LIMIT, unit: str = "trajectory") -> bytes | Skipped:
        """Read a file whole, up to ``limit`` bytes, or say why not."""
        if self.archive is None:
            return jsonio.read_bytes(self.root, path, limit, unit)
        found = _opened(self.root, self.archive, unit)
        if isinstance(found, Skipped):
            return found
        try:
            raw = found.read(path, limit, self.password)
        except Unreadable as error:
            return Skipped(self.item(path), error.reason, error.strerror, unit)
        if raw is None:
            return Skipped(self.item(path), "missing", "no such file in the archive", unit)
        return Skipped(self.item(path), "lfs_pointer", jsonio.LFS_ADVICE, unit) if raw.startswith(jsonio.LFS_MAGIC) else raw

    def read_json(self, path: str, limit: int = jsonio.FILE_LIMIT, unit: str = "trajectory") -> Any | Skipped:
        """Read one JSON file, or say why not."""
        raw = self.read_bytes(path, limit, unit)
        return raw if isinstance(raw, Skipped) else jsonio.parse(raw, self.item(path), unit)

    def read_lines(self, path: str, limit: int = jsonio.LINE_LIMIT, unit: str = "trajectory") -> Iterator[tuple[int, Any | Skipped]]:
        """Yield (1-based line number, value or `Skipped`) for every line that is not blank, as `jsonio.read_lines` does.

        A member is unpacked and its checksum compared before its first line is given, so nothing damaged is half read.
        """
        if self.archive is None:
            yield from jsonio.read_lines(self.root, path, limit, unit)
            return
        raw = self.read_bytes(path, unit=unit)
        if isinstance(raw, Skipped):
            yield 0, raw
        else:
            yield from jsonio.lines(io.BytesIO(raw), self.item(path), limit, unit)

    def open(self, path: str, unit: str = "trajectory") -> BinaryIO | Skipped:
        """Open a file too large to read whole, or say why not; what goes wrong later is an `OSError`, also for members."""
        if self.archive is None:
            file = jsonio.regular(self.root, path, unit)
            if isinstance(file, Skipped):
                return file
            try:
                return open(file, "rb")
            except OSError as error:
                return Skipped(path, "unreadable", error.strerror, unit)
        found = _opened(self.root, self.archive, unit)
        if isinstance(found, Skipped):
            return found
        try:
            stream = found.open(path, self.password)
        except Unreadable as error:
            return Skipped(self.item(path), error.reason, error.strerror, unit)
        return stream or Skipped(self.item(path), "missing", "no such file in the archive", unit)

    def picture(self, path: str) -> Picture:
        """Return the reference to a picture, whether or not it exists."""
        if self.archive is None:
            return Picture(path)
        return Picture(self.archive, path, partial(load, self.root, self.archive, path, self.password))


def load(root: Path, file: str, member: str, password: bytes | None = None) -> bytes | None:
    """Return the bytes of an archive's member, None where there is no such member; raises `Unreadable` for a bad one."""
    found = _opened(root, file)
    if isinstance(found, Skipped):
        raise Unreadable(found.reason, found.detail or found.reason)
    return found.read(member, jsonio.FILE_LIMIT, password)


def name_fault(name: str) -> str | None:
    """Say what makes a member's name unsafe, or None; a slash at the end marks a folder."""
    parts = name.removesuffix("/").split("/")
    if len(name) > 4000 or any(len(part) > 63 and len(part.encode("utf-8", "replace")) > 255 for part in parts):
        return "the name is too long"
    if not name.isprintable() and any(ord(c) < 32 or 127 <= ord(c) < 160 for c in name):
        return "the name holds control characters"
    if "\\" in name:
        return "the name holds a backslash; archive the files with / between folders"
    if name.startswith("/") or (name[1:2] == ":" and name[0].isascii() and name[0].isalpha()):
        return "the name is absolute"
    if len(parts) > DEPTH_LIMIT:
        return "the name is nested too deeply"
    if ".." in parts or "." in parts or "" in parts:
        return "the name holds '..', '.' or an empty part"
    return None


class _Reader(zipfile.ZipFile):
    """A zip file whose directory has been read by `_Archive`: it unpacks the members it is given."""

    def _RealGetContents(self) -> None:
        pass


class _Archive:
    """One open archive and the index of its members; safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        #: Folder → name → number of the entry.
        self.folders: dict[str, dict[str, int]] = {}
        #: Reason → first names, how many there are, what to say of them.
        self.refused: dict[str, tuple[list[str], int, str]] = {}
        self._offset, self._packed, self._size = array("Q"), array("Q"), array("Q")
        self._crc, self._flags, self._method, self._time = array("I"), array("H"), array("H"), array("H")
        #: Number of an entry → reason and detail, for those that may be listed but not read.
        self._faults: dict[int, tuple[str, str]] = {}
        #: Bytes that the names in the index take.
        self.weight = 0
        self._lock = threading.Lock()
        self._handle = io.BufferedReader(io.FileIO(path))
        weakref.finalize(self, self._handle.close)
        _index(self, self._handle)
        self._zip = _Reader(self._handle)

    @property
    def members(self) -> int:
        return len(self._offset)

    def find(self, path: str) -> int | None:
        """Return the number of a member, or None."""
        folder, _, name = path.rpartition("/")
        return self.folders.get(folder, {}).get(name)

    def read(self, path: str, limit: int, password: bytes | None) -> bytes | None:
        """Return a member whole, None if there is none, its checksum compared; raises `Unreadable`."""
        number = self.find(path)
        if number is None:
            return None
        size = self._size[number]
        if size > limit:
            raise Unreadable("too_large", f"more than {limit:,} bytes")
        try:
            handle = self._start(number, path, password)
            try:
                raw = handle.read(size + 1)
            finally:
                self._end(handle)
        except _FAULTS as error:
            raise _explained(error) from None
        if len(raw) != size:
            raise Unreadable("damaged", f"unpacks to {len(raw):,} bytes where the directory says {size:,}; {_AGAIN}")
        return raw

    def open(self, path: str, password: bytes | None) -> BinaryIO | None:
        """Return a member as a stream, None if there is none; raises `Unreadable`, as reading from it may."""
        number = self.find(path)
        if number is None:
            return None
        try:
            return io.BufferedReader(_Member(self, self._start(number, path, password), self._size[number]), 2**16)
        except _FAULTS as error:
            raise _explained(error) from None

    def _start(self, number: int, path: str, password: bytes | None) -> zipfile.ZipExtFile:
        if number in self._faults:
            raise Unreadable(*self._faults[number])
        flags = self._flags[number]
        if self._method[number] not in _METHODS:
            detail = f"compression method {self._method[number]}; archive the files again, stored or deflated"
            raise Unreadable("bad_method", detail)
        if flags & _ENCRYPTED and not password:
            raise Unreadable("encrypted", "the member is encrypted; archive the files again without a password")
        # the local header must repeat the name, in the same bytes
        member = zipfile.ZipInfo(path if flags & _UTF8 else path.encode().decode("cp437"))
        member.header_offset, member.compress_size, member.file_size = self._offset[number], self._packed[number], self._size[number]
        member.CRC, member.flag_bits, member.compress_type = self._crc[number], flags, self._method[number]
        member._raw_time = self._time[number]  # where the size follows the data, the password is checked against it
        with self._lock:  # ZipFile counts its open members without one
            return self._zip.open(member, pwd=password)

    def _end(self, handle: zipfile.ZipExtFile) -> None:
        with self._lock:
            handle.close()


class _Member(io.RawIOBase):
    """A member read bit by bit; whatever is wrong with it is an `Unreadable`."""

    def __init__(self, archive: _Archive, handle: zipfile.ZipExtFile, size: int) -> None:
        self._archive, self._inner, self._size, self._read = archive, handle, size, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._inner.read(len(buffer))
        except _FAULTS as error:
            raise _explained(error) from None
        self._read += len(data)
        if not data and len(buffer) and self._read != self._size:
            raise Unreadable("damaged", f"unpacks to {self._read:,} bytes where the directory says {self._size:,}; {_AGAIN}")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._archive._end(self._inner)
        super().close()


def _explained(error: Exception) -> Unreadable:
    if isinstance(error, Unreadable):
        return error
    if isinstance(error, RuntimeError) and "password" in str(error):
        return Unreadable("wrong_password", "the password does not open the member")
    if isinstance(error, NotImplementedError):
        return Unreadable("bad_method", "packed or encrypted in a way that is not read; archive the files again, stored or deflated")
    if isinstance(error, OSError):
        return Unreadable("unreadable", error.strerror or "cannot be read")
    return Unreadable("damaged", f"the member is damaged ({type(error).__name__}); {_AGAIN}")


_open: OrderedDict[tuple, _Archive] = OrderedDict()
_open_lock = threading.Lock()


def _forget() -> None:
    """Let go of the open archives: a forked process would share its parent's place in each file, and its lock."""
    global _open_lock
    _open_lock = threading.Lock()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _opened(root: Path, file: str, unit: str = "file") -> _Archive | Skipped:
    """Return an archive with its index, made once for as long as the file stays what it is, or say why it cannot be read."""
    path = jsonio.regular(root, file, unit)
    if isinstance(path, Skipped):
        return path
    try:
        status = path.stat()
        key = (os.path.abspath(path), status.st_mtime_ns, status.st_size)
        with _open_lock:
            found = _open.get(key)
            if found is None:
                found = _open[key] = _Archive(path)
                while len(_open) > 1 and (len(_open) > OPEN_LIMIT or sum(one.members for one in _open.values()) > OPEN_MEMBERS):
                    _open.popitem(last=False)  # closed when the last that uses it lets go
            _open.move_to_end(key)
        return found
    except Unreadable as error:
        return Skipped(file, error.reason, error.strerror, unit)
    except OSError as error:
        return Skipped(file, "unreadable", error.strerror, unit)


def _index(archive: _Archive, handle: BinaryIO) -> None:
    """Read an archive's directory into its index; raises `Unreadable` where it has none that can be read."""
    start, size, shift, count = _directory(handle)
    handle.seek(start)
    taken, ends = 0, array("Q")
    paths: dict[str, str] = {"": ""}  # one string a folder, however many members it holds
    archive.folders[""] = {}
    while taken < size:
        head = handle.read(_ENTRY.size)
        if len(head) < _ENTRY.size or not head.startswith(b"PK\1\2"):
            raise Unreadable("bad_archive", f"its directory breaks off after {archive.members:,} entries; {_AGAIN}")
        if archive.members >= MEMBERS_LIMIT:
            raise Unreadable("too_many_members", f"more than {MEMBERS_LIMIT:,} entries; split the archive")
        (_, _, _, flags, method, time, _, crc, packed, unpacked, name_size, extra_size, note_size, _, _, kind, offset) = _ENTRY.unpack(head)
        raw, extra = handle.read(name_size), handle.read(extra_size)
        if note_size:
            handle.seek(note_size, os.SEEK_CUR)
        taken += _ENTRY.size + name_size + extra_size + note_size
        number = archive.members
        if 0xFFFFFFFF in (packed, unpacked, offset):
            unpacked, packed, offset = _wide(extra, unpacked, packed, offset)
        offset += shift
        for column, value in (
            (archive._offset, offset),
            (archive._packed, packed),
            (archive._size, unpacked),
            (archive._crc, crc),
            (archive._flags, flags),
            (archive._method, method),
            (archive._time, time),
            (ends, offset + _LOCAL_HEADER + name_size + packed),
        ):
            column.append(min(value, 2**63))
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            _refuse(archive, raw.decode("ascii", "backslashreplace"), "not_utf8", "the name is not UTF-8")
            continue
        if fault := name_fault(name):
            _refuse(archive, name, "unsafe_name", fault)
            continue
        mode = stat.S_IFMT(kind >> 16)
        is_folder = name.endswith("/") or mode == stat.S_IFDIR
        folder, _, last = name.removesuffix("/").rpartition("/")
        parts = name.split("/")
        if last.startswith("._") or any(part in jsonio.IGNORED_FOLDERS or part.startswith("._") for part in parts[:-1]):
            continue
        if is_folder and last in jsonio.IGNORED_FOLDERS:
            continue
        _fold(archive, paths, jsonio.join(folder, last) if is_folder else folder)
        if is_folder:
            continue
        names = archive.folders[paths[folder]]
        if last in names:
            _refuse(archive, name, "duplicate_member", "the name occurs again; the last member of the name counts")
        names[last] = number
        _weigh(archive, sys.getsizeof(last))
        if mode not in (0, stat.S_IFREG):
            archive._faults[number] = ("link", "a link or a device, not a file")
        elif unpacked > RATIO_BYTES and unpacked > RATIO_LIMIT * packed:
            archive._faults[number] = ("bomb", f"{packed:,} bytes that claim to unpack to {unpacked:,}")
    if (archive.members - count) % 2**16:  # older archives count no further than 16 bits go
        _refuse(archive, "", "directory_mismatch", f"its directory has {archive.members:,} entries where its end says {count:,}; {_AGAIN}")
    _overlaps(archive, ends, start)


def _directory(handle: BinaryIO) -> tuple[int, int, int, int]:
    """Return where an archive's directory starts, its bytes, what to add to its offsets (bytes set before it), and its entries."""
    length = handle.seek(0, os.SEEK_END)
    handle.seek(max(0, length - _END.size - 0xFFFF))
    tail = handle.read(_END.size + 0xFFFF)
    at = tail.rfind(b"PK\5\6", 0, max(0, len(tail) - _END.size + 4))
    if at < 0:
        handle.seek(0)
        head = handle.read(len(jsonio.LFS_MAGIC))
        if head == jsonio.LFS_MAGIC:
            raise Unreadable("lfs_pointer", jsonio.LFS_ADVICE)
        fault = "the archive breaks off before its directory" if head.startswith(b"PK") else "not a zip archive"
        raise Unreadable("bad_archive", f"{fault}; {_AGAIN}")
    _, disk, _, _, count, size, offset, _ = _END.unpack_from(tail, at)
    end = length - len(tail) + at
    handle.seek(max(0, end - _LOCATOR64.size))
    locator = handle.read(_LOCATOR64.size)
    if locator.startswith(b"PK\6\7") and len(locator) == _LOCATOR64.size:
        for place in (_LOCATOR64.unpack(locator)[2], end - _LOCATOR64.size - _END64.size):
            if not 0 <= place <= length:
                continue
            handle.seek(place)
            record = handle.read(_END64.size)
            if record.startswith(b"PK\6\6") and len(record) == _END64.size:
                _, _, _, _, disk, _, _, count, size, offset = _END64.unpack(record)
                end = place
                break
    if disk not in (0, 0xFFFF):
        raise Unreadable("bad_archive", "one part of several; join the parts first")
    start = end - size
    if start < 0 or offset > start:
        raise Unreadable("bad_archive", f"its directory is not where it should be; {_AGAIN}")
    return start, size, start - offset, count


def _wide(extra: bytes, *values: int) -> list[int]:
    """Replace the values that do not fit 32 bits by those of the extra field; what it does not hold stays as it is."""
    place, found = 0, list(values)
    while place + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, place)
        if kind == 1:
            field = extra[place + 4 : place + 4 + size]
            for index, value in enumerate(values):
                if value == 0xFFFFFFFF and len(field) >= 8:
                    found[index], field = struct.unpack_from("<Q", field)[0], field[8:]
            break
        place += 4 + size
    return found


def _fold(archive: _Archive, paths: dict[str, str], folder: str) -> None:
    """Add a folder and those above it to the index."""
    while folder not in paths:
        paths[folder] = folder
        archive.folders[folder] = {}
        _weigh(archive, sys.getsizeof(folder) + _FOLDER_BYTES)
        folder = folder.rpartition("/")[0]


def _weigh(archive: _Archive, size: int) -> None:
    """Count the memory a name takes."""
    archive.weight += size
    if archive.weight > NAMES_LIMIT:
        raise Unreadable("too_many_members", f"names of more than {NAMES_LIMIT:,} bytes; split the archive")


def _overlaps(archive: _Archive, ends: array, directory: int) -> None:
    """Refuse members whose bytes are also another's or the directory's: a few of them could unpack to any size."""
    reach, owner = 0, -1
    shared = "overlap", "its bytes are also another member's; archive the files again"
    outside = "overlap", f"its bytes reach past the archive's data; {_AGAIN}"
    for number in sorted(range(len(ends)), key=archive._offset.__getitem__):
        if archive._offset[number] < reach:
            archive._faults[number] = archive._faults[owner] = shared
        if ends[number] > directory:
            archive._faults[number] = outside
        if ends[number] > reach:
            reach, owner = ends[number], number


def _refuse(archive: _Archive, name: str, reason: str, detail: str) -> None:
    names, count, first = archive.refused.get(reason, ([], 0, detail))
    if count < NAMED_LIMIT:
        names.append(name if len(name) <= 200 else name[:199] + "…")
    archive.refused[reason] = (names, count + 1, first)
