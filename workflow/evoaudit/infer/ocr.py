"""What was typed or picked between two screens, by the text that changed.

Text is read with the models that come inside RapidOCR's own package: nothing is downloaded, ever.
"""

from collections import OrderedDict
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from evoaudit.infer.base import Attachments
from evoaudit.infer.grey import CHANGED, grey
from evoaudit.prompts import Image

#: The models in the wheel, for `extras.OCR_VERSION`.
DETECTOR, RECOGNISER = "PP-OCRv6_det_small.onnx", "PP-OCRv6_rec_small.onnx"
#: Crops are enlarged until their text is as tall as the recogniser's input, but not beyond this side or factor.
_WIDEST, _LARGEST = 1600, 4
#: Least side of what the engine is given, pixels.
_THINNEST = 32
#: Least confidence in a line that counts as read.
_SURE = 0.5
#: Crops whose text is remembered.
_KEPT = 16_384

#: Changes nearer to each other than these shares of the longest side are one: across, and down.
_NEAR = (1 / 32, 1 / 128)
#: Context read around a change, as a share of the longest side, so that lines are cut by no edge.
_MARGIN = 1 / 40
#: Beyond so many changes, or such a share of the picture in their boxes, the page is another one.
_MANY, _LARGE = 12, 0.35
#: Least share of a line's box that changed if its text did.
_TOUCHED = 0.03
#: Ink of a hint, as a share of the ink of what replaces it, at most.
_PALE = 0.75
#: A caret: least share of the strongest contrast that counts as ink, share of a line's width that only a border fills, least share of
#: its height that is ink and that is new.
_DARK, _RULE, _UPRIGHT, _RENEWED = 0.3, 0.8, 0.85, 0.25
#: What a caret behind the last letter is read as.
_CARETS = "|lI1!])}iJj"

Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text and its box, pixels of the picture: left, top, right, bottom."""

    text: str
    box: Box


@dataclass(frozen=True, slots=True)
class Change:
    """A line that was not there before: what stood in its place, how dark that was beside it, and whether a caret follows it."""

    line: Line
    region: int
    old: str
    pale: bool
    caret: bool


class Reader:
    """Reads text in prepared pictures; what was read once is remembered by the picture's hash. Thread-safe."""

    def __init__(self, attachments: Attachments) -> None:
        self._attachments = attachments
        self._lock = Lock()
        self._engine: Any = None
        self._known: OrderedDict[tuple[str, Box], tuple[Line, ...]] = OrderedDict()

    def lines(self, image: Image, box: Box) -> tuple[Line, ...]:
        """Return the lines of text in one box of a picture, from the top down; KeyError if the picture was not prepared."""
        key = (self._attachments.sha256(image), box)
        with self._lock:
            if key not in self._known:
                self._known[key] = self._read(image, box)
                if len(self._known) > _KEPT:
                    self._known.popitem(last=False)
            return self._known[key]

    def data(self, image: Image) -> bytes:
        """Return a picture's bytes; KeyError if it was not prepared."""
        return self._attachments.data(image)

    def _read(self, image: Image, box: Box) -> tuple[Line, ...]:
        from PIL import Image as Pixels

        with Pixels.open(BytesIO(self._attachments.data(image))) as picture:
            crop = picture.convert("RGB").crop(box)
        factor = max(1.0, min(_LARGEST, _WIDEST / max(crop.size)))
        if factor > 1:
            crop = crop.resize((round(crop.width * factor), round(crop.height * factor)), Pixels.Resampling.LANCZOS)
        # The engine takes no splinters.
        least = max(_THINNEST, max(crop.size) // 16)
        if min(crop.size) < least:
            wider = Pixels.new("RGB", (max(crop.width, least), max(crop.height, least)), crop.getpixel((0, 0)))
            wider.paste(crop)
            crop = wider
        if self._engine is None:
            self._engine = _engine()
        # The engine takes arrays for OpenCV's: blue first.
        found = self._engine(np.ascontiguousarray(np.asarray(crop)[:, :, ::-1]))
        if found.boxes is None or found.txts is None:
            return ()
        lines = []
        for corners, text in zip(found.boxes, found.txts, strict=True):
            low, high = np.floor(corners.min(axis=0) / factor), np.ceil(corners.max(axis=0) / factor)
            place = (box[0] + int(low[0]), box[1] + int(low[1]), box[0] + int(high[0]), box[1] + int(high[1]))
            if text := " ".join(text.split()):
                lines.append(Line(text, place))
        return tuple(sorted(lines, key=lambda line: (line.box[1], line.box[0], line.text)))


def _engine() -> Any:
    """Return RapidOCR with the models of its wheel, by their paths, so that it has no reason to fetch any, and one thread."""
    import rapidocr

    models = Path(rapidocr.__file__).parent / "models"
    return rapidocr.RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.use_cls": False,
            "Global.text_score": _SURE,
            "Det.model_path": str(models / DETECTOR),
            "Det.limit_type": "max",
            "Det.limit_side_len": 2 * _WIDEST,
            "Rec.model_path": str(models / RECOGNISER),
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )


def action(reader: Reader, before: Image, after: Image) -> tuple[str, str, float]:
    """Return action, value and confidence by the text that is new on the second picture.

    New text before a caret was typed; so was the one new line where nothing stood, or only a paler hint. The one new line in the place
    of other text was picked. Anything else, another page above all, followed a click.
    """
    changes = _changes(reader, before, after)
    typed = [change for change in changes if change.caret]
    if not typed and len({change.region for change in changes}) == 1 and all(not change.old or change.pale for change in changes):
        typed = changes
    if typed:
        typed = [change for change in typed if change.region == typed[0].region]
        return "type", " ".join(_typed(change) for change in typed), 0.9
    if len(changes) == 1:
        return "select", changes[0].line.text, 0.9
    return "click", "", 0.5


def _typed(change: Change) -> str:
    """Return a line without the caret behind it and without what stood in the field before."""
    text = change.line.text
    if len(text) > 1 and text[-1] in (_CARETS if change.caret else "|"):
        text = text[:-1].rstrip()
    if change.old and not change.pale and text.startswith(change.old) and text != change.old:
        text = text[len(change.old) :].lstrip()
    return text


def _changes(reader: Reader, before: Image, after: Image) -> list[Change]:
    """Return the lines that are new, from the top down; none if the page is another one."""
    first, second = (grey(reader.data(image)) for image in (before, after))
    if first.shape != second.shape:
        return []
    changed = np.abs(first - second) > CHANGED
    regions = _regions(changed)
    if len(regions) > _MANY or sum((right - left) * (bottom - top) for left, top, right, bottom in regions) > _LARGE * changed.size:
        return []
    found = []
    for number, region in enumerate(regions):
        old = reader.lines(before, region)
        for line in reader.lines(after, region):
            left, top, right, bottom = line.box
            if changed[top:bottom, left:right].mean() < _TOUCHED:
                continue
            caret = _caret(second, changed, line.box)
            there = [one for one in old if _same_place(one.box, line.box)]
            if any(_bare(one.text, True) == _bare(line.text, caret) or _bare(one.text) == _bare(line.text) for one in there):
                continue
            ink = max((_ink(first, one.box) for one in there), default=0.0)
            pale = ink < _PALE * _ink(second, line.box)
            found.append(Change(line, number, " ".join(one.text for one in there), pale, caret))
    return found


def _regions(changed: np.ndarray) -> list[Box]:
    """Return the boxes of what changed, with the context that is read around them; boxes that meet are one."""
    from scipy.ndimage import binary_dilation, find_objects, label

    height, width = changed.shape
    longest = max(height, width)
    across, down = (2 * round(longest * share / 2) + 1 for share in _NEAR)
    # Two passes of lines cost less than one of a rectangle.
    grown = binary_dilation(binary_dilation(changed, np.ones((1, across))), np.ones((down, 1)))
    boxes = [(columns.start, rows.start, columns.stop, rows.stop) for rows, columns in find_objects(label(grown)[0])]
    margin = round(longest * _MARGIN)
    boxes = [(max(0, a - margin), max(0, b - margin), min(width, c + margin), min(height, d + margin)) for a, b, c, d in boxes]
    return boxes


def _same_place(one: Box, other: Box) -> bool:
    """Tell whether two lines lie over each other by half the lower one's height."""
    across = min(one[2], other[2]) - max(one[0], other[0])
    down = min(one[3], other[3]) - max(one[1], other[1])
    return across > 0 and 2 * down >= min(one[3] - one[1], other[3] - other[1])


def _bare(text: str, caret: bool = False) -> str:
    """Return text without what two readings of the same line differ in: spaces, case, and the caret behind it."""
    bare = "".join(text.casefold().split())
    return bare.rstrip(_CARETS.casefold()) if caret else bare


def _ink(picture: np.ndarray, box: Box) -> float:
    """Return how far a line's ink stands off its ground, grey levels."""
    left, top, right, bottom = box
    part = picture[top:bottom, left:right]
    return float(np.percentile(np.abs(part - _ground(part)), 95)) if part.size else 0.0


def _ground(part: np.ndarray) -> int:
    return int(np.bincount(part.ravel(), minlength=256).argmax())


def _caret(picture: np.ndarray, changed: np.ndarray, box: Box) -> bool:
    """Tell whether a line ends in an upright stroke that is new, as tall as any letter and goes below them."""
    left, top, right, bottom = box
    right = min(right + 3, picture.shape[1])
    part = picture[top:bottom, left:right]
    if not part.size:
        return False
    contrast = np.abs(part - _ground(part))
    ink = contrast > max(CHANGED, _DARK * contrast.max())
    # A field's own border, and its corners, are no letters.
    rules = ink.mean(axis=1) >= _RULE
    rules[[0, -1]] = True
    ink[rules] = False
    ink[:, ink[~rules].all(axis=0)] = False
    columns = np.flatnonzero(ink.any(axis=0))
    if not columns.size:
        return False
    end = columns[-1]
    rows = np.flatnonzero(ink[:, end])
    upright = rows.size >= _UPRIGHT * (rows[-1] - rows[0] + 1)
    start = end
    # A stroke between two pixels fills both, equally high; a letter that touches it does not.
    while start > 0 and ink[rows, start - 1].all() and end - start < ink.shape[0] // 8:
        start -= 1
    letters = ink[:, :start]
    if not upright or not letters.any():
        return False
    others = np.flatnonzero(letters.any(axis=1))
    feet = np.median([np.flatnonzero(column)[-1] for column in letters.T if column.any()])
    new = changed[top:bottom, left + end][rows].mean() >= _RENEWED
    return bool(new and rows[0] <= others[0] and rows[-1] >= others[-1] - 1 and rows[-1] > feet)
