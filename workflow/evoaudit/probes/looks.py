"""Whether a person could tell two screens apart: hashes nominate, decoded pixels decide."""

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from evoaudit import pictures
from evoaudit.errors import InputError
from evoaudit.prepare import Place, decoded
from evoaudit.probes.corpus import Corpus

#: Perceptual hashes further apart than this (of 64 bits) never belonged to screens that differ in a tile or two.
NOMINATE = 8
#: Decoded pixels held at once, bytes.
HELD = 192 * 2**20


class Looks:
    """Compare pictures of a corpus, decoding only pairs that their hashes nominate."""

    def __init__(self, corpus: Corpus, roots: Mapping[str, Path], near_twin_tiles: int) -> None:
        self._corpus, self._roots, self._tiles = corpus, roots, near_twin_tiles
        self._held: OrderedDict[int, np.ndarray] = OrderedDict()
        self._bytes = 0
        self.decoded = 0

    def alike(self, a: int, b: int) -> bool:
        """Tell whether two pictures differ in so few tiles that they cannot be told apart."""
        corpus = self._corpus
        if a == b:
            return True
        if not np.array_equal(corpus.size[a], corpus.size[b]) or (int(corpus.phash[a]) ^ int(corpus.phash[b])).bit_count() > NOMINATE:
            return False
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
        self.decoded += 1
        self._held[picture] = found
        self._bytes += found.nbytes
        while self._bytes > HELD and len(self._held) > 2:
            self._bytes -= self._held.popitem(last=False)[1].nbytes
        return found
