"""Named draws: each value is a function of seed, identity and name, so that adding one never moves another."""

from collections.abc import Sequence
from typing import TypeVar

from evoaudit import streams

T = TypeVar("T")


class Draw:
    """A source of named draws for one identity, for instance one task."""

    __slots__ = ("path", "seed")

    def __init__(self, seed: int, *path: object) -> None:
        self.seed, self.path = seed, path

    def child(self, *path: object) -> "Draw":
        """Return the source for a part of this identity."""
        return Draw(self.seed, *self.path, *path)

    def below(self, n: int, *name: object) -> int:
        """Return an integer in 0…n-1."""
        return streams.rank(self.seed, "simulate", *self.path, *name) % n

    def between(self, low: int, high: int, *name: object) -> int:
        """Return an integer in low…high, both included."""
        return low + self.below(high - low + 1, *name)

    def chance(self, percent: int, *name: object) -> bool:
        """Return True in ``percent`` of 100 cases."""
        return self.below(100, *name) < percent

    def pick(self, items: Sequence[T], *name: object) -> T:
        """Return one item."""
        return items[self.below(len(items), *name)]

    def some(self, items: Sequence[T], n: int, *name: object) -> list[T]:
        """Return ``n`` different items in random order."""
        places = streams.order(range(len(items)), self.seed, f"simulate {self.path} {name}")
        return [items[i] for i in places[:n]]

    def code(self, alphabet: str, length: int, *name: object) -> str:
        """Return a string over ``alphabet``."""
        return "".join(alphabet[self.below(len(alphabet), *name, i)] for i in range(length))
