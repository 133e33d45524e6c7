"""Every reader over damaged logs: each case is kept, left out with a reason, or refused in one clear line."""

import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import fuzz_corpora
import fuzz_logs
import pyarrow.parquet as pq
import pytest

from evoaudit import normalise
from evoaudit.sources import MODULES, plain
from evoaudit.sources.pixels import png_size
from evoaudit.store import Counts

KINDS = sorted(MODULES)


@pytest.fixture(scope="session")
def corpora(tmp_path_factory) -> dict[str, Path]:
    """The corpora, each made once and damaged in copies only."""
    folder = tmp_path_factory.mktemp("corpora")
    for kind in KINDS:
        fuzz_corpora.CORPORA[kind](folder / kind)
    return {kind: folder / kind for kind in KINDS}


def faults(kind: str, corpora: dict[str, Path], folder: Path, cases: range, whole: int, twice: int) -> list[str]:
    """Run cases and return what went wrong, at most the first twenty; every so many run whole, or twice (0: none)."""
    before, found = fuzz_logs.digest(corpora[kind]), []
    for number in cases:
        place = folder / str(number)
        again = bool(twice) and number % twice == 0
        fault = fuzz_logs.run(kind, corpora[kind], number, place, again or number % whole == 0, again)
        shutil.rmtree(place, ignore_errors=True)
        found += [fault] if fault else []
        if len(found) == 20:
            break
    assert fuzz_logs.digest(corpora[kind]) == before, "the corpus itself was damaged"
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_an_undamaged_corpus_is_read_whole(kind, corpora, tmp_path):
    tables, fault = fuzz_logs.outcome(kind, corpora[kind], tmp_path / "out")
    assert fault is None
    assert len(tables["trajectories"]) >= 2
    assert {row["status"] for row in tables["images"]} == {"ok"}
    assert sum(row["state"] != "unknown" for row in tables["changes"]) >= 3


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_logs_are_kept_left_out_or_refused(kind, corpora, tmp_path):
    assert faults(kind, corpora, tmp_path, range(50), whole=10, twice=0) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_damaged_logs_are_kept_left_out_or_refused(kind, corpora, tmp_path):
    assert faults(kind, corpora, tmp_path, range(50, 1050), whole=1, twice=10) == []


# -- what it found --------------------------------------------------------------------------------------------------------


def test_a_pipe_in_place_of_a_picture_has_no_size(tmp_path):
    os.mkfifo(tmp_path / "0.png")
    with fuzz_logs.patience():
        assert png_size(tmp_path, "0.png") is None


# -- the instrument itself ------------------------------------------------------------------------------------------------


FLAWS = {
    "an exception": (lambda record, root: record.steps[99], "IndexError: list index out of range at "),
    "a warning": (lambda record, root: warnings.warn("odd", stacklevel=1), "UserWarning: odd"),
    "a file written": (lambda record, root: (root / "mine").write_bytes(b"x"), "deeds outside the output folder, first open of"),
    "a command": (lambda record, root: os.system("true"), "deeds outside the output folder, first os.system"),
    "a log changed": (lambda record, root: os.utime(root / plain.FILE), "the logs themselves were changed"),
    "an endless loop": (lambda record, root: all(iter(lambda: True, False)), "more than 1 s"),
    "a reason that is no code": (lambda record, root: record.skipped.append(("step", "x\ny", "No Code", None)), "reasons are codes"),
    "another operation": (lambda record, root: setattr(record.steps[0], "op", "fly"), "ValueError"),
}


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flawed_reader_is_found_out(flaw, whole, corpora, tmp_path, monkeypatch):
    spoil, expected = FLAWS[flaw]
    real = plain.read

    def read(root: Path, options: dict) -> Iterator:
        for record in real(root, options):
            spoil(record, root)
            yield record

    monkeypatch.setattr(plain, "read", read)
    monkeypatch.setattr(fuzz_logs, "PATIENCE", 1)
    monkeypatch.setattr(fuzz_logs, "damage", lambda *_: "nothing")
    fault = fuzz_logs.run("plain", corpora["plain"], 7, tmp_path / "case", whole)
    assert fault.startswith("plain 7: ")
    assert fault.endswith("[nothing]")
    assert expected in fault


def test_a_reading_that_depends_on_the_path_is_found_out(corpora, tmp_path, monkeypatch):
    real = plain.read

    def read(root: Path, options: dict) -> Iterator:
        for record in real(root, options):
            record.steps[0].value = str(root)
            yield record

    monkeypatch.setattr(plain, "read", read)
    monkeypatch.setattr(fuzz_logs, "damage", lambda *_: "nothing")
    fault = fuzz_logs.run("plain", corpora["plain"], 0, tmp_path / "case", whole=True, twice=True)
    assert "it differs in ['steps']" in fault


@pytest.mark.parametrize("lost", ["steps", "changes", "images", "annotations", "drops"])
def test_tables_that_disagree_are_found_out(lost, corpora, tmp_path):
    counts, out = Counts("normalise"), tmp_path / "out"
    out.mkdir()
    kind = "weblinx" if lost == "drops" else "agentrewardbench"
    normalise.normalise(out, counts, normalise.Source("fuzz", kind, corpora[kind]))
    assert fuzz_logs.check(fuzz_logs.read(out), counts) is None
    rows = pq.read_table(out / f"{lost}.parquet")
    pq.write_table(rows.slice(1), out / f"{lost}.parquet")
    assert fuzz_logs.check(fuzz_logs.read(out), counts).startswith("not true: ")


def test_a_case_is_the_same_each_time(corpora, tmp_path):
    said, left = set(), set()
    for turn in ("one", "two"):
        for number in range(8):
            root, outside = tmp_path / turn / str(number), tmp_path / turn / f"{number}-outside"
            outside.mkdir(parents=True)
            shutil.copytree(corpora["weblinx"], root, copy_function=os.link)
            said.add((number, fuzz_logs.damage(root, outside, fuzz_logs.dice("weblinx", number))))
            left.add((number, fuzz_logs.digest(root) if all(path.exists() for path in root.rglob("*")) else ""))
    assert len(said) == len(left) == 8
    assert all(how for _, how in said)
