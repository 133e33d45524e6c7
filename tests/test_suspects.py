"""Verdicts to look at again: what lists them, in which order, and the page each has."""

import re
from pathlib import Path
from types import SimpleNamespace

import made_run
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_run import one, rows
from test_report import HOSTILE, Page, build, everything

from evoaudit import store
from evoaudit.__main__ import main
from evoaudit.places import trajectory_page
from evoaudit.report import load, summary
from evoaudit.tables import suspects
from evoaudit.tables.audit import no_audit, rank_change


@pytest.fixture(scope="module")
def audited(tmp_path_factory) -> list[dict]:
    root = tmp_path_factory.mktemp("audit")
    assert main(made_run.command(made_run.audit(root), root / "stats")) == 0
    return rows(root / "stats", "suspects")


@pytest.fixture(scope="module")
def simulated(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("simulated")
    assert main(made_run.command(made_run.simulated_audit(root), root / "stats")) == 0
    return root


def test_every_wrong_verdict_of_the_made_up_labels_is_listed_and_the_surest_first(audited):
    wrong = [row for row in audited if row["grounds"] in ("people", "judges")]
    assert len(wrong) == 23 and [row["grounds"] for row in audited][:23] == [row["grounds"] for row in wrong]
    assert sum(row["label"] == "evaluator false negative" for row in wrong) == 16
    assert sum(row["label"] == "broken task" for row in wrong) == 7
    assert sum(row["label"] == "unclear" for row in audited) == 5
    assert {row["released"] for row in audited} == {"fail"} and all(row["simulated"] for row in audited)


def test_outvoted_raters_are_listed_after_the_final_labels(audited):
    labels = made_run.synthetic_labels()
    against = {
        row["id"]
        for row in labels
        if row["final"] == "GF" and any(row[rater] in ("EFN", "BROKEN") for rater in ("gpt", "claude", "human1", "human2"))
    }
    assert {row["trajectory_id"] for row in audited if row["grounds"] == "one rater"} == against
    # A tie outvotes nobody: as many are unclear here as in the table of verdicts.
    assert {row["trajectory_id"] for row in audited if row["grounds"] == "unclear"} == {
        row["id"] for row in labels if row["final"] == "UNCLEAR"
    }
    assert len({row["trajectory_id"] for row in audited}) == len(audited)


def test_a_row_says_who_is_against_the_verdict_and_how_the_label_came_about(audited):
    for row in audited:
        assert row["n_against"] <= row["n_raters"] in (2, 4)
        assert f"{row['n_against']} of {row['n_raters']} raters against the verdict" in row["why"]
        assert row["rule"] == "majority of raters"


def test_a_trajectory_that_only_a_frame_names_has_no_page(audited):
    assert not any(row["page"] for row in audited)


def test_signals_alone_make_suspects_where_nobody_has_judged(simulated):
    found = rows(simulated / "stats", "suspects")
    drawn = {row["trajectory_id"]: row["status"] for row in store.read_rows(simulated / "sample", "sample")}
    fired = {
        row["trajectory_id"]
        for row in store.read_rows(simulated / "signals", "signals")
        if row["signal"] == "challenge_page" and row["fired"]
    }
    alone = [row for row in found if row["grounds"] == "signal"]
    assert {row["trajectory_id"] for row in alone} >= {one for one in fired if drawn.get(one) == "not_drawn"}
    assert all("stopped by a challenge page" in row["why"] for row in alone)
    assert all(row["page"] == trajectory_page(row["trajectory_id"]) for row in found)


def test_attempts_at_one_task_are_counted_together(simulated):
    found = rows(simulated / "stats", "suspects")
    for row in found:
        mine = [other for other in found if (other["benchmark"], other["task_id"]) == (row["benchmark"], row["task_id"])]
        assert (row["task_suspects"], row["task_attempts"]) == (len(mine), 3)  # one attempt by each of three agents


def test_the_no_op_probe_makes_no_suspect(simulated):
    # A no-op argues for a genuine failure, which is what the released verdict says.
    noop = {row["trajectory_id"] for row in store.read_rows(simulated / "sim", "truth") if row["category"] == "t3-noop"}
    listed = {row["trajectory_id"]: row["grounds"] for row in rows(simulated / "stats", "suspects")}
    assert "signal" not in {listed.get(one) for one in noop}


def test_a_free_signal_is_held_against_labels_and_against_what_was_planted(simulated):
    found = rows(simulated / "stats", "signal_check")
    whole = one(found, signal="challenge_page", truth="planted", benchmark="All")
    # Planted walls fire without exception and nothing else does.
    assert (whole["argues"], whole["precision"], whole["recall"]) == ("broken", 100.0, 100.0)
    labelled = one(found, signal="challenge_page", truth="label", benchmark="All")
    assert labelled["n"] < whole["n"] and 0 < labelled["precision"] <= 100
    assert {row["signal"] for row in found} == {"challenge_page"}


@pytest.mark.parametrize(
    ("released", "low", "high", "said"), [(2, 2, 2, "holds"), (2, 1, 3, "not settled"), (1, 2, 3, "changes"), (3, 1, 2, "changes")]
)
def test_a_rank_changes_where_its_interval_leaves_out_the_released_one(released, low, high, said):
    assert rank_change(released, low, high) == said


def test_corrected_scores_say_whether_ranks_change(simulated):
    found = rows(simulated / "stats", "corrected_scores")
    assert all(row["rank_change"] == rank_change(row["rank_released"], row["rank_low"], row["rank_high"]) for row in found)
    for row in found:
        rivals = [other["corrected"] for other in found if other["benchmark"] == row["benchmark"]]
        assert row["rank_corrected"] == 1 + sum(other > row["corrected"] for other in rivals)


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("report")
    build(everything(root), root / "report")
    return root / "report"


def test_every_audited_trajectory_has_a_page_of_its_own_with_its_pictures_inside(report):
    pages = sorted((report / "trajectories").iterdir())
    assert [page.name for page in pages] == sorted(trajectory_page(f"web:{n}").split("/")[1] for n in range(5))
    text = (report / trajectory_page("web:0")).read_text(encoding="utf-8")
    assert text.count("data:image/jpeg;base64,") >= 8 and "evaluator false negative" in text
    policy = text.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
    assert "default-src &#39;none&#39;" in policy and "img-src data:" in policy and "unsafe" not in policy


def test_a_page_of_its_own_fetches_nothing_and_shows_hostile_text_as_text(report):
    for page in (report / "trajectories").iterdir():
        text = page.read_text(encoding="utf-8")
        assert HOSTILE not in text
        for tag, given in Page(text).elements:
            assert tag != "link"
            assert not any(name.startswith("on") for name in given)
            assert str(given.get("src", "data:")).startswith("data:")
            # The report's own pages and the replays beside it; a link is followed by hand and fetches nothing.
            assert re.fullmatch(r"\.\./[a-z]+(/index)?\.html(#verdicts)?|[0-9a-f]{16}\.html", given.get("href", "../index.html"))


def test_pages_are_linked_from_the_report(report):
    text = (report / "audit.html").read_text(encoding="utf-8")
    assert trajectory_page("web:0") in text


def test_the_page_of_a_trajectory_has_the_same_address_in_every_run():
    # As `printf web:0 | sha256sum` prints it.
    assert trajectory_page("web:0") == "trajectories/5cd3d3eccbaf24f0.html"
    assert trajectory_page("\ud800") != trajectory_page("?")


def test_the_headline_says_how_many_verdicts_are_doubtful_and_what_becomes_of_the_ranks(tmp_path):
    suspects = [
        *[{"grounds": "people", "label": "broken task"}, {"grounds": "judges", "label": "evaluator false negative"}],
        *[{"grounds": "unclear", "label": "unclear"}, {"grounds": "one rater", "label": None}, {"grounds": "signal", "label": None}],
    ]
    pq.write_table(pa.Table.from_pylist(suspects), tmp_path / "suspects.parquet")
    ranks = [{"rank_change": word} for word in ("holds", "changes", "changes", "not settled")]
    scores = load.Table("corrected_scores", "", "", "", "", (), tuple(ranks), 4, "none")
    found = summary.Summary()
    summary._doubtful(found, load.Inputs(stats=tmp_path), {"corrected_scores": scores})
    assert found.sentences == [
        "Of the released verdicts, 2 were found wrong, 1 cannot be settled, 1 was doubted by some raters and 1 is contradicted by its log "
        "alone. Each is listed with what speaks against it, the surest first.",
        "Of 4 agents’ ranks, corrected for evaluator error, 2 are changed, 1 is not settled and 1 is as released.",
    ]


def test_the_draw_counts_every_considered_trajectory_once(simulated):
    found = rows(simulated / "stats", "draw")
    sampled = store.read_rows(simulated / "sample", "sample")
    whole = one(found, benchmark="All", agent="(all)")
    assert whole["n"] == len(sampled) and whole["analysed"] == sum(row["status"] == "analysed" for row in sampled)
    assert (whole["published_quota"], whole["published_analysed"]) == (158, 150)
    for row in found:
        parts = ("analysed", "calibration", "not_drawn", "nonzero_reward", "evaluator_error", "other")
        assert row["n"] == sum(row[name] for name in parts)
    for benchmark in ("sim-shop", "sim-forum"):
        mine = [row for row in found if row["benchmark"] == benchmark]
        assert len(mine) == 4 and mine[0]["n"] == sum(row["n"] for row in mine[1:])


def test_what_a_run_has_nothing_for_comes_last_in_its_report(simulated, tmp_path):
    given = ["--stats", str(simulated / "stats" / "manifest.json"), "--sample", str(simulated / "sample" / "manifest.json")]
    text = build(given, tmp_path / "report")
    places = [text.index(f'<section id="{name}"') for name in ("verdicts", "leaderboard", "data")]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("signal", "detail", "released", "speaks"),
    [
        ("challenge_page", None, "fail", True),
        ("challenge_page", None, "pass", False),  # the agent got past it
        ("challenge_page", "the last page seen", "pass", True),
        ("answer_matches", "compared as date", "fail", True),
        ("answer_matches", "compared as date", "pass", False),
        ("noop_run", "longest 9", "fail", False),
        ("evaluator_error", "crashed", "error", True),
        ("evaluator_error", "crashed", "fail", False),
    ],
)
def test_a_signal_speaks_against_some_verdicts_only(signal, detail, released, speaks):
    assert suspects._speaks({"signal": signal, "detail": detail}, released) == speaks


@pytest.mark.parametrize(
    ("scored", "said"),
    [
        ({}, "These logs carry no scored verdict (0 of 2 trajectories), so none could be audited."),
        ({"a": "unscored", "b": "error"}, "These logs carry no scored verdict (0 of 2 trajectories), so none could be audited."),
        ({"a": "fail"}, "Scored but not audited: 1 of 2 trajectories carries a verdict, and none was looked at"),
    ],
)
def test_why_nothing_was_audited_is_told_apart(scored, said):
    run = SimpleNamespace(trajectories={"a": None, "b": None}, released=scored)
    assert no_audit(run).startswith(said)
    assert no_audit(SimpleNamespace(trajectories={}, released={})).startswith("No verdict was audited in this run")
