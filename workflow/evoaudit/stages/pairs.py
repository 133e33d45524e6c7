"""Write the page on which people look at T3 pairs before a split is final."""

import argparse
from collections import Counter
from pathlib import Path

from evoaudit import joblog
from evoaudit.stages import common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the stage's arguments."""
    common.arguments(parser)
    inputs(parser)


def inputs(parser: argparse.ArgumentParser) -> None:
    """Add what the page is made from."""
    parser.add_argument("--mined", required=True, metavar="MANIFEST", help="manifest of the mine stage")
    common.sources(parser)
    parser.add_argument(
        "--reviewed",
        nargs="+",
        action="extend",
        type=Path,
        default=[],
        metavar="FILE",
        help="decisions made before (JSON Lines); the page starts from them",
    )


def run(args: argparse.Namespace) -> None:
    """Run the stage."""
    with common.stage(args, "pairs", "pair") as (folder, counts):
        counts.keep("pair", build(args, folder).total())


def write(args: argparse.Namespace) -> Counter[str]:
    """Write the page without a stage's manifest; return how many pairs are decided which way, and how many are not."""
    from evoaudit.store import staging

    with staging(args.out) as folder:
        return build(args, folder)


def build(args: argparse.Namespace, folder: Path) -> Counter[str]:
    """Write ``index.html`` and its pictures."""
    from evoaudit.probes import reviewed
    from evoaudit.review import pairs

    decisions = reviewed.read(args.reviewed)
    folders = [common.folder_of(path) for path in args.normalised]
    decided, gone = pairs.build(folder, common.folder_of(args.mined), folders, common.roots(args.root), decisions, args.threads)
    if gone:
        joblog.say(f"{gone:,} pictures are gone since the sources were read, or cannot be shown; the page says where")
    return decided
