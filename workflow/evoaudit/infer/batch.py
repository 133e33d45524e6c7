"""Ask a model by its service's batches, at half the price and within a day: submit what fits, look now and then, collect, go on.

Whatever happens in between, nothing is submitted twice: what is about to be is in the ledger before, and what may have been is looked
for at the service. A batch in progress is always waited for, also by a run that asks the rest one request at a time.
"""

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, BinaryIO, Protocol, TypeVar

from evoaudit import joblog
from evoaudit.infer.base import PASSING, Halt, Outcome, Pause
from evoaudit.infer.batch_ledger import Batch, Ledger
from evoaudit.infer.batch_services import NO_RESULT, Refused, Result, Service, State, Unclear, lines
from evoaudit.infer.engine import Ask, Budget, Engine
from evoaudit.infer.journal import Journal
from evoaudit.infer.limits import MIB
from evoaudit.infer.progress import span
from evoaudit.infer.wire import LONGEST_REPLY, HTTPProvider

T = TypeVar("T")
#: A question's place, and whether it is asked with the doubled bound on output.
Item = tuple[int, bool]

#: Seconds between two looks at what is in progress, first and at most.
FIRST_LOOK, LONGEST_LOOK = 15.0, 600.0
#: Seconds after which a service lists every batch it has taken.
SETTLED = 60.0
#: Tries of one call to the service, and the first wait between two, seconds; it doubles.
TRIES, FIRST_WAIT = 6, 2.0
#: Downloads of results that are not all there.
FETCHES = 3
#: Hours that a run waits where its settings do not say.
WAIT_H = 24.0
#: Records that are written together.
_TOGETHER = 256
#: What a result is that belongs to no request of its batch.
_OTHER = "of no request of this batch"


class Book(Protocol):
    """What is asked, by place and by key."""

    def key_of(self, item: Item) -> str: ...

    def ask_of(self, item: Item) -> Ask: ...

    def item_of(self, key: str) -> Item | None: ...


class Batches:
    """One run over what has no answer yet. ``online`` asks requests one at a time instead of by further batches."""

    def __init__(
        self,
        book: Book,
        service: Service,
        providers: Mapping[bool, HTTPProvider],
        journal: Journal,
        ledger: Ledger,
        budget: Budget,
        *,
        retries: int,
        wait_s: float,
        say: Callable[[str], None],
        online: Callable[[list[Item]], Halt | None] | None = None,
    ) -> None:
        self._book, self._service, self._journal, self._ledger, self._budget = book, service, journal, ledger, budget
        #: Whether the bound on output is doubled → who is asked.
        self._providers = providers
        self._retries, self._wait_s, self._say, self._online = retries, wait_s, say, online
        self._left: list[Item] = []
        #: Key → results that were no answer and may be mended by another try.
        self._tries: Counter[str] = Counter()
        #: Tag → parameters its requests carry; those of a batch that an earlier run submitted are taken to be all.
        self._sent: dict[str, dict[bool, dict[str, Any]]] = {}
        self._all = self._parameters()
        #: Requests in one batch at most; fewer once the service took no more.
        self._most = service.REQUESTS
        #: Whether nothing more is submitted until the next look.
        self._full = False
        self._until, self._every, self._told = 0.0, FIRST_LOOK, ""
        #: What stops the run once the other results of a batch are taken, and why the service could not be asked of late.
        self._halt: Halt | None = None
        self._away: Pause | None = None

    def run(self, todo: Iterable[Item]) -> Halt | None:
        """Ask everything; return why it stopped early, if it did."""
        try:
            self._go(todo)
        except Halt as halt:
            return halt
        except KeyboardInterrupt:
            return Pause(self._standing(), "run again to collect")
        finally:
            with suppress(Exception):
                self._service.close()
        return None

    def _scratch(self) -> BinaryIO:
        """Return a file without a name, so that no kill leaves it behind: requests are large, and services echo keys."""
        return tempfile.TemporaryFile(dir=self._journal.path.parent)

    def _go(self, todo: Iterable[Item]) -> None:
        self._until = time.monotonic() + self._wait_s
        held = {key for batch in self._ledger.open.values() for key in batch.keys}
        self._left = [item for item in todo if self._book.key_of(item) not in held]
        while True:
            self._away = None
            try:
                self._collect()
            except Pause as away:
                self._away = away
                self._say(f"{away.what}; looking again in {span(self._every)}")
            if self._away is None:
                self._send()
            if not self._ledger.open and not self._left:
                joblog.progress(waits=None)
                return
            now = time.monotonic()
            if now >= self._until:
                raise self._away or Pause(self._standing(), "run again to collect")
            time.sleep(min(self._every, self._until - now))
            self._every, self._full = min(LONGEST_LOOK, self._every * 1.5), False

    def _standing(self) -> str:
        """Say what is in progress."""
        n, requests = len(self._ledger.open), sum(len(batch.keys) for batch in self._ledger.open.values())
        if not n:
            return f"{self._service.host} takes no more batches for now"
        words = "1 batch is" if n == 1 else f"{n} batches are"
        return f"{words} still in progress with {requests:,} requests"

    def _parameters(self) -> dict[bool, dict[str, Any]]:
        return {again: provider.sent for again, provider in self._providers.items()}

    def _call(self, about: str, ask: Callable[..., T], *more: Any) -> T:
        """Ask the service something that changes nothing, until it answers."""
        what = ""
        for attempt in range(TRIES):
            wait = FIRST_WAIT * 2**attempt
            try:
                return ask(*more)
            except Refused as refused:
                if refused.status in (404, 410):
                    mend = f"use the key it was submitted with, or remove {self._ledger.path} to ask and pay for its requests anew"
                    raise Halt(f"{self._service.host} does not know {about} (HTTP {refused.status})", mend) from None
                outcome = self._classed(refused)
                what = outcome.error or outcome.status
                if outcome.status not in PASSING:
                    break
                wait = wait if outcome.retry_after is None else outcome.retry_after
            except Unclear as unclear:
                what = str(unclear)
            time.sleep(min(60.0, wait))
        raise Pause(f"{self._service.host} could not be asked for {about} ({what})", "run again to collect")

    def _classed(self, refused: Refused) -> Outcome:
        """Class a call that was refused; raises `Halt` for a fault of the account."""
        return self._providers[False].outcome(refused.status, refused.headers, refused.reply, {}, False) or Outcome("http_error")

    def _resolve(self, batch: Batch) -> None:
        """Find out what became of a batch that may have been submitted; what was not is left to ask."""
        time.sleep(min(SETTLED, max(0.0, batch.at + SETTLED - time.time())))
        found = self._call("its batches", self._service.find, batch, self._ledger.ids)
        if found is None:
            self._ledger.end(batch, "never submitted")
            self._leave(batch)
        else:
            self._ledger.submitted(batch, *found)

    def _leave(self, batch: Batch) -> None:
        """Put a batch's requests back to what is left to ask."""
        self._left += filter(None, map(self._book.item_of, batch.keys))

    def _send(self) -> None:
        """Submit what is left and fits; or ask it one request at a time."""
        if self._online is not None:
            todo, self._left = self._left, []
            if todo and (halt := self._online(todo)):
                raise halt
            if todo:
                self._until = time.monotonic() + self._wait_s
            return
        while self._left and not self._full:
            with self._scratch() as file:
                keys, usd, taken = self._build(file)
                if keys and not self._submit(file, keys, usd):
                    continue
            if not taken:
                if self._ledger.open:  # what is set aside for those may come back
                    return
                spent = f"the next request might exceed the budget of ${self._budget.limit:g} (${self._budget.spent:.4f} spent)"
                raise Halt(spent, "raise inference.budget_usd")
            del self._left[:taken]

    def _build(self, out: BinaryIO) -> tuple[list[str], float, int]:
        """Write the next batch's file; return its keys, what they may cost, and how many of the items left it takes up."""
        service, budget = self._service, self._budget
        head, between, tail = service.FRAME
        room = float("inf") if budget.limit is None else budget.limit - budget.spent - self._ledger.promised
        share = budget.price.batch if budget.price else 1.0
        keys: dict[str, None] = {}
        usd, size, taken = 0.0, len(head) + len(tail), 0
        out.write(head)
        for item in self._left:
            if len(keys) == self._most:
                break
            ask = self._book.ask_of(item)
            # The very same request, asked for another item: its answer is for both.
            if ask.key in keys:
                taken += 1
                continue
            worst = share * budget.worst(ask.request, ask.again)
            if usd + worst > room:
                break
            pieces = service.wrap(ask.key, self._providers[ask.again].pieces(ask.request))
            length = sum(map(len, pieces)) + len(between)
            if size + length > service.BYTES:
                if keys:
                    break
                error = f"not sent: a request of {length / MIB:.1f} MiB; a batch takes {service.BYTES / MIB:.0f}"
                self._journal.extend([Engine.record(ask, Outcome("picture_limit", error=error), 0)])
                taken += 1
                continue
            if keys:
                out.write(between)
            out.writelines(pieces)
            keys[ask.key] = None
            usd, size, taken = usd + worst, size + length, taken + 1
        out.write(tail)
        return list(keys), usd, taken

    def _submit(self, file: BinaryIO, keys: list[str], usd: float) -> bool:
        """Submit a file of requests; tell whether they are, or may be, in progress now."""
        batch = self._ledger.intend(keys, usd)
        self._sent[batch.tag], self._every = self._parameters(), FIRST_LOOK
        try:
            self._ledger.submitted(batch, self._service.submit(file, batch.tag))
        except Refused as refused:
            if refused.status < 500 and refused.status not in (408, 409):
                self._ledger.end(batch, f"refused with HTTP {refused.status}")
                self._refused(refused, len(keys))
                return False
            self._doubt(str(refused))
        except Unclear as unclear:
            self._doubt(str(unclear))
        else:
            self._say(f"batch {batch.id} submitted: {len(keys):,} requests, {os.fstat(file.fileno()).st_size / MIB:.1f} MiB")
        return True

    def _doubt(self, what: str) -> None:
        """Submit nothing more until it is clear what became of the last batch."""
        self._full = True
        self._say(f"no word came back of a batch ({what}); it is looked for before it is submitted anew")

    def _refused(self, refused: Refused, n: int) -> None:
        """Learn from a batch that was not taken; raises `Halt` if no other will be."""
        outcome = self._classed(refused)
        if outcome.status == "rate_limited":
            self._crowded(n)
        elif refused.status == 413 and n > 1:
            self._most = n // 2
        else:
            raise Halt(f"{self._service.host} takes no batch ({outcome.error})", "mend the cause, or set the model's batch to false")

    def _crowded(self, n: int) -> None:
        """Submit nothing until the next look, and less at a time if nothing of this run is in progress."""
        self._full = True
        if not self._ledger.open:
            self._most = max(1, n // 2)

    def _collect(self) -> None:
        """Look at what is in progress and take what has ended."""
        done: list[int | None] = []
        for batch in list(self._ledger.open.values()):
            if batch.id is None:
                self._resolve(batch)
                if batch.id is None:
                    continue
            state = self._call(f"batch {batch.id}", self._service.look, batch.id)
            if state.ended:
                self._gather(batch, state)
                self._every = FIRST_LOOK
                if self._halt is not None:
                    raise self._halt
            else:
                done.append(state.done)
        if done:
            known = [one for one in done if one is not None]
            words = f"{self._standing()}" + (f", {sum(known):,} done" if known else "")
            spent = {"spent_usd": round(self._budget.spent, 6), "budget_usd": self._budget.limit} if self._budget.price is not None else {}
            joblog.progress(waits=words, **spent)
            if words != self._told:
                self._say(f"{words}; looking again in {span(self._every)}")
            self._told = words

    def _gather(self, batch: Batch, state: State) -> None:
        """Write down the results of a batch that has ended."""
        status, error = state.missing or NO_RESULT
        missing = Outcome(status, error=error)
        if state.failed is not None and not state.results:
            codes = self._providers[False].error(state.failed)[0]
            self._ledger.end(batch, "failed")
            if codes & self._service.FULL:
                self._leave(batch)
                self._crowded(len(batch.keys))
                return
            why = (self._classed(Refused(400, {}, state.failed)).error or "").removeprefix("HTTP 400: ")
            if codes:  # its file was refused, and the next one would be
                raise Halt(f"{self._service.host} failed a batch ({why})", "mend the cause, or set the model's batch to false")
            missing = Outcome("server", error=f"the batch failed: {why}")
        taking = _Taking(self, batch, missing)
        for attempt in range(FETCHES):
            with self._scratch() as file:
                self._fetch(batch, state, file)
                for line in lines(file, LONGEST_REPLY):
                    taking.line(None if line is None else self._service.result(line), attempt == 0)
            if not batch.sure and taking.of_others:
                self._ledger.confused(batch)
                self._resolve(batch)
                return
            if not taking.remaining or not state.results or state.missing:
                break
        taking.end()
        if batch.tag in self._ledger.open:
            self._ledger.end(batch, "ended")
        self._sent.pop(batch.tag, None)
        self._most = min(self._service.REQUESTS, 2 * self._most)

    def _fetch(self, batch: Batch, state: State, out: BinaryIO) -> None:
        """Download all results; a download that breaks off is begun anew."""
        for result in state.results:
            start = out.tell()

            def fetch(result: str = result, start: int = start) -> None:
                out.seek(start)
                out.truncate()
                self._service.fetch(result, out)

            self._call(f"the results of batch {batch.id}", fetch)
        out.seek(0)


class _Taking:
    """The results of one batch, as they are taken into the journal."""

    def __init__(self, run: Batches, batch: Batch, missing: Outcome) -> None:
        self._run, self._batch, self._missing = run, batch, missing
        self._keys = frozenset(batch.keys)
        self.remaining = dict.fromkeys(batch.keys)
        self._sent = run._sent.get(batch.tag, run._all)
        self._records: list[dict[str, Any]] = []
        self._odd: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()

    @property
    def of_others(self) -> bool:
        """Tell whether there are results, and none is of this batch."""
        return len(self.remaining) == len(self._keys) and self._odd[_OTHER] > 0

    def line(self, result: Result | None, first: bool) -> None:
        """Take one line of a file of results; ``first`` if the file is read for the first time."""
        if result is not None and result.key in self.remaining:
            del self.remaining[result.key]
            self._take(result.key, result)
        elif first:
            self._odd["unreadable" if result is None else "given twice" if result.key in self._keys else _OTHER] += 1

    def end(self) -> None:
        """Take what has no result as missing, and write everything down."""
        for key in self.remaining:
            self._take(key, Result(key, lost=self._missing))
        self._write()
        words = ", ".join(f"{status} {n:,}" for status, n in sorted(self._ended.items()))
        odd = "".join(f"; {n:,} results {kind} are left out" for kind, n in sorted(self._odd.items()))
        budget = self._run._budget
        spent = f"; ${budget.spent:.2f} spent" if budget.price is not None else ""
        spent += f" of ${budget.limit:.2f}" if spent and budget.limit is not None else ""
        self._run._say(f"batch {self._batch.id} collected: {words or 'nothing new'}{spent}{odd}")

    def _take(self, key: str, result: Result) -> None:
        run = self._run
        item = run._book.item_of(key)
        if item is None:
            return
        for call in run._journal.calls(key):
            if call.get("batch") == self._batch.tag:  # a run that was killed while it collected had come this far
                if call.get("passing"):
                    run._left.append(item)
                return
        ask = run._book.ask_of(item)
        outcome = self._outcome(ask, result)
        if outcome is None:
            run._left.append(item)
            return
        tries = run._tries.pop(key, 0) + 1
        record = {**Engine.record(ask, outcome, tries), "batch": self._batch.tag}
        if outcome.status in PASSING and tries <= run._retries:
            run._tries[key] = tries
            run._left.append(item)
            if outcome.input_tokens is not None:
                self._records.append({**record, "passing": True})
        else:
            self._records.append(record)
            if outcome.status == "truncated" and not ask.again:
                run._left.append((item[0], True))
        self._ended[outcome.status] += 1
        if run._budget.price is not None:
            run._budget.spent += run._budget.price.usd(record) or 0.0
        if len(self._records) >= _TOGETHER:
            self._write()

    def _outcome(self, ask: Ask, result: Result) -> Outcome | None:
        """Class one result; None if its request is to be made again, with other parameters or by the next run."""
        if result.lost is not None:
            return result.lost
        if result.reply is None:
            return Outcome("server", error="the result holds no reply")
        provider = self._run._providers[ask.again]
        try:
            return provider.outcome(result.status, {}, result.reply, self._sent[ask.again], bool(ask.request.images()))
        except Halt as halt:
            self._run._halt = self._run._halt or halt
            return None

    def _write(self) -> None:
        if self._records:
            self._run._journal.extend(self._records)
            self._records = []
