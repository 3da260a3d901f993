"""PFRL's helper of statistics."""

import math
from collections.abc import Collection


def _mean_or_nan(xs: Collection[float]) -> float:
    """Return the mean of numbers, NaN if there are none."""
    return float(sum(xs) / len(xs)) if len(xs) else math.nan
