"""Estimators of TD3 whose policy also imitates the recorded actions."""

from typing import Any

from pfrl_like import agents
from pfrl_like.algos.ddpg import TD3


class TD3PlusBC(TD3):
    """Estimator for TD3 with behavioural cloning; the agent is a `pfrl_like.agents.TD3PlusBC`.

    The paper standardises observations: pass `scaler="standard"`. An update is equal to an update of d3rlpy 2.8.

    Args:
        alpha: Weight of the critic's term in the policy's loss relative to the squared error. 0 gives pure imitation.
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
    """

    ignores_unknown = False
    agent_class = agents.TD3PlusBC

    batch_size = 256
    alpha: float = 2.5

    def _extra_options(self) -> dict[str, Any]:
        return {"alpha": self.alpha}


class ReBRAC(TD3):
    """Estimator for ReBRAC; the agent is a `pfrl_like.agents.ReBRAC`.

    The critics of the paper have layer normalisation. The critics of this estimator, as those of d3rlpy 2.8 by default,
    have none. An update is equal to an update of d3rlpy 2.8, except for the last transition of a truncated episode.
    Here its penalty on the next action is 0. d3rlpy takes the action of the last row as the next recorded action.

    Args:
        actor_beta: Weight of the squared distance between the policy's actions and the recorded actions.
        critic_beta: Weight of the squared distance between the next actions and the recorded next actions.
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
            this epoch. If None, the estimator uses recorded transitions only. Must be None, because
            generated transitions do not have recorded next actions.
        n_epochs: Number of epochs if `fit` is called without the argument `n_epochs`. None means 1000.
        impl: Agent to use. If None, the estimator builds an agent.
    """

    ignores_unknown = False
    agent_class = agents.ReBRAC
    recorded_only = "the recorded next actions"

    batch_size = 1024
    actor_learning_rate = 1e-3
    critic_learning_rate = 1e-3
    actor_beta: float = 0.001
    critic_beta: float = 0.01

    def _extra_options(self) -> dict[str, Any]:
        return {"actor_beta": self.actor_beta, "critic_beta": self.critic_beta}
