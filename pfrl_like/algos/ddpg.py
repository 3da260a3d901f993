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
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        tau: Share of the way that the targets move towards the learning networks with each update.
        gamma: Discount factor per step.
        n_critics: Number of Q-functions; targets are made of the least of their values.
        bootstrap: Whether each learns from random rows only, so that their values differ where little is known.
        share_encoder: Whether they share one encoder.
        q_func_type: Output of the Q-functions: "mean" (a number), "qr" (quantiles), "iqn" (quantiles at random
            fractions) or "fqf" (quantiles at fractions proposed by a network).
        eps: Epsilon of Adam.
        batch_size: Transitions of a minibatch.
        n_frames: Number of images that are stacked along the channels to one observation.
        use_batch_norm: Whether each layer of the networks is followed by batch normalisation.
        use_gpu: True or the number of a GPU, or a `pfrl_like.gpu.Device`; False for the CPU.
        scaler: Scaler of the observations: "pixel", "min_max", "standard", or a `Scaler`; also spelt
            `observation_scaler`. The first `fit` fits it to its episodes if it is not fitted, and likewise the scalers
            of actions and rewards.
        action_scaler: Scaler of continuous actions: "min_max", "standard", or a `Scaler`. The agent, `impl`, learns and
            acts with scaled actions; "min_max" scales to [-1, 1], the range of policies. Arguments and results of the
            estimator, explorers and buffers have the unscaled actions of the data and the environment. `fit_online`
            fits "min_max" to the environment's bounds.
        reward_scaler: Scaler of the rewards that are learnt from: "min_max", "standard", "return", "multiply", or a
            `Scaler` of rewards such as `ClipRewardScaler(-1.0, 1.0)`. Values are then those of scaled rewards.
        augmentation: Names of augmentations, or augmentations, or an `AugmentationPipeline`; None for none.
        n_augmentations: Number of times that each row is augmented; the loss is the mean over them.
        encoder_params: Sizes of the encoder: for vectors "hidden_units", the sizes of the layers; for images "filters",
            a list of (channels, kernel size, stride), and "feature_size", the size of the linear layer after them.
        dynamics: Model that generates more transitions at the beginning of every epoch, for that epoch; None for none.
        n_epochs: Epochs of a `fit` without the argument `n_epochs`; None for 1000.
        impl: An agent that is used instead of one built by the estimator; None for none.
        kwargs: Unknown hyperparameters, which are ignored with a warning. Those of later versions of d3rlpy raise a
            TypeError that names the equivalent here.
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
        regularizing_rate: Weight, in the policy's loss, of the mean square of the inputs of the policy's tanh; also
            spelt `reguralizing_rate`.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        tau: Share of the way that the targets move towards the learning networks with each update.
        gamma: Discount factor per step.
        n_critics: Number of Q-functions; targets are made of the least of their values.
        bootstrap: Whether each learns from random rows only, so that their values differ where little is known.
        share_encoder: Whether they share one encoder.
        q_func_type: Output of the Q-functions: "mean" (a number), "qr" (quantiles), "iqn" (quantiles at random
            fractions) or "fqf" (quantiles at fractions proposed by a network).
        eps: Epsilon of Adam.
        batch_size: Transitions of a minibatch.
        n_frames: Number of images that are stacked along the channels to one observation.
        use_batch_norm: Whether each layer of the networks is followed by batch normalisation.
        use_gpu: True or the number of a GPU, or a `pfrl_like.gpu.Device`; False for the CPU.
        scaler: Scaler of the observations: "pixel", "min_max", "standard", or a `Scaler`; also spelt
            `observation_scaler`. The first `fit` fits it to its episodes if it is not fitted, and likewise the scalers
            of actions and rewards.
        action_scaler: Scaler of continuous actions: "min_max", "standard", or a `Scaler`. The agent, `impl`, learns and
            acts with scaled actions; "min_max" scales to [-1, 1], the range of policies. Arguments and results of the
            estimator, explorers and buffers have the unscaled actions of the data and the environment. `fit_online`
            fits "min_max" to the environment's bounds.
        reward_scaler: Scaler of the rewards that are learnt from: "min_max", "standard", "return", "multiply", or a
            `Scaler` of rewards such as `ClipRewardScaler(-1.0, 1.0)`. Values are then those of scaled rewards.
        augmentation: Names of augmentations, or augmentations, or an `AugmentationPipeline`; None for none.
        n_augmentations: Number of times that each row is augmented; the loss is the mean over them.
        encoder_params: Sizes of the encoder: for vectors "hidden_units", the sizes of the layers; for images "filters",
            a list of (channels, kernel size, stride), and "feature_size", the size of the linear layer after them.
        dynamics: Model that generates more transitions at the beginning of every epoch, for that epoch; None for none.
        n_epochs: Epochs of a `fit` without the argument `n_epochs`; None for 1000.
        impl: An agent that is used instead of one built by the estimator; None for none.
        kwargs: Unknown hyperparameters, which are ignored with a warning. Those of later versions of d3rlpy raise a
            TypeError that names the equivalent here.
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
