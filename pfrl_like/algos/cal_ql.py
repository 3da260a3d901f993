"""Estimators of variants of Conservative Q-Learning: Cal-QL and COMBO."""

import logging

from pfrl_like import agents
from pfrl_like.algos.sac import CQL

_LOGGER = logging.getLogger(__name__)


class CalQL(CQL):
    """Estimator for Calibrated Q-Learning; the agent is a `pfrl_like.agents.CalQL`.

    In the conservative term, the values of the policy's actions are at least the recorded return from the state to the
    end of the episode. Minibatches, also those of `fit_online`, contain the later steps of an episode.

    The differences from d3rlpy 2.8 are those of `CQL`, and one more. If an episode was truncated, the return bootstraps
    from the target critics. d3rlpy's return ends there.

    Args:
        alpha_learning_rate: Learning rate of the weight alpha of the conservative term.
        initial_alpha: Initial alpha.
        alpha_threshold: Target value of the weighted gap, `conservative_weight` * gap. The loss contains alpha times
            the weighted gap. alpha is a Lagrange multiplier, learnt to reach the target.
        n_action_samples: Number of actions sampled for each row from each of three distributions: the policy in the
            state, the policy in the next state, and the uniform distribution.
        conservative_weight: Weight of the conservative gap: the values of sampled actions minus the values of the
            actions in the data.
        soft_q_backup: True if the critics' targets include the entropy of the policy in the next state.
        temp_learning_rate: Learning rate of the temperature.
        initial_temperature: Initial temperature.
        update_actor_interval: Number of critic updates per update of the policy and the temperature.
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
            this epoch. If None, the estimator uses recorded transitions only. Must be None, because
            generated transitions do not have the rewards to the end of a recorded episode.
        n_epochs: Number of epochs if `fit` is called without the argument `n_epochs`. None means 1000.
        impl: Agent to use. If None, the estimator builds an agent.
    """

    ignores_unknown = False
    agent_class = agents.CalQL
    recorded_only = "the rewards to the end of recorded episodes"

    batch_size = 256
    actor_learning_rate = 1e-4
    temp_learning_rate = 1e-4
    alpha_learning_rate = 1e-4
    initial_alpha = 1.0
    conservative_weight = 5.0
    soft_q_backup = False


class COMBO(CQL):
    """Estimator for Conservative Offline Model-Based Policy Optimization; the agent is a `pfrl_like.agents.COMBO`.

    The model `dynamics` generates transitions, and the agent lowers the values in these imagined states. Pass a fitted
    `MOPO(lam=0.0)`, because the method uses the predicted rewards without a penalty. The fraction of imagined rows in a
    minibatch is that among all transitions of the epoch. Without a model, `fit` logs a warning.

    Args:
        alpha_learning_rate: Learning rate of the weight alpha of the conservative term. Used if `alpha_threshold` is
            not None.
        initial_alpha: Initial alpha.
        alpha_threshold: Target value of the weighted gap, `conservative_weight` * gap. The loss contains alpha times
            the weighted gap. alpha is a Lagrange multiplier, learnt to reach the target. None keeps alpha constant.
        n_action_samples: Number of actions sampled for each row from each of three distributions: the policy in the
            state, the policy in the next state, and the uniform distribution.
        conservative_weight: Weight of the conservative gap: the values of sampled actions minus the values of the
            actions in the data.
        soft_q_backup: True if the critics' targets include the entropy of the policy in the next state.
        temp_learning_rate: Learning rate of the temperature.
        initial_temperature: Initial temperature.
        update_actor_interval: Number of critic updates per update of the policy and the temperature.
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
            this epoch. If None, the estimator uses recorded transitions only, and an update is an update of `CQL`.
        n_epochs: Number of epochs if `fit` is called without the argument `n_epochs`. None means 1000.
        impl: Agent to use. If None, the estimator builds an agent.
    """

    ignores_unknown = False
    agent_class = agents.COMBO

    batch_size = 256
    actor_learning_rate = 1e-4
    temp_learning_rate = 1e-4
    initial_alpha = 1.0
    alpha_threshold = None
    soft_q_backup = False

    def _check_dynamics(self) -> None:
        super()._check_dynamics()
        if self.dynamics is None:
            _LOGGER.warning("COMBO without dynamics learns as CQL: pass dynamics=MOPO(lam=0.0).fit(...)")
