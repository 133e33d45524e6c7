"""``evoaudit validate``: check a config, a folder of logs or a label file before a run does."""

import argparse
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
    from evoaudit.normalise import Source, records
    from evoaudit.sources import MODULES, jsonio
    from evoaudit.sources.base import Annotation

    if kind not in MODULES:
        raise InputError(f"--kind {kind}", "no such kind", f"one of {', '.join(sorted(MODULES))}")
    good = steps = answers = findings = 0
    pictures: set[str] = set()

    def drop(unit: str, item: str, reason: str, detail: str | None = None) -> None:
        nonlocal findings
        findings += 1
        print(one_line(f"{item}: {unit} {reason}" + (f" ({detail})" if detail else "")))

    for record in records(Source("source", kind, root), drop):
        if isinstance(record, Annotation):
            answers += 1
            continue
        good, steps = good + 1, steps + len(record[1].steps)
        for step in record[1].steps:
            for picture in (step.before, step.after):
                if picture and picture.load is None and picture.file not in pictures:
                    pictures.add(picture.file)
                    if not jsonio.is_file(root, picture.file):
                        drop("picture", picture.file, "missing", f"no such file in {root}")
    print(f"{root}: {good} trajectories with {steps} steps can be read, {findings} records cannot")
    if not good and not answers:
        raise InputError(root, f"holds no {kind} trajectory", "check the folder and --kind")
    return int(findings > 0)


def _labels(path: Path) -> int:
    from evoaudit import labels

    rows = labels.read(path)
    print(f"{path}: valid, {len(rows)} labels")
    return 0
