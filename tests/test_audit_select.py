"""The review set: every disagreement, and a stratified share of the agreements."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoaudit.audit import select


def judgment(identity, verdict, category=None, status="ok"):
    return {"trajectory_id": identity, "verdict": verdict, "category": category, "status": status}


def frame(n, benchmarks=("web",)):
    return [{"trajectory_id": f"t-{i:03}", "benchmark": benchmarks[i % len(benchmarks)]} for i in range(n)]


@pytest.mark.parametrize(
    ("pairs", "stratum"),
    [
        ([("gf", "t1-spec"), ("gf", "t1-spec")], "agree"),
        ([("gf", "t1-spec"), ("gf", "t1-loop")], "category_disagree"),
        ([("gf", "t1-spec"), ("gf", None)], "category_disagree"),
        ([("gf", "t1-spec"), ("efn", None)], "verdict_disagree"),
        ([("efn", None), ("efn", None)], "agree"),
        ([("efn", None), (None, None)], "missing"),
        ([("efn", None)], "missing"),
        ([], "missing"),
        ([("gf", "other"), ("gf", "other"), ("broken", None)], "verdict_disagree"),
    ],
)
def test_strata(pairs, stratum):
    n = 3 if len(pairs) == 3 else 2
    assert select.stratum([judgment("t", *pair) for pair in pairs], n) == stratum


def test_every_disagreement_and_every_missing_judgment_is_reviewed():
    rows = frame(40)
    one = [judgment(row["trajectory_id"], "gf", "other") for row in rows]
    two = [
        judgment(row["trajectory_id"], "efn" if i < 5 else "gf", None if i < 5 else "t1-spec" if i < 12 else "other")
        for i, row in enumerate(rows[:-1])
    ]
    found = select.review_set(rows, [one, two], agreements=10, seed=1)
    assert select.counts(found) == {"agree": 27, "category_disagree": 7, "missing": 1, "verdict_disagree": 5}
    assert all(row["selected"] for row in found if row["stratum"] != "agree")
    assert sum(row["selected"] for row in found) == 13 + 10


def test_agreements_are_drawn_in_proportion_to_benchmark_and_verdict():
    rows = frame(120, ("a", "b", "c"))
    labels = [judgment(row["trajectory_id"], "efn" if i % 4 == 0 else "gf", None if i % 4 == 0 else "other") for i, row in enumerate(rows)]
    found = select.review_set(rows, [labels, labels], agreements=12, seed=1)
    verdict = {row["trajectory_id"]: row["verdict"] for row in labels}
    drawn = Counter((row["benchmark"], verdict[row["trajectory_id"]]) for row in found if row["selected"])
    assert drawn == {(b, v): n for b in "abc" for v, n in (("efn", 1), ("gf", 3))}


def test_three_judges_agree_only_if_all_do():
    rows = frame(3)
    same = [judgment(row["trajectory_id"], "efn") for row in rows]
    odd = [judgment("t-000", "gf", "other"), *same[1:]]
    found = select.review_set(rows, [same, same, odd], agreements=0, seed=1)
    assert [row["selected"] for row in found] == [True, False, False]


def test_without_judges_everything_is_reviewed():
    found = select.review_set(frame(3), [], agreements=1, seed=1)
    assert all(row["selected"] and row["reason"] == "no judge" for row in found)


@given(st.dictionaries(st.tuples(st.text(max_size=3), st.text(max_size=3)), st.integers(0, 60), max_size=12), st.integers(0, 200))
def test_an_allocation_is_whole_fair_and_within_its_strata(sizes, n):
    shares = select.allocate(sizes, n)
    total = sum(sizes.values())
    assert sum(shares.values()) == min(n, total)
    assert all(0 <= shares[key] <= size for key, size in sizes.items())
    assert all(abs(shares[key] - min(n, total) * size / total) < 1 for key, size in sizes.items() if total)


@given(st.permutations(range(30)))
def test_the_order_of_rows_never_matters(order):
    rows = frame(30, ("a", "b"))
    labels = [judgment(row["trajectory_id"], "gf", "other") for row in rows]
    expected = select.review_set(rows, [labels, labels], agreements=7, seed=3)
    shuffled = [labels[i] for i in order]
    assert select.review_set([rows[i] for i in order], [shuffled, labels], agreements=7, seed=3) == expected
