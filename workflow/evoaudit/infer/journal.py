"""The journal of answers: one JSON line a finished request, on disk before the next one is asked.

Only the answer is kept, never the request's pictures, key or headers. A line ``{"end": true}`` closes a run that reached
its end; of what stands before it only good answers are reused, the rest is asked anew by the next run.
"""

import asyncio
import fcntl
import json
import math
import os
from pathlib import Path
from typing import Any

from evoaudit.errors import InputError
from evoaudit.infer.base import OK, STATUSES

NAME = "journal.jsonl"


class Journal:
    """An append-only file with one writer. ``answers`` holds request key → record of what need not be asked again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise InputError(path, "is being written by another run", "wait for it to end") from None
        self.answers: dict[str, dict[str, Any]] = {}
        #: Every record ever written, for what was paid.
        self.paid: list[dict[str, Any]] = []
        #: Lines that are no records; what they held is asked again.
        self.damaged = 0
        self._read()
        self._waiting: list[bytes] = []
        self._queued = self._written = 0
        self._lock = asyncio.Lock()

    def _read(self) -> None:
        content = self.path.read_bytes()
        whole, newline, torn = content.rpartition(b"\n")
        if torn:
            os.ftruncate(self._file, len(whole) + len(newline))
            os.fsync(self._file)
        for line in whole.splitlines():
            record = _record(line)
            if record is None:
                self.damaged += 1
            elif record.get("end"):
                self.answers = {key: kept for key, kept in self.answers.items() if kept["status"] == OK}
            else:
                self.answers[record["key"]] = record
                self.paid.append(record)

    async def append(self, record: dict[str, Any]) -> None:
        """Write one record; returns when it is on disk. Records that arrive together share one sync."""
        self.answers[record["key"]] = record
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

    def end(self) -> None:
        """Mark that a run came to its end, whatever it answered."""
        self._write(_line({"end": True}))

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._file, data) :]
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
    tokens = [record.get(name) for name in ("input_tokens", "cached_tokens", "output_tokens")]
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
