"""T1, temporal ordering: K screens of one trajectory, shuffled (EvoGUI, §2.2–2.3)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise, permutations
from math import comb, factorial
from typing import NamedTuple

import numpy as np

from evoaudit.probes.corpus import Corpus
from evoaudit.probes.draw import Asked, Fault, Item, Slice, balanced, cap
from evoaudit.probes.identity import instance_id
from evoaudit.probes.looks import Looks
from evoaudit.streams import order, rank

STREAM = "t1-permutation"
#: Windows drawn at most from one trajectory for one K.
WINDOWS = 64
#: Up to this many index sets are all listed and ranked; beyond it they are drawn one by one.
_LISTED = 256


class Frame(NamedTuple):
    """A distinct picture of a trajectory and the first and last screen that shows it."""

    first: int
    last: int
    picture: int


def slices(corpus: Corpus, looks: Looks, quota: Mapping[int, int], share: float, seed: int) -> tuple[list[Slice], Iterator[Fault]]:
    """Return a slice for each K, and the trajectories with too few distinct valid screens for it."""
    counts = _distinct(corpus)
    made = []
    for length in sorted(quota):
        possible = {int(t): comb(int(counts[t]), length) for t in np.flatnonzero(counts >= length)}
        made.append(
            Slice(
                "t1",
                f"K={length}",
                quota[length],
                {t: min(n, WINDOWS) for t, n in possible.items()},
                lambda t, length=length: _candidates(corpus, looks, t, length, seed),
                cap(quota[length], share),
                {"windows_possible": sum(possible.values()), "windows_drawn_per_trajectory": WINDOWS},
            )
        )
    faults = (
        Fault(int(t), f"K={length} {corpus.trajectory[t]}", "too_few_screens", f"{counts[t]} distinct valid screens")
        for length in sorted(quota)
        for t in np.flatnonzero(counts < length)
    )
    return made, faults


def rows(one: Slice, seed: int) -> Iterator[dict]:
    """Lay out a slice's items with every order of presentation used as often as can be, the chronological one included."""
    length = int(one.name.removeprefix("K="))
    orders = list(permutations(range(length)))
    given = balanced([item.instance_id for item in one.items], factorial(length), seed, STREAM, one.name)
    for item in one.items:
        shown = orders[given[item.instance_id]]
        yield {
            "instance_id": item.instance_id,
            "images": [item.fields["images"][i] for i in shown],
            "steps": [item.fields["steps"][i] for i in shown],
            "answer": [shown.index(i) + 1 for i in range(length)],
        }


def frames(corpus: Corpus, trajectory: int) -> list[Frame]:
    """Return a trajectory's distinct valid pictures in the order they first appear."""
    start, end = corpus.first[trajectory] + trajectory, corpus.first[trajectory + 1] + trajectory + 1
    seen: dict[int, list[int]] = {}
    for place in np.flatnonzero(corpus.screen_valid[start:end]):
        seen.setdefault(int(corpus.screen[start + place]), []).append(int(place))
    return [Frame(places[0], places[-1], picture) for picture, places in seen.items()]


def _distinct(corpus: Corpus) -> np.ndarray:
    """Count each trajectory's distinct valid pictures."""
    owner = np.repeat(np.arange(len(corpus.trajectory)), np.diff(corpus.first) + 1)[corpus.screen_valid]
    pairs = np.unique(owner.astype(np.int64) * max(1, len(corpus.status)) + corpus.screen[corpus.screen_valid])
    return np.bincount(pairs // max(1, len(corpus.status)), minlength=len(corpus.trajectory))


def _candidates(corpus: Corpus, looks: Looks, trajectory: int, length: int, seed: int) -> Iterator[Item | Fault]:
    found = frames(corpus, trajectory)
    identity = corpus.trajectory[trajectory]
    for window in _windows(len(found), length, seed, identity):
        chosen = [found[i] for i in window]
        steps = [frame.first for frame in chosen]
        name = f"K={length} {identity}#{','.join(map(str, steps))}"
        if bare := next((frame for frame in chosen if looks.empty(frame.picture)), None):
            yield Fault(trajectory, name, "blank_screen", f"screen {bare.first} shows next to nothing")
        elif revisit := next((a for a, b in pairwise(chosen) if a.last >= b.first), None):
            yield Fault(trajectory, name, "ambiguous_order", f"screen {revisit.first} comes back as screen {revisit.last}")
        elif twins := next(((a, b) for a, b in combinations(chosen, 2) if looks.alike(a.picture, b.picture)), None):
            yield Fault(trajectory, name, "indistinguishable_screens", f"screens {twins[0].first} and {twins[1].first}")
        elif again := _again(found, window, looks):
            yield Fault(trajectory, name, "ambiguous_order", f"screen {again[0].first} looks like screen {again[1].first}")
        else:
            images = [corpus.image(frame.picture) for frame in chosen]
            yield Item(
                instance_id("t1", identity, images),
                trajectory,
                name,
                Asked(frozenset(frame.picture for frame in chosen), tuple(frame.picture for frame in chosen)),
                {"images": images, "steps": steps},
            )


def _again(found: Sequence[Frame], window: Sequence[int], looks: Looks) -> tuple[Frame, Frame] | None:
    """Return a screen of a window and one outside it, beyond its neighbour in time, that looks the same; None if there are none."""
    for place, i in enumerate(window):
        later = found[window[place + 1]].first if place + 1 < len(window) else np.inf
        earlier = found[window[place - 1]].last if place else -1
        others = [frame for j, frame in enumerate(found) if j not in window and (frame.last >= later or frame.first <= earlier)]
        if others and (twin := looks.twin(found[i].picture, [frame.picture for frame in others])) is not None:
            return found[i], next(frame for frame in others if frame.picture == twin)
    return None


def _windows(n: int, length: int, seed: int, identity: str) -> Iterator[Sequence[int]]:
    """Yield up to `WINDOWS` distinct increasing index sets, each as likely as any: where there are many, drawn and never listed."""
    total = comb(n, length)
    if total <= _LISTED:
        yield from order(combinations(range(n), length), seed, "t1-window", lambda window: (length, identity, window))[:WINDOWS]
        return
    seen: set[tuple[int, ...]] = set()
    for turn in range(4 * WINDOWS):
        if len(seen) == WINDOWS:
            return
        chosen: set[int] = set()
        for top in range(n - length, n):  # Floyd's draw of a subset: one number for each member
            drawn = rank(seed, "t1-window", length, identity, turn, top) % (top + 1)
            chosen.add(top if drawn in chosen else drawn)
        if (window := tuple(sorted(chosen))) not in seen:
            seen.add(window)
            yield window
