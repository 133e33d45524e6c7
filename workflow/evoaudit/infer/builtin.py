"""Solvers that need no network. They answer with the JSON text a model would write, and double as controls.

- ``random``: uniform over the answers; T2's value is empty, so it scores on `click` alone.
- ``majority``: one constant answer a task that knows nothing of the labels: the order shown, `click`, candidate A.
- ``image-similarity``: pixels only. T3 takes the candidate nearer to the starting screen; T1 the shortest way through all
  screens, begun at its emptier end, since work fills screens up; T2 goes by how much of the picture changed, and where.
"""

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from io import BytesIO
from itertools import pairwise, permutations
from typing import Any

import numpy as np

from evoaudit import streams
from evoaudit.infer.base import Attachments
from evoaudit.parse import LABELS, VOCABULARY
from evoaudit.prompts import Image

#: Side of the thumbnails screens are compared by, pixels.
_SIDE = 64
#: Most screens for which every order is tried; beyond, the nearest neighbour is followed.
_EXACT = 7
#: Grey difference, of 255, above which a pixel counts as changed.
_CHANGED = 24

#: T2 by shares of the picture: largest share of changed pixels, and of the height and area of the box around them.
#: Typing changes one line of one field, a choice a small patch; everything larger is taken for a click.
_TYPE = {"changed": 0.02, "height": 0.08}
_SELECT = {"changed": 0.05, "box": 0.15}


NAMES = ("random", "majority", "image-similarity")


class Solver:
    """One built-in solver under one condition. Thread-safe: equal questions have equal answers."""

    def __init__(self, name: str, attachments: Attachments, *, condition: str, seed: int) -> None:
        self._attachments, self._condition, self._seed = attachments, condition, seed
        solvers: dict[str, Callable[[str, dict, int], dict]] = {
            "random": self._random,
            "majority": self._majority,
            "image-similarity": self._similar,
        }
        self._solve = solvers[name]
        self._thumb = lru_cache(maxsize=4096)(self._make_thumb)

    def answer(self, task: str, probe: dict[str, Any], run: int) -> str:
        """Return the answer's text; KeyError if a picture it needs was not prepared."""
        return json.dumps(self._solve(task, probe, run))

    def _random(self, task: str, probe: dict, run: int) -> dict:
        def draw(items: Sequence) -> list:
            return streams.order(items, self._seed, f"random-solver-{task}", lambda item: f"{probe['instance_id']}/{run}/{item}")

        if task == "t1":
            return {"order": draw(range(1, len(probe["images"]) + 1))}
        if task == "t2":
            return {"action": draw(VOCABULARY)[0], "value": "", "confidence": round(1 / len(VOCABULARY), 4)}
        return {"answer": draw(LABELS)[0], "confidence": 1 / len(LABELS)}

    def _majority(self, task: str, probe: dict, run: int) -> dict:
        if task == "t1":
            return {"order": list(range(1, len(probe["images"]) + 1))}
        return {"action": "click", "value": "", "confidence": 0.5} if task == "t2" else {"answer": LABELS[0], "confidence": 0.5}

    def _similar(self, task: str, probe: dict, run: int) -> dict:
        if self._condition == "metadata":
            return self._majority(task, probe, run)
        images = [Image(image_id, black=self._condition == "black") for image_id in probe["images"]]
        if task == "t2":
            return {"action": self._guess_action(*images), "value": "", "confidence": 0.5}
        thumbs = [self._thumb(image) for image in images]
        if task == "t1":
            return {"order": [position + 1 for position in _path(thumbs)]}
        start, *candidates = thumbs
        far = [_distance(start, candidate) for candidate in candidates]
        best = min(range(len(far)), key=lambda i: (far[i], i))
        rest = sum(far) - far[best]
        return {"answer": LABELS[best], "confidence": round(rest / sum(far), 4) if sum(far) else 0.5}

    def _make_thumb(self, image: Image) -> np.ndarray:
        return _grey(self._attachments.data(image), (_SIDE, _SIDE))

    def _guess_action(self, before: Image, after: Image) -> str:
        first = _grey(self._attachments.data(before))
        second = _grey(self._attachments.data(after), (first.shape[1], first.shape[0]))
        rows, columns = np.nonzero(np.abs(first - second) > _CHANGED)
        if not rows.size:
            return "click"
        height = (int(np.ptp(rows)) + 1) / first.shape[0]
        box = height * (int(np.ptp(columns)) + 1) / first.shape[1]
        changed = rows.size / first.size
        if changed <= _TYPE["changed"] and height <= _TYPE["height"]:
            return "type"
        return "select" if changed <= _SELECT["changed"] and box <= _SELECT["box"] else "click"


def _grey(data: bytes, size: tuple[int, int] | None = None) -> np.ndarray:
    from PIL import Image as Pixels

    with Pixels.open(BytesIO(data)) as picture:
        grey = picture.convert("L")
    if size is not None and grey.size != size:
        grey = grey.resize(size, Pixels.Resampling.BOX)
    return np.asarray(grey, dtype=np.int32)


def _distance(one: np.ndarray, other: np.ndarray) -> int:
    return int(np.abs(one - other).sum())


def _ink(thumb: np.ndarray) -> int:
    """Count the pixels that differ from the commonest grey."""
    commonest = int(np.bincount(thumb.ravel(), minlength=256).argmax())
    return int((np.abs(thumb - commonest) > _CHANGED).sum())


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
