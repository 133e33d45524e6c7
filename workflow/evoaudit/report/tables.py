"""A table as the page shows it: headings in words, numbers rounded and aligned, an estimate and its interval in one cell."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from evoaudit.report.layout import BASELINE
from evoaudit.report.load import Column, Table
from evoaudit.report.words import cell, number
from evoaudit.tables.spec import said

#: Estimates whose interval is named by `low` and `high` alone.
ESTIMATES = ("value", "difference", "estimate")
#: Characters from which a cell is wrapped as prose.
PROSE = 40
#: What a link may look like: a file of the run's folder and nothing else.
LINK = r"[a-z0-9]+/[a-z0-9]+\.html"
#: Columns that hold the name of a model.
MODELS = ("model", "model_a", "model_b")
#: Table → columns that are shown first, where what matters most would be out of sight.
FIRST = {"suspects": ("grounds", "why", "released", "label", "page", "steps")}
#: Values of a column up to which it may name rows.
MANY = 12
FIGURE_SPACE = "\N{FIGURE SPACE}"


@dataclass(frozen=True)
class Head:
    """A column's heading."""

    name: str
    words: str
    unit: str
    numeric: bool
    classes: str | None


@dataclass(frozen=True)
class Cell:
    """A cell: its text, its interval, and what it sorts by."""

    text: str
    classes: str
    interval: str = ""
    #: What stands in, unseen, for an interval that is missing.
    gap: str = ""
    sort: str = ""
    #: Where the cell leads, a path from the page.
    href: str = ""


@dataclass(frozen=True)
class View:
    """A table ready for the page. ``row_head`` is the column that names the row, ``extras`` how many are shown on demand."""

    table: Table
    heads: tuple[Head, ...]
    rows: tuple[tuple[Cell, ...], ...]
    row_head: int | None
    extras: int


@dataclass(frozen=True)
class _Shown:
    """A shown column: where its value and its interval stand, and whether it holds numbers."""

    column: Column
    value: str | None
    ends: tuple[str, str] | None
    numeric: bool
    best: float | None
    end_decimals: int | None
    widths: tuple[int, int]


def view(table: Table, limit: int, links: Mapping[str, str] | None = None) -> View:
    """Lay a table out, at most ``limit`` rows; columns that only repeat what is said above the table are left out.

    ``links`` is the address of a model's page by its name.
    """
    rows = table.rows[:limit]
    first = FIRST.get(table.name, ())
    columns = _telling(_columns(table, rows), rows)
    columns.sort(key=lambda shown: first.index(shown.column.name) if shown.column.name in first else len(first))
    heads = tuple(
        Head(
            shown.column.name,
            shown.column.words,
            shown.column.unit,
            shown.numeric,
            _classes(num=shown.numeric, extra=shown.column.extra) or None,
        )
        for shown in columns
    )
    pages = links or {}
    body = tuple(
        tuple(_number_cell(row, shown) if shown.numeric else _text_cell(row, shown.column, pages) for shown in columns) for row in rows
    )
    row_head = next((i for i, head in enumerate(heads) if not head.numeric), None)
    return View(table, heads, body, row_head, sum(shown.column.extra for shown in columns))


def _columns(table: Table, rows: tuple[dict, ...]) -> list[_Shown]:
    names = {column.name: column for column in table.columns}
    pairs = {
        name.removesuffix("_low"): (name, high)
        for name in names
        if name.endswith("_low") and (high := f"{name.removesuffix('_low')}_high") in names
    }
    # Ranks and bins have ends but no estimate between them; they stay columns of their own.
    pairs = {base: pair for base, pair in pairs.items() if base in names or base not in ("rank", "bin")}
    if {"low", "high"} <= names.keys() and (base := next((name for name in names if name in ESTIMATES), None)):
        pairs[base] = ("low", "high")
    base_of = {end: base for base, pair in pairs.items() for end in pair}
    found = []
    for name, column in names.items():
        empty = all(row.get(name) is None for row in rows)
        if (name == "simulated" and table.simulated != "some") or (column.extra and empty):
            continue
        base = base_of.get(name)
        if base is None:
            numeric = _is_numeric(column, rows)
            best = _best(column, rows) if numeric else None
            ends = pairs.get(name)
            decimals = names[ends[0]].decimals if ends and column.decimals is None else column.decimals
            found.append(_Shown(column, name, ends, numeric, best, decimals, _widths(rows, ends, decimals)))
        elif base not in names and name == pairs[base][0]:
            column = replace(column, name=base, words=f"{column.words.removesuffix(' low')} interval")
            found.append(_Shown(column, None, pairs[base], True, None, column.decimals, _widths(rows, pairs[base], column.decimals)))
    return found


def _telling(columns: list[_Shown], rows: tuple[dict, ...]) -> list[_Shown]:
    """Show what is else shown on demand where rows that are named alike could not be told apart without it: texts first."""

    def alike(names: list[str]) -> list[list[dict]]:
        groups: dict[str, list[dict]] = {}
        for row in rows:
            groups.setdefault(repr([row.get(name) for name in names]), []).append(row)
        return [group for group in groups.values() if len(group) > 1]

    named = [shown.column.name for shown in columns if not shown.column.extra and not shown.numeric]
    told = set()
    for shown in sorted(columns, key=lambda shown: shown.numeric):
        name, whole = shown.column.name, shown.value is not None and shown.ends is None and not shown.column.decimals
        if not shown.column.extra or not whole or not named:
            continue
        # One of few values, as names and sizes have; a count tells nobody which row is which.
        few = len({repr(row.get(name)) for row in rows}) <= MANY
        if few and any(len({repr(row.get(name)) for row in group}) == len(group) for group in alike(named)):
            named.append(name)
            told.add(name)
    return [replace(shown, column=replace(shown.column, extra=False)) if shown.column.name in told else shown for shown in columns]


def _is_numeric(column: Column, rows: tuple[dict, ...]) -> bool:
    values = [value for row in rows if (value := row.get(column.name)) is not None]
    if not values:
        return column.decimals is not None
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def _competes(row: dict, column: Column) -> bool:
    value = row.get(column.name)
    return isinstance(value, (int, float)) and value == value and row.get("group") != BASELINE


def _best(column: Column, rows: tuple[dict, ...]) -> float | None:
    """Return the winning value of a column as it is printed, or None where nothing wins."""
    printed = {round(row[column.name], column.decimals or 0) for row in rows if _competes(row, column)}
    if not column.best or len(printed) < 2:
        return None
    return max(printed) if column.best == "high" else min(printed)


def _classes(**flags: bool) -> str:
    return " ".join(name for name, on in flags.items() if on)


def _text_cell(row: dict, column: Column, links: Mapping[str, str]) -> Cell:
    value = row.get(column.name)
    if column.kind == "link" and isinstance(value, str) and re.fullmatch(LINK, value):
        return Cell("replay", _classes(extra=column.extra), href=value)
    text = cell(said(value) if column.kind == "name" and isinstance(value, str) else value)
    href = links.get(value, "") if column.name in MODELS and isinstance(value, str) else ""
    return Cell(text, _classes(long=len(text) > PROSE, extra=column.extra), href=href)


def _number_cell(row: dict, shown: _Shown) -> Cell:
    column = shown.column
    interval = _interval(row, shown)
    if shown.value is None:
        return Cell(interval, _classes(num=True, extra=column.extra), "", "", _sort_key(row.get(shown.ends[0]) if shown.ends else None))
    value = row.get(shown.value)
    won = shown.best is not None and _competes(row, column) and round(value, column.decimals or 0) == shown.best
    least = 10.0 ** -(column.decimals or 0)
    small = column.kind == "p" and value is not None and value < least / 2
    text = f"<{number(least, column.decimals)}" if small else number(value, column.decimals)
    gap = "0" * shown.widths[0] + " to " + "0" * shown.widths[1] if any(shown.widths) and not interval else ""
    return Cell(text, _classes(num=True, strong=won, extra=column.extra), interval, gap, _sort_key(value))


def _ends(row: dict, ends: tuple[str, str], decimals: int | None) -> tuple[str, str] | None:
    """Return an interval's ends as they are printed, or None where one is missing."""
    low, high = (row.get(end) for end in ends)
    return None if low is None or high is None else (number(low, decimals), number(high, decimals))


def _interval(row: dict, shown: _Shown) -> str:
    """Return an interval whose parts are as wide in every row, so that estimates stay aligned."""
    ends = _ends(row, shown.ends, shown.end_decimals) if shown.ends else None
    return " to ".join(end.rjust(width, FIGURE_SPACE) for end, width in zip(ends, shown.widths, strict=True)) if ends else ""


def _widths(rows: tuple[dict, ...], ends: tuple[str, str] | None, decimals: int | None) -> tuple[int, int]:
    """Return the widest low and the widest high end, characters."""
    printed = [found for row in rows if (found := _ends(row, ends, decimals))] if ends else []
    return max((len(low) for low, _ in printed), default=0), max((len(high) for _, high in printed), default=0)


def _sort_key(value: Any) -> str:
    return "" if value is None or value != value else repr(value)
