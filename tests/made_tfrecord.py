"""AndroidControl files made by hand."""

import gzip
import json
from pathlib import Path

from evoaudit.sources.androidcontrol import _TREE
from evoaudit.sources.tfrecord import EXAMPLE, masked


def framed(data: bytes) -> bytes:
    """Return one record as it stands in a file."""
    length = len(data).to_bytes(8, "little")
    return length + masked(length) + data + masked(data)


def example(**features: list) -> bytes:
    """Return a tf.train.Example; values are bytes or whole numbers."""
    parts = EXAMPLE["Features"]()
    for name, values in features.items():
        numbers = bool(values) and isinstance(values[0], int)
        listed = EXAMPLE["Int64List" if numbers else "BytesList"](value=values).SerializeToString()
        feature = EXAMPLE["Feature"](**{"int64_list" if numbers else "bytes_list": listed})
        parts.feature.append(EXAMPLE["Entry"](key=name.encode(), value=feature.SerializeToString()).SerializeToString())
    return EXAMPLE["Example"](features=parts.SerializeToString()).SerializeToString()


def tree(*windows: dict) -> bytes:
    """Return an accessibility forest; a window is ``nodes`` and its own fields, a node its fields, with ``box`` as its four sides."""
    forest = _TREE["Forest"]()
    for window in windows:
        made = forest.windows.add(**{name: value for name, value in window.items() if name != "nodes"})
        for fields in window["nodes"]:
            fields = {name: value.encode() if isinstance(value, str) else value for name, value in fields.items()}
            left, top, right, bottom = fields.pop("box")
            node = made.tree.nodes.add(**fields)
            node.bounds_in_screen.left, node.bounds_in_screen.top = left, top
            node.bounds_in_screen.right, node.bounds_in_screen.bottom = right, bottom
    return forest.SerializeToString()


def episode(
    number: int, goal: str, actions: list, screens: list[bytes], trees: list[bytes] | None = None, said: tuple[str, ...] = ()
) -> bytes:
    """Return the Example of an episode."""
    return example(
        episode_id=[number],
        goal=[goal.encode()],
        screenshots=screens,
        accessibility_trees=[b""] * len(screens) if trees is None else trees,
        screenshot_widths=[8] * len(screens),
        screenshot_heights=[4] * len(screens),
        actions=[action if isinstance(action, bytes) else json.dumps(action).encode() for action in actions],
        step_instructions=[text.encode() for text in said],
    )


def write(path: Path, *records: bytes, compressed: bool = True) -> Path:
    """Write records into one file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = b"".join(map(framed, records))
    path.write_bytes(gzip.compress(data, mtime=0) if compressed else data)
    return path
