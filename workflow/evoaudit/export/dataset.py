"""The probes as a data set: one Parquet file a task of a set, with prompts and pictures inside, that `datasets.load_dataset` opens."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evoaudit import prompts

#: Split of every task: nobody is to train on it.
SPLIT = "test"
#: Rows in a row group: pictures are wide, and a reader holds a group.
_GROUP = 32

_S, _I, _B = pa.string(), pa.int32(), pa.bool_()
_PICTURE = pa.struct([("bytes", pa.binary()), ("path", _S)])
#: Column → type and meaning, shared by all tasks.
SHARED: dict[str, tuple[pa.DataType, str]] = {
    "instance_id": (_S, "identity of the item, as in every table of the run"),
    "source": (_S, "source of the trajectory"),
    "license": (_S, "licence of that source; null where its owner's permission takes its place"),
    "trajectory_id": (_S, "trajectory the item was mined from"),
    "domain": (_S, "website, application or domain"),
    "website": (_S, "website"),
    "slice": (_S, "slice of the task"),
    "goal": (_S, "the user's goal"),
    "system": (_S, "system message of the prompt"),
    "prompt": (_S, "first text of the user message"),
    "image_labels": (pa.list_(_S), "text before each picture"),
    "image_ids": (pa.list_(_S), "sha256 of each picture's size and pixels, as logged: before it was resized or masked"),
    "images": (pa.list_(_PICTURE), "pictures in the order shown"),
    "masked": (_B, "a picture or a text of the item was masked"),
    "simulated": (_B, "mined from a simulated trajectory"),
}
OWN: dict[str, dict[str, tuple[pa.DataType, str]]] = {
    "t1": {
        "steps": (pa.list_(_I), "steps of the pictures, in the order shown"),
        "answer": (pa.list_(_I), "1-based positions, earliest first"),
    },
    "t2": {
        "step": (_I, "step of the transition"),
        "options": (pa.list_(_S), "actions to choose from"),
        "answer_action": (_S, "the action"),
        "answer_value": (_S, "exact text typed or option picked; empty for all others"),
        "value_in_goal": (_B, "the value stands verbatim in the goal as logged"),
    },
    "t3": {
        "step": (_I, "step of the transition"),
        "answer": (_S, "`A` or `B`"),
        "distractor_trajectory": (_S, "trajectory of the wrong candidate"),
        "distractor_step": (_I, "step whose screen it is"),
        "distractor_license": (_S, "licence of that trajectory's source"),
    },
}


def name(task: str, probe_set: str | None = None) -> str:
    """Return the name of a configuration: a task of the paper's set, or of a further one."""
    return task if probe_set is None else f"{probe_set}_{task}"


def task_of(config: str) -> str:
    """Return the task of a configuration."""
    return config.rpartition("_")[2]


def columns(config: str, pictures: bool = True) -> dict[str, tuple[pa.DataType, str]]:
    """Return a configuration's columns with their types and meanings, in order."""
    found = {**SHARED, **OWN[task_of(config)]}
    if not pictures:
        del found["images"]
    return found


def file(config: str) -> str:
    """Return where a configuration's rows lie."""
    return f"data/{config}/{SPLIT}.parquet"


def asked(prompt: prompts.Prompt, probe: Mapping[str, Any], goal: prompts.Goal, vocabulary: Iterable[str]) -> dict[str, Any]:
    """Return the texts that ask one probe row, as the run's own prompts do."""
    messages = prompts.render(prompt, probe, goal=goal, vocabulary=tuple(vocabulary))
    system = next((message.parts[0].text for message in messages if message.role == "system"), "")
    texts = [part.text for part in messages[-1].parts if isinstance(part, prompts.Text)]
    return {"system": system, "prompt": texts[0], "image_labels": texts[1:]}


def write(folder: Path, config: str, rows: Iterator[dict[str, Any]], pictures: bool) -> int:
    """Write one configuration's rows, a few at a time, and return their number."""
    declared = columns(config, pictures)
    fields = [pa.field(name, kind) for name, (kind, _) in declared.items()]
    told = json.dumps({"info": {"features": {name: _feature(name, kind) for name, (kind, _) in declared.items()}}})
    schema = pa.schema(fields, metadata={"huggingface": told})
    path = folder / file(config)
    path.parent.mkdir(parents=True)
    total = 0
    # Pictures are compressed already, and readers that seek want them as they are.
    packed: Any = {name: "zstd" for name in declared if name != "images"} | ({"images.list.element.bytes": "none"} if pictures else {})
    with pq.ParquetWriter(path, schema, compression=packed, use_dictionary=False, write_statistics=False) as writer:
        held: list[dict[str, Any]] = []
        for row in rows:
            held.append(row)
            total += 1
            if len(held) == _GROUP:
                writer.write_table(pa.Table.from_pylist(held, schema=schema))
                held = []
        if held or not total:
            writer.write_table(pa.Table.from_pylist(held, schema=schema))
    return total


def _feature(name: str, kind: pa.DataType) -> dict[str, Any]:
    """Describe a column as `datasets` does, in the way its older and newer versions both read."""
    if name == "images":
        return {"feature": {"_type": "Image"}, "_type": "Sequence"}
    if pa.types.is_list(kind):
        return {"feature": _feature("", kind.value_type), "_type": "Sequence"}
    return {"dtype": str(kind), "_type": "Value"}
