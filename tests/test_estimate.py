"""What the audit says of rows nobody reviewed, and what the headline numbers hang on."""

import json
import re

import made_run
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_run import one, rows
from scipy.stats import hypergeom

from evoaudit import stats, store
from evoaudit.__main__ import main
from evoaudit.stats import resample
from evoaudit.tables.inputs import Folders, Run
from evoaudit.tables.panel import Panel
from evoaudit.tables.reparse import read_again


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    root = tmp_path_factory.mktemp("both")
    arguments = made_run.audit(root) | made_run.probes(root)[0]
    assert main(made_run.command(arguments, root / "stats")) == 0
    return root / "stats"


def audited(tmp_path, change):
    """Compute the audit's tables after ``change`` has altered its final rows."""
    arguments = made_run.audit(tmp_path)
    store.write_table(tmp_path / "final", "final", change(store.read_rows(tmp_path / "final", "final")))
    assert main(made_run.command(arguments, tmp_path / "stats")) == 0
    return rows(tmp_path / "stats", "audit_estimate")


def test_bounds_of_unseen_rows_are_the_exact_ones():
    # Of 76 agreements 30 were drawn: with x found, the most among the other 46 that 5 % would leave unfound.
    assert [stats.unseen_upper(x, 30, 76) for x in range(4)] == [5, 8, 10, 12]
    assert stats.unseen_upper(3, 30, 30) == 0 and stats.unseen_upper(0, 0, 5) is None


@given(st.integers(1, 60), st.integers(0, 60), st.integers(0, 60))
def test_the_finite_interval_holds_what_mid_p_does_not_refute(size, n, k):
    n = max(1, min(n, size))
    k = min(k, n)
    hits = np.arange(k, size - n + k + 1)
    at_most = hypergeom.cdf(k, size, hits, n) - hypergeom.pmf(k, size, hits, n) / 2
    kept = hits[(at_most > 0.025 + 1e-9) & (at_most < 0.975 - 1e-9)] if n < size else hits
    low, high = stats.hypergeometric_ci(k, n, size)
    assert (round(low * size), round(high * size)) == (kept.min(), kept.max())
    assert low <= k / n <= high or n < size


def test_a_whole_review_leaves_no_uncertainty_and_none_at_all_no_estimate():
    assert stats.two_phase([3, 5], [10, 20], [10, 20]) == pytest.approx([8 / 30] * 3)
    assert stats.two_phase([3, 0], [10, 0], [10, 20]) == [None] * 3
    assert stats.two_phase([], [], []) == [None] * 3
    assert stats.two_phase([0, 3], [0, 10], [0, 10]) == pytest.approx([0.3] * 3)


def test_two_phases_agree_with_the_stratified_estimate_and_allow_for_what_was_not_found():
    share, low, high = stats.two_phase([10, 3], [74, 30], [74, 76])
    assert share == pytest.approx(stats.stratified_proportion([10, 3], [74, 30], [74, 76])[0])
    assert low < share < high
    # Nothing found in the drawn agreements: the ten known ones are certain, the rest may hold a few.
    share, low, high = stats.two_phase([10, 0], [74, 30], [74, 76])
    assert share == low == pytest.approx(10 / 150) and high == pytest.approx(15 / 150)


def test_reviewed_and_unreviewed_rows_are_weighed_by_their_stratum(both):
    labels = made_run.synthetic_labels()
    reviewed = [label for label in labels if label["reviewed"] == "True"]

    def agree(label: dict) -> bool:
        return label["gpt"] == label["claude"] and (label["gpt"] != "GF" or label["gpt_category"] == label["claude_category"])

    def wrong(verdict: str) -> bool:
        return verdict in ("EFN", "BROKEN")

    strata = ([x for x in labels if not agree(x)], [x for x in labels if agree(x) and wrong(x["gpt"])])
    strata += ([x for x in labels if agree(x) and not wrong(x["gpt"])],)
    by_hand = 0.0
    for held in strata:
        seen = [label for label in held if label in reviewed]
        by_hand += len(held) / 150 * sum(wrong(label["final"]) for label in seen) / len(seen)
    found = one(rows(both, "audit_estimate"), benchmark="All", estimator="two-phase")
    assert found["wrong"] == pytest.approx(100 * by_hand) and found["unseen"] == 46
    assert found["wrong_low"] < found["wrong"] < found["wrong_high"] and found["simulated"]
    whole = one(rows(both, "audit_estimate"), benchmark="All", estimator="final labels, all rows")
    assert whole["wrong"] == pytest.approx(100 * 23 / 150)
    # The reviewed rows alone hold every disagreement, and with them more wrong verdicts than there are.
    assert one(rows(both, "audit_estimate"), benchmark="All", estimator="reviewed rows alone")["wrong"] > whole["wrong"]


def test_a_judge_is_corrected_by_weighted_error_rates(both):
    found = rows(both, "audit_estimate")
    given, corrected = (one(found, benchmark="All", estimator=f"gpt, {name}") for name in ("as given", "corrected"))
    apparent, se, sp = given["wrong"] / 100, corrected["sensitivity"] / 100, corrected["specificity"] / 100
    assert corrected["wrong"] == pytest.approx(100 * stats.rogan_gladen(apparent, se, sp))
    assert corrected["wrong_low"] < corrected["wrong"] < corrected["wrong_high"]


def test_a_judge_is_not_corrected_where_only_disagreements_were_reviewed(tmp_path):
    labels = {label["id"]: label for label in made_run.synthetic_labels()}

    def change(final):
        for row in final:
            label = labels[row["trajectory_id"]]
            row["reviewed"] = label["gpt"] != label["claude"]
        return final

    found = audited(tmp_path, change)
    for name in ("gpt", "claude"):
        row = one(found, benchmark="All", estimator=f"{name}, corrected")
        assert row["wrong"] is None and "so the reviewed ones are no sample of all" in row["note"]
    row = one(found, benchmark="All", estimator="two-phase")
    assert row["wrong"] is None and row["note"].startswith("none of the 7") and "was reviewed" in row["note"]


def test_a_judge_is_not_corrected_from_a_handful_of_errors(tmp_path):
    def change(final):
        kept = [row["trajectory_id"] for row in final if row["verdict"] in ("efn", "broken")][:5]
        return [row if row["trajectory_id"] in kept else {**row, "verdict": "gf", "category": "other"} for row in final]

    row = one(audited(tmp_path, change), benchmark="All", estimator="gpt, corrected")
    assert row["wrong"] is None and "too few to know how this judge errs" in row["note"]


def test_without_any_review_the_two_phase_rows_say_so(tmp_path):
    found = audited(tmp_path, lambda final: [{**row, "reviewed": False} for row in final])
    for row in found:
        if row["estimator"] == "two-phase":
            assert row["wrong"] is None and "was reviewed" in row["note"] and row["unseen"] == row["n"]
    assert not any("reviewed rows alone" in row["estimator"] for row in found)


def test_the_interval_as_run_is_that_of_the_leaderboard(both):
    leader = next(row for row in rows(both, "evogui_intervals") if row["rank"] == 1)
    as_run = [row for row in rows(both, "sensitivity") if row["quantity"] == "EvoGain" and row["setting"].endswith("(as run)")]
    ends = {(row["subject"], row["value_low"], row["value_high"]) for row in as_run}
    assert ends == {(leader["model"], leader["cluster_low"], leader["cluster_high"])} and len(as_run) == 7
    items = one(rows(both, "sensitivity"), choice="what is resampled", setting="items")
    assert (items["value_low"], items["value_high"]) == (leader["evogain_low"], leader["evogain_high"])


def test_every_choice_has_the_run_as_it_is_beside_the_others(both):
    found = rows(both, "sensitivity")
    choices = {(row["choice"], row["quantity"]) for row in found}
    assert {choice for choice, quantity in choices if quantity == "EvoGain"} == {
        "parser",
        "missing answers",
        "unusable answers",
        "chance level",
        "near-duplicate items",
        "values that stand in the goal",
        "what is resampled",
    }
    assert {choice for choice, quantity in choices if quantity == "wrong verdicts"} == {
        "tie of the raters",
        "unclear verdicts",
        "attempts at one task",
        "rows nobody reviewed",
        "what is resampled",
    }
    for choice, quantity in choices:
        mine = [row for row in found if (row["choice"], row["quantity"]) == (choice, quantity)]
        as_run = [row for row in mine if row["setting"].endswith("(as run)")]
        assert len(as_run) == 1 and len(mine) > 1 and as_run[0]["change"] == 0, choice
    for row in found:
        assert (row["value"] is None) <= bool(row["note"]), row


def test_unclear_verdicts_move_the_rate_as_counted_by_hand(both):
    found = [row for row in rows(both, "sensitivity") if row["choice"] == "unclear verdicts"]
    values = {row["setting"]: (row["n"], row["value"]) for row in found}
    # 23 wrong and 5 unclear of 150.
    assert values["excluded"] == (145, pytest.approx(100 * 23 / 145)) and values["wrong"] == (150, pytest.approx(100 * 28 / 150))


def moved(tmp_path, change, **where) -> dict:
    arguments, _ = made_run.probes(tmp_path)
    store.write_table(tmp_path / "scores", "scores", change(store.read_rows(tmp_path / "scores", "scores")))
    assert main(made_run.command(arguments, tmp_path / "stats")) == 0
    return one(rows(tmp_path / "stats", "sensitivity"), **where)


def leader(row: dict) -> bool:
    return row["model"] == "Gemini-3-Flash-Preview" and row["condition"] == "full" and row["max_image_side"] == 512


def test_answers_found_by_the_fallback_are_lost_to_a_json_only_parser(tmp_path):
    def change(scores):
        lost = [row for row in scores if leader(row) and row["task"] == "t3" and row["correct"]][:6]
        for row in lost:
            row["parse_path"] = "fallback"
        return scores

    row = moved(tmp_path, change, choice="parser", setting="JSON only")
    # Six of 60 T3 items: ten points over the 50 that chance leaves, a third of it in the index.
    assert row["change"] == pytest.approx(-10 / 50 * 100 / 3) and row["largest_subject"] == "Gemini-3-Flash-Preview"


@pytest.mark.parametrize(
    ("setting", "status", "choice"), [("wrong", "unanswered", "missing answers"), ("excluded", "invalid", "unusable answers")]
)
def test_missing_and_unusable_answers_move_the_index_as_they_are_counted(tmp_path, setting, status, choice):
    before = {}

    def change(scores):
        mine = [row for row in scores if leader(row) and row["task"] == "t3"]
        for row in mine[:12]:
            row |= {"status": status, "correct": False, "answer": None}
        before["right"] = sum(row["correct"] for row in mine)
        return scores

    row = moved(tmp_path, change, choice=choice, setting=setting)
    share_all, share_answered = before["right"] / 60, before["right"] / 48
    step = (share_all - share_answered) * 2 * 100 / 3
    assert row["change"] == pytest.approx(step if setting == "wrong" else -step)


def worded(tmp_path, say) -> list[dict]:
    """Score two models whose answers are put into words by ``say(task, right, number)``; return the rows of the parser."""
    arguments, items = made_run.probes(tmp_path)
    for row in items["t1"]:
        row["images"] = ["a", "b", "c", "d", "e"][: int(row["slice"][2:])]
    for task, found in items.items():
        store.write_table(tmp_path / "mined", task, found)
    made_run.sealed(tmp_path / "mined")
    folders = []
    for model in ("alpha-2b", "beta-9b"):
        there, predictions = tmp_path / f"infer-{model}", []
        there.mkdir()
        for task, found in items.items():
            for number, item in enumerate(found):
                key = {
                    "t1": {"order": item.get("answer")},
                    "t2": {"action": item["slice"], "value": "x"},
                    "t3": {"answer": item.get("answer")},
                }
                wrong = {"t1": {"order": item.get("answer", [])[::-1]}, "t2": {"action": "none"}, "t3": {"answer": "BA"[number % 2]}}
                raw = say(key[task], wrong[task], number) if model == "alpha-2b" else json.dumps(key[task])
                identity = {"model": model, "condition": "full", "max_image_side": 512, "run": 0, "task": task}
                predictions.append({**identity, "instance_id": item["instance_id"], "raw": raw, "status": "ok"})
        names = [field.name for field in store.schema.TABLES["predictions"]]
        store.write_table(there, "predictions", [{**dict.fromkeys(names), **row} for row in predictions])
        config = {"name": model, "condition": "full", "max_image_side": 512, "runs": 1}
        folders.append(made_run.manifest(there, "infer", config, answer=len(predictions)))
    assert main(["score", "--mined", *arguments["mined"], "--predictions", *folders, "--out", str(tmp_path / "scored")]) == 0
    given = {"mined": arguments["mined"], "predictions": folders, "scores": [str(tmp_path / "scored" / "manifest.json")]}
    assert main(made_run.command(given, tmp_path / "stats")) == 0
    return [row for row in rows(tmp_path / "stats", "sensitivity") if row["choice"] == "parser"]


def test_answers_are_read_again_word_for_word_by_every_rule(tmp_path):
    def say(key, wrong, number):
        # Of every four: bare; changed its mind; in prose; doubted aloud.
        right, other = json.dumps(key), json.dumps(wrong)
        label = key.get("answer") or key.get("action") or str(key["order"])
        return (right, f"{other} rather {right}", f"So: {right}.", f"Not sure, but not the other: {label}")[number % 4]

    found = {row["setting"]: row for row in worded(tmp_path, say)}
    assert list(found) == [
        "JSON, else the label alone (as run)",
        "JSON only",
        "nothing but one JSON object",
        "the first JSON answer, not the last",
        "any label or order, the last that is named",
    ]
    strict, first, lenient = list(found.values())[2:]
    # The other model's answers are bare JSON, which every rule reads alike, so whatever moves is this model's.
    assert found["JSON only"]["largest_change"] < 0 and found["JSON only"]["subject"] == "beta-9b"
    assert strict["largest_change"] < found["JSON only"]["largest_change"] and strict["change"] == 0
    assert first["largest_change"] < 0 < lenient["largest_change"]
    assert {row["largest_subject"] for row in (strict, first, lenient)} == {"alpha-2b"}
    # One in four is read by the strict rule: a quarter of each task right, over chance.
    base = one(rows(tmp_path / "stats", "evogui_main"), model="alpha-2b")
    panel = Panel(Run(Folders(mined=tmp_path / "mined", scores=tmp_path / "scored"), made_run.SETTINGS, 7))
    expected = panel.gains({"t1": 25.0, "t2_joint": 25.0, "t3": 25.0})
    assert strict["largest_change"] == pytest.approx(expected - base["evogain"])


def test_bare_answers_move_under_no_rule_and_old_scores_are_not_mixed_with_new_ones(tmp_path):
    found = worded(tmp_path, lambda key, wrong, number: json.dumps(key))
    assert all(row["change"] == 0 and row["largest_change"] == 0 for row in found) and len(found) == 5
    scores = [{**row, "correct": False} for row in store.read_rows(tmp_path / "scored", "scores")]
    predictions = store.read_rows(tmp_path / "infer-alpha-2b", "predictions")
    store.write_table(tmp_path / "infer-alpha-2b", "predictions", [{**row, "raw": f"so {row['raw']}"} for row in predictions])
    store.write_table(tmp_path / "scored", "scores", scores)
    run = Run(Folders(mined=tmp_path / "mined", scores=tmp_path / "scored", predictions=(tmp_path / "infer-alpha-2b",)))
    assert read_again(run, store.read_table(tmp_path / "scored", "scores")) == "the answers at hand do not give the scores of this run"
    bare = Run(Folders(scores=tmp_path / "scored"))
    assert read_again(bare, store.read_table(tmp_path / "scored", "scores")) == "the answers, word for word, are not at hand"


def test_items_whose_value_stands_in_the_goal_can_be_left_out(tmp_path):
    def change(scores):
        return [{**row, "value_in_goal": row["task"] == "t2" and row["slice"] != "click"} if row["task"] == "t2" else row for row in scores]

    row = moved(tmp_path, change, choice="values that stand in the goal", setting="without their T2 items")
    # 28 clicks of 60 are left, and chance on them is one in three.
    assert row["n"] == 60 + 28 + 60 and row["change"] != 0


def test_items_that_look_alike_count_once(tmp_path):
    arguments, items = made_run.probes(tmp_path)
    for number, row in enumerate(items["t3"]):
        row["images"] = [f"a{number // 6}", f"b{number}", "c"]  # slices come in turn, so every second of a slice has a twin
    store.write_table(tmp_path / "mined", "t3", items["t3"])
    source = made_run.normalised(tmp_path, "web", [])
    names = sorted({image for row in items["t3"] for image in row["images"]})
    store.write_table(
        tmp_path / "web",
        "images",
        [
            {
                "image_id": name,
                "source": "web",
                "file": name,
                "status": "ok",
                "phash": f"{0 if name[0] == 'b' else int(name[1:] or 0) + 1:016x}",
                "n_uses": 1,
                **dict.fromkeys(("member", "file_sha256", "width", "height", "format", "blank")),
            }
            for name in names
        ],
    )
    assert main(made_run.command({**arguments, "normalised": [source]}, tmp_path / "stats")) == 0
    row = one(rows(tmp_path / "stats", "sensitivity"), choice="near-duplicate items", setting="one of each")
    assert row["n"] == 60 + 60 + 30


def test_a_tie_is_decided_by_each_rule(tmp_path):
    arguments = made_run.audit(tmp_path)
    # Two judges who differ on every third row, and nobody else: ties.
    final = store.read_rows(tmp_path / "final", "final")
    labels, ties = [], 0
    for number, row in enumerate(final):
        split = number % 3 == 0
        ties += split
        row |= {"verdict": "unclear" if split else "efn", "category": None, "verdict_rule": "tie" if split else "judges", "reviewed": False}
        for name, verdict in (("gpt", "efn"), ("claude", "gf" if split else "efn")):
            label = {"trajectory_id": row["trajectory_id"], "annotator": name, "kind": "llm", "stage": "blind", "verdict": verdict}
            label |= {"category": "other" if verdict == "gf" else None, "evidence_steps": [], "codebook_version": "1", "simulated": True}
            labels.append({**label, **dict.fromkeys(("confidence", "seconds", "note"))})
    store.write_table(tmp_path / "final", "final", final)
    store.write_table(tmp_path / "final", "labels", labels)
    del arguments["judgments"]
    assert main(made_run.command(arguments, tmp_path / "stats")) == 0
    found = {row["setting"]: row["value"] for row in rows(tmp_path / "stats", "sensitivity") if row["choice"] == "tie of the raters"}
    assert found == {"unclear (as run)": pytest.approx(100 * (150 - ties) / 150), "judges": found["gf"], "gf": found["gf"]}
    assert found["gf"] == found["unclear (as run)"]


def test_an_estimated_chance_level_adds_its_own_uncertainty_once_for_all_models(tmp_path):
    made_run.probes(tmp_path)
    folders = Folders(mined=tmp_path / "mined", scores=tmp_path / "scores")
    panel = Panel(Run(folders, {**made_run.SETTINGS, "baseline": "random", "bootstrap": 4000}, 7))
    rivals, draws = panel.contest
    scores = panel.shared_draws(rivals, ("t1", "t2_joint", "t3"), "clusters")
    known = panel.gains(scores)  # the same resamples over a chance level that is taken for certain
    for place, rival in enumerate(rivals):
        if rival.model == "alpha-2b":  # the weaker the model, the more its index moves with the chance level
            assert draws[:, place].std() > 1.01 * known[:, place].std()
            free = panel.gains(panel._iid(rival))
            assert panel.iid_draws(rival).std() > 1.01 * free.std()
    # One draw serves all models, so it moves them together: their differences hardly widen.
    apart, certain = draws[:, 0] - draws[:, 2], known[:, 0] - known[:, 2]
    assert apart.std() == pytest.approx(certain.std(), rel=0.1)


def test_strata_keep_their_shares_in_every_resample():
    # Two slices, one always right, one always wrong: the mean cannot vary if the design fixes their sizes.
    values, clusters, strata = np.array([[1.0], [0.0]] * 10), np.arange(20), np.tile([0, 1], 10)
    fixed = resample.stratified_means([resample.by_stratum(values, clusters, 20, strata)], 200, np.random.default_rng(1))[0]
    assert fixed[~np.isnan(fixed)] == pytest.approx(0.5, abs=1e-12)
    free = resample.stratified_means([resample.by_stratum(values, clusters, 20, np.zeros(20))], 200, np.random.default_rng(1))[0]
    assert free.std() > 0.05


def test_resamples_of_columns_with_missing_values_are_those_of_each_column_alone():
    rng = np.random.default_rng(5)
    values = (rng.random((60, 3)) < 0.5).astype(float)
    values[::7, 1] = np.nan
    clusters, strata = np.arange(60) % 20, np.arange(60) % 3
    together = resample.stratified_means([resample.by_stratum(values, clusters, 20, strata)], 50, np.random.default_rng(9))[0]
    for column in range(3):
        alone = resample.by_stratum(values[:, [column]], clusters, 20, strata)
        assert together[:, column] == pytest.approx(resample.stratified_means([alone], 50, np.random.default_rng(9))[0][:, 0], abs=1e-12)


def test_resamples_of_nothing_are_undefined():
    held = resample.by_stratum(np.empty((0, 2)), np.empty(0, int), 5, np.empty(0))
    (draws,) = resample.stratified_means([held], 4, np.random.default_rng(1))
    assert draws.shape == (4, 2) and np.isnan(draws).all()


def test_tasks_are_drawn_inside_their_benchmark():
    # One benchmark always wrong, the other never: resamples inside benchmarks keep the rate.
    patterns, clusters, strata = np.repeat([0, 1], 10), np.arange(20), np.repeat([0, 1], 10)
    draws = resample.pattern_draws(patterns, 2, clusters, 100, np.random.default_rng(1), strata)
    assert (draws == 10).all()


def test_the_estimates_do_not_depend_on_the_order_of_rows(both, tmp_path):
    arguments = made_run.audit(tmp_path)
    for name in ("final", "labels"):
        store.write_table(tmp_path / "final", name, store.read_rows(tmp_path / "final", name)[::-1])
    arguments["judgments"].reverse()
    assert main(made_run.command(arguments, tmp_path / "stats")) == 0
    assert rows(tmp_path / "stats", "audit_estimate") == rows(both, "audit_estimate")
    assert json.loads((tmp_path / "stats" / "tables.json").read_text())


def test_estimates_from_few_rows_are_said_to_be_such(both, tmp_path):
    found = rows(both, "audit_estimate")
    whole = one(found, benchmark="All", estimator="two-phase")
    assert whole["n"] == 150 and "agreement on right: " in whole["strata"] and 75 < whole["tasks"] < 150
    for row in found:
        if row["estimator"] == "final labels, all rows":
            few = row["n"] < 20 or row["tasks"] < 20
            assert bool(row["note"]) == few and (not few or str(min(row["n"], row["tasks"])) in row["note"]), row
        if row["estimator"] == "two-phase" and row["wrong"] is not None:
            thin = [part for part in row["strata"].split("; ") if not part.startswith("disagreement")]
            counts = [[int(n) for n in re.findall(r"\d+", part)] for part in thin]
            assert ("few reviewed" in (row["note"] or "")) == any(seen < min(size, 10) for _, seen, size in counts), row
