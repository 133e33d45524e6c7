"""Do printed figures follow from other printed figures? Rounding, hidden counts and tolerances, in exact arithmetic.

Knows nothing of any paper, so that it serves any results table with percentages and counts.
"""

from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction
from math import ceil, floor, sqrt

AGREES, DIFFERS, NOT_DERIVABLE = "agrees", "differs", "not_derivable"


def printed(value: Fraction | Decimal | int, decimals: int, twice: bool = False, rounding: str = ROUND_HALF_UP) -> Decimal:
    """Return a value as it would be printed; ``twice`` rounds to one more place first, as spreadsheets and scripts often do."""
    exact = Decimal(value.numerator) / Decimal(value.denominator) if isinstance(value, Fraction) else Decimal(value)
    if twice:
        exact = exact.quantize(Decimal(1).scaleb(-decimals - 1), rounding)
    return exact.quantize(Decimal(1).scaleb(-decimals), rounding)


def hidden_counts(percent: Decimal, n: int, twice: bool = False) -> list[int]:
    """Return every count out of ``n`` that prints as ``percent``, either way of breaking ties."""
    decimals = max(0, -percent.as_tuple().exponent)
    near = int(percent * n / 100)
    found = []
    for k in range(max(0, near - 1 - n // 10 ** (decimals + 1)), min(n, near + 2 + n // 10 ** (decimals + 1)) + 1):
        share = Fraction(100 * k, n)
        if any(printed(share, decimals, twice, tie) == percent for tie in (ROUND_HALF_UP, ROUND_HALF_EVEN)):
            found.append(k)
    return found


def status(published: float, recomputed: float | None, tolerance: float) -> str:
    """Compare within ``tolerance`` and a hair for floating point."""
    if recomputed is None:
        return NOT_DERIVABLE
    return AGREES if abs(published - recomputed) <= tolerance + 1e-9 else DIFFERS


def half_unit(printed_as: Decimal) -> float:
    """Return half a unit of the last printed place."""
    return 0.5 * 10.0 ** printed_as.as_tuple().exponent


def count_range(percent: Decimal, n: int, twice: bool = False) -> tuple[int, int] | None:
    """Return the least and the most count out of ``n`` that can print as ``percent``, None if none does; any ``n``, at no cost.

    ``twice`` allows for a rounding to one more place first.
    """
    half = Fraction(1, 2) * Fraction(Decimal(1).scaleb(percent.as_tuple().exponent))
    if twice:
        half = half * 11 / 10
    exact = Fraction(percent)
    least = max(0, ceil((exact - half) * n / 100))
    most = min(n, floor((exact + half) * n / 100))
    return (least, most) if least <= most else None


def expected_agreement(agree: int, n: int, categories: int | None = None) -> tuple[float, float]:
    """Return the least and the most chance agreement that two raters can have who agree on ``agree`` of ``n`` rows.

    Most, if they use one category wherever they can; least, if what they agree on is spread and what they differ in is
    always the same two categories the other way about. Without a number of categories there may be any.
    """
    apart = n - agree
    most = ((agree + apart / 2) ** 2 + (apart / 2) ** 2) / n**2
    if categories == 2:  # the rows they differ in fall into the same two categories as all others
        return (agree * agree / 2 + apart * agree) / n**2, most
    others = (n if categories is None else categories) - 2
    # x rows agreed on in each of the two categories of difference, the rest spread evenly over the others.
    if others <= 0:
        return (agree * agree / 2 + apart * agree) / n**2, most
    x = min(agree / 2, max(0.0, (2 * agree / others - apart) / (2 + 4 / others)))
    return (2 * x * x + 2 * apart * x + (agree - 2 * x) ** 2 / others) / n**2, most


def interval_methods(
    ends: tuple[Decimal, Decimal], span: tuple[int, int], n: int, confidence: float = 0.95
) -> tuple[list[str], tuple[float, float]]:
    """Return the names of the intervals that print as ``ends`` (percent) for some count of ``span``, and Wilson's for its middle (0…1)."""
    from scipy.special import ndtri

    z = float(ndtri(0.5 + confidence / 2))
    counts = range(span[0], span[1] + 1) if span[1] - span[0] < 50 else sorted({span[0] + (span[1] - span[0]) * i // 49 for i in range(50)})
    halves = [half_unit(end) for end in ends]
    step = 100 * (span[1] - span[0]) / 49 / n if len(counts) == 50 and span[1] - span[0] >= 50 else 0.0
    found = []
    for name, method in _METHODS.items():
        slack = step
        for k in counts:
            low, high = method(k, n, z)
            if name == BOOTSTRAP:  # an end of 1,000 resamples scatters by about 0.085 of the standard error
                slack = step + 3 * 0.085 * 100 * sqrt(k / n * (1 - k / n) / n)
            limits = (100 * max(0.0, low), 100 * min(1.0, high))
            if all(abs(float(end) - limit) <= half + slack + 1e-9 for end, limit, half in zip(ends, limits, halves, strict=True)):
                found.append(name)
                break
    # What only the noise of resampling explains is said only where no formula does.
    exact = [name for name in found if name != BOOTSTRAP]
    low, high = _wilson((span[0] + span[1]) // 2, n, z)
    return exact or found, (low, high)


def _wilson(k: float, n: float, z: float) -> tuple[float, float]:
    p, shrink = k / n, 1 + z * z / n
    half = z / shrink * sqrt(max(0.0, p * (1 - p)) / n + z * z / (4 * n * n))
    centre = (p + z * z / (2 * n)) / shrink
    return max(0.0, centre - half), min(1.0, centre + half)


def _wald(k: float, n: float, z: float) -> tuple[float, float]:
    half = z * sqrt(k / n * (1 - k / n) / n)
    return k / n - half, k / n + half


def _agresti_coull(k: float, n: float, z: float) -> tuple[float, float]:
    return _wald(k + z * z / 2, n + z * z, z)


def _beta(k: float, n: float, z: float, a: float, b: float) -> tuple[float, float]:
    from scipy.special import betaincinv, ndtr

    tail = float(1 - ndtr(z))
    low = 0.0 if k == 0 else float(betaincinv(k + a, n - k + b, tail))
    high = 1.0 if k == n else float(betaincinv(k + b, n - k + a, 1 - tail))
    return low, high


def _bootstrap(k: float, n: float, z: float) -> tuple[float, float]:
    from evoaudit.stats.resample import bootstrap_percentile_limit

    if n > 1_000_000:
        return _wald(k, n, z)
    from scipy.special import ndtr

    low, high = bootstrap_percentile_limit(int(k), int(n), float(2 * ndtr(z) - 1))
    return low / 100, high / 100


BOOTSTRAP = "a percentile bootstrap"
_METHODS = {
    "Wilson": _wilson,
    "Clopper-Pearson": lambda k, n, z: _beta(k, n, z, 0.0, 1.0),
    "Jeffreys": lambda k, n, z: _beta(k, n, z, 0.5, 0.5),
    "Agresti-Coull": _agresti_coull,
    "normal (Wald)": _wald,
    BOOTSTRAP: _bootstrap,
}
