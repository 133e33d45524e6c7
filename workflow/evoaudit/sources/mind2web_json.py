"""Mind2Web's JSON: arrays of tasks, unpacked or in `test.zip`, and the raw dump's screenshots of each task.

Files are skimmed: pages and negative candidates are never held, nor are screenshots, of which only the place is noted.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from evoaudit.sources import jsonio, mind2web_actions, mind2web_skim
from evoaudit.sources.archive import Tree
from evoaudit.sources.base import Picture, Skipped, Step, Target, Trajectory

LICENSE = "CC-BY-4.0"
ARCHIVE, PASSWORD = "test.zip", b"mind2web"

_UNWANTED = ("raw_html", "cleaned_html", "neg_candidates")
_MEMBER = re.compile(r"\d+\.(?:before|after)@(\d{1,18})-(\d{1,18})")
#: Bytes of base64 text of one picture at most.
_TEXT_LIMIT = jsonio.FILE_LIMIT * 3 // 2
#: Bytes of a JSON value that is shorter than any picture: null, or an empty text.
_EMPTY = 8

#: (unit, item, reason, detail), as in `Trajectory.skipped`.
Note = tuple[str, str, str, str | None]


@dataclass(frozen=True, slots=True)
class File:
    """One JSON array of tasks; ``split`` is None where its name is none of the data set's."""

    tree: Tree
    path: str
    split: str | None

    @property
    def item(self) -> str:
        return self.tree.item(self.path)

    @property
    def source_file(self) -> str:
        return self.tree.archive or self.path


@dataclass(frozen=True, slots=True)
class Task:
    """One task as it stands in a file; ``item`` names the file and the byte at which it starts."""

    file: File
    item: str
    native_id: str
    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shot:
    """What the dump holds of one action."""

    item: str
    before: Picture | None
    after: Picture | None
    box: mind2web_actions.Box | None

    def show(self, step: Step) -> None:
        """Add the pictures to a step, and the dump's own box where the step has none."""
        step.before, step.after = self.before or step.before, self.after or step.after
        if self.box is not None and (step.target is None or step.target.left is None):
            left, top, width, height = self.box
            step.target = Target(left=left, top=top, width=width, height=height, text=step.target and step.target.text)


@dataclass(slots=True)
class Screens:
    """The screenshots of one task's dump, by ``action_uid``, and what was wrong with the file."""

    shots: dict[str, Shot] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def join(self, found: Trajectory, steps: Iterable[tuple[str | None, Step]]) -> None:
        """Give a trajectory's steps their screenshots; what cannot be joined is noted."""
        left = dict(self.shots)
        for uid, step in steps:
            if uid is not None and (shot := left.pop(uid, None)) is not None:
                shot.show(step)
                if shot.before is not None or shot.after is not None:
                    found.obs_phase = "both"
        found.skipped += self.notes
        found.skipped += [
            ("row", shot.item, "unmatched_action", "the task's record has no action with this action_uid") for shot in left.values()
        ]


def tasks(files: list[File]) -> Iterator[Task | Skipped]:
    """Yield the tasks of all files. An archive's member is not read if its unpacked twin was read to its end."""
    whole: set[str] = set()
    for file in files:
        if file.tree.archive is not None and jsonio.join(file.tree.archive.rpartition("/")[0], file.path) in whole:
            continue
        cut = False
        for record in _tasks(file):
            cut = cut or (isinstance(record, Skipped) and record.unit == "file")
            yield record
        if not cut and file.tree.archive is None:
            whole.add(file.path)


def _tasks(file: File) -> Iterator[Task | Skipped]:
    for number, element in enumerate(_values(file.tree, file.path, _UNWANTED)):
        if isinstance(element, Skipped):
            yield element
            continue
        item, record = element
        native_id = jsonio.as_str(jsonio.as_dict(record).get("annotation_id"))
        if native_id:
            yield Task(file, item, native_id, record)
        elif number == 0 and file.split is None:
            yield Skipped(file.item, "not_tasks", "no list of tasks with an annotation_id", "file")
            return
        elif isinstance(record, dict):
            yield Skipped(item, "no_id", "a task without annotation_id")
        else:
            yield Skipped(item, "bad_record", "not a JSON object")


def _values(tree: Tree, path: str, unwanted: tuple[str, ...], unit: str = "trajectory") -> Iterator[tuple[str, Any] | Skipped]:
    """Yield (file and byte, value) for each element of a JSON array; ``unit`` is what an element is.

    What ends the reading early comes last, as a `Skipped` of the unit ``file``.
    """
    name = tree.item(path)
    handle = tree.open(path, "file")
    if isinstance(handle, Skipped):
        yield handle
        return
    try:
        with handle:
            head = handle.read(len(jsonio.LFS_MAGIC))
            if head == jsonio.LFS_MAGIC:
                yield Skipped(name, "lfs_pointer", jsonio.LFS_ADVICE, "file")
                return
            if head.startswith((b"\xff\xfe", b"\xfe\xff")):
                yield Skipped(name, "not_utf8", "UTF-16; save the file as UTF-8", "file")
                return
            for element in mind2web_skim.elements(_after(head, handle), unwanted):
                item = f"{name}@{element.start}"
                if element.fault is None:
                    value = jsonio.parse(element.text, item, unit)
                    yield _placed(value, element.end) if isinstance(value, Skipped) else (item, value)
                elif element.fault == "too_large":
                    detail = f"more than {mind2web_skim.LIMIT:,} bytes without pages and pictures, up to byte {element.end}"
                    yield Skipped(item, "too_large", detail, unit)
                elif element.fault == "truncated":
                    yield Skipped(item, "bad_json", f"the file breaks off at byte {element.end}; fetch it again", "file")
                else:
                    yield Skipped(item, "bad_json", f"bytes {element.start} to {element.end} are no JSON object", unit)
    except OSError as error:
        yield Skipped(name, getattr(error, "reason", "unreadable"), error.strerror or "cannot be read", "file")


def _after(head: bytes, handle: BinaryIO) -> Callable[[int], bytes]:
    """Return a way to read a file on whose head has been read."""
    pieces = [head]
    return lambda size: pieces.pop() if pieces else handle.read(size)


def _placed(fault: Skipped, end: int) -> Skipped:
    """Tell where a fault lies in the file; the parser counts from the start of a text that was shortened."""
    detail = fault.detail if fault.reason == "too_deep" else "a text in it is not UTF-8" if fault.reason == "not_utf8" else "not JSON"
    return Skipped(fault.item, fault.reason, f"{detail}; it ends at byte {end}", fault.unit)


def trajectory(task: Task, screens: Screens | None) -> Trajectory:
    """Return a task as a trajectory, with the dump's pictures where there are any."""
    record = task.record
    domain = jsonio.as_str(record.get("domain"))
    found = Trajectory(
        native_id=task.native_id,
        steps=[],
        source_file=task.file.source_file,
        obs_phase="before",
        benchmark="mind2web",
        task_id=task.native_id,
        experiment=task.file.split,
        domain=domain and domain.lower(),
        website=jsonio.as_str(record.get("website")),
        instruction=jsonio.as_str(record.get("confirmed_task")),
        license=LICENSE,
    )
    shown = jsonio.as_list(record.get("action_reprs"))
    if not isinstance(record.get("actions"), list):
        if shown:
            found.skipped.append(("row", task.item, "no_actions", "no list of actions; read from action_reprs instead"))
        found.steps = [mind2web_actions.step_of_repr(one, str(index)) for index, one in enumerate(shown) if isinstance(one, str)]
        return found
    if shown and len(shown) != len(record["actions"]):
        detail = f"{len(shown)} action_reprs for {len(record['actions'])} actions; not used"
        found.skipped.append(("row", task.item, "count_mismatch", detail))
        shown = []
    uids: dict[str, int] = {}
    made: list[tuple[str | None, Step]] = []
    for index, action in enumerate(record["actions"]):
        item = f"{task.item} actions[{index}]"
        if not isinstance(action, dict):
            found.skipped.append(("step", item, "bad_step", "not a JSON object"))
            continue
        uid = jsonio.as_str(action.get("action_uid")) or None
        if uid is not None and uids.setdefault(uid, index) != index:
            found.skipped.append(("step", item, "duplicate_action", f"the action_uid of actions[{uids[uid]}]"))
            continue
        line = jsonio.as_str(shown[index]) if shown else None
        step, fault = mind2web_actions.step(action.get("operation"), str(index), line, action.get("pos_candidates"))
        if fault:
            found.skipped.append(("row", item, "bad_operation", fault))
        made.append((uid, step))
    found.steps = [step for _, step in made]
    if screens is not None:
        screens.join(found, made)
    return found


def screens(root: Path, file: str) -> Screens:
    """Index the screenshots of one task's dump: one pass over the file, whose pictures are not held."""
    found = Screens()
    for number, element in enumerate(_values(Tree(root), file, ("screenshot",), "row")):
        if isinstance(element, Skipped):
            found.notes.append(("row", element.item, element.reason, element.detail))
            continue
        item, record = element
        entry = jsonio.as_dict(record)
        uid = jsonio.as_str(entry.get("action_uid"))
        if not uid:
            found.notes.append(("row", item, "bad_record", "no JSON object with an action_uid"))
        elif uid in found.shots:
            found.notes.append(("row", item, "duplicate_action", "an action with this action_uid came before"))
        else:
            place = jsonio.as_dict(jsonio.as_dict(entry.get("action")).get("bounding_box"))
            before, after = (_picture(root, file, number, moment, entry.get(moment)) for moment in ("before", "after"))
            box = mind2web_actions.rect([place.get(side) for side in ("x", "y", "width", "height")])
            found.shots[uid] = Shot(item, before, after, box)
    return found


def _picture(root: Path, file: str, number: int, moment: str, state: Any) -> Picture | None:
    """Return the reference to a screenshot by its place in the file, or None where the dump has none."""
    span = jsonio.as_list(jsonio.as_dict(state).get("screenshot"))
    if len(span) != 2 or not all(isinstance(place, int) for place in span) or span[1] - span[0] < _EMPTY:
        return None
    member = f"{number}.{moment}@{span[0]}-{span[1]}"
    return Picture(file, member, partial(screenshot, root, file, member))


def screenshot(root: Path, file: str, member: str) -> bytes | None:
    """Return a screenshot of a dump, ``<entry>.<moment>@<first byte>-<end>``, or None where there is no base64 text."""
    match = _MEMBER.fullmatch(member)
    path = jsonio.regular(root, file)
    if match is None or isinstance(path, Skipped):
        return None
    start, end = int(match[1]), int(match[2])
    if not 0 < end - start <= _TEXT_LIMIT:
        return None
    with open(path, "rb") as handle:
        handle.seek(start)
        raw = handle.read(end - start)
    return _decoded(raw) if len(raw) == end - start else None


def _decoded(raw: bytes) -> bytes | None:
    """Decode a JSON string of base64; a ``data:`` prefix, white space and missing padding do not matter."""
    if raw[:1] != b'"' or raw[-1:] != b'"':
        return None
    if b"\\" in raw:
        value = jsonio.parse(raw, "screenshot")
        if not isinstance(value, str):
            return None
        raw = value.encode("ascii", "replace")
    else:
        raw = raw[1:-1]
    if raw[:5] == b"data:":
        raw = raw.partition(b",")[2]
    raw = raw.translate(None, b" \t\r\n").rstrip(b"=")
    try:
        return base64.b64decode(raw + b"=" * (-len(raw) % 4), validate=True) or None
    except (binascii.Error, ValueError):
        return None
