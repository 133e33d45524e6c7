"""Tables on disk: typed Parquet and the words about them, one JSON for all."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evoaudit import store
from evoaudit.errors import InputError, one_line
from evoaudit.jsonfile import read_json
from evoaudit.tables.spec import TABLES, Column, Table, metadata

INDEX = "tables.json"
#: What an entry of the index says of its table, and of each column.
_META = {"name", "title", "paper", "note", "group", "n", "empty", "simulated", "columns"}
_COLUMN = {"name", "label", "unit", "decimals", "kind", "best", "extra"}


def write(folder: Path, tables: Iterable[tuple[Table, list[dict], str]]) -> int:
    """Write tables and ``tables.json``; return how many."""
    index = []
    for table, rows, reason in tables:
        schema = table.arrow()
        declared = set(schema.names)
        for row in rows:
            if stray := row.keys() - declared:
                raise ValueError(f"{table.name}: columns {sorted(stray)} are not declared")
        columns = [pa.array([_clean(row.get(field.name), field.type) for row in rows], field.type) for field in schema]
        pq.write_table(pa.table(columns, schema=schema), folder / f"{table.name}.parquet", compression="zstd")
        index.append(metadata(table, rows, table.note, reason))
    (folder / INDEX).write_text(json.dumps(index, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return len(index)


def _clean(value: Any, kind: pa.DataType) -> Any:
    """Return the value as the column's type wants it; what is not a number becomes null, and numpy's types plain ones."""
    if value is None:
        return None
    if pa.types.is_floating(kind):
        return float(value) if math.isfinite(value) else None
    if pa.types.is_integer(kind):
        return int(value)
    return bool(value) if pa.types.is_boolean(kind) else store.text(value)


def read_index(folder: Path) -> list[dict]:
    """Read what ``tables.json`` says of each table."""
    path = Path(folder) / INDEX
    index = read_json(path)
    whole = isinstance(index, list) and all(isinstance(meta, dict) and meta.keys() >= _META for meta in index)
    if not whole or not all(isinstance(column, dict) and column.keys() >= _COLUMN for meta in index for column in meta["columns"]):
        raise InputError(path, "is not the list of tables that the stats stage writes", "delete its folder and run again")
    return index


def read(folder: Path, name: str, meta: dict | None = None) -> pa.Table:
    """Read one table of a stats folder; ``meta``, its entry in ``tables.json``, says which columns it must have."""
    path = Path(folder) / f"{name}.parquet"
    try:
        table = pq.read_table(path, partitioning=None)
    except FileNotFoundError:
        raise InputError(path, "file not found", "run the stats stage") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(path, f"not a readable Parquet file ({one_line(str(error), 120)})", "delete its folder and run again") from None
    if meta is not None:
        declared = {column["name"]: Column(column["name"], column["kind"]).arrow for column in meta["columns"]}
        if {field.name: field.type for field in table.schema} != declared or table.num_rows != meta["n"]:
            raise InputError(path, f"is not the table '{name}' that {INDEX} describes", "delete its folder and run again")
    return table


def rows(folder: Path, name: str, meta: dict | None = None) -> list[dict]:
    """Read one table as dicts, with the declared columns even if an older file lacks some."""
    found = read(folder, name, meta)
    missing = dict.fromkeys(column.name for column in TABLES[name].columns) if name in TABLES else {}
    return [{**missing, **row} for row in found.to_pylist()]
