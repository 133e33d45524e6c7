"""``evoaudit keys``: every stage key a config uses, in words."""

import argparse
import json

from evoaudit import plan as plans
from evoaudit.stages import configured


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this subcommand's arguments."""
    configured.arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Print stage, key, whether its folder is finished, and its meaning."""
    plan = plans.build(configured.load(args), args.results)
    rows = plans.keys_in_words(plan)
    for row in rows:
        row["finished"] = (args.results / row["stage"] / row["key"] / "manifest.json").is_file()
    if args.json:
        print(json.dumps(rows, indent=1, ensure_ascii=False, sort_keys=True))
        return 0
    width = max(len(row["key"]) for row in rows)
    for row in rows:
        print(f"{row['stage']:<10} {row['key']:<{width}} {'finished' if row['finished'] else 'to do   '} {row['meaning']}")
    return 0
