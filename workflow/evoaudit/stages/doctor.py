"""``evoaudit doctor``: what would stop a run, found before it starts; and what logs hold, and what in them looks wrong."""

import argparse
import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import urlsplit

from evoaudit import plan as plans
from evoaudit.config import Config, Judge, Model
from evoaudit.errors import InputError, one_line
from evoaudit.resources import ROOT
from evoaudit.stages import configured

OK, WARN, FAIL = "ok", "warn", "FAIL"
PACKAGES = (
    "snakemake",
    "aiohttp",
    "anthropic",
    "pyarrow",
    "duckdb",
    "numpy",
    "scipy",
    "pillow",
    "matplotlib",
    "pydantic",
    "jinja2",
    "google-genai",
    "openai",
    "huggingface-hub",
    "protobuf",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this subcommand's arguments."""
    parser.add_argument(
        "path",
        type=Path,
        nargs="?",
        help="folder of raw logs or of results to look at (without it: check this machine, the config and its keys)",
    )
    parser.add_argument("--kind", help="native format of the logs in PATH (default: find out)")
    parser.add_argument("--online", action="store_true", help="also ask each service whether it takes the key and knows the model (free)")
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    parser.add_argument("--threads", type=int, default=0, help="threads that decode pictures (default: as many as cores, 8 at most)")
    configured.arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print what was found; exit with 1 if a check failed, nothing could be read, or something looks wrong."""
    if args.path is None:
        if args.kind is not None:
            raise InputError("--kind", "says how to read a folder, but no folder is given", "give PATH too")
        return _checks(args)
    page = _Page()
    normalised = _normalised(args.path)
    if normalised:
        if args.kind is not None:
            raise InputError("--kind", f"{args.path} holds normalised sources, whose kinds are known", "leave --kind out")
        page.title = f"{len(normalised)} normalised source{'s' * (len(normalised) > 1)} in {one_line(str(args.path))}"
        page.add(normalised, {})
    else:
        _look(args, page)
    page.print(args.json)
    return page.exit_code


def _checks(args: argparse.Namespace) -> int:
    """Check machine, packages, config and endpoints, then list the sources of the config that are read already."""
    page = _Page()
    page.checks = [*_machine(args.results), *_packages(), *_config(args, page)]
    page.print(args.json)
    return page.exit_code


def _normalised(path: Path) -> list[Path]:
    """Return the finished folders of the normalise stage that a path holds or is."""
    if not path.is_dir():
        raise InputError(path, "is not a folder" if path.exists() else "folder not found", "give a folder of logs or of results")
    if all((path / f"{name}.parquet").is_file() for name in ("trajectories", "steps", "images")):
        return [path]
    for folder in (path / "normalise", path):
        found = sorted(one.parent for one in folder.glob("*/manifest.json") if (one.parent / "trajectories.parquet").is_file())
        if found:
            return found
    return []


def _look(args: argparse.Namespace, page: "_Page") -> None:
    """Read the raw logs under a path into a scratch folder and catalogue them."""
    import tempfile

    from evoaudit import rawlogs

    raws, page.unknown = rawlogs.find(args.path, args.kind)
    threads = args.threads if args.threads > 0 else min(8, os.cpu_count() or 1)
    with tempfile.TemporaryDirectory() as scratch:
        readable, places = [], {}
        for looked in rawlogs.look(raws, Path(scratch), threads):
            source = looked.raw.source
            if looked.fault is not None:
                page.faults.append((source.name, str(looked.fault)))
                continue
            readable.append(looked.folder)
            places[source.name] = f"{one_line(str(source.root))}, kind {source.kind} ({one_line(looked.raw.evidence)})"
            page.usable.append(source)
        page.usable.sort(key=lambda source: source.name)
        page.title = _title(args.path, len(readable), len(page.unknown) + len(page.faults))
        page.add(readable, places)


def _title(path: Path, sources: int, unknown: int) -> str:
    where = one_line(str(path))
    if not sources:
        return f"Nothing under {where} can be read."
    text = f"{sources} source{'s' * (sources > 1)} under {where} can be read"
    return text + (f"; {unknown} more place{'s' * (unknown > 1)} cannot" if unknown else "") + "."


class _Page:
    """Everything one call has to say."""

    def __init__(self) -> None:
        self.title = ""
        self.checks: list[tuple[str, str]] = []
        self.rows: list = []
        self.findings: list = []
        self.places: dict[str, str] = {}
        self.unknown: list = []
        self.faults: list[tuple[str, str]] = []
        #: Sources a config could use.
        self.usable: list = []

    def add(self, folders: list[Path], places: dict[str, str]) -> None:
        """Catalogue normalised folders."""
        from evoaudit import catalogue

        rows, findings = catalogue.report(folders)
        self.rows += rows
        self.findings += findings
        self.places |= places

    @property
    def exit_code(self) -> int:
        failed = any(level == FAIL for level, _ in self.checks)
        nothing = not self.checks and not self.rows
        return int(failed or nothing or bool(self.faults) or any(one.level == "look" for one in self.findings))

    def print(self, as_json: bool) -> None:
        print(self._json() if as_json else "\n".join(self._lines()))

    def _lines(self) -> list[str]:
        from evoaudit import catalogue_page as pages

        lines = [f"{level:<5} {text}" for level, text in self.checks]
        if self.checks and self.rows:
            lines += ["", "Sources of this config that are read already"]
        lines += pages.wrapped(self.title) if self.title else []
        for one in self.rows:
            lines += ["", *pages.block(one, self.places.get(one.source))]
        if any(one.steps for one in self.rows):
            lines += ["", *pages.wrapped(pages.LEGEND)]
        if self.findings:
            lines += ["", "", *pages.findings(self.findings)]
        elif self.rows:
            left = sum(n for one in self.rows for unit, reasons in one.drops.items() if unit != "transition" for n in reasons.values())
            lines += ["", "", f"Nothing else looks wrong; {left:,} left out above." if left else "Nothing looks wrong."]
        if self.faults:
            lines += ["", "", "Recognised, but nothing can be read", ""]
            for name, text in self.faults:
                lines += pages.wrapped(f"{one_line(name)} · {text}", "  ")
        if self.unknown:
            lines += ["", "", "Not recognised", ""]
            for one in self.unknown:
                lines += pages.wrapped(f"{one_line(str(one.path))} · {one_line(one.evidence, 400)}", "  ")
        return lines + self._next()

    def _next(self) -> list[str]:
        """Return what to do next."""
        if self.checks:
            return []
        from evoaudit import catalogue_page as pages

        lines = ["", "", "What to do next", ""]
        if self.usable:
            from evoaudit.rawlogs import config_lines

            simulated = all(source.simulated for source in self.usable)
            lines += pages.wrapped("To use these sources, put this into a file of your own, say mine.yaml:", "  ")
            lines += ["", *(f"    {line}" for line in config_lines(self.usable)), ""]
            lines += ["  and run it:  snakemake --cores 2 --configfile mine.yaml"]
            if simulated:
                lines += pages.wrapped("These logs are simulated; a config makes its own with `kind: simulated`.", "  ")
            lines += pages.wrapped("`evoaudit validate FOLDER` lists every record that was left out, and what to do about it.", "  ")
        elif not self.rows:
            lines += pages.wrapped("See docs/sources.md for the layouts that are known, or write the logs in the plain format,", "  ")
            lines += pages.wrapped("docs/bring-your-own-logs.md; --kind says which format a folder is in.", "  ")
        else:
            lines += pages.wrapped("`evoaudit doctor FOLDER` looks at raw logs in the same way.", "  ")
        return lines

    def _json(self) -> str:
        from dataclasses import asdict

        from evoaudit.rawlogs import config_lines

        return json.dumps(
            {
                "checks": [{"level": level, "text": text} for level, text in self.checks],
                "sources": [{**asdict(one), "place": self.places.get(one.source)} for one in self.rows],
                "findings": [asdict(one) for one in self.findings],
                "not_readable": [{"source": name, "why": text} for name, text in self.faults],
                "not_recognised": [{"place": one_line(str(one.path)), "why": one_line(one.evidence)} for one in self.unknown],
                "config": "\n".join(config_lines(self.usable)) + "\n" if self.usable else None,
            },
            indent=1,
            ensure_ascii=False,
            allow_nan=False,
        )


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
    for name in PACKAGES:
        try:
            if version(name) not in pins.get(name, {version(name)}):
                wrong.append(f"{name} {version(name)}, pinned {' or '.join(sorted(pins[name]))}")
        except PackageNotFoundError:
            yield FAIL, f"{name} is not installed; run `make environment`"
    yield (WARN, "not the pinned versions: " + "; ".join(wrong)) if wrong else (OK, "packages are as pinned")


def _config(args: argparse.Namespace, page: _Page) -> Iterator[tuple[str, str]]:
    try:
        config = configured.load(args)
        plan = plans.build(config, args.results)
    except InputError as error:
        yield FAIL, str(error)
        return
    done = sum((args.results / job.stage / job.key / "manifest.json").is_file() for job in plan.jobs)
    yield OK, f"run '{config.run.name}': {len(plan.jobs)} jobs, {done} finished"
    for name in plan.unlocked:
        yield WARN, f"source '{name}': not downloaded yet; run `snakemake download --cores N` with this config"
    yield from _providers(config, args.online)
    if not config.sources and not config.audit.frame:
        yield WARN, "no sources: only the static tables will have rows"
    finished = [job for job in plan.of("normalise") if (args.results / "normalise" / job.key / "manifest.json").is_file()]
    try:
        page.add([args.results / "normalise" / job.key for job in finished], {})
    except InputError as error:
        yield FAIL, str(error)


def _providers(config: Config, online: bool) -> Iterator[tuple[str, str]]:
    from evoaudit.infer import codex

    for kind, entries in (("model", config.models), ("judge", config.judges)):
        for entry in entries:
            if entry.api_key_env and not os.environ.get(entry.api_key_env):
                yield FAIL, f"{kind} '{entry.name}': the environment variable {entry.api_key_env} is not set; export it with the key"
            elif entry.base_url and not _answers(entry.base_url):
                yield WARN, f"{kind} '{entry.name}': nothing answers at {entry.base_url}; start the server, or mend base_url"
            elif entry.provider == "codex" and (fault := codex.problem()) is not None:
                yield FAIL, f"{kind} '{entry.name}': {fault[0]}; {fault[1]}"
            elif online and entry.provider != "builtin" and not getattr(entry, "serve", None):
                yield _looked_up(kind, entry)
            else:
                yield OK, f"{kind} '{entry.name}'"


def _looked_up(kind: str, entry: Model | Judge) -> tuple[str, str]:
    """Ask a service for a model, and say what it said."""
    from evoaudit.infer import lookup

    settings = {**entry.model_dump(mode="json"), "model": entry.model or entry.name}
    try:
        day = lookup.look_up(settings)
    except InputError as error:
        return FAIL, str(error)
    except lookup.Unknown as error:
        return WARN, f"{kind} '{entry.name}': {error}"
    if day:
        return WARN, f"{kind} '{entry.name}': {settings['model']} is shut down on {one_line(day, 40)}; ask it before"
    return OK, f"{kind} '{entry.name}': the service takes the key and knows {settings['model']}"


def _answers(base_url: str) -> bool:
    """Tell whether something listens at an address; nothing is asked of it."""
    parts = urlsplit(base_url)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)), timeout=3):
            return True
    except (OSError, ValueError):
        return False
