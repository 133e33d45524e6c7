"""``evoaudit downloads``: read every downloaded file again and compare it with what was recorded when it came."""

import argparse
from pathlib import Path

from evoaudit.errors import InputError, one_line
from evoaudit.jsonfile import read_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this subcommand's arguments."""
    parser.add_argument("listings", nargs="*", type=Path, metavar="FILES.JSON", help="listings of finished downloads")
    parser.add_argument("--store", type=Path, default=Path("resources/downloads"), metavar="PATH", help="folder of downloaded files")
    parser.add_argument("--threads", type=int, default=4, help="files read at a time")


def run(args: argparse.Namespace) -> int:
    """Print a line a data set; exit with 1 if a file is missing or differs."""
    if not args.listings:
        print("nothing to download: no source of this config names a data set on the hub")
    bad = 0
    for path in args.listings:
        found = read_json(path)
        try:
            folder, files = args.store / found["folder"], {name: (one["size"], one["sha256"]) for name, one in found["files"].items()}
            about = f"{found['repo']} at {found['commit'][:12]}"
        except (TypeError, KeyError, AttributeError):
            raise InputError(path, "not a listing of a download", "delete its folder and run `snakemake download` again") from None
        faults = _faults(folder, files, args.threads)
        for name, fault in faults:
            print(one_line(f"{folder / name}: {fault}; delete it and the folder {path.parent}, and run `snakemake download` again"))
        bad += len(faults)
        total = sum(size for size, _ in files.values())
        print(
            f"{about}: {len(files)} files, {total / 1e9:.1f} GB in {folder}"
            + (f", {len(faults)} of them wrong" if faults else ", all as pinned")
        )
    return int(bad > 0)


def _faults(folder: Path, files: dict[str, tuple[int, str]], threads: int) -> list[tuple[str, str]]:
    """Return (file, what is wrong) of every file that is not as listed."""
    from concurrent.futures import ThreadPoolExecutor

    from evoaudit.store import sha256_file

    def fault(name: str) -> str | None:
        try:
            if (folder / name).stat().st_size != files[name][0]:
                return "differs in size"
            return None if sha256_file(folder / name) == files[name][1] else "differs"
        except OSError as error:
            return (error.strerror or "cannot be read").lower()

    names = sorted(files)
    with ThreadPoolExecutor(max(1, threads)) as pool:
        return [(name, what) for name, what in zip(names, pool.map(fault, names), strict=True) if what]
