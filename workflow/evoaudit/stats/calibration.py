"""How far stated confidence can be believed."""

from collections.abc import Sequence

import numpy as np

from evoaudit.stats.undefined import undefined

BINS = 10


def brier_score(confidence: Sequence[float], correct: Sequence[bool]) -> float | None:
    """Return the mean squared distance of confidence (0…1) from being right."""
    stated, right = np.asarray(confidence, float), np.asarray(correct, float)
    return float(((stated - right) ** 2).mean()) if len(stated) else undefined("brier_score", "no confidences")


def reliability_bins(confidence: Sequence[float], correct: Sequence[bool], bins: int = BINS) -> list[dict]:
    """Return the bins of equal width that hold answers: their edges, size, mean confidence and share correct (0…1)."""
    stated, right = np.asarray(confidence, float), np.asarray(correct, float)
    place = np.minimum((stated * bins).astype(int), bins - 1)
    found = []
    for number in np.unique(place):
        inside = place == number
        found.append(
            {
                "low": number / bins,
                "high": (number + 1) / bins,
                "n": int(inside.sum()),
                "confidence": float(stated[inside].mean()),
                "accuracy": float(right[inside].mean()),
                "n_correct": int(right[inside].sum()),
            }
        )
    return found


def expected_calibration_error(confidence: Sequence[float], correct: Sequence[bool], bins: int = BINS) -> float | None:
    """Return the mean gap between confidence and accuracy over bins, weighted by their size (0…1)."""
    if not len(confidence):
        return undefined("expected_calibration_error", "no confidences")
    found = reliability_bins(confidence, correct, bins)
    return sum(one["n"] * abs(one["accuracy"] - one["confidence"]) for one in found) / len(confidence)
