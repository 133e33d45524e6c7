"""AndroidWorld runs: a pickle a task instance, ``<task>_<instance>.pkl.gz``, that holds a list of episodes.

An episode's steps are a dictionary of lists. M3A logs the screen before each action (``raw_screenshot``), T3A those before
and after it, SeeAct the one before (``screenshot``). Pictures with a mark on every element are not read. But the agents
also draw a frame on the element they picked by its number, into the only plain picture they keep of the screen before;
T3A's pictures after an action are clean, so there the screen before such a step is the one after the step before it.
With M3A the frame stays, and two screens differ by it even where nothing happened.

Pickles are read as data (see `unpickle`). Positions are pixels of the screen, as logged.
"""

import ast
import json
import warnings
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from evoaudit.sources import jsonio, unpickle, unpickle_screens
from evoaudit.sources.base import Oracle, Picture, Skipped, Step, Target, Trajectory, graded
from evoaudit.sources.calls import TEXT_LIMIT
from evoaudit.sources.unpickle_screens import load as load
from evoaudit.sources.unpickle_values import get, listed

LAYOUT = "run_<time>/<task>_<instance>.pkl.gz"
LICENSE: str | None = "Apache-2.0"

#: ``action_type`` → operation; ``status`` is ``fail`` where the agent calls the goal infeasible.
ACTIONS = {
    "click": "click",
    "double_tap": "double_click",
    "long_press": "long_press",
    "scroll": "scroll",
    "swipe": "swipe",
    "input_text": "type",
    "navigate_home": "key",
    "navigate_back": "back",
    "keyboard_enter": "key",
    "open_app": "open_app",
    "wait": "wait",
    "status": "done",
    "answer": "answer",
    "unknown": "other",
}

PAGE_TEXT_LIMIT = 4_000

_KEYS = ("action_type", "index", "x", "y", "text", "direction", "app_name", "goal_status", "keycode", "clear_text")
_VALUES = {"type": "text", "answer": "text", "scroll": "direction", "swipe": "direction", "open_app": "app_name"}
_PRESSED = {"navigate_home": "Home", "keyboard_enter": "Enter"}
_BEFORE, _AFTER = ("raw_screenshot", "before_screenshot", "screenshot"), ("after_screenshot",)
_ELEMENTS = ("before_ui_elements", "before_element_list", "ui_elements")
_FIELDS = (
    *_BEFORE,
    *_AFTER,
    *_ELEMENTS,
    *("after_element_list", "actionable_elements", "step_number", "action_output_json", "action", "action_output", "action_reason"),
    *("action_gen_response", "summary"),
)
#: Steps of an episode and of a file, elements whose texts are listed, and what is searched of a model's answer: a pickle
#: may name one and the same list very often.
_STEP_LIMIT, _FILE_LIMIT, _ELEMENT_LIMIT, _OUTPUT_LIMIT, _PYTHON_LIMIT = 2_000, 20_000, 500, 100_000, 4_000
_GIVEN_UP = frozenset({"infeasible", "impossible", "fail", "failed", "failure"})
#: Actions whose element, if it was picked by its number, gets a frame drawn into the picture.
_FRAMED = frozenset({"click", "long_press", "input_text", "scroll"})
#: How the runner's own summaries of a step begin if nothing was done.
_UNDONE = (
    "Output for action selection is not in the correct format",
    "Can not parse the output to a valid action",
    "The parameter index is out of range",
    "Can not execute the action",
    "Some error happened executing the action",
)


def read(root: Path, options: dict) -> Iterator[Trajectory | Skipped]:
    """Yield the episodes in the order of their files. ``options`` may select ``files`` and ``agents`` by patterns."""
    patterns, agents = options.get("files"), options.get("agents")
    for file in jsonio.files(root, ".pkl.gz", ".pkl"):
        if patterns and not any(fnmatchcase(file, pattern) for pattern in patterns):
            continue
        episodes = unpickle.read(root, file)
        if isinstance(episodes, Skipped):
            yield episodes
            continue
        if type(episodes) is tuple and episodes and type(episodes[0]) is list:  # older runs: (episodes, names of finished tasks)
            episodes = episodes[0]
        if type(episodes) is not list:
            yield Skipped(file, "bad_record", "not a list of episodes")
            continue
        steps = 0
        for number, episode in enumerate(episodes):
            agent = jsonio.as_str(get(episode, "agent_name"))
            if agents and not any(fnmatchcase(agent or "", pattern) for pattern in agents):
                continue
            if steps > _FILE_LIMIT:
                yield Skipped(f"{file}[{number}]", "too_large", f"{len(episodes) - number} episodes behind the first {_FILE_LIMIT:,} steps")
                break
            found = _trajectory(root, file, number, episode, len(episodes) > 1)
            steps += 1 if isinstance(found, Skipped) else len(found.steps) + 1
            yield found


def _trajectory(root: Path, file: str, number: int, episode: Any, several: bool) -> Trajectory | Skipped:
    item = f"{file}[{number}]"
    if type(episode) is not dict:
        return Skipped(item, "bad_record", "an episode that is no dictionary")
    crash = jsonio.as_str(episode.get("exception_info"))
    data = episode.get("episode_data")
    if type(data) is not dict or not data:
        detail = "its steps are missing" if crash is None else f"the run broke off: {_last_line(crash)}"
        return Skipped(item, "no_steps" if crash is None else "crashed", detail)
    stem = file.removesuffix(".gz").removesuffix(".pkl")
    template = _short(episode.get("task_template")) or stem.rpartition("/")[2].rpartition("_")[0] or None
    instance = _short(episode.get("instance_id")) or stem.rpartition("_")[2]
    seed = _short(episode.get("seed"))
    found = Trajectory(
        f"{stem}/{number}" if several else stem,
        [],
        file,
        "both" if "after_screenshot" in data else "before",
        benchmark="androidworld",
        task_id=f"{template}_{instance}" if template else instance,
        task_revision=f"seed {seed}" if seed else None,
        agent=jsonio.as_str(episode.get("agent_name")),
        experiment=file.rpartition("/")[0] or None,
        domain="android",
        instruction=jsonio.as_str(episode.get("goal")),
        license=LICENSE,
        oracles=[_oracle(episode.get("is_successful"), crash)],
    )
    lists = _lists(data, item, found)
    count = max((len(values) for values in lists.values()), default=0)
    if count > _STEP_LIMIT:
        return Skipped(item, "too_large", f"{count:,} steps")
    for index in range(count):
        found.steps.append(_step(root, file, f"{number}", index, {name: values[index] for name, values in lists.items()}, found))
    found.final_text = _page_text(listed(lists["after_element_list"][-1])) if count and "after_element_list" in lists else None
    answers = [step for step in found.steps if step.op == "answer"]
    for step in answers[:-1]:
        step.op = "say"
    found.answer = answers[-1].value if answers else None
    return found


def _short(value: Any) -> str | None:
    return (jsonio.as_str(value) or "")[:200] or None


def _last_line(text: str) -> str:
    return (text[-2_000:].strip().splitlines() or [""])[-1][:300]


def _oracle(reward: Any, crash: str | None) -> Oracle:
    """Return the verdict; a run that broke off has none, and no number without a reason is no verdict either."""
    value = float(reward) if type(reward) is bool else jsonio.as_float(reward) if isinstance(reward, int | float) else None
    if value is None and crash is not None:
        return Oracle("androidworld", None, "error", "run_error")
    return graded("androidworld", value)


def _lists(data: dict, item: str, found: Trajectory) -> dict[str, Sequence]:
    """Return the lists by field that have a value for each step; what a list of another length belongs to cannot be told."""
    lists = {name: values for name in _FIELDS if (values := listed(data.get(name)))}
    count = len(lists.get("step_number", ())) or max((len(values) for values in lists.values()), default=0)
    for name, values in lists.items():
        if len(values) != count:
            found.skipped.append(("row", f"{item} {name}", "count_mismatch", f"{len(values):,} values for {count:,} steps"))
    return {name: values for name, values in lists.items() if len(values) == count}


def _step(root: Path, file: str, episode: str, index: int, fields: dict, found: Trajectory) -> Step:
    action, raw = _action(fields)
    elements = listed(next((fields[key] for key in _ELEMENTS if fields.get(key) is not None), None))
    if fields.get("actionable_elements") is not None:
        elements = [get(element, "ui_element") for element in listed(fields["actionable_elements"])[:_ELEMENT_LIMIT]]
    before, after = _screen(root, file, episode, index, fields, _BEFORE, found), _screen(root, file, episode, index, fields, _AFTER, found)
    chosen = jsonio.as_int(action.get("index"))
    element = elements[chosen] if chosen is not None and 0 <= chosen < len(elements) else None
    verb = jsonio.as_str(action.get("action_type")) or "unknown"
    if element is not None and verb in _FRAMED and found.steps and found.steps[-1].after is not None:
        before = None
    op = ACTIONS.get(verb, "other")
    if verb == "status" and (jsonio.as_str(action.get("goal_status")) or "").lower() in _GIVEN_UP:
        op = "fail"
    output = _output(fields)
    summary = jsonio.as_str(fields.get("summary"))
    return Step(
        op,
        raw,
        _PRESSED.get(verb) or jsonio.as_str(action.get(_VALUES.get(op, ""))),
        jsonio.as_str(fields.get("step_number")),
        _target(action, element),
        jsonio.as_str(fields.get("action_reason")) or _reason(output) or jsonio.as_str(fields.get("action_gen_response")),
        page_text=_page_text(elements),
        before=before,
        after=after,
        error=summary if summary and summary.startswith(_UNDONE) else None,
    )


def _screen(root: Path, file: str, episode: str, index: int, fields: dict, names: tuple[str, ...], found: Trajectory) -> Picture | None:
    name = next((name for name in names if fields.get(name) is not None), None)
    if name is None:
        return None
    place = f"{episode}/{name}/{index}"
    picture = unpickle_screens.screen(root, file, place, fields[name])
    if picture is None:
        found.skipped.append(("picture", f"{file}#{place}", "bad_screen", "not an array of 8-bit pixels, height × width × 3"))
    return picture


def _action(fields: dict) -> tuple[dict, str | None]:
    """Return an action's fields and its text as logged; no fields where the agent's words were no action."""
    for key in ("action_output_json", "action"):
        if key in fields:
            made = {name: value for name in _KEYS if (value := get(fields[key], name)) is not None}
            made = {name: value for name, value in made.items() if isinstance(value, str | int | float)}
            return made, jsonio.dump(made) if made else _output(fields)
    output = _output(fields)
    if output is None:
        return {}, None
    text = output.rpartition("Action:")[2].strip()
    return _parsed(text), jsonio.dump(text)


def _output(fields: dict) -> str | None:
    """Return the model's answer, which holds reason and action."""
    output = jsonio.as_str(fields.get("action_output"))
    return output[:_OUTPUT_LIMIT] if output else None


def _parsed(text: str) -> dict:
    """Return the object in a model's answer, written as JSON or as Python's dictionary."""
    start, end = text.find("{"), text.rfind("}") + 1
    if start < 0 or end <= start or end - start > TEXT_LIMIT:
        return {}
    for parse in (_json, _python):
        try:
            value = parse(text[start:end])
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
        if isinstance(value, dict):
            return {name: value[name] for name in _KEYS if isinstance(value.get(name), str | int | float)}
    return {}


def _json(text: str) -> Any:
    return json.JSONDecoder().raw_decode(text)[0]


def _python(text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in somebody's log are not ours to report
        return ast.literal_eval(text[:_PYTHON_LIMIT])


def _reason(output: str | None) -> str | None:
    head, found, _ = (output or "").rpartition("Action:")
    return head.strip().removeprefix("Reason:").strip() or None if found else None


def _target(action: dict, element: Any) -> Target | None:
    """Return pointer, box and text of what the action went to."""
    x, y = jsonio.as_float(action.get("x")), jsonio.as_float(action.get("y"))
    box = get(element, "bbox_pixels")
    left, right, top, bottom = [jsonio.as_float(get(box, side)) for side in ("x_min", "x_max", "y_min", "y_max")]
    if None in (left, right, top, bottom) or right < left or bottom < top:
        left = right = top = bottom = None
    if x is None or y is None:
        x, y = ((left + right) / 2, (top + bottom) / 2) if left is not None else (None, None)
    text = _label(element)
    role = (jsonio.as_str(get(element, "class_name")) or "").rpartition(".")[2]
    text = f"{role} '{text}'" if role and text else text or role or None
    size = (right - left, bottom - top) if left is not None else (None, None)
    target = Target(x, y, left, top, *size, text)
    return None if target == Target() else target


def _label(element: Any) -> str | None:
    return next(
        (text for key in ("text", "content_description", "hint_text", "tooltip") if (text := jsonio.as_str(get(element, key)))), None
    )


def _page_text(elements: Sequence) -> str | None:
    """Return the texts of the elements, a line each."""
    lines, size = [], 0
    for element in elements[:_ELEMENT_LIMIT]:
        if size > PAGE_TEXT_LIMIT:
            break
        if text := _label(element):
            lines.append(text)
            size += len(text) + 1
    return "\n".join(lines)[:PAGE_TEXT_LIMIT] or None
