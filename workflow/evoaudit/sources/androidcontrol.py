"""AndroidControl: people's demonstrations on phones, one tf.train.Example an episode in TFRecord files.

An episode of n actions has n + 1 screens and as many accessibility trees (`AndroidAccessibilityForest` of AndroidEnv); action i was
made between screens i and i + 1. Coordinates and boxes are pixels of the screens. ``splits.json`` and ``test_subsplits.json``
list the episodes of each split.
"""

import errno
import threading
from collections import OrderedDict
from collections.abc import Generator, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from pathlib import Path

from google.protobuf.message import DecodeError, Message

from evoaudit.sources import jsonio, tfrecord
from evoaudit.sources.base import Picture, Skipped, Step, Target, Trajectory

LICENSE: str | None = "Apache-2.0"
LAYOUT = "android_control-00000-of-00020 (TFRecord, gzip) and splits.json"

ACTIONS = {
    "click": "click",
    "long_press": "long_press",
    "scroll": "scroll",
    "open_app": "open_app",
    "input_text": "type",
    "type": "type",
    "navigate_home": "key",
    "navigate_back": "back",
    "wait": "wait",
}

#: Field that holds an action's value.
_VALUES = {"scroll": "direction", "open_app": "app_name", "input_text": "text", "type": "text"}

#: What lies beside the records in people's folders, in lower case.
_OTHER = (".json", ".jsonl", ".md", ".txt", ".html", ".csv", ".png", ".jpg", ".py", ".ipynb", ".sha256", ".md5", ".lock", "license")
_SPLITS = ("splits.json", "test_subsplits.json")

_FEATURES = ("episode_id", "goal", "screenshots", "accessibility_trees", "actions", "step_instructions")

#: Bytes of encoded screens kept of the records met last; those of the very last are kept whatever their size.
_KEPT = 64 * 2**20
_TEXT_LIMIT = 4_000
#: Bytes of a tree (parsed, it takes some fifty times as much), and nodes of one that are looked at.
_TREE_LIMIT, _NODE_LIMIT = 8 * 2**20, 20_000

#: The parts of `AndroidAccessibilityForest` that are read, with AndroidEnv's numbers.
_TREE = tfrecord.messages(
    "evoaudit.accessibility",
    {
        "Forest": {"windows": (1, "Window", True)},
        "Window": {"layer": (4, "int32", False), "window_type": (6, "int32", False), "tree": (11, "Tree", False)},
        "Tree": {"nodes": (1, "Node", True)},
        "Node": {
            "bounds_in_screen": (2, "Rect", False),
            "class_name": (3, "bytes", False),
            "content_description": (4, "bytes", False),
            "hint_text": (5, "bytes", False),
            "package_name": (6, "bytes", False),
            "text": (7, "bytes", False),
            "view_id_resource_name": (10, "bytes", False),
            "is_clickable": (14, "bool", False),
            "is_editable": (15, "bool", False),
            "is_focused": (18, "bool", False),
            "is_visible_to_user": (23, "bool", False),
        },
        "Rect": {name: (number, "int32", False) for number, name in enumerate(("left", "top", "right", "bottom"), 1)},
    },
)
#: Windows of applications, or of unknown type: the system's bars change while an application stands still.
_APPLICATION = (0, 1)
#: Packages that are no application.
_SYSTEM = ("launcher", "com.android.systemui")


def read(root: Path, options: dict) -> Iterator[Trajectory | Skipped]:
    """Yield one trajectory an episode; ``options["split"]`` leaves out the episodes of all others."""
    splits = yield from _splits(root)
    chosen, patterns = options.get("split"), options.get("files")
    if chosen is not None and chosen not in splits:
        listed = f"there are {', '.join(sorted(splits)[:10])}" if splits else f"{_SPLITS[0]} lists none"
        yield Skipped(_SPLITS[0], "no_split", f"no split '{chosen}'; {listed}", "row")
        return
    for file in jsonio.files(root):
        if file.lower().endswith(_OTHER) or (patterns and not any(fnmatchcase(file, pattern) for pattern in patterns)):
            continue
        shard = _shard(root, file)
        if isinstance(shard, Skipped):
            yield shard
            continue
        for number, data in shard.records(file):
            found = data if isinstance(data, Skipped) else _episode(root, file, shard, number, data)
            if isinstance(found, Trajectory):
                homes = [name for name, ids in splits.items() if found.native_id in ids]
                if chosen is not None and chosen not in homes:
                    continue
                found.experiment = homes[0] if homes else None
            yield found


def load(root: Path, file: str, member: str) -> bytes | None:
    """Return an encoded screen, or None where there is none; ``member`` is its record's number and its own in the record."""
    shard = _shard(root, file)
    if isinstance(shard, Skipped):
        raise FileNotFoundError(errno.ENOENT, shard.detail)
    number, index = map(int, member.split("/"))
    screens = _kept.get(shard, number)
    if screens is None:
        data = shard.record(number)
        features = None if data is None else tfrecord.example(data, file, _FEATURES[2:3])
        screens = _texts(features["screenshots"]) if isinstance(features, dict) else []
        _kept.put(shard, number, screens)
    return screens[index] if index < len(screens) else None


def _splits(root: Path) -> Generator[Skipped, None, dict[str, frozenset[str]]]:
    """Return split → ids of its episodes, yielding what cannot be read."""
    splits: dict[str, frozenset[str]] = {}
    for name in _SPLITS:
        found = jsonio.read_json(root, name, unit="row")
        if isinstance(found, Skipped):
            if found.reason != "missing":
                yield found
            continue
        for split, ids in jsonio.as_dict(found).items():
            splits.setdefault(split, frozenset(filter(None, map(jsonio.as_str, jsonio.as_list(ids)))))
    return splits


class _Kept:
    """The screens of the records met last, so that reading episodes and then their screens takes one pass."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: OrderedDict[tuple[tfrecord.File, int], list[bytes]] = OrderedDict()
        self._size = 0

    def get(self, shard: tfrecord.File, number: int) -> list[bytes] | None:
        with self._lock:
            return self._records.get((shard, number))

    def put(self, shard: tfrecord.File, number: int, screens: list[bytes]) -> None:
        """Keep a record's screens, and let go of the oldest."""
        with self._lock:
            self._size += sum(map(len, screens)) - sum(map(len, self._records.pop((shard, number), [])))
            self._records[shard, number] = screens
            while self._size > _KEPT and len(self._records) > 1:
                self._size -= sum(map(len, self._records.popitem(last=False)[1]))


_kept = _Kept()


def _shard(root: Path, file: str) -> tfrecord.File | Skipped:
    path = jsonio.regular(root, file)
    if isinstance(path, Skipped):
        return path
    try:
        status = path.stat()
        return _opened(str(path), status.st_mtime_ns, status.st_size)
    except OSError as error:
        return Skipped(file, "unreadable", error.strerror)


@lru_cache(maxsize=8)
def _opened(path: str, _modified: int, _size: int) -> tfrecord.File:
    return tfrecord.File(Path(path))


def _episode(root: Path, file: str, shard: tfrecord.File, number: int, data: bytes) -> Trajectory | Skipped:
    item = f"{file}#{number}"
    features = tfrecord.example(data, item, _FEATURES)
    if isinstance(features, Skipped):
        return features
    identity = jsonio.as_str(next((value for value in features["episode_id"] if isinstance(value, int)), None))
    if identity is None:
        return Skipped(item, "no_id", "an episode without episode_id")
    screens, actions, said = (_texts(features[name]) for name in ("screenshots", "actions", "step_instructions"))
    trees = [_forest(tree) for tree in _texts(features["accessibility_trees"])]
    _kept.put(shard, number, screens)
    found = Trajectory(
        native_id=identity,
        steps=[],
        source_file=file,
        obs_phase="both",
        benchmark="androidcontrol",
        task_id=identity,
        domain="android",
        instruction=next(map(_text, _texts(features["goal"])), None),
        license=LICENSE,
    )
    members = [f"{number:06d}/{index:04d}" for index in range(len(screens))]
    pictures = [Picture(file, member, partial(load, root, file, member)) for member in members]
    if len(pictures) != len(actions) + 1:
        detail = f"{len(actions)} actions, {len(pictures)} screens; action i is taken to lie between screens i and i + 1"
        found.skipped.append(("picture", item, "wrong_count", detail))
    if None in trees:
        detail = f"{trees.count(None)} of {len(trees)} accessibility trees cannot be read, first that of screen {trees.index(None)}"
        found.skipped.append(("tree", item, "bad_tree", detail))
    for index, raw in enumerate(actions):
        step = _step(raw, f"{item}/{index}", trees[index] if index < len(trees) else None)
        if isinstance(step, Skipped):
            found.skipped.append((step.unit, step.item, step.reason, step.detail))
            continue
        step.source_step = str(index)
        step.reasoning = _text(said[index]) if index < len(said) else None
        step.before, step.after = (pictures[at] if at < len(pictures) else None for at in (index, index + 1))
        found.steps.append(step)
    found.final_text = _page(trees[len(actions)]) if len(trees) > len(actions) else None
    opened = next((step.value for step in found.steps if step.op == "open_app" and step.value), None)
    found.website = opened or next(filter(None, map(_package, trees)), None)
    return found


def _step(raw: bytes, item: str, tree: Message | None) -> Step | Skipped:
    action = jsonio.parse(raw, item, "step")
    if isinstance(action, Skipped):
        return action
    if not isinstance(action, dict):
        return Skipped(item, "bad_record", "not a JSON object", "step")
    verb = jsonio.as_str(action.get("action_type")) or ""
    x, y = jsonio.as_float(action.get("x")), jsonio.as_float(action.get("y"))
    target = None
    if x is not None and y is not None:
        target = _target(_at(tree, x, y), x, y)
    elif verb == "input_text":
        target = _target(next((node for _, nodes in _windows(tree) for node in nodes if node.is_focused and node.is_editable), None))
    return Step(
        op=ACTIONS.get(verb, "other"),
        op_raw=_text(raw),
        value="home" if verb == "navigate_home" else jsonio.as_str(action.get(_VALUES.get(verb, ""))) or None,
        target=target,
        page_text=_page(tree),
    )


def _forest(data: bytes) -> Message | None:
    """Parse an accessibility tree; None if it cannot be."""
    try:
        return _TREE["Forest"].FromString(data) if len(data) <= _TREE_LIMIT else None
    except DecodeError:
        return None


def _windows(tree: Message | None) -> Iterator[tuple[Message, list[Message]]]:
    """Yield windows and their nodes the user can see, the foremost window first; trees that do not say what is seen show all."""
    left = _NODE_LIMIT
    for window in sorted(tree.windows[:100] if tree else [], key=lambda window: -window.layer):
        nodes = window.tree.nodes[:left]
        left -= len(nodes)
        yield window, [node for node in nodes if node.is_visible_to_user or not node.HasField("is_visible_to_user")]


def _at(tree: Message | None, x: float, y: float) -> Message | None:
    """Return the smallest node at a place in the foremost window that has one with a label, or to click on; else the smallest of all."""
    others = []
    for _, nodes in _windows(tree):
        holding = [(_area(node), -index, node) for index, node in enumerate(nodes) if _holds(node, x, y)]
        telling = [one for one in holding if one[2].is_clickable or _label(one[2])]
        if telling:
            return min(telling, key=lambda one: one[:2])[2]
        others += holding
    return min(others, key=lambda one: one[:2])[2] if others else None


def _holds(node: Message, x: float, y: float) -> bool:
    box = node.bounds_in_screen
    return box.left <= x < box.right and box.top <= y < box.bottom


def _area(node: Message) -> int:
    box = node.bounds_in_screen
    return (box.right - box.left) * (box.bottom - box.top)


def _target(node: Message | None, x: float | None = None, y: float | None = None) -> Target | None:
    """Return pointer, box and ``[class] label`` of a node."""
    if node is None:
        return None if x is None else Target(x, y)
    box = node.bounds_in_screen
    text = f"[{_text(node.class_name).rpartition('.')[2]}] {_label(node)}".strip()
    if box.left >= box.right or box.top >= box.bottom:
        return Target(x, y, text=text)
    return Target(x, y, box.left, box.top, box.right - box.left, box.bottom - box.top, text)


def _label(node: Message) -> str:
    """Return what a node says, else the last part of its name."""
    said = node.text or node.content_description or node.hint_text
    return " ".join(_text(said).split()) or _text(node.view_id_resource_name).rpartition("/")[2]


def _page(tree: Message | None) -> str | None:
    """Return what the applications' windows say, a line a node."""
    lines, size = [], 0
    for window, nodes in _windows(tree):
        for node in nodes if window.window_type in _APPLICATION else []:
            line = " ".join(_text(node.text or node.content_description).split())
            if line:
                lines.append(line)
                size += len(line) + 1
                if size > _TEXT_LIMIT:
                    return "\n".join(lines)[:_TEXT_LIMIT]
    return "\n".join(lines) or None


def _package(tree: Message | None) -> str | None:
    """Return the package of the foremost application."""
    for window, nodes in _windows(tree):
        package = _text(nodes[0].package_name) if nodes and window.window_type in _APPLICATION else ""
        if package and not any(part in package for part in _SYSTEM):
            return package
    return None


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _texts(values: list) -> list[bytes]:
    """Return the values that are bytes."""
    return [value for value in values if isinstance(value, bytes)]
