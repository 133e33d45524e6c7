"""Safe JSON and folders, action texts, and the readers of the plain format, OSWorld and AgentRewardBench."""

import json
import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evoaudit.actions import OPS
from evoaudit.sources import jsonio, reader
from evoaudit.sources.agentrewardbench import QUESTIONS
from evoaudit.sources.base import Annotation, Picture, Skipped, Trajectory
from evoaudit.sources.calls import parse_calls, pyautogui
from evoaudit.sources.osworld import interpret

UUID = "0810415c-bde4-4443-9047-d5f70165a697"


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        content if isinstance(content, bytes) else content.encode() if isinstance(content, str) else json.dumps(content).encode()
    )


def lines(*values: object) -> bytes:
    return b"".join((value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n" for value in values)


def records(kind: str, root: Path) -> list:
    return list(reader(kind).read(root, {}))


def only(kind: str, root: Path) -> Trajectory:
    (record,) = records(kind, root)
    assert isinstance(record, Trajectory), record
    return record


# -- JSON and folders -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        ('{"a": "é"}'.encode("utf-16"), {"a": "é"}),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b'{"a": "x\x00y\tz"}', {"a": "x\x00y\tz"}),
        (b'{"a": "\\ud800"}', {"a": "\ud800"}),
    ],
)
def test_odd_json_is_parsed(raw, value):
    assert jsonio.parse(raw, "f") == value


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"{", "bad_json"),
        (b"", "bad_json"),
        (b"\x00", "bad_json"),
        (b'{"a": "\xff"}', "not_utf8"),
        (b"[" * 200_000, "too_deep"),
        (b'{"a":' * 100_000, "too_deep"),
        (b"[" + b"[]," * 3_000_000 + b"1]", "too_large"),
        (b"1" * 5000, "bad_json"),
    ],
)
def test_bad_json_has_a_reason(raw, reason):
    found = jsonio.parse(raw, "f:3")
    assert isinstance(found, Skipped)
    assert (found.item, found.reason) == ("f:3", reason)


def test_a_broken_line_costs_that_line_alone(tmp_path):
    write(tmp_path / "x.jsonl", b'\xef\xbb\xbf{"n": 1}\r\n\n{"n": 2\n' + b'"' + b"a" * 300 + b'"\n{"n": NaN}')
    found = list(jsonio.read_lines(tmp_path, "x.jsonl", limit=100))
    assert [number for number, _ in found] == [1, 3, 4, 5]
    assert found[0][1] == {"n": 1}
    assert [value.reason for _, value in found[1:3]] == ["bad_json", "too_large"]
    assert found[1][1].item == "x.jsonl:3"
    assert jsonio.as_float(found[3][1]["n"]) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n", "lfs_pointer"),
        ('{"a": 1}'.encode("utf-16"), "not_utf8"),
        (None, "missing"),
    ],
)
def test_a_file_that_is_no_json_lines_says_so_once(tmp_path, content, reason):
    if content is not None:
        write(tmp_path / "x.jsonl", content)
    assert [(number, value.reason) for number, value in jsonio.read_lines(tmp_path, "x.jsonl")] == [(0, reason)]


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../x", "a/../../x", "a\\..\\x", "C:/x", "a\0b", "a\nb", "", None, 3, "\ud800", "x" * 300, "a/" * 3000]
)
def test_unsafe_names_are_refused(tmp_path, name):
    assert jsonio.confined(tmp_path, name) is None
    assert not jsonio.is_file(tmp_path, name)


def test_links_may_not_leave_the_root(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    write(outside / "x.json", {})
    write(root / "in.json", {})
    (root / "file.json").symlink_to(outside / "x.json")
    (root / "folder").symlink_to(outside)
    (root / "loop").symlink_to(root)
    (root / "self.json").symlink_to(root / "in.json")
    assert jsonio.confined(root, "file.json") is None
    assert jsonio.confined(root, "folder/x.json") is None
    assert jsonio.read_json(root, "file.json").reason == "outside_root"
    assert jsonio.read_json(root, "self.json") == {}
    assert list(jsonio.files(root, ".json")) == ["file.json", "in.json", "self.json"]


def test_a_link_to_nothing_is_missing_and_one_into_a_folder_reached_before_is_looked_at_anew(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    write(root / "a" / "in.json", {"n": 1})
    write(outside / "in.json", {"n": 2})
    (root / "a" / "gone.json").symlink_to(root / "a" / "none.json")
    assert jsonio.read_json(root, "a/in.json") == {"n": 1}
    assert jsonio.read_json(root, "a/gone.json").reason == "missing"
    assert jsonio.read_json(root, "a/none.json").reason == jsonio.read_json(root, "b/none.json").reason == "missing"
    (root / "a").rename(root / "b")
    (root / "a").symlink_to(outside)
    assert jsonio.read_json(root, "a/in.json").reason == "outside_root"
    assert jsonio.read_json(root, "b/in.json") == {"n": 1}


@pytest.mark.parametrize("size", [0, 1, 2**16, 2**16 + 1, 200_000])
def test_a_file_is_read_to_its_end_or_to_the_limit(tmp_path, monkeypatch, size):
    data = bytes(n % 251 for n in range(size))
    write(tmp_path / "x", data)
    assert jsonio.contents(tmp_path, "x", 2**20) == data
    assert jsonio.contents(tmp_path, "x", 1000) == data[:1000]
    read = os.read
    monkeypatch.setattr(jsonio.os, "read", lambda file, n: read(file, min(n, 70_000)))  # as file systems over a network may
    assert jsonio.contents(tmp_path, "x", 2**20) == data


def test_special_files_are_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    assert jsonio.read_json(tmp_path, "pipe.json").reason == "unreadable"


def test_walk_is_sorted_and_leaves_litter_out(tmp_path):
    for name in ("b/2.txt", "b/10.txt", "a/x.txt", ".cache/y.txt", "__MACOSX/z.txt", "a/._x.txt", "c.txt"):
        write(tmp_path / name, b"")
    assert list(jsonio.files(tmp_path)) == ["c.txt", "a/x.txt", "b/10.txt", "b/2.txt"]
    assert sorted(["s10.png", "s9.png"], key=jsonio.natural) == ["s9.png", "s10.png"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_coercions_never_raise(value):
    for coerce in (jsonio.as_str, jsonio.as_float, jsonio.as_int, jsonio.as_bool, jsonio.as_list, jsonio.as_dict, jsonio.dump):
        coerce(value)


def test_coercions_keep_identifiers_and_refuse_what_is_no_number():
    assert jsonio.as_str("007") == "007"
    assert (jsonio.as_str(7), jsonio.as_str(True), jsonio.as_str(10**5000)) == ("7", None, None)
    assert [jsonio.as_float(value) for value in ("0.5", " 1 ", "1_0", "nan", True, float("inf"), 10**400)] == [
        0.5,
        1.0,
        None,
        None,
        None,
        None,
        None,
    ]
    assert (jsonio.as_int("3"), jsonio.as_int(3.5), jsonio.as_int(2.0)) == (3, None, 2)


# -- actions written as calls ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("pyautogui.click(960, 540)", ("click", None, 960, 540)),
        ("pyautogui.click(x=1.5*100, y=-2)", ("click", None, 150, -2)),
        ("pyautogui.click((3, 4))", ("click", None, 3, 4)),
        ("pyautogui.click(3, 4, clicks=2)", ("double_click", None, 3, 4)),
        ("pyautogui.click(3, 4, button='right')", ("right_click", None, 3, 4)),
        ("pyautogui.moveTo(3, 4); pyautogui.click()", ("click", None, 3, 4)),
        ("pyautogui.moveTo(3, 4)\npyautogui.dragTo(9, 9, duration=0.5)", ("drag", None, 3, 4)),
        ("pyautogui.mouseDown(3, 4); pyautogui.moveTo(8, 8); pyautogui.mouseUp()", ("drag", None, 3, 4)),
        ("pyautogui.moveTo(3, 4)", ("hover", None, 3, 4)),
        ("import time\npyautogui.click(1, 2); time.sleep(1); pyautogui.write('it\\'s', interval=0.1)", ("type", "it's", 1, 2)),
        ("pyautogui.hotkey('ctrl', 'a'); pyautogui.press('backspace'); pyautogui.typewrite(\"x\")", ("type", "x", None, None)),
        ("pyautogui.keyDown('ctrl'); pyautogui.press('c'); pyautogui.keyUp('ctrl')", ("key", "ctrl+c", None, None)),
        ("pyautogui.press(['a', 'Tab'])", ("key", "a tab", None, None)),
        ("pyperclip.copy('é'); pyautogui.hotkey('ctrl', 'v')", ("paste", "é", None, None)),
        ("pyautogui.scroll(-5, x=10, y=20)", ("scroll", "-5", 10, 20)),
        ("time.sleep(2)", ("wait", "2", None, None)),
        ("computer.terminate(status='failure')", ("fail", None, None, None)),
        ("computer.terminate(status='success', answer='4')", ("done", "4", None, None)),
        # more than one action lies between the screens
        ("pyautogui.click(1, 2)\npyautogui.click(5, 6)", ("other", None, 1, 2)),
        ("pyautogui.write('a'); pyautogui.press('enter')", ("other", "a", None, None)),
    ],
)
def test_pyautogui_source_is_read(text, action):
    found = pyautogui(text)
    assert (found.op, found.value, found.x, found.y) == action


def test_a_long_row_of_moves_takes_no_time():
    start = time.process_time()
    assert pyautogui("move()\n" * 2_800).op == "other"
    assert pyautogui("mouseDown()\n" + "move()\n" * 2_000 + "mouseUp()").op == "drag"
    assert time.process_time() - start < 0.8


@pytest.mark.parametrize(
    "text",
    [
        "",
        "WAIT",
        "click me",
        "for i in x: f()",
        "-" * 9999 + "1",
        "(" * 900,
        "a." * 9000 + "b()",
        "f('\ud800')\0",
        "x" * 30_000,
        "[" * 199,
        "lambda: 0",
        "(f)()()",
        "1 + 1",
    ],
)
def test_what_is_no_call_is_not_read_and_never_run(text):
    assert pyautogui(text) is None
    parse_calls(text)


@pytest.mark.parametrize("verb", ["press", "scroll", "hotkey", "click"])
def test_an_integer_too_long_to_print_is_no_argument(verb):
    assert pyautogui(f"pyautogui.{verb}(0x{'f' * 15_000})").value is None


def test_action_texts_are_never_run(tmp_path):
    marker = tmp_path / "ran"
    for text in (
        f"open({str(marker)!r}, 'w')",
        f"__import__('os').system('touch {marker}')",
        f"pyautogui.click(open({str(marker)!r}, 'w'))",
    ):
        interpret(text)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("raw", "action"),
    [
        ("DONE", ("done", None, None, None)),
        ("FAIL", ("fail", None, None, None)),
        ("WAIT", ("wait", None, None, None)),
        ({"action_type": "CLICK", "x": 3, "y": 4}, ("click", None, 3, 4)),
        ({"action_type": "CLICK", "parameters": {"button": "right", "x": 3, "y": 4}}, ("right_click", None, 3, 4)),
        ({"action_type": "CLICK", "num_clicks": 2, "x": 3, "y": 4}, ("double_click", None, 3, 4)),
        ({"action_type": "MOVE_TO", "x": 3, "y": 4}, ("hover", None, 3, 4)),
        ({"action_type": "TYPING", "text": "Oslo"}, ("type", "Oslo", None, None)),
        ({"action_type": "HOTKEY", "keys": ["Ctrl", "c"]}, ("key", "ctrl+c", None, None)),
        ({"action_type": "SCROLL", "dx": 0, "dy": -3}, ("scroll", "0 -3", None, None)),
        ({"action_type": "DRAG_TO", "x": 3, "y": 4}, ("drag", None, 3, 4)),
        ({"action_type": "FAIL"}, ("fail", None, None, None)),
        # Claude: the tool's coordinate is in the model's pixels, the command in the screen's
        (
            {
                "name": "computer",
                "input": {"action": "left_click", "coordinate": [640, 360]},
                "command": "pyautogui.click(960, 540)",
                "action_type": "tool_use",
            },
            ("click", None, 960, 540),
        ),
        (
            {"name": "computer", "input": {"action": "left_click", "coordinate": [640, 360]}, "action_type": "tool_use"},
            ("click", None, None, None),
        ),
        (
            {"name": "computer", "input": {"action": "type", "text": "hi"}, "command": "", "action_type": "tool_use"},
            ("type", "hi", None, None),
        ),
        ({"action_space": "pyautogui", "action": "pyautogui.click(3, 4)", "call_id": "c"}, ("click", None, 3, 4)),
        ({"action_space": "pyautogui", "action": "FAIL", "call_id": "c"}, ("fail", None, None, None)),
        ({"type": "keypress", "keys": ["CTRL", "S"]}, ("key", "ctrl+S", None, None)),
        ({"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]}, ("drag", None, 1, 2)),
        ({"what": "ever"}, ("other", None, None, None)),
        (17, ("other", None, None, None)),
        ([["x"]], ("other", None, None, None)),
    ],
)
def test_every_osworld_dialect_is_read(raw, action):
    found = interpret(raw)
    assert (found.op, found.value, found.x, found.y) == action


# -- the plain format -----------------------------------------------------------------------------------------------------


def test_plain_reads_what_the_contract_shows(tmp_path):
    step = {
        "step": 0,
        "action": "Click",
        "value": None,
        "x": 10,
        "y": 20,
        "reasoning": "r",
        "url": "u",
        "before_image": "img/0.png",
        "after_image": "img/1.png",
        "timestamp": None,
        "error": None,
    }
    write(
        tmp_path / "trajectories.jsonl",
        lines(
            {
                "trajectory_id": "t-1",
                "benchmark": "b",
                "task_id": "007",
                "agent": "a",
                "raw_reward": 0.0,
                "oracle": "string match",
                "answer": "…",
                "reference": "…",
                "steps": [step],
            }
        ),
    )
    found = only("plain", tmp_path)
    assert (found.native_id, found.task_id, found.obs_phase) == ("t-1", "007", "both")
    assert (found.oracles[0].oracle, found.oracles[0].raw_reward, found.oracles[0].verdict) == ("string match", 0.0, "fail")
    (read,) = found.steps
    assert (read.op, read.op_raw, read.source_step, read.target.x, read.before, read.after) == (
        "click",
        "Click",
        "0",
        10,
        Picture("img/0.png"),
        Picture("img/1.png"),
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ([1], "bad_record"),
        ({"steps": []}, "missing_field"),
        ({"trajectory_id": ["x"], "steps": []}, "missing_field"),
        ({"trajectory_id": "x"}, "missing_field"),
        ({"trajectory_id": "x", "steps": {}}, "missing_field"),
        (b'{"trajectory_id":', "bad_json"),
    ],
)
def test_a_plain_line_that_cannot_be_read_names_its_place(tmp_path, line, reason):
    write(tmp_path / "trajectories.jsonl", lines({"trajectory_id": "ok", "steps": [{"action": "click"}]}, line))
    good, bad = records("plain", tmp_path)
    assert good.native_id == "ok"
    assert (bad.item, bad.reason) == ("trajectories.jsonl:2", reason)


def test_a_plain_step_that_cannot_be_read_leaves_a_gap(tmp_path):
    steps = [
        {"action": "click"},
        "what",
        {"action": ""},
        {"action": "click", "before_image": 3},
        {"action": "Enter Text", "value": 5},
        {"action": "tap"},
    ]
    write(tmp_path / "trajectories.jsonl", lines({"trajectory_id": 1, "steps": steps}))
    found = only("plain", tmp_path)
    assert [(step.op, step.gap_before) for step in found.steps] == [("click", False), ("type", True), ("click", False)]
    assert found.steps[1].value == "5"
    assert [entry[:3] for entry in found.skipped] == [("step", f"trajectories.jsonl:1 steps[{n}]", "bad_step") for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("given", "phase"), [(("before_image",), "before"), (("after_image",), "after"), (("before_image", "after_image"), "both")]
)
def test_plain_phase_follows_from_the_pictures_given(tmp_path, given, phase):
    write(tmp_path / "trajectories.jsonl", lines({"trajectory_id": "x", "steps": [{"action": "click", **dict.fromkeys(given, "p.png")}]}))
    assert only("plain", tmp_path).obs_phase == phase


@pytest.mark.parametrize(
    ("reward", "verdict", "status"),
    [
        (1, "pass", "ok"),
        (True, "pass", "ok"),
        (0, "fail", "ok"),
        (0.4, "fail", "ok"),
        (None, "unscored", "no_reward"),
        (float("nan"), "unscored", "bad_reward"),
        ("high", "unscored", "bad_reward"),
    ],
)
def test_a_reward_that_is_no_number_is_no_fail(tmp_path, reward, verdict, status):
    write(tmp_path / "trajectories.jsonl", lines({"trajectory_id": "x", "raw_reward": reward, "steps": []}))
    (oracle,) = only("plain", tmp_path).oracles
    assert (oracle.verdict, oracle.status) == (verdict, status)


# -- OSWorld --------------------------------------------------------------------------------------------------------------


def osworld(root: Path, *entries: object, result: str | None = "0.0\n", names: tuple[str, ...] = (), below: str = "") -> Path:
    folder = root / "pyautogui" / "screenshot" / "m" / "chrome" / UUID / below
    write(folder / "traj.jsonl", lines(*entries))
    if result is not None:
        write(folder / "result.txt", result)
    for name in names:
        write(folder / name, b"png")
    return folder


def line(number: int, action: object = "pyautogui.click(1, 2)", file: str | None = "", **more) -> dict:
    return {
        "step_num": number,
        "action": action,
        "response": "r",
        "reward": 0,
        "done": False,
        "info": {},
        "action_timestamp": "20250701@101502",
        "screenshot_file": f"step_{number}.png" if file == "" else file,
        **more,
    }


def test_osworld_place_says_model_domain_and_attempt(tmp_path):
    osworld(tmp_path, line(1), below="0")
    found = only("osworld", tmp_path)
    assert found.native_id == f"pyautogui/screenshot/m/chrome/{UUID}/0"
    assert (found.agent, found.domain, found.task_id, found.experiment) == ("m", "chrome", UUID, "pyautogui/screenshot/0")
    assert found.obs_phase == "after"
    assert found.steps[0].timestamp == 1751364902.0


@pytest.mark.parametrize(
    ("text", "raw", "verdict", "status"),
    [
        ("1.0\n", 1.0, "pass", "ok"),
        ("0\n", 0.0, "fail", "ok"),
        ("0.25", 0.25, "fail", "ok"),
        ("True", 1.0, "pass", "ok"),
        ("False\n", 0.0, "fail", "ok"),
        ("\ufeff1", 1.0, "pass", "ok"),
        ("nan", None, "unscored", "bad_result"),
        ("__import__('os')", None, "unscored", "bad_result"),
        (None, None, "unscored", "no_result"),
    ],
)
def test_osworld_result_is_read_by_hand(tmp_path, text, raw, verdict, status):
    osworld(tmp_path, line(1), result=text)
    (oracle,) = only("osworld", tmp_path).oracles
    assert (oracle.raw_reward, oracle.verdict, oracle.status) == (raw, verdict, status)


def test_an_osworld_file_that_holds_only_an_error_is_left_out_with_it(tmp_path):
    osworld(tmp_path, {"Error": "chrome/x - timed out"}, result=None)
    (found,) = records("osworld", tmp_path)
    assert (found.reason, found.detail) == ("error_only", "chrome/x - timed out")


def test_an_osworld_run_that_crashed_is_an_error_not_a_fail(tmp_path):
    osworld(tmp_path, line(1), {"Error": "x"}, result=None)
    found = only("osworld", tmp_path)
    assert (found.oracles[0].verdict, found.oracles[0].status) == ("error", "run_error")
    assert [entry[2] for entry in found.skipped] == ["error_line"]


def test_osworld_lines_that_cannot_be_read_break_the_chain(tmp_path):
    osworld(tmp_path, line(1), b'{"step_num": 2, "act', line(2), line(3, None, None), line(3), [3], b'{"step_num": 4')
    found = only("osworld", tmp_path)
    assert [(step.source_step, step.gap_before) for step in found.steps] == [("1", False), ("2", True), ("3", True)]
    assert [entry[2] for entry in found.skipped] == ["bad_json", "no_action", "bad_record", "bad_json"]


def test_osworld_falls_back_to_the_only_file_with_the_steps_number(tmp_path):
    osworld(
        tmp_path,
        line(1, file="step_1_20250701@101502.png"),
        line(2, file="step_2_x.png"),
        line(3, file="/home/u/run/step_3.png"),
        names=("step_1.png", "step_2_a.png", "step_2_b.png", "step_3.png", "step_10.png"),
    )
    files = [step.after.file.rpartition("/")[2] for step in only("osworld", tmp_path).steps]
    assert files == ["step_1.png", "step_2_x.png", "step_3.png"]


@pytest.mark.parametrize("name", ["step_0.png", "step_0_20250701@101500.png", "initial_state.png"])
def test_osworld_first_screen_is_used_where_it_was_saved(tmp_path, name):
    folder = osworld(tmp_path, line(1), names=(name,))
    assert only("osworld", tmp_path).steps[0].before == Picture((folder / name).relative_to(tmp_path).as_posix())


def test_osworld_first_screen_is_not_used_if_the_first_line_is_lost(tmp_path):
    osworld(tmp_path, b"{", line(1), names=("step_0.png",))
    assert only("osworld", tmp_path).steps[0].before is None


def test_osworld_folders_of_other_schemas_are_reported(tmp_path):
    write(tmp_path / "chrome" / UUID / "status.json", {})
    write(tmp_path / "os" / UUID / "result.txt", "0")
    assert sorted((record.item, record.reason) for record in records("osworld", tmp_path)) == [
        (f"chrome/{UUID}", "other_schema"),
        (f"os/{UUID}", "no_trajectory_file"),
    ]


def test_osworld_goal_and_infeasibility_come_from_the_task_set(tmp_path):
    osworld(tmp_path, line(1, "FAIL"))
    write(
        tmp_path / "evaluation_examples" / "examples" / "chrome" / f"{UUID}.json",
        {"instruction": "do", "evaluator": {"func": "infeasible"}},
    )
    found = next(record for record in records("osworld", tmp_path) if isinstance(record, Trajectory))
    assert (found.instruction, found.reference, found.steps[0].op) == ("do", "infeasible", "fail")


def test_the_real_osworld_sample_is_read(real_logs):
    found = records("osworld", real_logs / "osworld")
    assert [len(record.steps) for record in found] == [16, 7]
    assert found[0].steps[-1].op == "fail"
    assert {step.op for record in found for step in record.steps} == {"click", "hover", "drag", "wait", "fail"}


# -- AgentRewardBench -----------------------------------------------------------------------------------------------------

ANNOTATION_HEADER = "annotator_name,benchmark,task_id,model_name,exp_name," + ",".join(QUESTIONS.values())


def episode(*steps: dict, **summary) -> dict:
    return {"benchmark": "webarena", "goal": "g", "steps": list(steps), "summary_info": {"cum_reward": 0.0, "err_msg": None, **summary}}


def shot(number: int, action: str | None, **more) -> dict:
    return {
        "num": number,
        "action": action,
        "reasoning": None,
        "url": "http://shop.example:7770/a",
        "last_action_error": "",
        "screenshot_path": f"trajectories/screenshots/webarena/m/webarena.1/screenshot_step_{number}.png",
        **more,
    }


def arb(root: Path, value: object) -> Path:
    path = root / "cleaned" / "webarena" / "m" / "e" / "webarena.1.json"
    write(path, value)
    return path


def test_agentrewardbench_episode(tmp_path):
    tree = "RootWebArea 'Shop', focused\n\t[a46] button 'Buy \"now\"', clickable, focused\n\t\tStaticText 'In stock'"
    arb(
        tmp_path,
        episode(
            shot(
                0,
                "click('a46')",
                axtree_pruned=tree,
                axtree_obj={"x": [1] * 9},
                reasoning="Buy.",
                extra_element_properties={"a46": {"bbox": [5, 6, 70, 20], "visibility": 1.0}, "b": {"bbox": None, "visibility": 0}},
            ),
            shot(1, "fill('b', 'Oslo')", last_action_error="TimeoutError: x"),
            shot(2, 'send_msg_to_user("42")'),
            shot(3, None, axtree="[1] heading 'Done'"),
        ),
    )
    found = only("agentrewardbench", tmp_path)
    assert found.native_id == "webarena/m/e/webarena.1"
    assert (found.agent, found.experiment, found.task_id, found.website, found.answer) == (
        "m",
        "e",
        "webarena.1",
        "shop.example:7770",
        "42",
    )
    assert [step.op for step in found.steps] == ["click", "type", "answer"]
    first, second, _ = found.steps
    assert (first.target.x, first.target.left, first.target.width) == (40, 5, 70)
    assert first.target.text == "button 'Buy \"now\"', clickable, focused"
    assert first.page_text == "RootWebArea 'Shop'\nbutton 'Buy \"now\"', clickable\nStaticText 'In stock'"
    # an error stands in the record after the action that caused it
    assert (first.error, second.error, second.value) == ("TimeoutError: x", None, "Oslo")
    assert first.before == Picture("screenshots/webarena/m/webarena.1/screenshot_step_0.png")
    assert found.final == Picture("screenshots/webarena/m/webarena.1/screenshot_step_3.png")
    assert found.final_text == "heading 'Done'"


def test_an_episode_that_crashed_has_no_final_screen(tmp_path):
    arb(tmp_path, episode(shot(0, "noop()"), err_msg="boom"))
    found = only("agentrewardbench", tmp_path)
    assert found.final is None
    assert (found.oracles[0].verdict, found.oracles[0].status, found.oracles[0].raw_reward) == ("error", "harness_error", 0.0)


@pytest.mark.parametrize(
    ("reward", "verdict"), [(0, "fail"), (0.5, "fail"), (0.51, "pass"), (1, "pass"), (None, "unscored"), (float("nan"), "unscored")]
)
def test_the_functional_reward_passes_above_one_half(tmp_path, reward, verdict):
    arb(tmp_path, episode(shot(0, "noop()"), cum_reward=reward))
    assert only("agentrewardbench", tmp_path).oracles[0].verdict == verdict


def test_a_message_before_the_end_is_talk(tmp_path):
    arb(tmp_path, episode(shot(0, "send_msg_to_user('wait')"), shot(1, "report_infeasible('no such item')")))
    found = only("agentrewardbench", tmp_path)
    assert [step.op for step in found.steps] == ["say", "fail"]
    assert found.answer == "no such item"


def test_a_screenshot_called_none_is_none_and_a_null_action_inside_breaks_the_chain(tmp_path):
    arb(
        tmp_path,
        episode(shot(0, "noop()", screenshot_path="a/screenshot_step_None.png"), shot(1, None), shot(2, "noop()"), "x", shot(4, None)),
    )
    found = only("agentrewardbench", tmp_path)
    assert found.steps[0].before is None
    assert [step.gap_before for step in found.steps] == [False, True]
    assert [entry[2] for entry in found.skipped] == ["no_action", "bad_record"]
    assert found.final is None


def test_several_calls_in_one_action_are_other(tmp_path):
    arb(tmp_path, episode(shot(0, "fill('1', 'a')\nclick('2')"), shot(1, "click(")))
    assert [step.op for step in only("agentrewardbench", tmp_path).steps] == ["other", "other"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "bad_json"),
        (b"[]", "bad_record"),
        (b'{"steps": 3}', "bad_record"),
        (b"\xff", "not_utf8"),
        (b'{"steps":' + b"[" * 100_000, "too_deep"),
    ],
)
def test_an_episode_that_cannot_be_read_says_why(tmp_path, content, reason):
    arb(tmp_path, content)
    (found,) = records("agentrewardbench", tmp_path)
    assert (found.item, found.reason) == ("cleaned/webarena/m/e/webarena.1.json", reason)


def test_annotators_who_disagree_are_both_kept(tmp_path):
    write(
        tmp_path / "data" / "annotations.csv",
        "\ufeff" + ANNOTATION_HEADER + "\r\n"
        "A,webarena,webarena.24,q,e,Unsuccessful,No,2. Suboptimal,Yes\r\n"
        '" H",webarena,webarena.24,q,e,Successful,No,Unsure,Yes\r\n'
        "A,webarena,short\r\n,webarena,t,q,e,a,b,c,d\r\n",
    )
    found = records("agentrewardbench", tmp_path)
    answers = [record for record in found if isinstance(record, Annotation)]
    assert [(record.annotator, record.answer, record.row) for record in answers if record.question == "success"] == [
        ("A", "Unsuccessful", 0),
        ("H", "Successful", 1),
    ]
    assert {record.native_id for record in answers} == {"webarena/q/e/webarena.24"}
    assert [(record.item, record.reason) for record in found if isinstance(record, Skipped)] == [
        ("data/annotations.csv:4", "bad_record"),
        ("data/annotations.csv:5", "missing_field"),
    ]


def test_an_annotation_file_without_its_columns_says_which(tmp_path):
    write(tmp_path / "annotations.csv", "annotator_name,benchmark\nA,b\n")
    (found,) = records("agentrewardbench", tmp_path)
    assert found.reason == "missing_field"
    assert "trajectory_looping" in found.detail


def test_annotations_that_lead_out_of_the_source_are_counted(tmp_path):
    (tmp_path / "out.csv").write_text("a\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "annotations.csv").symlink_to(tmp_path / "out.csv")
    assert [(found.unit, found.reason) for found in records("agentrewardbench", tmp_path / "in")] == [("row", "outside_root")]


def test_the_real_annotations_are_read(real_logs):
    found = [record for record in records("agentrewardbench", real_logs / "agentrewardbench") if record.question == "looping"]
    assert len(found) == 1408
    assert len({record.native_id for record in found}) == 1302
    assert "H" in {record.annotator for record in found}


# -- damage ---------------------------------------------------------------------------------------------------------------


def make(kind: str, root: Path) -> Path:
    """Write one small source and return its log file."""
    if kind == "plain":
        write(
            root / "trajectories.jsonl",
            lines(
                *[
                    {
                        "trajectory_id": f"t{n}",
                        "raw_reward": 0,
                        "steps": [
                            {"step": 0, "action": "click", "x": 1, "y": 2, "before_image": "a.png"},
                            {"step": 1, "action": "type", "value": "é"},
                        ],
                    }
                    for n in range(3)
                ]
            ),
        )
        return root / "trajectories.jsonl"
    if kind == "osworld":
        return osworld(root, line(1), line(2, {"action_type": "CLICK", "x": 1, "y": 2}), line(3, "DONE")) / "traj.jsonl"
    if kind == "annotations":
        write(root / "data" / "annotations.csv", ANNOTATION_HEADER + "\nA,webarena,webarena.24,q,e,Unsuccessful,No,2. Suboptimal,Yes\n")
        return root / "data" / "annotations.csv"
    return arb(root, episode(shot(0, "click('1')", extra_element_properties={"1": {"bbox": [1, 2, 3, 4], "visibility": 1}}), shot(1, None)))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(["plain", "osworld", "agentrewardbench", "annotations"]), seed=st.integers(0, 2**32))
def test_damaged_logs_never_raise(tmp_path_factory, kind, seed):
    root = tmp_path_factory.mktemp("damage")
    file = make(kind, root)
    raw, rng = bytearray(file.read_bytes()), random.Random(seed)
    for _ in range(rng.randint(1, 8)):
        place = rng.randrange(len(raw))
        raw[place : place + rng.randint(0, 3)] = bytes(rng.choice([rng.randrange(256), *b'"{}[],:\\0n']) for _ in range(rng.randint(0, 3)))
    file.write_bytes(bytes(raw))
    for record in records("agentrewardbench" if kind == "annotations" else kind, root):
        assert isinstance(record, Trajectory | Skipped | Annotation)
        if isinstance(record, Trajectory):
            assert {step.op for step in record.steps} <= set(OPS)


@settings(max_examples=150, deadline=None)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["action", "action_type", "input", "command", "x", "y", "keys", "text", "path", "type", "parameters", "coordinate"]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_value_as_an_action_is_read(value):
    assert interpret(value).op in OPS


@pytest.mark.parametrize("kind", ["plain", "osworld", "agentrewardbench"])
def test_every_verb_maps_to_an_operation(kind):
    assert set(reader(kind).ACTIONS.values()) <= set(OPS)
