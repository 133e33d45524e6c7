"""Compare what is installed with the locks, list licences, and look known vulnerabilities up in a file. No network.

    python envs/audit.py                       findings, one a line; exit code 1 if there are any
    python envs/audit.py --write               write envs/LICENSES.md anew
    python envs/audit.py --advisories FILE     advisories in the OSV format: one, a list, {"vulns": […]}, or one a line

It needs no other file of this repository, so it also runs before anything of it is trusted.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

ENVS = Path(__file__).parent
TABLE = ENVS / "LICENSES.md"
#: What needs no lock: the product itself, and what makes an environment.
UNLOCKED = frozenset({"evoaudit", "pip", "setuptools", "wheel"})
#: Licences that may be used and passed on beside Apache-2.0.
ALLOWED = frozenset(
    (
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "CNRI-Python", "HPND", "ISC", "LGPL-2.1-only"),
        *("LGPL-2.1-or-later", "LGPL-3.0-only", "LGPL-3.0-or-later", "LLVM-exception", "MIT"),
        *("MIT-0", "MIT-CMU", "MPL-2.0", "OFL-1.1", "PSF-2.0", "Python-2.0", "Unlicense", "Zlib"),
    )
)
#: Distribution → a licence it states that is not in the list, and why it may be used all the same.
LOOKED_AT = {"docutils": ("GNU General Public License (GPL)", "of its Emacs mode alone, which nothing here uses")}
#: What a licence's own text says → its SPDX name.
TEXTS = {
    "Permission is hereby granted, free of charge": "MIT",
    "Apache License": "Apache-2.0",
    "Neither the name": "BSD-3-Clause",
    "Redistribution and use in source and binary forms": "BSD-2-Clause",
}
#: Licences as classifiers and free text call them → their SPDX names.
SPDX = {
    "apache": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache-2": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "2-clause bsd license": "BSD-2-Clause",
    "3-clause bsd license": "BSD-3-Clause",
    "bsd 2-clause": "BSD-2-Clause",
    "bsd 3-clause": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "gnu lesser general public license v3 (lgplv3)": "LGPL-3.0-only",
    "gnu lesser general public license v3 or later (lgplv3+)": "LGPL-3.0-or-later",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "modified bsd license": "BSD-3-Clause",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "new bsd": "BSD-3-Clause",
    "new bsd license": "BSD-3-Clause",
    "public domain": "CC0-1.0",
    "psf": "PSF-2.0",
    "python software foundation license": "PSF-2.0",
    "the unlicense (unlicense)": "Unlicense",
}
UNKNOWN = "unknown"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$")


@dataclass
class Pin:
    """A distribution as locks pin it: version → the locks that name it, and those without a hash."""

    versions: dict[str, list[str]] = field(default_factory=dict)
    bare: list[str] = field(default_factory=list)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(folder: Path = ENVS) -> dict[str, Pin]:
    """Read every lock."""
    found: dict[str, Pin] = {}
    for path in sorted(folder.glob("*.lock")):
        # A pin ends where its line is not continued.
        for entry in re.split(r"(?<!\\)\n", path.read_text(encoding="utf-8")):
            if match := _PIN.match(entry):
                pin = found.setdefault(canonical(match[1]), Pin())
                pin.versions.setdefault(match[2], []).append(path.name)
                if "--hash=sha256:" not in entry:
                    pin.bare.append(f"{match[1]}=={match[2]} in {path.name}")
            elif entry.strip() and not entry.lstrip().startswith("#"):
                pin = found.setdefault(canonical(entry.split()[0]), Pin())
                pin.bare.append(f"'{entry.split()[0]}' in {path.name} is no pin")
    return found


def installed() -> dict[str, Distribution]:
    """Return what is installed, by canonical name; the first on the path counts, as it does for imports."""
    found: dict[str, Distribution] = {}
    for one in distributions():
        if one.metadata["Name"]:
            found.setdefault(canonical(one.metadata["Name"]), one)
    return found


def licence(one: Distribution) -> str:
    """Return the licence a distribution states, as an SPDX expression where that is known; failing that, by its licence's text."""
    metadata: Any = one.metadata
    if stated := metadata.get("License-Expression"):
        return str(stated).strip()
    names = [one.rsplit(" :: ", 1)[1] for one in metadata.get_all("Classifier") or [] if one.startswith("License :: ")]
    names = [one for one in names if one != "OSI Approved"]
    text = str(metadata.get("License") or "").strip()
    if not names and text and len(text.splitlines()) == 1 and len(text) <= 80:
        names = [text]
    found = sorted({SPDX.get(one.lower(), one) for one in names})
    if not found and text:  # the whole text stands there
        head = text.split("\n", 1)[0].strip()
        found = [SPDX.get(head.lower(), SPDX.get(head.lower().removeprefix("the "), head[:60]))]
    return " AND ".join(found) or _by_text(one) or UNKNOWN


def _by_text(one: Distribution) -> str | None:
    for file in one.files or ():
        if ".dist-info" in file.parts[0] and re.match(r"(?i)(licen[cs]e|copying)", file.name):
            try:
                content = " ".join(str(file.locate().read_text(encoding="utf-8", errors="replace")).split())
            except OSError:
                continue
            return next((name for words, name in TEXTS.items() if words in content), None)
    return None


def refused(expression: str) -> list[str]:
    """Return the licences of an expression that are not allowed; where all of it is a choice, one that is allowed is enough."""
    names = [_bare(one) for one in re.split(r"\s+(?:AND|OR|WITH)\s+", expression.strip())]
    wrong = [one for one in names if one not in ALLOWED]
    choice = " OR " in expression and not re.search(r"\s(?:AND|WITH)\s", expression)
    return [] if choice and len(wrong) < len(names) else wrong


def _bare(name: str) -> str:
    """Return a name without the brackets of the expression around it; some have brackets of their own."""
    while name.startswith("(") and name.count("(") > name.count(")"):
        name = name[1:].strip()
    while name.endswith(")") and name.count(")") > name.count("("):
        name = name[:-1].strip()
    return name


def rows(locked: Mapping[str, Pin], there: Mapping[str, Distribution], table: Path = TABLE) -> dict[tuple[str, str], tuple[str, str]]:
    """Return (name, version) → licence and locks of all that is pinned, as far as it is installed here or stands in the table."""
    found = {}
    for match in filter(None, map(_ROW.match, table.read_text(encoding="utf-8").splitlines() if table.is_file() else ())):
        name, version, stated, _ = (one.strip() for one in match.groups())
        if version in locked.get(name, Pin()).versions:
            found[name, version] = stated, _where(locked[name].versions[version])
    for name, one in there.items():
        if one.version in locked.get(name, Pin()).versions:
            found[name, one.version] = licence(one).replace("|", "/"), _where(locked[name].versions[one.version])
    return dict(sorted(found.items()))


def _where(locks: list[str]) -> str:
    """Return the locks that name a version; the others hold all that the first does."""
    return "requirements.lock" if "requirements.lock" in locks else ", ".join(locks)


def text(found: Mapping[tuple[str, str], tuple[str, str]]) -> str:
    """Return the table of licences."""
    lines = [
        "# Licences of what is installed",
        "",
        "Written by `python envs/audit.py --write` from what the distributions state of themselves; `make audit` compares.",
        "",
        "| distribution | version | licence | pinned in |",
        "| --- | --- | --- | --- |",
        *(f"| {name} | {version} | {stated} | {locks} |" for (name, version), (stated, locks) in found.items()),
    ]
    return "\n".join(lines) + "\n"


def findings(locked: Mapping[str, Pin], there: Mapping[str, Distribution], table: Path = TABLE) -> Iterator[str]:
    """Yield what is installed and not pinned, pinned without a hash, of another version or licence, or not in the table."""
    for pin in locked.values():
        yield from (f"{one}: pinned without a sha256; `make lock`" for one in pin.bare)
    for name, one in sorted(there.items()):
        if name in UNLOCKED:
            continue
        if name not in locked:
            yield f"{name} {one.version}: is installed and in no lock; remove it, or add it to pyproject.toml and `make lock`"
        elif one.version not in locked[name].versions:
            known = ", ".join(locked[name].versions)
            yield f"{name} {one.version}: the locks have {known}; install from the lock again"
    current = rows(locked, there, table)
    for (name, version), (stated, _) in current.items():
        wrong = [one for one in ([UNKNOWN] if stated == UNKNOWN else refused(stated)) if one != LOOKED_AT.get(name, ("",))[0]]
        if wrong:
            yield f"{name} {version}: licence {', '.join(wrong)} is not in the list of those allowed"
    if not table.is_file() or table.read_text(encoding="utf-8") != text(current):
        yield f"{table.name}: is not what is installed; `python envs/audit.py --write`"


def advisories(path: Path) -> list[dict[str, Any]]:
    """Read advisories in the OSV format."""
    content = path.read_text(encoding="utf-8")
    try:
        value = json.loads(content)
    except ValueError:
        value = [json.loads(line) for line in content.splitlines() if line.strip()]
    if isinstance(value, dict):
        value = value.get("vulns", [value])
    if not isinstance(value, list) or not all(isinstance(one, dict) and isinstance(one.get("affected"), list) for one in value):
        raise ValueError("these are no advisories in the OSV format")
    return value


def vulnerable(known: list[dict[str, Any]], there: Mapping[str, Distribution]) -> Iterator[str]:
    """Yield each advisory that an installed version falls under."""
    for one in known:
        if one.get("withdrawn"):
            continue
        for affected in one["affected"]:
            package = affected.get("package") or {}
            name = canonical(str(package.get("name")))
            if package.get("ecosystem") == "PyPI" and name in there and falls_under(there[name].version, affected):
                names = ", ".join([str(one.get("id")), *one.get("aliases", [])])
                yield f"{name} {there[name].version}: {names}: {printable(str(one.get('summary') or one.get('details') or ''))[:200]}"
                break


def falls_under(version: str, affected: Mapping[str, Any]) -> bool:
    """Tell whether a version is listed, or lies in a range."""
    if version in affected.get("versions", ()):
        return True
    for bounds in affected.get("ranges", ()):
        if bounds.get("type") not in ("ECOSYSTEM", "SEMVER"):
            continue
        inside = False
        for event in sorted(bounds.get("events", ()), key=lambda event: _version(next(iter(event.values())))):
            (kind, at), mine = next(iter(event.items())), _version(version)
            if kind == "introduced" and mine >= _version(at):
                inside = True
            elif (kind == "fixed" and mine >= _version(at)) or (kind == "last_affected" and mine > _version(at)):
                inside = False
        if inside:
            return True
    return False


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")


def printable(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in text)


def main(argv: list[str] | None = None) -> int:
    """Print findings, one a line; 1 if there are any, 2 if the advisories cannot be read."""
    parser = argparse.ArgumentParser(description="compare what is installed with the locks; no network")
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.name} anew")
    parser.add_argument("--advisories", type=Path, action="append", default=[], metavar="FILE", help="known vulnerabilities, OSV JSON")
    args = parser.parse_args(argv)
    locked, there = pins(), installed()
    if args.write:
        TABLE.write_text(text(rows(locked, there)), encoding="utf-8")
    found = list(findings(locked, there))
    known = 0
    for path in args.advisories:
        try:
            read = advisories(path)
        except (OSError, ValueError, RecursionError) as error:
            print(f"{path}: {printable(str(error))}", file=sys.stderr)
            return 2
        known += len(read)
        found += vulnerable(read, there)
    print("\n".join(found) if found else "all as it is pinned, under licences that are allowed")
    if not args.advisories:
        print("known vulnerabilities were not looked up; give --advisories FILE")
    else:
        print(f"{known:,} advisories were looked up")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
