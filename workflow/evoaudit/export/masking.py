"""Pictures as they may leave: read at full size, filled where they show what may not leave, read again, and only then made small.

A line of text that holds a finding is filled whole: where in its box the finding stands is a guess. OCR takes 1 for l and drops spaces, so
what was typed is looked for without either. Readings are kept by picture, filled ones too, so that a run that was cut off goes on where
it was.
"""

import hashlib
import io
import threading
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from evoaudit import extras, prepare, prepared, store
from evoaudit.errors import InputError
from evoaudit.export import privacy
from evoaudit.infer.journal import sealed, unsealed
from evoaudit.wholefile import write_whole

if TYPE_CHECKING:
    from PIL.Image import Image

Box = tuple[int, int, int, int]
#: Pixels filled around a line.
MARGIN = 4
#: Times a picture is filled and read again before it is given up.
ROUNDS = 4
#: Shortest typed text, without spaces, that is looked for inside longer words.
_INSIDE = 5
_FILL = (0, 0, 0)
#: Letters that OCR takes for each other.
_ALIKE = str.maketrans({"l": "1", "i": "1", "|": "1", "!": "1", "o": "0", "q": "9", "s": "5", "b": "8", "z": "2"})


@dataclass(frozen=True, slots=True)
class Line:
    """One line as read, and its box in pixels: left, top, right, bottom."""

    text: str
    box: Box


def bare(text: str) -> str:
    """Return a text without what OCR gets wrong: spaces, case, letters that look alike."""
    return "".join(text.casefold().split()).translate(_ALIKE)


class Finder:
    """Finds what may not leave in the lines of one picture, for all trajectories that show it."""

    def __init__(self, texts: privacy.Texts, owners: Set[str]) -> None:
        strict = sorted(owner for owner in owners if not texts.fictional(owner))
        self._known = {value: rule for owner in strict for value, rule in texts.known(owner).items()}
        self._allow = [texts.allow(owner) for owner in strict]
        self._bare = {bare(value): rule for value, rule in self._known.items()}

    def __call__(self, lines: Sequence[Line]) -> list[tuple[Line, str]]:
        """Return the lines to fill, each with its rule."""
        found: dict[Line, str] = {}
        for row in _rows(lines):
            joined = " ".join(line.text for line in row)
            at = 0
            places = []
            for line in row:
                places.append((at, at + len(line.text), line))
                at += len(line.text) + 1
            for span in self._spans(joined):
                for start, end, line in places:
                    if start < span.end and span.start < end:
                        found.setdefault(line, span.rule)
            for line in row:
                if line not in found and (rule := self._rule(line.text)):
                    found[line] = rule
        return list(found.items())

    def _spans(self, text: str) -> list[privacy.Span]:
        return privacy.find(text, self._known, self._allowed)

    def _allowed(self, text: str) -> bool:
        return all(allow(text) for allow in self._allow)

    def _rule(self, text: str) -> str | None:
        """Return the rule of one line by itself, spaces and look-alikes aside."""
        if spans := self._spans(text) or self._spans("".join(text.split())):
            return spans[0].rule
        if not text or self._allowed(text):
            return None
        words = {bare(word) for word in (text, *text.split())}
        whole = bare(text)
        return next((rule for value, rule in self._bare.items() if value in words or (len(value) >= _INSIDE and value in whole)), None)


def _rows(lines: Sequence[Line]) -> list[list[Line]]:
    """Return the lines that stand beside each other, from the top down: long numbers are read in pieces."""
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: (line.box[1], line.box[0])):
        middle = (line.box[1] + line.box[3]) / 2
        row = next((row for row in rows if row[0].box[1] <= middle <= row[0].box[3]), None)
        rows.append([line]) if row is None else row.append(line)
    return [sorted(row, key=lambda line: line.box[0]) for row in rows]


class Reader:
    """Reads text in pictures with the models inside RapidOCR's own package, one engine a thread."""

    def __init__(self, cache: Path | None) -> None:
        self._own = threading.local()
        self._cache = None if cache is None else Path(cache) / f"rapidocr-{extras.OCR_VERSION}"

    def lines(self, picture: "Image", name: str | None = None) -> list[Line]:
        """Return the lines of a picture, read now or before; without a name it goes by its size and pixels."""
        if name is None:
            name = hashlib.sha256(repr(picture.size).encode() + picture.tobytes()).hexdigest()
        if (found := self.known(name)) is None:
            found = self.read(picture)
            self.keep(name, found)
        return found

    def read(self, picture: "Image") -> list[Line]:
        """Return the lines of a picture."""
        import numpy as np

        from evoaudit.infer import ocr

        if not hasattr(self._own, "engine"):
            self._own.engine = ocr._engine()
        # The engine takes arrays for OpenCV's: blue first.
        found = self._own.engine(np.ascontiguousarray(np.asarray(picture)[:, :, ::-1]))
        if found.boxes is None or found.txts is None:
            return []
        lines = []
        for corners, text in zip(found.boxes, found.txts, strict=True):
            left, top = (int(edge) for edge in corners.min(axis=0))
            right, bottom = (int(edge) + 1 for edge in corners.max(axis=0))
            if text := " ".join(text.split()):
                lines.append(Line(text, (left, top, right, bottom)))
        return lines

    def known(self, image_id: str) -> list[Line] | None:
        """Return the lines of a picture that was read before; what has changed on the disk is read anew, since it might hide something."""
        if self._cache is None:
            return None
        try:
            held = unsealed((self._cache / image_id[:2] / f"{image_id}.json").read_bytes())
            return None if held is None else [Line(str(text), tuple(map(int, box))) for text, box in held["lines"]]
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def keep(self, image_id: str, lines: Sequence[Line]) -> None:
        """Remember the lines of a picture."""
        if self._cache is None:
            return
        place = self._cache / image_id[:2] / f"{image_id}.json"
        write_whole(place, sealed({"lines": [[line.text, line.box] for line in lines]}))


def fill(picture: "Image", boxes: Sequence[Box]) -> "Image":
    """Return the picture with boxes and a margin filled with one colour."""
    from PIL import ImageDraw

    filled = picture.copy()
    draw = ImageDraw.Draw(filled)
    for left, top, right, bottom in boxes:
        draw.rectangle((left - MARGIN, top - MARGIN, right + MARGIN - 1, bottom + MARGIN - 1), fill=_FILL)
    return filled


class Pictures:
    """Prepared pictures by image_id, masked where they must be; see the module."""

    def __init__(
        self,
        folder: Path,
        normalised: Sequence[Path],
        roots: Mapping[str, Path],
        owners: Mapping[str, Set[str]],
        texts: privacy.Texts,
        read: bool = True,
        cache: Path | None = None,
        threads: int = 1,
    ) -> None:
        self._inner = prepared.Pictures(folder)
        self._folder = folder
        #: Pictures that were filled.
        self.masked: set[str] = set()
        #: Where, and by which rule; no text.
        self.found: list[dict[str, Any]] = []
        self._spool: IO[bytes] | None = None
        self._places: dict[str, tuple[int, int]] = {}
        wanted = {image for image, names in owners.items() if not all(texts.fictional(name) for name in names)} if read else set()
        self.shown, self.read = len(owners), len(wanted)
        if not wanted:
            return
        if why := extras.no_ocr():
            self.close()
            raise InputError(
                f"{len(wanted)} pictures",
                f"must be read before they leave, which {why}",
                "run `make ocr`, name sources whose identities are made up in export.privacy.fictional, or set export.pictures to 'none', "
                "or to 'unread' if you know that they show nothing private",
            )
        self._reader = Reader(cache)
        self._spool = TemporaryFile()  # noqa: SIM115 (closed with the pictures)
        try:
            self._mask(prepare.find(normalised, roots, wanted), owners, texts, threads)
        except BaseException:
            self.close()
            raise

    def _mask(self, places: Sequence[prepare.Place], owners: Mapping[str, Set[str]], texts: privacy.Texts, threads: int) -> None:
        with ThreadPoolExecutor(threads) as pool:
            # In chunks, so that decoded pictures do not pile up.
            for start in range(0, len(places), 4 * threads):
                part = places[start : start + 4 * threads]
                done = pool.map(lambda place: self._masked(place, Finder(texts, owners[place.image_id])), part)
                for place, result in zip(part, done, strict=True):
                    self._take(place.image_id, *result)

    @cached_property
    def side(self) -> int:
        """Longest side allowed, pixels."""
        rows = store.read_rows(self._folder, "prepared", ["max_image_side"])
        return rows[0]["max_image_side"] if rows else 0

    def get(self, image_id: str) -> bytes:
        """Return a picture's encoded bytes as they may leave."""
        if self._spool is None or image_id not in self._places:
            return self._inner.get(image_id)
        at, length = self._places[image_id]
        self._spool.seek(at)
        return self._spool.read(length)

    def close(self) -> None:
        self._inner.close()
        if self._spool is not None:
            self._spool.close()

    def _take(self, image_id: str, data: bytes | None, filled: Sequence[tuple[Box, str]]) -> None:
        if data is None or self._spool is None:
            return
        self.masked.add(image_id)
        self._places[image_id] = self._spool.seek(0, io.SEEK_END), len(data)
        self._spool.write(data)
        for box, rule in sorted(filled):
            self.found.append({"item": f"picture {image_id}", "field": "box " + " ".join(map(str, box)), "rule": rule, "n": 1})

    def _masked(self, place: prepare.Place, finder: Finder) -> tuple[bytes | None, list[tuple[Box, str]]]:
        """Return a picture's bytes with its findings filled, and the boxes; None if there is nothing to fill."""
        lines = self._reader.known(place.image_id)
        picture = None
        if lines is None:
            picture = prepare.decoded(place)
            lines = self._reader.lines(picture, place.image_id)
        hits = finder(lines)
        if not hits:
            return None, []
        picture = prepare.decoded(place) if picture is None else picture
        filled: list[tuple[Box, str]] = []
        side = self.side
        for _ in range(ROUNDS):
            filled += [(line.box, rule) for line, rule in hits]
            picture = fill(picture, [box for box, _ in filled])
            hits = finder(self._reader.lines(picture))
            if not hits:
                break
        small, _ = prepare.shrink(picture, side)
        if not hits:
            hits = finder(self._reader.lines(small)) if small.size != picture.size else []
        if hits:
            raise InputError(
                f"picture {place.image_id}",
                f"still shows what may not leave ({hits[0][1]}) after masking",
                "name its source in export.leave_out; nothing was written",
            )
        small.info = {}
        out = io.BytesIO()
        small.save(out, prepare.FORMAT)
        return out.getvalue(), filled
