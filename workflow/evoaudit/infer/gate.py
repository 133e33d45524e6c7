"""The gate to one account: how fast requests may be sent, learnt from what the service refuses, shared by all jobs of a machine.

All that is shared are times and rates in a small file under a file lock. There is nothing to give back, so a job that is killed
takes nothing with it; the kernel drops its lock. Without such a file (no folder to put it in) a job keeps its own.
"""

import fcntl
import hashlib
import math
import os
import stat
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

#: Longest a service may shut the gate, seconds, whatever it asks for.
LONGEST_WAIT = 120.0
#: A refusal for longer than this shuts the gate for everyone; a shorter one slows everyone down, and only the refused request waits.
SHORT = 2.0
#: What is unused for so long is forgotten, seconds.
FORGET = 120.0
#: The first refusal sets the pace to what was accepted in the last second, or to this, doubling in so many seconds.
_FIRST_LEAST, _DOUBLING = 1.0, 0.5
#: A later one cuts it to this share of what the service can take, back after `_CLIMB` seconds, and growing by a share a second then.
_CUT, _CLIMB, _GROWTH = 0.92, 2.0, 0.05
#: Places left out after a cut, so that the service has something to give.
_BREATH = 2.0
#: Paces, requests a second: none is lower, and one above the other is no bound.
_SLOWEST, _FASTEST = 0.1, 2000.0
_BINS, _WIDTH = 8, 0.125

_FIELDS = ("touched", "base", "calm", "cut", "next", "shut", "since", "burst")
_LOCK_TRIES = 200


def account(base_url: str | None, provider: str, key_name: str | None) -> str:
    """Name an account: the host and port asked, and the name of the variable that holds its key."""
    place = urlsplit(base_url).netloc.rpartition("@")[2] if base_url else provider
    return f"{place}|{key_name or ''}"


class Shared:
    """A few numbers in a file under a lock; numbers that make no sense are forgotten. Without a name they are this object's own."""

    def __init__(self, name: str | None, size: int) -> None:
        self._layout = struct.Struct(f"<{size}d32s")
        self._own: tuple[float, ...] | None = None
        self._size = size
        self._file = _open(name) if name else None

    @contextmanager
    def held(self) -> Iterator[list[float]]:
        """Yield the numbers to be changed in place; nobody else sees or changes them meanwhile."""
        locked = self._file is not None and _lock(self._file)
        numbers = self._read() if locked else list(self._own or [0.0] * self._size)
        try:
            yield numbers
            if locked:
                body = self._layout.pack(*numbers, b"")[:-32]
                os.pwrite(self._file, body + hashlib.sha256(body).digest(), 0)
            else:
                self._own = tuple(numbers)
        finally:
            if locked:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _read(self) -> list[float]:
        raw = os.pread(self._file, self._layout.size, 0)
        if len(raw) == self._layout.size and hashlib.sha256(raw[:-32]).digest() == raw[-32:]:
            numbers = list(self._layout.unpack(raw)[:-1])
            if all(math.isfinite(number) for number in numbers):
                return numbers
        return [0.0] * self._size

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def folder() -> Path:
    """Return where the files of this user's gates are, on this machine alone."""
    return Path(tempfile.gettempdir()) / f"evoaudit-{os.getuid()}"


def _open(name: str) -> int | None:
    """Open the file of one gate; None where there is no folder of this user's own to put it in."""
    place = folder()
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        found = os.lstat(place)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            return None
        path = place / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.gate"
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


def _lock(file: int) -> bool:
    """Take the lock; False if a stopped process sits on it."""
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.0005)
        except OSError:
            return False
    return False


class Pace:
    """When the next request of an account may be sent.

    At first nothing bounds it. The first refusal sets a pace, low and doubling; each later one cuts it to a little less than what was
    accepted, from where it creeps up again. A service that asks for a long wait, or refuses what is sent at the lowered pace too,
    gets it from every job.
    """

    def __init__(self, name: str | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._shared, self._clock = Shared(name and f"pace|{name}", len(_FIELDS) + 2 * _BINS), clock

    def admit(self) -> tuple[float, float]:
        """Return the time it is, and how many seconds to wait before asking again: 0 if a request may be sent now, and is counted."""
        with self._shared.held() as numbers:
            now, state = self._state(numbers)
            pace = _pace(state, now)
            wait = max(0.0, state["shut"] - now, state["next"] - now if pace else 0.0)
            if not wait:
                _count(numbers, now, 1)
                state["since"] += 1
                if pace:
                    state["next"] = max(state["next"], now - 1 / pace) + 1 / pace
            _store(numbers, state)
        return now, wait

    def refused(self, sent: float, wait: float) -> bool:
        """Learn that the service refused a request, and for how long, seconds; True if it was news."""
        wait = min(wait, LONGEST_WAIT)
        with self._shared.held() as numbers:
            now, state = self._state(numbers)
            _count(numbers, sent, -1)
            news = sent >= state["cut"]
            if news:
                if not state["base"]:
                    state["burst"] = _accepted(numbers, now, _BINS)
                    state["base"] = max(_FIRST_LEAST, state["burst"])
                elif state["since"] <= 1:
                    state["base"], state["shut"] = max(_SLOWEST, state["base"] / 2), max(state["shut"], now + wait)
                else:
                    pace = _pace(state, now)
                    known = _CUT * pace if state["calm"] else _capacity(numbers, now, state["burst"])
                    state["base"], state["calm"] = _CUT * min(known, pace or known), min(known, pace or known)
                state["cut"], state["since"], state["next"] = now, 0.0, now + _BREATH / state["base"]
            elif not state["calm"] and state["burst"] > 1:
                state["burst"] -= 1
                state["base"] = max(_FIRST_LEAST, state["burst"])
            if wait > SHORT:
                state["shut"] = max(state["shut"], now + wait)
            _store(numbers, state)
        return news

    def close(self) -> None:
        self._shared.close()

    def _state(self, numbers: list[float]) -> tuple[float, dict[str, float]]:
        now = self._clock()
        state = dict(zip(_FIELDS, numbers, strict=False))
        # Times of an earlier boot, or of long ago, say nothing.
        if not now - FORGET <= state["touched"] <= now + 1 or state["shut"] > now + LONGEST_WAIT:
            numbers[:] = [0.0] * len(numbers)
            state = dict.fromkeys(_FIELDS, 0.0)
        state["touched"] = max(now, state["touched"])
        return now, state


def _pace(state: dict[str, float], now: float) -> float:
    """Return requests a second, 0 for no bound."""
    base, calm, since = state["base"], state["calm"], max(0.0, now - state["cut"])
    if not base:
        return 0.0
    if not calm:
        pace = base * 2 ** min(since / _DOUBLING, 40)
    elif since < _CLIMB:
        pace = base + max(0.0, calm - base) * since / _CLIMB
    else:
        pace = max(base, calm) * (1 + _GROWTH) ** min(since - _CLIMB, 1000)
    return pace if pace < _FASTEST else 0.0


def _count(numbers: list[float], at: float, more: int) -> None:
    tick = math.floor(at / _WIDTH)
    place = len(_FIELDS) + 2 * (tick % _BINS)
    if more > 0 and numbers[place] != tick:
        numbers[place], numbers[place + 1] = tick, 0.0
    if numbers[place] == tick:
        numbers[place + 1] += more


def _accepted(numbers: list[float], now: float, ticks: int) -> float:
    """Return how many of the requests sent in the last ticks were not refused."""
    tick = math.floor(now / _WIDTH)
    bins = (numbers[place : place + 2] for place in range(len(_FIELDS), len(numbers), 2))
    return sum(number for when, number in bins if tick - ticks < when <= tick)


def _capacity(numbers: list[float], now: float, burst: float) -> float:
    """Return what a bucket that holds ``burst`` and has just run dry is filled with, a second.

    Over any stretch before that it gave out at most its hold and what came in, and just so much if it was full at the start.
    """
    best = 0.0
    for ticks in range(3, _BINS + 1):
        taken, seconds = _accepted(numbers, now, ticks), (ticks - 1) * _WIDTH + now % _WIDTH
        best = max(best, (taken - burst) / seconds, taken / seconds / 2)
    return max(_SLOWEST, best)


def _store(numbers: list[float], state: dict[str, float]) -> None:
    numbers[: len(_FIELDS)] = [state[name] for name in _FIELDS]


class Allowance:
    """Requests and tokens a minute that a model is granted, shared by all jobs that ask it; a minute never holds more.

    Only tokens may run over, by less than one request's. A bucket each: a twelfth of the allowance may be taken at once, the rest is
    paid out over the minute.
    """

    def __init__(self, name: str | None, rpm: int | None, tpm: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets = [_bucket(limit) if limit else None for limit in (rpm, tpm)]
        self._shared = Shared(name and f"allowance|{name}", 3) if rpm or tpm else None
        self.counts_tokens = tpm is not None

    def admit(self, tokens: float = 0.0) -> float:
        """Return 0 if a request of about so many tokens may be sent now, and count it; else the seconds to wait before asking again."""
        if self._shared is None:
            return 0.0
        with self._shared.held() as numbers:
            now = self._now(numbers)
            # A bucket is full at the time kept; what is taken moves that time on. More than it holds is let through when it is full.
            wait, full = 0.0, [max(kept, now) for kept in numbers[:2]]
            for place, (bucket, amount) in enumerate(zip(self._buckets, (1.0, tokens), strict=True)):
                if bucket is not None:
                    rate, depth = bucket
                    wait = max(wait, full[place] - now - max(0.0, depth - amount) / rate)
                    full[place] += amount / rate
            if not wait:
                numbers[:2] = full
        return wait

    def correct(self, tokens: float) -> None:
        """Take the difference to the tokens that were estimated, or give it back."""
        if self._shared is None or not self.counts_tokens or not tokens:
            return
        with self._shared.held() as numbers:
            self._now(numbers)
            numbers[1] += tokens / self._buckets[1][0]

    def close(self) -> None:
        if self._shared is not None:
            self._shared.close()

    def _now(self, numbers: list[float]) -> float:
        now = self._clock()
        # Times of an earlier boot say nothing.
        if numbers[2] > now + 1:
            numbers[:] = [0.0] * len(numbers)
        numbers[2] = now
        return now


def _bucket(limit: int) -> tuple[float, float]:
    """Return the rate a second and the depth that together stay within ``limit`` in any minute."""
    depth = max(1.0, limit / 12)
    # One at a time, evenly: no minute holds more than its number of gaps, each a hair wider than it has to be.
    return 0.999 * limit / 60 if depth == 1 else (limit - depth) / 60, depth
