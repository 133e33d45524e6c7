"""Example records that were left out, with the screens around them where those can be read."""

import re
from dataclasses import dataclass, field

from evoaudit.reasons import explain
from evoaudit.report import layout, load
from evoaudit.report.examples import Frame, spread
from evoaudit.report.load import Inputs
from evoaudit.report.words import plain
from evoaudit.streams import rank

#: Screens of one record that are shown.
SCREENS = 5


@dataclass
class Drop:
    """One record that was left out."""

    stage: str
    source: str
    unit: str
    item: str
    reason: str
    detail: str
    frames: list[Frame] = field(default_factory=list)


def drops(inputs: Inputs, limit: int, seed: int) -> tuple[list[Drop], int]:
    """Choose records that were left out, each reason in turn, and return them with how many there are."""
    stages = (*inputs.normalised, inputs.mined, *inputs.images, inputs.final)
    folders = [folder for folder in stages if folder and load.has(folder, "drops")]
    if limit < 1 or not folders:
        return [], 0
    found = load.rows(folders, "drops")

    def order(row: dict) -> tuple:
        return rank(seed, "report-drops", row["stage"], row["source"], row["unit"], row["item"]), row["item"], row["detail"] or ""

    def kind(row: dict) -> tuple:
        return row["stage"], row["reason"]

    # However many reasons there are, each has an example.
    chosen = spread(found, kind, order, max(limit, len({kind(row) for row in found})))
    screens = _screens(inputs, [row["item"] for row in chosen])
    return [_drop(row, screens) for row in chosen], len(found)


def _drop(row: dict, screens: dict[tuple[str, int], dict]) -> Drop:
    names = ("source", "unit", "item", "reason", "detail")
    made = Drop(row["stage"], **{name: plain(row[name] or "", 200) for name in names})
    made.detail = made.detail or meaning(row["reason"], row["unit"])
    logged = (place for place in _places(row["item"]) if any((place[0], step - back) in screens for step in place[1] for back in (0, 1)))
    trajectory, steps = next(logged, ("", []))
    shown = [(f"screen {step}", _seen(screens, trajectory, step)) for step in steps[:SCREENS]]
    if len(steps) == 1 and (around := screens.get((trajectory, steps[0]))):
        shown = [("before", around["before_image"]), ("after", around["after_image"])]
    made.frames = [Frame(picture, label, f"Screen, {label}, of {made.item}") for label, picture in shown if picture]
    return made


def meaning(reason: str, unit: str | None) -> str:
    """Return what a reason code means, in words for readers; empty where nobody explained it."""
    if reason in layout.REASONS:
        return layout.REASONS[reason]
    bare = str(reason).removeprefix("picture_")
    if bare != reason and (told := meaning(bare, "picture")):
        return f"one of its pictures: {told}"
    text = explain(reason, unit).text
    return "" if text == reason else text


def _seen(screens: dict[tuple[str, int], dict], trajectory: str, step: int) -> str | None:
    """Return the picture of what was seen before a step: the one logged with it, or else the one after the step before it."""
    own, last = screens.get((trajectory, step), {}), screens.get((trajectory, step - 1), {})
    return own.get("before_image") or last.get("after_image")


def _places(item: str) -> list[tuple[str, list[int]]]:
    """Return what an item may name: a trajectory and its steps, with or without a word before them; the first few if it names none."""
    found = re.fullmatch(r"(.+)#(\d{1,9}(?:,\d{1,9})*)", item, re.DOTALL)
    whole, steps = (found[1], [int(step) for step in found[2].split(",")]) if found else (item, list(range(SCREENS)))
    return [(name, steps) for name in dict.fromkeys((whole, whole.partition(" ")[2])) if name]


def _screens(inputs: Inputs, items: list[str]) -> dict[tuple[str, int], dict]:
    """Return the pictures around the steps that items name, and around those before them."""
    wanted = {(name, step - back) for item in items for name, steps in _places(item) for step in steps for back in (0, 1)}
    columns = ("trajectory_id", "step", "before_image", "after_image")
    found = load.rows(inputs.normalised, "steps", columns, trajectory_id={trajectory for trajectory, _ in wanted})
    return {place: row for row in found if (place := (row["trajectory_id"], row["step"])) in wanted}
