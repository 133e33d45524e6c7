"""Reading folders of raw logs for a look at them: detected, normalised into a scratch folder, and nothing kept."""

import json
import re
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from evoaudit.errors import InputError, one_line
from evoaudit.jsonfile import read_json
from evoaudit.normalise import Source, normalise
from evoaudit.sources import MODULES, platform
from evoaudit.sources.detect import Found, detect
from evoaudit.store import Counts
from evoaudit.yamlfile import quoted

#: Seconds of silence after which progress is told, and between two words of it.
_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Raw:
    """One source to be looked at, and how it was recognised."""

    source: Source
    evidence: str


@dataclass(frozen=True, slots=True)
class Looked:
    """What became of a source: its normalised tables and counts, or the reason why nothing of it can be read."""

    raw: Raw
    folder: Path
    counts: Counts
    fault: InputError | None = None


def find(root: Path, kind: str | None = None) -> tuple[list[Raw], list[Found]]:
    """Return the sources under a folder, and what no reader knows. With ``kind``, the folder itself is taken as one of that kind."""
    if kind is not None:
        if kind not in MODULES:
            raise InputError(f"--kind {kind}", "no such kind", f"one of {', '.join(sorted(MODULES))}")
        if not root.is_dir():
            raise InputError(root, "is not a folder" if root.exists() else "folder not found", "give the folder that holds the logs")
        return [Raw(_source(kind, kind, root), "as given")], []
    found = detect(root)
    known = [one for one in found if one.kind is not None]
    names = _names(known)
    return [Raw(_source(name, one.kind, one.path), one.evidence) for name, one in zip(names, known, strict=True)], [
        one for one in found if one.kind is None
    ]


def _source(name: str, kind: str, root: Path) -> Source:
    """Return a source; one of a simulated corpus is marked as such, and gets the known answers that lie beside it."""
    corpus = next((folder for folder in (root, root.absolute().parent) if _simulated(folder / "manifest.json")), None)
    tasks = corpus / f"{kind}-tasks.jsonl" if corpus else None
    return Source(name, kind, root, corpus is not None, {}, tasks if tasks and tasks.is_file() else None)


def _simulated(manifest: Path) -> bool:
    if not manifest.is_file() or manifest.stat().st_size > 2**24:
        return False
    try:
        found = read_json(manifest)
    except (InputError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("stage") == "simulate"


def _names(found: list[Found]) -> list[str]:
    """Name each source by its kind; where there are several of one kind, by its folder too."""
    names: list[str] = []
    for one in found:
        assert one.kind is not None
        name = one.kind
        if sum(other.kind == one.kind for other in found) > 1:
            folder = re.sub(r"[^A-Za-z0-9._-]+", "-", one.path.name).strip("-._") or "logs"
            name = folder[:60] if folder.startswith(name) else f"{name}-{folder}"[:60]
        names.append(name if name not in names else f"{name}-{sum(known.startswith(name) for known in names) + 1}")
    return names


def look(raws: Iterable[Raw], scratch: Path, threads: int = 1, quiet: bool = False) -> Iterator[Looked]:
    """Normalise each source into a folder of its own under ``scratch``; progress goes to stderr."""
    for number, raw in enumerate(raws):
        folder = scratch / f"{number:03}"
        folder.mkdir()
        counts = Counts("normalise") if quiet else _Told(raw.source.name)
        try:
            normalise(folder, counts, raw.source, threads)
        except InputError as fault:
            yield Looked(raw, folder, counts, fault)
        else:
            named = {"stage": "normalise", "config": {"source": raw.source.name, "kind": raw.source.kind}}
            (folder / "manifest.json").write_text(json.dumps(named), encoding="utf-8")
            yield Looked(raw, folder, counts)


class _Told(Counts):
    """Counts that tell how far reading is, once it takes a while."""

    def __init__(self, name: str) -> None:
        super().__init__("normalise")
        self._name, self._next = name, time.monotonic() + _PATIENCE

    def keep(self, unit: str, n: int = 1) -> None:
        super().keep(unit, n)
        if unit == "trajectory" and time.monotonic() >= self._next:
            self._next = time.monotonic() + _PATIENCE
            print(f"reading {one_line(self._name)}: {self.kept['trajectory']:,} trajectories so far", file=sys.stderr, flush=True)


#: Platform → T2's actions there, as a config asks for them.
_ACTIONS = {
    "desktop": "{click: 461, type: 461, drag: 100, scroll: 100, key: 100}",
    "mobile": "{click: 461, type: 461, swipe: 100, long_press: 100, key: 100}",
}


def config_lines(sources: Iterable[Source]) -> list[str]:
    """Return the lines of a config that use sources; those beyond the browser are sets of probes of their own."""
    lines = ["run: {name: mine}", "sources:"]
    sets: dict[str, list[str]] = {}
    for source in sources:
        if (kind := platform(source.kind)) in _ACTIONS:
            sets.setdefault(kind, []).append(source.name)
        options = "".join(f", {name}: {value}" for name, value in sorted(source.options.items()))
        lines.append(f"  - {{name: {source.name}, kind: {source.kind}, path: {quoted(str(source.root))}{options}}}")
    if sets:
        lines += ["probes:", "  sets:"]
        lines += [f"    {kind}: {{sources: [{', '.join(names)}], t2: {{quota: {_ACTIONS[kind]}}}}}" for kind, names in sorted(sets.items())]
    return lines
