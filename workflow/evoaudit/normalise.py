"""From a reader's records to the shared schema: identities, adjacency, pictures, what changed, and a reason for all that is left out.

Memory is bounded by a few trajectories, whatever the size of the source: rows go to disk as they come and are sorted there.
The output is a function of the source alone: not of workers, not of the order in which records lie in it, and not of what
earlier runs already knew about its pictures.
"""

import math
import shutil
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evoaudit import known as knowledge
from evoaudit import schema, sorting, store
from evoaudit.actions import OPS
from evoaudit.align import Aligned, align
from evoaudit.errors import InputError, one_line
from evoaudit.measure import Measured, Pairs, measured
from evoaudit.pictures import OUTSIDE, Inspected
from evoaudit.sources import MODULES, jsonio, reader
from evoaudit.sources.base import Annotation, Picture, Skipped, Step, Trajectory
from evoaudit.store import ROW_GROUP, Counts, TableWriter, drop_row, text

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

#: Table → what its rows are sorted by.
ORDER = {
    "trajectories": ("trajectory_id",),
    "steps": ("trajectory_id", "step"),
    "changes": ("trajectory_id", "step"),
    "oracle_results": ("trajectory_id", "oracle", "oracle_version", "verdict", "status", "raw_reward"),
    "annotations": ("trajectory_id", '"row"', "question", "annotator"),
    "truth": ("trajectory_id",),
    "drops": ("unit", "reason", "item", "detail"),
}
#: Drop rows held before they are written.
_HELD_DROPS = 1000


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


#: A trajectory with its id and its screens, as `align` gives them.
_Record = tuple[str, Trajectory, list[Aligned]]


def normalise(folder: Path, counts: Counts, source: Source, workers: int = 1, earlier: Sequence[Path] = ()) -> None:
    """Read a source and write the tables of the normalise stage into ``folder``.

    ``earlier`` are finished folders of the same source; pictures they know are not decoded again.
    """
    _check_root(source)
    tasks = _tasks(source)
    truth = _truth(source)
    work = folder / "unsorted"
    work.mkdir()
    known = knowledge.gather(earlier, work / "known.sqlite") if earlier else None
    tables = _Tables(source, counts, work, tasks, truth)
    for item, seen in measured(_work(source, tables.drop), source.name, source.root, known, workers):
        if isinstance(item, Annotation):
            tables.annotate(item)
        else:
            tables.add(item, seen)
    tables.finish(folder)
    for path in sorted(work.iterdir()):
        path.unlink()
    work.rmdir()


def _work(source: Source, drop: Drop) -> Iterator[tuple[_Record | Annotation, Pairs | None]]:
    """Yield every record kept with the screens to be measured."""
    for record in records(source, drop):
        if isinstance(record, Annotation):
            yield record, None
        else:
            aligned = align(record[1])
            yield (*record, aligned), [(step.before, step.after) for step in aligned]


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
            _set_phase(record, source)
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


def _set_phase(trajectory: Trajectory, source: Source) -> None:
    """Put pictures before or after their actions as the source's ``obs_phase`` says, where its reader says otherwise."""
    phase = source.options.get("obs_phase")
    if phase in (None, trajectory.obs_phase):
        return
    if trajectory.obs_phase == "both":
        raise InputError(f"source '{source.name}'", "logs the screens before and after each action", "remove obs_phase")
    for step in trajectory.steps:
        step.before, step.after = (None, step.before) if phase == "after" else (step.after, None)
    trajectory.obs_phase, trajectory.final = phase, None


class _Tables:
    """Write rows as they come, unsorted, and sort them at the end."""

    def __init__(self, source: Source, counts: Counts, work: Path, tasks: dict[str, dict], truth: dict[str, dict]) -> None:
        self.source, self.counts, self.work, self.tasks, self.truth = source, counts, work, tasks, truth
        self.hashes: dict[str, str] = {}
        #: Orders to judges that a simulated corpus holds, as rows of `injections`.
        self.orders: list[dict] = []
        #: What attempts cost by their logs, as rows of `costs`.
        self.costs: list[dict] = []
        self.writers = {name: TableWriter(work, name) for name in (*ORDER, "images")}
        #: Pictures that are not there or cannot be decoded, as rows of `drops`; a place may come up more than once.
        self.broken = TableWriter(work, "drops", "broken")

    def drop(self, unit: str, item: str, reason: str, detail: str | None = None) -> None:
        self.counts.drop(unit, self.source.name, item, reason, detail)
        if len(self.counts.rows) >= _HELD_DROPS:
            self._spill()

    def _spill(self) -> None:
        self.writers["drops"].extend(self.counts.rows)
        self.counts.rows.clear()

    def annotate(self, record: Annotation) -> None:
        """Add one answer of a source's own annotator."""
        if fault := id_fault(record.native_id, self.source.kind):
            self.drop("row", f"row {record.row}: {record.native_id}", "unsafe_id", fault)
            return
        self.counts.keep("row")
        self.writers["annotations"].add(
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

    def add(self, record: _Record, seen: Measured) -> None:
        """Add one measured trajectory."""
        identity, trajectory, aligned = record
        self.counts.keep("trajectory")
        self.counts.keep("step", len(trajectory.steps))
        for picture, look in seen.looks.items():
            self.writers["images"].add(self._image(picture, look))
            if look.status != "ok":
                place = text(picture.file, 4000) + ("" if picture.member is None else f"#{text(picture.member, 4000)}")
                self.broken.add(
                    drop_row(
                        "normalise",
                        "picture",
                        self.source.name,
                        place,
                        "outside_root" if look.detail == OUTSIDE else look.status,
                        look.detail,
                    )
                )
        for index, (step, screens, change) in enumerate(zip(trajectory.steps, aligned, seen.changes, strict=True)):
            self.writers["steps"].add(self._step(trajectory, identity, index, step, screens, seen.looks))
            self.writers["changes"].add({"trajectory_id": identity, "step": index, **change})
            self._transition(f"{identity}#{index}", screens, seen.looks)
        self._trajectory(trajectory, identity)

    def _image(self, picture: Picture, look: Inspected) -> dict:
        """Return an `images` row of one reference; uses are counted, and twins joined, when all are known."""
        return {
            "image_id": look.image_id,
            "source": self.source.name,
            "file": text(picture.file, 4000) or "",
            "member": text(picture.member, 4000),
            "file_sha256": look.file_sha256,
            "width": look.width,
            "height": look.height,
            "format": look.format,
            "status": look.status,
            "phash": look.phash,
            "blank": look.blank,
            "n_uses": 0,
        }

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

    def _step(
        self, trajectory: Trajectory, identity: str, index: int, step: Step, screens: Aligned, looks: dict[Picture, Inspected]
    ) -> dict:
        if step.op not in OPS:
            raise ValueError(f"{self.source.kind}: its reader gave the operation '{step.op}', which is none of ours")
        ids = [looks[picture].image_id if picture else None for picture in (screens.before, screens.after)]
        return {
            "trajectory_id": identity,
            "step": index,
            "source_step": text(step.source_step, 200),
            "gap_before": screens.gap_before,
            "op": step.op,
            "op_raw": text(step.op_raw, TEXT_LIMIT),
            "value": text(step.value, TEXT_LIMIT),
            "target": _target(step),
            "reasoning": text(step.reasoning, TEXT_LIMIT),
            "url": text(step.url, 4000),
            "page_text": text(step.page_text, PAGE_TEXT_LIMIT),
            "before_image": ids[0],
            "after_image": ids[1],
            "obs_phase": trajectory.obs_phase,
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
        self.writers["trajectories"].add(
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
            self.writers["oracle_results"].add(
                {
                    "trajectory_id": identity,
                    "oracle": text(oracle.oracle, 500),
                    "oracle_version": text(oracle.version, 200),
                    "raw_reward": _finite(oracle.raw_reward),
                    "verdict": oracle.verdict,
                    "status": text(oracle.status, 500),
                }
            )
        if trajectory.cost is not None:
            self.costs.append({"trajectory_id": identity, "usd": trajectory.cost.usd, "field": trajectory.cost.field})
        planted = self.truth.pop(trajectory.native_id, None)
        if planted is not None and (order := planted.pop("order", None)) is not None:
            self.orders.append({"trajectory_id": identity, **order})
        if planted is not None:
            self.writers["truth"].add({"trajectory_id": identity, **planted})

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
        if not self.counts.kept["trajectory"] and not self.counts.kept["row"]:
            self._refuse()
        for native_id in sorted(self.truth):
            self.drop("row", f"truth: {native_id}", "no_trajectory", "planted truth of a trajectory that was not kept")
        self._spill()
        for writer in (*self.writers.values(), self.broken):
            writer.close()
        try:
            with duckdb.connect(config={"memory_limit": "400MB", "temp_directory": str(self.work / "spill"), "threads": 2}) as database:
                for name in (*self.writers, "broken"):
                    place = sorting.quoted(self.work / f"{name}.parquet")
                    database.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({place})")
                self._images(database, folder)
                for name, columns in ORDER.items():
                    order = ", ".join(f"{column} NULLS FIRST" for column in columns)
                    if name == "drops":
                        rows = "(FROM drops UNION ALL SELECT DISTINCT * FROM broken)"
                        _write(_batches(database.sql(f"SELECT * FROM {rows} ORDER BY {order}"), name), folder, name)
                    else:
                        writer = self.writers[name]
                        widths = np.array(writer.widths, np.int64)
                        _write(sorting.by_keys(database, writer.path, order, widths, self.work), folder, name)
            for name, rows in (("injections", self.orders), ("costs", self.costs)):
                if rows:
                    store.write_table(folder, name, sorted(rows, key=lambda row: row["trajectory_id"]))
        except duckdb.Error as error:
            fault = one_line(str(error), 200)
            raise InputError(folder, f"its tables cannot be sorted ({fault})", "make room on the disk and run again") from None
        shutil.rmtree(self.work / "spill", ignore_errors=True)

    def _images(self, database: duckdb.DuckDBPyConnection, folder: Path) -> None:
        """Count every place where a picture was looked for, and write one row a picture with the first of its places."""
        [(kept,)] = database.sql("SELECT count(*) FROM (SELECT DISTINCT file, member FROM images WHERE status = 'ok')").fetchall()
        self.counts.keep("picture", kept)
        for reason, n in database.sql("SELECT reason, count(*) FROM (SELECT DISTINCT * FROM broken) GROUP BY reason").fetchall():
            self.counts.drop_many("picture", reason, n)
        pictures = database.sql("""
            WITH used AS (
                SELECT image_id, count(*) AS uses
                FROM (SELECT before_image AS image_id FROM steps UNION ALL SELECT after_image FROM steps)
                GROUP BY image_id
            ), first AS (
                SELECT DISTINCT ON (image_id) * FROM images ORDER BY image_id, file, coalesce(member, '')
            )
            SELECT first.* REPLACE (coalesce(used.uses, 0) AS n_uses) FROM first LEFT JOIN used USING (image_id) ORDER BY image_id
        """)
        _write(_batches(pictures, "images"), folder, "images")

    def _refuse(self) -> None:
        layout = getattr(self.source.module, "LAYOUT", None)
        mend = f"expected e.g. {layout}" if layout else f"give the folder of source '{self.source.name}'"
        self._spill()
        self.writers["drops"].close()
        left_out = store.read_rows(self.work, "drops")
        if not left_out:
            raise InputError(self.source.root, f"holds no {self.source.kind} trajectories", mend)
        units = {"trajectory", "row"}
        if {row["reason"] for row in left_out if row["unit"] in units} == {"no_steps"}:  # what is wrong lies in the steps
            units = {row["unit"] for row in left_out} - units or units
        reasons = Counter((row["unit"], row["reason"]) for row in left_out if row["unit"] in units)
        reasons = reasons or Counter((row["unit"], row["reason"]) for row in left_out)
        (unit, reason), number = min(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
        first = min((row for row in left_out if (row["unit"], row["reason"]) == (unit, reason)), key=lambda row: row["item"])
        found = f"'{reason}' {number} time{'s' * (number > 1)}, first {first['item']}"
        found += f" ({first['detail']})" if first["detail"] else ""
        raise InputError(self.source.root, f"nothing could be read as {self.source.kind}: {found}", mend)


def _write(groups: Iterable[pa.Table], folder: Path, name: str) -> None:
    """Write sorted rows as a declared table, a row group each."""
    declared = schema.TABLES[name]
    with pq.ParquetWriter(folder / f"{name}.parquet", declared, compression="zstd", write_statistics=True) as writer:
        for group in groups:
            writer.write_table(group.cast(declared))


def _batches(rows: duckdb.DuckDBPyRelation, name: str) -> Iterator[pa.Table]:
    """Yield rows in row groups of the usual size, whatever the batches they come in."""
    rest = schema.TABLES[name].empty_table()
    for batch in rows.to_arrow_reader(ROW_GROUP):
        rest = pa.concat_tables([rest, pa.Table.from_batches([batch]).cast(rest.schema)])
        while rest.num_rows >= ROW_GROUP:
            yield rest.slice(0, ROW_GROUP).combine_chunks()
            rest = rest.slice(ROW_GROUP)
    if rest.num_rows:
        yield rest.combine_chunks()


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
        place, words = jsonio.as_str(row.get("injected")), jsonio.as_str(row.get("order"))
        if place is not None and words is not None:
            found[native_id]["order"] = {"place": place, "words": words}
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
