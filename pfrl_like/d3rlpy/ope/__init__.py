"""Off-policy evaluation."""

from pfrl_like.d3rlpy.ope.fqe import FQE, DiscreteFQE, FQEConfig

__all__ = ["FQE", "DiscreteFQE", "FQEConfig"]
