"""YAML that people write: data alone, every key once, and no more memory than the file is worth."""

import reprlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

from evoaudit.errors import InputError

#: Entries of one mapping with all that is merged into it, where something is, and mappings merged into one at most.
_ENTRIES, _MERGED = 1000, 100
_MERGE = "tag:yaml.org,2002:merge"


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

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge what a mapping names; merges of merges would multiply without bound."""
        merges = [value for key, value in node.value if key.tag == _MERGE]
        if any(isinstance(value, yaml.SequenceNode) and len(value.value) > _MERGED for value in merges):
            raise yaml.constructor.ConstructorError(None, None, f"more than {_MERGED} mappings are merged", node.start_mark)
        super().flatten_mapping(node)
        if merges and len(node.value) > _ENTRIES:
            raise yaml.constructor.ConstructorError(None, None, f"a mapping of more than {_ENTRIES} merged entries", node.start_mark)


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict:
    seen: set = set()
    for key_node, _ in node.value:
        if key_node.tag == _MERGE:
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
