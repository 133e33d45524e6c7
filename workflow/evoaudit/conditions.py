"""The conditions a model is asked under: the one list of what each shows and which tasks it asks.

`full`, `black` and `metadata` are the EvoGUI paper's (A.9). The others take one more thing away each: the pictures alone
(`text_only_goal`), their belonging to the question (`shuffled_images`), the screen an action started from (`after_only`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evoaudit import streams

Task = Literal["t1", "t2", "t3"]
TASKS: tuple[Task, ...] = ("t1", "t2", "t3")


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition."""

    name: str
    #: In a figure's legend.
    label: str
    #: What it shows, a clause.
    shows: str
    #: Which pictures: the item's own, black ones of the same size, another item's, its last one alone, none.
    pictures: Literal["own", "black", "other", "last", "none"]
    #: Whether the prompt carries the goal, where it is known and the config shows it.
    goal: bool = True
    #: Whether the prompt tells source and domain.
    metadata: bool = False
    tasks: tuple[Task, ...] = TASKS

    def shown(self, images: Sequence[str]) -> tuple[str, ...]:
        """Return which of a question's pictures are sent; of `other`, give those of the other item."""
        if self.pictures == "none":
            return ()
        return tuple(images[-1:] if self.pictures == "last" else images)


#: In the order of every table and legend.
CONDITIONS: dict[str, Condition] = {
    one.name: one
    for one in (
        Condition("full", "own pictures", "the item's pictures, and the goal", "own"),
        Condition("black", "black pictures", "a black picture of the same size for each of the item's, and the goal", "black"),
        Condition("metadata", "metadata only", "no pictures and no goal: source, domain and task", "none", goal=False, metadata=True),
        Condition("text_only_goal", "goal only", "no pictures: the goal", "none"),
        Condition("shuffled_images", "another item's pictures", "another item's pictures of the same task, and the goal", "other"),
        Condition("after_only", "after picture only", "of T2's two pictures the one after the action, and the goal", "last", tasks=("t2",)),
    )
}
NAMES = tuple(CONDITIONS)
#: Why a goal that is withheld leaves a condition without anything to show.
NO_GOAL = "text_only_goal shows the goal and nothing else, so it cannot be asked with inference.goal 'withheld'"


def words(names: Iterable[str] = NAMES) -> str:
    """Return names as a list in prose."""
    *first, last = (f"`{name}`" for name in names)
    return f"{', '.join(first)} or {last}" if first else last


def described() -> str:
    """Return every condition and what it shows, as one sentence."""
    return "; ".join(f"`{one.name}`: {one.shows}" for one in CONDITIONS.values())


def markdown() -> str:
    """Return every condition as a row of a table."""
    lines = ["| condition | what is shown | tasks |", "| --- | --- | --- |"]
    lines += [f"| `{one.name}` | {one.shows} | {', '.join(one.tasks).upper()} |" for one in CONDITIONS.values()]
    return "\n".join(lines) + "\n"


def contradiction(names: Iterable[str], goal: str) -> str | None:
    """Return why these conditions cannot be asked with this setting of the goal, or None."""
    bare = [one for one in map(CONDITIONS.__getitem__, names) if one.goal and one.pictures == "none"]
    return NO_GOAL if bare and goal == "withheld" else None


def donors(task: str, probes: Iterable[Mapping[str, Any]], seed: int) -> dict[str, str]:
    """Return instance → instance of the same task whose pictures `shuffled_images` sends in place of its own.

    One to one, among items that show equally many pictures; a donor shares no picture with its taker, and no trajectory
    where that can be. Items for which there is no such partner have no entry. The answer is a function of the set of items and of
    the seed: a cycle through the items in the order of a keyed hash, mended where neighbours do not fit.
    """
    groups: dict[int, list[Mapping[str, Any]]] = {}
    for probe in probes:
        groups.setdefault(len(probe["images"]), []).append(probe)
    found: dict[str, str] = {}
    for number in sorted(groups):
        ring = streams.order(groups[number], seed, f"shuffled-images-{task}", lambda probe: probe["instance_id"])
        found |= {ring[taker]["instance_id"]: ring[giver]["instance_id"] for taker, giver in _match(ring).items()}
    return found


def _match(ring: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """Return taker → giver by place in the ring: the next one where it fits, else by the fewest exchanges that let everyone fit."""
    n = len(ring)
    pictures = [frozenset(probe["images"]) for probe in ring]
    trajectories = [probe["trajectory_id"] for probe in ring]
    givers: dict[int, int] = {}
    takers: dict[int, int] = {}
    for apart in (True, False):

        def fits(taker: int, giver: int, apart: bool = apart) -> bool:
            return not (apart and trajectories[taker] == trajectories[giver]) and pictures[taker].isdisjoint(pictures[giver])

        if apart:
            givers = {place: (place + 1) % n for place in range(n) if fits(place, (place + 1) % n)}
            takers = {giver: taker for taker, giver in givers.items()}
        lost: set[int] = set()
        for place in range(n):
            if place not in givers:
                lost |= _augment(place, n, fits, givers, takers, lost)
    return givers


def _augment(
    start: int, n: int, fits: Callable[[int, int], bool], givers: dict[int, int], takers: dict[int, int], lost: set[int]
) -> set[int]:
    """Give one more taker a giver, if the others can make room; breadth first, so that as few as can be change theirs.

    Where that fails, return the givers that were reached: no later search can end there either, so they need no second look.
    """
    reached: dict[int, int] = {}
    queue = [start]
    for taker in queue:
        for step in range(1, n):
            giver = (taker + step) % n
            if giver in reached or giver in lost or not fits(taker, giver):
                continue
            reached[giver] = taker
            if giver not in takers:
                while True:
                    taker = reached[giver]
                    before = givers.get(taker)
                    givers[taker], takers[giver] = giver, taker
                    if taker == start:
                        return set()
                    giver = before
            queue.append(takers[giver])
    return set(reached)
