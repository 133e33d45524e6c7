"""Time and peak memory of normalising and mining simulated corpora of growing size.

    python benchmarks/normalise_and_mine.py [--sizes 200 2000 20000] [--work FOLDER]

Each stage is a process of its own, as in the workflow; its wall time and largest resident size are the kernel's. The growth
exponent is the slope of log(time) over log(trajectories): 1 is linear. Corpora are made first, and are not in the times.
"""

import argparse
import json
import math
import sys
from pathlib import Path

from stage import measure

from evoaudit.config import SIMULATED_FORMATS, check

LIMIT_EXPONENT, LIMIT_MIB = 1.1, 2048


def run(size: int, work: Path, threads: int) -> tuple[float, float, float]:
    """Return seconds of normalising all formats, seconds of mining, and the largest peak in MiB."""
    corpus = work / f"corpus-{size}"
    if not (corpus / "manifest.json").is_file():
        measure("simulate", "--trajectories", str(size), "--seed", "1", "--threads", str(threads), "--out", str(corpus))
    normalising = peak = 0.0
    manifests, roots = [], []
    for kind in SIMULATED_FORMATS:
        out = work / f"normalised-{size}" / kind
        settings = json.dumps({"source": f"sim-{kind}", "kind": kind, "simulated": True, "options": {}})
        seconds, _, mib = measure(
            "normalise",
            "--settings",
            settings,
            "--root-folder",
            str(corpus / kind),
            "--truth",
            str(corpus / "truth.jsonl"),
            "--tasks",
            str(corpus / f"{kind}-tasks.jsonl"),
            "--threads",
            str(threads),
            "--out",
            str(out),
        )
        normalising, peak = normalising + seconds, max(peak, mib)
        manifests.append(str(out / "manifest.json"))
        roots.append(f"sim-{kind}={corpus / kind}")
    settings = json.dumps(check({}).probes.model_dump(mode="json"))
    mining, _, mib = measure(
        "mine",
        "--settings",
        settings,
        "--seed",
        "1",
        "--threads",
        str(threads),
        "--normalised",
        *manifests,
        "--root",
        *roots,
        "--out",
        str(work / f"mined-{size}"),
    )
    return normalising, mining, max(peak, mib)


def slope(points: list[tuple[int, float]]) -> float:
    """Return the least-squares slope of log y over log x."""
    xs, ys = [math.log(x) for x, _ in points], [math.log(y) for _, y in points]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)


def main() -> None:
    """Measure every size and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 2000, 20000])
    parser.add_argument("--work", type=Path, default=Path(".benchmark-work"))
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    rows = []
    print("| trajectories | normalise, s | mine, s | peak, MiB |\n| ---: | ---: | ---: | ---: |", flush=True)
    for size in args.sizes:
        normalising, mining, peak = run(size, args.work, args.threads)
        rows.append((size, normalising, mining, peak))
        print(f"| {size:,} | {normalising:.1f} | {mining:.1f} | {peak:.0f} |", flush=True)
    if len(rows) > 1:
        exponent = slope([(size, normalising + mining) for size, normalising, mining, _ in rows])
        peak = max(row[3] for row in rows)
        print(f"\nGrowth exponent {exponent:.2f} (limit {LIMIT_EXPONENT}), peak {peak:.0f} MiB (limit {LIMIT_MIB}).")
        sys.exit(int(exponent > LIMIT_EXPONENT or peak > LIMIT_MIB))


if __name__ == "__main__":
    main()
