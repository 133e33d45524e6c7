"""Files that are there whole or not at all."""

import os
import threading
from pathlib import Path


def write_whole(path: Path, data: str | bytes) -> None:
    """Write a file under another name beside its place and rename it, so that a reader meets the old one or the new one.

    Text is UTF-8, as it is given. Folders are made. Raises `OSError`, and leaves nothing of the new file then.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        scratch.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)
        os.replace(scratch, path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
