"""Multimodal-Mind2Web: Parquet shards with one row an action, and the whole page as it was before it.

Shards need not keep a task together. A first pass counts each task's rows by its id alone; a second one gathers the light
columns and lets a task go as soon as its last row has come, so that memory holds open tasks only. Screenshots are read when asked for.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evoaudit.errors import one_line
from evoaudit.sources import jsonio
from evoaudit.sources.base import Picture, Skipped, Step, Target, Trajectory

LICENSE: str | None = "openrail"
LAYOUT = "data/train-00000-of-00027-….parquet"

#: What the annotator did (``original_op``); the data set's own ``op`` folds the last two into CLICK.
ACTIONS = {"CLICK": "click", "TYPE": "type", "SELECT": "select", "HOVER": "hover", "ENTER": "key"}

_ID, _INDEX, _SCREENSHOT = "annotation_id", "target_action_index", "screenshot"
_LIGHT = (_ID, _INDEX, "operation", "pos_candidates", "website", "domain", "confirmed_task", "action_reprs", "target_action_reprs")
_BATCH = 64
#: Screenshots decoded at a time, and kept behind the last, so that threads a few tasks apart do not send each other back.
_AHEAD, _BEHIND = 8, 32
_FAULTS = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, MemoryError)

#: (shard, row in the shard, light columns)
_Row = tuple[str, int, dict[str, Any]]


def read(root: Path, options: dict) -> Iterator[Trajectory | Skipped]:
    """Yield one trajectory a task, in the order in which tasks are complete. ``options["split"]`` selects shards by name."""
    shards = [file for file in jsonio.files(root, ".parquet") if options.get("split") in (None, _split(file))]
    if options.get("split") and not shards:
        yield Skipped(f"{options['split']}-*.parquet", "no_shards", "no Parquet file of that split")
    expected: Counter[str] = Counter()
    good = []
    for file in shards:
        ids, fault = _count(root, file)
        expected.update(ids)
        if fault:
            yield fault
        else:
            good.append(file)
    waiting: dict[str, list[_Row]] = {}
    for file in good:
        for row in _rows(root, file):
            if isinstance(row, Skipped):
                yield row
                continue
            task = row[2][_ID]
            waiting.setdefault(task, []).append(row)
            expected[task] -= 1
            if expected[task] <= 0:
                yield _trajectory(root, task, waiting.pop(task))
    for task in sorted(waiting):  # some of its rows could not be read
        yield _trajectory(root, task, waiting[task])


def load(root: Path, file: str, member: str) -> bytes | None:
    """Return the encoded screenshot of a row (its number in the shard), or None where the row has none."""
    path = Path(root, file)
    status = path.stat()
    return _shard(str(path), status.st_mtime_ns, status.st_size).screenshot(int(member))


def _split(file: str) -> str:
    return file.rpartition("/")[2].removesuffix(".parquet").partition("-")[0]


def _count(root: Path, file: str) -> tuple[Counter[str], Skipped | None]:
    """Return task → rows in one shard, or why it cannot be read."""
    counts: Counter[str] = Counter()
    path = jsonio.regular(root, file)
    if isinstance(path, Skipped):
        return counts, path
    try:
        with pq.ParquetFile(path) as shard:
            if absent := {_ID, _INDEX, "operation"} - set(shard.schema_arrow.names):
                return counts, Skipped(file, "wrong_columns", f"not Multimodal-Mind2Web: no column {', '.join(sorted(absent))}")
            for group in range(shard.num_row_groups):
                counts.update(task for task in shard.read_row_group(group, columns=[_ID])[_ID].to_pylist() if isinstance(task, str))
    except _FAULTS as error:
        return Counter(), Skipped(file, "unreadable", one_line(str(error), 200))
    return counts, None


def _rows(root: Path, file: str) -> Iterator[_Row | Skipped]:
    """Yield the light columns of a shard's rows; a row group that cannot be decoded is left out."""
    with pq.ParquetFile(Path(root, file)) as shard:
        columns = [name for name in _LIGHT if name in shard.schema_arrow.names]
        start = 0
        for group in range(shard.num_row_groups):
            number, start = start, start + shard.metadata.row_group(group).num_rows
            try:
                for batch in shard.iter_batches(_BATCH, row_groups=[group], columns=columns, use_threads=False):
                    for record in batch.to_pylist():
                        if isinstance(record[_ID], str) and record[_ID]:
                            yield file, number, record
                        else:
                            yield Skipped(f"{file}#{number}", "no_id", "a row without annotation_id", "step")
                        number += 1
            except _FAULTS as error:
                detail = f"{start - number} rows cannot be decoded: {one_line(str(error), 200)}"
                yield Skipped(f"{file}#{number}", "unreadable", detail, "step")


def _trajectory(root: Path, task: str, rows: list[_Row]) -> Trajectory:
    first = rows[0][2]
    domain = jsonio.as_str(first.get("domain"))
    found = Trajectory(
        native_id=task,
        steps=[],
        source_file=rows[0][0],
        obs_phase="before",
        benchmark="mind2web",
        task_id=task,
        experiment=_split(rows[0][0]),
        domain=domain and domain.lower(),
        website=jsonio.as_str(first.get("website")),
        instruction=jsonio.as_str(first.get("confirmed_task")),
        license=LICENSE,
    )
    by_index: dict[int, _Row] = {}
    for row in rows:
        index = _number(row[2][_INDEX])
        if index is None or index < 0 or index in by_index:
            reason = "bad_index" if index is None or index < 0 else "duplicate_index"
            found.skipped.append(("step", f"{row[0]}#{row[1]}", reason, f"{_INDEX} {one_line(str(row[2][_INDEX]), 60)}"))
        else:
            by_index[index] = row
    length = len(jsonio.as_list(first.get("action_reprs")))
    next_index = 0
    for index in [*sorted(by_index), max(length, *(i + 1 for i in by_index), 0)]:
        if index > next_index:
            found.skipped.append(("step", f"{task}#{next_index}", "row_missing", f"actions {next_index} to {index - 1} have no row"))
        if index in by_index:
            found.steps.append(_step(root, by_index[index]))
        next_index = index + 1
    return found


def _step(root: Path, row: _Row) -> Step:
    file, number, record = row
    raw = record.get("operation")
    operation = jsonio.as_dict(jsonio.parse(raw, file) if isinstance(raw, str) else raw)
    verb = jsonio.as_str(operation.get("original_op"))
    if verb not in ACTIONS:
        verb = jsonio.as_str(operation.get("op"))
    value = jsonio.as_str(operation.get("value"))
    if verb == "ENTER":
        value = "Enter"
    elif verb not in ("TYPE", "SELECT"):
        value = None
    return Step(
        op=ACTIONS.get(verb or "", "other"),
        op_raw=None if raw is None else jsonio.dump(raw),
        value=value or None,
        source_step=_first(record[_INDEX]),
        target=_target(record, verb, value),
        before=Picture(file, str(number), partial(load, root, file, str(number))),
    )


def _target(record: dict, verb: str | None, value: str | None) -> Target | None:
    """Return the element's box (page pixels are picture pixels) and its text as in ``[role]  text -> OP: value``."""
    text = jsonio.as_str(record.get("target_action_reprs"))
    if text is None:
        index, listed = _number(record[_INDEX]), jsonio.as_list(record.get("action_reprs"))
        text = jsonio.as_str(listed[index]) if index is not None and 0 <= index < len(listed) else None
    if text is not None:
        ending = f" -> {verb}: {value}" if value else f" -> {verb}"
        text = text.removesuffix(ending) if text.endswith(ending) else text.rpartition(" -> ")[0] or text
    text = text.strip() or None if text else None
    if box := _box(jsonio.as_list(record.get("pos_candidates"))):
        left, top, width, height = box
        return Target(left=left, top=top, width=width, height=height, text=text)
    return Target(text=text) if text else None


def _box(candidates: list) -> tuple[float, float, float, float] | None:
    """Return (left, top, width, height) of the target: the annotator's element, else its top-level twin, else the first."""
    parsed = [jsonio.as_dict(jsonio.parse(one, "candidate") if isinstance(one, str) else one) for one in candidates[:1000]]
    flags: tuple[Callable[[dict], bool], ...] = (
        lambda one: jsonio.as_bool(one.get("is_original_target")) is True,
        lambda one: jsonio.as_bool(one.get("is_top_level_target")) is True,
        lambda one: True,
    )
    chosen = next((one for flag in flags for one in parsed if flag(one)), {})
    attributes = chosen.get("attributes")
    attributes = jsonio.as_dict(jsonio.parse(attributes, "attributes") if isinstance(attributes, str) else attributes)
    numbers = [jsonio.as_float(part) for part in (jsonio.as_str(attributes.get("bounding_box_rect")) or "").split(",")[:5]]
    return tuple(numbers) if len(numbers) == 4 and None not in numbers else None


def _first(index: object) -> str | None:
    """Return the index as written; older revisions wrap it in a list."""
    return jsonio.as_str(index[0] if isinstance(index, list) and len(index) == 1 else index)


def _number(index: object) -> int | None:
    return jsonio.as_int(_first(index))


class _Shard:
    """Screenshots of one shard, decoded forward in small batches, because rows are asked for more or less in order."""

    def __init__(self, path: str) -> None:
        self._file = pq.ParquetFile(path, pre_buffer=False, buffer_size=2**20)
        self._lock = threading.Lock()
        self._starts = [0]
        for group in range(self._file.num_row_groups):
            self._starts.append(self._starts[-1] + self._file.metadata.row_group(group).num_rows)
        self._group, self._next, self._kept = -1, 0, {}
        self._batches: Iterator[pa.RecordBatch] = iter(())

    def screenshot(self, row: int) -> bytes | None:
        with self._lock:
            if row not in self._kept:
                try:
                    self._seek(row)
                except _FAULTS as error:
                    self._group = -1
                    raise OSError(f"row {row} cannot be decoded: {one_line(str(error), 200)}") from None
            value = self._kept.get(row)
        value = value.get("bytes") if isinstance(value, dict) else value
        return value if isinstance(value, bytes) else None

    def _seek(self, row: int) -> None:
        group = next((g for g in range(len(self._starts) - 1) if self._starts[g] <= row < self._starts[g + 1]), None)
        if group is None:
            return
        if group != self._group or row < self._next:
            self._group, self._next = group, self._starts[group]
            self._batches = self._file.iter_batches(_AHEAD, row_groups=[group], columns=[_SCREENSHOT], use_threads=False)
        for batch in self._batches:
            begin, self._next = self._next, self._next + batch.num_rows
            if row < self._next:
                old = {number: value for number, value in self._kept.items() if begin - _BEHIND <= number < begin}
                self._kept = old | dict(zip(range(begin, self._next), batch.column(0).to_pylist(), strict=True))
                return


@lru_cache(maxsize=4)
def _shard(path: str, _modified: int, _size: int) -> _Shard:
    return _Shard(path)
