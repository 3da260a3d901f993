"""Estimators of behavioural cloning."""

from typing import Any, ClassVar, NoReturn

from torch import nn

from pfrl_like import agents
from pfrl_like.algos.fitting.base import Estimator
from pfrl_like.algos.fitting.networks import adam, categorical_policy, deterministic_policy


class BC(Estimator):
    """Behavioural cloning of continuous actions by the squared error, `pfrl_like.agents.BC`.

    An update equals that of d3rlpy 2.8 with its deterministic policy.

    Args:
        learning_rate: Learning rate of the policy.
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

    loss_names: ClassVar[Any] = {"loss": "loss"}

    learning_rate: float = 1e-3
    eps: float = 1e-8

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        policy = deterministic_policy(self._encoder(observation_shape), action_size)
        return agents.BC(policy, self._optimizer(policy), **self._common())

    def _optimizer(self, policy: nn.Module) -> Any:
        return adam(policy, self.learning_rate, self.eps)

    def predict_value(self, x: Any, action: Any, with_std: bool = False) -> NoReturn:
        """Raise an error: behavioural cloning learns no values.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{type(self).__name__} learns a policy only, which has no values")

    def sample_action(self, x: Any, *, action_mask: Any = None) -> NoReturn:
        """Raise an error: one action is learnt for each state, and `predict` returns it.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{type(self).__name__} has nothing to draw from: use predict")


class DiscreteBC(BC):
    """Behavioural cloning of discrete actions by their likelihood, `pfrl_like.agents.DiscreteBC`.

    `beta` is the weight of the squared outputs of the last layer; in d3rlpy 2.8 it is that of the squared
    log-probabilities.

    Args:
        beta: Weight of the mean squared logits in the loss.
        learning_rate: Learning rate of the policy.
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

    discrete_action = True

    beta: float = 0.5

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        policy = categorical_policy(self._encoder(observation_shape), action_size)
        return agents.DiscreteBC(policy, self._optimizer(policy), beta=self.beta, **self._common())
