"""How far a run is: one line now and then, or one that changes in place on a terminal."""

import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Protocol

#: Seconds between lines in a log, and on a terminal.
LOG, TERMINAL = 30.0, 0.5
#: Seconds over which the rate is measured.
_WINDOW = 60.0


class Meter(Protocol):
    """Dollars spent and their bound; no price, no dollars."""

    limit: float | None
    spent: float
    price: object | None


class Progress:
    """Count what ends and say it through ``say``; with ``live`` the line is rewritten in place, and ended."""

    def __init__(self, say: Callable[[str], None], live: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._live, self._clock = say, live, clock
        self.every = TERMINAL if live else LOG
        self._total, self._done, self._again = 0, 0, 0
        self._lost: Counter[str] = Counter()
        self._meter: Meter | None = None
        self._marks: deque[tuple[float, int]] = deque()

    def begin(self, total: int, meter: Meter) -> None:
        self._total, self._meter = total, meter
        self._marks.append((self._clock(), 0))

    def done(self, status: str) -> None:
        """Count a request that ended for good."""
        self._done += 1
        if status != "ok":
            self._lost[status] += 1

    def tried_again(self) -> None:
        """Count a call that failed and is repeated."""
        self._again += 1

    def tell(self, held: float = 0.0) -> None:
        """Say how far the run is; ``held`` is for how long the gate keeps everyone waiting, seconds."""
        self._say(self.line(held))

    def end(self) -> None:
        if self._live and self._done:
            self.tell()
            print(file=sys.stderr, flush=True)

    def line(self, held: float = 0.0) -> str:
        """Return requests done, rate, faults, money and time left in words."""
        now = self._clock()
        while len(self._marks) > 1 and now - self._marks[0][0] > _WINDOW:
            self._marks.popleft()
        then, before = self._marks[0]
        rate = (self._done - before) / (now - then) if now > then else 0.0
        if now - self._marks[-1][0] >= 1:
            self._marks.append((now, self._done))
        parts = [f"{self._done:,} of {self._total:,}", f"{rate:.1f} a second"]
        if self._lost:
            kinds = ", ".join(f"{status} {n}" for status, n in sorted(self._lost.items()))
            parts.append(f"{self._lost.total()} without an answer ({kinds})")
        if self._again:
            parts.append(f"{self._again} calls repeated")
        if self._meter is not None and self._meter.price is not None:
            parts.append(f"${self._meter.spent:.2f}" + (f" of ${self._meter.limit:.2f}" if self._meter.limit is not None else ""))
        if rate and self._done < self._total:
            parts.append(f"about {span((self._total - self._done) / rate)} left")
        if held > 1:
            parts.append(f"held back for another {span(held)}")
        return "; ".join(parts)


def span(seconds: float) -> str:
    """Say a length of time in the unit that fits."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(1, seconds):.0f} s"
