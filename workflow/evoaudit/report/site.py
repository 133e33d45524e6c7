"""The frame of the report: what every page shares, and how a page is written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoaudit.places import ITEMS
from evoaudit.report import cases, inline, layout
from evoaudit.report.thumbs import Thumb
from evoaudit.report.words import code, count

TEMPLATES = Path(__file__).parent / "templates"


def pages(items: bool) -> tuple[tuple[str, str], ...]:
    """Return (file, word) of every page the navigation lists; ``items`` says whether single questions have one."""
    listed = [("index.html", "Overview")]
    for id, page in layout.PAGES.items():
        if id == "data" and items:
            listed.append((ITEMS, "Browse questions"))
        listed.append((page.file, page.word))
    return tuple(listed)


@dataclass(frozen=True)
class Site:
    """A run's name and heading, what is said where its data are simulated, and the pages that the navigation lists: (file, word)."""

    folder: Path
    name: str
    title: str
    simulated: str
    pages: tuple[tuple[str, str], ...]

    def render(
        self,
        template: str,
        file: str,
        context: Mapping[str, Any],
        *,
        heading: str = "",
        tagline: str = "",
        thumb: Callable[[str | None], Thumb | None] = lambda _: None,
    ) -> str:
        """Return the page ``file``, a path from the report's folder; ``heading`` stands in for the run's title."""
        shared = {
            "up": "../" * file.count("/"),
            "here": file,
            "site": self,
            "heading": heading or self.title,
            "page_title": f"{heading} · {self.title}" if heading else self.title,
            "tagline": tagline,
            "thumb": thumb,
            "count": count,
        }
        return inline.render(
            TEMPLATES / template,
            shared | dict(context),
            style="report.css",
            script="report.js",
            filters={"code": code},
            tests={"a_step": lambda value: isinstance(value, cases.Shot), "shown": lambda picture: thumb(picture) is not None},
        )

    def write(self, file: str, html: str) -> None:
        """Write a page."""
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html, encoding="utf-8", newline="\n")
