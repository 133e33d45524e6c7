"""Where the bytes of a picture are: prepared for the models, or in the source's own folder."""

import hashlib
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from evoaudit.errors import InputError
from evoaudit.intact import Damaged, lost
from evoaudit.pictures import encoded_bytes
from evoaudit.prepared import Pictures
from evoaudit.report import load
from evoaudit.report.thumbs import Thumbs


def want_prepared(thumbs: Thumbs, pictures: Pictures, ids: set[str]) -> None:
    """Ask for thumbnails of prepared pictures, under their image_id; each is read when its thumbnail is made."""
    for name in sorted(ids):
        if name in pictures:
            thumbs.want(name, partial(pictures.get, name))


def want_originals(thumbs: Thumbs, normalised: Iterable[Path], roots: dict[str, Path], ids: set[str]) -> None:
    """Ask for thumbnails of the sources' own pictures, under their image_id."""
    for folder in normalised:
        kinds = {row["source"]: row["kind"] for row in load.rows([folder], "trajectories", ("source", "kind"))}
        found = load.rows([folder], "images", ("image_id", "source", "file", "member", "file_sha256"), image_id=ids, status=["ok"])
        for row in sorted(found, key=lambda row: (row["image_id"], row["source"], row["file"], row["member"] or "")):
            if row["source"] in roots:
                place = (roots[row["source"]], row["file"], row["member"], kinds.get(row["source"]), row["file_sha256"])
                thumbs.want(row["image_id"], partial(read, *place))


def read(root: Path, file: str, member: str | None, kind: str | None, sha256: str | None = None) -> bytes | None:
    """Return a picture's encoded bytes, or None where they are gone or others than were measured; the page is built all the same."""
    try:
        data = encoded_bytes(root, file, member, kind)
    except Damaged:
        raise
    except InputError:
        return None
    if sha256 in (None, hashlib.sha256(data).hexdigest()):
        return data
    if made := lost(root, file, "has changed since the source was read"):
        raise made
    return None
