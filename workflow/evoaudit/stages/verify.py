"""``evoaudit verify``: is what lies in the results still what was computed, and do two results folders hold the same?"""

import argparse
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evoaudit.errors import InputError, one_line
from evoaudit.identity import FORMAT, make_key
from evoaudit.intact import ASIDE, CHECKSUM, LISTING, MANIFEST, faults, listed, listing, read_manifest, set_aside
from evoaudit.jsonfile import read_json

#: What a model was asked, when, and in which batch: kept beside the answers, and no part of them.
BESIDE = frozenset({"journal.jsonl", "batches.jsonl"})
#: Fields of a manifest that say with what a folder was made, not what is in it.
MADE_WITH = ("packages", "revision", CHECKSUM)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this subcommand's arguments."""
    parser.add_argument("run_name", nargs="?", metavar="RUN", help="name of the run to verify (default: everything in the results folder)")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="folder of the results (default: results)")
    parser.add_argument(
        "--against", type=Path, metavar="DIR", help="compare with another results folder, file by file, instead of with the manifests"
    )
    parser.add_argument("--mend", action="store_true", help="set damaged files aside, so that the next run makes their folders anew")
    parser.add_argument("--threads", type=int, default=4, help="files read at a time")


def run(args: argparse.Namespace) -> int:
    """Print a line for each fault; exit with 1 if there is one."""
    _folder(args.results, "--results")
    if args.against is not None:
        _folder(args.against, "--against")
        if args.mend:
            raise InputError("--mend", "two folders that differ do not say which is right", "verify each of them without --against first")
        return _compare(args)
    if args.run_name and Path(args.run_name).resolve().parent == (args.results / "runs").resolve():  # its folder names it too
        args.run_name = Path(args.run_name).name
    checked = _verify(args)
    for line in checked.lines:
        print(one_line(line))
    if args.mend:
        for folder, names in checked.damaged.items():
            set_aside(folder, names)
            print(one_line(f"set aside in {folder}: {', '.join(names)}"))
    for note in checked.notes:
        print(f"note: {one_line(note)}")
    said = f"{checked.folders} folders, {checked.files} files"
    print(f"{said}: {len(checked.lines)} faults" if checked.lines else f"{said}: all as their manifests say")
    return int(bool(checked.lines))


def _folder(path: Path, field: str) -> None:
    if not path.is_dir():
        raise InputError(f"{field}: {path}", "no such folder", "give a folder that runs wrote, `results` unless it was moved")


@dataclass
class _Checked:
    folders: int = 0
    files: int = 0
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    #: Stage folder → its damaged files.
    damaged: dict[Path, list[str]] = field(default_factory=dict)


def _verify(args: argparse.Namespace) -> _Checked:
    results, found = args.results, _Checked()
    rows = _planned(results, args.run_name)
    if args.run_name is None:
        places = [folder for stage in FORMAT for folder in sorted((results / stage).glob("*")) if folder.is_dir()]
        runs = sorted(path.parent for path in results.glob(f"runs/*/{MANIFEST}"))
    else:
        places = [results / stage / key for stage, key in rows]
        runs = [results / "runs" / args.run_name]
    made = {folder.name for stage in FORMAT for folder in (results / stage).glob("*") if (folder / MANIFEST).is_file()}
    with ThreadPoolExecutor(max(1, args.threads)) as pool:
        for folder, one in zip(places, pool.map(lambda folder: _stage(folder, rows, made), places), strict=True):
            _add(found, folder, one)
        for folder, one in zip(runs, pool.map(_laid_out, runs), strict=True):
            _add(found, folder, one)
    return found


def _planned(results: Path, name: str | None) -> dict[tuple[str, str], dict[str, Any]]:
    """Return (stage, key) → what the plans of one run, or of all, say of it."""
    if name is None:
        files = sorted({*results.glob(".plans/*.json"), *results.glob("runs/*/keys.json")})
    else:
        files = [results / "runs" / name / "keys.json"]
        if not files[0].is_file():
            known = ", ".join(sorted(path.parent.name for path in results.glob("runs/*/keys.json"))) or "no runs"
            raise InputError(files[0], "no such run", f"there are {known}")
    rows = {}
    for file in files:
        try:
            rows |= {(str(row["stage"]), str(row["key"])): row for row in read_json(file)}
        except (TypeError, KeyError):
            raise InputError(file, "does not list a run's keys", "run the workflow again: it writes the file anew") from None
    for stage, key in rows:
        if stage not in FORMAT or not key or "/" in key or key.startswith("."):
            raise InputError(results, f"a plan names '{stage}/{key}', which is no stage's folder", "run the workflow again")
    return rows


@dataclass
class _One:
    """What was found in one folder."""

    files: int = 0
    finished: bool = True
    damaged: list[tuple[str, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    mend: str = ""


def _add(found: _Checked, folder: Path, one: _One) -> None:
    if not one.finished:
        found.notes.append(f"{folder}: {'not finished' if folder.is_dir() else 'not made'}")
        return
    found.folders += 1
    found.files += one.files
    mend = one.mend or f"`evoaudit verify --mend`, or delete {folder}; then run again"
    found.lines += [f"{folder / name}: {what}; {mend}" for name, what in one.damaged]
    found.lines += [f"{folder / MANIFEST}: {what}; delete {folder} and run again" for what in one.wrong]
    found.notes += [f"{folder / name}: not in its {MANIFEST}" for name in one.extra]
    if one.damaged and not one.mend:
        found.damaged[folder] = [name for name, _ in one.damaged]


def _stage(folder: Path, rows: dict[tuple[str, str], dict[str, Any]], made: set[str]) -> _One:
    """Check a stage's folder: its files, its counts, and that its key is the one its settings and upstream keys have."""
    if not (folder / MANIFEST).is_file():
        return _One(finished=False)
    try:
        files = listed(folder / MANIFEST)
        manifest = read_manifest(folder / MANIFEST)
    except InputError as error:
        return _One(damaged=[(MANIFEST, error.what)])
    one = _One()
    one.damaged = list(faults(folder, files))
    if LISTING in files and LISTING not in dict(one.damaged):
        more = listing(folder)
        files = files | more
        one.damaged += faults(folder, more)
    one.files = len(files)
    one.wrong = list(_claims(folder, manifest, rows.get((folder.parent.name, folder.name)), made))
    known = files.keys() | BESIDE | {MANIFEST}
    one.extra = sorted(name for path in folder.rglob("*") if path.is_file() and (name := path.relative_to(folder).as_posix()) not in known)
    return one


def _claims(folder: Path, manifest: dict[str, Any], row: dict[str, Any] | None, made: set[str]) -> Iterator[str]:
    """Yield what in a manifest contradicts its place, its counts, its plan or what lies upstream."""
    stage, key = folder.parent.name, folder.name
    if (manifest.get("stage"), manifest.get("key")) != (stage, key):
        yield f"belongs to {manifest.get('stage')}/{manifest.get('key')}"
        return
    counts = manifest.get("counts") or {}
    for unit, sums in ((counts.get("unit"), counts), *(counts.get("others") or {}).items()):
        if sums and sums["read"] != sums["kept"] + sum(sums["dropped"].values()):
            yield f"{unit}: read {sums['read']} is not kept {sums['kept']} and dropped {sum(sums['dropped'].values())}"
    upstream = manifest.get("upstream") or {}
    for name, keys in sorted(upstream.items()):
        for gone in sorted({*keys} - made):
            yield f"was made from {name} {gone}, which is not there"
    if row is None:
        return
    differing = [name for name in ("seed", "upstream") if (manifest.get(name) or None) != (row.get(name) or None)]
    config = manifest.get("config") or {}
    differing += [f"config.{name}" for name, value in row["settings"].items() if name not in config or config[name] != value]
    if differing:
        yield f"{differing[0]} is not what the run's keys.json says"
    elif make_key(stage, row["settings"], row["seed"], row["upstream"], manifest.get("format_version")) != key:
        yield "its settings do not lead to its key"


def _laid_out(folder: Path) -> _One:
    """Check what is laid out for people."""
    mend = "`snakemake` lays it out anew"
    try:
        files = listed(folder / MANIFEST)
    except InputError as error:
        return _One(mend=mend, damaged=[(MANIFEST, error.what)])
    return _One(mend=mend, files=len(files), damaged=list(faults(folder, files)))


def _compare(args: argparse.Namespace) -> int:
    """Print a line for each file that only one side has or that differs."""
    places = None
    if args.run_name is not None:
        places = [*(f"{stage}/{key}" for stage, key in _planned(args.results, args.run_name)), f"runs/{args.run_name}"]
    ours, theirs = (set(_data_files(folder, places)) for folder in (args.results, args.against))
    both = sorted(ours & theirs)
    lines = [f"{args.results / name}: not in {args.against}" for name in sorted(ours - theirs)]
    lines += [f"{args.against / name}: not in {args.results}" for name in sorted(theirs - ours)]
    with ThreadPoolExecutor(max(1, args.threads)) as pool:
        same = pool.map(lambda name: _same(args.results / name, args.against / name), both)
        lines += [f"{args.results / name}: differs from {args.against / name}" for name, equal in zip(both, same, strict=True) if not equal]
    for line in lines:
        print(one_line(line))
    print(f"{len(both)} files in both: " + (f"{len(lines)} differences" if lines else "all the same"))
    if not both and not lines:
        raise InputError(args.results, "holds no data files to compare", "give the results folders of two finished runs")
    return int(bool(lines))


def _data_files(results: Path, places: Iterable[str] | None) -> Iterator[str]:
    """Yield the files that inputs, config and seed decide, below some folders or all."""
    for place in places if places is not None else (*FORMAT, "runs"):
        for path in (results / place).rglob("*"):
            hidden = any(part.startswith(".") for part in path.relative_to(results).parts)
            if path.is_file() and not hidden and path.name not in BESIDE and not path.name.endswith(ASIDE):
                yield path.relative_to(results).as_posix()


def _same(one: Path, other: Path) -> bool:
    """Tell whether two files hold the same, of manifests without what they were made with."""
    if one.name == MANIFEST:
        return _content(one) == _content(other)
    if one.stat().st_size != other.stat().st_size:
        return False
    with open(one, "rb") as first, open(other, "rb") as second:
        while piece := first.read(2**20):
            if piece != second.read(2**20):
                return False
    return True


def _content(path: Path) -> str:
    found = read_json(path)
    if isinstance(found, dict):
        found = {name: value for name, value in found.items() if name not in MADE_WITH}
    return json.dumps(found, sort_keys=True)
