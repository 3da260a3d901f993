"""Probability distributions beside those of torch."""

from pfrl_like.distributions.delta import Delta as Delta
