"""Write the pages on which people judge trajectories, one folder a group of annotators."""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evoaudit import joblog
from evoaudit.errors import InputError
from evoaudit.stages import common

if TYPE_CHECKING:
    from evoaudit.review.replay import Page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the stage's arguments."""
    common.arguments(parser)
    parser.add_argument("--review", required=True, metavar="MANIFEST", help="manifest of the select stage")
    parser.add_argument("--sample", required=True, metavar="MANIFEST", help="manifest of the sample stage")
    inputs(parser)


def inputs(parser: argparse.ArgumentParser) -> None:
    """Add where trajectories and their pictures are."""
    common.sources(parser, required=False)


def run(args: argparse.Namespace) -> None:
    """Run the stage."""
    from evoaudit.review import replay

    groups = args.settings.get("groups")
    if not isinstance(groups, list) or not groups or not all(isinstance(group, str) for group in groups):
        raise InputError("replay --settings", f"groups: {groups!r}", "give a list of names")
    chosen, practice = selected(args.review), calibration(args.sample)
    with common.stage(args, "replay", "item") as (folder, counts):
        pages = [replay.page(group, args.seed or 0, chosen, practice) for group in groups]
        counts.keep("item", build(args, folder, pages)["items"])


def selected(review: str) -> list[str]:
    """Return the trajectories of the review set."""
    from evoaudit.store import read_rows

    return [row["trajectory_id"] for row in read_rows(common.folder_of(review), "review_set") if row["selected"]]


def calibration(sample: str | None) -> list[str]:
    """Return the trajectories that were set aside for calibration."""
    from evoaudit.store import read_rows

    if sample is None:
        return []
    rows = read_rows(common.folder_of(sample), "sample", ["trajectory_id", "status"])
    return [row["trajectory_id"] for row in rows if row["status"] == "calibration"]


def build(args: argparse.Namespace, folder: Path, pages: Sequence["Page"]) -> Counter[str]:
    """Write pages and their key files; return what was counted."""
    from evoaudit.review import replay

    if not args.normalised:
        raise InputError("--normalised", "no source was given", "give the manifests of the normalised sources")
    folders = [common.folder_of(path) for path in args.normalised]
    counts = replay.build(folder, pages, folders, common.roots(args.root), args.threads)
    if counts["gone"]:
        joblog.say(f"{counts['gone']:,} pictures are gone since the sources were read, or cannot be shown; the pages say where")
    return counts
