"""Mind2Web in all its forms, under one root, alone or mixed.

- Multimodal-Mind2Web: Parquet shards, ``data/<split>-NNNNN-of-MMMMM-….parquet``, one row an action, with the page before it.
- Mind2Web: arrays of tasks without pictures, ``data/train/train_0.json`` and, unpacked or in ``test.zip``,
  ``data/test_task/…``, ``data/test_website/…``, ``data/test_domain/…``. The archive is read where it lies; undoing its
  encryption takes a second a megabyte, so unpacking it is quicker. An unpacked file is not read a second time in the archive.
- The raw dump: ``<annotation_id>/processed/screenshot.json`` anywhere under the root, with the pages before and after each
  action. It names no operations, so it counts only where one of the other forms has the task; joined by ``action_uid``.

Where a task is there more than once, the form with the most pictures is read and the others are reported: first JSON with a
dump (before and after), then Parquet (before), with the dump's pictures where there are any, then JSON alone (none).

Targets have the box of ``pos_candidates``, in pixels of the whole page, as pictures are. Where that list is empty (the page
lost its target in cleaning) or its elements were not rendered, the dump's ``bounding_box`` stands in; without a dump there
is no box. The pages themselves are not searched for it. Other files, the ranker's pickled scores among them, are not opened.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from evoaudit.errors import one_line
from evoaudit.sources import jsonio, mind2web_actions, mind2web_json
from evoaudit.sources.archive import Tree
from evoaudit.sources.base import Picture, Skipped, Step, Trajectory
from evoaudit.sources.mind2web_actions import ACTIONS as ACTIONS
from evoaudit.sources.mind2web_json import Screens, Task
from evoaudit.sources.mind2web_parquet import INDEX, Row, Shards, first, screenshot

#: Of the Parquet form; the JSON forms have their own.
LICENSE: str | None = "openrail"
LAYOUT = "data/train-00000-of-00027-….parquet, or data/train/train_0.json"

SPLITS = ("train", "test_task", "test_website", "test_domain")

_DUMP = re.compile(r"(?:(.*?)/)??(?:processed/)?screenshot\.json", re.DOTALL)
_PARTS = re.compile(r"_\d+$")
_NO_RECORD = "screenshots of a task that no JSON or Parquet file records; put the split that holds it (data/…) under the same folder"


@dataclass(slots=True)
class _Found:
    """What lies under a root. ``dumps`` maps a task's id to the file with its screenshots."""

    shards: list[str] = field(default_factory=list)
    files: list[mind2web_json.File] = field(default_factory=list)
    dumps: dict[str, str] = field(default_factory=dict)
    faults: list[Skipped] = field(default_factory=list)


def read(root: Path, options: dict) -> Iterator[Trajectory | Skipped]:
    """Yield one trajectory a task: those of JSON files as they stand there, then those of Parquet as they are complete.

    ``options["split"]`` chooses one of the splits, ``options["files"]`` Parquet, JSON and zip files by patterns of their paths.
    """
    found = _find(root, options)
    yield from found.faults
    if options.get("split") and not found.shards and not found.files:
        yield Skipped(f"{options['split']}-*.parquet", "no_shards", "no Parquet file of that split, and no JSON file")
    shards = Shards(root, found.shards)
    yield from shards.faults
    joined: set[str] = set()

    def screens(task: str) -> Screens | None:
        joined.add(task)
        return mind2web_json.screens(root, found.dumps[task]) if task in found.dumps else None

    pictured: set[str] = set()
    left: list[Task] = []
    for record in mind2web_json.tasks(found.files):
        if isinstance(record, Skipped):
            yield record
            continue
        made = mind2web_json.trajectory(record, screens(record.native_id))
        if made.obs_phase == "both":
            pictured.add(made.native_id)
        elif made.native_id in shards.ids:
            left.append(Task(record.file, record.item, record.native_id, {}))
            continue
        yield made
    given: set[str] = set()
    for record in shards.tasks():
        if isinstance(record, Skipped):
            yield record
        elif record[0] in pictured:
            yield Skipped(f"{record[1][0].file}: {record[0]}", "duplicate_form", "read from JSON instead, where the dump has both screens")
        else:
            made = _trajectory(root, *record, screens(record[0]))
            given |= {made.native_id} if made.steps else set()
            yield made
    yield from _rest(found, left, given)
    if not options.get("split") and not options.get("files"):
        yield from (Skipped(file, "no_task_record", _NO_RECORD) for task, file in found.dumps.items() if task not in joined)


def load(root: Path, file: str, member: str) -> bytes | None:
    """Return an encoded screenshot: of a Parquet row (its number), or of a dump (entry, moment and place). None if there is none."""
    if file.lower().endswith(".json"):
        return mind2web_json.screenshot(root, file, member)
    path = jsonio.regular(root, file)
    return None if isinstance(path, Skipped) else screenshot(path, int(member))


def _rest(found: _Found, left: list[Task], given: set[str]) -> Iterator[Trajectory | Skipped]:
    """Yield what became of the JSON tasks that were left to the shards: those whose rows could not be read come from JSON after all."""
    missing = {task.native_id for task in left} - given
    for task in left:
        if task.native_id not in missing:
            yield Skipped(task.item, "duplicate_form", "read from Parquet instead, which has its pictures")
    if missing:
        for record in mind2web_json.tasks(found.files):
            if isinstance(record, Task) and record.native_id in missing:
                yield mind2web_json.trajectory(record, None)


def _find(root: Path, options: dict) -> _Found:
    found = _Found()
    wanted, patterns = options.get("split"), options.get("files")
    places: set[str] = set()
    texts: list[str] = []
    archives: list[str] = []

    def chosen(*paths: str) -> bool:
        return not patterns or any(fnmatchcase(path, pattern) for path in paths for pattern in patterns)

    def of_split(split: str | None) -> bool:
        return not wanted or split == wanted

    for file in jsonio.files(root, ".parquet", ".json", mind2web_json.ARCHIVE):
        name = file.rpartition("/")[2].lower()
        if name.endswith(".parquet"):
            if of_split(_split(file) or _prefix(file)) and chosen(file):
                found.shards.append(file)
        elif match := _DUMP.fullmatch(file):
            place = match[1] or ""
            task = place.rpartition("/")[2]
            places.add(place)
            if not task:
                found.faults.append(Skipped(file, "no_task_record", "its folder does not bear the id of its task; name it so"))
            elif task in found.dumps:
                found.faults.append(Skipped(file, "duplicate_dump", f"the task's screenshots are read from {found.dumps[task]}", "file"))
            else:
                found.dumps[task] = file
        elif name == mind2web_json.ARCHIVE:
            archives.append(file)
        elif name.endswith(".json"):
            texts.append(file)
    folder = Tree(root)
    for file in texts:
        split = _split(file)
        if not places.isdisjoint(_folders(file)) or "processed" in file.split("/")[:-1]:
            continue  # the dump's own: page contents, browser storage
        if of_split(split) and chosen(file):
            found.files.append(mind2web_json.File(folder, file, split))
    for file in archives if wanted != "train" else ():
        tree = Tree(root, file, mind2web_json.PASSWORD)
        members = [path for path in tree.files(".json") if of_split(_split(path)) and chosen(file, tree.item(path))]
        found.files += [mind2web_json.File(tree, path, _split(path)) for path in members]
        if chosen(file) or members:
            found.faults += tree.refused()
    return found


def _folders(file: str) -> Iterator[str]:
    """Yield the folders a file lies in, but not the root."""
    while file := file.rpartition("/")[0]:
        yield file


def _split(file: str) -> str | None:
    """Return the split that a file's name begins with, or its folder's, or None."""
    folder, _, name = file.rpartition("/")
    names = (_PARTS.sub("", name.rpartition(".")[0]), _prefix(file), folder.rpartition("/")[2])
    return next((name for name in names if name in SPLITS), None)


def _prefix(file: str) -> str:
    return file.rpartition("/")[2].removesuffix(".parquet").partition("-")[0]


def _trajectory(root: Path, task: str, rows: list[Row], screens: Screens | None) -> Trajectory:
    def of_any(name: str) -> str | None:
        return next((text for row in rows if (text := jsonio.as_str(row.record.get(name)))), None)

    domain = of_any("domain")
    found = Trajectory(
        native_id=task,
        steps=[],
        source_file=rows[0].file,
        obs_phase="before",
        benchmark="mind2web",
        task_id=task,
        experiment=_split(rows[0].file) or _prefix(rows[0].file),
        domain=domain and domain.lower(),
        website=of_any("website"),
        instruction=of_any("confirmed_task"),
        license=LICENSE,
    )
    by_index: dict[int, Row] = {}
    for row in rows:
        index = _number(row.record[INDEX])
        if index is None or index < 0 or index in by_index:
            reason = "bad_index" if index is None or index < 0 else "duplicate_index"
            found.skipped.append(("step", row.item, reason, f"{INDEX} {one_line(str(row.record[INDEX])[:100], 60)}"))
        else:
            by_index[index] = row
    length = len(jsonio.as_list(rows[0].record.get("action_reprs")))
    made: list[tuple[str | None, Step]] = []
    next_index = 0
    for index in [*sorted(by_index), max(length, *(i + 1 for i in by_index), 0)]:
        if index > next_index:
            found.skipped.append(("step", f"{task}#{next_index}", "row_missing", f"actions {next_index} to {index - 1} have no row"))
        if index in by_index:
            row = by_index[index]
            step, fault = _step(root, row)
            if fault:
                found.skipped.append(("row", row.item, "bad_operation", fault))
            made.append((jsonio.as_str(row.record.get("action_uid")), step))
        next_index = index + 1
    found.steps = [step for _, step in made]
    if screens is not None:
        screens.join(found, made)
    return found


def _step(root: Path, row: Row) -> tuple[Step, str | None]:
    record = row.record
    shown = jsonio.as_str(record.get("target_action_reprs"))
    if shown is None:
        index, listed = _number(record[INDEX]), jsonio.as_list(record.get("action_reprs"))
        shown = jsonio.as_str(listed[index]) if index is not None and 0 <= index < len(listed) else None
    step, fault = mind2web_actions.step(record.get("operation"), first(record[INDEX]), shown, record.get("pos_candidates"))
    if row.pictured:
        step.before = Picture(row.file, str(row.number), partial(load, root, row.file, str(row.number)))
    return step, fault


def _number(index: object) -> int | None:
    return jsonio.as_int(first(index))
