"""Decisions of the human quality control of T3 pairs (EvoGUI, §2.4), read from JSON Lines."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evoaudit.errors import InputError

_MEND = "export the decisions again from the review page, or mend the line"
#: Lines longer than this are no decisions.
_LONGEST = 65_536


@dataclass(frozen=True)
class Decisions:
    """Instance → line that decided on it, and the instances turned down with the reviewer's reason."""

    path: Path | None
    lines: dict[str, int]
    rejected: dict[str, str]


NONE = Decisions(None, {}, {})


def read(path: Path) -> Decisions:
    """Read ``{"instance_id": …, "decision": "accept"|"reject", "reason": …}`` lines."""
    lines: dict[str, int] = {}
    verdicts: dict[str, str] = {}
    rejected: dict[str, str] = {}
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        instance, verdict, reason = _decision(where, line)
        if verdicts.setdefault(instance, verdict) != verdict:
            raise InputError(where, f"'{instance}' was decided otherwise on line {lines[instance]}", "keep one of the two lines")
        lines.setdefault(instance, number)
        if verdict == "reject":
            rejected.setdefault(instance, reason)
    return Decisions(path, lines, rejected)


def _lines(path: Path) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8-sig") as handle:
            while line := handle.readline(_LONGEST):
                yield line
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise InputError(path, "file not found", "give the file exported from the review page") from None
    except UnicodeDecodeError:
        raise InputError(path, "not UTF-8 text", _MEND) from None


def _decision(where: str, line: str) -> tuple[str, str, str]:
    if len(line) >= _LONGEST:
        raise InputError(where, "line is too long for a decision", _MEND)
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(where, "not JSON", _MEND) from None
    if not isinstance(found, dict):
        raise InputError(where, "not a JSON object", _MEND)
    instance, verdict, reason = found.get("instance_id"), found.get("decision"), found.get("reason")
    if not isinstance(instance, str) or not instance:
        raise InputError(f"{where}: instance_id", "missing or not text", _MEND)
    if verdict not in ("accept", "reject"):
        raise InputError(f"{where}: decision", f'{json.dumps(verdict)[:40]} is neither "accept" nor "reject"', _MEND)
    if reason is not None and not isinstance(reason, str):
        raise InputError(f"{where}: reason", "not text", _MEND)
    return instance, verdict, reason or ""
