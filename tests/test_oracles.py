"""The statistics against libraries that the product does not use, on drawn data; each test runs where its library is installed.

pip install statsmodels scikit-learn krippendorff pingouin
"""

import math
from collections.abc import Callable

import numpy as np
import pytest

from evoaudit import stats
from evoaudit.stats.agreement import contingency, pattern_counts

DRAWS = range(30)


def drawn(check: Callable[[int], None]) -> Callable[[], None]:
    """Make one test of a check of many draws."""

    def test() -> None:
        for seed in DRAWS:
            check(seed)

    test.__name__ = check.__name__
    return test


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def same(found: float | None, expected: float, tolerance: float = 1e-9) -> bool:
    return found is None if not math.isfinite(expected) else found == pytest.approx(expected, abs=tolerance)


@drawn
def test_kappas_of_two_raters(seed):
    metrics = pytest.importorskip("sklearn.metrics")
    draw = rng(seed)
    first = draw.integers(0, 4, 60)
    second = np.where(draw.random(60) < 0.6, first, draw.integers(0, 4, 60))
    table = contingency(first, second, range(4))
    assert same(stats.cohen_kappa(table), metrics.cohen_kappa_score(first, second))
    for weights in ("linear", "quadratic"):
        assert same(stats.cohen_kappa_weighted(table, weights), metrics.cohen_kappa_score(first, second, weights=weights, labels=range(4)))


@drawn
def test_the_standard_error_of_kappa(seed):
    raters = pytest.importorskip("statsmodels.stats.inter_rater")
    draw = rng(seed)
    first = draw.integers(0, 3, 80)
    table = contingency(first, np.where(draw.random(80) < 0.5, first, draw.integers(0, 3, 80)), range(3))
    assert same(stats.cohen_kappa_se(table), math.sqrt(raters.cohens_kappa(table).var_kappa))


@drawn
def test_fleiss_kappa(seed):
    raters = pytest.importorskip("statsmodels.stats.inter_rater")
    ratings = rng(seed).integers(0, 4, (40, 4)).tolist()
    counts = pattern_counts(ratings, range(4))
    assert same(stats.fleiss_kappa(counts), raters.fleiss_kappa(counts))


@drawn
def test_alphas_with_missing_ratings(seed):
    krippendorff = pytest.importorskip("krippendorff")
    draw = rng(seed)
    values = draw.integers(1, 6, (25, 3)).astype(float)
    values[draw.random(values.shape) < 0.2] = np.nan
    ratings = [[None if math.isnan(value) else int(value) for value in row] for row in values]
    for level in ("nominal", "ordinal", "interval", "ratio"):
        expected = krippendorff.alpha(reliability_data=values.T, level_of_measurement=level)
        assert same(getattr(stats, f"krippendorff_alpha_{level}")(ratings), expected, 1e-8), level


@drawn
def test_intervals_of_a_proportion(seed):
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    draw = rng(seed)
    n = int(draw.integers(1, 400))
    k = int(draw.integers(0, n + 1))
    for level in (0.9, 0.95, 0.99):
        for mine, theirs in ((stats.wilson_ci, "wilson"), (stats.clopper_pearson_ci, "beta")):
            expected = proportion.proportion_confint(k, n, alpha=1 - level, method=theirs)
            assert mine(k, n, level) == pytest.approx(list(expected), abs=1e-9)


@drawn
def test_simultaneous_intervals(seed):
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    counts = rng(seed).integers(1, 60, 5)
    expected = proportion.multinomial_proportions_confint(counts, alpha=0.05, method="goodman")
    assert np.array(stats.goodman_simultaneous_ci(counts.tolist())) == pytest.approx(expected, abs=1e-9)


@drawn
def test_adjusted_p_values(seed):
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    p = rng(seed).random(20) ** 3
    for mine, theirs in ((stats.holm, "holm"), (stats.benjamini_hochberg, "fdr_bh")):
        assert mine(p.tolist()) == pytest.approx(multitest.multipletests(p, method=theirs)[1].tolist(), abs=1e-12)


@drawn
def test_discordant_pairs(seed):
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    b, c = (int(value) for value in rng(seed).integers(0, 30, 2))
    if b + c:
        assert stats.mcnemar_exact(b, c) == pytest.approx(tables.mcnemar([[5, b], [c, 9]], exact=True).pvalue)


@drawn
def test_confidence_scores(seed):
    metrics = pytest.importorskip("sklearn.metrics")
    draw = rng(seed)
    stated, right = draw.random(50), draw.random(50) < 0.6
    assert stats.brier_score(stated, right) == pytest.approx(metrics.brier_score_loss(right, stated))


@drawn
def test_rank_correlations(seed):
    from scipy.stats import kendalltau, pearsonr, spearmanr

    draw = rng(seed)
    x, y = draw.integers(0, 8, 15).astype(float), draw.integers(0, 8, 15).astype(float)
    assert stats.kendall_tau_b(x, y) == pytest.approx(kendalltau(x, y).statistic)
    assert stats.spearman_rho(x, y) == pytest.approx(spearmanr(x, y).statistic)
    assert stats.pearson_r(x, y) == pytest.approx(pearsonr(x, y).statistic)
    untied = draw.permutation(7).astype(float)
    tau = stats.kendall_tau_b(np.arange(7.0), untied)
    assert stats.kendall_exact_p_two_sided(tau, 7) == pytest.approx(kendalltau(np.arange(7), untied, method="exact").pvalue)


PINGOUIN = "pingouin is not installed: pip install pingouin"


@drawn
def test_correlations_and_adjusted_p_values_are_pingouins(seed):
    pingouin = pytest.importorskip("pingouin", reason=PINGOUIN)
    draw = rng(seed)
    x, y = draw.integers(0, 9, 20).astype(float), draw.integers(0, 9, 20).astype(float)
    for mine, theirs in ((stats.pearson_r, "pearson"), (stats.spearman_rho, "spearman"), (stats.kendall_tau_b, "kendall")):
        assert mine(x, y) == pytest.approx(float(pingouin.corr(x, y, method=theirs)["r"].iloc[0]), abs=1e-9), theirs
    p = draw.random(12) ** 3
    for mine, theirs in ((stats.holm, "holm"), (stats.benjamini_hochberg, "fdr_bh")):
        assert mine(p.tolist()) == pytest.approx(np.asarray(pingouin.multicomp(p, method=theirs)[1]).tolist(), abs=1e-12)


@drawn
def test_discordant_pairs_are_pingouins(seed):
    pingouin = pytest.importorskip("pingouin", reason=PINGOUIN)
    pandas = pytest.importorskip("pandas", reason=PINGOUIN)
    draw = rng(seed)
    before, after = draw.random(40) < 0.5, draw.random(40) < 0.6
    table = pingouin.chi2_mcnemar(pandas.DataFrame({"a": before.astype(int), "b": after.astype(int)}), "a", "b")[1]
    exact = float(table.filter(regex="p.exact").iloc[0, 0])
    assert stats.mcnemar_exact(int((before & ~after).sum()), int((~before & after).sum())) == pytest.approx(exact)


def test_the_percentile_bootstrap_is_pingouins_but_for_chance():
    pingouin = pytest.importorskip("pingouin", reason=PINGOUIN)
    for share, n in ((0.2, 50), (0.5, 200), (0.9, 80)):
        values = (np.arange(n) < round(share * n)).astype(float)
        expected = pingouin.compute_bootci(values, func="mean", method="per", n_boot=20_000, seed=3, decimals=9)
        # Both ends are quantiles of 20,000 draws on a grid of 1/n: they may be one step apart.
        assert stats.bootstrap_ci(values, 0.95, 20_000, seed=5) == pytest.approx(list(expected), abs=1.01 / n)
