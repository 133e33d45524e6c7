"""From probes to prediction rows for one model under one condition: one row an instance and replicate, whatever happened."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoaudit import conditions, extras, prompts, store
from evoaudit.conditions import CONDITIONS
from evoaudit.errors import InputError
from evoaudit.infer import builtin, simulated
from evoaudit.infer.base import OK, Attachments, Pictures, Request, count, missing, request_key
from evoaudit.infer.engine import Budget, Engine, Limits
from evoaudit.infer.journal import NAME, Journal
from evoaudit.infer.prices import Price
from evoaudit.parse import VOCABULARY

Probes = Mapping[str, list[dict[str, Any]]]
_UNUSED = ("google", "anthropic", "codex")


@dataclass(frozen=True)
class Question:
    """One instance and replicate."""

    task: str
    run: int
    probe: dict[str, Any]
    #: The row whose pictures are sent, where they are another item's.
    donor: dict[str, Any] | None = None

    @property
    def identity(self) -> tuple[int, str, str]:
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
) -> list[dict[str, Any]]:
    """Return the prediction rows; answers bought before are taken from the journal under ``out``."""
    shown = {"condition": settings["condition"], "goal": settings.get("goal", "shown")}
    prompts.check(prompt_set, **shown)
    asked = questions(probes, int(settings.get("runs", 1)), settings["condition"], seed)
    attachments = Attachments(pictures)
    if settings["provider"] == "builtin":
        return _solve(settings, asked, attachments, seed, threads, shown)
    if settings["provider"] != "openai":
        where = f"model '{settings['name']}': provider '{settings['provider']}'"
        what = "is not in this version" if settings["provider"] in _UNUSED else "is unknown"
        raise InputError(where, what, "use 'openai' with the vendor's OpenAI-compatible base_url")
    return _ask(settings, asked, attachments, prompt_set, out, prices or {}, seed, say, shown)


def _row(settings: dict[str, Any], question: Question, record: Mapping[str, Any], price: Price | None = None) -> dict[str, Any]:
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
        "input_tokens": record.get("input_tokens"),
        "output_tokens": record.get("output_tokens"),
        "usd": price.usd(record) if price else None,
        "latency_s": record.get("latency_s"),
        "error": store.text(record.get("error")),
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


def _ask(
    settings: dict[str, Any],
    asked: list[Question],
    attachments: Attachments,
    prompt_set: prompts.PromptSet,
    out: Path,
    prices: Mapping[str, Price],
    seed: int | None,
    say: Callable[[str], None],
    shown: dict[str, Any],
) -> list[dict[str, Any]]:
    from evoaudit.infer.openai_chat import OpenAIChat

    limits = Limits(
        **{
            name: settings[name]
            for name in ("concurrency", "timeout_s", "retries", "budget_usd", "max_output_tokens")
            if settings.get(name) is not None
        }
    )
    price = prices.get(settings["model"]) or prices.get(settings["name"])
    if limits.budget_usd is not None and price is None:
        raise InputError(
            f"model '{settings['name']}'",
            "has no known price, so its budget cannot be kept",
            "add it to config/prices.yaml, or set inference.budget_usd to null",
        )
    provider = OpenAIChat(settings, attachments, limits.timeout_s)
    records: dict[tuple[int, str, str], dict[str, Any]] = {}
    keys: dict[tuple[int, str, str], str] = {}

    def request_of(question: Question) -> Request:
        words = settings.get("vocabulary", VOCABULARY)
        messages = prompts.render(prompt_set[question.task], question.probe, donor=question.donor, vocabulary=words, **shown)
        return Request(question.task, question.probe["instance_id"], question.run, messages)

    requests = []
    for question in asked:
        if alone := _no_donor(question, shown["condition"]):
            records[question.identity] = alone
        else:
            requests.append((question, request_of(question)))
    attachments.survey(image for _, request in requests for image in request.images())
    with Journal(out / NAME) as journal:
        todo: list[tuple[str, Request]] = []
        for question, request in requests:
            if lost := missing(request, attachments):
                records[question.identity] = _no_picture(lost)
                continue
            key = keys[question.identity] = request_key(settings, request, attachments)
            if key not in journal.answers:
                todo.append((key, request))
        if journal.damaged:
            say(f"{journal.damaged} unreadable lines of the journal are left out; what they held is asked again")
        say(f"{len(asked)} requests, {len(asked) - len(todo) - len(records)} answered before, {len(todo)} to ask")
        spent = sum(price.usd(record) or 0.0 for record in journal.paid) if price else 0.0
        budget = Budget(limits.budget_usd, price, spent, attachments, limits.max_output_tokens)
        engine = Engine(provider, journal, limits, budget, seed=seed or 0, say=say)
        asyncio.run(engine.run(todo))
        records |= {identity: journal.answers[key] for identity, key in keys.items() if key in journal.answers}
        kept = sum(record["status"] == OK for record in records.values())
        if engine.halt is not None:
            journal.end()
            raise InputError(
                f"model '{settings['name']}'",
                engine.halt.what,
                f"{engine.halt.mend}; {kept} of {len(asked)} answers are kept, run again to ask the rest",
            )
        if todo:
            journal.end()
        if asked and not kept:
            causes = next((record["error"] for record in records.values() if record.get("error")), "no reason given")
            raise InputError(
                f"model '{settings['name']}'",
                f"answered none of {len(asked)} requests "
                f"({count(record['status'] for record in records.values())}; for instance: {causes})",
                "mend the cause and run again",
            )
        return [_row(settings, question, records[question.identity], price) for question in asked]
