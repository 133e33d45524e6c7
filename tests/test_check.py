"""The check of any printed results table: what follows is found to follow, one wrong digit is found, and a bad table is one line."""

import csv
import os
import time
from decimal import Decimal
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoaudit import resultcheck, stats
from evoaudit.__main__ import main
from evoaudit.errors import InputError
from evoaudit.resources import PUBLISHED
from evoaudit.stats import check

TABLE2 = ("--of", "t1=1000", "--of", "t2_top1=1000", "--of", "t2_joint=1000", "--of", "t3=1000")
VERDICTS = ("--sum", "n=gf+efn+broken+unclear", "--share", "wrong_pct=efn+broken/n")


def found(text: str, **rules) -> dict[tuple[str, str], dict]:
    results = resultcheck.check(resultcheck.parse(text), resultcheck.Rules(**rules))
    return {(result["row"], result["quantity"]): result for result in results}


def status(text: str, **rules) -> dict[str, str]:
    return {quantity: result["status"] for (_, quantity), result in found(text, **rules).items()}


@pytest.mark.parametrize(
    ("name", "options", "checked"),
    [
        ("evogui_table2", TABLE2, 29 * 4 + 28),
        ("evogui_table5", ("--pool", "t2_top1=click:461+type:461+select:78"), 28),
        ("evogui_table6", ("--of", "cross=334", "--of", "same_domain=333", "--of", "long_skip=333"), 84),
        ("cua_table2_verdicts", VERDICTS, 24),
    ],
)
def test_the_papers_tables_pass(name, options, checked, capsys):
    assert main(["check", str(PUBLISHED / f"{name}.csv"), *options]) == 0
    assert f"{checked} agree, 0 differ, 0 cannot be derived" in capsys.readouterr().out


def test_one_wrong_digit_is_found_and_written_out(tmp_path, capsys):
    text = (PUBLISHED / "cua_table2_verdicts.csv").read_text(encoding="utf-8").replace("150,122,16,7,5,15.3", "150,122,16,7,5,15.4")
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    assert main(["check", str(tmp_path / "t.csv"), *VERDICTS, "--out", str(tmp_path / "out.csv")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("differs: All: wrong_pct = (efn + broken) / n: printed 15.4, recomputed 15.3333") for line in lines)
    with open(tmp_path / "out.csv", encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert list(rows[0]) == ["row", "quantity", "published", "recomputed", "status", "note"]
    assert sum(row["status"] == "differs" for row in rows) == len([line for line in lines if line.startswith("differs")]) > 0


def test_a_percentage_needs_a_count_that_gives_it():
    # 62.3 of 1,000 is 623; 62.35 is none; of 7 there are 57.1 and 71.4.
    assert status("m,n,accuracy\na,1000,62.3\nb,1000,62.35\n") == {"accuracy of n": "differs"}
    held = found("m,n,accuracy\na,1000,62.3\nb,7,57.1\nc,7,60.0\n")
    assert [held[row, "accuracy of n"]["status"] for row in "abc"] == ["agrees", "agrees", "differs"]
    assert held["a", "accuracy of n"]["note"] == "623 of 1000" and held["c", "accuracy of n"]["note"].endswith("the nearest is 4")


def test_double_rounding_agrees_with_a_note():
    # 166/333 is 49.8498…, so 49.8, or 49.9 by way of 49.85.
    assert found("m,n,accuracy\na,333,49.9\n")["a", "accuracy of n"]["note"] == "166 of 333; only if it was rounded twice"


def test_hits_beside_a_percentage_settle_it():
    held = found("m,n,accuracy,k_accuracy\na,150,15.3,23\nb,150,15.3,24\nc,10,15.3,24\n")
    assert [held[row, "accuracy from its hits"]["status"] for row in "abc"] == ["agrees", "differs", "differs"]


@pytest.mark.parametrize(
    ("method", "ends"),
    [
        ("Wilson", [100 * end for end in stats.wilson_ci(23, 150)]),
        ("Clopper-Pearson", [100 * end for end in stats.clopper_pearson_ci(23, 150)]),
        # 23/150 ± 1.96 √(p q / n): .1533 ± .0577
        ("normal (Wald)", [9.568, 21.099]),
    ],
)
def test_the_method_of_an_interval_is_named(method, ends):
    low, high = (f"{end:.2f}" for end in ends)
    result = found(f"m,n,wrong_rate,wrong_rate_low,wrong_rate_high\na,150,15.3,{low},{high}\n")["a", "interval of wrong_rate"]
    assert result["status"] == "agrees" and method in result["note"]


def test_an_interval_of_no_method_differs_and_one_that_misses_its_value_too():
    assert status("m,n,rate,rate_low,rate_high\na,150,15.3,14.0,16.0\n")["interval of rate"] == "differs"
    assert "does not hold" in found("m,n,rate,rate_low,rate_high\na,150,15.3,16.0,22.0\n")["a", "interval of rate"]["note"]


def test_totals_are_held_against_the_rows_above():
    text = "m,n,accuracy,k_accuracy\na,10,50.0,5\nb,30,33.3,10\nAll,40,{},15\n"
    assert set(status(text.format("37.5")).values()) == {"agrees"}
    assert status(text.format("41.7"))["accuracy over the rows"] == "differs"  # the mean of the two percentages
    assert status("m,n,accuracy\na,10,50.0\nb,30,33.3\nTotal,41,37.5\n")["n over the rows"] == "differs"


GROUPED = "group,model,n,accuracy\nA,x,10,50\nA,y,10,50\nA,All,20,50\nB,x,10,0\nB,y,10,0\nB,All,{},{}\n"


def test_a_subtotal_is_that_of_its_group_and_a_grand_total_may_follow():
    held = found(GROUPED.format(20, 0) + "All,x,20,25\nAll,y,20,25\nAll,All,40,25\n")
    assert {result["status"] for result in held.values()} == {"agrees"}
    for row in ("A / All", "B / All", "All / x", "All / All"):
        assert (row, "n over the rows") in held and (row, "accuracy over the rows") in held


def test_a_wrong_subtotal_is_found_and_its_group_named():
    held = found(GROUPED.format(21, 0) + "All,,40,25\n")
    assert [key for key, result in held.items() if result["status"] == "differs"] == [("B / All", "n over the rows")]
    assert held["B / All", "n over the rows"]["recomputed"] == 20 and held["B / All", "n over the rows"]["note"] == "over the 2 of B"
    assert found(GROUPED.format(20, 5))["B / All", "accuracy over the rows"]["status"] == "differs"
    assert found(GROUPED.format(20, 0) + "All,,41,25\n")["All", "n over the rows"]["recomputed"] == 40


@pytest.mark.parametrize(
    "text",
    [
        "g,m,n\nA,All,20\nA,x,10\nA,y,10\nB,All,4\nB,x,2\nB,y,2\n",  # before its rows
        "g,m,n\nA,x,10\nA,y,10\nA,All,20\nB,x,2\nB,All,2\n",  # a group of one row
        "g,m,n\nA,x,10\nA,y,10\nB,All,20\n",  # a group of none: all rows above
        "g,m,n\nA,x,10\nB,y,10\nB,Sum,20\n",  # all rows above
        "m,n\na,1\nb,2\nSum,3\nc,3\nd,4\nTotal,7\nOverall,10\n",  # no column names the group
        "g,m,n\nx,all,10\ny,all,10\nTotal,all,20\n",  # a column that always says the same
    ],
)
def test_totals_of_every_usual_form_agree(text):
    held = {key: result["status"] for key, result in found(text).items()}
    assert held and set(held.values()) == {"agrees"}
    assert all((named, "n over the rows") in held for named in ("B / All", "Total / all") if f"{named.replace(' / ', ',')}," in text)


def test_totals_and_rows_of_chance_by_the_thousand_take_no_longer_each():
    # Every row a total of all above, or one of chance, once cost a look at every other.
    rows = "".join(f"g{i},{'total' if i % 2 else 'x'},1000,50.0,1,1,1,1\n" for i in range(2000))
    chance = "".join(f"random {i},x,1000,50.0,1,1,1,1\n" for i in range(2000))
    start = time.process_time()
    found("g,m,n,accuracy,t1,t2_joint,t3,evogain\n" + rows + chance)
    assert time.process_time() - start < 10  # seconds; it took minutes


def test_sums_of_rounded_parts_may_miss_by_their_rounding():
    assert (
        status("m,n,a_pct,b_pct,c_pct,all_pct\nx,9,33.3,33.3,33.3,100\n", sums={"all_pct": ["a_pct", "b_pct", "c_pct"]})[
            "all_pct = a_pct + b_pct + c_pct"
        ]
        == "agrees"
    )
    assert status("m,n,a,b\nx,9,4,4\n", sums={"n": ["a", "b"]})["n = a + b"] == "differs"


def test_evogain_follows_from_its_parts_over_the_tables_own_chance_row():
    text = "model,t1,t2_joint,t3,evogain\nrandom choice,8.0,15.0,49.9,0.0\nGemini,58.3,65.4,83.6,{}\n"
    assert status(text.format("60.4")) == {"evogain from its parts": "agrees"}
    assert status(text.format("61.0")) == {"evogain from its parts": "differs"}
    bare = "model,t1,t2_joint,t3,evogain\nGemini,58.3,65.4,83.6,60.4\n"
    assert status(bare) == {"evogain": "not_derivable"}
    assert status(bare, baseline=[8.0, 15.0, 49.9]) == {"evogain from its parts": "agrees"}


def test_a_negative_evogain_is_a_figure_like_any_other():
    text = "model,t1,t2_joint,t3,evogain\nnothing right,0,0,0,{}\n"
    for cell in ("-42.0", "−42.0"):
        assert status(text.format(cell), baseline=[8.0, 15.0, 49.9]) == {"evogain from its parts": "agrees"}


def test_kappa_must_be_possible_with_the_agreement_beside_it():
    # 139 of 150 with four categories: 0.71 is possible; 0.99 never is, since 11 rows differ.
    text = "raters,n,agreement,kappa,categories\njudges,150,92.7,{},4\n"
    assert status(text.format("0.71"))["kappa with this agreement"] == "agrees"
    assert status(text.format("0.99"))["kappa with this agreement"] == "differs"
    assert status("raters,n,agreement,kappa\na,0,92.7,0.7\n")["kappa"] == "not_derivable"


@pytest.mark.parametrize(("n", "q"), [(7, 2), (5, 3)])
def test_chance_agreement_stays_inside_its_bounds_for_every_table(n, q):
    def tables(left: int, cells: int):
        if cells == 1:
            yield (left,)
            return
        for first in range(left + 1):
            for rest in tables(left - first, cells - 1):
                yield (first, *rest)

    for cells in tables(n, q * q):
        grid = [cells[i * q : (i + 1) * q] for i in range(q)]
        agree = sum(grid[i][i] for i in range(q))
        chance = sum(sum(grid[i]) * sum(row[i] for row in grid) for i in range(q)) / n**2
        low, high = check.expected_agreement(agree, n, q)
        assert low - 1e-9 <= chance <= high + 1e-9
        assert check.expected_agreement(agree, n)[0] <= low + 1e-9


@given(st.integers(1, 2000), st.integers(0, 2000), st.integers(0, 2), st.booleans())
def test_every_count_lies_in_the_range_of_its_own_printed_share(n, k, decimals, twice):
    k = min(k, n)
    first, last = check.count_range(check.printed(Fraction(100 * k, n), decimals, twice), n, twice)
    assert first <= k <= last


def test_the_range_of_counts_is_that_of_listing_them():
    for n, tenths in product((1, 7, 104, 333), range(0, 1001)):
        cell = Decimal(tenths).scaleb(-1)
        listed = check.hidden_counts(cell, n)
        span = check.count_range(cell, n)
        assert (span is None) == (not listed) and (span is None or span == (listed[0], listed[-1]))


def test_huge_numbers_of_cases_cost_nothing():
    assert status("m,n,rate,rate_low,rate_high\na,999999999999999,15.3,15.3,15.3\n")["rate of n"] == "agrees"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("model,n,accuracy\n", "holds no rows"),
        ("model,n,accuracy\na,10,50.0,7\n", "t.csv:2: has 4 cells and the header 3"),
        (f"model,n,{'x' * 201}\na,1,2\n", "has a name of 201 letters; give at most 200"),
        ("model,n,n\na,1,2\n", "the column 'n' stands there twice"),
        ("model,n,accuracy\na,10,50.0\na,10,40.0\n", "t.csv:3: 'a' stands in line 2 too"),
        ("model,n,accuracy\na,10,fifty\n", "t.csv:2: accuracy: 'fifty' is no number"),
        ("model,n,accuracy\na,10,nan\n", "'nan' is no number"),
        ("model,n,accuracy\na,ten,50.0\n", "n: 'ten' is no number"),
        ("model,n,accuracy\na,10.5,50.0\n", "n: 10.5 is no count"),
        ("model,n,accuracy\na,-3,50.0\n", "n: -3 is no count"),
        ("model,speed\na,3\n", "has nothing that can be checked"),
        ('model,n\n"a,3\n', "is not CSV"),
    ],
)
def test_a_bad_table_is_one_line(tmp_path, capsys, text, words):
    (tmp_path / "t.csv").write_text(text)
    assert main(["check", str(tmp_path / "t.csv")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and words in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--of", "t9=1000"], "has no column 't9'"),
        (["--of", "t1"], "is not name=something"),
        (["--sum", "n=a+"], "has an empty part"),
        (["--share", "x=a+b"], "names no column of cases"),
        (["--pool", "x=a"], "is not name:something"),
        (["--baseline", "8,15"], "is not three percentages"),
        (["--baseline", "8,15,100"], "is not three percentages"),
        (["--confidence", "95"], "is no level"),
        (["--of", "t1=-5"], "check: --of t1=-5: -5 is no number of cases; give a whole number, 1 or more"),
        (["--of", "t1=0"], "check: --of t1=0: 0 is no number of cases"),
        (["--of", "t1=2.5"], "check: --of t1=2.5: 2.5 is no number of cases"),
        (["--pool", "t1=t3:-5+t2_joint:4"], "check: --pool t1=t3:-5: -5 is no number of cases"),
    ],
)
def test_a_bad_option_is_one_line(options, words, capsys):
    assert main(["check", str(PUBLISHED / "evogui_table2.csv"), *options]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_the_table_is_not_overwritten_by_its_results(tmp_path, capsys, link):
    table = tmp_path / "t.csv"
    table.write_text(text := "m,n,accuracy\na,10,50\n")
    out = table if link is None else tmp_path / "o.csv"
    if link is not None:
        link(table, out)
    assert main(["check", str(table), "--out", str(out)]) == 2
    assert table.read_text() == text and f"check: --out {out}: is the table itself; give" in capsys.readouterr().err


def test_files_that_are_none_are_one_line(tmp_path, capsys):
    (tmp_path / "x.csv").write_bytes(b"model,n\n\xff,3\n")
    for path in (tmp_path / "none.csv", tmp_path, tmp_path / "x.csv"):
        assert main(["check", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 3


@pytest.mark.parametrize("cell", ["0", "100", "0.0", "100.0"])
def test_none_and_all_right_and_a_single_case_are_figures(cell):
    assert set(status(f"m,n,accuracy\na,1,{cell}\n").values()) == {"agrees"}


def test_no_cases_have_no_percentage():
    assert found("m,n,accuracy\na,0,0.0\n")["a", "accuracy"]["status"] == "differs"


def test_shares_from_0_to_1_are_read_as_such_when_told(tmp_path):
    text = "m,n,accuracy,accuracy_low,accuracy_high\na,150,0.153,0.104,0.220\n"
    assert set(status(text, proportions=True).values()) == {"agrees"}


@given(st.text(max_size=200))
def test_any_text_is_a_result_or_one_line(text):
    try:
        resultcheck.check(resultcheck.parse(text))
    except InputError as error:
        assert "\n" not in str(error)


@given(
    st.lists(
        st.lists(
            st.one_of(st.integers(-5, 2000).map(str), st.floats(-1, 101).map(lambda x: f"{x:.1f}"), st.sampled_from(["", "-", "a"])),
            min_size=6,
            max_size=6,
        ),
        min_size=1,
        max_size=6,
    )
)
def test_any_numbers_in_known_columns_are_a_result_or_one_line(cells):
    lines = [",".join([f"r{i}", *line]) for i, line in enumerate(cells)]
    try:
        results = resultcheck.check(resultcheck.parse("\n".join(["m,n,accuracy,accuracy_low,accuracy_high,agreement,kappa", *lines])))
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert all(result["recomputed"] is None or result["recomputed"] == result["recomputed"] for result in results)


def test_the_page_about_it_shows_a_table_that_passes(tmp_path, capsys):
    import re

    from evoaudit.resources import ROOT

    text = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
    (tmp_path / "t.csv").write_text(re.search(r"```csv\n(.*?)```", text, re.DOTALL)[1])
    assert main(["check", str(tmp_path / "t.csv")]) == 0
    assert "4 agree, 0 differ" in capsys.readouterr().out


@pytest.mark.parametrize("cell", ["50.0", "50", "50.00"])
def test_a_figure_is_told_as_it_was_typed(tmp_path, capsys, cell):
    (tmp_path / "t.csv").write_text(f"model,n,accuracy\na,7,{cell}\n", encoding="utf-8")
    assert main(["check", str(tmp_path / "t.csv")]) == 1
    assert f"differs: a: accuracy of n: printed {cell}, recomputed" in capsys.readouterr().out
