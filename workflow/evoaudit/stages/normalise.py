"""Read one source into the shared schema."""

import argparse
from pathlib import Path

from evoaudit.stages import common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the stage's arguments."""
    common.arguments(parser)
    parser.add_argument("--root-folder", type=Path, required=True, metavar="PATH", help="folder that holds the source's own files")
    parser.add_argument("--truth", type=Path, metavar="FILE", help="planted truth of a simulated corpus (JSON Lines)")
    parser.add_argument("--tasks", type=Path, metavar="FILE", help="known answers: task_id, reference, infeasible (JSON Lines)")


def run(args: argparse.Namespace) -> None:
    """Run the stage."""
    from evoaudit import known
    from evoaudit.errors import InputError
    from evoaudit.normalise import Source, normalise

    settings = args.settings
    for name in ("source", "kind"):
        if not isinstance(settings.get(name), str) or not settings[name]:
            raise InputError("--settings", f"'{name}' is missing", 'give e.g. {"source": "own", "kind": "plain"}')
    if not isinstance(settings.get("options") or {}, dict):
        raise InputError("--settings", "'options' is not a JSON object", 'give e.g. {"domain": "shop"}')
    source = Source(
        settings["source"],
        settings["kind"],
        args.root_folder,
        bool(settings.get("simulated")),
        settings.get("options") or {},
        args.tasks,
        args.truth,
    )
    earlier = known.beside(args.out, source.name, source.kind)
    with common.stage(args, "normalise", "trajectory") as (folder, counts):
        normalise(folder, counts, source, max(1, args.threads), earlier)
        _still(args)


def _still(args: argparse.Namespace) -> None:
    """Refuse a folder that is not, or no longer, what the key was made of: files that vanish would be missing from the results for good."""
    from evoaudit.errors import InputError
    from evoaudit.fingerprint import fingerprint

    contents = args.settings.get("contents")
    if contents in (None, "absent") or args.upstream.get("download"):
        return
    memory = args.out.absolute().parents[1] / ".fingerprints"
    if fingerprint(args.root_folder, memory if memory.is_dir() else None) != contents:
        raise InputError(
            f"source '{args.settings['source']}'",
            f"files in {args.root_folder} changed or vanished since the run was planned",
            "see that the folder is whole, and run again",
        )
