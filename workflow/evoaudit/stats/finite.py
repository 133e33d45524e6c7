"""What a review of part of a finite set says about the whole of it: no superpopulation, only the rows that were not looked at."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from evoaudit.stats.proportions import Interval
from evoaudit.stats.undefined import undefined

#: Chances this near to the level equal it, whatever the last digits of a machine's logarithms say.
_TIE = 1e-9


def _tails(k: int, n: int, size: int, hits: int) -> tuple[float, float]:
    """Return P(X < k) and P(X = k) of ``n`` rows drawn from ``size`` that hold ``hits``."""
    from scipy.special import gammaln

    found = np.arange(max(0, n - (size - hits)), min(k, hits, n) + 1)
    if not len(found):
        return 0.0, 0.0

    def log_comb(a: int, b: np.ndarray | int) -> np.ndarray:
        return gammaln(a + 1) - gammaln(np.asarray(b) + 1) - gammaln(a - np.asarray(b) + 1)

    chance = np.exp(log_comb(hits, found) + log_comb(size - hits, n - found) - log_comb(size, n))
    equal = float(chance[-1]) if found[-1] == k else 0.0
    return float(chance.sum()) - equal, equal


def _last(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the largest whole number from ``low`` to ``high`` for which a falling condition holds; it holds at ``low``."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def hypergeometric_ci(k: int, n: int, size: int, confidence: float = 0.95) -> Interval:
    """Return the mid-p interval of the share of hits among ``size`` rows of which ``n`` were drawn and ``k`` were hits.

    Mid-p, because the exact interval covers far more than it says in samples of this size.
    """
    if n <= 0 or size <= 0:
        return undefined("hypergeometric_ci", "nothing was drawn", [None, None])
    tail = (1 - confidence) / 2

    def midway(hits: int) -> float:
        """Return P(X < k) + P(X = k) / 2, which falls as there are more hits."""
        below, equal = _tails(k, n, size, hits)
        return below + equal / 2

    least, most = k, size - n + k
    high = _last(least, most, lambda hits: hits == least or midway(hits) > tail + _TIE)
    low = _last(least, most, lambda hits: hits == least or midway(hits) >= 1 - tail - _TIE)
    if low < high and midway(low) >= 1 - tail - _TIE:
        low += 1
    return [low / size, high / size]


def unseen_upper(k: int, n: int, size: int, confidence: float = 0.95) -> int | None:
    """Return the one-sided exact upper bound of hits among the ``size - n`` rows that were not drawn."""
    if n <= 0 < size:
        return undefined("unseen_upper", "nothing was drawn")
    return _last(k, size - n + k, lambda hits: sum(_tails(k, n, size, hits)) >= 1 - confidence - _TIE) - k


def two_phase(k: Sequence[int], n: Sequence[int], N: Sequence[int], confidence: float = 0.95) -> Interval:
    """Return estimate, low and high of a share over strata of ``N`` rows, of which ``n`` were drawn and ``k`` were hits.

    Strata that were seen whole add no uncertainty. The strata's mid-p limits are combined by the method of variance
    estimates recovery (Zou and Donner 2008), so that no hit in a sample does not mean no uncertainty.
    """
    total = sum(N)
    if total <= 0:
        return undefined("two_phase", "the population is empty", [None, None, None])
    if any(seen <= 0 < size for seen, size in zip(n, N, strict=True)):
        return undefined("two_phase", "a stratum was not sampled", [None, None, None])
    estimate, below, above = 0.0, 0.0, 0.0
    for hits, seen, size in zip(k, n, N, strict=True):
        if size <= 0:
            continue
        share, weight = hits / seen, size / total
        low, high = hypergeometric_ci(hits, seen, size, confidence)
        estimate += weight * share
        below += (weight * (share - low)) ** 2
        above += (weight * (high - share)) ** 2
    return [estimate, max(0.0, estimate - math.sqrt(below)), min(1.0, estimate + math.sqrt(above))]
