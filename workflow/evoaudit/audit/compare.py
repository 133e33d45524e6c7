"""Type-aware comparison of an answer with a reference: does it say the same, whatever form it takes?

Released checkers compare strings; most of their false negatives are the same value in another form. The comparators
here decide conservatively: what they cannot show to be equal is not equal.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from urllib.parse import unquote, urlsplit

#: Longer answers are cut before they are compared; bounds time on hostile input.
LIMIT = 4000
#: A sentence may state a short reference; a page of prose that happens to contain it may not.
SENTENCE_TOKENS = 60


@dataclass(frozen=True, slots=True)
class Match:
    """Whether two texts say the same, and how that was found (``number``, ``date``, ``list``, ``text`` …)."""

    equal: bool
    kind: str


NONE = Match(False, "none")


def compare(answer: str | None, reference: str | None, question: str | None = None) -> Match:
    """Compare an answer with a reference.

    ``question`` is the goal: numbers it contains may be echoed in the answer without counting as a second value.
    """
    if not answer or not reference or not answer.strip() or not reference.strip():
        return NONE
    answer, reference = fold(answer[:LIMIT]), fold(reference[:LIMIT])
    asked = fold((question or "")[:LIMIT])
    found = NONE
    for alternative in re.split(r"\s*\|or\|\s*", reference):
        if alternative.strip():
            found = _one(answer, alternative.strip(), asked)
        if found.equal:
            return Match(True, "alternative") if found.kind == "text" and alternative != reference else found
    return found


def _one(answer: str, reference: str, asked: str) -> Match:
    items = _unwrap(reference)
    given = _unwrap(answer)
    if len(items) == 1 and _INFEASIBLE_REFERENCE.fullmatch(_bare(items[0])):
        return Match(bool(_INFEASIBLE_CLAIM.search(answer)), "infeasible")
    if len(items) == 1 and len(given) == 1:
        scalar = _scalar(given[0], items[0])
        if scalar is not None and (scalar.equal or scalar.kind == "identifier"):
            return scalar
        listed = _list(given[0], items[0])
        if listed is not None and (listed.equal or len(_split(given[0])) > len(_split(items[0]))):
            return listed
        stated = _stated(given[0], items[0], asked)
        return stated if stated.equal else (listed or scalar or stated)
    if len(items) == 1:
        items = _split(items[0]) or items
    return Match(_same_items(given if len(given) > 1 else _split(given[0]) or given, items), "list")


_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "−": "-", "–": "-", "—": "-", "\u00a0": " ", "\u202f": " ", "\u2009": " "})
_TOKEN = re.compile(r"\d+(?:[.,:]\d+)*(?![^\W\d_])|[^\W_]+(?:'[^\W\d_]+)?")
_STOP = frozenset(
    (
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "for",
        "from",
        "in",
        "is",
        "it",
        "its",
        "of",
        "on",
        "or",
        "that",
        "the",
        "there",
        "to",
        "was",
        "were",
        "with",
    )
)
_VARIANTS = {
    "cancelled": "canceled",
    "cancelling": "canceling",
    "cancellation": "cancelation",
    "completed": "complete",
    "colour": "color",
    "favourite": "favorite",
    "favour": "favor",
    "flavour": "flavor",
    "behaviour": "behavior",
    "neighbour": "neighbor",
    "honour": "honor",
    "labour": "labor",
    "grey": "gray",
    "centre": "center",
    "theatre": "theater",
    "metre": "meter",
    "litre": "liter",
    "fibre": "fiber",
    "travelled": "traveled",
    "travelling": "traveling",
    "traveller": "traveler",
    "labelled": "labeled",
    "modelling": "modeling",
    "catalogue": "catalog",
    "dialogue": "dialog",
    "programme": "program",
    "licence": "license",
    "defence": "defense",
    "jewellery": "jewelry",
    "tyre": "tire",
    "aluminium": "aluminum",
    "enquiry": "inquiry",
    "cheque": "check",
    "storey": "story",
}
_NUMBER_WORDS = {
    word: str(n)
    for n, word in enumerate(
        (
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
            "twenty",
        )
    )
}
_MONTHS = {
    name: n + 1
    for n, name in enumerate(
        ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december")
    )
}
_MONTHS |= {name[:3]: n for name, n in list(_MONTHS.items())} | {"sept": 9}
_MONTH_NAMES = {n: name for name, n in _MONTHS.items() if len(name) > 3 and name != "sept"} | {5: "may"}


def fold(text: str) -> str:
    """Return one canonical spelling: compatibility forms, quotes, dashes, case and white space (lines are kept)."""
    text = unicodedata.normalize("NFKC", text.translate(_QUOTES)).translate(_QUOTES).casefold()
    return "\n".join(line for raw in text.splitlines() if (line := " ".join(raw.split())))


def _bare(text: str) -> str:
    """Strip outer quotes, brackets and final punctuation."""
    previous = None
    while text != previous:
        previous, text = text, text.strip().strip("\"'`*").rstrip(".!;,").strip()
        if len(text) > 1 and text[0] + text[-1] in ("()", "[]", "{}") and text[0] not in text[1:-1]:
            text = text[1:-1]
    return text


def _stem(token: str) -> str:
    """Bring a word to one spelling and to the singular."""
    token = _VARIANTS.get(token.removesuffix("'s"), token.removesuffix("'s"))
    token = _NUMBER_WORDS.get(token, token)
    if token in _MONTHS:
        return _MONTH_NAMES[_MONTHS[token]]
    token = re.sub(r"is(ations?|ed|ing|er|ers|e|es)$", r"iz\1", token) if len(token) > 6 else token
    if len(token) > 4 and token.endswith("ies"):
        return token[:-3] + "y"
    if len(token) > 4 and token.endswith(("sses", "shes", "ches", "xes", "zzes")):
        return token[:-2]
    if len(token) > 3 and token.endswith("s") and not token.endswith(("ss", "us", "is")):
        token = token[:-1]
        return _VARIANTS.get(token, token)
    return token


def tokens(text: str) -> list[str]:
    """Return comparable words and numbers of a text."""
    found = []
    for token in _TOKEN.findall(fold(text)):
        if token[0].isdigit() and not re.fullmatch(r"0\d+", token) and (number := _number(token)) is not None:
            found.append(format(number.normalize(), "f"))
        else:
            found.append(_stem(token))
    return found


def _content(text: str) -> list[str]:
    return [token for token in tokens(text) if token not in _STOP]


_CURRENCIES = {
    "$": "usd",
    "us$": "usd",
    "usd": "usd",
    "dollar": "usd",
    "dollars": "usd",
    "€": "eur",
    "eur": "eur",
    "euro": "eur",
    "euros": "eur",
    "£": "gbp",
    "gbp": "gbp",
    "¥": "jpy",
    "jpy": "jpy",
    "yen": "jpy",
    "₹": "inr",
    "inr": "inr",
    "chf": "chf",
    "cad": "cad",
    "aud": "aud",
}
_UNITS: dict[str, tuple[str, Decimal]] = {}
for _dimension, _table in {
    "length": {
        "mm": "0.001",
        "cm": "0.01",
        "m": "1",
        "meter": "1",
        "meters": "1",
        "metre": "1",
        "metres": "1",
        "km": "1000",
        "kilometer": "1000",
        "kilometers": "1000",
        "in": "0.0254",
        "inch": "0.0254",
        "inches": "0.0254",
        '"': "0.0254",
        "ft": "0.3048",
        "foot": "0.3048",
        "feet": "0.3048",
        "yd": "0.9144",
        "yard": "0.9144",
        "yards": "0.9144",
        "mi": "1609.344",
        "mile": "1609.344",
        "miles": "1609.344",
    },
    "mass": {
        "mg": "0.000001",
        "g": "0.001",
        "gram": "0.001",
        "grams": "0.001",
        "kg": "1",
        "kilogram": "1",
        "kilograms": "1",
        "oz": "0.028349523125",
        "ounce": "0.028349523125",
        "ounces": "0.028349523125",
        "lb": "0.45359237",
        "lbs": "0.45359237",
    },
    "time": {
        "ms": "0.001",
        "s": "1",
        "sec": "1",
        "secs": "1",
        "second": "1",
        "seconds": "1",
        "min": "60",
        "mins": "60",
        "minute": "60",
        "minutes": "60",
        "h": "3600",
        "hr": "3600",
        "hrs": "3600",
        "hour": "3600",
        "hours": "3600",
        "day": "86400",
        "days": "86400",
        "week": "604800",
        "weeks": "604800",
    },
    "data": {"kb": "1000", "mb": "1000000", "gb": "1000000000", "tb": "1000000000000"},
    "percent": {"%": "1", "percent": "1", "pct": "1"},
    "temperature_c": {"°c": "1", "celsius": "1"},
    "temperature_f": {"°f": "1", "fahrenheit": "1"},
}.items():
    for _name, _factor in _table.items():
        _UNITS[_name] = (_dimension, Decimal(_factor))
_SCALES = {"thousand": Decimal(1000), "million": Decimal(10) ** 6, "billion": Decimal(10) ** 9}

_NUM = r"\d{1,3}(?:[,' ]\d{3})+(?:\.\d+)?(?!\d)|\d{1,3}(?:\.\d{3})+,\d+|\d+(?:[.,]\d+)?|\.\d+"
_QUANTITY = re.compile(
    r"(?<![^\W_])(?<!\d[.,])(?P<sign>[-+])?(?P<before>us\$|[$€£¥₹]|\b(?:usd|eur|gbp|jpy|inr|chf|cad|aud)\b)?\s?(?P<sign2>[-+])?"
    rf"(?P<number>{_NUM})(?P<after>\s?[$€£¥₹%\"]|\s?°[cf]|\s?[^\W\d_]+)?"
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit: value in the dimension's base unit, or as it stands if the unit is unknown or absent."""

    value: Decimal
    unit: str | None
    start: int
    end: int


def _number(text: str) -> Decimal | None:
    """Parse one number; a lone comma groups thousands if exactly three digits follow, else marks decimals."""
    text = text.replace(" ", "").replace("'", "")
    if "," in text and "." in text:
        grouping = "," if text.rindex(".") > text.rindex(",") else "."
        text = text.replace(grouping, "").replace(",", ".")
    elif "," in text:
        text = text.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", text) else text.replace(",", ".")
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def quantities(text: str) -> list[Quantity]:
    """Return the numbers of a folded text with their units; times given in several units are added up."""
    found: list[Quantity] = []
    for match in _QUANTITY.finditer(text):
        value = _number(match["number"])
        if value is None or _IDENTIFIER.fullmatch(match["number"]):
            continue
        if "-" in (match["sign"], match["sign2"]):
            value = -value
        after, unit, end = (match["after"] or "").strip(), None, match.end("number")
        if after in _SCALES:
            value, end = value * _SCALES[after], match.end()
            after = ""
        if match["before"] or after in _CURRENCIES:
            unit = "money:" + _CURRENCIES[match["before"] or after]
            end = end if match["before"] else match.end()
        elif after in _UNITS:
            unit, factor = _UNITS[after]
            value, end = value * factor, match.end()
        previous = found[-1] if found else None
        if unit == "time" and previous and previous.unit == "time" and re.fullmatch(r"[\s,]*(and )?", text[previous.end : match.start()]):
            found[-1] = Quantity(previous.value + value, "time", previous.start, end)
        else:
            found.append(Quantity(value, unit, match.start(), end))
    return found


def _as_quantity(text: str) -> tuple[Quantity, str] | None:
    """Parse a text that is nothing but one quantity; the second part is the noun it counts, if any."""
    for word, digits in _NUMBER_WORDS.items():
        text = re.sub(rf"^{word}\b", digits, text)
    found = quantities(text)
    if len(found) != 1 or text[: found[0].start].strip(" ~#"):
        return None
    noun = text[found[0].end :].strip()
    if noun and not re.fullmatch(r"[^\W\d_]+( [^\W\d_]+)?", noun):
        return None
    return found[0], " ".join(map(_stem, noun.split()))


_MONTH = "(?P<month>" + "|".join(sorted(_MONTHS, key=lambda name: (-len(name), name))) + r")\b\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"
_WRITTEN = [
    re.compile(pattern)
    for pattern in (rf"\b{_MONTH} {_DAY}\b(?:,? {_YEAR}\b)?", rf"\b{_DAY} (?:of )?{_MONTH}(?:,? {_YEAR}\b)?", rf"\b{_MONTH},? {_YEAR}\b")
]
_ISO = re.compile(r"\b(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})(?:t[\d:.]+z?)?\b")
_SLASH = re.compile(r"\b(?P<a>\d{1,2})[/.-](?P<b>\d{1,2})[/.-](?P<year>\d{4}|\d{2})\b")
_CLOCK = re.compile(
    r"\b(?P<h>\d{1,2})(?::(?P<m>\d{2}))?(?::\d{2})?\s?(?P<half>[ap])\.?m\b\.?|\b(?P<h24>\d{1,2}):(?P<m24>\d{2})(?::\d{2})?\b"
)


@dataclass(frozen=True, slots=True)
class Date:
    """A calendar date; a part that was not given is None. ``readings`` holds both orders of an ambiguous slash date."""

    readings: frozenset[tuple[int | None, int, int | None]]
    start: int
    end: int
    slashed: tuple[int, int, int] | None = None


def dates(text: str) -> list[Date]:
    """Return the dates of a folded text, without overlaps, in order."""
    found: list[Date] = []

    def add(date: Date) -> None:
        if date.readings and all(date.end <= other.start or date.start >= other.end for other in found):
            found.append(date)

    for match in _ISO.finditer(text):
        add(Date(_readings(int(match["year"]), int(match["month"]), int(match["day"])), *match.span()))
    for pattern in _WRITTEN:
        for match in pattern.finditer(text):
            parts = match.groupdict()
            year, day = parts.get("year"), parts.get("day")
            add(Date(_readings(int(year) if year else None, _MONTHS[parts["month"]], int(day) if day else None), *match.span()))
    for match in _SLASH.finditer(text):
        a, b, year = int(match["a"]), int(match["b"]), int(match["year"])
        year += 2000 if year < 100 else 0
        add(Date(_readings(year, a, b) | _readings(year, b, a), *match.span(), slashed=(a, b, year)))
    return sorted(found, key=lambda date: date.start)


def _readings(year: int | None, month: int, day: int | None) -> frozenset:
    return frozenset({(year, month, day)} if 1 <= month <= 12 and (day is None or 1 <= day <= 31) else ())


def _covers(answer: Date, reference: Date) -> bool:
    """Say whether an answer's date says at least what the reference says; two slash dates must be written alike."""
    if answer.slashed and reference.slashed:
        return answer.slashed == reference.slashed
    return any(
        all(want is None or want == have for have, want in zip(a, r, strict=True)) for a in answer.readings for r in reference.readings
    )


def _as_date(text: str) -> Date | None:
    text = re.sub(r"^(mon|tues?|wed(nes)?|thu(rs)?|fri|sat(ur)?|sun)(day)?,? ", "", text)
    if text in _MONTHS:
        return Date(_readings(None, _MONTHS[text], None), 0, len(text))
    found = dates(text)
    return found[0] if len(found) == 1 and (found[0].start, found[0].end) == (0, len(text)) else None


def _clocks(text: str) -> list[tuple[int, int]]:
    found = []
    for match in _CLOCK.finditer(text):
        if match["half"]:
            found.append((int(match["h"]) % 12 + (12 if match["half"] == "p" else 0), int(match["m"] or 0)))
        else:
            found.append((int(match["h24"]), int(match["m24"])))
    return found


def _as_url(text: str) -> tuple | None:
    """Return the parts of an address that matter: host without www, path without final slash, query, fragment."""
    if not re.fullmatch(r"(https?://)?[\w.-]+\.[a-z]{2,}(:\d+)?(/\S*)?|https?://\S+", text):
        return None
    try:
        parts = urlsplit(text if "://" in text else "//" + text)
    except ValueError:
        return None
    return parts.netloc.removeprefix("www."), unquote(parts.path).rstrip("/"), parts.query, parts.fragment


_INFEASIBLE_REFERENCE = re.compile(r"n/?a|not (applicable|possible|available)|infeasible|impossible|unachievable|none of the above")
_INFEASIBLE_CLAIM = re.compile(
    r"\bn/a\b|\bnot applicable\b|\bimpossible\b|\binfeasible\b|\bunachievable\b|\bnot (possible|feasible|supported|available|offered)\b"
    r"|\b(can(not|'t)|could(n't| not)) be (done|completed|achieved|found|fulfilled)\b|\b(does not|doesn't|do not|don't) exist\b|\bno such\b"
    r"|\bthere (is|are|was|were) no\b"
)
_IDENTIFIER = re.compile(r"#?0\d+")
_NEGATION = frozenset(
    {"not", "no", "never", "without", "neither", "nor", "isn't", "wasn't", "aren't", "don't", "doesn't", "either", "or", "unless"}
)


def _scalar(answer: str, reference: str) -> Match | None:
    """Compare two single values of one type; None if they have no type in common."""
    a, r = _bare(answer), _bare(reference)
    if a == r:
        return Match(True, "text")
    if _IDENTIFIER.fullmatch(r) or _IDENTIFIER.fullmatch(a):
        return Match(a.lstrip("#") == r.lstrip("#"), "identifier") if re.fullmatch(r"#?\d+", a) and re.fullmatch(r"#?\d+", r) else None
    url_a, url_r = _as_url(a), _as_url(r)
    if url_a and url_r:
        return Match(url_a == url_r, "url")
    date_a, date_r = _as_date(a), _as_date(r)
    if date_a and date_r:
        return Match(_covers(date_a, date_r), "date")
    clock_a, clock_r = _clocks(a), _clocks(r)
    if len(clock_a) == len(clock_r) == 1 and _CLOCK.fullmatch(a) and _CLOCK.fullmatch(r):
        return Match(clock_a == clock_r, "time")
    quantity_a, quantity_r = _as_quantity(a), _as_quantity(r)
    if quantity_a and quantity_r:
        (value_a, noun_a), (value_r, noun_r) = quantity_a, quantity_r
        same_noun = not (noun_a and noun_r) or noun_a == noun_r
        return Match(same_noun and _agree(a, value_a, r, value_r), "number")
    words_a, words_r = tokens(a), tokens(r)
    if words_a and words_a == words_r:
        return Match(True, "spelling")
    if words_a and words_r and (("," in a) != ("," in r)) and tokens(_turned(a)) == tokens(_turned(r)):
        return Match(True, "name")
    return None


def _turned(text: str) -> str:
    """Return ``Given Family`` for ``Family, Given``, and any other text as it is."""
    match = re.fullmatch(r"([^\W\d_][^,\d]*), ([^\W\d_][^,\d]*)", text)
    return f"{match[2]} {match[1]}" if match else text


def _agree(a: str, value_a: Quantity, r: str, value_r: Quantity) -> bool:
    """Compare two quantities.

    A missing unit agrees with any, since people leave it out; then the numbers as written must be equal.
    """
    if bool(value_a.unit) != bool(value_r.unit):
        written = [_number(match["number"]) for text in (a, r) for match in [_QUANTITY.search(text)] if match]
        return len(written) == 2 and written[0] == written[1] and (value_a.value < 0) == (value_r.value < 0)
    return value_a.unit == value_r.unit and value_a.value == value_r.value


def _unwrap(text: str) -> list[str]:
    """Return the leaves of a JSON list or object of answers, or the text itself."""
    bare = text.strip()
    if bare[:1] in '["{':
        try:
            value = json.loads(bare)
        except (ValueError, RecursionError):
            value = None
        if value is not None:
            leaves = [leaf for leaf in _leaves(value) if leaf]
            return leaves or [text]
    return [text]


def _leaves(value: object, depth: int = 0) -> Iterator[str]:
    if depth > 8:
        return
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value[:500]:
            yield from _leaves(part, depth + 1)
    elif value is not None:
        yield fold(str(value))


def _split(text: str) -> list[str]:
    """Split a written list into its items; a single value gives an empty list."""
    if re.match(r"\s*1[.)] ", text) and re.search(r"\s2[.)] ", text):
        text = re.sub(r"(?:^|\s)\d{1,2}[.)] ", "\n", text)
    text = re.sub(r"(?m)^\s*(?:[-*•]|\d{1,2}[.)])\s+", "\n", text).strip()
    for separator in (r"\n+", r"\s*;\s*", r"\s*\|\s*", r",\s+(?:and |or )?|,(?=[^\d\s])|(?<=\D),(?=\d)|\s+and\s+", r"\s+&\s+"):
        parts = [part for raw in re.split(separator, text) if (part := _bare(raw.removeprefix("and ")))]
        if len(parts) > 1:
            return parts[:500]
    return []


def _list(answer: str, reference: str) -> Match | None:
    """Compare written lists without regard to order; None if the reference is no list."""
    wanted = _split(reference)
    if len(wanted) < 2 or _as_date(_bare(reference)):
        return None
    bodies = [answer]
    if ":" in answer:
        bodies.append(answer.split(":", 1)[1])
    if stated := re.search(r"\b(?:is|are|were|was) ", answer):
        bodies.append(answer[stated.end() :])
    return Match(any(_same_items(_split(body) or [_bare(body)], wanted) for body in bodies), "list")


def _same_items(given: list[str], wanted: list[str]) -> bool:
    """Pair items one to one."""
    if len(given) != len(wanted):
        return False
    left = list(wanted)
    for item in given:
        hit = next((other for other in left if _same_item(item, other)), None)
        if hit is None:
            return False
        left.remove(hit)
    return True


def _same_item(a: str, b: str) -> bool:
    scalar = _scalar(a, b)
    if scalar is not None:
        return scalar.equal
    return bool(_content(a)) and sorted(_content(a)) == sorted(_content(b))


def _stated(answer: str, reference: str, asked: str) -> Match:
    """Say whether a sentence states the reference as its one value."""
    r = _bare(reference)
    if len(_TOKEN.findall(answer)) > max(SENTENCE_TOKENS, 4 * len(_TOKEN.findall(r))):
        return NONE
    if _IDENTIFIER.fullmatch(r):
        found = set(re.findall(r"(?<![\w.,])\d{2,}(?![\w])", answer))
        return Match(found == {r.lstrip("#")}, "identifier")
    if date := _as_date(r):
        echoed = [other.readings for other in dates(asked)]
        found = [other for other in dates(answer) if other.readings not in echoed or _covers(other, date)]
        return Match(bool(found) and all(_covers(other, date) for other in found), "date")
    if clocks := (_clocks(r) if _CLOCK.fullmatch(r) else []):
        return Match(set(_clocks(answer)) == set(clocks), "time")
    if quantity := _as_quantity(r):
        return _stated_quantity(answer, r, quantity[0], quantity[1], asked)
    return _stated_text(answer, r)


def _stated_quantity(answer: str, reference: str, value: Quantity, noun: str, asked: str) -> Match:
    for word, digits in _NUMBER_WORDS.items():
        answer = re.sub(rf"\b{word}\b", digits, answer) if word != "one" else re.sub(r"\b(is|are|was|were|:) one\b", r"\1 1", answer)
    spans = [(date.start, date.end) for date in dates(answer)]
    found = [other for other in quantities(answer) if not any(start <= other.start < end for start, end in spans)]
    echoed = {other.value for other in quantities(asked)} - {value.value}
    found = [other for other in found if other.value not in echoed]
    if value.unit and any(other.unit == value.unit for other in found):
        found = [other for other in found if other.unit == value.unit]
    hits = [_agree(answer[other.start :], other, reference, value) for other in found]
    if not found or not all(hits):
        return Match(False, "number")
    if noun and value.unit is None:
        return Match(all(_stem(word) in tokens(answer) for word in noun.split()), "number")
    return Match(True, "number")


def _stated_text(answer: str, reference: str) -> Match:
    wanted, given = tokens(reference), tokens(answer)
    if not wanted or len(wanted) > len(given):
        return NONE
    if len(wanted) == 1 and (wanted[0] in _STOP or wanted[0] in ("yes", "no", "true", "false")):
        return Match(given[0] == wanted[0], "text")
    if len(wanted) == 1 and len(wanted[0]) < 3:
        return NONE
    spans = list(_TOKEN.finditer(answer))
    raw = [span[0] for span in spans]
    for start in range(len(given) - len(wanted) + 1):
        stop = start + len(wanted)
        if given[start:stop] != wanted:
            continue
        if _SEPARATOR.search(answer[spans[start].end() : spans[stop - 1].start()]) and not _SEPARATOR.search(reference):
            continue  # two items of a list that happen to be neighbours
        around = {*raw[max(0, start - 3) : start], *raw[stop : stop + 1]}
        if not around & (_NEGATION - set(_TOKEN.findall(reference))):
            return Match(True, "text")
    return NONE


_SEPARATOR = re.compile(r"[,;|\n]")
_ASKS = re.compile(
    r"\?|\banswer with\b|\b(?:tell|give|show) me\b|^(?:what|which|who|when|where|how (?:much|many|long|far|old))\b|\breturn (?:the|a|your) "
)


def asks(goal: str | None) -> bool:
    """Say whether a goal asks for an answer rather than for a state."""
    return bool(_ASKS.search(fold((goal or "")[:LIMIT])))


_KEY = re.compile(r"[^\W\d][\w.\-/()#]*( [\w.\-/()#]+){0,5}")


def parse_state(reference: str | None) -> dict[str, str] | None:
    """Parse a reference of the form ``key=value; key=value``; None if it is not one."""
    if not reference:
        return None
    parts = [part.strip() for part in reference.split(";") if part.strip()]
    pairs = [part.partition("=") for part in parts]
    if not pairs or any(not (key.strip() and separator and value.strip()) for key, separator, value in pairs):
        return None
    if any(not _KEY.fullmatch(key.strip()) for key, _, _ in pairs):
        return None
    return {key.strip(): value.strip() for key, _, value in pairs}


def same_value(a: str, b: str) -> bool:
    """Say whether two values of one field are the same in another form."""
    scalar = _scalar(fold(a), fold(b))
    return scalar.equal if scalar is not None else bool(tokens(a)) and tokens(a) == tokens(b)
