"""Preparing pictures against a bare loop that decodes, resizes and encodes the same ones with Pillow.

    python benchmarks/preparation.py [--pictures 500 1000 2000] [--side 512] [--repeats 3] [--work FOLDER]

Two sets: simulated screens as they are (640 × 400, 256 colours) and as real screens are stored (1280 × 800, true colour).
Each side is a process of its own; sides take turns, and medians are compared. Preparing also finds the pictures in their
sources, checks their hashes, sorts them and writes them to Parquet; it is measured on one thread, as the loop is, and on two.
The growth exponent is the slope of log(time) over log(pictures): 1 is linear.
"""

import argparse
import json
import math
import statistics
import sys
from itertools import islice
from pathlib import Path

from reading import FOLDERS, full_screens, simulate, timed
from stage import whole

LIMIT_RATIO, LIMIT_EXPONENT = 0.85, 1.1

BARE = """
import io, json, sys
from PIL import Image
names, side = json.load(open(sys.argv[1])), int(sys.argv[2])
for name in names:
    with Image.open(name) as image:
        picture = image.convert("RGB")
    longest = max(picture.size)
    if longest > side:
        picture = picture.resize([round(length * side / longest) for length in picture.size], Image.Resampling.LANCZOS)
    picture.save(io.BytesIO(), "PNG")
"""

OURS = """
import hashlib, json, shutil, sys
from pathlib import Path
from evoaudit import prepare
names, side, threads, out = json.load(open(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
shutil.rmtree(out, ignore_errors=True)
out.mkdir()
root = Path(names[0]).parents[-1]
places = [
    prepare.Place(f"{n:09}", root, str(Path(name).relative_to(root)), None, "plain", hashlib.sha256(Path(name).read_bytes()).hexdigest())
    for n, name in enumerate(names)
]
prepare.write(out, places, side, threads)
"""


def seconds(work: Path, names: list[Path], side: int, repeats: int) -> tuple[float, float, float, float]:
    """Return median seconds of the loop, of one thread and of two, and the largest MiB of ours."""
    listed = work / "prepared.json"
    listed.write_text(json.dumps([str(name.absolute()) for name in names]))
    taken: dict[int, list[float]] = {0: [], 1: [], 2: []}
    peak = 0.0
    for _ in range(repeats):
        taken[0].append(timed("-c", BARE, str(listed), str(side))[0])
        for threads in (1, 2):
            time, mib = timed("-c", OURS, str(listed), str(side), str(threads), str(work / "prepared"))
            taken[threads].append(time)
            peak = max(peak, mib)
    return *(statistics.median(taken[threads]) for threads in (0, 1, 2)), peak


def main() -> None:
    """Compare on both sets and fail where preparing is too slow or does not grow in step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, nargs="+", default=[500, 1000, 2000])
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--work", type=Path, default=Path(".benchmark-work"))
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    corpus, full = simulate(args.work, 1000, *FOLDERS), args.work / "full-1000"
    if not full.is_dir():
        full_screens(corpus, args.work / "full-partial")
        (args.work / "full-partial").rename(full)
    print("| screens | pictures | loop, s | one thread, s | ratio | two threads, s | ratio | peak, MiB |")
    print("| --- |" + " ---: |" * 7)
    worst, steepest = math.inf, 0.0
    for label, folder in (("as simulated", corpus), ("of full size", full)):
        names = list(islice(filter(whole, sorted(folder.rglob("*.png"))), max(args.pictures)))
        points = []
        for n in sorted(args.pictures):
            loop, one, two, peak = seconds(args.work, names[:n], args.side, args.repeats)
            print(
                f"| {label} | {n:,} | {loop:.1f} | {one:.1f} | {loop / one:.2f} | {two:.1f} | {loop / two:.2f} | {peak:.0f} |", flush=True
            )
            points.append((math.log(n), math.log(one)))
            worst = min(worst, loop / one)
        if len(points) > 1:
            steepest = max(steepest, statistics.linear_regression(*zip(*points, strict=True)).slope)
    print(f"lowest ratio on one thread {worst:.2f}, growth exponent {steepest:.2f}")
    if worst < LIMIT_RATIO or steepest > LIMIT_EXPONENT:
        sys.exit(f"the ratio should be {LIMIT_RATIO} at least, the exponent {LIMIT_EXPONENT} at most")


if __name__ == "__main__":
    main()
