"""Estimators of Advantage-Weighted Regression."""

from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from pfrl_like import agents
from pfrl_like.algos.fitting.base import Estimator
from pfrl_like.algos.fitting.networks import categorical_policy, squashed_gaussian_policy
from pfrl_like.utils.contexts import evaluating_readers


class AWR(Estimator):
    """Advantage-Weighted Regression of continuous actions, `pfrl_like.agents.AWR`.

    Args:
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the value function.
        batch_size: Transitions per iteration, from which returns are computed.
        gamma: Discount factor per step.
        batch_size_per_update: Transitions per update within an iteration.
        n_actor_updates: Updates of the policy per iteration.
        n_critic_updates: Updates of the value function per iteration.
        lam: lambda of the TD(lambda) returns.
        beta: Temperature of the weights; the smaller, the more the advantage counts.
        max_weight: Largest weight.
        momentum: Momentum of the stochastic gradient descent of policy and value function.
        kwargs: As `Estimator`.
    """

    agent_class: ClassVar[Any] = agents.AWR
    _policy: ClassVar[Any] = staticmethod(squashed_gaussian_policy)
    loss_names: ClassVar[Any] = {"critic_loss": "v_func_loss", "actor_loss": "policy_loss"}

    actor_learning_rate: float = 5e-5
    critic_learning_rate: float = 1e-4
    batch_size = 2048
    gamma: float = 0.99
    batch_size_per_update: int = 256
    n_actor_updates: int = 1000
    n_critic_updates: int = 200
    lam: float = 0.95
    beta: float = 1.0
    max_weight: float = 20.0
    momentum: float = 0.9

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        policy = self._policy(self._encoder(observation_shape), action_size)
        encoder = self._encoder(observation_shape)
        v_func = nn.Sequential(encoder, nn.Linear(encoder.feature_size, 1))
        return self.agent_class(
            policy, v_func, self._sgd(policy, self.actor_learning_rate), self._sgd(v_func, self.critic_learning_rate),
            gamma=self.gamma, lam=self.lam, beta=self.beta, max_weight=self.max_weight, standardize_advantages=False,
            n_critic_updates=self.n_critic_updates, n_actor_updates=self.n_actor_updates,
            batch_size_per_update=self.batch_size_per_update, **self._common(),
        )  # fmt: skip

    def _sgd(self, module: nn.Module, lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(module.parameters(), lr=lr, momentum=self.momentum)

    def predict_value(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Values of states, [n]; with `with_std` also standard deviations, [n]: zeros, since there is one critic.

        Args:
            x: Observations, [n, ...], frames stacked.
            args: `action`, which is ignored, and `with_std`, as other estimators take them after the observations.
            kwargs: The same by name.

        Raises:
            TypeError: On other names.
        """

        def predict_value(action: Any = None, with_std: bool = False) -> bool:
            return with_std

        alone = not predict_value(*args, **kwargs)
        v_func, obs = self._agent.v_func, self._tensor(self._observations(x))
        with torch.no_grad(), evaluating_readers(v_func):
            values = np.asarray(v_func(obs).flatten().cpu())
        return values if alone else (values, np.zeros_like(values))


class DiscreteAWR(AWR):
    """Advantage-Weighted Regression of discrete actions, `pfrl_like.agents.DiscreteAWR`.

    Args:
        kwargs: As `AWR`.
    """

    agent_class = agents.DiscreteAWR
    discrete_action = True
    _policy = staticmethod(categorical_policy)
