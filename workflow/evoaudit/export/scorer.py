"""The rules of parsing and scoring as one file that needs nothing but Python: made from the modules the run itself uses."""

import inspect

from evoaudit import parse, score
from evoaudit.actions import VALUE_BEARING
from evoaudit.stats.evogain import CHANCE_T3, normalised_gain

NAME = "evogui_scorer.py"

_HEAD = '''"""How EvoGUI-Bench answers are read and scored. Generated from EvoAudit's own rules; needs nothing but Python.

`mark(task, row, text)` scores one answer; `summary(marks, baseline)` makes the numbers of a run; `baseline(items)` says what chance gets.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, Literal, NamedTuple

VALUE_BEARING = frozenset({value_bearing})

'''

_TAIL = '''

def mark(task: str, row: Mapping[str, Any], text: str | None) -> dict[str, Any]:
    """Score one answer; None or white space is no answer, which counts neither for nor against. ``row`` is a row of the data set."""
    marks: dict[str, Any] = {"task": task, "status": "unanswered", "parse_path": "none", "answer": None}
    marks |= {"correct": False, "action_correct": False if task == "t2" else None, "tau": None}
    if text is None or not text.strip():
        return marks
    known: dict[str, Any] = {}
    if task == "t1":
        known["k"] = len(row["answer"])
    elif task == "t2" and row.get("options"):
        known["vocabulary"] = tuple(row["options"])
    answer, marks["parse_path"] = parse_answer(task, text, **known)
    if answer is None:
        return {**marks, "status": "invalid"}
    return {**marks, "status": "answered", "answer": answer, **compare(task, row, answer)}


def baseline(items: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Return what a uniform guess scores in each task, percent; ``items`` are the (task, slice) of every item of the data set."""
    chance: dict[str, list[float]] = {}
    for task, name in items:
        if task == "t1":
            chance.setdefault("t1", []).append(100 / math.factorial(int(name.removeprefix("K="))))
        elif task == "t2":
            chance.setdefault("t2_joint", []).append(0.0 if name in VALUE_BEARING else CHANCE_T2_ACTION)
            chance.setdefault("t2_action", []).append(CHANCE_T2_ACTION)
        else:
            chance.setdefault("t3", []).append(CHANCE_T3)
    return {name: sum(values) / len(values) for name, values in chance.items()}


def summary(marks: Iterable[Mapping[str, Any]], chance: Mapping[str, float]) -> dict[str, float]:
    """Return accuracies in percent over what was answered, usable or not, T1's mean tau, and EvoGain where all three tasks are there."""
    found: dict[str, list[float]] = {}
    missing = 0
    for one in marks:
        if one["status"] == "unanswered":
            missing += 1
            continue
        name = "t2_joint" if one["task"] == "t2" else one["task"]
        found.setdefault(name, []).append(100.0 * one["correct"])
        if one["task"] == "t2":
            found.setdefault("t2_action", []).append(100.0 * one["action_correct"])
        if one["tau"] is not None:
            found.setdefault("t1_tau", []).append(one["tau"])
    numbers = {name: sum(values) / len(values) for name, values in sorted(found.items())}
    for index, tasks in (("evogain", ("t1", "t2_joint", "t3")), ("evogain_action", ("t1", "t2_action", "t3"))):
        if all(task in numbers and task in chance for task in tasks):
            numbers[index] = sum(normalised_gain(numbers[task], chance[task]) for task in tasks) / 3
    return {**numbers, "unanswered": float(missing)}
'''


def text() -> str:
    """Return the scorer's source."""
    source = inspect.getsource(parse)
    # Behind its docstring and imports, which stand in the head.
    rules = source[source.index("Path = Literal[") :].rstrip()
    constants = f"CHANCE_T2_ACTION = 100 / 3\nCHANCE_T3 = {CHANCE_T3}\n"
    functions = [inspect.getsource(one).rstrip() for one in (score.compare, score.order_tau, normalised_gain)]
    words = ", ".join(f'"{name}"' for name in sorted(VALUE_BEARING))
    head = _HEAD.replace("frozenset({value_bearing})", f"frozenset({{{words}}})")
    return head + rules + "\n\n\n" + constants + "\n\n" + "\n\n\n".join(functions) + "\n" + _TAIL
