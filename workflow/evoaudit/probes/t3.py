"""T3, one-step successor: the logged next screen against a distractor of one of three tiers (EvoGUI, §2.2–2.3)."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice

import numpy as np

from evoaudit.probes import transitions
from evoaudit.probes.corpus import Corpus
from evoaudit.probes.draw import Asked, Fault, Item, Slice, balanced, cap
from evoaudit.probes.identity import instance_id
from evoaudit.probes.looks import Looks
from evoaudit.probes.motion import Motion
from evoaudit.streams import order, rank

TIERS = ("cross", "same_domain", "long_skip")
STREAM = "t3-side"
#: A long-skip distractor lies at least this many steps after the start (EvoGUI, §2.2).
LONG_SKIP = 3
#: Distractors looked at for one transition before it is given up, trajectories searched for them, and for one of a given size.
OPTIONS, SEARCHED, WIDELY = 8, 32, 256

#: (source or all of them, what its members share, its name)
_Key = tuple[str | None, str, str]


class Distractors:
    """Screens that can stand beside a logged successor.

    Trajectories lie on a ring by the hash of their id, and a transition takes its distractor from the first fitting one
    after its own place on the ring, so that a trajectory more or less changes the distractors of its neighbours only.
    """

    def __init__(self, corpus: Corpus, seed: int) -> None:
        self._corpus, self._seed = corpus, seed

    def options(self, step: int, tier: str) -> Iterator[tuple[int, int]]:
        """Yield (trajectory, screen) in the order they are to be tried, those whose size tells nothing first."""
        corpus = self._corpus
        if tier == "long_skip":
            start = corpus.first[(owner := int(corpus.owner[step]))] + owner
            later = [(owner, screen, self.size_tells(step, int(corpus.screen[start + screen]))) for _, screen in self._later(step)]
            yield from ((t, screen) for t, screen, _ in sorted(later, key=lambda one: one[2])[:OPTIONS])
            return
        if corpus.shape[corpus.before[step]] == corpus.shape[corpus.after[step]]:
            yield from islice(self._of_size(step, tier), OPTIONS)
        yield from islice(self._elsewhere(step, tier), OPTIONS)

    def size_tells(self, step: int, distractor: int) -> bool:
        """Tell whether the sizes alone give the successor away: it has that of the start, and the other screen has not."""
        start, successor, other = (
            self._corpus.shape[picture] for picture in (self._corpus.before[step], self._corpus.after[step], distractor)
        )
        return bool(start == successor != other)

    def exist(self, tier: str) -> np.ndarray:
        """Return the steps for which the tables hold a screen of a tier at all."""
        corpus = self._corpus
        if tier == "long_skip":
            last = np.full(int(corpus.run[-1]) + 1 if len(corpus.run) else 1, -1, np.int64)
            shown = np.flatnonzero(corpus.screen_valid)
            np.maximum.at(last, corpus.screen_run[shown], shown)
            return last[corpus.run] >= np.arange(len(corpus.owner)) + corpus.owner + LONG_SKIP
        return np.array([self._any_elsewhere(t, tier) for t in range(len(corpus.trajectory))], bool)[corpus.owner]

    def _later_screens(self, step: int) -> Iterator[int]:
        corpus, owner = self._corpus, int(self._corpus.owner[step])
        start = int(corpus.first[owner]) + owner
        taken = {int(corpus.before[step]), int(corpus.after[step])}
        for place in range(start + int(corpus.step[step]) + LONG_SKIP, int(corpus.first[owner + 1]) + owner + 1):
            if corpus.screen_run[place] != corpus.run[step]:
                return
            if corpus.screen_valid[place] and int(corpus.screen[place]) not in taken:
                yield place - start

    def _later(self, step: int) -> Iterator[tuple[int, int]]:
        owner = int(self._corpus.owner[step])
        identity = (self._corpus.trajectory[owner], int(self._corpus.step[step]))
        for screen in order(self._later_screens(step), self._seed, "t3-distractor", lambda screen: ("long_skip", *identity, screen)):
            yield owner, screen

    def _of_size(self, step: int, tier: str) -> Iterator[tuple[int, int]]:
        """Yield screens of the successor's size from other trajectories, of the same source first."""
        corpus, owner = self._corpus, int(self._corpus.owner[step])
        identity = (tier, corpus.trajectory[owner], int(corpus.step[step]))
        point, wanted = rank(self._seed, "t3-distractor", *identity), corpus.shape[corpus.after[step]]
        for key in self._keys(owner, tier):
            for other in islice(self._around(owner, tier, key, point, int(wanted)), WIDELY):
                shown, valid = self._screens_of(other)
                fits = valid & (corpus.shape[shown] == wanted) & (shown != corpus.before[step]) & (shown != corpus.after[step])
                if fits.any():
                    screens = np.flatnonzero(fits).tolist()
                    yield other, min(screens, key=lambda p: (rank(self._seed, "t3-screen", *identity, corpus.trajectory[other], p), p))

    def _elsewhere(self, step: int, tier: str) -> Iterator[tuple[int, int]]:
        """Yield screens of other trajectories, of the same source as long as it has any: how it was recorded then says nothing.

        Pictures of the successor's size come first for the same reason. For the same domain, the same site comes first.
        """
        corpus, owner = self._corpus, int(self._corpus.owner[step])
        identity = (tier, corpus.trajectory[owner], int(corpus.step[step]))
        point = rank(self._seed, "t3-distractor", *identity)
        wanted = corpus.shape[corpus.after[step]]
        for key in self._keys(owner, tier):
            near = list(islice(self._around(owner, tier, key, point), SEARCHED))
            for alike in (True, False):
                for other in near:
                    shown, valid = self._screens_of(other)
                    fits = (
                        valid & (shown != corpus.before[step]) & (shown != corpus.after[step]) & ((corpus.shape[shown] == wanted) == alike)
                    )
                    if fits.any():
                        screens = np.flatnonzero(fits).tolist()
                        yield other, min(screens, key=lambda p: (rank(self._seed, "t3-screen", *identity, corpus.trajectory[other], p), p))

    def _keys(self, owner: int, tier: str) -> list[_Key]:
        """Return the rings a trajectory takes its distractors from, the best first."""
        source, site, domain = (column[owner] for column in (self._corpus.source, self._corpus.site, self._corpus.domain))
        if tier == "cross":
            return [(source, "all", ""), (None, "all", "")]
        return [(source, "site", site), (None, "site", site), (source, "domain", domain), (None, "domain", domain)]

    def _around(self, owner: int, tier: str, key: _Key, point: int, shape: int | None = None) -> Iterator[int]:
        """Yield fitting trajectories from a point of a ring onwards; of the ring of all only those that show a screen of a shape."""
        ranks, members = self._rings.get(key, ([], []))
        if shape is not None and key[1] == "all":
            ranks, members = self._with_shape(shape)
        start = bisect_left(ranks, point)
        for k in range(len(members)):
            other = int(members[(start + k) % len(members)])
            if key[0] not in (None, self._corpus.source[other]):
                continue
            if self._corpus.task[other] != self._corpus.task[owner] and (tier == "same_domain" or self._apart(other, owner)):
                yield other

    def _apart(self, other: int, owner: int) -> bool:
        """Tell whether two trajectories are known to be of different domains and sites."""
        corpus = self._corpus
        return corpus.domain[other] not in ("", corpus.domain[owner]) and corpus.site[other] != corpus.site[owner]

    def _any_elsewhere(self, owner: int, tier: str) -> bool:
        corpus = self._corpus
        if tier == "cross":
            return any(domain not in ("", corpus.domain[owner]) for domain in islice(self._domains, 3))
        tasks = self._sites[corpus.site[owner]] | self._domains[corpus.domain[owner]]
        return corpus.site[owner] != "" and bool(tasks - {int(corpus.task[owner])})

    @cached_property
    def _filled(self) -> list[int]:
        """Trajectories with a screen to show."""
        corpus = self._corpus
        owner = np.repeat(np.arange(len(corpus.trajectory)), np.diff(corpus.first) + 1)
        return np.unique(owner[corpus.screen_valid]).tolist()

    @cached_property
    def _domains(self) -> dict[str, set[int]]:
        """Domain → tasks that have a screen to show in it, two at most."""
        return self._few_tasks(self._corpus.domain)

    @cached_property
    def _sites(self) -> dict[str, set[int]]:
        return self._few_tasks(self._corpus.site)

    def _few_tasks(self, column: list[str]) -> dict[str, set[int]]:
        found: dict[str, set[int]] = defaultdict(set)
        for t in self._filled:
            if len(found[column[t]]) < 2:
                found[column[t]].add(int(self._corpus.task[t]))
        return found

    @cached_property
    def _rings(self) -> dict[_Key, tuple[list[int], list[int]]]:
        """Ranks and trajectories in the order of their rank."""
        corpus = self._corpus
        ranks = {t: rank(self._seed, "t3-ring", corpus.trajectory[t]) for t in self._filled}
        found: dict[_Key, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for t in sorted(self._filled, key=lambda t: (ranks[t], t)):
            for source in (corpus.source[t], None):
                for key in ((source, "all", ""), (source, "site", corpus.site[t]), (source, "domain", corpus.domain[t])):
                    found[key][0].append(ranks[t])
                    found[key][1].append(t)
        return found

    def _with_shape(self, shape: int) -> tuple[np.ndarray, np.ndarray]:
        """Return ranks and trajectories that show a screen of a shape, in the order of their rank."""
        shapes, ranks, members = self._shapes
        span = slice(np.searchsorted(shapes, shape, "left"), np.searchsorted(shapes, shape, "right"))
        return ranks[span], members[span]

    @cached_property
    def _shapes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Each shape with the trajectories that show it, as columns sorted by shape and rank."""
        corpus = self._corpus
        owner = np.repeat(np.arange(len(corpus.trajectory)), np.diff(corpus.first) + 1)[corpus.screen_valid]
        found = np.unique(np.stack([corpus.shape[corpus.screen[corpus.screen_valid]], owner]), axis=1)
        ranks = np.array([rank(self._seed, "t3-ring", corpus.trajectory[t]) for t in found[1].tolist()], np.int64)
        order_ = np.lexsort((found[1], ranks, found[0]))
        return found[0][order_], ranks[order_], found[1][order_]

    def _screens_of(self, trajectory: int) -> tuple[np.ndarray, np.ndarray]:
        """Return a trajectory's pictures by screen, and which of them can be shown."""
        span = slice(self._corpus.first[trajectory] + trajectory, self._corpus.first[trajectory + 1] + trajectory + 1)
        return self._corpus.screen[span], self._corpus.screen_valid[span]


class Mine:
    """Mine T3 over one corpus; ``valid`` holds `transitions.reasons`."""

    def __init__(
        self, corpus: Corpus, looks: Looks, motion: Motion, quota: Mapping[str, int], valid: np.ndarray, share: float, seed: int
    ) -> None:
        self._corpus, self._looks, self._motion, self._seed = corpus, looks, motion, seed
        self._others = Distractors(corpus, seed)
        self._found = valid.copy()
        self._found[corpus.idle & (valid == "")] = "idle_action"
        tiers = [tier for tier in TIERS if tier in quota]
        self._chosen = {tier: (self._found == "") & self._others.exist(tier) for tier in tiers}
        self.not_adjacent = int(np.count_nonzero(valid == "not_adjacent"))
        self.slices = [
            Slice(
                "t3",
                tier,
                quota[tier],
                transitions.by_trajectory(corpus, self._chosen[tier]),
                lambda t, tier=tier: self._candidates(t, tier),
                cap(quota[tier], share),
            )
            for tier in tiers
        ]

    def faults(self) -> Iterator[Fault]:
        """Yield the transitions turned down."""
        yield from transitions.faults(self._corpus, self._found, "t3")
        for tier, chosen in self._chosen.items():
            for step in np.flatnonzero((self._found == "") & ~chosen):
                yield self._fault(step, tier, "no_distractor", "the logs hold none")

    def possible(self) -> Iterator[str]:
        """Yield the ids of the questions these logs and this seed could give, without a look at the pictures."""
        for tier, chosen in self._chosen.items():
            for step in np.flatnonzero(chosen).tolist():
                for other, screen in self._others.options(step, tier):
                    yield self._item(step, tier, other, screen).instance_id

    def _candidates(self, trajectory: int, tier: str) -> Iterator[Item | Fault]:
        corpus, identity = self._corpus, self._corpus.trajectory[trajectory]
        steps = transitions.within(corpus, self._chosen[tier], trajectory)
        for step in order(steps, self._seed, "t3-draw", lambda step: (tier, identity, int(corpus.step[step]))):
            if fault := transitions.seen(corpus, self._looks, self._motion, step):
                yield self._fault(step, tier, *fault)
                continue
            for other, screen in self._others.options(step, tier):  # such options come first, so a spare item has no better
                item = self._item(step, tier, other, screen)
                shown = item.fields["distractor"]
                pair = int(corpus.after[step]), int(corpus.before[step])
                if not self._looks.empty(shown) and not any(self._looks.alike(shown, side) for side in pair):
                    yield item
                    break
            else:
                yield self._fault(step, tier, "no_distractor", "every screen tried is empty, or looks like the start or the successor")

    def _item(self, step: int, tier: str, other: int, screen: int) -> Item:
        corpus, trajectory = self._corpus, int(self._corpus.owner[step])
        pair = int(corpus.before[step]), int(corpus.after[step])
        distractor = int(corpus.screen[corpus.first[other] + other + screen])
        images = [corpus.image(picture) for picture in (*pair, distractor)]
        name = instance_id("t3", corpus.trajectory[trajectory], images, corpus.trajectory[other])
        return Item(
            name,
            trajectory,
            f"{tier} {corpus.name(step)}",
            Asked((tier, *pair), pair, tier),
            {
                "images": images,
                "step": int(corpus.step[step]),
                "distractor": distractor,
                "distractor_trajectory": corpus.trajectory[other],
                "distractor_step": screen,
            },
            self._others.size_tells(step, distractor),
        )

    def _fault(self, step: int, tier: str, reason: str, detail: str) -> Fault:
        return Fault(int(self._corpus.owner[step]), f"{tier} {self._corpus.name(step)}", reason, detail)


def rows(one: Slice, seed: int) -> Iterator[dict]:
    """Lay out a slice's items, start first; the successor stands on either side equally often."""
    given = balanced([item.instance_id for item in one.items], 2, seed, STREAM, one.name)
    for item in one.items:
        start, successor, distractor = item.fields["images"]
        side = "AB"[given[item.instance_id]]
        shown = [successor, distractor] if side == "A" else [distractor, successor]
        yield {
            "instance_id": item.instance_id,
            "images": [start, *shown],
            "step": item.fields["step"],
            "answer": side,
            "distractor_trajectory": item.fields["distractor_trajectory"],
            "distractor_step": item.fields["distractor_step"],
        }
