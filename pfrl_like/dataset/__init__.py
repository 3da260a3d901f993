"""Recorded data: `MDPDataset` and what it is made of, as views of one columnar store."""

from pfrl_like.dataset.check import Finding as Finding
from pfrl_like.dataset.episode import Episode as Episode
from pfrl_like.dataset.mdp_dataset import MDPDataset as MDPDataset
from pfrl_like.dataset.transition import Transition as Transition
from pfrl_like.dataset.transition import TransitionMiniBatch as TransitionMiniBatch
