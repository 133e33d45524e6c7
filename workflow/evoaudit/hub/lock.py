"""The lock file: which commit of a data set is meant, and size and sha256 of every file of it that was ever downloaded.

A JSON object, sorted, one line a file::

    {"version": 1, "sources": {"<repo>@<revision asked>": {
        "repo", "revision", "commit", "license", "gated",
        "files": {path: {"sha256", "size"}},
        "selections": {"<kind> <options>": [path or folder/, …]}}}}

``files`` is the union of all selections. A selection is what one set of options stood for when it was downloaded; a folder
of which it has every locked file is written as one line with a closing slash, all files as ``/``. So the text depends only on
which selections were downloaded, not on their order. An entry without selections pins a commit whose download has not ended.
"""

import json
import os
import re
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from evoaudit.errors import InputError, one_line
from evoaudit.givenfile import read_given
from evoaudit.wholefile import write_whole

VERSION = 1
_COMMIT, _SHA256 = re.compile(r"[0-9a-f]{40}"), re.compile(r"[0-9a-f]{64}")
#: Bytes of a lock file at most.
_LARGEST = 512 * 2**20
_MEND = "restore it from version control, or delete it: the next download writes it anew"


class File(NamedTuple):
    """What a file must be: its size in bytes and its sha256."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Entry:
    """A data set at one revision. ``license`` and ``gated`` are as the hub told them; ``selections`` hold sorted paths."""

    repo: str
    revision: str
    commit: str
    license: str | None = None
    gated: bool | str = False
    files: Mapping[str, File] = field(default_factory=dict)
    selections: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


Lock = Mapping[str, Entry]


def read(path: Path) -> Lock:
    """Return the lock file's entries, none if there is no such file."""
    try:
        stat = os.stat(path)
        return _read(str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror})", "make it readable") from None


def entry(lock: Lock, repo: str, revision: str) -> Entry | None:
    """Return what is locked of a data set at a revision."""
    return lock.get(f"{repo}@{revision}")


def update(path: Path, fresh: Entry) -> Entry:
    """Add an entry to the lock file and return what stands there now.

    Everything locked before stays. If another commit is locked already, that entry is returned and nothing is written.
    """
    from filelock import FileLock

    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f".{path.name}.lock")):
            lock = dict(read(path))
            merged = _merge(path, entry(lock, fresh.repo, fresh.revision), fresh)
            if merged.commit == fresh.commit:
                lock[f"{fresh.repo}@{fresh.revision}"] = merged
                write_whole(path, text(lock))
            return merged
    except OSError as error:
        raise InputError(path, f"cannot be written ({error.strerror or error})", "free space or permit writing, then run again") from None


def text(lock: Lock) -> str:
    """Return the lock file's text."""
    sources = {
        name: {
            "repo": one.repo,
            "revision": one.revision,
            "commit": one.commit,
            "license": one.license,
            "gated": one.gated,
            "files": {path: {"sha256": file.sha256, "size": file.size} for path, file in one.files.items()},
            "selections": {key: fold(one.files, chosen) for key, chosen in one.selections.items()},
        }
        for name, one in lock.items()
    }
    return _pretty({"version": VERSION, "sources": sources}, 0) + "\n"


def unsafe(path: object) -> str | None:
    """Say why a path from outside must not become a file name, or None if it may."""
    if not isinstance(path, str) or not path:
        return "no path"
    if path.startswith("/") or "\\" in path:
        return "an absolute path or a backslash"
    if any(part in ("", ".", "..") for part in path.split("/")):
        return "an empty, '.' or '..' part"
    if any(ord(character) < 32 or ord(character) == 127 for character in path):
        return "a control character"
    try:
        encoded = path.encode("utf-8")
    except UnicodeEncodeError:
        return "text that is no Unicode"
    if len(encoded) > 2000 or any(len(part) > 255 for part in encoded.split(b"/")):
        return "a name that is too long"
    return None


def fold(everything: Collection[str], chosen: Collection[str]) -> list[str]:
    """Return ``chosen``, sorted, with a folder in place of its files where all of ``everything`` below it are chosen."""
    have: dict[str, int] = {}
    take: dict[str, int] = {}
    for counts, paths in ((have, everything), (take, chosen)):
        for path in paths:
            for folder in _folders(path):
                counts[folder] = counts.get(folder, 0) + 1
    return sorted({next((folder for folder in _folders(path) if take[folder] == have.get(folder)), path) for path in chosen})


def unfold(everything: Sequence[str], folded: Collection[str]) -> tuple[str, ...]:
    """Return the paths a folded list stands for; ``everything`` is sorted. Raises ``KeyError`` for one that is not there."""
    found: list[str] = []
    for name in folded:
        if name == "/":
            found += everything
        elif name.endswith("/"):
            start = bisect_left(everything, name)
            stop = bisect_left(everything, name[:-1] + "0")  # the character after the slash
            if start == stop:
                raise KeyError(name)
            found += everything[start:stop]
        else:
            at = bisect_left(everything, name)
            if at == len(everything) or everything[at] != name:
                raise KeyError(name)
            found.append(name)
    return tuple(sorted(set(found)))


def _folders(path: str) -> list[str]:
    """Return the folders above a path, the root first, each with its closing slash."""
    parts = path.split("/")
    return ["/", *("/".join(parts[:n]) + "/" for n in range(1, len(parts)))]


def _merge(path: Path, old: Entry | None, new: Entry) -> Entry:
    if old is None or old.commit != new.commit:
        return old or new
    for name, file in new.files.items():
        if old.files.get(name, file) != file:
            raise InputError(
                path,
                f"{new.repo}: '{name}' is locked with other contents at the same commit",
                "two downloads got different files: delete this data set's entry and its folder in the store, then run again",
            )
    return replace(old, files={**old.files, **new.files}, selections={**old.selections, **new.selections})


@lru_cache(maxsize=4)  # a plan asks for every source in turn
def _read(path: str, *_identity: int) -> Lock:
    try:
        value = json.loads(read_given(Path(path), _LARGEST, _MEND).decode())
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"not a lock file: {one_line(str(error), 120)}", _MEND) from None
    if not isinstance(value, dict) or not isinstance(value.get("sources"), dict):
        raise InputError(path, "not a lock file: no object 'sources'", _MEND)
    if value.get("version") != VERSION:
        raise InputError(path, f"a lock file of version {value.get('version')!r}, not {VERSION}", "use the version that wrote it")
    return {name: _entry(path, name, one) for name, one in value["sources"].items()}


def _entry(path: str, name: str, value: Any) -> Entry:
    def broken(what: str) -> InputError:
        return InputError(path, f"'{name}': {what}", _MEND)

    if not isinstance(value, dict) or not all(isinstance(value.get(key), str) for key in ("repo", "revision", "commit")):
        raise broken("'repo', 'revision' or 'commit' is missing")
    if name != f"{value['repo']}@{value['revision']}":
        raise broken("the name is not <repo>@<revision>")
    if not _COMMIT.fullmatch(value["commit"]):
        raise broken("'commit' is not 40 hex digits")
    files, selections = value.get("files"), value.get("selections", {})
    if not isinstance(files, dict) or not isinstance(selections, dict):
        raise broken("'files' or 'selections' is not an object")
    checked: dict[str, File] = {}
    for file in sorted(files):
        one = files[file]
        if why := unsafe(file):
            raise broken(f"a file's path holds {why}")
        size, sha256 = (one.get("size"), one.get("sha256")) if isinstance(one, dict) else (None, None)
        if not is_size(size) or not is_sha256(sha256):
            raise broken(f"size or sha256 of '{file}' is missing")
        checked[file] = File(size, sha256)
    everything = list(checked)
    try:
        chosen = {key: unfold(everything, folded) for key, folded in selections.items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise broken(f"'selections' does not fit 'files' ({error})") from None
    license_, gated = value.get("license"), value.get("gated", False)
    return Entry(
        value["repo"],
        value["revision"],
        value["commit"],
        license_ if isinstance(license_, str) else None,
        gated if isinstance(gated, bool | str) else False,
        checked,
        chosen,
    )


def is_size(value: object) -> bool:
    """Return whether this is a file's size in bytes."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def is_sha256(value: object) -> bool:
    """Return whether this is a sha256 in hex."""
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None


def is_commit(value: object) -> bool:
    """Return whether this is a commit's, or a git blob's, name in hex."""
    return isinstance(value, str) and _COMMIT.fullmatch(value) is not None


def _pretty(value: Any, depth: int) -> str:
    """Return JSON with sorted keys where an object or list without others inside takes one line if it is a file's or short."""
    lines: list[str]
    if isinstance(value, dict) and any(isinstance(one, dict | list) for one in value.values()):
        lines = [f"{json.dumps(key, ensure_ascii=False)}: {_pretty(value[key], depth + 1)}" for key in sorted(value)]
        left, right = "{", "}"
    elif isinstance(value, list) and len(value) > 1:
        lines = [json.dumps(one, ensure_ascii=False) for one in value]
        left, right = "[", "]"
    else:
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    inner = "\n" + " " * (depth + 1)
    return left + inner + ("," + inner).join(lines) + "\n" + " " * depth + right
