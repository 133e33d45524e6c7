"""Ask many requests at once, losing none: slow start, one retry layer, a deadline each, a budget, a journal."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import count

from evoaudit import streams
from evoaudit.errors import one_line
from evoaudit.infer.base import OK, PASSING, Attachments, Halt, Outcome, Provider, Request
from evoaudit.infer.journal import Journal
from evoaudit.infer.prices import Price
from evoaudit.prompts import Text

#: Longest wait before another try, seconds, whatever the service asks for.
LONGEST_WAIT = 120.0
#: First back-off, seconds; doubles with each try.
FIRST_WAIT = 0.5
#: Requests in a row that fail after all their tries before a service counts as down.
GIVE_UP = 20
#: Seconds between progress lines.
EVERY = 30.0


@dataclass(frozen=True)
class Limits:
    """Bounds on one run. ``timeout_s`` is the deadline of one attempt, ``retries`` the tries after the first."""

    concurrency: int = 8
    timeout_s: float = 120.0
    retries: int = 6
    budget_usd: float | None = None
    max_output_tokens: int = 1024


class Gate:
    """Bound the requests in flight: double while all goes well, halve on a rate limit, hold everyone for Retry-After."""

    def __init__(self, ceiling: int, halted: asyncio.Event) -> None:
        self._ceiling, self._halted = ceiling, halted
        self._limit = float(min(ceiling, 4))
        self._calm = float(ceiling)
        self._busy, self._until = 0, 0.0
        self._freed = asyncio.Condition()

    async def enter(self) -> bool:
        """Wait for a place; False if the run was halted meanwhile."""
        while not self._halted.is_set():
            wait = self._until - time.monotonic()
            if wait > 0:
                await rest(wait, self._halted)
                continue
            async with self._freed:
                if self._busy < int(self._limit):
                    self._busy += 1
                    return True
                await self._freed.wait()
        return False

    async def leave(self, status: str | None) -> None:
        """Give the place back and learn from how the request ended."""
        async with self._freed:
            self._busy -= 1
            if status == OK:
                self._limit = min(self._ceiling, self._limit + (1 if self._limit < self._calm else 1 / self._limit))
            self._freed.notify_all()

    def hold(self, seconds: float) -> None:
        """Let nobody in for a while; the first complaint of a burst halves the limit."""
        now = time.monotonic()
        if now >= self._until:
            self._calm = self._limit = max(1.0, self._limit / 2)
        self._until = max(self._until, now + seconds)

    async def wake(self) -> None:
        """Let those who wait see that the run was halted."""
        async with self._freed:
            self._freed.notify_all()


async def rest(seconds: float, halted: asyncio.Event) -> None:
    """Sleep, unless the run is halted first."""
    try:
        await asyncio.wait_for(halted.wait(), seconds)
    except TimeoutError:
        return


class Budget:
    """Money spent and promised. A request is let through only if its worst case still fits."""

    def __init__(self, limit: float | None, price: Price | None, spent: float, attachments: Attachments, max_output_tokens: int) -> None:
        self.limit, self.price, self.spent = limit, price, spent
        self._attachments, self._output = attachments, max_output_tokens
        self._promised = 0.0
        self._settled = asyncio.Condition()

    def worst(self, request: Request) -> float:
        """Return an upper estimate of a request's price: half a token a byte of text, one a 14-pixel patch of picture, all output used."""
        tokens = 64.0
        for message in request.messages:
            for part in message.parts:
                if isinstance(part, Text):
                    tokens += len(part.text.encode("utf-8", "replace")) / 2
                else:
                    width, height = self._attachments.size(part)
                    tokens += 64 + (width / 14 + 1) * (height / 14 + 1)
        return self.price.usd({"input_tokens": tokens, "output_tokens": self._output}) if self.price else 0.0

    async def promise(self, amount: float) -> bool:
        """Set ``amount`` aside, waiting for requests in flight if need be; False if it can no longer fit."""
        async with self._settled:
            while self.limit is not None and self.spent + self._promised + amount > self.limit:
                if self._promised == 0:
                    return False
                await self._settled.wait()
            self._promised += amount
            return True

    async def settle(self, amount: float, paid: float) -> None:
        """Replace what was set aside by what was paid."""
        async with self._settled:
            self._promised -= amount
            if self._promised < 1e-12:
                self._promised = 0.0
            self.spent += paid
            self._settled.notify_all()


class Engine:
    """One run over the requests that are not in the journal yet. ``halt`` says why it stopped early, if it did."""

    def __init__(
        self,
        provider: Provider,
        journal: Journal,
        limits: Limits,
        budget: Budget,
        *,
        seed: int = 0,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._provider, self._journal, self._limits, self._budget = provider, journal, limits, budget
        self._seed, self._say = seed, say
        self._halted = asyncio.Event()
        self._gate = Gate(limits.concurrency, self._halted)
        self._answered = self._failed = self._row = 0
        self._total, self._told = 0, time.monotonic()
        self.halt: Halt | None = None

    async def run(self, todo: list[tuple[str, Request]]) -> None:
        """Ask every (request key, request); each outcome is in the journal before its place is given to the next."""
        self._total = len(todo)
        pending: Iterator[tuple[str, Request]] = iter(todo)
        workers = [asyncio.create_task(self._work(pending)) for _ in range(min(self._limits.concurrency, len(todo)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            await self._provider.close()

    async def _work(self, pending: Iterable[tuple[str, Request]]) -> None:
        for key, request in pending:
            worst = self._budget.worst(request) if self._budget.limit is not None else 0.0
            if not await self._budget.promise(worst):
                await self._stop(
                    Halt(
                        f"the next request might exceed the budget of ${self._budget.limit:g} (${self._budget.spent:.4f} spent)",
                        "raise inference.budget_usd",
                    )
                )
            outcome = None if self._halted.is_set() else await self._ask(key, request)
            paid = self._budget.price.usd(asdict(outcome)) if outcome and self._budget.price else None
            if outcome is not None:
                await self._journal.append(self._record(key, request, outcome))
            await self._budget.settle(worst, paid or 0.0)
            if outcome is None:
                return
            await self._learn(outcome)

    async def _ask(self, key: str, request: Request) -> Outcome | None:
        """Return how a request ended after all its tries, or None if the run was halted."""
        for attempt in count():
            if not await self._gate.enter():
                return None
            outcome = None
            try:
                outcome = await self._attempt(request)
            except Halt as halt:
                await self._stop(halt)
                return None
            finally:
                await self._gate.leave(outcome.status if outcome else None)
            if outcome.status not in PASSING or attempt >= self._limits.retries:
                return outcome
            # Jitter keeps clients apart; drawn by request, so that a run can be repeated.
            jitter = streams.rank(self._seed, "retry", key, attempt) / 2**63
            wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(attempt, 20)) * (0.5 + jitter / 2)
            if outcome.retry_after is not None:
                wait = min(LONGEST_WAIT, outcome.retry_after)
            if outcome.status == "rate_limited":
                self._gate.hold(wait)
            else:
                await rest(wait, self._halted)
        return None

    async def _attempt(self, request: Request) -> Outcome:
        start = time.monotonic()
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                outcome = await self._provider.ask(request)
        except TimeoutError:
            outcome = Outcome("timeout", error=f"no answer within {self._limits.timeout_s:g} s")
        outcome.latency_s = round(time.monotonic() - start, 4)
        return outcome

    def _record(self, key: str, request: Request, outcome: Outcome) -> dict:
        fields = {name: value for name, value in asdict(outcome).items() if value is not None and name != "retry_after"}
        if "error" in fields:
            fields["error"] = one_line(fields["error"], 300)
        return {"key": key, "task": request.task, "instance_id": request.instance_id, "run": request.run, **fields}

    async def _learn(self, outcome: Outcome) -> None:
        """Count, report now and then, and stop when the service is plainly down."""
        if outcome.status == OK:
            self._answered, self._row = self._answered + 1, 0
        else:
            self._failed += 1
            self._row = self._row + 1 if outcome.status in PASSING else 0
        if self._row >= GIVE_UP:
            await self._stop(
                Halt(
                    f"{self._row} requests in a row failed after all their tries ({outcome.status}: {outcome.error})",
                    "check base_url and that the endpoint is up",
                )
            )
        if time.monotonic() - self._told >= EVERY:
            self._told = time.monotonic()
            done = self._answered + self._failed
            self._say(
                f"{done} of {self._total} asked, {self._failed} without an answer, ${self._budget.spent:.2f} spent"
                if self._budget.price
                else f"{done} of {self._total} asked, {self._failed} without an answer"
            )

    async def _stop(self, halt: Halt) -> None:
        if self.halt is None:
            self.halt = halt
        self._halted.set()
        await self._gate.wake()
