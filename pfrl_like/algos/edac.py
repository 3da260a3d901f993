"""Estimators of Soft Actor-Critic with many critics, for recorded data: EDAC and SAC-N."""

from typing import Any

from pfrl_like import agents
from pfrl_like.algos.sac import SAC


class SACN(SAC):
    """Estimator for SAC-N (arXiv:2110.01548); the agent is a `pfrl_like.agents.EDAC` without the diversity loss.

    The paper uses 10 to 500 critics, depending on the task. d3rlpy has no such algorithm.

    Args:
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
            this epoch. If None, the estimator uses recorded transitions only.
        n_epochs: Number of epochs if `fit` is called without the argument `n_epochs`. None means 1000.
        impl: Agent to use. If None, the estimator builds an agent.
    """

    ignores_unknown = False
    agent_class = agents.EDAC

    batch_size = 256
    n_critics = 10
    update_actor_interval = 1

    def _extra_options(self, observation_shape: tuple[int, ...], action_size: int) -> dict[str, Any]:
        return {"eta": getattr(self, "eta", 0.0)}


class EDAC(SACN):
    """Estimator for Ensemble-Diversified Actor-Critic (arXiv:2110.01548); the agent is a `pfrl_like.agents.EDAC`.

    The paper uses 10 to 50 critics, depending on the task. d3rlpy has no such algorithm.

    Args:
        eta: Weight of the diversity loss. This loss makes the critics' gradients with respect to the actions different
            from each other. 0 gives SAC-N.
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
            this epoch. If None, the estimator uses recorded transitions only.
        n_epochs: Number of epochs if `fit` is called without the argument `n_epochs`. None means 1000.
        impl: Agent to use. If None, the estimator builds an agent.
    """

    eta: float = 1.0
