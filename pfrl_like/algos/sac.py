"""Estimators of actor-critics with stochastic policies."""

from typing import Any, ClassVar

from pfrl_like import agents
from pfrl_like.algos.fitting.networks import ActorCritic, squashed_gaussian_policy


class SAC(ActorCritic):
    """Estimator for Soft Actor-Critic with a learnt temperature; the agent is a `pfrl_like.agents.SoftActorCritic`.

    The target entropy is minus the number of action dimensions.

    There are two differences from d3rlpy 2.8. This agent's critics minimise half the squared error, as in the paper.
    d3rlpy uses the squared error, so that its `critic_loss` is twice as large. Adam makes the same steps with both
    losses, except for the effect of `eps`. d3rlpy updates the temperature before it computes the policy's loss, this
    agent afterwards.

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
        kwargs: Unknown hyperparameters. They are ignored with a warning. Hyperparameters of later d3rlpy versions raise
            a TypeError that names the equivalent in this library.
    """

    agent_class: ClassVar[Any] = agents.SoftActorCritic
    state_names: ClassVar[Any] = ("temperature",)

    temp_learning_rate: float = 3e-4
    initial_temperature: float = 1.0
    update_actor_interval: int = 2

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        policy = squashed_gaussian_policy(self._encoder(observation_shape), action_size)
        return self._actor_critic(
            self.agent_class, policy, self._critics(observation_shape, action_size),
            initial_temperature=self.initial_temperature, entropy_target=-float(action_size),
            temperature_optimizer_lr=self.temp_learning_rate, policy_update_delay=self.update_actor_interval,
            **self._extra_options(observation_shape, action_size),
        )  # fmt: skip

    def _extra_options(self, observation_shape: tuple[int, ...], action_size: int) -> dict[str, Any]:
        """Return constructor arguments of the agent in addition to those of `agents.SoftActorCritic`; {} by default."""
        return {}


class CQL(SAC):
    """Estimator for Conservative Q-Learning; the agent is a `pfrl_like.agents.CQL`.

    There are three differences from d3rlpy 2.8. In the critic loss that d3rlpy reports, the threshold is subtracted
    once per critic, and `conservative_weight` multiplies the threshold, too. d3rlpy updates alpha before it computes
    the critic loss. If `soft_q_backup` is False, d3rlpy's targets use the value of the policy's mode, this agent's
    targets the value of a sampled action. If `soft_q_backup` is True, the targets are equal.

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
            this epoch. If None, the estimator uses recorded transitions only.
        n_epochs: Number of epochs if `fit` is called without the argument `n_epochs`. None means 1000.
        impl: Agent to use. If None, the estimator builds an agent.
        kwargs: Unknown hyperparameters. They are ignored with a warning. Hyperparameters of later d3rlpy versions raise
            a TypeError that names the equivalent in this library.
    """

    agent_class = agents.CQL
    state_names = ("temperature", "alpha")

    actor_learning_rate = 3e-5
    temp_learning_rate = 3e-5
    update_actor_interval = 1
    alpha_learning_rate: float = 3e-4
    initial_alpha: float = 5.0
    alpha_threshold: float | None = 10.0
    n_action_samples: int = 10
    conservative_weight: float = 1.0
    soft_q_backup: bool = True

    def _extra_options(self, observation_shape: tuple[int, ...], action_size: int) -> dict[str, Any]:
        return {
            **alpha_options(self), "n_action_samples": self.n_action_samples,
            "conservative_weight": self.conservative_weight, "soft_q_backup": self.soft_q_backup,
        }  # fmt: skip


def alpha_options(algo: Any) -> dict[str, Any]:
    """Return the constructor arguments of agents that learn the weight alpha of a constraint."""
    return {
        "alpha_optimizer_lr": algo.alpha_learning_rate, "initial_alpha": algo.initial_alpha,
        "alpha_threshold": algo.alpha_threshold,
    }  # fmt: skip


class AWAC(ActorCritic):
    """Estimator for Advantage-Weighted Actor-Critic; the agent is a `pfrl_like.agents.AWAC`.

    There are four differences from d3rlpy 2.8. The weights of this estimator are min(exp(A / lam), max_weight).
    d3rlpy's weights are a softmax of the advantages over the minibatch, multiplied by the number of rows. `actor_loss`
    is the mean over the rows here, and the sum in d3rlpy. The targets of d3rlpy subtract the log-probability of the
    next action. The targets of the paper and of this estimator do not. d3rlpy's policy is a Gaussian with a squashed
    mean. The policy of this estimator is a squashed Gaussian.

    Args:
        lam: Temperature of the weights. A smaller temperature increases the effect of the advantage.
        n_action_samples: Number of actions sampled to estimate the value of a state.
        max_weight: Maximum weight. Larger weights are clipped.
        actor_weight_decay: Weight decay of the policy's Adam optimiser.
        update_actor_interval: Number of critic updates per update of the policy.
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
        kwargs: Unknown hyperparameters. They are ignored with a warning. Hyperparameters of later d3rlpy versions raise
            a TypeError that names the equivalent in this library.
    """

    batch_size = 1024
    lam: float = 1.0
    n_action_samples: int = 1
    max_weight: float = 20.0
    actor_weight_decay: float = 1e-4
    update_actor_interval: int = 1

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        policy = squashed_gaussian_policy(self._encoder(observation_shape), action_size)
        return self._actor_critic(
            agents.AWAC, policy, self._critics(observation_shape, action_size), self.actor_weight_decay,
            lam=self.lam, n_action_samples=self.n_action_samples, max_weight=self.max_weight,
            policy_update_delay=self.update_actor_interval,
        )  # fmt: skip
