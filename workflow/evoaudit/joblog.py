"""What a job says while it runs: lines for people or, with EVOAUDIT_LOG=json, one JSON object each, and a small file of how far it is.

The file lies beside the job's log, so it is on the shared file system where jobs run on other machines; it is rewritten whole, at most
once a second, touched while the job lives, gone once the job has succeeded, and left with the reason where it failed. It holds times and
is no data. A file that cannot be written stops no job. No line and no file holds a key.
"""

import argparse
import json
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from evoaudit.errors import InputError, one_line
from evoaudit.identity import FORMAT
from evoaudit.wholefile import write_whole

#: Seconds between two versions of the file at least, and between signs of life.
STEP, BEAT = 1.0, 10.0
#: Longest text of one field, characters.
LONGEST = 500
#: Environment variables that hold a secret go by such names; what is shorter is a placeholder.
_SECRET, _SHORTEST = re.compile(r"(?i)(?:^|_)(?:key|token|secret|password|passwd|credentials?)$"), 8


def status_file(results: Path, stage: str, key: str) -> Path:
    """Return where a job's file lies."""
    return results / "logs" / stage / f"{key}.json"


def structured() -> bool:
    """Tell whether events are wanted as JSON: never on a terminal, which people read."""
    return os.environ.get("EVOAUDIT_LOG") == "json" and not sys.stderr.isatty()


def say(text: str, event: str = "note", **fields: Any) -> None:
    """Print one line for people, or an event with it as its text."""
    text = hidden(one_line(text))
    if structured():
        _print_event(event, {"text": text, **fields})
    else:
        print(text, file=sys.stderr, flush=True)


def event(kind: str, **fields: Any) -> None:
    """Print an event where they are wanted; people are told nothing."""
    if structured():
        _print_event(kind, fields)


def progress(**fields: Any) -> None:
    """Say how far the running job is; None takes a field back."""
    if _job is not None:
        _job.update(fields)


def hidden(text: str) -> str:
    """Return a text without the secrets of this process's environment."""
    for name, value in _secrets(_key_name):
        text = text.replace(value, f"[{name}]")
    return text


def show_fault(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of a fault of ours, which may quote anything, without secrets and control characters."""
    lines = "".join(traceback.format_exception(kind, error, trace)).splitlines()
    print("\n".join(hidden(one_line(line)) for line in lines), file=sys.stderr, flush=True)


@contextmanager
def running(args: argparse.Namespace) -> Iterator[None]:
    """Tell of a stage's start, its end, and why it failed."""
    global _job, _key_name
    _key_name = str(args.settings.get("api_key_env") or "")
    stage, key, out = args.command, args.key, Path(args.out)
    ours = stage in FORMAT and bool(key) and (out.parent.name, out.name) == (stage, key)
    _job = _Job(stage, key, status_file(out.parent.parent, stage, key) if ours else None)
    event("start", name=args.settings.get("name") or args.settings.get("source"))
    try:
        yield
    except InputError as error:
        _job.fail(str(error))
        raise
    except BaseException as error:
        _job.fail("interrupted; run it again" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}")
        raise
    else:
        _job.succeed()
    finally:
        _job = None


class _Job:
    """The job this process is."""

    def __init__(self, stage: str, key: str, file: Path | None) -> None:
        self.stage, self.key, self._file = stage, key, file
        self._began, self._written = time.monotonic(), 0.0
        self._lock, self._over = threading.Lock(), threading.Event()
        self._state: dict[str, Any] = {"stage": stage, "key": key, "state": "running", "started": round(time.time(), 3)}
        self._state |= {"host": os.uname().nodename, "pid": os.getpid()}
        if "SLURM_JOB_ID" in os.environ:
            self._state["slurm_job"] = os.environ["SLURM_JOB_ID"]
        if file is not None:
            self._write()
            threading.Thread(target=self._beat, name="sign of life", daemon=True).start()

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self._began, 3)

    def update(self, fields: dict[str, Any]) -> None:
        with self._lock:
            self._state |= fields
            if time.monotonic() - self._written >= STEP:
                self._write()

    def fail(self, why: str) -> None:
        why = hidden(one_line(why, LONGEST))
        self._over.set()
        with self._lock:
            self._state |= {"state": "failed", "error": why, "seconds": self.seconds}
            self._write()
        event("end", state="failed", error=why)

    def succeed(self) -> None:
        self._over.set()
        with self._lock, suppress(OSError):
            if self._file is not None:
                self._file.unlink(missing_ok=True)
        event("end", state="done")

    def _beat(self) -> None:
        while not self._over.wait(BEAT):
            with self._lock, suppress(OSError):
                if self._file is not None and not self._over.is_set():
                    os.utime(self._file)

    def _write(self) -> None:
        """Write the file whole; the caller holds the lock."""
        if self._file is None:
            return
        self._written = time.monotonic()
        known = {name: _short(value) for name, value in self._state.items() if value is not None}
        with suppress(OSError):
            write_whole(self._file, json.dumps(known, sort_keys=True) + "\n")


_job: _Job | None = None
#: Variable that holds the key of whom this job asks.
_key_name = ""


def _print_event(kind: str, fields: dict[str, Any]) -> None:
    line: dict[str, Any] = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": kind}
    if _job is not None:
        line |= {"stage": _job.stage, "key": _job.key, "seconds": _job.seconds}
    line |= {name: _short(value) for name, value in fields.items() if value is not None}
    print(json.dumps(line), file=sys.stderr, flush=True)


def _short(value: Any) -> Any:
    return one_line(hidden(value), 4 * LONGEST) if isinstance(value, str) else value


@cache
def _secrets(key_name: str) -> tuple[tuple[str, str], ...]:
    """Return name and value of each secret, the longest first, since one may hold another."""
    values = {name: value.strip() for name, value in os.environ.items() if name == key_name or _SECRET.search(name)}
    return tuple(sorted(((name, value) for name, value in values.items() if len(value) >= _SHORTEST), key=lambda pair: -len(pair[1])))
