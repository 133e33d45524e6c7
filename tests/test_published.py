"""The papers' own numbers, from the printed figures and a made-up label set, through the path real labels take."""

import json
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


@pytest.fixture(scope="module")
def experts(real_logs, tmp_path_factory) -> list[dict]:
    """The agreement of AgentRewardBench's experts: on its test split as published, and over all they labelled twice."""
    home = tmp_path_factory.mktemp("experts")
    for name, options in (("all", {}), ("test", {"split": "test"})):
        about = json.dumps({"source": name, "kind": "agentrewardbench", "options": options})
        assert (
            main(["normalise", "--settings", about, "--root-folder", str(real_logs / "agentrewardbench"), "--out", str(home / name)]) == 0
        )
    normalised = [str(home / name / "manifest.json") for name in ("all", "test")]
    words = ["stats", "--settings", json.dumps({"bootstrap": 200}), "--seed", "1", "--out", str(home / "stats")]
    assert main([*words, "--normalised", *normalised]) == 0
    return pq.read_table(home / "stats" / "human_agreement.parquet").to_pylist()


def expert(found: list[dict], source: str, question: str, scope: str) -> dict:
    (row,) = [row for row in found if (row["source"], row["question"], row["scope"]) == (source, question, scope)]
    return row


def test_experts_agree_on_the_test_split_as_published(experts):
    row = expert(experts, "test", "success", "all")  # nobody was unsure there
    assert row["n_pairs"] == 84 and row["raw"] == pytest.approx(100 * 75 / 84)
    assert round(row["raw"], 1) == 89.3 and round(row["cohen_kappa"], 3) == 0.777


def test_experts_agree_less_over_all_that_was_labelled_twice(experts):
    whole, sure = expert(experts, "all", "success", "all"), expert(experts, "all", "success", "without unsure")
    assert (whole["n"], whole["n_pairs"], sure["n_pairs"]) == (1302, 106, 105)
    assert (round(whole["raw"], 1), round(sure["raw"], 1)) == (87.7, 88.6)
    assert (round(whole["cohen_kappa"], 3), round(sure["cohen_kappa"], 3)) == (0.741, 0.755)
    looping = expert(experts, "all", "looping", "all")
    assert looping["raw"] == pytest.approx(100 * 95 / 106) and round(looping["cohen_kappa"], 2) == 0.77


def test_the_pairs_are_said_to_be_nearly_all_of_one_agent_on_one_benchmark(experts):
    whole = expert(experts, "all", "success", "all")
    assert whole["note"] == "100 of the 106 pairs are GenericAgent-gpt-4o-2024-11-20 on webarena"
    by_benchmark = {row["scope"]: row["n_pairs"] for row in experts if (row["source"], row["question"]) == ("all", "success")}
    assert by_benchmark["webarena"] == 103 and by_benchmark["workarena"] == 3


def test_raw_agreement_and_the_range_between_people_and_judges_are_the_papers(tables):
    found = {(row["stage"], row["raters"]): row for row in rows(tables, "agreement") if row["statistic"] == "cohen_kappa"}
    judges, people = found["1 verdict", "claude × gpt"], found["1 verdict", "human-1 × human-2"]
    assert (judges["n"], round(judges["raw"], 1), people["n"], round(people["raw"], 1)) == (150, 92.7, 104, 85.6)
    mixed = [row for row in found.values() if row["stage"] == "1 verdict" and row["kind"] == "human, judge"]
    assert len(mixed) == 4 and {row["n"] for row in mixed} == {104}
    assert (round(min(row["value"] for row in mixed), 2), round(max(row["value"] for row in mixed), 2)) == (0.19, 0.32)
    assert (round(min(row["raw"] for row in mixed), 1), round(max(row["raw"] for row in mixed), 1)) == (76.0, 81.7)


def test_benchmarks_are_the_papers(tables):
    found = {row["benchmark"].casefold(): row for row in rows(tables, "audit_verdicts")}
    for name, n, efn, wrong in (
        ("webarena", 23, 5, 21.7),
        ("osworld", 57, 8, 17.5),
        ("assistantbench", 23, 0, 21.7),
        ("workarena", 24, 0, 0.0),
        ("visualwebarena", 23, 3, 13.0),
    ):
        assert (found[name]["n"], found[name]["efn"], round(found[name]["wrong"], 1)) == (n, efn, wrong)
