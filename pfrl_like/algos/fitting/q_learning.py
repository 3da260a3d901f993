"""Hyperparameters of estimators with Q-functions."""

from typing import Any, ClassVar

from torch import nn

from pfrl_like.algos.fitting.base import Estimator
from pfrl_like.algos.fitting.networks import adam, make_q_function


class QLearning(Estimator):
    """Base of estimators with one or several Q-functions.

    Args:
        gamma: Discount factor per step.
        n_critics: Number of Q-functions; targets are made of the least of their values.
        bootstrap: Whether each of them learns from random rows only, so that they differ where little is known.
        share_encoder: Whether they share one encoder.
        q_func_type: What they give: "mean" (a number), "qr" (quantiles), "iqn" (quantiles at fractions that are drawn)
            or "fqf" (quantiles at fractions that are proposed).
        eps: Epsilon of Adam.
        kwargs: As `Estimator`.
    """

    gamma: float = 0.99
    n_critics: int = 1
    bootstrap: bool = False
    share_encoder: bool = False
    eps: float = 1e-8
    q_func_type: str = "mean"

    def _q_function(self, make_encoder: Any, n_actions: int = 1, pool: str = "mean") -> nn.Module:
        return make_q_function(
            self.q_func_type, make_encoder, n_actions, n_critics=self.n_critics, bootstrap=self.bootstrap,
            share_encoder=self.share_encoder, pool=pool,
        )  # fmt: skip


class ActorCritic(QLearning):
    """Base of estimators with a policy and critics of continuous actions.

    Args:
        actor_learning_rate: Of the policy.
        critic_learning_rate: Of the critics.
        tau: How far the targets move with each update.
        kwargs: As `QLearning`.
    """

    loss_names: ClassVar[Any] = {"critic_loss": "loss", "actor_loss": "policy_loss"}

    actor_learning_rate: float = 3e-4
    critic_learning_rate: float = 3e-4
    tau: float = 0.005
    n_critics: int = 2

    def _critics(self, observation_shape: tuple[int, ...], action_size: int) -> nn.Module:
        return self._q_function(lambda: self._encoder(observation_shape, action_size), pool="least")

    def _actor_critic(
        self, agent_class: Any, policy: nn.Module, critics: nn.Module, weight_decay: float = 0.0, **options: Any
    ) -> Any:
        """An agent that takes two critics, or an ensemble in the place of the first."""
        return agent_class(
            policy, critics, None, adam(policy, self.actor_learning_rate, self.eps, weight_decay),
            adam(critics, self.critic_learning_rate, self.eps), None, gamma=self.gamma, soft_update_tau=self.tau,
            **self._common(), **options,
        )  # fmt: skip
