"""Do the figures of a printed results table follow from one another? For any table with counts, by columns with known names.

`docs/check.md` says what each column means. Everything is compared as printed: a figure agrees if some count, rounded as the
cell is, gives it.
"""

import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from evoaudit.errors import InputError, one_line
from evoaudit.givenfile import read_given
from evoaudit.stats import evogain, evogain_action
from evoaudit.stats.check import AGREES, DIFFERS, NOT_DERIVABLE, count_range, expected_agreement, half_unit, interval_methods
from evoaudit.stats.evogain import CHANCE_T2_ACTION

#: Columns that are percentages of `n` by their name.
PERCENT = re.compile(
    r"(accuracy|percent|share|rate|success|agreement|t1|t2_top1|t2_joint|t3)$|.+_(accuracy|pct|percent|share|rate|success)$"
)
TOTALS = frozenset({"all", "total", "sum", "overall"})
NONE = frozenset({"", "-", "--", "\N{EN DASH}", "\N{EM DASH}", "n/a", "na", "none", "null"})
_NUMBER = re.compile(r"[+\-\N{MINUS SIGN}]?(\d{1,15}|\d{1,3}(,\d{3}){1,4})(\.\d{1,12})?")
MAX_BYTES, MAX_ROWS, MAX_COLUMNS, MAX_NAME = 16 * 1024 * 1024, 20_000, 500, 200

Cells = Mapping[str, Decimal]


@dataclass(frozen=True)
class Rules:
    """What the names of the columns do not say."""

    #: Percentage → the column that holds its number of cases, or the number.
    of: Mapping[str, str] = field(default_factory=dict)
    #: Whole → the columns that add up to it.
    sums: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Percentage → (columns of counts that are its hits, column of its cases).
    shares: Mapping[str, tuple[Sequence[str], str]] = field(default_factory=dict)
    #: Percentage → the percentages of its parts, each with its number of cases.
    pools: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: Chance of T1, T2 joint and T3, percent.
    baseline: Sequence[float] | None = None
    confidence: float = 0.95
    #: Shares are printed from 0 to 1, not from 0 to 100.
    proportions: bool = False


@dataclass(frozen=True)
class Row:
    """One row: its label, its line in the file, its numbers as printed, and the words its label is made of, empty ones too."""

    label: str
    line: int
    cells: Cells
    words: tuple[str, ...] = ()


def read(path: Path) -> list[Row]:
    """Read a results table; a fault anywhere in it is one error."""
    raw = read_given(path, MAX_BYTES, "give the path of a CSV file", "is larger than any results table", "give the table alone")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(path, f"is not UTF-8 (byte {error.start})", "save it as UTF-8") from None
    return parse(text, str(path))


def parse(text: str, where: str = "table") -> list[Row]:
    """Parse CSV text into rows; the first column that is no number in some row names the rows."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        lines = [(reader.line_num, line) for line in reader if any(cell.strip() for cell in line)]
    except csv.Error as error:
        raise InputError(f"{where}:{reader.line_num}", f"is not CSV ({error})", "save the table as comma-separated text") from None
    if len(lines) < 2:
        raise InputError(where, "holds no rows" if lines else "is empty", "give a header line and a line for each row")
    head = [name.strip() for name in lines[0][1]]
    if len(head) > MAX_COLUMNS or len(lines) > MAX_ROWS:
        raise InputError(where, f"has {len(lines)} rows and {len(head)} columns", f"give at most {MAX_ROWS} and {MAX_COLUMNS}")
    if long := next((name for name in head if len(name) > MAX_NAME), None):
        raise InputError(f"{where}:1", f"the column '{one_line(long, 40)}' has a name of {len(long):,} letters", f"give at most {MAX_NAME}")
    if twice := sorted({name for name in head if name and head.count(name) > 1}):
        raise InputError(f"{where}:1", f"the column '{twice[0]}' stands there twice", "rename one")
    for number, line in lines[1:]:
        if len(line) != len(head):
            raise InputError(
                f"{where}:{number}", f"has {len(line)} cells and the header {len(head)}", "give every row as many; quote commas"
            )
    known = _known(head)
    texts = []
    for place, name in enumerate(head):
        words = next(((number, line[place]) for number, line in lines[1:] if _is_words(line[place])), None)
        if words is None:
            continue
        if name in known:
            mend = "write plain numbers, and leave a missing one empty"
            raise InputError(f"{where}:{words[0]}", f"{name}: '{one_line(words[1], 40)}' is no number", mend)
        texts.append(name)
    numbers = {name for name in head if name} - set(texts)
    rows, seen = [], {}
    for number, line in lines[1:]:
        cells = dict(zip(head, line, strict=True))
        # Where a table has several columns of words (group, model), all of them together name the row.
        words = tuple(one_line(cells[name].strip(), 80) for name in texts[:3])
        named = " / ".join(filter(None, words)) or f"row {len(rows) + 1}"
        if named in seen:
            raise InputError(f"{where}:{number}", f"'{named}' stands in line {seen[named]} too", "give every row its own label")
        seen[named] = number
        found = {name: value for name, cell in cells.items() if name in numbers and (value := _number(cell)) is not None}
        rows.append(Row(named, number, found, words))
    return rows


def _number(cell: str) -> Decimal | None:
    text = cell.strip().removesuffix("%").strip()
    return Decimal(text.replace(",", "").replace("\N{MINUS SIGN}", "-")) if _NUMBER.fullmatch(text) else None


def _is_words(cell: str) -> bool:
    return _number(cell) is None and cell.strip().casefold() not in NONE


def _known(head: Iterable[str]) -> set[str]:
    """Return the columns that must hold numbers."""
    names = set(head)
    fixed = {"n", "kappa", "categories", "evogain", "evogain_action"}
    return {
        name
        for name in names
        if name in fixed
        or PERCENT.match(name)
        or name.startswith(("n_", "k_"))
        or (name.endswith(("_low", "_high")) and name.rsplit("_", 1)[0] in names)
    }


def check(rows: Sequence[Row], rules: Rules | None = None, where: str = "table") -> list[dict]:
    """Return a row for every figure that can be recomputed: row, quantity, published, recomputed, status, note."""
    rules = rules or Rules()
    _check_sizes(rules)
    names = {name for row in rows for name in row.cells}
    for name in _named(rules):
        if name not in names:
            raise InputError(where, f"has no column '{name}' with a number in it", f"there are {', '.join(sorted(names)) or 'none'}")
    found = [result for part in (_counts, _sums, _shares, _pools, _totals, _evogains, _kappas) for result in part(rows, rules, where)]
    if not found:
        raise InputError(
            where,
            "has nothing that can be checked",
            "see docs/check.md for the columns that are known, or name them with --of, --sum, --share",
        )
    return found


def _check_sizes(rules: Rules) -> None:
    """Refuse a number of cases that is none; it comes from an option, not from the table."""
    options = [(f"--of {share}={size}", size) for share, size in rules.of.items()]
    options += [(f"--pool {whole}={part}:{size}", size) for whole, sizes in rules.pools.items() for part, size in sizes.items()]
    for option, size in options:
        number = _number(size)
        if number is not None and (number != number.to_integral_value() or number < 1):
            raise InputError(
                one_line(option, 80), f"{one_line(size, 40)} is no number of cases", "give a whole number, 1 or more, or a column"
            )


def _named(rules: Rules) -> Iterator[str]:
    yield from rules.of
    yield from (name for name in rules.of.values() if _number(name) is None)
    for whole, parts in rules.sums.items():
        yield from (whole, *parts)
    for share, (parts, whole) in rules.shares.items():
        yield from (share, *parts, whole)
    for whole, sizes in rules.pools.items():
        yield from (whole, *sizes, *(name for name in sizes.values() if _number(name) is None))


def _result(
    row: Row | str, quantity: str, published: Decimal | None, recomputed: float | None, status: str, note: str | None = None
) -> dict:
    label = row if isinstance(row, str) else row.label
    return {
        "row": label,
        "quantity": quantity,
        "published": None if published is None else float(published),
        "printed": "nothing" if published is None else str(published),
        "recomputed": recomputed,
        "status": status,
        "note": note,
    }


def _whole(value: Decimal | None, row: Row, name: str, where: str) -> int | None:
    """Return a cell as a count."""
    if value is None:
        return None
    if value != value.to_integral_value() or value < 0:
        raise InputError(f"{where}:{row.line}", f"{name}: {value} is no count", "give a whole number, 0 or more")
    return int(value)


def _cases(row: Row, column: str, rules: Rules, where: str) -> int | None:
    """Return the number of cases behind a percentage, None if the table does not say."""
    name = rules.of.get(column)
    if name is not None and (number := _number(name)) is not None:
        return _whole(number, row, name, where)
    for candidate in (name,) if name else (f"n_{column}", "n"):
        if candidate in row.cells and (candidate != "n" or name == "n" or PERCENT.match(column)):
            return _whole(row.cells[candidate], row, candidate, where)
    return None


def _percent(value: Decimal, rules: Rules) -> Decimal:
    return value.scaleb(2) if rules.proportions else value


def _percentages(row: Row, rules: Rules) -> list[str]:
    """Return the columns of a row that are shares of cases."""
    return [
        name
        for name in row.cells
        if (name in rules.of or f"n_{name}" in row.cells or (PERCENT.match(name) and "n" in row.cells))
        and not name.startswith(("n_", "k_"))
        and not name.endswith(("_low", "_high"))
        and name not in ("n", "evogain", "evogain_action", "kappa")
    ]


def _counts(rows: Sequence[Row], rules: Rules, where: str) -> Iterator[dict]:
    """Check each percentage against its number of cases and its hits, and its interval against the usual ones."""
    for row in rows:
        for name in _percentages(row, rules):
            value, n = row.cells[name], _cases(row, name, rules, where)
            percent = _percent(value, rules)
            if not 0 <= percent <= 100:
                yield _result(row, name, value, None, DIFFERS, "is no share; shares printed from 0 to 1 need --proportions")
                continue
            if n is None:
                continue
            if n == 0:
                yield _result(row, name, value, None, DIFFERS, "there are no cases, so there is no percentage")
                continue
            hits = _whole(row.cells.get(f"k_{name}"), row, f"k_{name}", where)
            if hits is not None:
                yield _hits(row, name, value, percent, hits, n, rules)
                span = (hits, hits)
            else:
                span, note = _span(percent, n)
                status = DIFFERS if span is None else AGREES
                nearest = min(max(round(float(percent) * n / 100), 0), n)
                known = nearest if span is None else min(max(nearest, span[0]), span[1])
                scale = 1 if rules.proportions else 100
                many = None if span is None else f"{span[0]} of {n}" if span[0] == span[1] else f"{span[0]} to {span[1]} of {n}"
                said = f"no count of {n} gives it; the nearest is {nearest}" if span is None else "; ".join(filter(None, (many, note)))
                yield _result(row, f"{name} of n", value, scale * known / n, status, said)
            low, high = row.cells.get(f"{name}_low"), row.cells.get(f"{name}_high")
            if low is not None and high is not None:
                yield _interval(row, name, value, low, high, span or (known, known), n, rules)


def _span(percent: Decimal, n: int) -> tuple[tuple[int, int] | None, str | None]:
    """Return the counts that print as the percentage, and a note if only rounding twice gives it."""
    if (found := count_range(percent, n)) is not None:
        return found, None
    found = count_range(percent, n, twice=True)
    return found, "only if it was rounded twice" if found else None


def _hits(row: Row, name: str, value: Decimal, percent: Decimal, hits: int, n: int, rules: Rules) -> dict:
    share = (1 if rules.proportions else 100) * hits / n
    span, note = _span(percent, n)
    if hits > n:
        return _result(row, f"{name} from its hits", value, None, DIFFERS, f"{hits} hits of {n}")
    fits = span is not None and span[0] <= hits <= span[1]
    return _result(row, f"{name} from its hits", value, share, AGREES if fits else DIFFERS, note if fits else None)


def _interval(row: Row, name: str, value: Decimal, low: Decimal, high: Decimal, span: tuple[int, int], n: int, rules: Rules) -> dict:
    quantity = f"interval of {name}"
    if not low <= value <= high:
        return _result(row, quantity, value, None, DIFFERS, f"[{low}, {high}] does not hold the value")
    ends = tuple(_percent(end, rules) for end in (low, high))
    fits, wilson = interval_methods(ends, span, n, rules.confidence)
    scale = 1 if rules.proportions else 100
    if fits:
        return _result(row, quantity, low, None, AGREES, f"[{low}, {high}] is {' or '.join(fits)}")
    told = f"[{low}, {high}] fits no usual interval; Wilson's is [{scale * wilson[0]:.4g}, {scale * wilson[1]:.4g}]"
    return _result(row, quantity, low, None, DIFFERS, told)


def _near(value: Decimal, recomputed: float) -> str:
    return AGREES if abs(float(value) - recomputed) <= half_unit(value) + 1e-9 else DIFFERS


def _sums(rows: Sequence[Row], rules: Rules, where: str) -> Iterator[dict]:
    for row in rows:
        for whole, parts in rules.sums.items():
            held = [row.cells[part] for part in parts if part in row.cells]
            if whole in row.cells and len(held) == len(parts):
                value, total = row.cells[whole], sum(held, Decimal(0))
                # Rounded parts add up to their rounded whole only within half a unit each.
                slack = 0.0 if all(x == x.to_integral_value() and x.as_tuple().exponent >= 0 for x in held) else sum(map(half_unit, held))
                allowed = slack + (half_unit(value) if slack else 0.0)
                fits = abs(float(value - total)) <= allowed + 1e-9
                yield _result(row, f"{whole} = {' + '.join(parts)}", value, float(total), AGREES if fits else DIFFERS)


def _shares(rows: Sequence[Row], rules: Rules, where: str) -> Iterator[dict]:
    for row in rows:
        for share, (parts, whole) in rules.shares.items():
            names = (share, *parts, whole)
            if not all(name in row.cells for name in names):
                continue
            n = _whole(row.cells[whole], row, whole, where)
            hits = sum(_whole(row.cells[part], row, part, where) or 0 for part in parts)
            quantity, value = f"{share} = ({' + '.join(parts)}) / {whole}", row.cells[share]
            if not n:
                yield _result(row, quantity, value, None, DIFFERS, "there are no cases, so there is no percentage")
                continue
            span, note = _span(_percent(value, rules), n)
            fits = span is not None and span[0] <= hits <= span[1]
            yield _result(
                row, quantity, value, (1 if rules.proportions else 100) * hits / n, AGREES if fits else DIFFERS, note if fits else None
            )


def _pooled(row: Row, sizes: Mapping[str, str], rules: Rules, where: str) -> tuple[int, int, int] | str | None:
    """Return least and most hits and cases over parts, or what is wrong with a part, or None where one is missing."""
    least = most = cases = 0
    for part, size in sizes.items():
        number = _number(size)
        n = _whole(number if number is not None else row.cells.get(size), row, size, where)
        if part not in row.cells or not n:
            return None
        span, _ = _span(_percent(row.cells[part], rules), n)
        if span is None:
            return f"no count of {n} gives {part} {row.cells[part]}"
        least, most, cases = least + span[0], most + span[1], cases + n
    return least, most, cases


def _against(row: Row, quantity: str, value: Decimal, pooled: tuple[int, int, int] | str, rules: Rules) -> dict:
    if isinstance(pooled, str):
        return _result(row, quantity, value, None, DIFFERS, pooled)
    least, most, cases = pooled
    span, note = _span(_percent(value, rules), cases)
    fits = span is not None and span[0] <= most and least <= span[1]
    told = f"{least} of {cases}" if least == most else f"{least} to {most} of {cases}"
    middle = (least + most) / 2
    return _result(
        row,
        quantity,
        value,
        (1 if rules.proportions else 100) * middle / cases,
        AGREES if fits else DIFFERS,
        "; ".join(filter(None, (told, note if fits else None))),
    )


def _pools(rows: Sequence[Row], rules: Rules, where: str) -> Iterator[dict]:
    for row in rows:
        for whole, sizes in rules.pools.items():
            if whole in row.cells and (pooled := _pooled(row, sizes, rules, where)) is not None:
                yield _against(row, f"{whole} from {', '.join(sizes)}", row.cells[whole], pooled, rules)


class _Parts:
    """What rows come to together; adding one costs the same however many there are."""

    def __init__(self) -> None:
        self.rows = 0
        #: Column → (rows that have a number there, their sum).
        self.sums: dict[str, tuple[int, Decimal]] = {}
        #: Percentage → (rows that have it and its cases, least hits, most hits, cases).
        self.hits: dict[str, tuple[int, int, int, int]] = {}
        #: Percentages that no count of their row gives.
        self.broken: set[str] = set()

    def add(self, numbers: Cells, spans: Mapping[str, tuple[tuple[int, int] | None, int]]) -> None:
        self.rows += 1
        for name, value in numbers.items():
            held, total = self.sums.get(name, (0, Decimal(0)))
            self.sums[name] = held + 1, total + value
        for name, (span, n) in spans.items():
            held, least, most, cases = self.hits.get(name, (0, 0, 0, 0))
            if span is None:
                self.broken.add(name)
            low, high = span or (0, 0)
            self.hits[name] = held + 1, least + low, most + high, cases + n

    def total(self, name: str) -> Decimal | None:
        """Return the sum of a column, None if a row has no number there."""
        held, total = self.sums.get(name, (0, Decimal(0)))
        return total if held == self.rows else None

    def pooled(self, name: str) -> tuple[int, int, int] | str | None:
        """Return what `_pooled` does, over rows."""
        held, *pooled = self.hits.get(name, (0, 0, 0, 0))
        if held < self.rows:
            return None
        return "a row it adds up has no count that gives its percentage" if name in self.broken else (pooled[0], pooled[1], pooled[2])


def _totals(rows: Sequence[Row], rules: Rules, where: str) -> Iterator[dict]:
    """Check a row called All, Total, Sum or Overall against the rows it may add up.

    Those are the rows of its group, wherever they stand; or all rows above that are no totals; or, where no column names a group, those
    since the last total. What fits best counts.
    """
    groups = _groups(rows)
    counted = {name for names in rules.sums.values() for name in names} | {name for names, _ in rules.shares.values() for name in names}
    counted |= set(rules.sums) | {whole for _, whole in rules.shares.values()}
    asked = [row for row, group in zip(rows, groups, strict=True) if group is not None]
    names = {name for row in asked for name in row.cells if name == "n" or name.startswith(("n_", "k_")) or name in counted}
    shares = {name for row in asked for name in _percentages(row, rules) if _number(rules.of.get(name, "")) is None}

    def parts_of(row: Row) -> tuple[Cells, dict[str, tuple[tuple[int, int] | None, int]]]:
        numbers = {name: value for name, value in row.cells.items() if name in names}
        cases = {name: _cases(row, name, rules, where) for name in row.cells if name in shares}
        return numbers, {name: (_span(_percent(row.cells[name], rules), n)[0], n) for name, n in cases.items() if n}

    found = [None if group is not None else parts_of(row) for row, group in zip(rows, groups, strict=True)]
    own = {group: _Parts() for group in groups if group is not None and any(group)}
    masks = {tuple(word is None for word in group) for group in own}
    for row, part in zip(rows, found, strict=True):
        for mask in masks if part is not None else ():
            key = tuple(None if masked else word for masked, word in zip(mask, _words(row), strict=True))
            if part is not None and key in own:
                own[key].add(*part)
    above, block = _Parts(), _Parts()
    for row, group, part in zip(rows, groups, found, strict=True):
        if part is not None:
            above.add(*part)
            block.add(*part)
            continue
        named = own.get(group or ())
        readings = [parts for parts in (named, above, block if named is None else None) if parts is not None and parts.rows]
        best: list[dict] | None = None
        if any(parts.rows > 1 for parts in readings):
            for parts in readings:
                told = " / ".join(word for word in group or () if word) if parts is named else ""
                results = list(_over(row, parts, names, shares, told, rules))
                if best is None or (len(results) >= len(best) and _differing(results) < _differing(best)):
                    best = results
        yield from best or ()
        block = _Parts()


def _words(row: Row) -> tuple[str, ...]:
    return row.words or (row.label,)


def _groups(rows: Sequence[Row]) -> list[tuple[str | None, ...] | None]:
    """Return for each total the words that name its group, None where it is over all of them; None for a row that is no total."""
    # A column that says "all" in every row, or nothing, tells no total from its parts.
    telling = [
        any(word.strip().casefold() not in TOTALS | NONE for word in column) for column in zip(*(_words(row) for row in rows), strict=True)
    ]
    found: list[tuple[str | None, ...] | None] = []
    for row in rows:
        words = [(word, word.strip().casefold()) for word in _words(row)]
        if not any(tells and plain in TOTALS for tells, (_, plain) in zip(telling, words, strict=True)):
            found.append(None)
            continue
        found.append(
            tuple(word if tells and plain not in TOTALS | NONE else None for tells, (word, plain) in zip(telling, words, strict=True))
        )
    return found


def _over(row: Row, parts: _Parts, names: Collection[str], shares: Collection[str], group: str, rules: Rules) -> Iterator[dict]:
    """Check a total against the rows it adds up; ``group`` names them if they are not all."""
    note = f"over the {parts.rows} of {group}" if group else None
    for name, value in row.cells.items():
        if name in names and (total := parts.total(name)) is not None:
            yield _result(row, f"{name} over the rows", value, float(total), AGREES if total == value else DIFFERS, note)
    for name in _percentages(row, rules):
        if name in shares and (pooled := parts.pooled(name)) is not None:
            yield _against(row, f"{name} over the rows", row.cells[name], pooled, rules)


def _differing(results: Iterable[dict]) -> int:
    return sum(result["status"] == DIFFERS for result in results)


def _evogains(rows: Sequence[Row], rules: Rules, where: str) -> Iterator[dict]:
    """Check EvoGain and EvoGain-Action against the scores beside them, over the chance level given or printed in the table."""
    named = [
        row for row in rows if {"t1", "t2_joint", "t3"} <= row.cells.keys() and re.search(r"random|chance|guess", row.label, re.IGNORECASE)
    ]
    baseline = rules.baseline or ([float(named[0].cells[name]) for name in ("t1", "t2_joint", "t3")] if named else None)
    chances = {row.line for row in named}
    for row in rows:
        for whole, t2, formula in (("evogain", "t2_joint", evogain), ("evogain_action", "t2_top1", evogain_action)):
            if whole not in row.cells or row.line in chances or not {"t1", t2, "t3"} <= row.cells.keys():
                continue
            value, printed = row.cells[whole], [row.cells[name] for name in ("t1", t2, "t3")]
            if baseline is None:
                yield _result(row, whole, value, None, NOT_DERIVABLE, "needs the chance level: a row named random or chance, or --baseline")
                continue
            chance = (baseline[0], baseline[1] if t2 == "t2_joint" else CHANCE_T2_ACTION, baseline[2])
            if any(b >= 100 for b in chance):
                raise InputError(where, "the chance level leaves no room above it", "give three percentages below 100")
            gain = formula(*map(float, printed), chance)
            # Each score may be off by half a unit, which the index carries on.
            slack = sum(half_unit(p) * 100 / (100 - b) for p, b in zip(printed, chance, strict=True)) / 3
            fits = abs(float(value) - gain) <= slack + half_unit(value) + 1e-9
            yield _result(
                row,
                f"{whole} from its parts",
                value,
                gain,
                AGREES if fits else DIFFERS,
                None if _near(value, gain) == AGREES or not fits else "within the rounding of its parts",
            )


def _kappas(rows: Sequence[Row], rules: Rules, where: str) -> Iterator[dict]:
    """Check whether any table of two raters has the kappa and the raw agreement that are printed."""
    for row in rows:
        if not {"kappa", "agreement"} <= row.cells.keys():
            continue
        value, n = row.cells["kappa"], _cases(row, "agreement", rules, where)
        categories = _whole(row.cells.get("categories"), row, "categories", where)
        if n is None or n == 0:
            yield _result(row, "kappa", value, None, NOT_DERIVABLE, "needs n, the number of rows both raters labelled")
            continue
        if categories is not None and categories < 2:
            yield _result(row, "kappa", value, None, DIFFERS, "with one category kappa is undefined")
            continue
        span, _ = _span(_percent(row.cells["agreement"], rules), n)
        if span is None:
            yield _result(row, "kappa", value, None, DIFFERS, "no count gives the agreement beside it")
            continue
        ranges = [expected_agreement(agree, n, categories) for agree in sorted(set(span))]
        least, most = min(low for low, _ in ranges), max(high for _, high in ranges)
        ends = [(agree / n - pe) / (1 - pe) for agree, pair in zip(sorted(set(span)), ranges, strict=True) for pe in pair if pe < 1]
        told = f"chance agreement between {least:.3f} and {most:.3f} is possible"
        if not ends:
            yield _result(row, "kappa", value, None, DIFFERS, "all rows agree on what may be one category; kappa is 1 or undefined")
            continue
        half = half_unit(value)
        low, high = min(ends), max(ends)
        if span == (n, n):
            low = high = 1.0
        fits = low - half - 1e-9 <= float(value) <= high + half + 1e-9
        yield _result(
            row,
            "kappa with this agreement",
            value,
            None,
            AGREES if fits else DIFFERS,
            f"{told}, so kappa lies from {low:.2f} to {high:.2f}",
        )


def parse_rules(options: Callable[[str], list[str]], baseline: str | None, confidence: float, proportions: bool) -> Rules:
    """Build the rules from the words of the command line."""
    of = dict(_pair("--of", text) for text in options("of"))
    sums = {whole: _list("--sum", parts, "+") for whole, parts in (_pair("--sum", text) for text in options("sum"))}
    shares, pools = {}, {}
    for text in options("share"):
        name, formula = _pair("--share", text)
        parts, slash, whole = formula.rpartition("/")
        if not slash:
            raise InputError(f"--share {one_line(text, 80)}", "names no column of cases", "write share=hits+hits/n")
        shares[name] = (_list("--share", parts, "+"), whole.strip())
    for text in options("pool"):
        name, formula = _pair("--pool", text)
        pools[name] = dict(_pair("--pool", part, ":") for part in _list("--pool", formula, "+"))
    chance = None
    if baseline is not None:
        numbers = [_number(word) for word in baseline.split(",")]
        if len(numbers) != 3 or None in numbers or not all(0 <= number < 100 for number in numbers if number is not None):
            raise InputError(f"--baseline {one_line(baseline, 80)}", "is not three percentages", "write for instance 8.0,15.0,49.9")
        chance = [float(number) for number in numbers if number is not None]
    if not 0.5 < confidence < 1:
        raise InputError(f"--confidence {confidence}", "is no level", "give for instance 0.95")
    return Rules(of, sums, shares, pools, chance, confidence, proportions)


def _pair(option: str, text: str, sign: str = "=") -> tuple[str, str]:
    name, found, rest = text.partition(sign)
    if not found or not name.strip() or not rest.strip():
        raise InputError(f"{option} {one_line(text, 80)}", f"is not name{sign}something", "see docs/check.md")
    return name.strip(), rest.strip()


def _list(option: str, text: str, sign: str) -> list[str]:
    parts = [part.strip() for part in text.split(sign)]
    if not all(parts):
        raise InputError(f"{option} {one_line(text, 80)}", "has an empty part", "see docs/check.md")
    return parts
