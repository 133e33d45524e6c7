"""Build the report: a folder of static pages that opens without a server."""

import argparse
import json
from pathlib import Path

from evoaudit.errors import InputError
from evoaudit.stages import common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this stage's arguments; every stage but the statistics may be absent."""
    common.arguments(parser)
    parser.add_argument("--stats", required=True, metavar="MANIFEST", help="the run's statistics")
    for name, words in (
        ("tables", "rendered tables, to link to"),
        ("figures", "drawn figures, to show and link to"),
        ("mined", "probes"),
        ("images", "pictures as models saw them"),
        ("scores", "scored answers"),
        ("sample", "audit sample"),
        ("final", "combined labels"),
        ("review", "review set"),
        ("signals", "signals found without a model"),
        ("normalised", "normalised sources"),
        ("predictions", "raw answers"),
        ("judgments", "labels of the judges"),
    ):
        parser.add_argument(f"--{name}", nargs="*", action="extend", default=[], metavar="MANIFEST", help=words)
    parser.add_argument(
        "--root", nargs="*", action="extend", default=[], metavar="NAME=PATH", help="the sources' own folders, where pictures are"
    )


def run(args: argparse.Namespace) -> None:
    """Write ``index.html``, its pictures and ``summary.json``."""
    from evoaudit.report.load import Inputs
    from evoaudit.report.page import build

    def many(name: str) -> tuple[Path, ...]:
        return tuple(common.folder_of(manifest) for manifest in getattr(args, name))

    def one(name: str) -> Path | None:
        given = many(name)
        if len(given) > 1:
            raise InputError(f"--{name}", f"{len(given)} manifests given", "give one")
        return given[0] if given else None

    inputs = Inputs(
        stats=common.folder_of(args.stats),
        tables=one("tables"),
        figures=one("figures"),
        normalised=many("normalised"),
        mined=one("mined"),
        images=many("images"),
        scores=one("scores"),
        predictions=many("predictions"),
        sample=one("sample"),
        final=one("final"),
        review=one("review"),
        signals=one("signals"),
        judgments=many("judgments"),
        roots=common.roots(args.root),
    )
    with common.stage(args, "report", "page") as (folder, counts):
        totals = build(
            folder,
            inputs,
            name=str(args.settings.get("name") or "run"),
            title=args.settings.get("title"),
            max_items=int(args.settings.get("max_items", 24)),
            seed=args.seed,
            threads=args.threads,
        )
        text = json.dumps(totals, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        (folder / "summary.json").write_text(text, encoding="utf-8")
        counts.keep("page")
