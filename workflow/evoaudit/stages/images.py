"""Prepare the pictures of the probes for one maximum side."""

import argparse

from evoaudit.stages import common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the stage's arguments."""
    common.arguments(parser)
    parser.add_argument("--mined", required=True, metavar="MANIFEST", help="manifest of the mined probes")
    parser.add_argument(
        "--normalised", nargs="+", action="extend", required=True, metavar="MANIFEST", help="manifests of the normalised sources"
    )
    parser.add_argument("--root", nargs="+", action="extend", default=[], metavar="SOURCE=PATH", help="folders of the sources' own files")


def run(args: argparse.Namespace) -> None:
    """Run the stage."""
    import pyarrow.compute as pc

    from evoaudit import prepare, store
    from evoaudit.errors import InputError

    side = args.settings.get("max_image_side")
    if not isinstance(side, int) or isinstance(side, bool) or side < 1:
        raise InputError("--settings: max_image_side", f"{side!r} is no number of pixels", 'give e.g. {"max_image_side": 512}')
    mined = common.folder_of(args.mined)
    wanted = {
        image
        for task in ("t1", "t2", "t3")
        for image in pc.unique(pc.list_flatten(store.read_table(mined, task, ["images"])["images"])).to_pylist()
    }
    with common.stage(args, "images", "picture") as (folder, counts):
        places = prepare.find([common.folder_of(path) for path in args.normalised], common.roots(args.root), wanted)
        counts.keep("picture", prepare.write(folder, places, side, max(1, args.threads)))
        store.write_table(folder, "drops", counts.rows)
