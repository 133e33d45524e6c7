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
    for name, stage in (("sets", "mine"), ("set-predictions", "infer"), ("set-scores", "score")):
        parser.add_argument(
            f"--{name}", nargs="*", default=[], metavar="MANIFEST", help=f"manifests of the {stage} stage of further sets of probes"
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
    parser.add_argument("--measured", type=Path, metavar="CSV", help="what logs do not hold: dollars, seconds and critical windows")


def run(args: argparse.Namespace) -> int | None:
    from evoaudit import measured
    from evoaudit.tables.build import build
    from evoaudit.tables.files import write
    from evoaudit.tables.inputs import Folders, Run

    several = {name: tuple(map(common.folder_of, getattr(args, name))) for name in ("normalised", "controls", "predictions", "judgments")}
    single = {name: _one(name, getattr(args, name)) for name in ("mined", "scores", "sample", "signals", "review", "final")}
    given = measured.read(args.measured) if args.measured is not None else {}
    with common.stage(args, "stats", "table") as (folder, counts):
        data = Run(Folders(**several, **single, sets=_sets(args)), args.settings, args.seed or 0, given)
        counts.keep("table", write(folder, build(data)))
        for one in given:
            if one in data.trajectories:
                counts.keep("measurement")
            else:
                counts.drop("measurement", "", one, "unknown_trajectory")
    return None


def _sets(args: argparse.Namespace) -> tuple:
    """Bring together the folders of each further set: answers and scores name the probes they are of by their key."""
    from evoaudit.store import read_manifest
    from evoaudit.tables.inputs import Set

    def of(manifests: list[str]) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = {}
        for folder in map(common.folder_of, manifests):
            for key in read_manifest(folder)["upstream"].get("mine", ()):
                found.setdefault(key, []).append(folder)
        return found

    asked, scored = of(args.set_predictions), of(args.set_scores)
    sets = []
    for folder in map(common.folder_of, args.sets):
        manifest = read_manifest(folder)
        name = str(manifest["config"].get("set") or folder.name)
        sets.append(Set(name, folder, next(iter(scored.get(manifest["key"], ())), None), tuple(asked.get(manifest["key"], ()))))
    return tuple(sorted(sets, key=lambda one: one.name))


def _one(name: str, manifests: list[str]) -> Path | None:
    if len(manifests) > 1:
        raise InputError(f"--{name}", f"{len(manifests)} manifests given", "give one")
    return common.folder_of(manifests[0]) if manifests else None
