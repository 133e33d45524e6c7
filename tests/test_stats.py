"""Statistics: golden values, edge cases, and the laws the formulas must keep."""

import json
import subprocess
import sys
import warnings
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoaudit import stats
from evoaudit.stats import agreement, check, resample

GOLDEN = json.loads((Path(__file__).parent / "golden" / "stats.json").read_text(encoding="utf-8"))


def close(found, expected, tolerance: float) -> bool:
    if expected is None:
        return found is None
    if isinstance(expected, list):
        return len(found) == len(expected) and all(close(a, b, tolerance) for a, b in zip(found, expected, strict=True))
    return found is not None and abs(found - expected) <= max(tolerance, 1e-12)


@pytest.mark.parametrize("case", GOLDEN, ids=[case["id"] for case in GOLDEN])
def test_golden(case, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = getattr(stats, case["function"])(**case["inputs"])
    assert close(found, case["expected"], case["tol"]), found
    assert capfd.readouterr() == ("", "")


def test_undefined_is_none_with_a_reason_in_the_log(caplog):
    assert stats.cohen_kappa([[0, 0], [0, 0]]) is None
    assert stats.wilson_ci(0, 0) == [None, None]
    assert [record.name for record in caplog.records] == ["evoaudit.stats"] * 2
    assert "n is 0" in caplog.text


def test_importing_the_statistics_does_not_import_scipy():
    code = "import evoaudit.stats, sys; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@given(st.integers(0, 400), st.integers(1, 400))
def test_wilson_lies_around_the_share_and_within_0_and_1(k, n):
    k = min(k, n)
    low, high = stats.wilson_ci(k, n)
    assert 0 <= low <= k / n <= high <= 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_is_no_smaller_than_benjamini_hochberg_and_that_than_p(p):
    holm, bh = stats.holm(p), stats.benjamini_hochberg(p)
    assert all(a >= b - 1e-12 >= raw - 2e-12 for a, b, raw in zip(holm, bh, p, strict=True))


def test_holm_by_hand():
    # sorted .01 .03 .04 × 3 2 1 = .03 .06 .04, made monotone: .03 .06 .06
    assert stats.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])


@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=2, max_size=12))
def test_resampled_statistics_equal_the_plain_ones_when_nothing_is_resampled(ratings):
    counts = agreement.pattern_counts(ratings, range(4))
    once = np.ones((1, len(ratings)))
    for name, statistic in (("fleiss_kappa", agreement.fleiss_kappas), ("krippendorff_alpha_nominal", agreement.krippendorff_alphas)):
        plain = getattr(stats, name)(counts if name == "fleiss_kappa" else ratings)
        value = float(statistic(counts, once)[0])
        assert (plain is None and np.isnan(value)) or plain == pytest.approx(value)


def test_a_weight_of_two_is_the_item_twice():
    ratings = [["a", "a", "b"], ["b", "b", "b"], ["a", "b", "c"]]
    counts = agreement.pattern_counts(ratings)
    weighted = agreement.gwet_ac1s(counts, np.array([[2.0, 1.0, 1.0]]))[0]
    assert weighted == pytest.approx(stats.gwet_ac1([ratings[0], *ratings]))


def test_iid_means_have_the_law_of_drawing_items():
    values = np.array([0.0] * 70 + [1.0] * 30)
    draws = resample.iid_means(values, 20_000, np.random.default_rng(1))
    assert draws.mean() == pytest.approx(0.3, abs=0.002)
    assert draws.std() == pytest.approx((0.3 * 0.7 / 100) ** 0.5, rel=0.03)
    several = resample.iid_means(np.array([0.0, 0.25, 0.25, 1.0]), 20_000, np.random.default_rng(1))
    assert several.std() == pytest.approx(np.std([0, 0.25, 0.25, 1]) / 2, rel=0.03)


def test_weights_draw_as_many_clusters_as_there_are_in_chunks_that_do_not_matter(monkeypatch):
    whole = np.concatenate(list(resample.cluster_weights(7, 50, np.random.default_rng(3))))
    assert (whole.sum(1) == 7).all() and whole.shape == (50, 7)
    monkeypatch.setattr(resample, "_CHUNK", 9)
    assert (np.concatenate(list(resample.cluster_weights(7, 50, np.random.default_rng(3)))) == whole).all()


def test_pattern_draws_resample_whole_clusters():
    patterns, clusters = np.array([0, 1, 1, 2]), np.array([0, 0, 1, 2])
    draws = resample.pattern_draws(patterns, 3, clusters, 500, np.random.default_rng(2))
    # Pattern 0 comes only with a pattern 1 of the same cluster.
    assert (draws[:, 1] >= draws[:, 0]).all() and draws[:, 2].max() == 3


def test_limits_leave_out_undefined_draws():
    draws = np.column_stack([np.r_[np.arange(101.0), np.nan], np.full(102, np.nan)])
    low, high = resample.limits(draws)
    assert (low[0], high[0]) == pytest.approx((2.5, 97.5)) and np.isnan(low[1]) and np.isnan(high[1])


def test_resamples_that_are_all_alike_are_no_interval():
    assert resample.interval(np.ones(50)) == [None, None] and resample.interval(np.full(5, np.nan)) == [None, None]
    assert resample.interval(np.array([0.0, np.nan, 1.0])) == pytest.approx([0.025, 0.975])


def test_ranks_of_resamples_count_who_is_higher():
    assert resample.rank_draws(np.array([[3.0, 1.0, 3.0], [1.0, 2.0, 3.0]])).tolist() == [[1, 3, 1], [3, 2, 1]]


def test_exact_p_of_rho_is_by_permutation():
    # stats of Table 9: two-sided .083, where the asymptotic law would say .037
    assert stats.spearman_p_two_sided([27.4, 35.8, 38.1, 62.3, 63.3], [25.4, 37.1, 37.5, 41.9, 41.6]) == pytest.approx(1 / 12)


def test_evogain_below_chance_is_negative_and_without_a_task_undefined():
    assert stats.evogain(0, 0, 0, (8.0, 15.0, 49.9)) == pytest.approx(-41.98, abs=0.01)
    assert stats.evogain(None, 50, 50, (8.0, 15.0, 49.9)) is None


def test_calibration_by_hand():
    # bins [.9,1): two answers at .9, one right: gap .4; [.1,.2): one at .1, wrong: gap .1 -> (2*.4 + .1)/3
    assert stats.expected_calibration_error([0.9, 0.9, 0.1], [True, False, False]) == pytest.approx(0.3)
    assert stats.brier_score([0.9, 0.9, 0.1], [True, False, False]) == pytest.approx((0.01 + 0.81 + 0.01) / 3)


def test_hidden_counts_know_single_and_double_rounding():
    assert check.hidden_counts(Decimal("96.5"), 461) == [445]
    # 166/333 is 49.849…: prints as 49.8, but as 49.9 by way of 49.85
    assert check.hidden_counts(Decimal("49.9"), 333) == [] and check.hidden_counts(Decimal("49.9"), 333, twice=True) == [166]


@given(st.integers(0, 900), st.integers(1, 900))
def test_a_printed_share_always_hides_its_own_count(k, n):
    from fractions import Fraction

    k = min(k, n)
    for twice in (False, True):
        assert k in check.hidden_counts(check.printed(Fraction(100 * k, n), 1, twice), n, twice)


#: Function → arguments that leave nothing to compute.
NOTHING = {
    "wilson_ci": [(0, 0)],
    "clopper_pearson_ci": [(0, 0)],
    "goodman_simultaneous_ci": [([],), ([0, 0],)],
    "cohen_kappa": [([],), ([[0, 0], [0, 0]],), ([[5, 0], [0, 0]],)],
    "cohen_kappa_se": [([],), ([[0]],)],
    "fleiss_kappa": [([],), ([[3, 0]],)],
    "gwet_ac1": [([],), ([[None, None]],)],
    "krippendorff_alpha_nominal": [([],), ([[1, None]],), ([[1, 1], [1, 1]],)],
    "kendall_tau_b": [([], []), ([1], [1]), ([1, 1], [1, 2])],
    "spearman_rho": [([], []), ([1, 1], [1, 2])],
    "spearman_p_two_sided": [([], []), ([1, 1, 1], [1, 2, 3])],
    "pearson_r": [([], []), ([1], [1])],
    "kendall_exact_p_two_sided": [(None, 5), (1.0, 1)],
    "bootstrap_ci": [([],), ([1],), ([1, 1],)],
    "bootstrap_percentile_limit": [(0, 0)],
    "brier_score": [([], [])],
    "expected_calibration_error": [([], [])],
    "hypergeometric_ci": [(0, 0, 0)],
    "two_phase": [([], [], []), ([0], [0], [3])],
    "unseen_upper": [(0, 0, 5)],
    "rogan_gladen": [(0.5, 0.5, 0.5)],
    "stratified_proportion": [([], [], []), ([0], [0], [5])],
    "baseline_t1": [({},)],
    "baseline_t2_joint": [(0, 0, 0)],
    "evogain": [(None, 1, 1, (8, 15, 49.9)), (1, 1, 1, (100, 15, 49.9))],
    "freeman_halton_exact_p": [([0], [0])],
}


@pytest.mark.parametrize(("name", "arguments"), [(name, one) for name, cases in NOTHING.items() for one in cases])
def test_nothing_to_compute_is_none_and_no_warning(name, arguments, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = getattr(stats, name)(*arguments)
    flat = found if isinstance(found, (list, tuple)) else [found]
    assert all(value is None or (isinstance(value, (list, tuple)) and set(value) == {None}) for value in flat), found
    assert capfd.readouterr() == ("", "")
