"""Runs with too little, too much or too even data: every cell is a number or empty with a reason, and nothing is said on the console."""

import csv
import io
import math
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import made_run
import pytest
from made_run import one, rows

from evoaudit import store
from evoaudit.__main__ import main
from evoaudit.outputs import TABLES
from evoaudit.tables.spec import TABLES as DECLARED

Change = Callable[[Path, dict], dict | None]


def scores(change: Callable[[dict], dict | None]) -> Change:
    """Alter or leave out score rows."""

    def make(root: Path, arguments: dict) -> None:
        kept = [new for row in store.read_rows(root / "scores", "scores") if (new := change(row)) is not None]
        store.write_table(root / "scores", "scores", kept)

    return make


def items(change: Callable[[dict], bool]) -> Change:
    """Keep the items, and the scores of the items, that pass."""

    def make(root: Path, arguments: dict) -> None:
        for task in ("t1", "t2", "t3"):
            store.write_table(root / "mined", task, [row for row in store.read_rows(root / "mined", task) if change(row)])
        scores(lambda row: row if change(row) else None)(root, arguments)

    return make


def final(change: Callable[[int, dict], dict | None]) -> Change:
    """Alter or leave out final verdicts."""

    def make(root: Path, arguments: dict) -> None:
        found = store.read_rows(root / "final", "final")
        kept = [new for number, row in enumerate(found) if (new := change(number, row)) is not None]
        store.write_table(root / "final", "final", kept)
        ids = {row["trajectory_id"] for row in kept}
        for folder, name in ((root / "sample", "sample"), (root / "final", "labels")):
            store.write_table(folder, name, [row for row in store.read_rows(folder, name) if row["trajectory_id"] in ids])
        for folder in ("judge-gpt", "judge-claude"):
            held = [row for row in store.read_rows(root / folder, "judgments") if row["trajectory_id"] in ids]
            store.write_table(root / folder, "judgments", held)

    return make


def labels(change: Callable[[dict], dict | None], keep: tuple[str, ...] = ("gpt", "claude")) -> Change:
    """Alter or leave out labels, and keep only some judges."""

    def make(root: Path, arguments: dict) -> dict:
        found = [new for row in store.read_rows(root / "final", "labels") if (new := change(row)) is not None]
        store.write_table(root / "final", "labels", found)
        for name in keep:
            held = [new for row in store.read_rows(root / f"judge-{name}", "judgments") if (new := change(row)) is not None]
            store.write_table(root / f"judge-{name}", "judgments", held)
        return {**arguments, "judgments": [str(root / f"judge-{name}" / "manifest.json") for name in keep]}

    return make


def right(row: dict) -> dict:
    return {**row, "correct": True, "action_correct": True if row["task"] == "t2" else None, "tau": 1.0 if row["task"] == "t1" else None}


def wrong(row: dict) -> dict:
    return {**row, "correct": False, "action_correct": False if row["task"] == "t2" else None, "tau": -1.0 if row["task"] == "t1" else None}


def unanswered(row: dict) -> dict:
    empty = {"status": "unanswered", "parse_path": "none", "answer": None, "confidence": None, "tau": None, "correct": False}
    return {**row, **empty, "action_correct": False if row["task"] == "t2" else None}


#: Name → what is done to a small run of probes.
PROBES: dict[str, Change] = {
    "models with other items": scores(lambda row: None if row["model"] == "alpha-2b" and int(row["instance_id"][-2:]) % 3 else row),
    "a model without a task": scores(lambda row: None if row["model"] == "beta-9b" and row["task"] == "t3" else row),
    "no slice but one": items(lambda row: row["slice"] in ("K=3", "click", "cross")),
    "no T1": items(lambda row: not row["instance_id"].startswith("t1")),
    "no click": items(lambda row: row["slice"] != "click"),
    "no items": items(lambda row: False),
    "one item a task": items(lambda row: row["instance_id"].endswith("0000")),
    "one trajectory": items(lambda row: row["trajectory_id"] == "web:000"),
    "all right": scores(right),
    "all wrong": scores(wrong),
    "nobody answers": scores(unanswered),
    "one model": scores(lambda row: row if row["model"] == "alpha-2b" and row["condition"] == "full" else None),
    "baselines alone": scores(lambda row: row if row["model"] == "random" else None),
    "one and the same confidence": scores(lambda row: {**row, "confidence": 1.0}),
}
#: Name → what is done to a small audit.
AUDITS: dict[str, Change] = {
    "one rater": labels(lambda row: row if row["annotator"] == "gpt" else None, ("gpt",)),
    "people alone": labels(lambda row: row if row["annotator"].startswith("human") else None, ()),
    "one category": labels(lambda row: {**row, "verdict": "gf", "category": "other"}),
    "one constant rater": labels(lambda row: {**row, "verdict": "gf", "category": "other"} if row["annotator"] == "gpt" else row),
    "one row": final(lambda number, row: row if number == 0 else None),
    "two rows": final(lambda number, row: row if number < 2 else None),
    "no row": final(lambda number, row: None),
    "one task": final(lambda number, row: {**row, "task_id": "same", "benchmark": "b"}),
    "all genuine": final(lambda number, row: {**row, "verdict": "gf", "category": "other"}),
    "no verdict right": final(lambda number, row: {**row, "verdict": "efn", "category": None}),
    "nobody reviewed": final(lambda number, row: {**row, "reviewed": False}),
    "no benchmark": final(lambda number, row: {**row, "benchmark": None, "agent": None, "task_id": None}),
}


def everything(root: Path, arguments: dict, capfd: pytest.CaptureFixture[str], settings: dict | None = None, draw: bool = False) -> Path:
    """Compute and render, and if asked draw, a run in which any warning is an error; return its tables as computed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(made_run.command(arguments, root / "stats", settings)) == 0
        assert main(["tables", "--stats", str(root / "stats"), "--out", str(root / "tables")]) == 0
        assert not draw or main(["figures", "--stats", str(root / "stats"), "--out", str(root / "figures")]) == 0
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")
    return root / "stats"


def check_cells(root: Path) -> None:
    """Every cell is a finite number, a text or empty; a row without its number says why, and a table without rows too."""
    for name in TABLES:
        found = rows(root / "stats", name)
        table = DECLARED[name]
        for row in found:
            for column, value in row.items():
                assert not isinstance(value, float) or math.isfinite(value), (name, column, row)
            noted = any(column.name == "note" for column in table.columns)
            main_columns = [c.name for c in table.columns if not c.extra and c.kind in ("pct", "coef", "points", "number")]
            bare = noted and main_columns and all(row[column] is None for column in main_columns)
            assert not bare or row["note"], (name, row)
            for column in table.columns:
                low, high = row.get(f"{column.name}_low"), row.get(f"{column.name}_high")
                assert (low is None) == (high is None) and (low is None or low <= high), (name, column.name, row)
        lines = list(csv.reader(io.StringIO((root / "tables" / f"{name}.csv").read_text(encoding="utf-8"))))
        assert len(lines) == len(found) + 1
        printed = (root / "tables" / f"{name}.md").read_text(encoding="utf-8")
        cells = {cell.strip().casefold() for line in printed.splitlines() if line.startswith("|") for cell in line.split("|")}
        assert not {"nan", "inf", "-inf", "none", "nan [nan, nan]"} & (cells | {cell.casefold() for line in lines for cell in line}), name
        assert found or table.reason in printed or len(printed) > 60


def run(root: Path, name: str, capfd: pytest.CaptureFixture[str], baseline: str = "exact", draw: bool = False) -> None:
    made = made_run.probes(root, n=24, trajectories=12)[0] if name in PROBES else made_run.audit(root)
    made = (PROBES | AUDITS)[name](root, made) or made
    everything(root, made, capfd, {**made_run.SETTINGS, "bootstrap": 50, "baseline": baseline}, draw)
    check_cells(root)


@pytest.mark.parametrize("name", [*PROBES, *AUDITS])
def test_tables(tmp_path, capfd, name):
    run(tmp_path, name, capfd)


@pytest.mark.parametrize("name", ["all right", "no items", "baselines alone", "one model"])
def test_tables_over_an_estimated_chance_level(tmp_path, capfd, name):
    run(tmp_path, name, capfd, "random")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PROBES, *AUDITS])
def test_figures(tmp_path, capfd, name):
    run(tmp_path, name, capfd, draw=True)


def test_an_index_below_chance_is_negative_everywhere(tmp_path, capfd):
    arguments, _ = made_run.probes(tmp_path, n=24)
    PROBES["all wrong"](tmp_path, arguments)
    stats = everything(tmp_path, arguments, capfd)
    row = one(rows(stats, "evogui_main"), model="alpha-2b")
    # All three scores are 0, so each is chance / (chance - 100) of the way.
    chance = one(rows(stats, "evogui_main"), model="chance (exact)")
    expected = -sum(100 * chance[m] / (100 - chance[m]) for m in ("t1", "t2_joint", "t3")) / 3
    assert row["evogain"] == pytest.approx(expected) and row["evogain"] < -30
    assert "no variation to resample" in one(rows(stats, "evogui_intervals"), model="alpha-2b")["note"]


def test_one_rater_has_a_rate_and_no_spread(tmp_path, capfd):
    arguments = made_run.audit(tmp_path)
    stats = everything(tmp_path, AUDITS["one rater"](tmp_path, arguments), capfd)
    assert rows(stats, "agreement") == []
    found = {row["annotator"]: row for row in rows(stats, "annotator_rates")}
    assert found["mean"]["wrong_rate"] == found["gpt"]["wrong_rate"] and found["sd"]["wrong_rate"] is None
    assert "one annotator" in found["sd"]["note"] and "one annotator" in found["variance"]["note"]


def test_one_category_has_no_kappa_and_says_why(tmp_path, capfd):
    arguments = made_run.audit(tmp_path)
    stats = everything(tmp_path, AUDITS["one category"](tmp_path, arguments), capfd)
    for row in rows(stats, "agreement"):
        assert row["raw"] == 100
        assert (
            (row["value"] == 1) if row["statistic"] == "gwet_ac1" else (row["value"] is None and "one and the same category" in row["note"])
        )


def test_a_label_given_twice_is_one_line_with_both_places(tmp_path, capsys):
    line = "t-1,ana,human,blind,gf,other,1\n"
    (tmp_path / "ana.csv").write_text(
        f"trajectory_id,annotator,kind,stage,verdict,category,codebook_version\n{line}{line}", encoding="utf-8"
    )
    assert main(["review", "check", str(tmp_path / "ana.csv")]) == 1
    out = capsys.readouterr().out
    assert f"{tmp_path / 'ana.csv'}:3: a second blind label of 'ana' for 't-1', first given at {tmp_path / 'ana.csv'}:2" in out


def test_the_command_line_says_nothing_about_a_run_with_nothing_in_it(tmp_path):
    arguments, _ = made_run.probes(tmp_path, n=24, trajectories=12)
    PROBES["one item a task"](tmp_path, arguments)
    python = [sys.executable, "-W", "error", "-m", "evoaudit"]
    render = ["tables", "--stats", str(tmp_path / "stats"), "--out", str(tmp_path / "tables")]
    for words in (made_run.command(arguments, tmp_path / "stats"), render):
        done = subprocess.run([*python, *words], capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
