"""Estimators of behavioural cloning."""

from typing import Any, ClassVar

from pfrl_like import agents
from pfrl_like.algos.fitting.base import Estimator
from pfrl_like.algos.fitting.networks import adam, categorical_policy, deterministic_policy
from pfrl_like.algos.fitting.unsupported import NoValues


class BC(NoValues, Estimator):
    """Estimator for behavioural cloning of continuous actions with the squared error; the agent is a `BC`.

    An update is equal to an update of d3rlpy 2.8 with a deterministic policy.

    Args:
        learning_rate: Learning rate of the policy.
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

    loss_names: ClassVar[Any] = {"loss": "loss"}

    learning_rate: float = 1e-3
    eps: float = 1e-8

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        policy = deterministic_policy(self._encoder(observation_shape), action_size)
        return agents.BC(policy, adam(policy, self.learning_rate, self.eps), **self._common())


class DiscreteBC(BC):
    """Estimator for behavioural cloning of discrete actions by maximum likelihood. The agent is a `DiscreteBC`.

    `beta` is the weight of the squared outputs of the last layer (logits). In d3rlpy 2.8, `beta` is the weight of the
    squared log-probabilities.

    Args:
        beta: Weight of the mean squared logits in the loss.
        learning_rate: Learning rate of the policy.
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

    discrete_action = True

    beta: float = 0.5

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        policy = categorical_policy(self._encoder(observation_shape), action_size)
        optimizer = adam(policy, self.learning_rate, self.eps)
        return agents.DiscreteBC(policy, optimizer, beta=self.beta, **self._common())
