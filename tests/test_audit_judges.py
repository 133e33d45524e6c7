"""The judge stage and the whole audit on a small simulated corpus."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from evoaudit.__main__ import main
from evoaudit.audit import simulated
from evoaudit.audit.episodes import episodes
from evoaudit.codebook import load
from evoaudit.store import read_manifest, read_rows


def run(*words):
    return main([str(word) for word in words])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """Return a folder with a normalised simulated source, its sample and its signals."""
    base = tmp_path_factory.mktemp("audit")
    assert run("simulate", "--trajectories", 60, "--formats", "plain", "--seed", 5, "--out", base / "corpus") == 0
    tasks = base / "corpus" / "plain-tasks.jsonl"
    assert (
        run(
            "normalise",
            "--settings",
            json.dumps({"source": "sim", "kind": "plain", "simulated": True, "options": {}}),
            "--root-folder",
            base / "corpus" / "plain",
            "--truth",
            base / "corpus" / "truth.jsonl",
            *(["--tasks", tasks] if tasks.exists() else []),
            "--out",
            base / "normalised",
        )
        == 0
    )
    assert (
        run("sample", "--normalised", base / "normalised", "--seed", 1, "--settings", '{"calibration": 2}', "--out", base / "sample") == 0
    )
    assert run("signals", "--normalised", base / "normalised", "--out", base / "signals") == 0
    return base


def test_normalised_tables_that_break_off_are_one_line(corpus, tmp_path, capsys):
    for name in ("trajectories", "steps", "changes"):
        broken = tmp_path / name
        shutil.copytree(corpus / "normalised", broken)
        (broken / f"{name}.parquet").write_bytes((corpus / "normalised" / f"{name}.parquet").read_bytes()[:-9])
        assert run("signals", "--normalised", broken, "--out", tmp_path / "out") == 2
        error = capsys.readouterr().err
        assert f"{name}.parquet: not a readable Parquet file" in error and len(error.splitlines()) == 1


def judge(corpus, out, seed=1, **settings):
    return run(
        "judge",
        "--normalised",
        corpus / "normalised",
        "--sample",
        corpus / "sample",
        "--signals",
        corpus / "signals",
        "--seed",
        seed,
        "--settings",
        json.dumps({"name": "j", "provider": "builtin", "evidence": ["screenshots", "text"]} | settings),
        "--out",
        out,
    )


def planted(corpus):
    return {row["trajectory_id"]: row["category"] or row["outcome"] for row in read_rows(corpus / "normalised", "truth")}


def test_the_rules_recover_what_was_planted(corpus, tmp_path):
    assert judge(corpus, tmp_path / "j", model="rules") == 0
    rows = read_rows(tmp_path / "j", "judgments")
    truth = planted(corpus)
    right = sum((row["category"] or row["verdict"]) == truth[row["trajectory_id"]] for row in rows)
    assert len(rows) > 20 and right >= 0.9 * len(rows)
    assert {row["kind"] for row in rows} == {"rules"} and not any(row["simulated"] for row in rows)
    assert {row["codebook_version"] for row in rows} == {load().identity} and {row["evidence"] for row in rows} == {"screenshots+text"}


def test_only_analysed_rows_are_judged(corpus, tmp_path):
    judge(corpus, tmp_path / "j", model="rules")
    analysed = {row["trajectory_id"] for row in read_rows(corpus / "sample", "sample") if row["status"] == "analysed"}
    assert {row["trajectory_id"] for row in read_rows(tmp_path / "j", "judgments")} == analysed
    assert read_manifest(tmp_path / "j")["counts"]["kept"] == len(analysed)


def test_less_evidence_is_another_judge(corpus, tmp_path):
    judge(corpus, tmp_path / "all", model="rules")
    judge(corpus, tmp_path / "text", model="rules", evidence=["text"])
    ids = {folder: {row["judge_id"] for row in read_rows(tmp_path / folder, "judgments")} for folder in ("all", "text")}
    assert len(ids["all"]) == len(ids["text"]) == 1 and ids["all"] != ids["text"]
    labels = {
        folder: {row["trajectory_id"]: row["category"] or row["verdict"] for row in read_rows(tmp_path / folder, "judgments")}
        for folder in ("all", "text")
    }
    assert labels["all"] != labels["text"]


def test_the_truth_is_not_read_by_the_rules(corpus, tmp_path):
    judge(corpus, tmp_path / "a", model="rules")
    blindfold = tmp_path / "normalised"
    blindfold.mkdir()
    for path in (corpus / "normalised").iterdir():
        if path.name not in ("truth.parquet", "oracle_results.parquet"):
            (blindfold / path.name).symlink_to(path)
    assert (
        run(
            "judge",
            "--normalised",
            blindfold,
            "--sample",
            corpus / "sample",
            "--settings",
            '{"name": "j", "model": "rules"}',
            "--out",
            tmp_path / "b",
        )
        == 0
    )
    assert (tmp_path / "a" / "judgments.parquet").read_bytes() == (tmp_path / "b" / "judgments.parquet").read_bytes()


def test_judging_again_gives_the_same_bytes(corpus, tmp_path):
    for model in ("rules", "simulated"):
        for folder in "ab":
            judge(corpus, tmp_path / model / folder, model=model)
        assert (tmp_path / model / "a" / "judgments.parquet").read_bytes() == (tmp_path / model / "b" / "judgments.parquet").read_bytes()


def test_simulated_raters_are_labelled_as_such(corpus, tmp_path):
    assert judge(corpus, tmp_path / "j", model="simulated", accuracy=0.8) == 0
    rows = read_rows(tmp_path / "j", "judgments")
    assert {(row["kind"], row["simulated"]) for row in rows} == {("simulated", True)}
    assert judge(corpus, tmp_path / "p", model="simulated", role="human") == 0
    assert {(row["kind"], row["simulated"]) for row in read_rows(tmp_path / "p", "judgments")} == {("human", True)}


def test_a_simulated_rater_refuses_what_has_no_truth(corpus, tmp_path, capsys):
    bare = tmp_path / "normalised"
    bare.mkdir()
    for path in (corpus / "normalised").iterdir():
        if path.name != "truth.parquet":
            (bare / path.name).symlink_to(path)
    from evoaudit.store import write_table

    write_table(bare, "truth", [])
    assert (
        run(
            "judge",
            "--normalised",
            bare,
            "--sample",
            corpus / "sample",
            "--settings",
            '{"name": "j", "model": "simulated"}',
            "--out",
            tmp_path / "j",
        )
        == 2
    )
    message = capsys.readouterr().err
    assert "no planted truth" in message and message.count("\n") == 1
    assert not (tmp_path / "j" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"provider": "codex", "model": "gpt-5.5"}, "--images: is missing, and this judge sees screenshots"),
        ({"model": "unanimous"}, "has the judgments of nobody"),
        ({"model": "oracle"}, "no built-in judge"),
        ({"model": "rules", "evidence": ["smell"]}, "evidence"),
        ({"model": "rules", "evidence": []}, "evidence"),
        ({"model": "simulated", "accuracy": 2}, "accuracy"),
    ],
)
def test_other_judges_are_refused_with_what_there_is(settings, what, corpus, tmp_path, capsys):
    assert judge(corpus, tmp_path / "j", **settings) == 2
    assert what in capsys.readouterr().err


def test_a_judge_without_trajectories_is_refused(corpus, tmp_path, capsys):
    assert (
        run(
            "judge", "--normalised", "--sample", corpus / "sample", "--settings", '{"name": "j", "model": "rules"}', "--out", tmp_path / "j"
        )
        == 2
    )
    assert "no trajectories" in capsys.readouterr().err


def truths(n=3000):
    outcomes = [("gf", "t3-noop"), ("efn", None), ("broken", None), ("unclear", None)]
    return [(f"t-{i}", {"outcome": outcomes[i % 4][0], "category": outcomes[i % 4][1], "evidence_step": 1}) for i in range(n)]


def rate(name, screenshots=True, accuracy=0.8, seed=1):
    return {one: simulated.rate(one, truth, name=name, accuracy=accuracy, seed=seed, screenshots=screenshots) for one, truth in truths()}


def test_a_simulated_rater_is_as_accurate_as_set():
    given, truth = rate("a"), dict(truths())
    right = sum(opinion.verdict == truth[one]["outcome"] for one, opinion in given.items())
    assert abs(right / len(given) - 0.8) < 0.03
    diagnosed = [opinion for one, opinion in given.items() if truth[one]["category"] and opinion.verdict == "gf"]
    assert abs(sum(opinion.category == "t3-noop" for opinion in diagnosed) / len(diagnosed) - 0.8) < 0.06
    assert all(opinion.category in load().categories for opinion in given.values() if opinion.verdict == "gf")


def test_a_perfect_simulated_rater_repeats_the_truth():
    truth = dict(truths())
    assert all(opinion.verdict == truth[one]["outcome"] for one, opinion in rate("a", accuracy=1.0).items())


def test_two_simulated_raters_err_independently():
    truth = dict(truths())
    wrong = [{one for one, opinion in rate(name).items() if opinion.verdict != truth[one]["outcome"]} for name in ("a", "b")]
    assert abs(len(wrong[0] & wrong[1]) / 3000 - 0.04) < 0.02


def test_without_screenshots_a_simulated_rater_loses_false_negatives_and_rolls_nothing_anew():
    seen, bare, truth = rate("a"), rate("a", screenshots=False), dict(truths())
    efn = [sum(opinion.verdict == "efn" == truth[one]["outcome"] for one, opinion in given.items()) for given in (seen, bare)]
    assert efn[1] < 0.75 * efn[0]
    assert all(seen[one].verdict == opinion.verdict or seen[one].verdict == truth[one]["outcome"] for one, opinion in bare.items())


def test_the_whole_audit_runs_to_final_labels(corpus, tmp_path):
    judge(corpus, tmp_path / "j1", name="rules", model="rules")
    judge(corpus, tmp_path / "j2", name="sim", model="simulated", accuracy=0.7)
    for group in ("h1", "h2"):
        judge(corpus, tmp_path / group, name=group, model="simulated", role="human", accuracy=0.95)
    assert (
        run(
            "select",
            "--sample",
            corpus / "sample",
            "--judgments",
            tmp_path / "j1",
            tmp_path / "j2",
            "--seed",
            1,
            "--settings",
            '{"agreements": 5}',
            "--out",
            tmp_path / "sel",
        )
        == 0
    )
    assert (
        run(
            "combine",
            "--sample",
            corpus / "sample",
            "--judgments",
            tmp_path / "j1",
            tmp_path / "j2",
            "--people",
            tmp_path / "h1",
            tmp_path / "h2",
            "--review",
            tmp_path / "sel",
            "--settings",
            '{"groups": ["h1", "h2"], "tie": "unclear"}',
            "--out",
            tmp_path / "c",
        )
        == 0
    )
    final = read_rows(tmp_path / "c", "final")
    selected = {row["trajectory_id"] for row in read_rows(tmp_path / "sel", "review_set") if row["selected"]}
    assert {row["trajectory_id"] for row in final if row["reviewed"]} == selected
    assert {row["verdict_rule"] for row in final if not row["reviewed"]} == {"judges"}
    truth = planted(corpus)
    assert sum((row["category"] or row["verdict"]) == truth[row["trajectory_id"]] for row in final) >= 0.85 * len(final)
    assert all(row["simulated"] for row in final)
    counts = Counter(row["annotator"] for row in read_rows(tmp_path / "c", "labels"))
    assert counts["h1"] == counts["h2"] == len(selected) and counts["rules"] == counts["sim"] == len(final)


def test_episodes_come_in_the_order_of_their_ids_with_their_steps(corpus):
    found = list(episodes([corpus / "normalised"]))
    assert [one.id for one in found] == sorted(one.id for one in found) and len(found) == 60
    assert all([step["step"] for step in one.steps] == list(range(one.row["n_steps"])) for one in found)
    few = {found[3].id, found[40].id, "absent"}
    assert [one.id for one in episodes([corpus / "normalised"], few)] == sorted(few - {"absent"})
