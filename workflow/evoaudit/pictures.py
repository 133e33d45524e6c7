"""Pictures: judging encoded bytes, decoding them once, finding them again."""

import ctypes
import hashlib
import io
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from evoaudit import intact, screens
from evoaudit.errors import InputError
from evoaudit.screens import Change, Screen
from evoaudit.sources import jsonio, reader
from evoaudit.sources.base import Skipped
from evoaudit.sources.jsonio import LFS_MAGIC

Status = Literal["ok", "missing", "lfs_pointer", "truncated", "too_large", "not_an_image"]

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
#: A picture with this many pixels on a side, or more than this many in all, is not decoded.
SIDE_LIMIT = 30_000
PIXEL_LIMIT = 100_000_000
#: Encoded bytes read at most.
BYTES_LIMIT = 256 * 2**20

#: Images whose description is remembered at most.
MEMORY_LIMIT = 20_000

#: Why a picture is not looked for at all.
OUTSIDE = "the name leads out of the source's folder or is unsafe; name it relative to the folder, with / between parts"

#: Options of GNU's allocator: bytes free at the end of the heap before they go back (M_TRIM_THRESHOLD), bytes got ahead of
#: need (M_TOP_PAD), bytes of a block that comes and goes alone (M_MMAP_THRESHOLD).
_MEMORY = {-1: 2**26, -2: 2**22, -3: 2**25}

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
    screen: Screen | None = None
    detail: str | None = None

    @property
    def pixels(self) -> np.ndarray | None:
        """Return the picture as (height, width, 3) uint8, or None."""
        return None if self.screen is None else self.screen.pixels


def keep_memory() -> None:
    """Let the memory of one picture serve the next, where the C library can: to get it anew, page by page, takes as long as a resize."""
    with suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, size in _MEMORY.items():
            mallopt(option, size)


def read(root: Path, file: str) -> bytes | Inspected:
    """Read a picture's file, or say why it cannot be read; what is too large is cut."""
    data = jsonio.contents(root, file, BYTES_LIMIT + 1)
    if not isinstance(data, Skipped):
        return data
    if data.reason == "outside_root":
        return Inspected("missing", detail=OUTSIDE)
    none = data.reason == "missing" or data.detail == jsonio.NO_FILE
    return Inspected("missing", detail="file not found" if none else data.detail or "cannot be opened")


def inspect(
    data: bytes | None,
    memory: dict[str, str] | None = None,
    known: Callable[[str], Inspected | None] | None = None,
) -> Inspected:
    """Decode a picture and describe it; whatever is wrong with it becomes a status, never an exception or a warning.

    ``memory`` holds the phash of images met before, so that equal screens are described once. ``known`` is asked by the hash
    of the file for what is known of it already; then nothing is decoded, and ``screen`` is None.
    Animations give their first frame, transparency is laid on white, EXIF rotation is ignored (screens have none).
    """
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
            screen = screens.of_image(_opaque(image))
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
    height, width = screen.shape
    phash = None if memory is None else memory.get(screen.image_id)
    if phash is None:
        phash = screens.phash(screen)
        if memory is not None:
            if len(memory) >= MEMORY_LIMIT:
                memory.clear()
            memory[screen.image_id] = phash
    return Inspected("ok", screen.image_id, digest, width, height, name, phash, screen.blank, screen)


def screen(data: bytes) -> Screen | None:
    """Decode a picture that was found whole before; None if it no longer is."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            return None if _oversize(image.size) else screens.of_image(_opaque(image))
    except Exception:  # decoders fed arbitrary bytes raise arbitrary errors
        return None


def encoded_bytes(root: Path, file: str, member: str | None = None, kind: str | None = None) -> bytes:
    """Return the encoded bytes of a picture as the `images` table names it.

    ``member`` is null for plain files; otherwise the reader of ``kind`` knows what it means (for Parquet shards, the
    0-based row, whose ``screenshot`` column is read; that is also the default for ``.parquet`` files).
    """
    root = Path(root)
    try:
        if member is None:
            data = jsonio.contents(root, file, BYTES_LIMIT)
        elif jsonio.is_file(root, file):  # a pipe would never end
            data = reader(kind or "mind2web").load(root, file, member)
        else:
            data = None
        if not data or isinstance(data, Skipped):
            raise FileNotFoundError
        return data
    except Exception:  # a reader's own library may raise anything over a file that has changed
        where = f"{root / file}" + (f" row {member}" if member is not None else "")
        made = intact.lost(root, file, "is missing or cannot be read")
        raise made or InputError(where, "picture is gone since the source was read", _MEND) from None


def decode(data: bytes, where: object) -> Image.Image:
    """Decode to opaque RGB a picture that was whole when its source was read; raises `InputError` if it no longer is.

    Unlike `inspect` it measures nothing, which makes it the one to use for pictures already in the `images` table.
    """
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if not _oversize(image.size):
                return flat(image)
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
    """Return what differs between two pictures of one size, (height, width, 3) uint8, by pixel and by 16-pixel tile."""
    return screens.word_changes(screens.words_of_pixels(a), screens.words_of_pixels(b))


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


def flat(image: Image.Image) -> Image.Image:
    """Decode to opaque RGB, in the colours that `inspect` measures."""
    image = _opaque(image)
    return image if image.mode == "RGB" else image.convert("RGB")


def _opaque(image: Image.Image) -> Image.Image:
    """Decode to a picture without transparency, laid on white."""
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode == "P":
        image.load()
        if image.palette is None:
            raise ValueError("its colours are numbers of a palette that is not there")
    if image.mode in {"RGBA", "LA", "PA", "La", "RGBa"} or "transparency" in image.info:
        layered = image.convert("RGBA")
        if layered.getextrema()[3][0] < 255:
            white = Image.new("RGBA", layered.size, "white")
            white.alpha_composite(layered)
            return white.convert("RGB")
        return layered.convert("RGB")
    image.load()
    return image


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
