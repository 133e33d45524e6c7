"""JSON in scripts: a page that is opened from a file can read no other files, but load them."""

import json
import re
from pathlib import Path
from typing import Any

#: The script of pages that load files of data.
FILES = Path(__file__).parent / "templates" / "files.js"


def script_json(value: Any) -> str:
    """Return JSON that can stand in a page's script element whatever text it holds."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def data_script(name: str, value: Any) -> str:
    """Return a script that hands a page one value, as JSON in a string: data it stays, whatever its keys are called."""
    text = script_json(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"deliver('{name}', '{text}');\n"


def data_of(script: str, name: str) -> Any:
    """Return what `data_script` hands over; raises `ValueError` if it is none of that name."""
    before, after = f"deliver('{name}', '", "');\n"
    if not script.startswith(before) or not script.endswith(after):
        raise ValueError(f"hands over no {name}")
    return json.loads(re.sub(r"\\(.)", r"\1", script[len(before) : -len(after)]))
