"""What every stage's subcommand shares: its arguments, its output folder and its manifest."""

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evoaudit.errors import InputError
from evoaudit.identity import FORMAT
from evoaudit.store import Counts, staging, write_manifest


class _Added(argparse.Action):
    """Add a mapping to what the option gave before."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), **values})


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments every stage takes."""
    parser.add_argument(
        "--settings",
        type=settings,
        action=_Added,
        default={},
        metavar="JSON",
        help="this stage's slice of the config, defaults filled in, or `@` and a file that holds it; what is given again is added",
    )
    parser.add_argument("--seed", type=int, default=None, help="seed of this stage's random streams")
    parser.add_argument("--key", default="", help="this stage's key, for the manifest")
    parser.add_argument("--upstream", type=settings, default={}, metavar="JSON", help="upstream stage → keys, for the manifest")
    parser.add_argument("--threads", type=int, default=1, help="worker threads; never changes the output")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")


def sources(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """Add where the normalised sources are, and the sources' own files, which hold the pictures."""
    which = {"required": True} if required else {"default": []}
    parser.add_argument("--normalised", nargs="+", action="extend", metavar="MANIFEST", help="manifests of the normalised sources", **which)
    parser.add_argument(
        "--root",
        nargs="*",
        action="extend",
        default=[],
        metavar="SOURCE=PATH",
        help="folders of the sources' own files, where pictures are",
    )


def settings(text: str) -> dict:
    """Parse a JSON object given on the command line, or after ``@`` the file that holds one too long for it."""
    try:
        value = json.loads(Path(text[1:]).read_bytes() if text.startswith("@") else text)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text[1:]}: {error.strerror}") from None
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("not a JSON object")
    return value


def folder_of(manifest: str) -> Path:
    """Return the stage folder a manifest path (or the folder itself) names."""
    path = Path(manifest)
    return path.parent if path.name == "manifest.json" else path


def roots(pairs: list[str]) -> dict[str, Path]:
    """Parse ``source=path`` pairs, the places where the sources' own files are."""
    found = {}
    for pair in pairs:
        name, separator, path = pair.partition("=")
        if not separator:
            raise InputError("--root", f"'{pair}' is not NAME=PATH", "give the source's name and its folder")
        found[name] = Path(path)
    return found


@contextmanager
def stage(args: argparse.Namespace, name: str, unit: str, deep: bool = True) -> Iterator[tuple[Path, Counts]]:
    """Yield a scratch folder and the counts; on success the manifest is written and the files move into ``args.out``.

    ``unit`` is what the manifest's ``read``, ``kept`` and ``dropped`` count; the block writes ``drops.parquet`` itself
    where the stage has one. ``deep=False`` lists only the files at the top in the manifest, see `write_manifest`.
    """
    counts = Counts(name)
    with staging(args.out) as folder:
        yield folder, counts
        write_manifest(
            folder,
            stage=name,
            key=args.key,
            format_version=FORMAT[name],
            seed=args.seed,
            config=args.settings,
            upstream=args.upstream,
            counts=counts.summary(unit),
            deep=deep,
        )
