"""Tables: what they say of runs whose contents are known, and how they are written."""

import csv
import io
import json
import math
import random
import re
import shutil
import subprocess
from decimal import Decimal
from pathlib import Path

import made_run
import pytest
from made_run import one, rows

from evoaudit import csvfile, outputs, stats, store
from evoaudit.__main__ import main
from evoaudit.stats import check
from evoaudit.tables import render
from evoaudit.tables.audit import Audit, _without_pixels
from evoaudit.tables.evogui import other_sets
from evoaudit.tables.inputs import Folders, Run, Set
from evoaudit.tables.literature import published, published_check
from evoaudit.tables.panel import Panel
from evoaudit.tables.spec import TABLES

#: The columns scripts rely on, in this order before any other.
CONTRACT = {
    "split": "part slice count share",
    "evogui_main": "group model t1 t2_top1 t2_joint t3 evogain n_answered n_unanswered n_invalid",
    "evogui_intervals": "rank model evogain evogain_low evogain_high t1 t2_joint t3 rank_low rank_high",
    "action_map": "source_action unified_action t2_use",
    "t2_recall": "group model t2_top1 click type select",
    "t2_value_in_goal": "group model t2_joint joint_without n_in_goal joint_in_goal n_not joint_not",
    "t3_slices": "group model cross same_domain long_skip",
    "resolution": "model metric side_512 side_1024 difference difference_low difference_high",
    "shortcut_controls": "model condition t1 t1_kendall_tau t2_top1 t3",
    "osworld_relation": "model osworld evogain",
    "rank_relation": "pair n spearman kendall pearson",
    "evogain_action": "model evogain evogain_action",
    "pairwise_models": "model_a model_b difference low high p_adjusted",
    "calibration": "model task n brier ece",
    "position_bias": "model task answer share expected_share",
    "landscape": "setting application evaluation_focus benchmarks",
    "audit_verdicts": "benchmark oracle n gf efn broken unclear wrong wrong_low wrong_high",
    "audit_diagnoses": "tier category n share share_low share_high",
    "design_guidelines": "stage baseline threat better",
    "mast_map": "mast_mode disposition category",
    "agreement": "stage raters n raw statistic value low high",
    "annotator_rates": "annotator n wrong_rate",
    "evidence_ablation": "judge n flips efn_with efn_without",
    "noop_probe": "rule benchmark truth n precision precision_low precision_high recall recall_low recall_high f1 f1_low f1_high",
    "draw": "benchmark agent n analysed calibration not_drawn nonzero_reward evaluator_error other reasons",
    "signal_check": "signal argues benchmark truth n precision precision_low precision_high recall recall_low recall_high",
    "suspects": "grounds benchmark task_id page released label why steps agent trajectory_id",
    "agent_cost": "benchmark agent n success success_low success_high usd_per_attempt usd_per_verified_success frontier",
    "corrected_scores": "benchmark agent n released corrected corrected_low corrected_high rank_released rank_low rank_high",
    "cost": "stage model requests input_tokens output_tokens usd usd_per_attempt usd_per_verified_success",
    "timing": "benchmark agent window_slack deadline_miss",
    "published_check": "paper location quantity published recomputed status note",
    "drops": "stage source reason n",
}
LITERATURE = {"action_map", "landscape", "design_guidelines", "mast_map", "published_check"}


def index(folder: Path) -> dict[str, dict]:
    return {meta["name"]: meta for meta in json.loads((folder / "tables.json").read_text(encoding="utf-8"))}


@pytest.fixture(scope="module")
def probes(tmp_path_factory) -> tuple[Path, dict]:
    root = tmp_path_factory.mktemp("probes")
    arguments, items = made_run.probes(root)
    assert main(made_run.command(arguments, root / "stats")) == 0
    return root / "stats", items


@pytest.fixture(scope="module")
def audited(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("audit")
    assert main(made_run.command(made_run.audit(root), root / "stats")) == 0
    return root / "stats"


@pytest.fixture(scope="module")
def simulated(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("simulated")
    assert main(made_run.command(made_run.simulated_audit(root), root / "stats")) == 0
    return root / "stats"


def scored(tmp_path: Path, change) -> Path:
    """Compute tables of the small probe run after ``change`` has altered its score rows."""
    arguments, _ = made_run.probes(tmp_path)
    altered = change(store.read_rows(tmp_path / "scores", "scores"))
    store.write_table(tmp_path / "scores", "scores", altered)
    assert main(made_run.command(arguments, tmp_path / "stats")) == 0
    return tmp_path / "stats"


@pytest.mark.parametrize("name", CONTRACT)
def test_contract_columns_come_first_and_in_order(name):
    columns = [column.name for column in TABLES[name].columns]
    wanted = CONTRACT[name].split()
    assert columns[: len(wanted)] == wanted


def test_every_promised_table_is_declared():
    assert tuple(outputs.TABLES) == tuple(TABLES)


def test_a_run_without_any_stage_has_every_table_with_the_reason_why_it_is_empty(tmp_path):
    assert main(made_run.command({}, tmp_path / "stats", {})) == 0
    found = index(tmp_path / "stats")
    assert set(found) == set(TABLES)
    for name, meta in found.items():
        assert (meta["n"] > 0) == (name in LITERATURE), name
        assert meta["n"] or meta["empty"].endswith("."), name
    assert main(["tables", "--stats", str(tmp_path / "stats" / "manifest.json"), "--out", str(tmp_path / "tables")]) == 0
    assert "No model was scored" in (tmp_path / "tables" / "evogui_main.md").read_text(encoding="utf-8")
    assert (tmp_path / "tables" / "timing.csv").read_text(encoding="utf-8").count("\n") == 1


def test_split_counts_slices_and_domains(probes):
    folder, items = probes
    found = rows(folder, "split")
    assert one(found, part="T2", slice="click")["count"] == sum(row["slice"] == "click" for row in items["t2"])
    assert one(found, part="All", slice="domains")["count"] == 7
    assert one(found, part="T1", slice="K=3")["published_count"] == 334
    assert one(rows(folder, "domains"), part="All")["effective_domains"] == pytest.approx(7, abs=0.05)


def test_main_rows_are_counts_over_answers_and_evogain_is_over_exact_chance(probes):
    folder, _items = probes
    scores = store.read_rows(folder.parent / "scores", "scores")
    mine = [row for row in scores if row["model"] == "alpha-2b" and row["max_image_side"] == 512 and row["condition"] == "full"]
    share = {task: 100 * sum(row["correct"] for row in mine if row["task"] == task) / 60 for task in ("t1", "t2", "t3")}
    row = one(rows(folder, "evogui_main"), model="alpha-2b")
    assert (row["t1"], row["t2_joint"], row["t3"]) == pytest.approx((share["t1"], share["t2"], share["t3"]))
    exact = {row["metric"]: row["exact"] for row in rows(folder, "baselines")}
    # 20 items each of K = 3, 4, 5: (1/6 + 1/24 + 1/120)/3; 28 of 60 are clicks
    assert exact["t1"] == pytest.approx(100 * (1 / 6 + 1 / 24 + 1 / 120) / 3) and exact["t2_joint"] == pytest.approx(100 * 28 / 60 / 3)
    assert row["evogain"] == pytest.approx(
        stats.evogain(row["t1"], row["t2_joint"], row["t3"], [exact[name] for name in ("t1", "t2_joint", "t3")])
    )


def test_baselines_come_first_then_groups_and_published_rows_stand_beside(probes):
    found = rows(probes[0], "evogui_main")
    assert [row["model"] for row in found] == ["random (mean of 4 runs)", "chance (exact)", "alpha-2b", "beta-9b", "Gemini-3-Flash-Preview"]
    assert found[1]["evogain"] == pytest.approx(0) and found[0]["published_t1"] == 8.0
    assert found[-1]["published_evogain"] == 60.4 and found[2]["published_evogain"] is None
    assert found[0]["n_answered"] == 4 * 180


def test_missing_answers_are_not_wrong_and_unusable_ones_are(tmp_path):
    def change(scores):
        for row in scores:
            if row["model"] == "alpha-2b" and row["condition"] == "full" and row["max_image_side"] == 512 and row["task"] == "t3":
                number = int(row["instance_id"][-4:])
                row |= {"correct": number < 20, "status": "answered" if number < 30 else "invalid" if number < 40 else "unanswered"}
        # ten rows of T1 are not there at all
        return [row for row in scores if not (row["model"] == "alpha-2b" and row["task"] == "t1" and int(row["instance_id"][-4:]) < 10)]

    row = one(rows(scored(tmp_path, change), "evogui_main"), model="alpha-2b")
    assert row["t3"] == pytest.approx(50) and row["n_invalid"] == 10 and row["n_unanswered"] == 20 + 10


def test_a_model_without_answers_to_a_task_has_no_evogain_and_a_note(tmp_path):
    def change(scores):
        for row in scores:
            if row["model"] == "alpha-2b" and row["task"] == "t1":
                row |= {"status": "unanswered", "correct": False, "tau": None}
        return scores

    folder = scored(tmp_path, change)
    row = one(rows(folder, "evogui_main"), model="alpha-2b")
    assert row["t1"] is None and row["evogain"] is None and row["note"] == "no answer to T1"
    assert one(rows(folder, "evogui_intervals"), model="alpha-2b")["rank"] is None


def test_all_correct_has_rows_without_a_nan(tmp_path):
    folder = scored(
        tmp_path,
        lambda scores: [
            {**row, "correct": True, "action_correct": True if row["task"] == "t2" else None, "status": "answered"} for row in scores
        ],
    )
    row = one(rows(folder, "evogui_intervals"), model="alpha-2b")
    assert row["evogain"] == pytest.approx(100) and (row["rank"], row["rank_high"]) == (1, 1)
    assert row["evogain_low"] is None and row["note"] == "no variation to resample in T1, T2, T3"
    for name in TABLES:
        for found in rows(folder, name):
            assert not any(isinstance(value, float) and math.isnan(value) for value in found.values()), name


def test_intervals_surround_the_estimate_and_ranks_are_without_baselines(probes):
    found = rows(probes[0], "evogui_intervals")
    for row in found:
        assert row["evogain_low"] <= row["evogain"] <= row["evogain_high"]
    assert [row["rank"] for row in found] == [1, 2, 3, None]
    assert found[0]["published_evogain_low"] == 58.16 and found[-1]["note"] == "not ranked: a baseline"
    assert sum(row["p_best"] or 0 for row in found) == pytest.approx(100)


def test_few_trajectories_are_said_to_be_few(tmp_path):
    arguments, _ = made_run.probes(tmp_path, trajectories=5)
    assert main(made_run.command(arguments, tmp_path / "stats")) == 0
    assert "too few" in one(rows(tmp_path / "stats", "evogui_intervals"), model="alpha-2b")["note"]


def test_resolution_is_paired_and_controls_have_every_condition(probes):
    found = rows(probes[0], "resolution")
    assert {row["metric"] for row in found} == {"t1", "t2_top1", "t2_joint", "t3", "long_skip"}
    for row in found:
        assert (
            row["difference"] == pytest.approx(row["side_1024"] - row["side_512"])
            and row["difference_low"] <= row["difference"] <= row["difference_high"]
        )
    controlled = [row["condition"] for row in rows(probes[0], "shortcut_controls") if row["model"] == "beta-9b"]
    assert controlled == ["full", "black", "metadata"]


def test_long_skip_is_held_against_chance_for_every_model_at_once(probes):
    found = [row for row in rows(probes[0], "t3_slices") if row["long_skip_p"] is not None]
    assert [row["model"] for row in found] == ["alpha-2b", "beta-9b", "Gemini-3-Flash-Preview"]
    for row in found:
        n, k = row["n_long_skip"], round(row["long_skip"] * row["n_long_skip"] / 100)
        tail = sum(math.comb(n, i) for i in range(max(k, n - k), n + 1)) / 2**n
        assert row["long_skip_p"] == pytest.approx(min(1, 2 * tail)) and row["long_skip_p_adjusted"] >= row["long_skip_p"]


def test_of_the_papers_models_five_can_be_told_from_chance_on_long_skip():
    counts = [check.count_range(Decimal(str(row["long_skip"])), 333, twice=True)[0] for row in published("evogui_table6")]
    adjusted = stats.holm([stats.mcnemar_exact(k, 333 - k) for k in counts])
    told = {row["model"]: row["long_skip"] > 50 for row, p in zip(published("evogui_table6"), adjusted, strict=True) if p < 0.05}
    assert [name for name, above in told.items() if not above] == ["GPT-5-mini"]
    assert sorted(name for name, above in told.items() if above) == [
        "Gemini-3-Flash-Preview",
        "Qwen3.5-122B-A10B",
        "Seed-2.0-lite-260428",
        "Seed-2.0-pro-260215",
    ]
    assert sum(k < 333 / 2 for k in counts) == 13


def test_benchmarks_with_one_rate_are_not_told_apart(audited):
    found = rows(audited, "audit_verdicts")
    assert one(found, benchmark="All")["p_between"] == pytest.approx(0.112, abs=0.0005)
    assert all(row["p_between"] is None for row in found if row["benchmark"] != "All")


def test_many_large_benchmarks_are_compared_by_chi_square_in_no_time():
    import numpy as np
    from scipy.stats import chi2_contingency

    from evoaudit.tables.audit import _between

    hits, n = [30, 25, 40, 20, 31, 28, 33, 61], 400
    members = [{"benchmark": f"b{place}"} for place in range(len(hits)) for _ in range(n)]
    wrong = np.array([number < k for k in hits for number in range(n)])
    expected = chi2_contingency([[k, n - k] for k in hits], correction=False).pvalue
    assert stats.freeman_halton_exact_p(hits, [n] * len(hits)) is None
    assert _between(members, wrong) == pytest.approx(expected)


def test_pairs_of_models_share_resamples(probes):
    found = rows(probes[0], "pairwise_models")
    assert len(found) == 3
    gains = {row["model"]: row["evogain"] for row in rows(probes[0], "evogui_main")}
    for row in found:
        assert row["difference"] == pytest.approx(gains[row["model_a"]] - gains[row["model_b"]]) and row["p_adjusted"] >= row["p"]


def test_favourite_answers_are_counted_against_the_keys(probes):
    folder, _items = probes
    row = one(rows(folder, "position_bias"), model="beta-9b", task="t3", answer="A")
    assert row["expected_share"] == pytest.approx(50) and row["n"] == 60
    assert one(rows(folder, "position_bias"), model="beta-9b", task="t2", answer="select")["expected_share"] == pytest.approx(100 * 5 / 60)


def test_cost_counts_every_request_and_prices_successes_of_the_main_condition(probes):
    row = one(rows(probes[0], "cost"), model="beta-9b")
    # 180 items at two sizes and under two more conditions; 7 characters -> 3 tenths of a cent
    assert row["requests"] == 720 and row["usd"] == pytest.approx(720 * 0.003) and row["usd_per_attempt"] == pytest.approx(0.003)
    assert row["usd_per_verified_success"] == pytest.approx(180 * 0.003 / row["successes"])
    assert one(rows(probes[0], "cost"), model="random")["usd"] is None


def test_made_up_labels_give_the_audit_papers_figures(audited):
    verdicts = rows(audited, "audit_verdicts")
    assert [row["benchmark"] for row in verdicts] == ["OSWorld", "WebArena", "VisualWebArena", "WorkArena", "AssistantBench", "All"]
    for row in verdicts:
        assert [row[name] for name in ("n", "gf", "efn", "broken", "unclear")] == [
            row[f"published_{name}"] for name in ("n", "gf", "efn", "broken", "unclear")
        ]
        assert row["wrong"] == pytest.approx(row["published_wrong"], abs=0.05)
    assert (verdicts[-1]["wrong_low"], verdicts[-1]["wrong_high"]) == pytest.approx((10.4, 22.0), abs=0.05)
    for row in rows(audited, "audit_diagnoses"):
        assert row["n"] == row["published_n"]
    kappas = {(row["stage"], row["raters"], row["statistic"]): row["value"] for row in rows(audited, "agreement")}
    x = " \N{MULTIPLICATION SIGN} "
    assert kappas["1 verdict", f"gpt{x}claude", "cohen_kappa"] == pytest.approx(0.71, abs=0.005)
    assert kappas["2 category", f"gpt{x}claude", "cohen_kappa"] == pytest.approx(0.41, abs=0.005)
    assert kappas["1 verdict", f"human1{x}human2", "cohen_kappa"] == pytest.approx(0.59, abs=0.005)
    assert kappas["1 verdict", x.join(("gpt", "claude", "human1", "human2")), "fleiss_kappa"] == pytest.approx(0.36, abs=0.005)
    rates = {row["annotator"]: row["wrong_rate"] for row in rows(audited, "annotator_rates")}
    assert (rates["mean"], rates["sd"], rates["variance"], rates["min"], rates["max"]) == pytest.approx(
        (13.70, 5.11, 0.00261, 7.69, 20.19), abs=0.006
    )


def test_agreement_with_the_tables_by_hand(audited):
    labels = made_run.synthetic_labels()
    row = one(rows(audited, "agreement"), stage="1 verdict", raters="gpt \N{MULTIPLICATION SIGN} claude", statistic="gwet_ac1")
    assert row["raw"] == pytest.approx(100 * 139 / 150) and row["low"] < row["value"] < row["high"]
    assert row["value"] == pytest.approx(stats.gwet_ac1([[label["gpt"], label["claude"]] for label in labels]))


def test_ablation_counts_flips_and_lost_false_negatives(audited):
    row = one(rows(audited, "evidence_ablation"), judge="gpt")
    assert (row["n"], row["efn_with"]) == (150, 14) and row["flips"] == row["efn_with"] - row["efn_without"] > 0
    pair = one(rows(audited, "evidence_ablation"), judge="gpt \N{MULTIPLICATION SIGN} claude")
    assert pair["kappa_with"] == pytest.approx(0.71, abs=0.005) and pair["flips"] is None


def test_a_judge_is_held_against_itself_by_hand(tmp_path):
    said = {
        "a": ["gf/t3-noop"] * 3,
        "b": ["gf/t3-noop", "gf/t1-loop", "efn"],
        "c": ["efn"] * 3,
        "d": ["broken", "gf/other", "gf/other"],
        "e": ["gf/other", None, "gf/other"],  # the second draw has no verdict
    }
    folder = tmp_path / "judge"
    folder.mkdir()
    about = {"annotator": "j", "evidence": "text", "confidence": None, "judge_id": "x", "simulated": False}
    drawn = [
        {**about, "trajectory_id": one, "draw": draw, "status": "ok" if word else "refused"}
        | dict(zip(("verdict", "category"), [*(word or "").split("/"), None, None], strict=False))
        for one, words in said.items()
        for draw, word in enumerate(words)
    ]
    store.write_table(folder, "draws", [{**row, "verdict": row["verdict"] or None} for row in drawn])
    words = ("stats", "--judgments", folder, "--settings", '{"bootstrap": 200}', "--out", tmp_path / "stats")
    assert main([str(word) for word in words]) == 0
    verdicts, categories = rows(tmp_path / "stats", "judge_consistency")
    # Agreement of the four by trajectory: 1, 1/3, 1, 1/3. Shares: gf 7, efn 4, broken 1 of 12, so chance is 66/144.
    assert verdicts["fleiss_kappa"] == pytest.approx((2 / 3 - 66 / 144) / (1 - 66 / 144)) == pytest.approx(5 / 13)
    assert (verdicts["draws"], verdicts["n"], verdicts["equal"], verdicts["n_incomplete"], verdicts["n_outvoted"]) == (3, 4, 50, 1, 1)
    assert verdicts["pairs_equal"] == pytest.approx(200 / 3) and verdicts["low"] <= 5 / 13 <= verdicts["high"]
    assert (categories["stage"], categories["n"], categories["equal"]) == ("2 category", 1, 100), "where all draws named one"
    assert categories["fleiss_kappa"] is None and "one and the same label" in categories["note"]


def test_scores_are_not_corrected_without_every_attempts_verdict(audited):
    assert index(audited)["corrected_scores"]["n"] == 0


def test_one_rater_one_category_gives_reasons_not_numbers(tmp_path):
    arguments = made_run.audit(tmp_path)
    final = [{**row, "verdict": "unclear", "category": None} for row in store.read_rows(tmp_path / "final", "final")]
    store.write_table(tmp_path / "final", "final", final)
    labels = [
        {**row, "verdict": "unclear", "category": None}
        for row in store.read_rows(tmp_path / "final", "labels")
        if row["annotator"] == "human1"
    ]
    store.write_table(tmp_path / "final", "labels", labels)
    del arguments["judgments"]
    assert main(made_run.command(arguments, tmp_path / "stats")) == 0
    found = index(tmp_path / "stats")
    assert found["agreement"]["n"] == 0 and "two raters" in found["agreement"]["empty"]
    assert found["audit_diagnoses"]["empty"] == "No genuine failure was found in this run."
    assert one(rows(tmp_path / "stats", "annotator_rates"), annotator="sd")["wrong_rate"] is None


def test_planted_faults_are_recalled_as_planted(simulated):
    found = rows(simulated, "planted_truth")
    judged = [row for row in found if row["rater"] == "rules"]
    truth = {row["trajectory_id"]: row for row in store.read_rows(simulated.parent / "sim", "truth")}
    labels = {row["trajectory_id"]: row for row in store.read_rows(simulated.parent / "judge-rules", "judgments")}
    for row in judged:
        inside = [labels[key] for key in labels if truth[key]["planted"] == row["planted"]]
        assert row["n"] == len(inside) and row["n_correct"] == sum(
            (label["category"] or label["verdict"]) == row["expected"] for label in inside
        )
        assert row["recall"] == pytest.approx(100 * row["n_correct"] / row["n"]) and row["precision"] == 100
    assert one(found, rater="signal cycle", planted="t1-loop")["recall"] == 100
    assert all(row["simulated"] for row in found)


def test_the_noop_probe_is_held_against_every_truth(simulated):
    found = rows(simulated, "noop_probe")
    assert {row["truth"] for row in found} == {"planted t3-noop", "label t3-noop"}
    row = one(found, rule="noop_run r=3", truth="planted t3-noop", benchmark="All")
    assert row["precision"] == pytest.approx(100 * row["n_hit"] / row["n_flagged"]) and row["recall"] == pytest.approx(
        100 * row["n_hit"] / row["n_true"]
    )
    assert row["f1_low"] <= row["f1"] <= row["f1_high"]
    assert one(found, rule="always", truth="planted t3-noop", benchmark="All")["recall"] == 100


def test_the_baseline_without_pixels_counts_repeated_actions_alone(tmp_path):
    repeated = {"a": [False, True, True], "b": [False, True, False, True], "c": [False], "d": [False, True, True, True, False]}
    about = {"screen": "changed", "run": 0, "exempt": None}
    made = [
        {**about, "trajectory_id": one, "step": step, "same_action": same}
        for one, flags in repeated.items()
        for step, same in enumerate(flags)
    ]
    store.write_table(tmp_path, "noops", made)
    found = _without_pixels(Audit(Run(Folders(signals=tmp_path))))
    assert found == {"same action r=3": {"a": True, "b": False, "c": False, "d": True}}
    assert _without_pixels(Audit(Run(Folders()))) == {}


def test_a_run_or_a_cycle_finds_at_least_what_the_run_finds(simulated):
    found = rows(simulated, "noop_probe")
    run, either = (one(found, rule=rule, truth="planted t3-noop", benchmark="All") for rule in ("noop_run r=3", "noop_run or cycle"))
    assert either["n_hit"] >= run["n_hit"] and either["n_flagged"] >= run["n_flagged"] and either["n"] == run["n"]


def test_correction_keeps_what_was_audited_and_only_guesses_the_rest(simulated):
    for row in rows(simulated, "corrected_scores"):
        assert row["released"] == pytest.approx(100 * row["n_pass"] / row["n"]) and 0 < row["n_audited"] < row["n_fail"]
        assert row["corrected_low"] <= row["corrected"] <= row["corrected_high"] and row["corrected"] >= row["released"]
        assert row["rank_low"] <= row["rank_high"]


def test_a_wholly_audited_agent_has_no_uncertainty_left(tmp_path):
    arguments = made_run.simulated_audit(tmp_path)
    truth = {row["trajectory_id"]: row for row in store.read_rows(tmp_path / "sim", "truth")}
    known = {row["trajectory_id"]: row for row in store.read_rows(tmp_path / "sim", "trajectories")}
    final = [
        {
            **{name: known[key][name] for name in ("trajectory_id", "benchmark", "agent", "task_id")},
            "verdict": row["outcome"],
            "category": row["category"],
            "verdict_rule": "judges",
            "category_rule": None,
            "reviewed": False,
            "n_raters": 1,
            "simulated": True,
        }
        for key, row in truth.items()
        if row["outcome"] != "success"
    ]
    store.write_table(tmp_path / "final", "final", final)
    assert main(made_run.command(arguments, tmp_path / "stats")) == 0
    for row in rows(tmp_path / "stats", "corrected_scores"):
        mine = [
            truth[key]["outcome"]
            for key, about in known.items()
            if (about["benchmark"], about["agent"]) == (row["benchmark"], row["agent"])
        ]
        by_hand = 100 * (mine.count("success") + mine.count("efn")) / (len(mine) - mine.count("broken"))
        assert row["corrected_low"] == row["corrected_high"] == pytest.approx(row["corrected"]) == pytest.approx(by_hand)


def test_deadlines_are_missed_without_a_success_in_time(simulated):
    row = rows(simulated, "timing")[0]
    assert row["window_slack"] is None and row["deadline_miss"] == pytest.approx(100 * (1 - row["n_success"] / row["n_timed"]))
    curve = [
        point["success"]
        for point in rows(simulated, "deadline_curve")
        if (point["benchmark"], point["agent"]) == (row["benchmark"], row["agent"])
    ]
    assert curve == sorted(curve) and curve[-1] == pytest.approx(100 - row["deadline_miss"])


def test_ingest_reconciles_and_drops_add_up(tmp_path):
    arguments = made_run.simulated_source(tmp_path)
    dropped = {"stage": "normalise", "source": "sim", "unit": "trajectory", "item": "x", "reason": "broken_json", "detail": None}
    store.write_table(tmp_path / "sim", "drops", [dropped, {**dropped, "item": "y"}])
    counts = store.Counts("normalise")
    counts.keep("trajectory", 120)
    counts.drop("trajectory", "sim", "x", "broken_json")
    counts.drop("trajectory", "sim", "y", "broken_json")
    store.write_manifest(
        tmp_path / "sim",
        stage="normalise",
        key="k",
        format_version=1,
        seed=1,
        config={"source": "sim", "simulated": True},
        upstream={},
        counts=counts.summary("trajectory"),
    )
    assert main(made_run.command(arguments, tmp_path / "stats")) == 0
    row = one(rows(tmp_path / "stats", "ingest"), stage="normalise")
    assert (row["source"], row["read"], row["kept"], row["dropped"], row["reconciles"]) == ("sim", 122, 120, 2, True)
    assert one(rows(tmp_path / "stats", "drops"), reason="broken_json")["n"] == 2


def test_drops_that_a_stage_only_counted_are_listed_too(tmp_path):
    arguments, _ = made_run.probes(tmp_path)
    counts = store.Counts("mine")
    counts.keep("candidate", 180)
    counts.drop("candidate", "web", "a", "twin")
    for _ in range(3):
        counts.drop("candidate", "web", "a", "not_drawn")
    store.write_manifest(
        tmp_path / "mined", stage="mine", key="k", format_version=1, seed=1, config={}, upstream={}, counts=counts.summary("candidate")
    )
    assert main(made_run.command(arguments, tmp_path / "stats")) == 0
    found = {(row["source"], row["reason"]): row["n"] for row in rows(tmp_path / "stats", "drops")}
    assert found == {("web", "twin"): 1, ("(all)", "not_drawn"): 3}
    assert one(rows(tmp_path / "stats", "ingest"), stage="mine")["dropped"] == 4


def test_real_annotators_agree_as_counted_by_hand(real_logs, tmp_path):
    questions = ("trajectory_success", "trajectory_looping")
    with open(real_logs / "agentrewardbench" / "annotations.csv", encoding="utf-8", newline="") as handle:
        given = list(csv.DictReader(handle))
    annotations = [
        {
            "trajectory_id": "/".join(row[name] for name in ("benchmark", "model_name", "exp_name", "task_id")),
            "annotator": row["annotator_name"].strip(),
            "question": question,
            "answer": row[question].strip(),
            "benchmark": row["benchmark"],
            "agent": row["model_name"],
            "task_id": row["task_id"],
            "row": number,
        }
        for number, row in enumerate(given)
        for question in questions
    ]
    source = made_run.normalised(tmp_path, "arb", [], annotations=annotations)
    assert main(made_run.command({"normalised": [source]}, tmp_path / "stats")) == 0
    found = rows(tmp_path / "stats", "human_agreement")
    success = one(found, question="trajectory_success", scope="all")
    assert (success["n"], success["n_pairs"]) == (1302, 106) and success["raw"] == pytest.approx(87.7, abs=0.05)
    assert one(found, question="trajectory_success", scope="without unsure")["cohen_kappa"] == pytest.approx(0.755, abs=0.0005)
    looping = one(found, question="trajectory_looping", scope="all")
    assert (
        looping["cohen_kappa"] == pytest.approx(0.770, abs=0.0005) and looping["cohen_kappa_low"] < 0.7 < 0.83 < looping["cohen_kappa_high"]
    )
    assert not looping["simulated"]


def test_the_same_run_gives_the_same_bytes_whatever_the_order_of_its_rows(tmp_path):
    arguments, _ = made_run.probes(tmp_path)
    arguments |= made_run.audit(tmp_path)
    assert main(made_run.command(arguments, tmp_path / "one")) == 0
    for folder, name in (
        ("scores", "scores"),
        ("predictions", "predictions"),
        ("final", "final"),
        ("final", "labels"),
        ("mined", "t2"),
        ("sample", "sample"),
    ):
        shuffled = store.read_rows(tmp_path / folder, name)
        random.Random(1).shuffle(shuffled)
        store.write_table(tmp_path / folder, name, shuffled)
    arguments["judgments"].reverse()
    assert main(made_run.command(arguments, tmp_path / "two")) == 0
    for path in sorted((tmp_path / "one").iterdir()):
        if path.name != "manifest.json" and path.stem != "ingest":
            assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_another_seed_moves_intervals_and_no_estimate(tmp_path, probes):
    arguments, _ = made_run.probes(tmp_path)
    assert main(made_run.command(arguments, tmp_path / "stats", seed=8)) == 0
    before, after = rows(probes[0], "evogui_intervals"), rows(tmp_path / "stats", "evogui_intervals")
    assert [row["evogain"] for row in before] == [row["evogain"] for row in after]
    assert [row["evogain_low"] for row in before] != [row["evogain_low"] for row in after]


def test_published_figures_agree_but_for_the_known_five():
    found = published_check()
    assert (
        sum(row["quantity"].startswith("EvoGain of") and row["location"] == "Table 2" and row["status"] == "agrees" for row in found) == 28
    )
    assert sum("from its classes" in row["quantity"] and row["status"] == "agrees" for row in found) == 28
    assert sum("from its slices" in row["quantity"] and row["status"] == "agrees" for row in found) == 28
    assert sum("two-place rounding" in (row["note"] or "") for row in found) == 5
    # Click is no more frequent than type; T2 of the control's own run; the MAST map lacks a category; false negatives fall by 43 and 40 %.
    assert sorted(row["location"] for row in found if row["status"] == "differs") == ["5", "5", "A.9", "Table 4", "Table 8"]
    assert sum("kappa" in row["quantity"] and "agreeing" in row["quantity"] and row["status"] == "agrees" for row in found) == 4
    assert {row["status"] for row in found} == {"agrees", "differs", "not_derivable"}
    assert len({(row["paper"], row["location"], row["quantity"]) for row in found}) == len(found)


def test_a_wrong_printed_figure_is_found(monkeypatch):
    from evoaudit.tables import literature

    text = literature._text

    def altered(name, *rest):
        found = text(name, *rest)
        return tuple({**row, "t2_top1": "60.1"} if name == "evogui_table2" and row["model"] == "GLM-5V-Turbo" else row for row in found)

    monkeypatch.setattr(literature, "_text", altered)
    wrong = [row["quantity"] for row in literature.published_check() if row["status"] == "differs"]
    assert "T2 top-1 of GLM-5V-Turbo from its classes" in wrong


def test_published_tables_hold_what_the_papers_print():
    assert len(published("evogui_table2")) == 29 and len(published("cua_table1")) == 8
    assert sum(len(row["benchmarks"].split("; ")) for row in published("cua_table1")) == 32
    assert {row["unified_action"] for row in published("evogui_table4")} == {"click", "type", "select", None}


def test_every_verb_of_every_reader_is_mapped(audited):
    found = rows(audited, "action_map")
    assert (
        one(found, source_action="textInput")["unified_action"] == "type"
        and one(found, source_action="textInput")["t2_use"] == "retained with value"
    )
    for row in found:
        if row["published_t2_use"] is not None:
            assert row["t2_use"] == row["published_t2_use"], row


def test_csv_is_exact_and_says_what_the_parquet_says(probes, tmp_path):
    assert main(["tables", "--stats", str(probes[0] / "manifest.json"), "--out", str(tmp_path / "tables")]) == 0
    for name in TABLES:
        assert (tmp_path / "tables" / f"{name}.parquet").read_bytes() == (probes[0] / f"{name}.parquet").read_bytes()
    read = list(csv.DictReader(io.StringIO((tmp_path / "tables" / "evogui_intervals.csv").read_text(encoding="utf-8"))))
    for text, row in zip(read, rows(probes[0], "evogui_intervals"), strict=True):
        assert list(text) == list(row) and (float(text["evogain"]) if text["evogain"] else None) == row["evogain"]
        assert text["simulated"] == "false"


@pytest.fixture(scope="module")
def printed(probes, audited, simulated, tmp_path_factory) -> Path:
    """Every table of three runs as LaTeX."""
    root = tmp_path_factory.mktemp("tex")
    for name, folder in (("probes", probes[0]), ("audited", audited), ("simulated", simulated)):
        assert main(["tables", "--stats", str(folder), "--out", str(root / name)]) == 0
    return root


def test_latex_rows_have_as_many_cells_as_columns_and_nothing_stays_open(printed):
    for path in sorted(printed.rglob("*.tex")):
        text = path.read_text(encoding="utf-8")
        plain = re.sub(r"\\\\|\\[{}&]", "", text)
        assert plain.count("{") == plain.count("}"), path
        begun = re.findall(r"\\(begin|end)\{(\w+)\}|\\(begingroup|endgroup)", text)
        stack = []
        for word, name, group in begun:
            if word == "begin" or group == "begingroup":
                stack.append(name or "group")
            else:
                assert stack.pop() == (name or "group"), path
        assert not stack, path
        layout = re.search(r"\\begin\{(?:tabular|longtable)\}\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}\n", text)
        if layout is None:
            assert "tabular" not in text and "\\caption" in text, path
            continue
        columns = len(re.sub(r">\{[^}]*\}p\{[^}]*\}", "p", layout[1]))
        inner = re.sub(r"\\begin\{tabular\}\[b\].*?\\end\{tabular\}", "head", text.split(layout[0], 1)[1])
        for line in inner.splitlines():
            if line.endswith(r"\\") and "multicolumn" not in line and "caption" not in line:
                assert len(re.findall(r"(?<!\\)&", line)) + 1 == columns, (path, line)
            assert "nan" not in re.findall(r"[a-z]+", line.split("%")[0].lower()), (path, line)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
def test_every_table_compiles_and_stays_on_the_page(printed, tmp_path):
    begin = (
        r"\documentclass[a4paper]{article}\usepackage[T1]{fontenc}\usepackage[margin=2cm]{geometry}"
        r"\usepackage{array,booktabs,longtable}\begin{document}"
    )
    inputs = [f"\\message{{<<{path.stem}>>}}\\input{{{path}}}\\clearpage" for path in sorted(printed.rglob("*.tex"))]
    (tmp_path / "all.tex").write_text("\n".join([begin, *inputs, r"\end{document}"]), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    said = done.stdout.decode("latin-1").replace("\n", "")
    assert done.returncode == 0, said[-2000:]
    wide = [float(points) for points in re.findall(r"Overfull .hbox \(([\d.]+)pt too wide", said)]
    assert max(wide, default=0) < 30 and "Float too large" not in said, said[-3000:]


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2", "@SUM(A1)", "\t=1", " =1", "\r=1", "＝1", "'=1"])
def test_text_that_a_spreadsheet_would_run_is_marked_as_text(text):
    cell = next(csv.reader(io.StringIO(csvfile.text(["x"], [{"x": text}]).split("\n", 1)[1], newline="")))[0]
    assert cell == "'" + text and csvfile.plain(cell) == text


def test_plain_text_and_negative_numbers_are_written_as_they_are():
    found = {"a": -1.5, "b": -2, "c": "Qwen3.5-4B", "d": "'quoted'", "e": None}
    assert csvfile.text(list(found), [found]) == "a,b,c,d,e\n-1.5,-2,Qwen3.5-4B,'quoted',\n"


def test_latex_marks_best_and_second_among_the_models_only(probes, tmp_path):
    assert main(["tables", "--stats", str(probes[0] / "manifest.json"), "--out", str(tmp_path / "tables")]) == 0
    lines = (tmp_path / "tables" / "evogui_main.tex").read_text(encoding="utf-8").splitlines()
    best = next(line for line in lines if line.strip().startswith("Gemini"))
    assert best.count(r"\textbf") >= 2
    assert not any(r"\textbf" in line or r"\underline" in line for line in lines if "random" in line)
    assert any(r"\multicolumn{6}{l}{\textit{Open-weight models}}" in line for line in lines)
    assert [line for line in lines if line.strip() == r"\toprule"]


def test_text_cannot_break_out_of_a_table():
    meta = {
        "name": "x",
        "title": "A & B_1",
        "paper": "",
        "note": "see `a_b` at 5 %",
        "group": "",
        "empty": "",
        "simulated": "none",
        "columns": [{"name": "model", "label": "model", "unit": "", "decimals": None, "kind": "text", "best": "", "extra": False}],
    }
    hostile = "a|b<i>\n# c \\ {x} $y$ 50% \u202e~^"
    text = render.markdown(meta, [{"model": hostile}])
    assert text.count("\n| ") == 3 and "a\\|b\\<i>\\\\n# c" in text and "\u202e" not in text
    tex = render.latex(meta, [{"model": hostile}])
    body = next(line for line in tex.splitlines() if "50" in line)
    assert r"50\%" in body and r"\$y\$" in body and r"\textbackslash{}" in body and "\u202e" not in body
    assert r"A \& B\_1" in tex and r"\texttt{a\_b} at 5 \%" in tex


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (-0.04, 1, "0.0"),
        (-0.06, 1, "-0.1"),
        (84000.0, None, "84000"),
        (0.0026123, None, "0.002612"),
        (60.41116, None, "60.41"),
        (3, 0, "3"),
    ],
)
def test_numbers_are_rounded_for_people(value, decimals, text):
    assert render.number(value, decimals) == text


def test_simulated_and_real_verdicts_are_never_pooled(tmp_path):
    arguments = made_run.audit(tmp_path)
    final = store.read_rows(tmp_path / "final", "final")
    store.write_table(tmp_path / "final", "final", [{**row, "simulated": number % 2 == 0} for number, row in enumerate(final)])
    assert main(made_run.command(arguments, tmp_path / "stats")) == 0
    found = rows(tmp_path / "stats", "audit_verdicts")
    assert one(found, benchmark="All")["n"] == 75 and one(found, benchmark="All (simulated)")["n"] == 75
    assert index(tmp_path / "stats")["audit_diagnoses"]["simulated"] == "some"


def test_a_missing_or_damaged_input_is_one_line(tmp_path, capsys):
    assert main(["tables", "--stats", str(tmp_path / "nowhere" / "manifest.json"), "--out", str(tmp_path / "tables")]) == 2
    arguments, _ = made_run.probes(tmp_path)
    (tmp_path / "scores" / "scores.parquet").write_bytes(b"PAR1 nonsense")
    assert main(made_run.command(arguments, tmp_path / "stats")) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and "run the stage that writes it" in lines[0] and "scores.parquet: not a readable Parquet file" in lines[1]
    assert not (tmp_path / "stats" / "manifest.json").exists()
    shutil.rmtree(tmp_path / "scores")


def test_tables_swapped_by_hand_are_one_line(probes, tmp_path, capsys):
    shutil.copytree(probes[0], tmp_path / "stats")
    for name, other in (("evogui_main", "cost"), ("cost", "evogui_main")):
        shutil.copy(probes[0] / f"{name}.parquet", tmp_path / "stats" / f"{other}.parquet")
    made_run.sealed(tmp_path / "stats")
    for stage in ("tables", "figures"):
        assert main([stage, "--stats", str(tmp_path / "stats" / "manifest.json"), "--out", str(tmp_path / stage)]) == 2
        assert not (tmp_path / stage / "manifest.json").exists()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and all(line.endswith("describes; delete its folder and run again") for line in lines)


@pytest.mark.parametrize("text", ["{}", "[1]", '[{"name": "cost"}]', "[]"])
def test_an_index_of_tables_written_by_hand_is_one_line(probes, tmp_path, capsys, text):
    shutil.copytree(probes[0], tmp_path / "stats")
    (tmp_path / "stats" / "tables.json").write_text(text)
    made_run.sealed(tmp_path / "stats")
    assert main(["figures", "--stats", str(tmp_path / "stats" / "manifest.json"), "--out", str(tmp_path / "figures")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_the_audit_paper_prints_of_its_raters_stands_beside_the_runs(audited):
    found = rows(audited, "agreement")
    x = " \N{MULTIPLICATION SIGN} "
    pair = one(found, stage="1 verdict", raters=f"gpt{x}claude", statistic="cohen_kappa")
    assert [pair[f"published_{name}"] for name in ("n", "raw_least", "raw_most", "least", "most")] == [150, 92.7, 92.7, 0.71, 0.71]
    assert one(found, stage="2 category", raters=f"gpt{x}claude", statistic="cohen_kappa")["published_least"] == 0.41
    assert one(found, stage="1 verdict", raters=f"human1{x}human2", statistic="cohen_kappa")["published_most"] == 0.59
    assert (
        one(found, stage="1 verdict", raters=x.join(("gpt", "claude", "human1", "human2")), statistic="fleiss_kappa")["published_least"]
        == 0.36
    )
    mixed = one(found, stage="1 verdict", raters=f"gpt{x}human1", statistic="cohen_kappa")
    assert (mixed["published_least"], mixed["published_most"], mixed["published_raw_least"], mixed["published_raw_most"]) == (
        0.19,
        0.32,
        76.0,
        81.7,
    )
    # The paper prints no AC1 and no alpha.
    assert all(row["published_least"] is None for row in found if row["statistic"] in ("gwet_ac1", "krippendorff_alpha"))
    rates = {row["annotator"]: row["published_wrong_rate"] for row in rows(audited, "annotator_rates")}
    assert rates | {"human1": None, "human2": None} == {
        "gpt": 13.5, "claude": 7.7, "human1": None, "human2": None, "mean": 13.7, "sd": 5.1, "variance": 0.0026, "min": 7.7, "max": 20.2
    }  # fmt: skip
    ablation = {row["judge"]: row for row in rows(audited, "evidence_ablation")}
    assert [ablation["claude"][f"published_{name}"] for name in ("flips", "efn_with", "efn_without")] == [13, 10, 6]
    assert ablation[f"gpt{x}claude"]["published_kappa_without"] == 0.6


def test_relations_stand_beside_the_papers(probes):
    found = {row["pair"]: row for row in rows(probes[0], "rank_relation")}
    assert (found["osworld, evogain"]["published_spearman"], found["osworld, evogain"]["published_kendall"]) == (0.9, 0.8)
    assert found["evogain, evogain_action"]["published_pearson"] == 0.991 and found["parameters_b, evogain"]["published_n"] is None


def test_a_constant_answer_above_chance_is_explained(tmp_path):
    def change(scores):
        # alpha names `click` whatever it is shown, as `majority` does.
        clicks = {"answer": json.dumps({"action": "click", "value": ""}), "confidence": None}
        return [
            {**row, **clicks, "correct": row["slice"] == "click", "action_correct": row["slice"] == "click"}
            if row["model"] == "alpha-2b" and row["task"] == "t2"
            else row
            for row in scores
        ]

    found = rows(scored(tmp_path, change), "evogui_main")
    note = one(found, model="alpha-2b")["note"]
    # 28 of 60 items are clicks; guessing is right on a third of them.
    assert note.startswith("every T2 answer is `click`: it needs no value and is right on 46.7 % of the items, uniform guessing on 15.6 %")
    assert one(found, model="beta-9b")["note"] is None


def test_names_are_words_for_people_and_names_for_scripts(probes, tmp_path):
    assert main(["tables", "--stats", str(probes[0] / "manifest.json"), "--out", str(tmp_path / "tables")]) == 0
    machine, people = ((tmp_path / "tables" / f"split.{end}").read_text(encoding="utf-8") for end in ("csv", "md"))
    assert ",cross," in machine and ",K=3," in machine and ",top_domain_share," in machine and ",source_web," in machine
    for words in ("| cross-trajectory |", "| long skip |", "| 3 screens |", "| largest domain |", "| source web |"):
        assert words in people
    assert "top_domain_share" not in people + (tmp_path / "tables" / "split.tex").read_text(encoding="utf-8")


def test_the_cross_tier_has_one_name_in_words():
    root = Path(render.__file__).parents[1]
    for path in (*root.rglob("*.py"), *root.rglob("*.j2"), *(root.parents[1] / "docs").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        for other in ("another site", "other site", "other trajectory", "cross-site", "cross-domain"):
            assert f"from {other}" not in text and f'"{other}"' not in text, path


def test_scores_beyond_the_browser_are_ordered_by_group_then_score_with_intervals(tmp_path):
    made_run.probes(tmp_path)
    # Without T1 there is no EvoGain to go by; the first name scores best.
    store.write_table(tmp_path / "mined", "t1", [])
    found = [row for row in store.read_rows(tmp_path / "scores", "scores") if row["task"] != "t1"]
    best = [{**row, "correct": True} if row["model"] == "alpha-2b" and row["task"] == "t3" else row for row in found]
    store.write_table(tmp_path / "scores", "scores", best)
    (tmp_path / "mined" / "quotas.json").write_text(json.dumps({"vocabulary": ["click", "type", "select", "scroll"]}), encoding="utf-8")
    other = Set("desk", tmp_path / "mined", tmp_path / "scores")
    table = other_sets(Panel(Run(Folders(sets=(other,)), made_run.SETTINGS, 7)))
    full = [row for row in table if row["condition"] == "full" and row["max_image_side"] == 512]
    assert [row["model"] for row in full] == ["random", "beta-9b", "alpha-2b", "Gemini-3-Flash-Preview"]
    alpha = one(full, model="alpha-2b")
    assert (alpha["t3"], alpha["t3_high"]) == (100, pytest.approx(100)) and 90 < alpha["t3_low"] < 100
    assert alpha["t1"] is None and alpha["t1_low"] is None


def test_resolution_has_models_in_the_order_of_the_main_table(probes):
    listed = list(dict.fromkeys(row["model"] for row in rows(probes[0], "resolution")))
    main_order = [row["model"] for row in rows(probes[0], "evogui_main") if row["model"] in listed]
    assert listed == main_order and len(listed) == 3


def test_a_unit_that_stands_in_the_heading_is_not_said_twice():
    told = {column.name: column.unit for column in TABLES["cost"].columns}
    assert told["usd"] == told["usd_per_attempt"] == "" and {column.unit for column in TABLES["evogui_main"].columns} == {"", "%"}
