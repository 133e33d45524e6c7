"""AgentRewardBench: episodes, screens, experts' answers and released judgments, from files in the published layout."""

import csv
import io
import itertools
import json
import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import made_run
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from evoaudit.__main__ import main
from evoaudit.actions import OPS
from evoaudit.align import align
from evoaudit.sources import agentrewardbench as arb
from evoaudit.sources import agentrewardbench_log as log
from evoaudit.sources.base import Annotation, Oracle, Picture, Skipped, Target, Trajectory

MODEL = "GenericAgent-x"
EXPERIMENT = "GenericAgent-x_on_webarena"
COLUMNS = (
    "annotator_name,benchmark,task_id,model_name,exp_name,"
    "trajectory_success,trajectory_side_effect,trajectory_optimality,trajectory_looping"
)


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        content if isinstance(content, bytes) else content.encode() if isinstance(content, str) else json.dumps(content).encode()
    )
    return path


def png(path: Path, width: int = 1280, height: int = 720) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (width, height)).save(path)


def record(number: int, action: str | None, task: str = "webarena.1", **more: object) -> dict:
    """Return a step's record as the data set writes it."""
    return {
        "num": number,
        "action": action,
        "reasoning": None if action is None else f"thought {number}",
        "screenshot_path": f"trajectories/screenshots/webarena/{MODEL}/{task}/screenshot_step_{number}.png",
        "url": f"http://shop.example:7770/{number}",
        "open_pages_urls": [f"http://shop.example:7770/{number}"],
        "focused_element": "12",
        "last_action_error": "",
        "stats": {"n_token_agent": 5, "cost": 0.01},
        "axtree": f"RootWebArea 'Shop {number}', focused\n\t[12] button 'Buy', clickable",
        "axtree_pruned": f"RootWebArea 'Shop {number}', focused\n\t[12] button 'Buy', clickable, focused",
        "axtree_obj": {"nodes": [{"nodeId": "1", "childIds": ["2", "3"]}, {"nodeId": "2", "value": None}]},
        "extra_element_properties": {
            "12": {"bbox": [5, 6, 70, 20], "visibility": 1.0, "clickable": True, "set_of_marks": True},
            "13": {"bbox": None, "visibility": 0.0, "clickable": False, "set_of_marks": False},
        },
        "bounding_boxes": {},
        "chat_messages": [{"role": "user", "message": "REMOVED"}],
        **more,
    }


def episode(*records: object, head: dict | None = None, **summary: object) -> dict:
    return {
        "benchmark": "webarena",
        "agent": MODEL,
        "model": "x",
        "valid": True,
        "experiment": EXPERIMENT,
        "goal": "Buy it.\nQuickly.",
        "seed": 0,
        "model_args": {"model_name": "x", "temperature": 0.1},
        "flags": {"obs": {"use_screenshot": True}},
        "package_version": "0.13.3",
        "summary_info": {
            "n_steps": len(records) - 1,
            "cum_reward": 0.0,
            "cum_raw_reward": 0.0,
            "err_msg": None,
            "stack_trace": None,
            "terminated": True,
            "truncated": False,
            **summary,
        },
        "steps": list(records),
        **(head or {}),
    }


def place(
    root: Path, content: object, task: str = "webarena.1", benchmark: str = "webarena", model: str = MODEL, experiment: str = EXPERIMENT
) -> Path:
    return write(root / "cleaned" / benchmark / model / experiment / f"{task}.json", content)


def read(root: Path, **options: object) -> list:
    return list(arb.read(root, options))


def only(root: Path, **options: object) -> Trajectory:
    (found,) = read(root, **options)
    assert isinstance(found, Trajectory), found
    return found


def answers(found: list) -> list[tuple]:
    return [(one.native_id, one.annotator, one.question, one.answer) for one in found if isinstance(one, Annotation)]


def skips(found: list) -> list[tuple]:
    return [(one.unit, one.item, one.reason) for one in found if isinstance(one, Skipped)]


@pytest.fixture(params=["whole", "streamed"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways in which a file is parsed, whatever its size."""
    if request.param == "streamed":
        monkeypatch.setattr(log, "WHOLE_LIMIT", 0)
    return request.param


@pytest.mark.parametrize(("said", "usd"), [({"stats.cum_cost": 0.0316}, 0.0316), ({"stats.cum_cost": 0}, None), ({}, None)])
def test_what_an_attempt_cost_is_in_its_summary(tmp_path: Path, way: str, said: dict, usd: float | None) -> None:
    place(tmp_path, episode(record(0, "noop()"), record(1, None), **said))
    cost = only(tmp_path).cost
    assert (None if cost is None else (cost.usd, cost.field)) == (None if usd is None else (usd, "stats.cum_cost"))


# -- episodes -------------------------------------------------------------------------------------------------------------


def test_an_episode_in_its_published_form(tmp_path: Path, way: str) -> None:
    place(
        tmp_path,
        episode(
            record(0, "click('12')"),
            record(1, "fill('12', 'Oslo')", last_action_error="TimeoutError: x"),
            record(2, "scroll(0, 300)", last_action_error=""),
            record(3, 'send_msg_to_user("42")', extra_element_properties={}, bounding_boxes={"12": {"bbox": [1, 1, 1, 1]}}),
            record(4, None),
            cum_reward=1.0,
        ),
    )
    found = only(tmp_path)
    identity = "webarena/GenericAgent-x/GenericAgent-x_on_webarena/webarena.1"
    assert (found.native_id, found.source_file) == (identity, f"cleaned/{identity}.json")
    assert (found.benchmark, found.agent, found.experiment, found.task_id) == ("webarena", MODEL, EXPERIMENT, "webarena.1")
    assert (found.instruction, found.answer, found.website) == ("Buy it.\nQuickly.", "42", "shop.example:7770")
    assert [(step.op, step.op_raw, step.value) for step in found.steps] == [
        ("click", "click('12')", None),
        ("type", "fill('12', 'Oslo')", "Oslo"),
        ("scroll", "scroll(0, 300)", "0 300"),
        ("answer", 'send_msg_to_user("42")', "42"),
    ]
    button = "button 'Buy', clickable, focused"
    assert [step.target for step in found.steps] == [Target(40, 16, 5, 6, 70, 20, button), Target(40, 16, 5, 6, 70, 20, button), None, None]
    assert [step.error for step in found.steps] == ["TimeoutError: x", None, None, None]
    assert [step.source_step for step in found.steps] == ["0", "1", "2", "3"]
    assert [step.reasoning for step in found.steps] == ["thought 0", "thought 1", "thought 2", "thought 3"]
    assert [step.url for step in found.steps][:2] == ["http://shop.example:7770/0", "http://shop.example:7770/1"]
    assert found.steps[0].page_text == "RootWebArea 'Shop 0'\nbutton 'Buy', clickable"
    assert (found.final_url, found.final_text) == ("http://shop.example:7770/4", "RootWebArea 'Shop 4'\nbutton 'Buy', clickable")
    shots = [f"screenshots/webarena/{MODEL}/webarena.1/screenshot_step_{number}.png" for number in range(5)]
    assert [(one.before, one.after) for one in align(found)] == [
        (Picture(first), Picture(second)) for first, second in itertools.pairwise(shots)
    ]
    assert found.oracles == [Oracle("webarena", 1.0, "pass", "ok", "0.13.3")]
    assert found.skipped == []


def test_a_run_that_crashed_ends_with_an_action(tmp_path: Path, way: str) -> None:
    place(tmp_path, episode(record(0, "click('12')"), record(1, "click('12')"), err_msg="boom", n_steps=2))
    found = only(tmp_path)
    assert [one.lost for one in align(found)] == [None, "last_step"] and found.final is None
    assert found.oracles == [Oracle("webarena", 0.0, "error", "harness_error", "0.13.3")]
    assert found.skipped == [("row", found.source_file, "step_count", "its summary counts 2 steps, its log has 2 records")]


@pytest.mark.parametrize(
    ("summary", "head", "verdict", "status"),
    [
        ({"cum_reward": 0.5}, {}, "fail", "ok"),
        ({"cum_reward": 0.51}, {}, "pass", "ok"),
        ({"cum_reward": 1.0, "err_msg": "late"}, {}, "pass", "ok"),
        ({"cum_reward": 0.2, "err_msg": "boom"}, {}, "error", "harness_error"),
        ({"cum_reward": None}, {}, "unscored", "no_reward"),
        ({"cum_reward": "much"}, {}, "unscored", "no_reward"),
        ({"cum_reward": 1.0}, {"valid": False}, "unscored", "marked_invalid"),
        ({}, {"summary_info": "lost"}, "unscored", "no_reward"),
    ],
)
def test_what_the_reward_means(tmp_path: Path, way: str, summary: dict, head: dict, verdict: str, status: str) -> None:
    place(tmp_path, episode(record(0, "noop()"), record(1, None), head=head, **summary))
    (oracle,) = only(tmp_path).oracles
    assert (oracle.verdict, oracle.status) == (verdict, status)


def test_a_jump_in_the_numbers_breaks_adjacency(tmp_path: Path, way: str) -> None:
    place(tmp_path, episode(record(0, "noop()"), record(2, "noop()"), record(5, None)))
    found = only(tmp_path)
    assert [(one.after, one.lost) for one in align(found)] == [(None, "step_gap"), (None, "last_step")]


def test_a_log_that_disagrees_with_its_place_is_noted_and_kept(tmp_path: Path, way: str) -> None:
    head = {"benchmark": "workarena", "agent": "other", "experiment": EXPERIMENT}
    place(tmp_path, episode(record(0, "noop()", task="webarena.9"), record(1, None), head=head))
    found = only(tmp_path)
    assert (found.benchmark, found.agent, found.task_id) == ("webarena", MODEL, "webarena.1"), "names come from the path"
    assert [(unit, reason, detail) for unit, _, reason, detail in found.skipped] == [
        ("row", "other_place", f"benchmark: 'workarena' inside, 'webarena' in its path; agent: 'other' inside, '{MODEL}' in its path"),
        ("row", "other_task", f"1 screens lie under webarena/{MODEL}/webarena.9; see whether the file has its own name"),
    ]


def test_an_agent_with_a_slash_in_its_name_has_an_underscore_in_its_path(tmp_path: Path) -> None:
    place(
        tmp_path,
        episode(record(0, "noop()"), record(1, None), head={"agent": "GenericAgent/x", "experiment": "GenericAgent/x_on_webarena"}),
    )
    place(
        tmp_path,
        episode(record(0, "noop()"), record(1, None), head={"agent": "a/b", "experiment": "e"}),
        "webarena.1",
        "webarena",
        "a_b",
        "e",
    )
    first, second = read(tmp_path)
    assert [entry[2] for entry in first.skipped] == ["other_place"] and [entry[2] for entry in second.skipped] == ["other_task"]


# -- screens and boxes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["", None, 7, f"trajectories/screenshots/webarena/{MODEL}/webarena.1/None", "screenshots/webarena/m/t/screenshot_step_None.png"],
)
def test_a_screen_without_a_name_is_none(tmp_path: Path, path: object) -> None:
    place(tmp_path, episode(record(0, "noop()", screenshot_path=path), record(1, None)))
    assert only(tmp_path).steps[0].before is None


def test_screens_lie_beside_the_episodes_wherever_those_are(tmp_path: Path) -> None:
    place(tmp_path / "trajectories", episode(record(0, "noop()"), record(1, None)))
    assert only(tmp_path).steps[0].before == Picture(f"trajectories/screenshots/webarena/{MODEL}/webarena.1/screenshot_step_0.png")


def test_a_screen_of_another_machine_or_spelling_is_looked_for_in_the_episodes_folder(tmp_path: Path) -> None:
    folder = f"screenshots/webarena/{MODEL}/visualwebarena.resized.3"
    for number in range(2):
        png(tmp_path / folder / f"screenshot_step_{number}.png", 4, 4)
    records = [
        record(
            0, "noop()", screenshot_path=f"/home/someone/trajectories/screenshots/webarena/{MODEL}/visualwebarena.3/screenshot_step_0.png"
        ),
        record(1, "noop()", screenshot_path="shots/screenshot_step_1.png"),
        record(2, None, screenshot_path=f"trajectories/{folder}/screenshot_step_2.png"),
    ]
    place(tmp_path, episode(*records), "visualwebarena.resized.3")
    found = only(tmp_path)
    assert [step.before for step in found.steps] == [Picture(f"{folder}/screenshot_step_{number}.png") for number in range(2)]
    assert found.final == Picture(f"{folder}/screenshot_step_2.png"), "what is not there keeps its name, and is counted as missing"
    assert found.skipped == [], "the two spellings are one task"


@pytest.mark.parametrize(
    ("page", "expected"), [(1280, (5, 6, 70, 20)), (640, (10, 12, 140, 40)), (960, (5, 6, 70, 20)), (None, (5, 6, 70, 20))]
)
def test_boxes_are_scaled_where_page_and_picture_show_a_dense_screen(tmp_path: Path, way: str, page: int | None, expected: tuple) -> None:
    boxes = {"12": {"bbox": [5, 6, 70, 20], "visibility": 1}} | ({"0": {"bbox": [0, -40, page, 3000], "visibility": 1}} if page else {})
    mouse = record(1, "mouse_click(100, 50)", extra_element_properties=boxes)
    place(tmp_path, episode(record(0, "click('12')", extra_element_properties=boxes), mouse, record(2, None)))
    for number in range(2):
        png(tmp_path / f"screenshots/webarena/{MODEL}/webarena.1/screenshot_step_{number}.png")
    first, second = (step.target for step in only(tmp_path).steps)
    assert (first.left, first.top, first.width, first.height) == expected
    assert (second.x, second.y) == ((200, 100) if page == 640 else (100, 50))


def test_the_second_list_of_boxes_serves_where_the_first_is_missing(tmp_path: Path, way: str) -> None:
    records = [
        record(0, "click('b7')", extra_element_properties=None, bounding_boxes={"b7": {"bbox": [1, 2, 4, 6], "visibility": 1}}),
        record(1, "click('13')"),
        record(2, None),
    ]
    place(tmp_path, episode(*records))
    found = only(tmp_path)
    assert found.steps[0].target == Target(3, 5, 1, 2, 4, 6) and found.steps[1].target is None, "a box can be null"


# -- selection ------------------------------------------------------------------------------------------------------------


def corpus(root: Path) -> None:
    """Write four episodes of two benchmarks and agents, with splits, answers and judgments."""
    rows = []
    for benchmark, model, task in (
        ("visualwebarena", "GenericAgent-x", "visualwebarena.resized.3"),
        ("visualwebarena", "GenericAgent-y", "visualwebarena.3"),
        ("webarena", "GenericAgent-x", "webarena.1"),
        ("webarena", "GenericAgent-y", "webarena.2"),
    ):
        head = {"benchmark": benchmark, "agent": model, "experiment": f"{model}_on_{benchmark}"}
        records = [record(number, action) | {"screenshot_path": ""} for number, action in enumerate(("noop()", None))]
        place(root, episode(*records, head=head), task, benchmark, model, head["experiment"])
        rows.append(f"A,{benchmark},{task},{model},{head['experiment']},Successful,No,4. Completely Optimal,No")
        write(
            root / "judgments" / benchmark / model / "functional" / f"{task}.json", {"trajectory_info": {"summary_info": {"cum_reward": 1}}}
        )
    write(root / "data/annotations.csv", "\n".join([COLUMNS, *rows]) + "\n")
    write(
        root / "data/splits.csv",
        "task_id,benchmark,split\nvisualwebarena.3,visualwebarena,dev\nwebarena.1,webarena,test\nwebarena.2,webarena,dev\n",
    )


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        ({}, ["x/visualwebarena.resized.3", "y/visualwebarena.3", "x/webarena.1", "y/webarena.2"]),
        ({"benchmarks": ["webarena"]}, ["x/webarena.1", "y/webarena.2"]),
        ({"agents": ["GenericAgent-y"]}, ["y/visualwebarena.3", "y/webarena.2"]),
        ({"agents": ["*-x", "nobody"], "benchmarks": ["web*"]}, ["x/webarena.1"]),
        ({"split": "dev"}, ["x/visualwebarena.resized.3", "y/visualwebarena.3", "y/webarena.2"]),
        ({"split": "train"}, []),
    ],
)
def test_options_select_episodes_answers_and_judgments_alike(tmp_path: Path, options: dict, tasks: list[str]) -> None:
    corpus(tmp_path)
    found = read(tmp_path, **options)

    def names(chosen: Iterable[Trajectory | Annotation]) -> list[str]:
        return [f"{one.agent[-1]}/{one.task_id}" for one in chosen]

    assert names(one for one in found if isinstance(one, Trajectory)) == tasks
    success = [one for one in found if isinstance(one, Annotation) and one.question == "success"]
    assert names(one for one in success if one.annotator == "A") == tasks
    assert names(one for one in success if one.annotator == "judge:functional") == tasks
    assert skips(found) == []


def test_files_select_by_path(tmp_path: Path) -> None:
    corpus(tmp_path)
    found = read(tmp_path, files=["cleaned/webarena/*", "data/annotations.csv", "judgments/*/GenericAgent-y/"])
    assert [one.task_id for one in found if isinstance(one, Trajectory)] == ["webarena.1", "webarena.2"]
    assert [one.annotator for one in found if isinstance(one, Annotation) and one.question == "success"] == ["A"] * 4 + [
        "judge:functional"
    ] * 2


def test_a_split_without_its_table_selects_nothing_and_says_so(tmp_path: Path) -> None:
    corpus(tmp_path)
    (tmp_path / "data/splits.csv").unlink()
    assert [(one.unit, one.item, one.reason) for one in read(tmp_path, split="dev")] == [("row", "data/splits.csv", "missing")]


def test_files_at_other_depths_are_reported(tmp_path: Path) -> None:
    write(tmp_path / "cleaned/webarena/m/webarena.1.json", episode())
    write(tmp_path / "judgments/webarena/m/webarena.1.json", {})
    assert [(one.unit, one.reason) for one in read(tmp_path)] == [("trajectory", "bad_place"), ("row", "bad_place")]


# -- experts --------------------------------------------------------------------------------------------------------------


def test_answers_are_kept_as_given(tmp_path: Path) -> None:
    rows = [
        f"A,webarena,webarena.24,{MODEL},{EXPERIMENT},Unsuccessful,No,4. Completely Optimal,Yes",
        f'" H",webarena,webarena.24,{MODEL},{EXPERIMENT},Successful,Unsure,Unsure,No',
        f"A,webarena,webarena.24,{MODEL},{EXPERIMENT},Unsuccessful,No,4. Completely Optimal,Yes",
        f"A,webarena,webarena.24,{MODEL},{EXPERIMENT},Successful,No,4. Completely Optimal,Yes",
    ]
    write(tmp_path / "data/annotations.csv", "\n".join([COLUMNS, *rows]))
    found = read(tmp_path)
    identity = f"webarena/{MODEL}/{EXPERIMENT}/webarena.24"
    assert answers(found)[:8] == [
        (identity, "A", "success", "Unsuccessful"),
        (identity, "A", "side_effect", "No"),
        (identity, "A", "optimality", "4. Completely Optimal"),
        (identity, "A", "looping", "Yes"),
        (identity, "H", "success", "Successful"),
        (identity, "H", "side_effect", "Unsure"),
        (identity, "H", "optimality", "Unsure"),
        (identity, "H", "looping", "No"),
    ]
    assert answers(found)[8] == (identity, "A", "success", "Successful"), "who contradicts himself is kept"
    assert [one.row for one in found if isinstance(one, Annotation) and one.question == "success"] == [0, 1, 3]
    assert skips(found) == [("row", "data/annotations.csv:4", "duplicate_row")]


def test_a_cell_too_long_for_csv_costs_its_row_alone(tmp_path: Path) -> None:
    good = f"A,webarena,webarena.{{}},{MODEL},{EXPERIMENT},Successful,No,Unsure,No"
    write(tmp_path / "annotations.csv", "\n".join([COLUMNS, good.format(1), "x" * 200_000, good.format(2)]))
    found = read(tmp_path)
    assert {one.task_id for one in found if isinstance(one, Annotation)} == {"webarena.1", "webarena.2"}
    assert skips(found) == [("row", "annotations.csv:3", "bad_csv")]


# -- judges ---------------------------------------------------------------------------------------------------------------


def judgment(reply: object = None, reward: object = 0.0, folder: str = "", **more: object) -> dict:
    return {
        "benchmark": "webarena",
        "goal": "g",
        "agent": MODEL,
        "judge": "j",
        "judge_model_name": "some-model",
        "provider": "p",
        "judge_args": {"use_screenshot": True, "use_axtree": False, "invert_sys_prompt": False},
        "response": {"choices": [{"index": 0, "message": {"role": "assistant", "content": reply}}], "usage": {}},
        "chat_messages": {"regular": [], "pruned": []},
        "trajectory_info": {"valid": True, "model": "x", "trajectory_dir": folder, "summary_info": {"cum_reward": reward}},
        **more,
    }


TAGGED = (
    "<reasoning>It <success>ful looking</reasoning>\n<success>Unsuccessful</success>\n<side>No</side>\n"
    "<optimal>2. Suboptimal</optimal>\n<loop> Yes </loop>"
)


def judged(root: Path, judge: str, content: object, task: str = "webarena.1") -> list:
    write(root / "judgments/webarena" / MODEL / judge / f"{task}.json", content)
    return [one for one in read(root) if not isinstance(one, Trajectory)]


def test_a_judges_tags_answer_the_experts_questions(tmp_path: Path) -> None:
    place(tmp_path, episode(record(0, "noop()"), record(1, None)))
    reply = "<reasoning>Fine.</reasoning>" + TAGGED.partition("\n")[2]
    found = judged(tmp_path, "gpt-4o-noscreen", judgment(reply))
    identity = f"webarena/{MODEL}/{EXPERIMENT}/webarena.1"
    assert answers(found) == [
        (identity, "judge:gpt-4o-noscreen", "success", "Unsuccessful"),
        (identity, "judge:gpt-4o-noscreen", "side_effect", "No"),
        (identity, "judge:gpt-4o-noscreen", "optimality", "2. Suboptimal"),
        (identity, "judge:gpt-4o-noscreen", "looping", "Yes"),
    ]
    assert [(one.row, one.benchmark, one.agent, one.task_id) for one in found][:1] == [(0, "webarena", MODEL, "webarena.1")]


@pytest.mark.parametrize(
    ("judge", "content", "expected"),
    [
        ("functional", judgment(reward=1.0), "Successful"),
        ("functional", judgment(reward=0.5), "Unsuccessful"),
        ("functional", judgment(reward=None), None),
        ("aer", judgment('Thoughts: it went well\nStatus: "success"'), "Successful"),
        ("aerv", judgment("Thoughts: no\nStatus: failure"), "Unsuccessful"),
        ("aer", judgment("Status: unclear"), "unclear"),
        ("aer", judgment("no status"), None),
        ("nnetnav", judgment("Thought: good.\nReward: 4"), "Successful"),
        ("nnetnav", judgment("Thought: bad.\nReward: 3\n"), "Unsuccessful"),
        ("nnetnav", judgment("Reward: 45"), None),
        ("nnetnav", judgment("Reward: 4.5"), None),
        ("x", judgment("<success>n/a</success><side></side>"), "n/a"),
        ("x", judgment("</success>Successful<success>"), None),
        ("x", judgment(None), None),
        ("x", judgment(response=None), None),
        ("x", judgment(response={"choices": []}), None),
        ("x", judgment(response={"choices": [[]]}), None),
        ("x", [], None),
    ],
)
def test_what_each_kind_of_judge_says_of_success(tmp_path: Path, judge: str, content: object, expected: str | None) -> None:
    place(tmp_path, episode(record(0, "noop()"), record(1, None)))
    found = judged(tmp_path, judge, content)
    assert [answer for _, _, question, answer in answers(found) if question == "success"] == ([] if expected is None else [expected])
    if expected is None:
        assert [(one.unit, one.reason) for one in found] == [("row", "no_verdict")]


def test_questions_a_judge_leaves_open_are_counted(tmp_path: Path) -> None:
    place(tmp_path, episode(record(0, "noop()"), record(1, None)))
    found = judged(tmp_path, "j", judgment("<success>Successful</success><loop>No</loop><side>"))
    file = f"judgments/webarena/{MODEL}/j/webarena.1.json"
    assert [(question, answer) for _, _, question, answer in answers(found)] == [("success", "Successful"), ("looping", "No")]
    assert skips(found) == [("row", f"{file}#side_effect", "no_answer"), ("row", f"{file}#optimality", "no_answer")]


@pytest.mark.parametrize(
    ("content", "task", "reason"),
    [
        ({"error": "Error code: 400", "trajectory_info": {}}, "webarena.1_error", "judge_error"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "webarena.1", "lfs_pointer"),
        (b"{", "webarena.1", "bad_json"),
        (judgment(TAGGED), "webarena.7", "no_experiment"),
    ],
)
def test_a_judgment_without_use_says_why(tmp_path: Path, content: object, task: str, reason: str) -> None:
    place(tmp_path, episode(record(0, "noop()"), record(1, None)))
    assert [(one.unit, one.reason) for one in judged(tmp_path, "j", content, task)] == [("row", reason)]


def test_a_judgment_finds_its_experiment(tmp_path: Path) -> None:
    reply = judgment("<success>Successful</success>", folder=f"/r/agentlab_results/webarena/{MODEL}/exp_b/2025-01-01_x")
    assert answers(judged(tmp_path, "j", reply))[0][0] == f"webarena/{MODEL}/exp_b/webarena.1", "by the folder it names"
    write(tmp_path / "annotations.csv", f"{COLUMNS}\nA,webarena,webarena.1,{MODEL},exp_c,Successful,No,Unsure,No\n")
    assert answers(read(tmp_path))[-1][0] == f"webarena/{MODEL}/exp_c/webarena.1", "rather by an expert's answer"
    place(tmp_path, episode(record(0, "noop()"), record(1, None)), experiment="exp_b")
    assert answers(read(tmp_path))[-1][0] == f"webarena/{MODEL}/exp_b/webarena.1", "by both where several are known"
    place(tmp_path, episode(record(0, "noop()"), record(1, None)), experiment="exp_d")
    judged(tmp_path, "j", judgment("<success>Successful</success>"))
    assert "no_experiment" in [reason for _, _, reason in skips(read(tmp_path))]


def test_judges_are_nobodys_second_annotator(tmp_path: Path) -> None:
    def table(name: str, judges: int) -> list[dict]:
        given = [
            {
                "trajectory_id": f"s:{task}",
                "annotator": who,
                "question": question,
                "answer": answer,
                "benchmark": "b",
                "agent": "m",
                "task_id": str(task),
                "row": row,
            }
            for task in range(6)
            for row, who, answer in [
                *((0, f"judge:{number}", "Yes") for number in range(judges)),
                (1, "A", "No"),
                (2, "B", "No" if task < 4 else "Yes"),
            ]
            for question in ("success", "looping")
        ]
        source = made_run.normalised(tmp_path / name, "arb", [], annotations=given)
        assert main(made_run.command({"normalised": [source]}, tmp_path / name / "stats")) == 0
        return pq.read_table(tmp_path / name / "stats/human_agreement.parquet").to_pylist()

    without = table("without", 0)
    assert [(row["question"], row["n_pairs"], round(row["raw"], 1)) for row in without] == [("looping", 6, 66.7), ("success", 6, 66.7)]
    assert table("with", 3) == without


# -- size, damage and the released table ----------------------------------------------------------------------------------

_MEASURE = """
import resource, sys
from pathlib import Path
from evoaudit.sources import agentrewardbench
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
(found,) = agentrewardbench.read(Path(sys.argv[1]), {})
print(len(found.steps), found.steps[2].target.left, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_a_file_of_sixty_megabytes_is_read_in_little_memory(tmp_path: Path) -> None:
    node = json.dumps({"nodeId": "7", "role": {"type": "role", "value": "button"}, "name": {"value": "é" * 30}, "childIds": ["8", "9"]})
    boxes = ",".join(f'"{bid}":{{"bbox":[{bid},2.5,3,4],"visibility":1.0,"clickable":true}}' for bid in range(1000))
    path = place(tmp_path, "")
    with open(path, "w", encoding="utf-8") as handle:
        handle.write('{"benchmark": "webarena", "goal": "g", "steps": [')
        for number in range(12):
            given = record(number, "click('12')")
            dumps = [given.pop(name) for name in ("axtree_obj", "extra_element_properties", "bounding_boxes")]
            assert len(dumps) == 3
            nodes = ",".join([node] * 18_000)
            handle.write(f'{json.dumps(given)[:-1]}, "axtree_obj": {{"nodes": [{nodes}]}}, "bounding_boxes": {{{boxes}}}, ')
            handle.write(f'"extra_element_properties": {{{boxes}}}}},')
        handle.write(json.dumps(record(12, None)) + '], "summary_info": {"cum_reward": 1}}')
    assert path.stat().st_size > 60e6
    done = subprocess.run([sys.executable, "-c", _MEASURE, str(tmp_path)], capture_output=True, text=True, check=True, timeout=120)
    steps, left, megabytes = done.stdout.split()
    assert (steps, left) == ("12", "12.0") and int(megabytes) < 40, done.stdout


def test_a_file_beyond_the_limits_is_refused(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place(tmp_path, episode(*(record(number, "noop()") for number in range(5))))
    monkeypatch.setattr(log, "STEP_LIMIT", 3)
    assert [(one.reason, one.detail) for one in read(tmp_path)] == [("too_large", "more than 3 steps")]
    monkeypatch.setattr(log, "FILE_LIMIT", 1000)
    assert [(one.reason, one.detail) for one in read(tmp_path)] == [("too_large", "more than 1,000 bytes")]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "bad_json"),
        (b'{"steps": [', "bad_json"),
        (b'{"steps": []} {}', "bad_json"),
        (b'{"steps": ["\xff"]}', "not_utf8"),
        (b"[]", "bad_record"),
        (b"7", "bad_record"),
        (b"{}", "bad_record"),
        (b'{"steps": {"0": {}}}', "bad_record"),
        (b'{"steps": null}', "bad_record"),
    ],
)
def test_a_broken_episode_says_why(tmp_path: Path, way: str, content: bytes, reason: str) -> None:
    place(tmp_path, content)
    (found,) = read(tmp_path)
    assert (found.unit, found.reason) == ("trajectory", reason)
    assert found.item == f"cleaned/webarena/{MODEL}/{EXPERIMENT}/webarena.1.json"


def test_a_byte_order_mark_does_no_harm(tmp_path: Path, way: str) -> None:
    place(tmp_path, b"\xef\xbb\xbf" + json.dumps(episode(record(0, "noop()"), record(1, None))).encode())
    assert len(only(tmp_path).steps) == 1


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4) | st.sampled_from(["bbox", "12", "0"]), inner, max_size=4)
    ),
    max_leaves=10,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    head=st.dictionaries(st.sampled_from(["benchmark", "agent", "goal", "valid", "summary_info", "steps"]), _ANY, max_size=3),
    records=st.lists(
        st.dictionaries(st.sampled_from([*record(0, "click('12')")]), _ANY, max_size=5).map(lambda more: record(0, "click('12')") | more)
        | _ANY,
        max_size=4,
    ),
)
def test_any_json_is_read_alike_whole_and_streamed(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, head: dict, records: list
) -> None:
    root = tmp_path_factory.mktemp("any")
    try:
        content = json.dumps({**episode(), "steps": records, **head}, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    place(root, content)
    found = read(root)
    with monkeypatch.context() as patch:
        patch.setattr(log, "WHOLE_LIMIT", 0)
        assert read(root) == found
    assert all(step.op in OPS for one in found if isinstance(one, Trajectory) for step in one.steps)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_damage_never_raises(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    root, draw = tmp_path_factory.mktemp("damage"), random.Random(seed)
    corpus(root)
    write(root / "judgments/webarena" / MODEL / "j" / "webarena.1.json", judgment(TAGGED))
    for path in draw.sample(sorted(path for path in root.rglob("*") if path.is_file()), 4):
        raw = bytearray(path.read_bytes())
        for _ in range(draw.randint(1, 6)):
            at = draw.randint(0, len(raw))
            raw[at : at + draw.randint(0, 40)] = bytes(
                draw.choice([draw.randrange(256), *b'"{}[],:\\0n']) for _ in range(draw.randint(0, 3))
            )
        path.write_bytes(bytes(raw[: draw.choice([len(raw), draw.randint(0, len(raw))])]))
    with monkeypatch.context() as patch:
        patch.setattr(log, "WHOLE_LIMIT", draw.choice([0, 2**23]))
        for one in [*read(root), *read(root, split="dev", agents=["*-x"])]:
            assert isinstance(one, Trajectory | Annotation | Skipped)


def test_the_released_answers_reproduce_the_papers_agreement(real_logs: Path, tmp_path: Path) -> None:
    found = [one for one in read(real_logs / "agentrewardbench", split="test") if one.question == "success"]
    pairs: dict[str, list[str]] = {}
    for one in found:
        pairs.setdefault(one.native_id, []).append(one.answer)
    assert len(pairs) == 1106
    sure = [both for both in pairs.values() if len(both) == 2 and "Unsure" not in both]
    assert (len(sure), sum(first == second for first, second in sure)) == (84, 75), "89.3 %"
    everything = read(real_logs / "agentrewardbench")
    assert len(everything) == 4 * 1408 and skips(everything) == []
    with open(real_logs / "agentrewardbench/annotations.csv", encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(io.StringIO(handle.read())))
    assert [one.answer for one in everything if one.question == "optimality"] == [row["trajectory_optimality"] for row in rows]
    assert sum(one.annotator == "H" for one in everything) == 3 * 4
