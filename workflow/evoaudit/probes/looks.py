"""Whether a person could tell two screens apart: hashes nominate, decoded pixels decide."""

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from evoaudit import pictures
from evoaudit.errors import InputError
from evoaudit.prepare import Place, decoded
from evoaudit.probes.corpus import CHANGED, Corpus

#: Screens that differ in up to ten tiles were measured to have perceptual hashes at most 4 bits of 64 apart.
NOMINATE = 6
#: Decoded pixels held at once, bytes.
HELD = 192 * 2**20


class Looks:
    """Compare pictures of a corpus, decoding only pairs that their hashes nominate."""

    def __init__(self, corpus: Corpus, roots: Mapping[str, Path], near_twin_tiles: int) -> None:
        self._corpus, self._roots, self._tiles = corpus, roots, near_twin_tiles
        self._held: OrderedDict[int, np.ndarray] = OrderedDict()
        self._bytes = 0
        # What the tables measured already: pairs of pictures, and the tiles in which they differ.
        steps = np.flatnonzero(corpus.state == CHANGED)
        pairs = self._pair(corpus.before[steps], corpus.after[steps])
        order = np.argsort(pairs, kind="stable")
        self._pairs, self._measured = pairs[order], corpus.tiles[steps][order]

    def _pair(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.minimum(a, b).astype(np.int64) * len(self._corpus.status) + np.maximum(a, b)

    def alike(self, a: int, b: int) -> bool:
        """Tell whether two pictures differ in so few tiles that they cannot be told apart."""
        corpus = self._corpus
        if a == b:
            return True
        if corpus.shape[a] != corpus.shape[b] or (int(corpus.phash[a]) ^ int(corpus.phash[b])).bit_count() > NOMINATE:
            return False
        pair = self._pair(np.int64(a), np.int64(b))
        at = np.searchsorted(self._pairs, pair)
        if at < len(self._pairs) and self._pairs[at] == pair:
            return int(self._measured[at]) <= self._tiles
        return int(pictures.tile_changes(self._pixels(a), self._pixels(b)).tiles.sum()) <= self._tiles

    def _pixels(self, picture: int) -> np.ndarray:
        if (found := self._held.get(picture)) is not None:
            self._held.move_to_end(picture)
            return found
        source, file, member, mark = (self._corpus.place[name][picture].as_py() for name in ("source", "file", "member", "file_sha256"))
        if source not in self._roots:
            raise InputError("--root", f"no folder given for source '{source}'", f"add --root {source}=FOLDER")
        place = Place(self._corpus.image(picture), self._roots[source], file, member, self._corpus.kinds.get(source), mark)
        found = np.asarray(decoded(place))
        self._held[picture] = found
        self._bytes += found.nbytes
        while self._bytes > HELD and len(self._held) > 2:
            self._bytes -= self._held.popitem(last=False)[1].nbytes
        return found
