"""Names of models as names of files: what a config calls a model may be any text."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable

#: Characters of a name that its slug repeats at most.
READABLE = 60
#: A name that is its own slug: lower case, so that no two differ by case alone.
CLEAN = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
#: What the slug of any other name ends in, hex digits; more where two would be one.
DIGITS = 8
#: Files that mean something else: the front page of a folder, and what Windows keeps for devices.
RESERVED = re.compile(r"index|(?:con|prn|aux|nul|(?:com|lpt)\d)(?:\..*)?")


def slugs(names: Iterable[str]) -> dict[str, str]:
    """Return name → slug, unique and the same whatever other names stand beside it; safe in a path, an address and a fragment."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(set(names)):
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        digits = DIGITS
        slug = name if _is_own(name) else f"{_readable(name)}-{digest[:digits]}"
        while slug in taken:
            digits += 4
            slug = f"{_readable(name)}-{digest[:digits]}"
        taken.add(slug)
        found[name] = slug
    return found


def _is_own(name: str) -> bool:
    """Tell whether a name may be its own slug: none that could be the slug of another."""
    return (
        len(name) <= READABLE
        and CLEAN.fullmatch(name) is not None
        and RESERVED.fullmatch(name) is None
        and re.search(rf"-[0-9a-f]{{{DIGITS},}}$", name) is None
    )


def _readable(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:READABLE].strip("-") or "model"
