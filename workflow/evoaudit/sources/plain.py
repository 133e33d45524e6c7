"""The plain format: one JSON object a line in ``trajectories.jsonl``, pictures as files beside it. Bring your own logs.

``obs_phase`` follows from what the steps give: ``before`` or ``after`` if all give only that picture, else ``both``. If one
picture file may stand for two moments, give both pictures in each step; otherwise consecutive steps that name one file are
taken as several actions on one picture.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evoaudit.actions import OPS
from evoaudit.sources import jsonio
from evoaudit.sources.base import Oracle, Phase, Picture, Skipped, Step, Target, Trajectory, cost, graded

FILE = "trajectories.jsonl"
LAYOUT = f"{FILE} with one object a line: trajectory_id, steps[].action, steps[].before_image"
LICENSE: str | None = None

#: Names people use for actions → operation. Case, blanks, hyphens and underscores do not matter; other names become `other`.
ACTIONS = {op.replace("_", ""): op for op in OPS} | {
    "tap": "click",
    "leftclick": "click",
    "singleclick": "click",
    "check": "click",
    "uncheck": "click",
    "toggle": "click",
    "mousemove": "hover",
    "moveto": "hover",
    "doubletap": "double_click",
    "dblclick": "double_click",
    "rclick": "right_click",
    "input": "type",
    "inputtext": "type",
    "write": "type",
    "fill": "type",
    "entertext": "type",
    "settext": "type",
    "selectoption": "select",
    "choose": "select",
    "press": "key",
    "keypress": "key",
    "hotkey": "key",
    "presskey": "key",
    "enter": "key",
    "goto": "navigate",
    "open": "navigate",
    "openurl": "navigate",
    "goback": "back",
    "goforward": "forward",
    "newtab": "tab",
    "switchtab": "tab",
    "launchapp": "open_app",
    "longclick": "long_press",
    "draganddrop": "drag",
    "sleep": "wait",
    "noop": "wait",
    "respond": "answer",
    "finish": "done",
    "complete": "done",
    "stop": "done",
    "terminate": "done",
    "infeasible": "fail",
    "giveup": "fail",
}

_TEXTS = (
    "benchmark",
    "task_id",
    "task_revision",
    "agent",
    "experiment",
    "domain",
    "website",
    "instruction",
    "answer",
    "reference",
    "license",
)

#: Field → what it holds, for whoever checks or documents files: `text` (a number counts as its text), `number`, `reward` (a number,
#: true or false), `steps` or `any`.
FIELDS = {"trajectory_id": "text", "steps": "steps", **dict.fromkeys(_TEXTS, "text")} | {
    "raw_reward": "reward",
    "oracle": "text",
    "oracle_version": "text",
    "usd": "number",
}
STEP_FIELDS = {
    **dict.fromkeys(("action", "before_image", "after_image", "step"), "text"),
    "value": "any",
    **dict.fromkeys(("x", "y", "left", "top", "width", "height"), "number"),
    **dict.fromkeys(("text", "reasoning", "url", "page_text", "error"), "text"),
    "timestamp": "number",
}


def read(root: Path, options: dict) -> Iterator[Trajectory | Skipped]:
    """Yield one trajectory a line."""
    for number, value in jsonio.read_lines(root, FILE):
        item = f"{FILE}:{number}"
        if isinstance(value, Skipped):
            yield value
        elif not isinstance(value, dict):
            yield Skipped(item, "bad_record", "not a JSON object")
        elif jsonio.as_str(value.get("trajectory_id")) is None:
            yield Skipped(item, "missing_field", "trajectory_id: missing, or neither a text nor a number")
        elif not isinstance(value.get("steps"), list):
            yield Skipped(item, "missing_field", "steps: missing or not a list")
        else:
            yield _trajectory(value, item)


def _trajectory(value: dict, item: str) -> Trajectory:
    found = Trajectory(
        str(jsonio.as_str(value["trajectory_id"])), [], FILE, "both", **{name: jsonio.as_str(value.get(name)) for name in _TEXTS}
    )
    lost = False
    for index, raw in enumerate(value["steps"]):
        step = _step(raw)
        if isinstance(step, str):
            found.skipped.append(("step", f"{item} steps[{index}]", "bad_step", step))
            lost = True
            continue
        step.gap_before, lost = lost and bool(found.steps), False
        found.steps.append(step)
    found.obs_phase = _phase(found.steps)
    found.oracles = _oracles(value)
    found.cost = cost(value, "usd")
    return found


def _step(raw: Any) -> Step | str:
    """Return a step, or what is wrong with it."""
    if not isinstance(raw, dict):
        return "not a JSON object"
    action = raw.get("action")
    if not isinstance(action, str) or not action.strip():
        return "action: missing or not a text"
    pictures = {}
    for name in ("before_image", "after_image"):
        file = raw.get(name)
        if file is not None and not isinstance(file, str):
            return f"{name}: not a text"
        pictures[name] = Picture(file) if file else None
    place = [jsonio.as_float(raw.get(name)) for name in ("x", "y", "left", "top", "width", "height")]
    target = Target(*place, jsonio.as_str(raw.get("text")))
    value = raw.get("value")
    return Step(
        ACTIONS.get("".join(c for c in action.lower() if c.isalnum()), "other"),
        action,
        None if value is None else jsonio.dump(value),
        jsonio.as_str(raw.get("step")),
        None if target == Target() else target,
        jsonio.as_str(raw.get("reasoning")),
        jsonio.as_str(raw.get("url")),
        jsonio.as_str(raw.get("page_text")),
        pictures["before_image"],
        pictures["after_image"],
        jsonio.as_float(raw.get("timestamp")),
        jsonio.as_str(raw.get("error")),
    )


def _phase(steps: list[Step]) -> Phase:
    before, after = any(step.before for step in steps), any(step.after for step in steps)
    return "both" if before == after else "before" if before else "after"


def _oracles(value: dict) -> list[Oracle]:
    """Return the released verdict, if the line names a checker or a reward."""
    if "raw_reward" not in value and "oracle" not in value:
        return []
    raw = value.get("raw_reward")
    reward = float(raw) if isinstance(raw, bool) else jsonio.as_float(raw)
    return [
        graded(
            jsonio.as_str(value.get("oracle")) or "unnamed",
            reward,
            "no_reward" if raw is None else "bad_reward",
            jsonio.as_str(value.get("oracle_version")),
        )
    ]
