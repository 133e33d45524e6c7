"""The painter: one function a look, and the desktop's frame."""

from collections.abc import Callable
from functools import lru_cache

from evoaudit.simulate.paint import RGB, Canvas, fit, mix, text_height, text_width, wrap
from evoaudit.simulate.screen import HEIGHT, WIDTH, Screen
from evoaudit.simulate.sites import WHITE, Site, Theme

#: Height of a desktop's own bars above the window's content, pixels.
DESKTOP_BAR = 42
_TOP_BAR, _TITLE_BAR = (29, 29, 32), (232, 230, 227)


class _Drawn:
    """What `Widget.drawn` packs, with the vertical shift applied."""

    __slots__ = ("bold", "caret", "enabled", "h", "name", "on", "size", "tone", "value", "w", "x", "y")

    def __init__(self, packed: tuple, shift: int, caret: bool) -> None:
        _, self.name, self.x, y, self.w, self.h, self.value, self.on, self.enabled, self.tone, self.size, self.bold = packed
        self.y, self.caret = y + shift, caret


def picture(screen: Screen, whole: bool = False) -> bytes:
    """Return the screen as PNG: what is in view, or the ``whole`` page."""
    drawn = tuple(w.drawn() for w in screen.visible(whole))
    return _picture(
        screen.site,
        drawn,
        screen.height if whole else HEIGHT,
        0 if whole else screen.scroll,
        screen.caret,
        screen.clock,
        screen.title if screen.desktop else None,
    )


@lru_cache(maxsize=32)
def _picture(site: Site, drawn: tuple, height: int, scroll: int, caret: bool, clock: str | None, window: str | None) -> bytes:
    return paint(site, drawn, height, scroll, caret, clock, window).png()


def paint(site: Site, drawn: tuple, height: int, scroll: int, caret: bool, clock: str | None, window: str | None) -> Canvas:
    """Draw widgets, given as `Widget.drawn` tuples, moved up by ``scroll``; ``window`` is the title of a desktop window."""
    theme, shift = site.theme, (DESKTOP_BAR if window is not None else 0)
    canvas = Canvas(WIDTH, height + shift, theme.ground)
    for packed in drawn:
        LOOKS[packed[0]](canvas, theme, _Drawn(packed, shift - scroll, caret))
    if window is not None:
        _desktop(canvas, window, clock)
    elif clock is not None:
        x, y = WIDTH - 12 - text_width(clock, 11), 13
        canvas.text(x, y, clock, 11, WHITE if theme.layout == 0 else theme.muted, canvas.at(x, y))
    return canvas


def _desktop(canvas: Canvas, window: str, clock: str | None) -> None:
    light = (226, 226, 226)
    canvas.fill(0, 0, WIDTH, 18, _TOP_BAR)
    canvas.text(10, 2, "Activities", 11, light, _TOP_BAR)
    if clock is not None:
        canvas.text(WIDTH // 2 - text_width(clock, 11) // 2, 2, clock, 11, light, _TOP_BAR)
    for i in range(3):
        canvas.icon(WIDTH - 20 - 14 * i, 5, ("dot", "ring", "dot")[i], 8, light, _TOP_BAR)
    canvas.fill(0, 18, WIDTH, 24, _TITLE_BAR)
    title = fit(window, 11, 420, True)
    canvas.text(WIDTH // 2 - text_width(title, 11, True) // 2, 23, title, 11, (60, 60, 60), _TITLE_BAR, True)
    canvas.icon(WIDTH - 22, 25, "cross", 10, (70, 70, 70), _TITLE_BAR)
    canvas.icon(WIDTH - 42, 25, "ring", 10, (110, 110, 110), _TITLE_BAR)


def _tone(theme: Theme, tone: str) -> RGB:
    return {"muted": theme.muted, "good": theme.good, "bad": theme.bad, "warm": theme.warm, "brand": theme.brand, "white": WHITE}.get(
        tone, theme.ink
    )


def _text(c: Canvas, t: Theme, w: _Drawn) -> None:
    c.text(w.x, w.y, fit(w.name, w.size, w.w, w.bold), w.size, _tone(t, w.tone), c.at(w.x, w.y), w.bold)


def _line(c: Canvas, t: Theme, w: _Drawn) -> None:
    c.text(w.x, w.y, w.value, w.size, t.ink, c.at(w.x, w.y))


def _link(c: Canvas, t: Theme, w: _Drawn) -> None:
    c.text(w.x, w.y, fit(w.name, w.size, w.w, w.bold), w.size, t.muted if w.tone == "footer" else t.link, c.at(w.x, w.y), w.bold)


def _logo(c: Canvas, t: Theme, w: _Drawn) -> None:
    ground = c.at(w.x, w.y)
    ink = t.brand if w.tone == "plain" else WHITE
    mark = 16 if w.tone == "side" else 19
    c.box(w.x, w.y + 2, mark, mark, mix(ink, ground, 0), ground, 5)
    c.box(w.x + mark // 4, w.y + 2 + mark // 4, mark - mark // 2, mark - mark // 2, ground, ink, 3)
    room = w.w - mark - 6
    c.text(w.x + mark + 7, w.y + 11 - text_height(w.size) // 2 + mark // 16, fit(w.name, w.size, room, True), w.size, ink, ground, True)


def _bar(c: Canvas, t: Theme, w: _Drawn) -> None:
    c.fill(w.x, w.y, w.w, w.h, t.brand if w.tone == "brand" else t.surface)
    if w.tone != "brand":
        c.fill(w.x, w.y + w.h - 1, w.w, 1, t.line)


def _side(c: Canvas, t: Theme, w: _Drawn) -> None:
    c.fill(w.x, w.y, w.w, w.h, (20, 22, 27) if t.dark else mix(t.brand, (14, 18, 26), 55))


def _navtop(c: Canvas, t: Theme, w: _Drawn) -> None:
    ground = c.at(w.x, w.y)
    brand = w.tone == "brand"
    if w.on:
        pill = mix(ground, WHITE, 22) if brand else t.soft
        c.box(w.x, w.y, w.w, w.h, pill, ground, t.radius)
        ground = pill
    c.text(w.x + 8, w.y + 5, w.name, 12, WHITE if brand else t.link if w.on else t.muted, ground)


def _navside(c: Canvas, t: Theme, w: _Drawn) -> None:
    ground = c.at(w.x, w.y)
    if w.on:
        pill = mix(ground, WHITE, 18)
        c.box(w.x, w.y, w.w, w.h, pill, ground, t.radius)
        ground = pill
    c.text(w.x + 8, w.y + 4, fit(w.name, 12, w.w - 14), 12, WHITE if w.on else (206, 211, 220), ground)


def _panel(c: Canvas, t: Theme, w: _Drawn) -> None:
    c.box(w.x, w.y, w.w, w.h, t.soft if w.tone == "soft" else t.surface, c.at(w.x, w.y), t.radius + 2, t.line)


def _button(c: Canvas, t: Theme, w: _Drawn) -> None:
    ground = c.at(w.x, w.y)
    if not w.enabled:
        fill, ink, border = mix(t.surface, t.line, 55), mix(t.muted, t.surface, 35), t.line
    elif w.tone == "main":
        fill, ink, border = t.brand, WHITE, mix(t.brand, (0, 0, 0), 18)
    elif w.tone == "bad":
        fill, ink, border = t.surface, t.bad, t.bad
    else:
        fill, ink, border = t.surface, t.ink, mix(t.line, t.muted, 40)
    c.box(w.x, w.y, w.w, w.h, fill, ground, t.radius, border)
    c.text(w.x + (w.w - text_width(w.value, 12, True)) // 2, w.y + (w.h - text_height(12)) // 2, w.value, 12, ink, fill, True)


def _frame(c: Canvas, t: Theme, w: _Drawn) -> RGB:
    fill = t.surface if w.enabled else mix(t.surface, t.line, 55)
    ground = c.at(w.x, w.y)
    if w.on:
        c.box(w.x - 2, w.y - 2, w.w + 4, w.h + 4, mix(ground, t.brand, 45), ground, t.radius + 2)
        ground = mix(ground, t.brand, 45)
    c.box(w.x, w.y, w.w, w.h, fill, ground, t.radius, t.brand if w.on else mix(t.line, t.muted, 45))
    return fill


def _field(c: Canvas, t: Theme, w: _Drawn) -> None:
    fill = _frame(c, t, w)
    tall = w.h > 40
    y = w.y + (5 if tall else (w.h - text_height(12)) // 2)
    end = w.x + 8
    if w.value:
        lines = wrap(w.value, 12, w.w - 18, 4) if tall else (fit(w.value, 12, w.w - 18),)
        for i, line in enumerate(lines):
            c.text(w.x + 8, y + 16 * i, line, 12, t.ink if w.enabled else t.muted, fill)
        y += 16 * (len(lines) - 1)
        end = w.x + 8 + text_width(lines[-1], 12)
    elif w.tone:
        c.text(w.x + 8, y, fit(w.tone, 12, w.w - 18), 12, mix(t.muted, fill, 40), fill)
    if w.on and w.caret:
        c.fill(end, y, 1, text_height(12), t.ink)


def _choose(c: Canvas, t: Theme, w: _Drawn) -> None:
    fill = _frame(c, t, w)
    c.text(w.x + 8, w.y + (w.h - text_height(12)) // 2, fit(w.value, 12, w.w - 32), 12, t.ink if w.enabled else t.muted, fill)
    c.icon(w.x + w.w - 19, w.y + 8, "chevron", 12, t.muted, fill)


def _check(c: Canvas, t: Theme, w: _Drawn) -> None:
    ground = c.at(w.x, w.y)
    fill = t.brand if w.on else t.surface
    c.box(w.x, w.y + 2, 16, 16, fill, ground, 3, t.brand if w.on else t.muted)
    if w.on:
        c.icon(w.x + 2, w.y + 4, "check", 12, WHITE, fill)
    c.text(w.x + 23, w.y + 2, w.name, 12, t.ink if w.enabled else t.muted, ground)


def _switch(c: Canvas, t: Theme, w: _Drawn) -> None:
    ground = c.at(w.x, w.y)
    track = mix(t.surface, t.line, 70) if not w.enabled else t.brand if w.on else mix(t.line, t.muted, 55)
    c.box(w.x, w.y + 1, 34, 18, track, ground, 9)
    c.icon(w.x + (18 if w.on else 2), w.y + 3, "dot", 14, WHITE, track)
    c.text(w.x + 42, w.y + 2, w.name, 12, t.ink if w.enabled else t.muted, ground)


def _alert(c: Canvas, t: Theme, w: _Drawn) -> None:
    ink = _tone(t, w.tone)
    fill = mix(t.surface, ink, 14)
    c.box(w.x, w.y, w.w, w.h, fill, c.at(w.x, w.y), t.radius, mix(t.surface, ink, 55))
    c.icon(w.x + 10, w.y + (w.h - 14) // 2, "check" if w.tone == "good" else "warning", 14, ink, fill)
    for i, line in enumerate(wrap(w.name, 12, w.w - 40)):
        c.text(w.x + 31, w.y + 8 + 17 * i, line, 12, mix(ink, t.ink, 45), fill)


def _thead(c: Canvas, t: Theme, w: _Drawn) -> None:
    c.fill(w.x, w.y, w.w, w.h, mix(t.surface, t.line, 40))
    c.fill(w.x, w.y + w.h - 1, w.w, 1, t.line)


def _trow(c: Canvas, t: Theme, w: _Drawn) -> None:
    c.fill(w.x, w.y, w.w, w.h, t.soft if w.on else t.surface)
    c.fill(w.x, w.y + w.h - 1, w.w, 1, t.line)


def _cell(c: Canvas, t: Theme, w: _Drawn) -> None:
    """Draw a cell of a sheet: ``tone`` "head" is a row or column heading."""
    head = w.tone == "head"
    fill = mix(t.surface, t.line, 45) if head else t.surface
    c.fill(w.x, w.y, w.w, w.h, mix(t.line, t.muted, 15))
    c.fill(w.x, w.y, w.w - 1, w.h - 1, fill)
    if w.on:
        c.fill(w.x - 1, w.y - 1, w.w + 1, w.h + 1, t.brand)
        c.fill(w.x + 1, w.y + 1, w.w - 3, w.h - 3, fill)
    text = fit(w.value, 12, w.w - 8)
    number = bool(text) and (text[0].isdigit() or text[0] in "$-") and not head
    x = w.x + (w.w - 5 - text_width(text, 12)) if number else w.x + (w.w - text_width(text, 12)) // 2 if head else w.x + 5
    c.text(x, w.y + (w.h - text_height(12)) // 2, text, 12, t.muted if head else t.bad if text.startswith("#") else t.ink, fill, w.bold)


def _footer(c: Canvas, t: Theme, w: _Drawn) -> None:
    c.fill(w.x, w.y, w.w, w.h, mix(t.ground, t.line, 50))
    c.fill(w.x, w.y, w.w, 1, t.line)


def _hero(c: Canvas, t: Theme, w: _Drawn) -> None:
    """Draw a banner with a title, a line below and an icon (``tone``)."""
    ground = c.at(w.x, w.y)
    fill = mix(t.brand, (10, 14, 22), 28)
    c.box(w.x, w.y, w.w, w.h, fill, ground, t.radius + 2)
    c.icon(w.x + w.w - w.h + 2, w.y + 8, w.tone, w.h - 16, mix(fill, WHITE, 28), fill)
    c.text(w.x + 16, w.y + w.h // 2 - 22, fit(w.name, 16, w.w - w.h - 20, True), 16, WHITE, fill, True)
    c.text(w.x + 16, w.y + w.h // 2 + 2, fit(w.value, 12, w.w - w.h - 20), 12, mix(WHITE, fill, 20), fill)


#: Backgrounds of pictures of things, pale and dark.
_TILES = (
    (226, 236, 246),
    (246, 232, 222),
    (228, 242, 230),
    (242, 230, 242),
    (248, 242, 218),
    (226, 240, 242),
    (236, 234, 228),
    (250, 230, 232),
)
_INKS = ((62, 104, 152), (164, 96, 52), (58, 128, 74), (132, 74, 136), (156, 122, 26), (40, 120, 132), (98, 92, 80), (176, 66, 78))


def _art(c: Canvas, t: Theme, w: _Drawn) -> None:
    """Draw a picture of a thing: ``tone`` names the icon, ``size`` the colours."""
    tile, ink = _TILES[w.size % 8], _INKS[w.size % 8]
    if t.dark:
        tile = mix(t.surface, tile, 22)
    c.box(w.x, w.y, w.w, w.h, tile, c.at(w.x, w.y), t.radius)
    side = min(w.w, w.h) * 2 // 3
    c.icon(w.x + (w.w - side) // 2, w.y + (w.h - side) // 2, w.tone, side, ink, tile)


def _avatar(c: Canvas, t: Theme, w: _Drawn) -> None:
    ink = _INKS[w.size % 8]
    c.icon(w.x, w.y, "dot", w.w, ink, c.at(w.x, w.y))
    c.text(w.x + (w.w - text_width(w.value, 11, True)) // 2, w.y + (w.h - text_height(11)) // 2, w.value, 11, WHITE, ink, True)


def _stars(c: Canvas, t: Theme, w: _Drawn) -> None:
    ground = c.at(w.x, w.y)
    for i in range(5):
        c.icon(w.x + 13 * i, w.y + 1, "star", 12, t.warm if i < int(w.value) else mix(ground, t.line, 90), ground)


def _badge(c: Canvas, t: Theme, w: _Drawn) -> None:
    ground = c.at(w.x, w.y)
    ink = _tone(t, w.tone or "brand")
    fill = mix(ground, ink, 16)
    c.box(w.x, w.y, w.w, w.h, fill, ground, 8)
    c.text(w.x + 8, w.y + (w.h - text_height(11)) // 2, w.name, 11, mix(ink, t.ink, 35) if t.dark else mix(ink, (0, 0, 0), 25), fill)


def _spinner(c: Canvas, t: Theme, w: _Drawn) -> None:
    ground = c.at(w.x, w.y)
    c.icon(w.x, w.y, "ring", w.w, t.line, ground)
    c.icon(w.x + w.w - 12, w.y + 2, "dot", 9, t.brand, ground)


def _ghost(c: Canvas, t: Theme, w: _Drawn) -> None:
    """Draw the grey shape of content that is still loading."""
    c.box(w.x, w.y, w.w, w.h, mix(t.ground, t.line, 60), c.at(w.x, w.y), t.radius)


LOOKS: dict[str, Callable[[Canvas, Theme, _Drawn], None]] = {
    "text": _text,
    "line": _line,
    "link": _link,
    "logo": _logo,
    "bar": _bar,
    "side": _side,
    "navtop": _navtop,
    "navside": _navside,
    "panel": _panel,
    "button": _button,
    "field": _field,
    "choose": _choose,
    "check": _check,
    "switch": _switch,
    "alert": _alert,
    "thead": _thead,
    "trow": _trow,
    "cell": _cell,
    "footer": _footer,
    "hero": _hero,
    "art": _art,
    "avatar": _avatar,
    "stars": _stars,
    "badge": _badge,
    "spinner": _spinner,
    "ghost": _ghost,
}
