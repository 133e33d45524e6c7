"""Example records that were left out, with the screens around them where those can be read."""

import re
from dataclasses import dataclass, field

from evoaudit.report import load
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

    chosen = spread(found, lambda row: (row["stage"], row["reason"]), order, limit)
    screens = _screens(inputs, [row["item"] for row in chosen])
    return [_drop(row, screens) for row in chosen], len(found)


def _drop(row: dict, screens: dict[tuple[str, int], dict]) -> Drop:
    names = ("source", "unit", "item", "reason", "detail")
    made = Drop(row["stage"], **{name: plain(row[name] or "", 200) for name in names})
    trajectory, steps = next((place for place in _places(row["item"]) if (place[0], place[1][0]) in screens), ("", []))
    shown = [(f"step {step}", screens[trajectory, step]["before_image"]) for step in steps[:SCREENS] if (trajectory, step) in screens]
    if len(steps) == 1:
        around = screens[trajectory, steps[0]]
        shown = [("before", around["before_image"]), ("after", around["after_image"])]
    made.frames = [Frame(picture, label, f"Screen, {label}, of {made.item}") for label, picture in shown if picture]
    return made


def _places(item: str) -> list[tuple[str, list[int]]]:
    """Return what an item may name: a trajectory and its steps, with or without a word before them."""
    found = re.fullmatch(r"(.+)#(\d{1,9}(?:,\d{1,9})*)", item, re.DOTALL)
    if not found:
        return []
    steps = [int(step) for step in found[2].split(",")]
    return [(name, steps) for name in dict.fromkeys((found[1], found[1].partition(" ")[2])) if name]


def _screens(inputs: Inputs, items: list[str]) -> dict[tuple[str, int], dict]:
    """Return the pictures around the steps that items name."""
    wanted = {(name, step) for item in items for name, steps in _places(item) for step in steps}
    columns = ("trajectory_id", "step", "before_image", "after_image")
    found = load.rows(inputs.normalised, "steps", columns, trajectory_id={trajectory for trajectory, _ in wanted})
    return {place: row for row in found if (place := (row["trajectory_id"], row["step"])) in wanted}
