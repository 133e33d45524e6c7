"""Time and peak memory of mining the paper's 3,000 items from corpora of growing size.

    python benchmarks/mining.py [--sizes 1000 5000 50000] [--base 1000] [--work FOLDER]

A corpus of ``--base`` simulated trajectories, half Mind2Web and half WebLINX, is made and normalised; the larger ones are copies of
its normalised tables. A copy's trajectories, tasks and pictures have names of their own and its perceptual hashes are all turned by
one mask, so that to the miner they are other trajectories with other pictures; the picture files themselves are shared, so opening
them is as dear as ever. Mining is a process of its own, as in the workflow; its wall and processor time and its largest resident
size are the kernel's.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from normalise_and_mine import slope
from stage import measure

from evoaudit.config import check

FORMATS = ("mind2web", "weblinx")
LIMIT_SECONDS, AT, LIMIT_EXPONENT, LIMIT_MIB = 60, 5000, 1.1, 2048
#: Columns that name something of a copy's own, by table.
NAMES = {
    "trajectories": ("trajectory_id", "task_id"),
    "steps": ("trajectory_id", "before_image", "after_image"),
    "changes": ("trajectory_id",),
    "images": ("image_id",),
}


def base(size: int, work: Path) -> Path:
    """Simulate and normalise the corpus that is copied; return its folder."""
    home = work / f"base-{size}"
    if not (home / "raw" / "manifest.json").is_file():
        settings = json.dumps({"trajectories": size, "formats": list(FORMATS)})
        measure("simulate", "--settings", settings, "--seed", "1", "--threads", "2", "--out", str(home / "raw"))
    for kind in FORMATS:
        if not (home / kind / "manifest.json").is_file():
            settings = json.dumps({"source": f"sim-{kind}", "kind": kind, "simulated": True, "options": {}})
            roots = ("--root-folder", str(home / "raw" / kind), "--truth", str(home / "raw" / "truth.jsonl"))
            measure("normalise", "--settings", settings, *roots, "--threads", "2", "--out", str(home / kind))
    return home


def grow(home: Path, times: int, out: Path) -> None:
    """Write the normalised tables of a corpus so many times over."""
    for kind in FORMATS:
        (out / kind).mkdir(parents=True, exist_ok=True)
        for table, names in NAMES.items():
            path = home / kind / f"{table}.parquet"
            with pq.ParquetFile(path) as file, pq.ParquetWriter(out / kind / path.name, file.schema_arrow, compression="zstd") as writer:
                for copy in range(times):
                    for batch in file.iter_batches(batch_size=8192):
                        writer.write_batch(_copied(batch, names, copy))


def _copied(batch: pa.RecordBatch, names: tuple[str, ...], copy: int) -> pa.RecordBatch:
    if not copy:
        return batch
    mask = int.from_bytes(hashlib.blake2b(str(copy).encode(), digest_size=8).digest())
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in names:
            column = pc.binary_join_element_wise(column, f"copy {copy}", " ")
        elif name == "phash":
            turned = [None if value is None else f"{int(value, 16) ^ mask:016x}" for value in column.to_pylist()]
            column = pa.array(turned, pa.string())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def mine(folder: Path, home: Path, out: Path) -> tuple[float, float, float]:
    """Mine a corpus and return its time and memory; the split must be full."""
    settings = check({}).probes.model_dump(mode="json", exclude={"sources", "sets"})
    roots = [f"sim-{kind}={home / 'raw' / kind}" for kind in FORMATS]
    folders = [str(folder / kind) for kind in FORMATS]
    found = measure(
        "mine", "--settings", json.dumps(settings), "--seed", "1", "--normalised", *folders, "--root", *roots, "--out", str(out)
    )
    taken = sum(pq.read_metadata(out / f"{task}.parquet").num_rows for task in ("t1", "t2", "t3"))
    if taken != 3000:
        sys.exit(f"{taken} items instead of 3,000")
    return found


def main() -> None:
    """Measure every size and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 5000, 50000])
    parser.add_argument("--base", type=int, default=1000)
    parser.add_argument("--work", type=Path, default=Path(".benchmark-work"))
    args = parser.parse_args()
    home = base(args.base, args.work)
    rows = []
    print("| trajectories | steps | mine, s | processor, s | peak, MiB |\n| ---: | ---: | ---: | ---: | ---: |", flush=True)
    for size in args.sizes:
        folder = args.work / f"grown-{size}"
        grow(home, -(-size // args.base), folder)
        steps = sum(pq.read_metadata(folder / kind / "steps.parquet").num_rows for kind in FORMATS)
        wall, processor, peak = mine(folder, home, args.work / f"mined-{size}")
        rows.append((size, wall, processor, peak))
        print(f"| {size:,} | {steps:,} | {wall:.1f} | {processor:.1f} | {peak:.0f} |", flush=True)
    exponent = slope([(size, processor) for size, _, processor, _ in rows]) if len(rows) > 1 else 0.0
    peak = max(row[3] for row in rows)
    slow = any(size <= AT and wall > LIMIT_SECONDS for size, wall, _, _ in rows)
    print(
        f"\nGrowth exponent {exponent:.2f} (limit {LIMIT_EXPONENT}), peak {peak:.0f} MiB (limit {LIMIT_MIB}), "
        f"{AT:,} trajectories in {LIMIT_SECONDS} s: {'no' if slow else 'yes'}."
    )
    sys.exit(int(exponent > LIMIT_EXPONENT or peak > LIMIT_MIB or slow))


if __name__ == "__main__":
    main()
