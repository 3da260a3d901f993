"""Estimator of Critic Regularized Regression."""

from typing import Any

from pfrl_like import agents
from pfrl_like.algos.fitting.networks import ActorCritic, copy_targets_by_interval, gaussian_policy
from pfrl_like.utils.checks import check_choice


class CRR(ActorCritic):
    """Estimator for Critic Regularized Regression; the agent is a `pfrl_like.agents.CRR`.

    The mean of the policy's Gaussian is squashed. Sampled actions are clipped to [-1, 1].

    There are three differences from d3rlpy 2.8. `predict` returns the mode of the policy. d3rlpy samples
    `n_action_samples` actions, and draws one of them with probabilities from a softmax of their values. With several
    critics, this agent computes the advantage from the minimum over the critics, d3rlpy from the mean. d3rlpy first
    copies the parameters to the target networks after the first update. This library first copies them after
    `target_update_interval` updates.

    Args:
        beta: Temperature of the exponential weights. A smaller temperature increases the effect of the advantage.
        n_action_samples: Number of actions sampled to estimate the value of a state.
        advantage_type: "mean" or "max": reduction of the values of the sampled actions. The result is subtracted from
            the value of the recorded action.
        weight_type: "exp" for min(exp(A / beta), max_weight); "binary" for 1 if the advantage A is positive and 0
            otherwise.
        max_weight: Maximum weight. Larger weights are clipped.
        target_update_type: "hard" to copy the parameters to the target networks every `target_update_interval` updates.
            "soft" to make a soft update after each update.
        target_update_interval: Number of gradient steps between updates of the target network. Used if
            `target_update_type` is "hard".
        update_actor_interval: Number of critic updates per update of the policy.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target. Used if
            `target_update_type` is "soft".
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

    n_critics = 1
    beta: float = 1.0
    n_action_samples: int = 4
    advantage_type: str = "mean"
    weight_type: str = "exp"
    max_weight: float = 20.0
    target_update_type: str = "hard"
    target_update_interval: float = 100
    update_actor_interval: int = 1

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        check_choice("target_update_type", self.target_update_type, ("hard", "soft"))
        agent = self._actor_critic(
            agents.CRR, gaussian_policy(self._encoder(observation_shape), action_size),
            self._critics(observation_shape, action_size), beta=self.beta, n_action_samples=self.n_action_samples,
            advantage_type=self.advantage_type, weight_type=self.weight_type, max_weight=self.max_weight,
            policy_update_delay=self.update_actor_interval,
        )  # fmt: skip
        if self.target_update_type == "hard":
            copy_targets_by_interval(agent, self.target_update_interval)
        return agent
