"""Drawing items: sources in turn, then sites, then trajectories, each by the rank of a keyed hash, so that row order never matters.

A trajectory added to the corpus moves only its neighbours in rank: the items of other trajectories mostly stay.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from math import floor
from typing import TypeVar

from evoaudit.probes.corpus import Corpus
from evoaudit.streams import order, rank

T = TypeVar("T")

#: How a slice that runs dry is made good; stated beside the numbers in `quotas.json`.
REALLOCATION = (
    "what a slice cannot fill goes to the slices of the same task that filled their quota, the one with the most candidates left first"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question asks. Two are the same if ``exact`` is equal, or ``besides`` is and their pictures look alike one by one."""

    exact: Hashable
    #: The telling pictures, in logged order.
    pictures: tuple[int, ...]
    besides: Hashable = None


@dataclass(frozen=True, slots=True)
class Item:
    """A question."""

    instance_id: str
    trajectory: int
    name: str
    asked: Asked
    fields: dict
    #: Taken only where its source has no better ones left for the slice.
    spare: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """A candidate that makes no question, and why."""

    trajectory: int
    name: str
    reason: str
    detail: str | None = None


#: Valid items and faults of one trajectory, in rank order, made only as far as they are asked for.
Candidates = Callable[[int], Iterator[Item | Fault]]
Drop = Callable[[Fault], None]
#: Says why an item is not wanted, and something for people, if it is not.
Fresh = Callable[[Item], tuple[str, str] | None]


@dataclass
class Slice:
    """One slice of a task: its quota, its candidates and what became of them."""

    task: str
    name: str
    wanted: int
    #: Trajectory → candidates that the tables allow.
    eligible: dict[int, int]
    candidates: Candidates
    #: Most items of one trajectory.
    cap: int
    #: Facts for the quota report.
    notes: dict = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    visited: int = 0
    reallocated: int = 0
    reasons: Counter = field(default_factory=Counter)
    #: Items each trajectory has given, and spare ones that were passed over.
    _given: Counter = field(default_factory=Counter)
    _spares: Counter = field(default_factory=Counter)
    _stream: Iterator[Item] | None = None

    @property
    def left(self) -> int:
        """Candidates not looked at yet."""
        return sum(self.eligible.values()) - self.visited

    def open(self, corpus: Corpus, seed: int, fresh: Fresh, drop: Drop) -> None:
        """Prepare to draw."""
        tree: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for trajectory in self.eligible:
            tree[corpus.source[trajectory]][corpus.site[trajectory]].append(trajectory)

        def ranked(keys: Iterable[T], level: str, *above: str, identity: Callable[[T], str] = str) -> list[T]:
            return order(keys, seed, f"{self.task}-{level}", lambda key: (self.name, *above, identity(key)))

        def of_trajectory(trajectory: int, spare: bool) -> Iterator[Item]:
            for item in self._sift(trajectory, spare, fresh, drop):
                if self._given[trajectory] < self.cap:
                    self._given[trajectory] += 1
                    yield item
                if self._given[trajectory] >= self.cap:
                    return

        def of_domain(source: str, domain: str, spare: bool) -> Iterator[Item]:
            trajectories = ranked(tree[source][domain], "trajectory", identity=lambda t: corpus.trajectory[t])
            return in_turn(of_trajectory(t, spare) for t in trajectories if self._given[t] < self.cap)

        def of_source(source: str) -> Iterator[Item]:
            domains = ranked(tree[source], "domain", source)
            return chain.from_iterable(in_turn(of_domain(source, domain, spare) for domain in domains) for spare in (False, True))

        self._stream = in_turn(of_source(source) for source in ranked(tree, "source"))

    def take(self, n: int) -> int:
        """Draw up to ``n`` more items and return how many there were."""
        assert self._stream is not None, "open the slice first"
        found = list(islice(self._stream, n))
        self.items += found
        return len(found)

    def _sift(self, trajectory: int, spare: bool, fresh: Fresh, drop: Drop) -> Iterator[Item]:
        if spare and not self._spares[trajectory]:
            return
        for found in self.candidates(trajectory):
            if isinstance(found, Fault) and spare:
                continue  # the first round has told it
            if isinstance(found, Item) and found.spare != spare:
                self._spares[trajectory] += not spare
                continue
            self.visited += 1
            fault = found if isinstance(found, Fault) else None
            if isinstance(found, Item) and (reason := fresh(found)):
                fault = Fault(trajectory, found.name, *reason)
            if fault is None:
                yield found
            else:
                self.reasons[fault.reason] += 1
                drop(fault)

    def close(self) -> dict[str, int]:
        """Return why candidates were left unlooked at: not needed, or their trajectory has given its share."""
        reason = "not_drawn" if len(self.items) >= self.wanted + self.reallocated else "trajectory_share"
        if self.left:
            self.reasons[reason] += self.left
        return {reason: self.left} if self.left else {}

    def report(self) -> dict:
        """Return the slice's numbers: ``valid`` counts candidates that no rule has turned down."""
        turned_down = sum(n for reason, n in self.reasons.items() if reason not in {"not_drawn", "trajectory_share"})
        total = sum(self.eligible.values())
        return {
            "wanted": self.wanted,
            "candidates": total,
            "valid": total - turned_down,
            "taken": len(self.items),
            "short": max(0, self.wanted - len(self.items)),
            "reallocated": self.reallocated,
            "spare": sum(item.spare for item in self.items),
            "trajectory_cap": self.cap,
            "reasons": dict(sorted(self.reasons.items())),
            **self.notes,
        }


def in_turn(children: Iterable[Iterator[T]]) -> Iterator[T]:
    """Yield one item of each child in turn until all are spent."""
    waiting: deque[Iterator[T]] = deque()
    for child in children:
        for item in islice(child, 1):
            waiting.append(child)
            yield item
    while waiting:
        child = waiting.popleft()
        for item in islice(child, 1):
            waiting.append(child)
            yield item


def cap(wanted: int, share: float) -> int:
    """Return the most items one trajectory may give to a slice."""
    return max(1, floor(wanted * share))


def fill(slices: Sequence[Slice]) -> None:
    """Draw every slice's quota, then make good what ran dry from the other slices (see `REALLOCATION`)."""
    for one in slices:
        one.take(one.wanted)
    short = sum(one.wanted - len(one.items) for one in slices)
    able = [one for one in slices if len(one.items) == one.wanted]
    for one in sorted(able, key=lambda one: -one.left):
        one.reallocated = one.take(short)
        short -= one.reallocated


def balanced(ids: Sequence[str], classes: int, seed: int, purpose: str, *identity: object) -> dict[str, int]:
    """Give every id a class 0…classes−1 so that classes are as equally used as can be, and which is whose cannot be foreseen.

    In rank order each id takes the class it ranks first among those with room: a place more or less moves few others.
    """
    floor_, extra = divmod(len(ids), classes)
    used = [0] * classes
    given: dict[str, int] = {}
    for one in order(ids, seed, f"{purpose}-turn", lambda one: (*identity, one)):
        room = [c for c in range(classes) if used[c] < floor_ or (used[c] == floor_ and extra > 0)]
        chosen = min(room, key=lambda c: (rank(seed, purpose, *identity, one, c), c))
        extra -= used[chosen] == floor_
        used[chosen] += 1
        given[one] = chosen
    return given
