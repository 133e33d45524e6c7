"""What an agent's run took that its log does not hold, one row an attempt, as somebody measured it: dollars, seconds, a critical window."""

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

from evoaudit import csvfile
from evoaudit.errors import InputError
from evoaudit.givenfile import read_given

COLUMNS = ("trajectory_id", "usd", "seconds", "window_opportunities", "window_taken")
MAX_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Measured:
    """One attempt. ``opportunities`` R and ``taken`` r of its critical window (CUA audit, §6); ``taken`` is None on a miss."""

    usd: float | None = None
    seconds: float | None = None
    opportunities: int | None = None
    taken: int | None = None

    @property
    def slack(self) -> float | None:
        """(R - r + 1) / R, 0 on a miss; None without a critical window."""
        if self.opportunities is None:
            return None
        return 0.0 if self.taken is None else (self.opportunities - self.taken + 1) / self.opportunities


def read(path: Path) -> dict[str, Measured]:
    """Read a CSV file of `COLUMNS`, of which all but the first may be left out or empty."""
    raw = read_given(path, MAX_BYTES, "give the path of a CSV file")
    try:
        content = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(path, f"not UTF-8 at byte {error.start}", "save it as UTF-8") from None
    reader = csv.reader(io.StringIO(content, newline=""), strict=True)
    found: dict[str, Measured] = {}
    line = 1
    try:
        header = [name.strip() for name in next(reader, [])]
        if "trajectory_id" not in header:
            raise InputError(f"{path}:1", "no column 'trajectory_id'", f"the columns are {', '.join(COLUMNS)}")
        if stray := [name for name in header if name not in COLUMNS]:
            raise InputError(f"{path}:1", f"unknown column '{stray[0][:60]}'", f"the columns are {', '.join(COLUMNS)}")
        if len(set(header)) != len(header):
            raise InputError(f"{path}:1", "the header names a column twice", "name every column once")
        line = reader.line_num + 1
        for cells in reader:
            where, line = f"{path}:{line}", reader.line_num + 1
            if not cells:
                continue
            if len(cells) != len(header):
                raise InputError(where, f"not as many cells as the header's {len(header)}", "quote cells that hold commas")
            given = dict(zip(header, map(csvfile.plain, cells), strict=True))
            identity = given["trajectory_id"]
            if not identity.strip():
                raise InputError(where, "trajectory_id: is missing", "give every row an id")
            if identity in found:
                raise InputError(where, f"trajectory_id: '{identity[:60]}' again", "give every trajectory one row")
            found[identity] = _measured(where, given)
    except csv.Error as error:
        raise InputError(f"{path}:{line}", f"not CSV ({error})", "quote cells that hold commas, quotes or line breaks") from None
    return found


def _measured(where: str, given: dict[str, str]) -> Measured:
    usd, seconds = (_amount(where, name, given.get(name)) for name in ("usd", "seconds"))
    opportunities, taken = (_count(where, name, given.get(name)) for name in ("window_opportunities", "window_taken"))
    if taken is not None and (opportunities is None or taken > opportunities):
        mend = "opportunities count from 1 to window_opportunities; leave it empty on a miss"
        raise InputError(where, f"window_taken: {taken} of {opportunities or 'none'}", mend)
    return Measured(usd, seconds, opportunities, taken)


def _amount(where: str, name: str, text: str | None) -> float | None:
    if not (text or "").strip():
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise InputError(where, f"{name}: '{text[:60]}' is no amount", "give a number of 0 or more, or leave it empty")
    return value


def _count(where: str, name: str, text: str | None) -> int | None:
    text = (text or "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0):
        raise InputError(where, f"{name}: '{text[:60]}' is no count", "give a whole number of 1 or more, or leave it empty")
    return int(text)
