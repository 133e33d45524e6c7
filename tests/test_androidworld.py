"""AndroidWorld: what comes out of M3A's, T3A's and SeeAct's episodes, and of broken ones."""

import datetime
import gzip
import io
import pickle
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_pickles import dumps, foreign, write
from PIL import Image

from evoaudit import normalise, store
from evoaudit.actions import OPS
from evoaudit.align import align
from evoaudit.sources import androidworld, reader
from evoaudit.sources.base import Oracle, Skipped, Target, Trajectory


def action(**fields: Any) -> Any:
    names = ("action_type", "index", "x", "y", "text", "direction", "goal_status", "app_name", "keycode", "clear_text")
    return foreign("android_world.env.json_action.JSONAction", **(dict.fromkeys(names) | fields))


def element(box: tuple[int, int, int, int] | None = None, **fields: Any) -> Any:
    sides = dict(zip(("x_min", "x_max", "y_min", "y_max"), box or (), strict=False))
    pixels = foreign("android_world.env.representation_utils.BoundingBox", **sides) if box else None
    names = ("text", "content_description", "class_name", "hint_text", "tooltip", "is_clickable")
    return foreign(
        "android_world.env.representation_utils.UIElement", **(dict.fromkeys(names) | {"bbox": None, "bbox_pixels": pixels} | fields)
    )


def screen(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (40, 30, 3), dtype="u1")


ELEMENTS = [
    element((10, 20, 0, 8), text="Save", class_name="android.widget.Button"),
    element((0, 30, 8, 16), content_description="Name", class_name="android.widget.EditText"),
    element(text="no box"),
    element((5, 5, 5, 5)),
]


def m3a() -> dict:
    """Six steps: a click by number, a click by place, typing, words that are no action, an answer, and the end."""
    actions = [
        action(action_type="click", index=0),
        action(action_type="click", x=7, y=9),
        action(action_type="input_text", index=1, text="Ada"),
        None,
        action(action_type="answer", text="42"),
        action(action_type="status", goal_status="complete"),
    ]
    return {
        "raw_screenshot": [screen(number) for number in range(6)],
        "before_screenshot_with_som": [screen(100 + number) for number in range(6)],
        "before_ui_elements": [ELEMENTS] * 6,
        "after_screenshot_with_som": [*[screen(200 + number) for number in range(3)], None, screen(204), None],
        "action_prompt": ["long prompt"] * 6,
        "action_output": [*["Reason: r\nAction: {}"] * 3, "I would rather not.", "Reason: r\nAction: {}", "Reason: r\nAction: {}"],
        "action_output_json": actions,
        "action_reason": ["Save it.", "Open it.", "Type it.", None, "Tell.", "Done."],
        "summary": ["ok", "ok", "ok", "Output for action selection is not in the correct format, so no action is performed.", "ok", None],
        "step_number": list(range(6)),
    }


def episode(data: Any, **fields: Any) -> dict:
    return {
        "goal": "Add a contact.",
        "task_template": "ContactsAddContact",
        "episode_data": data,
        "is_successful": 1.0,
        "run_time": 12.5,
        "finish_dtime": datetime.datetime(2024, 5, 6, 7, 8, 9),
        "episode_length": 6,
        "aux_data": None,
        "screen_config": {"width": 1080, "height": 2400, "orientation": "portrait", "config_name": "default"},
        "exception_info": None,
        "seed": 30,
        "agent_name": "m3a_gpt4v",
        "instance_id": 0,
    } | fields


FILE = "run_20240506T070809/ContactsAddContact_0.pkl.gz"


def one(root: Path, value: Any, file: str = FILE, protocol: int = 4) -> Any:
    write(root / file, value, protocol)
    found = list(androidworld.read(root, {}))
    assert len(found) == 1
    return found[0]


def pixels(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def test_an_episode_of_m3a_gives_these_rows(tmp_path: Path) -> None:
    found = one(tmp_path, [episode(m3a())])
    assert isinstance(found, Trajectory) and found.skipped == []
    assert (found.native_id, found.source_file, found.obs_phase) == (FILE.removesuffix(".pkl.gz"), FILE, "before")
    assert (found.benchmark, found.task_id, found.task_revision) == ("androidworld", "ContactsAddContact_0", "seed 30")
    assert (found.agent, found.experiment, found.domain) == ("m3a_gpt4v", "run_20240506T070809", "android")
    assert (found.instruction, found.answer, found.license) == ("Add a contact.", "42", "Apache-2.0")
    assert found.oracles == [Oracle("androidworld", 1.0, "pass")]
    assert [(step.op, step.value, step.reasoning) for step in found.steps] == [
        ("click", None, "Save it."),
        ("click", None, "Open it."),
        ("type", "Ada", "Type it."),
        ("other", None, None),
        ("answer", "42", "Tell."),
        ("done", None, "Done."),
    ]
    assert [step.op_raw for step in found.steps] == [
        '{"action_type": "click", "index": 0}',
        '{"action_type": "click", "x": 7, "y": 9}',
        '{"action_type": "input_text", "index": 1, "text": "Ada"}',
        "I would rather not.",
        '{"action_type": "answer", "text": "42"}',
        '{"action_type": "status", "goal_status": "complete"}',
    ]
    assert [step.target for step in found.steps] == [
        Target(15.0, 4.0, 10.0, 0.0, 10.0, 8.0, "Button 'Save'"),
        Target(7.0, 9.0),
        Target(15.0, 12.0, 0.0, 8.0, 30.0, 8.0, "EditText 'Name'"),
        None,
        None,
        None,
    ]
    assert [step.source_step for step in found.steps] == ["0", "1", "2", "3", "4", "5"]
    assert [bool(step.error) for step in found.steps] == [False, False, False, True, False, False]
    assert found.steps[0].page_text == "Save\nName\nno box"


def test_m3a_shows_the_plain_screen_before_each_action_and_never_a_marked_one(tmp_path: Path) -> None:
    found = one(tmp_path, [episode(m3a())])
    for number, (step, aligned) in enumerate(zip(found.steps, align(found), strict=True)):
        assert np.array_equal(pixels(aligned.before.load()), screen(number))
        assert step.after is None and step.before.member.startswith(f"0/raw_screenshot/{number}@")
        assert (aligned.after is None) == (number == 5)
        if aligned.after:
            assert np.array_equal(pixels(aligned.after.load()), screen(number + 1))


def t3a() -> dict:
    outputs = [
        'Reason: It is there.\nAction: {"action_type": "click", "index": 0}',
        'Reason: Type.\nAction: {"action_type": "input_text", "text": "Bo", "x": 3, "y": 4}',
        "Reason: Python.\nAction: {'action_type': 'scroll', 'direction': 'down'} and so on",
        'Reason: Again.\nAction: {"action_type": "click", "index": 1}',
        'Reason: No way.\nAction: {"action_type": "status", "goal_status": "infeasible"}',
    ]
    return {
        "before_screenshot": [screen(number) for number in range(5)],
        "after_screenshot": [*[screen(50 + number) for number in range(4)], None],
        "before_element_list": [ELEMENTS] * 5,
        "after_element_list": [*[ELEMENTS] * 4, None],
        "action_output": outputs,
        "summary": ["ok", "Some error happened executing the action input_text", "ok", "ok", None],
        "step_number": list(range(5)),
    }


def test_an_episode_of_t3a_gives_these_rows(tmp_path: Path) -> None:
    found = one(tmp_path, [episode(t3a(), agent_name="t3a_gpt4", is_successful=0.0)])
    assert found.obs_phase == "both" and found.oracles == [Oracle("androidworld", 0.0, "fail")]
    assert [(step.op, step.value, step.reasoning) for step in found.steps] == [
        ("click", None, "It is there."),
        ("type", "Bo", "Type."),
        ("scroll", "down", "Python."),
        ("click", None, "Again."),
        ("fail", None, "No way."),
    ]
    assert found.steps[1].target == Target(3.0, 4.0)
    assert [step.error for step in found.steps] == [None, "Some error happened executing the action input_text", None, None, None]


def test_a_screen_with_a_frame_gives_way_to_the_clean_one_after_the_step_before(tmp_path: Path) -> None:
    found = one(tmp_path, [episode(t3a())])
    shown = [(pixels(pair.before.load()), pixels(pair.after.load()) if pair.after else None) for pair in align(found)]
    assert np.array_equal(shown[0][0], screen(0))  # there is no other
    assert np.array_equal(shown[1][0], screen(1)) and np.array_equal(shown[1][1], screen(51))  # nothing was drawn
    assert np.array_equal(shown[3][0], screen(52)) and np.array_equal(shown[3][1], screen(53))
    assert shown[4][1] is None and align(found)[4].lost == "last_step"


def test_every_verb_has_an_operation(tmp_path: Path) -> None:
    expected = [
        (action(action_type="click", x=1, y=2), "click", None),
        (action(action_type="double_tap", x=1, y=2), "double_click", None),
        (action(action_type="long_press", x=1, y=2), "long_press", None),
        (action(action_type="scroll", direction="up"), "scroll", "up"),
        (action(action_type="swipe", direction="left"), "swipe", "left"),
        (action(action_type="input_text", text="x"), "type", "x"),
        (action(action_type="navigate_home"), "key", "Home"),
        (action(action_type="navigate_back"), "back", None),
        (action(action_type="keyboard_enter"), "key", "Enter"),
        (action(action_type="open_app", app_name="Clock"), "open_app", "Clock"),
        (action(action_type="wait"), "wait", None),
        (action(action_type="answer", text="a"), "say", "a"),
        (action(action_type="answer", text="b"), "answer", "b"),
        (action(action_type="unknown"), "other", None),
        (action(action_type="status", goal_status="infeasible"), "fail", None),
        (action(action_type="status", goal_status="complete"), "done", None),
        (action(action_type="dance"), "other", None),
        ({"action_type": "click", "x": 1, "y": 2}, "click", None),
    ]
    data = {"action_output_json": [made for made, _, _ in expected], "step_number": list(range(len(expected)))}
    found = one(tmp_path, [episode(data)])
    assert [(step.op, step.value) for step in found.steps] == [(op, value) for _, op, value in expected]
    assert found.answer == "b" and set(androidworld.ACTIONS.values()) <= set(OPS)


def test_seeact_and_random_agents_are_read_too(tmp_path: Path) -> None:
    seeact = {
        "screenshot": [screen(0)],
        "ui_elements": [ELEMENTS],
        "actionable_elements": [[foreign("android_world.agents.seeact_utils.SeeActElement", ui_element=ELEMENTS[1])]],
        "action_gen_response": ["I look for the name."],
        "action": [action(action_type="click", index=0)],
        "step_number": [0],
    }
    write(tmp_path / "a_0.pkl", [episode(seeact)])
    write(tmp_path / "b_0.pkl", [episode({"raw_screenshot": [screen(0), screen(1)], "ui_elements": [ELEMENTS] * 2, "step_number": [0, 1]})])
    first, second = androidworld.read(tmp_path, {})
    assert (
        first.native_id == "a_0" and first.steps[0].target.text == "EditText 'Name'" and first.steps[0].reasoning == "I look for the name."
    )
    assert [step.op for step in second.steps] == ["other", "other"] and second.steps[1].before is not None


@pytest.mark.parametrize(
    ("reward", "crash", "oracle"),
    [
        (1.0, None, Oracle("androidworld", 1.0, "pass")),
        (0.5, None, Oracle("androidworld", 0.5, "fail")),
        (0.75, None, Oracle("androidworld", 0.75, "pass")),
        (np.float64(1.0), None, Oracle("androidworld", 1.0, "pass")),
        (True, None, Oracle("androidworld", 1.0, "pass")),
        (np.nan, "Traceback\nValueError: adb", Oracle("androidworld", None, "error", "run_error")),
        (np.float64("nan"), "Traceback\nValueError: adb", Oracle("androidworld", None, "error", "run_error")),
        (np.nan, None, Oracle("androidworld", None, "unscored", "no_reward")),
        (None, np.nan, Oracle("androidworld", None, "unscored", "no_reward")),
        ("1", None, Oracle("androidworld", None, "unscored", "no_reward")),
    ],
)
def test_a_reward_becomes_a_verdict(reward: Any, crash: Any, oracle: Oracle, tmp_path: Path) -> None:
    assert one(tmp_path, [episode(m3a(), is_successful=reward, exception_info=crash)]).oracles == [oracle]


def test_episodes_without_steps_are_counted_with_their_reason(tmp_path: Path) -> None:
    crashed = episode(
        np.nan, is_successful=np.nan, exception_info="Traceback …\nRuntimeError: Error calling LLM in action selection phase."
    )
    write(tmp_path / FILE, [crashed, episode({}), episode(np.float64("nan")), episode(m3a()), "text", episode({"step_number": []})])
    found = list(androidworld.read(tmp_path, {}))
    assert [(type(record).__name__, getattr(record, "reason", None)) for record in found] == [
        ("Skipped", "crashed"),
        ("Skipped", "no_steps"),
        ("Skipped", "no_steps"),
        ("Trajectory", None),
        ("Skipped", "bad_record"),
        ("Trajectory", None),
    ]
    assert found[0].item == f"{FILE}[0]" and "RuntimeError: Error calling LLM" in found[0].detail
    assert found[3].native_id == FILE.removesuffix(".pkl.gz") + "/3" and found[5].steps == []


def test_the_older_single_file_of_a_run_is_read(tmp_path: Path) -> None:
    found = one(tmp_path, ([episode(m3a())], ["ContactsAddContact"]), "run/all.pkl.gz")
    assert isinstance(found, Trajectory) and len(found.steps) == 6


def test_a_list_of_another_length_is_left_out_with_a_note(tmp_path: Path) -> None:
    found = one(tmp_path, [episode(m3a() | {"action_reason": ["only one"]})])
    assert len(found.steps) == 6 and all(step.reasoning in (None, "r") for step in found.steps)
    assert found.skipped == [("row", f"{FILE}[0] action_reason", "count_mismatch", "1 values for 6 steps")]


@pytest.mark.parametrize("shot", ["text", np.zeros((40, 30), "f4"), np.zeros((2, 2, 3), "u1"), b"png", {"a": 1}])
def test_a_screenshot_that_is_none_is_noted(shot: Any, tmp_path: Path) -> None:
    found = one(tmp_path, [episode({"raw_screenshot": [shot], "action": [action(action_type="wait")], "step_number": [0]})])
    assert found.steps[0].before is None
    assert [note[:3] for note in found.skipped] == [("picture", f"{FILE}#0/raw_screenshot/0", "bad_screen")]


def test_options_select_files_and_agents(tmp_path: Path) -> None:
    for name in ("run_a/X_0", "run_b/X_0", "run_b/Y_1"):
        write(tmp_path / f"{name}.pkl.gz", [episode(m3a(), agent_name=f"agent-{name[4]}")])

    def read(**options: Any) -> list[str]:
        return [found.native_id for found in androidworld.read(tmp_path, options)]

    assert read() == ["run_a/X_0", "run_b/X_0", "run_b/Y_1"]
    assert read(files=["run_b/*"]) == ["run_b/X_0", "run_b/Y_1"] and read(files=["*_1.pkl.gz"]) == ["run_b/Y_1"]
    assert read(agents=["agent-a"]) == ["run_a/X_0"] and read(agents=["agent-*"]) == read() and read(agents=["none"]) == []


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_every_protocol_and_an_unpacked_file_give_the_same(protocol: int, tmp_path: Path) -> None:
    found = one(tmp_path / "x", [episode(m3a())], "run/T_0.pkl", protocol)
    assert np.array_equal(pixels(found.steps[5].before.load()), screen(5))
    assert [step.op for step in found.steps] == ["click", "click", "type", "other", "answer", "done"]


def test_a_file_that_is_no_list_or_no_pickle_is_skipped(tmp_path: Path) -> None:
    write(tmp_path / "a_0.pkl", {"goal": "x"})
    (tmp_path / "b_0.pkl.gz").write_bytes(gzip.compress(b"junk"))
    (tmp_path / "c_0.pkl.gz").write_bytes(gzip.compress(pickle.dumps([1]))[:20])
    (tmp_path / "notes.txt").write_bytes(b"x")
    assert [(found.item, found.reason) for found in androidworld.read(tmp_path, {})] == [
        ("a_0.pkl", "bad_record"),
        ("b_0.pkl.gz", "bad_pickle"),
        ("c_0.pkl.gz", "truncated"),
    ]


def test_one_list_named_very_often_is_not_a_million_steps(tmp_path: Path) -> None:
    write(tmp_path / "a_0.pkl", [episode(dict.fromkeys(androidworld._FIELDS, [None] * 200_000))] * 3)
    steps = {"step_number": list(range(400)), "ui_elements": [[ELEMENTS[3]] * 100_000] * 400}
    write(tmp_path / "b_0.pkl", [episode(steps)] * 500)
    start = time.process_time()
    reasons = [getattr(record, "reason", None) for record in androidworld.read(tmp_path, {"files": ["a*"]})]
    assert reasons == ["too_large"] * 3
    kept = 0
    for record in androidworld.read(tmp_path, {"files": ["b*"]}):
        if kept == 2:
            break
        kept += isinstance(record, Trajectory)
    assert time.process_time() - start < 30


def test_a_file_of_too_many_steps_ends_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(androidworld, "_FILE_LIMIT", 10)
    write(tmp_path / "a_0.pkl", [episode(m3a())] * 5)
    found = list(androidworld.read(tmp_path, {}))
    assert [getattr(record, "reason", None) for record in found] == [None, None, "too_large"]
    assert found[2].item == "a_0.pkl[2]" and found[2].detail.startswith("3 episodes")


def test_damaged_files_end_as_records_or_reasons(tmp_path: Path) -> None:
    data = dumps([episode(m3a())])
    draw = random.Random(3)
    start = time.process_time()
    for number in range(60):
        damaged = bytearray(data)
        for _ in range(draw.randint(1, 20)):
            # the screens are most of the file, and their bytes are as good as any others
            place = draw.choice([draw.randrange(400), len(data) - 1 - draw.randrange(4_000)])
            damaged[place] = draw.randrange(256)
        (tmp_path / "x_0.pkl").write_bytes(gzip.compress(bytes(damaged), 1) if number % 2 else bytes(damaged))
        for found in androidworld.read(tmp_path, {}):
            assert isinstance(found, Trajectory | Skipped)
            if isinstance(found, Trajectory):
                assert all(step.op in OPS for step in found.steps)
                for pair in align(found):
                    assert pair.before is None or len(pair.before.load()) > 54
    assert time.process_time() - start < 30


def test_a_run_goes_through_normalising_with_its_pictures(tmp_path: Path) -> None:
    write(tmp_path / "in" / FILE, [episode(m3a())])
    write(tmp_path / "in" / "run_20240506T070809/Other_1.pkl.gz", [episode(t3a(), task_template="Other", instance_id=1)])
    out = tmp_path / "out"
    out.mkdir()
    source = normalise.Source("aw", "androidworld", tmp_path / "in")
    normalise.normalise(out, store.Counts("normalise"), source, 2)
    images = store.read_rows(out, "images")
    assert {row["status"] for row in images} == {"ok"} and len(images) == 6 + 4  # both agents saw the same screens before
    assert {(row["width"], row["height"]) for row in images} == {(30, 40)}
    steps = store.read_rows(out, "steps")
    assert len(steps) == 11 and all(row["before_image"] for row in steps)
    for row in images:
        data = reader("androidworld").load(tmp_path / "in", row["file"], row["member"])
        assert pixels(data).shape == (40, 30, 3)
