"""OSWorld and OSWorld-Verified runs: a folder a task, ``traj.jsonl`` with a line an action, the screen AFTER each as a file.

Where the runner saved the first screen (``step_0…``, ``initial_state…``) it precedes the first action. Action texts are
parsed, never run. Every dialect that writes its actions as text or plain objects is read: pyautogui source, the
``computer_13`` space, Claude's and OpenAI's tool calls, OpenCUA's ``computer.…`` calls.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evoaudit.sources import jsonio
from evoaudit.sources.base import Oracle, Picture, Skipped, Step, Target, Trajectory, graded
from evoaudit.sources.calls import Action, keys, pyautogui

LAYOUT = "<action space>/<observation>/<model>/<domain>/<task id>/traj.jsonl with step_*.png beside it"
LICENSE: str | None = "MIT"

DOMAINS = frozenset(
    {"chrome", "gimp", "libreoffice_calc", "libreoffice_impress", "libreoffice_writer", "multi_apps", "os", "thunderbird", "vlc", "vs_code"}
)

#: Verbs of the object dialects (case and underscores aside) and the bare words → operation. Calls are read by `calls.pyautogui`.
ACTIONS = {
    "wait": "wait",
    "done": "done",
    "fail": "fail",
    "terminate": "done",
    "screenshot": "wait",
    "zoom": "wait",
    "cursorposition": "wait",
    "click": "click",
    "leftclick": "click",
    "rightclick": "right_click",
    "middleclick": "other",
    "doubleclick": "double_click",
    "tripleclick": "double_click",
    "moveto": "hover",
    "move": "hover",
    "mousemove": "hover",
    "mousedown": "other",
    "mouseup": "other",
    "leftmousedown": "other",
    "leftmouseup": "other",
    "dragto": "drag",
    "drag": "drag",
    "leftclickdrag": "drag",
    "scroll": "scroll",
    "typing": "type",
    "type": "type",
    "press": "key",
    "key": "key",
    "keypress": "key",
    "keydown": "key",
    "keyup": "key",
    "holdkey": "key",
    "hotkey": "key",
    "answer": "answer",
    "calluser": "fail",
}

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_STAMP = re.compile(r"(\d{8})@(\d{6})(\d{1,6})?")
_PICTURES = (".png", ".jpg", ".jpeg", ".webp")
_OTHER_SCHEMAS = ("status.json", "task_summary.json", "actions.json")


def read(root: Path, options: dict) -> Iterator[Trajectory | Skipped]:
    """Yield one trajectory a folder that holds ``traj.jsonl``; task folders without one are reported."""
    for folder, names in jsonio.walk(root):
        if "traj.jsonl" in names:
            yield _trajectory(root, folder, names)
        elif "result.txt" in names or (_UUID.fullmatch(folder.rpartition("/")[2]) and any(name in names for name in _OTHER_SCHEMAS)):
            other = next((name for name in _OTHER_SCHEMAS if name in names), None)
            detail = f"no traj.jsonl; {other} has another schema" if other else "no traj.jsonl beside result.txt"
            yield Skipped(folder or ".", "other_schema" if other else "no_trajectory_file", detail)


def _trajectory(root: Path, folder: str, names: list[str]) -> Trajectory | Skipped:
    file = jsonio.join(folder, "traj.jsonl")
    prefix, domain, task, attempt = _place(folder)
    found = Trajectory(
        folder or "root",
        [],
        file,
        "after",
        benchmark="osworld",
        task_id=task,
        agent=prefix[-1] if prefix else None,
        experiment="/".join([*prefix[:-1], *attempt]) or None,
        domain=domain,
        license=LICENSE,
    )
    errors: list[str] = []
    lost = False
    for number, line in jsonio.read_lines(root, file, unit="step"):
        item = f"{file}:{number}"
        if isinstance(line, Skipped):
            if number == 0:
                return Skipped(line.item, line.reason, line.detail)
            found.skipped.append(("step", line.item, line.reason, line.detail))
        elif not isinstance(line, dict):
            found.skipped.append(("step", item, "bad_record", "not a JSON object"))
        elif "action" not in line and (error := jsonio.as_str(line.get("Error")) or jsonio.as_str(line.get("error"))) is not None:
            errors.append(error)
            found.skipped.append(("step", item, "error_line", error))
        elif line.get("action") is None:
            found.skipped.append(("step", item, "no_action", "a line without an action"))
        else:
            step = _step(line, folder, names)
            if not found.steps and not lost:
                _first_screen(step, folder, names)
            step.gap_before, lost = lost and bool(found.steps), False
            found.steps.append(step)
            continue
        lost = True
    if not found.steps and errors:
        return Skipped(file, "error_only", errors[0])
    if found.steps:
        found.answer = next((step.value for step in reversed(found.steps) if step.op in {"answer", "done"} and step.value), None)
        found.oracles = [_oracle(root, folder, names, errors)]
        _task(root, found)
    return found


def _place(folder: str) -> tuple[list[str], str | None, str, list[str]]:
    """Split a task folder's path into what precedes the domain, domain, task and attempt folders below the task."""
    parts = folder.split("/") if folder else []
    at = next((index for index in range(len(parts) - 1, -1, -1) if _UUID.fullmatch(parts[index])), None)
    if at is None:  # renamed tasks: go by the ten domains
        at = next((index + 1 for index in range(len(parts) - 2, -1, -1) if parts[index] in DOMAINS), len(parts) - 1)
    if at < 0:
        return [], None, "root", []
    return parts[: max(0, at - 1)], parts[at - 1] if at else None, parts[at], parts[at + 1 :]


def _step(line: dict, folder: str, names: list[str]) -> Step:
    raw = line["action"]
    action = interpret(raw)
    number = jsonio.as_str(line.get("step_num"))
    info = jsonio.as_dict(line.get("info"))
    error = jsonio.as_str(line.get("error")) or jsonio.as_str(info.get("error"))
    if error is None and line.get("exec_ok") is False:
        error = jsonio.as_str(line.get("exec_result")) or "the action was not executed"
    reasoning = jsonio.as_str(line.get("response")) or jsonio.as_str(line.get("natural_language_action"))
    screen = _screen(line.get("screenshot_file"), number, folder, names)
    return Step(
        action.op,
        jsonio.dump(raw),
        action.value,
        number,
        _target(action, line),
        reasoning,
        jsonio.as_str(line.get("url")),
        after=screen,
        timestamp=_seconds(line.get("action_timestamp")),
        error=error,
    )


def _target(action: Action, line: dict) -> Target | None:
    text = jsonio.as_str(jsonio.as_dict(line.get("info")).get("target")) or jsonio.as_str(line.get("target"))
    return None if action.x is None and text is None else Target(action.x, action.y, text=text)


def interpret(raw: Any) -> Action:
    """Return the unified action of any dialect; what cannot be read is ``other``."""
    if isinstance(raw, list):
        raw = "\n".join(item for item in raw if isinstance(item, str)) if all(isinstance(item, str) for item in raw) else None
    if isinstance(raw, str):
        word = _word(raw)
        return Action(ACTIONS[word]) if word in {"wait", "done", "fail"} else pyautogui(raw) or Action("other")
    if not isinstance(raw, dict):
        return Action("other")
    if isinstance(raw.get("action"), str) and ("action_space" in raw or "call_id" in raw):
        return interpret(raw["action"])  # OpenAI: {"action_space": "pyautogui", "action": source, "call_id": …}
    if "input" in raw or "command" in raw:
        return _tool_call(raw)
    given = {**raw, **jsonio.as_dict(raw.get("parameters"))}
    return _object(given, str(raw.get("action_type") or raw.get("type") or raw.get("action") or ""))


def _tool_call(raw: dict) -> Action:
    """Read Claude's form: the command is in screen pixels, the tool's own coordinates are in the model's."""
    given = jsonio.as_dict(raw.get("input"))
    command = raw.get("command")
    action = interpret(command) if isinstance(command, str) and command.strip() else None
    named = _object({**given, "coordinate": None}, str(given.get("action") or ""))
    if action is None or action.op == "other":
        return Action(named.op, named.value, *((action.x, action.y) if action else (None, None)))
    return action


def _object(given: dict, verb: str) -> Action:
    """Read an action given as verb and fields (computer_13, OpenAI's and Claude's tools)."""
    op = ACTIONS.get(_word(verb), "other")
    place = jsonio.as_list(given.get("coordinate") or given.get("position"))
    x, y = jsonio.as_float(given.get("x")), jsonio.as_float(given.get("y"))
    if x is None and len(place) == 2:
        x, y = jsonio.as_float(place[0]), jsonio.as_float(place[1])
    value = None
    if op == "click":
        button, clicks = str(given.get("button") or "left").lower(), jsonio.as_int(given.get("num_clicks")) or 1
        op = {"left": "click", "primary": "click", "right": "right_click"}.get(button, "other")
        op = "double_click" if op == "click" and clicks > 1 else op
    elif op in {"type", "answer", "fail", "done"}:
        value = next((text for name in ("text", "answer", "reason") if (text := jsonio.as_str(given.get(name))) is not None), None)
        if _word(verb) == "terminate" and str(given.get("status")).lower() in {"failure", "fail", "failed", "infeasible"}:
            op = "fail"
    elif op == "key":
        value = keys(next((given[name] for name in ("keys", "key", "text") if given.get(name) is not None), None))
    elif op == "scroll":
        amounts = [jsonio.as_str(given.get(name)) for name in ("dx", "dy", "scroll_x", "scroll_y", "scroll_direction", "scroll_amount")]
        value = " ".join(amount for amount in amounts if amount is not None) or None
    elif op == "drag" and isinstance(given.get("path"), list):
        start = jsonio.as_dict(next(iter(given["path"]), None))
        x, y = jsonio.as_float(start.get("x")), jsonio.as_float(start.get("y"))
    return Action(op, value, x if y is not None else None, y if x is not None else None)


def _word(text: str) -> str:
    return text.strip().replace("_", "").replace(" ", "").lower() if len(text) < 200 else ""


def _screen(name: Any, number: str | None, folder: str, names: list[str]) -> Picture | None:
    """Return the picture a line names; where no such file is there, the only one with its step number."""
    if not isinstance(name, str) or not name:
        return None
    base = name.replace("\\", "/").rpartition("/")[2]
    if base not in names and number is not None:
        numbered = re.compile(rf"step_0*{re.escape(number)}[_.].*")
        alike = [other for other in names if numbered.fullmatch(other) and other.lower().endswith(_PICTURES)]
        base = alike[0] if len(alike) == 1 else base
    return Picture(jsonio.join(folder, base if base in names else name))


def _first_screen(step: Step, folder: str, names: list[str]) -> None:
    """Set the screen before the first action where the runner saved it and the step is the run's first."""
    saved = [name for name in names if re.match(r"(step_0+|initial_state)[_.]", name) and name.lower().endswith(_PICTURES)]
    if len(saved) == 1 and step.source_step in {None, "0", "1"}:
        picture = Picture(jsonio.join(folder, saved[0]))
        step.before = picture if picture != step.after else None


def _oracle(root: Path, folder: str, names: list[str], errors: list[str]) -> Oracle:
    """Read ``result.txt``; without it the run is unfinished or crashed, which is not a FAIL."""
    if "result.txt" not in names:
        return Oracle("osworld", None, "error", "run_error") if errors else Oracle("osworld", None, "unscored", "no_result")
    raw = jsonio.read_bytes(root, jsonio.join(folder, "result.txt"), 10_000)
    if isinstance(raw, Skipped):
        return Oracle("osworld", None, "unscored", raw.reason)
    text = raw.decode("utf-8-sig", "replace").strip()
    truth = jsonio.as_bool(text)
    return graded("osworld", jsonio.as_float(text) if truth is None else float(truth), "bad_result")


def _task(root: Path, found: Trajectory) -> None:
    """Add goal and known infeasibility where the task set lies beside the runs."""
    for place in ("evaluation_examples/examples", "examples"):
        file = f"{place}/{found.domain}/{found.task_id}.json"
        if jsonio.is_file(root, file):
            task = jsonio.read_json(root, file, 2**22)
            if isinstance(task, dict):
                found.instruction = jsonio.as_str(task.get("instruction"))
                if jsonio.as_dict(task.get("evaluator")).get("func") == "infeasible":
                    found.reference = "infeasible"
                return


def _seconds(stamp: Any) -> float | None:
    """Return ``YYYYMMDD@HHMMSS[ffffff]`` as seconds since the epoch, its clock taken as UTC."""
    match = _STAMP.fullmatch(stamp) if isinstance(stamp, str) else None
    if match is None:
        return jsonio.as_float(stamp)
    try:
        return datetime.strptime(match[1] + match[2] + (match[3] or "0"), "%Y%m%d%H%M%S%f").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
