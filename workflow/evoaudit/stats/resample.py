"""Bootstrap: iid by counts, clustered by shared weights, ranks and pairs from the same resamples."""

from collections.abc import Iterator, Sequence

import numpy as np

from evoaudit.stats.proportions import Interval
from evoaudit.stats.undefined import undefined

#: Below this many clusters a cluster bootstrap is known to cover less than it says.
FEW_CLUSTERS = 20

#: Resamples whose weights are held at once, and most weights.
_CHUNK = 1000
_WEIGHTS = 1_000_000


def limits(draws: np.ndarray, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Return percentile limits along the first axis, ignoring undefined draws; NaN where all are undefined."""
    tail = 50 * (1 - confidence)
    draws = np.asarray(draws, float)
    if not draws.size or np.isnan(draws).all():
        empty = np.full(draws.shape[1:], np.nan)
        return empty, empty
    whole = not np.isnan(draws).any()
    if whole:
        low, high = np.percentile(draws, [tail, 100 - tail], axis=0)
        return low, high
    flat = draws.reshape(len(draws), -1)
    found = np.full((2, flat.shape[1]), np.nan)
    for column in range(flat.shape[1]):
        values = flat[~np.isnan(flat[:, column]), column]
        if len(values):
            found[:, column] = np.percentile(values, [tail, 100 - tail])
    return found[0].reshape(draws.shape[1:]), found[1].reshape(draws.shape[1:])


def interval(draws: np.ndarray, confidence: float = 0.95) -> Interval:
    """Return the percentile limits of one quantity; resamples that are undefined or all alike give none."""
    found = draws[~np.isnan(draws)]
    if not len(found) or np.ptp(found) <= 1e-12 * max(1.0, abs(float(found[0]))):
        return undefined("interval", "the resamples do not vary", [None, None])
    low, high = limits(found, confidence)
    return [float(low), float(high)]


def iid_means(values: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Return the means of iid resamples of ``values``.

    A resample's mean depends only on how often each distinct value is drawn, so one multinomial draw (for right or wrong, a
    binomial one) replaces n draws, with the same law.
    """
    distinct, counts = np.unique(values, return_counts=True)
    n = len(values)
    if len(distinct) == 2:
        share = rng.binomial(n, counts[1] / n, resamples) / n
        return distinct[0] + (distinct[1] - distinct[0]) * share
    return rng.multinomial(n, counts / n, resamples) @ distinct / n


def cluster_weights(clusters: int, resamples: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield, in chunks of resamples, how often each cluster is drawn; share them between all that is to be compared."""
    step = max(1, min(_CHUNK, _WEIGHTS // max(1, clusters)))
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        draws = rng.integers(0, clusters, (rows, clusters))
        draws += clusters * np.arange(rows)[:, None]
        yield np.bincount(draws.ravel(), minlength=rows * clusters).reshape(rows, clusters).astype(np.float32)


def by_cluster(values: np.ndarray, clusters: np.ndarray, n_clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Return sums and counts of the values that are not NaN, one row a cluster; ``values`` is items × columns.

    Single precision is exact for what comes of them, up to 2²⁴ units of the values' finest step: the order of adding, which
    differs between machines, then changes nothing.
    """
    seen = ~np.isnan(values)
    sums = np.zeros((n_clusters, values.shape[1]), np.float32)
    counts = np.zeros_like(sums)
    np.add.at(sums, clusters, np.where(seen, values, 0).astype(np.float32))
    np.add.at(counts, clusters, seen.astype(np.float32))
    return sums, counts


def by_stratum(values: np.ndarray, clusters: np.ndarray, n_clusters: int, strata: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return sums and counts of the values that are not NaN, strata × clusters × columns; ``values`` is items × columns."""
    parts = [by_cluster(values[strata == one], clusters[strata == one], n_clusters) for one in np.unique(strata)]
    shape = (0, n_clusters, values.shape[1])
    return (
        np.stack([sums for sums, _ in parts]) if parts else np.zeros(shape, np.float32),
        np.stack([counts for _, counts in parts]) if parts else np.zeros(shape, np.float32),
    )


def stratified_means(tasks: Sequence[tuple[np.ndarray, np.ndarray]], resamples: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return, for each task, resamples × columns of means under cluster weights that all share, the strata's shares held as they are.

    ``tasks`` holds sums and counts as `by_stratum` gives them, over the same clusters. A design that fixes how many items
    each stratum has does not vary in it, so each stratum's mean (a ratio of cluster sums) enters with its own share of the
    column's values; a stratum that a resample misses leaves its share to the others.
    """
    blocks, places, width = [], [], 0
    for sums, counts in tasks:
        places.append([])
        for one, seen in zip(sums, counts, strict=True):
            share = seen.sum(0, dtype=float)
            # Where all columns lack the same values, which mostly is none, one column of counts serves for all.
            held = seen[:, :1] if (seen == seen[:, :1]).all() else seen
            places[-1].append(
                (slice(width, width + one.shape[1]), slice(width + one.shape[1], width + one.shape[1] + held.shape[1]), share)
            )
            width += one.shape[1] + held.shape[1]
            blocks += [one, held]
    found = [np.full((resamples, sums.shape[2]), np.nan) for sums, _ in tasks]
    if not blocks:
        return found
    everything = np.hstack(blocks)
    start = 0
    for weights in cluster_weights(len(everything), resamples, rng):
        drawn = weights @ everything  # one product for all tasks and strata
        for draws, strata in zip(found, places, strict=True):
            top, left = np.zeros((len(weights), draws.shape[1])), np.zeros((len(weights), draws.shape[1]))
            for value, count, share in strata:
                held = drawn[:, count].astype(float)
                top += share * drawn[:, value] / np.where(held > 0, held, 1)
                left += np.where(held > 0, share, 0)
            np.divide(top, left, out=draws[start : start + len(weights)], where=left > 0)
            draws[start : start + len(weights)][left <= 0] = np.nan
        start += len(weights)
    return found


def pattern_draws(
    patterns: np.ndarray,
    n_patterns: int,
    clusters: np.ndarray,
    resamples: int,
    rng: np.random.Generator,
    strata: np.ndarray | None = None,
) -> np.ndarray:
    """Return how often each item pattern occurs in resamples of whole clusters (resamples × patterns).

    ``patterns``, ``clusters`` and ``strata`` hold each item's pattern, cluster number and stratum; clusters are drawn inside
    their stratum. Clusters with the same patterns are alike, so how many of each kind are drawn is one multinomial draw.
    """
    held = np.zeros(len(patterns), int) if strata is None else strata
    total = np.zeros((resamples, n_patterns), int)
    for one in np.unique(held):
        inside = held == one
        _, number = np.unique(clusters[inside], return_inverse=True)
        table = np.zeros((number.max() + 1, n_patterns), int)
        np.add.at(table, (number, patterns[inside]), 1)
        kinds, many = np.unique(table, axis=0, return_counts=True)
        total += rng.multinomial(len(table), many / len(table), resamples) @ kinds
    return total


def rank_draws(draws: np.ndarray) -> np.ndarray:
    """Return each resample's ranks from 1 (highest), ties in favour of both."""
    higher = np.empty(draws.shape, int)
    for column in range(draws.shape[1]):
        higher[:, column] = (draws > draws[:, [column]]).sum(1)
    return higher + 1


def bootstrap_percentile_limit(k: int, n: int, confidence: float = 0.95) -> Interval:
    """Return, in percent, the limits the percentile bootstrap of ``k`` in ``n`` tends to: quantiles of a binomial."""
    from scipy.special import bdtr

    if n <= 0:
        return undefined("bootstrap_percentile_limit", "n is 0", [None, None])
    if k in (0, n):
        return [100.0 * k / n] * 2
    reached = bdtr(np.arange(n + 1), n, k / n)
    tail = (1 - confidence) / 2
    return [100.0 * int(np.searchsorted(reached, quantile)) / n for quantile in (tail, 1 - tail)]


def bootstrap_ci(
    values: Sequence[float], confidence: float = 0.95, resamples: int = 1000, method: str = "percentile", seed: int = 0
) -> Interval | None:
    """Return the bootstrap interval of a mean; ``method`` is ``percentile`` or ``BCa``.

    One value, or equal values, have no bootstrap interval: the resamples are all alike. Use an exact one there.
    """
    try:
        sample = np.asarray(values, float)
    except (TypeError, ValueError):
        return undefined("bootstrap_ci", "the values are not numbers")
    if sample.ndim != 1 or len(sample) < 2:
        return undefined("bootstrap_ci", "fewer than two values")
    if np.isnan(sample).any() or np.ptp(sample) == 0:
        return undefined("bootstrap_ci", "the values do not vary or are not all numbers")
    draws = iid_means(sample, resamples, np.random.default_rng(seed))
    tail = (1 - confidence) / 2
    quantiles = [tail, 1 - tail]
    if method == "BCa":
        if (quantiles := _bca_quantiles(sample, draws, tail)) is None:
            return None
    elif method != "percentile":
        raise ValueError(f"method {method!r} is neither 'percentile' nor 'BCa'")
    return np.quantile(draws, quantiles).tolist()


def _bca_quantiles(sample: np.ndarray, draws: np.ndarray, tail: float) -> list[float] | None:
    """Return the bias-corrected and accelerated quantiles of a mean (Efron 1987)."""
    from scipy.special import ndtr, ndtri

    mean = sample.mean()
    below = (np.mean(draws < mean) + np.mean(draws <= mean)) / 2
    if not 0 < below < 1:
        return undefined("bootstrap_ci", "every resample lies on one side of the estimate")
    shift = ndtri(below)
    apart = sample - mean  # the jackknife's influence of a mean
    acceleration = (apart**3).sum() / (6 * (apart**2).sum() ** 1.5)
    z = shift + ndtri(np.array([tail, 1 - tail]))
    return ndtr(shift + z / (1 - acceleration * z)).tolist()
