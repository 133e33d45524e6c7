"""YAML that people write: data alone, and every key once."""

import json
import re
import reprlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

from evoaudit.errors import InputError

#: Plain words that are no texts.
_WORDS = frozenset(("~", ".inf", ".nan", "false", "no", "null", "off", "on", "true", "yes"))


class _Strict(yaml.SafeLoader):
    """YAML that refuses a key written twice, since the first would be lost in silence, and a value that is none of its type."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            found = super().construct_object(node, deep)
            if not isinstance(found, int) or found.bit_length() <= 256:
                return found
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            pass
        kind = node.tag.rpartition(":")[2]
        raise yaml.constructor.ConstructorError(None, None, f"{short(node.value)} cannot be read as {kind}", node.start_mark)


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict:
    seen: set = set()
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key = loader.construct_object(key_node)
        if isinstance(key, (str, int, float, bool)) and key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"the key '{key}' is written twice", key_node.start_mark)
        seen.add(key) if isinstance(key, (str, int, float, bool)) else None
    loader.flatten_mapping(node)
    return yaml.SafeLoader.construct_mapping(loader, node, deep=True)


_Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def parse(raw: bytes, path: Path, example: str, text: str = "UTF-8") -> Any:
    """Return the value of a YAML file's bytes; what is not ``text`` or not YAML is one clear error. ``example`` says what to start from."""
    try:
        return yaml.load(raw.decode("utf-8-sig"), Loader=_Strict)
    except UnicodeDecodeError as error:
        raise InputError(path, f"is not {text} (byte {error.start})", f"save it as {text}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise InputError(f"{path}{line}", f"is not YAML: {getattr(error, 'problem', None) or error}", "mend that line") from None
    except RecursionError:
        raise InputError(path, "is nested too deeply", example) from None


def short(value: object) -> str:
    """Show a value in few words; of a container only the first parts, since aliases can make a small file a huge tree."""
    if value is None:
        return "nothing"
    text = repr(value[:60]) if isinstance(value, str) else reprlib.repr(value) if isinstance(value, Collection) else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def quoted(text: str) -> str:
    """Return a text as YAML takes it inside braces, as one printable line."""
    plain = re.fullmatch(r"[A-Za-z_/~.][\w./~-]*", text, re.ASCII) and text.lower() not in _WORDS
    return text if plain else json.dumps(text, ensure_ascii=not text.isprintable())
