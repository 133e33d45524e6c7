"""Which native formats lie under a folder: told by how files are named and laid out, and by the beginnings of a few.

Pictures and pickles are never opened. The answer depends on the files alone. What no reader knows is named too, with what it
looks like, so that nothing is passed over in silence.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from evoaudit.errors import InputError, one_line
from evoaudit.sources import jsonio
from evoaudit.sources.base import Skipped

#: Files looked at most.
ENTRY_LIMIT = 200_000
#: Bytes of a file's beginning, and files of one folder, that are looked into.
HEAD, PEEKS = 2**16, 8

_PICTURES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp"})
_TEXTS = frozenset({".md", ".txt", ".rst", ".pdf", ".py", ".ipynb", ".sh", ".lock", ".yaml", ".yml", ".toml", ".cff"})
#: What lies beside pictures in a recording.
_BESIDE = _PICTURES | {".mp4", ".webm", ".html", ".mhtml", ".log", ".har"} | _TEXTS
#: Kinds whose readers try every file of their kind below the root, so that a root must hold as little else as can be.
_GREEDY = frozenset({"aitz", "opencua", "mind2web", "androidcontrol", "androidworld"})

_SHALLOW = _GREEDY | {"plain"}
#: What else belongs to a kind, by its place below the source's root; no reader takes it for a log.
_COMPANIONS = {
    "weblinx": r"splits\.json|candidates/.*",
    "agentrewardbench": r"(data/)?\w+\.csv",
    "osworld": r"(evaluation_examples/.*|(.*/)?(args|results)\.json)",
    "browsergym": r"(.*/)?(study\.pkl\.gz|(result_df|summary_df|error_report)[^/]*)",
    "androidcontrol": r"(test_sub)?splits\.json",
    "mind2web": r"(.*/)?scores_all_data\.pkl",
}

_STEP = re.compile(r"step_\d{1,6}\.pkl(\.gz)?")
_TASK = re.compile(r"(?!step_).+_\d{1,6}\.pkl(\.gz)?")
_SHARD = re.compile(r"android_control(?!.*\.(json|md|txt|py|ipynb|csv)$).*", re.IGNORECASE)
_SPLIT = re.compile(r"(train|test_task|test_website|test_domain)(_\d+)?\.json")


@dataclass(frozen=True, slots=True)
class Found:
    """A source under a folder: ``path`` is what its reader takes as root. ``kind`` is None where no reader knows what lies there."""

    kind: str | None
    path: Path
    evidence: str


@dataclass(slots=True)
class _Mark:
    """A sign of a kind in a folder. ``root`` is set where the layout itself says which folder the reader needs."""

    kind: str
    folder: str
    label: str
    root: str | None = None
    #: Folders that belong to the sign.
    covers: tuple[str, ...] = ()


@dataclass(slots=True)
class _Tree:
    """Names of the files in each folder, relative to the root (``""``), parents first."""

    root: Path
    folders: dict[str, list[str]] = field(default_factory=dict)
    closed: list[Skipped] = field(default_factory=list)
    complete: bool = True

    def head(self, folder: str, name: str) -> str:
        """Return the beginning of a file as text; "" if it cannot be read."""
        path = jsonio.regular(self.root, jsonio.join(folder, name))
        if isinstance(path, Skipped):
            return ""
        try:
            with open(path, "rb") as handle:
                return handle.read(HEAD).decode("utf-8", "replace")
        except OSError:
            return ""


def detect(root: Path, limit: int = ENTRY_LIMIT) -> list[Found]:
    """Return the sources under ``root``, then what no reader knows; each in order of path."""
    root = Path(root)
    if not root.is_dir():
        raise InputError(root, "is not a folder" if root.exists() else "folder not found", "give the folder that holds the logs")
    tree = _walked(root, limit)
    marks = [mark for folder, names in tree.folders.items() for mark in _named(tree, folder, names)]
    covered = _covered(tree, marks)
    hints: dict[str, str] = {}
    for folder, names in tree.folders.items():
        if folder not in covered:
            peeked, hint = _peeked(tree, folder, names)
            marks += peeked
            if hint:
                hints[folder] = hint
    covered = _covered(tree, marks)
    sources = _sources(tree, marks, covered)
    found = [Found(kind, root / path if path else root, evidence) for kind, path, evidence in sources]
    unknown = [Found(None, root / folder if folder else root, why) for folder, why in _unknown(tree, sources, covered, hints)]
    unknown += [Found(None, root / gap.item, gap.detail or "cannot be listed") for gap in tree.closed]
    if not tree.complete:
        unknown.append(Found(None, root, f"only the first {limit:,} files were looked at; give a smaller folder for the rest"))
    return found + unknown


def _walked(root: Path, limit: int) -> _Tree:
    tree = _Tree(root)
    left = limit
    for folder, names in jsonio.walk(root, tree.closed):
        tree.folders[folder] = names[:left]
        left -= len(names)
        if left < 0:
            tree.complete = False
            break
    return tree


def _parents(folder: str) -> Iterator[str]:
    """Yield a folder, the one above it, and so on to the root."""
    yield folder
    while folder:
        folder = folder.rpartition("/")[0]
        yield folder


def _above(folder: str) -> str:
    return folder.rpartition("/")[0]


def _named(tree: _Tree, folder: str, names: list[str]) -> Iterator[_Mark]:
    """Yield the signs that lie in the names of a folder's files."""
    here = set(names)
    parts = folder.split("/") if folder else []
    if "interact_messages.json" in here:
        yield _Mark("webvoyager", folder, "interact_messages.json")
    if "replay.json" in here and (parts[-2:-1] == ["demonstrations"] or here & {"form.json", "metadata.json"}):
        top = _above(_above(folder)) if parts[-2:-1] == ["demonstrations"] else _above(folder)
        yield _Mark("weblinx", folder, "replay.json of a demonstration", top)
    if "traj.jsonl" in here:
        yield _Mark("osworld", folder, "traj.jsonl")
    if "exp_args.pkl" in here or ("summary_info.json" in here and any(map(_STEP.fullmatch, names))):
        yield _Mark("browsergym", folder, "episode folder with exp_args.pkl or step_<k>.pkl.gz")
    elif any(map(_TASK.fullmatch, names)) and not any(map(_STEP.fullmatch, names)):
        yield _Mark("androidworld", folder, f"{next(filter(_TASK.fullmatch, names))}")
    if any(map(_SHARD.fullmatch, names)):
        top = _above(folder) if "splits.json" not in here and "splits.json" in tree.folders.get(_above(folder), ()) and folder else folder
        yield _Mark("androidcontrol", folder, next(filter(_SHARD.fullmatch, names)), top)
    if "human_label.json" in here or ("result.json" in here and f"{folder}/trajectory".lstrip("/") in tree.folders):
        yield _Mark("online-mind2web", folder, "result.json" if "result.json" in here else "human_label.json")
    if "screenshot.json" in here and parts[-1:] == ["processed"]:
        yield _Mark("mind2web", folder, "processed/screenshot.json", covers=(_above(folder),))
    for name in ("cleaned", "judgments"):
        if parts[-4:-3] == [name] and any(file.endswith(".json") for file in names):
            yield _bench("/".join(parts[:-4]), folder, f"{name}/<benchmark>/<model>/…/<task>.json")


def _bench(top: str, folder: str, label: str) -> _Mark:
    covers = tuple(jsonio.join(top, name) for name in ("cleaned", "judgments", "screenshots", "data"))
    return _Mark("agentrewardbench", folder, label, top, covers)


def _peeked(tree: _Tree, folder: str, names: list[str]) -> tuple[list[_Mark], str | None]:
    """Return the signs that lie in the beginnings of a folder's files, and what else one of them looks like."""
    marks: list[_Mark] = []
    hint: str | None = None
    left = dict.fromkeys((".json", ".jsonl", ".csv", ".parquet", ".zip"), PEEKS)
    for name in names:
        suffix = _suffix(name)
        if left.get(suffix, 0) <= 0:
            continue
        left[suffix] -= 1
        path = jsonio.regular(tree.root, jsonio.join(folder, name))
        if isinstance(path, Skipped):
            hint = hint or f"files that cannot be opened ({path.detail})"
            continue
        mark, look = _LOOKS[suffix](tree, folder, name)
        hint = hint or look
        if mark is not None:
            marks.append(mark)
            left[suffix] = 0
    return marks, hint


_Look = tuple[_Mark | None, str | None]


def _json(tree: _Tree, folder: str, name: str) -> _Look:
    head = tree.head(folder, name)
    has = {key for key in _KEYS if f'"{key}"' in head}
    whole = len(head.encode()) < HEAD
    if "result_action_type" in has:
        return _Mark("aitz", folder, "episode with result_action_type"), None
    if "inner_monologue" in has or ({"steps", "image", "action"} <= has and "pyautogui." in head):
        return _Mark("opencua", folder, "session with pyautogui steps"), None
    if "action_history" in has and name == "result.json":
        return _Mark("online-mind2web", folder, "result.json with action_history"), None
    if len(has & {"annotation_id", "action_reprs", "confirmed_task", "raw_html", "pos_candidates"}) >= 2 or _SPLIT.fullmatch(name):
        if "actions" in has or not whole or _SPLIT.fullmatch(name):
            return _Mark("mind2web", folder, "task with annotation_id and action_reprs"), None
        return None, "tasks of Mind2Web without their actions and pages, of which nothing can be read"
    if {"replay", "shortcode"} <= has or {"screenshot_status", "intent"} <= has:
        return None, "pieces of WebLINX turns outside demonstrations/<code>/replay.json, which the weblinx reader needs"
    if any(key.startswith(("image/ui_annotations", "results/")) for key in has):
        return None, "records of Android in the Wild, which no reader here knows (its annotated part, AiTZ, is kind aitz)"
    if {"device_info", "step_length"} <= has:
        return None, "episodes of GUI-Odyssey, which no reader here knows"
    if {"format_version", "upstream"} <= has:
        return None, "EvoAudit's own, not logs"
    if head.startswith(jsonio.LFS_MAGIC.decode()):
        return None, "Git LFS pointers instead of files; run `git lfs pull` where they came from"
    return None, None


#: Keys of JSON files that tell formats apart.
_KEYS = (
    "result_action_type",
    "inner_monologue",
    "steps",
    "traj",
    "image",
    "action",
    "action_history",
    "annotation_id",
    "action_reprs",
    "confirmed_task",
    "raw_html",
    "pos_candidates",
    "actions",
    "replay",
    "shortcode",
    "screenshot_status",
    "intent",
    "image/ui_annotations_positions",
    "results/action_type",
    "device_info",
    "step_length",
    "format_version",
    "upstream",
    "trajectory_id",
)


def _json_lines(tree: _Tree, folder: str, name: str) -> _Look:
    head = tree.head(folder, name)
    if name == "trajectories.jsonl":
        if '"trajectory_id"' in head or '"steps"' in head:
            return _Mark("plain", folder, name, folder), None
        return None, "trajectories.jsonl without trajectory_id and steps, which the plain format needs"
    if '"traj"' in head and ('"code"' in head or "pyautogui." in head):
        return _Mark("opencua", folder, "lines with traj"), None
    return None, None


def _csv(tree: _Tree, folder: str, name: str) -> _Look:
    if name == "annotations.csv":
        header = tree.head(folder, name).partition("\n")[0]
        if "annotator_name" in header and "trajectory_success" in header:
            top = _above(folder) if folder.rpartition("/")[2] == "data" else folder
            return _bench(top, folder, "annotations.csv with annotator_name and trajectory_success"), None
    return None, None


def _parquet(tree: _Tree, folder: str, name: str) -> _Look:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = jsonio.regular(tree.root, jsonio.join(folder, name))
    if isinstance(path, Skipped):
        return None, None
    try:
        columns = set(pq.read_schema(path).names)
    except (pa.ArrowException, OSError, ValueError):
        return None, "Parquet files that cannot be read (damaged, or Git LFS pointers)"
    if {"annotation_id", "target_action_index"} <= columns:
        return _Mark("mind2web", folder, "Parquet with annotation_id and target_action_index"), None
    if {"trajectory_id", "op_raw"} <= columns or {"image_id", "phash"} <= columns:
        return None, "EvoAudit's own tables, not logs"
    return None, f"Parquet with other columns ({', '.join(one_line(column, 30) for column in sorted(columns)[:4])}, …)"


def _zip(tree: _Tree, folder: str, name: str) -> _Look:
    from evoaudit.sources.archive import Tree

    inside = Tree(tree.root, jsonio.join(folder, name))
    lines = tests = total = 0
    for path in inside.files():
        total += 1
        base = path.rpartition("/")[2]
        lines += base == "traj.jsonl"
        tests += re.search(r"(^|/)test_(task|website|domain)/[^/]+\.json$", path) is not None
    if lines:
        return _Mark("osworld", folder, "zip with traj.jsonl"), None
    if tests and name == "test.zip":
        return _Mark("mind2web", folder, "test.zip with data/test_*/"), None
    return None, f"an archive of {total:,} files that no reader takes packed; unpack it" if total else "an archive that cannot be read"


_LOOKS: dict[str, Callable[[_Tree, str, str], _Look]] = {
    ".json": _json,
    ".jsonl": _json_lines,
    ".csv": _csv,
    ".parquet": _parquet,
    ".zip": _zip,
}


def _covered(tree: _Tree, marks: list[_Mark]) -> set[str]:
    """Return the folders that belong to a sign: its own, those below, and those it names."""
    tops = {mark.folder for mark in marks} | {place for mark in marks for place in mark.covers if place in tree.folders}
    # Not every sign vouches for all that lies below it: such subfolders are looked at for themselves.
    shallow = {mark.folder for mark in marks if mark.kind in _SHALLOW or mark.folder == ""} - {
        place for mark in marks for place in mark.covers if place != mark.folder
    }
    found = set()
    for folder in tree.folders:
        if folder in tops or any(above in tops and above not in shallow for above in _parents(folder)):
            found.add(folder)
    return found


def _sources(tree: _Tree, marks: list[_Mark], covered: set[str]) -> list[tuple[str, str, str]]:
    """Return (kind, root, evidence) of each source: the highest folder that holds nothing of another kind."""
    kinds: dict[str, set[str]] = {}
    for mark in marks:
        for above in _parents(mark.folder):
            kinds.setdefault(above, set()).add(mark.kind)
    foreign = {
        above for folder, names in tree.folders.items() if folder and folder not in covered and _logs(names) for above in _parents(folder)
    }
    examples = {_above(folder) for folder in tree.folders if folder.rpartition("/")[2] == "evaluation_examples"}
    places: dict[tuple[str, str], list[_Mark]] = {}
    for mark in marks:
        top = mark.root
        if top is None:
            top = mark.folder
            while top and kinds[_above(top)] == {mark.kind}:
                if (mark.kind == "osworld" and top in examples) or (mark.kind in _GREEDY and _above(top) in foreign):
                    break
                top = _above(top)
        places.setdefault((mark.kind, top), []).append(mark)
    for kind, top in sorted(places, key=lambda place: len(place[1])):
        higher = next((above for above in _parents(_above(top)) if (kind, above) in places), None) if top else None
        if higher is not None and not any(mark.root is not None for mark in places[kind, top]):
            places[kind, higher] += places.pop((kind, top))
    return [(kind, top, _evidence(found)) for (kind, top), found in sorted(places.items(), key=lambda item: (item[0][1], item[0][0]))]


def _evidence(marks: list[_Mark]) -> str:
    labels = Counter(mark.label for mark in marks)
    if len(labels) > 3:
        first = min(labels)
        return f"{one_line(first, 60)} and {len(labels) - 1:,} like it"
    return ", ".join(one_line(label, 80) + (f" in {n:,} folders" if n > 1 else "") for label, n in sorted(labels.items()))


def _unknown(tree: _Tree, sources: list[tuple[str, str, str]], covered: set[str], hints: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the highest folders that hold files but no sign of any kind, and what they hold."""
    roots = {root for _, root, _ in sources}
    known = [(f"{root}/" if root else "", re.compile(_COMPANIONS[kind])) for kind, root, _ in sources if kind in _COMPANIONS]

    def own(path: str) -> bool:
        return any(path.startswith(start) and pattern.fullmatch(path[len(start) :]) for start, pattern in known)

    held = {above for folder in covered for above in _parents(folder)} | {""}
    groups: dict[str, list[str]] = {}
    left: dict[str, list[str]] = {}
    for folder, names in tree.folders.items():
        names = [name for name in names if not own(jsonio.join(folder, name))]
        if folder in covered or not names:
            continue
        left[folder] = names
        top = folder
        if folder not in held:
            while top and _above(top) not in held:
                top = _above(top)
        groups.setdefault(top, []).append(folder)
    for top, folders in sorted(groups.items()):
        suffixes = Counter(_suffix(name) for folder in folders for name in left[folder])
        inside = any(above in roots for above in _parents(top))
        # Pictures and papers inside a source are its own; only what could have been a log is worth a word.
        if inside and all(suffix in _BESIDE or not suffix for suffix in suffixes):
            continue
        if top in held and len(tree.folders) > 1 and all(suffix in _TEXTS or not suffix for suffix in suffixes):
            continue
        hint = next((hints[folder] for folder in folders if folder in hints), None)
        yield top, _described(suffixes, hint, loose=top in held and len(tree.folders) > 1)


def _described(suffixes: Counter[str], hint: str | None, loose: bool) -> str:
    total = sum(suffixes.values())
    listed = ", ".join(
        f"{n:,} {suffix or 'without ending'}" for suffix, n in sorted(suffixes.items(), key=lambda pair: (-pair[1], pair[0]))[:5]
    )
    more = ", …" if len(suffixes) > 5 else ""
    what = f"{total:,} file{'s' * (total != 1)}{' of its own' if loose else ''} ({listed}{more})"
    if hint is None:
        if set(suffixes) <= _PICTURES:
            hint = "pictures without a log"
        elif set(suffixes) <= _TEXTS | {""}:
            hint = "nothing but documents"
        else:
            hint = "of no layout a reader knows"
    return f"{what}: {hint}"


def _logs(names: list[str]) -> bool:
    return any(_suffix(name) in {".json", ".jsonl", ".parquet", ".pkl", ".pkl.gz", ".zip", ".csv"} for name in names)


def _suffix(name: str) -> str:
    """Return a file's ending in lower case, both parts of ``.pkl.gz`` and the like."""
    stem, dot, last = name.lower().rpartition(".")
    if not dot or not stem or len(last) > 12 or not last.isalnum():
        return ""
    inner = re.search(r"\.(pkl|json|tar|csv|jsonl|tfrecord)$", stem)
    return f"{inner[0]}.{last}" if last in {"gz", "zst", "xz", "bz2"} and inner else f".{last}"
