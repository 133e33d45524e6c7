"""Masking pictures for the export: what reading, filling and reading again cost, and what a second run of the same pictures does.

    python benchmarks/masking.py [--pictures 300] [--threads 2] [--work FOLDER]

Simulated screens at full size (1280 × 800, true colour), every tenth with a planted card number, address or name. Needs `make ocr`.
Every planted text must be gone by reading the masked pictures, and the second run must write the same and read nothing.
"""

import argparse
import hashlib
import io
import resource
import sys
import time
from itertools import islice
from pathlib import Path

from PIL import Image, ImageDraw
from reading import enlarge, simulate
from stage import whole

from evoaudit import prepare
from evoaudit.export import masking, privacy

PLANTED = ("Card 4111 1111 1111 1111", "jane.doe@corp.de", "Signed in as Ada Quill", "Call (212) 736-5000")
SIDE = 512


def seconds() -> float:
    """Return the processor seconds of this process and its threads, user and system."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def plant(pictures: int, work: Path) -> list[Path]:
    """Write screens at full size, every tenth with a planted text, and return their places."""
    corpus = simulate(work, pictures // 4, "plain")
    names = list(islice((path for path in sorted((corpus / "plain").rglob("*.png")) if whole(path)), pictures))
    folder = work / "planted"
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for n, name in enumerate(names):
        place = folder / f"{n:05}.png"
        enlarge(str(name), str(place))
        with Image.open(place) as image:
            picture = image.convert("RGB")
        draw = ImageDraw.Draw(picture)
        draw.rectangle((0, 0, 40 + n, 12), fill=(n % 256, 90, 160))  # no picture twice
        if n % 10 == 0:
            draw.rectangle((40, 60, 520, 110), fill=(255, 255, 255))
            draw.text((50, 70), PLANTED[n // 10 % len(PLANTED)], fill=(20, 20, 20), font_size=26)
        picture.save(place)
        found.append(place)
    return found


class Prepared(masking.Pictures):
    """Masked pictures of files, without the stages before."""

    def __init__(self, places: list[prepare.Place], cache: Path, threads: int) -> None:
        self.masked, self.found, self._places = set(), [], {}
        self.side = SIDE
        self._spool = io.BytesIO()
        self._reader = masking.Reader(cache)
        texts = privacy.Texts(privacy.Allowed())
        texts.learn({"trajectory_id": "t", "source": "s", "benchmark": None, "simulated": False}, [])
        self._mask(places, {place.image_id: {"t"} for place in places}, texts, threads)


def main() -> None:
    """Mask twice, and fail where something planted is left or the second run differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=300)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path("results/benchmarks/masking"))
    args = parser.parse_args()
    files = plant(args.pictures, args.work)
    places = [
        prepare.Place(digest, file.parent.absolute(), file.name, None, "plain", digest)
        for file in files
        for digest in [hashlib.sha256(file.read_bytes()).hexdigest()]
    ]
    cache = args.work / f"read-{time.time_ns()}"
    outcomes = []
    for run in ("first", "again"):
        cpu, wall = seconds(), time.perf_counter()
        done = Prepared(places, cache, args.threads)
        cpu, wall = seconds() - cpu, time.perf_counter() - wall
        n = len(places)
        print(f"{run}: {n} pictures, {len(done.masked)} masked, {wall:.0f} s, {cpu:.0f} CPU s, {cpu / n:.2f} CPU s a picture", flush=True)
        outcomes.append({image: hashlib.sha256(done.get(image)).hexdigest() for image in sorted(done.masked)})
    reader = masking.Reader(None)
    finder = masking.Finder(privacy.Texts(privacy.Allowed()), {"t"})
    left = sum(bool(finder(reader.read(Image.open(io.BytesIO(done.get(image))).convert("RGB")))) for image in done.masked)
    missed = sum(n % 10 == 0 and place.image_id not in done.masked for n, place in enumerate(places))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"planted and not masked: {missed}; found by reading the masked pictures again: {left}; peak {peak} MiB")
    if outcomes[0] != outcomes[1] or left or missed:
        sys.exit("something is left, or the second run differs")


if __name__ == "__main__":
    main()
