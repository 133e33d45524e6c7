"""What the tables are computed from: the folders of earlier stages, each optional, read once and only as far as needed."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evoaudit import store
from evoaudit.measured import Measured
from evoaudit.streams import generator


class Empty(Exception):
    """A table has no rows, and why, in a sentence for people."""


@dataclass(frozen=True)
class Set:
    """The folders of one set of probes beyond the paper's."""

    name: str
    mined: Path
    scores: Path | None = None
    predictions: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Folders:
    """Folders of earlier stages; None or empty where a run has none."""

    normalised: tuple[Path, ...] = ()
    mined: Path | None = None
    scores: Path | None = None
    predictions: tuple[Path, ...] = ()
    sample: Path | None = None
    signals: Path | None = None
    judgments: tuple[Path, ...] = ()
    review: Path | None = None
    final: Path | None = None
    #: Normalised sources with a planted fault, for the alignment check alone.
    controls: tuple[Path, ...] = ()
    #: Sets of probes beyond the paper's, which have tables of their own.
    sets: tuple[Set, ...] = ()

    def all(self) -> list[Path]:
        """Return every folder that counts, in the order of the pipeline; the controls do not."""
        others = [folder for one in self.sets for folder in (one.mined, *one.predictions, one.scores)]
        single = [self.mined, *self.predictions, self.scores, *others, self.sample, self.signals, *self.judgments, self.review, self.final]
        return [*self.normalised, *(folder for folder in single if folder is not None)]


@dataclass(frozen=True)
class Trajectory:
    """What the tables need to know of a trajectory."""

    benchmark: str | None
    agent: str | None
    task_id: str | None
    source: str | None
    domain: str | None
    simulated: bool


@dataclass
class Run:
    """The data of one run, and its settings."""

    folders: Folders
    settings: dict = field(default_factory=dict)
    seed: int = 0
    #: What was measured of attempts beside their logs, by trajectory.
    measured: dict[str, Measured] = field(default_factory=dict)

    @property
    def resamples(self) -> int:
        return int(self.settings.get("bootstrap", 1000))

    @property
    def confidence(self) -> float:
        return float(self.settings.get("confidence", 0.95))

    def rng(self, purpose: str, *identity: object) -> np.random.Generator:
        """Return the random stream of one purpose."""
        return generator(self.seed, f"stats-{purpose}", *identity)

    def table(self, folders: Path | Iterable[Path] | None, name: str, columns: list[str] | None = None) -> pa.Table:
        """Read a declared table of one or several folders; empty where there is none."""
        paths = [] if folders is None else [folders] if isinstance(folders, Path) else list(folders)
        found = [store.read_table(folder, name, columns) for folder in paths if (Path(folder) / f"{name}.parquet").is_file()]
        if found:
            return pa.concat_tables(found)
        empty = store.schema.empty(name)
        return empty.select(columns) if columns else empty

    def rows(self, folders: Path | Iterable[Path] | None, name: str, columns: list[str] | None = None) -> list[dict]:
        """Read a declared table as dicts."""
        return self.table(folders, name, columns).to_pylist()

    @cached_property
    def manifests(self) -> list[tuple[Path, dict]]:
        """Folders that have a manifest, and it."""
        return [(folder, store.read_manifest(folder)) for folder in self.folders.all() if (folder / "manifest.json").is_file()]

    @cached_property
    def trajectories(self) -> dict[str, Trajectory]:
        """Trajectories by id; from the sample where the trajectories themselves are not at hand."""
        columns = ["benchmark", "agent", "task_id", "source", "domain", "simulated"]
        found = {}
        for folders, name in ((self.folders.sample, "sample"), (self.folders.normalised, "trajectories")):
            for row in self.rows(folders, name, ["trajectory_id", *columns]):
                found[row["trajectory_id"]] = Trajectory(**{column: row[column] for column in columns})
        return found

    @cached_property
    def simulated_sources(self) -> set[str]:
        """Names of sources whose trajectories are simulated."""
        return {trajectory.source for trajectory in self.trajectories.values() if trajectory.simulated}

    @cached_property
    def models(self) -> dict[str, dict]:
        """Settings of the models by name."""
        return {model["name"]: model for model in self.settings.get("models") or ()}

    @cached_property
    def truth(self) -> dict[str, dict]:
        """Planted truth by trajectory, of simulated sources."""
        return {row["trajectory_id"]: row for row in self.rows(self.folders.normalised, "truth")}

    @cached_property
    def released(self) -> dict[str, str]:
        """Released verdict (`pass`, `fail`, `error`, `unscored`) by trajectory."""
        from evoaudit.audit.sample import released

        columns = ["trajectory_id", "oracle", "oracle_version", "raw_reward", "verdict"]
        found = grouped(self.rows(self.folders.normalised, "oracle_results", columns), "trajectory_id")
        return {row["trajectory_id"]: row["verdict"] for row in self.rows(self.folders.sample, "sample", ["trajectory_id", "verdict"])} | {
            one: released(rows)[0] for (one,), rows in found.items()
        }

    @cached_property
    def logged_usd(self) -> dict[str, tuple[float, str]]:
        """Dollars by trajectory where its log says what it cost, and the log's field that says so."""
        return {row["trajectory_id"]: (row["usd"], row["field"]) for row in self.rows(self.folders.normalised, "costs")}

    @cached_property
    def oracles(self) -> dict[str, str]:
        """Name of the oracle by trajectory."""
        return {
            row["trajectory_id"]: row["oracle"] for row in self.rows(self.folders.normalised, "oracle_results", ["trajectory_id", "oracle"])
        }

    @cached_property
    def sources(self) -> list[tuple[Path, str, bool]]:
        """Normalised folders with their source's name and whether it is simulated."""
        found = []
        for folder in self.folders.normalised:
            config = store.read_manifest(folder)["config"] if (folder / "manifest.json").is_file() else {}
            found.append((folder, str(config.get("source") or ""), bool(config.get("simulated"))))
        return found

    def simulated(self, trajectories: Iterable[str]) -> bool:
        """Say whether any of these trajectories is simulated."""
        return any((known := self.trajectories.get(one)) is not None and known.simulated for one in trajectories)

    @cached_property
    def drops(self) -> list[dict]:
        """Counts of what was left out, by stage, source, unit and reason, as many as the manifests count.

        Rows say which source; what a stage counted without a row (it can be very much) is told by its manifest alone.
        """
        total: Counter[tuple] = Counter()
        keys = ["stage", "source", "unit", "reason"]
        for folder, manifest in self.manifests:
            listed: Counter[tuple] = Counter()
            if (folder / "drops.parquet").is_file():
                table = store.read_table(folder, "drops", keys)
                for row in table.group_by(keys).aggregate([([], "count_all")]).to_pylist():
                    total[row["stage"], row["source"] or ALL, row["unit"], row["reason"]] += row["count_all"]
                    listed[row["unit"], row["reason"]] += row["count_all"]
            for unit, counts in units(manifest).items():
                for reason, n in counts["dropped"].items():
                    if n > listed[unit, reason]:
                        total[manifest["stage"], source_of(manifest), unit, reason] += n - listed[unit, reason]
        return [dict(zip(keys, key, strict=True), n=n) for key, n in sorted(total.items())]


#: Stands for the source of what is counted over all sources.
ALL = "(all)"


def units(manifest: dict) -> dict[str, dict]:
    """Return a manifest's counts by unit."""
    counts = manifest.get("counts") or {}
    return {counts["unit"]: counts, **counts.get("others", {})} if counts else {}


def source_of(manifest: dict) -> str:
    """Return the source (of a normaliser), or the model or judge and how it was asked, that a manifest is about."""
    config = manifest.get("config") or {}
    parts = [config.get("source") or config.get("name"), config.get("condition"), config.get("max_image_side")]
    parts += ["+".join(config["evidence"])] if isinstance(config.get("evidence"), list) else []
    return ", ".join(str(part) for part in parts if part) or ALL if parts[0] else ALL


def codes(column: pa.ChunkedArray) -> tuple[np.ndarray, list]:
    """Return a column as integer codes into its sorted distinct values; -1 stands for null."""
    values = sorted(value for value in pc.unique(column).to_pylist() if value is not None)
    found = pc.index_in(column.combine_chunks(), value_set=pa.array(values, column.type))
    return found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64), values


def numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Return a numeric or boolean column as floats, NaN for null."""
    return pc.cast(column, pa.float64()).to_numpy()


def grouped(rows: Iterable[dict], *names: str) -> dict[tuple, list[dict]]:
    """Group dicts by the values of some of their keys."""
    found: dict[tuple, list[dict]] = defaultdict(list)
    for row in rows:
        found[tuple(row[name] for name in names)].append(row)
    return dict(found)
