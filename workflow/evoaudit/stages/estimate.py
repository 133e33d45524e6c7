"""``evoaudit estimate``: what a config would ask of its models and judges, before anything is spent."""

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from evoaudit import plan as plans
from evoaudit.conditions import CONDITIONS, TASKS
from evoaudit.config import PRICES, Config
from evoaudit.stages import configured

if TYPE_CHECKING:
    from evoaudit.infer.prices import Price

#: Characters of a prompt where none is made yet, and seconds a call takes where none was made yet. Rough but stated.
PROMPT_CHARACTERS, SECONDS = 1400, 5.0
#: The same of a judge: codebook and steps of a usual log, and tokens of its reply.
JUDGE_CHARACTERS, JUDGE_ANSWER = 24_000, 300
#: Screens of a usual log, where none was read yet.
SCREENS = 15
#: Pictures shown by one instance of each slice; every action of T2 has two.
PICTURES = {"3": 3, "4": 4, "5": 5, "click": 2, "type": 2, "select": 2, "cross": 3, "same_domain": 3, "long_skip": 3}
#: Height over width of a usual screen.
ASPECT = 9 / 16


@dataclass
class Load:
    """What one condition asks: requests, characters of text, and pictures by width and height."""

    requests: int = 0
    characters: float = 0.0
    pictures: Counter[tuple[int, int]] = field(default_factory=Counter)

    def tokens(self, provider: str, model: str) -> float:
        """Return input tokens."""
        from evoaudit.infer.tokens import CHARACTERS, picture_tokens

        shown = sum(n * picture_tokens(provider, model, *size) for size, n in self.pictures.items())
        return self.characters / CHARACTERS + shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this subcommand's arguments."""
    configured.arguments(parser)
    parser.add_argument("--prices", type=Path, help="USD per million tokens (default: the config's inference.prices)")


def run(args: argparse.Namespace) -> int:
    """Print requests, tokens, dollars and time for every model, condition and picture size still to be asked."""
    from evoaudit.infer.batch_ledger import NAME as BATCHES
    from evoaudit.infer.batch_ledger import in_progress
    from evoaudit.infer.prices import load
    from evoaudit.infer.tokens import ANSWER

    config = configured.load(args)
    plan = plans.build(config, args.results)
    path = args.prices or Path(config.inference.prices)
    prices = {} if args.prices is None and str(path) == PRICES and not path.exists() else load(path)
    print(f"{'model / condition / side':<48} {'requests':>9} {'input tokens':>13} {'output':>9} {'time':>8} {'at most USD':>12} {'USD':>9}")
    total, most, unknown, dated, rough, guessed, batched, waiting = 0.0, 0.0, [], {}, False, False, set(), 0
    made: dict[tuple, Load | None] = {}
    for job in (*plan.of("infer"), *plan.of("judge")):
        if job.settings["provider"] == "builtin":
            continue
        judges = job.stage == "judge"
        if (args.results / job.stage / job.key / "manifest.json").is_file():
            print(f"{job.label:<48} {'finished':>9}")
            continue
        exact = _judged(args.results, job) if judges else _rendered(args.results, job, made)
        rough |= exact is None and not judges
        guessed |= exact is None and judges
        asks = exact or (_drawn(args.results, job) if judges else _quotas(args.results, job))
        if asks is None:
            print(f"{job.label:<48} {'unknown':>9}  until the sample is drawn")
            continue
        folder = args.results / job.stage / job.key
        done, seconds = _journalled(folder / "journal.jsonl")
        pending = sum(len(batch.keys) for batch in in_progress(folder / BATCHES))
        waiting += pending
        requests = max(0, asks.requests - done - pending)
        left = requests / asks.requests if asks.requests else 0.0
        given, written = (
            left * asks.tokens(job.settings["provider"], job.settings["model"]),
            requests * (JUDGE_ANSWER if judges else ANSWER),
        )
        price = prices.get(job.settings["model"]) or prices.get(job.settings["name"])
        asked = {"input_tokens": given, "batch": job.transport.get("batch")}
        cost = price.usd({**asked, "output_tokens": written}) if price else None
        bound = price.usd({**asked, "output_tokens": requests * job.settings["max_output_tokens"]}) if price else None
        batched |= {job.settings["model"]} if job.transport.get("batch") else set()
        total, most = total + (cost or 0.0), most + (bound or 0.0)
        if price:
            dated[job.settings["model"]] = price
        else:
            unknown.append(job.settings["model"])
        time = _time(requests, given + written, seconds or SECONDS, job.transport)
        money = [("unknown" if usd is None else f"{usd:.2f}") for usd in (bound, cost)]
        print(f"{job.label:<48} {requests:>9,} {given:>13,.0f} {written:>9,.0f} {time:>8} {money[0]:>12} {money[1]:>9}")
    if waiting:
        print(f"{waiting:,} requests are in batches that are in progress, and not counted again")
    if guessed:
        print(f"judges before the sample is drawn and its pictures are prepared: by the quotas, with {SCREENS} screens a log")
    _footer(args.results, plan, config, path, total, most, sorted(set(unknown)), dated, rough, batched)
    return 0


def _footer(
    results: Path,
    plan: plans.Plan,
    config: Config,
    path: Path,
    total: float,
    most: float,
    unknown: list[str],
    dated: dict[str, "Price"],
    rough: bool,
    batched: set[str],
) -> None:
    from evoaudit.infer.tokens import ANSWER

    mined = all((results / "mine" / job.key / "quotas.json").is_file() for job in plan.of("mine"))
    if rough:
        print(
            "nothing is mined yet, so these are the quotas: at most so much"
            if not mined
            else "pictures are not prepared yet: sizes are guessed"
        )
    print(
        f"answers of {ANSWER} tokens, judges' of {JUDGE_ANSWER}; at most: every answer as long as its bound, as reasoning may make it. "
        "Not counted: calls repeated after faults, the second call of an answer that hit its bound, and that for a judge's reply that "
        "cannot be used"
    )
    for model, price in sorted(dated.items()):
        share = f"; batches cost {price.batch:.0%} of that" if model in batched else ""
        print(f"{model}: ${price.input:g} in, ${price.output:g} out, a million tokens, as of {price.date} ({price.source}){share}")
    missing = f"{', '.join(unknown)}: no price in {path}"
    print(
        f"about {total:.2f} USD, at most {most:.2f}" + (f", and what has no price ({missing})" if unknown else "")
        if total or not unknown
        else f"cost unknown ({missing})"
    )
    if config.inference.budget_usd is not None:
        jobs = sum(job.settings["provider"] != "builtin" for job in (*plan.of("infer"), *plan.of("judge")))
        cap = config.inference.budget_usd
        print(f"inference.budget_usd stops each of the {jobs} jobs at {cap:.2f} USD: {jobs * cap:.2f} in all")


def _rendered(results: Path, job: plans.Job, made: dict[tuple, Load | None]) -> Load | None:
    """Return what a job asks by making its requests, None before its probes are mined and its pictures prepared."""
    (mined,), (images,) = job.upstream["mine"], job.upstream["images"]
    folders = results / "mine" / mined.key, results / "images" / images.key
    if not all((folder / "manifest.json").is_file() for folder in folders):
        return None
    key = (mined.key, images.key, job.settings["condition"], job.settings["prompts"], job.settings["goal"], job.seed)
    if key not in made:
        made[key] = _make(job, *folders)
    return made[key]


def _make(job: plans.Job, mined: Path, images: Path) -> Load:
    from evoaudit import prompts, store
    from evoaudit.infer.predict import Questions
    from evoaudit.prepared import Pictures
    from evoaudit.probes.vocabulary import vocabulary_of

    load, sizes, words = Load(), {}, vocabulary_of(mined)
    asked: set[int] = set()
    prompt_set = prompts.load(Path(job.places["prompts"]))
    probes = {task: store.read_rows(mined, task) for task in TASKS}
    with Pictures(images) as pictures:
        for question in Questions(probes, job.settings["runs"], job.settings["condition"], job.seed):
            if CONDITIONS[job.settings["condition"]].pictures == "other" and question.donor is None:
                continue
            shown = {"condition": job.settings["condition"], "goal": job.settings["goal"], "donor": question.donor, "vocabulary": words}
            parts = [part for message in prompts.render(prompt_set[question.task], question.probe, **shown) for part in message.parts]
            names = [part.image_id for part in parts if isinstance(part, prompts.Image)]
            for name in names:
                if name not in sizes:
                    sizes[name] = pictures.size(name) if name in pictures else None
            if any(sizes[name] is None for name in names):
                continue
            # The very same request is asked once.
            if (request := hash((question.run, tuple(parts)))) in asked:
                continue
            asked.add(request)
            load.requests += 1
            load.characters += sum(len(part.text) for part in parts if isinstance(part, prompts.Text))
            load.pictures.update(sizes[name] for name in names)
    return load


def _quotas(results: Path, job: plans.Job) -> Load:
    """Return what a job asks by the numbers of its probes, or by their quotas."""
    condition = CONDITIONS[job.settings["condition"]]
    instances = _instances(results, job) or _wanted(job)
    instances = {cut: n for cut, n in instances.items() if cut[0] in condition.tasks}
    side = job.settings["max_image_side"]
    requests = sum(instances.values())
    shown = sum(n * len(condition.shown([""] * PICTURES.get(name, 2))) for (_, name), n in instances.items())
    return Load(requests, requests * PROMPT_CHARACTERS, Counter({(side, round(side * ASPECT)): shown}))


def _judged(results: Path, job: plans.Job) -> Load | None:
    """Return what a judge is asked by making its requests, None before the sample is drawn and its pictures prepared."""
    from evoaudit import codebook, prompts, store
    from evoaudit.audit import asking
    from evoaudit.stages.judge import made_cases

    upstream = [(stage, one) for stage, jobs in job.upstream.items() for one in jobs]
    if not all((results / one.stage / one.key / "manifest.json").is_file() for _, one in upstream):
        return None
    (sample,), images = job.upstream["sample"], job.upstream.get("images", ())
    rows = store.read_rows(results / "sample" / sample.key, "sample", ["trajectory_id", "status"])
    wanted = {row["trajectory_id"] for row in rows if row["status"] == "analysed"}
    folders = [results / "normalise" / one.key for one in job.upstream["normalise"]]
    prepared = results / "images" / images[0].key if images else None
    cases, attachments = made_cases(job.all_settings, wanted, folders, prepared)
    prompt, load = asking.load(Path(job.places["prompts"]), codebook.load()), Load()
    with cases:
        for question in cases:
            if question.probe["lost"]:
                continue
            load.requests += 1
            for part in (part for message in asking.messages(prompt, question.probe) for part in message.parts):
                if isinstance(part, prompts.Text):
                    load.characters += len(part.text)
                else:
                    load.pictures[attachments.size(part)] += 1
    return load


def _drawn(results: Path, job: plans.Job) -> Load | None:
    """Return what a judge is asked by the sample or its quotas, with logs of a usual length; None where neither says how many."""
    from evoaudit import store

    (sample,) = job.upstream["sample"]
    folder = results / "sample" / sample.key
    if (folder / "sample.parquet").is_file():
        requests = sum(row["status"] == "analysed" for row in store.read_rows(folder, "sample", ["status"]))
    else:
        quotas = sample.settings["quotas"].values()
        if not quotas or any(isinstance(quota, dict) for quota in quotas):
            return None
        requests = max(0, sum(quotas) * len(sample.settings["verdicts"]) - sample.settings["calibration"])
    requests *= job.settings.get("draws", 1)
    shown: Counter[tuple[int, int]] = Counter()
    if job.upstream.get("images"):
        side = job.settings["max_image_side"]
        shown[side, round(side * ASPECT)] = requests * min(SCREENS, job.settings["max_pictures"])
    return Load(requests, requests * JUDGE_CHARACTERS, shown)


def _wanted(job: plans.Job) -> dict[tuple[str, str], int]:
    """Return (task, slice) → instances by the quotas of the set that a job is asked about."""
    (mined,) = job.upstream["mine"]
    return {(task, name): n for task in TASKS for name, n in mined.settings[task]["quota"].items()}


def _instances(results: Path, job: plans.Job) -> dict[tuple[str, str], int] | None:
    """Return (task, slice) → instances of the probes already mined for a job, or None."""
    (mined,) = job.upstream["mine"]
    path = results / "mine" / mined.key / "quotas.json"
    if not path.is_file():
        return None
    tasks = json.loads(path.read_text(encoding="utf-8"))["tasks"]
    return {(task, name.removeprefix("K=")): cut["taken"] for task, held in tasks.items() for name, cut in held["slices"].items()}


def _journalled(path: Path) -> tuple[int, float | None]:
    """Return how many good answers a job has already, and the seconds such a call took in the mean."""
    from evoaudit.audit.judging import REPAIR
    from evoaudit.infer.base import OK

    answered: dict[tuple, float | None] = {}
    for record in _records(path):
        if record.get("status") == OK and record.get("task") != REPAIR:
            answered[record.get("run"), record.get("task"), record.get("instance_id")] = record.get("latency_s")
    timed = [seconds for seconds in answered.values() if seconds is not None]
    return len(answered), math.fsum(timed) / len(timed) if timed else None


def _records(path: Path) -> Iterator[dict]:
    from evoaudit.infer.journal import unsealed

    if path.is_file():
        with open(path, "rb") as lines:
            yield from filter(None, map(unsealed, lines))


def _time(requests: int, tokens: float, seconds: float, transport: dict) -> str:
    """Say how long a job takes alone: by its requests in flight, or by what a minute allows; a batch, what its service promises."""
    from evoaudit.infer.progress import span

    if transport.get("batch"):
        return "≤ 24 h" if requests else "0 s"
    bounds = [requests * seconds / transport["concurrency"]]
    bounds += [60 * requests / transport["rpm"]] if transport["rpm"] else []
    bounds += [60 * tokens / transport["tpm"]] if transport["tpm"] else []
    return span(max(bounds)) if requests else "0 s"
