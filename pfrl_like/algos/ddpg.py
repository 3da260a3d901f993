"""Estimators of actor-critics with deterministic policies."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from pfrl_like import agents
from pfrl_like.algos.fitting.networks import ActorCritic, adam, deterministic_policy
from pfrl_like.explorers import Greedy
from pfrl_like.utils.checks import renamed


class DDPG(ActorCritic):
    """Deep Deterministic Policy Gradient, `pfrl_like.agents.DDPG`.

    With `regularizing_rate=0` an update equals that of d3rlpy 2.8, which has no such term.

    Args:
        regularizing_rate: Weight, in the policy's loss, of the mean square of the inputs of the policy's tanh; also
            spelt `reguralizing_rate`.
        kwargs: As `ActorCritic`.
    """

    loss_names = {"critic_loss": "critic_loss", "actor_loss": "actor_loss"}
    spellings: ClassVar[Any] = {**ActorCritic.spellings, "reguralizing_rate": "regularizing_rate"}

    n_critics = 1
    regularizing_rate: float = 1e-10

    reguralizing_rate = renamed("regularizing_rate", "`regularizing_rate`, as the documents spell it, too.")

    def _policy(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        return deterministic_policy(self._encoder(observation_shape), action_size, self.regularizing_rate)

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        policy, critics = self._policy(observation_shape, action_size), self._critics(observation_shape, action_size)
        return agents.DDPG(
            policy, critics, adam(policy, self.actor_learning_rate, self.eps),
            adam(critics, self.critic_learning_rate, self.eps), gamma=self.gamma, explorer=Greedy(),
            target_update_interval=1, target_update_method="soft", soft_update_tau=self.tau,
            act_deterministically=True, **self._common(),
        )  # fmt: skip


class TD3(DDPG):
    """Twin Delayed Deep Deterministic Policy Gradient, `pfrl_like.agents.TD3`; an update equals that of d3rlpy 2.8.

    Args:
        target_smoothing_sigma: Standard deviation of the noise on the target policy's actions.
        target_smoothing_clip: Largest absolute value of the noise.
        update_actor_interval: Updates of the critics per update of policy and targets.
        kwargs: As `DDPG`.
    """

    loss_names = ActorCritic.loss_names

    n_critics = 2
    regularizing_rate = 0.0
    target_smoothing_sigma: float = 0.2
    target_smoothing_clip: float = 0.5
    update_actor_interval: int = 2

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        return self._actor_critic(
            agents.TD3, self._policy(observation_shape, action_size), self._critics(observation_shape, action_size),
            explorer=Greedy(), policy_update_delay=self.update_actor_interval, act_deterministically=True,
            target_policy_smoothing_func=Smoothing(self.target_smoothing_sigma, self.target_smoothing_clip),
        )  # fmt: skip


class Smoothing:
    """Adds clipped Gaussian noise to actions in [-1, 1] (arXiv:1802.09477, eq. 14).

    Args:
        sigma: Standard deviation of the noise.
        clip: Largest absolute value of the noise.
    """

    def __init__(self, sigma: float, clip: float) -> None:
        self.sigma, self.clip = sigma, clip

    def __call__(self, action: Tensor) -> Tensor:
        return (action + (self.sigma * torch.randn_like(action)).clamp(-self.clip, self.clip)).clamp(-1, 1)
