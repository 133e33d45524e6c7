"""How far a run is: one line now and then, or one that changes in place on a terminal."""

import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Protocol

from evoaudit import joblog

#: Seconds between lines in a log, on a terminal, and between notes of how far a job is.
LOG, TERMINAL, NOTE = 30.0, 0.5, 2.0
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
        #: Seconds between two lines, and between two looks.
        self.every = TERMINAL if live else LOG
        self.step = min(self.every, NOTE)
        self._silent = 0.0
        self._retried: float | None = None
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
            joblog.event("fault", status=status, unanswered=self._lost.total())

    def tried_again(self, status: str = "") -> None:
        """Count a call that failed and is repeated; events of it come once a second at most."""
        self._again += 1
        if self._retried is None or self._clock() - self._retried >= 1:
            self._retried = self._clock()
            joblog.event("retry", status=status, repeated=self._again)

    def look(self, held: float = 0.0) -> None:
        """Note how far the run is, and say it now and then; meant to be called every ``step`` seconds."""
        joblog.progress(**self.counts(held))
        self._silent += self.step
        if self._silent >= self.every:
            self._silent = 0.0
            self.tell(held)

    def end(self) -> None:
        joblog.progress(**self.counts())
        if self._live and self._done:
            self.tell()
            print(file=sys.stderr, flush=True)

    def tell(self, held: float = 0.0) -> None:
        """Say how far the run is; ``held`` is for how long the gate keeps everyone waiting, seconds."""
        if joblog.structured():
            joblog.event("progress", **self.counts(held))
        else:
            self._say(self.line(held))

    def counts(self, held: float = 0.0) -> dict[str, Any]:
        """Return requests asked, answered and not, rate a second, money and seconds left; None is unknown."""
        rate, meter = self._rate(), self._meter
        priced = meter is not None and meter.price is not None
        return {
            "total": self._total,
            "asked": self._done,
            "answered": self._done - self._lost.total(),
            "unanswered": dict(sorted(self._lost.items())),
            "repeated": self._again,
            "rate": round(rate, 3),
            "left_s": round((self._total - self._done) / rate, 1) if rate and self._done < self._total else None,
            "spent_usd": round(meter.spent, 6) if meter is not None and priced else None,
            "budget_usd": meter.limit if meter is not None and priced else None,
            "held_s": round(held, 1) if held > 1 else None,
        }

    def _rate(self) -> float:
        """Return requests a second over the last minute."""
        now = self._clock()
        while len(self._marks) > 1 and now - self._marks[0][0] > _WINDOW:
            self._marks.popleft()
        if not self._marks:
            return 0.0
        then, before = self._marks[0]
        rate = (self._done - before) / (now - then) if now > then else 0.0
        if now - self._marks[-1][0] >= 1:
            self._marks.append((now, self._done))
        return rate

    def line(self, held: float = 0.0) -> str:
        """Return requests done, rate, faults, money and time left in words."""
        rate = self._rate()
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
