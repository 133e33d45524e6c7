"""Whether the files of finished stages are still the ones their manifests list, so that damage on a disk is met and not passed on."""

import argparse
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import file_digest
from pathlib import Path
from typing import Any

from evoaudit.errors import InputError
from evoaudit.fingerprint import fingerprint
from evoaudit.identity import FORMAT
from evoaudit.jsonfile import read_json

MANIFEST = "manifest.json"
#: Field of a manifest: the sha256 of all its other fields.
CHECKSUM = "checksum"
#: A stage's own list of the files its manifest does not name one by one.
LISTING = "files.sha256"
#: What a damaged file is called once it is out of the way; it is kept for whoever wants to know what happened to it.
ASIDE = ".damaged"
#: What names a stage's folder, see `evoaudit.identity.make_key`.
KEY = re.compile(r"[0-9a-f]{10}(-s\d+)?")
_SHA256 = re.compile("[0-9a-f]{64}")


class Damaged(InputError):
    """A file of a finished stage is no longer what the stage wrote."""


def checksum(manifest: Mapping[str, Any]) -> str:
    """Return the sha256 of a manifest's fields but for the checksum itself, whatever their order and spacing."""
    told = {name: value for name, value in manifest.items() if name != CHECKSUM}
    return hashlib.sha256(json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_manifest(path: Path) -> dict[str, Any]:
    """Return a manifest; one that is none, or has changed since it was written, is refused."""
    manifest: Any = read_json(path)
    if not isinstance(manifest, dict):
        raise InputError(path, "not a JSON object", "delete its folder and run again")
    if CHECKSUM in manifest and manifest[CHECKSUM] != checksum(manifest):
        raise InputError(path, "has changed since it was written", "delete its folder and run again")
    return manifest


def faults(folder: Path, files: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (file, what is wrong with it) of every listed file that is missing, cannot be read or has another sha256."""
    for name, sha256 in files.items():
        try:
            with open(folder / name, "rb") as handle:
                found = file_digest(handle, "sha256").hexdigest()
        except FileNotFoundError:
            yield name, "is missing"
        except OSError as error:
            yield name, f"cannot be read ({(error.strerror or 'input/output error').lower()})"
        else:
            if found != sha256:
                yield name, f"differs from its {MANIFEST}"


def set_aside(folder: Path, names: Iterable[str]) -> None:
    """Rename damaged files and remove their folder's manifest, so that the next run makes the folder anew."""
    for name in names:
        try:
            os.replace(folder / name, folder / f"{name}{ASIDE}")
        except FileNotFoundError:  # it was missing, or another job was first
            continue
    (folder / MANIFEST).unlink(missing_ok=True)


def refused(folder: Path, found: list[tuple[str, str]]) -> Damaged:
    """Set damaged files of a folder aside and return the error that says so."""
    name, what = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    try:
        set_aside(folder, [name for name, _ in found])
    except OSError:
        mend = f"delete {folder} and run again"
    else:
        mend = f"what was there is set aside as {name}{ASIDE}: run again, and {folder} is made anew"
    return Damaged(folder / name, what + more, mend)


def check_upstream(args: argparse.Namespace) -> None:
    """Compare every file of the finished stages a subcommand reads with its manifest, before it reads them.

    A folder without a manifest, as people may give by hand, is taken as it is. Of a folder inside a stage's, as the source of a
    simulated corpus is, the files below it are compared.
    """
    given = [one for value in vars(args).values() for one in (value if isinstance(value, list) else [value])]
    paths = [Path(one) for one in given if isinstance(one, str | Path)]
    for path in dict.fromkeys(path for path in paths if path.name == MANIFEST):
        if path.is_file() and (found := list(faults(path.parent, told(path)))):
            raise refused(path.parent, found)
    if isinstance(root := getattr(args, "root_folder", None), Path) and (folder := stage_of(root)):
        inside = [path.relative_to(folder).as_posix() for path in paths if path != root and stage_of(path) == folder]
        within = f"{root.relative_to(folder).as_posix()}/"
        files = told(folder / MANIFEST)
        wanted = {name: sha256 for name, sha256 in files.items() if name in (LISTING, *inside) or name.startswith(within)}
        found = list(faults(folder, wanted))
        if LISTING in files and LISTING not in dict(found):
            found += _faults(folder, {name: sha256 for name, sha256 in listing(folder).items() if name.startswith(within)}, args)
        if found:
            raise refused(folder, found)


def check_given(args: argparse.Namespace) -> None:
    """Compare the users' own files that a subcommand reads with what its key was made of: an edit since then belongs to another key."""
    settings = getattr(args, "settings", None) or {}
    t3 = settings.get("t3")
    told = {name: settings.get(name) for name in ("prompts", "frame", "labels", "tasks", "measured")}
    told["reviewed"] = t3.get("reviewed") if isinstance(t3, dict) else None
    for name, wanted in told.items():
        given = getattr(args, name, None)
        paths = [Path(one) for one in (given if isinstance(given, list) else [given]) if one]
        digests = sorted(wanted if isinstance(wanted, list) else [wanted] if wanted else [])
        if paths and digests and all(isinstance(one, str) and _SHA256.fullmatch(one) for one in digests):
            found = sorted({fingerprint(path) or "gone" for path in paths})
            if found != sorted({*digests}):
                where = paths[0] if len(paths) == 1 else f"--{name}"
                raise InputError(where, "has changed or vanished since the run was planned", "start the workflow again: it plans anew")


def _faults(folder: Path, files: dict[str, str], args: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the faults of very many files, some compared at a time."""
    with ThreadPoolExecutor(max(1, getattr(args, "threads", 1))) as pool:
        return [fault for found in pool.map(lambda pair: list(faults(folder, dict([pair]))), files.items()) for fault in found]


def stage_of(path: Path) -> Path | None:
    """Return the finished stage's folder that a path lies in; None if it lies in none."""
    return next((folder for folder in path.parents if _of_stage(folder) and (folder / MANIFEST).is_file()), None)


def _of_stage(folder: Path) -> bool:
    """Tell a stage's folder by its name from one of the user's, of which nothing is ever set aside."""
    return folder.parent.name in FORMAT and KEY.fullmatch(folder.name) is not None


def lost(root: Path, file: str, what: str) -> Damaged | None:
    """Set a file aside that a finished stage wrote and return the error that says so; None if no stage wrote it."""
    path = Path(root) / file
    folder = stage_of(path)
    if folder is None:
        return None
    name = path.relative_to(folder).as_posix()
    files = told(folder / MANIFEST)
    if LISTING in files and (folder / LISTING).is_file():
        files = files | listing(folder)
    return refused(folder, [(name, what)]) if name in files else None


def told(path: Path) -> dict[str, str]:
    """Return file → sha256 as a manifest lists them; a damaged manifest of a stage is set aside, and made anew by the next run."""
    try:
        return listed(path)
    except InputError as error:
        if _of_stage(path.parent):
            raise refused(path.parent, [(path.name, error.what)]) from None
        raise


def below(name: str) -> bool:
    """Tell whether a name leads nowhere but into the folder it is relative to: manifests come with results, also from strangers."""
    return bool(name) and not name.startswith("/") and ".." not in name.split("/") and "\0" not in name


def listed(path: Path) -> dict[str, str]:
    """Return file → sha256 as a manifest lists them; a manifest that lists none is refused."""
    files = read_manifest(path).get("files")
    if not isinstance(files, dict) or not all(isinstance(sha256, str) and below(name) for name, sha256 in files.items()):
        raise InputError(path, "is not the manifest of a stage", "delete its folder and run again")
    return files


def listing(folder: Path) -> dict[str, str]:
    """Return file → sha256 of a stage's own list."""
    pairs = (line.split("  ", 1) for line in (folder / LISTING).read_text(encoding="utf-8").splitlines())
    return {pair[1]: pair[0] for pair in pairs if len(pair) == 2 and below(pair[1])}
