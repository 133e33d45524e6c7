"""``evoaudit validate``: check a config, a folder of logs or a label file before a run does."""

import argparse
from collections import Counter
from pathlib import Path

from evoaudit.errors import InputError, one_line
from evoaudit.stages import configured


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this subcommand's arguments."""
    parser.add_argument("path", type=Path, help="a config (.yaml), a label file (.jsonl or .csv), or a folder of trajectories")
    parser.add_argument("--kind", default="plain", help="native format of a folder (default: plain)")
    parser.add_argument("--root", help="folder that relative source paths start from, for a config")


def run(args: argparse.Namespace) -> int:
    """Print what is wrong, a line each; exit with 1 on findings."""
    if not args.path.exists():
        raise InputError(args.path, "no such file or folder", "give the path of a config, a label file or a folder")
    if args.path.is_dir():
        return _folder(args.path, args.kind)
    if args.path.suffix in (".yaml", ".yml"):
        return _config(args)
    if args.path.suffix in (".jsonl", ".csv"):
        return _labels(args.path)
    raise InputError(args.path, f"do not know how to check a '{args.path.suffix}' file", "give .yaml, .jsonl, .csv or a folder")


def _config(args: argparse.Namespace) -> int:
    from evoaudit import plan as plans

    args.configfile, args.results = [args.path], Path("results")
    plan = plans.build(configured.load(args), args.results)
    print(f"{args.path}: valid, {len(plan.jobs)} jobs")
    return 0


def _folder(root: Path, kind: str) -> int:
    """Read the folder as a run would, and print every record a run would leave out."""
    import tempfile

    from evoaudit.normalise import Source, normalise
    from evoaudit.sources import MODULES
    from evoaudit.store import Counts, read_rows, read_table

    if kind not in MODULES:
        raise InputError(f"--kind {kind}", "no such kind", f"one of {', '.join(sorted(MODULES))}")
    counts = Counts("normalise")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        normalise(folder, counts, Source("validated", kind, root))
        drops = [row for row in read_rows(folder, "drops") if row["unit"] != "transition"]
        steps = read_table(folder, "steps", ["op", "op_raw"]).to_pylist()
        images = Counter(read_table(folder, "images", ["status"])["status"].to_pylist())
    for row in drops:
        print(one_line(f"{row['item']}: {row['unit']} {row['reason']}" + (f" ({row['detail']})" if row["detail"] else "")))
    unknown = Counter((row["op_raw"] or "").split("(")[0][:40] for row in steps if row["op"] == "other")
    for verb, n in sorted(unknown.items()):
        print(one_line(f"action '{verb}' is none the {kind} reader knows ({n} steps): its screens count, its action does not"))
    kept = f"{counts.kept['trajectory']} trajectories with {counts.kept['step']} steps and {images['ok']} different pictures"
    print(f"{root}: {kept} can be read, {len(drops)} records cannot; {counts.kept['transition']} steps lie between two usable screens")
    return int(bool(drops or unknown))


def _labels(path: Path) -> int:
    from evoaudit import labels

    rows = labels.read(path)
    print(f"{path}: valid, {len(rows)} labels")
    return 0
