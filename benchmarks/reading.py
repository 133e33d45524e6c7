"""Reading and normalising against the usual ways of loading the same files.

    python benchmarks/reading.py [--trajectories 20000] [--full 1000] [--repeats 3] [--work FOLDER]

Three comparisons, each printed as a ratio of the pictures a second of both sides (above 1: normalising is faster):

1. a bare loop that opens and decodes every picture with Pillow, on the simulated screens as they are (640 × 400, 256 colours)
   and as real screens are stored (1280 × 800, true colour);
2. a rerun with one more shard of Multimodal-Mind2Web, against that shard alone and against everything anew;
3. `datasets` and pandas, each decoding every screenshot of the same shards (needs `pip install datasets pandas`).

Each side is a process of its own with nothing else to do; sides take turns, and medians are compared. Normalising uses two
workers and does more: it hashes, describes and compares the screens, parses the logs and writes the tables.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import psutil

FOLDERS = ("weblinx", "agentrewardbench", "osworld", "plain")

BARE = """
import sys
from PIL import Image
n = 0
for path in open(sys.argv[1]).read().split("\\n"):
    try:
        with Image.open(path) as image:
            image.load()
        n += 1
    except OSError:
        pass
"""

DATASETS = """
import io, sys
import PIL.Image
from datasets import Image, load_dataset
rows = load_dataset("parquet", data_files=sys.argv[2:], split="train", cache_dir=sys.argv[1])
for row in rows.cast_column("screenshot", Image(decode=False)):  # one damaged picture would end its own decoding
    if row["screenshot"] is not None:
        try:
            PIL.Image.open(io.BytesIO(row["screenshot"]["bytes"])).load()
        except OSError:
            pass
"""

PANDAS = """
import io, sys
import pandas
from PIL import Image
for row in pandas.concat(pandas.read_parquet(path) for path in sys.argv[2:])["screenshot"]:
    if row is not None:
        try:
            Image.open(io.BytesIO(row["bytes"])).load()
        except OSError:
            pass
"""


def timed(*words: str) -> tuple[float, float]:
    """Run a Python process; return its wall seconds and the largest resident MiB of it and its workers together, sampled."""
    start = time.perf_counter()
    running = psutil.Popen([sys.executable, *words], env={**os.environ, "HF_HUB_OFFLINE": "1"})
    peak = 0
    while running.poll() is None:
        resident = 0
        with suppress(psutil.Error):
            for process in (running, *running.children(recursive=True)):
                with suppress(psutil.Error):
                    resident += process.memory_info().rss
        peak = max(peak, resident)
        time.sleep(0.05)
    if running.returncode:
        sys.exit(f"failed: {' '.join(words[:4])}")
    return time.perf_counter() - start, peak / 2**20


def normalise(root: Path, kind: str, out: Path) -> tuple[float, float]:
    """Normalise one folder anew, unless ``out`` has neighbours that know it."""
    settings = json.dumps({"source": f"sim-{kind}", "kind": kind, "simulated": True, "options": {}})
    words = ["--settings", settings, "--root-folder", str(root), "--threads", "2", "--out", str(out)]
    return timed("-m", "evoaudit", "normalise", *words)


def decoded(out: Path) -> int:
    """Return how many places of pictures a normalised folder kept."""
    return json.loads((out / "manifest.json").read_text())["counts"]["others"]["picture"]["kept"]


def against(
    name: str, ours: Callable[[Path], tuple[float, float, int]], other: Callable[[], tuple[float, float]], work: Path, n: int
) -> None:
    """Let two sides take turns and print their medians and the ratio."""
    times: dict[str, list[float]] = {"ours": [], "other": []}
    peaks = [0.0, 0.0]
    count = 0
    for _ in range(n):
        out = work / "out"
        shutil.rmtree(out, ignore_errors=True)
        seconds, peak, count = ours(out)
        times["ours"].append(seconds)
        peaks[0] = max(peaks[0], peak)
        seconds, peak = other()
        times["other"].append(seconds)
        peaks[1] = max(peaks[1], peak)
    mine, theirs = (statistics.median(values) for values in times.values())
    print(
        f"| {name} | {count:,} | {mine:.1f} | {peaks[0]:.0f} | {theirs:.1f} | {peaks[1]:.0f} | {theirs / mine:.2f} |",
        flush=True,
    )


def enlarge(path: str, target: str) -> None:
    """Write a screen at twice its size in true colour, as real screens are stored; what is no picture is copied."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            big = image.convert("RGB").resize((image.width * 2, image.height * 2), Image.Resampling.BICUBIC)
            big.save(target, "PNG", compress_level=3)
    except OSError:
        shutil.copyfile(path, target)


def full_screens(corpus: Path, target: Path) -> None:
    """Copy the folders of a corpus with enlarged pictures."""
    files = [path for name in FOLDERS for path in sorted((corpus / name).rglob("*")) if path.is_file()]
    for folder in {target / path.relative_to(corpus).parent for path in files}:
        folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(2) as pool:
        pictures = [path for path in files if path.suffix == ".png"]
        list(pool.map(enlarge, map(str, pictures), (str(target / path.relative_to(corpus)) for path in pictures), chunksize=50))
    for path in files:
        if path.suffix != ".png":
            shutil.copyfile(path, target / path.relative_to(corpus))


def simulate(work: Path, trajectories: int, *formats: str) -> Path:
    """Simulate a corpus once."""
    corpus = work / f"corpus-{trajectories}-{'-'.join(formats)}"
    if not (corpus / "manifest.json").is_file():
        words = ["--trajectories", str(trajectories), "--formats", ",".join(formats), "--seed", "1", "--threads", "2", "--out", str(corpus)]
        timed("-m", "evoaudit", "simulate", *words)
    return corpus


def bare_loop(name: str, corpus: Path, work: Path, repeats: int) -> None:
    """Compare with a loop that only decodes."""
    names = work / "pictures.txt"
    names.write_text("\n".join(str(path) for kind in FOLDERS for path in sorted((corpus / kind).rglob("*.png"))))

    def ours(out: Path) -> tuple[float, float, int]:
        runs = [(kind, *normalise(corpus / kind, kind, out / f"of-{kind}" / kind)) for kind in FOLDERS]
        return sum(run[1] for run in runs), max(run[2] for run in runs), sum(decoded(out / f"of-{kind}" / kind) for kind in FOLDERS)

    against(name, ours, lambda: timed("-c", BARE, str(names)), work, repeats)


def main() -> None:
    """Run all comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trajectories", type=int, default=20_000, help="size of the corpus with simulated screens as they are")
    parser.add_argument("--full", type=int, default=1_000, help="size of the corpus with full screens")
    parser.add_argument("--shards", type=int, default=2_000, help="size of the Multimodal-Mind2Web corpus")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--work", type=Path, default=Path(".benchmark-work"))
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)

    print("| comparison | pictures | normalise, s | peak, MiB | the other, s | peak, MiB | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    if args.trajectories:
        corpus = simulate(args.work, args.trajectories, *FOLDERS)
        bare_loop("bare loop, simulated screens", corpus, args.work, args.repeats)
    if args.full:
        corpus, full = simulate(args.work, args.full, *FOLDERS), args.work / f"full-{args.full}"
        if not full.is_dir():
            full_screens(corpus, args.work / "full-partial")
            (args.work / "full-partial").rename(full)
        bare_loop("bare loop, full screens", full, args.work, args.repeats)
    if args.shards:
        shards(simulate(args.work, args.shards, "mind2web") / "mind2web", args.work, args.repeats)


def shards(root: Path, work: Path, repeats: int) -> None:
    """Compare a rerun with one more shard, and the usual loaders of Parquet."""
    files = sorted((root / "data").glob("*.parquet"))
    grown, last = work / "grown" / "data", work / "last" / "data"
    for folder, chosen in ((grown, files[:-1]), (last, files[-1:])):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for path in chosen:
            os.link(path, folder / path.name)
    first = work / "earlier" / "first"
    shutil.rmtree(first.parent, ignore_errors=True)
    normalise(grown.parent, "mind2web", first)
    os.link(files[-1], grown / files[-1].name)

    def rerun(_: Path) -> tuple[float, float, int]:
        shutil.rmtree(first.parent / "again", ignore_errors=True)
        seconds, peak = normalise(grown.parent, "mind2web", first.parent / "again")
        return seconds, peak, decoded(first.parent / "again")

    def anew(out: Path) -> tuple[float, float, int]:
        seconds, peak = normalise(root, "mind2web", out / "mind2web")
        return seconds, peak, decoded(out / "mind2web")

    def other(folder: Path) -> tuple[float, float]:
        shutil.rmtree(work / "other", ignore_errors=True)
        return normalise(folder, "mind2web", work / "other" / "mind2web")

    against(f"one shard more of {len(files)}, against that shard alone", rerun, lambda: other(last.parent), work, repeats)
    against(f"one shard more of {len(files)}, against all anew", rerun, lambda: other(root), work, repeats)
    for name, code in (("datasets", DATASETS), ("pandas", PANDAS)):
        if find_spec(name) is None:
            print(f"{name} is not installed; `pip install {name}` to compare", file=sys.stderr)
            continue

        def load(code: str = code) -> tuple[float, float]:
            shutil.rmtree(work / "cache", ignore_errors=True)
            return timed("-c", code, str(work / "cache"), *map(str, files))

        against(f"{name}, shards of Multimodal-Mind2Web", anew, load, work, repeats)


if __name__ == "__main__":
    main()
