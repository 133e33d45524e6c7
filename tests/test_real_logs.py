"""Real agent logs that nobody here made, through the whole workflow."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from evoaudit.resources import ROOT


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """The published folder of a finished run over the real logs."""
    shared = Path(os.environ.get("EVOAUDIT_SHARED", ROOT.parent / "shared")) / "data"
    if not shared.is_dir():
        pytest.skip("no folder of real logs; set EVOAUDIT_SHARED to one")
    folder = tmp_path_factory.mktemp("real")
    config = ROOT / "config" / "examples" / "real_logs.yaml"
    words = [
        "-s",
        str(ROOT / "Snakefile"),
        "--directory",
        str(folder),
        "--cores",
        "2",
        "--configfile",
        str(config),
        "--config",
        f"root={shared}",
    ]
    done = subprocess.run([sys.executable, "-m", "snakemake", *words], capture_output=True, text=True, cwd=folder, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-6000:]
    assert "Traceback" not in done.stderr
    return folder / "results" / "runs" / "real-logs"


def rows(run: Path, table: str) -> list[dict]:
    return pq.read_table(run / "tables" / f"{table}.parquet").to_pylist()


def test_every_source_is_read_and_its_counts_reconcile(run):
    found = rows(run, "ingest")
    assert {row["source"] for row in found} >= {"webvoyager", "opencua", "online-mind2web", "aitz", "osworld", "agentrewardbench"}
    assert all(row["reconciles"] and row["read"] == row["kept"] + row["dropped"] for row in found)


def test_drops_say_why(run):
    reasons = {(row["source"], row["reason"]) for row in rows(run, "drops")}
    assert ("online-mind2web", "lfs_pointer") in reasons
    assert ("osworld", "missing") in reasons


def test_probes_are_mined_and_the_built_in_solvers_scored(run):
    main = {row["model"]: row for row in rows(run, "evogui_main")}
    for model in ("majority", "image-similarity"):
        assert main[model]["n_answered"] > 50
        assert 0 <= main[model]["t3"] <= 100
    slices = {(row["part"], row["slice"]): row["count"] for row in rows(run, "split")}
    assert all(slices[key] > 0 for key in (("T1", "K=3"), ("T2", "click"), ("T2", "type"), ("T3", "cross"), ("T3", "long_skip")))


def test_desktops_and_telephones_are_sets_of_their_own(run):
    sources = {row["slice"] for row in rows(run, "split") if row["slice"].startswith("source_")}
    assert sources == {"source_webvoyager"}
    counts = {(row["set"], row["slice"]): row["count"] for row in rows(run, "split_sets")}
    # What only these platforms have is asked there; the two copies that were logged as keys explain no change and are not.
    assert counts["desktop", "drag"] == counts["desktop", "scroll"] == 2 and counts["mobile", "swipe"] == 1
    assert counts["desktop", "key"] == 3
    asked = {(row["set"], row["model"]) for row in rows(run, "other_sets")}
    assert {("desktop", "image-similarity"), ("mobile", "majority")} <= asked


def test_nothing_real_is_called_simulated(run):
    assert not any(row["simulated"] for row in rows(run, "evogui_main"))


def test_human_agreement_of_agentrewardbench(run):
    found = {row["question"]: row for row in rows(run, "human_agreement") if row["scope"] == "all"}
    assert found["success"]["n_pairs"] == 106
    # 95 of 106 pairs agree on looping: 89.6 %, kappa about 0.77.
    assert found["looping"]["raw"] == pytest.approx(100 * 95 / 106, abs=0.01)
    assert found["looping"]["cohen_kappa"] == pytest.approx(0.770, abs=0.001)
