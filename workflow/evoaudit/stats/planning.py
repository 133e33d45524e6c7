"""How many verdicts to audit for an interval of a wanted width: Wilson's, with what the design adds to it or takes away."""

import math
from dataclasses import dataclass

from evoaudit.stats.proportions import wilson_ci

#: Verdicts beyond which a plan is no plan.
MOST = 10_000_000


@dataclass(frozen=True)
class Design:
    """What makes a sample say more, or less, than as many independent draws would.

    ``attempts`` and ``alike``: verdicts drawn per task in the mean, and how alike they are (intraclass correlation).
    ``disagree``: share of verdicts on which the judges differ, all of them reviewed; ``reviewed``: share of the others that is; ``missed``:
    share of wrong verdicts among the others. Shares from 0 to 1.
    """

    rate: float
    population: int | None = None
    attempts: float = 1.0
    alike: float = 0.0
    disagree: float = 1.0
    reviewed: float = 1.0
    missed: float = 0.0

    @property
    def clustering(self) -> float:
        """The factor by which attempts at the same task widen the variance (Kish)."""
        return 1 + max(0.0, self.attempts - 1) * self.alike

    @property
    def second_phase(self) -> float:
        """What the unreviewed rows add to the variance, in units of one draw's."""
        left = 1 - self.disagree
        if left <= 0 or self.reviewed >= 1:
            return 0.0
        return left * (1 - self.reviewed) / self.reviewed * self.missed * (1 - self.missed) / (self.rate * (1 - self.rate))

    def worth(self, n: float) -> float:
        """Return as how many independent draws from an endless population ``n`` verdicts count."""
        size = self.population
        unseen = 1.0 if size is None else 0.0 if size <= 1 else (size - n) / (size - 1)
        factor = self.clustering * unseen + self.second_phase
        return math.inf if factor <= 0 else n / factor

    def interval(self, n: float, confidence: float = 0.95) -> list[float]:
        """Return the interval that ``n`` verdicts can be expected to give."""
        worth = self.worth(n)
        return [self.rate, self.rate] if math.isinf(worth) else wilson_ci(self.rate * worth, worth, confidence)

    def needed(self, half_width: float, confidence: float = 0.95) -> int | None:
        """Return the fewest verdicts whose interval is no wider than twice ``half_width``; None if all there are do not do."""

        def narrow(n: int) -> bool:
            low, high = self.interval(n, confidence)
            return high - low <= 2 * half_width + 1e-12

        most = MOST if self.population is None else self.population
        if most < 1 or not narrow(most):
            return None
        low, high = 1, most
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if narrow(middle) else (middle + 1, high)
        return low

    def reviews(self, n: int) -> int:
        """Return how many of ``n`` verdicts people look at."""
        return math.ceil(n * (self.disagree + (1 - self.disagree) * self.reviewed) - 1e-9)
