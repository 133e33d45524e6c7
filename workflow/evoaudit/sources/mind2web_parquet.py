"""Multimodal-Mind2Web's Parquet shards: one row an action, with the whole page as it was before it.

Shards need not keep a task together. A first pass counts each task's rows by its id alone; a second one gathers the light
columns and lets a task go as soon as its last row has come, so that memory holds open tasks only. Screenshots are decoded
page by page when they are asked for; a file whose writer put a whole row group into one page needs that page in memory.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evoaudit.errors import one_line
from evoaudit.sources import jsonio
from evoaudit.sources.base import Skipped

ID, INDEX, SCREENSHOT = "annotation_id", "target_action_index", "screenshot"
_LIGHT = (
    ID,
    INDEX,
    "action_uid",
    "operation",
    "pos_candidates",
    "website",
    "domain",
    "confirmed_task",
    "action_reprs",
    "target_action_reprs",
)
_BATCH, _BUFFER = 64, 2**20
#: Screenshots decoded at a time, and kept behind the last, so that requests a few tasks apart do not send each other back.
_AHEAD, _BEHIND, _BEHIND_BYTES = 8, 32, 64 * 2**20


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its shard, its number there, its light columns, and whether the shard has screenshots."""

    file: str
    number: int
    record: dict[str, Any]
    pictured: bool

    @property
    def item(self) -> str:
        return f"{self.file}#{self.number}"


class Shards:
    """The Parquet files under a root that were chosen; ``ids`` counts the rows of each task in those that can be read."""

    def __init__(self, root: Path, files: list[str]) -> None:
        self.root, self.ids = root, Counter[str]()
        self.faults: list[Skipped] = []
        self._good: list[str] = []
        for file in files:
            ids, fault = _count(root, file)
            if fault is None:
                self.ids.update(ids)
                self._good.append(file)
            else:
                self.faults.append(fault)

    def tasks(self) -> Iterator[tuple[str, list[Row]] | Skipped]:
        """Yield each task with its rows, in the order in which tasks are complete."""
        expected = self.ids.copy()
        waiting: dict[str, list[Row]] = {}
        for file in self._good:
            for row in _rows(self.root, file):
                if isinstance(row, Skipped):
                    yield row
                    continue
                task = row.record[ID]
                waiting.setdefault(task, []).append(row)
                expected[task] -= 1
                if expected[task] <= 0:
                    yield task, waiting.pop(task)
        yield from sorted(waiting.items(), key=lambda pair: pair[0])  # some of their rows could not be read


def screenshot(path: Path, row: int) -> bytes | None:
    """Return the encoded screenshot of a shard's row, or None where the row has none."""
    status = path.stat()
    return _shard(str(path), status.st_mtime_ns, status.st_size).screenshot(row)


def first(index: object) -> str | None:
    """Return the index as written; older revisions wrap it in a list."""
    return jsonio.as_str(index[0] if isinstance(index, list) and len(index) == 1 else index)


def _count(root: Path, file: str) -> tuple[Counter[str], Skipped | None]:
    """Return task → rows in one shard, or why it cannot be read."""
    counts: Counter[str] = Counter()
    path = jsonio.regular(root, file)
    if isinstance(path, Skipped):
        return counts, path
    try:
        with open(path, "rb") as handle:
            if handle.read(len(jsonio.LFS_MAGIC)) == jsonio.LFS_MAGIC:
                return counts, Skipped(file, "lfs_pointer", jsonio.LFS_ADVICE)
        with pq.ParquetFile(path, buffer_size=_BUFFER) as shard:
            if absent := {ID, INDEX, "operation"} - set(shard.schema_arrow.names):
                return counts, Skipped(file, "wrong_columns", f"not Multimodal-Mind2Web: no column {', '.join(sorted(absent))}")
            if shard.metadata.num_rows == 0:
                return counts, Skipped(file, "no_rows", "a shard without rows", "row")
            for batch in shard.iter_batches(4096, columns=[ID], use_threads=False):
                counts.update(task for task in batch.column(0).to_pylist() if isinstance(task, str) and task)
    except Exception as error:  # the library may raise anything over damaged files
        return Counter(), Skipped(file, "unreadable", one_line(str(error), 200))
    return counts, None


def _rows(root: Path, file: str) -> Iterator[Row | Skipped]:
    """Yield the light columns of a shard's rows; what is left of a row group that cannot be decoded is left out."""
    with pq.ParquetFile(Path(root, file), buffer_size=_BUFFER) as shard:
        names = shard.schema_arrow.names
        columns, pictured = [name for name in _LIGHT if name in names], SCREENSHOT in names
        start = 0
        for group in range(shard.num_row_groups):
            number, start = start, start + shard.metadata.row_group(group).num_rows
            try:
                for batch in shard.iter_batches(_BATCH, row_groups=[group], columns=columns, use_threads=False):
                    for record in batch.to_pylist():
                        if isinstance(record[ID], str) and record[ID]:
                            yield Row(file, number, record, pictured)
                        else:
                            yield Skipped(f"{file}#{number}", "no_id", "a row without annotation_id", "step")
                        number += 1
            except Exception as error:  # the library may raise anything over damaged pages
                detail = f"{start - number} rows cannot be decoded: {one_line(str(error), 200)}"
                yield Skipped(f"{file}#{number}", "unreadable", detail, "step")


class _Shard:
    """Screenshots of one shard, decoded forward in small batches, because rows are asked for more or less in order."""

    def __init__(self, path: str) -> None:
        self._file = pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER)
        self._lock = threading.Lock()
        self._starts = [0]
        for group in range(self._file.num_row_groups):
            self._starts.append(self._starts[-1] + self._file.metadata.row_group(group).num_rows)
        self._group, self._next = -1, 0
        #: Row → encoded screenshot, in the order of rows.
        self._kept: dict[int, bytes | None] = {}
        self._batches: Iterator[pa.RecordBatch] = iter(())

    def screenshot(self, row: int) -> bytes | None:
        with self._lock:
            if row not in self._kept:
                try:
                    self._seek(row)
                except Exception as error:  # the library may raise anything over damaged pages
                    self._group, self._batches = -1, iter(())
                    raise OSError(f"row {row} cannot be decoded: {one_line(str(error), 200)}") from None
            return self._kept.get(row)

    def _seek(self, row: int) -> None:
        group = next((g for g in range(len(self._starts) - 1) if self._starts[g] <= row < self._starts[g + 1]), None)
        if group is None:
            return
        if group != self._group or row < self._next:
            self._group, self._next = group, self._starts[group]
            self._batches = self._file.iter_batches(_AHEAD, row_groups=[group], columns=[SCREENSHOT], use_threads=False)
        for batch in self._batches:
            begin, self._next = self._next, self._next + batch.num_rows
            if row < self._next:
                self._keep(begin, [_encoded(value) for value in batch.column(0).to_pylist()])
                break
        if self._next >= self._starts[group + 1]:
            self._group, self._batches = -1, iter(())  # lets go of the group's pages

    def _keep(self, begin: int, batch: list[bytes | None]) -> None:
        """Keep a batch, and of the rows right behind it the nearest ones, so far as they are few and small."""
        behind: list[tuple[int, bytes | None]] = []
        size = 0
        for number in takewhile(self._kept.__contains__, range(begin - 1, begin - 1 - _BEHIND, -1)):
            size += len(self._kept[number] or b"")
            if size > _BEHIND_BYTES:
                break
            behind.append((number, self._kept[number]))
        self._kept = dict(behind) | dict(enumerate(batch, begin))


def _encoded(value: object) -> bytes | None:
    value = value.get("bytes") if isinstance(value, dict) else value
    return value if isinstance(value, bytes) else None


@lru_cache(maxsize=4)
def _shard(path: str, _modified: int, _size: int) -> _Shard:
    return _Shard(path)
