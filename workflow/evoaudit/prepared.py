"""Prepared pictures, found again by image_id. What asks models needs no more than this of pictures."""

import os
from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import pyarrow as pa
import pyarrow.parquet as pq

from evoaudit.errors import InputError, one_line

#: Row groups a reader holds, of those whose pictures it cannot find in the file.
_HELD = 2


@dataclass(frozen=True, slots=True)
class _InFile:
    """A prepared picture: its row group, where its bytes lie in the file (None: not as they are), their number, and its size in pixels."""

    group: int
    offset: int | None
    length: int
    width: int
    height: int


class Pictures:
    """Prepared pictures by image_id, read as they are asked for; safe to share between threads.

    A Parquet reader decodes sixteen pictures to get at one, so only the first look at a row group goes through it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = Path(folder) / "prepared.parquet"
        try:
            self._file = pq.ParquetFile(self.path, pre_buffer=False)
        except FileNotFoundError:
            raise InputError(self.path, "file not found", "run the images stage") from None
        except (pa.ArrowInvalid, OSError) as error:
            fault = f"not a readable Parquet file ({one_line(str(error), 120)})"
            raise InputError(self.path, fault, "delete its folder and run again") from None
        self._lock = Lock()
        self._bytes = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        #: Pictures of the row groups read so far.
        self._places: dict[str, _InFile] = {}
        #: Row groups whose pictures do not lie in the file as they are; written by another hand, since ours always do.
        self._held: OrderedDict[int, dict[str, bytes]] = OrderedDict()
        self._read: set[int] = set()
        footer = self._file.metadata
        column = self._file.schema_arrow.names.index("image_id")
        self._last = [footer.row_group(group).column(column).statistics.max for group in range(footer.num_row_groups)]

    def __len__(self) -> int:
        return self._file.metadata.num_rows

    def __contains__(self, image_id: str) -> bool:
        try:
            self.size(image_id)
        except KeyError:
            return False
        return True

    def ids(self) -> list[str]:
        """Return every image_id, sorted."""
        with self._lock:
            return self._file.read(columns=["image_id"])["image_id"].to_pylist()

    def get(self, image_id: str) -> bytes:
        """Return a picture's encoded bytes; raises `KeyError` if it was not prepared."""
        with self._lock:
            place = self._place(image_id)
            if place.offset is None:
                return self._group(place.group)[image_id]
        return os.pread(self._bytes, place.length, place.offset)

    def size(self, image_id: str) -> tuple[int, int]:
        """Return a picture's width and height as prepared, pixels."""
        with self._lock:
            place = self._place(image_id)
        return place.width, place.height

    def close(self) -> None:
        self._file.close()
        os.close(self._bytes)

    def __enter__(self) -> "Pictures":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _place(self, image_id: str) -> _InFile:
        group = bisect_left(self._last, image_id)
        if group < len(self._last) and group not in self._read:
            self._find(group)
        return self._places[image_id]

    def _find(self, group: int) -> None:
        """Find where a row group's pictures lie: stored as they are, in order, each after its length."""
        table = self._file.read_row_group(group, columns=["image_id", "width", "height", "data"])
        footer = self._file.metadata.row_group(group)
        column = next(footer.column(n) for n in range(footer.num_columns) if footer.column(n).path_in_schema == "data")
        start, at = column.data_page_offset, 0
        stored = os.pread(self._bytes, column.total_compressed_size, start)
        for image_id, width, height, value in zip(*(table[name] for name in ("image_id", "width", "height", "data")), strict=True):
            data = value.as_py()
            found = stored.find(len(data).to_bytes(4, "little") + data[:64], at) + 4
            same = found >= 4 and stored[found : found + len(data)] == data
            at = found + len(data) if same else at
            offset = start + found if same else None
            self._places[image_id.as_py()] = _InFile(group, offset, len(data), width.as_py(), height.as_py())
        self._read.add(group)

    def _group(self, group: int) -> dict[str, bytes]:
        if group not in self._held:
            table = self._file.read_row_group(group, columns=["image_id", "data"])
            self._held[group] = dict(zip(table["image_id"].to_pylist(), table["data"].to_pylist(), strict=True))
            if len(self._held) > _HELD:
                self._held.popitem(last=False)
        self._held.move_to_end(group)
        return self._held[group]
