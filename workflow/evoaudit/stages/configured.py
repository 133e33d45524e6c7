"""Arguments of the subcommands that read a config themselves, as people call them."""

import argparse
from pathlib import Path

from evoaudit import config as configs
from evoaudit.config import Config

DEFAULT = Path("config/config.yaml")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a config."""
    parser.add_argument(
        "--configfile",
        nargs="+",
        type=Path,
        default=[DEFAULT],
        metavar="FILE",
        help=f"config files, later over earlier (default: {DEFAULT})",
    )
    parser.add_argument("--root", help="folder that relative source paths start from (as --config root=… of snakemake)")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the results (default: results)")


def load(args: argparse.Namespace) -> Config:
    """Read the config the arguments name."""
    tree: dict = {}
    for path in args.configfile:
        configs.merge(tree, configs.read_yaml(path))
    if args.root is not None:
        tree["root"] = args.root
    return configs.check(tree, args.configfile)
