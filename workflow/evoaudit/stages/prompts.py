"""``evoaudit prompts import PAPER.txt``: the paper's verbatim templates from your own copy of its text."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``prompts``."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    importer = actions.add_parser("import", help="extract the prompt tables (EvoGUI, Tables 10 to 12) into a folder that git ignores")
    importer.add_argument("paper", type=Path, metavar="PAPER.txt", help="the paper's text, UTF-8")
    importer.add_argument("--out", type=Path, default=Path("resources/prompts/imported"), help="folder the new prompt folder goes into")
    importer.add_argument("--name", default="evogui-paper", help="name of the new prompt folder, for the config field inference.prompts")


def run(args: argparse.Namespace) -> int:
    """Run the chosen action."""
    from evoaudit import prompts

    folder = prompts.import_paper(args.paper, args.out, args.name)
    print(f"{folder}: T1, T2 and T3 written (sha256 {prompts.digest(folder)[:12]})")
    print(f"to use them, set in the config:  inference: {{prompts: {args.name}}}")
    return 0
