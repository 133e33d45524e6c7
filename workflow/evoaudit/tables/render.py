"""One table as Markdown for people, LaTeX for print."""

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evoaudit.errors import one_line
from evoaudit.tables.panel import GROUPS
from evoaudit.tables.spec import said

#: Kinds of columns that hold words.
WORDS = frozenset({"text", "name", "flag", "link"})
#: Printed lines above which LaTeX gets a table that may break over pages.
LONG = 42
#: Longest text, characters, that LaTeX sets on one line, and longest line of a heading.
NARROW, HEAD = 26, 12
#: LaTeX's sizes with the width of a character and the space around a column, points; a line is as wide as A4 between usual margins.
SIZES = (("", 5.1, 12.0), (r"\small", 4.7, 8.0), (r"\footnotesize", 4.3, 6.0), (r"\scriptsize", 3.8, 5.0))
LINE = 430.0
#: Least width of a column of running text, points.
COLUMN = 62.0

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "\N{SUPERSCRIPT TWO}": r"$^2$",
    "\N{EN DASH}": "--",
    "\N{EM DASH}": "---",
    "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
    "\N{RIGHTWARDS ARROW}": r"$\to$",
}


@dataclass(frozen=True)
class View:
    """A printed column: a declared one, with its interval folded in where it has one."""

    name: str
    head: str
    kind: str
    decimals: int | None
    best: str
    ends: tuple[str, str] | None


def number(value: float, decimals: int | None) -> str:
    """Return a number as people read it; four digits where no number of decimals is declared. Never a minus zero."""
    if decimals is None:
        text = f"{value:.0f}" if value == int(value) else f"{value:.4g}" if 1e-4 <= abs(value) < 1e4 else f"{value:.3e}"
    else:
        text = f"{value:.{decimals}f}"
    return text if re.search(r"[1-9]", text) else text.removeprefix("-")


def views(meta: dict, rows: Sequence[dict], extras: bool) -> list[View]:
    """Return the columns worth printing: intervals folded into their value, columns without a value left out."""
    columns = [column for column in meta["columns"] if column["name"] != "simulated" and (extras or not column["extra"])]
    names = {column["name"] for column in columns}
    pairs = {name.removesuffix("_low"): (name, f"{name.removesuffix('_low')}_high") for name in names if name.endswith("_low")}
    if {"low", "high"} <= names:
        pairs[next(name for name in ("difference", "value") if name in names)] = ("low", "high")
    folded = {end: base for base, pair in pairs.items() for end in pair}
    found = []
    for column in columns:
        name, base = column["name"], folded.get(column["name"])
        if column["extra"] and all(row[name] is None for row in rows):
            continue
        unit = f" ({column['unit']})" if column["unit"] else ""
        if base is None:
            found.append(View(name, f"{column['label']}{unit}", column["kind"], column["decimals"], column["best"], pairs.get(name)))
        elif base not in names and name == pairs[base][0]:  # an interval whose value is not a column stands alone
            head = f"{column['label'].removesuffix(' low')} interval{unit}"
            found.append(View("", head, column["kind"], column["decimals"], "", pairs[base]))
    return found


def _cell(view: View, row: dict) -> str:
    if not view.name:
        return _ends(view, row).strip()
    value = row[view.name]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or isinstance(value, str):
        return one_line((said(value) if view.kind == "name" and value else value) or "", 500)
    if view.kind == "p" and value < 0.5 * 10.0 ** -(view.decimals or 0):
        return f"<{10.0 ** -(view.decimals or 0):.{view.decimals}f}"
    return number(value, view.decimals) + _ends(view, row)


def _ends(view: View, row: dict) -> str:
    ends = [row[name] for name in view.ends or ()]
    return f" [{', '.join(number(end, view.decimals) for end in ends)}]" if ends and None not in ends else ""


def words(meta: dict) -> str:
    """Return what is to be known of a table's rows, as one line."""
    said = {"all": "All rows come from simulated data.", "some": "Some rows come from simulated data."}.get(meta["simulated"], "")
    return " ".join(part for part in (meta["note"], said) if part)


def markdown(meta: dict, rows: Sequence[dict]) -> str:
    """Return the table for people, rounded, with every column that has a value."""
    parts = [f"# {meta['title']}" + (f" ({meta['paper']})" if meta["paper"] else ""), ""]
    if not rows:
        parts.append(meta["empty"] or "No rows.")
    else:
        shown = views(meta, rows, extras=True)
        if meta["simulated"] == "some":
            shown.append(View("simulated", "simulated", "flag", None, "", None))
        heads, ruler = [view.head for view in shown], [":---" if view.kind in WORDS else "---:" for view in shown]
        lines = [[_cell(view, row) for view in shown] for row in rows]
        parts += ["| " + " | ".join(re.sub(r"[\\|<]", r"\\\g<0>", cell) for cell in line) + " |" for line in (heads, ruler, *lines)]
    if said := words(meta):
        parts += ["", said]
    return "\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Return text that LaTeX sets as it stands, words in back quotes as code."""
    plain = "".join(_ESCAPES.get(character, character) for character in one_line(text, 2000))
    return re.sub(r"`([^`]*)`", r"\\texttt{\1}", plain)


def _marks(view: View, rows: Sequence[dict]) -> Callable[[dict, str], str]:
    """Return how to mark a cell: best bold, second underlined, compared as printed; baselines take no part."""
    if not view.best:
        return lambda row, text: text

    def competes(row: dict) -> bool:
        return row[view.name] is not None and row.get("group") != GROUPS["baseline"]

    printed = sorted({round(row[view.name], view.decimals or 0) for row in rows if competes(row)}, reverse=view.best == "high")
    styles = dict(zip(printed, (r"\textbf{%s}", r"\underline{%s}"), strict=False)) if len(printed) > 1 else {}

    def mark(row: dict, text: str) -> str:
        return styles.get(round(row[view.name], view.decimals or 0), "%s") % text if competes(row) else text

    return mark


def _lines(head: str) -> list[str]:
    """Break a heading into short lines."""
    return textwrap.wrap(head, HEAD, break_long_words=False, break_on_hyphens=False) or [""]


def _heading(view: View) -> str:
    lines = [escape(line) for line in _lines(view.head)]
    side = "l" if view.kind in WORDS else "r"
    stacked = r" \\ ".join(lines)
    return stacked if len(lines) == 1 else f"\\begin{{tabular}}[b]{{@{{}}{side}@{{}}}}{stacked}\\end{{tabular}}"


def _layout(shown: Sequence[View], rows: Sequence[dict]) -> tuple[str, float, dict[str, float]]:
    """Return the largest size at which a table fits the line, the space around its columns, points, and the widths of its columns of text.

    Widths are shares of the line, of the columns that may wrap. Goes by the number of characters, which is near enough.
    """
    longest = {view.name: max(len(_cell(view, row)) for row in rows) for view in shown}
    heads = {view.name: max(map(len, _lines(view.head))) for view in shown}
    texts = sorted((view.name for view in shown if view.kind in ("text", "name")), key=lambda name: -longest[name])
    wrapped = [name for name in texts if longest[name] > NARROW]
    while True:
        for chosen in SIZES:
            size, point, space = chosen
            fixed = sum(point * max(longest[view.name], heads[view.name]) for view in shown if view.name not in wrapped)
            room = LINE - fixed - space * len(shown)
            if room >= COLUMN * len(wrapped):
                break
        left = [name for name in texts if name not in wrapped and longest[name] * point > COLUMN]
        if room >= COLUMN * len(wrapped) or not left:
            break
        wrapped.append(left[0])
    # Every column of text has its least width, and what is left goes to those that hold more.
    spare = max(0.0, room - COLUMN * len(wrapped))
    need = {name: max(1.0, min(point * longest[name], 400.0) - COLUMN) for name in wrapped}
    total = sum(need.values())
    return size, space, {name: (COLUMN + min(need[name], spare * need[name] / total)) / LINE for name in wrapped}


def _depth(shown: Sequence[View], rows: Sequence[dict], size: str, widths: dict[str, float]) -> float:
    """Return about how many lines the rows take."""
    point = next(point for name, point, _ in SIZES if name == size)
    wraps = [(view, LINE * widths[view.name]) for view in shown if view.name in widths]
    return sum(1 + max((point * len(_cell(view, row)) // width for view, width in wraps), default=0) for row in rows)


def latex(meta: dict, rows: Sequence[dict]) -> str:
    """Return the table for print: booktabs, grouped, best bold and second underlined."""
    title = escape(meta["title"]) + (f" ({escape(meta['paper'])})" if meta["paper"] else "")
    said = escape(words(meta)) if rows else escape(meta["empty"] or "No rows.")
    caption = f"{title}. {said}".rstrip()
    label = f"tab:{meta['name'].replace('_', '-')}"
    head = "% Needs the packages array, booktabs and, for tables over several pages, longtable.\n"
    if not rows:
        return head + f"\\begin{{table}}\n  \\caption{{{caption}}}\n  \\label{{{label}}}\n\\end{{table}}\n"
    group = meta["group"]
    shown = [view for view in views(meta, rows, extras=False) if view.name != group]
    size, space, widths = _layout(shown, rows)
    layout = "".join(
        f">{{\\raggedright\\arraybackslash}}p{{{widths[view.name]:.3f}\\linewidth}}"
        if view.name in widths
        else "l"
        if view.kind in WORDS
        else "r"
        for view in shown
    )
    marks = {view.name: _marks(view, rows) for view in shown}
    body, last = [], object()
    for row in rows:
        if group and row[group] != last:
            if body:
                body.append(r"\addlinespace")
            last = row[group]
            body.append(f"\\multicolumn{{{len(shown)}}}{{l}}{{\\textit{{{escape(str(last or ''))}}}}} \\\\")
        cells = []
        for view in shown:
            text = escape(_cell(view, row))
            if view.name in widths:
                text = re.sub(r"(?<=\w)(\\_|[/=.-])(?=\w)", r"\1\\allowbreak{}", text)
            text = re.sub(r"(?<![\w.])-(?=\d)", "$-$", text) if view.kind not in WORDS else text
            cells.append(marks[view.name](row, text))
        body.append(" & ".join(cells) + r" \\")
    heads = " & ".join(_heading(view) for view in shown) + r" \\"
    lines = "\n".join(f"    {line}" for line in body)
    ruled = f"    \\toprule\n    {heads}\n    \\midrule\n"
    setup = f"  {size}\\setlength{{\\tabcolsep}}{{{space / 2:.1f}pt}}\n" if size else ""
    if _depth(shown, rows, size, widths) + 1.5 * sum("multicolumn" in line for line in body) > LONG:
        return head + (
            f"\\begingroup\n{setup}\\begin{{longtable}}{{{layout}}}\n  \\caption{{{caption}}}\\label{{{label}}} \\\\\n"
            f"{ruled}  \\endfirsthead\n{ruled}  \\endhead\n{lines}\n    \\bottomrule\n\\end{{longtable}}\n\\endgroup\n"
        )
    return head + (
        f"\\begin{{table}}\n  \\centering\n  \\setlength{{\\belowcaptionskip}}{{5pt}}\n  \\caption{{{caption}}}\n"
        f"  \\label{{{label}}}\n{setup}  \\begin{{tabular}}{{{layout}}}\n"
        f"{ruled}{lines}\n    \\bottomrule\n  \\end{{tabular}}\n\\end{{table}}\n"
    )
