"""Controls and shortcut solvers in the tables, of scores that are counted by hand."""

from pathlib import Path

import made_run
import pytest
from made_run import rows

from evoaudit import store
from evoaudit.__main__ import main
from evoaudit.conditions import CONDITIONS
from evoaudit.figures import charts
from evoaudit.figures.draw import draw, load
from evoaudit.figures.style import style

T2 = {"c": ("click", False), "g": ("type", True), "h": ("type", False), "s": ("select", False)}


def mined(root: Path) -> str:
    folder = made_run.folder(root, "mined")
    shared = {"source": "web", "domain": "d", "website": None, "images": [], "goal": None, "stream": "x", "simulated": False}
    rows = {
        "t1": [{"instance_id": name, "slice": "K=3", "steps": [0, 1, 2], "answer": [1, 2, 3]} for name in "ab"],
        "t2": [
            {"instance_id": name, "slice": action, "step": 0, "answer_action": action, "answer_value": "v", "value_in_goal": told}
            for name, (action, told) in T2.items()
        ],
        "t3": [
            {"instance_id": name, "slice": "cross", "step": 0, "answer": "A", "distractor_trajectory": "z", "distractor_step": 1}
            for name in "ab"
        ],
    }
    for task, found in rows.items():
        store.write_table(folder, task, [{**shared, **row, "trajectory_id": f"t-{row['instance_id']}"} for row in found])
    return made_run.manifest(folder, "mine", {}, item=8)


def score(model: str, condition: str, task: str, name: str, action: bool, joint: bool, status: str = "answered", side: int = 512) -> dict:
    slices = {"t1": "K=3", "t2": T2.get(name, ("",))[0], "t3": "cross"}
    return {
        "model": model,
        "condition": condition,
        "max_image_side": side,
        "run": 0,
        "task": task,
        "instance_id": name,
        "trajectory_id": f"t-{name}",
        "source": "web",
        "domain": "d",
        "slice": slices[task],
        "status": status,
        "parse_path": "json",
        "answer": None,
        "confidence": None,
        "correct": joint,
        "action_correct": action if task == "t2" else None,
        "tau": float(joint) if task == "t1" else None,
        "value_in_goal": T2[name][1] if task == "t2" else None,
        "simulated": False,
    }


def answers(model: str, condition: str, right: set[tuple[str, str]], tasks: str = "t1 t2 t3", side: int = 512) -> list[dict]:
    """Score everything of these tasks; ``right`` holds the (task, item) that are."""
    names = {"t1": "ab", "t2": "cghs", "t3": "ab"}
    return [
        score(model, condition, task, n, (task, n) in right, (task, n) in right, side=side) for task in tasks.split() for n in names[task]
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("controls")
    rows = answers("m", "full", {("t1", "a"), ("t2", "c"), ("t2", "g"), ("t2", "s"), ("t3", "a"), ("t3", "b")})
    rows += answers("m", "shuffled_images", {("t1", "b"), ("t2", "g")})
    rows += answers("m", "after_only", {("t2", "c")}, "t2")
    rows += answers("m", "black", {("t3", "a")}, side=1024)
    rows += answers("Qwen3.5-27B", "metadata", {("t3", "a")})
    rows += answers("image-similarity", "full", {("t2", "c"), ("t3", "a")})
    # The value of `h` is wrong though its action is right; `s` was not answered.
    rows = [
        {**row, "action_correct": True} if (row["model"], row["condition"], row["instance_id"]) == ("m", "full", "h") else row
        for row in rows
    ]
    rows = [
        {**row, "status": "unanswered", "correct": False} if (row["condition"], row["instance_id"]) == ("after_only", "s") else row
        for row in rows
    ]
    scored = made_run.folder(root, "scores")
    store.write_table(scored, "scores", rows)
    arguments = {"mined": [mined(root)], "scores": [made_run.manifest(scored, "score", {}, answer=len(rows))]}
    settings = {
        "bootstrap": 20,
        "confidence": 0.95,
        "baseline": "exact",
        "models": [
            {"name": "m", "group": "open", "provider": "openai"},
            {"name": "Qwen3.5-27B", "group": "open", "provider": "openai"},
            {"name": "image-similarity", "group": "baseline", "provider": "builtin"},
        ],
        "judges": [],
    }
    assert main(made_run.command(arguments, root / "stats", settings)) == 0
    return root / "stats"


def test_every_model_and_condition_that_ran_is_there_solvers_first(folder):
    found = rows(folder, "shortcut_controls")
    assert [(row["model"], row["condition"]) for row in found] == [
        ("image-similarity", "full"),
        ("Qwen3.5-27B", "metadata"),
        ("m", "full"),
        ("m", "black"),
        ("m", "shuffled_images"),
        ("m", "after_only"),
    ]
    assert [row["group"] for row in found] == ["Baseline", *["Open-weight models"] * 5]
    assert [row["max_image_side"] for row in found] == [512, 512, 512, 1024, 512, 512]
    by = {(row["model"], row["condition"]): row for row in found}
    full, shuffled = by["m", "full"], by["m", "shuffled_images"]
    assert (full["t1"], full["t2_top1"], full["t2_joint"], full["t3"], full["t1_kendall_tau"]) == (50, 100, 75, 100, 0.5)
    assert (shuffled["t1"], shuffled["t2_top1"], shuffled["t3"]) == (50, 25, 0)
    assert (full["n_asked"], full["n_answered"], full["note"]) == (8, 8, None)
    # Wilson, 1 of 2 at 95 %.
    assert full["t1_low"] == pytest.approx(9.453, abs=0.001) and full["t1_high"] == pytest.approx(90.547, abs=0.001)
    assert by["Qwen3.5-27B", "metadata"]["published_t3"] == 49.6


def test_a_task_that_a_condition_does_not_ask_is_empty_and_said_to_be(folder):
    row = rows(folder, "shortcut_controls")[-1]
    assert (row["t1"], row["t3"], row["t1_kendall_tau"], row["t1_low"], row["t3_high"]) == (None,) * 5
    assert row["t2_top1"] == pytest.approx(100 / 3) and row["note"] == "asks no T1 or T3; 3 of 4 T2 items answered"
    assert (row["n_asked"], row["n_answered"], row["n_unanswered"]) == (4, 3, 1)


def test_solvers_and_exact_chance_stand_in_the_main_table_as_baselines(folder):
    found = {row["model"]: row for row in rows(folder, "evogui_main")}
    assert found["chance (exact)"]["group"] == found["image-similarity"]["group"] == "Baseline"
    # Chance over 3! orders, three actions, a click that needs no value (1 of 4 items), two candidates.
    assert found["chance (exact)"]["t1"] == pytest.approx(100 / 6) and found["chance (exact)"]["t2_joint"] == pytest.approx(100 / 12)
    assert found["chance (exact)"]["t3"] == 50
    assert rows(folder, "evogui_intervals")[0]["model"] == "m"


def test_values_that_the_goal_gives_away_are_told_apart(folder):
    row = next(row for row in rows(folder, "t2_value_in_goal") if row["model"] == "m")
    # Items c, g, h, s: right are c, g and s; only g's value is in the goal; c has none.
    assert (row["t2_joint"], row["joint_without"]) == (75, pytest.approx(200 / 3))
    assert (row["n_in_goal"], row["joint_in_goal"], row["n_not"], row["joint_not"]) == (1, 100, 2, 50)


def test_the_figure_shows_controlled_models_and_solvers_each_mark_apart(folder):
    with style():
        figure, reason = draw(load(folder), "controls")
        figure.draw_without_rendering()
    assert not reason
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["image-similarity", "Qwen3.5-27B", "m"]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == [CONDITIONS[name].label for name in ("full", "black", "metadata", "shuffled_images", "after_only")]


def test_six_conditions_at_one_score_stay_legible():
    data = [{"model": f"m{n}", "condition": name, "t1": 10.0, "t2_top1": 10.0, "t3": 10.0} for n in range(3) for name in CONDITIONS]
    with style():
        figure = charts.controls(data, {})
        figure.draw_without_rendering()
    marks = [line.get_ydata()[0] for line in figure.axes[0].lines if line.get_label() in {one.label for one in CONDITIONS.values()}]
    assert len(marks) == 6 and min(b - a for a, b in zip(sorted(marks), sorted(marks)[1:], strict=False)) > 0.1
    assert min(marks) > -0.4 and max(marks) < 0.4
