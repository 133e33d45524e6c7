"""AgentRewardBench: cleaned BrowserGym episodes, one JSON file each, the screen BEFORE each action; and its experts' answers.

``cleaned/<benchmark>/<model>/<experiment>/<task>.json`` with ``screenshots/<benchmark>/<model>/<task>/screenshot_step_<n>.png``
and ``data/annotations.csv``. Either part may be absent. The error a step logs belongs to the action before it; the last
record has no action and carries the final screen.
"""

import csv
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from evoaudit.sources import jsonio
from evoaudit.sources.base import Annotation, Oracle, Picture, Skipped, Step, Target, Trajectory, graded
from evoaudit.sources.calls import Call, parse_calls

LAYOUT = "cleaned/<benchmark>/<model>/<experiment>/<task>.json, or data/annotations.csv"
LICENSE: str | None = "custom terms (no SPDX id)"

#: BrowserGym's calls → operation.
ACTIONS = {
    "click": "click",
    "check": "click",
    "uncheck": "click",
    "mouse_click": "click",
    "focus": "other",
    "clear": "other",
    "dblclick": "double_click",
    "mouse_dblclick": "double_click",
    "hover": "hover",
    "mouse_move": "hover",
    "fill": "type",
    "keyboard_type": "type",
    "keyboard_insert_text": "type",
    "select_option": "select",
    "press": "key",
    "keyboard_press": "key",
    "keyboard_down": "key",
    "keyboard_up": "key",
    "drag_and_drop": "drag",
    "mouse_drag_and_drop": "drag",
    "mouse_down": "other",
    "mouse_up": "other",
    "scroll": "scroll",
    "scroll_at": "scroll",
    "upload_file": "other",
    "mouse_upload_file": "other",
    "goto": "navigate",
    "go_back": "back",
    "go_forward": "forward",
    "new_tab": "tab",
    "tab_close": "tab",
    "tab_focus": "tab",
    "noop": "wait",
    "send_msg_to_user": "answer",
    "report_infeasible": "fail",
}

QUESTIONS = {
    "success": "trajectory_success",
    "side_effect": "trajectory_side_effect",
    "optimality": "trajectory_optimality",
    "looping": "trajectory_looping",
}

PAGE_TEXT_LIMIT = 4_000

#: A file is up to 184 MB, nearly all of it dumps that are thrown away while it is parsed.
_HEAVY = frozenset({"axtree_obj", "bounding_boxes", "chat_messages", "dom_object", "dom_txt", "pruned_html", "stack_trace"})
_ELEMENT_CALLS = frozenset(
    {"click", "check", "uncheck", "dblclick", "hover", "fill", "select_option", "press", "focus", "clear", "drag_and_drop", "upload_file"}
)
_NODE = re.compile(r"^\s*\[([^\]\s]{1,40})\]\s*(.*)$")
_FOCUS = re.compile(r",\s*focused\b")


def read(root: Path, options: dict) -> Iterator[Trajectory | Skipped | Annotation]:
    """Yield the episodes in the order of their paths, then the annotations in file order."""
    for file in jsonio.files(root, ".json"):
        parts = file.split("/")
        if "cleaned" in parts:
            at = len(parts) - 1 - parts[::-1].index("cleaned")
            yield _trajectory(root, file, parts[:at], parts[at + 1 :])
    for file in ("data/annotations.csv", "annotations.csv"):
        if os.path.lexists(Path(root, file)):
            yield from _annotations(root, file)
            break


def _trajectory(root: Path, file: str, before: list[str], place: list[str]) -> Trajectory | Skipped:
    if len(place) != 4:
        return Skipped(file, "bad_place", "not at cleaned/<benchmark>/<model>/<experiment>/<task>.json")
    raw = jsonio.read_bytes(root, file)
    if isinstance(raw, Skipped):
        return raw
    episode = _parse(raw, file)
    if isinstance(episode, Skipped):
        return episode
    if not isinstance(episode, dict) or not isinstance(episode.get("steps"), list):
        return Skipped(file, "bad_record", "steps: missing or not a list")
    benchmark, model, experiment, task = place[0], place[1], place[2], place[3].removesuffix(".json")
    found = Trajectory(
        "/".join([benchmark, model, experiment, task]),
        [],
        file,
        "before",
        benchmark=benchmark,
        task_id=task,
        agent=model,
        experiment=experiment,
        instruction=jsonio.as_str(episode.get("goal")),
        license=LICENSE,
    )
    lost = False
    records = episode["steps"]
    for index, record in enumerate(records):
        item = f"{file} steps[{index}]"
        if not isinstance(record, dict):
            found.skipped.append(("step", item, "bad_record", "not a JSON object"))
            lost = True
            continue
        if found.steps and not lost:
            found.steps[-1].error = jsonio.as_str(record.get("last_action_error")) or None
        if record.get("action") is None and index == len(records) - 1:
            numbers = [jsonio.as_int(step) for step in (found.steps[-1].source_step if found.steps else None, record.get("num"))]
            if not lost and (None in numbers or numbers[1] - numbers[0] == 1):
                found.final = _picture(record, before)
            found.final_text, found.final_url = _page_text(record), jsonio.as_str(record.get("url"))
            continue
        action = jsonio.as_str(record.get("action"))
        if action is None:
            found.skipped.append(("step", item, "no_action", "a record without an action before the last"))
            lost = True
            continue
        step = _step(record, action, before)
        step.gap_before, lost = lost and bool(found.steps), False
        found.steps.append(step)
    _close(found)
    found.oracles = [_oracle(episode)]
    return found


def _parse(raw: bytes, file: str) -> Any | Skipped:
    """Parse an episode without its heavy parts, so that memory stays near the size of the file."""
    try:
        return json.loads(raw.decode("utf-8-sig"), strict=False, object_pairs_hook=_lighten)
    except UnicodeDecodeError as error:
        return Skipped(file, "not_utf8", f"byte {error.start} is not UTF-8")
    except RecursionError:
        return Skipped(file, "too_deep", "nested too deeply")
    except ValueError as error:
        return Skipped(file, "bad_json", f"not JSON: {error}")


def _lighten(pairs: list[tuple[str, Any]]) -> Any:
    """Build an object without what is not needed: heavy keys, all of an element but its box, all boxes but the target's."""
    value = {key: item for key, item in pairs if key not in _HEAVY}
    if "bbox" in value and "visibility" in value:
        return {"bbox": value["bbox"]}
    elements = value.get("extra_element_properties")
    if elements is not None and "action" in value:
        bid = _bid(parse_calls(value["action"]) or []) if isinstance(value["action"], str) else None
        value["extra_element_properties"] = {bid: elements[bid]} if isinstance(elements, dict) and bid in elements else {}
    return value


def _step(record: dict, action: str, before: list[str]) -> Step:
    calls = parse_calls(action) or []
    op, value, place = _action(calls)
    bid = _bid(calls)
    box = jsonio.as_list(jsonio.as_dict(jsonio.as_dict(record.get("extra_element_properties")).get(bid)).get("bbox"))
    left, top, width, height = [jsonio.as_float(side) for side in box] if len(box) == 4 else [None] * 4
    x, y = place
    if x is None and None not in (left, top, width, height):
        x, y = left + width / 2, top + height / 2
    target = Target(x, y, left, top, width, height, _node(record, bid) if bid else None)
    return Step(
        op,
        jsonio.dump(action),
        value,
        jsonio.as_str(record.get("num")),
        None if target == Target() else target,
        jsonio.as_str(record.get("reasoning")),
        jsonio.as_str(record.get("url")),
        _page_text(record),
        before=_picture(record, before),
    )


def _action(calls: list[Call]) -> tuple[str, str | None, tuple[float | None, float | None]]:
    """Return operation, value and pointer of a BrowserGym action; several calls at once are ``other``."""
    if len(calls) != 1:
        return "other", None, (None, None)
    call = calls[0]
    op = ACTIONS.get(call.name, "other")
    value, place = None, (None, None)
    if call.name.startswith("mouse_") or call.name == "scroll_at":
        x, y = jsonio.as_float(call.get(0, "x", "from_x")), jsonio.as_float(call.get(1, "y", "from_y"))
        place = (x, y) if x is not None and y is not None else place
    if call.name in {"fill", "select_option", "press"}:
        raw = call.get(1, "value", "options", "key_comb")
        value = ", ".join(str(item) for item in raw) if isinstance(raw, list) else None if raw is None else str(raw)
    elif op in {"type", "key", "navigate", "answer", "fail"}:
        raw = call.get(0, "text", "key", "url", "reason")
        value = None if raw is None else str(raw)
    elif op in {"scroll", "tab"}:
        amounts = call.args[2:] if call.name == "scroll_at" else call.args
        value = " ".join(str(item) for item in [*amounts, *call.kwargs.values()] if item is not None) or None
    return op, value, place


def _bid(calls: list[Call]) -> str | None:
    """Return the element id of an action that names one."""
    if len(calls) != 1 or calls[0].name not in _ELEMENT_CALLS:
        return None
    bid = calls[0].get(0, "bid", "from_bid")
    return str(bid) if isinstance(bid, str | int) else None


def _tree(record: dict) -> str:
    return jsonio.as_str(record.get("axtree_pruned")) or jsonio.as_str(record.get("axtree")) or ""


def _node(record: dict, bid: str) -> str | None:
    """Return role and name of an element as its accessibility line gives them."""
    for tree in (record.get("axtree_pruned"), record.get("axtree")):
        for line in (tree if isinstance(tree, str) else "").splitlines():
            match = _NODE.match(line)
            if match and match[1] == bid:
                return match[2][:500]
    return None


def _page_text(record: dict) -> str | None:
    """Return the accessible text without element ids, indentation and focus, which differ between equal pages."""
    lines, size = [], 0
    for line in _tree(record).splitlines():
        match = _NODE.match(line)
        line = _FOCUS.sub("", match[2] if match else line.strip())
        if line:
            lines.append(line)
            size += len(line) + 1
            if size > PAGE_TEXT_LIMIT:
                break
    return "\n".join(lines)[:PAGE_TEXT_LIMIT] or None


def _picture(record: dict, before: list[str]) -> Picture | None:
    """Return the screen a record names; its paths start at a folder ``trajectories`` that the data set does not have."""
    path = jsonio.as_str(record.get("screenshot_path"))
    if not path or path.rpartition("/")[2] in {"", "None"} or re.search(r"screenshot_step_None\.", path):
        return None
    return Picture("/".join([*before, path.removeprefix("./").removeprefix("trajectories/")]))


def _close(found: Trajectory) -> None:
    """Set answer and site, which show in the steps; a message before the end is talk, not the answer."""
    for step in found.steps[:-1]:
        if step.op == "answer":
            step.op = "say"
    last = next((step for step in reversed(found.steps) if step.op in {"answer", "say", "fail"}), None)
    found.answer = last.value if last else None
    for step in found.steps:
        try:
            host = urlsplit(step.url or "").netloc.rpartition("@")[2]
        except ValueError:
            continue
        if host:
            found.website = found.domain = host
            return


def _oracle(episode: dict) -> Oracle:
    """Read the functional reward; a harness error is not a FAIL, and cannot undo a success."""
    summary = jsonio.as_dict(episode.get("summary_info"))
    found = graded(jsonio.as_str(episode.get("benchmark")) or "functional", jsonio.as_float(summary.get("cum_reward")))
    if found.verdict != "pass" and summary.get("err_msg"):
        return Oracle(found.oracle, found.raw_reward, "error", "harness_error")
    return found


def _annotations(root: Path, file: str) -> Iterator[Annotation | Skipped]:
    """Yield each answer of each annotator; nobody is merged, since two annotators of one episode may disagree."""
    raw = jsonio.read_bytes(root, file, unit="row")
    if isinstance(raw, Skipped):
        yield raw
        return
    text = raw.decode("utf-8-sig", "replace").replace("\x00", "\N{REPLACEMENT CHARACTER}")
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        header = [name.strip() for name in next(rows, [])]
        needed = ["annotator_name", "benchmark", "task_id", "model_name", "exp_name", *QUESTIONS.values()]
        if absent := [name for name in needed if name not in header]:
            yield Skipped(f"{file}:1", "missing_field", f"no column {', '.join(absent)}", "row")
            return
        for number, values in enumerate(rows):
            if not any(value.strip() for value in values):
                continue
            item = f"{file}:{rows.line_num}"
            if len(values) != len(header):
                yield Skipped(item, "bad_record", f"{len(values)} cells, {len(header)} columns", "row")
                continue
            row = dict(zip(header, values, strict=True))
            place = [row[name].strip() for name in ("benchmark", "model_name", "exp_name", "task_id")]
            annotator = row["annotator_name"].strip()
            if not annotator or not all(place):
                yield Skipped(item, "missing_field", "an empty cell where the annotator or the episode is named", "row")
                continue
            for question, column in QUESTIONS.items():
                yield Annotation("/".join(place), annotator, question, row[column].strip() or None, number, place[0], place[1], place[3])
    except csv.Error as error:
        yield Skipped(f"{file}:{rows.line_num}", "bad_csv", str(error), "row")
