"""What all examples share: how they are chosen, and a picture with its words."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

#: Longest text of an example, characters.
TEXT = 600


@dataclass(frozen=True)
class Frame:
    """A picture with the words under it."""

    picture: str | None
    label: str
    alt: str


def spread(items: Iterable[Any], group: Callable[[Any], Hashable], order: Callable[[Any], Any], limit: int) -> list:
    """Take ``limit`` items in turn from each group, groups in order of their key, within a group by ``order``."""
    queues: dict[Hashable, list] = defaultdict(list)
    for item in sorted(items, key=order):
        queues[group(item)].append(item)
    taken: list = []
    depth = 0
    while len(taken) < limit and any(len(queue) > depth for queue in queues.values()):
        taken += [queues[key][depth] for key in sorted(queues) if len(queues[key]) > depth]
        depth += 1
    return taken[:limit]
