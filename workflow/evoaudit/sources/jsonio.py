"""Safe reading of JSON, JSON Lines and folders: what every reader needs when it cannot trust its input.

Nothing here raises for bad data. A function that reads returns the value or a `Skipped` that names file, line and
reason; a JSON value is never a `Skipped`, so ``isinstance`` tells them apart.

Reasons: ``missing``, ``outside_root``, ``unreadable``, ``lfs_pointer``, ``too_large``, ``not_utf8``, ``bad_json``, ``too_deep``.
"""

import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from evoaudit.sources.base import Skipped

#: Bytes of one JSON file, and of one line of a JSON Lines file, that are read at most.
FILE_LIMIT = 256 * 2**20
LINE_LIMIT = 64 * 2**20
#: Values of one JSON text at most: small ones take up to fifty times their bytes in memory.
VALUE_LIMIT = 4_000_000

LFS_MAGIC = b"version https://git-lfs.github.com/spec/"
NO_FILE = "not a regular file"
LFS_ADVICE = "a Git LFS pointer, not the file; run `git lfs pull` where it came from"

#: Bytes read at a time at least.
_PIECE = 2**16

_BOM = b"\xef\xbb\xbf"
IGNORED_FOLDERS = frozenset({".cache", ".git", "__MACOSX"})
_DRIVE = re.compile(r"[A-Za-z]:")
_SAFE = re.compile(r"[^/\\\x00-\x1f\x7f][^\\\x00-\x1f\x7f]*")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def parse(raw: bytes | str, item: str, unit: str = "trajectory") -> Any | Skipped:
    """Parse one JSON text, or say why not. ``item`` names it (file, or file:line).

    A byte order mark is ignored, raw control characters inside strings are accepted, the last of duplicate keys wins,
    and NaN and infinities are parsed (`as_float` refuses them).
    """
    if len(raw) > VALUE_LIMIT and sum(raw.count(mark if isinstance(raw, str) else mark.encode()) for mark in ",[{") > VALUE_LIMIT:
        return Skipped(item, "too_large", f"more than {VALUE_LIMIT:,} values", unit)
    try:
        if isinstance(raw, bytes):
            encoding = json.detect_encoding(raw)
            raw = raw.decode("utf-8-sig" if encoding.startswith("utf-8") else encoding)
        return json.loads(raw.removeprefix("\ufeff"), strict=False)
    except UnicodeDecodeError as error:
        return Skipped(item, "not_utf8", f"byte {error.start} is not UTF-8; save the file as UTF-8", unit)
    except RecursionError:
        return Skipped(item, "too_deep", "nested too deeply", unit)
    except ValueError as error:
        return Skipped(item, "bad_json", f"not JSON: {error}", unit)


def read_bytes(root: Path, relative: str, limit: int = FILE_LIMIT, unit: str = "trajectory") -> bytes | Skipped:
    """Read a regular file under ``root`` whole, up to ``limit`` bytes, or say why not."""
    raw = contents(root, relative, limit + 1, unit)
    if isinstance(raw, Skipped):
        return raw
    if len(raw) > limit:
        return Skipped(relative, "too_large", f"more than {limit:,} bytes", unit)
    if raw.startswith(LFS_MAGIC):
        return Skipped(relative, "lfs_pointer", LFS_ADVICE, unit)
    return raw


def contents(root: Path, relative: str, limit: int, unit: str = "trajectory") -> bytes | Skipped:
    """Read the first ``limit`` bytes of a regular file under ``root``, or say why not."""
    found = _regular(root, relative, unit)
    if isinstance(found, Skipped):
        return found
    path, size = found
    parts, length = [], 0
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # Asked for as much as there is: setting aside the limit's memory takes longer than reading a small file.
            while length < limit and (part := os.read(file, min(limit - length, max(size + 1 - length, _PIECE)))):
                parts.append(part)
                length += len(part)
                if length == size:
                    break
        finally:
            os.close(file)
    except OSError as error:
        return Skipped(relative, "unreadable", error.strerror, unit)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_json(root: Path, relative: str, limit: int = FILE_LIMIT, unit: str = "trajectory") -> Any | Skipped:
    """Read one JSON file under ``root``, or say why not."""
    raw = read_bytes(root, relative, limit, unit)
    return raw if isinstance(raw, Skipped) else parse(raw, relative, unit)


def read_lines(root: Path, relative: str, limit: int = LINE_LIMIT, unit: str = "trajectory") -> Iterator[tuple[int, Any | Skipped]]:
    """Yield (1-based line number, value or `Skipped`) for every line that is not blank; memory is bounded by one line.

    A file that cannot be read at all yields one `Skipped` as line 0.
    """
    path = regular(root, relative, unit)
    if isinstance(path, Skipped):
        yield 0, path
        return
    try:
        with open(path, "rb") as handle:
            yield from lines(handle, relative, limit, unit)
    except OSError as error:
        yield 0, Skipped(relative, "unreadable", error.strerror, unit)


def lines(handle: BinaryIO, name: str, limit: int = LINE_LIMIT, unit: str = "trajectory") -> Iterator[tuple[int, Any | Skipped]]:
    """Yield what `read_lines` does from an open binary file that messages call ``name``."""
    number = 0
    while raw := handle.readline(limit + 1):
        number += 1
        item = f"{name}:{number}"
        if len(raw) > limit and not raw.endswith(b"\n"):
            while raw and not raw.endswith(b"\n"):
                raw = handle.readline(2**20)
            yield number, Skipped(item, "too_large", f"a line of more than {limit:,} bytes", unit)
            continue
        if number == 1:
            if raw.startswith(LFS_MAGIC):
                yield 0, Skipped(name, "lfs_pointer", LFS_ADVICE, unit)
                return
            if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                yield 0, Skipped(name, "not_utf8", "UTF-16; save the file as UTF-8", unit)
                return
            raw = raw.removeprefix(_BOM)
        if raw.strip():
            yield number, parse(raw, item, unit)


def confined(root: Path, relative: object) -> Path | None:
    """Return the path under ``root`` that ``relative`` names, or None if the name is unsafe or leads out of ``root``.

    Refused: absolute paths, ``..``, drive letters, backslashes, control characters, lone surrogates, over-long names,
    and symbolic links whose end lies outside. The path need not exist.
    """
    found = _place(root, relative)
    return None if found is None else Path(found[0])


def _place(root: Path, relative: object) -> tuple[str, os.stat_result | None] | None:
    """Return what `confined` does, and what is known of the file there; None where it cannot be looked at."""
    if not isinstance(relative, str) or len(relative) > 4000 or not _SAFE.fullmatch(relative) or _DRIVE.match(relative):
        return None
    try:
        if ".." in relative and ".." in relative.split("/"):
            return None
        if len(relative.encode()) > 255 and any(len(part.encode()) > 255 for part in relative.split("/")):
            return None
        top = str(root)
        path = os.path.join(top, relative)
        folder, name = os.path.split(path)
        known, beside = _looked(os.lstat, path), _looked(os.stat, folder)
        if beside is None or name in {"", "."} or (known is not None and stat.S_ISLNK(known.st_mode)):
            known = _looked(os.stat, path)
            inside = _holds(os.path.realpath(top), os.path.realpath(path))
        else:  # most files stand beside others, so that the way to their folder was looked at before
            inside = _leads_inside(top, folder, beside.st_dev, beside.st_ino)
        return (path, known) if inside else None
    except (OSError, ValueError, RuntimeError):  # UnicodeEncodeError is a ValueError; link loops are RuntimeErrors before 3.13
        return None


def _looked(at: Callable[[str], os.stat_result], path: str) -> os.stat_result | None:
    try:
        return at(path)
    except OSError:
        return None


@lru_cache(maxsize=4096)
def _leads_inside(root: str, folder: str, _device: int, _inode: int) -> bool:
    return _holds(os.path.realpath(root), os.path.realpath(folder))


def _holds(folder: str, path: str) -> bool:
    """Return whether a resolved path is the folder or lies under it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_file(root: Path, relative: object) -> bool:
    """Return whether ``relative`` names a regular file confined to ``root``."""
    found = _place(root, relative)
    return found is not None and found[1] is not None and stat.S_ISREG(found[1].st_mode)


def walk(root: Path, closed: list[Skipped] | None = None) -> Iterator[tuple[str, list[str]]]:
    """Yield (folder relative to ``root``, sorted names of its files), parents first, in an order that names alone decide.

    The root itself is ``""``. Caches and archive litter (``.cache``, ``.git``, ``__MACOSX``, ``._*``) are left out. Links to
    folders are not followed, so there are no cycles; links to files are listed, and reading them checks where they end.
    Folders that cannot be listed are added to ``closed``.
    """
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(Path(root, folder)) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            if closed is not None:
                closed.append(Skipped(folder or ".", "unreadable", error.strerror, "folder"))
            continue
        files, folders = [], []
        for entry in entries:
            if entry.name.startswith("._"):
                continue
            try:
                is_folder, is_link = entry.is_dir(), entry.is_symlink()
            except OSError:
                continue
            if not is_folder:
                files.append(entry.name)
            elif not is_link and entry.name not in IGNORED_FOLDERS:
                folders.append(join(folder, entry.name))
        yield folder, files
        pending.extend(reversed(folders))


def closed(root: Path) -> list[Skipped]:
    """Return the folders under ``root`` that cannot be listed, whatever they hold."""
    found: list[Skipped] = []
    for _ in walk(root, found):
        pass
    return found


def files(root: Path, *suffixes: str) -> Iterator[str]:
    """Yield the files under ``root``, relative to it, in `walk`'s order; with ``suffixes``, only those that end in one (any case)."""
    for folder, names in walk(root):
        for name in names:
            if not suffixes or name.lower().endswith(suffixes):
                yield join(folder, name)


def join(folder: str, name: str) -> str:
    """Join a folder relative to the root (``""`` is the root itself) and a name."""
    return f"{folder}/{name}" if folder else name


def natural(name: str) -> tuple:
    """Return a sort key that orders the numbers inside names as numbers, so that ``step_10`` follows ``step_9``."""
    parts = re.split(r"(\d+)", name)
    return tuple((0, int(part), part) if index % 2 and len(part) < 4000 else (1, 0, part) for index, part in enumerate(parts))


def dump(value: Any, limit: int = 20_000) -> str:
    """Return a value as one line of JSON for ``op_raw``; strings stay as they are; over-long text ends in an ellipsis."""
    if not isinstance(value, str):
        try:
            value = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
        except (RecursionError, ValueError, TypeError):
            value = "<nested too deeply>"
    return value if len(value) <= limit else value[: limit - 1] + "…"


def as_str(value: Any) -> str | None:
    """Return a string, or a number as its text; None for anything else. Identifiers keep their exact spelling."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return str(value) if math.isfinite(value) else None
    except (OverflowError, ValueError):  # integers too long to print
        return None


def as_float(value: Any) -> float | None:
    """Return a finite number, also from its text; None for anything else, booleans included."""
    if isinstance(value, str):
        value = value.strip()
        value = float(value) if len(value) < 400 and _NUMBER.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def as_int(value: Any) -> int | None:
    """Return a whole number of at most 53 bits, also from its text; None for anything else, booleans included."""
    number = as_float(value)
    if number is None or not number.is_integer() or abs(number) > 2**53:
        return None
    return int(number)


def as_bool(value: Any) -> bool | None:
    """Return a boolean, also from the texts ``true`` and ``false`` in any case; None for anything else."""
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def as_list(value: Any) -> list:
    """Return a list, or an empty one for anything else."""
    return value if isinstance(value, list) else []


def as_dict(value: Any) -> dict:
    """Return an object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def regular(root: Path, relative: str, unit: str = "trajectory") -> Path | Skipped:
    """Return the path of a regular file confined to ``root``, or say why it is none."""
    found = _regular(root, relative, unit)
    return found if isinstance(found, Skipped) else Path(found[0])


def _regular(root: Path, relative: str, unit: str) -> tuple[str, int] | Skipped:
    """Return what `regular` does, and the file's size in bytes."""
    found = _place(root, relative)
    if found is None:
        return Skipped(str(relative), "outside_root", "the name is unsafe or leads out of the source's folder", unit)
    path, known = found
    try:
        known = known or os.stat(path)
    except FileNotFoundError:
        return Skipped(relative, "missing", "file not found", unit)
    except OSError as error:
        return Skipped(relative, "unreadable", error.strerror, unit)
    return (path, known.st_size) if stat.S_ISREG(known.st_mode) else Skipped(relative, "unreadable", NO_FILE, unit)
