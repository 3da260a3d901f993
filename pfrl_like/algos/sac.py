"""Estimators of actor-critics with stochastic policies."""

from typing import Any, ClassVar

from pfrl_like import agents
from pfrl_like.algos.fitting.networks import ActorCritic, squashed_gaussian_policy


class SAC(ActorCritic):
    """Soft Actor-Critic with a learnt temperature, `pfrl_like.agents.SoftActorCritic`.

    The target of the entropy is minus the number of dimensions of an action.

    d3rlpy 2.8 reports twice this `critic_loss`: it has squares where the paper has half squares. Adam takes the same
    steps for both, except for the effect of `eps`. In an update d3rlpy's policy learns with the temperature after the
    temperature's step, this one with the temperature before it.

    Args:
        temp_learning_rate: Learning rate of the temperature.
        initial_temperature: Initial temperature.
        update_actor_interval: Updates of the critics per update of policy and temperature.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        tau: Share of the way that the targets move towards the learning networks with each update.
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
            **self._further_options(observation_shape, action_size),
        )  # fmt: skip

    def _further_options(self, observation_shape: tuple[int, ...], action_size: int) -> dict[str, Any]:
        """Arguments of the agent that `SoftActorCritic` does not have."""
        return {}


class CQL(SAC):
    """Conservative Q-Learning, `pfrl_like.agents.CQL`.

    Differences from d3rlpy 2.8: it subtracts the threshold within the loss that it reports, for each critic, and also
    multiplies the threshold by `conservative_weight`. Its critic loss has alpha after alpha's step. Without
    `soft_q_backup` its targets have the value of the policy's mode, those of the agent the value of a sample; with it
    they are the same.

    Args:
        alpha_learning_rate: Learning rate of the weight alpha of the conservative term.
        initial_alpha: Initial alpha.
        alpha_threshold: Target of `conservative_weight` times the gap between the values of drawn actions and those of
            the data; learning alpha holds it there.
        n_action_samples: Number of actions drawn of each kind: of the policy, of it in the next state, uniform.
        conservative_weight: Factor of the gap between the values of drawn actions and those of the data.
        soft_q_backup: Whether the critics' targets include the entropy in the next state.
        temp_learning_rate: Learning rate of the temperature.
        initial_temperature: Initial temperature.
        update_actor_interval: Updates of the critics per update of policy and temperature.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        tau: Share of the way that the targets move towards the learning networks with each update.
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

    agent_class = agents.CQL
    state_names = ("temperature", "alpha")

    actor_learning_rate = 3e-5
    temp_learning_rate = 3e-5
    update_actor_interval = 1
    alpha_learning_rate: float = 3e-4
    initial_alpha: float = 5.0
    alpha_threshold: float = 10.0
    n_action_samples: int = 10
    conservative_weight: float = 1.0
    soft_q_backup: bool = True

    def _further_options(self, observation_shape: tuple[int, ...], action_size: int) -> dict[str, Any]:
        return {
            **alpha_options(self), "n_action_samples": self.n_action_samples,
            "conservative_weight": self.conservative_weight, "soft_q_backup": self.soft_q_backup,
        }  # fmt: skip


def alpha_options(algo: Any) -> dict[str, Any]:
    """Arguments of agents that learn the weight alpha of a constraint."""
    return {
        "alpha_optimizer_lr": algo.alpha_learning_rate, "initial_alpha": algo.initial_alpha,
        "alpha_threshold": algo.alpha_threshold,
    }  # fmt: skip


class AWAC(ActorCritic):
    """Advantage-Weighted Actor-Critic, `pfrl_like.agents.AWAC`.

    Differences from d3rlpy 2.8: its weights are a softmax of the advantages over the minibatch, times the number of
    rows, and its `actor_loss` is a sum over the rows. Here weights are min(exp(A / lam), max_weight), and the loss is a
    mean. Its targets subtract the log-probability of the next action; those of the paper do not. Its policy is a
    Gaussian around a squashed mean, this one is a squashed Gaussian.

    Args:
        lam: Temperature of the weights; the smaller, the more the advantage counts.
        n_action_samples: Number of actions drawn to estimate the value of a state.
        max_weight: Largest weight.
        actor_weight_decay: Weight decay of the policy's Adam.
        update_actor_interval: Updates of the critics per update of the policy.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        tau: Share of the way that the targets move towards the learning networks with each update.
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
