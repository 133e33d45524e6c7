"""Answers of all models to all items: outcomes as characters, and what was said, read item by item from files that are sorted by model."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evoaudit import store
from evoaudit.conditions import NAMES

#: One character an outcome: right; of T2 the action alone; wrong; an answer nobody can use; no answer; not asked.
RIGHT, ACTION, WRONG, UNUSABLE, NONE, NOT_ASKED = "1a0x- "
#: Rows of one file held at a time.
BATCH = 512
_WHO = ("model", "condition", "max_image_side", "run")
_SCORED = ("answer", "confidence", "tau")
_SAID = (*_WHO, "task", "instance_id", "pictures_of", "raw", "status", "finish_reason", "error", "prompt")


@dataclass(frozen=True, order=True)
class Asking:
    """One way a model was asked, in the order of the page: condition, picture size, model, replicate."""

    place: int
    condition: str
    side: int
    model: str
    run: int

    @property
    def group(self) -> tuple[str, int]:
        return self.condition, self.side


def asking(row: Mapping[str, Any]) -> Asking:
    """Return how a row of scores or predictions was asked."""
    condition = row["condition"]
    place = NAMES.index(condition) if condition in NAMES else len(NAMES)
    return Asking(place, condition, row["max_image_side"], row["model"], row["run"])


def names_of(items: Sequence[Mapping[str, Any]]) -> pa.Array:
    """Return what items are found by."""
    return pa.array([f"{item['task']}/{item['instance_id']}" for item in items], pa.string())


def _places(table: pa.Table, names: pa.Array) -> np.ndarray:
    """Return the item each row is about, -1 where it is none."""
    said = pc.binary_join_element_wise(table["task"], table["instance_id"], "/")
    found = pc.fill_null(pc.index_in(said, value_set=names), -1)
    return found.to_numpy(zero_copy_only=False).astype(np.int64)


class Scores:
    """Scores by item: every way a model was asked, and what came of it."""

    def __init__(self, folder: Path | None, names: pa.Array) -> None:
        self.askings: list[Asking] = []
        #: Asking → one character an item.
        self.outcomes: dict[Asking, np.ndarray] = {}
        self._table: pa.Table | None = None
        self._starts = np.zeros(len(names) + 1, np.int64)
        if folder is None:
            return
        columns = [*_WHO, "task", "instance_id", "status", "correct", "action_correct", *_SCORED]
        table = store.read_table(folder, "scores", columns)
        kept = _places(table, names)
        table, kept = table.filter(pa.array(kept >= 0)), kept[kept >= 0]
        codes = _codes(table)
        for identity, rows in _askings(table).items():
            found = np.full(len(names), NOT_ASKED, "<U1")
            found[kept[rows]] = codes[rows]
            self.outcomes[identity] = found
        self.askings = sorted(self.outcomes)
        order = np.argsort(kept, kind="stable")
        self._table = table.select([*_WHO, *_SCORED]).take(pa.array(order))
        self._starts = np.searchsorted(kept[order], np.arange(len(names) + 1))

    def take(self, first: int, last: int) -> list[dict[Asking, dict[str, Any]]]:
        """Return how items ``first`` up to ``last`` were answered, as parsed, by who was asked how."""
        if self._table is None:
            return [{} for _ in range(first, last)]
        start = int(self._starts[first])
        rows = self._table.slice(start, int(self._starts[last]) - start).to_pylist()
        found = []
        for item in range(first, last):
            some = rows[int(self._starts[item]) - start : int(self._starts[item + 1]) - start]
            found.append({asking(row): {name: row[name] for name in _SCORED} for row in some})
        return found


def _codes(table: pa.Table) -> np.ndarray:
    """Return the outcome of every row."""
    status = np.asarray(table["status"].to_pylist(), "<U16")
    right = table["correct"].to_numpy(zero_copy_only=False).astype(bool)
    action = pc.fill_null(table["action_correct"], False).to_numpy(zero_copy_only=False).astype(bool)
    answered = np.where(right, RIGHT, np.where(action, ACTION, WRONG))
    return np.where(status == "unanswered", NONE, np.where(status == "invalid", UNUSABLE, answered))


def _askings(table: pa.Table) -> dict[Asking, np.ndarray]:
    """Return the rows of every way a model was asked."""
    numbered = table.select(_WHO).append_column("row", pa.array(np.arange(table.num_rows)))
    grouped = numbered.group_by(list(_WHO)).aggregate([("row", "list")])
    return {asking(row): np.asarray(row["row_list"], np.int64) for row in grouped.to_pylist()}


class Said:
    """Raw answers by item: of each file a few rows are in memory, where it is sorted by item."""

    def __init__(self, folders: Sequence[Path], names: pa.Array) -> None:
        self._files = [_File(folder, names) for folder in folders]

    def take(self, first: int, last: int) -> list[dict[Asking, dict[str, Any]]]:
        """Return what was said about items ``first`` up to ``last``; items are asked for once, in order."""
        found: list[dict[Asking, dict[str, Any]]] = [{} for _ in range(first, last)]
        for file in self._files:
            for item, row in file.take(first, last):
                found[item - first][asking(row)] = row
        return found


class _File:
    """One file of predictions."""

    def __init__(self, folder: Path, names: pa.Array) -> None:
        file = pq.ParquetFile(store.table_file(folder, "predictions"), pre_buffer=False)
        self._places = _places(file.read(columns=["task", "instance_id"], use_threads=False), names)
        self._left = np.bincount(self._places[self._places >= 0], minlength=len(names))
        self._batches = file.iter_batches(batch_size=BATCH, columns=list(_SAID), use_threads=False)
        self._read = 0
        self._held: dict[int, list[dict[str, Any]]] = defaultdict(list)

    def take(self, first: int, last: int) -> Iterator[tuple[int, dict[str, Any]]]:
        wanted = int(self._left[first:last].sum()) - sum(len(self._held.get(item, ())) for item in range(first, last))
        while wanted > 0:
            batch = next(self._batches)
            places = self._places[self._read : self._read + batch.num_rows]
            self._read += batch.num_rows
            for item, row in zip(places.tolist(), batch.to_pylist(), strict=True):
                if item >= first:
                    self._held[item].append(row)
                    wanted -= item < last
        for item in range(first, last):
            for row in self._held.pop(item, ()):
                yield item, row
