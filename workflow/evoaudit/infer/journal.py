"""The journal of answers: one JSON line a finished call, on disk before the next one is asked.

Only the answer is kept, never the request's pictures, key or headers. A line ``{"end": true}`` closes a run that reached
its end: what stands before it and is no answer is asked anew by a run that is not content with it. Every line ends with its own
checksum, so that an answer which changed on the disk is asked again and not believed; lines of older journals have none.
"""

import asyncio
import fcntl
import json
import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from evoaudit.errors import InputError
from evoaudit.infer.base import OK, STATUSES, TOKENS

NAME = "journal.jsonl"
#: A call's place in the file and its status, in one number, since there may be very many.
_Call = int
_STATUSES = sorted(STATUSES)
_SHA256 = re.compile("[0-9a-f]{64}")
#: Bytes of a record that are read at first.
_PIECE = 1 << 12
#: How a line ends: the CRC-32 of what it would be without it.
_SEAL = re.compile(rb',"crc":"([0-9a-f]{8})"\}\n?')
_SEALED = len(b',"crc":"01234567"}\n')


class Journal:
    """An append-only file with one writer. In memory is only where each call stands in the file and how it ended."""

    def __init__(self, path: Path, shelf: "Shelf | None" = None) -> None:
        self.path, self._shelf = path, shelf
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise InputError(path, "is being written by another run", "wait for it to end") from None
        #: Key → its last call.
        self._last: dict[bytes, _Call] = {}
        #: Key → calls before the last one, for what was paid.
        self._earlier: dict[bytes, list[_Call]] = {}
        #: Keys whose last record is no answer and belongs to a run that has ended.
        self._stale: set[bytes] = set()
        #: Lines that are no records; what they held is asked again.
        self.damaged = 0
        self._end = 0
        self._read()
        self._waiting: list[bytes] = []
        self._queued = self._written = 0
        self._lock = asyncio.Lock()

    def _read(self) -> None:
        torn = False
        with open(self.path, "rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    torn = True
                    break
                record = _record(line)
                if record is None:
                    self.damaged += 1
                elif record.get("end"):
                    self._stale = {key for key, call in self._last.items() if _status(call) != OK}
                else:
                    self._keep(record, self._end)
                self._end += len(line)
        if torn:
            os.ftruncate(self._file, self._end)
            os.fsync(self._file)

    def _keep(self, record: dict[str, Any], offset: int) -> None:
        key, call = _key(record["key"]), offset * len(_STATUSES) + _STATUSES.index(record["status"])
        if record.get("passing"):
            self._earlier.setdefault(key, []).append(call)
            return
        if key in self._last:
            self._earlier.setdefault(key, []).append(self._last[key])
        self._last[key] = call
        self._stale.discard(key)

    def __len__(self) -> int:
        return len(self._last)

    def __contains__(self, key: str) -> bool:
        return _key(key) in self._last

    def status(self, key: str) -> str | None:
        """Return how the last call under a key ended, None if there was none."""
        call = self._last.get(_key(key))
        return None if call is None else _status(call)

    def stale(self, key: str) -> bool:
        """Tell whether the last call under a key is no answer and belongs to a run that has ended."""
        return _key(key) in self._stale

    def last(self, key: str) -> dict[str, Any] | None:
        """Return the record of the last call under a key."""
        call = self._last.get(_key(key))
        return None if call is None else self._load(call)

    def calls(self, key: str) -> list[dict[str, Any]]:
        """Return every call recorded under a key, the last one last."""
        name = _key(key)
        last = self._last.get(name)
        return [self._load(call) for call in (*self._earlier.get(name, ()), *(() if last is None else (last,)))]

    def paid(self) -> Iterator[dict[str, Any]]:
        """Yield every call this journal's runs paid for."""
        for call in chain(self._last.values(), *self._earlier.values()):
            if not (record := self._load(call)).get("reused"):
                yield record

    def _load(self, call: "_Call") -> dict[str, Any]:
        offset, size = call // len(_STATUSES), _PIECE
        while b"\n" not in (line := os.pread(self._file, size, offset)) and len(line) == size:
            size *= 8
        if (record := unsealed(line[: line.index(b"\n") + 1])) is None:
            raise InputError(self.path, "has changed while it was read", "run again")
        return record

    @property
    def shelf(self) -> "Shelf | None":
        return self._shelf

    def begin(self) -> None:
        """Make ready for another event loop: a lock belongs to the one it was first waited for in."""
        self._lock = asyncio.Lock()

    async def append(self, record: dict[str, Any]) -> None:
        """Write one record; returns when it is on disk. Records that arrive together share one sync.

        A record that says ``passing`` is a call that failed and is tried again, kept for what it cost.
        """
        line = sealed(record)
        self._keep(record, self._end)
        self._end += len(line)
        self._waiting.append(line)
        self._queued += 1
        mine = self._queued
        async with self._lock:
            if self._written >= mine:
                return
            lines, self._waiting, upto = self._waiting, [], self._queued
            data = b"".join(lines)
            try:
                await asyncio.to_thread(self.put, self._file, data)
            except OSError:
                self._waiting = lines + self._waiting
                raise
            self._written = upto
            if self._shelf is not None:  # apart: what the journal holds already must not be written to it, and be paid for, twice
                await asyncio.to_thread(self._shelf.put, data)

    def extend(self, records: list[dict[str, Any]]) -> None:
        """Write some records with one sync; for a run that has no others in flight."""
        lines = [sealed(record) for record in records]
        self._write(b"".join(lines))
        for record, line in zip(records, lines, strict=True):
            self._keep(record, self._end)
            self._end += len(line)

    def adopt(self, records: Iterable[dict[str, Any]]) -> int:
        """Copy answers bought by other runs; return how many."""
        taken, records = 0, iter(records)
        while found := [{**record, "reused": True} for record in islice(records, 1000)]:
            lines = [sealed(record) for record in found]
            self.put(self._file, b"".join(lines))
            for record, line in zip(found, lines, strict=True):
                self._keep(record, self._end)
                self._end += len(line)
            taken += len(found)
        return taken

    def end(self) -> None:
        """Mark that a run came to its end, whatever it answered."""
        line = sealed({"end": True})
        self.put(self._file, line)
        self._end += len(line)

    def _write(self, data: bytes) -> None:
        self.put(self._file, data)
        if self._shelf is not None:
            self._shelf.put(data)

    @staticmethod
    def put(file: int, data: bytes) -> None:
        """Write and sync all of it or, where the disk is full, nothing."""
        start = os.fstat(file).st_size
        try:
            while data:
                data = data[os.write(file, data) :]
            os.fsync(file)
        except OSError:
            os.ftruncate(file, start)
            raise

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Shelf:
    """Good answers of one model's runs, by request key, appended to by all of them: what `inference.reuse: all` looks in."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.jsonl"
        folder.mkdir(parents=True, exist_ok=True)

    def find(self, keys: set[str]) -> Iterator[dict[str, Any]]:
        """Yield the last good answer to each of these requests that was bought before."""
        if not self.path.is_file():
            return
        places: dict[str, int] = {}
        with open(self.path, "rb") as lines:
            offset = 0
            for line in lines:
                record = _record(line) if line.endswith(b"\n") else None
                if record is not None and record.get("status") == OK and record.get("key") in keys:
                    places[record["key"]] = offset
                offset += len(line)
            for offset in sorted(places.values()):
                lines.seek(offset)
                if (record := unsealed(lines.readline())) is not None:
                    yield record

    def put(self, lines: bytes) -> None:
        """Append the good answers among a journal's lines; they are in that journal, so this needs no sync."""
        good = [line for line in lines.splitlines(keepends=True) if b'"status":"ok"' in line and b'"reused":true' not in line]
        if not good:
            return
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            size = os.fstat(file).st_size
            torn = size and os.pread(file, 1, size - 1) != b"\n"  # another's write was cut off
            data = b"\n" * bool(torn) + b"".join(good)
            while data:
                data = data[os.write(file, data) :]
        finally:
            os.close(file)


def _key(key: str) -> bytes:
    """Return a key as it is held: half as long as it is written."""
    return bytes.fromhex(key) if _SHA256.fullmatch(key) else key.encode("utf-8", "surrogatepass")


def _status(call: "_Call") -> str:
    return _STATUSES[call % len(_STATUSES)]


def sealed(record: dict[str, Any]) -> bytes:
    """Return a record as a line that ends with its checksum."""
    body = json.dumps(record, separators=(",", ":")).encode("ascii")
    return b'%s,"crc":"%08x"}\n' % (body[:-1], zlib.crc32(body))


def unsealed(line: bytes) -> dict[str, Any] | None:
    """Return a line's record without its checksum; None if it is no JSON object, or has changed since it was written."""
    seal = _SEAL.fullmatch(line, max(0, len(line) - _SEALED)) or _SEAL.fullmatch(line, max(0, len(line) - _SEALED + 1))
    if seal is not None:
        line = line[: seal.start()] + b"}"
        if zlib.crc32(line) != int(seal[1], 16):
            return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _record(line: bytes) -> dict[str, Any] | None:
    """Return a line's record, or None if it is none."""
    record = unsealed(line)
    if record is None:
        return None
    if record.get("end") is True:
        return record
    texts = [record.get(name) for name in ("raw", "finish_reason", "error", "served")]
    tokens = [record.get(name) for name in TOKENS]
    seconds = record.get("latency_s")
    sound = (
        isinstance(record.get("key"), str)
        and isinstance(record.get("status"), str)
        and record["status"] in STATUSES
        and all(text is None or isinstance(text, str) for text in texts)
        and all(number is None or (type(number) is int and 0 <= number < 2**53) for number in tokens)
        and (seconds is None or (isinstance(seconds, (int, float)) and 0 <= seconds < math.inf))
    )
    return record if sound else None
