"""Pickles as other programs write them: objects of classes that are not installed here."""

import gzip
import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_CLASSES: dict[str, type] = {}


def foreign(path: str, base: type = object, **fields: Any) -> Any:
    """Return an object of the class ``path`` (``package.module.Class``) with these attributes."""
    module, _, name = path.rpartition(".")
    if path not in _CLASSES:
        _CLASSES[path] = type(name, (base,), {"__module__": module, "__qualname__": name})
    made = _CLASSES[path]()
    made.__dict__.update(fields)
    return made


def dumps(value: Any, protocol: int = 4) -> bytes:
    """Pickle a value; the modules of foreign classes exist only while that is done."""
    modules: dict[str, ModuleType] = {}
    for path, made in _CLASSES.items():
        module, _, name = path.rpartition(".")
        for end in range(1, module.count(".") + 2):
            package = ".".join(module.split(".")[:end])
            modules.setdefault(package, ModuleType(package))
        setattr(modules[module], name, made)
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        return pickle.dumps(value, protocol)
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def write(path: Path, value: Any, protocol: int = 4) -> None:
    """Write a pickle, gzipped if the name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = dumps(value, protocol)
    path.write_bytes(gzip.compress(data, 1, mtime=0) if path.suffix == ".gz" else data)
