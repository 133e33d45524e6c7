"""A mined set of T3 pairs with pictures, and the page to review it on, for the tests of the quality control."""

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from made_logs import Logs, painted

from evoaudit.__main__ import main
from evoaudit.pictures import tile_changes
from evoaudit.store import read_rows

QUOTA = {"cross": 4, "same_domain": 4, "long_skip": 4}


def logs(n: int = 8, goals: dict[int, str] | None = None, values: dict[int, str] | None = None, steps: int = 6) -> Logs:
    """Return ``n`` trajectories over two domains whose screens are all different; some goals and typed values may be given."""
    made = Logs()
    for i in range(n):
        names = [f"s{i}-{k}" for k in range(steps + 1)]
        made.pixels |= {name: painted(100 * i + k) for k, name in enumerate(names)}
        typed = (values or {}).get(i, f"typed {i}")
        acts = [
            {"op": "type", "value": typed, "target": {"x": 40.0, "y": 30.0, "text": f"field {i}"}, "change": change(made, *pair)}
            for pair in pairwise(names)
        ]
        made.add(f"t{i}", names, acts, domain=f"d{i % 2}", website=f"site{i % 2}", instruction=(goals or {}).get(i, f"goal of t{i}"))
    return made


def change(made: Logs, before: str, after: str) -> dict:
    """Return what differs between two screens, as the `changes` table has it."""
    found = tile_changes(made.pixels[before], made.pixels[after])
    down, across = found.tiles.shape
    return {"changed_tiles": int(found.tiles.sum()), "tiles": found.bitmap, "tiles_x": across, "tiles_y": down}


@dataclass
class Bench:
    """Normalised logs in a folder, to be mined and laid out as often as a test needs."""

    home: Path
    normalised: Path
    root: Path
    quota: dict[str, int]
    runs: int = 0

    def mine(self, *decisions: Path) -> Path:
        """Mine with the decisions of some files and return the stage's folder."""
        self.runs += 1
        out = self.home / f"mined-{self.runs}"
        settings = {"t1": {"quota": {}}, "t2": {"quota": {}}, "t3": {"quota": self.quota}, "max_share_per_trajectory": 1}
        words = ["mine", "--settings", json.dumps(settings), "--seed", "7", "--normalised", str(self.normalised), "--root"]
        words += [f"made={self.root}", *(["--reviewed", *map(str, decisions)] if decisions else []), "--out", str(out)]
        assert main(words) == 0
        return out

    def page(self, mined: Path, *decisions: Path) -> Path:
        """Write the page of a mined folder and return its folder."""
        out = self.home / f"page-{mined.name}"
        words = ["review", "pairs", "--mined", str(mined / "manifest.json"), "--normalised", str(self.normalised), "--root"]
        words += [f"made={self.root}", *(["--reviewed", *map(str, decisions)] if decisions else []), "--out", str(out)]
        assert main(words) == 0
        return out


def bench(home: Path, made: Logs | None = None, **quota: int) -> Bench:
    """Write logs below ``home``."""
    normalised, root = (made or logs()).write(home)
    return Bench(home, normalised, root, quota or QUOTA)


def ids(mined: Path) -> list[str]:
    """Return the pairs' ids in the order of the page."""
    return [row["instance_id"] for row in read_rows(mined, "t3", ["instance_id"])]


def payload(page: Path) -> dict:
    """Return what the page was given to show."""
    text = (page / "index.html").read_text(encoding="utf-8")
    return json.loads(text.partition('<script type="application/json" id="data">')[2].partition("</script>")[0])
