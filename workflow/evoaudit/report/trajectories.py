"""A page for every audited or suspected trajectory: one file that holds its pictures and can be sent to somebody as it is."""

import base64
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from evoaudit.places import PAGES, trajectory_page
from evoaudit.report import cases, inline, load
from evoaudit.report.load import Inputs
from evoaudit.report.pictures import want_originals
from evoaudit.report.thumbs import Thumb, Thumbs

TEMPLATES = Path(__file__).parent / "templates"
#: Screens of one trajectory that are shown, and the box they fit into, pixels.
FRAMES, BOX = 40, (720, 720)
#: Trajectories read and drawn at a time.
BATCH = 20


def chosen(inputs: Inputs) -> list[dict]:
    """Return the trajectories that get a page: the listed suspects and what was audited, as rows of the sample where they are in it."""
    rows = load.rows([inputs.sample], "sample") if inputs.sample and load.has(inputs.sample, "sample") else []
    sampled = {row["trajectory_id"]: row for row in rows}
    listed = load.rows([inputs.stats], "suspects", ("trajectory_id", "page")) if load.has(inputs.stats, "suspects") else []
    wanted = [row["trajectory_id"] for row in listed if row["page"]]
    wanted += sorted(one for one, row in sampled.items() if row["status"] == "analysed")[:PAGES]
    columns = ("trajectory_id", "benchmark", "agent", "task_id", "simulated")
    known = {row["trajectory_id"]: row for row in load.rows(inputs.normalised, "trajectories", columns, trajectory_id=set(wanted))}
    return [sampled.get(one) or known[one] for one in dict.fromkeys(wanted) if one in known]


def write(folder: Path, inputs: Inputs, rows: list[dict], name: str, threads: int, site_pages: Sequence[tuple[str, str]] = ()) -> None:
    """Write the page of every one of the ``rows``; ``site_pages`` are those of the report around them, (file, word)."""
    scratch = "trajectories/.pictures"
    files = [trajectory_page(row["trajectory_id"]).rpartition("/")[2] for row in rows]
    for start in range(0, len(rows), BATCH):
        some = rows[start : start + BATCH]
        thumbs = Thumbs(folder, scratch, BOX)
        made = cases.told(inputs, some, FRAMES)
        want_originals(thumbs, inputs.normalised, inputs.roots, cases.pictures(made))
        thumbs.make(threads)
        for place, (row, case) in enumerate(zip(some, made, strict=True), start):
            around = {"before": files[place - 1] if place else "", "after": files[place + 1] if place + 1 < len(files) else ""}
            more = {"name": name, "site_pages": site_pages, "place": place + 1, "n": len(files), **around}
            html = _render(case, _inside(folder, thumbs), more)
            (folder / trajectory_page(row["trajectory_id"])).write_text(html, encoding="utf-8", newline="\n")
        shutil.rmtree(folder / scratch)


def _inside(folder: Path, thumbs: Thumbs) -> Callable[[str | None], Thumb | None]:
    """Return a lookup of pictures whose address is their bytes."""

    def get(picture: str | None) -> Thumb | None:
        found = thumbs.get(picture)
        if found is None:
            return None
        data = base64.b64encode((folder / found.src).read_bytes()).decode()
        return Thumb(f"data:image/jpeg;base64,{data}", found.width, found.height)

    return get


def _render(case: cases.Case, thumb: Callable[[str | None], Thumb | None], more: dict) -> str:
    return inline.render(
        TEMPLATES / "trajectory.html.j2",
        {"c": case, "thumb": thumb, **more},
        style=("report.css", "trajectory.css"),
        script=(),
        images="data:",
        tests={"a_step": lambda value: isinstance(value, cases.Shot), "shown": lambda picture: thumb(picture) is not None},
    )
