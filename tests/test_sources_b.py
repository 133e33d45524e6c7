"""Readers of Multimodal-Mind2Web, WebLINX, WebVoyager, Online-Mind2Web, OpenCUA and AitZ."""

import json
import os
import random
import struct
import time
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evoaudit.actions import OPS
from evoaudit.align import align
from evoaudit.sources import reader
from evoaudit.sources.base import Annotation, Skipped, Trajectory
from evoaudit.sources.web import site

KINDS = ("mind2web", "weblinx", "webvoyager", "online-mind2web", "opencua", "aitz")


# -- invented files -------------------------------------------------------------------------------------------------------


def png(width: int = 8, height: int = 4, shade: int = 0) -> bytes:
    """Return a one-colour PNG."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = (b"\0" + bytes([shade]) * width) * height
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


def listing(*labels: str) -> str:
    return "Observation: please analyze the attached screenshot. Textual information.\n" + "\t".join(
        f"[{number}]: {label};" for number, label in enumerate(labels)
    )


def shown(text: str) -> dict:
    return {"role": "user", "content": [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": "-"}}]}


def reply(action: str) -> dict:
    return {"role": "assistant", "content": f"Thought: because\n\nAction: {action}"}


def webvoyager(root: Path) -> None:
    """A chat of five replies, the second and third refused."""
    goal = "Now given a task: Find a blue teapot.  Please interact with https://shop.example/ and get the answer. \n"
    write(
        root / "run/taskShop--7/interact_messages.json",
        [
            {"role": "system", "content": "rules"},
            shown(goal + listing('<input> "Search"', '<button> "Go", "Start the search"')),
            reply("Type [0]; teapot"),
            {"role": "user", "content": "Observation: A screenshot and some texts. (Omitted in context.)"},
            reply("Press it"),
            {"role": "user", "content": "That action cannot be carried out."},
            {"role": "assistant", "content": "I give no action"},
            {"role": "user", "content": "Both parts are needed."},
            reply("Click [1]"),
            shown("Observation:note: The element may not be a button. please analyze the attached screenshot\n" + listing('"Teapot"')),
            reply("ANSWER; [The blue one; it costs 5]"),
        ],
    )
    for number in (1, 2, 5):
        write(root / f"run/taskShop--7/screenshot{number}.png", png())
    write(root / "run/taskShop--8/screenshot1.png", png())


def online_mind2web(root: Path) -> None:
    # as many pictures as actions, opening with a navigation; the middle two share a reply and a capture
    write(
        root / "run/t1/result.json",
        {
            "task_id": "t1",
            "task": "Find tea",
            "final_result_response": "found",
            "thoughts": ["", "search", "search", "look"],
            "action_history": ["Navigate to https://shop.example/", "Click at (3, 2)", 'Type "tea"', "Scroll (delta_x=0, delta_y=9)"],
        },
    )
    for number, shade in ((1, 1), (2, 2), (3, 2), (4, 3)):
        write(root / f"run/t1/trajectory/{number}_full_screenshot.png", png(shade=shade))
    # one picture more than actions
    write(
        root / "run/t2/result.json",
        {"task_id": "t2", "task": "Go", "action_history": ["[button]  Go -> CLICK", "[box]  City -> TYPE: Oslo"]},
    )
    for number in (0, 1, 2):
        write(root / f"run/t2/trajectory/{number}.png", png(shade=number))
    # two pictures for four actions
    write(root / "run/t3/result.json", {"task_id": "t3", "task": "Go", "action_history": ["a -> CLICK"] * 4})
    for number in (1, 2):
        write(root / f"run/t3/trajectory/{number}.png", png())
    write(root / "run/t4/result.json", {"task_id": "t4", "task": "Go", "action_history": ["a -> CLICK"]})
    write(
        root / "run/t5/result.json",
        {
            "schema_version": "online-mind2web-v2",
            "task_id": "t5",
            "task": "Go",
            "agent_final_answer": "It is -> RED",
            "action_history": [
                {
                    "step": 0,
                    "action": "page -> NAVIGATE -> open | SUCCESS",
                    "screenshot": "0000.png",
                    "thought": None,
                    "url": "https://a.example/x",
                },
                {
                    "step": 1,
                    "action": "CLICK coords(5, 3) -> the button | FAILED",
                    "screenshot": "0001.png",
                    "thought": "try",
                    "url": "https://a.example/x",
                },
                {"step": 2, "action": "TASK_COMPLETE -> ANSWER: It is -> RED", "screenshot": "../../../x.png", "thought": None},
            ],
        },
    )
    for number in (0, 1):
        write(root / f"run/t5/trajectory/000{number}.png", png())
    write(root / "lost/trajectory/1.png", png())
    write(root / "human_label.json", {"t1": {"run": 1}, "t2": {"run": 2, "other": "0"}, "t3": "unsure"})


def opencua(root: Path) -> None:
    def step(number: int, code: str | None, **more: object) -> dict:
        return {
            "step_num": number,
            "image": f"{number}.png",
            "action": code,
            "inner_monologue": {"thought": "so", "low_level_instruction": "do"},
            **more,
        }

    truth = [{"type": "click", "metadata": {"bboxes": [{"rel_bbox": [0.25, 0.5, 0.5, 0.25]}]}}]
    write(
        root / "s1.json",
        {
            "task_id": "s1",
            "user_task_description": "Make it bold",
            "meta_info": {"domain": "Work", "applications": ["writer"]},
            "steps": [
                step(0, "pyautogui.click(x=0.5, y=0.75)", ground_truth_actions=truth),
                step(1, "pyautogui.write(message='hello')"),
                step(3, "pyautogui.hotkey(keys=['ctrl', 'b'])"),
                step(4, None),
                step(5, "pyautogui.doubleClick(x=0.5, y=0.5)"),
                step(6, "computer.terminate(status='failure')"),
            ],
        },
    )
    for number in (0, 1, 3, 6):
        write(root / f"images/{number}.png", png())
    lines = [
        {
            "task_id": "k",
            "instruction": "Sort",
            "task_completed": True,
            "traj": [{"index": 0, "image": "6.png", "value": {"code": "pyautogui.scroll(-5)", "thought": "down"}}],
        }
    ] * 2
    (root / "net.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n{broken\n")
    write(root / "notes.json", {"what": "not a session"})


def aitz(root: Path) -> None:
    def step(number: int, code: object, touch: str = "[-1.0, -1.0]", lift: str = "[-1.0, -1.0]", text: str = "") -> dict:
        return {
            "episode_id": "9",
            "step_id": number,
            "instruction": "open the map",
            "result_action_type": code,
            "result_action_text": text,
            "result_touch_yx": touch,
            "result_lift_yx": lift,
            "image_path": f"zoo/ZOO-9/ZOO-9_{number}.png",
            "coat_action_think": "hm",
            "ui_positions": "[[1, 2, 2, 4], [0, 0, 4, 8]]",
            "ui_text": '["Map", ""]',
            "ui_types": '["TEXT", "ICON"]',
        }

    write(
        root / "ZOO-9/ZOO-9.json",
        [
            step(1, 4, "[0.5, 0.5]", "[0.1, 0.5]"),
            step(0, 4, "[0.5, 0.5]", "[0.52, 0.5]"),
            step(2, 3, text="north"),
            step(3, 77),
            step(4, 5),
            step(4, 5),
            step(5, "10"),
        ],
    )
    for number in range(6):
        write(root / f"ZOO-9/ZOO-9_{number}.png", png())


def turn(event: int, intent: str, shot: str | None = "good", tab: int = 1, zoom: float = 1, kind: str = "typed", **more: object) -> dict:
    name = None if shot is None else f"screenshot-{event}-0.png"
    tab_event = intent.startswith("tab")
    metadata = {
        "url": "" if tab_event else "https://www.news.co.uk/a",
        "tabId": -1 if tab_event else tab,
        "zoomLevel": zoom,
        "viewportWidth": -1 if tab_event else 4,
        "viewportHeight": -1 if tab_event else 4,
    }
    element = {"tagName": more.pop("tag", "BUTTON"), "textContent": " Read \n on ", "bbox": {"x": 2, "y": 1, "width": 1, "height": 2}}
    properties = {"clientX": 3, "clientY": 2} if intent == "click" else {"transitionType": kind, "url": "https://www.news.co.uk/b"}
    return {
        "type": "browser",
        "timestamp": event - 2.5,
        "state": {"screenshot": name, "page": None, "screenshot_status": shot},
        "action": {
            "intent": intent,
            "event_id": event,
            "arguments": {"metadata": metadata, "properties": properties, "element": element, **more},
        },
    }


def weblinx(root: Path) -> None:
    turns = [
        {"type": "chat", "timestamp": -3.5, "speaker": "instructor", "utterance": "Find me the news"},
        turn(0, "load", None),
        turn(1, "click"),
        turn(2, "load", None, kind="link"),
        turn(4, "click"),
        turn(3, "textInput", text="weather", tag="INPUT"),  # logged when typing ended
        turn(5, "change", value="London", tag="SELECT"),
        turn(6, "change", value="on", tag="INPUT"),
        turn(7, "click", "broken"),
        turn(8, "tabswitch", None),
        turn(9, "click", tab=2, zoom=2),
        turn(10, "paste", tab=2, pasted="rain"),
        {"type": "noise"},
    ]
    demo = root / "demonstrations/aaaaaaa"
    write(demo / "replay.json", {"data": turns})
    write(demo / "metadata.json", {"user": "someone"})
    write(demo / "form.json", {"annotator": "Jane Roe", "description": "", "instructor_name": "John Roe"})
    for event in range(12):
        write(demo / f"screenshots/screenshot-{event}-0.png", png(8, 8, event))
    for name in ("replay.json", "metadata.json", "form.json", "invalid.json"):
        write(root / f"demonstrations/bbbbbbb/{name}", {})
    write(root / "demonstrations/ccccccc/replay.json", {"data": []})
    write(root / "splits.json", {"dev": ["aaaaaaa"], "valid": ["aaaaaaa"], "train": ["ccccccc"]})


def candidate(box: str, **flags: object) -> str:
    return json.dumps({"tag": "input", "attributes": json.dumps({"bounding_box_rect": box}), **flags})


def row(task: str, index: object, op: str, value: str = "", image: bytes | None = b"") -> dict:
    folded = op if op in ("TYPE", "SELECT") else "CLICK"
    reprs = [
        "[a]  Start -> CLICK",
        "[textbox]  To -> now -> TYPE: a -> b",
        "[a]  Menu -> HOVER",
        "[box]  Size -> SELECT: L",
        "[box]  Q -> ENTER",
    ]
    return {
        "annotation_id": task,
        "target_action_index": index,
        "operation": json.dumps({"original_op": op, "op": folded, "value": value}),
        "pos_candidates": [candidate("9,9,9,9", is_top_level_target=True), candidate("1.5,2,3,4", is_original_target="True")],
        "website": "shop",
        "domain": "Shopping",
        "confirmed_task": f"Do {task}",
        "action_reprs": reprs,
        "raw_html": "<p>",
        "neg_candidates": [],
        "target_action_reprs": reprs[int(index)] if str(index).isdigit() else "",
        "screenshot": None if image is None else {"bytes": image or png(shade=int(index)), "path": "x.jpg"},
    }


def mind2web(root: Path) -> None:
    """Task one is spread over both shards and out of order; task two has a hole, a twin and a row without a picture."""
    first = [row("one", "1", "TYPE", "a -> b"), row("two", "0", "CLICK"), row("two", "0", "CLICK"), row("one", "4", "ENTER")]
    second = [
        row("one", "0", "CLICK"),
        row("one", "3", "SELECT", "L"),
        row("two", "3", "SELECT", "L", None),
        row("two", "x", "CLICK", image=png()),
        row("one", "2", "HOVER"),
    ]
    (root / "data").mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate((first, second)):
        pq.write_table(pa.Table.from_pylist(rows), root / f"data/train-0000{number}-of-00002-abc.parquet", row_group_size=2)
    (root / "data/test_task-00000-of-00001.parquet").write_bytes(b"PAR1 not really")


BUILDERS = dict(zip(KINDS, (mind2web, weblinx, webvoyager, online_mind2web, opencua, aitz), strict=True))


def read(kind: str, root: Path, **options: object) -> list:
    return list(reader(kind).read(root, options))


def built(kind: str, root: Path, **options: object) -> tuple[dict[str, Trajectory], list[Skipped]]:
    BUILDERS[kind](root)
    found = read(kind, root, **options)
    return {one.native_id: one for one in found if isinstance(one, Trajectory)}, [one for one in found if isinstance(one, Skipped)]


def reasons(found: Trajectory) -> list[str]:
    return [reason for _, _, reason, _ in found.skipped]


def names(found: Trajectory) -> list[tuple[str | None, str | None]]:
    """Return the file names before and after each step, once aligned."""
    return [tuple(picture and picture.file.rpartition("/")[2] for picture in (one.before, one.after)) for one in align(found)]


# -- what holds for all ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_action_maps_to_a_known_operation(kind: str) -> None:
    assert set(reader(kind).ACTIONS.values()) <= OPS.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_reading_twice_or_elsewhere_gives_the_same(kind: str, tmp_path: Path) -> None:
    assert built(kind, tmp_path / "a") == built(kind, tmp_path / "b") != ({}, [])


@pytest.mark.parametrize("kind", KINDS)
def test_native_ids_are_unique_and_pictures_confined(kind: str, tmp_path: Path) -> None:
    BUILDERS[kind](tmp_path)
    found = [one for one in read(kind, tmp_path) if isinstance(one, Trajectory)]
    assert len({one.native_id for one in found}) == len(found)
    pictures = [picture for one in found for step in one.steps for picture in (step.before, step.after) if picture]
    assert pictures and all(not picture.file.startswith("/") and ".." not in picture.file for picture in pictures)


def damage(path: Path, draw: random.Random) -> None:
    raw = bytearray(path.read_bytes())
    for _ in range(draw.randint(1, 4)):
        kind = draw.randrange(4)
        place = draw.randrange(len(raw) + 1)
        if kind == 0:
            del raw[place:]
        elif kind == 1:
            raw[place:place] = draw.choice([b"\x00", b"\xff\xfe", b'"\\ud800"', b"null", b"[", b"{}", b"1e999", b'"../../x"', b"NaN"])
        elif kind == 2 and raw:
            raw[draw.randrange(len(raw))] = draw.randrange(256)
        else:
            del raw[place : place + draw.randint(1, 40)]
    path.write_bytes(raw)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_random_damage_never_raises(kind: str, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("damaged")
    BUILDERS[kind](root)
    draw = random.Random(seed)
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".png")
    for path in draw.sample(files, draw.randint(1, len(files))):
        damage(path, draw)
    for one in read(kind, root):
        if isinstance(one, Trajectory):
            align(one)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def replace_some(value: object, draw: random.Random, junk: list) -> object:
    if draw.random() < 0.08:
        return draw.choice(junk)
    if isinstance(value, dict):
        return {name: replace_some(inner, draw, junk) for name, inner in value.items() if draw.random() > 0.05}
    return [replace_some(inner, draw, junk) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mind2web"])
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), junk=st.lists(VALUES, min_size=1, max_size=6))
def test_fields_of_any_type_never_raise(kind: str, seed: int, junk: list, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("odd")
    BUILDERS[kind](root)
    draw = random.Random(seed)
    for path in sorted(root.rglob("*.json")):
        path.write_text(json.dumps(replace_some(json.loads(path.read_text()), draw, junk)))
    for one in read(kind, root):
        if isinstance(one, Trajectory):
            align(one)
            assert all(step.op in OPS and isinstance(step.value, str | None) and isinstance(step.op_raw, str | None) for step in one.steps)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), junk=st.lists(VALUES, min_size=1, max_size=6))
def test_mind2web_json_of_any_type_never_raises(seed: int, junk: list, tmp_path_factory: pytest.TempPathFactory) -> None:
    root, draw = tmp_path_factory.mktemp("odd"), random.Random(seed)
    rows = [row("one", str(index), "TYPE", "x") for index in range(4)]
    for one in rows:
        one["operation"] = json.dumps(replace_some(json.loads(one["operation"]), draw, junk))
        odd = replace_some(json.loads(one["pos_candidates"][1]), draw, junk)
        one["pos_candidates"] = [
            json.dumps(odd),
            json.dumps(draw.choice(junk)),
            "{",
            candidate(draw.choice(["", "1,2,3", "a,b,c,d", "1,2,3,4,5"])),
        ]
        one["target_action_reprs"] = draw.choice(["", " -> ", "[a] x -> TYPE: x", None])
    pq.write_table(pa.Table.from_pylist(rows), root / "train.parquet")
    (task,) = read("mind2web", root)
    assert len(task.steps) == 4 and all(step.op in OPS for step in task.steps)


# -- WebVoyager -----------------------------------------------------------------------------------------------------------


def test_webvoyager_refused_replies_do_not_shift_the_screens(tmp_path: Path) -> None:
    found, skipped = built("webvoyager", tmp_path)
    task = found["run/taskShop--7"]
    assert [step.before.file.rpartition("/")[2] for step in task.steps] == [f"screenshot{n}.png" for n in (1, 2, 2, 2, 5)]
    assert [step.error for step in task.steps] == [
        None,
        "That action cannot be carried out.",
        "Both parts are needed.",
        "note: The element may not be a button.",
        None,
    ]
    assert names(task)[0] == ("screenshot1.png", "screenshot2.png") and names(task)[3] == (None, "screenshot5.png")
    assert [(one.item, one.reason) for one in skipped] == [("run/taskShop--8", "no_messages")]


def test_webvoyager_reads_goal_labels_and_answer(tmp_path: Path) -> None:
    task = built("webvoyager", tmp_path)[0]["run/taskShop--7"]
    assert (task.instruction, task.website, task.domain, task.task_id, task.experiment) == (
        "Find a blue teapot.",
        "Shop",
        "shop",
        "Shop--7",
        "run",
    )
    assert [step.op for step in task.steps] == ["type", "other", "other", "click", "answer"]
    assert (task.steps[0].value, task.steps[0].target.text, task.steps[0].url) == ("teapot", '<input> "Search"', "https://shop.example/")
    assert task.answer == "The blue one; it costs 5"
    assert task.steps[3].target is None, "the marks of the screen it acted on were left out of the chat"


def test_webvoyager_an_element_without_text_is_no_target(tmp_path: Path) -> None:
    write(tmp_path / "t" / "interact_messages.json", [shown("Observation: [1]: ;\t[2]: b"), reply("Click [1]")])
    (found,) = read("webvoyager", tmp_path)
    assert found.steps[0].target is None


def test_webvoyager_many_beginnings_of_a_goal_take_no_time(tmp_path: Path) -> None:
    talk = [part for _ in range(20) for part in (shown("Observation: " + "Now given a task:" * 6000), reply("Wait"))]
    write(tmp_path / "t" / "interact_messages.json", talk)
    began = time.process_time()
    (found,) = read("webvoyager", tmp_path)
    assert found.instruction is None and time.process_time() - began < 10


def test_webvoyager_takes_unmarked_screens_only_if_all_are_there(tmp_path: Path) -> None:
    webvoyager(tmp_path)
    write(tmp_path / "run/taskShop--7/screenshot1_no_box.png", png())
    first = next(one for one in read("webvoyager", tmp_path) if isinstance(one, Trajectory))
    assert first.steps[0].before.file.endswith("screenshot1.png")
    for number in (2, 5):
        write(tmp_path / f"run/taskShop--7/screenshot{number}_no_box.png", png())
    first = next(one for one in read("webvoyager", tmp_path) if isinstance(one, Trajectory))
    assert first.steps[0].before.file.endswith("screenshot1_no_box.png")


def test_webvoyager_keeps_a_screen_without_reply_as_the_last(tmp_path: Path) -> None:
    chat = [
        shown("Now given a task: Go.  Please interact with https://a.example/ and get the answer."),
        reply("Wait"),
        shown("Observation: -"),
    ]
    write(tmp_path / "taskA--1/interact_messages.json", chat)
    for number in (1, 2, 9):
        write(tmp_path / f"taskA--1/screenshot{number}.png", png())
    (task,) = read("webvoyager", tmp_path)
    assert task.final.file == "taskA--1/screenshot2.png"
    assert [(item, reason) for _, item, reason, _ in task.skipped] == [("taskA--1/screenshot9.png", "no_reply")]


# -- Online-Mind2Web ------------------------------------------------------------------------------------------------------


def test_online_mind2web_screens_after_a_navigation_are_results(tmp_path: Path) -> None:
    task = built("online-mind2web", tmp_path)[0]["run/t1"]
    assert task.obs_phase == "after" and task.steps[1].after == task.steps[2].after, "one capture saved for two actions of one reply"
    assert names(task) == [
        (None, "1_full_screenshot.png"),
        ("1_full_screenshot.png", None),
        (None, "2_full_screenshot.png"),
        ("2_full_screenshot.png", "4_full_screenshot.png"),
    ]
    assert (task.steps[1].target.x, task.steps[2].value, task.website, task.agent) == (3.0, "tea", "shop.example", "run")


def test_online_mind2web_phase_can_be_given(tmp_path: Path) -> None:
    online_mind2web(tmp_path)
    task = next(one for one in read("online-mind2web", tmp_path, obs_phase="before") if isinstance(one, Trajectory))
    assert task.obs_phase == "before" and task.steps[0].before and not task.steps[0].after


def test_online_mind2web_one_screen_more_than_actions_begins_before_the_first(tmp_path: Path) -> None:
    task = built("online-mind2web", tmp_path)[0]["run/t2"]
    assert names(task) == [("0.png", "1.png"), ("1.png", "2.png")]
    assert [(step.op, step.value, step.target.text) for step in task.steps] == [
        ("click", None, "[button]  Go"),
        ("type", "Oslo", "[box]  City"),
    ]


def test_online_mind2web_counts_that_differ_pair_nothing(tmp_path: Path) -> None:
    found = built("online-mind2web", tmp_path)[0]
    assert reasons(found["run/t3"]) == ["count_mismatch"] * 2 and not any(step.before or step.after for step in found["run/t3"].steps)
    assert reasons(found["run/t4"]) == ["no_pictures"] and len(found["run/t4"].steps) == 1


def test_online_mind2web_numbers_with_holes_are_the_actions_own(tmp_path: Path) -> None:
    write(tmp_path / "t/result.json", {"task": "x", "action_history": ["a -> CLICK", "b -> CLICK", "c -> CLICK", "d -> CLICK"]})
    for number in (1, 2, 4):
        write(tmp_path / f"t/trajectory/{number}.png", png())
    (task,) = read("online-mind2web", tmp_path)
    assert [step.before and step.before.file for step in task.steps] == [
        "t/trajectory/1.png",
        "t/trajectory/2.png",
        None,
        "t/trajectory/4.png",
    ]


def test_online_mind2web_version_2(tmp_path: Path) -> None:
    task = built("online-mind2web", tmp_path)[0]["run/t5"]
    assert [step.op for step in task.steps] == ["navigate", "click", "answer"] and task.answer == task.steps[2].value == "It is -> RED"
    assert (task.steps[0].value, task.steps[0].url) == ("https://a.example/x", None), "a navigation names where it leads"
    assert (task.steps[1].error, task.steps[1].url, task.steps[1].target.y) == ("FAILED", "https://a.example/x", 3.0)
    assert task.obs_phase == "before" and task.steps[2].before is None and reasons(task) == ["outside_root"]


def test_online_mind2web_human_labels_name_the_runs(tmp_path: Path) -> None:
    online_mind2web(tmp_path)
    found = read("online-mind2web", tmp_path)
    labels = [(one.native_id, one.answer) for one in found if isinstance(one, Annotation)]
    assert labels == [("run/t1", "1"), ("run/t2", "2"), ("other/t2", "0")]
    assert {(one.item, one.reason, one.unit) for one in found if isinstance(one, Skipped)} == {
        ("human_label.json#2", "bad_label", "row"),
        ("lost", "no_result", "trajectory"),
    }


# -- OpenCUA --------------------------------------------------------------------------------------------------------------


def test_opencua_shares_become_pixels_of_the_picture(tmp_path: Path) -> None:
    task = built("opencua", tmp_path)[0]["s1"]
    target = task.steps[0].target
    assert (target.x, target.y, target.left, target.top, target.width, target.height) == (4, 3, 2, 2, 4, 1)
    assert task.steps[3].target is None, "without the picture a share is no place"
    assert [step.op for step in task.steps] == ["click", "type", "key", "double_click", "fail"]


def test_opencua_holes_in_the_numbers_break_adjacency(tmp_path: Path) -> None:
    task = built("opencua", tmp_path)[0]["s1"]
    assert [one.gap_before for one in align(task)] == [False, False, True, True, False] and reasons(task) == ["no_action"]
    assert task.steps[3].before.file == "images/5.png", "a picture that is missing is still the one expected"


def test_opencua_lines_with_one_task_twice_stay_apart(tmp_path: Path) -> None:
    found, skipped = built("opencua", tmp_path)
    assert {"net/k", "net/k#2"} <= found.keys()
    assert {(one.item, one.reason) for one in skipped} == {("net.jsonl:3", "bad_json"), ("notes.json", "not_a_session")}
    assert [one.answer for one in read("opencua", tmp_path) if isinstance(one, Annotation)] == ["true", "true"]


# -- AitZ -----------------------------------------------------------------------------------------------------------------


def test_aitz_short_gestures_are_taps_and_y_comes_first(tmp_path: Path) -> None:
    (task,) = built("aitz", tmp_path)[0].values()
    assert [(step.source_step, step.op) for step in task.steps] == [
        ("0", "click"),
        ("1", "swipe"),
        ("2", "type"),
        ("4", "back"),
        ("5", "done"),
    ]
    target = task.steps[0].target
    assert (target.x, target.y, target.text) == (4, 2, "[TEXT] Map") and (target.left, target.top, target.width, target.height) == (
        2,
        1,
        4,
        2,
    )
    assert (task.domain, task.steps[2].value, task.steps[2].page_text) == ("zoo", "north", "Map")


def test_aitz_unknown_and_repeated_steps_are_counted_and_break_adjacency(tmp_path: Path) -> None:
    (task,) = built("aitz", tmp_path)[0].values()
    assert reasons(task) == ["unknown_action", "duplicate_number"]
    assert [one.gap_before for one in align(task)] == [False, False, False, True, False]


# -- WebLINX --------------------------------------------------------------------------------------------------------------


def test_weblinx_turns_follow_their_screens(tmp_path: Path) -> None:
    task = built("weblinx", tmp_path)[0]["aaaaaaa"]
    assert [step.op for step in task.steps] == ["load", "click", "type", "click", "select", "other", "click", "tab", "click", "paste"]
    assert [step.source_step for step in task.steps][2:4] == ["5", "4"], "typing is logged when it ends"
    shots = names(task)
    assert shots[1] == ("screenshot-1-0.png", "screenshot-3-0.png"), "the page load between them is the click's own"
    assert shots[2] == ("screenshot-3-0.png", "screenshot-4-0.png")
    assert shots[5] == ("screenshot-6-0.png", None) and shots[6] == (None, None), "a broken capture pairs with nothing"
    assert [one.gap_before for one in align(task)] == [False] * 7 + [True, True, False]
    assert shots[8] == ("screenshot-9-0.png", "screenshot-10-0.png")


def test_weblinx_counts_what_is_no_action(tmp_path: Path) -> None:
    found, skipped = built("weblinx", tmp_path)
    assert sorted(reasons(found["aaaaaaa"])) == ["bad_turn", "chat_turn", "page_load", "screenshot_broken"]
    assert [(one.item, one.reason) for one in skipped] == [("demonstrations/bbbbbbb", "invalid"), ("demonstrations/ccccccc", "incomplete")]


def test_weblinx_values_places_and_site(tmp_path: Path) -> None:
    task = built("weblinx", tmp_path)[0]["aaaaaaa"]
    assert (task.website, task.instruction, task.experiment) == ("news.co.uk", "Find me the news", "valid")
    assert [task.steps[n].value for n in (0, 2, 4, 9)] == ["https://www.news.co.uk/b", "weather", "London", "rain"]
    assert task.steps[0].timestamp == -2.5 and task.steps[0].url is None
    plain, zoomed = task.steps[1].target, task.steps[8].target
    assert (plain.x, plain.y, plain.left, plain.text) == (6, 4, 4, "[button] Read on")
    assert (zoomed.x, zoomed.y, zoomed.left, zoomed.width) == (3, 2, 2, 1), "client pixels are the viewport's times the zoom"


def test_weblinx_box_in_neither_unit_is_left_out(tmp_path: Path) -> None:
    weblinx(tmp_path)
    path = tmp_path / "demonstrations/aaaaaaa/replay.json"
    replay = json.loads(path.read_text())
    replay["data"][2]["action"]["arguments"]["element"]["bbox"]["x"] = 900
    write(path, replay)
    task = next(one for one in read("weblinx", tmp_path) if isinstance(one, Trajectory))
    assert task.steps[1].target.left is None and task.steps[1].target.x == 6 and "box_off_pointer" in reasons(task)


def test_weblinx_copies_no_names(tmp_path: Path) -> None:
    assert "Roe" not in repr(built("weblinx", tmp_path)) and "someone" not in repr(read("weblinx", tmp_path))


def test_weblinx_reads_one_split(tmp_path: Path) -> None:
    assert [*built("weblinx", tmp_path, split="valid")[0]] == ["aaaaaaa"] and built("weblinx", tmp_path, split="test_web") == ({}, [])


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://www.bbc.co.uk/news", "bbc.co.uk"),
        ("http://mail.example.com:8080/", "example.com"),
        ("https://u.ac.jp", "u.ac.jp"),
        ("http://127.0.0.1/x", "127.0.0.1"),
        ("http://[::1]/", "::1"),
        ("http://[bad", None),
        ("about:blank", None),
        ("", None),
        (None, None),
    ],
)
def test_site_is_the_registrable_domain(address: str | None, expected: str | None) -> None:
    assert site(address) == expected


# -- Multimodal-Mind2Web --------------------------------------------------------------------------------------------------


def test_mind2web_tasks_are_gathered_over_shards(tmp_path: Path) -> None:
    found, skipped = built("mind2web", tmp_path)
    one = found["one"]
    assert [(step.source_step, step.op, step.value) for step in one.steps] == [
        ("0", "click", None),
        ("1", "type", "a -> b"),
        ("2", "hover", None),
        ("3", "select", "L"),
        ("4", "key", "Enter"),
    ]
    assert one.steps[1].target.text == "[textbox]  To -> now" and not one.skipped
    assert (one.domain, one.website, one.experiment, one.instruction) == ("shopping", "shop", "train", "Do one")
    assert [(s.item, s.reason) for s in skipped] == [("data/test_task-00000-of-00001.parquet", "unreadable")]


def test_mind2web_box_is_the_annotators_element(tmp_path: Path) -> None:
    target = built("mind2web", tmp_path)[0]["one"].steps[0].target
    assert (target.left, target.top, target.width, target.height) == (1.5, 2, 3, 4) and target.x is None


def test_mind2web_holes_twins_and_bad_indices_are_counted(tmp_path: Path) -> None:
    two = built("mind2web", tmp_path)[0]["two"]
    assert sorted(reasons(two)) == ["bad_index", "duplicate_index", "row_missing", "row_missing"]
    assert [one.gap_before for one in align(two)] == [False, True]


def test_mind2web_screens_are_read_row_by_row(tmp_path: Path) -> None:
    found = built("mind2web", tmp_path)[0]
    for order in (found["one"].steps, found["one"].steps[::-1]):
        for step in order:
            assert step.before.load() == png(shade=int(step.source_step))
    assert found["two"].steps[1].before.load() is None


def test_mind2web_one_element_lists_and_a_split_option(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    pq.write_table(
        pa.Table.from_pylist([row("old", "1", "CLICK") | {"target_action_index": ["1"]}]), tmp_path / "data/test_web-0-of-1.parquet"
    )
    assert read("mind2web", tmp_path)[0].steps[0].source_step == "1"
    assert [one.reason for one in read("mind2web", tmp_path, split="train")] == ["no_shards"]


def test_mind2web_other_tables_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "train.parquet")
    assert [one.reason for one in read("mind2web", tmp_path)] == ["wrong_columns"]


def test_mind2web_special_files_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train.parquet")
    assert [one.reason for one in read("mind2web", tmp_path)] == ["unreadable"]


# -- real logs ------------------------------------------------------------------------------------------------------------


def real(kind: str, folder: Path) -> list[Trajectory]:
    found = read(kind, folder)
    assert all(isinstance(one, Trajectory) for one in found), [one for one in found if not isinstance(one, Trajectory)]
    return found


def test_real_webvoyager_replies_and_screens_match(real_logs: Path) -> None:
    found = real("webvoyager", real_logs / "webvoyager")
    assert (len(found), sum(len(one.steps) for one in found)) == (9, 46)
    assert all(one.steps[-1].op == "answer" and one.answer and not one.skipped for one in found)
    assert all((real_logs / "webvoyager" / step.before.file).is_file() for one in found for step in one.steps)
    assert [step.error for one in found for step in one.steps if step.error] == [
        "note: The web element you're trying to type may not be a textbox, and its tag name is <button>, type is button."
    ]


def test_real_online_mind2web_pictures_are_lfs_pointers_and_shared(real_logs: Path) -> None:
    root = real_logs / "online-mind2web"
    found = real("online-mind2web", root)
    assert (len(found), sum(len(one.steps) for one in found)) == (44, 945)
    assert {one.obs_phase for one in found if any(step.after for step in one.steps)} == {"after"}
    pictures = [step.after for one in found for step in one.steps if step.after]
    assert (len(pictures), len(set(pictures))) == (34, 29)
    assert all((root / picture.file).read_bytes().startswith(b"version https://git-lfs") for picture in pictures)
    assert sum("no_pictures" in reasons(one) for one in found) == 42
    assert sum(one.lost == "shared_picture" for trajectory in found for one in align(trajectory)) == 8


def test_real_opencua_sessions_have_gaps(real_logs: Path) -> None:
    found = real("opencua", real_logs / "opencua")
    assert [len(one.steps) for one in found] == [10, 11, 7]
    assert [sum(step.gap_before for step in align(one)) for one in found] == [1, 3, 2]
    assert sum(one.before is not None and one.after is not None for trajectory in found for one in align(trajectory)) == 19
    assert all(one.steps[-1].op == "done" for one in found)


def test_real_aitz_gestures(real_logs: Path) -> None:
    (task,) = real("aitz", real_logs / "aitz")
    assert [step.op for step in task.steps] == ["key", "swipe", "click", "done"]
    assert all(one.after for one in align(task)[:-1]) and not align(task)[-1].after
    assert 163 < task.steps[2].target.x < 165 and 298 < task.steps[2].target.y < 300


def test_real_weblinx_turns_confirm_the_zoom(real_logs: Path, tmp_path: Path) -> None:
    (demo,) = json.loads((real_logs / "weblinx-fragments/cptbbef-head.trimmed.json").read_text())
    folder = tmp_path / "demonstrations/cptbbef"
    for name, content in (("replay", demo["replay"]), ("metadata", {}), ("form", {})):
        write(folder / f"{name}.json", content)
    for name in ("screenshot-1-1.png", "screenshot-2-0.png"):
        write(folder / f"screenshots/{name}", png(1536, 714))
    (task,) = read("weblinx", tmp_path)
    assert [step.op for step in task.steps] == ["load", "click", "click", "tab", "tab"] and "box_off_pointer" not in reasons(task)
    click = task.steps[1].target
    assert (round(click.x), round(click.y)) == (1383, 32) and click.left <= click.x <= click.left + click.width
    assert [one.gap_before for one in align(task)] == [False, False, False, True, True]
