"""The papers' own numbers, from the printed figures and a made-up label set, through the path real labels take."""

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from evoaudit.__main__ import main
from evoaudit.resources import PUBLISHED, ROOT


@pytest.fixture(scope="module")
def tables() -> Path:
    """The tables of a finished published run, made in the checkout as its own command says."""
    command = [sys.executable, "-m", "snakemake", "tables", "--cores", "2", "--configfile", "config/published.yaml", "--nolock"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return ROOT / "results" / "runs" / "published" / "tables"


def rows(tables: Path, name: str) -> list[dict]:
    return pq.read_table(tables / f"{name}.parquet").to_pylist()


def test_wrong_verdicts_are_the_papers(tables):
    whole = next(row for row in rows(tables, "audit_verdicts") if row["benchmark"].startswith("All"))
    assert [whole[name] for name in ("n", "gf", "efn", "broken", "unclear")] == [150, 122, 16, 7, 5]
    # Wilson: 23 of 150 is 15.3 % [10.4, 22.0].
    assert [round(whole[name], 1) for name in ("wrong", "wrong_low", "wrong_high")] == [15.3, 10.4, 22.0]


def test_agreement_is_the_papers(tables):
    found = {(row["stage"], row["raters"], row["statistic"]): row["value"] for row in rows(tables, "agreement")}
    assert found["1 verdict", "claude × gpt", "cohen_kappa"] == pytest.approx(0.71, abs=0.005)
    assert found["2 category", "claude × gpt", "cohen_kappa"] == pytest.approx(0.41, abs=0.005)
    assert found["1 verdict", "human-1 × human-2", "cohen_kappa"] == pytest.approx(0.59, abs=0.006)
    assert found["1 verdict", "claude × gpt × human-1 × human-2", "fleiss_kappa"] == pytest.approx(0.36, abs=0.005)


def test_annotator_rates_are_the_papers(tables):
    rates = {row["annotator"]: row["wrong_rate"] for row in rows(tables, "annotator_rates")}
    assert [round(rates[name], 1) for name in ("gpt", "claude", "human-1", "human-2", "mean", "sd")] == [13.5, 7.7, 20.2, 13.5, 13.7, 5.1]


def test_diagnoses_are_the_papers(tables):
    found = {row["category"]: row["n"] for row in rows(tables, "audit_diagnoses") if row["category"] != "(all)"}
    names = ("t1-spec", "t1-loop", "t1-hall", "t2-ground", "t2-state", "t2-tool", "t3-term", "t3-verif", "t3-noop", "other", "ambiguous")
    assert [found[name] for name in names] == [18, 20, 5, 9, 2, 6, 8, 4, 36, 6, 8]


def test_made_up_labels_say_so_in_every_row(tables):
    for name in ("audit_verdicts", "audit_diagnoses", "agreement", "annotator_rates"):
        assert all(row["simulated"] for row in rows(tables, name)), name


def test_evogain_of_all_28_models_is_recomputed(tables):
    found = [row for row in rows(tables, "published_check") if "EvoGain" in row["quantity"] and row["location"] == "Table 2"]
    assert len(found) == 28
    assert {row["status"] for row in found} == {"agrees"}


def test_the_label_file_is_the_published_table_converted(tmp_path):
    raters = [
        "gpt=llm:gpt:gpt_category",
        "claude=llm:claude:claude_category",
        "human-1=human:human1:final_category",
        "human-2=human:human2:final_category",
    ]
    words = [word for rater in raters for word in ("--rater", rater)]
    assert main(["review", "convert", str(PUBLISHED / "synthetic_cua_labels.csv"), *words, "--out", str(tmp_path)]) in (0, None)
    for name in ("frame.csv", "labels.jsonl"):
        assert (tmp_path / name).read_bytes() == (PUBLISHED / "synthetic" / name).read_bytes()
