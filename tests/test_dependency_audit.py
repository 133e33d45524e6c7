"""What is installed is what the locks pin, under licences that are allowed, and known vulnerabilities are found in a file."""

import json
import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from evoaudit.resources import ROOT

sys.path.insert(0, str(ROOT / "envs"))
import audit

sys.path.remove(str(ROOT / "envs"))


class Made(Distribution):
    """A distribution with that metadata."""

    def __init__(self, name: str, version: str, *lines: str, text: str | None = None) -> None:
        self._said = "\n".join(["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *lines]) + "\n"

    def read_text(self, filename: str) -> str | None:
        return self._said if filename == "METADATA" else None

    def locate_file(self, path: object) -> Path:
        return Path("/nowhere")


HASH = " \\\n    --hash=sha256:" + "0" * 64 + "\n"


@pytest.fixture
def locked(tmp_path):
    (tmp_path / "a.lock").write_text("one==1.0" + HASH + 'Two_Parts==2.0 ; python_version < "3.12"' + HASH)
    return audit.pins(tmp_path)


def test_the_environment_and_the_table_of_licences_are_those_of_the_locks():
    there = {name: one for name, one in audit.installed().items() if name in audit.pins()}
    assert len(there) > 80
    assert list(audit.findings(audit.pins(), there)) == []


def test_every_pin_of_every_lock_has_a_hash():
    found = audit.pins()
    assert len(found) > 100 and [one for pin in found.values() for one in pin.bare] == []


def test_what_differs_from_the_locks_is_told(locked, tmp_path):
    there = {"one": Made("one", "1.1", "License-Expression: MIT"), "three": Made("three", "3", "License: MIT")}
    there["two-parts"] = Made("Two.Parts", "2.0", "License-Expression: GPL-3.0-only")
    told = list(audit.findings(locked, there, tmp_path / "none.md"))
    assert [line.split(":")[0] for line in told] == ["one 1.1", "three 3", "two-parts 2.0", "none.md"]
    assert "the locks have 1.0" in told[0] and "in no lock" in told[1] and "GPL-3.0-only" in told[2]


def test_a_pin_without_a_hash_and_a_line_that_is_no_pin_are_told(tmp_path):
    (tmp_path / "a.lock").write_text("one==1.0\ntwo>=2 \\\n    --hash=sha256:00\ngit+https://example.org/x\n")
    told = list(audit.findings(audit.pins(tmp_path), {}, tmp_path / "none.md"))
    assert sum("without a sha256" in line for line in told) == 3


@pytest.mark.parametrize(
    ("lines", "expected", "wrong"),
    [
        (["License-Expression: Apache-2.0 OR GPL-2.0-only"], "Apache-2.0 OR GPL-2.0-only", []),
        (["License-Expression: MIT AND (Apache-2.0 OR GPL-2.0-only)"], "MIT AND (Apache-2.0 OR GPL-2.0-only)", ["GPL-2.0-only"]),
        (["License-Expression: Apache-2.0 WITH LLVM-exception"], "Apache-2.0 WITH LLVM-exception", []),
        (["Classifier: License :: OSI Approved :: MIT License"], "MIT", []),
        (["Classifier: License :: OSI Approved"], audit.UNKNOWN, [audit.UNKNOWN]),
        (["License: BSD 3-Clause"], "BSD-3-Clause", []),
        (["License: Proprietary"], "Proprietary", ["Proprietary"]),
        ([], audit.UNKNOWN, [audit.UNKNOWN]),
    ],
)
def test_a_licence_is_read_from_where_it_stands(lines, expected, wrong):
    assert audit.licence(Made("x", "1", *lines)) == expected
    assert audit.refused(expected) == wrong


def test_the_table_keeps_what_another_environment_found(locked, tmp_path):
    table = tmp_path / "table.md"
    table.write_text(audit.text(audit.rows(locked, {"two-parts": Made("two-parts", "2.0", "License: MIT")}, table)))
    both = audit.rows(locked, {"one": Made("one", "1.0", "License: MIT")}, table)
    assert list(both) == [("one", "1.0"), ("two-parts", "2.0")]


def advisory(**affected):
    return {
        "id": "X-1",
        "aliases": ["CVE-1"],
        "summary": "bad\x1b[2J",
        "affected": [{"package": {"ecosystem": "PyPI", "name": "One"}, **affected}],
    }


@pytest.mark.parametrize(
    ("affected", "hit"),
    [
        ({"versions": ["1.0"]}, True),
        ({"versions": ["1.1"]}, False),
        ({"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.0"}]}]}, False),
        ({"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.0.1"}]}]}, True),
        ({"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0.9"}, {"last_affected": "1.0"}]}]}, True),
        ({"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "0.5"}, {"introduced": "1.0rc1"}]}]}, True),
        ({"ranges": [{"type": "ECOSYSTEM", "events": [{"fixed": "1.2"}, {"introduced": "1.1"}]}]}, False),
        ({"ranges": [{"type": "GIT", "events": [{"introduced": "0"}]}]}, False),
    ],
)
def test_a_version_falls_under_an_advisory_that_lists_it_or_spans_it(affected, hit):
    told = list(audit.vulnerable([advisory(**affected)], {"one": Made("one", "1.0")}))
    assert told == (["one 1.0: X-1, CVE-1: bad [2J"] if hit else [])
    assert not list(audit.vulnerable([advisory(**affected) | {"withdrawn": "2026-01-01"}], {"one": Made("one", "1.0")}))


def test_advisories_come_alone_in_a_list_or_one_a_line_and_anything_else_is_one_line(tmp_path, capsys):
    one = advisory(versions=["1.0"])
    for content in (json.dumps(one), json.dumps([one]), json.dumps({"vulns": [one]}), json.dumps(one) + "\n" + json.dumps(one)):
        (tmp_path / "a.json").write_text(content)
        assert audit.advisories(tmp_path / "a.json")[0] == one
    (tmp_path / "a.json").write_text('{"vulns": 3}')
    assert audit.main(["--advisories", str(tmp_path / "a.json")]) == 2
    assert "no advisories in the OSV format" in capsys.readouterr().err
