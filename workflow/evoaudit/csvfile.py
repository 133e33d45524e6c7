"""CSV for people and their spreadsheets: what every file here is written with, and how marked cells are read back."""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

#: Beginnings of a cell that spreadsheets take for a formula, and those that such a mark was put before already.
_FORMULA = re.compile(r"'*(\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])")


def text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Return CSV: one header row, floats in full, empty cells for null.

    Text that a spreadsheet would run as a formula gets a leading apostrophe, since logs and models can put it there; `plain`
    takes it off again. Numbers stay numbers.
    """
    lines: list[str] = []
    # With this terminator the writer quotes a lone carriage return too; each row it writes is one call.
    writer = csv.writer(_Lines(lines), lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)
    return "".join(line[:-2] + "\n" for line in lines)


def write(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write CSV, UTF-8."""
    path.write_text(text(columns, rows), encoding="utf-8", newline="")


def plain(cell: str) -> str:
    """Return what a cell of text held before it was marked; every other cell stays as it is."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell, 1) else cell


class _Lines:
    """What the writer takes for a file."""

    def __init__(self, lines: list[str]) -> None:
        self.write = lines.append


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}" if _FORMULA.match(value) else value
    return "" if value is None else repr(value) if isinstance(value, float) else value
