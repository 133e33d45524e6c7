"""Digest of a folder's contents, so that edited raw data makes a new key and an untouched folder never does.

Every file is hashed once; afterwards a file whose size and modification time are unchanged keeps its recorded hash.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from evoaudit.wholefile import write_whole

#: Never part of a data set.
IGNORED = frozenset({".cache", ".git", ".DS_Store", "__MACOSX", "__pycache__"})


def walk(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield (relative posix path, stat) of every regular file under ``root``; links are not followed."""
    stack = [""]
    while stack:
        relative = stack.pop()
        with os.scandir(root / relative) as entries:
            for entry in entries:
                if entry.name in IGNORED or entry.name.startswith("._"):
                    continue
                path = f"{relative}/{entry.name}" if relative else entry.name
                if entry.is_dir(follow_symlinks=False):
                    stack.append(path)
                elif entry.is_file(follow_symlinks=False):
                    yield path, entry.stat(follow_symlinks=False)


def fingerprint(root: Path, memory: Path | None = None) -> str | None:
    """Return 64 hex digits over every file's relative path, size and content; None if ``root`` does not exist.

    ``memory`` is a folder where the hashes of this root are remembered between calls.
    """
    root = Path(root)
    if root.is_file():
        return _sha256(root)
    if not root.is_dir():
        return None
    files = sorted(walk(root), key=lambda pair: pair[0])
    store = (
        None
        if memory is None
        else Path(memory) / (hashlib.sha256(str(root.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16] + ".json")
    )
    known = _recall(store)
    fresh = {path: (stat.st_size, stat.st_mtime_ns) for path, stat in files}
    stale = [path for path, mark in fresh.items() if path not in known or tuple(known[path][:2]) != mark]
    with ThreadPoolExecutor(max_workers=4) as pool:
        for path, digest in zip(stale, pool.map(lambda path: _sha256(root / path), stale), strict=True):
            known[path] = [*fresh[path], digest]
    if store is not None and (stale or len(known) != len(fresh)):
        held = {path: known[path] for path in fresh}
        write_whole(store, json.dumps({"files": held, "checksum": _checksum(held)}))
    total = hashlib.sha256()
    for path, (size, _) in fresh.items():
        total.update(f"{path}\0{size}\0{known[path][2]}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def _recall(store: Path | None) -> dict:
    """Return what is remembered; what has changed since it was written would rename, and remake, everything, so it is forgotten."""
    try:
        found = json.loads(store.read_text()) if store is not None else None
        return found["files"] if found and found["checksum"] == _checksum(found["files"]) else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _checksum(held: dict) -> str:
    return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
