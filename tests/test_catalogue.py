"""The catalogue of normalised sources, what it finds suspicious, and the two commands that print it."""

import ast
import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_logs import Logs
from PIL import Image

from evoaudit import catalogue, schema, store
from evoaudit.__main__ import main
from evoaudit.catalogue_tables import Database, verb
from evoaudit.reasons import OF_UNIT, REASONS, explain
from evoaudit.resources import ROOT
from evoaudit.suspicions import Finding, label_blocks

SHARED = Path(os.environ.get("EVOAUDIT_SHARED", ROOT.parent / "shared"))


class Made(Logs):
    """A normalised source made by hand, with verdicts, labels and drops too."""

    def __init__(self, source: str = "made") -> None:
        super().__init__(source)
        self.verdicts: list[dict] = []
        self.labels: list[dict] = []
        self.drops: list[dict] = []

    def verdict(self, trajectory: str, verdict: str, reward: float | None = None, oracle: str = "o") -> None:
        self.verdicts.append(
            {
                "trajectory_id": trajectory,
                "oracle": oracle,
                "oracle_version": None,
                "raw_reward": reward,
                "verdict": verdict,
                "status": "ok",
            }
        )

    def label(self, trajectory: str, annotator: str, question: str, answer: str | None, row: int) -> None:
        given = {"trajectory_id": trajectory, "annotator": annotator, "question": question, "answer": answer, "row": row}
        self.labels.append({**given, "benchmark": None, "agent": None, "task_id": None})

    def drop(self, unit: str, item: str, reason: str, detail: str | None = None) -> None:
        given = {"unit": unit, "item": item, "reason": reason, "detail": detail}
        self.drops.append({"stage": "normalise", "source": self.source, **given})

    def folder(self, place: Path) -> Path:
        folder, _ = self.write(place)
        for name, rows in (("oracle_results", self.verdicts), ("annotations", self.labels), ("drops", self.drops), ("truth", [])):
            store.write_table(folder, name, rows)
        return folder

    def found(self, place: Path) -> dict[str, Finding]:
        """Return code → finding; each code at most once."""
        found = catalogue.findings([self.folder(place)])
        assert len({one.code for one in found}) == len(found)
        return {one.code: one for one in found}


def walk(made: Made, name: str, steps: int = 3, **row) -> None:
    """Add a trajectory through screens of its own, each click at another place."""
    target = dict.fromkeys(schema.TARGET.field(i).name for i in range(schema.TARGET.num_fields))
    clicks = [{"target": {**target, "text": f"{name} {number}"}} for number in range(steps)]
    made.add(name, [f"{name}-{number}" for number in range(steps + 1)], clicks, **row)


@pytest.fixture
def small(tmp_path) -> Path:
    """Three trajectories of two agents whose every number is known."""
    made = Made()
    made.odd["b-1"] = {"status": "lfs_pointer", "width": None, "height": None}
    made.odd["c-0"] = {"width": 640, "height": 480}
    made.add(
        "a",
        ["a-0", "a-1", "a-2"],
        [{"op": "click", "timestamp": -1.5}, {"op": "type", "value": "kettle", "timestamp": 2.0}],
        agent="x",
        website="shop.example",
        license="MIT",
    )
    made.add(
        "b", ["b-0", "b-1"], [{"op": "other", "op_raw": '{"intent": "pinch", "x": 1}', "error": "no"}], agent="x", website="shop.example"
    )
    made.add(
        "c",
        ["c-0", "c-1", "c-2", None],
        [{"op": "select", "value": ""}, {"op": "click"}, {"op": "done"}],
        agent=None,
        domain="bank",
        benchmark="other",
    )
    made.verdict("a", "pass", 1.0)
    made.verdict("b", "fail", 0.25)
    made.verdict("c", "error", None, oracle="p")
    made.label("a", "ana", "success", "Yes", 0)
    made.label("a", "ben", "success", "Yes", 1)
    made.label("z", "ana", "success", "No", 2)
    made.drop("picture", "b-1.png", "lfs_pointer", "a Git LFS pointer, not the picture")
    made.drop("transition", "b#0", "picture_lfs_pointer")
    made.drop("transition", "c#2", "last_step")
    made.drop("trajectory", "x.json", "bad_json", "not JSON")
    return made.folder(tmp_path)


def test_counts_are_those_of_the_tables(small):
    (one,) = catalogue.rows([small])
    assert (one.source, one.kind, one.simulated) == ("made", "plain", "no")
    assert (one.trajectories, one.steps, one.transitions) == (3, 6, 4)
    # 1, 2 and 3 steps: 2, 3 and 4 screens.
    assert (one.steps_median, one.steps_p95, one.screens_median, one.screens_p95) == (2, 3, 3, 4)
    assert one.actions == {"click": 2, "done": 1, "other": 1, "select": 1, "type": 1}
    assert one.other_verbs == {"pinch": 1}
    assert (one.without_value, one.errors, one.fractional_rewards) == (1, 1, 1)
    assert one.pictures == {"ok": 7, "lfs_pointer": 1}
    assert one.sizes == {
        "different": 2,
        "median": [1280, 720],
        "p95": [1280, 720],
        "commonest": [1280, 720],
        "commonest_share": pytest.approx(6 / 7),
    }
    assert one.benchmarks == {"made": 2, "other": 1}
    assert one.agents == {"x": 2, "": 1}
    assert one.licences == {"": 2, "MIT": 1}
    assert one.verdicts == {"o": {"fail": 1, "pass": 1}, "p": {"error": 1}}
    assert one.annotations == {
        "rows": 3,
        "trajectories": 2,
        "by_annotators": {"1": 1, "2": 1},
        "annotators": {"ana": 2, "ben": 1},
        "without_trajectory": 1,
    }
    # Two of three at the shop: exp(-(2/3 ln 2/3 + 1/3 ln 1/3)) = 1.8899.
    assert one.domains == {
        "different": 2,
        "commonest": "shop.example",
        "commonest_share": pytest.approx(2 / 3),
        "effective": pytest.approx(1.8899, abs=1e-4),
    }
    times = {"share": pytest.approx(1 / 3), "negative": 1, "backwards": 0, "clock": "recording", "first": -1.5, "last": 2.0}
    assert one.timestamps == times
    assert one.drops == {
        "picture": {"lfs_pointer": 1},
        "trajectory": {"bad_json": 1},
        "transition": {"last_step": 1, "picture_lfs_pointer": 1},
    }
    assert one.examples["trajectory"]["bad_json"] == ("x.json", "not JSON")


def test_numbers_do_not_depend_on_the_order_of_rows(tmp_path):
    folders = []
    for seed in (1, 2):
        made = Made()
        for number in range(12):
            walk(made, f"t{number}", 2 + number % 3, agent=f"a{number % 2}")
        (tmp_path / str(seed)).mkdir()
        folder, _ = made.write(tmp_path / str(seed), seed)
        for name in ("oracle_results", "annotations", "drops"):
            store.write_table(folder, name, [])
        folders.append(folder)
    assert catalogue.rows(folders[:1]) == catalogue.rows(folders[1:])
    assert catalogue.findings(folders[:1]) == catalogue.findings(folders[1:])


def test_honest_logs_raise_no_suspicion(tmp_path):
    made = Made()
    for number in range(30):
        walk(made, f"t{number}", 4, agent=f"a{number % 3}")
        made.verdict(f"t{number}", "pass" if number % 4 == 0 else "fail", float(number % 4 == 0))
    assert made.found(tmp_path) == {}


def test_runs_that_all_end_alike_at_once_are_named(tmp_path):
    made = Made()
    for number in range(5):
        made.add(f"bad{number}", [f"b{number}", f"c{number}"], [{"op": "fail", "value": "captcha"}], agent="stuck")
        walk(made, f"good{number}", 2, agent="fine")
    found = made.found(tmp_path)
    assert set(found) == {"ends_alike"}
    assert "Every one of the 5 runs of agent 'stuck' ends within 1 step with 'fail' 'captcha'" in found["ends_alike"].sentence


def test_runs_that_end_in_one_error_are_named_and_four_runs_are_too_few(tmp_path):
    for number in (4, 5):
        made = Made()
        for run in range(number):
            walk(made, f"t{run}", 1, agent="a")
            made.steps[-1]["error"] = "VM did not start"
        (tmp_path / str(number)).mkdir()
        found = made.found(tmp_path / str(number))
        assert set(found) == ({"ends_alike"} if number == 5 else set())
    assert "the error 'VM did not start'" in found["ends_alike"].sentence


def test_one_picture_for_everything_is_named(tmp_path):
    made = Made()
    for number in range(6):
        made.add(f"t{number}", [f"s{number}", "grey", "grey", "grey"], [{"value": f"{number} {step}"} for step in range(3)])
    found = made.found(tmp_path)
    assert "75 % of all screens and occurs in 6 of 6 trajectories" in found["same_picture"].sentence
    assert found["same_picture"].examples == ("grey.png",)


def test_a_common_first_screen_is_no_suspicion(tmp_path):
    made = Made()
    for number in range(12):
        made.add(f"t{number}", ["home", f"a{number}", f"b{number}"], [{"value": f"x{number}"}, {"value": f"y{number}"}])
    assert "same_picture" not in made.found(tmp_path)


def test_screens_that_never_change_are_named(tmp_path):
    made = Made()
    for number in range(3):
        made.add(f"stuck{number}", [f"s{number}"] * 6, [{"op": "wait", "value": f"{number}{step}"} for step in range(5)])
        walk(made, f"fine{number}", 6)
    found = made.found(tmp_path)
    assert "In 3 of the 6 trajectories with 5 steps or more the screen never changes" in found["stuck_picture"].sentence


def test_one_recording_under_two_tasks_is_named_by_actions_and_by_pictures(tmp_path):
    made = Made()
    typed = [{"op": "type", "value": "blue kettle"}, {"op": "select", "value": "Express"}, {"op": "click"}]
    made.add("one", ["a", "b", "c", "d"], typed, task_id="t1")
    made.add("two", ["a", "b", "c", "d"], typed, task_id="t2")
    made.add("three", ["e", "f", "g", "h"], [typed[0], {"op": "select", "value": "Standard"}, typed[2]], task_id="t3")
    found = made.found(tmp_path)
    assert set(found) == {"same_actions", "same_pictures"}
    assert found["same_actions"].numbers == {"trajectories": 2}
    assert found["same_actions"].examples == ("one = two",)


def test_two_agents_that_do_one_task_alike_are_no_copies(tmp_path):
    made = Made()
    typed = [{"op": "type", "value": "blue kettle"}, {"op": "select", "value": "Express"}, {"op": "click"}]
    for agent in ("x", "y"):
        made.add(agent, ["a", "b", "c", "d"], typed, task_id="t1", agent=agent)
    assert made.found(tmp_path) == {}


def test_few_clicks_in_a_row_are_no_copy(tmp_path):
    made = Made()
    for number in range(8):
        made.add(f"t{number}", [f"{number}a", f"{number}b", f"{number}c", f"{number}d"], task_id=f"k{number}")
    assert "same_actions" not in made.found(tmp_path)


def annotated(answers: list[list[str]]) -> Made:
    """Return a source with labels alone: a trajectory a row, a question a column."""
    made = Made()
    for row, given in enumerate(answers):
        for question, answer in enumerate(given):
            made.label(f"made:t{row:04}", "ana", f"q{question:02}", answer, row)
    return made


def test_label_blocks_that_occur_again_are_found(tmp_path):
    rng = random.Random(1)
    blocks = [[rng.choice(["No", "No", "Yes"]) for _ in range(14)] for _ in range(8)]
    made = annotated([blocks[record % 8] for record in range(19)])
    found = made.found(tmp_path)["label_blocks"]
    assert found.numbers["trajectories"] == 19
    assert "may be copies" in found.sentence


@pytest.mark.parametrize("kind", ["independent", "constant", "one follows from another"])
def test_labels_that_only_look_alike_are_no_blocks(tmp_path, kind):
    rng = random.Random(2)

    def record() -> list[str]:
        if kind == "independent":
            return ["Yes" if rng.random() < 0.1 else "No" for _ in range(14)]
        if kind == "constant":
            return ["No"] * 4
        success = rng.random() < 0.3
        return ["Yes" if success else "No", "4. Optimal" if success else "1. Failure", "No" if success else "Yes", "No"]

    with Database(annotated([record() for _ in range(400)]).folder(tmp_path)) as database:
        assert label_blocks(database) is None


def test_contradicting_annotators_are_counted_by_question(tmp_path):
    made = Made()
    for number in range(4):
        made.label(f"made:t{number}", "ana", "success", "Yes", number)
        made.label(f"made:t{number}", "ben", "success", "No" if number == 3 else "Yes", 10 + number)
    made.label("made:t9", "ana", "success", "Yes", 20)
    found = made.found(tmp_path)
    assert found["contradictory_labels"].numbers == {"success": 1}
    assert "'success' 1 of 4" in found["contradictory_labels"].sentence


def test_an_annotator_who_contradicts_herself_is_named(tmp_path):
    made = Made()
    made.label("made:t", "ana", "success", "Yes", 0)
    made.label("made:t", "ana", "success", "No", 1)
    assert set(made.found(tmp_path)) == {"self_contradiction"}


def test_names_with_blanks_are_odd(tmp_path):
    made = Made()
    for number, name in enumerate(["H", " H", "G"]):
        made.label(f"made:t{number}", name, "success", "Yes", number)
    assert "[ H], [ H] and [H]" in made.found(tmp_path)["odd_raters"].sentence


def test_an_agent_with_one_verdict_only_is_named_and_demonstrations_are_not(tmp_path):
    made = Made()
    for number in range(10):
        for agent in ("never", "some", None):
            name = f"{agent}{number}"
            walk(made, name, 2, agent=agent)
            made.verdict(name, "pass" if (agent == "some" and number == 0) or agent is None else "fail")
    found = made.found(tmp_path)
    assert set(found) == {"one_verdict"}
    assert "All 10 verdicts of 'o' on agent 'never' are FAIL" in found["one_verdict"].sentence


def test_a_pass_without_an_action_is_named_unless_the_task_cannot_be_done(tmp_path):
    made = Made()
    made.add("idle", ["a", "b", "c"], [{"op": "wait"}, {"op": "done"}], agent="x")
    made.add("right", ["d", "e"], [{"op": "fail"}], agent="x", reference="infeasible")
    walk(made, "acted", 2, agent="x")
    for name in ("idle", "right", "acted"):
        made.verdict(name, "pass", 1.0)
    found = made.found(tmp_path)
    assert found["pass_without_acting"].numbers == {"runs": 1}
    assert found["pass_without_acting"].examples == ("idle",)


def test_fractional_rewards_are_a_note_and_strange_ones_more(tmp_path):
    for reward, level in ((0.25, "note"), (-3.0, "look")):
        made = Made()
        walk(made, "t", 2)
        made.verdict("t", "fail", reward)
        (tmp_path / level).mkdir()
        assert made.found(tmp_path / level)["fractional_rewards"].level == level


def test_lost_pictures_come_with_the_mend(tmp_path):
    made = Made()
    walk(made, "t", 4)
    for number in (1, 2):
        made.odd[f"t-{number}"] = {"status": "lfs_pointer", "width": None, "height": None}
    found = made.found(tmp_path)["lost_pictures"]
    assert found.sentence.startswith("2 of 5 pictures (40 %) cannot be read, because a Git LFS pointer stands in for the picture")
    assert "git lfs pull" in found.sentence


def test_lost_steps_come_with_the_main_reason(tmp_path):
    made = Made()
    made.add("t", ["a", None, None, "b"], [{"value": "1"}, {"value": "2"}, {"value": "3"}])
    for step in range(3):
        made.drop("transition", f"t#{step}", "no_picture")
    found = made.found(tmp_path)["lost_steps"]
    assert found.sentence.startswith("None of the 3 steps has a pair of screens, because the step names no picture")


def test_unknown_actions_are_named_by_their_verbs(tmp_path):
    made = Made()
    walk(made, "t", 4)
    made.add("u", ["u0", "u1"], [{"op": "other", "op_raw": "pinch(1, 2)"}])
    found = made.found(tmp_path)["other_actions"]
    assert "1 of 5 actions (20 %) are none of the 26 known operations (commonest: 'pinch' 1)" in found.sentence


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ('{"intent": "submit", "x": 1}', "submit"),
        ("pyautogui.mouseDown(1, 2)", "pyautogui.mouseDown"),
        ("pyautogui.click(1, 2)\npyautogui.write('a')", "click+write"),
        ("Slider [12]", "Slider"),
        ("", "(nothing)"),
        ("\x1b[31m", "m"),
    ],
)
def test_a_verb_is_what_the_source_calls_it(raw, name):
    assert verb(raw) == name


def test_places_outside_their_pictures_are_named(tmp_path):
    made = Made()
    place = dict.fromkeys(("left", "top", "width", "height", "text"))
    clicks = [{"target": {"x": 2000.0 + step, "y": 700.0, **place}} for step in range(4)]
    made.add("t", [f"s{step}" for step in range(5)], clicks)
    found = made.found(tmp_path)["off_screen"]
    assert "4 of 4 pointer positions (100 %) lie outside their picture (one at 2000, 700 on 1280 × 720 pixels)" in found.sentence


def test_places_given_as_shares_of_the_screen_are_named(tmp_path):
    made = Made()
    place = dict.fromkeys(("left", "top", "width", "height", "text"))
    clicks = [{"target": {"x": 0.05 * step, "y": 0.5, **place}} for step in range(12)]
    made.add("t", [f"s{step}" for step in range(13)], clicks)
    assert "12 of 12 pointer positions (100 %) lie between 0 and 1" in made.found(tmp_path)["shares_for_pixels"].sentence


def test_shifted_pictures_are_passed_on(tmp_path, monkeypatch):
    made = Made()
    walk(made, "t", 2)
    monkeypatch.setattr("evoaudit.alignment.check", lambda folder: {"verdict": "shifted", "advice": "pictures look late: set it"})
    assert made.found(tmp_path)["shifted_pictures"].sentence.startswith("Pictures look late: set it; until then")


def test_text_from_logs_cannot_write_to_the_terminal(tmp_path, capsys):
    made = Made("evil\x1b[2J")
    for number in range(5):
        made.add(f"t{number}\x1b]0;x\x07", [f"a{number}", f"b{number}"], [{"op": "fail", "value": "\x1b[31mred\u202e"}], agent="a\x1b[1m")
    made.drop("trajectory", "x\x1b[0m.json", "odd\x1bcode", "d\x1b[0m")
    folder = made.folder(tmp_path)
    assert main(["doctor", str(folder)]) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\x07" not in out and "\u202e" not in out
    assert "ends within 1 step" in " ".join(out.split())


def test_the_page_says_it_all_in_a_hundred_columns(small, capsys):
    assert main(["doctor", str(small)]) == 1
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    assert "made · 3 trajectories, 6 steps, 4 usable transitions, 7 of 8 pictures read" in out
    assert "1 picture: a Git LFS pointer stands in for the picture (lfs_pointer)" in out
    assert out.index("Look at these first") < out.index("Worth knowing") < out.index("What to do next")


def test_unknown_reasons_print_as_they_are(tmp_path, capsys):
    made = Made()
    walk(made, "t", 2)
    made.drop("trajectory", "x.json", "a_new_code")
    main(["doctor", str(made.folder(tmp_path))])
    assert "1 trajectory: a_new_code\n" in capsys.readouterr().out


def own(folder: Path, lines: list[dict], pictures: int = 3) -> Path:
    """Write logs of the plain format, with pictures ``0.png``…"""
    folder.mkdir(parents=True)
    (folder / "trajectories.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for number in range(pictures):
        Image.new("RGB", (64, 48), (number * 40, 90, 90)).save(folder / f"{number}.png")
    return folder


def run(number: int = 0, **fields) -> dict:
    step = {"action": "click", "x": 3, "y": 4, "before_image": "0.png", "after_image": "1.png"}
    return {
        "trajectory_id": f"t{number}",
        "agent": "a",
        "steps": [step, {**step, "before_image": "1.png", "after_image": "2.png"}],
        **fields,
    }


def test_doctor_reads_raw_logs_and_writes_the_config(tmp_path, capsys):
    own(tmp_path / "logs" / "mine", [run()])
    (tmp_path / "logs" / "odd").mkdir()
    (tmp_path / "logs" / "odd" / "a.xyz").write_text("")
    assert main(["doctor", str(tmp_path / "logs"), "--threads", "1"]) == 0
    out = capsys.readouterr().out
    assert " ".join(out.split()).startswith(f"1 source under {tmp_path}/logs can be read; 1 more place cannot.")
    assert "plain · 1 trajectory, 2 steps, 2 usable transitions, all pictures read" in out
    assert f"- {{name: plain, kind: plain, path: {tmp_path}/logs/mine}}" in out
    assert "Not recognised" in out and "of no layout a reader knows" in " ".join(out.split())
    assert "Nothing looks wrong." in out


def test_doctor_json_holds_the_same(tmp_path, capsys):
    own(tmp_path / "mine", [run()])
    assert main(["doctor", str(tmp_path), "--json", "--threads", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["source"], one["trajectories"], one["transitions"]) for one in found["sources"]] == [("plain", 1, 2)]
    assert found["findings"] == [] and found["config"].startswith("run: {name: mine}\n")


def test_doctor_of_nothing_readable_exits_with_1(tmp_path, capsys):
    (tmp_path / "a.xyz").write_text("")
    assert main(["doctor", str(tmp_path)]) == 1
    assert "Nothing under" in capsys.readouterr().out


def test_doctor_survives_garbage_under_every_known_name(tmp_path, capsys):
    rng = random.Random(3)
    names = [
        "wv/task/interact_messages.json",
        "wl/demonstrations/abcdefg/replay.json",
        "wl/demonstrations/abcdefg/form.json",
        "arb/cleaned/b/m/e/t.json",
        "arb/data/annotations.csv",
        "osw/chrome/5d901039-a89c-4bfb-967b-bf66f4df075e/traj.jsonl",
        "osw/run.zip",
        "aw/run_1/Task_0.pkl.gz",
        "ac/android_control-00000-of-00001",
        "bg/study/x_on_y_1/exp_args.pkl",
        "bg/study/x_on_y_1/step_0.pkl.gz",
        "om/t/result.json",
        "om/t/trajectory/1.png",
        "m2w/data/train-00000-of-00001.parquet",
        "m2w/data/train/train_0.json",
        "own/trajectories.jsonl",
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b'{"trajectory_id": "steps", ' + rng.randbytes(300))
    assert main(["doctor", str(tmp_path), "--threads", "1"]) == 1
    out = capsys.readouterr().out
    assert "Recognised, but nothing can be read" in out
    assert "\x1b" not in out


def test_doctor_refuses_what_is_no_folder_and_no_kind(tmp_path, capsys):
    assert main(["doctor", str(tmp_path / "nowhere")]) == 2
    assert main(["doctor", str(tmp_path), "--kind", "nonsense"]) == 2
    assert main(["doctor", "--kind", "plain"]) == 2
    assert "no folder is given" in capsys.readouterr().err


def test_doctor_with_a_kind_does_not_look_for_one(tmp_path, capsys):
    own(tmp_path / "mine", [run()])
    assert main(["doctor", str(tmp_path / "mine"), "--kind", "webvoyager", "--threads", "1"]) == 1
    assert "holds no webvoyager trajectories" in " ".join(capsys.readouterr().out.split())


def test_doctor_lists_the_sources_a_config_has_read(tmp_path, monkeypatch, capsys):
    from evoaudit import config as configs
    from evoaudit import plan as plans
    from evoaudit.normalise import Source, normalise
    from evoaudit.store import Counts

    monkeypatch.chdir(tmp_path)
    own(tmp_path / "mine", [run()])
    (tmp_path / "c.yaml").write_text("run: {name: t}\nsources: [{name: mylogs, kind: plain, path: mine}]\n")
    (job,) = plans.build(configs.load("c.yaml")).of("normalise")
    folder = tmp_path / "results" / "normalise" / job.key
    folder.mkdir(parents=True)
    normalise(folder, Counts("normalise"), Source("mylogs", "plain", tmp_path / "mine"))
    assert main(["doctor", "--configfile", "c.yaml"]) == 0
    assert "mylogs ·" not in capsys.readouterr().out  # not finished: no manifest
    (folder / "manifest.json").write_text("{}")
    assert main(["doctor", "--configfile", "c.yaml"]) == 0
    assert "mylogs · 1 trajectory, 2 steps" in capsys.readouterr().out
    assert main(["doctor", "results"]) == 0
    assert "1 normalised source in results" in capsys.readouterr().out


def test_validate_explains_fields_that_are_misspelt_or_not_used(tmp_path, capsys):
    odd = {"action": "clik", "before_image": "0.png", "timestamp": "noon", "colour": "red", "x": "12"}
    own(tmp_path / "mine", [run(0, instuction="buy"), {"trajectory_id": "u", "steps": [odd]}])
    assert main(["validate", str(tmp_path / "mine")]) == 1
    out = capsys.readouterr().out
    assert "trajectories.jsonl:1: field unknown: 'instuction' is not known; did you mean 'instruction'?" in out
    assert "trajectories.jsonl:2 steps[0]: field ignored: 'timestamp' is \"noon\", so it is not used; give a number" in out
    assert "action 'clik' is none the plain reader knows (1 steps): its screens count, its action does not; write 'click'" in out
    assert "note: field 'colour' is not one of the plain format's and is not read (1 times)" in out
    assert "'x'" not in out  # a number may be written as text


def test_validate_names_the_step_whose_picture_is_not_there(tmp_path, capsys):
    own(tmp_path / "mine", [run()], pictures=2)
    assert main(["validate", str(tmp_path / "mine")]) == 1
    assert "2.png: picture missing: file not found (named by t0, step 1); put it where the log says it lies" in capsys.readouterr().out


def test_validate_caps_each_kind_of_problem_unless_told(tmp_path, capsys):
    own(tmp_path / "mine", [run(), *({"trajectory_id": f"b{number}", "steps": []} for number in range(60))])
    assert main(["validate", str(tmp_path / "mine")]) == 1
    out = capsys.readouterr().out
    assert out.count("trajectory no_steps") == 51
    assert "… and 10 more of 'trajectory no_steps'; --all prints them" in out
    main(["validate", str(tmp_path / "mine"), "--all"])
    assert capsys.readouterr().out.count("trajectory no_steps") == 60


def test_validate_of_good_logs_ends_with_the_config(tmp_path, capsys):
    folder = own(tmp_path / "mine", [run()])
    for path in (folder, folder / "trajectories.jsonl"):
        assert main(["validate", str(path)]) == 0
        out = capsys.readouterr().out
        assert "1 trajectories with 2 steps and 3 different pictures can be read, 0 records cannot" in out
        assert f"- {{name: plain, kind: plain, path: {folder}}}" in out


def test_validate_finds_the_kind_and_what_lies_in_the_format_is_no_problem(tmp_path, capsys):
    folder = tmp_path / "wv" / "run" / "taskShop--1"
    folder.mkdir(parents=True)
    chat = [
        {"role": "user", "content": "Now given a task: buy Please interact with http://shop.example/ Observation: "},
        {"role": "assistant", "content": "Thought: t Action: ANSWER; done"},
    ]
    (folder / "interact_messages.json").write_text(json.dumps(chat))
    Image.new("RGB", (64, 48)).save(folder / "screenshot1.png")
    assert main(["validate", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "note: 1 step has no pair of screens: the last action has no screen after it in the log (last_step)" in out
    assert "kind: webvoyager" in out


def test_validate_of_an_unknown_layout_says_what_lies_there_and_exits_with_2(tmp_path, capsys):
    (tmp_path / "a.xyz").write_text("")
    assert main(["validate", str(tmp_path)]) == 2
    caught = capsys.readouterr()
    assert "not read: 1 file (1 .xyz)" in caught.out
    assert "no logs of a layout that is known" in caught.err


def codes() -> Iterator[tuple[str, str]]:
    """Yield (module, reason) of every reason the readers spell out, found in their source.

    A reason stands where a call's parameter or a class's field is called so, in a tuple (unit, item, reason, detail), in
    an assignment to that name, or in a module's own list of them.
    """
    names, units = {"reason", "missing", "status"}, {"step", "picture", "trajectory", "row", "target", "thoughts", "folder", "file"}
    trees = {path.name: ast.parse(path.read_text()) for path in sorted((ROOT / "workflow" / "evoaudit" / "sources").glob("*.py"))}
    places: dict[str, set[tuple[int, str]]] = {}
    for node in (node for tree in trees.values() for node in ast.walk(tree)):
        arguments: list[str] = []
        if isinstance(node, ast.FunctionDef):
            arguments = [one.arg for one in node.args.args if one.arg not in ("self", "cls")]
        elif isinstance(node, ast.ClassDef):
            init = next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)
            fields = [one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
            arguments = [one.arg for one in init.args.args if one.arg != "self"] if init else fields
        for index, argument in enumerate(arguments):
            if argument in names:
                places.setdefault(node.name, set()).add((index, argument))
    for name, tree in trees.items():
        listed = re.search(r"Reasons[^:]*:(.*?)(\n\n|\Z)", ast.get_docstring(tree) or "", re.DOTALL)
        yield from ((name, code) for code in re.findall(r"``([a-z_0-9]+)``", listed[1] if listed else ""))
        for node in ast.walk(tree):
            yield from ((name, text) for value in _values(node, places, units) for text in _texts(value))


def _values(node: ast.AST, places: dict[str, set[tuple[int, str]]], units: set[str]) -> Iterator[ast.expr]:
    if isinstance(node, ast.Call):
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        for index, argument in places.get(called, ()):
            yield from node.args[index : index + 1]
            yield from (keyword.value for keyword in node.keywords if keyword.arg == argument)
    elif isinstance(node, ast.Tuple) and len(node.elts) == 4 and set(_texts(node.elts[0])) & units:
        yield node.elts[2]
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            pairs = [*zip(target.elts, node.value.elts, strict=False)] if several else [(target, node.value)]
            yield from (value for one, value in pairs if isinstance(one, ast.Name) and one.id == "reason")


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from (*_texts(node.body), *_texts(node.orelse))
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _texts(value)


def test_every_reason_of_the_readers_is_explained():
    found = set(codes())
    assert len(found) > 60
    assert {("plain.py", "bad_step"), ("osworld.py", "no_action"), ("weblinx.py", "number_mismatch")} <= found
    assert sorted((name, code) for name, code in found if code not in REASONS and code != "ok") == []


def test_every_state_of_a_picture_and_of_a_pair_is_explained():
    from typing import get_args

    from evoaudit.align import Lost
    from evoaudit.pictures import Status

    broken = set(get_args(Status)) - {"ok"}
    assert broken | {f"picture_{status}" for status in broken} | set(get_args(Lost)) <= REASONS.keys()
    assert {"unsafe_id", "no_steps", "duplicate_id", "no_trajectory"} <= REASONS.keys()


def test_reasons_are_sentences_without_an_end_and_differ_by_unit_where_they_must():
    for reason in (*REASONS.values(), *OF_UNIT.values()):
        assert reason.text and not reason.text.endswith(".") and not reason.mend.endswith(".")
    assert explain("missing").text != explain("missing", "picture").text
    assert explain("never heard of").text == "never heard of"


@pytest.mark.skipif(not (SHARED / "data" / "agentrewardbench").exists(), reason="reference data absent")
def test_real_annotations_hold_contradictions_but_no_copied_blocks(tmp_path):
    from evoaudit.normalise import Source, normalise
    from evoaudit.store import Counts

    normalise(tmp_path, Counts("normalise"), Source("arb", "agentrewardbench", SHARED / "data" / "agentrewardbench"))
    found = {one.code: one for one in catalogue.findings([tmp_path])}
    assert found["contradictory_labels"].numbers == {"looping": 11, "optimality": 42, "side_effect": 4, "success": 13}
    assert "label_blocks" not in found


@pytest.mark.skipif(not (SHARED / "data").exists(), reason="reference data absent")
def test_doctor_reads_the_real_logs(capsys):
    assert main(["doctor", str(SHARED / "data"), "--threads", "1"]) == 1
    out = capsys.readouterr().out
    # Lines of the config are to be copied as they stand, however long the folder's name.
    assert max(len(line) for line in out.splitlines() if not re.match(r"\s+(- |\w+: )\{", line)) <= 100
    assert "7 sources under" in out
    assert "webvoyager · 9 trajectories, 46 steps, 37 usable transitions, all pictures read" in out
    assert "online-mind2web · None of the 29 pictures can be read, because a Git LFS pointer" in out
    assert "weblinx-fragments · 8 files" in out


def test_what_is_wrong_is_told_in_the_order_of_the_lines(tmp_path, capsys):
    lines = [
        '{"trajectory_id": "t-1", "steps": [{"action": "click", "x": "ten"}]}',
        "no json",
        '{"trajectory_id": "t-3", "agnt": "a", "steps": "no"}',
    ]
    (tmp_path / "trajectories.jsonl").write_text("\n".join([*lines, '{"steps": []}', lines[0].replace("t-1", "t-5")]), encoding="utf-8")
    assert main(["validate", str(tmp_path)]) == 1
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("trajectories.jsonl:")]
    assert [int(re.match(r"trajectories\.jsonl:(\d+)", line)[1]) for line in told] == [1, 2, 3, 3, 4, 5]
    (tmp_path / "labels.csv").write_text(
        "trajectory_id,annotator,kind,stage,verdict,codebook_version\na,x,human,blind,gff,1\n,x,human,blind,gf,1\n"
    )
    assert main(["validate", str(tmp_path / "labels.csv")]) == 1
    assert [line.split(":")[1] for line in capsys.readouterr().out.splitlines()[:2]] == ["2", "3"]
