"""Transitions that are imagined with a model, and minibatches in which they stand beside recorded ones."""

from collections.abc import Callable, Iterator

from torch import Tensor

from pfrl_like.batch import Batch
from pfrl_like.dynamics.dynamics_model import DynamicsModel


def imagine(
    model: DynamicsModel, obs: Tensor, choose: Callable[[Tensor], Tensor], horizon: int, lam: float = 0.0
) -> Iterator[Batch]:
    """Go on from some observations, step by step (arXiv:2005.13239, algorithm 2).

    Args:
        model: The model.
        obs: Where to begin, [B, n].
        choose: Gives the actions, [B, ...], for observations.
        horizon: For how many steps.
        lam: By how many variances of the prediction the rewards are less.

    Yields:
        The transitions of a step, with discount 1.
    """
    for _ in range(horizon):
        action = choose(obs)
        step = model.sample(obs, action)
        reward = step.reward - lam * step.variance
        yield Batch(obs, action, reward, step.next_obs, discount=reward.new_ones(len(reward)))
        obs = step.next_obs
