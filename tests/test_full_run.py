"""The benchmark of a whole paper, at a size that takes seconds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from evoaudit.resources import ROOT

WORDS = ("--models", "2", "--items", "12", "--trajectories", "24", "--audited", "8", "--target", "tables", "--no-changes")
STAGES = {"simulate", "normalise", "mine", "images", "infer", "score", "signals", "sample", "judge", "select", "combine", "stats", "tables"}


def test_a_small_run_is_measured_and_a_second_start_does_nothing(tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / "full_run.py"), *WORDS, "--work", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (path,) = tmp_path.glob("*/report.json")
    report = json.loads(path.read_text())

    # Nothing is made, sent or paid a second time.
    assert (report["again"]["jobs"], report["again"]["asked"], report["resumed"]) == (1, 0, False)
    for name in ("cold", "again"):
        assert report[name]["processor"] > 0 and report[name]["seconds"] > 0 and report[name]["peak"] > 10
    assert report["cold"]["jobs"] == sum(one["jobs"] for one in report["stages"].values()) + 1

    # Every stage that makes something left its measurements, of each of its jobs.
    assert report["stages"].keys() == STAGES
    for name, one in report["stages"].items():
        assert one["processor"] > 0 and one["seconds"] > 0 and one["peak"] > 10 and one["files"] > 0 and one["mib"] > 0, name
    assert report["stages"]["judge"]["jobs"] == 8 and report["stages"]["infer"]["jobs"] == 6
    assert report["processor"] > sum(one["processor"] for one in report["stages"].values())

    # Both models were asked every probe, and both judges the drawn logs with and without screenshots.
    items = scored(tmp_path)
    assert len(items) == 6 and report["requests"] >= sum(items.values()) + 4
    assert report["results"]["files"] > 500 and report["snakemake"]["files"] > 50
    assert report["accuracies"]["made-up-Qwen3.5-0.8B/full"] != report["accuracies"]["made-up-Gemma-3-4B-IT/full"]


def scored(folder: Path) -> dict[tuple[str, str], int]:
    """Return how many items of each task each of the models was scored on."""
    (path,) = folder.glob("*/results/score/*/scores.parquet")
    table = pq.read_table(path, columns=["model", "task"]).group_by(["model", "task"]).aggregate([([], "count_all")]).to_pylist()
    return {(row["model"], row["task"]): row["count_all"] for row in table if row["model"].startswith("made-up")}
