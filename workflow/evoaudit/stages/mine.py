"""Mine T1, T2 and T3 probes from the normalised tables of all sources."""

import argparse
from pathlib import Path

from evoaudit.stages import common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the stage's arguments."""
    common.arguments(parser)
    common.sources(parser)
    parser.add_argument(
        "--reviewed",
        nargs="+",
        action="extend",
        type=Path,
        default=[],
        metavar="FILE",
        help="decisions of the T3 quality control (JSON Lines), one file a reviewer",
    )


def run(args: argparse.Namespace) -> None:
    """Run the stage."""
    from evoaudit.errors import InputError
    from evoaudit.probes import corpus, mining, reviewed

    if args.seed is None:
        raise InputError("--seed", "missing", "give a whole number")
    settings = mining.Settings.of(args.settings)
    decisions = reviewed.read(args.reviewed)
    with common.stage(args, "mine", mining.UNIT) as (folder, counts):
        logs = corpus.load([common.folder_of(path) for path in args.normalised])
        mining.mine(folder, counts, logs, common.roots(args.root), settings, args.seed, decisions)
