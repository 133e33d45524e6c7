"""Mining: from the normalised tables to the three probe tables, every candidate accounted for."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from evoaudit.actions import OPS
from evoaudit.errors import InputError
from evoaudit.probes import reviewed, t1, t2, t3, transitions
from evoaudit.probes.corpus import Corpus, load
from evoaudit.probes.draw import REALLOCATION, Fault, Item, Slice, fill
from evoaudit.probes.looks import Looks
from evoaudit.probes.motion import Motion
from evoaudit.probes.twins import Twins
from evoaudit.store import Counts, TableWriter, read_manifest, write_table

UNIT = "candidate"
#: Items that are written at a time: every job that asks a model holds as many.
GROUP = 1024


@dataclass(frozen=True)
class Settings:
    """What is mined (the `probes` section of the config); slices of quota 0 are not asked for and do not appear."""

    t1: dict[int, int]
    t2: dict[str, int]
    t3: dict[str, int]
    max_share_per_trajectory: float
    min_changed_tiles: int
    near_twin_tiles: int
    #: T2's actions, as prompts list them.
    vocabulary: tuple[str, ...] = t2.CLASSES

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Settings":
        """Check the stage's settings."""
        lengths = {int(k) if str(k).isdigit() else k: n for k, n in _quota(given, "t1").items()}
        if wrong := [k for k in lengths if not isinstance(k, int) or not 2 <= k <= 8]:
            raise InputError("--settings: t1.quota", f"'{wrong[0]}' is no number of screens", "use 3, 4 and 5")
        actions, tiers = _quota(given, "t2"), _quota(given, "t3")
        known = {name or op for op, name in OPS.items()}
        if wrong := [name for name in actions if name not in known]:
            raise InputError("--settings: t2.quota", f"'{wrong[0]}' is no action", f"use {', '.join(t2.CLASSES)}, or another operation")
        if wrong := [name for name in tiers if name not in t3.TIERS]:
            raise InputError("--settings: t3.quota", f"'{wrong[0]}' is no tier", f"use {', '.join(t3.TIERS)}")
        share = given.get("max_share_per_trajectory", 0.05)
        if not isinstance(share, int | float) or not 0 < share <= 1:
            raise InputError("--settings: max_share_per_trajectory", f"{share!r} is no share", "give a number above 0, at most 1")
        numbers = {name: given.get(name, default) for name, default in (("min_changed_tiles", 1), ("near_twin_tiles", 2))}
        for name, value in numbers.items():
            if not isinstance(value, int) or value < 0:
                raise InputError(f"--settings: {name}", f"{value!r} is no count", "give a whole number, 0 or more")
        asked = [{name: n for name, n in quota.items() if n} for quota in (lengths, actions, tiers)]
        words = asked[1] if given.get("set") else {**dict.fromkeys(t2.CLASSES), **asked[1]}
        return cls(*asked, share, **numbers, vocabulary=tuple(sorted(words, key=t2.place)))


def _quota(given: Mapping[str, Any], task: str) -> dict[str, int]:
    section = given.get(task)
    quota = section.get("quota") if isinstance(section, dict) else None
    if not isinstance(quota, dict):
        raise InputError(f"--settings: {task}.quota", "missing or no object", f'give e.g. {{"{task}": {{"quota": {{…}}}}}}')
    for name, n in quota.items():
        if not isinstance(n, int) or isinstance(n, bool) or n < 0:
            raise InputError(f"--settings: {task}.quota.{name}", f"{n!r} is no count", "give a whole number, 0 or more")
    return dict(quota)


@dataclass
class _Task:
    """One task while it is mined."""

    name: str
    stream: str
    slices: list[Slice]
    faults: Iterator[Fault]
    not_adjacent: int
    twins: Twins
    decisions: reviewed.Decisions = reviewed.NONE
    reasons: Counter = field(default_factory=Counter)
    #: The ids of every question looked at.
    ids: set[str] = field(default_factory=set)
    #: Slice → questions met that a reviewer had turned down.
    turned_down: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def fresh(self, item: Item) -> tuple[str, str] | None:
        """Say why an item is not wanted, if it is not; a question a reviewer turned down is not asked again in other words."""
        self.ids.add(item.instance_id)
        if (twin := self.twins.of(item.asked)) is not None:
            return "near_duplicate", f"{item.instance_id} asks what {twin} asks"
        self.twins.add(item.instance_id, item.asked)
        return ("rejected_by_reviewer", item.instance_id) if item.instance_id in self.rejected else None

    @cached_property
    def rejected(self) -> dict[str, str]:
        """Questions a reviewer turned down, with the reason."""
        return self.decisions.rejected

    def review(self, one: Slice) -> dict:
        """Return what people have said of a slice's questions: of those taken, and of those turned down."""
        accepted = len(self.decisions.accepted.intersection(item.instance_id for item in one.items))
        turned_down = Counter(self.rejected[name] for name in self.turned_down[one.name])
        return {"accepted": accepted, "undecided": len(one.items) - accepted, "rejected": dict(sorted(turned_down.items()))}


def mine(
    folder: Path,
    counts: Counts,
    corpus: Corpus,
    roots: Mapping[str, Path],
    settings: Settings,
    seed: int,
    decisions: reviewed.Decisions = reviewed.NONE,
) -> None:
    """Write t1, t2, t3, drops and `quotas.json` into ``folder``."""
    looks, motion = Looks(corpus, roots, settings.near_twin_tiles), Motion(corpus)
    valid = transitions.reasons(corpus, settings.min_changed_tiles)
    share = settings.max_share_per_trajectory
    orders, few = t1.slices(corpus, looks, settings.t1, share, seed)
    actions, turned_down, not_adjacent = t2.slices(corpus, looks, motion, settings.t2, valid, share, seed)
    successors = t3.Mine(corpus, looks, motion, settings.t3, valid, share, seed)
    tasks = [
        _Task("t1", t1.STREAM, orders, few, 0, Twins(looks)),
        _Task("t2", t2.STREAM, actions, turned_down, not_adjacent, Twins(looks)),
        _Task("t3", t3.STREAM, successors.slices, successors.faults(), successors.not_adjacent, Twins(looks), decisions),
    ]
    with TableWriter(folder, "drops") as listed:
        for task in tasks:
            _draw(task, corpus, seed, counts, listed)
    reviewed.check(decisions, tasks[-1].ids, successors.possible())
    layouts = {"t1": lambda one: t1.rows(one, seed), "t2": lambda one: t2.rows(one, corpus), "t3": lambda one: t3.rows(one, seed)}
    for task in tasks:
        write_table(folder, task.name, _rows(task, corpus, layouts[task.name]), group=GROUP)
    _write_quotas(folder, tasks, settings.vocabulary)


def possible(mined: Path, normalised: Sequence[Path]) -> Iterator[str]:
    """Yield the ids of the T3 questions that these logs could give with the settings and the seed of what was mined from them."""
    made = read_manifest(mined)
    settings, seed = Settings.of(made.get("config") or {}), made.get("seed") or 0
    corpus = load(normalised)
    looks, valid = Looks(corpus, {}, settings.near_twin_tiles), transitions.reasons(corpus, settings.min_changed_tiles)
    yield from t3.Mine(corpus, looks, Motion(corpus), settings.t3, valid, settings.max_share_per_trajectory, seed).possible()


def _draw(task: _Task, corpus: Corpus, seed: int, counts: Counts, listed: TableWriter) -> None:
    def drop(fault: Fault, one: Slice | None = None) -> None:
        detail = fault.detail
        if one is not None and fault.reason == "rejected_by_reviewer":
            task.turned_down[one.name].append(fault.detail)
            detail = f"{reviewed.REASONS[task.rejected[fault.detail]]} ({fault.detail})"
        counts.drop_many(UNIT, fault.reason, 1)
        listed.add(
            {
                "stage": "mine",
                "source": corpus.source[fault.trajectory],
                "unit": UNIT,
                "item": fault.name,
                "reason": fault.reason,
                "detail": detail,
            }
        )

    if not task.slices:
        return
    for fault in task.faults:
        task.reasons[fault.reason] += 1
        drop(fault)
    if task.not_adjacent:
        task.reasons["not_adjacent"] = task.not_adjacent
        counts.drop_many(UNIT, "not_adjacent", task.not_adjacent)
    for one in task.slices:
        one.open(corpus, seed, task.fresh, partial(drop, one=one))
    fill(task.slices)
    for one in task.slices:
        counts.keep(UNIT, len(one.items))
        for reason, n in one.close().items():
            counts.drop_many(UNIT, reason, n)
        if task.decisions.made:
            one.notes["review"] = task.review(one)


def _rows(task: _Task, corpus: Corpus, layout: Any) -> list[dict]:
    """Lay out a task's rows, sorted by instance."""
    rows = []
    for one in task.slices:
        owner = {item.instance_id: item.trajectory for item in one.items}
        for row in layout(one):
            t = owner[row["instance_id"]]
            carried = {name: corpus.carried[name][t].as_py() for name in ("website", "instruction", "simulated")}
            rows.append(
                {
                    **row,
                    "trajectory_id": corpus.trajectory[t],
                    "source": corpus.source[t],
                    "domain": corpus.site[t] or None,
                    "website": carried["website"],
                    "goal": carried["instruction"],
                    "simulated": carried["simulated"],
                    "slice": one.name,
                    "stream": task.stream,
                }
            )
    rows.sort(key=lambda row: row["instance_id"])
    if len({row["instance_id"] for row in rows}) != len(rows):
        raise ValueError(f"{task.name}: two questions share an id")
    return rows


def _write_quotas(folder: Path, tasks: Sequence[_Task], vocabulary: Sequence[str]) -> None:
    tables = {
        task.name: {"slices": {one.name: one.report() for one in task.slices}, "reasons": dict(sorted(task.reasons.items()))}
        for task in tasks
    }
    text = json.dumps({"reallocation": REALLOCATION, "vocabulary": vocabulary, "tasks": tables}, indent=1, ensure_ascii=False)
    (folder / "quotas.json").write_text(text + "\n", encoding="utf-8")
