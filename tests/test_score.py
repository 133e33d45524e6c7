"""Scores: right, wrong, invalid (wrong too) and unanswered (apart), with every instance accounted for."""

import json
from itertools import permutations
from pathlib import Path

import pytest
from scipy.stats import kendalltau

from evoaudit import store
from evoaudit.__main__ import main
from evoaudit.score import order_tau, score

SHARED = {"trajectory_id": "t", "source": "s", "domain": None, "website": None, "goal": None, "stream": "x"}


def t1(instance: str = "o", answer: tuple[int, ...] = (2, 3, 1), simulated: bool = False) -> dict:
    n = len(answer)
    return {
        **SHARED,
        "instance_id": instance,
        "images": [f"p{i}" for i in range(n)],
        "slice": f"K={n}",
        "steps": list(range(n)),
        "answer": list(answer),
        "simulated": simulated,
    }


def t2(instance: str = "a", action: str = "type", value: str = "Paris ") -> dict:
    return {
        **SHARED,
        "instance_id": instance,
        "images": ["a", "b"],
        "slice": action,
        "step": 0,
        "answer_action": action,
        "answer_value": value,
        "value_in_goal": True,
        "simulated": False,
    }


def t3(instance: str = "c") -> dict:
    return {
        **SHARED,
        "instance_id": instance,
        "images": ["a", "b", "c"],
        "slice": "cross",
        "step": 0,
        "answer": "B",
        "distractor_trajectory": "d",
        "distractor_step": 0,
        "simulated": True,
    }


def said(raw: str | None, status: str = "ok") -> dict:
    return {"raw": raw, "status": status}


def test_t1_is_right_only_if_exact_and_tau_tells_how_near():
    row = score("t1", t1(), said('{"order": [2, 3, 1]}'))
    assert (row["status"], row["correct"], row["tau"], row["answer"]) == ("answered", True, 1.0, '{"order":[2,3,1]}')
    # Screens 3 and 1 swapped: of three pairs two agree, (2 − 1) / 3.
    row = score("t1", t1(), said('{"order": [2, 1, 3]}'))
    assert (row["correct"], row["tau"]) == (False, pytest.approx(1 / 3))
    assert score("t1", t1(), said('{"order": [1, 3, 2]}'))["tau"] == -1.0


def test_t1_is_checked_against_the_number_of_screens_shown():
    row = score("t1", t1(), said('{"order": [1, 2]}'))
    assert (row["status"], row["parse_path"], row["correct"], row["tau"]) == ("invalid", "invalid", False, None)


def test_tau_is_kendalls_tau_b_of_the_times_two_orders_give():
    for n in (2, 3, 4):
        for truth in permutations(range(1, n + 1)):
            for given in permutations(range(1, n + 1)):
                times = [[order.index(screen) for screen in range(1, n + 1)] for order in (given, truth)]
                assert order_tau(list(given), list(truth)) == pytest.approx(kendalltau(*times).statistic)


@pytest.mark.parametrize(
    ("action", "value", "correct"),
    [
        ("type", "Paris ", True),
        ("type", "Paris", False),
        ("type", "paris ", False),
        ("type", "", False),
        ("select", "Paris ", False),
        ("click", "Paris ", False),
    ],
)
def test_t2_joint_needs_the_action_and_the_exact_value(action, value, correct):
    row = score("t2", t2(), said(json.dumps({"action": action, "value": value, "confidence": 0.25})))
    assert (row["correct"], row["action_correct"], row["confidence"], row["value_in_goal"]) == (correct, action == "type", 0.25, True)


def test_t2_ignores_the_value_of_a_click():
    assert score("t2", t2(action="click", value=""), said('{"action": "click", "value": "Search"}'))["correct"]


def test_t2_by_fallback_can_win_the_action_but_not_the_value():
    row = score("t2", t2(), said('{"action": "type", "value": "Paris '))
    assert (row["parse_path"], row["action_correct"], row["correct"]) == ("fallback", True, False)
    assert not score("t2", t2(value=""), said("type"))["correct"]


def test_t3_is_the_choice():
    assert score("t3", t3(), said('{"answer": "B", "confidence": 1}')) == {
        "status": "answered",
        "parse_path": "json",
        "answer": '{"answer":"B"}',
        "confidence": 1.0,
        "correct": True,
        "action_correct": None,
        "tau": None,
        "value_in_goal": None,
    }


@pytest.mark.parametrize(
    "prediction", [None, *(said('{"answer": "B"}', status) for status in ("truncated", "refused", "timeout", "empty"))]
)
def test_what_did_not_end_well_is_unanswered_whatever_text_it_left(prediction):
    row = score("t3", t3(), prediction)
    assert (row["status"], row["parse_path"], row["answer"], row["correct"]) == ("unanswered", "none", None, False)


def write(folder: Path, name: str, rows: list[dict], config: dict) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    store.write_table(folder, name, rows)
    store.write_manifest(folder, stage="x", key="k", format_version=1, seed=None, config=config, upstream={}, counts={})
    return str(folder / "manifest.json")


def predictions(folder: Path, model: str, answers: dict[tuple[int, str, str], str], runs: int = 1) -> str:
    blank = dict.fromkeys(("finish_reason", "input_tokens", "output_tokens", "usd", "error"))
    rows = [
        {
            "model": model,
            "condition": "full",
            "max_image_side": 512,
            "run": run,
            "task": task,
            "instance_id": instance,
            "raw": raw,
            "status": "ok",
            **blank,
        }
        for (run, task, instance), raw in answers.items()
    ]
    return write(folder, "predictions", rows, {"name": model, "condition": "full", "max_image_side": 512, "runs": runs})


def mined(folder: Path) -> str:
    write(folder, "t1", [t1("o2"), t1("o1", simulated=True)], {})
    write(folder, "t2", [t2()], {})
    return write(folder, "t3", [t3()], {})


def test_every_instance_has_a_row_for_every_model_and_replicate(tmp_path):
    probes = mined(tmp_path / "mine")
    m = predictions(tmp_path / "m", "m", {(0, "t3", "c"): '{"answer": "B"}', (0, "t1", "gone"): "x"})
    r = predictions(tmp_path / "r", "r", {(1, "t1", "o1"): '{"order": [2, 3, 1]}'}, runs=2)
    assert main(["score", "--mined", probes, "--predictions", m, r, "--out", str(tmp_path / "one")]) == 0
    assert main(["score", "--mined", probes, "--predictions", r, m, "--out", str(tmp_path / "two")]) == 0
    rows = store.read_rows(tmp_path / "one", "scores")
    instances = [("t1", "o1"), ("t1", "o2"), ("t2", "a"), ("t3", "c")]
    assert [(row["model"], row["run"], row["task"], row["instance_id"]) for row in rows] == [
        (model, run, *instance) for model, run in (("m", 0), ("r", 0), ("r", 1)) for instance in instances
    ]
    assert [row["status"] for row in rows] == ["unanswered"] * 3 + ["answered"] + ["unanswered"] * 4 + ["answered"] + ["unanswered"] * 3
    assert [row["simulated"] for row in rows[:4]] == [True, False, False, True]
    counts = store.read_manifest(tmp_path / "one")["counts"]
    assert (counts["read"], counts["kept"], counts["dropped"]) == (3, 2, {"unknown_instance": 1})
    assert (tmp_path / "one/scores.parquet").read_bytes() == (tmp_path / "two/scores.parquet").read_bytes()


def test_the_same_answers_given_twice_are_refused(tmp_path, capsys):
    probes = mined(tmp_path / "mine")
    m = predictions(tmp_path / "m", "m", {})
    assert main(["score", "--mined", probes, "--predictions", m, m, "--out", str(tmp_path / "out")]) == 2
    assert "given twice" in capsys.readouterr().err and not (tmp_path / "out/manifest.json").exists()


def test_no_models_give_an_empty_table(tmp_path):
    assert main(["score", "--mined", mined(tmp_path / "mine"), "--out", str(tmp_path / "out")]) == 0
    assert store.read_rows(tmp_path / "out", "scores") == []
