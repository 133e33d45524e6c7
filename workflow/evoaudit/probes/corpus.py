"""The normalised tables of all sources as arrays: a few dozen bytes a step, so that mining fits in memory at any size."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evoaudit import schema
from evoaudit.actions import OPS
from evoaudit.audit.noop import COPIES, MODIFIERS, PASSIVE
from evoaudit.errors import InputError, one_line

#: A screen of which one colour takes at least this share shows nothing to reason about.
BLANK_SHARE = 0.995
#: Accessible texts longer than this are pages, whatever words stand on them.
NOTICE_LENGTH = 300
#: What a short page says while it loads or when it failed.
NOTICE = (
    r"(?i)^\W*(loading|please wait|just a moment|one moment)\W*$"
    r"|\b(50[0234]|404)\b.{0,40}\b(bad gateway|service|gateway time|internal server|not found|error)|\berr_[a-z_]{4,}"
    r"|this (site|page) can.?t be reached|(bad gateway|service unavailable|gateway time-?out|internal server error)\W*$"
)
#: Addresses of pages that no site made.
NO_PAGE = r"^(about:blank|chrome-error:|data:,)"
#: Values that begin or end in what no screen shows: white space, or a key that is no character.
UNSEEN = r"^\s|\s$|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
#: Values that a publisher struck out.
MASKED = r"(?i)^\s*([*•●∙█■]{3,}|[\[<({]{1,2}\s*(redacted|masked|hidden|secret|password|removed)\b[^\]>)}]*[\]>)}]{1,2})\s*$"

#: Operations that bring nothing about on the screen, and keys that do not: what changes after them is not their doing.
IDLE = (*sorted(PASSIVE), "copy")
IDLE_KEYS = (
    rf"^({'|'.join(re.escape(keys) for keys in sorted(COPIES))}|({'|'.join(sorted(MODIFIERS))})([+,]({'|'.join(sorted(MODIFIERS))}))*)$"
)

OP_NAMES = tuple(OPS)
SAME, CHANGED, UNKNOWN = 0, 1, 2
_STATES = {"same": SAME, "changed": CHANGED, "unknown": UNKNOWN}
_NARROW, _WIDE = 131_072, 2048


@dataclass(frozen=True)
class Corpus:
    """Trajectories sorted by id, their steps in order, and the pictures sorted by image_id; −1 stands for none.

    A *screen* is what is seen before a step, or after the last one. Trajectory ``t`` has steps ``first[t]`` to
    ``first[t + 1]``, and one screen more than steps: screen ``p`` of it is number ``first[t] + t + p`` overall.
    """

    folders: tuple[Path, ...]
    trajectory: list[str]
    source: list[str]
    #: Website or application, or the domain where the source names neither, or ""; the unit of balance, for it is what the
    #: paper counts as a domain (a hundred and twenty of them, where Mind2Web's own field of that name has five values).
    site: list[str]
    #: Domain, or the website where the source names no domain, or "".
    domain: list[str]
    #: Columns carried through to the probes.
    carried: pa.Table
    #: Trajectories of one task share a number.
    task: np.ndarray
    kinds: dict[str, str]
    first: np.ndarray
    owner: np.ndarray
    op: np.ndarray
    run: np.ndarray
    before: np.ndarray
    after: np.ndarray
    state: np.ndarray
    tiles: np.ndarray
    #: Rows of steps.parquet and changes.parquet, counted through all folders, that hold each step; −1 for none.
    step_row: np.ndarray
    change_row: np.ndarray
    value: pa.Array
    has_value: np.ndarray
    masked: np.ndarray
    unseen: np.ndarray
    failed: np.ndarray
    #: Steps that bring nothing about on the screen.
    idle: np.ndarray
    notice: np.ndarray
    image_id: pa.Array
    status: np.ndarray
    blank: np.ndarray
    #: Share of the commonest colour, 0…1.
    plain: np.ndarray
    phash: np.ndarray
    size: np.ndarray
    #: Where each picture lies: source, file, member, file_sha256.
    place: pa.Table = field(repr=False)

    @cached_property
    def step(self) -> np.ndarray:
        """Number of each step within its trajectory."""
        return np.arange(len(self.owner)) - self.first[self.owner]

    @cached_property
    def good(self) -> np.ndarray:
        """Pictures that can be shown."""
        return self.status == 0

    @cached_property
    def shape(self) -> np.ndarray:
        """Width and height of each picture as one number."""
        return self.size[:, 0].astype(np.int64) << 32 | self.size[:, 1]

    @property
    def screen(self) -> np.ndarray:
        """Picture of every screen."""
        return self._screens[0]

    @property
    def screen_run(self) -> np.ndarray:
        """Unbroken run every screen belongs to."""
        return self._screens[1]

    @cached_property
    def screen_valid(self) -> np.ndarray:
        """Screens that show something: a whole picture, neither blank nor a loading or error notice."""
        shown = self.screen >= 0
        shown[shown] = (self.good & ~self.blank)[self.screen[shown]]
        noticed = np.zeros(len(self.screen), bool)
        noticed[np.arange(len(self.owner)) + self.owner] = self.notice
        return shown & ~noticed

    @cached_property
    def _screens(self) -> tuple[np.ndarray, np.ndarray]:
        """Lay out screens: the one before each step or, where a source logs none, the one after the step before it."""
        total = len(self.owner) + len(self.trajectory)
        picture, run = np.full(total, -1, np.int32), np.zeros(total, np.int32)
        place = np.arange(len(self.owner)) + self.owner
        picture[place + 1], run[place + 1] = self.after, self.run
        known = self.before >= 0
        picture[place[known]], run[place[known]] = self.before[known], self.run[known]
        return picture, run

    def name(self, step: int) -> str:
        """Return how a step is called in a list of drops."""
        return f"{self.trajectory[self.owner[step]]}#{self.step[step]}"

    def image(self, picture: int) -> str:
        return self.image_id[int(picture)].as_py()


def load(folders: Sequence[Path]) -> Corpus:
    """Read the normalised folders of all sources."""
    people = _trajectories(folders)
    ids = people["trajectory_id"].combine_chunks()
    pictures, columns = _images(folders)
    steps = _steps(folders, ids, pictures["image_id"].combine_chunks())
    owner = steps["owner"]
    first = np.searchsorted(owner, np.arange(len(ids) + 1)).astype(np.int64)
    changes = _changes(folders, ids, first)
    run = np.cumsum(steps.pop("gap"), dtype=np.int32)
    sources = people["source"].to_pylist()
    return Corpus(
        folders=tuple(Path(folder) for folder in folders),
        trajectory=ids.to_pylist(),
        source=sources,
        site=_first_of(people, "website", "domain"),
        domain=_first_of(people, "domain", "website"),
        carried=people.select(["website", "instruction", "simulated"]),
        task=_tasks(people),
        kinds=dict(sorted(set(zip(sources, people["kind"].to_pylist(), strict=True)))),
        first=first,
        run=run,
        **steps,
        **changes,
        **columns,
        image_id=pictures["image_id"].combine_chunks(),
        place=pictures.select(["source", "file", "member", "file_sha256"]).combine_chunks(),
    )


def _batches(folder: Path, name: str, columns: list[str], size: int = _NARROW) -> Iterator[pa.RecordBatch]:
    """Read some columns of a table batch by batch."""
    path = Path(folder) / f"{name}.parquet"
    try:
        with pq.ParquetFile(path) as file:
            if missing := [column for column in columns if column not in file.schema_arrow.names]:
                raise InputError(path, f"has no column '{missing[0]}'", "delete its folder and run again")
            yield from file.iter_batches(batch_size=size, columns=columns)
    except FileNotFoundError:
        raise InputError(path, "file not found", "run the stage that writes it, or give the right folder") from None
    except pa.ArrowException as error:
        raise InputError(path, f"not a readable Parquet file ({one_line(str(error), 120)})", "delete its folder and run again") from None


def _table(folders: Sequence[Path], name: str, columns: list[str]) -> pa.Table:
    """Read some columns of a table of every folder."""
    batches = [batch for folder in folders for batch in _batches(folder, name, columns)]
    declared = pa.schema([schema.TABLES[name].field(column) for column in columns])
    return pa.Table.from_batches([pa.RecordBatch.from_arrays(batch.columns, schema=declared) for batch in batches], schema=declared)


def _trajectories(folders: Sequence[Path]) -> pa.Table:
    columns = ["trajectory_id", "source", "kind", "benchmark", "task_id", "domain", "website", "instruction", "simulated"]
    found = _table(folders, "trajectories", columns).sort_by([("trajectory_id", "ascending"), ("source", "ascending")])
    ids = found["trajectory_id"].combine_chunks()
    twice = pc.equal(ids[1:], ids[:-1]) if len(ids) > 1 else pa.array([], pa.bool_())
    if (at := pc.index(twice, True).as_py()) >= 0:
        names = " and ".join(f"'{found['source'][at + k].as_py()}'" for k in (0, 1))
        raise InputError(f"trajectory '{ids[at].as_py()}'", f"is in the sources {names}", "give it another trajectory_id in one of them")
    return found


def _first_of(people: pa.Table, name: str, other: str) -> list[str]:
    """Return one column in lower case, the other where it is empty."""
    return [(one or two or "").strip().lower() for one, two in zip(people[name].to_pylist(), people[other].to_pylist(), strict=True)]


def _tasks(people: pa.Table) -> np.ndarray:
    """Number the tasks: trajectories of one benchmark and task id, or without an id of one instruction, share a number."""
    by_id = pc.binary_join_element_wise(pc.fill_null(people["benchmark"], ""), people["task_id"], "\x1f")
    name = pc.coalesce(by_id, people["instruction"], people["trajectory_id"])
    return np.asarray(name.combine_chunks().dictionary_encode().indices).astype(np.int32)


def _images(folders: Sequence[Path]) -> tuple[pa.Table, dict[str, np.ndarray]]:
    """Read the pictures, one row for each image_id: the first place that holds it."""
    columns = ["image_id", "source", "file", "member", "file_sha256", "width", "height", "status", "phash", "blank"]
    found = _table(folders, "images", columns).sort_by([(name, "ascending") for name in columns[:4]])
    ids = found["image_id"].combine_chunks()
    if len(ids) > 1:
        found = found.filter(pa.concat_arrays([pa.array([True]), pc.not_equal(ids[1:], ids[:-1])]))
    status = np.asarray(pc.fill_null(pc.index_in(found["status"], pa.array(STATUSES)), len(STATUSES))).astype(np.int8)
    hashes = found["phash"].to_pylist()
    plain = np.asarray(pc.fill_null(found["blank"], 0.0))
    sides = [np.asarray(pc.fill_null(found[side], 0)).astype(np.int32) for side in ("width", "height")]
    return found, {
        "status": status,
        "blank": plain >= BLANK_SHARE,
        "plain": plain.astype(np.float32),
        "phash": np.array([int(value, 16) if value else 0 for value in hashes], np.uint64),
        "size": np.stack(sides, axis=1) if len(found) else np.zeros((0, 2), np.int32),
    }


#: Picture statuses by number; the first alone can be shown.
STATUSES = ("ok", "missing", "lfs_pointer", "truncated", "too_large", "not_an_image")


def _number(column: pa.Array, among: pa.Array, path: Path, what: str) -> np.ndarray:
    """Return each value's place in ``among``, −1 for nulls; a value that is not there is a fault of the tables."""
    found = pc.index_in(column, value_set=among)
    if found.null_count > column.null_count:
        value = column.filter(pc.and_(pc.is_null(found), pc.is_valid(column)))[0].as_py()
        raise InputError(path, f"{what} '{one_line(value, 80)}' is in no other table", "delete its folder and run again")
    return np.asarray(pc.fill_null(found, -1)).astype(np.int32)


def _steps(folders: Sequence[Path], ids: pa.Array, images: pa.Array) -> dict:
    """Read the steps of every source, sorted by trajectory and step."""
    parts: dict[str, list] = {name: [] for name in ("owner", "step", "gap", "op", "before", "after")}
    texts: dict[str, list] = {name: [] for name in ("value", "has_value", "masked", "unseen", "failed", "idle", "notice")}
    for folder in folders:
        path = Path(folder) / "steps.parquet"
        for batch in _batches(folder, "steps", ["trajectory_id", "step", "gap_before", "op", "before_image", "after_image"]):
            parts["owner"].append(_number(batch["trajectory_id"], ids, path, "trajectory"))
            parts["step"].append(np.asarray(batch["step"]))
            parts["gap"].append(np.asarray(batch["gap_before"]))
            parts["op"].append(_number(batch["op"], pa.array(OP_NAMES), path, "operation").astype(np.int8))
            for side in ("before", "after"):
                parts[side].append(_number(batch[f"{side}_image"], images, path, "picture"))
        for batch in _batches(folder, "steps", ["op", "value", "error", "url", "page_text"], _WIDE):
            for name, array in _texts(batch).items():
                texts[name].append(array)
    found = {name: np.concatenate(arrays) if arrays else np.zeros(0, np.int32) for name, arrays in parts.items()}
    order = np.lexsort((found["step"], found["owner"]))
    found = {name: array[order] for name, array in found.items()}
    starts = np.r_[True, found["owner"][1:] != found["owner"][:-1]] if len(order) else np.zeros(0, bool)
    firsts = np.flatnonzero(starts)
    expected = np.arange(len(order)) - np.repeat(firsts, np.diff(np.r_[firsts, len(order)]))
    if not np.array_equal(found.pop("step"), expected):
        raise InputError("steps.parquet", "steps are not numbered 0, 1, 2, … in a trajectory", "delete its folder and run again")
    found["gap"] = found["gap"].astype(bool) | starts
    value = pa.concat_arrays(texts.pop("value")) if len(order) else pa.array([], pa.string())
    flags = {name: np.concatenate(arrays)[order] if arrays else np.zeros(0, bool) for name, arrays in texts.items()}
    return {**found, **flags, "value": value.take(pa.array(order)), "step_row": order}


def _texts(batch: pa.RecordBatch) -> dict[str, pa.Array | np.ndarray]:
    """Reduce the wordy columns to what mining asks of them."""

    def matches(column: pa.Array, pattern: str) -> np.ndarray:
        return np.asarray(pc.fill_null(pc.match_substring_regex(column, pattern), False))

    text = batch["page_text"]
    keys = pc.replace_substring_regex(pc.utf8_lower(batch["value"]), r"\s", "")
    short = pc.if_else(pc.less_equal(pc.utf8_length(text), NOTICE_LENGTH), text, None)
    return {
        "value": batch["value"],
        "has_value": matches(batch["value"], r"\S"),
        "masked": matches(batch["value"], MASKED),
        "unseen": matches(batch["value"], UNSEEN),
        "idle": matches(batch["op"], f"^({'|'.join(IDLE)})$") | (matches(batch["op"], "^key$") & matches(keys, IDLE_KEYS)),
        "failed": matches(batch["error"], r"\S"),
        "notice": matches(short, NOTICE) | matches(batch["url"], NO_PAGE),
    }


def _changes(folders: Sequence[Path], ids: pa.Array, first: np.ndarray) -> dict[str, np.ndarray]:
    """Read what changed at each step; a step without a row is unknown."""
    state, tiles, row = np.full(first[-1], UNKNOWN, np.int8), np.zeros(first[-1], np.int32), np.full(first[-1], -1, np.int64)
    read = 0
    for folder in folders:
        path = Path(folder) / "changes.parquet"
        for batch in _batches(folder, "changes", ["trajectory_id", "step", "state", "changed_tiles"]):
            owner, step = _number(batch["trajectory_id"], ids, path, "trajectory"), np.asarray(batch["step"])
            at = first[owner] + step
            if len(at) and ((step < 0) | (at >= first[owner + 1])).any():
                raise InputError(path, "names a step that is not in steps.parquet", "delete its folder and run again")
            state[at] = _number(batch["state"], pa.array(list(_STATES)), path, "state")
            tiles[at] = np.asarray(pc.fill_null(batch["changed_tiles"], 0))
            row[at] = read + np.arange(len(at))
            read += len(at)
    return {"state": state, "tiles": tiles, "change_row": row}
