"""A judge's reply: the shape it is asked for, made from the codebook, and what is read from it, nowhere but in the reply itself.

The layout is forgiven, the codes are not: JSON may stand in a code fence or in prose, but a code the codebook does not have, a
category that does not go with its verdict, and a step that is not in the log make a reply unusable. So do two answers that differ:
which of them was meant, and whether one was copied from a page, cannot be told.
"""

from collections.abc import Mapping
from typing import Any

from evoaudit.audit.judges import Opinion
from evoaudit.codebook import Codebook
from evoaudit.parse import LIMIT, objects

#: What a category is where the verdict takes none: services that hold answers to a schema want every field filled.
NONE = "none"
#: Longest rationale asked for, characters.
RATIONALE = 500


def schema(book: Codebook) -> dict[str, Any]:
    """Return the JSON schema of a reply."""
    return {
        "type": "object",
        "properties": {
            "rationale": {
                "type": "string",
                "maxLength": RATIONALE,
                "description": "why, in a few sentences, with the steps it rests on",
            },
            "evidence_steps": {
                "type": "array",
                "items": {"type": "integer", "minimum": 0},
                "description": "numbers of the steps the judgement rests on; for a category, the step where it went wrong comes first",
            },
            "verdict": {"type": "string", "enum": list(book.verdicts), "description": "the code of Stage 1"},
            "category": {
                "type": "string",
                "enum": [*book.categories, NONE],
                "description": f"the code of Stage 2 if the verdict is {_diagnosed(book)}, else {NONE}",
            },
            "confidence": {"type": "number", "minimum": 0, "maximum": 1, "description": "how sure you are of the verdict, 0 to 1"},
        },
        "required": ["rationale", "evidence_steps", "verdict", "category", "confidence"],
        "additionalProperties": False,
    }


def instructions(book: Codebook) -> str:
    """Say the shape of a reply in words."""
    lines = ["Reply with one JSON object and nothing else: no code fence, no text before or after it. Its fields, all of them needed:"]
    for name, one in schema(book)["properties"].items():
        codes = f" One of: {', '.join(one['enum'])}." if "enum" in one else ""
        bound = f" At most {one['maxLength']} characters." if "maxLength" in one else ""
        lines.append(f"- {name} ({one['type']}): {one['description']}.{bound}{codes}")
    return "\n".join(lines)


def _diagnosed(book: Codebook) -> str:
    """Return the verdict that a category goes with: the codebook's first."""
    return book.verdicts[0]


def read(text: str, book: Codebook, steps: int) -> tuple[Opinion | None, str | None]:
    """Return the opinion in a reply, or why there is none, in words of ours alone. ``steps`` is how many the log has."""
    opinions: list[Opinion] = []
    fault = "it holds no JSON object with the field verdict"
    for found in objects(text[-LIMIT:], "verdict"):
        opinion, wrong = _opinion(found, book, steps)
        if opinion is not None:
            opinions.append(opinion)
        fault = wrong or fault
    if not opinions:
        return None, fault
    if len({(one.verdict, one.category) for one in opinions}) > 1:
        return None, "it holds several answers that differ"
    return opinions[-1], None


def _opinion(found: Mapping[str, Any], book: Codebook, steps: int) -> tuple[Opinion | None, str | None]:
    verdict = _code(found.get("verdict"), book, book.verdicts)
    if verdict is None:
        return None, f"its verdict is none of {', '.join(book.verdicts)}"
    given = found.get("category")
    none = given is None or (isinstance(given, str) and given.strip().casefold() in ("", NONE, "null", "n/a"))
    category = None if none else _code(given, book, book.categories)
    if category is None and not none:
        return None, f"its category is none of {', '.join(book.categories)}, {NONE}"
    if verdict == _diagnosed(book) and category is None:
        return None, f"a verdict of {verdict} needs a category"
    if verdict != _diagnosed(book) and category is not None:
        return None, f"only a verdict of {_diagnosed(book)} takes a category, and its verdict is another"
    cited = found.get("evidence_steps")
    numbers = [_whole(one) for one in cited] if isinstance(cited, list) else [None]
    if any(number is None for number in numbers):
        return None, "its evidence_steps is no list of whole numbers"
    if not numbers:
        return None, "it cites no step"
    if stray := [number for number in numbers if not 0 <= number < steps]:
        return None, f"it cites {len(stray)} steps that are not in the log, whose steps are 0 to {steps - 1}"
    confidence, rationale = found.get("confidence"), found.get("rationale")
    sure = isinstance(confidence, (int, float)) and not isinstance(confidence, bool) and 0 <= confidence <= 1
    return (
        Opinion(
            verdict,
            category,
            tuple(dict.fromkeys(numbers)),
            float(confidence) if sure else None,
            rationale if isinstance(rationale, str) and rationale.strip() else None,
        ),
        None,
    )


def _code(given: Any, book: Codebook, allowed: tuple[str, ...]) -> str | None:
    """Return the code a spelling of the codebook stands for, None for any other."""
    code = book.code_of(given) if isinstance(given, str) else None
    return code if code in allowed else None


def _whole(value: Any) -> int | None:
    """Return a number that is whole, also one written as text, else None."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdecimal() and len(value.strip()) < 10:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value // 1 or abs(value) > 2**31:
        return None
    return int(value)
