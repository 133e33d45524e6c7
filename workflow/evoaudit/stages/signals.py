"""Scan every trajectory for steps without effect and for what the log itself says about its verdict."""

import argparse

from evoaudit.errors import InputError
from evoaudit.stages import common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.arguments(parser)
    parser.add_argument("--normalised", nargs="+", required=True, metavar="MANIFEST", help="manifests of the normalise stage")


def run(args: argparse.Namespace) -> int | None:
    from evoaudit.audit import noop, signals
    from evoaudit.audit.episodes import episodes, oracles
    from evoaudit.store import TableWriter

    runs = args.settings.get("runs", [2, 3, 4, 5, 8])
    if not isinstance(runs, list) or not runs or not all(type(r) is int and r >= 2 for r in runs):
        raise InputError("signals --settings", f"runs: {runs!r}", "give run lengths of at least 2")
    folders = [common.folder_of(manifest) for manifest in args.normalised]
    with common.stage(args, "signals", "trajectory") as (folder, counts):
        released = oracles(folders)
        with TableWriter(folder, "signals") as fired, TableWriter(folder, "noops") as steps:
            for episode in episodes(folders, scratch=args.out):
                found = noop.probe(episode)
                steps.extend(found.rows)
                fired.extend(signals.signals(episode, released.get(episode.id, []), found, runs))
                counts.keep("trajectory")
                counts.keep("step", len(found.rows))
    return None
