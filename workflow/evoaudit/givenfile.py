"""Opening the files that people name: a pipe or a device may never end, so neither is opened."""

import stat
from pathlib import Path
from typing import BinaryIO

from evoaudit.errors import InputError


def open_given(path: Path, mend: str) -> BinaryIO:
    """Open a regular file to read its bytes; ``mend`` says what to give instead of one that is missing or none."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise InputError(path, "is a folder", mend)
        if not stat.S_ISREG(mode):
            raise InputError(path, "is not a regular file", f"save what it gives as a file; {mend}")
        return path.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(path, "file not found", mend) from None
    except ValueError:  # a NUL in the name
        raise InputError(path, "is not the name of a file", mend) from None


def read_given(path: Path, most: int, mend: str, large: str = "is too large", smaller: str = "") -> bytes:
    """Read a regular file of at most ``most`` bytes whole; ``large`` and ``smaller`` are fault and mend of a larger one."""
    with open_given(path, mend) as handle:
        raw = handle.read(most + 1)
    if len(raw) > most:
        raise InputError(path, large, smaller or f"give at most {most:,} bytes")
    return raw
