"""Found by Python where this folder is on its path: every `python -m evoaudit …` and Snakemake itself leave one line of measurements.

The line goes to the file that `EVOAUDIT_OBSERVED` names: wall and processor seconds (of worker processes too), and the largest resident
MiB of the process, by the kernel's high-water mark of this program alone, and of its largest worker.
"""

import os
import sys


def _observe(path: str, module: str, words: list[str]) -> None:
    import atexit
    import json
    import resource
    import time

    began = time.time()

    def leave() -> None:
        own, workers = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            peak = next((int(line.split()[1]) for line in file if line.startswith("VmHWM")), 0)
        found = {
            "stage": words[0] if module == "evoaudit" and words else module,
            "key": words[words.index("--key") + 1] if "--key" in words else "",
            "began": round(began, 2),
            "seconds": round(time.time() - began, 3),
            "own": round(own.ru_utime + own.ru_stime, 3),
            "workers": round(workers.ru_utime + workers.ru_stime, 3),
            "peak": round(peak / 1024, 1),
            "worker_peak": round(workers.ru_maxrss / 1024, 1),
        }
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")

    atexit.register(leave)


if (_to := os.environ.get("EVOAUDIT_OBSERVED")) and sys.orig_argv[1:2] == ["-m"] and sys.orig_argv[2] in ("evoaudit", "snakemake"):
    _observe(_to, sys.orig_argv[2], sys.orig_argv[3:])
