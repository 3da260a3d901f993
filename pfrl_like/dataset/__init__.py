"""Recorded data: `MDPDataset`, and its episodes and transitions. All are views of the same columns."""

from pfrl_like.dataset.check import Finding
from pfrl_like.dataset.episode import Episode, compute_lambda_return
from pfrl_like.dataset.mdp_dataset import MDPDataset
from pfrl_like.dataset.transition import Transition, TransitionMiniBatch

__all__ = ["Episode", "Finding", "MDPDataset", "Transition", "TransitionMiniBatch", "compute_lambda_return"]
