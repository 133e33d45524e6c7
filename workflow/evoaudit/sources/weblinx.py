"""WebLINX demonstrations: `demonstrations/<code>/` with `replay.json`, `metadata.json`, `form.json` and `screenshots/`.

A browser turn's screenshot shows what the user saw before acting. Turns are put into the order of their event ids, which number
the screens: typing is logged when it ends, so that its turn can stand after one that came later. ``source_step`` keeps the place
in the log, for whoever wants the order of the log. Page loads nobody asked for are left out, since they are what an action led to;
talk is left out too, and counted by who spoke. Events of tabs, another tab, lost turns and screens that do not go forward break
adjacency; a screen missing in between leaves the step before it without a screen after, since two actions would lie between.

A capture is used only if it is marked good and bears the number of its event (and of its page, where one is named): else it shows
another moment or tab. Names of people in `form.json` and `metadata.json` are not read.

Coordinates: the pointer's client coordinates are viewport pixels times the zoom, and a picture has its width over the viewport's
width pixels a viewport pixel. Boxes come in either unit. The one that holds the pointer is taken, the one usual in the
demonstration where both or no pointer can tell, and no box where neither fits. Boxes missing in the turn come from
`bboxes/bboxes-<n>.json`.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
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
#: What a load or an event of a tab says of itself; the other properties are the recorder's.
_TOLD = ("url", "transitionType", "transitionQualifiers", "tabId", "tabIdOrigin")
#: Intents that go where the pointer is. For the others it only confirms a box.
_POINTING = frozenset({"click", "hover"})
#: Pixels by which a pointer may miss an element's box (rounding).
_SLACK = 2

#: Bytes and turns read at most; the largest real replays have 12 MB and a few hundred turns, the list of splits 40 kB.
_REPLAY_LIMIT = 32 * 2**20
_SMALL_LIMIT = 4 * 2**20
_TURN_LIMIT = 100_000


def read(root: Path, options: dict) -> Iterator[Trajectory | Skipped]:
    """Yield one trajectory a demonstration.

    ``options["split"]`` selects those that `splits.json` lists under it, ``options["files"]`` those whose `replay.json` one of
    the patterns matches. Demonstrations that a split lists and that are not there are reported.
    """
    splits, patterns, split = _splits(root), options.get("files"), options.get("split")
    if isinstance(splits, Skipped):
        if splits.reason != "missing" or split:
            yield splits
        splits = {}
    found = set()
    for folder, names in jsonio.walk(root):
        marks = {"invalid.json", *_FILES} & set(names)
        *above, code = folder.split("/")
        if not marks or (marks == {"metadata.json"} and above[-1:] != ["demonstrations"]):
            continue
        found.add(code)
        if (split and split not in splits.get(code, ())) or not _chosen(jsonio.join(folder, "replay.json"), patterns):
            continue
        absent = [name for name in _FILES if name not in names]
        if "invalid.json" in names:
            yield Skipped(folder or ".", "invalid", "marked invalid by its authors")
        elif absent:
            yield Skipped(folder or ".", "incomplete", f"no {', '.join(absent)}")
        elif splits and code not in splits:
            yield Skipped(folder or ".", "no_split", "splits.json lists it in no split; list it, or remove splits.json")
        else:
            yield _trajectory(root, folder, names=splits.get(code, []))
    for code, names in splits.items():
        folder = f"demonstrations/{code}"
        if code not in found and (not split or split in names) and _chosen(f"{folder}/replay.json", patterns):
            yield Skipped(folder, "missing", f"splits.json lists it under {', '.join(names)}; fetch it, or give the split you have")


def _chosen(path: str, patterns: list[str] | None) -> bool:
    """Return whether no patterns are given or one matches; ``*`` matches slashes too, as in downloads."""
    return not patterns or any(fnmatchcase(path, pattern + "*" if pattern.endswith("/") else pattern) for pattern in patterns)


def _splits(root: Path) -> dict[str, list[str]] | Skipped:
    """Return demonstration → splits."""
    listed = jsonio.read_json(root, "splits.json", _SMALL_LIMIT, unit="row")
    if isinstance(listed, Skipped):
        return listed
    found: dict[str, list[str]] = {}
    for split, codes in sorted(jsonio.as_dict(listed).items()):
        for code in jsonio.as_list(codes):
            if isinstance(code, str) and split not in found.setdefault(code, []):
                found[code].append(split)
    return dict(sorted(found.items()))


def _trajectory(root: Path, folder: str, names: list[str]) -> Trajectory | Skipped:
    source_file = jsonio.join(folder, "replay.json")
    replay = jsonio.read_json(root, source_file, _REPLAY_LIMIT)
    if isinstance(replay, Skipped):
        return replay
    turns = jsonio.as_dict(replay).get("data")
    if not isinstance(turns, list):
        return Skipped(source_file, "no_turns", "not a replay with a list of turns")
    if len(turns) > _TURN_LIMIT:
        return Skipped(source_file, "too_large", f"more than {_TURN_LIMIT:,} turns")
    code = folder.rpartition("/")[2] or "demonstration"
    names = [name for name in names if name != "dev"] or names  # it only repeats two other splits
    found = Trajectory(
        native_id=code,
        steps=[],
        source_file=source_file,
        obs_phase="before",
        benchmark="weblinx",
        task_id=code,
        experiment=names[0] if names else None,
        license=LICENSE,
        consecutive=False,
    )
    if len(names) > 1:
        found.skipped.append(("row", folder or ".", "several_splits", f"splits.json lists it under {', '.join(names)}; the first is kept"))
    found.instruction = _instruction(root, folder, found, turns)
    numbered = _browser_turns(found, turns)
    numbered.sort(key=lambda entry: entry[:2])
    demonstration = _Demonstration(root, folder, found, _unit([turn["action"] for _, _, turn, _ in numbered]))
    last: tuple[int | None, Any] | None = None
    for _, index, turn, lost in numbered:
        step, screen = _step(demonstration, index, turn)
        tab = "tab event" if step.op == "tab" else _part(turn["action"], "metadata").get("tabId")
        if last is not None:
            backwards = screen is not None and last[0] is not None and screen <= last[0]
            step.gap_before = lost or backwards or tab != last[1] or tab == "tab event"
        last = screen, tab
        found.steps.append(step)
    addresses = (step.url or (step.value if step.op == "load" else None) for step in found.steps)
    found.website = found.domain = next((name for address in addresses if (name := site(address))), None)
    return found


@dataclass(frozen=True, slots=True)
class _Demonstration:
    """What the steps of one demonstration share. ``unit`` is the unit of its elements' boxes, as far as its clicks tell."""

    root: Path
    folder: str
    found: Trajectory
    unit: str | None
    #: File → the list of boxes in it, of the one read last: any number of turns may name one screen.
    boxes: dict[str, Any] = field(default_factory=dict)


def _browser_turns(found: Trajectory, turns: list) -> list[tuple[int, int, dict, bool]]:
    """Return (event id, place in the log, turn, whether one was lost before it); a turn without an id keeps its place."""
    kept = []
    latest, lost = -1, False
    for index, turn in enumerate(turns):
        turn, item = jsonio.as_dict(turn), f"{found.source_file}#{index}"
        if turn.get("type") == "chat":
            speaker = turn.get("speaker")
            found.skipped.append(("step", item, "chat_turn", speaker if speaker in ("instructor", "navigator") else None))
        elif turn.get("type") != "browser" or not isinstance(turn.get("action"), dict):
            found.skipped.append(("step", item, "bad_turn", "neither a chat turn nor a browser turn with an action"))
            lost = True
        elif turn["action"].get("intent") == "load" and not _asked(turn["action"]):
            found.skipped.append(("step", item, "page_load", "not an action: the page an action led to"))
        else:
            number = jsonio.as_int(turn["action"].get("event_id"))
            latest = max(latest, number if number is not None else latest)
            kept.append((latest if number is None else number, index, turn, lost))
            lost = False
    return kept


def _step(demonstration: _Demonstration, index: int, turn: dict) -> tuple[Step, int | None]:
    """Return the step and the number of its screen."""
    action, found = turn["action"], demonstration.found
    arguments = jsonio.as_dict(action.get("arguments"))
    metadata, properties, element = _part(action, "metadata"), _part(action, "properties"), _part(action, "element")
    intent = jsonio.as_str(action.get("intent")) or ""
    tag = (jsonio.as_str(element.get("tagName")) or "").lower()
    op = ACTIONS.get(intent, "other")
    if intent == "change" and tag not in ("select", ""):
        op = "other"
    value, url = _value(intent, arguments, properties), jsonio.as_str(metadata.get("url")) or None
    if intent == "load":  # its metadata already name the new page
        value, url = value or url, None
    item = f"{found.source_file}#{index}"
    screen, picture = _screen(demonstration, item, jsonio.as_dict(turn.get("state")), jsonio.as_int(action.get("event_id")))
    step = Step(
        op=op,
        op_raw=_raw(intent, arguments, properties, tag),
        value=value,
        source_step=str(index),
        url=url,
        before=picture,
        timestamp=jsonio.as_float(turn.get("timestamp")),
        target=_target(demonstration, item, action, screen, picture),
    )
    return step, screen


def _value(intent: str, arguments: dict, properties: dict) -> str | None:
    if intent == "load":
        return jsonio.as_str(properties.get("url")) or None
    if intent == "scroll":  # where to, not how far
        places = [jsonio.as_str(arguments.get(name)) for name in ("scrollX", "scrollY")]
        return " ".join(place or "0" for place in places) if any(places) else None
    if intent.startswith("tab"):
        return jsonio.as_str(properties.get("tabId"))
    return jsonio.as_str(arguments.get(_VALUES.get(intent, "")))


def _screen(demonstration: _Demonstration, item: str, state: dict, event: int | None) -> tuple[int | None, Picture | None]:
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
    elif (event is not None and int(number[1]) != event) or (page and int(page[1]) != int(number[1])):
        reason, detail = "number_mismatch", f"screen {number[1]}, page {page[1] if page else '-'}, event {event}"
    else:
        return int(number[1]), Picture(jsonio.join(demonstration.folder, f"screenshots/{name}"))
    demonstration.found.skipped.append(("picture", item, reason, detail))
    return None, None


def _part(action: dict, name: str) -> dict:
    return jsonio.as_dict(jsonio.as_dict(action.get("arguments")).get(name))


def _asked(action: dict) -> bool:
    properties = _part(action, "properties")
    qualifiers = jsonio.as_list(properties.get("transitionQualifiers"))
    return jsonio.as_str(properties.get("transitionType")) in _ASKED or "from_address_bar" in qualifiers or "forward_back" in qualifiers


def _target(demonstration: _Demonstration, item: str, action: dict, screen: int | None, picture: Picture | None) -> Target | None:
    """Return pointer and box in pixels of the picture, as far as they can be known."""
    element, metadata = _part(action, "element"), _part(action, "metadata")
    text, zoom = _element_text(element), _zoom(metadata)
    scale = _scale(demonstration.root, metadata, picture)
    if zoom is None:
        demonstration.found.skipped.append(("target", item, "bad_zoom", f"zoomLevel: {jsonio.dump(metadata.get('zoomLevel'), 80)}"))
    if scale is None or zoom is None:
        return Target(text=text) if text else None
    pointer, pointing, box = _pointer(action, zoom), _points(action), _sides(element.get("bbox"))
    reading: tuple[str, list[float]] | str | None = None
    if box:
        reading = _read_box(_readings(box, zoom), pointer, pointing, demonstration.unit)
    elif screen is not None and (box := _listed_box(demonstration, item, element, screen)):
        # re-rendered boxes may also be in the page's own pixels, which the zoom enlarges
        readings = _readings(box, zoom) | {"page": [side * zoom for side in box]}
        reading = _read_box(readings, pointer, pointing, None)
    if isinstance(reading, str):
        detail = {
            "box_off_pointer": "the pointer is outside the element's box in either unit",
            "box_unit_unknown": f"at zoom {zoom:g} nothing shows which unit the element's box is in",
        }
        demonstration.found.skipped.append(("target", item, reading, detail[reading]))
        reading = None
    target = Target(text=text)
    if reading:
        left, top, width, height = [side * scale for side in reading[1]]
        target = replace(target, left=left, top=top, width=width, height=height)
    if pointer and (not reading or _holds(reading[1], pointer)):
        target = replace(target, x=pointer[0] * scale, y=pointer[1] * scale)
    return None if target == Target() else target


def _points(action: dict) -> bool:
    return jsonio.as_str(action.get("intent")) in _POINTING


def _zoom(metadata: dict) -> float | None:
    """Return the zoom, 1 where none is logged, or None where it makes no sense."""
    zoom = metadata.get("zoomLevel")
    found = 1.0 if zoom is None else jsonio.as_float(zoom)
    return found if found and 0.1 <= found <= 10 else None


def _pointer(action: dict, zoom: float) -> tuple[float, float] | None:
    """Return the pointer in viewport pixels; the recorder's own reading serves where the event has none."""
    properties, metadata = _part(action, "properties"), _part(action, "metadata")
    x, y = jsonio.as_float(properties.get("clientX")), jsonio.as_float(properties.get("clientY"))
    if x is not None and y is not None:
        return x / zoom, y / zoom
    x, y = jsonio.as_float(metadata.get("mouseX")), jsonio.as_float(metadata.get("mouseY"))
    if not _points(action) or x is None or y is None or min(x, y) < 0 or (x, y) == (0, 0):
        return None
    return x, y


def _sides(box: Any) -> list[float] | None:
    """Return left, top, width and height of a box that has an area."""
    given = {name: jsonio.as_float(value) for name, value in jsonio.as_dict(box).items()}
    left, top = (given.get(first) if given.get(first) is not None else given.get(other) for first, other in (("x", "left"), ("y", "top")))
    if left is None or top is None:
        return None
    width, height = given.get("width"), given.get("height")
    if width is None and given.get("right") is not None:
        width = given["right"] - left
    if height is None and given.get("bottom") is not None:
        height = given["bottom"] - top
    return [left, top, width, height] if width is not None and height is not None and width > 0 and height > 0 else None


def _listed_box(demonstration: _Demonstration, item: str, element: dict, screen: int) -> list[float] | None:
    """Return the box that the list of the page's boxes gives for an element, where there is such a list."""
    key = jsonio.as_str(jsonio.as_dict(element.get("attributes")).get("data-webtasks-id"))
    file = jsonio.join(demonstration.folder, f"bboxes/bboxes-{screen}.json")
    if not key or not jsonio.is_file(demonstration.root, file):
        return None
    if file not in demonstration.boxes:
        demonstration.boxes.clear()
        demonstration.boxes[file] = jsonio.read_json(demonstration.root, file, _REPLAY_LIMIT)
    boxes = demonstration.boxes[file]
    if isinstance(boxes, Skipped):
        demonstration.found.skipped.append(("target", item, boxes.reason, boxes.detail))
        return None
    return _sides(jsonio.as_dict(boxes).get(key))


def _readings(box: list[float], zoom: float) -> dict[str, list[float]]:
    """Return a box in viewport pixels, by the unit it may have been logged in."""
    return {"client": [side / zoom for side in box], "viewport": box} if zoom != 1 else {"viewport": box}


def _read_box(
    readings: dict[str, list[float]], pointer: tuple[float, float] | None, pointing: bool, usual: str | None
) -> tuple[str, list[float]] | str:
    """Return unit and box, or why there is none. Typing needs no pointer in its box, so a pointer elsewhere proves nothing."""
    fitting = {unit: box for unit, box in readings.items() if pointer and _holds(box, pointer)}
    if pointer and pointing and not fitting:
        return "box_off_pointer"
    if usual in (fitting or readings):
        return usual, readings[usual]
    if fitting or len({tuple(box) for box in readings.values()}) == 1:
        return next(iter((fitting or readings).items()))
    return "box_unit_unknown"


def _unit(actions: list[dict]) -> str | None:
    """Return the unit that the pointing turns of a demonstration prove for its elements' boxes, by majority."""
    votes: Counter[str] = Counter()
    for action in actions:
        zoom, box = _zoom(_part(action, "metadata")), _sides(_part(action, "element").get("bbox"))
        pointer = _pointer(action, zoom) if zoom and box and _points(action) else None
        if pointer and zoom and box:
            fitting = [unit for unit, sides in _readings(box, zoom).items() if _holds(sides, pointer)]
            if zoom != 1 and len(fitting) == 1:
                votes[fitting[0]] += 1
    best = votes.most_common(2)
    return best[0][0] if best and (len(best) == 1 or best[0][1] > best[1][1]) else None


def _holds(box: list[float], point: tuple[float, float]) -> bool:
    return all(box[axis] - _SLACK <= point[axis] <= box[axis] + box[axis + 2] + _SLACK for axis in (0, 1))


def _scale(root: Path, metadata: dict, picture: Picture | None) -> float | None:
    """Return picture pixels a viewport pixel."""
    width = jsonio.as_float(metadata.get("viewportWidth"))
    size = png_size(root, picture.file) if picture and width and width > 0 else None
    return size[0] / width if size and width else None


def _element_text(element: dict) -> str | None:
    """Return ``[tag] text`` of an element, with white space joined."""
    tag = (jsonio.as_str(element.get("tagName")) or "").lower()
    attributes = jsonio.as_dict(element.get("attributes"))
    texts = [element.get("textContent"), *(attributes.get(name) for name in ("aria-label", "placeholder", "alt", "title", "name", "value"))]
    text = next((joined for one in texts if (joined := " ".join((jsonio.as_str(one) or "")[:2000].split()))), "")
    return f"[{tag}] {text[:200]}".strip() if tag or text else None


def _raw(intent: str, arguments: dict, properties: dict, tag: str) -> str:
    """Return the action as logged, without the page's source and the mouse's details."""
    kept = {name: value for name, value in arguments.items() if name not in ("metadata", "properties", "element")}
    if intent == "load" or intent.startswith("tab"):
        kept |= {name: properties[name] for name in _TOLD if name in properties}
    xpath = jsonio.as_dict(arguments.get("element")).get("xpath")
    return jsonio.dump({"intent": intent, **kept, **({"element": tag, "xpath": xpath} if tag else {})})


def _instruction(root: Path, folder: str, found: Trajectory, turns: list) -> str | None:
    """Return the form's description of the task, else what the instructor said before the first action."""
    form = jsonio.read_json(root, jsonio.join(folder, "form.json"), _SMALL_LIMIT, unit="row")
    if not isinstance(form, dict | Skipped):
        form = Skipped(jsonio.join(folder, "form.json"), "bad_record", "not a JSON object", "row")
    if isinstance(form, Skipped):
        found.skipped.append((form.unit, form.item, form.reason, form.detail))
    elif description := (jsonio.as_str(form.get("description")) or "").strip():
        return description
    said = []
    for turn in map(jsonio.as_dict, turns):
        if turn.get("type") == "browser" and said:
            break
        if turn.get("type") == "chat" and turn.get("speaker") == "instructor":
            said.append(jsonio.as_str(turn.get("utterance")) or "")
    if text := "\n".join(filter(None, said)):
        return text
    found.skipped.append(("row", folder or ".", "no_instruction", "neither the form nor the instructor says what to do"))
    return None
