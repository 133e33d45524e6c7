"""WebLINX demonstrations: turns, screens, adjacency, zoom, splits and forms, from files in the published layout."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from evoaudit.actions import OPS
from evoaudit.align import align
from evoaudit.sources import weblinx
from evoaudit.sources.base import Picture, Skipped, Target, Trajectory

CODE = "abcdefg"
URL = "https://www.ex.co.uk/a"


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def chat(speaker: str, utterance: str, at: float = -8.5) -> dict:
    return {"type": "chat", "timestamp": at, "speaker": speaker, "utterance": utterance}


def turn(
    event: object,
    intent: object,
    *,
    shot: object = "",
    page: object = "",
    status: object = "good",
    tab: object = 3,
    zoom: object = 1,
    at: object = None,
    client: tuple | None = None,
    mouse: tuple = (0, 0),
    box: object = None,
    url: str = URL,
    tag: str = "BUTTON",
    properties: dict | None = None,
    webtask: str | None = "abc",
    **more: object,
) -> dict:
    """Return a browser turn as the data set writes it; by default its screen and page bear its number."""
    is_tab = isinstance(intent, str) and intent.startswith("tab")
    state = {"screenshot": f"screenshot-{event}-0.png" if shot == "" else shot, "page": f"page-{event}-0.html" if page == "" else page}
    if is_tab or intent == "load":
        state = {"screenshot": None, "page": None}
    elif status is not None:
        state["screenshot_status"] = status
    element = {
        "tagName": tag,
        "textContent": " Read \n on ",
        "innerHTML": "<b>secret</b>",
        "outerHTML": "<b>secret</b>",
        "xpath": 'id("x")/b[1]',
        "attributes": {} if webtask is None else {"data-webtasks-id": webtask},
    }
    if box is not None:
        left, top, width, height = box
        element["bbox"] = {
            "x": left,
            "y": top,
            "width": width,
            "height": height,
            "top": top,
            "left": left,
            "right": left + width,
            "bottom": top + height,
        }
    metadata = {
        "url": "" if is_tab else url,
        "tabId": -1 if is_tab else tab,
        "timestamp": 1_690_000_000_000,
        "mouseX": mouse[0],
        "mouseY": mouse[1],
        "viewportWidth": -1 if is_tab else 1366,
        "viewportHeight": -1 if is_tab else 657,
        "zoomLevel": zoom,
    }
    given = properties or ({"clientX": client[0], "clientY": client[1], "button": 0} if client else {})
    arguments = {"metadata": metadata, "properties": given, **more}
    if not (is_tab or intent in ("load", "scroll", "copy")):
        arguments["element"] = element
    return {
        "type": "browser",
        "timestamp": (event + 0.5 if isinstance(event, int) else 0) if at is None else at,
        "state": state,
        "action": {"intent": intent, "event_id": event, "element_html": None, "screenshot_effect": None, "arguments": arguments},
    }


def load(event: int, kind: str | None, url: str = "https://www.ex.co.uk/b", **more: object) -> dict:
    told = {"url": url, "frameId": 0} | ({} if kind is None else {"transitionType": kind, "transitionQualifiers": []})
    return turn(event, "load", properties=told | more)


def demonstration(root: Path, *turns: object, code: str = CODE, form: object = None, width: int = 1366, height: int = 657) -> Path:
    folder = root / "demonstrations" / code
    write(folder / "replay.json", {"data": list(turns), "version": "1.0", "status": "checked"})
    write(folder / "metadata.json", {"recordingStart": 1_690_000_000_000, "recordingId": "r", "user": "jane.roe", "version": "1.0"})
    described = {"annotator": "Jane Roe", "description": "Find it", "tasks": ["Search"], "navigator_name": "Rick Moe", "shortcode": code}
    write(folder / "form.json", described if form is None else form)
    for one in turns:
        name = one.get("state", {}).get("screenshot") if isinstance(one, dict) else None
        if isinstance(name, str) and name.startswith("screenshot-"):
            (folder / "screenshots").mkdir(exist_ok=True)
            Image.new("L", (width, height)).save(folder / "screenshots" / name)
    return folder


def read(root: Path, **options: object) -> list[Trajectory | Skipped]:
    return list(weblinx.read(root, options))


def only(root: Path, **options: object) -> Trajectory:
    (found,) = read(root, **options)
    assert isinstance(found, Trajectory), found
    return found


def reasons(found: Trajectory) -> list[tuple[str, str]]:
    return [(unit, reason) for unit, _, reason, _ in found.skipped]


def shot(event: int, code: str = CODE) -> Picture:
    return Picture(f"demonstrations/{code}/screenshots/screenshot-{event}-0.png")


# -- golden rows ----------------------------------------------------------------------------------------------------------


def test_a_demonstration_in_its_published_form(tmp_path: Path) -> None:
    demonstration(
        tmp_path,
        chat("instructor", "Hello"),
        load(0, "typed"),
        chat("navigator", "Hi", 2.0),
        turn(1, "click", client=(400, 300), mouse=(400, 300), box=(390, 290, 40, 30), at=-0.25),
        load(2, "link", "https://www.ex.co.uk/c"),
        turn(3, "hover", client=(50, 60), box=(40, 50, 20, 20)),
        turn(4, "textInput", text="oslo", tag="INPUT", box=(30, 40, 90, 20)),
        turn(5, "change", value="NO", tag="SELECT", box=(30, 40, 90, 20)),
        turn(6, "change", value="on", tag="INPUT", box=(30, 40, 90, 20)),
        turn(7, "paste", pasted="bergen", tag="INPUT", box=(30, 40, 90, 20)),
        turn(8, "copy", selected="Fare"),
        turn(9, "scroll", scrollX=0, scrollY=420.5),
        turn(10, "submit", tag="FORM", box=(0, 0, 100, 100)),
        turn(11, "dance"),
        chat("navigator", "Done", 99.0),
    )
    found = only(tmp_path)
    assert (found.native_id, found.task_id, found.source_file) == (CODE, CODE, f"demonstrations/{CODE}/replay.json")
    assert (found.benchmark, found.obs_phase, found.license) == ("weblinx", "before", "CC-BY-NC-SA-4.0")
    assert (found.instruction, found.website, found.domain) == ("Find it", "ex.co.uk", "ex.co.uk")
    assert (found.agent, found.oracles, found.final, found.experiment) == (None, [], None, None)
    assert [(step.source_step, step.op, step.value) for step in found.steps] == [
        ("1", "load", "https://www.ex.co.uk/b"),
        ("3", "click", None),
        ("5", "hover", None),
        ("6", "type", "oslo"),
        ("7", "select", "NO"),
        ("8", "other", "on"),
        ("9", "paste", "bergen"),
        ("10", "copy", "Fare"),
        ("11", "scroll", "0 420.5"),
        ("12", "submit", None),
        ("13", "other", None),
    ]
    assert [step.url for step in found.steps] == [None] + [URL] * 10, "a load's metadata name the page it led to"
    assert [step.timestamp for step in found.steps][:3] == [0.5, -0.25, 3.5]
    assert [step.before for step in found.steps] == [None, shot(1), *(shot(event) for event in range(3, 12))]
    assert [one.lost for one in align(found)] == ["first_step", *[None] * 9, "last_step"]
    assert not any(one.gap_before for one in align(found))
    assert align(found)[1].after == shot(3), "the load between them is the click's own"
    assert [step.target for step in found.steps[:5]] == [
        None,
        Target(400, 300, 390, 290, 40, 30, "[button] Read on"),
        Target(50, 60, 40, 50, 20, 20, "[button] Read on"),
        Target(None, None, 30, 40, 90, 20, "[input] Read on"),
        Target(None, None, 30, 40, 90, 20, "[select] Read on"),
    ]
    assert found.steps[3].op_raw == '{"intent": "textInput", "text": "oslo", "element": "input", "xpath": "id(\\"x\\")/b[1]"}'
    assert (
        found.steps[0].op_raw
        == '{"intent": "load", "url": "https://www.ex.co.uk/b", "transitionType": "typed", "transitionQualifiers": []}'
    )
    assert [(unit, item, reason, detail) for unit, item, reason, detail in found.skipped] == [
        ("step", f"demonstrations/{CODE}/replay.json#0", "chat_turn", "instructor"),
        ("step", f"demonstrations/{CODE}/replay.json#2", "chat_turn", "navigator"),
        ("step", f"demonstrations/{CODE}/replay.json#4", "page_load", "not an action: the page an action led to"),
        ("step", f"demonstrations/{CODE}/replay.json#14", "chat_turn", "navigator"),
    ]


def test_neither_names_nor_the_pages_source_come_out(tmp_path: Path) -> None:
    demonstration(tmp_path, turn(1, "click", client=(1, 1), box=(0, 0, 9, 9)))
    text = repr(read(tmp_path))
    assert not any(word in text for word in ("Roe", "roe", "Moe", "secret"))


# -- screens --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected", "reason"),
    [
        ({}, shot(5), None),
        ({"page": None}, shot(5), None),
        ({"page": "page-5-1.html"}, shot(5), None),
        ({"shot": None, "page": None, "status": None}, None, None),
        ({"status": "broken"}, None, "screenshot_broken"),
        ({"status": "absent"}, None, "screenshot_absent"),
        ({"status": None}, None, "screenshot_unrated"),
        ({"status": ["good"]}, None, "screenshot_unrated"),
        ({"page": "page-6-0.html"}, None, "number_mismatch"),
        ({"shot": "screenshot-2-0.png", "page": "page-5-0.html"}, None, "number_mismatch"),
        ({"shot": "screenshot-2-0.png", "page": "page-2-0.html"}, None, "number_mismatch"),
        ({"shot": "../screenshot-5-0.png"}, None, "bad_name"),
        ({"shot": 5}, None, "bad_name"),
    ],
)
def test_a_screen_serves_if_it_is_good_and_of_its_moment(tmp_path: Path, given: dict, expected: Picture | None, reason: str | None) -> None:
    demonstration(tmp_path, turn(5, "click", **given))
    found = only(tmp_path)
    assert found.steps[0].before == expected
    assert reasons(found) == ([] if reason is None else [("picture", reason)])


def test_a_turn_without_an_event_takes_its_screens_number(tmp_path: Path) -> None:
    late = turn(2, "click")
    late["action"]["event_id"] = None
    demonstration(tmp_path, turn(1, "click"), late, turn(3, "click"))
    assert [one.before for one in align(only(tmp_path))] == [shot(1), shot(2), shot(3)]


def test_typing_is_put_where_it_began(tmp_path: Path) -> None:
    demonstration(tmp_path, turn(9, "click"), turn(11, "click", at=11.0), turn(10, "textInput", text="oslo", at=14.0), turn(12, "click"))
    found = only(tmp_path)
    assert [(step.source_step, step.op, step.timestamp) for step in found.steps] == [
        ("0", "click", 9.5),
        ("2", "type", 14.0),
        ("1", "click", 11.0),
        ("3", "click", 12.5),
    ]
    assert [(one.before, one.after) for one in align(found)][:3] == [(shot(9), shot(10)), (shot(10), shot(11)), (shot(11), shot(12))]


def test_a_screen_missing_in_between_leaves_its_neighbour_without_a_pair(tmp_path: Path) -> None:
    demonstration(tmp_path, turn(1, "click"), turn(2, "click", status="broken"), turn(3, "click"), turn(4, "click"))
    assert [(one.after, one.lost) for one in align(only(tmp_path))] == [
        (None, "no_picture"),
        (shot(3), "no_picture"),
        (shot(4), None),
        (None, "last_step"),
    ], "two actions lie between the screens 1 and 3"


def test_events_of_tabs_and_other_tabs_break_adjacency(tmp_path: Path) -> None:
    demonstration(
        tmp_path,
        turn(1, "click"),
        turn(2, "tabcreate", properties={"tabId": 8}),
        turn(3, "tabswitch", properties={"tabId": 8, "tabIdOrigin": 3, "windowId": 1}),
        turn(4, "click", tab=8),
        turn(5, "click", tab=8),
        turn(6, "click", tab=3),
    )
    found = only(tmp_path)
    assert [(step.op, step.value, step.url) for step in found.steps][1:3] == [("tab", "8", None), ("tab", "8", None)]
    assert found.steps[2].op_raw == '{"intent": "tabswitch", "tabId": 8, "tabIdOrigin": 3}'
    assert [step.gap_before for step in found.steps] == [False, True, True, True, False, True]
    assert [(one.before, one.after) for one in align(found)] == [
        (shot(1), None),
        (None, None),
        (None, None),
        (shot(4), shot(5)),
        (shot(5), None),
        (shot(6), None),
    ]


def test_two_turns_of_one_event_share_no_pair(tmp_path: Path) -> None:
    demonstration(tmp_path, turn(1, "click"), turn(1, "click"), turn(2, "click"))
    assert [one.after for one in align(only(tmp_path))] == [None, shot(2), None]


def test_a_lost_turn_breaks_adjacency(tmp_path: Path) -> None:
    demonstration(tmp_path, turn(1, "click"), {"type": "browser", "action": None}, turn(3, "click"), 7, turn(5, "click"))
    found = only(tmp_path)
    assert [step.gap_before for step in found.steps] == [False, True, True]
    assert reasons(found) == [("step", "bad_turn")] * 2


@pytest.mark.parametrize(
    ("kind", "told", "asked"),
    [
        ("typed", {}, True),
        ("reload", {}, True),
        ("auto_bookmark", {}, True),
        ("keyword", {}, True),
        ("link", {"transitionQualifiers": ["from_address_bar"]}, True),
        ("link", {"transitionQualifiers": ["forward_back"]}, True),
        ("link", {"transitionQualifiers": ["client_redirect"]}, False),
        ("link", {}, False),
        ("form_submit", {}, False),
        ("manual_subframe", {}, False),
        (None, {}, False),
    ],
)
def test_a_load_is_an_action_where_the_user_asked_for_it(tmp_path: Path, kind: str | None, told: dict, asked: bool) -> None:
    demonstration(tmp_path, turn(1, "click"), load(2, kind, **told), turn(3, "click"))
    found = only(tmp_path)
    assert [step.op for step in found.steps] == (["click", "load", "click"] if asked else ["click", "click"])
    assert align(found)[0].after == (None if asked else shot(3))


def test_a_load_without_an_address_of_its_own_takes_its_pages(tmp_path: Path) -> None:
    bare = load(1, "typed")
    del bare["action"]["arguments"]["properties"]["url"]
    demonstration(tmp_path, bare)
    found = only(tmp_path)
    assert (found.steps[0].value, found.website) == (URL, "ex.co.uk")


def test_typed_text_names_no_site(tmp_path: Path) -> None:
    demonstration(tmp_path, turn(1, "textInput", text="https://typed.example/", url=""))
    assert only(tmp_path).website is None


# -- coordinates ----------------------------------------------------------------------------------------------------------


def boxes(found: Trajectory) -> list[tuple | None]:
    return [step.target and (step.target.left, step.target.top, step.target.width, step.target.height) for step in found.steps]


def test_coordinates_are_the_pictures_by_its_width(tmp_path: Path) -> None:
    demonstration(tmp_path, turn(1, "click", client=(100, 50), box=(90, 40, 40, 20)), width=683, height=500)
    target = only(tmp_path).steps[0].target
    assert (target.x, target.y, target.left, target.top, target.width, target.height) == (50, 25, 45, 20, 20, 10)


def test_without_a_usable_picture_there_is_only_text(tmp_path: Path) -> None:
    folder = demonstration(tmp_path, turn(1, "click", client=(1, 1), box=(0, 0, 9, 9)), turn(2, "click", status="absent", client=(1, 1)))
    (folder / "screenshots/screenshot-1-0.png").unlink()
    assert [step.target for step in only(tmp_path).steps] == [Target(text="[button] Read on")] * 2


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ((780, 580, 60, 60), (390, 290, 30, 30)),  # holds the client's (800, 600): client pixels
        ((390, 290, 30, 30), (390, 290, 30, 30)),  # holds the viewport's (400, 300): viewport pixels
        ((10, 10, 5, 5), (None, None, None, None)),
    ],
)
def test_a_box_is_in_the_unit_that_holds_the_pointer(tmp_path: Path, box: tuple, expected: tuple) -> None:
    demonstration(tmp_path, turn(1, "click", zoom=2, client=(800, 600), mouse=(400, 300), box=box))
    found = only(tmp_path)
    assert (found.steps[0].target.x, found.steps[0].target.y) == (400, 300), "the pointer is known either way"
    assert boxes(found) == [expected]
    assert reasons(found) == ([("target", "box_off_pointer")] if expected[0] is None else [])


@pytest.mark.parametrize(
    ("sure", "expected"), [((780, 580, 60, 60), (50, 25, 100, 10)), ((390, 290, 30, 30), (100, 50, 200, 20)), (None, None)]
)
def test_a_box_no_pointer_tells_of_is_in_the_demonstrations_unit(tmp_path: Path, sure: tuple | None, expected: tuple | None) -> None:
    turns = [
        turn(2, "textInput", zoom=2, text="a", box=(100, 50, 200, 20)),
        turn(3, "click", zoom=2, client=(200, 100), box=(50, 20, 900, 600)),
    ]
    demonstration(tmp_path, *([turn(1, "click", zoom=2, client=(800, 600), box=sure)] if sure else []), *turns)
    found = only(tmp_path)
    typed, both = found.steps[-2:]
    assert (typed.target.left, typed.target.top, typed.target.width, typed.target.height) == (expected or (None,) * 4)
    assert both.target.left == (50 if sure and expected == (100, 50, 200, 20) else 25), "both readings hold the pointer"
    assert reasons(found) == ([] if sure else [("target", "box_unit_unknown")])


def test_clicks_that_contradict_one_another_settle_no_unit(tmp_path: Path) -> None:
    clicks = [
        turn(1, "click", zoom=2, client=(800, 600), box=(780, 580, 60, 60)),
        turn(2, "click", zoom=2, client=(800, 600), box=(390, 290, 30, 30)),
    ]
    demonstration(tmp_path, *clicks, turn(3, "textInput", zoom=2, text="a", box=(100, 50, 200, 20)))
    assert reasons(only(tmp_path)) == [("target", "box_unit_unknown")]


def test_a_pointer_resting_elsewhere_says_nothing_of_where_was_typed(tmp_path: Path) -> None:
    demonstration(tmp_path, turn(1, "textInput", text="a", client=(900, 600), box=(100, 50, 200, 20)))
    found = only(tmp_path)
    assert found.steps[0].target == Target(None, None, 100, 50, 200, 20, "[button] Read on") and found.skipped == []


def test_the_recorders_pointer_serves_where_the_event_has_none(tmp_path: Path) -> None:
    turns = [
        turn(1, "click", mouse=(40, 50)),
        turn(2, "click", mouse=(0, 0)),
        turn(3, "click", mouse=(-1, -1)),
        turn(4, "copy", mouse=(40, 50)),
    ]
    demonstration(tmp_path, *turns)
    assert [step.target and step.target.x for step in only(tmp_path).steps] == [40, None, None, None]


@pytest.mark.parametrize("zoom", [0, -1, "big", 1e9, []])
def test_a_zoom_without_sense_leaves_only_text(tmp_path: Path, zoom: object) -> None:
    demonstration(tmp_path, turn(1, "click", zoom=zoom, client=(1, 1), box=(0, 0, 9, 9)))
    found = only(tmp_path)
    assert found.steps[0].target == Target(text="[button] Read on") and reasons(found) == [("target", "bad_zoom")]


def test_boxes_the_turn_lacks_come_from_the_pages_list(tmp_path: Path) -> None:
    folder = demonstration(
        tmp_path,
        turn(1, "click", client=(110, 60)),
        turn(2, "click", zoom=2, client=(220, 120)),
        turn(3, "textInput", zoom=2, text="a"),
        turn(4, "click", client=(110, 60), webtask="other"),
        turn(5, "click", client=(110, 60), webtask=None),
        turn(6, "click", client=(110, 60)),
        turn(7, "click", client=(110, 60), box=(109, 59, 0, 0)),
    )
    listed = {"abc": {"x": 100, "y": 50, "width": 40, "height": 20, "top": 50, "right": 140, "bottom": 70, "left": 100}}
    for number in (1, 3, 4, 5, 7):
        write(folder / f"bboxes/bboxes-{number}.json", listed)
    write(folder / "bboxes/bboxes-2.json", {"abc": {"left": 50, "top": 25, "right": 70, "bottom": 35}})
    write(folder / "bboxes/bboxes-6.json", b"{")
    found = only(tmp_path)
    nothing = (None, None, None, None)
    assert boxes(found) == [(100, 50, 40, 20), (100, 50, 40, 20), nothing, nothing, nothing, nothing, (100, 50, 40, 20)]
    assert reasons(found) == [("target", "box_unit_unknown"), ("target", "bad_json")]


def test_a_pages_list_is_read_once_for_all_turns_that_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = demonstration(tmp_path, *(turn(1, "click", client=(110, 60)) for _ in range(5)))
    write(folder / "bboxes/bboxes-1.json", {"abc": {"x": 100, "y": 50, "width": 40, "height": 20}})
    read_json, files = weblinx.jsonio.read_json, []
    monkeypatch.setattr(
        weblinx.jsonio, "read_json", lambda root, file, *rest, **more: files.append(file) or read_json(root, file, *rest, **more)
    )
    assert boxes(only(tmp_path)) == [(100, 50, 40, 20)] * 5
    assert sum("bboxes" in file for file in files) == 1


# -- which demonstrations -------------------------------------------------------------------------------------------------


def several(root: Path) -> None:
    for code in ("aaaaaaa", "bbbbbbb", "ccccccc", "ddddddd"):
        demonstration(root, turn(1, "click"), code=code)
    write(
        root / "splits.json",
        {
            "train": ["aaaaaaa", "zzzzzzz"],
            "valid": ["bbbbbbb"],
            "test_iid": ["ccccccc"],
            "dev": ["bbbbbbb", "ccccccc"],
            "test_web": ["yyyyyyy"],
        },
    )


def test_splits_are_recorded_and_dev_is_not_counted_twice(tmp_path: Path) -> None:
    several(tmp_path)
    found = read(tmp_path)
    assert [(one.native_id, one.experiment) for one in found if isinstance(one, Trajectory)] == [
        ("aaaaaaa", "train"),
        ("bbbbbbb", "valid"),
        ("ccccccc", "test_iid"),
    ]
    assert [(one.unit, one.item, one.reason) for one in found if isinstance(one, Skipped)] == [
        ("trajectory", "demonstrations/ddddddd", "no_split"),
        ("trajectory", "demonstrations/yyyyyyy", "missing"),
        ("trajectory", "demonstrations/zzzzzzz", "missing"),
    ]


@pytest.mark.parametrize(
    ("split", "codes", "absent"),
    [
        ("train", ["aaaaaaa"], ["demonstrations/zzzzzzz"]),
        ("dev", ["bbbbbbb", "ccccccc"], []),
        ("test_web", [], ["demonstrations/yyyyyyy"]),
        ("other", [], []),
    ],
)
def test_a_split_selects(tmp_path: Path, split: str, codes: list[str], absent: list[str]) -> None:
    several(tmp_path)
    found = read(tmp_path, split=split)
    assert [one.native_id for one in found if isinstance(one, Trajectory)] == codes
    assert [one.item for one in found if isinstance(one, Skipped)] == absent


def test_files_select(tmp_path: Path) -> None:
    several(tmp_path)
    found = read(tmp_path, files=["splits.json", "demonstrations/a*/*", "demonstrations/ccccccc/"])
    assert [one.native_id for one in found if isinstance(one, Trajectory)] == ["aaaaaaa", "ccccccc"]
    assert [one for one in found if isinstance(one, Skipped)] == [], "what was not asked for is not missed"


@pytest.mark.parametrize(
    ("content", "reason"), [(b"{", "bad_json"), (b"version https://git-lfs.github.com/spec/v1\n", "lfs_pointer"), (None, None)]
)
def test_without_a_list_of_splits_all_are_read(tmp_path: Path, content: bytes | None, reason: str | None) -> None:
    several(tmp_path)
    (tmp_path / "splits.json").unlink()
    if content:
        write(tmp_path / "splits.json", content)
    found = read(tmp_path)
    assert [(one.native_id, one.experiment) for one in found if isinstance(one, Trajectory)][::3] == [("aaaaaaa", None), ("ddddddd", None)]
    assert [(one.unit, one.reason) for one in found if isinstance(one, Skipped)] == ([] if reason is None else [("row", reason)])
    assert [(one.unit, one.reason) for one in read(tmp_path, split="dev")] == [("row", reason or "missing")]


def test_splits_that_overlap_are_noted(tmp_path: Path) -> None:
    demonstration(tmp_path, turn(1, "click"))
    write(tmp_path / "splits.json", {"train": [CODE, 7, CODE], "test_web": [CODE], "dev": None, "valid": {"a": 1}})
    found = only(tmp_path)
    assert found.experiment == "test_web" and found.skipped == [
        ("row", f"demonstrations/{CODE}", "several_splits", "splits.json lists it under test_web, train; the first is kept")
    ]


def test_a_demonstration_only_dev_lists_is_of_dev(tmp_path: Path) -> None:
    demonstration(tmp_path, turn(1, "click"))
    write(tmp_path / "splits.json", {"dev": [CODE]})
    assert only(tmp_path).experiment == "dev"


@pytest.mark.parametrize("name", ["replay.json", "metadata.json", "form.json"])
def test_a_demonstration_lacks_one_of_its_three_files(tmp_path: Path, name: str) -> None:
    folder = demonstration(tmp_path, turn(1, "click"))
    (folder / name).unlink()
    assert [(one.item, one.reason, one.detail) for one in read(tmp_path)] == [(f"demonstrations/{CODE}", "incomplete", f"no {name}")]


def test_a_demonstration_marked_invalid_is_left_out(tmp_path: Path) -> None:
    write(demonstration(tmp_path, turn(1, "click")) / "invalid.json", {})
    assert [(one.item, one.reason) for one in read(tmp_path)] == [(f"demonstrations/{CODE}", "invalid")]


def test_metadata_of_something_else_is_no_demonstration(tmp_path: Path) -> None:
    write(tmp_path / "metadata.json", {})
    write(tmp_path / "demonstrations" / CODE / "metadata.json", {})
    assert [(one.item, one.reason) for one in read(tmp_path)] == [(f"demonstrations/{CODE}", "incomplete")]


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"[]", "no_turns"), (b'{"data": {}}', "no_turns"), (b"{", "bad_json"), (b"\xff{", "not_utf8"), (b"[" * 90_000, "too_deep")],
)
def test_a_broken_replay_says_why(tmp_path: Path, content: bytes, reason: str) -> None:
    write(demonstration(tmp_path) / "replay.json", content)
    assert [(one.unit, one.item, one.reason) for one in read(tmp_path)] == [("trajectory", f"demonstrations/{CODE}/replay.json", reason)]


def test_a_replay_of_too_many_turns_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demonstration(tmp_path, *(turn(number, "click") for number in range(4)))
    monkeypatch.setattr(weblinx, "_TURN_LIMIT", 3)
    assert [(one.reason, one.detail) for one in read(tmp_path)] == [("too_large", "more than 3 turns")]


# -- forms ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (b"{", "bad_json"),
        (b"[]", "bad_record"),
        (b"version https://git-lfs.github.com/spec/v1\n", "lfs_pointer"),
        ({"description": "  "}, None),
        ({"description": ["x"]}, None),
    ],
)
def test_a_form_that_says_nothing_is_replaced_by_the_talk(tmp_path: Path, form: object, reason: str | None) -> None:
    talk = [
        chat("instructor", "Hello"),
        chat("navigator", "Hi"),
        chat("instructor", "Open the shop"),
        turn(1, "click"),
        chat("instructor", "Now pay"),
    ]
    demonstration(tmp_path, *talk, form=form)
    found = only(tmp_path)
    assert found.instruction == "Hello\nOpen the shop"
    rows = [(item, what) for unit, item, what, _ in found.skipped if unit == "row"]
    assert rows == ([] if reason is None else [(f"demonstrations/{CODE}/form.json", reason)])


def test_a_demonstration_without_an_instruction_is_noted(tmp_path: Path) -> None:
    demonstration(tmp_path, turn(1, "click"), form={})
    found = only(tmp_path)
    assert found.instruction is None and [entry[:3] for entry in found.skipped] == [("row", f"demonstrations/{CODE}", "no_instruction")]


# -- hostile input --------------------------------------------------------------------------------------------------------

_ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["good", "screenshot-1-0.png", "click"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["x", "y", "width", "height", "intent", "arguments", "url", "clientX", "tabId"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)


def places(value: object) -> list[tuple[dict, str]]:
    """Return every key of every object inside a value."""
    found = []
    if isinstance(value, dict):
        for key, inner in value.items():
            found += [(value, key), *places(inner)]
    return found


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_in_any_place_is_read(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    root = tmp_path_factory.mktemp("any")
    folder = demonstration(root, chat("instructor", "Go"))
    turns = [
        chat("instructor", "Go"),
        turn(1, "click", zoom=2, client=(9, 9), box=(0, 0, 9, 9)),
        load(2, "typed"),
        turn(3, "scroll", scrollX=0, scrollY=1),
    ]
    for _ in range(data.draw(st.integers(1, 4))):
        holder, key = data.draw(st.sampled_from(places({str(number): one for number, one in enumerate(turns)})))
        holder[key] = data.draw(_ANY)
    write(folder / "replay.json", {"data": turns})
    write(folder / "form.json", data.draw(_ANY))
    write(root / "splits.json", {"train": data.draw(_ANY), "valid": [CODE]})
    for one in read(root):
        assert isinstance(one, Trajectory | Skipped)
        if isinstance(one, Trajectory):
            assert {step.op for step in one.steps} <= set(OPS) and len(align(one)) == len(one.steps)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_damage_never_raises(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    root, draw = tmp_path_factory.mktemp("damage"), random.Random(seed)
    folder = demonstration(
        root, chat("instructor", "Go"), turn(1, "click", client=(9, 9)), load(2, "typed"), turn(3, "textInput", text="a")
    )
    write(folder / "bboxes/bboxes-1.json", {"abc": {"x": 1, "y": 1, "width": 20, "height": 20}})
    write(root / "splits.json", {"train": [CODE]})
    for path in draw.sample(sorted(path for path in root.rglob("*") if path.is_file()), 3):
        raw = bytearray(path.read_bytes())
        for _ in range(draw.randint(1, 6)):
            at = draw.randint(0, len(raw))
            raw[at : at + draw.randint(0, 20)] = bytes(
                draw.choice([draw.randrange(256), *b'"{}[],:\\0n']) for _ in range(draw.randint(0, 3))
            )
        path.write_bytes(bytes(raw[: draw.choice([len(raw), draw.randint(0, len(raw))])]))
    for one in read(root):
        assert isinstance(one, Trajectory | Skipped)


# -- real turns -----------------------------------------------------------------------------------------------------------


def real(real_logs: Path, name: str, root: Path, width: int, height: int) -> Trajectory:
    (demo,) = json.loads((real_logs / "weblinx-fragments" / name).read_text())
    demonstration(root, *demo["replay"]["data"], form=demo.get("form", {}), width=width, height=height)
    return only(root)


def test_real_turns_at_a_zoom_have_boxes_in_client_pixels(real_logs: Path, tmp_path: Path) -> None:
    found = real(real_logs, "cptbbef-head.trimmed.json", tmp_path, 1536, 714)
    assert [step.op for step in found.steps] == ["load", "click", "click", "tab", "tab"] and found.website == "momondo.in"
    assert [step.before and step.before.file.rpartition("/")[2] for step in found.steps] == [
        None,
        "screenshot-1-1.png",
        "screenshot-2-0.png",
        None,
        None,
    ]
    first, second = (step.target for step in found.steps[1:3])
    assert (first.x, first.y) == (1383, 32) and (round(first.left), round(first.width)) == (1372, 16)
    assert (second.x, second.y) == (600, 636) and (round(second.left), round(second.width)) == (545, 210)
    assert [reason for unit, reason in reasons(found) if unit != "step"] == []


def test_a_real_turn_without_zoom(real_logs: Path, tmp_path: Path) -> None:
    found = real(real_logs, "wattpad-tail.trimmed.json", tmp_path, 1366, 643)
    assert found.instruction.startswith("To create a new story")
    assert [(step.op, step.target) for step in found.steps] == [("click", Target(727, 304, 509, 288.578125, 348, 40, "[button] Publish"))]
    assert [detail for _, _, reason, detail in found.skipped if reason == "chat_turn"] == ["navigator", "instructor", "navigator"]
