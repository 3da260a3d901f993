"""Estimators of Implicit Q-Learning."""

from typing import Any, ClassVar

from pfrl_like import agents
from pfrl_like.algos.fitting.networks import ActorCritic, adam, categorical_policy, gaussian_policy, value_function
from pfrl_like.learning.compatibility.parts import check_positive


class IQL(ActorCritic):
    """Estimator for Implicit Q-Learning; the agent is a `pfrl_like.agents.IQL`.

    The mean of the policy's Gaussian is squashed. Its standard deviation does not depend on the state.

    There are two differences from d3rlpy 2.8. d3rlpy reports the sum of the losses of critics and value function as
    `critic_loss`. This estimator reports `critic_loss` and `value_loss`. d3rlpy computes the policy's weights with the
    value function after its update, this agent with the value function before its update.

    Args:
        expectile: Expectile of the critics' values that the value function learns, between 0 and 1.
        weight_temp: Inverse temperature of the weights. A larger value gives the advantage more influence.
        max_weight: Maximum weight. Larger weights are clipped.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics and of the value function.
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

    agent_class: ClassVar[Any] = agents.IQL
    ignores_unknown = False
    loss_names: ClassVar[Any] = {**ActorCritic.loss_names, "value_loss": "v_func_loss"}

    batch_size = 256
    expectile: float = 0.7
    weight_temp: float = 3.0
    max_weight: float = 100.0

    def _policy(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        return gaussian_policy(self._encoder(observation_shape), action_size, of_state=False)

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        check_positive(self, "weight_temp")  # the agent has another name for it
        v_func = value_function(self._encoder(observation_shape))
        return self._actor_critic(
            self.agent_class, self._policy(observation_shape, action_size),
            self._critics(observation_shape, action_size), v_func=v_func,
            v_func_optimizer=adam(v_func, self.critic_learning_rate, self.eps),
            expectile=self.expectile, beta=self.weight_temp, max_weight=self.max_weight,
        )  # fmt: skip


class DiscreteIQL(IQL):
    """Estimator for Implicit Q-Learning with discrete actions; the agent is a `pfrl_like.agents.DiscreteIQL`.

    The hyperparameters and losses are those of `IQL`.

    Args:
        expectile: Expectile of the critics' values that the value function learns, between 0 and 1.
        weight_temp: Inverse temperature of the weights. A larger value gives the advantage more influence.
        max_weight: Maximum weight. Larger weights are clipped.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics and of the value function.
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

    agent_class = agents.DiscreteIQL
    discrete_action = True

    def _policy(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        return categorical_policy(self._encoder(observation_shape), action_size)

    def _critics(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        return self._critics_of_states(observation_shape, action_size)
