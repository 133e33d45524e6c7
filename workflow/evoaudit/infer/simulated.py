"""A model that is made up: it knows every answer and gives the right one with a stated chance. For trying the tables, never for a finding.

Under every condition but ``full`` it guesses evenly. Its chance differs from instance to instance around the stated
one, and its confidence is that chance, so it is neither too sure nor too shy.
"""

import json
from collections.abc import Sequence
from itertools import permutations
from typing import Any

from evoaudit.parse import LABELS, VOCABULARY
from evoaudit.streams import order, rank

NAME = "simulated"
#: How far an instance's chance may lie from the stated one, at most.
SPREAD = 0.15


class Solver:
    """One simulated model under one condition. Thread-safe: equal questions have equal answers."""

    def __init__(
        self, name: str, accuracy: dict[str, float], *, condition: str, side: int, seed: int, vocabulary: Sequence[str] = VOCABULARY
    ) -> None:
        self._accuracy, self._blind, self._seed, self._vocabulary = accuracy, condition != "full", seed, vocabulary
        self._identity = (name, condition, side)

    def answer(self, task: str, probe: dict[str, Any], run: int) -> str:
        """Return the answer's text."""
        identity = (*self._identity, probe["instance_id"], run)
        stated = self._accuracy[task]
        spread = min(SPREAD, stated, 1 - stated)
        chance = stated + spread * (2 * self._roll("difficulty", *identity) - 1)
        right = not self._blind and self._roll(task, *identity) < chance
        if task == "t1":
            return json.dumps({"order": self._pick(_orders(probe["answer"]), probe["answer"], right, identity)})
        truth = probe["answer_action"] if task == "t2" else probe["answer"]
        given = self._pick(list(self._vocabulary if task == "t2" else LABELS), truth, right, identity)
        confidence = round(chance, 2) if not self._blind else round(1 / (len(self._vocabulary) if task == "t2" else len(LABELS)), 2)
        if task == "t3":
            return json.dumps({"answer": given, "confidence": confidence})
        exact = not self._blind and given == truth != "click" and self._roll("value", *identity) < self._accuracy["t2_value"]
        return json.dumps({"action": given, "value": probe["answer_value"] if exact else "", "confidence": confidence})

    def _roll(self, purpose: str, *identity: object) -> float:
        return rank(self._seed, f"simulated-model-{purpose}", *identity) / 2**63

    def _pick(self, choices: list, truth: Any, right: bool, identity: tuple) -> Any:
        """Return the truth, or one of the others, if there are any; a blind model takes any."""
        wrong = [choice for choice in choices if choice != truth or self._blind]
        if right or not wrong:
            return truth
        return order(wrong, self._seed, "simulated-model-choice", lambda choice: f"{identity}/{choice}")[0]


def _orders(truth: list[int]) -> list[list[int]]:
    return [list(one) for one in permutations(sorted(truth))]
