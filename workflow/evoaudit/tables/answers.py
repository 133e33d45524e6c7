"""What became of every request: answered, unusable or without an answer and why, and how far the missing ones could move a score."""

from collections import Counter

import numpy as np

from evoaudit.conditions import CONDITIONS, TASKS
from evoaudit.tables.inputs import Empty
from evoaudit.tables.panel import NOTHING_SCORED, Panel

#: What the model did instead of answering, each a column; a fault of the service, or of the run; and what was never sent.
NAMED = ("refused", "content_filter", "truncated", "empty", "context_overflow")
NOT_SENT = ("picture_missing", "picture_limit")
_METRIC = {"t1": "t1", "t2": "t2_joint", "t3": "t3"}


def answers(panel: Panel) -> list[dict]:
    """Return a row a model, condition, picture size and task, in the order of the main table."""
    if not panel.answers:
        raise Empty(NOTHING_SCORED)
    statuses, cut = _predictions(panel)
    firsts: dict[str, list] = {}
    for one in panel.answers.values():
        firsts.setdefault(one.model, []).append(one)
    order = {one.model: place for place, one in enumerate(panel.ordered([found[0] for found in firsts.values()]))}
    conditions = list(CONDITIONS)
    rows = []
    for one in sorted(panel.answers.values(), key=lambda one: (order[one.model], conditions.index(one.condition), one.side)):
        for task in TASKS:
            if task not in CONDITIONS[one.condition].tasks or not len(panel.items[task]):
                continue
            given, invalid, missing = (one.counts[task, name] for name in ("answered", "invalid", "unanswered"))
            n = given + invalid + missing
            key = (one.model, one.condition, one.side, task)
            why = statuses.get(key, Counter())
            told = sum(why.values())
            score = one.accuracy(_METRIC[task])
            # Correct over everything asked if all that is missing were wrong, and if it were right.
            worst = None if score is None else score * (given + invalid) / n
            rows.append(
                {
                    "group": panel.heading(one.model),
                    "model": one.model,
                    "condition": one.condition,
                    "task": task.upper(),
                    "n_asked": n,
                    "n_answered": given,
                    "n_invalid": invalid,
                    "n_unanswered": missing,
                    "accuracy": score,
                    "accuracy_worst": worst if score is not None else 0.0 if n else None,
                    "accuracy_best": (worst or 0.0) + 100 * missing / n if n else None,
                    "limit_hit_share": 100 * cut[key] / told if told else None,
                    **{f"n_{name}": why[name] if told else None for name in NAMED},
                    "n_not_sent": sum(why[name] for name in NOT_SENT) if told else None,
                    "n_fault": sum(m for name, m in why.items() if name not in ("ok", *NAMED, *NOT_SENT)) if told else None,
                    "max_image_side": one.side,
                    "runs": one.runs,
                    "simulated": bool(np.any(panel.items[task].simulated)) or one.simulated,
                }
            )
    return rows


def _predictions(panel: Panel) -> tuple[dict[tuple, Counter], Counter]:
    """Return statuses, and the number of answers that hit the bound on output, by model, condition, picture size and task."""
    names = ["model", "condition", "max_image_side", "task", "status", "limit_hit"]
    table = panel.run.table(panel.run.folders.predictions, "predictions", names)
    statuses: dict[tuple, Counter] = {}
    cut: Counter[tuple] = Counter()
    for row in table.group_by(names).aggregate([([], "count_all")]).to_pylist():
        key = tuple(row[name] for name in names[:4])
        statuses.setdefault(key, Counter())[row["status"]] += row["count_all"]
        cut[key] += row["count_all"] if row["limit_hit"] else 0
    return statuses, cut
