"""Fast drawing of flat user interfaces: one byte a pixel, a palette of its own in every picture.

Glyphs and icons are drawn once by Pillow as coverage masks and kept; a picture is then made of copies of them, which
is an order of magnitude faster than drawing text in true colour, and its PNG is small.
"""

import io
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

RGB = tuple[int, int, int]

#: Coverage levels from background to ink; enough for smooth text, few enough for one palette.
_LEVELS = 6

#: Share of a pixel that bold text is thicker by.
_SMEAR = 0.6


@lru_cache(maxsize=32)
def font(size: int) -> ImageFont.FreeTypeFont:
    """Return the font that comes with Pillow."""
    return ImageFont.load_default(size=size)


@lru_cache(maxsize=16384)
def text_mask(text: str, size: int, bold: bool) -> np.ndarray:
    """Return the coverage of one line of text; its height depends on the size alone."""
    image = Image.new("L", (text_width(text, size) + 2, text_height(size)), 0)
    ImageDraw.Draw(image).text((0, 0), text, fill=255, font=font(size))
    mask = np.asarray(image)
    if bold:  # the bundled font has one weight: smear it half a pixel to the right
        mask = mask.copy()
        np.maximum(mask[:, 1:], (mask[:, :-1] * _SMEAR).astype(np.uint8), out=mask[:, 1:])
    return _coverage(mask)


def _coverage(mask: np.ndarray) -> np.ndarray:
    """Return 0…255 as 0…LEVELS-1."""
    return (mask.astype(np.uint16) * (_LEVELS - 1) + 127) // 255


@lru_cache(maxsize=4096)
def _advance(character: str, size: int) -> float:
    return font(size).getlength(character)


@lru_cache(maxsize=32768)
def text_width(text: str, size: int, bold: bool = False) -> int:
    """Return the width of a line in pixels."""
    return int(sum(_advance(character, size) for character in text) + (2 if bold else 1))


@lru_cache(maxsize=64)
def text_height(size: int) -> int:
    """Return the height of a line in pixels."""
    return sum(font(size).getmetrics())


@lru_cache(maxsize=8192)
def wrap(text: str, size: int, width: int, lines: int = 12) -> tuple[str, ...]:
    """Break ``text`` into lines no wider than ``width``; what does not fit in ``lines`` ends in an ellipsis."""
    done: list[str] = []
    line = ""
    for word in text.split():
        longer = f"{line} {word}".strip()
        if line and text_width(longer, size) > width:
            done.append(line)
            line = word
        else:
            line = longer
    done.append(line)
    if len(done) > lines:
        done = [*done[: lines - 1], done[lines - 1] + "…"]
    return tuple(fit(line, size, width) for line in done)


@lru_cache(maxsize=16384)
def fit(text: str, size: int, width: int, bold: bool = False) -> str:
    """Shorten ``text`` with an ellipsis until it is no wider than ``width``."""
    if text_width(text, size, bold) <= width:
        return text
    while text and text_width(text + "…", size, bold) > width:
        text = text[:-1]
    return text.rstrip() + "…"


def _drawn(size: int, strokes) -> np.ndarray:
    """Draw at four times the size and average down, which Pillow's shapes need to look smooth."""
    image = Image.new("L", (size * 4, size * 4), 0)
    strokes(ImageDraw.Draw(image), size * 4 / 24)
    return _coverage(np.asarray(image.resize((size, size), Image.Resampling.BOX)))


#: Icons on a 24-unit grid: (shape, points, width or 0 for filled). Shapes: l line, e ellipse, r rectangle, p polygon, c clear ellipse.
ICONS: dict[str, tuple[tuple, ...]] = {
    "search": (("e", (4, 4, 16, 16), 2.4), ("l", (14.5, 14.5, 21, 21), 2.6)),
    "chevron": (("l", (6, 9, 12, 15.5, 18, 9), 2.4),),
    "check": (("l", (5, 12.5, 10, 17.5, 19.5, 6.5), 3),),
    "cross": (("l", (6, 6, 18, 18), 2.6), ("l", (18, 6, 6, 18), 2.6)),
    "star": (("p", (12, 2, 15, 9, 22, 9.6, 16.6, 14.4, 18.4, 21.6, 12, 17.6, 5.6, 21.6, 7.4, 14.4, 2, 9.6, 9, 9), 0),),
    "warning": (("p", (12, 2.5, 22.5, 21, 1.5, 21), 0),),
    "dot": (("e", (2, 2, 22, 22), 0),),
    "ring": (("e", (2, 2, 22, 22), 2.6),),
    "lamp": (("p", (8, 3, 16, 3, 20, 12, 4, 12), 0), ("r", (11, 12, 13, 20), 0), ("r", (7, 20, 17, 22), 0)),
    "book": (("r", (4, 4, 11.3, 20), 0), ("r", (12.7, 4, 20, 20), 0)),
    "cup": (("r", (4, 7, 16, 19), 0), ("e", (13, 9, 21, 16), 2), ("r", (3, 20, 18, 21.5), 0)),
    "chair": (("r", (7, 3, 9, 21), 0), ("r", (7, 11, 18, 14), 0), ("r", (16, 11, 18, 21), 0), ("r", (7, 3, 12, 5), 0)),
    "shirt": (("p", (8, 3, 16, 3, 22, 8, 19, 11, 17, 9.5, 17, 21, 7, 21, 7, 9.5, 5, 11, 2, 8), 0), ("c", (9.5, 0, 14.5, 5.5), 0)),
    "plant": (
        ("e", (11, 3, 20, 11), 0),
        ("e", (4, 5, 12, 12), 0),
        ("r", (11.3, 9, 12.7, 16), 0),
        ("p", (7, 15, 17, 15, 15.5, 22, 8.5, 22), 0),
    ),
    "phone": (("r", (7, 2, 17, 22), 0), ("c", (11, 18.4, 13, 20.4), 0)),
    "headphones": (("e", (4, 4, 20, 20), 2.4), ("r", (3, 12, 8, 20), 0), ("r", (16, 12, 21, 20), 0)),
    "bag": (("r", (4, 8, 20, 21), 0), ("e", (8, 3, 16, 13), 2)),
    "jar": (("r", (7, 2, 17, 5), 0), ("r", (5, 6, 19, 22), 0)),
    "plane": (("p", (2, 13, 10, 10, 14, 3, 16, 3, 14.5, 10, 21, 9, 22, 11, 14.5, 14, 11, 20, 9, 20, 9.5, 14.5, 4, 15.5), 0),),
    "train": (
        ("r", (5, 3, 19, 17), 0),
        ("c", (7.5, 12, 10.5, 15), 0),
        ("c", (13.5, 12, 16.5, 15), 0),
        ("l", (8, 18, 5, 22), 2),
        ("l", (16, 18, 19, 22), 2),
    ),
    "chat": (("r", (3, 4, 21, 16), 0), ("p", (6, 15, 12, 15, 6, 21), 0)),
    "gear": (
        ("e", (4, 4, 20, 20), 4.5),
        ("r", (10.5, 1, 13.5, 6), 0),
        ("r", (10.5, 18, 13.5, 23), 0),
        ("r", (1, 10.5, 6, 13.5), 0),
        ("r", (18, 10.5, 23, 13.5), 0),
    ),
    "grid": (("r", (3, 3, 10, 10), 0), ("r", (14, 3, 21, 10), 0), ("r", (3, 14, 10, 21), 0), ("r", (14, 14, 21, 21), 0)),
    "bug": (("e", (7, 7, 17, 21), 0), ("e", (9, 2, 15, 8), 0), ("l", (2, 9, 22, 19), 1.6), ("l", (22, 9, 2, 19), 1.6)),
    "lock": (("r", (5, 10, 19, 21), 0), ("e", (8, 3, 16, 15), 2.2)),
}


@lru_cache(maxsize=512)
def icon_mask(name: str, size: int) -> np.ndarray:
    """Return an icon's coverage."""

    def strokes(pen: ImageDraw.ImageDraw, unit: float) -> None:
        for shape, points, width in ICONS[name]:
            at = [p * unit for p in points]
            if shape == "l":
                pen.line(at, fill=255, width=round(width * unit), joint="curve")
            elif shape == "r":
                pen.rounded_rectangle(at, radius=unit, fill=255)
            elif shape == "p":
                pen.polygon(at, fill=255)
            elif width:
                pen.ellipse(at, outline=255, width=round(width * unit))
            else:
                pen.ellipse(at, fill=0 if shape == "c" else 255)

    return _drawn(size, strokes)


@lru_cache(maxsize=32)
def _corner(radius: int) -> np.ndarray:
    """Return the coverage of a rounded top-left corner."""
    return _drawn(2 * radius, lambda pen, unit: pen.ellipse((0, 0, 24 * unit - 1, 24 * unit - 1), fill=255))[:radius, :radius]


@lru_cache(maxsize=4096)
def ramp(ink: RGB, ground: RGB) -> tuple[RGB, ...]:
    """Return the colours from ``ground`` to ``ink``."""
    top = _LEVELS - 1
    return tuple(tuple((g * (top - k) + i * k + top // 2) // top for g, i in zip(ground, ink, strict=True)) for k in range(_LEVELS))


def mix(a: RGB, b: RGB, percent: int) -> RGB:
    """Return ``a`` with ``percent`` of 100 of ``b``."""
    return tuple((x * (100 - percent) + y * percent) // 100 for x, y in zip(a, b, strict=True))


class Canvas:
    """A picture in the making. What is drawn over must have one flat colour, which the caller names as ``ground``."""

    def __init__(self, width: int, height: int, ground: RGB) -> None:
        self.width, self.height = width, height
        self.pixels = np.zeros((height, width), np.uint8)
        self._index: dict[RGB, int] = {ground: 0}
        self._palette = [ground]
        self._tables: dict[tuple[RGB, RGB], np.ndarray] = {}
        self._corners: dict[tuple, np.ndarray] = {}

    def index(self, colour: RGB) -> int:
        """Return the colour's place in the palette, the nearest one's if the palette is full."""
        found = self._index.get(colour)
        if found is None:
            if len(self._index) < 256:
                found = self._index[colour] = len(self._index)
                self._palette.append(colour)
            else:
                found = self._index[min(self._palette, key=lambda c: sum((a - b) ** 2 for a, b in zip(c, colour, strict=True)))]
        return found

    def fill(self, x: int, y: int, w: int, h: int, colour: RGB) -> None:
        """Fill a rectangle; what lies outside is cut off."""
        self.pixels[max(0, y) : max(0, y + h), max(0, x) : max(0, x + w)] = self.index(colour)

    def stamp(self, x: int, y: int, mask: np.ndarray, ink: RGB, ground: RGB) -> None:
        """Copy a coverage mask."""
        left, top = max(0, -x), max(0, -y)
        mask = mask[top : max(top, self.height - y), left : max(left, self.width - x)]
        if mask.size:
            y, x = y + top, x + left
            self.pixels[y : y + mask.shape[0], x : x + mask.shape[1]] = self._table(ink, ground)[mask]

    def _table(self, ink: RGB, ground: RGB) -> np.ndarray:
        """Return coverage → palette index."""
        table = self._tables.get((ink, ground))
        if table is None:
            table = self._tables[(ink, ground)] = np.array([self.index(c) for c in ramp(ink, ground)], np.uint8)
        return table

    def _copy(self, x: int, y: int, pixels: np.ndarray) -> None:
        """Copy finished pixels."""
        left, top = max(0, -x), max(0, -y)
        pixels = pixels[top : max(top, self.height - y), left : max(left, self.width - x)]
        if pixels.size:
            self.pixels[y + top : y + top + pixels.shape[0], x + left : x + left + pixels.shape[1]] = pixels

    def text(self, x: int, y: int, text: str, size: int, ink: RGB, ground: RGB, bold: bool = False) -> None:
        """Write one line with its top left corner at (x, y)."""
        if text and -40 < y < self.height:
            self.stamp(x, y, text_mask(text, size, bold), ink, ground)

    def icon(self, x: int, y: int, name: str, size: int, ink: RGB, ground: RGB) -> None:
        """Draw an icon."""
        self.stamp(x, y, icon_mask(name, size), ink, ground)

    def box(self, x: int, y: int, w: int, h: int, fill: RGB, ground: RGB, radius: int = 4, border: RGB | None = None) -> None:
        """Draw a rounded box, with a border of one pixel if asked."""
        if y >= self.height or y + h <= 0:
            return
        self.fill(x, y, w, h, border or fill)
        if border is not None:
            self.fill(x + 1, y + 1, w - 2, h - 2, fill)
        radius = min(radius, w // 2, h // 2)
        if radius > 1:
            corner = self._corner(fill, ground, radius, border)
            self._copy(x, y, corner)
            self._copy(x + w - radius, y, corner[:, ::-1])
            self._copy(x, y + h - radius, corner[::-1])
            self._copy(x + w - radius, y + h - radius, corner[::-1, ::-1])

    def _corner(self, fill: RGB, ground: RGB, radius: int, border: RGB | None) -> np.ndarray:
        """Return the pixels of a top left corner."""
        key = (fill, ground, radius, border)
        found = self._corners.get(key)
        if found is None:
            found = self._table(border or fill, ground)[_corner(radius)]
            if border is not None and radius > 2:
                inner = _corner(radius - 1)
                found[1:, 1:][inner > 0] = self._table(fill, border)[inner[inner > 0]]
            self._corners[key] = found
        return found

    def at(self, x: int, y: int) -> RGB:
        """Return the colour of a pixel, of the nearest one if (x, y) lies outside."""
        return self.palette[self.pixels[min(max(y, 0), self.height - 1), min(max(x, 0), self.width - 1)]]

    @property
    def palette(self) -> list[RGB]:
        """Colours used so far."""
        return self._palette

    def png(self) -> bytes:
        """Encode the picture."""
        image = Image.fromarray(self.pixels, "L")
        image.putpalette(bytes(channel for colour in self._palette for channel in colour))
        buffer = io.BytesIO()
        image.save(buffer, "PNG", compress_level=4)
        return buffer.getvalue()
