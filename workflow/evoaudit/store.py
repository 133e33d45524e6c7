"""Stage folders on disk: checked Parquet, whole files or none, and the manifest that explains them."""

import ctypes
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evoaudit import intact, schema
from evoaudit.errors import InputError, one_line
from evoaudit.identity import canonical as canonical
from evoaudit.interrupts import patient

#: Rows buffered before a row group is written; bounds memory at every corpus size.
ROW_GROUP = 8192
#: Options of the C library: how many places threads take memory from, and the sizes, bytes, from which what is free at the end, and each
#: piece, goes back to the system (M_ARENA_MAX, M_TRIM_THRESHOLD, M_MMAP_THRESHOLD).
_THRIFT = {-8: 1, -1: 1 << 17, -3: 1 << 16}
#: Rows that wait as dicts, which take several times what they take in Arrow.
_DICTS = 256
#: Characters and bytes buffered before that: rows may be as wide as a source's longest texts.
GROUP_TEXT = 16 * 2**20


def sha256_file(path: Path) -> str:
    """Return the sha256 of a file's bytes."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def text(value: object, limit: int | None = None) -> str | None:
    """Make a string safe for Parquet and for people: lone surrogates and NULs replaced, optionally bounded.

    None stays None. Nothing else is changed, so values keep their exact spelling.
    """
    if value is None:
        return None
    clean = str(value).encode("utf-8", "replace").decode("utf-8").replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return clean if limit is None or len(clean) <= limit else clean[: limit - 1] + "…"


class TableWriter:
    """Write dict rows of one declared table to Parquet in bounded memory.

    Wrong or missing columns and nulls in required columns raise ``ValueError`` (a fault of ours, not of the input).
    """

    def __init__(self, folder: Path, name: str, stem: str | None = None, group: int = ROW_GROUP) -> None:
        self.name, self.schema, self._group = name, schema.TABLES[name], group
        self.path = folder / f"{stem or name}.parquet"
        self.rows = 0
        #: Characters and bytes of each row's texts.
        self.widths = array("I")
        self._dicts: list[dict] = []
        self._batches: list[pa.Table] = []
        self._buffered = self._width = 0
        self._writer = pq.ParquetWriter(self.path, self.schema, compression="zstd", write_statistics=True)

    def add(self, row: dict) -> None:
        self._dicts.append(row)
        self._buffered += 1
        self.rows += 1
        width = 0
        for value in row.values():
            if type(value) is str or type(value) is bytes:
                width += len(value)
        self.widths.append(width)
        self._width += width
        if self._buffered >= self._group or self._width >= GROUP_TEXT:
            self._flush()
        elif len(self._dicts) >= _DICTS:
            self._convert()

    def extend(self, rows: Iterable[dict]) -> None:
        for row in rows:
            self.add(row)

    def _convert(self) -> None:
        if self._dicts:
            self._batches.append(check(pa.Table.from_pylist(self._dicts, schema=self.schema), self.name, self._dicts))
            self._dicts = []

    def _flush(self) -> None:
        self._convert()
        if self._batches:
            # One piece, so that the file does not depend on how many rows were made into Arrow at a time.
            self._writer.write_table(pa.concat_tables(self._batches).combine_chunks())
            self._batches, self._buffered, self._width = [], 0, 0

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def __enter__(self) -> "TableWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check(table: pa.Table, name: str, rows: list[dict] | None = None) -> pa.Table:
    """Return ``table`` if it is exactly the declared table ``name``, else raise ``ValueError``."""
    declared = schema.TABLES[name]
    if rows:
        names = set(declared.names)
        for row in rows:
            if stray := row.keys() - names:
                raise ValueError(f"{name}: columns {sorted(stray)} are not in the schema")
    if table.schema.names != declared.names or table.schema.types != declared.types:
        raise ValueError(f"{name}: schema differs: {table.schema.names} != {declared.names}")
    for field in declared:
        if not field.nullable and table[field.name].null_count:
            raise ValueError(f"{name}.{field.name}: nulls in a required column")
    return table


def write_table(folder: Path, name: str, rows: Iterable[dict] | pa.Table, stem: str | None = None, group: int = ROW_GROUP) -> int:
    """Write one declared table and return its row count; dicts in row groups of ``group`` rows at most."""
    if isinstance(rows, pa.Table):
        rows = check(rows.select(schema.TABLES[name].names).cast(schema.TABLES[name]), name).to_batches()
        with pq.ParquetWriter(folder / f"{stem or name}.parquet", schema.TABLES[name], compression="zstd") as writer:
            total = 0
            for batch in rows:
                writer.write_batch(batch)
                total += batch.num_rows
        return total
    with TableWriter(folder, name, stem, group) as writer:
        writer.extend(rows)
    return writer.rows


def read_table(folder: Path, name: str, columns: list[str] | None = None, stem: str | None = None) -> pa.Table:
    """Read one declared table of a stage folder."""
    path = table_file(folder, name, stem)
    try:
        return pq.read_table(path, columns=columns, partitioning=None)
    except (pa.ArrowInvalid, OSError) as error:
        raise _unreadable(path, error) from None


def table_file(folder: Path, name: str, stem: str | None = None) -> Path:
    """Return the path of one declared table of a stage folder, if it is there and has the declared columns."""
    path = Path(folder) / f"{stem or name}.parquet"
    if path.exists() and not path.is_file():  # a pipe would never end
        raise _unreadable(path, OSError("not a file"))
    try:
        found = pq.read_schema(path).names
    except FileNotFoundError:
        raise InputError(path, "file not found", "run the stage that writes it, or give the right folder") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise _unreadable(path, error) from None
    if absent := [column for column in schema.TABLES[name].names if column not in found]:
        raise InputError(path, f"not the table '{name}': no column '{absent[0]}'", "delete its folder and run again")
    return path


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(path, f"not a readable Parquet file ({one_line(str(error), 120)})", "delete its folder and run again")


def read_rows(folder: Path, name: str, columns: list[str] | None = None) -> list[dict]:
    """Read one declared table as a list of dicts."""
    return read_table(folder, name, columns).to_pylist()


def frugal() -> None:
    """Let Arrow take memory from the system, and threads from one place: jobs that run by the dozen need not keep any for later."""
    pa.set_memory_pool(pa.system_memory_pool())
    with suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in _THRIFT.items():
            mallopt(option, value)


class Rows(Sequence[dict[str, Any]]):
    """A declared table's rows, read from its file as they are asked for; meant for reading in order, and safe between threads.

    In memory are one row group and the dicts of a few of its rows.
    """

    #: Rows made into dicts at a time.
    SOME = 256

    def __init__(self, folder: Path, name: str) -> None:
        self.path = table_file(folder, name)
        self._lock = Lock()
        try:
            self._file = pq.ParquetFile(self.path, pre_buffer=False)
        except (pa.ArrowInvalid, OSError) as error:
            raise _unreadable(self.path, error) from None
        footer = self._file.metadata
        self._starts = list(accumulate((footer.row_group(group).num_rows for group in range(footer.num_row_groups)), initial=0))
        self._group: tuple[int, pa.Table] | None = None
        self._held: tuple[int, int, list[dict[str, Any]]] = (0, 0, [])

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        if not 0 <= at < len(self):
            raise IndexError(at)
        with self._lock:
            first, last, rows = self._held
            if not first <= at < last:
                first, rows = self._some(at)
                self._held = first, first + len(rows), rows
        return rows[at - first]

    def column(self, name: str) -> pa.Array:
        """Return one column of all rows."""
        with self._lock:
            try:
                return self._file.read([name], use_threads=False)[name].combine_chunks()
            except (pa.ArrowInvalid, OSError) as error:
                raise _unreadable(self.path, error) from None

    def _some(self, at: int) -> tuple[int, list[dict[str, Any]]]:
        group = bisect_right(self._starts, at) - 1
        if self._group is None or self._group[0] != group:
            self._group = None  # so that never two are in memory
            try:
                self._group = group, self._file.read_row_group(group, use_threads=False)
            except (pa.ArrowInvalid, OSError) as error:
                raise _unreadable(self.path, error) from None
        start = (at - self._starts[group]) // self.SOME * self.SOME
        return self._starts[group] + start, self._group[1].slice(start, self.SOME).to_pylist()


@contextmanager
def staging(folder: Path) -> Iterator[Path]:
    """Yield a scratch folder whose files move into ``folder`` only if the block succeeds, the manifest last.

    On failure nothing is left behind, so a reader never meets half a stage.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob(".partial-*"):
        _clear(stale)
    scratch = lock = None
    try:
        with patient():
            scratch, lock = _scratch(folder)
        yield scratch
        names = sorted(scratch.iterdir(), key=lambda path: (path.name == "manifest.json", path.name))
        if (scratch / "manifest.json").exists():  # a kill among the moves must not leave an old manifest beside new files
            (folder / "manifest.json").unlink(missing_ok=True)
        for path in names:
            target = folder / path.name
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            os.replace(path, target)
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
            os.close(lock)


def _scratch(folder: Path) -> tuple[Path, int]:
    """Make a scratch folder and lock it, so that others can tell it from one a killed process left behind."""
    while True:
        scratch = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder))
        lock = os.open(scratch, os.O_RDONLY | os.O_CLOEXEC)
        with suppress(OSError):  # not every network share has locks; without them nothing is taken for left behind
            fcntl.flock(lock, fcntl.LOCK_EX)
        if os.fstat(lock).st_nlink:
            return scratch, lock
        os.close(lock)  # it was taken for left behind before it was locked


def _clear(scratch: Path) -> None:
    """Remove a scratch folder that nobody is working in."""
    with suppress(OSError):
        lock = os.open(scratch, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(scratch, ignore_errors=True)
        finally:
            os.close(lock)


def drop_row(stage: str, unit: str, source: str, item: str, reason: str, detail: str | None = None) -> dict:
    """Return a row of `drops`."""
    return {
        "stage": stage,
        "source": source,
        "unit": unit,
        "item": one_line(item, 300),
        "reason": reason,
        "detail": None if detail is None else one_line(detail, 300),
    }


class Counts:
    """Tally what was read, kept and dropped, and collect the drop rows."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.read: Counter[str] = Counter()
        self.kept: Counter[str] = Counter()
        self.dropped: dict[str, Counter[str]] = {}
        self.rows: list[dict] = []

    def keep(self, unit: str, n: int = 1) -> None:
        self.read[unit] += n
        self.kept[unit] += n

    def drop(self, unit: str, source: str, item: str, reason: str, detail: str | None = None) -> None:
        self.read[unit] += 1
        self.dropped.setdefault(unit, Counter())[reason] += 1
        self.rows.append(drop_row(self.stage, unit, source, item, reason, detail))

    def drop_many(self, unit: str, reason: str, n: int) -> None:
        """Tally ``n`` drops of one reason without a row for each."""
        if n:
            self.read[unit] += n
            self.dropped.setdefault(unit, Counter())[reason] += n

    def summary(self, unit: str) -> dict:
        """Return manifest counts with ``unit`` on top and every other unit below; raises if they do not reconcile."""
        units = {name: self._one(name) for name in sorted({unit, *self.read})}
        return {"unit": unit, **units.pop(unit), "others": units}

    def _one(self, unit: str) -> dict:
        dropped = dict(sorted(self.dropped.get(unit, Counter()).items()))
        read, kept = self.read[unit], self.kept[unit]
        if read != kept + sum(dropped.values()):
            raise ValueError(f"{self.stage}: {unit}: read {read} != kept {kept} + dropped {sum(dropped.values())}")
        return {"read": read, "kept": kept, "dropped": dropped}


def write_manifest(
    folder: Path,
    *,
    stage: str,
    key: str,
    format_version: int,
    seed: int | None,
    config: Any,
    upstream: dict[str, Any],
    counts: dict,
    deep: bool = True,
) -> None:
    """Write ``manifest.json``: what made this folder and the sha256 of every file in it.

    Everything but ``packages`` and ``revision`` is a function of inputs, config and seed. With ``deep=False`` only the
    files at the top are listed, for folders of very many files that list the others in a file of their own.
    """
    files = {
        path.relative_to(folder).as_posix(): sha256_file(path)
        for path in sorted(folder.rglob("*") if deep else folder.glob("*"))
        if path.is_file() and path.name != "manifest.json"
    }
    manifest = {
        "stage": stage,
        "key": key,
        "format_version": format_version,
        "seed": seed,
        "config": config,
        "upstream": upstream,
        "counts": counts,
        "files": files,
        "packages": packages(),
        "revision": revision(),
    }
    manifest[intact.CHECKSUM] = intact.checksum(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> dict:
    """Read a stage folder's manifest."""
    return intact.read_manifest(Path(folder) / intact.MANIFEST)


#: Packages whose behaviour the data depends on.
PACKAGES = (
    "evoaudit",
    "duckdb",
    "huggingface-hub",
    "matplotlib",
    "numpy",
    "openai",
    "pillow",
    "pyarrow",
    "scipy",
    "snakemake",
)


def packages() -> dict[str, str]:
    """Return the versions of the packages whose behaviour the data depends on."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def revision() -> str | None:
    """Return the git revision of the code, with ``+changed`` where files differ from it, or None outside a checkout."""
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+changed"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
