"""Do printed figures follow from other printed figures? Rounding, hidden counts and tolerances, in exact arithmetic.

Knows nothing of any paper, so that it serves any results table with percentages and counts.
"""

from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction

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
