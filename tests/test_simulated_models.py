"""Made-up models: they score what they are told to, see nothing without pictures, and are called simulated wherever they come."""

import made_run
import pyarrow.parquet as pq
import pytest

from evoaudit import config, plan, store
from evoaudit.__main__ import main
from evoaudit.errors import InputError
from evoaudit.infer.simulated import Solver
from evoaudit.resources import ROOT
from evoaudit.score import score
from evoaudit.tables.literature import published
from evoaudit.tables.spec import TABLES

ACCURACY = {"t1": 0.25, "t2": 0.6, "t2_value": 0.5, "t3": 0.8}
N = 4000
#: Five standard errors of a share of N.
NEAR = 5 * (0.25 / N) ** 0.5


def solver(name: str = "sim-a", condition: str = "full", side: int = 512, seed: int = 1) -> Solver:
    return Solver(name, ACCURACY, condition=condition, side=side, seed=seed)


def items(task: str) -> list[dict]:
    rows = []
    for number in range(N):
        row = {"instance_id": f"{task}-{number}", "images": ["p"] * 3, "value_in_goal": False}
        if task == "t1":
            row["answer"] = [[1, 2, 3], [3, 1, 2]][number % 2]
        elif task == "t2":
            row |= {"answer_action": ["click", "type"][number % 2], "answer_value": "Paris" if number % 2 else ""}
        else:
            row["answer"] = "AB"[number % 2]
        rows.append(row)
    return rows


def scored(task: str, one: Solver) -> list[dict]:
    return [score(task, row, {"status": "ok", "raw": one.answer(task, row, 0)}) for row in items(task)]


def share(rows: list[dict], name: str = "correct") -> float:
    return sum(row[name] for row in rows) / len(rows)


def test_the_stated_accuracy_is_what_it_scores():
    assert share(scored("t1", solver())) == pytest.approx(0.25, abs=NEAR)
    actions = scored("t2", solver())
    assert share(actions, "action_correct") == pytest.approx(0.6, abs=NEAR)
    # Half of the items are clicks, which need no value: 0.6 × (0.5 + 0.5 × 0.5).
    assert share(actions) == pytest.approx(0.45, abs=NEAR)
    assert share(scored("t3", solver())) == pytest.approx(0.8, abs=NEAR)


@pytest.mark.parametrize("condition", ["black", "metadata"])
def test_without_pictures_it_guesses(condition):
    assert share(scored("t1", solver(condition=condition))) == pytest.approx(1 / 6, abs=NEAR)
    assert share(scored("t2", solver(condition=condition)), "action_correct") == pytest.approx(1 / 3, abs=NEAR)
    assert share(scored("t3", solver(condition=condition))) == pytest.approx(0.5, abs=NEAR)


@pytest.mark.parametrize("stated", [0.0, 1.0])
def test_never_and_always_right_are_kept_exactly(stated):
    one = Solver("x", dict.fromkeys(ACCURACY, stated), condition="full", side=512, seed=1)
    for task in ("t1", "t2", "t3"):
        assert share(scored(task, one)[:500]) == stated


def test_where_there_is_one_action_it_gives_that_one():
    alone = Solver("sim-a", ACCURACY | {"t2": 0.0}, condition="full", side=512, seed=1, vocabulary=("click",))
    row = {"instance_id": "t2-1", "images": ["p"] * 2, "value_in_goal": False, "answer_action": "click", "answer_value": ""}
    assert score("t2", row, {"status": "ok", "raw": alone.answer("t2", row, 0)})["action_correct"]


def test_its_confidence_tells_how_often_it_is_right():
    rows = scored("t3", solver())
    sure = [row for row in rows if row["confidence"] >= 0.88]
    unsure = [row for row in rows if row["confidence"] <= 0.72]
    assert share(sure) == pytest.approx(0.915, abs=0.04) and share(unsure) == pytest.approx(0.685, abs=0.05)


def test_models_sides_and_seeds_answer_apart_and_each_the_same_again():
    probe = items("t1")
    said = {
        key: [one.answer("t1", row, 0) for row in probe[:200]]
        for key, one in {
            "a": solver(),
            "again": solver(),
            "b": solver("sim-b"),
            "side": solver(side=1024),
            "seed": solver(seed=2),
        }.items()
    }
    assert said["a"] == said["again"]
    assert len({tuple(answers) for answers in said.values()}) == 4


def test_it_is_called_simulated_in_every_table_though_the_screens_are_real(tmp_path):
    arguments, _ = made_run.probes(tmp_path, simulated=False)
    rows = store.read_rows(tmp_path / "scores", "scores")
    store.write_table(tmp_path / "scores", "scores", [{**row, "simulated": row["model"] == "beta-9b"} for row in rows])
    assert main(made_run.command(arguments, tmp_path / "stats")) == 0
    reached = 0
    for name in TABLES:
        for row in pq.read_table(tmp_path / "stats" / f"{name}.parquet").to_pylist():
            named = {str(row.get(column)) for column in ("model", "model_a", "model_b")}
            if "beta-9b" in named:
                assert row["simulated"], name
                reached += 1
            elif name in ("evogui_main", "t2_recall", "t3_slices", "cost", "position_bias") and "alpha-2b" in named:
                assert not row["simulated"], name
    assert reached > 20


def test_the_score_stage_marks_a_made_up_model_alone(tmp_path):
    from test_infer import command, settings_for, t3, write_probes

    mined = write_probes(tmp_path / "mined", t3("i-1", "i-2"))
    made_up = {**settings_for(None), "name": "sim", "provider": "builtin", "model": "simulated", "accuracy": ACCURACY}
    real = {**settings_for(None), "name": "majority", "provider": "builtin", "model": "majority"}
    for settings in (made_up, real):
        assert main(command(settings, mined, tmp_path / settings["name"], "--seed", "5")) == 0
    folders = [str(tmp_path / name / "manifest.json") for name in ("sim", "majority")]
    assert main(["score", "--mined", str(mined), "--predictions", *folders, "--out", str(tmp_path / "scores")]) == 0
    assert {(row["model"], row["simulated"]) for row in store.read_rows(tmp_path / "scores", "scores")} == {
        ("sim", True),
        ("majority", False),
    }


def test_a_made_up_model_without_a_stated_accuracy_is_refused(tmp_path, capsys):
    from test_infer import command, settings_for, t3, write_probes

    mined = write_probes(tmp_path / "mined", t3("i-1"))
    settings = {**settings_for(None), "name": "sim", "provider": "builtin", "model": "simulated"}
    assert main(command(settings, mined, tmp_path / "sim", "--seed", "5")) == 2
    assert "without a stated accuracy" in capsys.readouterr().err
    for entry in ({"name": "simulated", "provider": "builtin"}, {"name": "m", "provider": "openai", "accuracy": ACCURACY}):
        with pytest.raises(InputError, match="accuracy"):
            config.check({"models": [entry]})


def test_made_up_models_stand_in_their_group_and_solvers_are_baselines():
    example = config.load(ROOT / "config" / "examples" / "simulated_models.yaml")
    groups = {model["name"]: model["group"] for model in plan.build(example).of("stats")[0].settings["models"]}
    assert groups["random"] == groups["majority"] == "baseline"
    assert (groups["sim-alpha-2b"], groups["sim-eta-large"]) == ("open", "closed")


def test_the_example_names_28_models_and_none_of_them_is_real():
    models = config.load(ROOT / "config" / "examples" / "simulated_models.yaml").models
    made_up = [model for model in models if model.model == "simulated"]
    assert len(made_up) == 28 and all(model.name.startswith("sim-") for model in made_up)
    assert not {model.name for model in made_up} & {row["model"] for row in published("evogui_table2")}
