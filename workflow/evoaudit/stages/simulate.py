"""Write a simulated corpus with a known truth in the native formats."""

import argparse

from evoaudit.errors import InputError
from evoaudit.stages import common

VERSION = 1
NAME = "simulate"

#: Seed of a corpus made by hand without one.
DEFAULT_SEED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    common.arguments(parser)
    parser.add_argument("--trajectories", type=int, default=200, metavar="N", help="trajectories in all (default 200)")
    parser.add_argument("--formats", default="", metavar="A,B", help="native formats to write, separated by commas (default: all)")


def run(args: argparse.Namespace) -> int:
    """Write the corpus."""
    from evoaudit.simulate import corpus

    formats = [name.strip() for name in args.formats.split(",") if name.strip()] or list(corpus.FORMATS)
    for name in formats:
        if name not in corpus.FORMATS:
            raise InputError("--formats", f"unknown format '{name}'", f"choose from {', '.join(corpus.FORMATS)}")
    if args.trajectories < 1:
        raise InputError("--trajectories", f"{args.trajectories} is less than 1", "give a positive number, for instance 200")
    if args.seed is None:
        args.seed = DEFAULT_SEED
    with common.stage(args, NAME, VERSION, "trajectory", deep=False) as (folder, counts):
        made = corpus.write(folder, args.trajectories, args.seed, formats, args.threads)
        counts.keep("trajectory", made["trajectories"])
    print(f"{made['trajectories']} trajectories: " + ", ".join(f"{name} {n}" for name, n in made["formats"].items()))
    return 0
