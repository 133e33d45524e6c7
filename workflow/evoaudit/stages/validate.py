"""``evoaudit validate``: check a config, a folder of logs or a label file before a run does."""

import argparse
from collections import Counter
from pathlib import Path

from evoaudit.errors import InputError
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
    from evoaudit.sources import MODULES, reader
    from evoaudit.sources.base import Skipped, Trajectory

    if kind not in MODULES:
        raise InputError(f"--kind {kind}", "no such kind", f"one of {', '.join(sorted(MODULES))}")
    good = steps = 0
    findings: Counter[str] = Counter()
    for record in reader(kind).read(root, {}):
        if isinstance(record, Skipped):
            findings[record.reason] += 1
            print(f"{record.item}: {record.reason}" + (f" ({record.detail})" if record.detail else ""))
        elif isinstance(record, Trajectory):
            good, steps = good + 1, steps + len(record.steps)
            for unit, item, reason, detail in record.skipped:
                findings[reason] += 1
                print(f"{item}: {unit} {reason}" + (f" ({detail})" if detail else ""))
    print(f"{root}: {good} trajectories with {steps} steps can be read, {sum(findings.values())} records cannot")
    if not good:
        raise InputError(root, f"holds no {kind} trajectory", "check the folder and --kind")
    return int(bool(findings))


def _labels(path: Path) -> int:
    from evoaudit import labels

    rows = labels.read(path)
    print(f"{path}: valid, {len(rows)} labels")
    return 0
