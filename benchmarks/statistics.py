"""Ratios of two things measured in the same rounds, with an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Interval:
    """A mean with the bounds of its two-sided 95 % confidence interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Interval:
    """Return the mean ratio of paired measurements: Student's t on the logarithms of the pairs."""
    logs = np.log(np.asarray(numerators) / np.asarray(denominators))
    half = 0.0
    if len(logs) > 1:
        quantile = stats.t.ppf(0.975, len(logs) - 1)
        half = float(quantile * logs.std(ddof=1) / np.sqrt(len(logs)))
    mean = float(logs.mean())
    return Interval(float(np.exp(mean)), float(np.exp(mean - half)), float(np.exp(mean + half)))
