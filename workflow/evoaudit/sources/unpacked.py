"""The bytes of a file, gunzipped if it is gzipped, within bounds."""

import zlib
from pathlib import Path
from typing import Any

#: Bytes of a file as stored, and unpacked.
FILE_LIMIT = 2 * 2**30
DATA_LIMIT = 4 * 2**30

#: Pieces of gzip data in one file; whoever writes logs writes one.
MEMBER_LIMIT = 10_000

CHUNK = 2**18
_GZIP = b"\x1f\x8b"


class Fault(Exception):
    """What is wrong with a file: a short code, and a line for people."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


class Unpacked:
    """A file read forward; it is not kept open between two reads. Raises `Fault`, ``zlib.error`` and ``OSError``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rewind()

    def rewind(self) -> None:
        """Go back to the start."""
        self.offset = 0
        self._place = 0
        self._rest = b""
        self._zip: Any = None
        self._done = False
        self._members = 0

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, and none only at the end."""
        while not self._done:
            if not self._rest:
                self._refill()
                continue
            if self._zip is None:
                data, self._rest = self._rest[:size], self._rest[size:]
            else:
                data = self._zip.decompress(self._rest, size)
                self._rest = self._zip.unconsumed_tail
                if self._zip.eof:
                    self._next_member()
            if data:
                self.offset += len(data)
                if self.offset > DATA_LIMIT:
                    raise Fault("too_large", f"more than {DATA_LIMIT:,} bytes when unpacked")
                return data
        return b""

    def skip(self, size: int) -> None:
        """Pass over ``size`` bytes."""
        while size:
            data = self.read(min(size, CHUNK))
            if not data:
                raise Fault("truncated", "the file breaks off; copy it again")
            size -= len(data)

    def _refill(self) -> None:
        with open(self.path, "rb") as handle:
            handle.seek(self._place)
            self._rest = handle.read(CHUNK)
        if not self._place and self._rest.startswith(_GZIP):
            self._zip = zlib.decompressobj(31)
        self._place += len(self._rest)
        if not self._rest:
            self._done = True
            if self._zip is not None:
                raise Fault("truncated", "the gzip data breaks off; copy the file again")

    def _next_member(self) -> None:
        """Go on with the next gzip member; padding and litter behind the last one are no data."""
        self._members += 1
        if self._members > MEMBER_LIMIT:
            raise Fault("too_large", f"more than {MEMBER_LIMIT:,} pieces of gzip data")
        self._rest = self._zip.unused_data
        if len(self._rest) < len(_GZIP):
            with open(self.path, "rb") as handle:
                handle.seek(self._place)
                more = handle.read(CHUNK)
            self._place += len(more)
            self._rest += more
        if self._rest.startswith(_GZIP):
            self._zip = zlib.decompressobj(31)
        else:
            self._done = True
