"""Ask many requests at once, losing none: one gate, one retry layer, deadlines, a budget, a journal."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from evoaudit import streams
from evoaudit.errors import one_line
from evoaudit.infer.base import OK, PASSING, TOKENS, Attachments, Halt, Outcome, Provider, Request
from evoaudit.infer.gate import LONGEST_WAIT, Allowance, Pace
from evoaudit.infer.journal import Journal
from evoaudit.infer.prices import Price
from evoaudit.infer.progress import Progress
from evoaudit.prompts import Text

#: First back-off, seconds; doubles with each try.
FIRST_WAIT = 0.5
#: Requests in a row that fail after all their tries before a service counts as down.
GIVE_UP = 20
#: Requests in flight at first. Once so many were answered, as many more may be as were answered: of a service that takes fewer at once,
#: or fewer a second, the refusals come first, and are few.
_START = 8
#: Seconds between looks at whether the gate is open, at most: another job may have opened it.
_LOOK = 5.0


@dataclass(frozen=True)
class Limits:
    """Bounds on one run. ``timeout_s`` is the deadline of one attempt, ``deadline_s`` of a request with all its tries.

    ``retries`` are the tries after the first; those that are refused as too many while others are answered do not count.
    """

    concurrency: int = 8
    timeout_s: float = 120.0
    retries: int = 6
    budget_usd: float | None = None
    max_output_tokens: int = 1024
    deadline_s: float = 1800.0


class Ask(NamedTuple):
    """A request and its key; ``again`` if it is asked with the doubled bound on output, since the first answer hit it."""

    key: str
    request: Request
    again: bool = False


class Gate:
    """Bound the requests in flight and their pace: slow start for this job, what the account and the model allow for all jobs."""

    def __init__(self, ceiling: int, halted: asyncio.Event, pace: Pace, allowance: Allowance) -> None:
        self._ceiling, self._halted = ceiling, halted
        self._pace, self._allowance = pace, allowance
        self._limit, self._busy, self._answered = min(ceiling, _START), 0, 0
        self._freed, self._turn = asyncio.Condition(), asyncio.Lock()
        #: Until when the gate keeps everyone waiting, on the clock of `time.monotonic`.
        self.until = 0.0

    async def enter(self, tokens: float = 0.0) -> float | None:
        """Wait for a place and return when it was given; None if the run was halted meanwhile."""
        async with self._freed:
            while self._busy >= self._limit and not self._halted.is_set():
                await self._freed.wait()
            self._busy += 1
        try:
            async with self._turn:
                while not self._halted.is_set() and (wait := self._allowance.admit(tokens)):
                    await self._wait(wait)
                while not self._halted.is_set():
                    now, wait = self._pace.admit()
                    if not wait:
                        return now
                    await self._wait(wait)
        except BaseException:
            await self.leave(None)
            raise
        await self.leave(None)
        return None

    async def _wait(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds
        await rest(min(seconds, _LOOK), self._halted)

    async def leave(self, status: str | None) -> None:
        """Give the place back; what a service takes, whatever it answers, lets more in."""
        async with self._freed:
            self._busy -= 1
            before, self._answered = self._limit, self._answered + (status is not None and status not in PASSING)
            if self._answered >= _START:
                self._limit = min(self._ceiling, _START + self._answered)
            self._freed.notify(1 + self._limit - before)

    def refused(self, sent: float, wait: float) -> None:
        """Learn that the service takes no more for now."""
        self._pace.refused(sent, wait)

    async def wake(self) -> None:
        """Let those who wait see that the run was halted."""
        async with self._freed:
            self._freed.notify_all()

    def close(self) -> None:
        self._pace.close()
        self._allowance.close()


async def rest(seconds: float, halted: asyncio.Event) -> None:
    """Sleep, unless the run is halted first."""
    with suppress(TimeoutError):
        await asyncio.wait_for(halted.wait(), seconds)


class Budget:
    """Money spent and promised. A request is let through only if its worst case still fits."""

    def __init__(self, limit: float | None, price: Price | None, spent: float, attachments: Attachments, max_output_tokens: int) -> None:
        self.limit, self.price, self.spent = limit, price, spent
        self._attachments, self._output = attachments, max_output_tokens
        self._promised = 0.0
        self._settled = asyncio.Condition()

    def worst(self, request: Request, again: bool = False) -> float:
        """Return an upper estimate of a request's price: half a token a byte of text, one a 14-pixel patch of picture (but
        1,200 at least, for services that charge every picture alike), all output used.

        ``again`` says that it is asked with the doubled bound on output.
        """
        tokens = 64.0
        for message in request.messages:
            for part in message.parts:
                if isinstance(part, Text):
                    tokens += len(part.text.encode("utf-8", "replace")) / 2
                else:
                    width, height = self._attachments.size(part)
                    tokens += max(1200, 64 + (width / 14 + 1) * (height / 14 + 1))
        return self.price.usd({"input_tokens": tokens, "output_tokens": self._output * (1 + again)}) if self.price else 0.0

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
    """One run over the requests that are not in the journal yet. ``halt`` says why it stopped early, if it did.

    ``again`` gives the provider with the doubled bound on output, and ``rekey`` a request's key there; without them an answer that
    hits the bound is left as it is. ``tokens`` estimates a request's tokens, for the allowance a minute.
    """

    def __init__(
        self,
        provider: Provider,
        journal: Journal,
        limits: Limits,
        budget: Budget,
        *,
        seed: int = 0,
        pace: Pace | None = None,
        allowance: Allowance | None = None,
        progress: Progress | None = None,
        again: Callable[[], Provider] | None = None,
        rekey: Callable[[Request], str] | None = None,
        tokens: Callable[[Request], float] = lambda request: 0.0,
    ) -> None:
        self._provider, self._journal, self._limits, self._budget = provider, journal, limits, budget
        self._seed, self._again, self._rekey, self._tokens = seed, again, rekey, tokens
        self._doubled: Provider | None = None
        self._halted = asyncio.Event()
        self._allowance = allowance or Allowance(None, None, None)
        self._gate = Gate(limits.concurrency, self._halted, pace or Pace(), self._allowance)
        self._progress = progress or Progress(lambda line: None)
        self._row = self._answered = 0
        self.halt: Halt | None = None

    async def run(self, todo: Iterable[Ask | tuple[str, Request]], total: int | None = None) -> None:
        """Ask every request; each outcome is in the journal before its place is given to the next.

        ``todo`` is taken from as places become free, so it need not be held in memory; ``total`` is its length then.
        """
        if total is None:
            todo = list(todo)
            total = len(todo)
        pending: Iterator[Ask] = (Ask(*one) for one in todo)
        self._progress.begin(total, self._budget)
        workers = [asyncio.create_task(self._work(pending)) for _ in range(min(self._limits.concurrency, total))]
        teller = asyncio.create_task(self._tell())
        try:
            await asyncio.gather(*workers)
        finally:
            for task in (*workers, teller):
                task.cancel()
            await asyncio.gather(*workers, teller, return_exceptions=True)
            self._progress.end()
            self._gate.close()
            await self._provider.close()
            if self._doubled is not None:
                await self._doubled.close()

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(self._progress.step)
            self._progress.look(self._gate.until - time.monotonic())

    async def _work(self, pending: Iterator[Ask]) -> None:
        for ask in pending:
            outcome = await self._settle(ask)
            if outcome is not None and outcome.status == "truncated" and not ask.again and self._rekey is not None:
                outcome = await self._settle(Ask(self._rekey(ask.request), ask.request, True))
            if outcome is None:
                return
            self._progress.done(outcome.status)
            await self._learn(outcome)

    async def _settle(self, ask: Ask) -> Outcome | None:
        """Ask within the budget and write down how it ended; None if the run was halted."""
        worst = self._budget.worst(ask.request, ask.again) if self._budget.limit is not None else 0.0
        if not await self._budget.promise(worst):
            await self._stop(
                Halt(
                    f"the next request might exceed the budget of ${self._budget.limit:g} (${self._budget.spent:.4f} spent)",
                    "raise inference.budget_usd",
                )
            )
        paid = 0.0
        try:
            outcome = None if self._halted.is_set() else await self._ask(ask)
            if outcome is not None:
                paid = self._cost(outcome)
        finally:
            await self._budget.settle(worst, paid)
        return outcome

    def _cost(self, outcome: Outcome) -> float:
        price = self._budget.price
        return (price.usd({name: getattr(outcome, name) for name in TOKENS}) or 0.0) if price else 0.0

    async def _ask(self, ask: Ask) -> Outcome | None:
        """Return how a request ended after all its tries, once that is on disk; None if the run was halted."""
        start, tries, seen = None, 0, -1
        for attempt in count():
            tokens = self._tokens(ask.request) if self._allowance.counts_tokens else 0.0
            sent = await self._gate.enter(tokens)
            if sent is None:
                return None
            start = sent if start is None else start
            left = start + self._limits.deadline_s - time.monotonic()
            outcome = None
            try:
                outcome = await self._attempt(ask, min(self._limits.timeout_s, max(0.001, left)))
            except Halt as halt:
                await self._stop(halt)
                return None
            finally:
                await self._gate.leave(outcome.status if outcome else None)
            if outcome.input_tokens is not None and outcome.output_tokens is not None:
                self._allowance.correct(outcome.input_tokens + outcome.output_tokens - tokens)
            if outcome.status == OK:
                self._answered += 1
            if outcome.status not in PASSING:
                break
            # Jitter keeps clients apart; drawn by request, so that a run can be repeated.
            jitter = streams.rank(self._seed, "retry", ask.key, attempt) / 2**63
            wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(attempt, 20)) * (0.5 + jitter / 2)
            if outcome.retry_after is not None:
                wait = min(LONGEST_WAIT, outcome.retry_after)
            if outcome.status == "rate_limited":
                self._gate.refused(sent, wait)
            # A refusal counts only if nobody else was answered since the last one.
            if outcome.status != "rate_limited" or seen in (-1, self._answered):
                tries += 1
            seen = self._answered
            if tries > self._limits.retries or time.monotonic() + wait - start >= self._limits.deadline_s:
                break
            self._progress.tried_again(outcome.status)
            if outcome.input_tokens is not None:
                await self._journal.append({**self.record(ask, outcome, attempt + 1), "passing": True})
                self._budget.spent += self._cost(outcome)
            await rest(wait, self._halted)
        await self._journal.append(self.record(ask, outcome, attempt + 1))
        return outcome

    async def _attempt(self, ask: Ask, timeout_s: float) -> Outcome:
        provider = self._provider
        if ask.again and self._again is not None:
            provider = self._doubled = self._doubled or self._again()
        start = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                outcome = await provider.ask(ask.request)
        except TimeoutError:
            outcome = Outcome("timeout", error=f"no answer within {timeout_s:.6g} s")
        outcome.latency_s = round(time.monotonic() - start, 4)
        return outcome

    @staticmethod
    def record(ask: Ask, outcome: Outcome, calls: int) -> dict:
        """Return a call as the journal keeps it."""
        request = ask.request
        record = {"key": ask.key, "task": request.task, "instance_id": request.instance_id, "run": request.run, "calls": calls}
        if ask.again:
            record["again"] = True
        for name in ("status", "raw", "finish_reason", *TOKENS, "served", "latency_s"):
            if (value := getattr(outcome, name)) is not None:
                record[name] = value
        if outcome.error is not None:
            record["error"] = one_line(outcome.error, 300)
        return record

    async def _learn(self, outcome: Outcome) -> None:
        """Stop when the service is plainly down."""
        self._row = self._row + 1 if outcome.status in PASSING else 0
        if self._row >= GIVE_UP:
            await self._stop(
                Halt(
                    f"{self._row} requests in a row failed after all their tries ({outcome.status}: {outcome.error})",
                    "check base_url and that the endpoint is up",
                )
            )

    async def _stop(self, halt: Halt) -> None:
        if self.halt is None:
            self.halt = halt
        self._halted.set()
        await self._gate.wake()
