"""Whether the files of finished stages are still the ones their manifests list, so that damage on a disk is met and not passed on."""

import argparse
import os
from collections.abc import Iterable, Iterator
from hashlib import file_digest
from pathlib import Path
from typing import Any

from evoaudit.errors import InputError
from evoaudit.jsonfile import read_json

MANIFEST = "manifest.json"
#: What a damaged file is called once it is out of the way; it is kept for whoever wants to know what happened to it.
ASIDE = ".damaged"


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


def refused(folder: Path, found: list[tuple[str, str]]) -> InputError:
    """Set damaged files of a folder aside and return the error that says so."""
    name, what = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    try:
        set_aside(folder, [name for name, _ in found])
    except OSError:
        mend = f"delete {folder} and run again"
    else:
        mend = f"what was there is set aside as {name}{ASIDE}: run again, and {folder} is made anew"
    return InputError(folder / name, what + more, mend)


def check_upstream(args: argparse.Namespace) -> None:
    """Compare every file of the finished stages a subcommand reads with its manifest, before it reads them.

    A folder without a manifest, as people may give by hand, is taken as it is.
    """
    given = [one for value in vars(args).values() for one in (value if isinstance(value, list) else [value])]
    manifests = dict.fromkeys(Path(one) for one in given if isinstance(one, str | Path) and Path(one).name == MANIFEST)
    for path in manifests:
        if path.is_file() and (found := list(faults(path.parent, listed(path)))):
            raise refused(path.parent, found)


def listed(path: Path) -> dict[str, str]:
    """Return file → sha256 as a manifest lists them; a manifest that lists none is refused."""
    manifest: Any = read_json(path)
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict) or not all(isinstance(sha256, str) and ".." not in name.split("/") for name, sha256 in files.items()):
        raise InputError(path, "is not the manifest of a stage", "delete its folder and run again")
    return files
