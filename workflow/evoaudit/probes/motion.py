"""Whether anything changed besides what changes by itself: a clock, a blinking caret, a pointer, an advertisement."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evoaudit.audit import noop
from evoaudit.probes.corpus import CHANGED, Corpus
from evoaudit.screens import TILE

#: Bytes of row groups held at once, by table.
_HELD = 96 * 2**20
_STEP = ["op", "op_raw", "value", "target"]
_CHANGE = ["state", "changed_pixels", "changed_tiles", "tiles_x", "tiles_y", "tiles"]


class Motion:
    """Judge transitions as the no-op probe does, reading the trajectories that are asked about and no others."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._steps = _Rows([folder / "steps.parquet" for folder in corpus.folders], _STEP)
        self._changes = _Rows([folder / "changes.parquet" for folder in corpus.folders], _CHANGE)
        self._judged: dict[int, list[str]] = {}

    def idle(self, step: int) -> bool:
        """Tell whether a step changed nothing but what changes by itself."""
        corpus = self._corpus
        across, down = (-(-int(side) // TILE) for side in corpus.size[corpus.after[step]])
        if corpus.state[step] != CHANGED or corpus.tiles[step] > noop.QUIET * across * down:
            return False
        owner = int(corpus.owner[step])
        if owner not in self._judged:
            self._judged[owner] = self._judge(owner)
        return self._judged[owner][int(corpus.step[step])] == "volatile_only"

    def _judge(self, trajectory: int) -> list[str]:
        corpus = self._corpus
        span = slice(int(corpus.first[trajectory]), int(corpus.first[trajectory + 1]))
        nothing = dict.fromkeys(_CHANGE) | {"state": "unknown"}
        rows = corpus.change_row[span]
        found = iter(self._changes.take(rows[rows >= 0]))
        changes = [next(found) if row >= 0 else nothing for row in rows]
        steps = [step | change for step, change in zip(self._steps.take(corpus.step_row[span]), changes, strict=True)]
        return noop.screens(steps, corpus.kinds[corpus.source[trajectory]])


class _Rows:
    """Rows of a table that lies in several files, by number."""

    def __init__(self, paths: Sequence[Path], columns: list[str]) -> None:
        self._columns = columns
        self._groups: list[tuple[Path, int]] = []
        sizes: list[int] = []
        for path in paths:
            footer = pq.read_metadata(path)
            for group in range(footer.num_row_groups):
                self._groups.append((path, group))
                sizes.append(footer.row_group(group).num_rows)
        self._starts = [0, *accumulate(sizes)]
        self._held: OrderedDict[int, pa.Table] = OrderedDict()

    def take(self, rows: np.ndarray) -> list[dict]:
        """Return rows in the order asked for."""
        found: dict[int, dict] = {}
        groups = [bisect_right(self._starts, row) - 1 for row in rows.tolist()]
        for group in sorted(set(groups)):
            wanted = [row for row, its in zip(rows.tolist(), groups, strict=True) if its == group]
            part = self._group(group).take([row - self._starts[group] for row in wanted])
            found |= zip(wanted, part.to_pylist(), strict=True)
        return [found[row] for row in rows.tolist()]

    def _group(self, group: int) -> pa.Table:
        if group not in self._held:
            path, number = self._groups[group]
            with pq.ParquetFile(path) as file:
                self._held[group] = file.read_row_group(number, columns=self._columns)
            while len(self._held) > 1 and sum(table.nbytes for table in self._held.values()) > _HELD:
                self._held.popitem(last=False)
        self._held.move_to_end(group)
        return self._held[group]
