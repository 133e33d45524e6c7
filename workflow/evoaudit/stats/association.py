"""Association between two orderings: tau, rho, r and their exact p-values."""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from evoaudit.stats.undefined import undefined

#: Largest n whose permutations are enumerated for an exact p-value of rho.
_EXACT = 8


def _paired(name: str, x: Sequence[float], y: Sequence[float]) -> tuple[np.ndarray, np.ndarray] | None:
    a, b = np.asarray(x, float), np.asarray(y, float)
    if len(a) != len(b):
        raise ValueError(f"{name}: {len(a)} values against {len(b)}")
    if len(a) < 2:
        return undefined(name, "fewer than two pairs")
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return undefined(name, "one side is constant")
    return a, b


def _signs(values: np.ndarray) -> np.ndarray:
    upper = np.triu_indices(len(values), 1)
    return np.sign(np.subtract.outer(values, values))[upper]


def kendall_tau_b(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return Kendall's tau-b (ties corrected)."""
    if (pair := _paired("kendall_tau_b", x, y)) is None:
        return None
    a, b = map(_signs, pair)
    return float(a @ b / math.sqrt((a @ a) * (b @ b)))


def kendall_tau_a(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return Kendall's tau-a: concordant minus discordant pairs over all pairs."""
    if (pair := _paired("kendall_tau_a", x, y)) is None:
        return None
    a, b = map(_signs, pair)
    return float(a @ b / len(a))


def pearson_r(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return Pearson's correlation."""
    if (pair := _paired("pearson_r", x, y)) is None:
        return None
    a, b = (values - values.mean() for values in pair)
    return float(max(-1.0, min(1.0, a @ b / math.sqrt((a @ a) * (b @ b)))))


def ranks(values: Sequence[float]) -> np.ndarray:
    """Return ranks from 1, ties at their mean."""
    array = np.asarray(values, float)
    _, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def spearman_rho(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation."""
    if _paired("spearman_rho", x, y) is None:
        return None
    return pearson_r(ranks(x), ranks(y))


def kendall_exact_p_two_sided(tau: float | None, n: int) -> float | None:
    """Return the exact two-sided p-value of tau over ``n`` pairs without ties."""
    if tau is None or n < 2:
        return undefined("kendall_exact_p_two_sided", "tau is undefined or there are fewer than two pairs")
    ways = [1]
    for size in range(2, n + 1):  # permutations by their number of inversions
        grown = [0] * (len(ways) + size - 1)
        for inversions, many in enumerate(ways):
            for extra in range(size):
                grown[inversions + extra] += many
        ways = grown
    pairs = n * (n - 1) // 2
    observed = round(abs(tau) * pairs)
    return sum(many for inversions, many in enumerate(ways) if abs(pairs - 2 * inversions) >= observed) / math.factorial(n)


def spearman_p_two_sided(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return the two-sided p-value of rho: exact by permutation up to eight pairs, by Student's t beyond."""
    rho = spearman_rho(x, y)
    n = len(x)
    if rho is None or n < 3:
        return undefined("spearman_p_two_sided", "rho is undefined or there are fewer than three pairs")
    if n <= _EXACT:
        a, b = ranks(x), ranks(y)
        centre = n * a.mean() * b.mean()
        products = np.array(list(itertools.permutations(b))) @ a - centre
        return float(np.mean(np.abs(products) >= abs(a @ b - centre) - 1e-9))
    from scipy.special import stdtr

    if abs(rho) >= 1:
        return 0.0
    return float(2 * stdtr(n - 2, -abs(rho) * math.sqrt((n - 2) / (1 - rho * rho))))
