"""Proportions: intervals, finite samples, misclassification, exact tests and multiplicity."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from evoaudit.stats.undefined import undefined

Interval = list[float | None]

#: Tables an exact test may enumerate before it gives up.
_ENUMERATION_LIMIT = 200_000


def _z(confidence: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(0.5 + confidence / 2))


def wilson_ci(k: float, n: float, confidence: float = 0.95) -> Interval:
    """Return Wilson's score interval of ``k`` in ``n``, as proportions."""
    if n <= 0:
        return undefined("wilson_ci", "n is 0", [None, None])
    z = _z(confidence)
    p, shrink = k / n, 1 + z * z / n
    centre = (p + z * z / (2 * n)) / shrink
    half = z / shrink * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # The closed form misses 0 and 1 by a rounding error where the bound is exact.
    return [0.0 if k == 0 else max(0.0, centre - half), 1.0 if k == n else min(1.0, centre + half)]


def clopper_pearson_ci(k: int, n: int, confidence: float = 0.95) -> Interval:
    """Return the exact (conservative) interval of ``k`` in ``n``."""
    from scipy.special import betaincinv

    if n <= 0:
        return undefined("clopper_pearson_ci", "n is 0", [None, None])
    tail = (1 - confidence) / 2
    low = 0.0 if k == 0 else float(betaincinv(k, n - k + 1, tail))
    high = 1.0 if k == n else float(betaincinv(k + 1, n - k, 1 - tail))
    return [low, high]


def goodman_simultaneous_ci(counts: Sequence[int], confidence: float = 0.95) -> list[Interval]:
    """Return Goodman's (1965) simultaneous intervals of multinomial shares."""
    from scipy.special import chdtri

    n, cells = sum(counts), len(counts)
    if n <= 0:
        return undefined("goodman_simultaneous_ci", "n is 0", [[None, None]] * cells)
    # Bonferroni over the cells of a chi-square with one degree of freedom.
    chi = float(chdtri(1, (1 - confidence) / cells))
    found = []
    for k in counts:
        root = math.sqrt(chi * chi + 4 * k * chi * (n - k) / n)
        found.append([max(0.0, (chi + 2 * k - root) / (2 * (chi + n))), min(1.0, (chi + 2 * k + root) / (2 * (chi + n)))])
    return found


def stratified_proportion(k: Sequence[int], n: Sequence[int], N: Sequence[int]) -> Interval:
    """Return estimate and standard error of a proportion over strata of known size ``N``, sampled ``n`` without replacement.

    A stratum that was seen whole adds no variance (finite population correction).
    """
    total, estimate, variance = sum(N), 0.0, 0.0
    if total <= 0:
        return undefined("stratified_proportion", "the population is empty", [None, None])
    for hits, seen, size in zip(k, n, N, strict=True):
        if size == 0:
            continue
        if seen == 0:
            return undefined("stratified_proportion", "a stratum was not sampled", [None, None])
        p, weight = hits / seen, size / total
        estimate += weight * p
        if seen < size:
            if seen == 1:
                return undefined("stratified_proportion", "one unit of a larger stratum was sampled", [estimate, None])
            variance += weight * weight * (1 - seen / size) * p * (1 - p) / (seen - 1)
    return [estimate, math.sqrt(variance)]


def rogan_gladen(apparent: float, sensitivity: float, specificity: float) -> float | None:
    """Return the rate corrected for a judge's errors, untruncated (Rogan and Gladen 1978)."""
    youden = sensitivity + specificity - 1
    if youden <= 0:
        return undefined("rogan_gladen", "sensitivity + specificity is not above 1, so the judge carries no information")
    return (apparent + specificity - 1) / youden


def freeman_halton_exact_p(k: Sequence[int], n: Sequence[int]) -> float | None:
    """Return the exact p-value of equal proportions ``k/n`` over groups, given the margins.

    Weights are integers, so tables as likely as the observed one are found by equality, not by a tolerance.
    """
    total = sum(k)
    if sum(n) == 0 or total == 0 or total == sum(n):
        return undefined("freeman_halton_exact_p", "the outcome does not vary")
    partial: dict[int, Counter[int]] = {0: Counter({1: 1})}
    left, done = sum(n), 0
    for size in n:
        left -= size
        grown: dict[int, Counter[int]] = {}
        for used, weights in partial.items():
            for hits in range(max(0, total - used - left), min(size, total - used) + 1):
                ways, into = math.comb(size, hits), grown.setdefault(used + hits, Counter())
                for weight, many in weights.items():
                    into[weight * ways] += many
                if (done := done + len(weights)) > _ENUMERATION_LIMIT:
                    return undefined("freeman_halton_exact_p", "too many tables to enumerate")
        partial = grown
    observed = math.prod(math.comb(size, hits) for hits, size in zip(k, n, strict=True))
    tail = sum(weight * many for weight, many in partial[total].items() if weight <= observed)
    return tail / math.comb(sum(n), total)


def mcnemar_exact(b: int, c: int) -> float:
    """Return the exact two-sided p-value of ``b`` against ``c`` discordant pairs."""
    n, m = b + c, min(b, c)
    return min(1.0, 2 * sum(math.comb(n, i) for i in range(m + 1)) / 2**n)


def mcnemar_midp(b: int, c: int) -> float:
    """Return the mid-p value of ``b`` against ``c`` discordant pairs."""
    n, m = b + c, min(b, c)
    return (2 * sum(math.comb(n, i) for i in range(m + 1)) - math.comb(n, m)) / 2**n


def _stepwise(p: Sequence[float], factors: np.ndarray, down: bool) -> list[float]:
    values = np.asarray(p, float)
    order = np.argsort(values, kind="stable")
    scaled = values[order] * factors
    kept = np.maximum.accumulate(scaled) if down else np.minimum.accumulate(scaled[::-1])[::-1]
    out = np.empty_like(values)
    out[order] = np.minimum(kept, 1.0)
    return out.tolist()


def holm(p: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values (family-wise error, for claims)."""
    return _stepwise(p, np.arange(len(p), 0, -1), down=True) if len(p) else []


def benjamini_hochberg(p: Sequence[float]) -> list[float]:
    """Return Benjamini and Hochberg's adjusted p-values (false discovery rate, for exploration)."""
    m = len(p)
    return _stepwise(p, m / np.arange(1, m + 1), down=False) if m else []


def sample_size_proportion(p: float, half_width: float, confidence: float = 0.95) -> int:
    """Return the n whose Wald interval around ``p`` has the given half-width."""
    return math.ceil(_z(confidence) ** 2 * p * (1 - p) / half_width**2)


def sample_size_two_props(p1: float, p2: float, power: float = 0.8, alpha: float = 0.05) -> float | None:
    """Return the n of each group that tells ``p1`` from ``p2`` with the given power (arcsine effect size)."""
    from scipy.special import ndtri

    effect = 2 * math.asin(math.sqrt(p1)) - 2 * math.asin(math.sqrt(p2))
    if effect == 0:
        return undefined("sample_size_two_props", "the proportions are equal")
    return 2 * ((float(ndtri(1 - alpha / 2)) + float(ndtri(power))) / effect) ** 2
