"""Write a corpus: episodes in order, each by one worker, files of all in bounded memory."""

import hashlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from evoaudit.simulate import control
from evoaudit.simulate.deal import FAULTS_FROM, FORMATS, deal, place
from evoaudit.simulate.episode import make
from evoaudit.simulate.formats import agentrewardbench, mind2web, osworld, plain, weblinx
from evoaudit.simulate.formats.base import Pieces, dump
from evoaudit.simulate.inject import inject
from evoaudit.store import sha256_file
from evoaudit.workers import pool

#: Trajectories a worker makes at a time.
CHUNK = 20

_WRITERS = {module.__name__.rpartition(".")[2]: module.write for module in (agentrewardbench, mind2web, osworld, plain, weblinx)}


def pieces_of(index: int, trajectories: int, seed: int, formats: Sequence[str], injections: bool = False) -> Pieces:
    """Return trajectory ``index`` in its format, its truth among the lines."""
    dealt = deal(index, formats)
    episode = make(dealt, seed)
    if injections:
        inject(episode, dealt, seed)
    pieces = _WRITERS[dealt.format](episode, dealt, seed, trajectories >= FAULTS_FROM)
    pieces.lines.insert(
        0,
        (
            "truth.jsonl",
            dump(
                {
                    "format": dealt.format,
                    "native_id": pieces.native_id,
                    "planted": episode.planted,
                    "outcome": episode.outcome,
                    "category": episode.category,
                    "lookalike": episode.lookalike,
                    "evidence_step": episode.evidence_step,
                    **({"injected": episode.injected, "order": episode.order} if episode.injected else {}),
                }
            ),
        ),
    )
    return pieces


@dataclass(slots=True)
class _Chunk:
    """What a worker sends back: everything but the files it wrote, of which only the hashes."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    rows: list[tuple[int, list[dict[str, Any]]]] = field(default_factory=list)
    hashes: list[tuple[str, str]] = field(default_factory=list)
    planted: Counter = field(default_factory=Counter)

    def take(self, folder: Path, pieces: Pieces, made: set[Path]) -> None:
        """Write a trajectory's own files and keep the rest; ``made`` are the folders that are there already."""
        for path, data in pieces.files:
            target = folder / path
            if target.parent not in made:
                target.parent.mkdir(parents=True, exist_ok=True)
                made.add(target.parent)
            target.write_bytes(data)
            self.hashes.append((path, hashlib.sha256(data).hexdigest()))
        self.lines += pieces.lines


def _chunk(folder: Path, start: int, stop: int, trajectories: int, seed: int, formats: tuple[str, ...], injections: bool) -> _Chunk:
    done = _Chunk()
    made: set[Path] = set()
    for index in range(start, stop):
        pieces = pieces_of(index, trajectories, seed, formats, injections)
        name, number = place(index, formats)
        done.take(folder, pieces, made)
        if pieces.rows:
            done.rows.append((number, pieces.rows))
        done.planted[name, deal(index, formats).planted] += 1
    return done


def _chunks(folder: Path, trajectories: int, seed: int, formats: tuple[str, ...], threads: int, injections: bool) -> Iterator[_Chunk]:
    """Yield chunks in order; at most a few wait in memory."""
    spans = [(start, min(start + CHUNK, trajectories)) for start in range(0, trajectories, CHUNK)]
    if threads <= 1 or len(spans) == 1:
        for start, stop in spans:
            yield _chunk(folder, start, stop, trajectories, seed, formats, injections)
        return
    with pool(threads, "the simulated corpus") as processes:
        waiting: deque = deque()
        for start, stop in spans:
            processes.check()
            waiting.append(processes.submit(_chunk, folder, start, stop, trajectories, seed, formats, injections))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            processes.check()
            yield waiting.popleft().result()


def _with_control(chunks: Iterator[_Chunk], folder: Path, trajectories: int, seed: int, formats: tuple[str, ...]) -> Iterator[_Chunk]:
    """Yield the chunks, and after them the control where there is one."""
    yield from chunks
    if control.planted(trajectories, formats):
        done, made = _Chunk(), set()
        for dealt in map(control.deal, range(control.TRAJECTORIES)):
            done.take(folder, plain.shifted(make(dealt, seed), dealt), made)
        yield done


def write(folder: Path, trajectories: int, seed: int, formats: Sequence[str] = FORMATS, threads: int = 1, injections: bool = False) -> dict:
    """Write a corpus into ``folder`` and return its counts, which leave out the control; ``injections`` plants orders to judges.

    ``files.sha256`` lists every file but the few at the top and itself, in the order of the trajectories.
    """
    folder, formats = Path(folder), tuple(name for name in FORMATS if name in formats)
    counts: Counter = Counter()
    with _Shared(folder) as shared, _Tables(folder, sum(place(i, formats)[0] == "mind2web" for i in range(trajectories))) as tables:
        if "agentrewardbench" in formats:
            shared.line(agentrewardbench.ANNOTATIONS, agentrewardbench.HEADER)
        chunks = _chunks(folder, trajectories, seed, formats, threads, injections)
        for chunk in _with_control(chunks, folder, trajectories, seed, formats):
            for path, digest in chunk.hashes:
                shared.line("files.sha256", f"{digest}  {path}")
            for path, line in chunk.lines:
                shared.line(path, line)
            for number, rows in chunk.rows:
                tables.add(number, rows)
            counts += chunk.planted
        late = [*tables.close(), *shared.finish()]
        for path in late:
            shared.line("files.sha256", f"{sha256_file(folder / path)}  {path}")
    return {
        "trajectories": trajectories,
        "formats": {name: sum(n for (f, _), n in counts.items() if f == name) for name in formats},
        "planted": {kind: sum(n for (_, k), n in counts.items() if k == kind) for kind in sorted({k for _, k in counts})},
    }


class _Shared:
    """Files that many trajectories add lines to, kept open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.open: dict[str, TextIO] = {}
        self.stack = ExitStack()
        self.splits: dict[str, list[str]] = {}

    def __enter__(self) -> "_Shared":
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def line(self, path: str, line: str) -> None:
        """Add a line; ``splits.json#name`` adds a code to a split."""
        if path.startswith("weblinx/splits.json#"):
            self.splits.setdefault(path.partition("#")[2], []).append(line)
            return
        if path not in self.open:
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            self.open[path] = self.stack.enter_context(open(self.folder / path, "w", encoding="utf-8", newline="\n"))  # noqa: SIM115 - the stack closes it
        self.open[path].write(line + "\n")

    def finish(self) -> list[str]:
        """Write the splits and return the shared files that are not at the top."""
        for handle in self.open.values():
            handle.flush()
        if self.splits:
            (self.folder / "weblinx/splits.json").write_text(
                dump({name: self.splits[name] for name in sorted(self.splits)}), encoding="utf-8"
            )
        return sorted([path for path in self.open if "/" in path] + (["weblinx/splits.json"] if self.splits else []))


class _Tables:
    """The Parquet files of Mind2Web, one open at a time."""

    def __init__(self, folder: Path, total: int) -> None:
        self.folder, self.total = folder, total
        self.path = ""
        self.paths: list[str] = []
        self.writer: Any = None
        self.rows: list[dict] = []

    def __enter__(self) -> "_Tables":
        return self

    def __exit__(self, *_: object) -> None:
        if self.writer is not None:
            self.writer.close()

    def add(self, number: int, rows: list[dict]) -> None:
        """Add a demonstration's rows."""
        import pyarrow.parquet as pq

        path = mind2web.file(number, self.total)
        if path != self.path:
            self.close()
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            self.path, self.writer = path, pq.ParquetWriter(self.folder / path, mind2web.schema(), compression="zstd")
            self.paths.append(path)
        self.rows += rows
        if len(self.rows) >= mind2web.ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if self.rows:
            self.writer.write_table(pa.Table.from_pylist(self.rows, schema=mind2web.schema()))
            self.rows = []

    def close(self) -> list[str]:
        """Finish the file and return all paths."""
        if self.writer is not None:
            self._flush()
            self.writer.close()
            self.writer = None
        return self.paths
