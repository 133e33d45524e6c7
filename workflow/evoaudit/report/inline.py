"""Static pages in one file: style and script stand inside and are named by hash in the page's content security policy."""

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from jinja2.bccache import Bucket
from markupsafe import Markup


class _Compiled(jinja2.BytecodeCache):
    """Templates compiled by this process: hundreds of pages come from a few of them."""

    def __init__(self) -> None:
        self._held: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill a template's bucket, if it was compiled before from the same source."""
        if bucket.key in self._held:
            bucket.bytecode_from_string(self._held[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what was compiled."""
        self._held[bucket.key] = bucket.bytecode_to_string()


COMPILED = _Compiled()


def render(
    template: Path,
    context: Mapping[str, Any],
    *,
    style: str | Sequence[str | Path],
    script: str | Sequence[str | Path],
    images: str = "'self' data: file:",
    scripts: str = "",
    more: str = "",
    filters: Mapping[str, Callable] | None = None,
    tests: Mapping[str, Callable] | None = None,
) -> str:
    """Render a template; ``style`` and ``script`` name files, beside it where they are no whole paths, ``images`` is where pictures and
    ``scripts`` where more scripts may come from.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template.parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        bytecode_cache=COMPILED,
    )
    environment.filters.update(filters or {})
    environment.tests.update(tests or {})
    css, js = (_joined(template.parent, names) for names in (style, script))
    own = f"style-src '{_hash(css)}'; script-src '{_hash(js)}'" + (f" {scripts}" if scripts else "")
    policy = f"default-src 'none'; img-src {images}; {own}; base-uri 'none'; form-action 'none'{more}"
    return environment.get_template(template.name).render(**context, style=Markup(css), script=Markup(js), policy=policy)


def _joined(folder: Path, names: str | Sequence[str | Path]) -> str:
    return "".join((folder / name).read_text(encoding="utf-8") for name in ([names] if isinstance(names, str) else names))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
