"""What is not defined is None with a reason in the log, never a number."""

import logging
from typing import TypeVar

_Nothing = TypeVar("_Nothing")

#: Silent unless the caller listens: an undefined cell is a finding of the table, not noise for the console.
LOGGER = logging.getLogger("evoaudit.stats")
LOGGER.addHandler(logging.NullHandler())


def undefined(function: str, reason: str, value: _Nothing | None = None) -> _Nothing | None:
    """Log why ``function`` has no value and return ``value`` (None, or a list of None)."""
    LOGGER.warning("%s: undefined: %s", function, reason)
    return value


def defined(function: str, number: float, reason: str) -> float | None:
    """Return ``number`` as a float, or None with ``reason`` if it is not finite."""
    return float(number) if abs(number) < float("inf") else undefined(function, reason)
