"""How values become words: numbers rounded for people, text from logs made safe and short."""

import json
import math
import re
from collections.abc import Iterable
from typing import Any

from markupsafe import Markup, escape

from evoaudit.errors import one_line

#: Longest text of a cell, characters; the downloads hold the whole.
CELL = 240
MINUS, DASH = "\N{MINUS SIGN}", "\N{EN DASH}"


def plain(value: object, limit: int = CELL) -> str:
    """Return text from a log as one short line, with everything that could hide or reorder it spelled out."""
    return one_line(re.sub(r"\s+", " ", str(value)).strip(), limit)


def code(text: str) -> Markup:
    """Escape text for the page and set what stands in back quotes as code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def number(value: Any, decimals: int | None = None) -> str:
    """Write a number for people: thousands grouped, a true minus sign, ``decimals`` places where they are declared."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and math.isinf(value):
        return f"{MINUS if value < 0 else ''}∞"
    if isinstance(value, int) or decimals == 0:
        text = f"{round(value):,}"
    elif decimals is None:
        text = f"{value:,.0f}" if value == int(value) or abs(value) >= 1e6 else f"{value:,.4g}"
    else:
        text = f"{value:,.{decimals}f}"
    # A value that rounds to nothing has no sign.
    return text.removeprefix("-") if not re.search(r"[1-9]", text) else text.replace("-", MINUS)


def count(n: int, one: str, many: str | None = None) -> str:
    """Write a count with its noun."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def listed(parts: Iterable[str]) -> str:
    """Join phrases with commas and a final `and`."""
    *head, last = list(parts) or [""]
    return f"{', '.join(head)} and {last}" if head else last


def cell(value: Any, limit: int = CELL) -> str:
    """Write any cell that is not a number: booleans in words, lists and structs as short JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, (list, dict)):
        return plain(json.dumps(value, ensure_ascii=False, sort_keys=True, default=str), limit)
    return plain(value, limit)


def settings(config: Any, limit: int = 400) -> str:
    """Write a stage's settings as `name = value` phrases, in order of name."""
    if not isinstance(config, dict):
        return cell(config, limit)
    parts = [f"{name} = {_short(value)}" for name, value in sorted(config.items()) if value not in (None, "", [], {})]
    return plain("; ".join(parts), limit) if parts else "no settings"


def _short(value: Any) -> str:
    if isinstance(value, str):
        return value[:12] + "…" if re.fullmatch(r"[0-9a-f]{32,}", value) else value
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_short(inner)}" for name, inner in sorted(value.items())) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_short, value)) + "]"
    return "yes" if value is True else "no" if value is False else str(value)
