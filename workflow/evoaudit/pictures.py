"""Pictures: judging encoded bytes, decoding them once, and measuring what changed between two screens."""

import hashlib
import io
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import imagehash
import numpy as np
import pyarrow as pa
from PIL import Image

from evoaudit.errors import InputError
from evoaudit.sources import reader
from evoaudit.sources.jsonio import LFS_MAGIC, confined

Status = Literal["ok", "missing", "lfs_pointer", "truncated", "too_large", "not_an_image"]

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
#: A picture with this many pixels on a side, or more than this many in all, is not decoded.
SIDE_LIMIT = 30_000
PIXEL_LIMIT = 100_000_000
#: Encoded bytes read at most.
BYTES_LIMIT = 256 * 2**20

#: Images whose description is remembered at most.
MEMORY_LIMIT = 20_000

#: A pixel counts as changed if its largest channel difference exceeds this (of 255); a hover highlight of 20 levels does not.
CHANGE_THRESHOLD = 24
#: Side of a tile, pixels.
TILE = 16
#: Rows looked at a time, whole tiles: a long page must not be held several times over.
_BAND = 128 * TILE

# The size is checked against our own limits before anything is decoded, so Pillow's warning about large pictures is
# switched off rather than left to fire in the middle of a run; full-page screenshots exceed its default honestly.
Image.MAX_IMAGE_PIXELS = None
# Odd metadata in somebody's picture (EXIF, multi-picture headers) says nothing about its pixels.
warnings.filterwarnings("ignore", module=r"PIL\.")

_MEND = "restore it, or delete the normalised folder and run again"
_MAGIC = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"RIFF")


@dataclass(frozen=True, slots=True)
class Inspected:
    """What is known about one picture; everything but ``status`` may be None where there are no pixels."""

    status: Status
    image_id: str | None = None
    file_sha256: str | None = None
    width: int | None = None
    height: int | None = None
    format: str | None = None
    phash: str | None = None
    #: Share of the commonest colour, 0…1.
    blank: float | None = None
    #: (height, width) uint32, a pixel a word: red, green and blue from the lowest byte up, the highest byte 255.
    words: np.ndarray | None = None
    detail: str | None = None

    @property
    def pixels(self) -> np.ndarray | None:
        """Return the picture as (height, width, 3) uint8, or None."""
        return None if self.words is None else self.words.view(np.uint8).reshape(*self.words.shape, 4)[..., :3]


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


def read(path: Path) -> bytes | Inspected:
    """Read a picture's file, or say why it cannot be read; what is too large is cut."""
    try:
        if not path.is_file():
            return Inspected("missing", detail="file not found")
        with open(path, "rb") as handle:
            return handle.read(BYTES_LIMIT + 1)
    except (OSError, ValueError) as error:
        return Inspected("missing", detail=getattr(error, "strerror", None) or "cannot be opened")


def inspect(
    data: bytes | Path | None,
    memory: dict[str, tuple[str, float]] | None = None,
    known: Callable[[str], Inspected | None] | None = None,
) -> Inspected:
    """Decode a picture and describe it; whatever is wrong with it becomes a status, never an exception or a warning.

    ``memory`` holds phash and blankness of images met before, so that equal screens are described once. ``known`` is asked
    by the hash of the file for what is known of it already; then nothing is decoded, and ``words`` is None.
    Animations give their first frame, transparency is laid on white, EXIF rotation is ignored (screens have none).
    """
    if isinstance(data, Path):
        data = read(data)
        if isinstance(data, Inspected):
            return data
    if data is None:
        return Inspected("missing")
    digest = hashlib.sha256(data).hexdigest()
    if len(data) > BYTES_LIMIT:
        return Inspected("too_large", file_sha256=None, detail=f"more than {BYTES_LIMIT:,} bytes")
    if data.startswith(LFS_MAGIC):
        return Inspected("lfs_pointer", file_sha256=digest, detail="a Git LFS pointer, not the picture")
    if not data:
        return Inspected("truncated", file_sha256=digest, detail="empty file")
    if known is not None and (found := known(digest)) is not None:
        return found
    size: tuple[int, int] | None = None
    name: str | None = None
    try:
        size = _webp_size(data)  # Pillow sets aside memory for a whole WEBP canvas on opening it
        if size is not None and (fault := _oversize(size)):
            return Inspected("too_large", None, digest, *size, "webp", detail=fault)
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            size, name = image.size, "jpeg" if image.format == "MPO" else (image.format or "").lower()
            if fault := _oversize(size):
                return Inspected("too_large", None, digest, *_stored(size), name, detail=fault)
            words = _words(image)
    except Exception as error:  # decoders fed arbitrary bytes raise arbitrary errors
        known = size is not None or data.startswith(_MAGIC)
        detail = "the picture breaks off or is damaged" if known else "not a picture in a known format"
        return Inspected(
            "truncated" if known else "not_an_image",
            None,
            digest,
            *_stored(size),
            name,
            detail=f"{detail} ({type(error).__name__})",
        )
    height, width = words.shape
    mark = hashlib.sha256(f"{width}x{height}:".encode())
    mark.update(words)
    image_id = mark.hexdigest()
    described = None if memory is None else memory.get(image_id)
    if described is None:
        described = _phash(words), _blank(words)
        if memory is not None:
            if len(memory) >= MEMORY_LIMIT:
                memory.clear()
            memory[image_id] = described
    return Inspected("ok", image_id, digest, width, height, name, *described, words)


def words(data: bytes) -> np.ndarray | None:
    """Decode a picture that was found whole before; None if it no longer is."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            return None if _oversize(image.size) else _words(image)
    except Exception:  # decoders fed arbitrary bytes raise arbitrary errors
        return None


def encoded_bytes(root: Path, file: str, member: str | None = None, kind: str | None = None) -> bytes:
    """Return the encoded bytes of a picture as the `images` table names it.

    ``member`` is null for plain files; otherwise the reader of ``kind`` knows what it means (for Parquet shards, the
    0-based row, whose ``screenshot`` column is read; that is also the default for ``.parquet`` files).
    """
    path = confined(root, file)
    try:
        if path is None or not path.is_file():  # a pipe would never end
            raise FileNotFoundError
        data = path.read_bytes() if member is None else reader(kind or "mind2web").load(Path(root), file, member)
        if not data:
            raise FileNotFoundError
        return data
    except Exception:  # a reader's own library may raise anything over a file that has changed
        where = f"{Path(root, file)}" + (f" row {member}" if member is not None else "")
        raise InputError(where, "picture is gone since the source was read", _MEND) from None


def decode(data: bytes, where: object) -> Image.Image:
    """Decode to opaque RGB a picture that was whole when its source was read; raises `InputError` if it no longer is.

    Unlike `inspect` it measures nothing, which makes it the one to use for pictures already in the `images` table.
    """
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if not _oversize(image.size):
                return _flat(image)
    except Exception:  # decoders fed arbitrary bytes raise arbitrary errors
        pass
    raise InputError(where, "picture has changed since the source was read", _MEND)


def open_picture(root: Path, file: str, member: str | None = None, kind: str | None = None) -> np.ndarray:
    """Return a picture's pixels, (height, width, 3) uint8; raises `InputError` if it can no longer be read."""
    found = inspect(encoded_bytes(root, file, member, kind))
    pixels = found.pixels
    if pixels is None:
        raise InputError(Path(root, file), f"picture has changed since the source was read ({found.status})", _MEND)
    return pixels


def tile_changes(a: np.ndarray, b: np.ndarray) -> Change:
    """Return what differs between two pictures of one size, pixel by pixel and by 16-pixel tile.

    Pictures are words (see `Inspected`) or (height, width, 3) uint8. Source of threshold and tile: measurements on paired
    screens, where they miss hover highlights and keep a typed character.
    """
    a, b = _as_words(a), _as_words(b)
    height, width = a.shape
    tiles = np.zeros((-(-height // TILE), -(-width // TILE)), bool)
    different = a != b
    # Most of two consecutive screens is equal; only the box around what differs is looked at closely.
    rows, columns = np.flatnonzero(different.any(axis=1)), np.flatnonzero(different.any(axis=0))
    if not len(rows):
        return Change(0, tiles)
    bottom, left, right = rows[-1] + 1, columns[0] // TILE * TILE, columns[-1] + 1
    changed = 0
    for top in range(rows[0] // TILE * TILE, bottom, _BAND):
        band = (slice(top, min(top + _BAND, bottom)), slice(left, right))
        x, y = (np.ascontiguousarray(picture[band]).view(np.uint8) for picture in (a, b))
        over = ((np.maximum(x, y) - np.minimum(x, y)) > CHANGE_THRESHOLD).view(np.uint32) != 0
        counts = np.add.reduceat(over, np.arange(0, over.shape[0], TILE), axis=0, dtype=np.int32)
        counts = np.add.reduceat(counts, np.arange(0, over.shape[1], TILE), axis=1)
        tiles[top // TILE : top // TILE + counts.shape[0], left // TILE : left // TILE + counts.shape[1]] = counts > 0
        changed += int(counts.sum())
    return Change(changed, tiles)


def unpack(bitmap: bytes, tiles_x: int, tiles_y: int) -> np.ndarray:
    """Return the (tiles_y, tiles_x) bool array of a `changes.tiles` bitmap."""
    return np.unpackbits(np.frombuffer(bitmap, np.uint8), count=tiles_x * tiles_y).astype(bool).reshape(tiles_y, tiles_x)


def _oversize(size: tuple[int, int]) -> str | None:
    width, height = size
    if max(size) >= SIDE_LIMIT or width * height > PIXEL_LIMIT:
        return f"{width} × {height} pixels"
    return None


def _stored(size: tuple[int, int] | None) -> tuple[int | None, int | None]:
    """Return a claimed size if its numbers fit the table, else none."""
    return size if size is not None and max(size) < 2**31 else (None, None)


def _flat(image: Image.Image) -> Image.Image:
    """Decode to opaque RGB."""
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in {"RGBA", "LA", "PA", "La", "RGBa"} or "transparency" in image.info:
        layered = image.convert("RGBA")
        if layered.getextrema()[3][0] < 255:
            white = Image.new("RGBA", layered.size, "white")
            white.alpha_composite(layered)
            return white.convert("RGB")
        return layered.convert("RGB")
    image.load()
    return image if image.mode == "RGB" else image.convert("RGB")


def _words(image: Image.Image) -> np.ndarray:
    """Decode an opened picture to words."""
    if image.mode == "P" and "transparency" not in image.info:  # screens are often stored with a palette: look its colours up once
        image.load()
        palette = np.full(256, 0xFF000000, np.uint32)
        colours = np.frombuffer(image.palette.tobytes() if image.palette.mode == "RGB" else b"", np.uint8)
        if len(colours) >= 3:
            colours = colours[: len(colours) // 3 * 3].reshape(-1, 3).astype(np.uint32)[:256]
            palette[: len(colours)] |= colours[:, 0] | colours[:, 1] << 8 | colours[:, 2] << 16
            return np.take(palette, np.asarray(image), mode="clip")
    rgb = _flat(image)
    width, height = rgb.size
    if rgb.mode == "RGB":  # Pillow holds four bytes a pixel already, and shares them where they lie in one piece
        with suppress(ValueError):
            return np.frombuffer(pa.array(rgb).values.buffers()[1], "<u4", width * height).reshape(height, width) | np.uint32(0xFF000000)
    found = np.empty((height, width), "<u4")
    for top in range(0, height, _BAND):
        bottom = min(top + _BAND, height)
        part = rgb if height <= _BAND else rgb.crop((0, top, width, bottom))
        np.bitwise_or(np.frombuffer(part.tobytes("raw", "RGBX"), "<u4").reshape(-1, width), np.uint32(0xFF000000), out=found[top:bottom])
    return found


def _as_words(picture: np.ndarray) -> np.ndarray:
    if picture.ndim == 2:
        return picture
    words = np.full((*picture.shape[:2], 4), 255, np.uint8)
    words[..., :3] = picture
    return words.view(np.uint32)[..., 0]


def _phash(words: np.ndarray) -> str:
    """Return the 64-bit perceptual hash; pictures are first averaged down to 64 pixels or a little more, which is faster."""
    image = Image.frombuffer("RGBX", words.shape[::-1], words, "raw", "RGBX", 0, 1)
    factors = [max(1, side // 64) for side in image.size]
    return str(imagehash.phash((image.reduce(tuple(factors)) if max(factors) > 1 else image).convert("RGB").convert("L")))


def _blank(words: np.ndarray) -> float:
    """Return the share of the commonest colour, found on a grid of sample points and counted over all pixels."""
    step = max(1, min(int(words.size**0.5) // 64, *words.shape))
    colours, counts = np.unique(words[step // 2 :: step, step // 2 :: step], return_counts=True)
    return round(np.count_nonzero(words == colours[counts.argmax()]) / words.size, 6)


def _webp_size(data: bytes) -> tuple[int, int] | None:
    """Read the canvas size from a WEBP header; None for other formats (RFC 9649, sections 2.5–2.7)."""
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP" or len(data) < 30:
        return None
    if data[12:16] == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if data[12:16] == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF
