"""From probes to prediction rows for one model under one condition: one row an instance and replicate, whatever happened."""

import asyncio
import heapq
import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from evoaudit import conditions, extras, prompts, store
from evoaudit.conditions import CONDITIONS, TASKS
from evoaudit.errors import InputError
from evoaudit.infer import gate, providers, simulated
from evoaudit.infer import limits as picture_limits
from evoaudit.infer.base import (
    OK,
    TOKENS,
    Attachments,
    Halt,
    Pause,
    Pictures,
    Provider,
    Request,
    closed,
    count,
    missing,
    prompt_digest,
    request_key,
)
from evoaudit.infer.batch_ledger import NAME as BATCHES
from evoaudit.infer.batch_ledger import Ledger, in_progress
from evoaudit.infer.engine import Ask, Budget, Engine, Limits
from evoaudit.infer.journal import NAME, Journal, Shelf
from evoaudit.infer.prices import Price
from evoaudit.infer.progress import Progress
from evoaudit.infer.tokens import estimate
from evoaudit.parse import VOCABULARY

#: Task → its items, in any order; a sequence that reads them from disk as they are asked for will do.
Probes = Mapping[str, Sequence[dict[str, Any]]]
Identity = tuple[int, str, str]
#: Share of the requests that may stay unanswered where a job does not say.
TOLERATED = 0.01


@dataclass(frozen=True, slots=True)
class Question:
    """One instance and replicate."""

    task: str
    run: int
    probe: dict[str, Any]
    #: The row whose pictures are sent, where they are another item's.
    donor: dict[str, Any] | None = None

    @property
    def identity(self) -> Identity:
        return self.run, self.task, self.probe["instance_id"]


class Questions(Sequence[Question]):
    """Every question of the tasks a condition asks, sorted by identity; made when asked for, since they may be very many.

    ``probes`` are all items of the split, whichever are to be asked: which item lends its pictures depends on all of them.
    """

    def __init__(self, probes: Probes, runs: int, condition: str = "full", seed: int | None = None) -> None:
        self._tasks = sorted(CONDITIONS[condition].tasks)
        self._probes = {task: probes.get(task, []) for task in self._tasks}
        self._runs = runs
        #: Task → its instances, sorted, and where each stands among the probes.
        self._names: dict[str, Names] = {}
        self._places: dict[str, array] = {}
        #: Task → instance → place of the probe that lends its pictures.
        self._lenders: dict[str, dict[str, int]] = {}
        for task, rows in self._probes.items():
            names, self._places[task] = _sorted(rows)
            self._names[task] = names
            if CONDITIONS[condition].pictures == "other":
                if seed is None:
                    raise InputError(f"condition '{condition}'", "needs a seed", "give --seed")
                place = dict(zip(names, self._places[task], strict=True))
                self._lenders[task] = {taker: place[giver] for taker, giver in conditions.donors(task, rows, seed).items()}
        self._round = sum(map(len, self._names.values()))

    def __len__(self) -> int:
        return self._runs * self._round

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        if not 0 <= at < len(self):
            raise IndexError(at)
        run, rest = divmod(at, self._round)
        for task in self._tasks:
            if rest < len(self._names[task]):
                break
            rest -= len(self._names[task])
        rows = self._probes[task]
        probe = rows[self._places[task][rest]]
        lender = self._lenders.get(task, {}).get(probe["instance_id"])
        return Question(task, run, probe, None if lender is None else rows[lender])

    def place(self, run: int, task: str, instance_id: str) -> int:
        """Return where a question stands; raises `KeyError` if there is none of that identity."""
        names = self._names.get(task, ())
        at = bisect_left(names, instance_id)
        if at == len(names) or names[at] != instance_id or not 0 <= run < self._runs:
            raise KeyError((run, task, instance_id))
        return run * self._round + sum(len(self._names[one]) for one in self._tasks if one < task) + at


class Names(Sequence[str]):
    """Sorted names, held as Arrow holds them: a fifth of a list."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def __len__(self) -> int:
        return len(self._held)

    def __getitem__(self, at: Any) -> Any:
        return self._held[at].as_py()


def _sorted(rows: Sequence[dict[str, Any]]) -> tuple[Names, array]:
    """Return the rows' instances, sorted, and where each stands."""
    names = rows.column("instance_id").to_pylist() if isinstance(rows, store.Rows) else [row["instance_id"] for row in rows]
    places = array("q", sorted(range(len(names)), key=names.__getitem__))
    return Names(pa.array([names[place] for place in places], pa.string())), places


def predict(
    settings: dict[str, Any], probes: Probes, pictures: Pictures | None, prompt_set: prompts.PromptSet, **more: Any
) -> list[dict[str, Any]]:
    """Return the prediction rows; see `predicting`."""
    with predicting(settings, probes, pictures, prompt_set, **more) as rows:
        return list(rows)


@contextmanager
def predicting(
    settings: dict[str, Any],
    probes: Probes,
    pictures: Pictures | None,
    prompt_set: prompts.PromptSet,
    *,
    out: Path,
    prices: Mapping[str, Price] | None = None,
    seed: int | None = None,
    threads: int = 1,
    say: Callable[[str], None] = lambda line: None,
    progress: Progress | None = None,
    shelf: Path | None = None,
) -> Iterator[Iterator[dict[str, Any]]]:
    """Ask everything, then yield an iterator over the prediction rows; answers bought before are taken from the journal under ``out``.

    ``shelf`` is the folder of answers that runs share; the setting ``reuse`` says whether they are looked for there.
    """
    shown = {"condition": settings["condition"], "goal": settings.get("goal", "shown")}
    prompts.check(prompt_set, **shown)
    asked = Questions(probes, int(settings.get("runs", 1)), settings["condition"], seed)
    attachments = Attachments(pictures)
    if settings["provider"] == "builtin":
        yield _solve(settings, asked, attachments, seed, threads, shown)
        return
    asking = _Probing(settings, asked, attachments, price_of(settings, prices), say, prompt_set, shown)
    with asking.journal(out, shelf) as journal:
        asking.ask(journal, seed or 0, progress or Progress(say))
        yield asking.rows(journal)


def price_of(settings: Mapping[str, Any], prices: Mapping[str, Price] | None = None) -> Price | None:
    """Return what a job's settings, or else a list of prices, say that its model costs."""
    price = Price.model_validate(settings["price"]) if settings.get("price") else None
    return price or (prices or {}).get(settings["model"]) or (prices or {}).get(settings["name"])


def _row(settings: dict[str, Any], question: Question, record: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "model": settings["name"],
        "condition": settings["condition"],
        "max_image_side": settings["max_image_side"],
        "run": question.run,
        "task": question.task,
        "instance_id": question.probe["instance_id"],
        "pictures_of": question.donor["instance_id"] if question.donor else None,
        "raw": store.text(record.get("raw")),
        "status": record["status"],
        "finish_reason": store.text(record.get("finish_reason")),
        "served": store.text(record.get("served")),
        "error": store.text(record.get("error")),
        **more,
    }


def _no_picture(image_id: str) -> dict[str, Any]:
    return {"status": "picture_missing", "error": f"picture {image_id} was not prepared"}


def _no_donor(question: Question, condition: str) -> dict[str, Any] | None:
    """Return the record of a question that should show another item's pictures and has no such item."""
    if CONDITIONS[condition].pictures != "other" or question.donor is not None:
        return None
    n = len(question.probe["images"])
    return {"status": "picture_missing", "error": f"no other {question.task.upper()} item has {n} pictures to lend that are not this one's"}


def _solve(
    settings: dict[str, Any], asked: Questions, attachments: Attachments, seed: int | None, threads: int, shown: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    # What the solvers need, asking a model does not: 40 MB.
    from evoaudit.infer import builtin

    name = settings.get("model") or settings["name"]
    if name not in (known := (*builtin.NAMES, simulated.NAME)):
        raise InputError(f"model '{settings['name']}'", f"'{name}' is no built-in solver", f"choose one of {', '.join(known)}")
    if name == extras.OCR_MODEL:
        extras.require_ocr(settings["name"])
    if name in ("random", simulated.NAME) and seed is None:
        raise InputError(f"model '{settings['name']}'", f"the {name} solver needs a seed", "give --seed")
    words = settings.get("vocabulary", VOCABULARY)
    made_up = None
    if name == simulated.NAME:
        if set(settings.get("accuracy") or {}) != {"t1", "t2", "t2_value", "t3"}:
            raise InputError(
                f"model '{settings['name']}'", "is simulated without a stated accuracy", "give t1, t2, t2_value and t3 in 'accuracy'"
            )
        told = {"condition": settings["condition"], "side": settings["max_image_side"], "seed": seed, "vocabulary": words}
        made_up = simulated.Solver(settings["name"], settings["accuracy"], **told)
    else:
        solver = builtin.Solver(name, attachments, seed=seed or 0, vocabulary=words)

    def answer(question: Question) -> dict[str, Any]:
        if alone := _no_donor(question, shown["condition"]):
            return alone
        if made_up is not None:
            return {"status": OK, "raw": made_up.answer(question.task, question.probe, question.run)}
        view = prompts.view(question.task, question.probe, donor=question.donor, **shown)
        try:
            return {"status": OK, "raw": solver.answer(view, question.probe["instance_id"], question.run)}
        except KeyError as error:
            return _no_picture(str(error.args[0]))

    def rows() -> Iterator[dict[str, Any]]:
        with ThreadPoolExecutor(max_workers=max(1, threads)) as pool:
            for some in _some(asked):
                yield from (_row(settings, question, record) for question, record in zip(some, pool.map(answer, some), strict=True))

    return rows()


def _some(asked: Questions) -> Iterator[list[Question]]:
    """Yield questions, some at a time."""
    yield from (asked[start : start + 256] for start in range(0, len(asked), 256))


def _sum(values: list[int | float | None]) -> int | float | None:
    """Return the sum of what is known, None if nothing is."""
    known = [value for value in values if value is not None]
    return (math.fsum(known) if isinstance(known[0], float) else sum(known)) if known else None


class Places(Protocol):
    """Questions in an order, each with a place that its identity tells."""

    def __len__(self) -> int: ...

    def __getitem__(self, at: Any) -> Any: ...

    def place(self, run: int, task: str, instance_id: str) -> int: ...


class Asking:
    """The questions put to one model, and what is known of their answers. What a question is and how it is put, subclasses say."""

    #: What the entry is called in errors.
    KIND = "model"
    #: Questions that the tolerated share of unanswered ones is a share of, where it is more than these.
    share_of: int | None = None

    def __init__(
        self, settings: dict[str, Any], asked: Places, attachments: Attachments, price: Price | None, say: Callable[[str], None]
    ) -> None:
        self.settings, self.asked, self.attachments = settings, asked, attachments
        self.price, self.say = price, say
        self.limits = Limits(**{field.name: value for field in fields(Limits) if (value := settings.get(field.name)) is not None})
        self.doubled = {**settings, "max_output_tokens": 2 * self.limits.max_output_tokens}
        #: Questions, by place, that cannot be asked, and why.
        self.lost: dict[int, dict[str, Any]] = {}
        #: Place → key of its request, 32 bytes each, and with the doubled bound on output where that was, or is to be, asked.
        self._keys = bytearray(32 * len(asked))
        self._again: dict[int, bytes] = {}
        #: Place of a question whose request an earlier one has already → that one's place. It is asked, and paid for, once.
        self._same: dict[int, int] = {}
        #: Key → its item; filled in where batches need it.
        self._items: dict[bytes, tuple[int, bool]] = {}

    @property
    def where(self) -> str:
        return f"{self.KIND} '{self.settings['name']}'"

    def make(self, settings: dict[str, Any]) -> Provider:
        return providers.make(settings, self.attachments, self.limits.timeout_s)

    def request(self, question: Question) -> Request:
        """Return the request that puts a question; the same each time."""
        raise NotImplementedError

    def images(self, question: Question) -> Iterable[prompts.Image]:
        """Return the pictures a question's request carries."""
        return self.request(question).images()

    def unaskable(self, question: Question) -> dict[str, Any] | None:
        """Return the record of a question that cannot be asked, None if it can."""
        return None

    @contextmanager
    def journal(self, out: Path, shelf: Path | None) -> Iterator[Journal]:
        """Open the journal, once it is clear that asking can begin."""
        if self.limits.budget_usd is not None and self.price is None:
            raise InputError(
                self.where,
                "has no known price, so its budget cannot be kept",
                "add it to config/prices.yaml, or set inference.budget_usd to null",
            )
        self._prepare()
        reuse = self.settings.get("reuse", "resume")
        shared = Shelf(shelf, _shelf_name(self.settings)) if shelf is not None and reuse != "none" else None
        with Journal(out / NAME, shared) as journal:
            if journal.damaged:
                self.say(f"{journal.damaged} unreadable lines of the journal are left out; what they held is asked again")
            self._take_over(journal)
            yield journal

    def join(self, journal: Journal) -> None:
        """Get ready to ask into a journal that others opened and asked into."""
        self._prepare()
        self._take_over(journal)

    def _prepare(self) -> None:
        self.provider = self.make(self.settings)
        self._identify()

    def ask(self, journal: Journal, seed: int, progress: Progress) -> None:
        """Ask what has no answer yet; raises `InputError` if the run was stopped or left too much unanswered."""
        todo, n = self._todo(journal), len(self.asked)
        twins = f", {len(self._same)} of them the same as another" if self._same else ""
        self.say(f"{n} requests{twins}, {n - len(self.lost) - len(self._same) - len(todo)} answered before, {len(todo)} to ask")
        ledger = journal.path.with_name(BATCHES)
        halt = None
        if in_progress(ledger) or (todo and self.settings.get("batch")):
            halt = self._run_batches(journal, ledger, list(map(self._item, todo)), seed, progress)
        elif todo:
            halt = asyncio.run(self._run(journal, map(self._item, todo), len(todo), seed, progress))
        self._conclude(journal, bool(todo), halt)

    def rows(self, journal: Journal) -> Iterator[dict[str, Any]]:
        """Yield a row for every question."""
        return (self.answer(place, question, journal) for place, question in enumerate(self.asked))

    def _identify(self) -> None:
        """Find each question's key, or why it cannot be asked; requests are not kept, since they are many and soon made again."""
        images = set()
        bounds = picture_limits.of(self.settings)
        for place, question in enumerate(self.asked):
            if alone := self.unaskable(question):
                self.lost[place] = alone
            else:
                images.update(self.images(question))
        self.attachments.survey(images)
        for place, question in enumerate(self.asked):
            if place in self.lost:
                continue
            request = self.request(question)
            if lost := missing(request, self.attachments):
                self.lost[place] = _no_picture(lost)
                continue
            sizes = [(*self.attachments.size(image), self.attachments.length(image)) for image in request.images()]
            if over := picture_limits.exceeded(bounds, sizes):
                self.lost[place] = {"status": "picture_limit", "error": f"not sent: {over}"}
                continue
            self._keys[32 * place : 32 * place + 32] = bytes.fromhex(request_key(self.settings, request, self.attachments))
        # Few keys, if any, are there twice: by their first eight bytes, at first, all others are told apart.
        heads = memoryview(self._keys).cast("Q")[::4]
        twice = {one for one, next_one in pairwise(sorted(heads)) if one == next_one}
        first: dict[str, int] = {}
        for place in self._places():
            if heads[place] in twice and (earlier := first.setdefault(self._key(place), place)) != place:
                self._same[place] = earlier
        heads.release()

    def _item(self, place: int) -> tuple[int, bool]:
        """Return a place that is to be asked, and whether with the doubled bound."""
        return place, place in self._again

    def key_of(self, item: tuple[int, bool]) -> str:
        """Return the key of a question, by its place, with the bound on output as it is or doubled."""
        place, again = item
        return self._rekey(place) if again else self._key(place)

    def ask_of(self, item: tuple[int, bool]) -> Ask:
        """Return what is asked there."""
        return Ask(self.key_of(item), self.request(self.asked[item[0]]), item[1])

    def item_of(self, key: str) -> tuple[int, bool] | None:
        """Return where a key is asked, None if nowhere."""
        if not self._items:
            self._items = {bytes.fromhex(self._key(place)): (place, False) for place in self._places()}
            self._items |= {again: (place, True) for place, again in self._again.items()}
        return self._items.get(bytes.fromhex(key))

    def _key(self, place: int) -> str:
        return self._keys[32 * place : 32 * place + 32].hex()

    def _places(self) -> Iterator[int]:
        """Yield the places of what can be asked."""
        return (place for place in range(len(self.asked)) if place not in self.lost)

    def _rekey(self, place: int, request: Request | None = None) -> str:
        """Return the key with the doubled bound on output."""
        if place not in self._again:
            request = request or self.request(self.asked[place])
            self._again[place] = bytes.fromhex(request_key(self.doubled, request, self.attachments))
            if self._items:
                self._items[self._again[place]] = (place, True)
        return self._again[place].hex()

    def _take_over(self, journal: Journal) -> None:
        """Take answers that other runs bought, where the setting `reuse` allows it; otherwise say how many there are."""
        shelf = journal.shelf
        if shelf is None:
            return
        wanted = {key for key in map(self._key, self._places()) if journal.status(key) not in (OK, "truncated")}
        if self.settings.get("reuse") != "all":
            if held := sum(1 for _ in shelf.find(wanted)):
                self.say(f"{held} of these requests were answered for other runs; inference.reuse: all takes those answers")
        elif taken := journal.adopt(shelf.find(wanted)):
            self.say(f"{taken} answers are taken over from other runs")

    def _todo(self, journal: Journal) -> array:
        """Return the places of what is to be asked, in order; what was cut before is asked with the doubled bound.

        A run that came to its end and left no more unanswered than is tolerated is finished: it asks nothing, so that making a lost
        file again costs nothing and changes nothing. Otherwise what has no answer is asked, and of a killed run what it had not
        asked yet.
        """
        missed, stale = array("q"), array("q")
        for place in self._places():
            if place in self._same:
                continue
            key = self._key(place)
            last = self._rekey(place) if journal.status(key) == "truncated" else key
            if last not in journal:
                missed.append(place)
            elif journal.stale(last):
                stale.append(place)
        if not missed and len(stale) <= self._tolerated():
            return array("q")
        return array("q", heapq.merge(missed, stale))

    def _tolerated(self) -> int:
        allowed = self.settings.get("tolerate")
        allowed = TOLERATED if allowed is None else allowed
        share_of = len(self.asked) - len(self.lost) if self.share_of is None else self.share_of
        return int(allowed) if allowed >= 1 else int(allowed * share_of)

    def _budget(self, journal: Journal, promised: float = 0.0) -> Budget:
        """Return the budget after what was spent, and what is ``promised`` to batches in progress."""
        spent = math.fsum(self.price.usd(record) or 0.0 for record in journal.paid()) if self.price else 0.0
        return Budget(self.limits.budget_usd, self.price, spent + promised, self.attachments, self.limits.max_output_tokens)

    def _run_batches(self, journal: Journal, path: Path, todo: list[tuple[int, bool]], seed: int, progress: Progress) -> Halt | None:
        # The vendors' SDKs are imported where there is a batch to submit or to wait for.
        from evoaudit.infer import batch, batch_services

        settings = self.settings
        wait_h = settings.get("batch_wait_h")
        with Ledger(path) as ledger:
            run = batch.Batches(
                self,
                batch_services.make(settings, self.provider),
                {False: self.provider, True: self.make(self.doubled)},
                journal,
                ledger,
                self._budget(journal),
                retries=self.limits.retries,
                wait_s=3600 * (batch.WAIT_H if wait_h is None else wait_h),
                say=self.say,
                online=None
                if settings.get("batch")
                else lambda rest: asyncio.run(self._run(journal, rest, len(rest), seed, progress, ledger.promised)),
            )
            return run.run(todo)

    async def _run(
        self, journal: Journal, items: Iterable[tuple[int, bool]], n: int, seed: int, progress: Progress, promised: float = 0.0
    ) -> Halt | None:
        journal.begin()
        limits, settings = self.limits, self.settings
        account = gate.account(settings.get("base_url"), settings["provider"], settings.get("api_key_env"))
        engine = Engine(
            self.provider,
            journal,
            limits,
            self._budget(journal, promised),
            seed=seed,
            pace=gate.Pace(account),
            allowance=gate.Allowance(f"{account}|{settings['model']}", settings.get("rpm"), settings.get("tpm")),
            progress=progress,
            again=lambda: self.make(self.doubled),
            rekey=lambda request: self._rekey(self.asked.place(request.run, request.task, request.instance_id), request),
            tokens=lambda request: estimate(request, self.attachments, settings["provider"], settings["model"]),
        )
        await engine.run(map(self.ask_of, items), n)
        return engine.halt

    def _conclude(self, journal: Journal, ran: bool, halt: Halt | None) -> None:
        """Close the run; refuse it if it was stopped or left too much unanswered."""
        ended = Counter(self._status(place, journal) for place in self._places())
        kept, n, can = ended.pop(OK, 0), len(self.asked), len(self.asked) - len(self.lost)
        if isinstance(halt, Pause):
            raise InputError(self.where, halt.what, f"{kept} of {n} answers are kept, {halt.mend}")
        if ran:
            journal.end()
        if halt is not None:
            raise InputError(self.where, halt.what, f"{halt.mend}; {kept} of {n} answers are kept, run again to ask the rest")
        lost = (self.final(place, journal) for place in self._places() if self._status(place, journal) != OK)
        cause = next((record["error"] for record in chain(lost, self.lost.values()) if record and record.get("error")), "no reason given")
        if n and not kept and self.share_of is None:
            found = [*ended.elements(), *(record["status"] for record in self.lost.values())]
            raise InputError(
                self.where, f"answered none of {n} requests ({count(found)}; for instance: {cause})", "mend the cause and run again"
            )
        if can - kept > (allowed := self._tolerated()):
            raise InputError(
                self.where,
                f"{can - kept} of {can} requests have no answer ({count(ended.elements())}; for instance: {cause}), "
                f"and inference.tolerate allows {allowed}",
                "run again to ask these alone, or allow more",
            )

    def _keys_of(self, place: int) -> list[str]:
        """Return the keys under which calls for a question stand in the journal."""
        place = self._same.get(place, place)
        return [self._key(place), *([self._again[place].hex()] if place in self._again else [])]

    def _counts(self, place: int, journal: Journal) -> str:
        """Return the key of the record that counts: that of the doubled bound, unless that bound itself was refused."""
        first, *second = self._keys_of(place)
        return second[0] if second and journal.status(second[0]) not in (None, "http_error", "context_overflow") else first

    def _status(self, place: int, journal: Journal) -> str:
        return journal.status(self._counts(place, journal)) or "not asked"

    def final(self, place: int, journal: Journal) -> dict[str, Any] | None:
        """Return the record that counts for a question, None if it was not asked."""
        return journal.last(self._counts(place, journal))

    def answer(self, place: int, question: Question, journal: Journal) -> dict[str, Any]:
        """Return a question's prediction row."""
        if place in self.lost:
            return _row(self.settings, question, self.lost[place])
        known = {key: journal.calls(key) for key in self._keys_of(place)}
        calls, counts = list(chain(*known.values())), self._counts(place, journal)
        record, request = known[counts][-1], self.request(question)
        again, twin = record.get("again", False), place in self._same
        used = {name: _sum([call.get(name) for call in calls]) for name in TOKENS}
        usd = _sum([self.price.usd(call) for call in calls]) if self.price else None
        if twin:  # another row has them
            used, usd = {name: None if n is None else 0 for name, n in used.items()}, None if usd is None else 0.0
        return _row(
            self.settings,
            question,
            record,
            **used,
            usd=usd,
            limit_hit=any(call["status"] == "truncated" for call in calls),
            max_output_tokens=(self.doubled if again else self.settings).get("max_output_tokens"),
            reused=twin or bool(record.get("reused")),
            request=counts,
            prompt=prompt_digest(request),
            pictures=[self.attachments.sha256(image) for image in request.images()],
        )


class _Probing(Asking):
    """The probes put to one model under one condition."""

    def __init__(
        self,
        settings: dict[str, Any],
        asked: Questions,
        attachments: Attachments,
        price: Price | None,
        say: Callable[[str], None],
        prompt_set: prompts.PromptSet,
        shown: dict[str, Any],
    ) -> None:
        super().__init__(settings, asked, attachments, price, say)
        self.prompt_set, self.shown = prompt_set, shown
        self.schemas = {task: closed(prompt_set[task].answer) if settings.get("schema") else None for task in TASKS}

    def request(self, question: Question) -> Request:
        words = self.settings.get("vocabulary", VOCABULARY)
        messages = prompts.render(self.prompt_set[question.task], question.probe, donor=question.donor, vocabulary=words, **self.shown)
        return Request(question.task, question.probe["instance_id"], question.run, messages, self.schemas[question.task])

    def images(self, question: Question) -> Iterable[prompts.Image]:
        return prompts.view(question.task, question.probe, donor=question.donor, **self.shown).images

    def unaskable(self, question: Question) -> dict[str, Any] | None:
        return _no_donor(question, self.shown["condition"])


def _shelf_name(settings: Mapping[str, Any]) -> str:
    """Name the file of one model's shared answers; which of them fit a request is told by their keys."""
    import hashlib

    identity = [settings["provider"], settings.get("endpoint", settings.get("base_url")), settings["model"]]
    return hashlib.sha256(store.canonical(identity).encode("utf-8", "surrogatepass")).hexdigest()[:16]
