"""Off-policy evaluation: what a policy would have brought, from what another one has recorded."""

from pfrl_like.ope.doubly_robust import direct_method as direct_method
from pfrl_like.ope.doubly_robust import doubly_robust as doubly_robust
from pfrl_like.ope.doubly_robust import magic as magic
from pfrl_like.ope.doubly_robust import weighted_doubly_robust as weighted_doubly_robust
from pfrl_like.ope.episodes import LoggedEpisodes as LoggedEpisodes
from pfrl_like.ope.estimate import Bootstrap as Bootstrap
from pfrl_like.ope.estimate import Estimate as Estimate
from pfrl_like.ope.estimate import UnreliableEstimateWarning as UnreliableEstimateWarning
from pfrl_like.ope.evaluate import evaluate_offline as evaluate_offline
from pfrl_like.ope.evaluate import fitted_behavior as fitted_behavior
from pfrl_like.ope.evaluate import log_probs as log_probs
from pfrl_like.ope.fqe import FQE as FQE
from pfrl_like.ope.fqe import ActionSpace as ActionSpace
from pfrl_like.ope.fqe import DiscreteFQE as DiscreteFQE
from pfrl_like.ope.fqe_config import FQEConfig as FQEConfig
from pfrl_like.ope.fqe_saving import load_learnable as load_learnable
from pfrl_like.ope.importance_sampling import importance_sampling as importance_sampling
from pfrl_like.ope.importance_sampling import per_decision_importance_sampling as per_decision_importance_sampling
from pfrl_like.ope.importance_sampling import weighted_importance_sampling as weighted_importance_sampling
from pfrl_like.ope.importance_sampling import (
    weighted_per_decision_importance_sampling as weighted_per_decision_importance_sampling,
)
from pfrl_like.ope.policies import GreedyPolicy as GreedyPolicy
