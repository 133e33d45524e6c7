"""95 % intervals cover what they say: simulated again and again with a known truth, over items, clusters and the audit's designs.

Each design runs in a short form that can tell 93 from 95 and 97 from 95 percent by its own simulation error, and in a long
one (`slow`) with far more replicates.
"""

from functools import lru_cache
from math import sqrt

import numpy as np
import pytest

from evoaudit.stats import evogain, two_phase, wilson_ci
from evoaudit.stats.agreement import cohen_kappas
from evoaudit.stats.resample import by_stratum, iid_means, limits, pattern_draws, stratified_means

#: Replicates of the short and the long form: standard errors of a coverage of 0.95 are 0.0056 and 0.0022.
SHORT, LONG = 1500, 10_000
RESAMPLES = 400
CHANCE = (8.0, 15.0, 50.0)

two_phase = lru_cache(maxsize=None)(two_phase)


def inside(ends, truth: float) -> bool:
    low, high = ends
    return low - 1e-12 <= truth <= high + 1e-12


def evogain_by_items(rng: np.random.Generator) -> bool:
    """EvoGain of a model, three tasks of 300 items each, resampled as the paper does."""
    chance = (0.3, 0.5, 0.75)
    truth = evogain(*(100 * p for p in chance), CHANCE)
    draws = [100 * iid_means((rng.random(300) < p).astype(float), RESAMPLES, rng) for p in chance]
    return inside(limits(sum((d - b) / (100 - b) * 100 for d, b in zip(draws, CHANCE, strict=True)) / 3), truth)


def correlated(rng: np.random.Generator, chance: float, clusters: int, size: int, columns: int, icc: float = 0.3) -> np.ndarray:
    """Return clusters × size × columns of outcomes; a cluster's items share its luck (beta law), all columns share part of it."""
    a = (1 - icc) / icc
    luck = rng.beta(chance * a, (1 - chance) * a, (clusters, 1, 1))
    return (rng.random((clusters, size, columns)) < luck).astype(float)


def accuracy_by_trajectories(rng: np.random.Generator) -> bool:
    """Accuracy over 200 trajectories with five items each that are right or wrong together (intraclass correlation 0.3)."""
    values = correlated(rng, 0.4, 200, 5, 1).reshape(1000, 1)
    held = by_stratum(values, np.repeat(np.arange(200), 5), 200, np.zeros(1000))
    return inside((end[0] for end in limits(stratified_means([held], RESAMPLES, rng)[0])), 0.4)


def accuracy_by_trajectories_with_slices(rng: np.random.Generator) -> bool:
    """The same where every trajectory gives items to three slices of very different difficulty, in shares that the design fixes."""
    strata = np.tile([0, 0, 1, 1, 2], 200)
    ease = np.array([0.9, 0.5, 0.1])
    luck = rng.normal(0, 0.1, 200).repeat(5)
    values = (rng.random(1000) < np.clip(ease[strata] + luck, 0, 1)).astype(float)
    truth = 0.4 * 0.9 + 0.4 * 0.5 + 0.2 * 0.1
    # Clipping moves the means of the outer slices by the part of the luck that is cut off.
    cut = 0.1 * (np.exp(-0.5) / sqrt(2 * np.pi) - 0.15865525)
    truth += -0.4 * cut + 0.2 * cut
    held = by_stratum(values[:, None], np.repeat(np.arange(200), 5), 200, strata)
    return inside((end[0] for end in limits(stratified_means([held], RESAMPLES, rng)[0])), truth)


def difference_of_two_models(rng: np.random.Generator) -> bool:
    """The difference of two models asked the same items, from shared resamples."""
    values = correlated(rng, 0.4, 100, 4, 2)
    values[:, :, 1] = np.where(rng.random((100, 4)) < 0.1, 1.0, values[:, :, 1])
    held = by_stratum(values.reshape(400, 2), np.repeat(np.arange(100), 4), 100, np.zeros(400))
    draws = stratified_means([held], RESAMPLES, rng)[0]
    return inside(limits(draws[:, 1] - draws[:, 0]), 0.06)


def wrong_verdicts_by_wilson(rng: np.random.Generator) -> bool:
    """The paper's interval: 150 verdicts, a share between 5 and 30 percent wrong."""
    share = rng.uniform(0.05, 0.3)
    return inside(wilson_ci(int(rng.binomial(150, share)), 150), share)


def wrong_verdicts_by_tasks(rng: np.random.Generator) -> bool:
    """Five benchmarks with 40 tasks each, two attempts a task that share their verdict half of the time; rates differ by benchmark."""
    rates = np.array([0.15, 0.2, 0.1, 0.3, 0.25])
    chance = rates.repeat(40)
    first = rng.random(200) < chance
    second = np.where(rng.random(200) < 0.5, first, rng.random(200) < chance)
    wrong = np.column_stack([first, second]).ravel().astype(int)
    draws = pattern_draws(wrong, 2, np.arange(200).repeat(2), RESAMPLES, rng, np.arange(5).repeat(80))
    return inside(limits(draws[:, 1] / draws.sum(1)), rates.mean())


def wrong_verdicts_in_two_phases(rng: np.random.Generator) -> bool:
    """The paper's design: 74 disagreements all reviewed, 30 of 76 agreements drawn in proportion; the truth is this sample's own rate."""
    sizes, drawn, rates = (74, 66, 10), (74, 26, 4), rng.uniform((0.1, 0.0, 0.5), (0.4, 0.15, 1.0))
    hits = [int(rng.binomial(size, rate)) for size, rate in zip(sizes, rates, strict=True)]
    seen = tuple(int(rng.hypergeometric(hit, size - hit, n)) if hit else 0 for hit, size, n in zip(hits, sizes, drawn, strict=True))
    _, low, high = two_phase(seen, drawn, sizes)
    return inside((low, high), sum(hits) / sum(sizes))


def wrong_verdicts_by_review_alone(rng: np.random.Generator) -> bool:
    """A plain review: 100 of 500 rows drawn, the rest unseen."""
    hits = int(rng.binomial(500, rng.uniform(0.05, 0.4)))
    _, low, high = two_phase((int(rng.hypergeometric(hits, 500 - hits, 100)),), (100,), (500,))
    return inside((low, high), hits / 500)


def kappa_by_items(rng: np.random.Generator) -> bool:
    """Cohen's kappa of two raters over 200 rows, each right three times in four where there are three categories."""
    truth = rng.integers(0, 3, 200)
    first, second = (np.where(rng.random(200) < 0.75, truth, rng.integers(0, 3, 200)) for _ in range(2))
    draws = pattern_draws(first * 3 + second, 9, np.arange(200), RESAMPLES, rng).reshape(-1, 3, 3).astype(float)
    return inside(limits(cohen_kappas(draws)), 0.75**2)


DESIGNS = (
    evogain_by_items,
    accuracy_by_trajectories,
    accuracy_by_trajectories_with_slices,
    difference_of_two_models,
    wrong_verdicts_by_wilson,
    wrong_verdicts_by_tasks,
    wrong_verdicts_in_two_phases,
    wrong_verdicts_by_review_alone,
    kappa_by_items,
)


def coverage(design, replicates: int) -> float:
    rng = np.random.default_rng(20260717)
    return sum(design(rng) for _ in range(replicates)) / replicates


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.__name__)
def test_95_percent_intervals_cover_93_to_97_percent(design):
    assert 0.93 <= coverage(design, SHORT) <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.__name__)
def test_coverage_holds_over_many_replicates(design):
    assert 0.93 <= coverage(design, LONG) <= 0.97


def test_resampling_items_that_hang_together_as_if_they_did_not_covers_too_little():
    def by_items(rng: np.random.Generator) -> bool:
        values = correlated(rng, 0.4, 100, 5, 1).ravel()
        return inside(limits(iid_means(values, RESAMPLES, rng)), 0.4)

    # Intraclass correlation 0.3 in fives: the variance is 2.2 times what items alone would have, so 1.96 becomes 1.32: 81 %.
    assert coverage(by_items, SHORT) == pytest.approx(0.81, abs=0.03)


def test_few_clusters_cover_too_little_which_is_why_the_tables_warn():
    def by_eight(rng: np.random.Generator) -> bool:
        values = correlated(rng, 0.4, 8, 5, 1).reshape(40, 1)
        held = by_stratum(values, np.repeat(np.arange(8), 5), 8, np.zeros(40))
        return inside((end[0] for end in limits(stratified_means([held], RESAMPLES, rng)[0])), 0.4)

    assert coverage(by_eight, SHORT) < 0.92
