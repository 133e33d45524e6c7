"""The pictures of a trajectory: each read once, decoded at most once, compared with its neighbours.

Work goes to worker processes a few trajectories at a time, and comes back in the order it was sent: decoding holds Python's
lock for much of its time, so threads would share one core.
"""

import hashlib
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from evoaudit import pictures, screens
from evoaudit.identity import canonical
from evoaudit.known import Known
from evoaudit.pictures import Inspected
from evoaudit.screens import Screen
from evoaudit.sources.base import Picture
from evoaudit.store import text
from evoaudit.workers import pool

#: (before, after) of every step of a trajectory.
Pairs = list[tuple[Picture | None, Picture | None]]

#: Seconds of measuring after which worker processes are worth their start.
ALONE = 2.0
#: Pictures of one message to a worker.
MESSAGE = 64
#: Decoded pictures kept at a time; consecutive steps share theirs.
_OPEN_PICTURES = 64
#: Bytes their pixels may take, if they are more than the two that are compared.
_OPEN_BYTES = 100_000_000

_UNKNOWN = {"state": "unknown", "changed_pixels": None, "changed_tiles": None, "tiles_x": None, "tiles_y": None, "tiles": None}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Measured:
    """What a trajectory's pictures had to say."""

    #: Reference → what the picture is, without its pixels.
    looks: dict[Picture, Inspected]
    #: The measured columns of a `changes` row, a step.
    changes: list[dict]


@dataclass(slots=True)
class Measurer:
    """Measure trajectories of one source in this process."""

    source: str
    root: Path
    known: Known | None = None
    #: image_id → phash.
    memory: dict[str, str] = field(default_factory=dict)
    #: Hash of a file → what it decodes to, without its pixels: screens on which nothing happened are often the same file again.
    files: dict[str, Inspected] = field(default_factory=dict)
    #: (image_id, image_id) → the measured columns of a `changes` row.
    pairs: dict[tuple[str, str], dict] = field(default_factory=dict)
    #: image_id → the screens seen last.
    opened: OrderedDict[str, Screen] = field(default_factory=OrderedDict)
    #: Bytes of their pixels.
    held: int = 0

    def measure(self, pairs: Pairs) -> Measured:
        """Look at every picture of a trajectory and measure each step's change."""
        looks: dict[Picture, Inspected] = {}
        changes = []
        for before, after in pairs:
            for picture in (before, after):
                if picture is not None and picture not in looks:
                    looks[picture] = self.inspect(picture)
            first, second = looks.get(before), looks.get(after)
            if not _comparable(first, second):
                changes.append(_UNKNOWN)
            elif first.image_id == second.image_id:
                changes.append(_same(first))
            else:
                changes.append(self._change((before, first), (after, second)))
        return Measured(looks, changes)

    def _change(self, before: tuple[Picture, Inspected], after: tuple[Picture, Inspected]) -> dict:
        """Measure what differs between two pictures, unless these two were met before: trajectories of one task begin alike."""
        pair = (before[1].image_id, after[1].image_id)
        met = self.pairs.get(pair)
        if met is None and self.known is not None:
            met = self.known.change(*pair)
        if met is None:
            met = _changed(self._screen(*before), self._screen(*after))
            if met["state"] == "unknown":
                return met
        if len(self.pairs) >= pictures.MEMORY_LIMIT:
            self.pairs.clear()
        self.pairs[pair] = met
        return met

    def _screen(self, picture: Picture, look: Inspected) -> Screen | None:
        """Return a picture's pixels, decoding it again if they were let go of; None if it is gone since."""
        if look.image_id not in self.opened:
            data = self._data(picture)
            if isinstance(data, bytes) and hashlib.sha256(data).hexdigest() == look.file_sha256:
                screen = pictures.screen(data)
                if screen is not None:
                    self._keep(screen)
        return self.opened.get(look.image_id)

    def _look(self, file_sha256: str) -> Inspected | None:
        found = self.files.get(file_sha256)
        return self.known.look(file_sha256) if found is None and self.known is not None else found

    def inspect(self, picture: Picture) -> Inspected:
        """Describe a picture a reader refers to; broken ones get an id of their own, made of where they should be."""
        data = self._data(picture)
        found = data if isinstance(data, Inspected) else pictures.inspect(data, self.memory, self._look)
        if found.status == "ok":
            return self._remember(found)
        mark = hashlib.sha256(canonical([self.source, text(picture.file), text(picture.member)]).encode()).hexdigest()[:32]
        return replace(found, image_id=f"broken-{mark}", screen=None, phash=None, blank=None)

    def _data(self, picture: Picture) -> bytes | Inspected | None:
        """Read a picture's encoded bytes, or say what is wrong with its place."""
        if picture.load is None:
            return pictures.read(self.root, picture.file)
        try:
            data = picture.load() or None
            return None if data is None else bytes(data)
        except Exception as error:  # a reader's own library may raise anything over damaged containers
            why = getattr(error, "strerror", None) or f"cannot be read from its container ({type(error).__name__})"
            return Inspected(getattr(error, "status", "missing"), detail=why)

    def _remember(self, found: Inspected) -> Inspected:
        """Keep pixels and description for a while; return the description."""
        look = replace(found, screen=None)
        if found.screen is not None:
            if len(self.files) >= pictures.MEMORY_LIMIT:
                self.files.clear()
            self.files[found.file_sha256] = look
            self._keep(found.screen)
        elif found.image_id in self.opened:
            self.opened.move_to_end(found.image_id)
        return look

    def _keep(self, screen: Screen) -> None:
        if screen.image_id not in self.opened:
            self.opened[screen.image_id] = screen
            self.held += screen.cells.nbytes
        self.opened.move_to_end(screen.image_id)
        while len(self.opened) > 2 and (len(self.opened) > _OPEN_PICTURES or self.held > _OPEN_BYTES):
            self.held -= self.opened.popitem(last=False)[1].cells.nbytes


def _comparable(first: Inspected | None, second: Inspected | None) -> bool:
    if first is None or second is None or first.status != "ok" or second.status != "ok":
        return False
    return (first.width, first.height) == (second.width, second.height)


def _same(picture: Inspected) -> dict:
    tiles_x, tiles_y = -(-picture.width // screens.TILE), -(-picture.height // screens.TILE)
    nothing = bytes(-(-tiles_x * tiles_y // 8))
    return {"state": "same", "changed_pixels": 0, "changed_tiles": 0, "tiles_x": tiles_x, "tiles_y": tiles_y, "tiles": nothing}


def _changed(before: Screen | None, after: Screen | None) -> dict:
    if before is None or after is None:  # gone since it was first looked at
        return _UNKNOWN
    change = screens.changes(before, after)
    return {
        "state": "changed",
        "changed_pixels": change.changed_pixels,
        "changed_tiles": int(change.tiles.sum()),
        "tiles_x": change.tiles.shape[1],
        "tiles_y": change.tiles.shape[0],
        "tiles": change.bitmap,
    }


def measured(
    items: Iterable[tuple[T, Pairs | None]], source: str, root: Path, known: Path | None, workers: int
) -> Iterator[tuple[T, Measured | None]]:
    """Yield every item with what its pictures had to say, in the order given; items without pairs pass through."""
    pictures.keep_memory()
    alone = Measurer(source, root, None if known is None else Known(known))
    spent = 0.0
    stream = iter(items)
    for item, pairs in stream:
        if pairs is None:
            yield item, None
            continue
        start = time.perf_counter()
        seen = alone.measure(pairs)
        spent += time.perf_counter() - start
        yield item, seen
        if workers > 1 and spent >= ALONE:
            break
    else:
        return
    waiting: deque[tuple[list[tuple[T, bool]], Future[list[Measured]]]] = deque()
    with pool(workers, f"source '{source}'", _start, (source, root, known)) as processes:
        for message in _messages(stream):
            processes.check()
            work = [pairs for _, pairs in message if pairs is not None]
            waiting.append(([(item, pairs is not None) for item, pairs in message], processes.submit(_work, work)))
            if len(waiting) > 2 * workers:
                yield from _answers(*waiting.popleft())
        while waiting:
            processes.check()
            yield from _answers(*waiting.popleft())


def _messages(items: Iterable[tuple[T, Pairs | None]]) -> Iterator[list[tuple[T, Pairs | None]]]:
    message, size = [], 0
    for item, pairs in items:
        message.append((item, pairs))
        size += len(pairs or ())
        if size >= MESSAGE or len(message) >= MESSAGE:
            yield message
            message, size = [], 0
    if message:
        yield message


def _answers(message: list[tuple[T, bool]], future: "Future[list[Measured]]") -> Iterator[tuple[T, Measured | None]]:
    answers = iter(future.result())
    for item, asked in message:
        yield item, next(answers) if asked else None


_here: Measurer | None = None


def _start(source: str, root: Path, known: Path | None) -> None:
    global _here
    pictures.keep_memory()
    _here = Measurer(source, root, None if known is None else Known(known))


def _work(work: list[Pairs]) -> list[Measured]:
    return [_here.measure(pairs) for pairs in work]
