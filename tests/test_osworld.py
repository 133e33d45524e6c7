"""OSWorld runs in folders and archives: every dialect of their action lines, and zip archives that nobody should trust."""

import hashlib
import io
import json
import multiprocessing
import os
import struct
import threading
import zipfile
import zlib
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image

from evoaudit import pictures
from evoaudit.align import align
from evoaudit.normalise import Source, normalise
from evoaudit.sources import archive, osworld, reader
from evoaudit.sources.archive import Tree, Unreadable
from evoaudit.sources.base import Oracle, Picture, Skipped, Target, Trajectory
from evoaudit.store import Counts

A = "0810415c-bde4-4443-9047-d5f70165a697"
B = "bb5e4c0d-f964-439c-97b6-bdb9747de3f4"
C = "2ad9387a-65d8-4e33-ad5b-7580065a27ca"
RUN = "pyautogui/screenshot/model-x"
CHROME = f"{RUN}/chrome/{A}"


def png(number: int) -> bytes:
    """Return a picture of its own for every number."""
    image = Image.new("RGB", (8, 6), (number * 7 % 256, number // 36 % 256, 90))
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def text(*lines: object) -> bytes:
    return b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)


def step(number: int | None, action: object, file: str | None = "", **more: object) -> dict:
    """Return a line of the default dialect."""
    return {
        "step_num": number,
        "action_timestamp": "20250701@101502",
        "action": action,
        "response": "I do it.",
        "reward": 0,
        "done": False,
        "info": {},
        "screenshot_file": f"step_{number}_20250701@101502.png" if file == "" else file,
        **more,
    }


def shots(*names: str) -> dict[str, bytes]:
    return {name: png(number) for number, name in enumerate(names, 1)}


def run(*lines: object, result: str | bytes | None = "1.0\n", pictures: dict[str, bytes] | None = None, folder: str = CHROME) -> dict:
    """Return one task's files, with the pictures its lines name unless others are given."""
    if pictures is None:
        named = [line.get("screenshot_file") for line in lines if isinstance(line, dict)]
        pictures = shots(*dict.fromkeys(filter(None, named)))
    files = {f"{folder}/{name}": data for name, data in pictures.items()}
    files[f"{folder}/traj.jsonl"] = text(*lines)
    if result is not None:
        files[f"{folder}/result.txt"] = result if isinstance(result, bytes) else result.encode()
    return files


def lay(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def pack(path: Path, files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", method) as target:
        for name, data in files.items():
            target.writestr(zipfile.ZipInfo(name, (2025, 7, 1, 10, 15, 2)), data, method)
    return path.parent


def records(root: Path, **options: object) -> list:
    return list(osworld.read(root, options))


def only(root: Path, **options: object) -> Trajectory:
    (record,) = records(root, **options)
    assert isinstance(record, Trajectory), record
    return record


def reasons(root: Path, **options: object) -> list[tuple[str, str]]:
    return [(record.item, record.reason) for record in records(root, **options) if isinstance(record, Skipped)]


def name_of(picture: Picture | None) -> str | None:
    return None if picture is None else (picture.member or picture.file).rpartition("/")[2]


def rows(trajectory: Trajectory) -> list[tuple]:
    """Return (operation, value, place, name of the screen before, and after) of every step."""
    found = []
    for one, sides in zip(trajectory.steps, align(trajectory), strict=True):
        place = None if one.target is None or one.target.x is None else (one.target.x, one.target.y)
        found.append((one.op, one.value, place, name_of(sides.before), name_of(sides.after)))
    return found


# -- dialects -------------------------------------------------------------------------------------------------------------


def tool(action: str, command: str | None = None, **given: object) -> dict:
    call = {"name": "computer", "input": {"action": action, **given}, "id": "toolu_1", "action_type": "tool_use"}
    return call if command is None else {**call, "command": command}


S = "step_{}_20250701@101502.png".format

#: Dialect → a task's files, its steps as `rows` gives them, its verdict.
DIALECTS: dict[str, tuple[dict, list[tuple], Oracle]] = {
    "default: pyautogui source, the first screen not saved": (
        run(
            step(1, "pyautogui.click(960, 540)"),
            step(2, "import pyautogui\nimport time\npyautogui.moveTo(x=10, y=20); pyautogui.click()"),
            step(3, "pyautogui.write('Oslo', interval=0.05)"),
            step(4, "pyautogui.hotkey('ctrl', 's')"),
            step(5, "WAIT"),
            step(6, "DONE", done=True, info={"done": True}),
        ),
        [
            ("click", None, (960, 540), None, S(1)),
            ("click", None, (10, 20), S(1), S(2)),
            ("type", "Oslo", None, S(2), S(3)),
            ("key", "ctrl+s", None, S(3), S(4)),
            ("wait", None, None, S(4), S(5)),
            ("done", None, None, S(5), S(6)),
        ],
        Oracle("osworld", 1.0, "pass"),
    ),
    "computer_13: objects": (
        run(
            step(1, {"action_type": "MOVE_TO", "x": 5, "y": 6}),
            step(2, {"action_type": "CLICK", "button": "left", "x": 100, "y": 200, "num_clicks": 1}),
            step(3, {"action_type": "RIGHT_CLICK", "x": 101, "y": 201}),
            step(4, {"action_type": "DOUBLE_CLICK", "x": 102, "y": 202}),
            step(5, {"action_type": "DRAG_TO", "x": 103, "y": 203}),
            step(6, {"action_type": "SCROLL", "dx": 0, "dy": -5}),
            step(7, {"action_type": "TYPING", "text": "héllo"}),
            step(8, {"action_type": "PRESS", "key": "enter"}),
            step(9, {"action_type": "HOTKEY", "keys": ["ctrl", "c"]}),
            step(10, {"action_type": "MOUSE_DOWN", "button": "left"}),
            step(11, "FAIL", done=True, info={"fail": True}),
            result="0\n",
        ),
        [
            ("hover", None, (5, 6), None, S(1)),
            ("click", None, (100, 200), S(1), S(2)),
            ("right_click", None, (101, 201), S(2), S(3)),
            ("double_click", None, (102, 202), S(3), S(4)),
            ("drag", None, (103, 203), S(4), S(5)),
            ("scroll", "0 -5", None, S(5), S(6)),
            ("type", "héllo", None, S(6), S(7)),
            ("key", "enter", None, S(7), S(8)),
            ("key", "ctrl+c", None, S(8), S(9)),
            ("other", None, None, S(9), S(10)),
            ("fail", None, None, S(10), S(11)),
        ],
        Oracle("osworld", 0.0, "fail"),
    ),
    "Claude: the command is in screen pixels, the input in the model's": (
        run(
            step(1, tool("left_click", "pyautogui.click(960, 540)", coordinate=[640, 360])),
            step(2, tool("type", "pyautogui.typewrite('hi', interval=0.01)", text="hi")),
            step(3, tool("left_click", coordinate=[100, 200])),
            step(4, tool("scroll", coordinate=[10, 20], scroll_direction="down", scroll_amount=5)),
            step(5, tool("key", "pyautogui.hotkey('ctrl', 'l')", text="ctrl+l")),
            step(6, "FAIL", info={"fail": True}),
            result="0.0",
        ),
        [
            ("click", None, (960, 540), None, S(1)),
            ("type", "hi", None, S(1), S(2)),
            ("click", None, (150, 300), S(2), S(3)),
            ("scroll", "down 5", (15, 30), S(3), S(4)),
            ("key", "ctrl+l", None, S(4), S(5)),
            ("fail", None, None, S(5), S(6)),
        ],
        Oracle("osworld", 0.0, "fail"),
    ),
    "Claude: a place in a space nobody names is no place": (
        run(step(1, tool("left_click", coordinate=[640, 360])), step(2, "DONE"), result="False"),
        [("click", None, None, None, S(1)), ("done", None, None, S(1), S(2))],
        Oracle("osworld", 0.0, "fail"),
    ),
    "OpenAI CUA: source in an object, no response, pending checks": (
        run(
            {
                key: value
                for key, value in step(
                    1, {"action_space": "pyautogui", "action": "pyautogui.click(3, 4)", "call_id": "c1", "pending_checks": []}
                ).items()
                if key != "response"
            },
            step(
                2,
                {"action_space": "pyautogui", "action": "FAIL", "call_id": ""},
                state_correct=False,
                infeasible_message="There is no such menu.",
                model_usage={"input_tokens": 3},
                messages=[],
            ),
            result="True\n",
        ),
        [("click", None, (3, 4), None, S(1)), ("fail", "There is no such menu.", None, S(1), S(2))],
        Oracle("osworld", 1.0, "pass"),
    ),
    "OpenCUA: step_0 is saved, and files lack the time their lines name": (
        run(
            step(1, "pyautogui.click(x=7, y=8)", natural_language_action="Click it."),
            step(2, "computer.triple_click(x=9, y=10)", natural_language_action="Select the line."),
            step(3, "computer.terminate(status='success', answer='42')", natural_language_action="Finish."),
            pictures=shots("step_0.png", "step_1.png", "step_2.png", "step_3.png", "step_10.png"),
            result="0.5",
        ),
        [
            ("click", None, (7, 8), "step_0.png", "step_1.png"),
            ("double_click", None, (9, 10), "step_1.png", "step_2.png"),
            ("done", "42", None, "step_2.png", "step_3.png"),
        ],
        Oracle("osworld", 0.5, "fail"),
    ),
    "hybrid: parsed actions, and what the tool said": (
        run(
            step(1, "call the sheet tool", action_type="mcp", parsed_action={"name": "set_cell"}, exec_ok=True, exec_result="ok"),
            step(
                2,
                "<action/>",
                action_type="gui",
                parsed_action={"action_type": "CLICK", "x": 11, "y": 12},
                exec_ok=False,
                exec_result="no window",
            ),
            step(3, None, action_type="gui", parsed_action="pyautogui.press('esc')", exec_ok=False, exec_result={"code": 3}),
            pictures=shots("step_0.png", S(1), S(2), S(3)),
            result="1",
        ),
        [
            ("other", None, None, "step_0.png", S(1)),
            ("click", None, (11, 12), S(1), S(2)),
            ("key", "esc", None, S(2), S(3)),
        ],
        Oracle("osworld", 1.0, "pass"),
    ),
    "human: the initial state is saved": (
        run(step(1, "pyautogui.click(1, 2)"), step(2, "DONE"), pictures=shots("initial_state.png", S(1), S(2)), result=None),
        [("click", None, (1, 2), "initial_state.png", S(1)), ("done", None, None, S(1), S(2))],
        Oracle("osworld", None, "unscored", "no_result"),
    ),
    "one call, several actions: numbers repeat, and a picture of two actions is neither's": (
        run(
            step(1, "pyautogui.click(1, 1)", "a.png"),
            step(2, "pyautogui.click(2, 2)", "b.png"),
            step(2, "pyautogui.press('enter')", "b.png"),
            step(3, "pyautogui.click(3, 3)", "c.png"),
            step(3, "pyautogui.click(4, 4)", "d.png"),
        ),
        [
            ("click", None, (1, 1), None, "a.png"),
            ("click", None, (2, 2), "a.png", None),
            ("key", "enter", None, None, "b.png"),
            ("click", None, (3, 3), "b.png", "c.png"),
            ("click", None, (4, 4), "c.png", "d.png"),
        ],
        Oracle("osworld", 1.0, "pass"),
    ),
    "an error line, then a line that breaks off: the chain breaks too": (
        run(
            step(1, "pyautogui.click(1, 1)"),
            {"Error": f"chrome/{A} - the connection was lost"},
            step(2, "pyautogui.click(2, 2)"),
            b'{"step_num": 3, "action_timestamp": "2025',
            result=None,
        ),
        [("click", None, (1, 1), None, S(1)), ("click", None, (2, 2), None, S(2))],
        Oracle("osworld", None, "error", "run_error"),
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_dialect_in_a_folder_gives_these_steps(tmp_path, dialect):
    files, expected, oracle = DIALECTS[dialect]
    found = only(lay(tmp_path, files))
    assert rows(found) == expected
    assert found.oracles == [oracle]
    assert (found.native_id, found.source_file) == (CHROME, f"{CHROME}/traj.jsonl")
    assert (found.agent, found.experiment, found.domain, found.task_id) == ("model-x", "pyautogui/screenshot", "chrome", A)
    assert (found.benchmark, found.obs_phase, found.license) == ("osworld", "after", "MIT")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_same_run_zipped_gives_the_same_trajectory_and_bytes(tmp_path, dialect):
    files, _, _ = DIALECTS[dialect]
    loose = only(lay(tmp_path / "loose", files))
    packed = only(pack(tmp_path / "packed" / "x_15steps.zip", files))
    assert packed.native_id == f"x_15steps/{loose.native_id}"
    assert (packed.source_file, packed.experiment) == ("x_15steps.zip", f"x_15steps/{loose.experiment}")
    for one, other in zip(loose.steps, packed.steps, strict=True):
        for side in ("before", "after"):
            file, member = getattr(one, side), getattr(other, side)
            assert (file is None) == (member is None)
            if file is not None:
                assert (member.file, member.member) == ("x_15steps.zip", file.file)
                assert member.load() == (tmp_path / "loose" / file.file).read_bytes()
                assert reader("osworld").load(tmp_path / "packed", member.file, member.member) == member.load()
        assert replace(one, before=None, after=None) == replace(other, before=None, after=None)
    assert [entry[:1] + entry[2:] for entry in loose.skipped] == [entry[:1] + entry[2:] for entry in packed.skipped]
    assert (loose.oracles, loose.answer, loose.agent) == (packed.oracles, packed.answer, packed.agent)


def test_what_is_left_out_of_an_archive_is_named_with_it(tmp_path):
    files, _, _ = DIALECTS["an error line, then a line that breaks off: the chain breaks too"]
    assert [(entry[1], entry[2]) for entry in only(pack(tmp_path / "x.zip", files)).skipped] == [
        (f"x.zip/{CHROME}/traj.jsonl:2", "error_line"),
        (f"x.zip/{CHROME}/traj.jsonl:4", "bad_json"),
    ]


def test_reasoning_error_and_raw_action_are_kept(tmp_path):
    hybrid = only(lay(tmp_path / "a", DIALECTS["hybrid: parsed actions, and what the tool said"][0])).steps
    assert [one.error for one in hybrid] == [None, "no window", '{"code": 3}']
    assert [one.op_raw for one in hybrid] == ["call the sheet tool", "<action/>", "pyautogui.press('esc')"]
    said = [
        step(1, "WAIT", response=[{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Wait."}]),
        step(2, "WAIT", response="", natural_language_action="Wait a little."),
        step(3, "WAIT", response=None, messages=[{"role": "assistant", "content": [{"type": "output_text", "text": "So."}]}]),
        step(4, "WAIT", response={"content": {"content": {"content": {"content": {"content": "too deep"}}}}}),
    ]
    assert [one.reasoning for one in only(lay(tmp_path / "b", run(*said))).steps] == ["Hm.\nWait.", "Wait a little.", "So.", None]


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        ("20250701@101502", 1751364902.0),
        ("20250701@101502250000", 1751364902.25),
        ("20250701@10150225", 1751364902.25),
        ("20250731@999999", None),
        ("yesterday", None),
        (None, None),
    ],
)
def test_a_timestamp_is_read_with_and_without_microseconds(tmp_path, stamp, seconds):
    assert only(lay(tmp_path, run(step(1, "WAIT", action_timestamp=stamp)))).steps[0].timestamp == seconds


@pytest.mark.parametrize(
    ("info", "op"), [({"fail": True}, "fail"), ({"done": True}, "done"), ({"done": "yes"}, "other"), ({}, "other"), (None, "other")]
)
def test_an_action_nobody_can_read_ends_the_run_where_its_info_says_so(tmp_path, info, op):
    assert only(lay(tmp_path, run(step(1, "finished()", info=info)))).steps[0].op == op


def test_tool_places_are_scaled_only_by_the_one_space_that_fits_all(tmp_path):
    def places(*calls: dict) -> list[Target | None]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        return [one.target for one in only(lay(folder, run(*(step(n, call) for n, call in enumerate(calls, 1))))).steps]

    def both(x: int, y: int, width: int, height: int) -> dict:
        return tool("left_click", f"pyautogui.click({x}, {y})", coordinate=[x * width // 1920, y * height // 1080])

    alone = tool("left_click", coordinate=[512, 384])
    assert places(both(960, 540, 1024, 768), alone)[1] == Target(960, 540)
    assert places(both(960, 540, 1280, 800), alone)[1] == Target(768, 518)
    assert places(both(960, 540, 1024, 768), both(960, 540, 1280, 720), alone)[2] is None
    assert places(both(0, 0, 1280, 720), alone)[1] is None
    assert places(both(960, 540, 999, 555), alone)[1] is None
    assert places(both(960, 540, 1280, 720), tool("left_click", coordinate=["a", None]))[1] is None
    drag = tool("left_click_drag", coordinate=[300, 400], start_coordinate=[100, 200])
    assert places(both(960, 540, 1280, 720), drag)[1] == Target(150, 300)
    ends = tool("left_click_drag", "pyautogui.dragTo(450, 600)", coordinate=[300, 400], start_coordinate=[100, 200])
    assert places(both(960, 540, 1280, 720), ends, alone)[2] == Target(768, 576)


# -- where a run lies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "inner", "agent", "experiment"),
    [
        ("o3_15steps.zip", "", "o3_15steps", None),
        ("o3_15steps.zip", "o3_15steps", "o3_15steps", "o3_15steps"),
        ("a.zip", "pyautogui/screenshot/claude-x", "claude-x", "a/pyautogui/screenshot"),
        ("opencua.zip", "opencua-32b/turn_2", "opencua-32b", "opencua/turn_2"),
        ("sub/b.ZIP", "x", "x", "sub/b"),
        (None, "results/pyautogui/screenshot/m", "m", "results/pyautogui/screenshot"),
        (None, "1", "1", None),
    ],
)
def test_run_and_agent_follow_from_the_path(tmp_path, file, inner, agent, experiment):
    files = run(step(1, "DONE"), folder="/".join(filter(None, [inner, "os", A])))
    if file:
        pack(tmp_path / file, files)
    else:
        lay(tmp_path, files)
    found = only(tmp_path)
    assert (found.agent, found.experiment, found.domain, found.task_id) == (agent, experiment, "os", A)
    assert found.native_id == "/".join(filter(None, [file and file[:-4], inner, "os", A]))


def test_the_known_domain_above_a_uuid_is_the_task_even_if_other_uuids_follow(tmp_path):
    found = only(lay(tmp_path, run(step(1, "DONE"), folder=f"m/gimp/{A}/{B}")))
    assert (found.agent, found.domain, found.task_id, found.experiment) == ("m", "gimp", A, B)


def test_folders_and_archives_are_read_side_by_side_and_an_unpacked_twin_has_the_same_id(tmp_path):
    files = run(step(1, "DONE"))
    lay(tmp_path / "x", files)
    lay(tmp_path, run(step(1, "FAIL"), folder=f"m/os/{B}"))
    pack(tmp_path / "x.zip", files)
    pack(tmp_path / "y.zip", files)
    assert [one.native_id for one in records(tmp_path)] == [f"m/os/{B}", f"x/{CHROME}", f"x/{CHROME}", f"y/{CHROME}"]


def test_options_choose_archives_folders_and_agents(tmp_path):
    for name in ("a.zip", "b.zip", "sub/c.zip"):
        pack(tmp_path / name, run(step(1, "DONE"), folder=f"os/{A}"))
    lay(tmp_path, run(step(1, "DONE"), folder=f"loose/m1/os/{A}") | run(step(1, "DONE"), folder=f"loose/m2/os/{A}"))

    def chosen(**options: object) -> list[str]:
        return [one.agent or "" if isinstance(one, Trajectory) else one.reason for one in records(tmp_path, **options)]

    assert chosen() == ["m1", "m2", "a", "b", "c"]
    assert chosen(files=["a.zip"]) == ["a"]
    assert chosen(files=["*.zip"]) == ["a", "b", "c"]
    assert chosen(files=["loose/m1/*", "sub/"]) == ["m1", "c"]
    assert chosen(files=["loose/*/traj.jsonl"], agents=["m*"]) == ["m1", "m2"]
    assert chosen(agents=["b", "m2"]) == ["m2", "b"]
    assert chosen(files=["A.zip"]) == ["no_such_file"]
    (wrong,) = records(tmp_path, agents=["gpt"])
    assert (wrong.reason, wrong.detail) == ("no_such_agent", "no run of such an agent; found: a, b, c, m1, m2")


def test_litter_and_a_tasks_own_archives_are_passed_over(tmp_path):
    files = run(step(1, "DONE"))
    extra = {
        f"__MACOSX/{CHROME}/traj.jsonl": b"x",
        f"{CHROME}/._traj.jsonl": b"x",
        f"{CHROME}/cache.zip": b"no zip",
        ".cache/a/traj.jsonl": b"",
    }
    extra |= {f"{CHROME}/runtime.log": b"log", f"{CHROME}/recording.mp4": b"film", f"{RUN}/args.json": b'{"api_key": "sk-secret"}'}
    lay(tmp_path / "loose", files | extra)
    pack(tmp_path / "packed" / "x.zip", files | extra)
    assert "secret" not in repr(only(tmp_path / "loose")) + repr(only(tmp_path / "packed"))


def test_folders_that_are_no_trajectory_are_reported(tmp_path):
    files = {
        f"m/os/{A}/status.json": b"{}",
        f"m/os/{B}/task_summary.json": b'{"reward": 1}',
        f"m/os/{B}/actions.json": b"[]",
        f"m/os/{B}/result.txt": b"1",
        f"m/vlc/{A}/result.txt": b"1",
        f"m/vlc/{B}/runtime.log": b"crashed",
        f"m/gimp/{A}/recording.mp4": b"",
        **run(step(1, "DONE"), folder=f"m/gimp/{A}/0"),
    }
    expected = [
        (f"m/os/{A}", "other_schema"),
        (f"m/os/{B}", "other_schema"),
        (f"m/vlc/{A}", "no_trajectory_file"),
        (f"m/vlc/{B}", "no_trajectory_file"),
    ]
    assert reasons(lay(tmp_path / "loose", files)) == expected
    assert reasons(pack(tmp_path / "packed" / "x.zip", files)) == [(f"x.zip/{item}", reason) for item, reason in expected]


def test_archives_of_results_only_are_another_schema_and_pictures_may_be_missing(tmp_path):
    pack(tmp_path / "results_only.zip", {f"m/os/{A}/result.txt": b"1", f"m/os/{B}/result.txt": b"0"})
    pack(tmp_path / "texts.zip", run(step(1, "pyautogui.click(1, 2)"), step(2, "DONE"), pictures={}))
    pack(tmp_path / "films.zip", {"a/readme.txt": b"hello"})
    found = records(tmp_path)
    assert [(one.item, one.reason) for one in found if isinstance(one, Skipped)] == [
        ("films.zip", "no_trajectories"),
        (f"results_only.zip/m/os/{A}", "other_schema"),
        (f"results_only.zip/m/os/{B}", "other_schema"),
    ]
    (texts,) = [one for one in found if isinstance(one, Trajectory)]
    assert [one.after.load() for one in texts.steps] == [None, None]


# -- verdicts and tasks ---------------------------------------------------------------------------------------------------


def summary(*entries: dict) -> dict[str, bytes]:
    return {"results/summary/results.json": json.dumps(entries).encode()}


def entry(task: str = A, status: str = "success", score: object = 0.0, **more: object) -> dict:
    return {"application": "chrome", "task_id": task, "status": status, "score": score, "timestamp": "2025-07-01T10:15:02", **more}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("result", "entries", "oracle"),
    [
        (None, [entry(score=1.0)], Oracle("osworld", 1.0, "pass")),
        (None, [entry(score=0)], Oracle("osworld", 0.0, "fail")),
        (None, [entry(score=None)], Oracle("osworld", None, "unscored", "no_score")),
        (
            None,
            [entry(status="error", err_message="Timed\nout")],
            Oracle("osworld", None, "error", "run_error: Timed\\nout"),
        ),
        (None, [entry(status="error")], Oracle("osworld", None, "error", "run_error")),
        (None, [entry(score=1), entry(score=1.0)], Oracle("osworld", 1.0, "pass")),
        (None, [entry(score=1), entry(score=0)], Oracle("osworld", None, "unscored", "ambiguous_summary")),
        ("0.0", [entry(score=1.0)], Oracle("osworld", 0.0, "fail")),
        ("what?", [entry(score=1.0)], Oracle("osworld", None, "unscored", "bad_result")),
        (None, [{**entry(), "application": "os"}], Oracle("osworld", None, "unscored", "no_result")),
    ],
)
def test_the_results_summary_speaks_where_a_task_has_no_result(tmp_path, packed, result, entries, oracle):
    files = run(step(1, "DONE"), result=result, folder=f"results/{CHROME}") | summary(*entries)
    root = pack(tmp_path / "x.zip", files) if packed else lay(tmp_path, files)
    (found,) = [one for one in records(root) if isinstance(one, Trajectory)]
    assert found.oracles == [oracle]


def test_what_a_summary_says_of_tasks_without_a_folder_is_not_lost(tmp_path):
    listed = summary(entry(), entry(B, "error", err_message="no machine"), {"application": "os"}, entry(C, score=1.0))
    lay(tmp_path, run(step(1, "DONE"), folder=f"results/{CHROME}") | listed)
    found = [one for one in records(tmp_path) if isinstance(one, Skipped)]
    assert [(one.unit, one.item, one.reason, one.detail) for one in found] == [
        ("row", "results/summary/results.json#2", "bad_record", "no application or task_id"),
        ("row", "results/summary/results.json#1", "no_trajectory", f"chrome/{B} has no folder (run_error: no machine)"),
        ("row", "results/summary/results.json#3", "no_trajectory", f"chrome/{C} has no folder (score 1.0)"),
    ]
    assert reasons(tmp_path, agents=["model-x"]) == [("results/summary/results.json#2", "bad_record")]


@pytest.mark.parametrize(("content", "reason"), [(b"[{", "bad_json"), (b"{}", "other_schema"), (b"\xff\xfe\xff", "not_utf8")])
def test_a_broken_summary_is_reported_and_costs_nothing_else(tmp_path, content, reason):
    lay(tmp_path, run(step(1, "DONE"), folder=f"results/{CHROME}") | {"results/summary/results.json": content})
    assert reasons(tmp_path) == [("results/summary/results.json", reason)]
    assert sum(isinstance(one, Trajectory) for one in records(tmp_path)) == 1


TASK = f"evaluation_examples/examples/chrome/{A}.json"


@pytest.mark.parametrize("func", ["infeasible", ["infeasible"]])
def test_a_task_beside_the_runs_gives_goal_and_infeasibility(tmp_path, func):
    task = {TASK: json.dumps({"instruction": "Do it.", "evaluator": {"func": func}}).encode()}
    lay(tmp_path / "a", run(step(1, "FAIL")) | task)
    pack(tmp_path / "b" / "x.zip", run(step(1, "FAIL")) | task)
    lay(pack(tmp_path / "c" / "x.zip", run(step(1, "FAIL"))), task)
    for name in "abc":
        found = only(tmp_path / name)
        assert (found.instruction, found.reference) == ("Do it.", "infeasible")


@pytest.mark.parametrize(("content", "reason"), [(b'{"instruction": "Do', "bad_json"), (b"[]", "bad_record"), (b"\xff\xff", "not_utf8")])
def test_a_task_that_cannot_be_read_is_reported_not_silently_lost(tmp_path, content, reason):
    lay(tmp_path, run(step(1, "DONE")) | {TASK: content})
    (skipped,) = only(tmp_path).skipped
    assert skipped[:3] == ("row", TASK, reason)
    assert skipped[3].startswith("no instruction: ")


# -- archives nobody should trust -------------------------------------------------------------------------------------------


#: Time of every made member: 10:15:02.
CLOCK = 10 << 11 | 15 << 5 | 1


class Entry:
    """One member of a made archive; whatever is given replaces what would be true."""

    def __init__(self, name: str | bytes, data: bytes = b"", **odd: object) -> None:
        self.name = name if isinstance(name, bytes) else name.encode()
        self.data, self.odd = data, odd


def made(*entries: Entry, wide: bool = False, disk: int = 0, password: bytes | None = None, streamed: bool = False) -> bytes:
    """Write an archive byte by byte (PKWARE's APPNOTE, sections 4.3 and 6.1), lies included.

    A ``streamed`` encrypted member has the clock where others have their checksum's first byte.
    """
    body, directory, places = b"", b"", []
    for one in entries:
        method, odd = one.odd.get("method", 8), one.odd
        packed = odd.get("raw")
        if packed is None:
            packer = zlib.compressobj(9, zlib.DEFLATED, -15)
            packed = packer.compress(one.data) + packer.flush() if method == 8 else one.data
        crc = odd.get("crc", zlib.crc32(one.data))
        flags = odd.get("flags", 0x800)
        if password is not None:
            check = CLOCK >> 8 if streamed else crc >> 24
            packed, flags = zipcrypto(b"\0" * 11 + bytes([check]) + packed, password), flags | (9 if streamed else 1)
        size, unpacked = odd.get("packed", len(packed)), odd.get("size", len(one.data))
        local = odd.get("local", one.name)
        places.append(len(body) if odd.get("at") is None else places[odd["at"]])
        if odd.get("at") is None:
            body += (
                struct.pack("<4s5H3L2H", b"PK\3\4", 20, flags, method, CLOCK, 0x5AE1, crc, size, unpacked, len(local), 0) + local + packed
            )
        extra, shown = b"", (size, unpacked, places[-1])
        if wide:
            extra, shown = struct.pack("<2H3Q", 1, 24, unpacked, size, places[-1]), (0xFFFFFFFF,) * 3
        head = (b"PK\1\2", 3 << 8 | 20, 20, flags, method, CLOCK, 0x5AE1, crc, shown[0], shown[1], len(one.name), len(extra), 0, 0, 0)
        directory += struct.pack("<4s6H3L5H2L", *head, odd.get("mode", 0o100644) << 16, shown[2]) + one.name + extra
    end, start, count = b"", len(body), len(entries)
    if wide:
        end = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(directory), start)
        end += struct.pack("<4sLQL", b"PK\6\7", 0, start + len(directory), 1)
    sizes = (0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF) if wide else (count, count, len(directory), start)
    return body + directory + end + struct.pack("<4s4H2LH", b"PK\5\6", disk, disk, *sizes, 0)


def zipcrypto(data: bytes, password: bytes) -> bytes:
    """Encrypt with the traditional cipher of zip archives."""
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0xEDB88320 if n & 1 else 0)
        table.append(n)
    state = [0x12345678, 0x23456789, 0x34567890]

    def update(byte: int) -> None:
        state[0] = state[0] >> 8 ^ table[(state[0] ^ byte) & 255]
        state[1] = ((state[1] + (state[0] & 255)) * 134775813 + 1) & 0xFFFFFFFF
        state[2] = state[2] >> 8 ^ table[(state[2] ^ state[1] >> 24) & 255]

    for byte in password:
        update(byte)
    found = bytearray()
    for byte in data:
        k = (state[2] | 2) & 0xFFFF
        found.append(byte ^ (k * (k ^ 1) >> 8) & 255)
        update(byte)
    return bytes(found)


LINES = text(step(1, "pyautogui.click(1, 2)", "s.png"), step(2, "DONE", "t.png"))
TASKS = (Entry(f"m/os/{A}/traj.jsonl", LINES), Entry(f"m/os/{A}/result.txt", b"1"), Entry(f"m/os/{A}/s.png", png(1)))
GOOD = f"m/os/{A}"


def hostile(root: Path, data: bytes) -> list:
    (root / "x.zip").write_bytes(data)
    before = sorted(path.name for path in root.parent.rglob("*"))
    found = records(root)
    assert sorted(path.name for path in root.parent.rglob("*")) == before, "reading an archive left files behind"
    return found


def test_a_made_archive_is_what_the_standard_library_reads_too(tmp_path):
    with zipfile.ZipFile(io.BytesIO(made(*TASKS))) as good:
        assert good.testzip() is None
    with zipfile.ZipFile(io.BytesIO(made(*TASKS, wide=True))) as good:
        assert good.testzip() is None
    with zipfile.ZipFile(io.BytesIO(made(*TASKS, password=b"mind2web"))) as good:
        assert good.read(TASKS[0].name.decode(), b"mind2web") == LINES


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (f"../../os/{A}/traj.jsonl", "unsafe_name"),
        (f"m/../os/{A}/traj.jsonl", "unsafe_name"),
        (f"/os/{A}/traj.jsonl", "unsafe_name"),
        (f"C:/os/{A}/traj.jsonl", "unsafe_name"),
        (f"os\\{A}\\traj.jsonl", "unsafe_name"),
        (f"os//{A}/traj.jsonl", "unsafe_name"),
        (f"./os/{A}/traj.jsonl", "unsafe_name"),
        (f"o\ns/{A}/traj.jsonl", "unsafe_name"),
        (f"os/{A}/traj.jsonl\0.png", "unsafe_name"),
        (f"os/{'é' * 128}/traj.jsonl", "unsafe_name"),
        ("a/" * 2001 + "traj.jsonl", "unsafe_name"),
        ("a/" * 64 + "traj.jsonl", "unsafe_name"),
        (b"", "unsafe_name"),
        (b"os/\xff\xfe/traj.jsonl", "not_utf8"),
    ],
)
def test_a_member_with_an_unsafe_name_is_left_out_and_the_rest_is_read(tmp_path, name, reason):
    refused, good = hostile(tmp_path, made(Entry(name, LINES), *TASKS))
    assert (refused.reason, refused.unit, good.native_id) == (reason, "file", f"x/{GOOD}")
    assert refused.item.startswith("x.zip")


def test_a_thousand_unsafe_names_are_named_up_to_a_hundred_and_counted(tmp_path):
    *refused, good = hostile(tmp_path, made(*(Entry(f"../{n}", b"") for n in range(1000)), *TASKS))
    assert (len(refused), good.native_id) == (101, f"x/{GOOD}")
    assert refused[0].item == "x.zip/../0"
    assert refused[-1].detail == "900 more: the name holds '..', '.' or an empty part"


def test_the_last_of_two_members_of_one_name_counts_as_after_unpacking(tmp_path):
    old = Entry(f"m/os/{A}/traj.jsonl", text(step(1, "FAIL")))
    refused, good = hostile(tmp_path, made(old, *TASKS))
    assert (refused.item, refused.reason) == (f"x.zip/{GOOD}/traj.jsonl", "duplicate_member")
    assert [one.op for one in good.steps] == ["click", "done"]


@pytest.mark.parametrize("mode", [0o120777, 0o020666, 0o010644])
def test_links_and_devices_are_not_followed(tmp_path, mode):
    shot = Entry(f"m/os/{A}/t.png", b"/etc/passwd", mode=mode)
    lines = Entry(f"m/os/{B}/traj.jsonl", b"../../../secret", mode=mode)
    good, refused = hostile(tmp_path, made(*TASKS, shot, lines))
    assert (refused.item, refused.reason) == (f"x.zip/m/os/{B}/traj.jsonl", "link")
    assert good.steps[0].after.load() == png(1)
    with pytest.raises(Unreadable) as raised:
        good.steps[1].after.load()
    assert (raised.value.reason, raised.value.status) == ("link", "missing")


@pytest.mark.parametrize(
    ("odd", "reason", "status"),
    [
        ({"size": 300 * 2**20}, "too_large", "too_large"),
        ({"size": 200 * 2**20}, "bomb", "too_large"),
        ({"size": 5}, "damaged", "truncated"),
        ({"size": len(LINES) + 1}, "damaged", "truncated"),
        ({"packed": 10}, "damaged", "truncated"),
        ({"crc": 1}, "damaged", "truncated"),
        ({"raw": b"\xff" * 40}, "damaged", "truncated"),
        ({"raw": b""}, "damaged", "truncated"),
        ({"local": f"m/vlc/{C}/traj.jsonl".encode()}, "damaged", "truncated"),
        ({"method": 12}, "bad_method", "missing"),
        ({"method": 14}, "bad_method", "missing"),
        ({"method": 99}, "bad_method", "missing"),
        ({"flags": 0x801}, "encrypted", "missing"),
        ({"flags": 0x820}, "bad_method", "missing"),
        ({"packed": 10**6}, "overlap", "missing"),
    ],
)
def test_a_member_that_lies_about_itself_is_refused_alone(tmp_path, odd, reason, status):
    bad = Entry(f"m/vlc/{B}/traj.jsonl", LINES, **odd)
    found = hostile(tmp_path, made(*TASKS, bad))
    assert [one.native_id for one in found if isinstance(one, Trajectory)] == [f"x/{GOOD}"]
    (refused,) = [one for one in found if isinstance(one, Skipped)]
    assert (refused.item, refused.reason, refused.unit) == (f"x.zip/m/vlc/{B}/traj.jsonl", reason, "trajectory")
    with pytest.raises(Unreadable) as raised:
        archive.load(tmp_path, "x.zip", f"m/vlc/{B}/traj.jsonl")
    assert (raised.value.reason, raised.value.status) == (reason, status)


def test_a_bomb_costs_no_more_than_its_limit(tmp_path):
    zeros = zlib.compressobj(9, zlib.DEFLATED, -15)
    raw = b"".join(zeros.compress(b"\0" * 2**20) for _ in range(64)) + zeros.flush()
    (tmp_path / "x.zip").write_bytes(made(Entry("a", b"", raw=raw, size=1000), Entry("b", b"\0" * 2**20)))
    tree = Tree(tmp_path, "x.zip")
    assert tree.read_bytes("a").reason == "damaged"
    assert tree.read_bytes("b", limit=2**20 - 1).reason == "too_large"
    assert tree.read_bytes("b") == b"\0" * 2**20


def test_members_that_share_their_bytes_are_refused(tmp_path):
    shared = Entry(f"m/os/{B}/traj.jsonl", LINES)
    twins = [Entry(f"m/os/{B}/traj.jsonl", LINES, at=3, local=shared.name) for _ in range(1)]
    twins[0].name = f"m/os/{C}/traj.jsonl".encode()
    found = hostile(tmp_path, made(*TASKS, shared, *twins))
    assert [(one.item, one.reason) for one in found if isinstance(one, Skipped)] == [
        (f"x.zip/m/os/{C}/traj.jsonl", "overlap"),
        (f"x.zip/m/os/{B}/traj.jsonl", "overlap"),
    ]
    assert [one.native_id for one in found if isinstance(one, Trajectory)] == [f"x/{GOOD}"]


def test_a_directory_with_fewer_entries_than_its_end_says_is_reported(tmp_path):
    data = bytearray(WHOLE)
    data[-12:-10] = struct.pack("<H", 9)
    refused, good = hostile(tmp_path, bytes(data))
    assert (refused.item, refused.reason, good.native_id) == ("x.zip", "directory_mismatch", f"x/{GOOD}")


def test_an_archive_inside_an_archive_is_not_opened(tmp_path):
    found = hostile(tmp_path, made(Entry("inner.zip", made(*TASKS)), *TASKS))
    assert [(one.item, one.reason) for one in found if isinstance(one, Skipped)] == [("x.zip/inner.zip", "nested_archive")]
    assert sum(isinstance(one, Trajectory) for one in found) == 1


WHOLE = made(*TASKS)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "bad_archive"),
        (b"<html>not found</html>", "bad_archive"),
        (WHOLE[:-30], "bad_archive"),
        (WHOLE[: len(WHOLE) // 2], "bad_archive"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "lfs_pointer"),
        (WHOLE.replace(b"PK\1\2", b"PK\1\3"), "bad_archive"),
        (made(*TASKS, disk=3), "bad_archive"),
        (WHOLE[-22:], "bad_archive"),
        (struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 2**32 - 1, 2**32 - 1, 0), "bad_archive"),
        (struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0, 0, 0, 0, 0), "no_trajectories"),
    ],
)
def test_an_archive_that_cannot_be_read_is_one_line(tmp_path, data, reason):
    lay(tmp_path, run(step(1, "DONE")))
    kept, refused = hostile(tmp_path, data)
    assert kept.native_id == CHROME
    assert (refused.item, refused.reason, "\n" in refused.detail) == ("x.zip", reason, False)


def test_an_archive_of_too_many_or_too_deep_names_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "NAMES_LIMIT", 10_000)
    (refused,) = hostile(tmp_path, made(*(Entry(f"{n}/" + "a" * 200 + "/b/c/d/e") for n in range(9)), *TASKS))
    assert (refused.reason, refused.detail) == ("too_many_members", "names of more than 10,000 bytes; split the archive")
    (refused,) = hostile(tmp_path, made(*(Entry(f"{n}/" + "a/" * 30) for n in range(2))))
    assert refused.reason == "too_many_members"
    monkeypatch.setattr(archive, "MEMBERS_LIMIT", 2)
    (refused,) = hostile(tmp_path, made(*TASKS))
    assert (refused.reason, refused.detail) == ("too_many_members", "more than 2 entries; split the archive")


def test_an_archive_link_that_leads_out_of_the_folder_is_not_opened(tmp_path):
    pack(tmp_path / "outside" / "x.zip", run(step(1, "DONE")))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.zip").symlink_to(tmp_path / "outside" / "x.zip")
    assert reasons(tmp_path / "in") == [("x.zip", "outside_root")]


@pytest.mark.parametrize("data", [made(*TASKS, wide=True), b"#!/bin/sh\nexit\n" + WHOLE, WHOLE[:-2] + b"\x05\0hello"])
def test_wide_prefixed_and_commented_archives_are_read(tmp_path, data):
    (found,) = hostile(tmp_path, data)
    assert found.steps[0].after.load() == png(1)
    assert found.oracles == [Oracle("osworld", 1.0, "pass")]


def test_names_are_utf8_whether_or_not_the_archive_says_so(tmp_path):
    entries = [Entry(f"modèle/os/{A}/{name}", data, flags=0) for name, data in (("traj.jsonl", LINES), ("s.png", png(1)))]
    (found,) = hostile(tmp_path, made(*entries))
    assert (found.agent, found.steps[0].after.load()) == ("modèle", png(1))


@pytest.mark.parametrize("streamed", [False, True])
def test_an_encrypted_archive_is_read_with_its_password_alone(tmp_path, streamed):
    (tmp_path / "x.zip").write_bytes(made(*TASKS, password=b"mind2web", streamed=streamed))
    name = TASKS[0].name.decode()
    assert Tree(tmp_path, "x.zip").read_bytes(name).reason == "encrypted"
    assert Tree(tmp_path, "x.zip", b"mind2web").read_bytes(name) == LINES
    assert Tree(tmp_path, "x.zip", b"mind2web").picture(f"{GOOD}/s.png").load() == png(1)
    wrong = {Tree(tmp_path, "x.zip", f"wrong{n}".encode()).read_bytes(name).reason for n in range(5)}
    assert "wrong_password" in wrong and wrong <= {"wrong_password", "damaged"}


@pytest.mark.parametrize("seed", range(40))
def test_an_archive_damaged_anywhere_never_raises(tmp_path, seed):
    data = bytearray(made(*TASKS, Entry(f"m/vlc/{B}/traj.jsonl", LINES), wide=seed % 2 == 0))
    state = zlib.crc32(f"damage {seed}".encode())
    for _ in range(1 + seed % 5):
        state = state * 1103515245 + 12345 & 0x7FFFFFFF
        data[state % len(data)] = state >> 8 & 255
    if seed % 3 == 0:
        del data[state % len(data) : state % len(data) + 1 + seed]
    for one in hostile(tmp_path, bytes(data)):
        assert isinstance(one, Trajectory | Skipped)
        for picture in [shot.after for shot in getattr(one, "steps", []) if shot.after]:
            try:
                assert picture.load() is None or picture.load() == png(1)
            except Unreadable as error:
                assert error.reason and error.strerror


# -- reading archives like folders ----------------------------------------------------------------------------------------


def test_an_archive_is_walked_like_the_folder_it_was_made_of(tmp_path):
    files = dict.fromkeys(("b/2.txt", "b/10.txt", "b.txt", "a/c/d.TXT", "a-b/e.txt", "a/z.txt", "z", "a/._z", "__MACOSX/q"), b"x")
    loose = Tree(lay(tmp_path / "loose", files))
    packed = Tree(pack(tmp_path / "x.zip", files), "x.zip")
    assert list(packed.walk()) == list(loose.walk())
    assert list(packed.files(".txt")) == list(loose.files(".txt"))
    for tree in (loose, packed):
        assert [name for name in ("a/z.txt", "a", "nothing", "../x.zip", "", None) if tree.is_file(name)] == ["a/z.txt"]
        assert tree.read_bytes("b/2.txt") == b"x"
        assert tree.read_bytes("b/3.txt").reason == "missing"
        with tree.open("b/2.txt") as handle:
            assert handle.read() == b"x"
        assert tree.open("b/3.txt").reason == "missing"
    assert (packed.item("a/z.txt"), loose.item("a/z.txt")) == ("x.zip/a/z.txt", "a/z.txt")


def test_json_and_lines_of_an_archive_are_read_like_files(tmp_path):
    files = {
        "a.json": b'\xef\xbb\xbf{"a": 1}',
        "b.json": b"{",
        "c.jsonl": b'{"a": 1}\n\nnot\n[2]\n',
        "d.jsonl": b"\xff\xfea\0",
        "e.jsonl": b"[" + b"1," * 99,
    }
    files["f.png"] = b"version https://git-lfs.github.com/spec/v1\n"
    trees = Tree(lay(tmp_path / "loose", files)), Tree(pack(tmp_path / "x.zip", files), "x.zip")
    for tree in trees:
        assert tree.read_json("a.json") == {"a": 1}
        assert tree.read_json("b.json").reason == "bad_json"
        assert [(n, v if not isinstance(v, Skipped) else (v.item, v.reason)) for n, v in tree.read_lines("c.jsonl")] == [
            (1, {"a": 1}),
            (3, (tree.item("c.jsonl:3"), "bad_json")),
            (4, [2]),
        ]
        assert [(n, v.reason) for n, v in tree.read_lines("d.jsonl")] == [(0, "not_utf8")]
        assert [(n, v.reason) for n, v in tree.read_lines("e.jsonl", limit=50)] == [(1, "too_large")]
        assert [(n, v.reason) for n, v in tree.read_lines("none.jsonl")] == [(0, "missing")]
        assert tree.read_bytes("f.png").reason == "lfs_pointer"


def test_a_large_member_is_streamed_and_its_damage_is_an_os_error(tmp_path):
    data = bytes(range(256)) * 4096
    (tmp_path / "x.zip").write_bytes(made(Entry("good", data), Entry("crc", data, crc=7), Entry("long", data, size=len(data) + 1)))
    tree = Tree(tmp_path, "x.zip")
    with tree.open("good") as handle:
        assert handle.read(10) == data[:10]
        assert handle.readline() == data[10:11]
        assert handle.read() == data[11:]
    for name in ("crc", "long"):
        with tree.open(name) as handle, pytest.raises(OSError, match="fetch the archive again"):
            while handle.read(2**16):
                pass


def test_a_stream_outlives_the_index_it_came_from(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "OPEN_LIMIT", 1)
    for name in ("a.zip", "b.zip"):
        pack(tmp_path / name, {"f": b"abc" * 100_000})
    with Tree(tmp_path, "a.zip").open("f") as handle:
        assert handle.read(1) == b"a"
        assert Tree(tmp_path, "b.zip").read_bytes("f")[:1] == b"a"
        assert len(archive._open) == 1
        assert len(handle.read()) == 299_999


def test_an_archive_that_changed_is_read_anew(tmp_path):
    pack(tmp_path / "x.zip", {"f": b"1"})
    assert Tree(tmp_path, "x.zip").read_bytes("f") == b"1"
    pack(tmp_path / "x.zip", {"g": b"2", "f": b"3"})
    assert Tree(tmp_path, "x.zip").read_bytes("f") == b"3"


def test_three_thousand_tasks_cost_one_look_at_the_directory(tmp_path, monkeypatch):
    files = {}
    for number in range(3000):
        files |= run(step(1, "DONE", "s.png"), folder=f"m/os/{number:08x}-0000-4000-8000-000000000000", pictures={"s.png": b"png"})
    pack(tmp_path / "x.zip", files, zipfile.ZIP_STORED)
    looks = []
    index = archive._index
    monkeypatch.setattr(archive, "_index", lambda *given: (looks.append(1), index(*given))[1])
    found = records(tmp_path)
    assert (len(found), {one.oracles[0].verdict for one in found}) == (3000, {"pass"})
    assert {one.steps[0].after.load() for one in found[::100]} == {b"png"}
    assert looks == [1]


def test_threads_share_one_archive(tmp_path):
    files = {f"{n}.png": png(n) * 50 for n in range(60)}
    pack(tmp_path / "x.zip", files)
    faults = []

    def work(start: int) -> None:
        for turn in range(300):
            name = f"{(start * 7 + turn) % 60}.png"
            if archive.load(tmp_path, "x.zip", name) != files[name]:
                faults.append(name)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_an_archive_is_normalised_to_what_its_folder_is(tmp_path):
    files = run(*(step(n, f"pyautogui.click({n}, {n})") for n in range(1, 5)), step(5, "DONE"))
    roots = {"loose": lay(tmp_path / "loose" / "x", files).parent, "packed": pack(tmp_path / "packed" / "x.zip", files)}
    tables = {}
    for name, root in roots.items():
        (tmp_path / f"{name}-out").mkdir()
        normalise(tmp_path / f"{name}-out", Counts("normalise"), Source("o", "osworld", root))
        tables[name] = {
            table: pq.read_table(tmp_path / f"{name}-out" / f"{table}.parquet").to_pylist()
            for table in ("trajectories", "steps", "changes", "images", "oracle_results", "drops")
        }
    for name, one in tables.items():
        for row in one["images"]:
            data = pictures.encoded_bytes(roots[name], row.pop("file"), row.pop("member"), "osworld")
            assert hashlib.sha256(data).hexdigest() == row["file_sha256"]
        for row in one["trajectories"]:
            file = row.pop("source_file")
            assert row.pop("source_sha256") == hashlib.sha256((roots[name] / file).read_bytes()).hexdigest()
    assert tables["loose"] == tables["packed"]
    assert [row["state"] for row in tables["packed"]["changes"]] == ["unknown"] + ["changed"] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_shares_no_open_archive(tmp_path):
    pack(tmp_path / "x.zip", {"f": b"1"})
    assert archive.load(tmp_path, "x.zip", "f") == b"1"
    child = os.fork()
    if not child:
        os._exit(len(archive._open) or (archive.load(tmp_path, "x.zip", "f") != b"1"))
    assert os.waitpid(child, 0)[1] == 0
    assert len(archive._open) >= 1


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_processes_read_an_archive_their_parent_has_open(tmp_path, method):
    files = {f"{n}.png": png(n) * 200 for n in range(30)}
    pack(tmp_path / "x.zip", files)
    assert archive.load(tmp_path, "x.zip", "0.png") == files["0.png"]
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map(partial(archive.load, tmp_path, "x.zip"), list(files) * 6, chunksize=10)
    assert found == list(files.values()) * 6
