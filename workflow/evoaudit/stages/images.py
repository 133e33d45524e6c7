"""Prepare the pictures of the probes, or of the audit sample, for one maximum side."""

import argparse
from pathlib import Path

from evoaudit.stages import common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the stage's arguments."""
    common.arguments(parser)
    parser.add_argument("--mined", nargs="*", default=[], metavar="MANIFEST", help="manifest of the mined probes")
    parser.add_argument("--sample", nargs="*", default=[], metavar="MANIFEST", help="manifest of the sample stage, for all its screenshots")
    common.sources(parser)


def run(args: argparse.Namespace) -> None:
    """Run the stage."""
    from evoaudit import prepare, store
    from evoaudit.errors import InputError

    side = args.settings.get("max_image_side")
    if not isinstance(side, int) or isinstance(side, bool) or side < 1:
        raise InputError("--settings: max_image_side", f"{side!r} is no number of pixels", 'give e.g. {"max_image_side": 512}')
    if not args.mined and not args.sample:
        raise InputError("--mined", "is missing, and so is --sample", "say whose pictures are wanted")
    normalised = [common.folder_of(path) for path in args.normalised]
    with common.stage(args, "images", "picture") as (folder, counts):
        wanted = {image for path in args.mined for image in _of_probes(common.folder_of(path))}
        for path in args.sample:
            shown, lost = _of_sample(common.folder_of(path), normalised)
            wanted |= shown
            for image in sorted(lost):
                counts.drop("picture", "", image, "not_readable")
        places = prepare.find(normalised, common.roots(args.root), wanted)
        counts.keep("picture", prepare.write(folder, places, side, max(1, args.threads)))
        store.write_table(folder, "drops", counts.rows)


def _of_probes(mined: Path) -> set[str]:
    """Return every picture the probes show."""
    import pyarrow.compute as pc

    from evoaudit import store

    tables = (store.read_table(mined, task, ["images"])["images"] for task in ("t1", "t2", "t3"))
    return {image for images in tables for image in pc.unique(pc.list_flatten(images)).to_pylist()}


def _of_sample(sample: Path, normalised: list[Path]) -> tuple[set[str], set[str]]:
    """Return the screenshots of the trajectories that are analysed: those that can be read, and those that cannot."""
    from evoaudit import store
    from evoaudit.audit import evidence

    rows = store.read_rows(sample, "sample", ["trajectory_id", "status"])
    wanted = evidence.referenced(normalised, {row["trajectory_id"] for row in rows if row["status"] == "analysed"})
    readable = set(evidence.sizes(normalised, wanted))
    return readable, wanted - readable
