"""The page for the human quality control of T3 pairs (EvoGUI, §2.4): static, self-contained, worked by keyboard, opened as a file."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from evoaudit import prepare
from evoaudit.errors import InputError
from evoaudit.identity import canonical
from evoaudit.probes import reviewed
from evoaudit.probes.reviewed import NONE, REASONS, Decisions
from evoaudit.probes.t3 import TIERS
from evoaudit.report import inline, load
from evoaudit.report.thumbs import Thumbs
from evoaudit.report.words import plain
from evoaudit.review import shared
from evoaudit.review.scripts import script_json
from evoaudit.review.shared import change, line, mark, picture, want

TEMPLATE = Path(__file__).parent / "templates" / "pairs.html.j2"
#: Pictures are fitted into this box (width, height): legible, and long pages not too narrow.
BOX = (1024, 2048)
#: Longest texts shown, characters.
GOAL, VALUE, TARGET = 10_000, 10_000, 2_000

_ROWS = ("instance_id", "trajectory_id", "source", "domain", "website", "images", "goal", "slice", "simulated", "step", "answer")
_ROWS += ("distractor_trajectory", "distractor_step")


@dataclass(frozen=True)
class Context:
    """What the page shows around the items, by id."""

    #: (trajectory, step) → the step.
    steps: Mapping[tuple[str, int], dict]
    #: (trajectory, step) → what changed on the screen.
    changes: Mapping[tuple[str, int], dict]
    #: Trajectory → the user's goal.
    goals: Mapping[str, str]
    #: Picture → (width, height) as logged.
    sizes: Mapping[str, tuple[int, int]]


def build(
    folder: Path, mined: Path, normalised: Sequence[Path], roots: Mapping[str, Path], decisions: Decisions = NONE, threads: int = 1
) -> tuple[Counter[str], int]:
    """Write ``index.html`` and ``pictures/`` into ``folder``; return how many pairs are decided which way or not at all, and how
    many pictures are gone.

    The files depend on the mined pairs, the logs and the decisions alone. Pictures that have changed, pairs of other logs and
    decisions that mining would not take are refused.
    """
    rows = load.rows([mined], "t3", _ROWS)
    shown = {row["instance_id"]: _screens(row) for row in rows}
    context = _context(normalised, rows)
    _check_logs(rows, shown, context)
    reviewed.check(decisions, shown.keys() | _turned_down(mined), _possible(mined, normalised))
    thumbs, gone = _pictures(folder, normalised, roots, {name for names in shown.values() for name in names}, threads)
    same = defaultdict(list)
    for place, row in enumerate(rows):
        same[row["trajectory_id"], row["step"]].append(place)
    items = [
        {
            **_item(row, context),
            "pictures": [picture(thumbs.get(name)) for name in shown[row["instance_id"]]],
            "same": [other for other in same[row["trajectory_id"], row["step"]] if other != place],
        }
        for place, row in enumerate(rows)
    ]
    made = {name: one.exported() for name, one in decisions.made.items()}
    data = {
        "set": set_of(shown),
        "noun": "pairs",
        "lines": "decisions",
        "items": items,
        "reasons": list(REASONS.items()),
        "tiers": [tier for tier in TIERS if any(item["tier"] == tier for item in items)],
        "decisions": {name: one for name, one in made.items() if name in shown},
        "carried": [one for name, one in made.items() if name not in shown],
    }
    page = inline.render(
        TEMPLATE,
        {"data": Markup(script_json(data)), "n": len(items), "set": data["set"], "simulated": any(row["simulated"] for row in rows)},
        style=(shared.STYLE, "pairs.css"),
        script=(shared.SCRIPT, "pairs.js"),
        images=shared.IMAGES,
        more=shared.TRUSTED.format("'none'"),
    )
    (folder / "index.html").write_text(page, encoding="utf-8", newline="\n")
    return Counter(decisions.made[name].decision if name in decisions.made else "undecided" for name in shown), gone


def set_of(instances: Iterable[str]) -> str:
    """Name a set of items by what is in it."""
    return "t3-set-" + hashlib.blake2b(canonical(sorted(instances)).encode(), digest_size=8).hexdigest()


def _screens(row: dict) -> tuple[str, str, str]:
    """Return start, successor and distractor; the question shows the last two on either side."""
    start, a, b = row["images"]
    return (start, a, b) if row["answer"] == "A" else (start, b, a)


def _pictures(folder: Path, normalised: Sequence[Path], roots: Mapping[str, Path], wanted: set[str], threads: int) -> tuple[Thumbs, int]:
    """Make the pictures, and count those that are gone; one that is another than was mined is refused."""
    thumbs, places = Thumbs(folder, "pictures", BOX), prepare.find(normalised, roots, wanted)
    want(thumbs, places)
    thumbs.make(threads)
    gone = sum(thumbs.get(name) is None for name in wanted)
    if wanted and gone == len(wanted):
        raise InputError(f"--root: {places[0].root}", f"holds none of the {gone:,} pictures", "give the folder that was normalised")
    return thumbs, gone


def _check_logs(rows: Sequence[dict], shown: Mapping[str, tuple[str, str, str]], context: Context) -> None:
    """Refuse pairs that were mined from other logs than those at hand."""
    for row in rows:
        step = context.steps.get((row["trajectory_id"], row["step"]), {})
        pair = step.get("before_image"), step.get("after_image")
        if pair != shown[row["instance_id"]][:2] or row["distractor_trajectory"] not in context.goals:
            what = f"holds the pair '{row['instance_id']}', which the sources given with --normalised do not"
            raise InputError("--mined", what, "give the manifests that it was mined from, all of them")


def _turned_down(mined: Path) -> set[str]:
    """Return the pairs that are not among the mined ones since a reviewer turned them down."""
    found = load.rows([mined], "drops", ("detail",), reason=["rejected_by_reviewer"])
    return {row["detail"].rpartition("(")[2].removesuffix(")") for row in found if row["detail"]}


def _possible(mined: Path, normalised: Sequence[Path]) -> Iterator[str]:
    """Yield the ids of all pairs that could have been mined; the logs are read when the first is asked for."""
    from evoaudit.probes import mining

    yield from mining.possible(mined, normalised)


def _context(normalised: Sequence[Path], rows: Sequence[dict]) -> Context:
    started = {row["trajectory_id"] for row in rows}
    known = started | {row["distractor_trajectory"] for row in rows}
    wanted = {(row["trajectory_id"], row["step"]) for row in rows}
    columns = ("trajectory_id", "step", "op", "op_raw", "value", "target", "url", "before_image", "after_image")
    steps = load.rows(normalised, "steps", columns, trajectory_id=started)
    changes = load.rows(normalised, "changes", trajectory_id=started)
    goals = load.rows(normalised, "trajectories", ("trajectory_id", "instruction"), trajectory_id=known)
    found = Context(
        {place: row for row in steps if (place := (row["trajectory_id"], row["step"])) in wanted},
        {place: row for row in changes if (place := (row["trajectory_id"], row["step"])) in wanted},
        {row["trajectory_id"]: row["instruction"] or "" for row in goals},
        {},
    )
    pictures = {row["images"][0] for row in rows}
    sizes = load.rows(normalised, "images", ("image_id", "width", "height"), image_id=pictures, status=["ok"])
    found.sizes.update({row["image_id"]: (row["width"], row["height"]) for row in sizes})
    return found


def _item(row: dict, context: Context) -> dict[str, Any]:
    place = row["trajectory_id"], row["step"]
    step = context.steps.get(place, {})
    size = context.sizes.get(row["images"][0])
    target = step.get("target") or {}
    return {
        "id": row["instance_id"],
        "tier": row["slice"],
        "where": " · ".join(plain(part, 80) for part in dict.fromkeys((row["website"], row["domain"], row["source"])) if part),
        "goal": line(row["goal"], GOAL),
        "step": row["step"],
        "op": plain(step.get("op") or "unknown", 40),
        "value": line(step.get("value"), VALUE, spaces=True),
        "target": line(target.get("text"), TARGET),
        "raw": line(step.get("op_raw"), TARGET, spaces=True),
        "url": line(step.get("url"), TARGET),
        "distractor": _origin(row, context),
        "mark": mark(target, size),
        "change": change(context.changes.get(place), size),
        "simulated": row["simulated"],
    }


def _origin(row: dict, context: Context) -> str:
    """Say where the distractor is from."""
    if row["distractor_trajectory"] == row["trajectory_id"]:
        return f"{row['distractor_step'] - row['step']} screens after the start, in the same trajectory"
    goal = line(context.goals.get(row["distractor_trajectory"]), 400)
    return f"from another trajectory{': ' + goal if goal else ''}"
