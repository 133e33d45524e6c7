"""Reading the small JSON files that stages write for one another."""

import json
from pathlib import Path
from typing import Any

from evoaudit.errors import InputError
from evoaudit.givenfile import open_given


def read_json(path: Path) -> Any:
    """Return the value of a JSON file another stage wrote; one that is missing or damaged is one clear error."""
    try:
        with open_given(path, "run the stage that writes it") as handle:
            return json.loads(handle.read().decode())
    except ValueError as error:
        raise InputError(path, f"not JSON ({error})", "delete its folder and run again") from None
