"""Thumbnails: small pictures of fixed bytes, made once each from pictures that may be broken or huge."""

import hashlib
import io
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from evoaudit.pictures import FORMATS, flat

#: Longest side, pixels.
SIDE = 480
QUALITY = 80
#: Pixels beyond which a picture is not decoded.
MAX_PIXELS = 64_000_000


@dataclass(frozen=True)
class Thumb:
    """A thumbnail: its path relative to the page, and its size in pixels."""

    src: str
    width: int
    height: int


class Thumbs:
    """Collect wanted pictures, then make all thumbnails at once."""

    def __init__(self, folder: Path, under: str = "assets/thumbs", box: tuple[int, int] = (SIDE, SIDE)) -> None:
        self._folder, self._under, self._box = folder, under, box
        self._wanted: dict[str, list[Callable[[], bytes | None]]] = {}
        self._made: dict[str, Thumb | None] = {}

    def want(self, name: str, load: Callable[[], bytes | None]) -> None:
        """Ask for the picture called ``name``; ``load`` returns its encoded bytes, or None where there are none.

        Of several places asked for, the first that gives a picture is taken.
        """
        self._wanted.setdefault(name, []).append(load)

    def make(self, threads: int = 1) -> None:
        """Write what was asked for since the last call; the files do not depend on ``threads``."""
        names = sorted(self._wanted.keys() - self._made.keys())
        (self._folder / self._under).mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(max(1, threads)) as pool:
            self._made.update(zip(names, pool.map(self._one, names), strict=True))

    def get(self, name: str | None) -> Thumb | None:
        """Return a thumbnail made earlier, or None where the picture cannot be shown."""
        return self._made.get(name) if name is not None else None

    def drop(self, kept: Iterable[str]) -> None:
        """Remove the files of thumbnails other than ``kept``."""
        keep = {thumb.src for name in kept if (thumb := self._made.get(name))}
        for path in sorted((self._folder / self._under).glob("*.jpg")):
            if f"{self._under}/{path.name}" not in keep:
                path.unlink()

    def _one(self, name: str) -> Thumb | None:
        for load in self._wanted[name]:
            raw = load()
            if raw and (made := shrink(raw, self._box)):
                break
        else:
            return None
        data, width, height = made
        # The name of a picture may come from a log, so the file is named by its hash.
        src = f"{self._under}/{hashlib.blake2b(name.encode('utf-8', 'replace'), digest_size=8).hexdigest()}.jpg"
        (self._folder / src).write_bytes(data)
        return Thumb(src, width, height)


def shrink(raw: bytes, box: tuple[int, int] = (SIDE, SIDE)) -> tuple[bytes, int, int] | None:
    """Return the bytes, width and height of a JPEG that fits into a box, or None where ``raw`` is no picture that can be decoded safely."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(raw), formats=FORMATS) as picture:
                if picture.width * picture.height > MAX_PIXELS or min(picture.size) < 1:
                    return None
                picture.draft("RGB", (box[0] * 2, box[1] * 2))
                small = flat(picture)
        small.thumbnail(box, Image.Resampling.BOX if max(small.size) > 4 * max(box) else Image.Resampling.LANCZOS)
        out = io.BytesIO()
        small.save(out, "JPEG", quality=QUALITY, subsampling=0)
    except (OSError, ValueError, SyntaxError, EOFError, MemoryError, Image.DecompressionBombError):
        return None
    return out.getvalue(), small.width, small.height
