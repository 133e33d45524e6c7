"""Solvers that need no network. They answer with the JSON text a model would write, and double as controls.

- ``random``: uniform over the answers; T2's value is empty, so it scores on `click` alone.
- ``majority``: one constant answer a task that knows nothing of the labels: the order shown, `click`, candidate A.
- ``image-similarity``: pixels only. T3 takes the candidate nearer to the starting screen; T1 the shortest way through all
  screens, begun at its emptier end, since work fills screens up; T2 goes by how much of the picture changed, and where.
- ``ocr-difference``: T2 by the text that is new on the second screen, see `infer.ocr`; T1 and T3 as image-similarity does.

A solver that is shown too few pictures answers as ``majority`` does.
"""

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise, permutations

import numpy as np

from evoaudit import streams
from evoaudit.config import BUILTIN_MODELS
from evoaudit.infer import ocr
from evoaudit.infer.base import Attachments
from evoaudit.infer.grey import CHANGED, grey
from evoaudit.parse import LABELS, VOCABULARY
from evoaudit.prompts import Image, View

#: Side of the thumbnails screens are compared by, pixels.
_SIDE = 64
#: Most screens for which every order is tried; beyond, the nearest neighbour is followed.
_EXACT = 7

#: T2 by shares of the picture: largest share of changed pixels, and of the height and area of the box around them.
#: Typing changes one line of one field, a choice a small patch; everything larger is taken for a click.
_TYPE = {"changed": 0.02, "height": 0.08}
_SELECT = {"changed": 0.05, "box": 0.15}

#: The made-up model is none of them: it sees the truth (`simulated.py`).
NAMES = tuple(name for name in BUILTIN_MODELS if name != "simulated")


class Solver:
    """One built-in solver. It sees what a model would see, and no more. Thread-safe: equal questions have equal answers."""

    def __init__(self, name: str, attachments: Attachments, *, seed: int, vocabulary: Sequence[str] = VOCABULARY) -> None:
        self._words = tuple(vocabulary)
        self._attachments, self._seed = attachments, seed
        solvers: dict[str, Callable[[View, str, int], dict]] = {
            "random": self._random,
            "majority": self._majority,
            "image-similarity": self._similar,
            "ocr-difference": self._reading,
        }
        self._solve = solvers[name]
        self._thumb = lru_cache(maxsize=4096)(self._make_thumb)
        self._text = ocr.Reader(attachments) if name == "ocr-difference" else None

    def answer(self, view: View, instance_id: str, run: int) -> str:
        """Return the answer's text; KeyError if a picture it needs was not prepared."""
        return json.dumps(self._solve(view, instance_id, run))

    def _random(self, view: View, instance_id: str, run: int) -> dict:
        def draw(items: Sequence) -> list:
            return streams.order(items, self._seed, f"random-solver-{view.task}", lambda item: f"{instance_id}/{run}/{item}")

        if view.task == "t1":
            return {"order": draw(range(1, view.k + 1))}
        if view.task == "t2":
            return {"action": draw(self._words)[0], "value": "", "confidence": round(1 / len(self._words), 4)}
        return {"answer": draw(LABELS)[0], "confidence": 1 / len(LABELS)}

    def _majority(self, view: View, instance_id: str, run: int) -> dict:
        if view.task == "t1":
            return {"order": list(range(1, view.k + 1))}
        return (
            {"action": self._known("click"), "value": "", "confidence": 0.5}
            if view.task == "t2"
            else {"answer": LABELS[0], "confidence": 0.5}
        )

    def _known(self, action: str) -> str:
        """Return an action if it may be answered; else a click, or whatever else may."""
        return next(word for word in (action, "click", *self._words) if word in self._words)

    def _similar(self, view: View, instance_id: str, run: int) -> dict:
        if len(view.images) < view.k:
            return self._majority(view, instance_id, run)
        if view.task == "t2":
            return {"action": self._known(self._guess_action(*view.images)), "value": "", "confidence": 0.5}
        thumbs = [self._thumb(image) for image in view.images]
        if view.task == "t1":
            return {"order": [position + 1 for position in _path(thumbs)]}
        start, *candidates = thumbs
        far = [_distance(start, candidate) for candidate in candidates]
        best = min(range(len(far)), key=lambda i: (far[i], i))
        rest = sum(far) - far[best]
        return {"answer": LABELS[best], "confidence": round(rest / sum(far), 4) if sum(far) else 0.5}

    def _reading(self, view: View, instance_id: str, run: int) -> dict:
        if view.task != "t2" or len(view.images) < view.k:
            return self._similar(view, instance_id, run)
        action, value, confidence = ocr.action(self._text, *view.images)
        return {"action": self._known(action), "value": value, "confidence": confidence}

    def _make_thumb(self, image: Image) -> np.ndarray:
        return grey(self._attachments.data(image), (_SIDE, _SIDE))

    def _guess_action(self, before: Image, after: Image) -> str:
        first = grey(self._attachments.data(before))
        second = grey(self._attachments.data(after), (first.shape[1], first.shape[0]))
        rows, columns = np.nonzero(np.abs(first - second) > CHANGED)
        if not rows.size:
            return "click"
        height = (int(np.ptp(rows)) + 1) / first.shape[0]
        box = height * (int(np.ptp(columns)) + 1) / first.shape[1]
        changed = rows.size / first.size
        if changed <= _TYPE["changed"] and height <= _TYPE["height"]:
            return "type"
        return "select" if changed <= _SELECT["changed"] and box <= _SELECT["box"] else "click"


def _distance(one: np.ndarray, other: np.ndarray) -> int:
    return int(np.abs(one - other).sum())


def _ink(thumb: np.ndarray) -> int:
    """Count the pixels that differ from the commonest grey."""
    commonest = int(np.bincount(thumb.ravel(), minlength=256).argmax())
    return int((np.abs(thumb - commonest) > CHANGED).sum())


def _path(thumbs: list[np.ndarray]) -> list[int]:
    """Return the shortest path through all thumbs, from its emptier end; ties go to the lower position."""
    n = len(thumbs)
    far = [[_distance(one, other) for other in thumbs] for one in thumbs]
    if n <= _EXACT:
        path = list(min(permutations(range(n)), key=lambda order: (sum(far[i][j] for i, j in pairwise(order)), order)))
    else:
        path = [min(range(n), key=lambda i: (_ink(thumbs[i]), i))]
        while len(path) < n:
            path.append(min(set(range(n)) - set(path), key=lambda i: (far[path[-1]][i], i)))
    return path if (_ink(thumbs[path[0]]), path[0]) <= (_ink(thumbs[path[-1]]), path[-1]) else path[::-1]
