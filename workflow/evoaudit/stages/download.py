"""Fetch what one source needs of a public data set into the store, and list it."""

import argparse
from pathlib import Path

from evoaudit.stages import common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the stage's arguments."""
    common.arguments(parser)
    parser.set_defaults(threads=8)  # they wait for the network
    parser.add_argument("--store", type=Path, default=Path("resources/downloads"), metavar="PATH", help="folder for downloaded files")
    parser.add_argument("--lock", type=Path, default=Path("config/sources.lock.json"), metavar="FILE", help="lock file")


def run(args: argparse.Namespace) -> None:
    """Run the stage."""
    from evoaudit.errors import InputError
    from evoaudit.hub import contents
    from evoaudit.hub.fetch import Request, download
    from evoaudit.hub.select import files_text, size_text
    from evoaudit.store import canonical

    settings = args.settings
    kind, options = settings.get("kind"), settings.get("options") or {}
    if not isinstance(kind, str) or not kind:
        raise InputError("--settings", "'kind' is missing", 'give e.g. {"kind": "mind2web", "options": {"split": "test_task"}}')
    for name in ("source", "repo", "revision", "locked"):
        if not isinstance(settings.get(name), str | None):
            raise InputError("--settings", f"'{name}' is not a text", "correct it")
    if not isinstance(options, dict):
        raise InputError("--settings", "'options' is not a JSON object", 'give e.g. {"split": "test_task"}')
    source = settings.get("source") or kind
    request = Request(source, kind, settings.get("repo"), settings.get("revision") or "main", options)
    done = download(request, lock_path=args.lock, store=args.store, threads=args.threads)
    if settings.get("locked") not in (None, contents(done.files)):
        raise InputError(args.lock, f"what is locked for {source} changed after this run was planned", "run again")
    with common.stage(args, "download", "file") as (folder, counts):
        listing = {
            "repo": done.repo,
            "commit": done.commit,
            "license": done.license,
            "folder": done.folder.relative_to(args.store).as_posix(),
            "files": {path: {"size": file.size, "sha256": file.sha256} for path, file in done.files.items()},
        }
        (folder / "files.json").write_text(canonical(listing) + "\n", encoding="utf-8")
        counts.keep("file", len(done.files))
    total = size_text(sum(file.size for file in done.files.values()))
    print(
        f"{source}: {files_text(len(done.files))}, {total} in {done.folder} ({done.files_fetched} fetched, {done.files_kept} there already)"
    )
