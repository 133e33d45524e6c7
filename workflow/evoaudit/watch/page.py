"""The page that shows a run's status file, wherever both are served from."""

import base64
import hashlib
import re
from pathlib import Path

_TEMPLATE = Path(__file__).parent / "templates" / "status.html"


def text() -> str:
    """Return the page; its policy allows its own script and style alone, and reading from where it lies."""
    html = _TEMPLATE.read_text(encoding="utf-8")
    hashes = {}
    for tag in ("script", "style"):
        inside = re.search(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        assert inside is not None
        hashes[tag] = base64.b64encode(hashlib.sha256(inside[1].encode()).digest()).decode()
    policy = f"default-src 'none'; connect-src 'self'; script-src 'sha256-{hashes['script']}'; style-src 'sha256-{hashes['style']}'"
    return html.replace("{{policy}}", policy)


def write(path: Path) -> None:
    """Write the page, if it differs; it reads the JSON file of its own name beside it."""
    new = text()
    if not path.is_file() or path.read_text(encoding="utf-8") != new:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(new, encoding="utf-8")
