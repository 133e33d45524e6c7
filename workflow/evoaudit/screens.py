"""Decoded pixels in the form that costs least to name, keep and compare.

Screens are mostly flat: rows of one colour, often stored with a palette. So a picture is named by its runs of equal pixels,
and one with a palette is kept as a byte a pixel. Names and measurements depend on the pixels alone, never on how a file stores them.
"""

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
from PIL import Image

#: A pixel counts as changed if its largest channel difference exceeds this (of 255); a hover highlight of 20 levels does not.
CHANGE_THRESHOLD = 24
#: Side of a tile, pixels.
TILE = 16
#: Pixels from a screen's corner beyond which a log's numbers are no place: such sums and shares are no numbers, or not worth drawing.
REACH = 1_000_000
#: Rows looked at a time, whole tiles: a long page must not be held several times over.
BAND = 128 * TILE

_OPAQUE = np.uint32(0xFF000000)
_CODES = 256
#: The word of every code of a grey picture.
_GREYS = np.arange(_CODES, dtype=np.uint32) * np.uint32(0x010101) | _OPAQUE
#: How light red, green and blue are, of 2 ** 16, as Pillow has it (ITU-R 601-2).
_LIGHT = np.array((19_595, 38_470, 7_471, 0), np.uint32)
#: The 8 lowest frequencies of 32 samples (DCT-II).
_LOW = np.cos(np.pi / 64 * np.outer(np.arange(8), np.arange(1, 64, 2)))
#: Difference of two frequencies' strengths (up to 2 ** 18) that no way of adding them up blurs.
_CLEAR = 1e-6
#: Pixels a run has at least on average for runs to be the shorter name.
_NOISY = 4
#: Multiplying eight bytes by this leaves their sum in the highest.
_SUM = np.uint64(0x0101010101010101)
_EIGHT = np.uint64(8)


def is_place(numbers: Iterable[float | None]) -> bool:
    """Tell whether all numbers of a point or box are there and can be those of a screen."""
    return all(number is not None and abs(number) <= REACH for number in numbers)


@dataclass(frozen=True, slots=True, eq=False)
class Screen:
    """The pixels of one picture, and their name."""

    #: (height, width): uint32 words (red, green and blue from the lowest byte up, the highest byte 255), or uint8 codes.
    cells: np.ndarray
    #: (256,) uint32, the word of every code; None where cells are words.
    palette: np.ndarray | None
    #: Word → code, of the words that occur; empty where cells are words.
    used: Mapping[int, int]
    #: sha256 of the pixels.
    image_id: str
    #: Share of the commonest colour, 0…1; it is found on a grid of sample points.
    blank: float

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width, pixels."""
        return self.cells.shape

    @property
    def words(self) -> np.ndarray:
        """Return (height, width) uint32."""
        return _words_of(self.cells, self.palette)

    @property
    def pixels(self) -> np.ndarray:
        """Return (height, width, 3) uint8."""
        words = self.words
        return words.view(np.uint8).reshape(*words.shape, 4)[..., :3]


@dataclass(frozen=True, slots=True)
class Change:
    """Difference of two pictures of one size."""

    changed_pixels: int
    #: (tiles_y, tiles_x) bool.
    tiles: np.ndarray

    @property
    def bitmap(self) -> bytes:
        """Row-major bits of the changed tiles, most significant first."""
        return np.packbits(self.tiles).tobytes()


def of_image(image: Image.Image) -> Screen:
    """Return the screen of a decoded opaque picture."""
    if image.mode in ("L", "P") and (palette := _palette(image)) is not None:
        return _named(_codes(image), palette)
    return _named(_words(image if image.mode == "RGB" else image.convert("RGB")), None)


def words_of_pixels(pixels: np.ndarray) -> np.ndarray:
    """Return (height, width) words of (height, width, 3) uint8."""
    words = np.full((*pixels.shape[:2], 4), 255, np.uint8)
    words[..., :3] = pixels
    return words.view(np.uint32)[..., 0]


def _named(cells: np.ndarray, palette: np.ndarray | None) -> Screen:
    """Name pixels by size and runs, each by its first pixel and colour in reading order; noisy ones, of many runs, by all pixels."""
    height, width = cells.shape
    flat = cells.ravel()
    starts = _starts(flat)
    colours, used = flat[starts], {}
    if palette is not None:
        codes = np.flatnonzero(np.bincount(colours, minlength=_CODES)).tolist()
        words = palette[codes].tolist()
        used = dict(zip(words, codes, strict=True))
        if len(used) < len(codes):  # two codes of one colour
            table = bytearray(_CODES)
            for code, word in zip(codes, words, strict=True):
                table[code] = used[word]
            return _named(_translated(cells, table), palette)
        colours = palette.take(colours)
    runs = len(starts) * _NOISY <= len(flat)
    mark = hashlib.sha256(f"{width}x{height}:{len(starts) if runs else 0}:".encode())
    for part in (starts.astype("<u4"), colours) if runs else (_words_of(cells, palette),):
        mark.update(np.ascontiguousarray(part))
    commonest = _commonest(cells, palette)
    if palette is None:
        share = np.diff(starts, append=len(flat))[colours == commonest].sum()
    else:
        share = np.count_nonzero(cells == commonest)
    return Screen(cells, palette, used, mark.hexdigest(), round(int(share) / len(flat), 6))


def phash(screen: Screen) -> str:
    """Return the 64-bit perceptual hash, hexadecimal: which of the 8 × 8 lowest frequencies of a 32 × 32 grey picture exceed their median.

    Of large pictures some rows and columns are looked at, 160 or more of each.
    """
    rows, columns = (max(1, side // 160) for side in screen.shape)
    cells = screen.cells[::rows, ::columns]
    size = cells.shape[::-1]
    if screen.palette is None:
        grey = Image.frombuffer("RGBX", size, np.ascontiguousarray(cells), "raw", "RGBX", 0, 1).convert("RGB").convert("L")
    else:
        lights = (screen.palette.view(np.uint8).reshape(-1, 4).dot(_LIGHT) + 0x8000 >> 16).astype(np.uint8)
        grey = Image.frombuffer("L", size, cells.tobytes().translate(lights.tobytes()), "raw", "L", 0, 1)
    grey = np.frombuffer(grey.resize((32, 32), Image.Resampling.BOX).tobytes(), np.uint8).reshape(32, 32).astype(float)
    low = (_LOW @ grey @ _LOW.T).ravel()
    below, above = np.sort(low)[31:33].tolist()
    if above - below < _CLEAR:  # blank and regular screens, of which many a frequency has no strength but that of rounding
        from scipy.fft import dctn

        low = dctn(grey)[:8, :8].ravel()
        below = np.sort(low)[31:33].mean()
    return np.packbits(low > below).tobytes().hex()


def changes(a: Screen, b: Screen) -> Change:
    """Return what differs between two screens of one size, pixel by pixel and by 16-pixel tile.

    Source of threshold and tile: measurements on paired screens, where they miss hover highlights and keep a typed character.
    """
    if a.used and b.used and a.shape[1] % 8 == 0:
        recoded = _recoded(a, b)
        if recoded is not None:
            return _code_changes(a.cells, *recoded)
    return word_changes(a.words, b.words)


def _palette(image: Image.Image) -> np.ndarray | None:
    """Return the word of every code of a picture; None for palettes that are not red, green and blue."""
    if image.mode == "L":
        return _GREYS
    given = len(image.palette.tobytes()) // 3 if image.palette.mode == "RGB" else 0
    if not given:
        return None
    colours = np.frombuffer(image.im.getpalette("RGB", "RGBX"), "<u4")[:given]
    palette = np.full(_CODES, _OPAQUE)
    palette[: len(colours)] |= colours
    return palette


def _codes(image: Image.Image) -> np.ndarray:
    """Return the bytes of a picture."""
    return np.frombuffer(image.tobytes(), np.uint8).reshape(image.height, image.width)


def _words(image: Image.Image) -> np.ndarray:
    """Return the words of an RGB picture."""
    width, height = image.size
    with suppress(ValueError):  # Pillow holds four bytes a pixel already, and shares them where they lie in one piece
        return np.frombuffer(pa.array(image).values.buffers()[1], "<u4", width * height).reshape(height, width) | _OPAQUE
    found = np.empty((height, width), "<u4")
    for top in range(0, height, BAND):
        bottom = min(top + BAND, height)
        part = image if height <= BAND else image.crop((0, top, width, bottom))
        np.bitwise_or(np.frombuffer(part.tobytes("raw", "RGBX"), "<u4").reshape(-1, width), _OPAQUE, out=found[top:bottom])
    return found


def _starts(flat: np.ndarray) -> np.ndarray:
    """Return where runs of equal cells begin."""
    return np.concatenate(([0], np.flatnonzero(flat[1:] != flat[:-1]) + 1))


def _commonest(cells: np.ndarray, palette: np.ndarray | None) -> int:
    """Return the cell that is the commonest of a grid of sample points, that of the darkest colour of several."""
    step = max(1, min(int(cells.size**0.5) // 64, *cells.shape))
    sample = cells[step // 2 :: step, step // 2 :: step]
    if palette is None:
        found, counts = np.unique(sample, return_counts=True)
        return int(found[counts == counts.max()].min())
    counts = np.bincount(sample.ravel())
    found = np.flatnonzero(counts == counts.max())
    return int(found[palette[found].argmin()])


def _words_of(cells: np.ndarray, palette: np.ndarray | None) -> np.ndarray:
    return cells if palette is None else palette.take(cells, mode="clip")


def _recoded(a: Screen, b: Screen) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the cells of ``b`` in codes of which those that ``a`` uses mean the same, and a palette of both.

    None where the two have too many colours for one palette.
    """
    codes, taken = dict(a.used), set(a.used.values())
    free = (code for code in range(_CODES) if code not in taken)
    palette, table = a.palette.copy(), bytearray(_CODES)
    for word, code in b.used.items():
        to = codes.get(word)
        if to is None:
            to = next(free, None) if code in taken else code
            if to is None:
                return None
            taken.add(to)
            palette[to] = word
        table[code] = to
    same = all(table[code] == code for code in b.used.values())
    return b.cells if same else _translated(b.cells, table), palette


def _translated(cells: np.ndarray, table: bytearray) -> np.ndarray:
    return np.frombuffer(cells.tobytes().translate(table), np.uint8).reshape(cells.shape)


def _code_changes(a: np.ndarray, b: np.ndarray, palette: np.ndarray) -> Change:
    """Compare codes, eight at a time, and look up how far apart the colours are only where they differ."""
    height, width = a.shape
    down, across = -(-height // TILE), -(-width // TILE)
    one, other = (np.ascontiguousarray(part).view("<u8").ravel() for part in (a, b))
    at = np.flatnonzero(one != other)
    one, other = one[at], other[at]
    counts = _apart(one[:, None].view(np.uint8)[:, 0], other[:, None].view(np.uint8)[:, 0], palette).view(np.uint8) << 3
    # Most of a screen is flat: where both have eight equal cells, the first speaks for all.
    mixed = np.flatnonzero(((one ^ one >> _EIGHT | other ^ other >> _EIGHT) << _EIGHT) != 0)
    apart = _apart(one[mixed].view(np.uint8), other[mixed].view(np.uint8), palette)
    counts[mixed] = (apart.view(np.uint64) * _SUM) >> np.uint64(56)
    tiles = np.bincount(_tile_of(height, width)[at], counts, down * across)
    return Change(int(tiles.sum()), (tiles > 0).reshape(down, across))


@lru_cache(maxsize=4)
def _tile_of(height: int, width: int) -> np.ndarray:
    """Return the tile of every eight pixels, in reading order."""
    rows, pieces = np.arange(height) // TILE, np.arange(width // 8) * 8 // TILE
    return (rows[:, None] * -(-width // TILE) + pieces).ravel()


def _apart(a: np.ndarray, b: np.ndarray, palette: np.ndarray) -> np.ndarray:
    """Return whether the colours of codes differ by more than the threshold."""
    x, y = (palette.take(codes, mode="clip").view(np.uint8) for codes in (a, b))
    return (np.maximum(x, y) - np.minimum(x, y) > CHANGE_THRESHOLD).view(np.uint32) != 0


def word_changes(a: np.ndarray, b: np.ndarray) -> Change:
    """Return what `changes` does, of (height, width) words."""
    height, width = a.shape
    tiles = np.zeros((-(-height // TILE), -(-width // TILE)), bool)
    different = a != b
    # Most of two consecutive screens is equal; only the box around what differs is looked at closely.
    rows, columns = np.flatnonzero(different.any(axis=1)), np.flatnonzero(different.any(axis=0))
    if not len(rows):
        return Change(0, tiles)
    bottom, left, right = rows[-1] + 1, columns[0] // TILE * TILE, columns[-1] + 1
    changed = 0
    for top in range(rows[0] // TILE * TILE, bottom, BAND):
        band = (slice(top, min(top + BAND, bottom)), slice(left, right))
        x, y = (np.ascontiguousarray(picture[band]).view(np.uint8) for picture in (a, b))
        over = ((np.maximum(x, y) - np.minimum(x, y)) > CHANGE_THRESHOLD).view(np.uint32) != 0
        # A column of a tile has at most 16 changed pixels, so bytes hold the sums.
        counts = np.add.reduceat(over.view(np.uint8), np.arange(0, over.shape[0], TILE), axis=0, dtype=np.uint8)
        counts = np.add.reduceat(counts, np.arange(0, over.shape[1], TILE), axis=1, dtype=np.int32)
        tiles[top // TILE : top // TILE + counts.shape[0], left // TILE : left // TILE + counts.shape[1]] = counts > 0
        changed += int(counts.sum())
    return Change(changed, tiles)
