"""Estimators of Advantage-Weighted Regression."""

from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from pfrl_like import agents
from pfrl_like.algos.fitting.base import Estimator
from pfrl_like.algos.fitting.networks import categorical_policy, squashed_gaussian_policy, value_function
from pfrl_like.utils.contexts import evaluation_mode


class AWR(Estimator):
    """Estimator for Advantage-Weighted Regression with continuous actions; the agent is a `pfrl_like.agents.AWR`.

    Args:
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the value function.
        batch_size: Number of transitions per iteration. One iteration computes their returns and makes several updates.
        gamma: Discount factor per step.
        batch_size_per_update: Number of transitions per update.
        n_actor_updates: Number of policy updates per iteration.
        n_critic_updates: Number of value-function updates per iteration.
        lam: lambda of the TD(lambda) returns.
        beta: Temperature of the weights. A smaller temperature increases the effect of the advantage.
        max_weight: Maximum weight. Larger weights are clipped.
        momentum: Momentum of the SGD optimisers of the policy and the value function.
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
        v_func = value_function(self._encoder(observation_shape))
        return self.agent_class(
            policy, v_func, self._sgd(policy, self.actor_learning_rate), self._sgd(v_func, self.critic_learning_rate),
            gamma=self.gamma, lam=self.lam, beta=self.beta, max_weight=self.max_weight, standardize_advantages=False,
            n_critic_updates=self.n_critic_updates, n_actor_updates=self.n_actor_updates,
            batch_size_per_update=self.batch_size_per_update, **self._common(),
        )  # fmt: skip

    def _sgd(self, module: nn.Module, lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(module.parameters(), lr=lr, momentum=self.momentum)

    def predict_value(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return state values, [n]. If `with_std` is True, also return their standard deviations over the critics, [n].

        There is only one critic, the value function. Therefore the standard deviations are 0.

        Args:
            x: Observations with stacked frames, [n, ...].
            args: Positional arguments `action` and `with_std`, as in `predict_value` of other estimators. `action` is
                ignored.
            kwargs: `action` and `with_std` as keyword arguments.

        Raises:
            TypeError: If there is another argument.
        """

        def predict_value(action: Any = None, with_std: bool = False) -> bool:
            return with_std

        with_std = predict_value(*args, **kwargs)
        v_func, obs = self._agent.v_func, self._tensor(self._observations(x))
        with torch.no_grad(), evaluation_mode(v_func):
            values = np.asarray(v_func(obs).flatten().cpu())
        return (values, np.zeros_like(values)) if with_std else values


class DiscreteAWR(AWR):
    """Estimator for Advantage-Weighted Regression with discrete actions; the agent is a `pfrl_like.agents.DiscreteAWR`.

    Args:
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the value function.
        batch_size: Number of transitions per iteration. One iteration computes their returns and makes several updates.
        gamma: Discount factor per step.
        batch_size_per_update: Number of transitions per update.
        n_actor_updates: Number of policy updates per iteration.
        n_critic_updates: Number of value-function updates per iteration.
        lam: lambda of the TD(lambda) returns.
        beta: Temperature of the weights. A smaller temperature increases the effect of the advantage.
        max_weight: Maximum weight. Larger weights are clipped.
        momentum: Momentum of the SGD optimisers of the policy and the value function.
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

    agent_class = agents.DiscreteAWR
    discrete_action = True
    _policy = staticmethod(categorical_policy)
