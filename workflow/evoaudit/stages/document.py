"""``evoaudit document``: regenerate what is derived from code, so that documentation cannot drift from it."""

import argparse
import json
from pathlib import Path

from evoaudit import config as configs
from evoaudit.resources import ROOT

MARK = "<!-- generated: {} -->", "<!-- end -->"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this subcommand's arguments."""
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")


def run(args: argparse.Namespace) -> int:
    """Write (or check) every generated file."""
    stale = [path for path, text in generated().items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if args.check:
            print(f"stale: {path.relative_to(ROOT)}; run `evoaudit document`")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(generated()[path], encoding="utf-8")
            print(f"written: {path.relative_to(ROOT)}")
    return int(args.check and bool(stale))


def generated() -> dict[Path, str]:
    """Return path → text of every generated file."""
    from evoaudit import codebook, conditions, schema
    from evoaudit.audit import reply

    config = ROOT / "config" / "README.md"
    options = _between(config.read_text(encoding="utf-8") if config.is_file() else "", "options", configs.option_table())
    tables = {
        name: [
            {
                "name": field.name,
                "type": str(field.type),
                "nullable": field.nullable,
                "meaning": (field.metadata or {}).get(b"doc", b"").decode(),
            }
            for field in table
        ]
        for name, table in schema.TABLES.items()
    }
    return {
        ROOT / "workflow" / "schemas" / "config.schema.json": _json(configs.json_schema()),
        ROOT / "workflow" / "schemas" / "tables.json": _json(tables),
        ROOT / "workflow" / "schemas" / "judge.schema.json": _json(
            {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "title": f"A judge's reply, by codebook {codebook.load().identity}",
                **reply.schema(codebook.load()),
            }
        ),
        ROOT
        / "workflow"
        / "schemas"
        / "README.md": "# Tables\n\nEvery table that passes between stages, as Parquet. Checked on every write.\n\n" + schema.markdown(),
        config: _between(options, "conditions", conditions.markdown()),
        ROOT / "envs" / "evoaudit.yaml": _conda(ROOT / "envs" / "requirements.lock"),
    }


def _json(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _between(old: str, name: str, text: str) -> str:
    """Return a file's text with the part between its marks replaced; marks it lacks are added at its end."""
    start, end = MARK[0].format(name), MARK[1]
    head, found, rest = old.partition(start)
    if not found:
        rest = f"\n{end}\n"
    return f"{head}{start}\n{text}{end}{rest.partition(end)[2]}"


def _conda(lock: Path) -> str:
    """Return a conda environment with the lock file's exact pins."""
    pins = []
    for line in lock.read_text(encoding="utf-8").splitlines():
        if line and not line[0].isspace() and "==" in line:
            pins.append(line.rstrip(" \\"))
    body = "\n".join(f'      - "{pin}"' for pin in pins)
    return (
        "# Generated from requirements.lock by `evoaudit document`.\nname: evoaudit\nchannels: [conda-forge]\ndependencies:\n"
        f"  - python=3.11\n  - pip\n  - pip:\n{body}\n"
    )
