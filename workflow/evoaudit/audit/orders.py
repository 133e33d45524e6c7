"""Texts of a log that read like orders to whoever judges it: counted, so that one can see whether they move a judge.

Nothing is filtered by this. What keeps such a text from posing as the prompt is how prompts are made (`evoaudit.audit.fence`).
"""

import re
from collections.abc import Iterable

#: Characters of one text that are looked at, from its start.
LIMIT = 50_000

_JUDGES = ("judge", "evaluator", "grader", "reviewer", "auditor", "annotator")
_PRAISE = ("success", "pass", "solved", "complete", "correct", "efn")
_WORD = r"(?:success(?:ful)?|passed|pass|solved|completed?|correct|efn)\b"
_JUDGE = rf"(?:{'|'.join(_JUDGES)})\b"
#: Each pattern, and the words of which one a group must be in the text, since looking for words is far quicker.
_ORDERS = (
    (
        (("ignore", "disregard", "forget"), ("previous", "prior", "above", "earlier"), ("instruction", "prompt", "rule", "message")),
        r"\b(?:ignore|disregard|forget)\s+(?:\w+\s+){0,3}(?:previous|prior|above|earlier)\s+(?:\w+\s+)?(?:instruction|prompt|rule|message)s?\b",
    ),
    (
        ((" as ",), _PRAISE),
        r"\b(?:mark|label|count|grade|score|report|judge|rate)\s+(?:this|it|the\s+(?:task|run|log|trajectory|attempt))(?:\s+\w+){0,3}\s+as\s+"
        rf"(?:an?\s+)?[\"'“]?{_WORD}",
    ),
    (
        (("verdict", "grade", "label"), _PRAISE),
        rf"\b(?:verdict|grade|label)\s+(?:is|must\s+be|should\s+be)\s+[\"'“]?{_WORD}",
    ),
    ((("efn",),), r"\b(?:answer|reply|respond|say|output)\s+(?:with\s+)?[\"'“]?efn\b"),
    ((_JUDGES,), rf"\bto\s+(?:the\s+|our\s+|any\s+)?{_JUDGE}\s*[:,]"),
    ((_JUDGES, ("you are", "you\tare", "you\nare")), rf"\byou\s+are\s+(?:now\s+)?(?:the|an?)\s+(?:\w+\s+)?{_JUDGE}"),
    ((('"verdict"',),), r'"verdict"\s*:\s*"'),
    ((("<|",),), r"<\|(?:im_start|im_end|eot_id|start_header_id|system|user|assistant)\|>"),
    ((("inst]", "sys>>", "_of_turn>"),), r"\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>"),
)
_PATTERNS = tuple((groups, re.compile(pattern)) for groups, pattern in _ORDERS)


def found(texts: Iterable[str | None]) -> bool:
    """Say whether one of the texts reads like an order to a judge."""
    return any(_one(text[:LIMIT].lower()) for text in texts if text)


def _one(text: str) -> bool:
    return any(
        all(any(word in text for word in group) for group in groups) and pattern.search(text) is not None for groups, pattern in _PATTERNS
    )
