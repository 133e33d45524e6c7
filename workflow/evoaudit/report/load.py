"""What the report reads: the folders of earlier stages, each optional, as plain values."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from evoaudit.errors import InputError, one_line
from evoaudit.jsonfile import read_json

#: Rows of one table that the page shows; the downloads hold all.
ROWS = 200


@dataclass(frozen=True)
class Inputs:
    """Folders of the stages the report is built from."""

    stats: Path
    tables: Path | None = None
    figures: Path | None = None
    normalised: tuple[Path, ...] = ()
    mined: Path | None = None
    images: tuple[Path, ...] = ()
    scores: Path | None = None
    predictions: tuple[Path, ...] = ()
    sample: Path | None = None
    review: Path | None = None
    final: Path | None = None
    signals: Path | None = None
    judgments: tuple[Path, ...] = ()
    roots: dict[str, Path] = field(default_factory=dict)

    def folders(self) -> list[Path]:
        """Return every folder given, in the order of the pipeline."""
        found = [
            *self.normalised,
            self.mined,
            *self.images,
            *self.predictions,
            self.scores,
            self.sample,
            self.signals,
            *self.judgments,
            self.review,
            self.final,
            self.stats,
            self.tables,
            self.figures,
        ]
        return [folder for folder in found if folder is not None]


@dataclass(frozen=True)
class Column:
    """A column as the statistics describe it."""

    name: str
    words: str
    unit: str = ""
    decimals: int | None = None
    kind: str = ""
    #: `high` or `low` where that value wins.
    best: str = ""
    #: Not among the columns the paper prints; shown on demand.
    extra: bool = False


@dataclass(frozen=True)
class Table:
    """A table of the run: its words, its columns and the rows that are shown."""

    name: str
    title: str
    paper: str
    note: str
    empty: str
    columns: tuple[Column, ...]
    rows: tuple[dict, ...]
    n: int
    #: Which rows are simulated: `all`, `some`, `none`, or `n/a` where none can be.
    simulated: str


def tables(folder: Path, rows: int = ROWS) -> dict[str, Table]:
    """Read every table of a statistics folder, in its own order, at most ``rows`` rows each."""
    found: dict[str, Table] = {}
    for entry in read_json(folder / "tables.json"):
        name = str(entry["name"])
        path = folder / f"{name}.parquet"
        names, head, total = _head(path, rows)
        declared = [_column(column) for column in entry.get("columns") or ()]
        known = {column.name for column in declared}
        columns = [column for column in declared if column.name in names] + [
            _column({"name": column}) for column in names if column not in known
        ]
        told = {field: str(entry.get(field) or "") for field in ("title", "paper", "note", "empty")}
        simulated = entry.get("simulated", "n/a")
        if isinstance(simulated, bool):
            simulated = "all" if simulated else "none"
        found[name] = Table(
            name=name, **{**told, "title": told["title"] or name}, columns=tuple(columns), rows=tuple(head), n=total, simulated=simulated
        )
    return found


def _column(entry: dict) -> Column:
    name = str(entry["name"])
    return Column(
        name,
        str(entry.get("label") or name.replace("_", " ")),
        str(entry.get("unit") or ""),
        entry.get("decimals"),
        str(entry.get("kind") or ""),
        str(entry.get("best") or ""),
        bool(entry.get("extra")),
    )


def _head(path: Path, rows: int) -> tuple[list[str], list[dict], int]:
    """Return a file's column names, its first rows and its row count."""
    try:
        with pq.ParquetFile(path) as file:
            batch = next(file.iter_batches(batch_size=max(1, rows)), None)
            return file.schema_arrow.names, batch.to_pylist()[:rows] if batch is not None else [], file.metadata.num_rows
    except FileNotFoundError:
        raise InputError(path, "file not found", "run the stage that writes it") from None
    except (OSError, ValueError) as error:
        raise InputError(path, f"not a readable Parquet file ({one_line(str(error), 120)})", "delete its folder and run again") from None


def table(folder: Path, name: str, columns: Sequence[str] | None, keep: pc.Expression | None = None) -> pa.Table:
    """Read columns of a table (all if None), only rows that ``keep`` holds for."""
    path = Path(folder) / f"{name}.parquet"
    try:
        return ds.dataset(path, format="parquet").to_table(columns=list(columns) if columns else None, filter=keep, batch_size=1024)
    except FileNotFoundError:
        raise InputError(path, "file not found", "run the stage that writes it") from None
    except (OSError, ValueError) as error:
        raise InputError(path, f"not a readable Parquet file ({one_line(str(error), 120)})", "delete its folder and run again") from None


def rows(folders: Iterable[Path], name: str, columns: Sequence[str] | None = None, **isin: Iterable) -> list[dict]:
    """Read a table of several folders, only rows whose columns hold one of the given values, without holding the rest in memory."""
    found: list[dict] = []
    keep = None
    for column, values in isin.items():
        values = sorted(values)
        if not values:
            return []
        test = pc.field(column).isin(values)
        keep = test if keep is None else keep & test
    for folder in folders:
        found += table(folder, name, columns, keep).to_pylist()
    return found


def has(folder: Path | None, name: str) -> bool:
    """Tell whether a folder holds a table."""
    return folder is not None and (folder / f"{name}.parquet").is_file()


def length(folder: Path | None, name: str) -> int:
    """Return how many rows a table has, 0 where there is none."""
    return pq.read_metadata(folder / f"{name}.parquet").num_rows if has(folder, name) else 0
