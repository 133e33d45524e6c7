"""``evoaudit infer``: ask one model under one condition."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from evoaudit import joblog
from evoaudit.conditions import CONDITIONS, TASKS
from evoaudit.errors import InputError, one_line
from evoaudit.stages import common

#: Rows that are written at a time, fewer than elsewhere: many of these jobs run at once.
_GROUP = 512
#: Settings without which there is nothing to ask.
_NEEDED = ("name", "provider", "condition", "max_image_side")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``infer``."""
    common.arguments(parser)
    parser.add_argument("--mined", required=True, metavar="MANIFEST", help="the probes")
    parser.add_argument("--images", metavar="MANIFEST", help="the prepared pictures; not needed where no picture is shown")
    parser.add_argument("--prompts", type=Path, required=True, metavar="DIR", help="prompt folder")
    parser.add_argument("--prices", type=Path, metavar="FILE", help="USD per million tokens, where the settings give no price")
    parser.add_argument(
        "--served", nargs="*", type=Path, default=[], metavar="FILE", help="state of the server that was started for this job"
    )
    parser.add_argument(
        "--in-flight", nargs="+", type=int, default=[], metavar="N", help="bound on the requests in flight, the largest of these"
    )
    parser.add_argument("--shelf", type=Path, metavar="DIR", help="folder of good answers that runs share")


def run(args: argparse.Namespace) -> int | None:
    """Write ``predictions.parquet``; the journal beside it outlives a run that fails."""
    from evoaudit import prompts, store
    from evoaudit.infer import prices
    from evoaudit.infer.base import OK, count
    from evoaudit.infer.predict import predicting
    from evoaudit.infer.progress import Progress
    from evoaudit.probes.vocabulary import vocabulary_of

    store.frugal()
    words = vocabulary_of(common.folder_of(args.mined))
    settings = {"model": args.settings.get("name"), "vocabulary": words, **args.settings}
    for name in _NEEDED:
        if settings.get(name) is None:
            raise InputError("--settings", f"has no '{name}'", f"give {', '.join(_NEEDED)}")
    if (most := max(args.in_flight, default=0)) and settings.get("concurrency"):
        settings["concurrency"] = min(settings["concurrency"], most)
    prompt_set = prompts.load(args.prompts)
    prompts.check(prompt_set, settings["condition"], settings.get("goal", "shown"))
    probes = {task: store.Rows(common.folder_of(args.mined), task) for task in TASKS}
    pictures = _pictures(args, settings)
    price_list = prices.load(args.prices) if args.prices else None

    def say(line: str) -> None:
        joblog.say(f"{settings['name']}: {line}")

    def rewrite(line: str) -> None:
        print(f"\r{one_line(settings['name'])}: {one_line(line)}\x1b[K", end="", file=sys.stderr, flush=True)

    args.out.mkdir(parents=True, exist_ok=True)
    for file in args.served:
        from evoaudit.stages.serve import wait

        say("waiting for its server")
        wait(file, settings["name"], (settings.get("serve") or {}).get("ready_s", 600.0))
    ended: Counter[str] = Counter()

    def told(rows: Iterable[dict]) -> Iterator[dict]:
        for row in rows:
            ended[row["status"]] += 1
            yield row

    with (
        predicting(
            settings,
            probes,
            pictures,
            prompt_set,
            out=args.out,
            prices=price_list,
            seed=args.seed,
            threads=args.threads,
            say=say,
            progress=Progress(rewrite, live=True) if sys.stderr.isatty() else Progress(say),
            shelf=args.shelf,
        ) as rows,
        common.stage(args, "infer", "prediction") as (folder, counts),
    ):
        counts.keep("prediction", store.write_table(folder, "predictions", told(rows), group=_GROUP))
    kept, n = ended.pop(OK, 0), ended.total()
    if ended:
        say(f"{kept} of {kept + n} answered; without an answer: {count(ended.elements())}")
    return None


def _pictures(args: argparse.Namespace, settings: dict) -> object | None:
    """Open the prepared pictures where the model, or the solver, looks at any."""
    if CONDITIONS[settings["condition"]].pictures == "none" or (
        settings["provider"] == "builtin" and settings["model"] in ("random", "majority", "simulated")
    ):
        return None
    if args.images is None:
        raise InputError(
            "--images", f"is missing, and condition '{settings['condition']}' shows pictures", "give the manifest of the images stage"
        )
    from evoaudit.prepared import Pictures

    return Pictures(common.folder_of(args.images))
