"""Label files: strict import of the contract's JSON Lines or CSV rows, and of tables with one column a rater.

A label is one annotator's word on one trajectory. It is never overwritten and never dropped in silence: a file with a
fault is refused as a whole, with every fault listed. A skip says that somebody would not label a trajectory, and why; it is no label.
"""

import csv
import difflib
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from evoaudit import codebook, csvfile
from evoaudit.codebook import Codebook
from evoaudit.errors import InputError, one_line
from evoaudit.givenfile import read_given
from evoaudit.review import keyfile
from evoaudit.store import text

FIELDS = (
    "trajectory_id",
    "annotator",
    "kind",
    "stage",
    "verdict",
    "category",
    "evidence_steps",
    "confidence",
    "seconds",
    "note",
    "codebook_version",
    "simulated",
    "practice",
    "viewed",
    "saw_last",
    "discuss",
    "skipped",
)
#: Fields that are told by a page or its key and need no column in a sheet.
TOLD = ("simulated", "practice", "viewed", "saw_last", "discuss", "skipped")
REQUIRED = ("trajectory_id", "annotator", "kind", "stage", "verdict", "codebook_version")
KINDS = ("llm", "human")
STAGES = ("blind", "informed", "adjudicated")
MAX_BYTES = 256 * 1024 * 1024
MAX_NOTE = 20_000
MAX_ID = 1_000

#: Notes a fault of the row at hand: field, what, mend.
Fault = Callable[[str | None, str, str], None]


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a label file, as a person can mend it."""

    where: str
    field: str | None
    what: str
    mend: str

    def __str__(self) -> str:
        return one_line(f"{self.where}: " + (f"{self.field}: " if self.field else "") + f"{self.what}; {self.mend}")


def read(
    paths: Path | Iterable[Path],
    known: set[str] | dict[str, int | None] | None = None,
    book: Codebook | None = None,
    keys: Mapping[str, keyfile.Item] | None = None,
    skips: list[dict] | None = None,
) -> list[dict]:
    """Read label files and refuse them if anything in them is wrong.

    ``known`` are the frame's trajectory ids, with the number of steps where that is known; ``keys`` say which trajectories the items
    of review pages are; ``skips`` takes the rows that are no labels.
    """
    rows, findings = check(paths, known, book, keys=keys, skips=skips)
    if findings:
        first, more = findings[0], len(findings) - 1
        tail = f" ({more} more; `evoaudit review check` lists them)" if more else ""
        raise InputError(first.where, (f"{first.field}: " if first.field else "") + first.what, first.mend + tail)
    return rows


def check(
    paths: Path | Iterable[Path],
    known: set[str] | dict[str, int | None] | None = None,
    book: Codebook | None = None,
    twins: bool = False,
    keys: Mapping[str, keyfile.Item] | None = None,
    skips: list[dict] | None = None,
) -> tuple[list[dict], list[Finding]]:
    """Read label files; return the sound labels in file order and every fault found.

    ``twins`` lets a row that is the same in every field come again, as when files that overlap are merged. ``skips`` takes the sound
    rows that are no labels.
    """
    book = book or codebook.load()
    rows: list[dict] = []
    findings: list[Finding] = []
    seen: dict[tuple[str, str, str], tuple[str, dict]] = {}
    kinds: dict[str, tuple[str, str]] = {}
    for path in [paths] if isinstance(paths, Path) else paths:
        empty = True
        for where, record in _records(path):
            empty = False
            if isinstance(record, Finding):
                findings.append(record)
                continue
            row, faults = _row(record, where, book, known, keys or {})
            if not faults and row["skipped"]:
                if skips is not None and row not in skips:
                    skips.append(row)
                continue
            if not faults and twins and seen.get(_key(row), ("", None))[1] == row:
                continue
            if not faults:
                faults = _clashes(row, where, seen, kinds)
            findings += faults
            if not faults:
                rows.append(row)
        if empty:
            findings.append(Finding(str(path), None, "holds no labels", "give a file with one label a line, or leave it out"))
    return rows, findings


def _key(row: dict) -> tuple[str, str, str]:
    return row["trajectory_id"], row["annotator"], row["stage"]


def unlabelled(skips: Iterable[dict], rows: Iterable[dict]) -> list[dict]:
    """Return the skips of what the same annotator has not labelled at the same stage since, one each, in order."""
    done = {_key(row) for row in rows}
    left = {_key(row): row for row in skips if _key(row) not in done}
    return [left[key] for key in sorted(left)]


def told(skip: dict) -> str:
    """Say in a line what was skipped, by whom and why."""
    return one_line(f"{skip['trajectory_id']} by {skip['annotator']} ({skip['stage']}): {skip['note']}", 400)


def _clashes(row: dict, where: str, seen: dict, kinds: dict) -> list[Finding]:
    """Compare a row with those before it, across files."""
    key = _key(row)
    if key in seen:
        return [
            Finding(
                where,
                None,
                f"a second {key[2]} label of '{key[1]}' for '{key[0]}', first given at {seen[key][0]}",
                "keep one of the two; labels are never overwritten",
            )
        ]
    kind, first = kinds.setdefault(row["annotator"], (row["kind"], where))
    if kind != row["kind"]:
        return [
            Finding(where, "kind", f"'{row['annotator']}' is {row['kind']} here and {kind} at {first}", "give every annotator one kind")
        ]
    seen[key] = (where, row)
    return []


def _records(path: Path) -> Iterator[tuple[str, dict | Finding]]:
    """Yield (file and line, record) from JSON Lines or CSV, told apart by content."""
    content = _content(path)
    if content.lstrip()[:1] == "{":
        yield from _json_lines(path, content)
    else:
        yield from _csv(path, content)


def _content(path: Path) -> str:
    smaller = f"split it into parts of at most {MAX_BYTES:,} bytes"
    raw = read_given(path, MAX_BYTES, "give the path of a label file", "is too large for a label file", smaller)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(path, f"not UTF-8 at byte {error.start}", "save it as UTF-8") from None


def _json_lines(path: Path, content: str) -> Iterator[tuple[str, dict | Finding]]:
    for number, line in enumerate(content.split("\n"), 1):
        where = f"{path}:{number}"
        if not line.strip():
            continue
        try:
            record = json.loads(line, object_pairs_hook=_unique, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            yield where, Finding(where, None, f"not a JSON object ({one_line(str(error), 100)})", "write one object a line")
            continue
        if isinstance(record, dict):
            yield where, record
        else:
            yield where, Finding(where, None, "not a JSON object", "write one object a line")


def _unique(pairs: list[tuple[str, object]]) -> dict:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a field is given twice")
    return record


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _csv(path: Path, content: str) -> Iterator[tuple[str, dict | Finding]]:
    reader = csv.reader(io.StringIO(content, newline=""), strict=True)
    header: list[str] | None = None
    line = 1
    try:
        for cells in reader:
            where, line = f"{path}:{line}", reader.line_num + 1
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = [cell.strip() for cell in cells]
                if len(set(header)) != len(header):
                    yield where, Finding(where, None, "the header names a column twice", "name every column once")
                    return
                if missing := [name for name in REQUIRED if name not in header]:
                    yield where, Finding(where, missing[0], "no such column in the header", f"the columns are {', '.join(FIELDS)}")
                    return
                continue
            if len(cells) != len(header):
                yield where, Finding(where, None, f"{len(cells)} cells where the header has {len(header)}", "quote cells that hold commas")
                continue
            yield where, dict(zip(header, map(csvfile.plain, cells), strict=True))
    except csv.Error as error:
        where = f"{path}:{line}"
        yield where, Finding(where, None, f"not CSV ({error})", "quote cells that hold commas, quotes or line breaks")


def _row(
    record: dict, where: str, book: Codebook, known: set[str] | dict[str, int | None] | None, keys: Mapping[str, keyfile.Item]
) -> tuple[dict, list[Finding]]:
    """Return the typed row and its faults."""
    faults: list[Finding] = []

    def fault(field: str | None, what: str, mend: str) -> None:
        faults.append(Finding(where, field, what, mend))

    for name in record:
        if name not in FIELDS:
            near = difflib.get_close_matches(str(name), FIELDS, 1)
            fault(str(name), "no such field", f"did you mean '{near[0]}'?" if near else f"the fields are {', '.join(FIELDS)}")
    row: dict = dict.fromkeys(FIELDS)
    for name in ("trajectory_id", "annotator", "kind", "stage", "verdict", "category", "codebook_version", "note"):
        value = record.get(name)
        if value is not None and not isinstance(value, str):
            fault(name, f"{_shown(value)} is not text", "put it in quotes")
            continue
        # Identifiers keep their spelling; only the outer white space of an annotator or code is a slip of the pen.
        value = value if name in ("trajectory_id", "note") or value is None else value.strip()
        row[name] = text(value, MAX_NOTE) if value not in (None, "") else None
    for name in ("simulated", "practice", "saw_last", "discuss", "skipped"):
        row[name] = _flag(record.get(name), name, fault)
    if row["skipped"] and row["verdict"] is not None:
        fault("skipped", f"true beside the verdict '{one_line(row['verdict'], 60)}'", "a skip is no label; leave one of the two out")
    if row["skipped"] and not (row["note"] or "").strip():
        fault("note", "is missing", "say why it was skipped")
    for name in REQUIRED:
        if row["skipped"] and name == "verdict":
            continue
        if row[name] is None and not any(found.field == name for found in faults):
            mend = f"write '{book.version}', the codebook the labels were made with" if name == "codebook_version" else "fill it in"
            fault(name, "is missing", mend)
    for name in ("trajectory_id", "annotator"):
        if row[name] and len(row[name]) > MAX_ID:
            fault(name, f"{len(row[name]):,} characters are too many", f"use at most {MAX_ID:,}")
    _code(row, "kind", KINDS, fault)
    _code(row, "stage", STAGES, fault)
    _code(row, "verdict", book.verdicts, fault)
    _code(row, "category", book.categories, fault)
    if row["category"] and row["verdict"] in book.verdicts and row["verdict"] != "gf":
        fault("category", f"'{row['category']}' beside the verdict '{row['verdict']}'", "only 'gf' takes a category; leave it empty")
    if row["codebook_version"] and not book.accepts(row["codebook_version"]):
        fault(
            "codebook_version",
            f"'{row['codebook_version']}' is not this codebook ({book.identity})",
            "label with this codebook, or run with the one the labels were made with",
        )
    row["evidence_steps"] = _steps(record.get("evidence_steps"), fault)
    row["confidence"] = _number(record.get("confidence"), "confidence", 1.0, fault)
    row["seconds"] = _number(record.get("seconds"), "seconds", math.inf, fault)
    viewed = _number(record.get("viewed"), "viewed", math.inf, fault)
    row["viewed"] = None if viewed is None else int(viewed)
    if row["trajectory_id"] and keyfile.is_item(row["trajectory_id"]):
        if (item := keys.get(row["trajectory_id"])) is None:
            mend = "give the key file of the page it was labelled on: --keys review/keys/GROUP.json"
            fault("trajectory_id", f"'{row['trajectory_id']}' is an item of a review page and in no key file", mend)
        else:
            _reveal(row, item, book, fault)
    if row["trajectory_id"] and known is not None and not keyfile.is_item(row["trajectory_id"]):
        if row["trajectory_id"] not in known:
            fault(
                "trajectory_id",
                f"'{one_line(row['trajectory_id'], 200)}' is not in the frame",
                "use the ids of the audit's sample, verbatim",
            )
        elif isinstance(known, dict) and (n := known[row["trajectory_id"]]) is not None and max(row["evidence_steps"] or [0]) >= n > 0:
            fault("evidence_steps", f"step {max(row['evidence_steps'])} of a trajectory with {n} steps", "steps count from 0")
    return row, faults


def _reveal(row: dict, item: keyfile.Item, book: Codebook, fault: Fault) -> None:
    """Put the trajectory in the place of the item, if the label is what the item's page was written for."""
    for name, want in (("annotator", item.annotator), ("stage", item.stage)):
        if row[name] is not None and row[name] != want:
            fault(name, f"'{one_line(row[name], 60)}' on an item of the {item.stage} page of '{item.annotator}'", f"write '{want}'")
    if not book.accepts(item.codebook):
        fault(
            "codebook_version",
            f"the page was written with {item.codebook}",
            f"run with that codebook, or build the page again ({book.identity})",
        )
    if max(row["evidence_steps"] or [0]) >= item.n_steps > 0:
        fault("evidence_steps", f"step {max(row['evidence_steps'])} of a trajectory with {item.n_steps} steps", "steps count from 0")
    row["trajectory_id"], row["practice"] = item.trajectory_id, item.practice


def _shown(value: object) -> str:
    return one_line(json.dumps(value, ensure_ascii=True), 60)


def _code(row: dict, field: str, codes: tuple[str, ...], fault: Fault) -> None:
    value = row[field]
    if value is not None and value not in codes:
        near = difflib.get_close_matches(value.lower(), codes, 1)
        fault(field, f"'{one_line(value, 60)}' is not a code", f"did you mean '{near[0]}'?" if near else f"use one of {', '.join(codes)}")


def _steps(value: object, fault: Fault) -> list[int] | None:
    if value in (None, "", []):
        return None
    if isinstance(value, str):
        try:
            value = (
                json.loads(value)
                if value.strip().startswith("[")
                else [int(part) for part in value.replace(",", " ").replace(";", " ").split()]
            )
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, list) or not all(type(step) is int and 0 <= step < 2**31 for step in value):
        fault("evidence_steps", "not a list of step numbers", "write [3, 4] in JSON or 3;4 in CSV, counted from 0")
        return None
    return value or None


def _number(value: object, field: str, highest: float, fault: Fault) -> float | None:
    if value in (None, ""):
        return None
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and 0 <= number <= highest):
        fault(
            field,
            f"{_shown(value)} is not a number from 0" + (f" to {highest:g}" if math.isfinite(highest) else ""),
            "leave it empty if unknown",
        )
        return None
    return number


def _flag(value: object, field: str, fault: Fault) -> bool:
    if value in (None, "", False, "false", "False", "0"):
        return False
    if value in (True, "true", "True", "1"):
        return True
    fault(field, f"{_shown(value)} is not true or false", "write true or false")
    return False


def dumps(row: dict) -> str:
    """Return a label as one JSON line of the contract; empty fields are left out."""
    return json.dumps({name: row[name] for name in FIELDS if row[name] is not None and row[name] is not False}, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Rater:
    """Where a wide table keeps one rater's verdicts and categories."""

    name: str
    kind: str
    verdict: str
    category: str | None = None

    @classmethod
    def parse(cls, spec: str) -> "Rater":
        """Parse ``NAME=KIND:VERDICT_COLUMN[:CATEGORY_COLUMN]``."""
        name, separator, rest = spec.partition("=")
        parts = rest.split(":")
        if not separator or not name or len(parts) not in (2, 3) or parts[0] not in KINDS or not all(parts):
            raise InputError(
                "--rater", f"'{spec}' is not NAME=KIND:VERDICT_COLUMN[:CATEGORY_COLUMN]", "for instance human-1=human:h1:h1_category"
            )
        return cls(name, parts[0], parts[1], parts[2] if len(parts) == 3 else None)


def _dict_rows(reader: csv.DictReader, path: Path) -> Iterator[dict]:
    try:
        yield from reader
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}", f"not CSV ({error})", "quote cells that hold commas, quotes or line breaks") from None


def spread(path: Path, raters: list[Rater], identity: str = "id", book: Codebook | None = None) -> tuple[list[dict], list[dict]]:
    """Turn a table with one row a trajectory and one column a rater into a frame and label rows.

    Codes may be spelt as tables spell them (``GF``, ``T1-LOOP``, ``AMBIG``). A rater's category is taken only beside ``gf``.
    """
    book = book or codebook.load()
    content = _content(Path(path))
    reader = csv.DictReader(io.StringIO(content, newline=""), strict=True)
    try:
        header = reader.fieldnames or []
    except csv.Error as error:
        raise InputError(f"{path}:1", f"not CSV ({error})", "quote cells that hold commas, quotes or line breaks") from None
    if len(set(header)) != len(header):
        raise InputError(f"{path}:1", "the header names a column twice", "name every column once")
    wanted = [identity, *(rater.verdict for rater in raters), *(rater.category for rater in raters if rater.category)]
    for name in wanted:
        if name not in header:
            near = difflib.get_close_matches(name, header, 1)
            raise InputError(
                f"{path}:1", f"no column '{name}'", f"did you mean '{near[0]}'?" if near else f"the columns are {', '.join(header)}"
            )

    def code(cell: str | None, where: str, column: str, allowed: tuple[str, ...]) -> str | None:
        if not (cell or "").strip():
            return None
        found = book.code_of(cell)
        if found not in allowed:
            raise InputError(where, f"{column}: '{cell}' is not a code", f"use one of {', '.join(allowed)}")
        return found

    frame, rows, seen = [], [], {}
    line = reader.line_num + 1
    for cells in _dict_rows(reader, path):
        where, line = f"{path}:{line}", reader.line_num + 1
        if None in cells or None in cells.values():
            raise InputError(where, f"not as many cells as the header's {len(header)}", "quote cells that hold commas")
        cells = {name: csvfile.plain(cell) for name, cell in cells.items()}
        trajectory = cells[identity].strip()
        if not trajectory:
            raise InputError(where, f"{identity}: is missing", "give every row an id")
        if trajectory in seen:
            raise InputError(where, f"{identity}: '{trajectory}' again, first at {seen[trajectory]}", "give every trajectory one row")
        seen[trajectory] = where
        simulated = str(cells.get("synthetic") or cells.get("simulated") or "").strip().lower() in ("true", "1")
        frame.append(
            {
                "trajectory_id": trajectory,
                "simulated": simulated,
                **{name: (cells.get(name) or "").strip() or None for name in ("benchmark", "agent", "task_id", "experiment", "raw_reward")},
            }
        )
        for rater in raters:
            verdict = code(cells[rater.verdict], where, rater.verdict, book.verdicts)
            if verdict is None:
                continue
            category = code(cells[rater.category], where, rater.category, book.categories) if rater.category and verdict == "gf" else None
            rows.append(
                {
                    **dict.fromkeys(FIELDS),
                    "trajectory_id": trajectory,
                    "annotator": rater.name,
                    "kind": rater.kind,
                    "stage": "blind",
                    "verdict": verdict,
                    "category": category,
                    "codebook_version": book.version,
                    "simulated": simulated,
                    "practice": False,
                    "discuss": False,
                }
            )
    return frame, rows
