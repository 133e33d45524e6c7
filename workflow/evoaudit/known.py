"""What finished normalise folders already know, so that a rerun pays for new pictures only.

Everything kept here is a function of file contents: what a picture's bytes decode to, and what differs between two decoded
pictures. It is copied into one small database, so that memory stays bounded and worker processes can share it.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from evoaudit.identity import FORMAT
from evoaudit.pictures import Inspected
from evoaudit.store import packages, sha256_file

#: Packages that decode and describe pictures: knowledge gained with other versions is not used.
DECODERS = ("numpy", "pillow", "scipy")

_MANIFEST_LIMIT = 64 * 2**20
_LOOKS = ["file_sha256", "image_id", "width", "height", "format", "phash", "blank", "status"]
_CHANGE = ["state", "changed_pixels", "changed_tiles", "tiles_x", "tiles_y", "tiles"]


class Known:
    """Look up pictures by the hash of their files, and changes by the ids of their two pictures."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)

    def look(self, file_sha256: str) -> Inspected | None:
        """Return what a file with this hash decodes to, without its pixels; None if it was never met."""
        row = self._database.execute("SELECT * FROM looks WHERE sha = ?", (bytes.fromhex(file_sha256),)).fetchone()
        return None if row is None else Inspected("ok", row[1], file_sha256, *row[2:])

    def change(self, before: str, after: str) -> dict | None:
        """Return the measured columns of a `changes` row; None if this pair was never measured."""
        row = self._database.execute("SELECT * FROM pairs WHERE pair = ?", (_pair(before, after),)).fetchone()
        return None if row is None else dict(zip(_CHANGE, ("changed", *row[1:]), strict=True))


def beside(out: Path, source: str, kind: str) -> list[Path]:
    """Return the finished folders beside ``out`` that hold the same source, whole and made by the same decoders."""
    mine = {name: packages().get(name) for name in DECODERS}
    found = []
    for path in sorted(Path(out).absolute().parent.glob("*/manifest.json")):
        try:
            if not path.is_file() or path.stat().st_size > _MANIFEST_LIMIT:
                continue
            manifest = json.loads(path.read_text(encoding="utf-8"))
            config, theirs = manifest["config"], {name: manifest["packages"].get(name) for name in DECODERS}
            files = {name: manifest["files"][name] for name in ("images.parquet", "steps.parquet", "changes.parquet")}
            alike = manifest["format_version"] == FORMAT["normalise"] and (config["source"], config["kind"], theirs) == (source, kind, mine)
            if alike and all(
                (path.parent / name).is_file() and sha256_file(path.parent / name) == digest for name, digest in files.items()
            ):
                found.append(path.parent)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue  # half a folder, or somebody else's
    return found


def gather(folders: Iterable[Path], path: Path) -> Path | None:
    """Copy what ``folders`` know into a database at ``path``; None if that is nothing.

    A folder that goes or changes meanwhile, and a database that cannot be written, only cost time.
    """
    count = 0
    try:
        with closing(sqlite3.connect(path)) as database:
            database.executescript(
                "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
                "CREATE TABLE looks (sha BLOB PRIMARY KEY, image_id, width, height, format, phash, blank) WITHOUT ROWID;"
                "CREATE TABLE pairs (pair BLOB PRIMARY KEY, changed_pixels, changed_tiles, tiles_x, tiles_y, tiles) WITHOUT ROWID;"
            )
            for folder in folders:
                for rows, insert in (
                    (_looks(folder), "INSERT OR IGNORE INTO looks VALUES (?, ?, ?, ?, ?, ?, ?)"),
                    (_pairs(folder), "INSERT OR IGNORE INTO pairs VALUES (?, ?, ?, ?, ?, ?)"),
                ):
                    with suppress(OSError, ValueError, KeyError, pa.ArrowException):
                        count += database.executemany(insert, rows).rowcount
            database.commit()
    except sqlite3.Error:
        return None
    return path if count > 0 else None


def _looks(folder: Path) -> Iterator[tuple]:
    for row in _rows(folder / "images.parquet", _LOOKS):
        sha, *rest, status = row
        if status == "ok" and sha:
            yield bytes.fromhex(sha), *rest


def _pairs(folder: Path) -> Iterator[tuple]:
    """Yield measured pairs; `steps` and `changes` hold the same steps in the same order."""
    steps = _rows(folder / "steps.parquet", ["before_image", "after_image", "trajectory_id", "step"])
    changes = _rows(folder / "changes.parquet", ["trajectory_id", "step", *_CHANGE])
    for (before, after, *step), (*again, state, pixels, tiles, across, down, bitmap) in zip(steps, changes, strict=True):
        if step != again:
            return
        if state == "changed" and before and after:
            yield _pair(before, after), pixels, tiles, across, down, bitmap


def _rows(path: Path, columns: list[str]) -> Iterator[tuple]:
    with pq.ParquetFile(path) as table:
        for batch in table.iter_batches(4096, columns=columns, use_threads=False):
            yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)


def _pair(before: str, after: str) -> bytes:
    return hashlib.blake2b(f"{before} {after}".encode(), digest_size=16).digest()
