"""Sorting tables of wide rows on disk: a database sorts the keys, the rows follow in shares that fit into memory.

Rows may hold tens of thousands of characters each, which a database with little memory cannot sort even with room on the disk.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from glob import escape
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from evoaudit.store import GROUP_TEXT, ROW_GROUP

#: Characters and bytes of a share of the rows, and shares at most.
SHARE, SHARES = 64 * 2**20, 200
#: Rows of a share at most.
_SHARE_ROWS = 500_000
_RANK = "rank"


def quoted(path: Path) -> str:
    """Return a path as SQL takes it, none of its characters meant as a pattern."""
    return "'" + escape(str(path)).replace("'", "''") + "'"


def by_keys(database: duckdb.DuckDBPyConnection, path: Path, keys: str, widths: np.ndarray, scratch: Path) -> Iterator[pa.Table]:
    """Yield the rows of a Parquet file sorted by ``keys`` (SQL), equal ones as they stand, in tables of one row group.

    ``widths`` are the characters and bytes of each row's values; where a row group ends depends on them and the order alone.
    """
    sorting = f"SELECT file_row_number FROM read_parquet({quoted(path)}, file_row_number = true) ORDER BY {keys}, file_row_number"
    order = database.execute(sorting).fetchnumpy()["file_row_number"].astype(np.int64)
    if not len(order):
        return
    before = np.cumsum(widths[order]) - widths[order]
    share = max(SHARE, int(widths.sum()) // SHARES)
    shares, ranks = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    shares[order] = np.maximum(before // share, np.arange(len(order)) // max(_SHARE_ROWS, len(order) // SHARES))
    ranks[order] = np.arange(len(order))
    _, shares = np.unique(shares, return_inverse=True)
    yield from _groups(_shares(path, shares, ranks, scratch), widths[order])


def _shares(path: Path, shares: np.ndarray, ranks: np.ndarray, scratch: Path) -> Iterator[pa.Table]:
    """Yield the rows in order of rank, one share after another."""
    files = [scratch / f"share-{number:03}.arrow" for number in range(int(shares.max()) + 1)]
    with ExitStack() as stack, pq.ParquetFile(path) as table:
        schema = table.schema_arrow.append(pa.field(_RANK, pa.int64()))
        writers = [stack.enter_context(pa.ipc.new_file(stack.enter_context(pa.OSFile(str(file), "wb")), schema)) for file in files]
        start = 0
        for group in range(table.num_row_groups):
            rows = table.read_row_group(group, use_threads=False)
            here = slice(start, start + rows.num_rows)
            rows, start = rows.append_column(schema.field(_RANK), pa.array(ranks[here])), here.stop
            for number in np.unique(shares[here]):
                writers[number].write_table(rows.take(np.flatnonzero(shares[here] == number)))
    for file in files:
        with pa.OSFile(str(file)) as handle:
            rows = pa.ipc.open_file(handle).read_all()
        file.unlink()
        order = np.argsort(rows[_RANK].to_numpy())
        yield rows.drop_columns(_RANK).take(order)


def _groups(tables: Iterable[pa.Table], widths: np.ndarray) -> Iterator[pa.Table]:
    """Yield the rows of tables again in row groups of bounded length and width."""
    held: list[pa.Table] = []
    count = size = at = 0
    for table in tables:
        start = 0
        for end, wide in enumerate(widths[at : at + table.num_rows].tolist(), 1):
            count, size = count + 1, size + wide
            if count >= ROW_GROUP or size >= GROUP_TEXT:
                yield pa.concat_tables([*held, table.slice(start, end - start)]).combine_chunks()
                held, count, size, start = [], 0, 0, end
        if start < table.num_rows:
            held.append(table.slice(start))
        at += table.num_rows
    if held:
        yield pa.concat_tables(held).combine_chunks()
