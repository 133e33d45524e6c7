"""Screens as data: widgets with roles, names and boxes; a builder that lays them out."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from evoaudit.simulate.paint import text_height, text_width, wrap
from evoaudit.simulate.sites import Site

#: State of an application, never changed in place; see `evoaudit.simulate.engine` for the keys all applications share.
State = dict[str, Any]

#: Size of the visible part of a page, pixels.
WIDTH, HEIGHT = 640, 400

INTERACTIVE = frozenset({"button", "link", "textbox", "combobox", "checkbox", "switch", "tab", "gridcell"})


@dataclass(slots=True)
class Widget:
    """One thing on a screen. ``then`` is the state after a click on it, None if a click does nothing."""

    key: str
    role: str
    name: str
    x: int
    y: int
    w: int
    h: int
    look: str
    value: str = ""
    then: State | None = None
    options: tuple[str, ...] = ()
    on: bool = False
    enabled: bool = True
    tone: str = ""
    size: int = 12
    bold: bool = False

    @property
    def centre(self) -> tuple[int, int]:
        return self.x + self.w // 2, self.y + self.h // 2

    def drawn(self) -> tuple:
        """Return all that the picture depends on."""
        return (self.look, self.name, self.x, self.y, self.w, self.h, self.value, self.on, self.enabled, self.tone, self.size, self.bold)


@dataclass(slots=True)
class Screen:
    """What is shown: widgets in page coordinates, of which ``scroll``… is visible."""

    site: Site
    url: str
    title: str
    widgets: list[Widget]
    height: int
    scroll: int = 0
    caret: bool = True
    clock: str | None = None
    desktop: bool = False

    def find(self, key: str) -> Widget | None:
        """Return the widget called ``key``."""
        return next((w for w in self.widgets if w.key == key), None) if key else None

    def visible(self, whole: bool = False) -> list[Widget]:
        """Return the widgets in view, those of the whole page if asked."""
        if whole:
            return self.widgets
        top, bottom = self.scroll, self.scroll + HEIGHT
        return [w for w in self.widgets if w.y + w.h > top and w.y < bottom]

    def texts(self) -> list[str]:
        """Return what can be read, in order."""
        return [w.name for w in self.visible() if w.name]


class Page:
    """Lay widgets out: ``down`` in a column, or ``across`` in rows that wrap."""

    def __init__(self, site: Site, state: State, path: str, title: str, nav: list[tuple[str, str, State]], here: str) -> None:
        self.site, self.state, self.theme, self.title, self.path = site, state, site.theme, title, path
        self.widgets: list[Widget] = []
        self._across = False
        self.gap = 8
        self._header(nav, here)
        self.y = self.top

    def add(self, role: str, name: str, w: int, h: int, look: str, key: str = "", at: tuple[int, int] | None = None, **more: Any) -> Widget:
        """Add a widget at the cursor, or ``at`` a place."""
        x, y = at or self._place(w, h)
        widget = Widget(key, role, name, x, y, w, h, look, **more)
        self.widgets.append(widget)
        return widget

    def _place(self, w: int, h: int) -> tuple[int, int]:
        if not self._across:
            x, y = self.x, self.y
            self.y += h + self.gap
            return x, y
        if self._cursor > self.x and self._cursor + w > self.x + self.width:
            self._cursor, self.y, self._low = self.x, self._low + self.gap, self._low + self.gap
        x = self._cursor
        self._cursor += w + self.gap
        self._low = max(self._low, self.y + h)
        return x, self.y

    @contextmanager
    def across(self, gap: int | None = None) -> Iterator[None]:
        """Lay out what follows from left to right."""
        kept, self.gap = self.gap, self.gap if gap is None else gap
        self._across, self._cursor, self._low = True, self.x, self.y
        yield
        self.gap = kept
        self._across, self.y = False, self._low + self.gap

    @contextmanager
    def card(self, width: int | None = None, pad: int = 10) -> Iterator[None]:
        """Draw a card round what follows."""
        w = width or self.width
        panel = self.add("generic", "", w, 0, "panel", at=(self.x, self.y))
        kept = self.x, self.width
        self.x, self.width, self.y = self.x + pad, w - 2 * pad, self.y + pad
        yield
        self.x, self.width = kept
        panel.h = self.y - self.gap + pad - panel.y
        self.y = panel.y + panel.h + self.gap

    def _header(self, nav: list[tuple[str, str, State]], here: str) -> None:
        layout, name = self.theme.layout, self.site.name
        if layout == 2:
            self.add("banner", "", 118, 0, "side", at=(0, 0))
            self.add("heading", name, 104, 20, "logo", at=(10, 12), tone="side", size=13)
            for i, (key, label, then) in enumerate(nav):
                self.add("link", label, 106, 24, "navside", key, at=(6, 46 + 28 * i), then=then, on=key == here)
            self.x, self.top, self.width = 132, 14, WIDTH - 132 - 14
        else:
            self.add("banner", "", WIDTH, 40 if layout == 0 else 46, "bar", at=(0, 0), tone="brand" if layout == 0 else "plain")
            self.add(
                "heading",
                name,
                text_width(name, 15, True) + 26,
                24,
                "logo",
                at=(14, 8 if layout == 0 else 10),
                tone="brand" if layout == 0 else "plain",
                size=15,
            )
            x = 14 + text_width(name, 15, True) + 26 + 22
            for key, label, then in nav:
                w = text_width(label, 12) + 16
                self.add(
                    "link",
                    label,
                    w,
                    24,
                    "navtop",
                    key,
                    at=(x, 8 if layout == 0 else 11),
                    then=then,
                    on=key == here,
                    tone="brand" if layout == 0 else "plain",
                )
                x += w + 4
            self.x, self.top, self.width = 20, 54 if layout == 0 else 60, WIDTH - 40

    def heading(self, text: str, size: int = 17) -> None:
        """Add a heading."""
        self.add("heading", text, self.width, text_height(size), "text", size=size, bold=True)

    def text(self, text: str, tone: str = "", size: int = 12, bold: bool = False, width: int | None = None, lines: int = 12) -> None:
        """Add a paragraph, broken into lines; each line is one widget, so that each has its box."""
        room = width or (self.width if not self._across else 400)
        kept, self.gap = self.gap, self.gap if self._across else 1
        for line in wrap(text, size, room, lines):
            self.add("text", line, min(room, text_width(line, size, bold) + 2), text_height(size), "text", tone=tone, size=size, bold=bold)
        self.gap = kept
        if not self._across:
            self.y += self.gap - 1

    def pair(self, label: str, value: str, tone: str = "") -> None:
        """Add a label and its value on one line."""
        self.add("text", label, 110, 18, "text", at=(self.x, self.y), tone="muted")
        self.add(
            "text",
            value,
            min(self.width - 116, text_width(value, 12, True) + 2),
            18,
            "text",
            at=(self.x + 116, self.y),
            bold=True,
            tone=tone,
        )
        self.y += 21

    def button(
        self,
        key: str,
        text: str,
        then: State | None,
        tone: str = "",
        enabled: bool = True,
        at: tuple[int, int] | None = None,
        low: bool = False,
        about: str = "",
    ) -> None:
        """Add a button; ``low`` lines it up with the boxes of labelled fields, ``about`` says in its accessible name what it acts on."""
        w = text_width(text, 12, True) + 24
        if low:
            x, y = self._place(w, 44)
            at = (x, y + 17)
        self.add("button", f"{text} {about}".strip(), w, 26, "button", key, at=at, value=text, then=then, tone=tone, enabled=enabled)

    def field(self, key: str, label: str, w: int = 180, hint: str = "", h: int = 26, enabled: bool = True, default: str = "") -> None:
        """Add a labelled text field; its text is in the state."""
        x, y = self._place(w, h + 17)
        self.add("label", label, min(w, text_width(label, 11) + 2), 15, "text", at=(x, y), tone="muted", size=11)
        value = self.state["fields"].get(key, default)
        self.add(
            "textbox",
            label,
            w,
            h,
            "field",
            key,
            at=(x, y + 17),
            value=value,
            tone="" if value else hint,
            on=self.state["focus"] == key,
            enabled=enabled,
        )

    def choose(self, key: str, label: str, options: tuple[str, ...], w: int = 140, default: int = 0, enabled: bool = True) -> None:
        """Add a labelled list of options; the option chosen is in the state."""
        x, y = self._place(w, 43)
        self.add("label", label, min(w, text_width(label, 11) + 2), 15, "text", at=(x, y), tone="muted", size=11)
        value = self.state["fields"].get(key, options[default])
        self.add(
            "combobox",
            label,
            w,
            26,
            "choose",
            key,
            at=(x, y + 17),
            value=value,
            options=options,
            on=self.state["focus"] == key,
            enabled=enabled,
        )

    def check(
        self, key: str, label: str, then: State, on: bool, look: str = "check", enabled: bool = True, at: tuple[int, int] | None = None
    ) -> None:
        """Add a checkbox or, with ``look="switch"``, a switch."""
        self.add(
            "checkbox" if look == "check" else "switch",
            label,
            text_width(label, 12) + (24 if look == "check" else 44),
            20,
            look,
            key,
            at=at,
            then=then,
            on=on,
            enabled=enabled,
        )

    def alert(self, text: str, tone: str) -> None:
        """Add a banner: ``good``, ``bad`` or ``warm``."""
        lines = wrap(text, 12, self.width - 40)
        self.add("alert", text, self.width, 14 + 17 * len(lines), "alert", tone=tone)

    def table(self, heads: list[str], widths: list[int], rows: list[list[tuple[str, str, State | None] | str]]) -> None:
        """Add a table; a cell is a text, or (key, text, state after a click)."""
        self.add("row", "", self.width, 22, "thead", at=(self.x, self.y))
        x = self.x
        for head, w in zip(heads, widths, strict=True):
            self.add("columnheader", head, w - 8, 16, "text", at=(x + 8, self.y + 3), tone="muted", size=11, bold=True)
            x += w
        self.y += 22
        for row in rows:
            self.add("row", "", self.width, 25, "trow", at=(self.x, self.y))
            x = self.x
            for cell, w in zip(row, widths, strict=True):
                if isinstance(cell, str):
                    self.add("cell", cell, w - 12, 17, "text", at=(x + 8, self.y + 4))
                else:
                    key, text, then = cell
                    self.add("link", text, min(w - 12, text_width(text, 12) + 2), 17, "link", key, at=(x + 8, self.y + 4), then=then)
                x += w
            self.y += 25
        self.y += self.gap

    def footer(self, lines: list[str], height: int) -> None:
        """Add what lies below the fold: a band of links and small print that makes the page ``height`` high at least."""
        y = max(self.y + 20, HEIGHT + 12 if height > HEIGHT else self.y + 20, height - 26 - 18 * 4)
        self.add("contentinfo", "", WIDTH, 26 + 18 * 4, "footer", at=(0, y))
        for i, line in enumerate(lines):
            self.add(
                "link",
                line,
                text_width(line, 11) + 2,
                16,
                "link",
                f"foot:{i}",
                at=(24 + 150 * (i // 4), y + 12 + 18 * (i % 4)),
                size=11,
                tone="footer",
            )
        self.y = y + 26 + 18 * 4

    def screen(self) -> Screen:
        """Return the finished screen."""
        height = max(HEIGHT, self.y, *(w.y + w.h for w in self.widgets))
        for w in self.widgets:
            if w.look == "side":
                w.h = height
        scroll = min(self.state["scroll"], height - HEIGHT)
        return Screen(
            self.site,
            self.site.url(self.path),
            f"{self.title} · {self.site.name}",
            self.widgets,
            height,
            scroll,
            self.state["caret"],
            self.state["clock"],
            self.state["desktop"],
        )
