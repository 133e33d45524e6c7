"""CSV: what a spreadsheet would run is marked, what is read back is what was written, and numbers stay numbers."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoaudit import csvfile, labels, store
from evoaudit.__main__ import main
from evoaudit.stages.sample import read_frame

HOSTILE = "=cmd|' /C calc'!A0"


def cells(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


@given(st.text(st.sampled_from("=+-@'\t\r\n ,\"a1\uff1d"), max_size=6))
def test_any_text_comes_back_as_it_was(value):
    _, row = cells(csvfile.text(["x", "y"], [{"x": value, "y": "end"}]))
    assert csvfile.plain(row[0]) == value
    assert not row[0].lstrip().startswith(("=", "+", "-", "@", "\uff1d")) and not row[0].startswith(("\t", "\r", "\n"))


@given(st.one_of(st.floats(allow_nan=False), st.integers(), st.booleans(), st.none()))
def test_numbers_are_written_in_full_and_bare(value):
    row = cells(csvfile.text(["x", "y"], [{"x": value, "y": "end"}]))[1]
    assert not row[0].startswith("'")
    if isinstance(value, float):
        assert float(row[0]) == value
    elif value is not None and not isinstance(value, bool):
        assert int(row[0]) == value


def test_a_sheet_to_label_marks_hostile_ids_and_takes_them_back(tmp_path):
    select = tmp_path / "select"
    select.mkdir()
    ids = [HOSTILE, "-1", "'=x", "plain"]
    rows = [{"trajectory_id": one, "benchmark": None, "stratum": "agree", "selected": True, "reason": "drawn"} for one in ids]
    store.write_table(select, "review_set", rows)
    assert main(["review", "build", "--review", str(select), "--group", "ana", "--out", str(tmp_path / "out")]) == 0
    sheet = tmp_path / "out" / "ana.csv"
    head, *lines = cells(sheet.read_text(encoding="utf-8"))
    assert all(line[0] == "plain" or line[0].startswith("'") for line in lines)
    place = head.index("verdict")
    for line in lines:
        line[place] = "efn"
    filled = "\n".join(",".join(f'"{cell}"' for cell in line) for line in (head, *lines))
    sheet.write_text(filled, encoding="utf-8")
    assert {row["trajectory_id"] for row in labels.read(sheet, set(ids))} == set(ids)


def test_a_converted_table_gives_a_frame_and_labels_of_the_same_ids(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text(f'id,benchmark,raw_reward,gpt\n"{HOSTILE}",+sum,-1,gf\n"\'=y",b,0.5,efn\n', encoding="utf-8")
    assert main(["review", "convert", str(table), "--rater", "gpt=llm:gpt", "--out", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out" / "frame.csv").read_text(encoding="utf-8")
    assert [line[0][:2] for line in cells(text)[1:]] == ["'=", "'="] and ",'+sum," in text and ",-1," in text and ",0.5," in text
    frame = [(one.row["trajectory_id"], one.row["benchmark"], one.raw_reward) for one in read_frame(tmp_path / "out" / "frame.csv")]
    assert frame == [(HOSTILE, "+sum", -1.0), ("=y", "b", 0.5)]
    assert [row["trajectory_id"] for row in labels.read(tmp_path / "out" / "labels.jsonl")] == [HOSTILE, "=y"]


def test_what_is_exported_holds_no_formula(tmp_path):
    final = tmp_path / "final"
    final.mkdir()
    row = {"trajectory_id": HOSTILE, "benchmark": "b", "agent": "+a", "task_id": "-3", "verdict": "gf", "category": "other"}
    row |= {"verdict_rule": "judges", "category_rule": None, "reviewed": False, "n_raters": 2, "simulated": False}
    store.write_table(final, "final", [row])
    assert main(["export", "--final", str(final), "--out", str(tmp_path / "out")]) == 0
    lines = cells((tmp_path / "out" / "audit" / "final.csv").read_text(encoding="utf-8"))
    assert lines[1] == [f"'{HOSTILE}", "b", "'+a", "'-3", "gf", "other", "judges", "", "false", "2", "false"]


@pytest.mark.parametrize("path", sorted(Path(csvfile.__file__).parent.rglob("*.py")), ids=lambda path: path.stem)
def test_nothing_else_writes_csv_but_the_simulated_sources_own_format(path):
    text = path.read_text(encoding="utf-8")
    if path.name not in ("csvfile.py",) and "formats" not in path.parts:
        assert "csv.writer" not in text and "DictWriter" not in text and "write_csv" not in text
