"""Pictures as every model receives them: decoded once, resized once, encoded once, and found again by image_id."""

import hashlib
import io
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from PIL import Image

from evoaudit import intact, pictures, schema, store
from evoaudit.errors import InputError

#: Lossless, so that text stays legible and the bytes are a function of the pixels and of the encoder alone.
FORMAT = "PNG"
RESAMPLING = "lanczos"
#: Pictures in a row group: what a reader must read to get one of them.
_GROUP = 16


@dataclass(frozen=True, slots=True)
class Place:
    """Where a picture of a source lies."""

    image_id: str
    root: Path
    file: str
    member: str | None
    kind: str | None
    file_sha256: str | None

    def __str__(self) -> str:
        return str(self.root / self.file)


def find(normalised: Sequence[Path], roots: Mapping[str, Path], wanted: Iterable[str]) -> list[Place]:
    """Find where pictures lie, in the order in which their files are best read."""
    value_set = pa.array(sorted(set(wanted)), pa.string())
    columns = ["image_id", "source", "file", "member", "file_sha256"]
    rows: list[dict] = []
    kinds: dict[str, str] = {}
    for folder in normalised:
        images = store.read_table(folder, "images", [*columns, "status"])
        images = images.filter(pc.and_(pc.is_in(images["image_id"], value_set), pc.equal(images["status"], "ok")))
        rows += images.select(columns).to_pylist()
        people = store.read_table(folder, "trajectories", ["source", "kind"]).group_by(["source", "kind"]).aggregate([])
        kinds |= dict(zip(people["source"].to_pylist(), people["kind"].to_pylist(), strict=True))
    found: dict[str, dict] = {}
    for row in sorted(rows, key=lambda row: (row["source"], row["file"], row["member"] or "")):
        found.setdefault(row["image_id"], row)
    if lost := [name for name in value_set.to_pylist() if name not in found]:
        raise InputError(f"picture {lost[0]}", "is in no images table given", "give --normalised for every source that was mined")
    if rootless := sorted({row["source"] for row in found.values()} - roots.keys()):
        raise InputError("--root", f"no folder given for source '{rootless[0]}'", f"add --root {rootless[0]}=FOLDER")
    # Members are mostly row numbers; the shorter the smaller.
    ordered = sorted(found.values(), key=lambda row: (row["source"], row["file"], len(row["member"] or ""), row["member"] or ""))
    return [
        Place(row["image_id"], roots[row["source"]], row["file"], row["member"], kinds.get(row["source"]), row["file_sha256"])
        for row in ordered
    ]


def shrink(picture: Image.Image, side: int) -> tuple[Image.Image, str]:
    """Return a picture whose longest side is at most ``side``, and the filter used; nothing is ever enlarged."""
    longest = max(picture.size)
    if longest <= side:
        return picture, "none"
    size = tuple(max(1, round(length * side / longest)) for length in picture.size)
    return picture.resize(size, Image.Resampling.LANCZOS), RESAMPLING


def decoded(place: Place) -> Image.Image:
    """Decode a picture to opaque RGB; raises `InputError` if it is not the one its source held when it was read."""
    data = pictures.encoded_bytes(place.root, place.file, place.member, place.kind)
    check(place, data)
    return pictures.decode(data, place)


def check(place: Place, data: bytes) -> None:
    """Refuse encoded bytes that are others than were measured."""
    if place.file_sha256 is not None and hashlib.sha256(data).hexdigest() != place.file_sha256:
        made = intact.lost(place.root, place.file, "has changed since the source was read")
        raise made or InputError(place, "picture has changed since the source was read", "restore it, or normalise the source again")


def encode(place: Place, side: int) -> tuple[int, int, str, bytes]:
    """Return width, height, filter and encoded bytes of a picture."""
    small, resampling = shrink(decoded(place), side)
    small.info = {}  # colour profiles and the like would be written along
    out = io.BytesIO()
    small.save(out, FORMAT)
    return small.width, small.height, resampling, out.getvalue()


def write(folder: Path, places: Sequence[Place], side: int, threads: int = 1) -> int:
    """Write ``prepared.parquet``, sorted by image_id, and return the number of pictures.

    Pictures are read in the order of their files and wait on disk until all are there, so memory stays bounded.
    """
    pictures.keep_memory()
    index: dict[str, tuple[int, int, int, int, str]] = {}
    with TemporaryFile(dir=folder) as spool:
        for place, (width, height, resampling, data) in _encoded(places, side, threads):
            index[place.image_id] = (spool.tell(), len(data), width, height, resampling)
            spool.write(data)
        _sort(folder, spool, index, side)
    return len(index)


def _encoded(places: Sequence[Place], side: int, threads: int) -> Iterator[tuple[Place, tuple[int, int, str, bytes]]]:
    """Encode on ``threads`` threads, a few pictures ahead, in order."""
    if threads <= 1:
        for place in places:
            yield place, encode(place, side)
        return
    waiting: deque[tuple[Place, Future]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="images") as pool:
        try:
            for place in places:
                waiting.append((place, pool.submit(encode, place, side)))
                if len(waiting) > 2 * threads:
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _sort(folder: Path, spool: IO[bytes], index: Mapping[str, tuple[int, int, int, int, str]], side: int) -> None:
    names = sorted(index)
    declared = schema.TABLES["prepared"]
    # PNG does not compress any further.
    how = {"compression": "none", "use_dictionary": False, "write_statistics": ["image_id"]}
    with pq.ParquetWriter(folder / "prepared.parquet", declared, **how) as out:
        for start in range(0, len(names), _GROUP):
            rows = []
            for name in names[start : start + _GROUP]:
                offset, length, width, height, resampling = index[name]
                spool.seek(offset)
                rows.append(
                    {
                        "image_id": name,
                        "max_image_side": side,
                        "width": width,
                        "height": height,
                        "format": FORMAT,
                        "resampling": resampling,
                        "data": spool.read(length),
                    }
                )
            out.write_table(store.check(pa.Table.from_pylist(rows, schema=declared), "prepared"))
