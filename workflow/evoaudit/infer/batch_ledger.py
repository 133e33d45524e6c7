"""The ledger of batches: what is about to be submitted, on disk before it is, and which batch it became.

One JSON line an event, each synced, with a checksum as the journal's have. ``keys`` is an intent to submit those requests; ``id`` says
that they were, ``not`` that a batch taken for this one is another's, ``end`` that nothing is expected of it any more. An intent without
an id may or may not have been submitted: the service is asked before it is submitted anew.
"""

import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evoaudit.errors import InputError
from evoaudit.infer.journal import Journal, sealed, unsealed

NAME = "batches.jsonl"


@dataclass(slots=True)
class Batch:
    """Requests that are submitted together."""

    #: Names the batch at the service, where it can be named.
    tag: str
    #: Keys of its requests.
    keys: list[str]
    #: Seconds since 1970 by this machine's clock when submitting began.
    at: float
    #: What it may cost at most, USD; 0 where no price is known.
    usd: float = 0.0
    id: str | None = None
    #: Whether the service said that the id is this batch's; otherwise its results will tell.
    sure: bool = True
    #: Ids of batches that were taken for this one and are not.
    others: set[str] = field(default_factory=set)


class Ledger:
    """An append-only file; its writer is whoever holds the journal beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: Tag → batch that is, or may be, in progress.
        self.open: dict[str, Batch] = {}
        #: Every id that was ever written down.
        self.ids: set[str] = set()
        whole = _read(path, self.open, self.ids)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if whole < os.fstat(self._file).st_size:
            os.ftruncate(self._file, whole)
            os.fsync(self._file)

    @property
    def promised(self) -> float:
        """Return what the batches in progress may cost at most, USD."""
        return sum(batch.usd for batch in self.open.values())

    def intend(self, keys: list[str], usd: float) -> Batch:
        """Write down what is about to be submitted."""
        # A name, no draw: it must differ from that of every other run at the service, so no seed may decide it.
        batch = Batch(uuid.uuid4().hex, keys, time.time(), usd)
        self._write({"tag": batch.tag, "at": round(batch.at, 3), "usd": usd, "keys": keys})
        self.open[batch.tag] = batch
        return batch

    def submitted(self, batch: Batch, identity: str, sure: bool = True) -> None:
        """Write down which batch it became."""
        self._write({"tag": batch.tag, "id": identity, "sure": sure})
        batch.id, batch.sure = identity, sure
        self.ids.add(identity)

    def confused(self, batch: Batch) -> None:
        """Write down that the batch it was taken for is another's."""
        self._write({"tag": batch.tag, "not": batch.id})
        batch.others.add(batch.id or "")
        batch.id, batch.sure = None, True

    def end(self, batch: Batch, why: str) -> None:
        """Write down that nothing is expected of it any more."""
        self._write({"tag": batch.tag, "end": why})
        del self.open[batch.tag]

    def _write(self, event: dict[str, Any]) -> None:
        Journal.put(self._file, sealed(event))

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def in_progress(path: Path) -> list[Batch]:
    """Return the batches of a ledger that are, or may be, in progress; none where there is no ledger."""
    found: dict[str, Batch] = {}
    _read(path, found, set())
    return list(found.values())


def _read(path: Path, found: dict[str, Batch], ids: set[str]) -> int:
    """Fill in the batches in progress and every id; return the length of what is whole."""
    whole = 0
    if not path.is_file():
        return whole
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                break
            try:
                _apply(unsealed(line), found, ids)
            except (ValueError, KeyError, TypeError):
                raise InputError(
                    f"{path}:{number}", "is no event of a batch", "mend the line; without it requests in progress might be paid for twice"
                ) from None
            whole += len(line)
    return whole


def _apply(event: dict[str, Any] | None, found: dict[str, Batch], ids: set[str]) -> None:
    if event is None:
        raise ValueError
    tag = event["tag"]
    if "keys" in event:
        found[tag] = Batch(tag, _texts(event["keys"]), float(event["at"]), float(event["usd"]))
    elif "id" in event:
        found[tag].id, found[tag].sure = str(event["id"]), bool(event["sure"])
        ids.add(str(event["id"]))
    elif "not" in event:
        found[tag].others.add(str(event["not"]))
        found[tag].id, found[tag].sure = None, True
    else:
        _ = event["end"]
        del found[tag]


def _texts(values: Sequence[Any]) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError
    return values
