"""Time and memory of the statistics: shared resamples, the iid column against SciPy's bootstrap, and a full-size run's tables and figures.

    python benchmarks/statistics_and_figures.py [--work FOLDER]

CPU seconds are of this process (user and system), since wall time also measures what else the cores do; memory is what Python and
NumPy allocate (`tracemalloc`). The full-size run is 28 made-up models over 3,000 items of 600 trajectories, each stage a process of
its own; half of the models answer in prose around the JSON, so that the sensitivity table reads them again by every rule. Fails if a
bound is not met.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from stage import measure

from evoaudit import store
from evoaudit.infer.simulated import Solver
from evoaudit.score import rows as scored
from evoaudit.stats.resample import by_stratum, iid_means, limits, stratified_means

MODELS, TASKS, ITEMS, RESAMPLES, TRAJECTORIES = 28, 3, 1000, 10_000, 600
#: Bounds: seconds and MiB of the shared resamples, times SciPy's speed for the iid column, seconds of the full-size run.
LIMIT_SHARED, LIMIT_MIB, LIMIT_RATIO, LIMIT_RUN = 1.0, 100.0, 50.0, 60.0


def cpu(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return CPU seconds and wall seconds of a call, and what it returned."""
    start, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    found = work()
    now = resource.getrusage(resource.RUSAGE_SELF)
    return now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime, time.perf_counter() - start, found


def peak(work: Callable[[], Any]) -> float:
    """Return the most MiB allocated during a call."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def outcomes() -> np.ndarray:
    """Return tasks × items × models of outcomes."""
    rng = np.random.default_rng(1)
    return (rng.random((TASKS, ITEMS, MODELS)) < rng.uniform(0.2, 0.8, (TASKS, 1, MODELS))).astype(float)


def shared(values: np.ndarray, trajectories: int) -> Callable[[], list[np.ndarray]]:
    """Return the work of the shared resamples, weights, slices and all; items go round the trajectories."""
    clusters = np.arange(ITEMS) % trajectories
    slices = np.arange(ITEMS) * 3 // ITEMS

    def work() -> list[np.ndarray]:
        held = [by_stratum(task, clusters, trajectories, slices) for task in values]
        return stratified_means(held, RESAMPLES, np.random.default_rng(2))

    return work


def iid(values: np.ndarray) -> Callable[[], list]:
    """Return the work of the iid column: an interval of every accuracy, by binomial counts."""
    rng = np.random.default_rng(3)
    columns = values.transpose(0, 2, 1).reshape(-1, ITEMS)
    return lambda: [limits(iid_means(column, RESAMPLES, rng)) for column in columns]


def scipys(values: np.ndarray) -> Callable[[], list]:
    """Return the same by `scipy.stats.bootstrap`, with its fastest settings: percentile, vectorised, in batches."""
    from scipy.stats import bootstrap

    rng = np.random.default_rng(3)
    columns = values.transpose(0, 2, 1).reshape(-1, ITEMS)
    settings = {"n_resamples": RESAMPLES, "method": "percentile", "vectorized": True, "batch": 1000, "rng": rng}
    return lambda: [bootstrap((column,), np.mean, **settings).confidence_interval for column in columns]


def full_size(folder: Path) -> list[str]:
    """Write probes and scores of a full-size run; return the arguments of the `stats` stage."""
    rng = np.random.default_rng(4)
    probes: dict[str, list[dict]] = {"t1": [], "t2": [], "t3": []}
    for task, rows in probes.items():
        for number in range(ITEMS):
            trajectory = int(rng.integers(TRAJECTORIES))
            row = {
                "instance_id": f"{task}-{number:04}",
                "trajectory_id": f"made:{trajectory}",
                "source": "made",
                "domain": f"site-{trajectory % 120}",
                "website": None,
                "images": [f"{task}-{number}-{i}" for i in range(3)],
                "goal": None,
                "stream": task,
                "simulated": True,
            }
            if task == "t1":
                k = 3 + number * 3 // ITEMS
                row |= {"slice": f"K={k}", "steps": list(range(k)), "answer": (rng.permutation(k) + 1).tolist()}
                row["images"] = [f"{task}-{number}-{i}" for i in range(k)]
            elif task == "t2":
                action = "click" if number < 461 else "type" if number < 922 else "select"
                row |= {"slice": action, "step": 0, "answer_action": action, "answer_value": "x", "value_in_goal": number % 5 == 0}
            else:
                row |= {"slice": ("cross", "same_domain", "long_skip")[number * 3 // ITEMS], "step": 0, "answer": "AB"[number % 2]}
                row |= {"distractor_trajectory": "z", "distractor_step": 1}
            rows.append(row)
    words, models = [], [{"name": "random", "group": "baseline", "provider": "builtin"}]
    for name in ("mined", "scores", "predictions"):
        (folder / name).mkdir(parents=True)
    for task, rows in probes.items():
        store.write_table(folder / "mined", task, rows)
    store.write_table(folder / "mined", "drops", [])
    empty = dict.fromkeys(field.name for field in store.schema.TABLES["predictions"])
    with store.TableWriter(folder / "scores", "scores") as writer, store.TableWriter(folder / "predictions", "predictions") as asked:
        for number in range(MODELS):
            name = f"sim-{number:02}"
            size = 0.8 * 1.3**number
            models.append({"name": name, "group": "open" if number < 17 else "closed", "provider": "builtin", "parameters_b": size})
            models[-1] |= {"family": f"family-{number % 5}", "osworld": 2.0 * number + 20 if number % 6 == 0 else None}
            accuracy = {"t1": 0.08 + 0.015 * number, "t2": 0.5 + 0.008 * number, "t2_value": 0.7, "t3": 0.58 + 0.009 * number}
            sides = [("full", 512)] + [("full", 1024)] * (number < 8) + [("black", 512), ("metadata", 512)] * (number == 5)
            for condition, side in sides:
                solver = Solver(name, accuracy, condition=condition, side=side, seed=5)
                form = "The screens differ, so {}, I think." if number % 2 else "{}"
                said = {
                    (task, row["instance_id"]): {"status": "ok", "raw": form.format(solver.answer(task, row, 0))}
                    for task, rows in probes.items()
                    for row in rows
                }
                identity = {"model": name, "condition": condition, "max_image_side": side, "run": 0}
                writer.extend(scored(identity, probes, said, simulated=True))
                asked.extend({**empty, **identity, "task": key[0], "instance_id": key[1], **answer} for key, answer in said.items())
    answers = MODELS * TASKS * ITEMS
    for stage, name, n in (("mine", "mined", TASKS * ITEMS), ("score", "scores", answers), ("infer", "predictions", answers)):
        counts = {"unit": "row", "read": n, "kept": n, "dropped": {}, "others": {}}
        store.write_manifest(folder / name, stage=stage, key="k", format_version=1, seed=1, config={}, upstream={}, counts=counts)
        words += [f"--{name}", str(folder / name / "manifest.json")]
    settings = {"bootstrap": 1000, "confidence": 0.95, "baseline": "exact", "models": models, "judges": []}
    return ["stats", "--settings", json.dumps(settings), "--seed", "1", *words, "--out", str(folder / "stats")]


def main() -> int:
    """Print a row a measurement; return 1 if a bound is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="folder for the full-size run (default: a temporary one)")
    args = parser.parse_args()
    values, failed = outcomes(), []
    print("| measured | CPU s | wall s | MiB | bound |\n| --- | ---: | ---: | ---: | ---: |")
    for trajectories, words in ((200, "200 trajectories of five items"), (ITEMS, "every item its own")):
        shared(values, trajectories)()
        used, wall, _ = min((cpu(shared(values, trajectories)) for _ in range(3)), key=lambda one: one[0])
        mib = peak(shared(values, trajectories))
        said = f"{RESAMPLES:,} shared resamples, {MODELS} × {TASKS} × {ITEMS:,}, {words}"
        print(f"| {said} | {used:.2f} | {wall:.2f} | {mib:.0f} | {LIMIT_SHARED:.0f} s, {LIMIT_MIB:.0f} MiB |")
        if used > LIMIT_SHARED or mib > LIMIT_MIB:
            failed.append(said)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        used, wall, mine = min((cpu(iid(values)) for _ in range(3)), key=lambda one: one[0])
        theirs, slow, their = cpu(scipys(values))
    apart = max(abs(a - b) for (low, high), end in zip(mine, their, strict=True) for a, b in ((low, end.low), (high, end.high)))
    print(f"| iid column, {RESAMPLES:,} resamples, {MODELS} × {TASKS} accuracies, by binomial counts | {used:.3f} | {wall:.3f} | | |")
    print(f"| the same by `scipy.stats.bootstrap`; {theirs / used:.0f} times | {theirs:.2f} | {slow:.2f} | | {LIMIT_RATIO:.0f} times |")
    if theirs / used < LIMIT_RATIO or apart > 0.006:
        failed.append(f"iid column: {theirs / used:.0f} times SciPy's speed, ends at most {apart:.4f} apart")
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.work or Path(scratch)
        words = full_size(folder)
        total = 0.0
        stats = str(folder / "stats" / "manifest.json")
        rendered = [[stage, "--stats", stats, "--out", str(folder / stage)] for stage in ("tables", "figures")]
        for stage in (words, *rendered):
            wall, used, mib = measure(*stage)
            total += used
            print(f"| full-size run, {MODELS} models × {TASKS * ITEMS:,} items: {stage[0]} | {used:.1f} | {wall:.1f} | {mib:.0f} | |")
        print(f"| full-size run, together | {total:.1f} | | | {LIMIT_RUN:.0f} s |")
        if total > LIMIT_RUN:
            failed.append("full-size run")
    for one in failed:
        print(f"bound not met: {one}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
