"""The files of AgentRewardBench's episodes, read without the dumps they are nearly made of.

A file is up to 184 MB, nearly all of it trees and boxes of every page, in several forms. Small files are parsed whole. Larger ones
are streamed and must be strict JSON, as their publisher writes them: memory holds one step's wanted keys, whatever the file.
"""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ijson

from evoaudit.sources import jsonio
from evoaudit.sources.base import COSTS, Skipped

#: Bytes of a file parsed whole, and of one read at all.
WHOLE_LIMIT = 8 * 2**20
FILE_LIMIT = 512 * 2**20
#: Steps of an episode, and elements of a page, that are looked at.
STEP_LIMIT = 20_000
ELEMENT_LIMIT = 200_000

_HEAD = frozenset({"benchmark", "agent", "experiment", "goal", "valid", "package_version"})
_SUMMARY = frozenset({"n_steps", "cum_reward", "err_msg", *COSTS})
_RECORD = frozenset({"num", "action", "reasoning", "screenshot_path", "url", "last_action_error", "axtree", "axtree_pruned"})
#: Keys of the elements' boxes. Both hold the same; the second serves where the first is missing.
BOXES = ("extra_element_properties", "bounding_boxes")

_OPENING = frozenset({"start_map", "start_array"})
_CLOSING = frozenset({"end_map", "end_array"})

#: Names and values as the parser meets them.
_Events = Iterator[tuple[str, Any]]


@dataclass(slots=True)
class Episode:
    """What is needed of a file: its head, its summary, and each record as `read` was told to keep it (None: no JSON object)."""

    head: dict = field(default_factory=dict)
    summary: dict = field(default_factory=dict)
    records: list = field(default_factory=list)


def read(root: Path, file: str, light: Callable[[dict], Any]) -> Episode | Skipped:
    """Read an episode, keeping of each record what ``light`` makes of it."""
    path = jsonio.regular(root, file)
    if isinstance(path, Skipped):
        return path
    try:
        size = path.stat().st_size
        if size > FILE_LIMIT:
            return Skipped(file, "too_large", f"more than {FILE_LIMIT:,} bytes")
        if size <= WHOLE_LIMIT:
            episode = _whole(root, file, light)
        else:
            with open(path, "rb") as handle:
                handle.seek(3 if handle.read(3) == b"\xef\xbb\xbf" else 0)
                episode = _streamed(handle, light)
    except OSError as error:
        return Skipped(file, "unreadable", error.strerror)
    except ijson.JSONError as error:
        text = error.args[0] if error.args else ""
        first = (text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)).partition("\n")[0]
        return Skipped(file, "not_utf8" if "UTF8" in first else "bad_json", f"not JSON: {first}")
    if episode is None:
        return Skipped(file, "bad_record", "steps: missing or not a list")
    if isinstance(episode, Episode) and len(episode.records) > STEP_LIMIT:
        return Skipped(file, "too_large", f"more than {STEP_LIMIT:,} steps")
    return episode


def _whole(root: Path, file: str, light: Callable[[dict], Any]) -> Episode | Skipped | None:
    value = jsonio.read_json(root, file, WHOLE_LIMIT)
    if isinstance(value, Skipped):
        return value
    value = jsonio.as_dict(value)
    steps = value.pop("steps", None)
    if not isinstance(steps, list):
        return None
    records = [light(step) if isinstance(step, dict) else None for step in steps[: STEP_LIMIT + 1]]
    return Episode(value, jsonio.as_dict(value.get("summary_info")), records)


def _streamed(handle: io.BufferedIOBase, light: Callable[[dict], Any]) -> Episode | None:
    """Read an episode event by event, building only what is needed. Raises ``ijson.JSONError``."""
    events = ijson.basic_parse(handle, use_float=True, buf_size=2**20)
    head: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    records: list | None = None
    event, _ = next(events)
    if event != "start_map":
        _pass(events, event)
        return None
    for key, event, value in _members(events):
        if key == "steps":
            records = [*_records(events, light)] if event == "start_array" else _pass(events, event)
        elif key == "summary_info" and event == "start_map":
            summary = _plain(events, _SUMMARY)
        elif event in _OPENING:
            _pass(events, event)
        elif key in _HEAD:
            head[key] = value
    for _ in events:  # whatever follows is a fault, which the parser reports
        pass
    return None if records is None else Episode(head, summary, records)


def _members(events: _Events) -> _Events:
    """Yield key, event and value of each member of the object that has just begun; the caller takes in what an event opens."""
    for event, key in events:
        if event == "end_map":
            return
        yield key, *next(events)


def _pass(events: _Events, event: str) -> None:
    """Pass over the value that ``event`` begins."""
    if event in _OPENING:
        depth = 1
        for event, _ in events:
            if event in _OPENING:
                depth += 1
            elif event in _CLOSING:
                depth -= 1
                if not depth:
                    return


def _plain(events: _Events, wanted: frozenset[str]) -> dict[str, Any]:
    """Return the wanted plain values of the object that has just begun."""
    found = {}
    for key, event, value in _members(events):
        if event in _OPENING:
            _pass(events, event)
        elif key in wanted:
            found[key] = value
    return found


def _records(events: _Events, light: Callable[[dict], Any]) -> Iterator[Any]:
    """Yield the records of the list that has just begun, up to one more than the limit."""
    number = 0
    for event, _ in events:
        if event == "end_array":
            return
        number += 1
        if event != "start_map" or number > STEP_LIMIT:
            _pass(events, event)
            if number <= STEP_LIMIT + 1:
                yield None
            continue
        record: dict[str, Any] = {}
        for key, event, value in _members(events):
            if key in BOXES and event == "start_map":
                record[key] = _elements(events)
            elif event in _OPENING:
                _pass(events, event)
                if key in _RECORD:
                    record[key] = {}  # of the wrong type, but there
            elif key in _RECORD:
                record[key] = value
        yield light(record)


def _elements(events: _Events) -> dict[str, dict]:
    """Return the boxes of a page's elements, without what else is known of them."""
    found: dict[str, dict] = {}
    for bid, event, _ in _members(events):
        if event != "start_map" or len(found) >= ELEMENT_LIMIT:
            _pass(events, event)
            continue
        for key, event, _ in _members(events):
            if key == "bbox" and event == "start_array":
                found[bid] = {"bbox": _sides(events)}
            else:
                _pass(events, event)
    return found


def _sides(events: _Events) -> list:
    """Return the plain values of the list that has just begun, up to one more than a box has."""
    sides: list[Any] = []
    for event, value in events:
        if event == "end_array":
            break
        _pass(events, event)
        if len(sides) <= 4:
            sides.append(value)
    return sides
