"""``evoaudit estimate``: what a config would ask of its models, before anything is spent."""

import argparse
import json
from pathlib import Path

from evoaudit import plan as plans
from evoaudit.conditions import CONDITIONS, TASKS
from evoaudit.stages import configured

#: Rough but stated: text by its length, pictures by their area. Vendors differ; the meter during the run does not guess.
CHARACTERS_A_TOKEN = 4
PIXELS_A_TOKEN = 750
PROMPT_CHARACTERS = 1400
ANSWER_TOKENS = 60
#: Pictures shown by one instance of each slice; every action of T2 has two.
PICTURES = {"3": 3, "4": 4, "5": 5, "click": 2, "type": 2, "select": 2, "cross": 3, "same_domain": 3, "long_skip": 3}
#: Height over width of a usual screen.
ASPECT = 9 / 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this subcommand's arguments."""
    configured.arguments(parser)
    parser.add_argument(
        "--prices", type=Path, default=Path("config/prices.yaml"), help="USD per million tokens (default: config/prices.yaml)"
    )


def run(args: argparse.Namespace) -> int:
    """Print requests, tokens and dollars for every model and condition still to be asked."""
    from evoaudit.infer.prices import load

    config = configured.load(args)
    plan = plans.build(config, args.results)
    prices = load(args.prices)
    print(f"{'model / condition / side':<48} {'requests':>9} {'input tokens':>13} {'output':>9} {'USD':>9}")
    total, unknown = 0.0, []
    mined = all((args.results / "mine" / job.key / "quotas.json").is_file() for job in plan.of("mine"))
    for job in plan.of("infer"):
        if job.settings["provider"] == "builtin":
            continue
        if (args.results / "infer" / job.key / "manifest.json").is_file():
            print(f"{job.label:<48} {'finished':>9}")
            continue
        condition = CONDITIONS[job.settings["condition"]]
        instances = _instances(args.results, job) or _wanted(job)
        instances = {cut: n for cut, n in instances.items() if cut[0] in condition.tasks}
        requests = sum(instances.values())
        side = job.settings["max_image_side"]
        picture = side * side * ASPECT / PIXELS_A_TOKEN
        shown = {name: len(condition.shown([""] * PICTURES.get(name, 2))) for _, name in instances}
        given = sum(n * (PROMPT_CHARACTERS / CHARACTERS_A_TOKEN + shown[name] * picture) for (_, name), n in instances.items())
        written = requests * ANSWER_TOKENS
        price = prices.get(job.settings["model"])
        cost = price.usd({"input_tokens": given, "output_tokens": written}) if price else None
        total += cost or 0.0
        unknown += [] if price else [job.settings["model"]]
        print(f"{job.label:<48} {requests:>9,} {given:>13,.0f} {written:>9,.0f} {'unknown' if cost is None else f'{cost:.2f}':>9}")
    if not mined:
        print("nothing is mined yet, so these are the quotas: at most so much")
    missing = f"{', '.join(sorted(set(unknown)))}: no price in {args.prices}"
    print(
        f"about {total:.2f} USD" + (f", and what has no price ({missing})" if unknown else "")
        if total or not unknown
        else f"cost unknown ({missing})"
    )
    cap = config.inference.budget_usd
    if cap is not None:
        print(f"inference.budget_usd stops each model at {cap:.2f} USD")
    return 0


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
