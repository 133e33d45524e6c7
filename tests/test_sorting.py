"""Wide rows are sorted on disk, share by share, and no path is taken for a pattern."""

import random
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evoaudit import sorting, store


def stored(path: Path, rows: list[dict]) -> np.ndarray:
    """Write rows in small groups and return their widths."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=7)
    return np.array([len(row["text"] or "") for row in rows], np.int64)


@pytest.mark.parametrize("share", [10**9, 300, 1])
def test_shares_give_the_order_one_sort_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: int):
    draw = random.Random(3)
    rows = [{"name": draw.choice(["b", "a", None, "ü"]), "text": draw.choice(["x" * draw.randrange(60), None])} for _ in range(200)]
    widths = stored(tmp_path / "t.parquet", rows)
    monkeypatch.setattr(sorting, "SHARE", share)
    monkeypatch.setattr(sorting, "GROUP_TEXT", 500)
    with duckdb.connect() as database:
        groups = list(sorting.by_keys(database, tmp_path / "t.parquet", "name NULLS FIRST", widths, tmp_path))
    expected = sorted(rows, key=lambda row: (row["name"] is not None, (row["name"] or "").encode()))
    assert pa.concat_tables(groups).to_pylist() == expected
    assert all(sum(len(row["text"] or "") for row in group.to_pylist()) < 500 + 60 for group in groups)
    sizes = [group.num_rows for group in groups]
    assert len(sizes) > 3 and [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def test_a_table_without_rows_has_no_groups(tmp_path: Path):
    pq.write_table(pa.table({"name": pa.array([], pa.string())}), tmp_path / "t.parquet")
    with duckdb.connect() as database:
        assert not list(sorting.by_keys(database, tmp_path / "t.parquet", "name", np.empty(0, np.int64), tmp_path))


@pytest.mark.parametrize("name", ["run*", "run?", "run[1]", "run'1"])
def test_a_path_is_no_pattern(tmp_path: Path, name: str):
    for number, folder in enumerate((name, "run1", "runs")):
        stored(tmp_path / folder / "t.parquet", [{"name": str(number), "text": ""}])
    with duckdb.connect() as database:
        found = database.execute(f"SELECT name FROM read_parquet({sorting.quoted(tmp_path / name / 't.parquet')})").fetchall()
    assert found == [("0",)]


def test_wide_rows_are_written_before_there_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store, "GROUP_TEXT", 1000)
    row = {"stage": "normalise", "source": "s", "unit": "step", "item": "i" * 200, "reason": "r", "detail": None}
    with store.TableWriter(tmp_path, "drops") as writer:
        writer.extend([row] * 20)
    assert pq.ParquetFile(writer.path).metadata.row_group(0).num_rows == 5
    assert list(writer.widths) == [215] * 20
