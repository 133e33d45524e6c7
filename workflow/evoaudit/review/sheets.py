"""Sheets to fill in by hand, in a spreadsheet or an editor: a label row for every trajectory, without a verdict."""

from collections.abc import Iterable
from pathlib import Path

from evoaudit import codebook, csvfile
from evoaudit.labels import FIELDS, TOLD, dumps


def write(folder: Path, name: str, annotator: str, stage: str, ids: Iterable[str]) -> None:
    """Write ``<name>.csv`` and ``<name>.jsonl``."""
    version = codebook.load().identity
    rows = [
        {
            **dict.fromkeys(FIELDS),
            "trajectory_id": identity,
            "annotator": annotator,
            "kind": "human",
            "stage": stage,
            "codebook_version": version,
        }
        for identity in ids
    ]
    csvfile.write(folder / f"{name}.csv", [field for field in FIELDS if field not in TOLD], rows)
    (folder / f"{name}.jsonl").write_text("".join(dumps(row) + "\n" for row in rows), encoding="utf-8")
