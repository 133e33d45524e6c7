"""``evoaudit status``: how far a run is, from files alone, also while it runs and from another machine."""

import argparse
import json
import sys
import time
from pathlib import Path

from evoaudit.errors import InputError

#: Seconds between two looks.
EVERY = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this subcommand's arguments."""
    parser.add_argument("run_name", nargs="?", metavar="RUN", help="name of the run (default: the one started last)")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="folder of the results (default: results)")
    parser.add_argument("--watch", action="store_true", help="say it again every two seconds until the run ends")
    parser.add_argument("--json", metavar="FILE", help="write the state as JSON to a file, - for the output, instead of saying it")


def run(args: argparse.Namespace) -> int:
    """Say how far a run is; exit with 1 if something failed."""
    from evoaudit.watch import keep, summary
    from evoaudit.watch.run import Seen, look, runs

    name = args.run_name or next(iter(runs(args.results)), None)
    if name is None:
        raise InputError(args.results / ".plans", "holds no plan, so no run was started here", "give --results")
    name, seen = Path(name).name, Seen()
    while True:
        state = look(args.results, name, seen=seen)
        if args.json == "-":
            print(json.dumps(state), flush=True)
        elif args.json:
            keep.put(Path(args.json), state)
        else:
            clear = "\x1b[H\x1b[J" if args.watch and sys.stdout.isatty() else ""
            print(clear + "\n".join(summary.lines(args.results, state)), flush=True)
        if not args.watch or state["state"] != "running":
            return int(bool(state["failures"]))
        time.sleep(EVERY)
