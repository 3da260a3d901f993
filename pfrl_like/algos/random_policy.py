"""Estimators that select random actions, for example to collect data or to compare other estimators with."""

import os
from typing import Any, ClassVar, NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from pfrl_like.algos.fitting.base import Estimator
from pfrl_like.algos.fitting.unsupported import NoFit, NoValues
from pfrl_like.distributions import Categorical, masked
from pfrl_like.errors import ExportError
from pfrl_like.utils.checks import check_choice, check_numbers


class RandomActions(nn.Module):
    """Random actions in the place of an agent. It has no parameters.

    Args:
        action_size: Size of an action.
        distribution: "uniform" or "normal".
        std: Standard deviation of normal actions.
    """

    #: Names of the saved networks: there are none.
    saved_attributes: ClassVar[tuple[str, ...]] = ()
    #: Optimisers with their gradients' limits, by name: there are none.
    gradient_steps: ClassVar[dict[str, Any]] = {}
    #: False, because there is no most probable action that is selected in evaluation.
    act_deterministically: ClassVar[bool] = False
    augment: Any = None

    def __init__(self, action_size: int, distribution: str, std: float) -> None:
        super().__init__()
        check_choice("distribution", distribution, ("uniform", "normal"))
        check_numbers(0.0, normal_std=std)
        self.action_size, self.distribution, self.std = action_size, distribution, std

    def forward(self, n: int) -> Tensor:
        """Return n actions in [-1, 1], [n, action_size]."""
        if self.distribution == "uniform":
            return 2 * torch.rand(n, self.action_size) - 1
        return (self.std * torch.randn(n, self.action_size)).clamp(-1, 1)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return an empty state in the form of an agent's state."""
        return {"attributes": {}, "state": {}}

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Do nothing, because there are no parameters."""


class RandomSelection(NoFit, NoValues):
    """Mixin for estimators that select random actions and have no networks."""

    ignores_unknown = False
    later_names: ClassVar[Any] = {**Estimator.later_names, "gamma": "random actions have no values to discount"}
    batch_size = 256

    def sample_action(self: Any, x: Any, *, action_mask: Any = None) -> Any:
        """Return random actions. Arguments and errors are the same as in `predict`."""
        return self.predict(x, action_mask=action_mask)

    def fit_online(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise the error of `fit`.

        Raises:
            NotImplementedError: Always.
        """
        self.fit()

    def save_policy(self: Any, fname: str | os.PathLike[str], as_onnx: bool = False) -> NoReturn:
        """Raise an error, because there is no network to export. Call `save_model` instead.

        Raises:
            NotFittedError: If the action size is not known yet.
            ExportError: Otherwise.
        """
        actions = type(self._agent).__name__
        raise ExportError(f"{type(self).__name__} has no network to export, only {actions}: use save_model")


class RandomPolicy(RandomSelection, Estimator):
    """Estimator that selects random continuous actions. It learns nothing: `fit` and `fit_online` raise errors.

    Build it with `create_impl`, `build_with_dataset` or `build_with_env`. Actions are in [-1, 1], or in the range of
    the `action_scaler`.

    Args:
        distribution: "uniform" for uniform actions in [-1, 1], "normal" for normal actions that are clipped to [-1, 1].
        normal_std: Standard deviation of normal actions, at least 0.
        batch_size: Number of transitions per minibatch. It has no effect.
        n_frames: Number of consecutive images that are stacked along the channel axis into one observation.
        use_batch_norm: True to apply batch normalisation after each layer of the networks. It has no effect.
        use_gpu: Device to use: False for the CPU, True for the first GPU, the index of a GPU, or a
            `pfrl_like.gpu.Device`.
        compile: True to compile the update of the agent, and the greedy actions of Q-learning. The second call
            compiles, which takes about 30 s. Results differ by rounding. Must be False.
        scaler: Scaler of the observations: "pixel", "min_max", "standard", or a `Scaler`. `observation_scaler` is
            another name of this argument. The first call of `fit` fits the scalers of observations, actions and rewards
            that are not fitted yet.
        action_scaler: Scaler of continuous actions: "min_max", "standard", or a `Scaler`. The agent `impl` learns from
            scaled actions and returns scaled actions. "min_max" scales actions to [-1, 1], the output range of the
            policies. Explorers, replay buffers and the methods of the estimator use unscaled actions. `fit_online` fits
            "min_max" to the bounds of the action space.
        reward_scaler: Scaler of the rewards in training: "min_max", "standard", "return", "multiply", or a `Scaler` of
            rewards such as `ClipRewardScaler(-1.0, 1.0)`. Predicted returns are then returns of scaled rewards. It has
            no effect.
        augmentation: List of augmentations or of names of augmentations, or an `AugmentationPipeline`. None or an empty
            list disables augmentation. It has no effect.
        n_augmentations: Number of augmented copies of each row. The loss is the mean over the copies. It has no effect.
        encoder_params: Dict with the layer sizes of the encoder. For vector observations: "hidden_units", a list of
            layer sizes. For image observations: "filters", a list of (channels, kernel size, stride), and
            "feature_size", the size of the last linear layer. It has no effect.
        dynamics: Dynamics model, such as `MOPO`. At the beginning of each epoch it generates additional transitions for
            this epoch. If None, the estimator uses recorded transitions only. It has no effect.
        n_epochs: Number of epochs if `fit` is called without the argument `n_epochs`. None means 1000. It has no
            effect.
        impl: Agent to use. If None, the estimator builds an agent.
    """

    distribution: str = "uniform"
    normal_std: float = 1.0

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        return RandomActions(action_size, self.distribution, self.normal_std)

    def predict(self, x: Any, *, action_mask: Any = None) -> Any:
        """Return random actions, [n, action_size].

        Args:
            x: Observations with stacked frames, [n, ...].
            action_mask: Must be None, because actions are continuous.

        Raises:
            NotFittedError: If the action size is not known yet.
            ValueError: If the observations have the wrong shape.
            TypeError: If there is a mask.
        """
        if action_mask is not None:
            raise TypeError(f"action_mask is {action_mask!r:.80}, but {type(self).__name__} has continuous actions")
        return self._unscaled(self._agent(len(self._observations(x))).numpy())


class DiscreteRandomPolicy(RandomSelection, Estimator):
    """Estimator that selects random discrete actions. It learns nothing: `fit` and `fit_online` raise errors.

    Build it with `create_impl`, `build_with_dataset` or `build_with_env`.

    Args:
        batch_size: Number of transitions per minibatch. It has no effect.
        n_frames: Number of consecutive images that are stacked along the channel axis into one observation.
        use_batch_norm: True to apply batch normalisation after each layer of the networks. It has no effect.
        use_gpu: Device to use: False for the CPU, True for the first GPU, the index of a GPU, or a
            `pfrl_like.gpu.Device`.
        compile: True to compile the update of the agent, and the greedy actions of Q-learning. The second call
            compiles, which takes about 30 s. Results differ by rounding. Must be False.
        scaler: Scaler of the observations: "pixel", "min_max", "standard", or a `Scaler`. `observation_scaler` is
            another name of this argument. The first call of `fit` fits the scalers of observations, actions and rewards
            that are not fitted yet.
        action_scaler: Scaler of continuous actions: "min_max", "standard", or a `Scaler`. The agent `impl` learns from
            scaled actions and returns scaled actions. "min_max" scales actions to [-1, 1], the output range of the
            policies. Explorers, replay buffers and the methods of the estimator use unscaled actions. `fit_online` fits
            "min_max" to the bounds of the action space.
        reward_scaler: Scaler of the rewards in training: "min_max", "standard", "return", "multiply", or a `Scaler` of
            rewards such as `ClipRewardScaler(-1.0, 1.0)`. Predicted returns are then returns of scaled rewards. It has
            no effect.
        augmentation: List of augmentations or of names of augmentations, or an `AugmentationPipeline`. None or an empty
            list disables augmentation. It has no effect.
        n_augmentations: Number of augmented copies of each row. The loss is the mean over the copies. It has no effect.
        encoder_params: Dict with the layer sizes of the encoder. For vector observations: "hidden_units", a list of
            layer sizes. For image observations: "filters", a list of (channels, kernel size, stride), and
            "feature_size", the size of the last linear layer. It has no effect.
        dynamics: Dynamics model, such as `MOPO`. At the beginning of each epoch it generates additional transitions for
            this epoch. If None, the estimator uses recorded transitions only. It has no effect.
        n_epochs: Number of epochs if `fit` is called without the argument `n_epochs`. None means 1000. It has no
            effect.
        impl: Agent to use. If None, the estimator builds an agent.
    """

    discrete_action = True

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        return RandomActions(action_size, "uniform", 0.0)

    def predict(self, x: Any, *, action_mask: Any = None) -> Any:
        """Return uniformly distributed actions among the allowed actions, [n].

        Args:
            x: Observations with stacked frames, [n, ...].
            action_mask: True for allowed actions, [n, n_actions] or [n_actions]. None allows all actions.

        Raises:
            NotFittedError: If the number of actions is not known yet.
            ValueError: If the observations or the mask have the wrong shape.
        """
        distribution: Any = Categorical(torch.zeros(len(self._observations(x)), self._agent.action_size))
        distribution = distribution if action_mask is None else masked(distribution, action_mask)
        return np.asarray(distribution.sample())
