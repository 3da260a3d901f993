"""Weighted averages over episodes, of resamples as well, and how much each episode moves them."""

import dataclasses
from typing import Self

import numpy as np

from pfrl_like.ope.episodes import Array


@dataclasses.dataclass(frozen=True, eq=False)
class SelfNormalized:
    """Sums of averages `sum_i w_ik x_ik / sum_i w_ik`, which all estimators are made of; 0 where no weight is.

    Attributes:
        weight: w, at least 0, [E, K].
        value: x, [E, K].
        parts: Which averages make up each of J numbers, [J, K]; sums with these factors.
    """

    weight: Array
    value: Array
    parts: Array

    @classmethod
    def mean(cls, value: Array) -> Self:
        """The plain mean of one number for each episode, [E]."""
        return cls(np.ones((len(value), 1)), value[:, None], np.ones((1, 1)))

    @classmethod
    def total(cls, weight: Array, value: Array) -> Self:
        """The sum of all averages."""
        return cls(weight, value, np.ones((1, weight.shape[1])))

    @property
    def width(self) -> int:
        """Numbers held for each resample."""
        return len(self.parts) * sum(self.weight.shape)

    def __call__(self, counts: Array) -> tuple[Array, Array]:
        """The numbers of resamples, and their influence functions.

        Args:
            counts: How often each episode is in each of B resamples, [B, E].

        Returns:
            The numbers, [B, J], and how much each episode moves them, [B, E, J]: what a number gains, to first order,
            by one more copy of the episode is its influence divided by the size of the resample.
        """
        sums = counts @ self.weight
        share = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
        weighted = self.weight * self.value
        average = (counts @ weighted) * share
        numbers = average @ self.parts.T
        size = counts.sum(1)[:, None, None]
        factors = self.parts[None] * share[:, None] * size  # [B, J, K]
        influence = weighted @ factors.swapaxes(1, 2) - self.weight @ (factors * average[:, None]).swapaxes(1, 2)
        return numbers, influence


def covariance(counts: Array, influence: Array) -> Array:
    """Covariance of the numbers by their influence functions (the delta method), [B, J, J]."""
    size = counts.sum(1)[:, None, None]
    spread = (counts[:, :, None] * influence).swapaxes(1, 2) @ influence
    return np.asarray(spread / (size * np.maximum(size - 1.0, 1.0)))
