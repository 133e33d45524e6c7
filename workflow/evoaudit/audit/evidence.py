"""What a judge that is a language model gets to see of a trajectory: a list of what is allowed, and nothing that is not on it.

Released reward and verdict, reference, agent, model, experiment, benchmark, ids and others' labels are on no list here, so they
cannot reach a prompt. Texts are bounded, with the cut said and counted; pictures are chosen by a policy.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from evoaudit import store
from evoaudit.audit import fence
from evoaudit.audit.episodes import Episode

#: Raised when what is shown of a log, or how it is written, changes: it is part of a judge's identity.
VERSION = 1

Policy = Literal["all", "changed", "spaced", "none"]

#: Texts of a trajectory that a judge may see → longest, characters.
TASK = {"instruction": 4000}
OUTCOME = {"answer": 4000}
END = {"final_url": 500, "final_text": 4000}
#: Texts of a step, in the order shown → longest, characters. The first three are the action, the rest goes with the evidence `text`.
ACTION = {"value": 1000, "op_raw": 1000}
WORDS = {"reasoning": 3000, "url": 500, "page_text": 2000, "error": 1000}
#: Longest description of what an action went to, characters.
TARGET = 300
#: What a judge reads in place of our column names.
NAMES = {
    "instruction": "task",
    "op_raw": "as logged",
    "page_text": "page text before",
    "url": "address before",
    "final_url": "address after the last step",
    "final_text": "page text after the last step",
}
#: Shares of those lengths that are tried, for page texts and for all else of a step, until a log fits its bound.
_SHARES = ((1, 1), (1 / 2, 1), (1 / 4, 1), (1 / 8, 1), (1 / 8, 1 / 2), (1 / 8, 1 / 4), (1 / 8, 1 / 8), (1 / 32, 1 / 16))
#: Fewest characters that a share leaves, and characters that stand around each block of a request.
_FEWEST, _AROUND = 40, 80

#: What becomes of a screen: it is shown, differs too little from the one before it, is one too many, or cannot be read.
SHOWN, STILL, LEFT_OUT, LOST = "shown", "still", "left_out", "lost"


@dataclass(slots=True)
class Screen:
    """One picture of the log in its place in time; a picture equal to the one before it is the same screen."""

    image_id: str
    #: Steps it was seen after, or, for the first screen and after a break, before.
    after: int | None
    before: int | None
    #: Whether it differs visibly from the screen before it, as measured; None where that is not known.
    changed: bool | None
    fate: str = LEFT_OUT


@dataclass(slots=True)
class Texts:
    """How much was cut."""

    texts: int = 0
    characters: int = 0
    kept: int = 0

    def cut(self, text: Any, limit: int) -> str:
        """Return a text of at most ``limit`` characters and the note of what is cut, its start and end kept."""
        whole = store.text(text) or ""
        if len(whole) <= limit:
            self.kept += len(whole)
            return whole
        head, gone = limit - limit // 3, len(whole) - limit
        self.texts, self.characters, self.kept = self.texts + 1, self.characters + gone, self.kept + limit
        return f"{whole[:head]}[cut: {gone} characters]{whole[len(whole) - limit // 3 :]}"


@dataclass(slots=True)
class Evidence:
    """What is shown of one trajectory, as plain values."""

    task: dict[str, str]
    steps: list[dict[str, Any]]
    #: Steps, by place, before which the log is broken.
    breaks: list[int]
    end: dict[str, str]
    answer: dict[str, str]
    texts: Texts = field(default_factory=Texts)


def gather(episode: Episode, sizes: Mapping[str, tuple[int, int]], *, words: bool, limit: int) -> Evidence | None:
    """Return the texts of a trajectory, bounded so that they take ``limit`` characters of a request; None if they cannot be.

    ``words`` is whether the log's texts are evidence, beside actions, task and answer. ``sizes`` gives pictures' sizes in pixels.
    """
    for page, other in _SHARES:
        texts = Texts()

        def some(row: Mapping[str, Any], limits: Mapping[str, int], share: Mapping[str, float], texts: Texts = texts) -> dict[str, str]:
            return {
                NAMES.get(name, name): texts.cut(row[name], max(_FEWEST, int(most * share.get(name, 1))))
                for name, most in limits.items()
                if row.get(name) not in (None, "")
            }

        shares = dict.fromkeys((*ACTION, *WORDS), other) | {"page_text": page}
        steps = []
        for step in episode.steps:
            told: dict[str, Any] = {"action": step["op"]}
            if target := _target(step, sizes, texts):
                told["target"] = target
            told |= some(step, ACTION, shares)
            told |= some(step, WORDS, shares) if words else {}
            steps.append(told)
        found = Evidence(
            some(episode.row, TASK, {}),
            steps,
            [place for place, step in enumerate(episode.steps) if step["gap_before"] and place],
            some(episode.row, END, {}) if words else {},
            some(episode.row, OUTCOME, {}),
            texts,
        )
        if sum(len(fence.written(one)) + _AROUND for one in (found.task, *steps, found.end, found.answer)) <= limit:
            return found
    return None


def _target(step: Mapping[str, Any], sizes: Mapping[str, tuple[int, int]], texts: Texts) -> str:
    """Say where an action went: what it hit, and where that is on the screen the agent saw."""
    target = step["target"] or {}
    words = [texts.cut(target["text"], TARGET)] if target.get("text") else []
    x, y = target.get("x"), target.get("y")
    if x is None and target.get("left") is not None and target.get("width") is not None:
        x, y = target["left"] + target["width"] / 2, (target.get("top") or 0) + (target.get("height") or 0) / 2
    if x is not None and y is not None:
        # Pictures are made smaller for the judge, so places are told as shares.
        size = sizes.get(step["before_image"] or "") or sizes.get(step["after_image"] or "")
        words.append(f"at {x / size[0]:.0%} from the left, {y / size[1]:.0%} from the top" if size and all(size) else f"at {x:g}, {y:g}")
    return ", ".join(words)


def screens(steps: Sequence[Mapping[str, Any]], readable: Callable[[str], bool]) -> list[Screen]:
    """Return the screens of a log in order; those that cannot be shown are `lost`."""
    found: list[Screen] = []
    for place, step in enumerate(steps):
        for when in ("before", "after"):
            image = step[f"{when}_image"]
            if not image or (found and found[-1].image_id == image):
                continue
            if when == "before":
                found.append(Screen(image, None, place, None))
            else:
                # Pixels that differ by less than the measure's threshold are no visible change.
                still = step["state"] == "changed" and step["changed_tiles"] == 0
                found.append(Screen(image, place, None, None if step["state"] == "unknown" else not still))
            if not readable(image):
                found[-1].fate = LOST
    return found


def choose(
    policy: Policy, found: list[Screen], most: int, over: Callable[[list[str]], str | None] = lambda images: None
) -> tuple[str, str] | None:
    """Mark the screens to show, at most ``most`` and as many as ``over`` does not refuse; or return status and reason why none can be.

    `all` shows every screen or nothing. `changed` shows those that differ visibly from the one before, the first and the last;
    where they are too many, some evenly spaced of them. `spaced` shows evenly spaced ones, first and last included.
    """
    there = [one for one in found if one.fate != LOST]
    if not there:
        return "missing_evidence", "the log has no screenshot that can be read" if found else "the log has no screenshots"
    if policy == "all" and len(there) < len(found):
        return "missing_evidence", f"{len(found) - len(there)} of {len(found)} screenshots cannot be read, and policy `all` needs them"
    wanted = there
    if policy == "changed":
        ends = (there[0], there[-1])
        wanted = [one for one in there if one.changed is not False or any(one is end for end in ends)]
        for one in there:
            one.fate = LEFT_OUT if any(one is other for other in wanted) else STILL
    n = min(len(wanted), most)
    reason = f"{len(wanted)} screenshots, and max_pictures is {most}" if n < len(wanted) else None
    while n and (fault := over([one.image_id for one in _spaced(wanted, n)])):
        n, reason = n - 1, fault
    if not n or (policy == "all" and n < len(wanted)):
        return "picture_limit", f"not sent: {reason}"
    for one in _spaced(wanted, n):
        one.fate = SHOWN
    return None


def _spaced(items: Sequence[Screen], n: int) -> list[Screen]:
    """Return ``n`` of the items, evenly spaced, first and last included; of one, the last."""
    if n <= 1:
        return list(items[-1:]) if n else []
    return [items[(2 * k * (len(items) - 1) + n - 1) // (2 * (n - 1))] for k in range(n)]


def referenced(folders: Iterable[Path], trajectories: set[str]) -> set[str]:
    """Return every picture that the steps of some trajectories refer to."""
    wanted = pa.array(sorted(trajectories), pa.string())
    found: set[str] = set()
    for folder in folders:
        steps = store.read_table(folder, "steps", ["trajectory_id", "before_image", "after_image"])
        steps = steps.filter(pc.is_in(steps["trajectory_id"], wanted))
        found.update(image for name in ("before_image", "after_image") for image in pc.unique(steps[name]).to_pylist() if image)
    return found


def sizes(folders: Iterable[Path], images: set[str]) -> dict[str, tuple[int, int]]:
    """Return width and height, in pixels, of those of the pictures that can be read."""
    wanted = pa.array(sorted(images), pa.string())
    found: dict[str, tuple[int, int]] = {}
    for folder in folders:
        table = store.read_table(folder, "images", ["image_id", "status", "width", "height"])
        table = table.filter(pc.and_(pc.is_in(table["image_id"], wanted), pc.equal(table["status"], "ok")))
        found |= {row["image_id"]: (row["width"], row["height"]) for row in table.to_pylist()}
    return found
