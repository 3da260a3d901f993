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

    agent_class = agents.DiscreteAWR
    discrete_action = True
    _policy = staticmethod(categorical_policy)
