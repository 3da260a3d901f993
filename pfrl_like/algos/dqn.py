"""Estimators of the DQN family."""

from typing import Any, ClassVar

from pfrl_like import agents
from pfrl_like.algos.fitting.networks import QLearning, adam
from pfrl_like.explorers import Greedy


class DQN(QLearning):
    """Estimator for Deep Q-Networks; the agent is a `pfrl_like.agents.DQN`.

    With `clip_delta=True`, an update is equal to an update of d3rlpy 2.8. d3rlpy's NFQ is
    `DQN(target_update_interval=1)`. d3rlpy first updates the target network after the first update. This library first
    updates it after `target_update_interval` updates.

    Args:
        learning_rate: Learning rate of the Q-function.
        target_update_interval: Number of gradient steps between updates of the target network.
        clip_delta: True to use the Huber loss of the TD error (half the square up to 1, the absolute error minus 1/2
            above 1), like the code of d3rlpy 0.32 to 2.8. False to use half the square, like the formula in d3rlpy's
            documentation. The loss is averaged over the minibatch and summed over the critics. `clip_delta` has no
            effect unless `q_func_type` is "mean", because quantiles use the quantile Huber loss.
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

    agent_class: ClassVar[Any] = agents.DQN
    discrete_action = True
    loss_names = {"value_loss": "loss"}

    learning_rate: float = 6.25e-5
    batch_size = 32
    eps = 1.5e-4
    target_update_interval: float = 8e3
    clip_delta: bool = False

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        q_function = self._q_function(lambda: self._encoder(observation_shape), action_size)
        optimizer = adam(q_function, self.learning_rate, self.eps)
        return self.agent_class(q_function, optimizer, **self._dqn_options())

    def _dqn_options(self) -> dict[str, Any]:
        """Return the constructor arguments that are common to the agents of the DQN family."""
        return {
            "gamma": self.gamma, "explorer": Greedy(), "target_update_interval": int(self.target_update_interval),
            "clip_delta": self.clip_delta, **self._common(),
        }  # fmt: skip


class DoubleDQN(DQN):
    """Estimator for Double DQN; the agent is a `pfrl_like.agents.DoubleDQN`.

    Args:
        learning_rate: Learning rate of the Q-function.
        target_update_interval: Number of gradient steps between updates of the target network.
        clip_delta: True to use the Huber loss of the TD error (half the square up to 1, the absolute error minus 1/2
            above 1), like the code of d3rlpy 0.32 to 2.8. False to use half the square, like the formula in d3rlpy's
            documentation. The loss is averaged over the minibatch and summed over the critics. `clip_delta` has no
            effect unless `q_func_type` is "mean", because quantiles use the quantile Huber loss.
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

    agent_class = agents.DoubleDQN


class DiscreteCQL(DoubleDQN):
    """Estimator for Conservative Q-Learning with discrete actions; the agent is a `pfrl_like.agents.DiscreteCQL`.

    With `clip_delta=True`, an update is equal to an update of d3rlpy 2.8. With several critics, this estimator adds one
    conservative term per critic. d3rlpy computes a single conservative term from the mean of the critics' values.

    Args:
        alpha: Weight of the conservative term.
        learning_rate: Learning rate of the Q-function.
        target_update_interval: Number of gradient steps between updates of the target network.
        clip_delta: True to use the Huber loss of the TD error (half the square up to 1, the absolute error minus 1/2
            above 1), like the code of d3rlpy 0.32 to 2.8. False to use half the square, like the formula in d3rlpy's
            documentation. The loss is averaged over the minibatch and summed over the critics. `clip_delta` has no
            effect unless `q_func_type` is "mean", because quantiles use the quantile Huber loss.
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

    agent_class = agents.DiscreteCQL

    alpha: float = 1.0

    def _dqn_options(self) -> dict[str, Any]:
        return {**super()._dqn_options(), "conservative_weight": self.alpha}
