"""Agreement between raters. Every statistic is a function of item patterns and weights, so one formula serves estimate and bootstrap.

``ratings`` holds one row an item and one column a rater, None where a rater gave nothing. ``counts`` holds, for each item,
how many raters chose each category. ``weights`` (resamples × items) says how often a resample holds each item; arrays of
statistics have NaN where a resample leaves them undefined.
"""

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from evoaudit.stats.undefined import defined, undefined

Ratings = Sequence[Sequence[Hashable | None]]


def contingency(first: Sequence[Hashable], second: Sequence[Hashable], categories: Sequence[Hashable]) -> np.ndarray:
    """Return the square table of two raters' labels over the same items."""
    place = {category: i for i, category in enumerate(categories)}
    table = np.zeros((len(place), len(place)))
    for a, b in zip(first, second, strict=True):
        table[place[a], place[b]] += 1
    return table


def categories_of(ratings: Ratings) -> list:
    """Return the categories that occur, sorted."""
    return sorted({value for row in ratings for value in row if value is not None})


def pattern_counts(ratings: Ratings, categories: Sequence[Hashable] | None = None) -> np.ndarray:
    """Return items × categories: how many raters chose each category."""
    place = {category: i for i, category in enumerate(categories_of(ratings) if categories is None else categories)}
    counts = np.zeros((len(ratings), len(place)))
    for item, row in enumerate(ratings):
        for value in row:
            if value is not None:
                counts[item, place[value]] += 1
    return counts


def cohen_kappas(tables: np.ndarray) -> np.ndarray:
    """Return Cohen's kappa of each table in a stack (…, q, q)."""
    total = tables.sum((-2, -1))
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = np.trace(tables, axis1=-2, axis2=-1) / total
        chance = (tables.sum(-1) * tables.sum(-2)).sum(-1) / total**2
        return np.where(chance < 1, (observed - chance) / (1 - chance), np.nan)


def _pairs(counts: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pairwise agreement and the mean category shares, one row a resample."""
    raters = counts.sum(1)
    several, some = raters >= 2, raters >= 1
    safe = np.where(several, raters, 2)
    agree = np.where(several, (counts * (counts - 1)).sum(1) / (safe * (safe - 1)), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = (weights @ agree) / (weights @ several)
        shares = (weights @ (counts / np.where(some, raters, 1)[:, None])) / (weights @ some)[:, None]
    return observed, shares


def _corrected(observed: np.ndarray, chance: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(chance < 1 - 1e-15, (observed - chance) / (1 - chance), np.nan)


def fleiss_kappas(counts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return Fleiss' kappa, generalised to items with missing ratings, of each resample."""
    observed, shares = _pairs(counts, weights)
    return _corrected(observed, (shares**2).sum(1))


def gwet_ac1s(counts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return Gwet's AC1 of each resample."""
    observed, shares = _pairs(counts, weights)
    q = counts.shape[1]
    if q < 2:
        return np.full(len(weights), np.nan)
    return _corrected(observed, (shares * (1 - shares)).sum(1) / (q - 1))


def krippendorff_alphas(counts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return Krippendorff's nominal alpha of each resample; items with fewer than two ratings drop out."""
    raters = counts.sum(1)
    counts, weights, raters = counts[raters >= 2], weights[:, raters >= 2], raters[raters >= 2]
    apart = (counts * (raters[:, None] - counts)).sum(1) / (raters - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        values, by_category = weights @ raters, weights @ counts
        expected = (by_category * (values[:, None] - by_category)).sum(1) / (values - 1)
        return np.where(expected > 0, 1 - (weights @ apart) / expected, np.nan)


def raw_agreements(counts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the share of agreeing pairs of ratings of each resample."""
    return _pairs(counts, weights)[0]


def _once(statistic: Callable[[np.ndarray, np.ndarray], np.ndarray], counts: np.ndarray) -> float:
    return float(statistic(counts, np.ones((1, len(counts))))[0]) if counts.size else float("nan")


def cohen_kappa(table: Sequence[Sequence[float]]) -> float | None:
    """Return Cohen's kappa of a square table."""
    if not len(table):
        return undefined("cohen_kappa", "no categories")
    return defined("cohen_kappa", float(cohen_kappas(np.asarray(table, float))), "no items, or both raters use one and the same category")


def cohen_kappa_se(table: Sequence[Sequence[float]]) -> float | None:
    """Return the large-sample standard error of Cohen's kappa (Fleiss, Cohen and Everitt 1969)."""
    if not len(table):
        return undefined("cohen_kappa_se", "no categories")
    counts = np.asarray(table, float)
    n = counts.sum()
    kappa = float(cohen_kappas(counts))
    if not np.isfinite(kappa):
        return undefined("cohen_kappa_se", "kappa is undefined")
    p = counts / n
    rows, columns = p.sum(1), p.sum(0)
    chance = float(rows @ columns)
    agree = (np.diag(p) * (1 - (rows + columns) * (1 - kappa)) ** 2).sum()
    spread = p * (columns[:, None] + rows[None, :]) ** 2
    apart = (1 - kappa) ** 2 * (spread.sum() - np.trace(spread))
    variance = (agree + apart - (kappa - chance * (1 - kappa)) ** 2) / (n * (1 - chance) ** 2)
    return float(np.sqrt(max(variance, 0.0)))


def cohen_kappa_weighted(table: Sequence[Sequence[float]], weights: str = "linear") -> float | None:
    """Return weighted kappa for ordered categories; ``weights`` is ``linear`` or ``quadratic``."""
    counts = np.asarray(table, float)
    total = counts.sum()
    if total == 0:
        return undefined("cohen_kappa_weighted", "no items")
    steps = np.abs(np.subtract.outer(np.arange(len(counts)), np.arange(len(counts)))) ** {"linear": 1, "quadratic": 2}[weights]
    expected = (steps * np.outer(counts.sum(1), counts.sum(0))).sum() / total
    if expected == 0:
        return undefined("cohen_kappa_weighted", "both raters use one and the same category")
    return float(1 - (steps * counts).sum() / expected)


def fleiss_kappa(counts: Sequence[Sequence[int]]) -> float | None:
    """Return Fleiss' kappa of items × categories counts with equally many ratings an item."""
    table = np.asarray(counts, float)
    if table.size and len(np.unique(table.sum(1))) > 1:
        return undefined("fleiss_kappa", "items differ in the number of ratings; see fleiss_kappa_missing")
    return defined("fleiss_kappa", _once(fleiss_kappas, table), "no pairs of ratings, or one category only")


def fleiss_kappa_missing(ratings: Ratings, categories: Sequence[Hashable] | None = None) -> float | None:
    """Return Fleiss' kappa generalised to missing ratings."""
    counts = pattern_counts(ratings, categories)
    return defined("fleiss_kappa_missing", _once(fleiss_kappas, counts), "no pairs of ratings, or one category only")


def brennan_prediger(ratings: Ratings, categories: Sequence[Hashable] | None = None) -> float | None:
    """Return Brennan and Prediger's coefficient: chance is one in as many as there are categories."""
    counts = pattern_counts(ratings, categories)
    if counts.shape[1] < 2:
        return undefined("brennan_prediger", "fewer than two categories")
    chance = 1 / counts.shape[1]
    return defined("brennan_prediger", (_once(raw_agreements, counts) - chance) / (1 - chance), "no pairs of ratings")


def gwet_ac1(
    ratings: Ratings | None = None, table: Sequence[Sequence[float]] | None = None, categories: Sequence[Hashable] | None = None
) -> float | None:
    """Return Gwet's AC1 of ratings, or of a square table of two raters."""
    if table is not None:
        square = np.asarray(table, float)
        place, weights = np.indices(square.shape).reshape(2, -1), square.reshape(1, -1)
        counts = np.zeros((square.size, len(square)))
        for row in place:
            counts[np.arange(square.size), row] += 1
        return defined("gwet_ac1", float(gwet_ac1s(counts, weights)[0]), "no items, or fewer than two categories")
    counts = pattern_counts(ratings or [], categories)
    return defined("gwet_ac1", _once(gwet_ac1s, counts), "no pairs of ratings, or fewer than two categories")


def _alpha(name: str, ratings: Ratings, distance: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> float | None:
    """Return Krippendorff's alpha for a squared distance between categories, given values and their frequencies."""
    values = categories_of(ratings)
    counts = pattern_counts(ratings, values)
    raters = counts.sum(1)
    counts, raters = counts[raters >= 2], raters[raters >= 2]
    if not len(counts):
        return undefined(name, "no item has two ratings")
    coincidence = (counts / (raters - 1)[:, None]).T @ counts - np.diag((counts / (raters - 1)[:, None]).sum(0))
    frequency = coincidence.sum(1)
    apart = distance(np.asarray(values), frequency)
    expected = (apart * np.outer(frequency, frequency)).sum() / (frequency.sum() - 1)
    if expected == 0:
        return undefined(name, "one category only")
    return float(1 - (apart * coincidence).sum() / expected)


def krippendorff_alpha_nominal(ratings: Ratings) -> float | None:
    """Return Krippendorff's alpha for unordered categories."""
    return _alpha("krippendorff_alpha_nominal", ratings, lambda values, _: 1.0 - np.eye(len(values)))


def krippendorff_alpha_ordinal(ratings: Ratings) -> float | None:
    """Return Krippendorff's alpha for ordered categories."""

    def distance(values: np.ndarray, frequency: np.ndarray) -> np.ndarray:
        reached = np.cumsum(frequency) - frequency / 2
        return np.subtract.outer(reached, reached) ** 2

    return _alpha("krippendorff_alpha_ordinal", ratings, distance)


def krippendorff_alpha_interval(ratings: Ratings) -> float | None:
    """Return Krippendorff's alpha for numbers on an interval scale."""
    return _alpha("krippendorff_alpha_interval", ratings, lambda values, _: np.subtract.outer(values, values).astype(float) ** 2)


def krippendorff_alpha_ratio(ratings: Ratings) -> float | None:
    """Return Krippendorff's alpha for numbers on a ratio scale."""

    def distance(values: np.ndarray, _: np.ndarray) -> np.ndarray:
        total = np.add.outer(values, values).astype(float)
        return (np.subtract.outer(values, values) / np.where(total == 0, 1, total)) ** 2

    return _alpha("krippendorff_alpha_ratio", ratings, distance)


def dawid_skene_prevalence(ratings_rows: Sequence[str], n_classes: int, iterations: int = 2000) -> list[float] | None:
    """Return class shares under Dawid and Skene's (1979) model; a row holds one class digit a rater.

    The likelihood can have several peaks, so EM starts from the vote shares and from each rater's own labels, and the best
    end is kept. A sensitivity figure, not an estimate to lead with.
    """
    if not ratings_rows:
        return undefined("dawid_skene_prevalence", "no items")
    labels = np.array([[int(digit) for digit in row] for row in ratings_rows])
    onehot = np.eye(n_classes)[labels]
    starts = [onehot.mean(1)] + [onehot[:, rater] for rater in range(labels.shape[1])]
    best = max((_expectation_maximisation(onehot, start, iterations) for start in starts), key=lambda end: end[0])
    return best[1].tolist()


def _expectation_maximisation(onehot: np.ndarray, belief: np.ndarray, iterations: int) -> tuple[float, np.ndarray]:
    """Return the log-likelihood and the class shares where EM comes to rest."""
    tiny, last = 1e-300, -np.inf
    for _ in range(iterations):
        prior = belief.mean(0)
        confusion = np.einsum("ic,irk->rck", belief, onehot)
        confusion /= np.maximum(confusion.sum(2, keepdims=True), tiny)
        joint = np.log(prior + tiny) + np.einsum("irk,rck->ic", onehot, np.log(confusion + tiny))
        peak = joint.max(1, keepdims=True)
        weight = np.exp(joint - peak)
        belief = weight / weight.sum(1, keepdims=True)
        likelihood = float((peak[:, 0] + np.log(weight.sum(1))).sum())
        if likelihood - last < 1e-12:
            break
        last = likelihood
    return likelihood, belief.mean(0)
