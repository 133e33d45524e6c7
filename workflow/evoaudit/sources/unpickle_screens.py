"""Screens inside pickles: arrays of pixels that were left in the file, given as pictures."""

import re
import struct
import threading
import zlib
from collections import OrderedDict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evoaudit.sources import jsonio
from evoaudit.sources.base import Picture, Skipped
from evoaudit.sources.unpacked import Fault, Unpacked
from evoaudit.sources.unpickle_values import PIXEL_LIMIT, Array

#: Places in files that are remembered.
_REMEMBERED = 8

#: What stands before a long byte string: opcode, and bytes of its length.
_LENGTHS = ((b"B", 4), (b"\x8e", 8), (b"\x96", 8))
_MEMBER = re.compile(r"(.{0,150})@(\d{1,12})\+(\d{1,5})x(\d{1,5})x([134])(f?)")


def screen(root: Path, file: str, place: str, value: Any) -> Picture | None:
    """Return an array of pixels as a picture, or None if the value is none.

    ``place`` names it for people. The member also says where the pixels lie, so that one picture costs no second reading
    of the pickle. Pictures whose places differ only behind the last slash are best asked for in the order they lie in.
    """
    shape = value.pixels() if type(value) is Array else None
    if shape is None:
        return None
    member = f"{place}@{value.data.offset}+{'x'.join(map(str, shape))}{'f' if value.fortran else ''}"
    return Picture(file, member, partial(load, root, file, member))


def load(root: Path, file: str, member: str) -> bytes | None:
    """Return a screen as a BMP file: its bytes depend on the pixels alone, on no codec's version, and cost nothing to make."""
    match = _MEMBER.fullmatch(member)
    path = jsonio.regular(root, file)
    if match is None or isinstance(path, Skipped):
        return None
    offset, height, width, channels = map(int, match.group(2, 3, 4, 5))
    size = height * width * channels
    if not size or height * width > PIXEL_LIMIT:
        return None
    status = path.stat()
    key = (str(path), status.st_mtime_ns, status.st_size, match[1].rpartition("/")[0])
    head = max(0, offset - 9)
    try:
        data = _REEL.read(key, head, offset - head + size)
    except (Fault, zlib.error):
        raise OSError(f"{file} can no longer be unpacked") from None
    length, pixels = data[: offset - head], data[offset - head :]
    if not any(length.endswith(code + size.to_bytes(width, "little")) for code, width in _LENGTHS):
        raise OSError(f"{file} has changed since it was read")
    return bitmap(np.frombuffer(pixels, np.uint8).reshape((height, width, channels), order="F" if match[6] else "C"))


def bitmap(pixels: np.ndarray) -> bytes:
    """Return (height, width, 1, 3 or 4) bytes as an uncompressed BMP file of 24 bits a pixel; a fourth channel is left out."""
    height, width, channels = pixels.shape
    rows = np.zeros((height, -(-width * 3 // 4) * 4), np.uint8)
    rows[:, : width * 3].reshape(height, width, 3)[...] = pixels[::-1, :, 2::-1] if channels > 1 else pixels[::-1]
    header = struct.pack("<2sIII", b"BM", 54 + rows.size, 0, 54)
    return header + struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, rows.size, 2835, 2835, 0, 0) + rows.tobytes()


class _Reels:
    """Places in files, each read forward, because screens are asked for in the order they lie in."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple, tuple[threading.Lock, Unpacked]] = OrderedDict()

    def read(self, key: tuple, offset: int, size: int) -> bytes:
        """Return bytes of the unpacked file whose path, time and size ``key`` begins with."""
        with self._lock:
            lock, stream = self._open.pop(key, None) or (threading.Lock(), Unpacked(Path(key[0])))
            self._open[key] = lock, stream
            while len(self._open) > _REMEMBERED:
                self._open.popitem(last=False)
        with lock:
            try:
                if stream.offset > offset:
                    stream.rewind()
                stream.skip(offset - stream.offset)
                parts = []
                while size:
                    parts.append(stream.read(size))
                    size -= len(parts[-1])
                    if not parts[-1]:
                        raise OSError(f"{key[0]} breaks off")
                return b"".join(parts)
            except Exception:
                stream.rewind()
                raise


_REEL = _Reels()
