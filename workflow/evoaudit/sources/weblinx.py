"""WebLINX demonstrations: `demonstrations/<code>/` with `replay.json`, `metadata.json`, `form.json` and `screenshots/`.

A browser turn's screenshot shows what the user saw before acting. Turns are put into the order of their event ids, which number
the screens: typing is logged when it ends, so that its turn can stand after one that came later. Page loads nobody asked for
are left out, since they are what an action led to; events of tabs, and another tab, break adjacency. Names in `form.json` are
not read.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from evoaudit.sources import jsonio
from evoaudit.sources.base import Picture, Skipped, Step, Target, Trajectory
from evoaudit.sources.pixels import png_size
from evoaudit.sources.web import site

LICENSE: str | None = "CC-BY-NC-SA-4.0"
LAYOUT = "demonstrations/abcdefg/{replay,metadata,form}.json and screenshots/screenshot-1-0.png"

#: Intents. A ``change`` of anything but a drop-down list is ``other``.
ACTIONS = {
    "click": "click",
    "hover": "hover",
    "textInput": "type",
    "paste": "paste",
    "change": "select",
    "copy": "copy",
    "submit": "submit",
    "scroll": "scroll",
    "load": "load",
    "tabcreate": "tab",
    "tabremove": "tab",
    "tabswitch": "tab",
}

_VALUES = {"textInput": "text", "paste": "pasted", "change": "value", "copy": "selected"}
_FILES = ("replay.json", "metadata.json", "form.json")
_SCREENSHOT = re.compile(r"screenshot-(\d{1,9})-\d{1,9}\.png")
_PAGE = re.compile(r"page-(\d{1,9})-\d{1,9}\.html")
#: Page loads a user asks for; any other is the consequence of the action before it.
_ASKED = frozenset({"typed", "reload", "auto_bookmark", "generated", "keyword", "keyword_generated", "start_page"})
#: Pixels by which a pointer may miss an element's box (rounding).
_SLACK = 2


def read(root: Path, options: dict) -> Iterator[Trajectory | Skipped]:
    """Yield one trajectory a demonstration; ``options["split"]`` selects those `splits.json` lists under it."""
    splits = _splits(root)
    if isinstance(splits, Skipped):
        if splits.reason != "missing" or options.get("split"):
            yield splits
        splits = {}
    for folder, names in jsonio.walk(root):
        if not {"invalid.json", *_FILES} & set(names):
            continue
        code = folder.rpartition("/")[2]
        if options.get("split") and options["split"] not in splits.get(code, ()):
            continue
        absent = [name for name in _FILES if name not in names]
        if "invalid.json" in names:
            yield Skipped(folder or ".", "invalid", "marked invalid by its authors")
        elif absent:
            yield Skipped(folder or ".", "incomplete", f"no {', '.join(absent)}")
        else:
            yield _trajectory(root, folder, names=splits.get(code, []))


def _splits(root: Path) -> dict[str, list[str]] | Skipped:
    """Return demonstration → splits; ``dev`` only repeats two others."""
    listed = jsonio.read_json(root, "splits.json", unit="row")
    if isinstance(listed, Skipped):
        return listed
    found: dict[str, list[str]] = {}
    for split, codes in sorted(jsonio.as_dict(listed).items()):
        for code in jsonio.as_list(codes):
            if isinstance(code, str):
                found.setdefault(code, []).append(split)
    return found


def _trajectory(root: Path, folder: str, names: list[str]) -> Trajectory | Skipped:
    source_file = jsonio.join(folder, "replay.json")
    replay = jsonio.read_json(root, source_file)
    if isinstance(replay, Skipped):
        return replay
    turns = jsonio.as_dict(replay).get("data")
    if not isinstance(turns, list):
        return Skipped(source_file, "no_turns", "not a replay with a list of turns")
    code = folder.rpartition("/")[2] or "demonstration"
    found = Trajectory(
        native_id=code,
        steps=[],
        source_file=source_file,
        obs_phase="before",
        benchmark="weblinx",
        task_id=code,
        experiment=next((name for name in names if name != "dev"), None),
        license=LICENSE,
        consecutive=False,
    )
    found.instruction = _instruction(root, folder, turns)
    numbered = _browser_turns(found, turns)
    numbered.sort(key=lambda entry: entry[0])
    last: tuple[int | None, Any] | None = None
    for _, index, turn, lost in numbered:
        step, screen = _step(root, folder, found, index, turn)
        tab = "tab event" if step.op == "tab" else _part(turn["action"], "metadata").get("tabId")
        if last is not None:
            backwards = screen is not None and last[0] is not None and screen <= last[0]
            step.gap_before = lost or backwards or tab != last[1] or tab == "tab event"
        last = screen, tab
        found.steps.append(step)
    found.website = next((name for step in found.steps if (name := site(step.url or step.value))), None)
    found.domain = found.website
    return found


def _browser_turns(found: Trajectory, turns: list) -> list[tuple[int, int, dict, bool]]:
    """Return (event id, place in the log, turn, whether one was lost before it); a turn without an id keeps its place."""
    kept = []
    last, lost = -1, False
    for index, turn in enumerate(turns):
        turn, item = jsonio.as_dict(turn), f"{found.source_file}#{index}"
        if turn.get("type") == "chat":
            found.skipped.append(("step", item, "chat_turn", None))
        elif turn.get("type") != "browser" or not isinstance(turn.get("action"), dict):
            found.skipped.append(("step", item, "bad_turn", "neither a chat turn nor a browser turn with an action"))
            lost = True
        elif turn["action"].get("intent") == "load" and not _asked(turn["action"]):
            found.skipped.append(("step", item, "page_load", "not an action: the page an action led to"))
        else:
            number = jsonio.as_int(turn["action"].get("event_id"))
            last = last if number is None else number
            kept.append((last, index, turn, lost))
            lost = False
    return kept


def _step(root: Path, folder: str, found: Trajectory, index: int, turn: dict) -> tuple[Step, int | None]:
    """Return the step and the number of its screen."""
    action = turn["action"]
    arguments = jsonio.as_dict(action.get("arguments"))
    metadata, properties, element = _part(action, "metadata"), _part(action, "properties"), _part(action, "element")
    intent = jsonio.as_str(action.get("intent")) or ""
    tag = (jsonio.as_str(element.get("tagName")) or "").lower()
    op = ACTIONS.get(intent, "other")
    if intent == "change" and tag not in ("select", ""):
        op = "other"
    value = jsonio.as_str(arguments.get(_VALUES.get(intent, "")))
    url = jsonio.as_str(metadata.get("url")) or None
    if intent == "load":  # its metadata already name the new page
        value, url = jsonio.as_str(properties.get("url")) or url, None
    item = f"{found.source_file}#{index}"
    screen, picture = _screen(folder, found, item, jsonio.as_dict(turn.get("state")), jsonio.as_int(action.get("event_id")))
    step = Step(
        op=op,
        op_raw=_raw(intent, arguments, tag),
        value=value,
        source_step=str(index),
        url=url,
        before=picture,
        timestamp=jsonio.as_float(turn.get("timestamp")),
        target=_target(root, found, item, metadata, properties, element, picture),
    )
    return step, screen


def _screen(folder: str, found: Trajectory, item: str, state: dict, event: int | None) -> tuple[int | None, Picture | None]:
    """Return number and picture of a turn's screen if it is usable."""
    name = state.get("screenshot")
    if name is None:
        return None, None
    number = _SCREENSHOT.fullmatch(name) if isinstance(name, str) else None
    page = _PAGE.fullmatch(jsonio.as_str(state.get("page")) or "")
    status = jsonio.as_str(state.get("screenshot_status"))
    if number is None:
        reason, detail = "bad_name", None
    elif status != "good":
        reason, detail = f"screenshot_{status if status in ('broken', 'absent') else 'unrated'}", None
    elif int(number[1]) != event or (page and page[1] != number[1]):
        reason, detail = "number_mismatch", f"screen {number[1]}, page {page[1] if page else '-'}, event {event}"
    else:
        return int(number[1]), Picture(jsonio.join(folder, f"screenshots/{name}"))
    found.skipped.append(("picture", item, reason, detail))
    return None, None


def _part(action: dict, name: str) -> dict:
    return jsonio.as_dict(jsonio.as_dict(action.get("arguments")).get(name))


def _asked(action: dict) -> bool:
    properties = _part(action, "properties")
    qualifiers = jsonio.as_list(properties.get("transitionQualifiers"))
    return jsonio.as_str(properties.get("transitionType")) in _ASKED or "from_address_bar" in qualifiers or "forward_back" in qualifiers


def _target(
    root: Path, found: Trajectory, item: str, metadata: dict, properties: dict, element: dict, picture: Picture | None
) -> Target | None:
    """Return pointer and box in pixels of the picture, as far as they can be known.

    Client coordinates are the viewport's times the zoom. The box is in either unit; the one that holds the pointer is taken.
    """
    text = _element_text(element)
    scale = _scale(root, metadata, picture)
    if scale is None:
        return Target(text=text) if text else None
    zoom = jsonio.as_float(metadata.get("zoomLevel")) or 1.0
    x, y = jsonio.as_float(properties.get("clientX")), jsonio.as_float(properties.get("clientY"))
    pointer = None if x is None or y is None or zoom <= 0 else (x / zoom, y / zoom)
    bbox = jsonio.as_dict(element.get("bbox"))
    sides = [jsonio.as_float(bbox.get(name)) for name in ("x", "y", "width", "height")]
    box = None
    if None not in sides and zoom > 0:
        readings = [[side / zoom for side in sides], sides]
        box = next((reading for reading in readings if pointer is None or _holds(reading, pointer)), None)
        if box is None:
            found.skipped.append(("target", item, "box_off_pointer", "the pointer is outside the element's box in either unit"))
    across, down = scale
    target = Target(text=text)
    if pointer:
        target = replace(target, x=pointer[0] * across, y=pointer[1] * down)
    if box:
        target = replace(target, left=box[0] * across, top=box[1] * down, width=box[2] * across, height=box[3] * down)
    return None if target == Target() else target


def _holds(box: list[float], point: tuple[float, float]) -> bool:
    return all(box[axis] - _SLACK <= point[axis] <= box[axis] + box[axis + 2] + _SLACK for axis in (0, 1))


def _scale(root: Path, metadata: dict, picture: Picture | None) -> tuple[float, float] | None:
    """Return picture pixels per viewport pixel, across and down."""
    width, height = jsonio.as_float(metadata.get("viewportWidth")), jsonio.as_float(metadata.get("viewportHeight"))
    size = png_size(root, picture.file) if picture and width and height and width > 0 and height > 0 else None
    return (size[0] / width, size[1] / height) if size else None


def _element_text(element: dict) -> str | None:
    """Return ``[tag] text`` of an element, with white space joined."""
    tag = (jsonio.as_str(element.get("tagName")) or "").lower()
    attributes = jsonio.as_dict(element.get("attributes"))
    texts = [element.get("textContent"), *(attributes.get(name) for name in ("aria-label", "placeholder", "alt", "title", "name", "value"))]
    text = next((joined for one in texts if (joined := " ".join((jsonio.as_str(one) or "")[:2000].split()))), "")
    return f"[{tag}] {text[:200]}".strip() if tag or text else None


def _raw(intent: str, arguments: dict, tag: str) -> str:
    """Return the action as logged, without the page's source and the mouse's details."""
    kept = {name: value for name, value in arguments.items() if name not in ("metadata", "properties", "element")}
    xpath = jsonio.as_dict(arguments.get("element")).get("xpath")
    return jsonio.dump({"intent": intent, **kept, **({"element": tag, "xpath": xpath} if tag else {})})


def _instruction(root: Path, folder: str, turns: list) -> str | None:
    """Return the form's description of the task, else what the instructor said before the first action."""
    form = jsonio.as_dict(jsonio.read_json(root, jsonio.join(folder, "form.json")))
    if description := (jsonio.as_str(form.get("description")) or "").strip():
        return description
    said = []
    for turn in map(jsonio.as_dict, turns):
        if turn.get("type") == "browser" and said:
            break
        if turn.get("type") == "chat" and turn.get("speaker") == "instructor":
            said.append(jsonio.as_str(turn.get("utterance")) or "")
    return "\n".join(filter(None, said)) or None
