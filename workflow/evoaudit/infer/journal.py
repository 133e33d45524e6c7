"""The journal of answers: one JSON line a finished call, on disk before the next one is asked.

Only the answer is kept, never the request's pictures, key or headers. A line ``{"end": true}`` closes a run that reached
its end: what stands before it and is no answer is asked anew by a run that is not content with it.
"""

import asyncio
import fcntl
import json
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from evoaudit.errors import InputError
from evoaudit.infer.base import OK, STATUSES, TOKENS

NAME = "journal.jsonl"


class Journal:
    """An append-only file with one writer. ``answers`` holds request key → its last record, whatever it says."""

    def __init__(self, path: Path, shelf: "Shelf | None" = None) -> None:
        self.path, self._shelf = path, shelf
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise InputError(path, "is being written by another run", "wait for it to end") from None
        self.answers: dict[str, dict[str, Any]] = {}
        #: Keys whose last record is no answer and belongs to a run that has ended.
        self.stale: set[str] = set()
        #: Key → records of calls before the last one, for what was paid.
        self._earlier: dict[str, list[dict[str, Any]]] = {}
        #: Lines that are no records; what they held is asked again.
        self.damaged = 0
        self._read()
        self._waiting: list[bytes] = []
        self._queued = self._written = 0
        self._lock = asyncio.Lock()

    def _read(self) -> None:
        end = torn = 0
        with open(self.path, "rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    torn = len(line)
                    break
                end += len(line)
                record = _record(line)
                if record is None:
                    self.damaged += 1
                elif record.get("end"):
                    self.stale = {key for key, kept in self.answers.items() if kept["status"] != OK}
                else:
                    self._keep(record)
        if torn:
            os.ftruncate(self._file, end)
            os.fsync(self._file)

    def _keep(self, record: dict[str, Any]) -> None:
        key = record["key"]
        if record.get("passing"):
            self._earlier.setdefault(key, []).append(record)
            return
        if key in self.answers:
            self._earlier.setdefault(key, []).append(self.answers[key])
        self.answers[key] = record
        self.stale.discard(key)

    def calls(self, key: str) -> list[dict[str, Any]]:
        """Return every call recorded under a key, the last one last."""
        return [*self._earlier.get(key, ()), *([self.answers[key]] if key in self.answers else ())]

    def paid(self) -> Iterator[dict[str, Any]]:
        """Yield every call this journal's runs paid for."""
        for key in self.answers.keys() | self._earlier.keys():
            yield from (record for record in self.calls(key) if not record.get("reused"))

    async def append(self, record: dict[str, Any]) -> None:
        """Write one record; returns when it is on disk. Records that arrive together share one sync.

        A record that says ``passing`` is a call that failed and is tried again, kept for what it cost.
        """
        self._keep(record)
        self._waiting.append(_line(record))
        self._queued += 1
        mine = self._queued
        async with self._lock:
            if self._written >= mine:
                return
            lines, self._waiting, upto = self._waiting, [], self._queued
            try:
                await asyncio.to_thread(self._write, b"".join(lines))
            except OSError:
                self._waiting = lines + self._waiting
                raise
            self._written = upto

    def adopt(self, records: Iterable[dict[str, Any]]) -> int:
        """Copy answers bought by other runs; return how many."""
        found = [{**record, "reused": True} for record in records]
        for record in found:
            self._keep(record)
        if found:
            self._put(self._file, b"".join(map(_line, found)))
        return len(found)

    def end(self) -> None:
        """Mark that a run came to its end, whatever it answered."""
        self._put(self._file, _line({"end": True}))

    def _write(self, data: bytes) -> None:
        self._put(self._file, data)
        if self._shelf is not None:
            self._shelf.put(data)

    @staticmethod
    def _put(file: int, data: bytes) -> None:
        while data:
            data = data[os.write(file, data) :]
        os.fsync(file)

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
        found = {}
        if self.path.is_file():
            with open(self.path, "rb") as lines:
                for line in lines:
                    record = _record(line) if line.endswith(b"\n") else None
                    if record is not None and record.get("status") == OK and record.get("key") in keys:
                        found[record["key"]] = record
        yield from found.values()

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


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"


def _record(line: bytes) -> dict[str, Any] | None:
    """Return a line's record, or None if it is none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
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
