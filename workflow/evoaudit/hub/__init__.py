"""Public data sets on the hub: what was downloaded is pinned in a lock file, and found again without a network."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoaudit.errors import InputError
from evoaudit.fingerprint import IGNORED
from evoaudit.hub import lock, select
from evoaudit.hub.lock import File
from evoaudit.hub.storage import folder_of


@dataclass(frozen=True)
class Located:
    """Where a locked selection is, or will be, and what is in it. ``license`` is as the hub told it."""

    folder: Path
    commit: str
    files: Mapping[str, File]
    license: str | None


def located(lock_path: Path, store: Path, kind: str, repo: str | None, revision: str, options: Mapping[str, Any]) -> Located | None:
    """Return the place and contents of what kind and options need, or None if that was never downloaded."""
    repo = select.repo_of(kind, repo)
    entry = lock.entry(lock.read(lock_path), repo, revision)
    chosen = None if entry is None else entry.selections.get(select.key(kind, options))
    if chosen is None:
        return None
    if lost := [path for path in chosen if path not in entry.files] or ([] if chosen else ["any file"]):
        where = f"{lock_path}: {repo}@{revision}"
        raise InputError(where, f"does not list {lost[0]}", "restore the lock file, or remove this entry and run `snakemake download`")
    return Located(folder_of(store, repo, entry.commit, chosen), entry.commit, {path: entry.files[path] for path in chosen}, entry.license)


def contents(files: Mapping[str, File]) -> str:
    """Return what `evoaudit.fingerprint.fingerprint` returns for a folder of exactly these files."""
    total = hashlib.sha256()
    for path in sorted(files):
        if not any(part in IGNORED or part.startswith("._") for part in path.split("/")):
            size, sha256 = files[path]
            total.update(f"{path}\0{size}\0{sha256}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()
