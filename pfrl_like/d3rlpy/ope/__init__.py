"""Off-policy evaluation."""

from pfrl_like.d3rlpy.ope.fqe import FQEConfig

__all__ = ["FQEConfig"]
