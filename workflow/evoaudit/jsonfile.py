"""Reading the small JSON files that stages write for one another."""

import json
from pathlib import Path
from typing import Any

from evoaudit.errors import InputError


def read_json(path: Path) -> Any:
    """Return the value of a JSON file another stage wrote; one that is missing or damaged is one clear error."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(path, "file not found", "run the stage that writes it") from None
    except ValueError as error:
        raise InputError(path, f"not JSON ({error})", "delete its folder and run again") from None
