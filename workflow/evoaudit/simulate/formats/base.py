"""What a format's writer gives back for one episode."""

import json
from dataclasses import dataclass, field
from typing import Any

from evoaudit.simulate.actors import Episode, Step
from evoaudit.simulate.deal import Deal
from evoaudit.simulate.draw import Draw
from evoaudit.simulate.looks import picture
from evoaudit.simulate.screen import Screen, Widget


@dataclass(slots=True)
class Pieces:
    """One trajectory in its format.

    ``files`` are its own (path, bytes); ``lines`` go to files shared with others (path, line); ``rows`` are Parquet rows.
    """

    native_id: str
    files: list[tuple[str, bytes]] = field(default_factory=list)
    lines: list[tuple[str, str]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def fault(self, name: str, item: str, what: str) -> None:
        """Write down a deliberate fault in the data."""
        self.lines.append(("faults.jsonl", dump({"format": name, "item": item, "fault": what})))

    def task(self, deal: Deal, task_id: str, episode: Episode) -> None:
        """Write down the task's known answer, once for all who try it."""
        if deal.member == 0:
            self.lines.append(
                (
                    f"{deal.format}-tasks.jsonl",
                    dump(
                        {
                            "task_id": task_id,
                            "reference": episode.task.reference,
                            "infeasible": False,
                            "instruction": episode.task.instruction,
                        }
                    ),
                )
            )


#: What a picture is on disk where only the pointer of Git LFS was fetched.
LFS = (
    b"version https://git-lfs.github.com/spec/v1\noid sha256:"
    + b"4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393"
    + b"\nsize 12345\n"
)


def dump(value: Any) -> str:
    """Return JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def draw_of(deal: Deal, seed: int) -> Draw:
    """Return the draws of the recording, which are apart from those of the acting."""
    return Draw(seed, "record", deal.format, deal.number)


def task_draw(deal: Deal, seed: int) -> Draw:
    """Return the draws all who try the task share."""
    return Draw(seed, "record task", deal.format, deal.task)


def uuid(draw: Draw, *name: object) -> str:
    """Return a made-up uuid."""
    digits = draw.code("0123456789abcdef", 32, *name)
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def shot(screen: Screen, whole: bool = False) -> bytes:
    """Return the picture of a screen."""
    return picture(screen, whole)


TAGS = {
    "button": "button",
    "link": "a",
    "textbox": "input",
    "combobox": "select",
    "checkbox": "input",
    "switch": "input",
    "tab": "a",
    "gridcell": "td",
}


def tag(w: Widget) -> str:
    """Return a widget's HTML tag."""
    return TAGS.get(w.role, "div")


def on_screen(step: Step, w: Widget) -> tuple[int, int, int, int]:
    """Return a widget's box in pixels of the visible part."""
    return w.x, w.y - step.before.scroll, w.w, w.h
