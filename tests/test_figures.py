"""Figures: all there, the same bytes each time, and drawn from any data without a word on the console."""

import json
import re
import shutil
from pathlib import Path

import made_run
import pytest
from matplotlib.text import Text

from evoaudit import outputs
from evoaudit.__main__ import main
from evoaudit.figures import charts
from evoaudit.figures.draw import FIGURES, draw, load
from evoaudit.figures.style import empty, safe, style, write


@pytest.fixture(scope="module")
def drawn(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("figures")
    arguments = made_run.simulated_audit(root) | made_run.probes(root)[0]
    assert main(made_run.command(arguments, root / "stats")) == 0
    assert main(["figures", "--stats", str(root / "stats" / "manifest.json"), "--out", str(root / "figures")]) == 0
    return root


def test_every_promised_figure_is_there_in_three_formats(drawn):
    assert set(outputs.FIGURES) == set(FIGURES)
    starts = {"pdf": b"%PDF-", "svg": b"<?xml", "png": b"\x89PNG"}
    for name in outputs.FIGURES:
        for end, start in starts.items():
            assert (drawn / "figures" / f"{name}.{end}").read_bytes().startswith(start)


def test_the_same_tables_give_the_same_bytes_and_carry_no_date(drawn, tmp_path):
    for name in ("pipeline", "verdicts_by_benchmark", "calibration", "agreement"):  # patches, hatches, panels, and one that is empty
        with style():
            write(draw(load(drawn / "stats"), name)[0], tmp_path, name)
        for end in ("pdf", "svg", "png"):
            assert (drawn / "figures" / f"{name}.{end}").read_bytes() == (tmp_path / f"{name}.{end}").read_bytes(), name
    for name in outputs.FIGURES:
        assert b"CreationDate" not in (drawn / "figures" / f"{name}.pdf").read_bytes()
        assert not re.search(r"<dc:date>|matplotlib v", (drawn / "figures" / f"{name}.svg").read_text(encoding="utf-8").lower())


def test_a_figure_without_data_is_small_and_says_why(tmp_path, capfd):
    assert main(made_run.command({}, tmp_path / "stats", {})) == 0
    data = load(tmp_path / "stats")
    with style():
        for name in outputs.FIGURES:
            assert (draw(data, name)[0].get_figheight() < 1.5) == (name != "pipeline"), name
    with style():
        figure = empty("Cost and success", "Nothing was asked of a model.")
    assert [text.get_text() for text in figure.texts] == ["Cost and success", "Nothing was asked of a model."]
    assert capfd.readouterr() == ("", "")


def test_names_no_font_can_set_are_drawn_without_a_warning(tmp_path, capfd):
    hostile = "模型 $x_1$ \\frac \u202e<b>\n" + "n" * 200
    row = {
        "model": hostile,
        "group": "Open-weight models",
        "evogain": 5.0,
        "evogain_low": -1.0,
        "evogain_high": 9.0,
        "cluster_low": None,
        "cluster_high": None,
    }
    with style():
        write(charts.evogain_forest([row] * 3), tmp_path, "forest")
    assert len(safe(hostile)) <= 34 and "\n" not in safe(hostile) and "模" not in safe(hostile)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("value", [None, 0.0, 100.0])
def test_charts_stand_extreme_and_missing_values(value):
    ends = {"low": value, "high": value}
    slices = {name: value for kind in ("cross", "same_domain", "long_skip") for name in (kind, f"{kind}_low", f"{kind}_high")}
    with style():
        charts.t3_slices([{"model": "m", "group": "x", **slices}]).draw_without_rendering()
        pair = {"stage": "1 verdict", "raters": "a, b", "n": 1, "raw": 100.0, "statistic": "cohen_kappa", "value": value, **ends}
        charts.agreement([pair]).draw_without_rendering()
        charts.controls([{"model": "m", "condition": "black", "t1": value, "t2_top1": value, "t3": value}], {}).draw_without_rendering()
        measured = {f"{name}{end}": value for name in ("precision", "recall", "f1") for end in ("", "_low", "_high")}
        rule = {"rule": "always", "benchmark": "All", "truth": "planted", "n": 3, "n_true": 0, "n_flagged": 3, **measured}
        charts.noop_probe([rule]).draw_without_rendering()


def test_more_rows_than_a_page_holds_are_counted():
    row = {"group": "Other models", "evogain": 5.0, "evogain_low": None, "evogain_high": None, "cluster_low": None, "cluster_high": None}
    with style():
        figure = charts.evogain_forest([{**row, "model": f"m{number}"} for number in range(100)])
    assert figure.get_figheight() < 15
    assert "and 40 more in the table" in [text.get_text() for text in figure.axes[0].texts]


def test_a_figure_of_simulated_data_says_so(drawn):
    with style():
        figure, _ = draw(load(drawn / "stats"), "verdicts_by_benchmark")
    assert figure.get_supxlabel() == "simulated data"


def test_tables_of_an_older_run_that_lack_a_column_can_still_be_drawn(drawn, tmp_path):
    import pyarrow.parquet as pq

    from evoaudit.tables import files

    table = pq.read_table(drawn / "stats" / "cost.parquet")
    pq.write_table(table.drop_columns(["success"]), tmp_path / "cost.parquet")
    assert all(row["success"] is None for row in files.rows(tmp_path, "cost"))


def test_charts_name_the_level_of_the_runs_intervals(drawn, tmp_path):
    shutil.copytree(drawn / "stats", tmp_path / "stats")
    told = json.loads((tmp_path / "stats" / "manifest.json").read_text(encoding="utf-8"))
    made_run.sealed(tmp_path / "stats", config={**told["config"], "confidence": 0.9})
    words = {}
    for name, folder in (("usual", drawn / "stats"), ("other", tmp_path / "stats")):
        with style():
            figure = draw(load(folder), "verdicts_by_benchmark")[0]
        words[name] = " ".join(text.get_text() for text in figure.findobj(Text))
    assert "[95 %]" in words["usual"] and "[90 %]" in words["other"] and "95 %" not in words["other"]
