"""From a reader's records to the shared schema: identities, adjacency, pictures, what changed, and a reason for all that is left out.

Memory is bounded by a few trajectories and light rows a picture, whatever the size of the source. The output is a function
of the source alone: not of threads, and not of the order in which records lie in it.
"""

import hashlib
import math
import unicodedata
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evoaudit import pictures, schema, store
from evoaudit.actions import OPS
from evoaudit.align import Aligned, align
from evoaudit.errors import InputError, one_line
from evoaudit.pictures import Inspected
from evoaudit.sources import MODULES, jsonio, reader
from evoaudit.sources.base import Annotation, Picture, Skipped, Step, Trajectory
from evoaudit.store import ROW_GROUP, Counts, TableWriter, text

#: Characters kept of a source's free texts; longer ones end in an ellipsis.
TEXT_LIMIT = 20_000
PAGE_TEXT_LIMIT = 4_000
#: Characters of an id: the user's own, and one made of a path inside the source.
ID_LIMIT = 200
PATH_ID_LIMIT = 500

#: Fields of a trajectory that a source's options may set for all of its trajectories.
OVERRIDES = ("license", "domain", "benchmark", "experiment", "agent", "website")

#: Notes a record left out: unit, item, reason, detail.
Drop = Callable[[str, str, str, str | None], None]

#: Decoded pictures a trajectory keeps at a time; consecutive steps share theirs.
_OPEN_PICTURES = 3


@dataclass(frozen=True)
class Source:
    """One source of a run, as its settings give it."""

    name: str
    kind: str
    root: Path
    simulated: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    #: Known answers, JSON Lines of task_id, reference, infeasible, instruction.
    tasks: Path | None = None
    #: Planted truth of a simulated corpus, JSON Lines.
    truth: Path | None = None

    @property
    def module(self) -> ModuleType:
        return reader(self.kind)


@dataclass(slots=True)
class _Examined:
    """A trajectory with everything its pictures had to say."""

    trajectory: Trajectory
    trajectory_id: str
    aligned: list[Aligned]
    #: Reference → what the picture is, without its pixels.
    looks: dict[Picture, Inspected]
    changes: list[dict]


def normalise(folder: Path, counts: Counts, source: Source, threads: int = 1) -> None:
    """Read a source and write the tables of the normalise stage into ``folder``."""
    _check_root(source)
    tasks = _tasks(source)
    truth = _truth(source)
    work = folder / "unsorted"
    work.mkdir()
    tables = _Tables(source, counts, work, tasks, truth)
    for item in _in_order(records(source, tables.drop), source, threads):
        if isinstance(item, _Examined):
            tables.add(item)
        else:
            tables.annotate(item)
    tables.finish(folder)
    for path in sorted(work.iterdir()):
        path.unlink()
    work.rmdir()


def _check_root(source: Source) -> None:
    if source.kind not in MODULES:
        raise InputError(f"source '{source.name}'", f"unknown kind '{source.kind}'", f"use one of {', '.join(sorted(MODULES))}")
    if not source.root.exists():
        raise InputError(source.root, "folder not found", f"give the right path for source '{source.name}'")
    if not source.root.is_dir():
        raise InputError(source.root, "is not a folder", f"give the folder that holds the {source.kind} logs of source '{source.name}'")


def records(source: Source, drop: Drop) -> Iterator[tuple[str, Trajectory] | Annotation]:
    """Yield what is kept of the reader's records, with ids; what is not is dropped here, before any picture is opened."""
    known: set[str] = set()
    for record in chain(source.module.read(source.root, source.options), jsonio.closed(source.root)):
        if isinstance(record, Skipped):
            drop(record.unit, record.item, record.reason, record.detail)
            continue
        if isinstance(record, Annotation):
            yield record
            continue
        for unit, item, reason, detail in record.skipped:
            drop(unit, item, reason, detail)
        item = f"{record.source_file}: {record.native_id}"
        if fault := id_fault(record.native_id, source.kind):
            drop("trajectory", item, "unsafe_id", fault)
        elif not record.steps:
            reasons = Counter(reason for _, _, reason, _ in record.skipped).most_common(1)
            drop("trajectory", item, "no_steps", f"its records were left out: {reasons[0][0]}" if reasons else "it holds no actions")
        elif record.native_id in known:
            drop("trajectory", item, "duplicate_id", "a trajectory with this id came before")
        else:
            known.add(record.native_id)
            yield trajectory_id(source, record.native_id), record


def trajectory_id(source: Source, native_id: str) -> str:
    """Return the id a trajectory has in a run: the user's own for the plain format, else prefixed by the source."""
    return native_id if source.kind == "plain" else f"{source.name}:{native_id}"


def id_fault(native_id: str, kind: str) -> str | None:
    """Say what makes an id unsafe as a name, or None; only ids made of paths may hold slashes."""
    limit = ID_LIMIT if kind == "plain" else PATH_ID_LIMIT
    if not native_id.strip():
        return "empty"
    if len(native_id) > limit:
        return f"longer than {limit} characters"
    if any(unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"} for c in native_id):
        return "holds control characters or half a character"
    if "\\" in native_id or (kind == "plain" and "/" in native_id):
        return "holds a slash"
    if (kind == "plain" and ".." in native_id) or any(part in {"", ".", ".."} for part in native_id.split("/")):
        return "holds '..' or an empty part"
    return None


def _in_order(records: Iterable[tuple[str, Trajectory] | Annotation], source: Source, threads: int) -> Iterator[_Examined | Annotation]:
    """Examine trajectories on ``threads`` threads, a few ahead, and yield them as they came."""
    memory: dict[str, tuple[str, float]] = {}
    if threads <= 1:
        for record in records:
            yield record if isinstance(record, Annotation) else examine(source, *record, memory)
        return
    waiting: deque[Future[_Examined] | Annotation] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="normalise") as pool:
        for record in records:
            waiting.append(record if isinstance(record, Annotation) else pool.submit(examine, source, *record, memory))
            if len(waiting) > 2 * threads:
                yield _result(waiting.popleft())
        while waiting:
            yield _result(waiting.popleft())


def _result(item: "Future[_Examined] | Annotation") -> _Examined | Annotation:
    return item if isinstance(item, Annotation) else item.result()


def examine(source: Source, identity: str, trajectory: Trajectory, memory: dict[str, tuple[str, float]]) -> _Examined:
    """Align a trajectory, decode each of its pictures once, and measure each step's change."""
    aligned = align(trajectory)
    looks: dict[Picture, Inspected] = {}
    opened: OrderedDict[Picture, Inspected] = OrderedDict()

    def look(picture: Picture | None) -> Inspected | None:
        if picture is None:
            return None
        known = looks.get(picture)
        if known is not None and known.status != "ok":
            return known
        if picture in opened:
            opened.move_to_end(picture)
            return opened[picture]
        found = open_reference(source, picture, memory)
        looks[picture] = _light(found)
        if found.status == "ok":
            opened[picture] = found
            if len(opened) > _OPEN_PICTURES:
                opened.popitem(last=False)
        return found

    changes = []
    for index, step in enumerate(aligned):
        before, after = look(step.before), look(step.after)
        changes.append({"trajectory_id": identity, "step": index, **_change(before, after)})
    return _Examined(trajectory, identity, aligned, looks, changes)


def open_reference(source: Source, picture: Picture, memory: dict[str, tuple[str, float]]) -> Inspected:
    """Inspect a picture a reader refers to; broken ones get an id of their own, made of where they should be."""
    if picture.load is not None:
        try:
            data = picture.load() or None
            found = pictures.inspect(bytes(data) if data is not None else None, memory)
        except Exception as error:  # a reader's own library may raise anything over damaged containers
            found = Inspected("missing", detail=f"cannot be read from its container ({type(error).__name__})")
    else:
        path = jsonio.confined(source.root, picture.file)
        outside = Inspected("missing", detail="the name is unsafe or leads out of the source's folder")
        found = outside if path is None else pictures.inspect(path, memory)
    if found.status == "ok":
        return found
    mark = hashlib.sha256(store.canonical([source.name, text(picture.file), text(picture.member)]).encode()).hexdigest()[:32]
    return Inspected(found.status, f"broken-{mark}", found.file_sha256, found.width, found.height, found.format, detail=found.detail)


def _light(found: Inspected) -> Inspected:
    return Inspected(
        found.status,
        found.image_id,
        found.file_sha256,
        found.width,
        found.height,
        found.format,
        found.phash,
        found.blank,
        None,
        found.detail,
    )


def _change(before: Inspected | None, after: Inspected | None) -> dict:
    """Return the measured columns of a `changes` row."""
    unknown = {"state": "unknown", "changed_pixels": None, "changed_tiles": None, "tiles_x": None, "tiles_y": None, "tiles": None}
    if before is None or after is None or before.status != "ok" or after.status != "ok":
        return unknown
    if (before.width, before.height) != (after.width, after.height):
        return unknown
    tiles_x, tiles_y = -(-before.width // pictures.TILE), -(-before.height // pictures.TILE)
    if before.image_id == after.image_id:
        return {
            "state": "same",
            "changed_pixels": 0,
            "changed_tiles": 0,
            "tiles_x": tiles_x,
            "tiles_y": tiles_y,
            "tiles": bytes(-(-tiles_x * tiles_y // 8)),
        }
    change = pictures.tile_changes(before.pixels, after.pixels)
    return {
        "state": "changed",
        "changed_pixels": change.changed_pixels,
        "changed_tiles": int(change.tiles.sum()),
        "tiles_x": tiles_x,
        "tiles_y": tiles_y,
        "tiles": change.bitmap,
    }


class _Tables:
    """Collect rows: steps and changes go to disk as they come, the light tables wait to be sorted."""

    def __init__(self, source: Source, counts: Counts, work: Path, tasks: dict[str, dict], truth: dict[str, dict]) -> None:
        self.source, self.counts, self.work, self.tasks, self.truth = source, counts, work, tasks, truth
        self.sorted, self.last = True, ""
        self.rows: dict[str, list[dict]] = {name: [] for name in ("trajectories", "oracle_results", "annotations", "truth")}
        self.images: dict[str, tuple[str, str | None, Inspected]] = {}
        self.uses: Counter[str] = Counter()
        self.references: set[tuple[str, str | None]] = set()
        self.hashes: dict[str, str] = {}
        self.steps, self.changes = TableWriter(work, "steps"), TableWriter(work, "changes")

    def drop(self, unit: str, item: str, reason: str, detail: str | None = None) -> None:
        self.counts.drop(unit, self.source.name, item, reason, detail)

    def annotate(self, record: Annotation) -> None:
        """Add one answer of a source's own annotator."""
        if fault := id_fault(record.native_id, self.source.kind):
            self.drop("row", f"row {record.row}: {record.native_id}", "unsafe_id", fault)
            return
        self.counts.keep("row")
        self.rows["annotations"].append(
            {
                "trajectory_id": trajectory_id(self.source, record.native_id),
                "annotator": text(record.annotator, 200),
                "question": text(record.question, 200),
                "answer": text(record.answer, TEXT_LIMIT),
                "benchmark": self._benchmark(record.benchmark),
                "agent": text(record.agent, 500),
                "task_id": text(record.task_id, 500),
                "row": record.row,
            }
        )

    def add(self, found: _Examined) -> None:
        """Add one examined trajectory."""
        trajectory, identity = found.trajectory, found.trajectory_id
        self.sorted, self.last = self.sorted and self.last < identity, identity
        self.counts.keep("trajectory")
        self.counts.keep("step", len(trajectory.steps))
        for picture, look in found.looks.items():
            self._picture(picture, look)
        for index, aligned in enumerate(found.aligned):
            self.steps.add(self._step(found, index))
            self._transition(f"{identity}#{index}", aligned, found.looks)
        self.changes.extend(found.changes)
        self._trajectory(trajectory, identity)

    def _picture(self, picture: Picture, look: Inspected) -> None:
        file, member = text(picture.file, 4000) or "", text(picture.member, 200)
        if (file, member) not in self.references:
            self.references.add((file, member))
            if look.status == "ok":
                self.counts.keep("picture")
            else:
                self.drop("picture", file if member is None else f"{file}#{member}", look.status, look.detail)
        known = self.images.get(look.image_id)
        if known is None or (file, member or "") < (known[0], known[1] or ""):
            self.images[look.image_id] = (file, member, look)

    def _transition(self, item: str, aligned: Aligned, looks: dict[Picture, Inspected]) -> None:
        """Count a step's pair of screens: kept if both can be seen and only this step's action lies between them."""
        reason = aligned.lost
        if reason is None:
            broken = [look.status for picture in (aligned.before, aligned.after) if (look := looks[picture]).status != "ok"]
            reason = f"picture_{broken[0]}" if broken else None
        if reason is None:
            self.counts.keep("transition")
        else:
            self.drop("transition", item, reason)

    def _step(self, found: _Examined, index: int) -> dict:
        step, aligned = found.trajectory.steps[index], found.aligned[index]
        if step.op not in OPS:
            raise ValueError(f"{self.source.kind}: its reader gave the operation '{step.op}', which is none of ours")
        ids = [found.looks[picture].image_id if picture else None for picture in (aligned.before, aligned.after)]
        self.uses.update(image_id for image_id in ids if image_id)
        return {
            "trajectory_id": found.trajectory_id,
            "step": index,
            "source_step": text(step.source_step, 200),
            "gap_before": aligned.gap_before,
            "op": step.op,
            "op_raw": text(step.op_raw, TEXT_LIMIT),
            "value": text(step.value, TEXT_LIMIT),
            "target": _target(step),
            "reasoning": text(step.reasoning, TEXT_LIMIT),
            "url": text(step.url, 4000),
            "page_text": text(step.page_text, PAGE_TEXT_LIMIT),
            "before_image": ids[0],
            "after_image": ids[1],
            "obs_phase": found.trajectory.obs_phase,
            "timestamp": _finite(step.timestamp),
            "error": text(step.error, 2000),
        }

    def _trajectory(self, trajectory: Trajectory, identity: str) -> None:
        options, task = self.source.options, self.tasks.get(trajectory.task_id or "", {})
        given = {name: getattr(trajectory, name) if options.get(name) is None else options[name] for name in OVERRIDES}
        given["license"] = given["license"] or getattr(self.source.module, "LICENSE", None)
        given["domain"] = None if given["domain"] is None else str(given["domain"]).lower()
        for name in ("instruction", "reference"):
            given[name] = task.get(name) if getattr(trajectory, name) is None else getattr(trajectory, name)
        limits = {"instruction": TEXT_LIMIT, "reference": TEXT_LIMIT}
        self.rows["trajectories"].append(
            {
                **{name: text(value, limits.get(name, 500)) for name, value in given.items()},
                "trajectory_id": identity,
                "source": self.source.name,
                "kind": self.source.kind,
                "benchmark": self._benchmark(given["benchmark"]),
                "task_id": text(trajectory.task_id, 500),
                "task_revision": text(trajectory.task_revision, 200),
                "final_url": text(trajectory.final_url, 4000),
                "final_text": text(trajectory.final_text, PAGE_TEXT_LIMIT),
                "answer": text(trajectory.answer, TEXT_LIMIT),
                "n_steps": len(trajectory.steps),
                "simulated": self.source.simulated,
                "source_file": text(trajectory.source_file, 4000),
                "source_sha256": self._sha256(trajectory.source_file),
            }
        )
        for oracle in trajectory.oracles:
            self.rows["oracle_results"].append(
                {
                    "trajectory_id": identity,
                    "oracle": text(oracle.oracle, 500),
                    "oracle_version": text(oracle.version, 200),
                    "raw_reward": _finite(oracle.raw_reward),
                    "verdict": oracle.verdict,
                    "status": text(oracle.status, 500),
                }
            )
        planted = self.truth.pop(trajectory.native_id, None)
        if planted is not None:
            self.rows["truth"].append({"trajectory_id": identity, **planted})

    def _benchmark(self, benchmark: str | None) -> str | None:
        """Mark simulated trajectories in the benchmark's name, so that no table can mix them up with real ones."""
        if not self.source.simulated:
            return text(benchmark, 500)
        name = text(benchmark, 500) or self.source.kind
        return name if name.startswith("sim-") else f"sim-{name}"

    def _sha256(self, file: str) -> str:
        if file not in self.hashes:
            if len(self.hashes) >= 256:
                self.hashes.clear()
            path = jsonio.confined(self.source.root, file)
            self.hashes[file] = store.sha256_file(path) if path is not None and path.is_file() else ""
        return self.hashes[file]

    def finish(self, folder: Path) -> None:
        """Write every table, sorted by identity; refuse a source of which nothing was kept."""
        self.steps.close()
        self.changes.close()
        if not self.rows["trajectories"] and not self.rows["annotations"]:
            self._refuse()
        for native_id in sorted(self.truth):
            self.drop("row", f"truth: {native_id}", "no_trajectory", "planted truth of a trajectory that was not kept")
        keys = {
            "trajectories": ("trajectory_id",),
            "truth": ("trajectory_id",),
            "oracle_results": ("trajectory_id", "oracle", "oracle_version", "verdict", "status"),
            "annotations": ("trajectory_id", "row", "question", "annotator"),
        }
        for name, columns in keys.items():
            store.write_table(folder, name, sorted(self.rows[name], key=lambda row: [_sortable(row[column]) for column in columns]))
        store.write_table(folder, "images", (self._image(image_id) for image_id in sorted(self.images)))
        for name in ("steps", "changes"):
            if self.sorted:
                (self.work / f"{name}.parquet").replace(folder / f"{name}.parquet")
            else:
                _sort(self.work, name, folder)
        rows = sorted(self.counts.rows, key=lambda row: [_sortable(row[column]) for column in ("unit", "reason", "item", "detail")])
        store.write_table(folder, "drops", rows)

    def _image(self, image_id: str) -> dict:
        file, member, look = self.images[image_id]
        return {
            "image_id": image_id,
            "source": self.source.name,
            "file": file,
            "member": member,
            "file_sha256": look.file_sha256,
            "width": look.width,
            "height": look.height,
            "format": look.format,
            "status": look.status,
            "phash": look.phash,
            "blank": look.blank,
            "n_uses": self.uses[image_id],
        }

    def _refuse(self) -> None:
        layout = getattr(self.source.module, "LAYOUT", None)
        mend = f"expected e.g. {layout}" if layout else f"give the folder of source '{self.source.name}'"
        if not self.counts.rows:
            raise InputError(self.source.root, f"holds no {self.source.kind} trajectories", mend)
        reasons = Counter((row["unit"], row["reason"]) for row in self.counts.rows if row["unit"] in {"trajectory", "row"})
        reasons = reasons or Counter((row["unit"], row["reason"]) for row in self.counts.rows)
        (unit, reason), number = min(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
        first = min((row for row in self.counts.rows if (row["unit"], row["reason"]) == (unit, reason)), key=lambda row: row["item"])
        found = f"'{reason}' {number} time{'s' * (number > 1)}, first {first['item']}"
        found += f" ({first['detail']})" if first["detail"] else ""
        raise InputError(self.source.root, f"nothing could be read as {self.source.kind}: {found}", mend)


def _sort(work: Path, name: str, folder: Path) -> None:
    """Sort a table by trajectory and step on disk, and write it as if it had come in that order."""
    import duckdb

    unsorted = str(work / f"{name}.parquet").replace("'", "''")
    spill = str(work).replace("'", "''")
    declared = schema.TABLES[name]
    try:
        with (
            duckdb.connect(config={"memory_limit": "1GB", "temp_directory": spill, "threads": 2}) as database,
            pq.ParquetWriter(folder / f"{name}.parquet", declared, compression="zstd", write_statistics=True) as writer,
        ):
            ordered = database.sql(f"SELECT * FROM read_parquet('{unsorted}') ORDER BY trajectory_id, step")
            rest = declared.empty_table()
            for batch in pa.RecordBatchReader.from_stream(ordered):
                rest = pa.concat_tables([rest, pa.Table.from_batches([batch]).cast(declared)])
                while rest.num_rows >= ROW_GROUP:
                    writer.write_table(rest.slice(0, ROW_GROUP).combine_chunks())
                    rest = rest.slice(ROW_GROUP)
            if rest.num_rows:
                writer.write_table(rest.combine_chunks())
    except duckdb.Error as error:
        raise InputError(
            folder, f"'{name}' cannot be sorted ({one_line(str(error), 200)})", "make room on the disk and run again"
        ) from None
    for path in work.glob("duckdb_temp*"):
        path.unlink()


def _tasks(source: Source) -> dict[str, dict]:
    """Read known answers: task → reference and, where the format carries none, instruction."""
    if source.tasks is None or (source.simulated and not source.tasks.exists()):
        return {}
    found = {}
    for number, row in _lines(source.tasks):
        task = jsonio.as_str(row.get("task_id"))
        if task is None:
            raise InputError(f"{source.tasks}:{number}", "task_id is missing", "give each line a task_id")
        reference = row.get("reference")
        if reference is None and jsonio.as_bool(row.get("infeasible")):
            reference = "infeasible"
        reference = None if reference is None else jsonio.dump(reference)
        found[task] = {"reference": reference, "instruction": jsonio.as_str(row.get("instruction"))}
    return found


def _truth(source: Source) -> dict[str, dict]:
    """Read planted truth: native id → columns of `truth`."""
    if source.truth is None:
        return {}
    found = {}
    for number, row in _lines(source.truth):
        if row.get("format") != source.kind:
            continue
        native_id, planted, outcome = (jsonio.as_str(row.get(name)) for name in ("native_id", "planted", "outcome"))
        if native_id is None or planted is None or outcome is None:
            raise InputError(f"{source.truth}:{number}", "native_id, planted or outcome is missing", "simulate the corpus again")
        found[native_id] = {
            "planted": planted,
            "outcome": outcome,
            "category": jsonio.as_str(row.get("category")),
            "lookalike": jsonio.as_str(row.get("lookalike")),
            "evidence_step": jsonio.as_int(row.get("evidence_step")),
        }
    return found


def _lines(path: Path) -> Iterator[tuple[int, dict]]:
    for number, value in jsonio.read_lines(path.parent, path.name):
        if isinstance(value, Skipped):
            where = f"{path}:{number}" if number else path
            raise InputError(where, value.detail or value.reason, "give JSON Lines, one object a line")
        if not isinstance(value, dict):
            raise InputError(f"{path}:{number}", "is not a JSON object", "give one object a line")
        yield number, value


def _target(step: Step) -> dict | None:
    target = step.target
    if target is None:
        return None
    place = {name: _finite(getattr(target, name)) for name in ("x", "y", "left", "top", "width", "height")}
    place["text"] = text(target.text, 2000)
    return place if any(value is not None for value in place.values()) else None


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _sortable(value: Any) -> tuple:
    return (value is not None, value if value is not None else "")
