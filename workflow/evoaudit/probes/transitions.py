"""What makes a logged transition one that can be asked about: whole, telling pictures and a visible change between them."""

from collections.abc import Iterator, Sequence

import numpy as np

from evoaudit.probes.corpus import CHANGED, OP_NAMES, SAME, STATUSES, UNKNOWN, Corpus
from evoaudit.probes.draw import Fault
from evoaudit.probes.looks import Looks
from evoaudit.probes.motion import Motion
from evoaudit.screens import TILE


def reasons(corpus: Corpus, min_changed_tiles: int) -> np.ndarray:
    """Return, for each step, why its pair of screens makes no question; "" where it does. The first reason that holds is given."""
    before, after = corpus.before, corpus.after
    pair = (before >= 0) & (after >= 0)
    at = np.arange(len(before)) + corpus.owner
    found = np.full(len(before), "", dtype=object)

    def put(reason: str, where: np.ndarray) -> None:
        found[where & (found == "")] = reason

    put("not_adjacent", ~pair)
    if not len(corpus.status):
        return found
    put("bad_picture", ~(corpus.good[before] & corpus.good[after]))
    notice_after = np.zeros(len(before), bool)
    notice_after[:-1] = corpus.notice[1:] & (corpus.screen[at + 1] == after)[:-1] & (corpus.owner[1:] == corpus.owner[:-1])
    put("blank_screen", corpus.blank[before] | corpus.blank[after] | corpus.notice | notice_after)
    put("unknown_change", (corpus.state == UNKNOWN) & ~_regrown(corpus))
    put("no_visible_change", (corpus.state == SAME) | ((corpus.state == CHANGED) & (corpus.tiles < min_changed_tiles)))
    return found


def seen(corpus: Corpus, looks: Looks, motion: Motion, step: int) -> tuple[str, str] | None:
    """Say why a transition that the tables allow makes no question once it is looked at: a reason and its detail."""
    if any(looks.empty(int(side)) for side in (corpus.before[step], corpus.after[step])):
        return "blank_screen", "a screen shows next to nothing"
    return ("volatile_only", "what changed changes by itself") if motion.idle(step) else None


def _regrown(corpus: Corpus) -> np.ndarray:
    """Find steps that made a full-page picture longer or shorter by a tile or more: it cannot be compared, yet has plainly changed."""
    before, after = corpus.size[corpus.before], corpus.size[corpus.after]
    return (before[:, 0] == after[:, 0]) & (np.abs(before[:, 1] - after[:, 1]) >= TILE)


def ops(corpus: Corpus, names: Sequence[str]) -> np.ndarray:
    """Return which steps have one of the operations."""
    return np.isin(corpus.op, [OP_NAMES.index(name) for name in names])


def faults(corpus: Corpus, found: np.ndarray, task: str) -> Iterator[Fault]:
    """Yield a fault for every step with a reason, adjacency aside: it is a fact of the log, which the normalised tables count."""
    for step in np.flatnonzero((found != "") & (found != "not_adjacent")):
        detail = OP_NAMES[corpus.op[step]]
        if found[step] == "bad_picture":
            side = corpus.before[step] if not corpus.good[corpus.before[step]] else corpus.after[step]
            status = corpus.status[side]
            detail = STATUSES[status] if status < len(STATUSES) else "unreadable"
        yield Fault(int(corpus.owner[step]), f"{task} {corpus.name(step)}", found[step], detail)


def by_trajectory(corpus: Corpus, chosen: np.ndarray) -> dict[int, int]:
    """Count the chosen steps of each trajectory that has any."""
    owners, counts = np.unique(corpus.owner[chosen], return_counts=True)
    return dict(zip(owners.tolist(), counts.tolist(), strict=True))


def within(corpus: Corpus, chosen: np.ndarray, trajectory: int) -> list[int]:
    """Return the chosen steps of one trajectory, numbered overall."""
    start = corpus.first[trajectory]
    return (start + np.flatnonzero(chosen[start : corpus.first[trajectory + 1]])).tolist()
