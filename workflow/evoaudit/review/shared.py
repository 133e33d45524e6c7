"""What the pages that people work on share: texts from logs made safe, pictures found again, and marks on them."""

import base64
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from evoaudit import prepare
from evoaudit.errors import InputError, one_line
from evoaudit.intact import Damaged
from evoaudit.pictures import encoded_bytes
from evoaudit.report.thumbs import Thumb, Thumbs
from evoaudit.report.words import plain
from evoaudit.screens import TILE, is_place

#: Name of the style and the script that every page begins with.
STYLE, SCRIPT = "page.css", "page.js"
#: Where pictures may come from, and that no text becomes a script: what a page's content security policy says beside its hashes.
IMAGES = "'self' file:"
TRUSTED = "; require-trusted-types-for 'script'; trusted-types {}"


def line(value: str | None, limit: int, spaces: bool = False) -> str:
    """Return text from a log as one line; what is cut is counted. ``spaces`` keeps them as they were typed."""
    text = one_line(value or "", limit) if spaces else plain(value or "", limit)
    return f"{text} [{len(value):,} characters, cut here]" if value and text.endswith("…") and len(value) > limit else text


def lines(value: str | None, limit: int) -> str:
    """Return text from a log line by line, with everything that could hide or reorder it spelled out; what is cut is counted."""
    value = value or ""
    text = "\n".join(one_line(part, limit) for part in value[:limit].expandtabs(4).split("\n")).strip("\n")
    return f"{text}… [{len(value):,} characters, cut here]" if len(value) > limit else text


def want(thumbs: Thumbs, places: Sequence[prepare.Place], name: Mapping[str, str] | None = None) -> None:
    """Ask for pictures where they lie, by image_id or under other names; a folder that is gone is refused."""
    for root in sorted({place.root for place in places}):
        if not root.is_dir():
            raise InputError(f"--root: {root}", "folder not found", "give the folder with the source's own files")
    for place in places:
        thumbs.want(name[place.image_id] if name else place.image_id, partial(_bytes, place))


def _bytes(place: prepare.Place) -> bytes | None:
    """Return a picture, None where it is gone; one that is another than was measured is refused."""
    try:
        data = encoded_bytes(place.root, place.file, place.member, place.kind)
    except Damaged:
        raise
    except InputError:
        return None
    prepare.check(place, data)
    return data


def picture(thumb: Thumb | None) -> dict[str, Any] | None:
    """Return what a page needs to know of a picture."""
    return None if thumb is None else {"src": thumb.src, "width": thumb.width, "height": thumb.height}


def mark(target: Mapping[str, float | None], size: tuple[int, int] | None) -> dict[str, float] | None:
    """Return where an action went, in per cent of the picture's sides: a box where the log has one, else a point."""
    if size is None:
        return None
    box = [target.get(name) for name in ("left", "top", "width", "height")]
    if is_place(box) and box[2] > 0 and box[3] > 0:
        return dict(zip(("left", "top", "width", "height"), per_cent(box, size), strict=True))
    point = [target.get(name) for name in ("x", "y")]
    if is_place(point):
        return dict(zip(("left", "top"), per_cent(point, size), strict=True))
    return None


def per_cent(values: Sequence[float], size: tuple[int, int]) -> list[float]:
    """Return horizontal and vertical lengths, in turn, in per cent of a picture's sides."""
    return [round(100 * value / size[k % 2], 3) for k, value in enumerate(values)]


def change(row: Mapping[str, Any] | None, size: tuple[int, int] | None) -> dict[str, Any] | None:
    """Return the changed tiles as a bitmap, and how much of the picture the grid of tiles covers."""
    if row is None or size is None or row["tiles"] is None or not row["changed_tiles"]:
        return None
    across, down = row["tiles_x"], row["tiles_y"]
    return {
        "across": across,
        "down": down,
        "width": round(100 * across * TILE / size[0], 3),
        "height": round(100 * down * TILE / size[1], 3),
        "tiles": row["changed_tiles"],
        "bits": base64.b64encode(row["tiles"]).decode(),
    }
