"""Decisions of the human quality control of T3 pairs (EvoGUI, §2.4), read from the JSON Lines that the review page exports."""

import difflib
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from evoaudit.errors import InputError, one_line
from evoaudit.givenfile import open_given

#: Why a pair is turned down → the words for it. The first four are the paper's.
REASONS = {
    "page_load": "page load",
    "advertisement": "advertisement",
    "asynchronous_refresh": "asynchronous refresh",
    "incidental_change": "incidental change",
    "other": "other",
}

_MEND = "export the decisions again from the review page, or mend the line"
_GIVE = "give the file exported from the review page"
#: Lines longer than this are no decisions.
_LONGEST = 65_536


@dataclass(frozen=True, slots=True)
class Decision:
    """One line: what somebody said of one pair, and where it stands."""

    instance_id: str
    decision: str
    #: One of `REASONS`; empty for an accepted pair.
    reason: str
    note: str
    #: Active time spent on the pair.
    seconds: float | None
    reviewer: str | None
    #: The set of pairs the page showed.
    set: str | None
    path: Path
    line: int

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"

    @property
    def rank(self) -> tuple:
        """Order of two lines that say the same, whatever file comes first."""
        return (*REASONS, "").index(self.reason), self.note, self.reviewer or "", self.set or "", self.seconds or 0.0

    def exported(self) -> dict:
        """Return the line as the page exports it."""
        names = ("instance_id", "decision", "reason", "note", "seconds", "reviewer", "set")
        return {name: value for name in names if (value := getattr(self, name)) not in (None, "")}


@dataclass(frozen=True)
class Decisions:
    """Instance → what was decided on it, in the order of the files' lines."""

    made: dict[str, Decision]

    @property
    def rejected(self) -> dict[str, str]:
        """Instances turned down, with the reviewer's reason."""
        return {name: one.reason for name, one in self.made.items() if one.decision == "reject"}

    @property
    def accepted(self) -> set[str]:
        return {name for name, one in self.made.items() if one.decision == "accept"}


NONE = Decisions({})


def read(paths: Path | Sequence[Path]) -> Decisions:
    """Read ``{"instance_id": …, "decision": "accept"|"reject", "reason": …}`` lines of one or several reviewers.

    Of two lines that both turn a pair down, the reason that comes first in `REASONS` counts, so that the order of the files never matters.
    """
    made: dict[str, Decision] = {}
    for path in [paths] if isinstance(paths, Path) else paths:
        for number, line in enumerate(_lines(path), 1):
            if line.strip():
                found = _decision(path, number, line)
                other = made.setdefault(found.instance_id, found)
                if other.decision != found.decision:
                    raise _contradiction(found, other)
                made[found.instance_id] = min(other, found, key=lambda one: one.rank)
    return Decisions(made)


def _contradiction(found: Decision, other: Decision) -> InputError:
    if found.path == other.path:
        return InputError(found.place, f"'{found.instance_id}' was decided otherwise on line {other.line}", "keep one of the two lines")
    return InputError(
        found.place,
        f"'{found.instance_id}' was decided otherwise in {other.place}",
        "import both files in the review page, settle what is disputed there and give the one file it exports; or delete one of the lines",
    )


def check(decisions: Decisions, seen: AbstractSet[str], possible: Iterable[str]) -> None:
    """Refuse decisions on questions that these logs and this seed cannot give; ``possible`` is read only as far as needed."""
    strange = decisions.made.keys() - seen
    for instance in possible if strange else ():
        strange.discard(instance)
        if not strange:
            break
    if not strange:
        return
    files: dict[Path, list[Decision]] = {}
    for one in decisions.made.values():
        files.setdefault(one.path, []).append(one)
    for path, lines in files.items():
        if all(one.instance_id in strange for one in lines):
            sets = sorted({one.set for one in lines if one.set})
            named = f" ({sets[0]})" if len(sets) == 1 else ""
            raise InputError(
                path,
                f"decides on another set of items{named}: {_none_of(len(lines))} a T3 item of these logs and this seed",
                "give the file exported from this run's review page",
            )
    first = next(one for one in decisions.made.values() if one.instance_id in strange)
    more = {1: "", 2: ", and one other is not either"}.get(len(strange), f", and {len(strange) - 1} others are not either")
    what = f"'{first.instance_id}' is no T3 item of these logs and this seed{more}"
    raise InputError(f"{first.place}: instance_id", what, "review this set again, or delete the line")


def _none_of(n: int) -> str:
    return "its one decision is not on" if n == 1 else f"none of its {n:,} decisions is on"


def _lines(path: Path) -> Iterator[str]:
    try:
        with io.TextIOWrapper(open_given(path, _GIVE), encoding="utf-8-sig", newline="\n") as handle:
            while line := handle.readline(_LONGEST):
                blank = not line.strip()
                while blank and len(line) == _LONGEST and not line.endswith("\n"):  # what goes on is the same line
                    line = handle.readline(_LONGEST)
                    blank = not line.strip()
                yield line
    except UnicodeDecodeError:
        raise InputError(path, "not UTF-8 text", _MEND) from None
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(path, "file not found", _GIVE) from None
    except (OSError, ValueError) as error:
        raise InputError(path, getattr(error, "strerror", None) or "cannot be opened", _GIVE) from None


class _Twice(Exception):
    """A name that stands in one JSON object twice."""


def _once(pairs: list[tuple[str, object]]) -> dict:
    found: dict = {}
    for name, value in pairs:
        if name in found:
            raise _Twice(name)
        found[name] = value
    return found


def _no_number(name: str) -> None:
    raise ValueError(name)


def _decision(path: Path, number: int, line: str) -> Decision:
    where = f"{path}:{number}"
    if len(line) >= _LONGEST:
        raise InputError(where, "line is too long for a decision", _MEND)
    try:
        found = json.loads(line, object_pairs_hook=_once, parse_constant=_no_number)
    except _Twice as error:
        raise InputError(f"{where}: {one_line(str(error), 60)}", "stands there twice", _MEND) from None
    except (ValueError, RecursionError):
        raise InputError(where, "not JSON", _MEND) from None
    if not isinstance(found, dict):
        raise InputError(where, "not a JSON object", _MEND)
    for name, value in found.items():
        if isinstance(value, str) and not _is_unicode(value):
            raise InputError(f"{where}: {one_line(name, 60)}", "holds half a character, which no file can keep", _MEND)
    instance, verdict = found.get("instance_id"), found.get("decision")
    if not isinstance(instance, str) or not instance:
        raise InputError(f"{where}: instance_id", "missing or not text", _MEND)
    if verdict not in ("accept", "reject"):
        raise InputError(f"{where}: decision", f'{json.dumps(verdict)[:40]} is neither "accept" nor "reject"', _MEND)
    for name in ("note", "reviewer", "set"):
        if not isinstance(found.get(name), str | None):
            raise InputError(f"{where}: {name}", "not text", _MEND)
    seconds = found.get("seconds")
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 1e9):
        raise InputError(f"{where}: seconds", "no number of seconds", _MEND)
    reason = _reason(where, found.get("reason"), verdict)
    note, reviewer, of = found.get("note") or "", found.get("reviewer") or None, found.get("set") or None
    return Decision(instance, verdict, reason, note, seconds, reviewer, of, path, number)


def _is_unicode(text: str) -> bool:
    """Tell whether a text holds no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _reason(where: str, stated: object, verdict: str) -> str:
    """Return a known reason however it is spelled; a pair turned down without one counts as `other`."""
    if not isinstance(stated, str | None):
        raise InputError(f"{where}: reason", "not text", _MEND)
    reason = re.sub(r"[\s_-]+", "_", (stated or "").strip().casefold())
    if verdict == "accept":
        if reason:
            raise InputError(f"{where}: reason", "an accepted pair has none", "remove the reason, or reject the pair")
        return ""
    if reason and reason not in REASONS:
        near = difflib.get_close_matches(reason, REASONS, 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise InputError(f"{where}: reason", f"'{reason[:40]}' is not known{hint}", f"use {', '.join(REASONS)}")
    return reason or "other"
