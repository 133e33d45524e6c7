"""The EvoGain index and what chance scores (EvoGUI, section 3.1 and appendix A.6). Everything on the 0–100 scale."""

import math
from collections.abc import Mapping, Sequence

from evoaudit.stats.undefined import undefined

#: T2 action by a uniform guess among three actions; T3 by a coin.
CHANCE_T2_ACTION = 100 / 3
CHANCE_T3 = 50.0


def normalised_gain(score: float, baseline: float) -> float:
    """Return how much of the room above chance a score takes; negative below chance, never clipped. Works on arrays."""
    return (score - baseline) / (100 - baseline) * 100


def _index(name: str, scores: Sequence[float | None], baseline: Sequence[float | None]) -> float | None:
    if any(value is None for value in (*scores, *baseline)):
        return undefined(name, "a task has no score or no baseline")
    if any(base >= 100 for base in baseline):
        return undefined(name, "a baseline leaves no room above it")
    return sum(normalised_gain(score, base) for score, base in zip(scores, baseline, strict=True)) / 3


def evogain(t1: float | None, t2_joint: float | None, t3: float | None, baseline: Sequence[float | None]) -> float | None:
    """Return EvoGain: the mean of the three tasks' gains over ``baseline`` (T1, T2 joint, T3)."""
    return _index("evogain", (t1, t2_joint, t3), baseline)


def evogain_action(t1: float | None, t2_top1: float | None, t3: float | None, baseline: Sequence[float | None]) -> float | None:
    """Return EvoGain with T2's action alone; ``baseline`` is (T1, T2 action, T3)."""
    return _index("evogain_action", (t1, t2_top1, t3), baseline)


def baseline_t1(n_by_k: Mapping[str | int, int]) -> float | None:
    """Return the share of exact orders a uniform guess gets, given how many items show K screens."""
    total = sum(n_by_k.values())
    if total == 0:
        return undefined("baseline_t1", "no items")
    return 100 * sum(n / math.factorial(int(k)) for k, n in n_by_k.items()) / total


def baseline_t2_joint(click: int, type: int, select: int, p_value_hit: float = 0.0) -> float | None:
    """Return T2 joint accuracy of a uniform action whose value is right with ``p_value_hit``; a click needs no value."""
    total = click + type + select
    if total == 0:
        return undefined("baseline_t2_joint", "no items")
    return CHANCE_T2_ACTION * (click + (type + select) * p_value_hit) / total
