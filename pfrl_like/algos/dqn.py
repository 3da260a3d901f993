"""Estimators of the DQN family."""

from typing import Any, ClassVar

from pfrl_like import agents
from pfrl_like.algos.fitting.networks import QLearning, adam
from pfrl_like.explorers import Greedy


class DQN(QLearning):
    """Deep Q-Network, `pfrl_like.agents.DQN`.

    With `clip_delta=True` an update equals that of d3rlpy 2.8, whose NFQ is `DQN(target_update_interval=1)`. d3rlpy
    updates the target network for the first time after the first update, this estimator after
    `target_update_interval` updates.

    Args:
        learning_rate: Learning rate of the Q-function.
        target_update_interval: Updates between updates of the target network.
        clip_delta: Loss of a TD error: True takes the Huber loss (half the square up to 1, the absolute error less 1/2
            beyond), as d3rlpy's code does from 0.32 to 2.8; False takes half the square, as in the formula of its
            document. The loss is the mean over the minibatch and the sum over the critics. It has no effect unless
            `q_func_type` is "mean": quantiles have the quantile Huber loss.
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
        """Arguments that all agents of the family have."""
        return {
            "gamma": self.gamma, "explorer": Greedy(), "target_update_interval": int(self.target_update_interval),
            "clip_delta": self.clip_delta, **self._common(),
        }  # fmt: skip


class DoubleDQN(DQN):
    """Double DQN, `pfrl_like.agents.DoubleDQN`.

    Args:
        learning_rate: Learning rate of the Q-function.
        target_update_interval: Updates between updates of the target network.
        clip_delta: Loss of a TD error: True takes the Huber loss (half the square up to 1, the absolute error less 1/2
            beyond), as d3rlpy's code does from 0.32 to 2.8; False takes half the square, as in the formula of its
            document. The loss is the mean over the minibatch and the sum over the critics. It has no effect unless
            `q_func_type` is "mean": quantiles have the quantile Huber loss.
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

    agent_class = agents.DoubleDQN


class DiscreteCQL(DoubleDQN):
    """Conservative Q-Learning of discrete actions, `pfrl_like.agents.DiscreteCQL`.

    With `clip_delta=True` an update equals that of d3rlpy 2.8. Here each of several critics has its own conservative
    term, and the terms are added; d3rlpy has one term, of the mean of their values.

    Args:
        alpha: Weight of the conservative term.
        learning_rate: Learning rate of the Q-function.
        target_update_interval: Updates between updates of the target network.
        clip_delta: Loss of a TD error: True takes the Huber loss (half the square up to 1, the absolute error less 1/2
            beyond), as d3rlpy's code does from 0.32 to 2.8; False takes half the square, as in the formula of its
            document. The loss is the mean over the minibatch and the sum over the critics. It has no effect unless
            `q_func_type` is "mean": quantiles have the quantile Huber loss.
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

    agent_class = agents.DiscreteCQL

    alpha: float = 1.0

    def _dqn_options(self) -> dict[str, Any]:
        return {**super()._dqn_options(), "conservative_weight": self.alpha}
