"""How far a download is: one bar on a terminal, else a plain line about every half minute."""

import sys
import threading
import time
from typing import Any, TextIO

from evoaudit import joblog
from evoaudit.hub.select import size_text

#: Seconds between two lines, and between two notes of how far it is.
_EVERY, _NOTE = 30.0, 2.0
#: Times one file may start over before its connection is called hopeless: the client itself would go on for ever.
_RESTARTS = 5


class Stopped(Exception):
    """Another file failed, so this one is let go."""


class Progress:
    """Counts bytes and files of one download for the error stream. Safe for threads."""

    def __init__(self, name: str, files: int, size: int, show: bool, stream: TextIO | None = None) -> None:
        self.name, self.files, self.size = name, files, size
        self.done_files = self.done = 0
        self.stop = threading.Event()
        self._show, self._stream = show, stream or sys.stderr
        self._guard = threading.Lock()
        self._said = self._noted = time.monotonic()
        self._bar: Any = None
        if show and files and self._stream.isatty():
            from tqdm import tqdm

            tqdm.set_lock(threading.RLock())  # its own lock starts a process
            self._bar = tqdm(total=size, unit="B", unit_scale=True, desc=name, file=self._stream, mininterval=0.5, leave=False)

    def add(self, size: int, files: int = 0) -> None:
        """Count bytes, which may be given back, and finished files."""
        with self._guard:
            self.done += size
            self.done_files += files
            if self._show and time.monotonic() - self._noted >= _NOTE:
                self._noted = time.monotonic()
                joblog.progress(waits=str(self))
            if self._bar is not None:
                self._bar.update(size)
                if files:
                    self._bar.set_postfix_str(f"{self.done_files} of {self.files} files", refresh=False)
            elif self._show and time.monotonic() - self._said >= _EVERY:
                self._said = time.monotonic()
                self._print(f"{self.name}: {self}")

    def say(self, line: str) -> None:
        """Print one line whatever the bar does."""
        with self._guard:
            if self._show:
                self._print(line)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()

    def _print(self, line: str) -> None:
        if self._bar is not None:
            self._bar.write(line, file=self._stream)
        elif self._stream is sys.stderr:
            joblog.say(line)
        else:
            print(line, file=self._stream, flush=True)

    def __str__(self) -> str:
        done, total = size_text(self.done), size_text(self.size)
        number, unit = done.split(" ")
        return f"{self.done_files} of {self.files} files, {number if total.endswith(f' {unit}') else done} of {total}"


class Meter:
    """What the client takes for the bar of one file."""

    def __init__(self, progress: Progress) -> None:
        self.n, self.total = 0, 0
        self._progress, self._restarts, self._callback = progress, 0, False

    def __call__(self, *_: object, **settings: Any) -> "Meter":
        """Stand for the class the client wants to make a bar of."""
        self._callback = "bar_format" in settings  # the xet client calls from outside Python, where nothing may be raised
        return self

    def __enter__(self) -> "Meter":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def update(self, n: float | None = 1) -> None:
        size = int(n or 0)
        if not self._callback:
            if self._progress.stop.is_set():
                raise Stopped
            self._restarts += size < 0
            if self._restarts > _RESTARTS:
                raise ConnectionError("the connection was lost again and again")
        self.n += size
        self._progress.add(size)

    def undo(self) -> None:
        """Give back what was counted of a file that failed."""
        self._progress.add(-self.n)
        self.n = 0

    def update_transfer(self, n: float | None = 1) -> None:
        return None

    def set_postfix_str(self, text: str = "", refresh: bool = True) -> None:
        return None

    def set_transfer_postfix_str(self, text: str = "", refresh: bool = True) -> None:
        return None

    def refresh(self, *_: object, **__: object) -> None:
        return None

    def close(self) -> None:
        return None
