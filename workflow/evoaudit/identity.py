"""Keys: a stage's output folder is named by everything that decides what is in it.

``key = hash(stage, stage format version, seed, the settings the stage reads with defaults filled in, upstream keys)``.
Code is not in the key, so a refactoring never re-buys an answer; a change of meaning bumps the stage's version below.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

#: Stage → version of what its output means. Bump it when the same settings come to mean something else.
FORMAT = {
    "simulate": 2,
    "download": 1,
    "normalise": 3,
    "mine": 2,
    "pairs": 1,
    "images": 1,
    "infer": 3,
    "score": 1,
    "sample": 2,
    "signals": 1,
    "judge": 1,
    "select": 1,
    "replay": 3,
    "combine": 3,
    "stats": 7,
    "tables": 3,
    "figures": 4,
    "report": 7,
    "export": 4,
}


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(value: Any) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces, NaN refused."""
    return _ENCODER.encode(value)


def make_key(stage: str, settings: Mapping[str, Any], seed: int | None, upstream: Mapping[str, Any], version: int | None = None) -> str:
    """Return a stage's key: ten hex digits, and the seed in plain sight where the stage draws; ``version`` is that of an older format."""
    number = FORMAT[stage] if version is None else version
    text = canonical({"stage": stage, "format": number, "seed": seed, "settings": settings, "upstream": upstream})
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return digest if seed is None else f"{digest}-s{seed}"
