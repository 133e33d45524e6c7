"""``evoaudit validate``: check a config, a folder of logs or a label file before a run does."""

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from evoaudit.errors import InputError, one_line
from evoaudit.stages import configured

if TYPE_CHECKING:
    from evoaudit.rawlogs import Looked

#: Lines printed for one kind of problem, unless all are asked for.
LINES = 50
#: Different unknown fields that are named.
_STRANGE = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this subcommand's arguments."""
    parser.add_argument("path", type=Path, help="a config (.yaml), a label file (.jsonl or .csv), or a folder of trajectories")
    parser.add_argument("--kind", help="native format of a folder (default: the plain format where it is there, else find out)")
    parser.add_argument("--all", action="store_true", help=f"print every problem, not only {LINES} of a kind")
    parser.add_argument("--root", help="folder that relative source paths start from, for a config")


def run(args: argparse.Namespace) -> int:
    """Print what is wrong, a line each; exit with 1 on findings."""
    if not args.path.exists():
        raise InputError(args.path, "no such file or folder", "give the path of a config, a label file or a folder")
    if args.path.is_dir():
        return _folder(args.path, args.kind, args.all)
    if args.path.name == "trajectories.jsonl":
        return _folder(args.path.parent, args.kind or "plain", args.all)
    if args.path.suffix in (".yaml", ".yml"):
        return _config(args)
    if args.path.suffix in (".jsonl", ".csv"):
        return _labels(args.path)
    raise InputError(args.path, f"do not know how to check a '{args.path.suffix}' file", "give .yaml, .jsonl, .csv or a folder")


def _config(args: argparse.Namespace) -> int:
    from evoaudit import plan as plans

    args.configfile, args.results = [args.path], Path("results")
    plan = plans.build(configured.load(args), args.results)
    print(f"{args.path}: valid, {len(plan.jobs)} jobs")
    return 0


def _labels(path: Path) -> int:
    from evoaudit import labels

    rows, findings = labels.check(path)
    for finding in findings:
        print(finding)
    print(f"{path}: {len(rows)} sound labels, {len(findings)} findings" if findings else f"{path}: valid, {len(rows)} labels")
    return int(bool(findings))


def _folder(root: Path, kind: str | None, everything: bool) -> int:
    """Read the folder as a run would, and explain every record a run would leave out or not understand."""
    import tempfile

    from evoaudit import rawlogs

    if kind is None and (root / "trajectories.jsonl").is_file():
        kind = "plain"
    raws, unknown = rawlogs.find(root, kind)
    for one in unknown:
        print(f"{one_line(str(one.path))}: not read: {one_line(one.evidence, 400)}")
    if not raws:
        mend = "give the folder that holds the logs, or say with --kind what they are; docs/sources.md has the layouts"
        raise InputError(root, "no logs of a layout that is known", mend)
    wrong = False
    with tempfile.TemporaryDirectory() as scratch:
        for looked in rawlogs.look(raws, Path(scratch)):
            if looked.fault is not None:
                if len(raws) == 1:
                    raise looked.fault
                print(looked.fault)
                wrong = True
                continue
            if len(raws) > 1:
                print(f"\n{one_line(str(looked.raw.source.root))} ({looked.raw.source.kind})")
            wrong |= _report(looked, everything)
    if not wrong:
        print("\nNothing to mend. To use " + ("it" if len(raws) == 1 else "them") + ", put this into a config:\n")
        print("\n".join(f"    {line}" for line in rawlogs.config_lines(raw.source for raw in raws)))
    return int(wrong)


@dataclass
class _Problems:
    """Lines to print, at most ``limit`` of a kind: those that name a line of a file in its order, then the others by kind.

    ``notes`` are only worth knowing.
    """

    limit: int | None
    lines: dict[str, list[tuple[tuple, str]]] = field(default_factory=dict)
    more: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def add(self, sort: str, item: str, what: str, mend: str = "") -> None:
        lines = self.lines.setdefault(sort, [])
        if self.limit is not None and len(lines) >= self.limit:
            self.more[sort] += 1
            return
        found = re.match(r"(.*?):(\d+)\b", item)
        place = (0, found[1], int(found[2]), sort) if found else (1, sort)
        lines.append((place, one_line(f"{item}: {sort}: {what}" + (f"; {mend}" if mend and mend not in what else ""), 1000)))

    def print(self) -> None:
        for _, line in sorted((line for lines in self.lines.values() for line in lines), key=lambda line: line[0]):
            print(line)
        for sort, more in sorted(self.more.items()):
            print(f"… and {more:,} more of '{sort}'; --all prints them")
        for note in self.notes:
            print(one_line(f"note: {note}", 500))


def _report(looked: "Looked", everything: bool) -> bool:
    """Print what is wrong with one source, and how much of it can be read; return whether anything has to be mended."""
    from evoaudit.catalogue_page import counted
    from evoaudit.reasons import explain
    from evoaudit.store import read_rows, read_table

    source, folder, counts = looked.raw.source, looked.folder, looked.counts
    problems = _Problems(None if everything else LINES)
    named = _named(folder)
    ordinary: Counter[tuple[str, str]] = Counter()
    pairs: Counter[str] = Counter()
    records = 0
    for row in read_rows(folder, "drops"):
        meaning = explain(row["reason"], row["unit"])
        if row["unit"] == "transition":
            pairs[row["reason"]] += 1
        elif meaning.ordinary:
            ordinary[row["unit"], row["reason"]] += 1
        else:
            records += 1
            what = (row["detail"] or meaning.text) + named.get(row["item"] if row["unit"] == "picture" else "", "")
            problems.add(f"{row['unit']} {row['reason']}", row["item"], what, meaning.mend)
    if source.kind == "plain":
        for item, sort, what, mend in _plain(source.root, problems.notes):
            problems.add(sort, item, what, mend)
    _verbs(source.kind, read_table(folder, "steps", ["op", "op_raw"]).to_pylist(), problems)
    for (unit, reason), number in sorted(ordinary.items()):
        problems.notes.append(f"{counted(unit, number)} left out, as the format has it: {explain(reason, unit).text} ({reason})")
    for reason, number in sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0])):
        problems.notes.append(
            f"{number:,} step{'s have' if number > 1 else ' has'} no pair of screens: {explain(reason, 'transition').text} ({reason})"
        )
    problems.print()
    statuses = Counter(read_table(folder, "images", ["status"])["status"].to_pylist())
    kept = f"{counts.kept['trajectory']:,} trajectories with {counts.kept['step']:,} steps and {statuses['ok']:,} different pictures"
    if counts.kept["row"]:
        kept += f", and {counts.kept['row']:,} answers of annotators,"
    print(
        one_line(f"{source.root}: {kept} can be read, {records:,} records cannot; ")
        + f"{counts.kept['transition']:,} steps lie between two usable screens"
    )
    return bool(problems.lines)


def _named(folder: Path) -> dict[str, str]:
    """Return, for each picture that cannot be read, which step names it."""
    from evoaudit.catalogue_tables import Database

    with Database(folder) as database:
        found = database.all(
            "SELECT file || coalesce('#' || member, ''), min(trajectory_id || ', step ' || step) FROM images "
            "JOIN acts ON image_id IN (before_image, after_image) WHERE status <> 'ok' GROUP BY file, member"
        )
    return {item: f" (named by {step})" for item, step in found}


def _verbs(kind: str, steps: list[dict], problems: _Problems) -> None:
    """Name the actions the reader has no operation for: in the plain format they can be mended, elsewhere they are worth knowing."""
    import difflib

    from evoaudit.actions import OPS
    from evoaudit.catalogue_tables import verb

    def name(raw: str | None) -> str:
        return (raw or "").strip()[:40] if kind == "plain" else verb(raw or "")

    unknown = Counter(name(row["op_raw"]) for row in steps if row["op"] == "other")
    for word, number in sorted(unknown.items()):
        what = f"action '{word}' is none the {kind} reader knows ({number:,} steps): its screens count, its action does not"
        if kind != "plain":
            problems.notes.append(what)
        elif word.lower() != "other":
            near = difflib.get_close_matches(word.lower(), OPS, 1, 0.6)
            problems.add(
                "step unknown_action", "trajectories.jsonl", what, f"write '{near[0]}'" if near else f"use one of {', '.join(OPS)}"
            )


def _plain(root: Path, notes: list[str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield (item, sort, what, mend) for each field of the plain format that is misspelt, or ignored because of its type."""
    from evoaudit.sources import jsonio, plain
    from evoaudit.sources.base import Skipped

    strange: Counter[str] = Counter()
    bare = 0
    for number, value in jsonio.read_lines(root, plain.FILE):
        if isinstance(value, Skipped) or not isinstance(value, dict):
            continue
        item = f"{plain.FILE}:{number}"
        yield from _fields(value, plain.FIELDS, item, strange)
        for index, step in enumerate(jsonio.as_list(value.get("steps"))):
            if isinstance(step, dict):
                yield from _fields(step, plain.STEP_FIELDS, f"{item} steps[{index}]", strange)
                bare += not step.get("before_image") and not step.get("after_image")
    for name, times in sorted(strange.items()):
        notes.append(f"field '{name}' is not one of the plain format's and is not read ({times:,} times)")
    if bare:
        notes.append(
            f"{bare:,} step{'s name' if bare > 1 else ' names'} neither before_image nor after_image: such steps count in no probe"
        )


def _fields(value: dict, known: dict[str, str], item: str, strange: Counter[str]) -> Iterator[tuple[str, str, str, str]]:
    from evoaudit.sources import jsonio

    for name, given in value.items():
        kind = known.get(name)
        if kind is None:
            near = _near(name[:60], tuple(known))
            if near and near not in value:
                yield item, "field unknown", f"'{name}' is not known", f"did you mean '{near}'?"
            elif name[:60] in strange or len(strange) < _STRANGE:
                strange[name[:60]] += 1
        elif given is not None and not _FITS[kind](given):
            shown = f'"{given[:40]}"' if isinstance(given, str) else jsonio.dump(given, 40)
            yield item, "field ignored", f"'{name}' is {shown}, so it is not used", f"give {_WANTED[kind]}"


@lru_cache(maxsize=4096)
def _near(name: str, known: tuple[str, ...]) -> str | None:
    import difflib

    return next(iter(difflib.get_close_matches(name, known, 1, 0.8)), None)


def _is_number(value: object) -> bool:
    from evoaudit.sources import jsonio

    return jsonio.as_float(value) is not None


#: What a field holds → whether a value is that, and how it is called. Needed fields are the reader's affair: it drops the record.
_FITS: dict[str, Callable[[object], bool]] = {
    "text": lambda value: isinstance(value, str | int | float) and not isinstance(value, bool),
    "number": _is_number,
    "reward": lambda value: isinstance(value, bool) or _is_number(value),
    "steps": lambda value: True,
    "any": lambda value: True,
}
_WANTED = {"text": "a text", "number": "a number (times in seconds, places in pixels)", "reward": "a number, true or false"}
