"""``evoaudit gc``: results that no plan uses; lists them unless told to delete."""

import argparse
import json
import shutil
from pathlib import Path

from evoaudit import plan as plans
from evoaudit.errors import InputError, one_line
from evoaudit.identity import FORMAT
from evoaudit.stages import configured


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this subcommand's arguments."""
    parser.add_argument(
        "--configfile",
        nargs="+",
        type=Path,
        default=None,
        metavar="FILE",
        help="keep only what this config uses (default: what any run in results/.plans uses)",
    )
    parser.add_argument("--root", help="folder that relative source paths start from")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the results (default: results)")
    parser.add_argument("--delete", action="store_true", help="remove what is listed; without it nothing is touched")
    parser.add_argument(
        "--answers", action="store_true", help="with --delete, remove the answers of models too; they would have to be bought again"
    )


def run(args: argparse.Namespace) -> int:
    """List (or delete) stage folders whose key is not in use."""
    if not args.results.is_dir():
        raise InputError(args.results, "no such folder", "run from the folder that holds results/, or give --results")
    used = _used(args)
    total = 0
    for stage in FORMAT:
        for folder in sorted(path for path in (args.results / stage).glob("*") if path.is_dir()):
            if (stage, folder.name) in used:
                continue
            size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            if _bought(folder) and not args.answers:
                print(f"kept    {_size(size):>9}  {one_line(str(folder))}  answers of a model; --answers removes them too")
                continue
            total += size
            print(f"{'removed' if args.delete else 'unused'}  {_size(size):>9}  {one_line(str(folder))}")
            if args.delete:
                shutil.rmtree(folder)
                for kind, end in (("logs", "log"), ("logs", "json"), ("benchmarks", "jsonl")):
                    (args.results / kind / stage / f"{folder.name}.{end}").unlink(missing_ok=True)
    print(f"{_size(total)} {'removed' if args.delete else 'not in use' + ('; --delete removes it' if total else '')}")
    return 0


def _used(args: argparse.Namespace) -> set[tuple[str, str]]:
    if args.configfile:
        rows = plans.keys_in_words(plans.build(configured.load(args), args.results))
    else:
        files = sorted((args.results / ".plans").glob("*.json"))
        if not files:
            raise InputError(
                args.results / ".plans", "holds no plan, so everything would count as unused", "run the workflow once, or give --configfile"
            )
        rows = [row for file in files for row in json.loads(file.read_text(encoding="utf-8"))]
    return {(row["stage"], row["key"]) for row in rows}


def _bought(folder: Path) -> bool:
    """Tell whether a folder holds answers that were, or may have been, paid for."""
    if not (folder / "predictions.parquet").is_file() and not (folder / "judgments.parquet").is_file():
        return (folder / "journal.jsonl").is_file()
    try:
        return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["config"]["provider"] != "builtin"
    except (OSError, ValueError, KeyError, TypeError):
        return True


def _size(n: int) -> str:
    value, unit = float(n), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
