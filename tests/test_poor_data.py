"""Data that statistics are not defined on: a row that says so or one clear line, never a NaN, never a library's warning."""

import math
import random

import made_run
import pytest
from made_run import one, rows

from evoaudit import labels, stats, store
from evoaudit.__main__ import main
from evoaudit.errors import InputError
from evoaudit.figures.draw import draw, load
from evoaudit.figures.style import style
from evoaudit.tables.spec import TABLES


@pytest.fixture
def compute(tmp_path, capfd):
    """Compute and render everything, and draw the figures named; nothing may be said on the console, and no cell may be a NaN."""

    def run(arguments: dict, *figures: str):
        assert main(made_run.command(arguments, tmp_path / "stats")) == 0
        assert main(["tables", "--stats", str(tmp_path / "stats" / "manifest.json"), "--out", str(tmp_path / "tables")]) == 0
        for name in figures:
            with style():
                draw(load(tmp_path / "stats"), name)[0].draw_without_rendering()
        for name in TABLES:
            for row in rows(tmp_path / "stats", name):
                assert not any(isinstance(value, float) and not math.isfinite(value) for value in row.values()), (name, row)
            for end in ("csv", "md", "tex"):
                cells = (tmp_path / "tables" / f"{name}.{end}").read_text(encoding="utf-8").lower()
                assert ",nan" not in cells and "| nan" not in cells and "& nan" not in cells, name
        assert capfd.readouterr() == ("", "")
        return tmp_path / "stats"

    return run


def probes(tmp_path, change=lambda scores: scores, **options) -> dict:
    arguments, _ = made_run.probes(tmp_path, **options)
    store.write_table(tmp_path / "scores", "scores", change(store.read_rows(tmp_path / "scores", "scores")))
    return arguments


def main_rows(row: dict, model: str = "alpha-2b") -> bool:
    return row["model"] == model and row["condition"] == "full" and row["max_image_side"] == 512


def test_models_asked_other_items_are_compared_with_a_note(tmp_path, compute):
    def change(scores):
        return [row for row in scores if not (main_rows(row) and row["task"] == "t1" and int(row["instance_id"][-4:]) < 10)]

    folder = compute(probes(tmp_path, change))
    assert one(rows(folder, "evogui_main"), model="alpha-2b")["note"] == "50 of 60 T1 items answered"
    assert "50 of 60 T1 items answered" in one(rows(folder, "evogui_intervals"), model="alpha-2b")["note"]
    noted = {(row["model_a"], row["model_b"]): row["note"] for row in rows(folder, "pairwise_models")}
    for pair, note in noted.items():
        assert (note == "not over the same items") == ("alpha-2b" in pair)


def test_a_slice_without_items_is_empty_with_a_note(tmp_path, compute):
    arguments, items = made_run.probes(tmp_path)
    kept = [row for row in items["t3"] if row["slice"] != "long_skip"]
    store.write_table(tmp_path / "mined", "t3", kept)
    folder = compute(arguments, "t3_slices")
    for row in rows(folder, "t3_slices"):
        assert row["long_skip"] is None and row["long_skip_low"] is None and row["n_long_skip"] == 0
        assert row["note"] == "no answered item: long skip"
    assert one(rows(folder, "evogui_main"), model="alpha-2b")["evogain"] is not None


def test_a_class_nobody_answered_is_empty_with_a_note(tmp_path, compute):
    def change(scores):
        for row in scores:
            if main_rows(row) and row["slice"] == "select":
                row |= {"status": "unanswered", "correct": False, "action_correct": False}
        return scores

    row = one(rows(compute(probes(tmp_path, change)), "t2_recall"), model="alpha-2b")
    assert row["select"] is None and row["note"] == "no answered item: select" and row["click"] is not None


def test_a_label_given_twice_is_refused(tmp_path):
    head = "trajectory_id,annotator,kind,stage,verdict,category,codebook_version\n"
    (tmp_path / "labels.csv").write_text(head + "t-1,ana,human,blind,gf,other,1\nt-1,ana,human,blind,efn,,1\n")
    with pytest.raises(InputError, match="a second blind label of 'ana' for 't-1'"):
        labels.read(tmp_path / "labels.csv")


def relabelled(tmp_path, change, raters=("gpt", "claude", "human1", "human2")) -> dict:
    """Change every label row and the final ones alike; only these raters are left."""
    arguments = made_run.audit(tmp_path)
    del arguments["judgments"]
    given = [change(row) for row in store.read_rows(tmp_path / "final", "labels") if row["annotator"] in raters]
    store.write_table(tmp_path / "final", "labels", given)
    store.write_table(tmp_path / "final", "final", [change(row) for row in store.read_rows(tmp_path / "final", "final")])
    return arguments


def test_one_rater_agrees_with_nobody_and_that_is_said(tmp_path, compute):
    folder = compute(relabelled(tmp_path, dict, raters=("gpt",)))
    assert rows(folder, "agreement") == [] and "two raters" in (folder / "tables.json").read_text(encoding="utf-8")
    assert one(rows(folder, "annotator_rates"), annotator="sd")["wrong_rate"] is None
    assert one(rows(folder, "annotator_rates"), annotator="gpt")["n"] == 150


def test_one_category_has_no_kappa_but_an_ac1_and_says_why(tmp_path, compute):
    folder = compute(
        relabelled(tmp_path, lambda row: {**row, "verdict": "unclear", "category": None}), "agreement", "verdicts_by_benchmark"
    )
    found = rows(folder, "agreement")
    assert found
    for row in found:
        assert row["raw"] == 100 and (row["low"], row["high"]) == (None, None)
        if row["statistic"] == "gwet_ac1":
            assert row["value"] == pytest.approx(1) and row["note"] is None
        else:
            assert row["value"] is None and row["note"] == "undefined: all raters use one and the same category"
    estimate = one(rows(folder, "audit_estimate"), benchmark="All", estimator="final labels, all rows")
    assert estimate["wrong"] == 0 and estimate["wrong_low"] == 0 and estimate["wrong_high"] > 0


@pytest.mark.parametrize("verdict", ["gf", "efn"])
def test_none_and_all_wrong_have_wilsons_interval_and_no_resampled_one(tmp_path, compute, verdict):
    folder = compute(relabelled(tmp_path, lambda row: {**row, "verdict": verdict, "category": "other" if verdict == "gf" else None}))
    row = one(rows(folder, "audit_verdicts"), benchmark="All")
    assert row["wrong"] == (0 if verdict == "gf" else 100) and row["cluster_low"] is None
    assert row["wrong_low"] is not None and row["wrong_high"] - row["wrong_low"] > 1


def test_no_verdicts_and_no_answers_are_tables_with_a_reason(tmp_path, compute):
    arguments = made_run.audit(tmp_path)
    for name in ("final", "labels"):
        store.write_table(tmp_path / "final", name, [])
    for manifest in arguments["judgments"]:
        folder = manifest.removesuffix("manifest.json")
        store.write_table(tmp_path / folder.rstrip("/").rpartition("/")[2], "judgments", [])
    scored, _ = made_run.probes(tmp_path)
    store.write_table(tmp_path / "scores", "scores", [])
    store.write_table(tmp_path / "predictions", "predictions", [])
    folder = compute(arguments | scored)
    for name in ("audit_verdicts", "audit_estimate", "agreement", "evogui_main", "evogui_intervals", "pairwise_models", "sensitivity"):
        assert rows(folder, name) == []
    assert rows(folder, "split")


def test_one_trajectory_and_one_verdict_have_rows_without_resampled_intervals(tmp_path, compute):
    arguments = made_run.audit(tmp_path)
    only = sorted(store.read_rows(tmp_path / "final", "final"), key=lambda row: row["trajectory_id"])[0]["trajectory_id"]
    for folder, name in (
        ("final", "final"),
        ("final", "labels"),
        ("sample", "sample"),
        ("judge-gpt", "judgments"),
        ("judge-claude", "judgments"),
    ):
        kept = [row for row in store.read_rows(tmp_path / folder, name) if row["trajectory_id"] == only]
        store.write_table(tmp_path / folder, name, kept)
    arguments |= probes(tmp_path, n=1, trajectories=1)
    folder = compute(arguments, "evogain_forest", "parameter_trend", "diagnoses", "verdicts_by_benchmark", "calibration")
    row = one(rows(folder, "audit_verdicts"), benchmark="All")
    assert (
        row["n"] == 1 and row["cluster_low"] is None and row["note"] == "1 task: too few for the clustered interval to cover what it says"
    )
    assert row["wrong_low"] is not None
    for row in rows(folder, "evogui_intervals"):
        assert (row["clusters"] == 1 and row["evogain_low"] is None and "1 trajectories: too few" in (row["note"] or "")) or row[
            "rank"
        ] is None
    for row in rows(folder, "agreement"):
        assert row["n"] == 1 and row["low"] is None


def test_all_correct_is_100_with_a_note_instead_of_an_interval(tmp_path, compute):
    def change(scores):
        return [{**row, "correct": True, "action_correct": True if row["task"] == "t2" else None, "status": "answered"} for row in scores]

    row = one(rows(compute(probes(tmp_path, change)), "evogui_intervals"), model="alpha-2b")
    assert row["evogain"] == pytest.approx(100) and row["evogain_low"] is None and "no variation" in row["note"]


def test_an_index_below_chance_is_negative_in_every_table(tmp_path, compute):
    def change(scores):
        draw = random.Random(3)
        for row in scores:
            if main_rows(row):
                right = draw.random() < 0.04
                row |= {"correct": right, "action_correct": right if row["task"] == "t2" else None}
        return scores

    folder = compute(probes(tmp_path, change), "evogain_forest", "parameter_trend")
    row = one(rows(folder, "evogui_intervals"), model="alpha-2b")
    assert row["evogain"] < -20 and row["evogain_low"] < row["evogain"] < row["evogain_high"] < 0
    assert one(rows(folder, "evogain_action"), model="alpha-2b")["evogain_action"] < 0
    # Nothing right at all, over the paper's chance: (−8/92 − 15/85 − 49.9/50.1) / 3.
    assert stats.evogain(0, 0, 0, (8.0, 15.0, 49.9)) == pytest.approx(100 * (-8 / 92 - 15 / 85 - 49.9 / 50.1) / 3)


def test_none_right_at_all_is_the_lowest_index_there_is_with_a_note(tmp_path, compute):
    def change(scores):
        return [
            {**row, "correct": False, "action_correct": False if row["task"] == "t2" else None} if main_rows(row) else row for row in scores
        ]

    row = one(rows(compute(probes(tmp_path, change)), "evogui_intervals"), model="alpha-2b")
    assert row["evogain"] < -30 and row["evogain_low"] is None and "no variation to resample in T1, T2, T3" in row["note"]
