"""Mining over tables made by hand, for the tests of what is asked and of what is not worth asking."""

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from made_logs import Logs

from evoaudit.probes import corpus, mining, reviewed
from evoaudit.store import Counts, read_rows

QUOTAS = {
    "t1": {3: 34, 4: 33, 5: 33},
    "t2": {"click": 46, "type": 46, "select": 8},
    "t3": {"cross": 34, "same_domain": 33, "long_skip": 33},
}
TASKS = ("t1", "t2", "t3")


def many(n: int, domains: int = 8, source: str = "made", seed: int = 0, start: int = 0) -> Logs:
    """Return ``n`` trajectories of 5 to 12 steps whose screens are all different."""
    logs = Logs(source)
    for i in range(start, start + n):
        rng = random.Random(f"{source} {seed} {i}")
        steps = [
            {"op": op, "value": None if op == "click" else f"{op} {i} {k}"}
            for k in range(rng.randint(5, 12))
            for op in [rng.choice(["click", "type", "select"])]
        ]
        logs.add(f"{source}-{i:04d}", [f"{source}-{i}-{k}" for k in range(len(steps) + 1)], steps, domain=f"d{i % domains}")
    return logs


class Mined:
    """What mining wrote."""

    def __init__(self, folder: Path, counts: Counts) -> None:
        self.folder = folder
        self.counts = counts.summary("candidate")
        self.rows = {task: read_rows(folder, task) for task in TASKS}
        self.drops = read_rows(folder, "drops")
        self.quotas = json.loads((folder / "quotas.json").read_text())["tasks"]

    @property
    def reasons(self) -> Counter:
        return Counter(row["reason"] for row in self.drops)

    def ids(self, task: str) -> set[str]:
        return {row["instance_id"] for row in self.rows[task]}

    def sizes(self, task: str) -> dict[str, int]:
        return dict(Counter(row["slice"] for row in self.rows[task]))


def miner(tmp_path: Path) -> Callable[..., Mined]:
    """Return a function that writes sources, mines them and returns what was written."""
    runs = 0

    def run(*sources: Logs, seed: int = 7, decisions: list | None = None, shuffle: int | None = None, share: float = 0.05, **quotas):
        nonlocal runs
        runs += 1
        home = tmp_path / f"run-{runs}"
        folders = {logs.source: logs.write(home, shuffle) for logs in sources}
        out, counts = home / "out", Counts("mine")
        out.mkdir()
        decided = reviewed.NONE
        if decisions is not None:
            (home / "decisions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in decisions))
            decided = reviewed.read(home / "decisions.jsonl")
        logs = corpus.load([normalised for normalised, _ in folders.values()])
        given = {task: {"quota": (quotas or QUOTAS).get(task, {})} for task in TASKS}
        full = mining.Settings.of(given | {"max_share_per_trajectory": share, "min_changed_tiles": 1, "near_twin_tiles": 2})
        mining.mine(out, counts, logs, {name: root for name, (_, root) in folders.items()}, full, seed, decided)
        return Mined(out, counts)

    return run
