"""Mind2Web's actions, as all of its forms write them: operation, target box, and the text of the target."""

import re
from collections.abc import Callable
from typing import Any

from evoaudit.errors import one_line
from evoaudit.sources import jsonio
from evoaudit.sources.base import Step, Target

#: What the annotator did (``original_op``); the data set's own ``op`` folds the last two into CLICK.
ACTIONS = {"CLICK": "click", "TYPE": "type", "SELECT": "select", "HOVER": "hover", "ENTER": "key"}

Box = tuple[float, float, float, float]

#: ``[role]  text -> OP: value``; text and value may hold arrows of their own, so the last one before an operation counts.
_REPR = re.compile(rf"(.*) -> ({'|'.join(ACTIONS)})(?:: ?(.*))?", re.DOTALL)
_CANDIDATES = 1000


def step(raw: Any, index: str | None, shown: str | None, candidates: Any) -> tuple[Step, str | None]:
    """Return an action as a step without pictures, and what is wrong with its operation, if anything.

    ``raw`` is the operation (an object, or JSON of one), ``shown`` its line of ``action_reprs``, ``candidates`` are the
    ``pos_candidates``. An operation that cannot be read makes the step ``other``.
    """
    parsed = jsonio.parse(raw, "operation") if isinstance(raw, str) else raw
    fault = None if isinstance(parsed, dict) else f"operation is no JSON object: {one_line(jsonio.dump(raw), 80)}; kept as 'other'"
    operation = jsonio.as_dict(parsed)
    verb = jsonio.as_str(operation.get("original_op"))
    if verb not in ACTIONS:
        verb = jsonio.as_str(operation.get("op"))
    value = jsonio.as_str(operation.get("value"))
    made = _step(verb, value, index, None if raw is None else jsonio.dump(raw))
    made.target = _target(_text(shown, verb, made.value), _box(jsonio.as_list(candidates)))
    return made, fault


def step_of_repr(shown: str, index: str) -> Step:
    """Return the step that a line of ``action_reprs`` describes, for records that hold nothing else."""
    match = _REPR.fullmatch(shown)
    made = _step(match and match[2], match and match[3], index, shown)
    made.target = _target(_text(shown, None, None), None)
    return made


def _step(verb: str | None, value: str | None, index: str | None, raw: str | None) -> Step:
    if verb == "ENTER":
        value = "Enter"
    elif verb not in ("TYPE", "SELECT"):
        value = None
    return Step(op=ACTIONS.get(verb or "", "other"), op_raw=raw, value=value or None, source_step=index)


def _target(text: str | None, box: Box | None) -> Target | None:
    if box is not None:
        left, top, width, height = box
        return Target(left=left, top=top, width=width, height=height, text=text)
    return Target(text=text) if text else None


def _text(shown: str | None, verb: str | None, value: str | None) -> str | None:
    """Return the role and text of the target."""
    if shown is None:
        return None
    ending = f" -> {verb}: {value}" if value and verb != "ENTER" else f" -> {verb}"
    if verb and shown.endswith(ending):
        text = shown.removesuffix(ending)
    else:
        match = _REPR.fullmatch(shown)
        text = match[1] if match else shown.rpartition(" -> ")[0] or shown
    return text.strip() or None


def _box(candidates: list) -> Box | None:
    """Return (left, top, width, height) of the annotator's element, else of its top-level twin, else of the first.

    Page pixels are picture pixels. Elements that were not rendered have ``-1,-1,-1,-1``, which is no box.
    """
    parsed = [jsonio.as_dict(jsonio.parse(one, "candidate") if isinstance(one, str) else one) for one in candidates[:_CANDIDATES]]
    flags: tuple[Callable[[dict], bool], ...] = (
        lambda one: jsonio.as_bool(one.get("is_original_target")) is True,
        lambda one: jsonio.as_bool(one.get("is_top_level_target")) is True,
        lambda one: True,
    )
    for flag in flags:
        for one in parsed:
            if flag(one) and (box := _rect(one.get("attributes"))) is not None:
                return box
    return None


def _rect(attributes: Any) -> Box | None:
    attributes = jsonio.as_dict(jsonio.parse(attributes, "attributes") if isinstance(attributes, str) else attributes)
    return rect((jsonio.as_str(attributes.get("bounding_box_rect")) or "").split(",", 4))


def rect(numbers: list) -> Box | None:
    """Return four numbers, or texts of numbers, as a box, or None if they are none."""
    sides = [jsonio.as_float(number) for number in numbers]
    if len(sides) != 4 or None in sides or sides[2] < 0 or sides[3] < 0:
        return None
    return sides[0], sides[1], sides[2], sides[3]
