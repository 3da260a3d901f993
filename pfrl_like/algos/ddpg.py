"""Estimators of actor-critics with deterministic policies."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from pfrl_like import agents
from pfrl_like.algos.fitting.networks import ActorCritic, adam, deterministic_policy
from pfrl_like.explorers import Greedy
from pfrl_like.utils.checks import alias


class DDPG(ActorCritic):
    """Estimator for Deep Deterministic Policy Gradient; the agent is a `pfrl_like.agents.DDPG`.

    With `regularizing_rate=0`, an update is equal to an update of d3rlpy 2.8. d3rlpy 2.8 has no such penalty.

    Args:
        regularizing_rate: Weight of a penalty in the policy's loss: the mean square of the inputs of the policy's tanh.
            `reguralizing_rate` is another name of this argument.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        gamma: Discount factor per step.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        bootstrap: True to train each Q-function on random rows of the minibatch. The values of the Q-functions then
            differ more where data are scarce.
        share_encoder: True if all Q-functions share one encoder.
        q_func_type: Output of the Q-functions: "mean" (the expected return), "qr" (quantiles), "iqn" (quantiles at
            random fractions) or "fqf" (quantiles at fractions proposed by a network).
        eps: Epsilon of Adam.
        batch_size: Number of transitions per minibatch.
        n_frames: Number of consecutive images that are stacked along the channel axis into one observation.
        use_batch_norm: True to apply batch normalisation after each layer of the networks.
        use_gpu: Device to use: False for the CPU, True for the first GPU, the index of a GPU, or a
            `pfrl_like.gpu.Device`.
        compile: True to compile the update of the agent, and the greedy actions of Q-learning. The second call
            compiles, which takes about 30 s. Results differ by rounding.
        scaler: Scaler of the observations: "pixel", "min_max", "standard", or a `Scaler`. `observation_scaler` is
            another name of this argument. The first call of `fit` fits the scalers of observations, actions and rewards
            that are not fitted yet.
        action_scaler: Scaler of continuous actions: "min_max", "standard", or a `Scaler`. The agent `impl` learns from
            scaled actions and returns scaled actions. "min_max" scales actions to [-1, 1], the output range of the
            policies. Explorers, replay buffers and the methods of the estimator use unscaled actions. `fit_online` fits
            "min_max" to the bounds of the action space.
        reward_scaler: Scaler of the rewards in training: "min_max", "standard", "return", "multiply", or a `Scaler` of
            rewards such as `ClipRewardScaler(-1.0, 1.0)`. Predicted returns are then returns of scaled rewards.
        augmentation: List of augmentations or of names of augmentations, or an `AugmentationPipeline`. None or an empty
            list disables augmentation.
        n_augmentations: Number of augmented copies of each row. The loss is the mean over the copies.
        encoder_params: Dict with the layer sizes of the encoder. For vector observations: "hidden_units", a list of
            layer sizes. For image observations: "filters", a list of (channels, kernel size, stride), and
            "feature_size", the size of the last linear layer.
        dynamics: Dynamics model, such as `MOPO`. At the beginning of each epoch it generates additional transitions for
            this epoch. If None, the estimator uses recorded transitions only.
        n_epochs: Number of epochs if `fit` is called without the argument `n_epochs`. None means 1000.
        impl: Agent to use. If None, the estimator builds an agent.
        kwargs: Unknown hyperparameters. They are ignored with a warning. Hyperparameters of later d3rlpy versions raise
            a TypeError that names the equivalent in this library.
    """

    loss_names = {"critic_loss": "critic_loss", "actor_loss": "actor_loss"}
    spellings: ClassVar[Any] = {**ActorCritic.spellings, "reguralizing_rate": "regularizing_rate"}

    n_critics = 1
    regularizing_rate: float = 1e-10

    reguralizing_rate = alias("regularizing_rate", "Another name of `regularizing_rate`, as in d3rlpy.")

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
    """Estimator for Twin Delayed Deep Deterministic Policy Gradient; the agent is a `pfrl_like.agents.TD3`.

    An update is equal to an update of d3rlpy 2.8.

    Args:
        target_smoothing_sigma: Standard deviation of the noise on the target policy's actions.
        target_smoothing_clip: Maximum absolute value of the noise.
        update_actor_interval: Number of critic updates per update of the policy and the targets.
        regularizing_rate: Weight of a penalty in the policy's loss: the mean square of the inputs of the policy's tanh.
            `reguralizing_rate` is another name of this argument.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        gamma: Discount factor per step.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        bootstrap: True to train each Q-function on random rows of the minibatch. The values of the Q-functions then
            differ more where data are scarce.
        share_encoder: True if all Q-functions share one encoder.
        q_func_type: Output of the Q-functions: "mean" (the expected return), "qr" (quantiles), "iqn" (quantiles at
            random fractions) or "fqf" (quantiles at fractions proposed by a network).
        eps: Epsilon of Adam.
        batch_size: Number of transitions per minibatch.
        n_frames: Number of consecutive images that are stacked along the channel axis into one observation.
        use_batch_norm: True to apply batch normalisation after each layer of the networks.
        use_gpu: Device to use: False for the CPU, True for the first GPU, the index of a GPU, or a
            `pfrl_like.gpu.Device`.
        compile: True to compile the update of the agent, and the greedy actions of Q-learning. The second call
            compiles, which takes about 30 s. Results differ by rounding.
        scaler: Scaler of the observations: "pixel", "min_max", "standard", or a `Scaler`. `observation_scaler` is
            another name of this argument. The first call of `fit` fits the scalers of observations, actions and rewards
            that are not fitted yet.
        action_scaler: Scaler of continuous actions: "min_max", "standard", or a `Scaler`. The agent `impl` learns from
            scaled actions and returns scaled actions. "min_max" scales actions to [-1, 1], the output range of the
            policies. Explorers, replay buffers and the methods of the estimator use unscaled actions. `fit_online` fits
            "min_max" to the bounds of the action space.
        reward_scaler: Scaler of the rewards in training: "min_max", "standard", "return", "multiply", or a `Scaler` of
            rewards such as `ClipRewardScaler(-1.0, 1.0)`. Predicted returns are then returns of scaled rewards.
        augmentation: List of augmentations or of names of augmentations, or an `AugmentationPipeline`. None or an empty
            list disables augmentation.
        n_augmentations: Number of augmented copies of each row. The loss is the mean over the copies.
        encoder_params: Dict with the layer sizes of the encoder. For vector observations: "hidden_units", a list of
            layer sizes. For image observations: "filters", a list of (channels, kernel size, stride), and
            "feature_size", the size of the last linear layer.
        dynamics: Dynamics model, such as `MOPO`. At the beginning of each epoch it generates additional transitions for
            this epoch. If None, the estimator uses recorded transitions only.
        n_epochs: Number of epochs if `fit` is called without the argument `n_epochs`. None means 1000.
        impl: Agent to use. If None, the estimator builds an agent.
        kwargs: Unknown hyperparameters. They are ignored with a warning. Hyperparameters of later d3rlpy versions raise
            a TypeError that names the equivalent in this library.
    """

    agent_class: ClassVar[Any] = agents.TD3
    loss_names = ActorCritic.loss_names

    n_critics = 2
    regularizing_rate = 0.0
    target_smoothing_sigma: float = 0.2
    target_smoothing_clip: float = 0.5
    update_actor_interval: int = 2

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        policy, critics = self._policy(observation_shape, action_size), self._critics(observation_shape, action_size)
        return self._actor_critic(
            self.agent_class, policy, critics,
            explorer=Greedy(), policy_update_delay=self.update_actor_interval, act_deterministically=True,
            target_policy_smoothing_func=Smoothing(self.target_smoothing_sigma, self.target_smoothing_clip),
            **self._extra_options(),
        )  # fmt: skip

    def _extra_options(self) -> dict[str, Any]:
        """Return constructor arguments of the agent in addition to those of `agents.TD3`; {} by default."""
        return {}


class Smoothing:
    """Function that adds clipped Gaussian noise to actions in [-1, 1] (arXiv:1802.09477, eq. 14).

    The noise is an object with attributes, so that `set_params` can change them after fitting.

    Args:
        sigma: Standard deviation of the noise.
        clip: Maximum absolute value of the noise.
    """

    def __init__(self, sigma: float, clip: float) -> None:
        self.sigma, self.clip = sigma, clip

    def __call__(self, action: Tensor) -> Tensor:
        return (action + (self.sigma * torch.randn_like(action)).clamp(-self.clip, self.clip)).clamp(-1, 1)
