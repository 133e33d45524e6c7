"""Text that others wrote, as a judge gets to see it: JSON in a block that nothing inside can close or imitate.

A block opens and closes with a tag. No angle bracket of the text reaches the prompt as itself, so no text can write a tag, neither
ours nor one a chat template knows; the mark in the tag follows from the whole of the evidence, so nobody who wrote a part of it
could know it. Line breaks are escaped too: a text never starts a line of the prompt.
"""

import hmac
import json
import re
from typing import Any

from evoaudit import store

#: Key of the marks. It need not be secret: a text that holds its own mark would have to be chosen after the mark.
_KEY = b"evoaudit: the mark of a judge's evidence"
#: Letters and marks without a shape of their own, and the variation selectors beyond the usual two, which can carry hidden text.
_SHAPELESS = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef"
#: What is written as an escape: angle brackets, shapeless characters, and brackets around a word in capitals (`[INST]`) or before the
#: name by which a command line tells the model of a picture.
_ESCAPED = re.compile(rf"[<>{_SHAPELESS}]|\[(?=/?[A-Z_]{{2,40}}\]|[Ii]mage #)")


def mark(evidence: Any) -> str:
    """Return the mark of a log's blocks: 16 hex digits of all its evidence."""
    return hmac.digest(_KEY, store.canonical(evidence).encode("utf-8", "surrogatepass"), "sha256").hex()[:16]


def block(name: str, sign: str, value: Any) -> str:
    """Return a block of a value; ``name`` is ours, never a text of the log."""
    return f"<{name} {sign}>\n{written(value)}\n</{name} {sign}>"


def written(value: Any) -> str:
    """Write a value as one line of JSON that holds no angle bracket and no character that hides or reorders others."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    text = _ESCAPED.sub(lambda found: _escape(found[0]), text)
    return text if text.isprintable() else "".join(one if one.isprintable() or one == "\xa0" else _escape(one) for one in text)


def _escape(character: str) -> str:
    return json.dumps(character)[1:-1] if ord(character) > 0x7F else f"\\u{ord(character):04x}"
