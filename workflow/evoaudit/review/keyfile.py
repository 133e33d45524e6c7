"""Key files: which trajectory an item of a review page is. The page itself must not say, so the key stays with whoever runs the audit."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from evoaudit.errors import InputError
from evoaudit.givenfile import read_given
from evoaudit.streams import rank

FOLDER = "keys"
MOST = 64 * 2**20

_ITEM = re.compile(r"item-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a page: what it shows, and to whom at which stage."""

    trajectory_id: str
    n_steps: int
    practice: bool
    annotator: str
    stage: str
    codebook: str


def item_id(seed: int, stage: str, annotator: str, trajectory_id: str) -> str:
    """Return the neutral id of a trajectory on one page: a keyed hash, different for every annotator and stage."""
    return f"item-{rank(seed, 'review-item', stage, annotator, trajectory_id):016x}"


def is_item(text: str) -> bool:
    """Tell whether a text is the id of an item."""
    return _ITEM.fullmatch(text) is not None


def write(path: Path, annotator: str, stage: str, codebook: str, items: dict[str, dict]) -> None:
    """Write the key of one page; ``items`` holds ``trajectory_id``, ``n_steps`` and ``practice`` by item id."""
    content = {"annotator": annotator, "stage": stage, "codebook_version": codebook, "items": items}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def read(paths: Iterable[Path]) -> dict[str, Item]:
    """Read key files and return every item by its id."""
    found: dict[str, Item] = {}
    for path in paths:
        try:
            content = json.loads(read_given(path, MOST, "give a key file that `evoaudit review build` wrote"))
            page = (content["annotator"], content["stage"], content["codebook_version"])
            items = {
                name: Item(one["trajectory_id"], one["n_steps"], one["practice"], *page)
                for name, one in content["items"].items()
                if is_item(name) and isinstance(one["trajectory_id"], str) and type(one["n_steps"]) is int
            }
            whole = len(items) == len(content["items"]) and all(isinstance(part, str) for part in page)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            whole, items = False, {}
        if not whole:
            raise InputError(path, "is not a key file", "give the file that `evoaudit review build` wrote under keys/")
        for name, one in items.items():
            if found.setdefault(name, one) != one:
                raise InputError(path, f"{name} stands for another trajectory in another key file", "give key files of one build")
    return found
