"""Write a simulated corpus with a known truth in the native formats."""

import argparse

from evoaudit.errors import InputError
from evoaudit.stages import common

NAME = "simulate"

#: Seed and size of a corpus made by hand without them.
DEFAULT_SEED = 1
DEFAULT_SIZE = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    common.arguments(parser)
    parser.add_argument("--trajectories", type=int, metavar="N", help=f"trajectories in all (default {DEFAULT_SIZE})")
    parser.add_argument(
        "--injections", action="store_true", help="plant orders to a judge in some trajectories of agents, as a trap whose place is known"
    )
    parser.add_argument("--formats", metavar="A,B", help="native formats to write, separated by commas (default: all)")


def run(args: argparse.Namespace) -> int:
    """Write the corpus."""
    from evoaudit.simulate import corpus

    formats = args.settings.get("formats") or list(corpus.FORMATS)
    if args.formats is not None:
        formats = [name.strip() for name in args.formats.split(",") if name.strip()]
    for name in formats:
        if name not in corpus.FORMATS:
            raise InputError("--formats", f"unknown format '{name}'", f"choose from {', '.join(corpus.FORMATS)}")
    trajectories = args.settings.get("trajectories", DEFAULT_SIZE) if args.trajectories is None else args.trajectories
    if trajectories < 1:
        raise InputError("--trajectories", f"{trajectories} is less than 1", "give a positive number, for instance 200")
    injections = args.injections or bool(args.settings.get("injections", False))
    args.settings = {"trajectories": trajectories, "formats": formats, **({"injections": True} if injections else {})}
    if args.seed is None:
        args.seed = DEFAULT_SEED
    with common.stage(args, NAME, "trajectory", deep=False) as (folder, counts):
        made = corpus.write(folder, trajectories, args.seed, formats, args.threads, injections)
        counts.keep("trajectory", made["trajectories"])
    print(f"{made['trajectories']} trajectories: " + ", ".join(f"{name} {n}" for name, n in made["formats"].items()))
    return 0
