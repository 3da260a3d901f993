"""Off-policy evaluation: estimates of the return of a policy from data that another policy recorded."""

from pfrl_like.algos.fitting.spaces import ActionSpace
from pfrl_like.ope.episodes import LoggedEpisodes
from pfrl_like.ope.estimates import Bootstrap, Estimate, UnreliableEstimateWarning
from pfrl_like.ope.evaluate import evaluate_offline, fitted_behavior
from pfrl_like.ope.fqe import FQE, DiscreteFQE, load_learnable
from pfrl_like.ope.fqe_config import FQEConfig
from pfrl_like.ope.importance_sampling import (
    direct_method,
    doubly_robust,
    importance_sampling,
    magic,
    per_decision_importance_sampling,
    weighted_doubly_robust,
    weighted_importance_sampling,
    weighted_per_decision_importance_sampling,
)
from pfrl_like.ope.policies import GreedyPolicy, log_probs

__all__ = [
    "ActionSpace", "Bootstrap", "DiscreteFQE", "Estimate", "FQE", "FQEConfig", "GreedyPolicy", "LoggedEpisodes",
    "UnreliableEstimateWarning", "direct_method", "doubly_robust", "evaluate_offline", "fitted_behavior",
    "importance_sampling", "load_learnable", "log_probs", "magic", "per_decision_importance_sampling",
    "weighted_doubly_robust", "weighted_importance_sampling", "weighted_per_decision_importance_sampling",
]  # fmt: skip
