"""Estimator of Soft Actor-Critic for discrete actions."""

import math
from typing import Any, ClassVar

from pfrl_like import agents
from pfrl_like.algos.fitting.networks import ActorCritic, QLearning, adam, categorical_policy, copy_targets_by_interval


class DiscreteSAC(QLearning):
    """Estimator for Soft Actor-Critic with discrete actions; the agent is a `pfrl_like.agents.DiscreteSAC`.

    The target entropy is 0.98 * log(number of actions).

    There are three differences from d3rlpy 2.8. d3rlpy's critics minimise the Huber loss of the TD error, this agent's
    critics half its square. d3rlpy updates the temperature before it computes the policy's loss, this agent afterwards.
    d3rlpy first copies the parameters to the target networks after the first update. This library first copies them
    after `target_update_interval` updates.

    Args:
        temp_learning_rate: Learning rate of the temperature.
        initial_temperature: Initial temperature.
        target_update_interval: Number of gradient steps between updates of the target network.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
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
    discrete_action = True
    loss_names: ClassVar[Any] = ActorCritic.loss_names
    state_names: ClassVar[Any] = ("temperature",)

    batch_size = 64
    n_critics = 2
    actor_learning_rate: float = 3e-4
    critic_learning_rate: float = 3e-4
    temp_learning_rate: float = 3e-4
    initial_temperature: float = 1.0
    target_update_interval: float = 8e3

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        policy = categorical_policy(self._encoder(observation_shape), action_size)
        critics = self._critics_of_states(observation_shape, action_size)
        agent = agents.DiscreteSAC(
            policy, critics, None, adam(policy, self.actor_learning_rate, self.eps),
            adam(critics, self.critic_learning_rate, self.eps), None, gamma=self.gamma,
            initial_temperature=self.initial_temperature, entropy_target=0.98 * math.log(action_size),
            temperature_optimizer_lr=self.temp_learning_rate, **self._common(),
        )  # fmt: skip
        copy_targets_by_interval(agent, self.target_update_interval)
        return agent
