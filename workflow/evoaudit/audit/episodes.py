"""Trajectories as the audit reads them: one at a time, steps and changes together, in the order of their ids."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from evoaudit.errors import InputError, one_line
from evoaudit.store import read_rows, read_table, table_file

#: Rows fetched at a time; with the sort spilling to disk this bounds memory at every corpus size.
BATCH = 4096
MEMORY = "700MB"

_STEPS = """
    SELECT s.trajectory_id, s.step, s.gap_before, s.op, s.op_raw, s.value, s.target, s.reasoning, s.url, s.page_text, s.before_image,
           s.after_image, s.obs_phase, s.error, c.state, c.changed_pixels, c.changed_tiles, c.tiles_x, c.tiles_y, c.tiles
    FROM steps s LEFT JOIN changes c USING (trajectory_id, step) {where}
    ORDER BY s.trajectory_id, s.step
"""
_TRAJECTORIES = "SELECT * EXCLUDE (source_sha256) FROM trajectories s {where} ORDER BY trajectory_id"


@dataclass(slots=True)
class Episode:
    """One trajectory with its steps; each step carries its change columns (``state``, ``tiles`` …)."""

    row: dict
    steps: list[dict]
    #: Pictures of this trajectory that show nothing.
    blank: set[str] = field(default_factory=set)

    @property
    def id(self) -> str:
        return self.row["trajectory_id"]

    @property
    def final_text(self) -> str | None:
        """Accessible text after the last action, where the source logs it."""
        return self.row.get("final_text")

    @property
    def final_url(self) -> str | None:
        return self.row.get("final_url")

    @property
    def answer(self) -> str | None:
        """The answer the agent gave, if it gave one that is not empty."""
        return (self.row["answer"] or "").strip() or None


#: A screen whose commonest colour covers this share of it shows nothing.
BLANK = 0.995


def episodes(folders: list[Path], wanted: set[str] | None = None, scratch: Path | None = None) -> Iterator[Episode]:
    """Yield the trajectories of normalised folders, only the ``wanted`` ids if given."""
    tables = {
        name: ds.dataset([str(table_file(folder, name)) for folder in folders], format="parquet")
        for name in ("trajectories", "steps", "changes")
    }
    blank = _blank_images(folders)
    with duckdb.connect() as connection:
        connection.execute(f"SET memory_limit='{MEMORY}'; SET threads=2; SET preserve_insertion_order=false")
        if scratch is not None:
            connection.execute("SET temp_directory=$folder", {"folder": str(scratch)})
        where = ""
        if wanted is not None:
            connection.execute("CREATE TABLE wanted AS SELECT unnest($ids::VARCHAR[]) AS trajectory_id", {"ids": sorted(wanted)})
            where = "SEMI JOIN wanted USING (trajectory_id)"
        rows = _stream(connection, _TRAJECTORIES.format(where=where), tables)
        steps = _stream(connection, _STEPS.format(where=where), tables)
        grouped = itertools.groupby(steps, key=lambda row: row["trajectory_id"])
        identity, group = next(grouped, (None, iter(())))
        for row in rows:
            while identity is not None and identity < row["trajectory_id"]:
                identity, group = next(grouped, (None, iter(())))
            mine = list(group) if identity == row["trajectory_id"] else []
            yield Episode(row, mine, {step["before_image"] for step in mine if step["before_image"] in blank})


def _stream(connection: duckdb.DuckDBPyConnection, query: str, tables: dict[str, ds.Dataset]) -> Iterator[dict]:
    """Yield the rows of a query, a batch at a time."""
    cursor = connection.cursor()
    for name, table in tables.items():
        cursor.register(name, table)
    try:
        for batch in cursor.sql(query).to_arrow_reader(BATCH):
            yield from batch.to_pylist()
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        mend = "make room on the disk, or delete the normalised folders and run again"
        raise InputError("normalised tables", f"cannot be read together ({one_line(str(error), 200)})", mend) from None


def _blank_images(folders: list[Path]) -> set[str]:
    found: set[str] = set()
    for folder in folders:
        table = read_table(folder, "images", ["image_id", "status", "blank"])
        found.update(table.filter((pc.field("status") == "ok") & (pc.field("blank") >= BLANK))["image_id"].to_pylist())
    return found


def oracles(folders: list[Path]) -> dict[str, list[dict]]:
    """Return the oracle rows by trajectory."""
    found: dict[str, list[dict]] = {}
    for folder in folders:
        for row in read_rows(folder, "oracle_results"):
            found.setdefault(row["trajectory_id"], []).append(row)
    return found


#: A line of an accessibility tree: perhaps an id, a role, the name in quotes, perhaps more properties.
_ELEMENT = re.compile(r"""\s*(?:\[[\w-]+\]\s*)?[A-Za-z]\w*(?: [a-z]\w*)?:?\s+(['"])(?P<name>.*?)\1(?P<more>(?:,?\s*\w+=.*|,\s.*)?)$""")
_VALUE = re.compile(r"""\bvalue=(['"])(?P<value>.*?)\1(?=$|,|\s+\w+=)""")


def visible(text: str | None) -> list[str]:
    """Return the visible strings of a page's accessible text, one an element; a field reads ``name: value``.

    Accessibility trees write one element a line with its name in quotes; other sources write the text itself.
    """
    found = []
    for line in (text or "").splitlines():
        element = _ELEMENT.match(line)
        if element is None:
            if line.strip():
                found.append(line.strip())
            continue
        value = _VALUE.search(element["more"])
        if string := (f"{element['name']}: {value['value']}" if value and value["value"] else element["name"]):
            found.append(string)
    return found
