"""``evoaudit show``: one request to a model or a judge and its answer, with its pictures."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evoaudit import plan as plans
from evoaudit.conditions import TASKS
from evoaudit.errors import InputError, one_line
from evoaudit.stages import configured

if TYPE_CHECKING:
    from evoaudit.infer.predict import Question
    from evoaudit.prompts import Message

#: Shortest start of a request's key that names it.
SHORTEST = 8
#: Parameters of a request, of a job's settings.
_PARAMETERS = (
    *("provider", "model", "endpoint", "temperature", "condition", "evidence", "pictures", "max_pictures", "max_image_side", "max_text"),
    *("goal", "prompts", "codebook"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this subcommand's arguments."""
    parser.add_argument(
        "request", help=f"an instance_id (of a judge, a trajectory_id), or the first {SHORTEST} digits or more of a row's `request`"
    )
    configured.arguments(parser)
    parser.add_argument("--model", help="only this model's or judge's")
    parser.add_argument("--condition", help="only under this condition (of a judge, on this evidence)")
    parser.add_argument("--side", type=int, help="only at this picture size")
    parser.add_argument("--run", type=int, default=None, help="only this replicate", dest="replicate")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="write the pictures that were sent into this folder")
    parser.add_argument("--calls", action="store_true", help="also every call the journal holds, repeated and cut ones included")


def run(args: argparse.Namespace) -> int:
    """Print each matching request: parameters, messages, pictures and answer."""
    plan = plans.build(configured.load(args), args.results, must_exist=False)
    found = 0
    for job in (*plan.of("infer"), *plan.of("judge")):
        if args.model not in (None, job.settings["name"]):
            continue
        for row in _rows(args, job):
            print(("\n" if found else "") + "\n".join(_shown(args, job, row)))
            found += 1
    if not found:
        raise InputError(
            args.request,
            "no answer to such a request in this config's results",
            "give an instance_id or a `request` of predictions.parquet",
        )
    return 0


def _rows(args: argparse.Namespace, job: plans.Job) -> Iterator[dict[str, Any]]:
    from evoaudit import store

    folder = args.results / job.stage / job.key
    if not (folder / "predictions.parquet").is_file():
        return
    for row in store.read_rows(folder, "predictions"):
        named = row["instance_id"] == args.request
        named |= len(args.request) >= SHORTEST and (row["request"] or "").startswith(args.request)
        wanted = {"condition": args.condition, "max_image_side": args.side, "run": args.replicate}
        if named and all(value in (None, row[name]) for name, value in wanted.items()):
            yield row


def _shown(args: argparse.Namespace, job: plans.Job, row: dict[str, Any]) -> Iterator[str]:
    """Yield the lines about one row. What models and logs wrote is shown with its control characters escaped."""
    yield f"== {row['task']} {one_line(row['instance_id'])}: {job.label}, run {row['run']}"
    parameters = {name: job.settings.get(name) for name in _PARAMETERS} | {"max_output_tokens": row["max_output_tokens"]}
    yield "parameters: " + ", ".join(f"{name} {one_line(str(value))}" for name, value in parameters.items() if value is not None)
    yield f"request: {row['request'] or 'not sent'}"
    yield f"prompt: {row['prompt'] or 'none'}"
    yield from _asked(args, job, row)
    yield f"-- answer: {row['status']}" + "".join(
        f", {name} {one_line(str(row[name]))}"
        for name in ("finish_reason", "served", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "usd", "error")
        if row[name] is not None
    )
    yield from _text(row["raw"] or "(no text)")
    if args.calls:
        yield from _calls(args.results / job.stage / job.key / "journal.jsonl", row)


def _asked(args: argparse.Namespace, job: plans.Job, row: dict[str, Any]) -> Iterator[str]:
    """Yield the messages, made again from the probe or the log and the prompt files, and held against the hashes the row keeps."""
    messages = _messages(args.results, job, row) if job.stage == "infer" else _judged(args.results, job, row)
    if messages is None:
        what = "its probe is" if job.stage == "infer" else "its log or its pictures are"
        yield f"-- {what} not in results/ any more, so its messages cannot be shown"
        return
    from evoaudit import prompts
    from evoaudit.infer.base import Attachments, Request, media_type, prompt_digest
    from evoaudit.prepared import Pictures

    digest = prompt_digest(Request(row["task"], row["instance_id"], row["run"], messages))
    if row["prompt"] not in (None, digest):
        yield f"-- prompts or {'probe' if job.stage == 'infer' else 'log'} have changed since: these are not the words that were sent"
    prepared = _prepared(args.results, job)
    attachments = Attachments(Pictures(prepared) if prepared else None)
    sent, place = row["pictures"] or [], 0
    for message in messages:
        yield f"-- {message.role}"
        for part in message.parts:
            if isinstance(part, prompts.Text):
                yield from _text(part.text)
                continue
            hashed = sent[place] if place < len(sent) else None
            place += 1
            try:
                data, (width, height) = attachments.data(part), attachments.size(part)
            except KeyError:
                yield f"[picture {one_line(part.image_id)}, not prepared any more; sha256 {hashed}]"
                continue
            same = hashed in (None, attachments.sha256(part))
            where = ""
            if args.pictures is not None:
                args.pictures.mkdir(parents=True, exist_ok=True)
                file = args.pictures / f"{(row['request'] or digest)[:12]}-{place}.{media_type(data).removeprefix('image/')}"
                file.write_bytes(data)
                where = f", written to {one_line(str(file))}"
            kind = "black picture in place of" if part.black else "picture"
            note = "" if same else ", changed since it was sent"
            yield f"[{kind} {one_line(part.image_id)}, {width}×{height}, sha256 {attachments.sha256(part)}{note}{where}]"


def _prepared(results: Path, job: plans.Job) -> Path | None:
    """Return the folder of a job's pictures, None if there are none."""
    folders = [results / "images" / images.key for images in job.upstream.get("images", ())]
    return next((folder for folder in folders if (folder / "prepared.parquet").is_file()), None)


def _messages(results: Path, job: plans.Job, row: dict[str, Any]) -> "tuple[Message, ...] | None":
    from evoaudit import prompts

    question = _question(results, job, row)
    if question is None:
        return None
    shown = {"condition": job.settings["condition"], "goal": job.settings["goal"], "donor": question.donor}
    return prompts.render(prompts.load(Path(job.places["prompts"]))[question.task], question.probe, **shown)


def _judged(results: Path, job: plans.Job, row: dict[str, Any]) -> "tuple[Message, ...] | None":
    """Return the messages to a judge; a repair's quote the reply before it."""
    from evoaudit import codebook, store
    from evoaudit.audit import asking, judging, reply
    from evoaudit.stages.judge import made_cases

    folders = [results / "normalise" / one.key for one in job.upstream["normalise"]]
    prepared = _prepared(results, job)
    gone = not all((folder / "trajectories.parquet").is_file() for folder in folders)
    if row["request"] is None or gone or (prepared is None and "screenshots" in job.settings["evidence"]):
        return None
    book = codebook.load()
    prompt = asking.load(Path(job.places["prompts"]), book)
    cases, _ = made_cases(job.all_settings, {row["instance_id"]}, folders, prepared)
    with cases:
        case = cases[0].probe
    if case["lost"]:
        return None
    if row["task"] == judging.REPAIR:
        rows = store.read_rows(results / "judge" / job.key, "predictions")
        same = (row["instance_id"], row["run"], judging.JUDGE)
        first = next(one for one in rows if (one["instance_id"], one["run"], one["task"]) == same)
        case |= {"reply": first["raw"], "fault": reply.read(first["raw"], book, len(case["steps"]))[1]}
    return asking.messages(prompt, case)


def _question(results: Path, job: plans.Job, row: dict[str, Any]) -> "Question | None":
    from evoaudit import store
    from evoaudit.infer.predict import Questions

    mined = results / "mine" / job.upstream["mine"][0].key
    if not (mined / f"{row['task']}.parquet").is_file():
        return None
    probes = {task: store.read_rows(mined, task) if task == row["task"] else [] for task in TASKS}
    asked = Questions(probes, job.settings["runs"], job.settings["condition"], job.seed)
    try:
        return asked[asked.place(row["run"], row["task"], row["instance_id"])]
    except KeyError:
        return None


def _calls(path: Path, row: dict[str, Any]) -> Iterator[str]:
    if not path.is_file():
        yield "-- no journal: a built-in solver answered, or it was removed"
        return
    from evoaudit.infer.journal import unsealed

    with open(path, "rb") as lines:
        for record in filter(None, map(unsealed, lines)):
            if all(record.get(name) == row[name] for name in ("task", "instance_id", "run")):
                yield "-- call: " + one_line(json.dumps(record, ensure_ascii=False, sort_keys=True), 4000)


def _text(text: str) -> Iterator[str]:
    yield from (f"   {one_line(line, 20_000)}" for line in text.split("\n"))
