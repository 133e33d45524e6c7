"""Build the report: a folder of static pages that opens without a server."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from evoaudit.errors import InputError
from evoaudit.stages import common

if TYPE_CHECKING:
    from evoaudit.report.items import ItemSet
    from evoaudit.report.load import Inputs


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
        ("sets", "probes of further sets"),
        ("set-images", "pictures of further sets as models saw them"),
        ("set-scores", "scored answers of further sets"),
        ("set-predictions", "raw answers of further sets"),
    ):
        parser.add_argument(f"--{name}", nargs="*", action="extend", default=[], metavar="MANIFEST", help=words)
    parser.add_argument(
        "--root", nargs="*", action="extend", default=[], metavar="NAME=PATH", help="the sources' own folders, where pictures are"
    )
    parser.add_argument("--prompts", type=Path, metavar="DIR", help="folder of the prompts the models were asked with")


def run(args: argparse.Namespace) -> None:
    """Write every page with its pictures, the instance browser where there are probes, and ``summary.json``."""
    from evoaudit.report import items
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
    sets = _item_sets(args, inputs)
    with common.stage(args, "report", "page") as (folder, counts):
        totals = build(
            folder,
            inputs,
            name=str(args.settings.get("name") or "run"),
            title=args.settings.get("title"),
            max_items=int(args.settings.get("max_items", 24)),
            seed=args.seed,
            threads=args.threads,
            items=bool(sets),
        )
        text = json.dumps(totals, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        (folder / "summary.json").write_text(text, encoding="utf-8")
        counts.keep("page")
        if not sets:
            return
        browsed = items.build(
            folder,
            sets,
            inputs.stats,
            name=str(args.settings.get("name") or "run"),
            seed=args.seed or 0,
            prompt_folder=args.prompts,
            max_pictures_mb=args.settings.get("max_pictures_mb"),
        )
        counts.keep("item", browsed["items"])
        counts.keep("picture", browsed["pictures"])
        for reason in items.REASONS:
            counts.drop_many("picture", reason, browsed[reason])


def _item_sets(args: argparse.Namespace, inputs: "Inputs") -> list["ItemSet"]:
    """Bring together the folders of the paper's set and of each further one: what belongs to a set names its probes by their key."""
    from evoaudit.report.items import ItemSet
    from evoaudit.store import read_manifest

    main = [ItemSet("", inputs.mined, next(iter(inputs.images), None), inputs.scores, inputs.predictions)] if inputs.mined else []
    found: dict[str, dict[str, list[Path]]] = {"images": {}, "scores": {}, "predictions": {}}
    for kind, by_key in found.items():
        for folder in map(common.folder_of, getattr(args, f"set_{kind}")):
            for key in read_manifest(folder)["upstream"].get("mine", ()):
                by_key.setdefault(key, []).append(folder)
    others = []
    for folder in map(common.folder_of, args.sets):
        manifest = read_manifest(folder)
        images, scores, predictions = (by_key.get(manifest["key"], []) for by_key in found.values())
        name = str(manifest["config"].get("set") or folder.name)
        others.append(ItemSet(name, folder, next(iter(images), None), next(iter(scores), None), tuple(predictions)))
    return main + sorted(others, key=lambda one: one.name)
