"""Reading the small JSON files that stages write for one another."""

import json
from pathlib import Path
from typing import Any

from evoaudit.errors import InputError, one_line
from evoaudit.givenfile import open_given


def read_json(path: Path) -> Any:
    """Return the value of a JSON file another stage wrote; one that is missing or damaged is one clear error."""
    try:
        with open_given(path, "run the stage that writes it") as handle:
            return json.loads(handle.read().decode())
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"not JSON ({one_line(str(error), 200)})", "delete its folder and run again") from None
