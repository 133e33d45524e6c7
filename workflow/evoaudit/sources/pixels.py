"""The size of a picture from its header, for sources whose coordinates are shares of it."""

from pathlib import Path

from evoaudit.sources import jsonio
from evoaudit.sources.base import Skipped


def png_size(root: Path, file: str) -> tuple[int, int] | None:
    """Return (width, height) of a PNG file under ``root``, or None if it is not one."""
    head = jsonio.contents(root, file, 24)
    if isinstance(head, Skipped):
        return None
    if len(head) < 24 or not head.startswith(b"\x89PNG\r\n\x1a\n") or head[12:16] != b"IHDR":
        return None
    width, height = int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    return (width, height) if width and height else None
