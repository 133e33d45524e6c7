"""From probes to prediction rows for one model under one condition: one row an instance and replicate, whatever happened."""

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from evoaudit import conditions, extras, prompts, store
from evoaudit.conditions import CONDITIONS, TASKS
from evoaudit.errors import InputError
from evoaudit.infer import gate, providers, simulated
from evoaudit.infer import limits as picture_limits
from evoaudit.infer.base import OK, TOKENS, Attachments, Pictures, Provider, Request, closed, count, missing, prompt_digest, request_key
from evoaudit.infer.engine import Ask, Budget, Engine, Limits
from evoaudit.infer.journal import NAME, Journal, Shelf
from evoaudit.infer.prices import Price
from evoaudit.infer.progress import Progress
from evoaudit.infer.tokens import estimate
from evoaudit.parse import VOCABULARY

Probes = Mapping[str, list[dict[str, Any]]]
Identity = tuple[int, str, str]
#: Share of the requests that may stay unanswered where a job does not say.
TOLERATED = 0.01


@dataclass(frozen=True)
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


def questions(probes: Probes, runs: int, condition: str = "full", seed: int | None = None) -> list[Question]:
    """Return every question of the tasks a condition asks, sorted by identity.

    ``probes`` are all items of the split, whichever are to be asked: which item lends its pictures depends on all of them.
    """
    found = []
    for task in CONDITIONS[condition].tasks:
        rows = probes.get(task, [])
        lenders: dict[str, dict[str, Any]] = {}
        if CONDITIONS[condition].pictures == "other":
            if seed is None:
                raise InputError(f"condition '{condition}'", "needs a seed", "give --seed")
            known = {row["instance_id"]: row for row in rows}
            lenders = {taker: known[giver] for taker, giver in conditions.donors(task, rows, seed).items()}
        found += [Question(task, run, row, lenders.get(row["instance_id"])) for run in range(runs) for row in rows]
    return sorted(found, key=lambda question: question.identity)


def predict(
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
) -> list[dict[str, Any]]:
    """Return the prediction rows; answers bought before are taken from the journal under ``out``.

    ``shelf`` is the folder of answers that runs share; the setting ``reuse`` says whether they are looked for there.
    """
    shown = {"condition": settings["condition"], "goal": settings.get("goal", "shown")}
    prompts.check(prompt_set, **shown)
    asked = questions(probes, int(settings.get("runs", 1)), settings["condition"], seed)
    attachments = Attachments(pictures)
    if settings["provider"] == "builtin":
        return _solve(settings, asked, attachments, seed, threads, shown)
    price = Price.model_validate(settings["price"]) if settings.get("price") else None
    price = price or (prices or {}).get(settings["model"]) or (prices or {}).get(settings["name"])
    return _Asking(settings, asked, attachments, prompt_set, price, say, shown).rows(out, seed or 0, progress or Progress(say), shelf)


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
    settings: dict[str, Any], asked: list[Question], attachments: Attachments, seed: int | None, threads: int, shown: dict[str, Any]
) -> list[dict[str, Any]]:
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

    with ThreadPoolExecutor(max_workers=max(1, threads)) as pool:
        return [_row(settings, question, record) for question, record in zip(asked, pool.map(answer, asked), strict=True)]


def _sum(values: list[int | float | None]) -> int | float | None:
    """Return the sum of what is known, None if nothing is."""
    known = [value for value in values if value is not None]
    return (math.fsum(known) if isinstance(known[0], float) else sum(known)) if known else None


class _Asking:
    """The questions put to one model, and what is known of their answers."""

    def __init__(
        self,
        settings: dict[str, Any],
        asked: list[Question],
        attachments: Attachments,
        prompt_set: prompts.PromptSet,
        price: Price | None,
        say: Callable[[str], None],
        shown: dict[str, Any],
    ) -> None:
        self.settings, self.asked, self.attachments, self.prompt_set = settings, asked, attachments, prompt_set
        self.price, self.say, self.shown = price, say, shown
        self.limits = Limits(**{field.name: value for field in fields(Limits) if (value := settings.get(field.name)) is not None})
        self.schemas = {task: closed(prompt_set[task].answer) if settings.get("schema") else None for task in TASKS}
        self.doubled = {**settings, "max_output_tokens": 2 * self.limits.max_output_tokens}
        #: Questions that cannot be asked, and why.
        self.lost: dict[Identity, dict[str, Any]] = {}
        #: Question → keys of its request with the bound on output, and with the doubled one where that was, or is to be, asked.
        self.keys: dict[Identity, str] = {}
        self.again: dict[Identity, str] = {}

    @property
    def where(self) -> str:
        return f"model '{self.settings['name']}'"

    def provider(self, settings: dict[str, Any]) -> Provider:
        return providers.make(settings, self.attachments, self.limits.timeout_s)

    def request(self, question: Question) -> Request:
        words = self.settings.get("vocabulary", VOCABULARY)
        messages = prompts.render(self.prompt_set[question.task], question.probe, donor=question.donor, vocabulary=words, **self.shown)
        return Request(question.task, question.probe["instance_id"], question.run, messages, self.schemas[question.task])

    def rows(self, out: Path, seed: int, progress: Progress, shelf: Path | None) -> list[dict[str, Any]]:
        if self.limits.budget_usd is not None and self.price is None:
            raise InputError(
                self.where,
                "has no known price, so its budget cannot be kept",
                "add it to config/prices.yaml, or set inference.budget_usd to null",
            )
        provider = self.provider(self.settings)
        self._identify()
        reuse = self.settings.get("reuse", "resume")
        shared = Shelf(shelf, _shelf_name(self.settings)) if shelf is not None and reuse != "none" else None
        with Journal(out / NAME, shared) as journal:
            if journal.damaged:
                self.say(f"{journal.damaged} unreadable lines of the journal are left out; what they held is asked again")
            if shared is not None and reuse == "all":
                self._take_over(journal, shared)
            todo = self._todo(journal)
            self.say(f"{len(self.asked)} requests, {len(self.keys) - len(todo)} answered before, {len(todo)} to ask")
            halt = asyncio.run(self._run(provider, journal, todo, seed, progress)) if todo else None
            self._conclude(journal, bool(todo), halt)
            return [self._answer(question, journal) for question in self.asked]

    def _identify(self) -> None:
        """Find each question's key, or why it cannot be asked; requests are not kept, since they are many and soon made again."""
        images = set()
        bounds = picture_limits.of(self.settings)
        for question in self.asked:
            if alone := _no_donor(question, self.shown["condition"]):
                self.lost[question.identity] = alone
            else:
                images.update(self.request(question).images())
        self.attachments.survey(images)
        for question in self.asked:
            if question.identity in self.lost:
                continue
            request = self.request(question)
            if lost := missing(request, self.attachments):
                self.lost[question.identity] = _no_picture(lost)
                continue
            sizes = [(*self.attachments.size(image), self.attachments.length(image)) for image in request.images()]
            if over := picture_limits.exceeded(bounds, sizes):
                self.lost[question.identity] = {"status": "picture_limit", "error": f"not sent: {over}"}
                continue
            self.keys[question.identity] = request_key(self.settings, request, self.attachments)

    def _rekey(self, question: Question) -> str:
        """Return the key with the doubled bound on output."""
        if question.identity not in self.again:
            self.again[question.identity] = request_key(self.doubled, self.request(question), self.attachments)
        return self.again[question.identity]

    def _take_over(self, journal: Journal, shelf: Shelf) -> None:
        """Take answers that other runs bought."""
        held = {key for key, record in journal.answers.items() if record["status"] in (OK, "truncated")}
        wanted = set(self.keys.values()) - held
        if taken := journal.adopt(shelf.find(wanted)):
            self.say(f"{taken} answers are taken over from other runs")

    def _todo(self, journal: Journal) -> list[tuple[Question, bool]]:
        """Return what is to be asked, and whether with the doubled bound.

        A run that came to its end and left no more unanswered than is tolerated is finished: it asks nothing, so that making a lost
        file again costs nothing and changes nothing. Otherwise what has no answer is asked, and of a killed run what it had not
        asked yet.
        """
        missed: list[tuple[Question, bool]] = []
        stale: list[tuple[Question, bool]] = []
        for question in self.asked:
            key = self.keys.get(question.identity)
            if key is None:
                continue
            again = journal.answers.get(key, {}).get("status") == "truncated"
            last = self._rekey(question) if again else key
            if last not in journal.answers:
                missed.append((question, again))
            elif last in journal.stale:
                stale.append((question, again))
        if not missed and len(stale) <= self._tolerated():
            return []
        found = missed + stale
        return sorted(found, key=lambda one: one[0].identity)

    def _tolerated(self) -> int:
        allowed = self.settings.get("tolerate")
        allowed = TOLERATED if allowed is None else allowed
        return int(allowed) if allowed >= 1 else int(allowed * len(self.keys))

    async def _run(self, provider: Provider, journal: Journal, todo: list[tuple[Question, bool]], seed: int, progress: Progress) -> Any:
        limits, settings, price = self.limits, self.settings, self.price
        account = gate.account(settings.get("base_url"), settings["provider"], settings.get("api_key_env"))
        questions = {question.identity: question for question, _ in todo}
        spent = math.fsum(price.usd(record) or 0.0 for record in journal.paid()) if price else 0.0
        engine = Engine(
            provider,
            journal,
            limits,
            Budget(limits.budget_usd, price, spent, self.attachments, limits.max_output_tokens),
            seed=seed,
            pace=gate.Pace(account),
            allowance=gate.Allowance(f"{account}|{settings['model']}", settings.get("rpm"), settings.get("tpm")),
            progress=progress,
            again=lambda: self.provider(self.doubled),
            rekey=lambda request: self._rekey(questions[request.run, request.task, request.instance_id]),
            tokens=lambda request: estimate(request, self.attachments, settings["provider"], settings["model"]),
        )

        def asks() -> Iterator[Ask]:
            for question, again in todo:
                key = self.again[question.identity] if again else self.keys[question.identity]
                yield Ask(key, self.request(question), again)

        await engine.run(asks(), len(todo))
        return engine.halt

    def _conclude(self, journal: Journal, ran: bool, halt: Any) -> None:
        """Close the run; refuse it if it was stopped or left too much unanswered."""
        final = {identity: self._final(identity, journal) for identity in self.keys}
        lost = [record for record in final.values() if record is None or record["status"] != OK]
        kept, n = len(final) - len(lost), len(self.asked)
        if ran:
            journal.end()
        if halt is not None:
            raise InputError(self.where, halt.what, f"{halt.mend}; {kept} of {n} answers are kept, run again to ask the rest")
        found = [record["status"] for record in (*final.values(), *self.lost.values())]
        causes = next((record["error"] for record in (*lost, *self.lost.values()) if record.get("error")), "no reason given")
        if n and not kept:
            raise InputError(
                self.where, f"answered none of {n} requests ({count(found)}; for instance: {causes})", "mend the cause and run again"
            )
        if len(lost) > (allowed := self._tolerated()):
            raise InputError(
                self.where,
                f"{len(lost)} of {len(final)} requests have no answer ({count(record['status'] for record in lost)}; for instance: "
                f"{causes}), and inference.tolerate allows {allowed}",
                "run again to ask these alone, or allow more",
            )

    def _final(self, identity: Identity, journal: Journal) -> dict[str, Any] | None:
        """Return the record that counts: that of the doubled bound, unless that bound itself was refused."""
        first = journal.answers.get(self.keys[identity])
        second = journal.answers.get(self.again.get(identity, ""))
        return first if second is None or second["status"] in ("http_error", "context_overflow") else second

    def _answer(self, question: Question, journal: Journal) -> dict[str, Any]:
        identity = question.identity
        if identity not in self.keys:
            return _row(self.settings, question, self.lost[identity])
        record = self._final(identity, journal)
        calls = [*journal.calls(self.keys[identity]), *journal.calls(self.again.get(identity, ""))]
        request = self.request(question)
        hit = any(call["status"] == "truncated" for call in calls)
        again = record.get("again", False)
        return _row(
            self.settings,
            question,
            record,
            **{name: _sum([call.get(name) for call in calls]) for name in TOKENS},
            usd=_sum([self.price.usd(call) for call in calls]) if self.price else None,
            limit_hit=hit,
            max_output_tokens=(self.doubled if again else self.settings).get("max_output_tokens"),
            reused=bool(record.get("reused")),
            request=self.again[identity] if again else self.keys[identity],
            prompt=prompt_digest(request),
            pictures=[self.attachments.sha256(image) for image in request.images()],
        )


def _shelf_name(settings: Mapping[str, Any]) -> str:
    """Name the file of one model's shared answers; which of them fit a request is told by their keys."""
    import hashlib

    identity = [settings["provider"], settings.get("endpoint", settings.get("base_url")), settings["model"]]
    return hashlib.sha256(store.canonical(identity).encode("utf-8", "surrogatepass")).hexdigest()[:16]
