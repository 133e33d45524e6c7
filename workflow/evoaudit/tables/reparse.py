"""Answers read again by other rules, from what was answered word for word."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evoaudit import store
from evoaudit.infer.base import OK
from evoaudit.parse import Rule
from evoaudit.probes.vocabulary import vocabulary_of
from evoaudit.score import score
from evoaudit.tables.inputs import Run, codes
from evoaudit.tables.panel import TASKS

#: Rule → what it is called in the table of sensitivity.
RULES: dict[Rule, str] = {
    "strict": "nothing but one JSON object",
    "first": "the first JSON answer, not the last",
    "lenient": "any label or order, the last that is named",
}
_PROBES = {"t1": ("answer",), "t2": ("answer_action", "answer_value", "value_in_goal"), "t3": ("answer",)}
_MADE = ("status", "correct", "action_correct", "tau")
_Made = tuple[str, bool, bool | None, float | None]
#: What tells one model's answers under one condition apart.
_IDENTITY = ("max_image_side", "run", "task", "instance_id")
_NOT_AT_HAND = "the answers, word for word, are not at hand"


def read_again(run: Run, scores: pa.Table) -> dict[Rule, pa.Table] | str:
    """Return ``scores`` (the full condition, one picture size a model) under each rule, or why they cannot be made.

    An answer that is one JSON object and nothing else is the same under every rule, so only the others are read again.
    """
    mined, folders = run.folders.mined, run.folders.predictions
    if mined is None or not folders:
        return _NOT_AT_HAND
    probes = {
        (task, row["instance_id"]): row for task in TASKS for row in store.read_rows(mined, task, ["instance_id", "images", *_PROBES[task]])
    }
    words = vocabulary_of(mined)
    model, models = codes(scores["model"])
    known = {name: scores[name] for name in _MADE}
    found: dict[Rule, dict[int, _Made]] = {rule: {} for rule in RULES}
    seen = 0
    for name, asked in _by_model(folders):
        if name not in models:
            continue
        # One model's rows are looked up at a time: as Python's own objects, those of all would be most of a run's memory.
        mine = np.flatnonzero(model == models.index(name))
        rows = scores.select(list(_IDENTITY)).take(pa.array(mine)).to_pydict()
        place = dict(zip(zip(*rows.values(), strict=True), mine.tolist(), strict=True))
        for row in asked.to_pylist():
            number = place.get(tuple(row[column] for column in _IDENTITY))
            probe = probes.get((row["task"], row["instance_id"]))
            if number is None or probe is None:
                continue
            seen += 1
            strict = score(row["task"], probe, row, words, "strict")
            if strict["status"] == "answered":
                continue
            usual = score(row["task"], probe, row, words)
            if any(usual[column] != known[column][number].as_py() for column in ("status", "correct", "action_correct")):
                return "the answers at hand do not give the scores of this run"
            found["strict"][number] = _made(strict)
            for rule in ("first", "lenient"):
                found[rule][number] = _made(score(row["task"], probe, row, words, rule))
    answered = pc.sum(pc.not_equal(scores["status"], "unanswered")).as_py() or 0
    return _NOT_AT_HAND if seen < answered else {rule: _changed(scores, rows) for rule, rows in found.items()}


def _by_model(folders: Iterable[Path]) -> Iterator[tuple[str, pa.Table]]:
    """Yield each model with its answers to the full condition, a folder at a time."""
    for folder in folders:
        asked = store.read_table(folder, "predictions", ["model", *_IDENTITY, "condition", "status", "raw"])
        asked = asked.filter(pc.and_(pc.equal(asked["condition"], "full"), pc.equal(asked["status"], OK)))
        for name in pc.unique(asked["model"]).to_pylist():
            yield name, asked.filter(pc.equal(asked["model"], name))


def _made(row: dict[str, Any]) -> _Made:
    return tuple(row[name] for name in _MADE)


def _changed(scores: pa.Table, rows: dict[int, _Made]) -> pa.Table:
    """Return the scores with some rows scored otherwise."""
    if not rows:
        return scores
    places = sorted(rows)
    mask = np.zeros(scores.num_rows, bool)
    mask[places] = True
    for number, name in enumerate(_MADE):
        column = scores[name].combine_chunks()
        new = pa.array([rows[place][number] for place in places], column.type)
        scores = scores.set_column(scores.schema.get_field_index(name), name, pc.replace_with_mask(column, pa.array(mask), new))
    return scores
