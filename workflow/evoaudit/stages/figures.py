"""Draw the figures."""

import argparse

from evoaudit.stages import common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.arguments(parser)
    parser.add_argument("--stats", required=True, metavar="MANIFEST", help="manifest of the stats stage")


def run(args: argparse.Namespace) -> int | None:
    from evoaudit.figures.draw import draw_all

    with common.stage(args, "figures", "figure") as (folder, counts):
        counts.keep("figure", draw_all(common.folder_of(args.stats), folder))
    return None
