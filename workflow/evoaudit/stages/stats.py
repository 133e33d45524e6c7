"""Compute every table's numbers."""

import argparse
from pathlib import Path

from evoaudit.errors import InputError
from evoaudit.stages import common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.arguments(parser)
    for name, help_text in (("normalised", "normalise"), ("predictions", "infer"), ("judgments", "judge")):
        parser.add_argument(f"--{name}", nargs="*", default=[], metavar="MANIFEST", help=f"manifests of the {help_text} stage")
    parser.add_argument(
        "--controls", nargs="*", default=[], metavar="MANIFEST", help="manifests of normalised controls, for the alignment check alone"
    )
    for name, help_text in (
        ("mined", "mine"),
        ("scores", "score"),
        ("sample", "sample"),
        ("signals", "signals"),
        ("review", "select"),
        ("final", "combine"),
    ):
        parser.add_argument(
            f"--{name}", nargs="*", default=[], metavar="MANIFEST", help=f"manifest of the {help_text} stage, if there is one"
        )


def run(args: argparse.Namespace) -> int | None:
    from evoaudit.tables.build import build
    from evoaudit.tables.files import write
    from evoaudit.tables.inputs import Folders, Run

    several = {name: tuple(map(common.folder_of, getattr(args, name))) for name in ("normalised", "controls", "predictions", "judgments")}
    single = {name: _one(name, getattr(args, name)) for name in ("mined", "scores", "sample", "signals", "review", "final")}
    with common.stage(args, "stats", "table") as (folder, counts):
        counts.keep("table", write(folder, build(Run(Folders(**several, **single), args.settings, args.seed or 0))))
    return None


def _one(name: str, manifests: list[str]) -> Path | None:
    if len(manifests) > 1:
        raise InputError(f"--{name}", f"{len(manifests)} manifests given", "give one")
    return common.folder_of(manifests[0]) if manifests else None
