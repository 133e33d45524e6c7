"""Whether a person could tell two screens apart, and whether one shows anything: hashes nominate, decoded pixels decide."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from evoaudit.errors import InputError
from evoaudit.prepare import Place, decoded
from evoaudit.probes.corpus import CHANGED, Corpus
from evoaudit.screens import TILE, word_changes

#: Screens that differ in up to ten tiles were measured to have perceptual hashes at most 4 bits of 64 apart.
NOMINATE = 6
#: Where very many pictures stand to be compared: screens that differ in up to two tiles were at most 2 bits apart, with rare exceptions.
CLOSE = 2
#: Such pictures looked at for one question, the nearest by hash first.
COMPARED = 6
#: Share of a picture's pixels whose exact colour an encoder may change without any visible difference.
NOISE = 0.005
#: A screen of which one colour takes this share is looked at: it is empty if what else it shows touches no more of its tiles
#: than `INK`, all within a box of no more than `BOX` of them. A spinner, a word beside it, a lone icon.
SPARSE, INK, BOX = 0.96, 0.01, 0.125
#: Decoded pixels held at once, bytes.
HELD = 192 * 2**20


class Looks:
    """Look at pictures of a corpus, decoding only those that their hashes nominate."""

    def __init__(self, corpus: Corpus, roots: Mapping[str, Path], near_twin_tiles: int) -> None:
        self._corpus, self._roots, self._tiles = corpus, roots, near_twin_tiles
        self._held: OrderedDict[int, np.ndarray] = OrderedDict()
        self._bytes = 0
        self._empty: dict[int, bool] = {}
        # What the tables measured already: pairs of pictures, and the tiles in which they differ.
        steps = np.flatnonzero(corpus.state == CHANGED)
        pairs = self._pair(corpus.before[steps], corpus.after[steps])
        order = np.argsort(pairs, kind="stable")
        self._pairs, self._measured = pairs[order], corpus.tiles[steps][order]

    def _pair(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.minimum(a, b).astype(np.int64) * len(self._corpus.status) + np.maximum(a, b)

    def alike(self, a: int, b: int) -> bool:
        """Tell whether two pictures differ in so few tiles that they cannot be told apart.

        Of pages that differ in length by less than a tile, the common part is compared.
        """
        return a == b or (self.distance(a, np.array([b]))[0] <= NOMINATE and self._same(a, b))

    def twin(self, picture: int, among: Sequence[int]) -> int | None:
        """Return one of ``among`` that looks like a picture, if any does; only the nearest few by hash are looked at."""
        found = np.asarray(among, np.int64)
        far = self.distance(picture, found)
        order = np.argsort(far, kind="stable")
        for place in order[far[order] <= CLOSE][:COMPARED]:
            if self.alike(picture, int(found[place])):
                return int(found[place])
        return None

    def distance(self, picture: int, among: np.ndarray) -> np.ndarray:
        """Return how many bits pictures' hashes are apart; 99 where sizes or the shares of the commonest colour rule out a twin."""
        corpus = self._corpus
        width, height = corpus.size[picture].astype(np.int64)
        fits = (corpus.size[among, 0] == width) & (np.abs(corpus.size[among, 1] - height) < TILE)
        room = self._tiles * TILE * TILE + width * (NOISE * height + np.abs(corpus.size[among, 1] - height))
        fits &= np.abs(corpus.plain[among] - corpus.plain[picture]) * (width * height) <= room
        bits = np.bitwise_count(corpus.phash[among] ^ corpus.phash[picture]).astype(np.int64)
        return np.where(among == picture, 0, np.where(fits, bits, 99))

    def empty(self, picture: int) -> bool:
        """Tell whether a picture shows nothing but a spinner or a word or two."""
        if self._corpus.plain[picture] < SPARSE:
            return False
        if picture not in self._empty:
            self._empty[picture] = _empty(self._pixels(picture))
        return self._empty[picture]

    def _same(self, a: int, b: int) -> bool:
        pair = self._pair(np.int64(a), np.int64(b))
        at = np.searchsorted(self._pairs, pair)
        if at < len(self._pairs) and self._pairs[at] == pair:
            return int(self._measured[at]) <= self._tiles
        one, other = self._pixels(a), self._pixels(b)
        height = min(len(one), len(other))
        return int(word_changes(one[:height], other[:height]).tiles.sum()) <= self._tiles

    def _pixels(self, picture: int) -> np.ndarray:
        """Return a decoded picture, (height, width) uint32, a pixel a word."""
        if (found := self._held.get(picture)) is not None:
            self._held.move_to_end(picture)
            return found
        source, file, member, mark = (self._corpus.place[name][picture].as_py() for name in ("source", "file", "member", "file_sha256"))
        if source not in self._roots:
            raise InputError("--root", f"no folder given for source '{source}'", f"add --root {source}=FOLDER")
        place = Place(self._corpus.image(picture), self._roots[source], file, member, self._corpus.kinds.get(source), mark)
        found = np.asarray(decoded(place).convert("RGBX")).view(np.uint32)[..., 0]
        self._held[picture] = found
        self._bytes += found.nbytes
        while self._bytes > HELD and len(self._held) > 2:
            self._bytes -= self._held.popitem(last=False)[1].nbytes
        return found


def _empty(pixels: np.ndarray) -> bool:
    """Judge a decoded picture by the tiles that differ visibly from the commonest colour."""
    colours, counts = np.unique(pixels.ravel()[:: max(1, pixels.size // 10_000)], return_counts=True)
    ink = word_changes(pixels, np.full_like(pixels, colours[counts.argmax()])).tiles
    rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    if not len(rows):
        return True
    box = (rows[-1] - rows[0] + 1) * (columns[-1] - columns[0] + 1)
    return bool(ink.sum() <= max(1, INK * ink.size) and box <= BOX * ink.size)
