"""What benchmarks share: one subcommand as a process of its own, measured by the kernel, and which pictures are whole."""

import os
import sys
import time
from pathlib import Path


def measure(*words: str) -> tuple[float, float, float]:
    """Run one subcommand; return wall seconds, processor seconds and the largest resident MiB."""
    start = time.perf_counter()
    pid = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-m", "evoaudit", *words])
    _, status, usage = os.wait4(pid, 0)
    if status:
        sys.exit(f"failed: {' '.join(words)[:200]}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def whole(path: Path) -> bool:
    """Tell whether a picture can be decoded; corpora hold planted damage."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            image.load()
        return True
    except OSError:
        return False
