"""``evoaudit doctor``: what would stop a run, found before it starts."""

import argparse
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import urlsplit

from evoaudit import plan as plans
from evoaudit.config import Config
from evoaudit.errors import InputError
from evoaudit.resources import ROOT
from evoaudit.stages import configured

OK, WARN, FAIL = "ok", "warn", "FAIL"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this subcommand's arguments."""
    configured.arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print one line a check; exit with 1 if any failed."""
    findings = [*_machine(args.results), *_packages(), *_config(args)]
    for level, text in findings:
        print(f"{level:<5} {text}")
    return int(any(level == FAIL for level, _ in findings))


def _machine(results: Path) -> Iterator[tuple[str, str]]:
    yield (OK if sys.version_info >= (3, 11) else FAIL), f"Python {sys.version.split()[0]}"
    place = next(parent for parent in (results.absolute(), *results.absolute().parents) if parent.exists())
    free = shutil.disk_usage(place).free / 1e9
    yield (OK if free > 2 else WARN), f"{free:.0f} GB free where results go"
    yield (
        (OK, "results can be written")
        if os.access(place, os.W_OK)
        else (FAIL, f"{place}: not writable; run elsewhere or mend its permissions")
    )
    yield (OK, "git found") if shutil.which("git") else (WARN, "git not found: manifests will not name the code's revision")


def _packages() -> Iterator[tuple[str, str]]:
    lock = ROOT / "envs" / "requirements.lock"
    pins: dict[str, set[str]] = {}
    for line in lock.read_text().splitlines():
        if "==" in line and not line.startswith(" "):
            name, _, rest = line.partition("==")
            pins.setdefault(name.lower(), set()).add(rest.split()[0])
    wrong = []
    for name in ("snakemake", "pyarrow", "duckdb", "numpy", "scipy", "pillow", "imagehash", "matplotlib", "pydantic", "jinja2", "openai"):
        try:
            if version(name) not in pins.get(name, {version(name)}):
                wrong.append(f"{name} {version(name)}, pinned {' or '.join(sorted(pins[name]))}")
        except PackageNotFoundError:
            yield FAIL, f"{name} is not installed; run `make environment`"
    yield (WARN, "not the pinned versions: " + "; ".join(wrong)) if wrong else (OK, "packages are as pinned")


def _config(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    try:
        config = configured.load(args)
        plan = plans.build(config, args.results)
    except InputError as error:
        yield FAIL, str(error)
        return
    done = sum((args.results / job.stage / job.key / "manifest.json").is_file() for job in plan.jobs)
    yield OK, f"run '{config.run.name}': {len(plan.jobs)} jobs, {done} finished"
    yield from _providers(config)
    if not config.sources and not config.audit.frame:
        yield WARN, "no sources: only the static tables will have rows"


def _providers(config: Config) -> Iterator[tuple[str, str]]:
    for kind, entries in (("model", config.models), ("judge", config.judges)):
        for entry in entries:
            if entry.api_key_env and not os.environ.get(entry.api_key_env):
                yield FAIL, f"{kind} '{entry.name}': the environment variable {entry.api_key_env} is not set; export it with the key"
            elif entry.base_url and not _answers(entry.base_url):
                yield WARN, f"{kind} '{entry.name}': nothing answers at {entry.base_url}; start the server, or mend base_url"
            else:
                yield OK, f"{kind} '{entry.name}'"


def _answers(base_url: str) -> bool:
    """Tell whether something listens at an address; nothing is asked of it."""
    parts = urlsplit(base_url)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)), timeout=3):
            return True
    except (OSError, ValueError):
        return False
