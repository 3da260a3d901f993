"""Probability distributions beside those of torch."""

from pfrl_like.distributions.delta import Delta as Delta
from pfrl_like.distributions.rows import rows_of as rows_of
