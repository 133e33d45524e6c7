"""Named random streams: every draw is a function of seed, purpose and identity, never of order.

Items are chosen by the rank of a keyed hash of their identity, so the same items are chosen on any
machine and in any row order, and adding one moves only its neighbours.
"""

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def _digest(seed: int, purpose: str, parts: tuple[object, ...]) -> bytes:
    """Hash length-prefixed parts, so that ("ab", "c") and ("a", "bc") differ."""
    mac = hashlib.blake2b(digest_size=16, person=b"evoaudit")
    for part in (seed, purpose, *parts):
        raw = str(part).encode("utf-8", "surrogatepass")
        mac.update(len(raw).to_bytes(8, "big") + raw)
    return mac.digest()


def rank(seed: int, purpose: str, *identity: object) -> int:
    """Return a 63-bit rank for an item; sort by it to shuffle, take the smallest to sample."""
    return int.from_bytes(_digest(seed, purpose, identity)[:8], "big") >> 1


def order(items: Iterable, seed: int, purpose: str, identity=str) -> list:
    """Shuffle ``items`` by rank; ``identity`` gives each item's identity (ties broken by it)."""
    return sorted(items, key=lambda item: (rank(seed, purpose, identity(item)), str(identity(item))))


def generator(seed: int, purpose: str, *identity: object) -> "np.random.Generator":
    """Return a numpy generator for draws that need a sequence (bootstrap, noise)."""
    import numpy as np

    return np.random.default_rng(int.from_bytes(_digest(seed, purpose, identity), "big"))
