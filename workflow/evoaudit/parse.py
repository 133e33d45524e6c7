"""Read a model's answer: JSON first, then the label alone, and nothing else (EvoGUI A.3).

Decisions the paper leaves open:

- Every complete JSON object in the text counts, in a code fence or in prose; the *last* one that validates is the answer,
  since models that think aloud end with what they mean. An inner object counts only if the outer one lacks the field.
- Labels are compared without outer white space and without regard to case; values are never touched.
- `confidence` decides nothing: out of range or missing, it is None. A T2 value that is not a string is None, which no
  logged value equals.
- An object that holds the field but not a label is an answer outside the vocabulary: invalid. Only the field's own text
  is then searched for a label ("Candidate A").
- Without any such object the text is searched for one unambiguous label. Two labels, or a negation, are no answer.

Other rules are there to see what hangs on these: `RULES`.
"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

Path = Literal["json", "fallback", "invalid"]
#: `standard` is the above; `strict` wants the whole text to be one JSON object; `json` never searches for a label; `first` takes the
#: first valid object; `lenient`, where `standard` finds nothing, takes the last label or order that is named at all.
Rule = Literal["standard", "strict", "json", "first", "lenient"]

VOCABULARY = ("click", "type", "select")
LABELS = ("A", "B")

#: Characters read, from the end of the text.
LIMIT = 65_536
#: Characters the JSON decoder may go over in one text, repeats included; bounds hostile nesting.
WORK = 2_000_000
#: Longest text, in characters, in which a label that merely occurs is taken for the answer.
SHORT = 200

_FIELD = {"t1": "order", "t2": "action", "t3": "answer"}
#: Words that, followed by a label, announce it.
_NAMES = {"t2": "action|answer", "t3": "answer|choice"}
_NEGATION = re.compile(
    r"\b(?:not|no|never|neither|nor|none|cannot|un\w+|reject\w*|exclud\w*|impossible|rather|instead|except)\b|n['’]t\b", re.IGNORECASE
)
_LIST = re.compile(r"\[[\d\s,]{1,400}\]")
#: Numbers in a row, in brackets or not, as a lenient reader takes them for an order.
_ROW = re.compile(r"(?<![\w.])\d{1,4}(?:\s{0,3}(?:,|>|->|\N{RIGHTWARDS ARROW})\s{0,3}\d{1,4}){1,99}(?![\w.]\w)")
_CLASH = object()


def parse_answer(
    task: str,
    text: str | None,
    *,
    k: int | None = None,
    vocabulary: Sequence[str] = VOCABULARY,
    labels: Sequence[str] = LABELS,
    rule: Rule = "standard",
) -> tuple[dict[str, Any] | None, Path]:
    """Return the answer and how it was found; never raises for any text.

    ``k`` is the number of screens shown (T1; None accepts any complete permutation), ``vocabulary`` T2's actions, ``labels``
    T3's candidates. Answers are ``{"order"}``, ``{"action", "value", "confidence"}`` or ``{"answer", "confidence"}``.
    """
    task = task.lower()
    if task not in _FIELD:
        raise ValueError(f"no such task: {task}")
    if not isinstance(text, str):
        return None, "invalid"
    field, tail = _FIELD[task], text[-LIMIT:]
    names = tuple(vocabulary) if task == "t2" else tuple(labels)
    answer, outside = None, None
    for found in objects(tail, field) if rule != "strict" else _whole(text, field):
        valid = _order(found, k) if task == "t1" else _label(task, found, names)
        answer, outside = (answer or valid if rule == "first" else valid or answer), found
    if answer is not None:
        return answer, "json"
    if rule in ("strict", "json"):
        return None, "invalid"
    whole = tail
    if outside is not None:
        tail = outside[field] if isinstance(outside[field], str) else ""
    rescued = _lone_order(tail, k) if task == "t1" else _lone_label(task, tail[-LIMIT:], names)
    if rescued is None and rule == "lenient":
        rescued = _last_order(whole, k) if task == "t1" else _last_label(task, whole, names)
    return (rescued, "fallback") if rescued is not None else (None, "invalid")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; a key that is given two values has none."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        found[key] = value if key not in found or found[key] == value else _CLASH
    return found


def _refuse(constant: str) -> None:
    raise ValueError(constant)


# Line breaks inside strings are common in models' JSON and cost no meaning.
_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_refuse, strict=False)


def objects(text: str, field: str) -> Iterator[dict]:
    """Yield, in order, the outermost complete JSON objects that hold ``field``."""
    work, start = 0, text.find("{")
    while start >= 0 and work < WORK:
        following = start + 1
        try:
            found, end = _DECODER.raw_decode(text, start)
            work += end - start
            if field in found:
                yield found
                following = end
        except json.JSONDecodeError as error:
            work += max(error.pos - start, 1)
        except (ValueError, RecursionError):
            work += 10_000
        start = text.find("{", following)


def _whole(text: str, field: str) -> Iterator[dict]:
    """Yield the object that the text is, outer white space aside, if it is one and holds ``field``."""
    text = text.strip()
    if text.startswith("{") and len(text) <= LIMIT:
        try:
            found, end = _DECODER.raw_decode(text)
        except (ValueError, RecursionError):
            return
        if end == len(text) and field in found:
            yield found


def _order(found: dict, k: int | None) -> dict | None:
    order = found["order"]
    if not isinstance(order, list) or not all(type(position) is int for position in order):
        return None
    return {"order": order} if _complete(order, k) else None


def _complete(order: list[int], k: int | None) -> bool:
    n = len(order) if k is None else k
    return n > 0 and len(order) == n and sorted(order) == list(range(1, n + 1))


def _label(task: str, found: dict, names: tuple[str, ...]) -> dict | None:
    given = found[_FIELD[task]]
    if not isinstance(given, str):
        return None
    name = {name.casefold(): name for name in names}.get(given.strip().casefold())
    if name is None:
        return None
    answer = _answer(task, name)
    confidence = found.get("confidence")
    if isinstance(confidence, (int, float)) and not isinstance(confidence, bool) and 0 <= confidence <= 1:
        answer["confidence"] = float(confidence)
    if task == "t2" and isinstance(found.get("value"), str):
        answer["value"] = found["value"]
    return answer


def _answer(task: str, name: str) -> dict:
    return {"action": name, "value": None, "confidence": None} if task == "t2" else {"answer": name, "confidence": None}


def _lone_order(text: str, k: int | None) -> dict | None:
    """Return the one complete permutation that stands in brackets."""
    found = set()
    for match in _LIST.finditer(text):
        numbers = re.findall(r"\d+", match[0])
        if len(numbers) > 1 and all(len(number) < 5 for number in numbers) and _complete([int(n) for n in numbers], k):
            found.add(tuple(map(int, numbers)))
    return {"order": list(found.pop())} if len(found) == 1 else None


def _last_order(text: str, k: int | None) -> dict | None:
    """Return the last complete permutation that stands in the text."""
    found = [[int(number) for number in re.findall(r"\d+", match[0])] for match in _ROW.finditer(text)]
    return next(({"order": order} for order in reversed(found) if _complete(order, k)), None)


class _Patterns(NamedTuple):
    named: re.Pattern
    lone: re.Pattern


@lru_cache(maxsize=64)
def _patterns(task: str, names: tuple[str, ...]) -> _Patterns:
    # A single letter is a label in capitals only, or the article would be one.
    label = "|".join(re.escape(name) if len(name) == 1 else f"(?i:{re.escape(name)})" for name in sorted(names, key=len, reverse=True))
    opening, closing = r"['\"`*(\[{]*", r"['\"`*)\]}]*"
    return _Patterns(
        re.compile(
            rf"\b(?i:{_NAMES[task]})\b['\"`*]*\s*(?:(?i:is|was|:|=)\s*)+{opening}({label})\b(?:{closing}\s*(?:or|and|/|\||,)\s*{opening}({label})\b)?"
        ),
        re.compile(rf"(?<![\w-])({label})(?![\w-])(?!\s+of\b)"),
    )


def _lone_label(task: str, text: str, names: tuple[str, ...]) -> dict | None:
    """Return the one label the text names: as all it says, after the word for it, or alone in a short, positive sentence."""
    if not names:
        return None
    known = {name.casefold(): name for name in names}
    bare = text.strip(" \t\r\n'\"`*()[]{}.:;!").casefold()
    if bare in known:
        return _answer(task, known[bare])
    patterns = _patterns(task, names)
    found = {known[label.casefold()] for match in patterns.named.finditer(text) for label in match.groups() if label}
    if not found and len(text.strip()) <= SHORT and not _NEGATION.search(text):
        mentions = list(patterns.lone.finditer(text))
        found = {known[match[1].casefold()] for match in mentions}
        # "A user …" may be an article: it can cast doubt on another label, but is none itself.
        if all(match[1] in ("A", "I") and re.match(r"\s+[a-z]", text[match.end() :]) for match in mentions):
            found = set()
    return _answer(task, found.pop()) if len(found) == 1 else None


def _last_label(task: str, text: str, names: tuple[str, ...]) -> dict | None:
    """Return the last label the text names, doubted or not."""
    known = {name.casefold(): name for name in names}
    mentions = list(_patterns(task, names).lone.finditer(text)) if names else []
    return _answer(task, known[mentions[-1][1].casefold()]) if mentions else None
