"""Lay finished stages out for people under ``results/runs/<name>/``, touching only what differs."""

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evoaudit.errors import InputError
from evoaudit.intact import CHECKSUM, MANIFEST, below, checksum, faults, read_manifest, refused, told
from evoaudit.jsonfile import read_json

#: Stage → the section of the run's folder its files are laid out in; the report's lie at the top.
SECTIONS = {
    "tables": "tables",
    "figures": "figures",
    "report": "",
    "select": "review",
    "replay": "review",
    "pairs": "review/t3",
    "export": "export",
}
#: Sections in which people keep files of their own: only the files laid out there are ever replaced.
SHARED = frozenset({"review", "review/t3"})
#: Folders of the report, which lies at the top.
FOLDERS = ("assets", "items", "models", "trajectories")
#: Stages whose sections tell of one and the same numbers: none may stand beside a newer one.
TOGETHER = ("tables", "figures", "export", "report")
#: Files that are not copied where a second name will do: very many pictures, which nobody edits.
LINKED = "items/pictures/"
#: Files that are for later stages only.
INTERNAL = frozenset({"summary.json", "figures.json"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this stage's arguments."""
    parser.add_argument("manifests", nargs="*", type=Path, metavar="MANIFEST", help="manifests of finished stages, in any order")
    parser.add_argument("--run", required=True, dest="run_name", metavar="NAME", help="name of the run")
    parser.add_argument("--plan", type=Path, metavar="FILE", help="the run's keys in words, JSON")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="folder of all results (default: results)")


def run(args: argparse.Namespace) -> None:
    """Copy what differs, write ``keys.json`` and ``manifest.json``, and say where the run is."""
    name = args.run_name
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise InputError("--run", f"'{name}' cannot name a folder", "use letters, digits, '.', '_' and '-'")
    plan = read_json(args.plan) if args.plan else []
    paths = [path if path.name == "manifest.json" else path / "manifest.json" for path in args.manifests]
    found = [(path.parent, _intact(path)) for path in paths]
    target = args.results / "runs" / name
    target.mkdir(parents=True, exist_ok=True)
    with _alone(target):
        before = _before(target / MANIFEST)
        sections = dict(before.get("sections") or {})
        for section in _sections(found, sections):
            section.lay_out(target, (sections.get(section.stage) or {}).get("files") or ())
            sections[section.stage] = {"keys": section.keys, "files": section.files}
        older = _older(plan, sections) if any(manifest.get("stage") in TOGETHER for _, manifest in found) else []
        gone = [_take_out(target, stage, sections.pop(stage)["files"]) for stage in older]
        # What somebody removed by hand is no longer part of the run.
        sections = {stage: section for stage, section in sections.items() if all((target / file).is_file() for file in section["files"])}
        _write(target / "keys.json", plan)
        _write(target / "manifest.json", _manifest(name, plan, sections, args.results))
    print(_where(target, sections))
    if gone:
        print(f"taken out of it, since they were made before these settings: {', '.join(gone)}; `snakemake` makes them anew")
    if any(manifest.get("stage") == "replay" for _, manifest in found):
        for page in sorted(file for file in sections.get("replay", {}).get("files", ()) if file.endswith("/index.html")):
            print(f"trajectories to review: {(target / page).as_posix()}")
    if any(manifest.get("stage") == "pairs" for _, manifest in found):
        print(f"T3 pairs to review: {(target / 'review' / 't3' / 'index.html').as_posix()}")


def _intact(path: Path) -> dict[str, Any]:
    """Return a stage's manifest; one that is damaged is set aside, and refused."""
    told(path)
    return read_manifest(path)


def _before(path: Path) -> dict[str, Any]:
    """Return what the run's folder held when it was laid out last; a damaged manifest says nothing, and all is laid out anew."""
    if not path.is_file():
        return {}
    try:
        return read_manifest(path)
    except InputError as error:
        print(f"{error.where}: {error.what}; it is written anew", file=sys.stderr)
        return {}


def _older(plan: list[dict], sections: dict[str, dict]) -> list[str]:
    """Return the stages whose sections the plan would make otherwise, the report first, since it links to the others."""
    planned = {stage: sorted(job["key"] for job in plan if job["stage"] == stage) for stage in TOGETHER}
    return [stage for stage in reversed(TOGETHER) if plan and stage in sections and sections[stage]["keys"] != planned[stage]]


def _take_out(target: Path, stage: str, files: Collection[str]) -> str:
    """Remove the files of a section and say which they were; the stage's own folder keeps them."""
    places = [target / file for file in files if below(file)]
    for place in places:
        _remove(place)
    for folder in sorted({place.parent for place in places} - {target}, key=lambda folder: -len(folder.parts)):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    return f"{SECTIONS[stage]}/" if SECTIONS[stage] else "index.html"


@dataclass
class _Section:
    """One stage's share of the run's folder: files by their path there, with where they come from and their sha256."""

    stage: str
    keys: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    _sources: dict[str, Path | Callable[[], bytes]] = field(default_factory=dict)

    def add(self, file: str, source: Path | Callable[[], bytes], sha256: str) -> None:
        self.files[file], self._sources[file] = sha256, source

    def lay_out(self, target: Path, before: Collection[str]) -> None:
        """Make the folder hold this section; each folder or file of it is replaced whole, and only if it differs.

        ``before`` names the files of the section as it was: beside files of people's own, only those are removed.
        """
        if SECTIONS[self.stage] in SHARED:
            # A page last, since it shows the rest.
            for file, sha256 in sorted(self.files.items(), key=lambda item: (item[0].endswith(".html"), item[0])):
                if not _same(target, file, {file: sha256}):
                    self._put(target, file, [file])
            for file in sorted(set(before) - self.files.keys()):
                if file.startswith(f"{SECTIONS[self.stage]}/") and below(file):
                    _remove(target / file)
            return
        # The page last, since it links to the rest.
        tops = sorted({file.split("/")[0] for file in self.files}, key=lambda top: (top == "index.html", top))
        for top in tops:
            inside = {file: sha256 for file, sha256 in self.files.items() if file.split("/")[0] == top}
            if not _same(target, top, inside):
                self._put(target, top, list(inside))
        if self.stage == "report":
            # What the report no longer has goes: its folders, and its pages beside them.
            pages = {file for file in before if "/" not in file and file.endswith(".html")}
            for top in sorted({*FOLDERS, *pages} - set(tops)):
                _remove(target / top)

    def _put(self, target: Path, top: str, files: list[str]) -> None:
        """Write ``top``, a file or the folder of ``files``, beside its place, then swap it in."""
        new = target / top
        partial = new.with_name(f".{new.name}.partial")
        _remove(partial)
        for file in files:
            place = partial / file[len(top) + 1 :] if file != top else partial
            place.parent.mkdir(parents=True, exist_ok=True)
            source = self._sources[file]
            try:
                if isinstance(source, Path):
                    _copy(source, place, self.files[file], linked=file.startswith(LINKED))
                else:
                    place.write_bytes(source())
            except (InputError, OSError):
                _remove(partial)
                raise
        _swap(partial, new)


def _copy(source: Path, place: Path, sha256: str, linked: bool) -> None:
    """Copy a file of a stage, or give it a second name where that is wanted and the file system can.

    One that is gone or damaged is set aside, and refused.
    """
    folder = next((parent for parent in source.parents if (parent / MANIFEST).is_file()), source.parent)
    name = source.relative_to(folder).as_posix()
    if source.is_file():
        (_second if linked else shutil.copyfile)(source, place)
        if _sha256(place) == sha256:
            return
    raise refused(folder, list(faults(folder, {name: sha256})) or [(name, f"differs from its {MANIFEST}")])


def _second(source: Path, place: Path) -> None:
    """Give a file a second name, or copy it where the file system has no such thing."""
    try:
        os.link(source, place)
    except OSError:
        shutil.copyfile(source, place)


def _sections(found: list[tuple[Path, dict]], before: dict[str, dict]) -> Iterator[_Section]:
    """Yield the sections the given stages fill, the report last, since it links to the others."""
    for stage in ("tables", "figures", "select", "replay", "pairs", "export", "report"):
        section = _Section(stage)
        for folder, manifest in found:
            if manifest.get("stage") != stage:
                continue
            section.keys.append(str(manifest.get("key")))
            for file, sha256 in manifest["files"].items():
                if file not in INTERNAL and not file.startswith("."):
                    section.add(f"{SECTIONS[stage]}/{file}".lstrip("/"), folder / file, sha256)
            if stage == "select":
                _readable(section, folder, before)
        if section.keys:
            section.keys.sort()
            yield section


def _readable(section: _Section, folder: Path, before: dict[str, dict]) -> None:
    """Add the review set as CSV, for people without a Parquet reader; it is not made again while it stands for the same set."""
    made = "review/review_set.csv"
    known = before.get(section.stage, {}).get("files", {})
    same = known.get("review/review_set.parquet") == section.files.get("review/review_set.parquet")
    section.add(made, lambda: _csv(folder), known[made] if same and made in known else hashlib.sha256(_csv(folder)).hexdigest())


def _csv(folder: Path) -> bytes:
    from evoaudit import csvfile
    from evoaudit.store import read_table

    name = "review_set.parquet"
    if found := list(faults(folder, {name: told(folder / MANIFEST)[name]})):
        raise refused(folder, found)
    table = read_table(folder, "review_set")
    return csvfile.text(table.column_names, table.to_pylist()).encode()


def _same(target: Path, top: str, files: dict[str, str]) -> bool:
    """Tell whether a folder or file of the run already holds exactly these files."""
    place = target / top
    present = (
        {top} if place.is_file() or top in files else {path.relative_to(target).as_posix() for path in place.rglob("*") if path.is_file()}
    )
    return present == files.keys() and all((target / file).is_file() and _sha256(target / file) == sha256 for file, sha256 in files.items())


def _sha256(path: Path) -> str:
    # The store has this function too, but importing it takes longer than all the rest of this command.
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _swap(new: Path, old: Path) -> None:
    """Put a finished file or folder in the place of another."""
    aside = old.with_name(f".{old.name}.old")
    _remove(aside)  # of a call that was killed
    if new.is_dir() and old.exists():
        os.replace(old, aside)
        os.replace(new, old)
        _remove(aside)
    else:
        if old.is_dir():
            _remove(old)
        os.replace(new, old)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep two calls for one run apart, where the file system can."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        except (ImportError, OSError):
            pass
        yield
    finally:
        os.close(handle)


def _manifest(name: str, plan: list[dict], sections: dict[str, dict], results: Path) -> dict[str, Any]:
    """Return what the run's ``manifest.json`` says: keys, counts of every finished stage, and every file laid out with its sha256."""
    counts: dict[str, dict[str, Any]] = {}
    simulated = False
    for job in plan:
        settings = job.get("settings") or {}
        simulated |= job["stage"] == "simulate" or settings.get("simulated") is True
        simulated |= job["stage"] in ("judge", "infer") and "simulated" in (settings.get("model"), settings.get("name"))
        folder = results / job["stage"] / job["key"]
        if (folder / "manifest.json").is_file():
            _add(counts.setdefault(job["stage"], {}), _intact(folder / MANIFEST).get("counts") or {})
            if job["stage"] == "report" and (folder / "summary.json").is_file():
                simulated |= bool(read_json(folder / "summary.json").get("simulated"))
    made = {
        "run": name,
        "simulated": simulated,
        "keys": {stage: sorted(job["key"] for job in plan if job["stage"] == stage) for stage in sorted({job["stage"] for job in plan})},
        "counts": counts,
        "sections": sections,
        "files": {file: sha for section in sections.values() for file, sha in section["files"].items()},
    }
    return {**made, CHECKSUM: checksum(made)}


def _add(total: dict[str, Any], counts: dict[str, Any]) -> None:
    """Add one job's counts to its stage's, by unit."""
    units = {counts["unit"]: counts, **(counts.get("others") or {})} if "unit" in counts else {}
    for unit, one in units.items():
        sums = total.setdefault(unit, {"read": 0, "kept": 0, "dropped": {}})
        sums["read"] += one["read"]
        sums["kept"] += one["kept"]
        for reason, n in one["dropped"].items():
            sums["dropped"][reason] = sums["dropped"].get(reason, 0) + n


def _where(target: Path, sections: dict[str, dict]) -> str:
    """Say in one line where people look first."""
    if "report" in sections:
        return f"report: {(target / 'index.html').as_posix()}"
    shown = [SECTIONS[stage] for stage in ("tables", "figures", "select", "pairs", "export") if stage in sections]
    return f"run: {target.as_posix()}/" + (f" ({', '.join(shown)})" if shown else " (keys.json says where each stage's files are)")


def _write(path: Path, value: Any) -> None:
    """Write JSON whole, and only if it differs."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
