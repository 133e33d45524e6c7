"""Which actions T2 may be answered with: the paper's three, or those of another set."""

from pathlib import Path

from evoaudit.jsonfile import read_json
from evoaudit.parse import VOCABULARY


def vocabulary_of(mined: Path) -> tuple[str, ...]:
    """Return T2's actions in a folder of mined probes."""
    path = mined / "quotas.json"
    found = read_json(path).get("vocabulary") if path.is_file() else None
    return tuple(found) if found else VOCABULARY
