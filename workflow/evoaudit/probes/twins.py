"""Questions that ask the same thing: of the same pictures, or of pictures nobody could tell from theirs."""

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from evoaudit.probes.draw import Asked
from evoaudit.probes.looks import CLOSE, COMPARED, Looks


@dataclass
class _Shelf:
    """Questions that could be alike: a row of pictures each, in an array that doubles as it fills."""

    pictures: np.ndarray
    names: list[str] = field(default_factory=list)

    def add(self, name: str, pictures: tuple[int, ...]) -> None:
        if len(self.names) == len(self.pictures):
            self.pictures = np.concatenate([self.pictures, np.zeros_like(self.pictures)])
        self.pictures[len(self.names)] = pictures
        self.names.append(name)


class Twins:
    """The questions of one task so far."""

    def __init__(self, looks: Looks) -> None:
        self._looks = looks
        self._exact: dict[Hashable, str] = {}
        self._shelves: dict[Hashable, _Shelf] = {}

    def of(self, asked: Asked) -> str | None:
        """Return the name of an earlier question that asks the same; of those that may look alike only the nearest few are tried."""
        if (name := self._exact.get(asked.exact)) is not None:
            return name
        shelf = self._shelves.get((len(asked.pictures), asked.besides))
        if shelf is None:
            return None
        held = shelf.pictures[: len(shelf.names)]
        far = np.stack([self._looks.distance(picture, held[:, place]) for place, picture in enumerate(asked.pictures)])
        near = np.flatnonzero((far <= CLOSE).all(axis=0))
        for row in near[np.argsort(far[:, near].sum(axis=0), kind="stable")][:COMPARED].tolist():
            if all(self._looks.alike(picture, int(other)) for picture, other in zip(asked.pictures, held[row], strict=True)):
                return shelf.names[row]
        return None

    def add(self, name: str, asked: Asked) -> None:
        """Remember a question."""
        self._exact[asked.exact] = name
        key = len(asked.pictures), asked.besides
        if key not in self._shelves:
            self._shelves[key] = _Shelf(np.zeros((64, len(asked.pictures)), np.int64))
        self._shelves[key].add(name, asked.pictures)
