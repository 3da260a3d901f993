"""Estimators of algorithms whose policy stays close to a model of the recorded actions."""

from typing import Any, ClassVar, NoReturn

from torch import Tensor, nn

from pfrl_like import agents
from pfrl_like.algos.dqn import DoubleDQN
from pfrl_like.algos.fitting.networks import ActorCritic, adam, bounded_network, categorical_policy, conditional_vae
from pfrl_like.algos.sac import SAC, alpha_options
from pfrl_like.batch import Batch


class ImitatingActorCritic(ActorCritic):
    """Base class of estimators whose policy is constrained to be close to a model of the recorded actions.

    The model may be trained alone for some epochs, before the policy and the critics (see `rl_start_epoch`).

    Args:
        imitator_learning_rate: Learning rate of the model of recorded actions.
        lam: Weight of the minimum over the critics in the targets. The maximum over the critics has the weight 1 - lam.
        n_action_samples: Number of actions sampled for the targets and by `predict`.
        update_actor_interval: Number of critic updates per update of the policy.
        rl_start_epoch: First epoch in which the policy and the critics are trained. Earlier epochs train only the
            model.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        gamma: Discount factor per step.
        n_critics: Number of Q-functions. Targets use the minimum of their values, combined with the maximum (see
            `lam`).
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

    loss_names: ClassVar[Any] = {**ActorCritic.loss_names, "imitator_loss": "imitator_loss"}

    read_when_used = ActorCritic.read_when_used | {"rl_start_epoch"}

    imitator_learning_rate: float = 1e-3
    lam: float = 0.75
    n_action_samples: int = 100
    update_actor_interval: int = 1
    rl_start_epoch: int = 0

    def _learn(self, epoch: int, total_step: int, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        trains_policy = epoch >= self.rl_start_epoch
        self._agent.rl_start_step = 0 if trains_policy else float("inf")
        td_error, losses = super()._learn(epoch, total_step, batch)
        return td_error, losses if trains_policy else {"imitator_loss": losses["imitator_loss"]}

    def _imitation_options(
        self, observation_shape: tuple[int, ...], action_size: int, latent_size: int
    ) -> dict[str, Any]:
        """Return the constructor arguments of the agent that concern the model of the recorded actions."""
        imitator = conditional_vae(lambda size: self._encoder(observation_shape, size), action_size, latent_size)
        return {
            "imitator": imitator, "imitator_optimizer": adam(imitator, self.imitator_learning_rate, self.eps),
            "lam": self.lam, "n_action_samples": self.n_action_samples,
        }  # fmt: skip


class BCQ(ImitatingActorCritic):
    """Estimator for Batch-Constrained deep Q-learning; the agent is a `pfrl_like.agents.BCQ`.

    Each call of `predict` samples new actions.

    There are two differences from d3rlpy 2.8. Here the model of recorded actions has outputs in [-1, 1], as in the
    paper's code. In d3rlpy its outputs are unbounded. This library updates the model after the critics and the policy,
    d3rlpy before them. The losses are equal.

    Args:
        action_flexibility: Maximum perturbation of a sampled action.
        latent_size: Size of the model's latent vector.
        beta: Weight of the KL divergence in the model's loss.
        imitator_learning_rate: Learning rate of the model of recorded actions.
        lam: Weight of the minimum over the critics in the targets. The maximum over the critics has the weight 1 - lam.
        n_action_samples: Number of actions sampled for the targets and by `predict`.
        update_actor_interval: Number of critic updates per update of the policy.
        rl_start_epoch: First epoch in which the policy and the critics are trained. Earlier epochs train only the
            model.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        gamma: Discount factor per step.
        n_critics: Number of Q-functions. Targets use the minimum of their values, combined with the maximum (see
            `lam`).
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

    actor_learning_rate = 1e-3
    critic_learning_rate = 1e-3
    action_flexibility: float = 0.05
    latent_size: int = 32
    beta: float = 0.5

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        perturbation = bounded_network(self._encoder(observation_shape, action_size), action_size)
        return self._actor_critic(
            agents.BCQ, perturbation, self._critics(observation_shape, action_size),
            action_flexibility=self.action_flexibility, beta=self.beta, policy_update_delay=self.update_actor_interval,
            **self._imitation_options(observation_shape, action_size, self.latent_size),
        )  # fmt: skip

    def sample_action(self, x: Any, *, action_mask: Any = None) -> NoReturn:
        """Raise an error, because `predict` already samples actions.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{type(self).__name__} already samples actions in predict: use predict")


class BEAR(ImitatingActorCritic, SAC):
    """Estimator for Bootstrapping Error Accumulation Reduction; the agent is a `pfrl_like.agents.BEAR`.

    A constraint keeps the policy close to a conditional variational autoencoder of the recorded actions. Each call of
    `predict` samples actions from the policy and returns the action with the largest value under the first critic.

    There are three differences from d3rlpy 2.8. d3rlpy computes the discrepancy from the policy's actions before
    squashing. This agent computes it from squashed actions of the policy and of the model. In d3rlpy, the update of
    alpha adds a gradient to the policy's parameters that cancels the gradient of the discrepancy. In d3rlpy, alpha has
    the learning rate of the policy. For the model of recorded actions see `BCQ`.

    Args:
        alpha_learning_rate: Learning rate of the weight alpha of the discrepancy between policy and model.
        initial_alpha: Initial alpha.
        alpha_threshold: Target of the discrepancy. Alpha is learnt so that the discrepancy stays near the target.
        mmd_kernel: Kernel of the discrepancy, "gaussian" or "laplacian".
        mmd_sigma: Width of the kernel.
        n_mmd_action_samples: Number of actions from which the discrepancy is computed: `n_mmd_action_samples` actions
            of the policy and as many of the model; at least 2.
        vae_kl_weight: Weight of the KL divergence in the model's loss.
        imitator_learning_rate: Learning rate of the model of recorded actions.
        lam: Weight of the minimum over the critics in the targets. The maximum over the critics has the weight 1 - lam.
        n_action_samples: Number of actions sampled for the targets and by `predict`.
        update_actor_interval: Number of critic updates per update of the policy and the temperature.
        rl_start_epoch: First epoch in which the policy and the critics are trained. Earlier epochs train only the
            model.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        gamma: Discount factor per step.
        n_critics: Number of Q-functions. Targets use the minimum of their values, combined with the maximum (see
            `lam`).
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
        temp_learning_rate: Learning rate of the temperature.
        initial_temperature: Initial temperature.
        kwargs: Unknown hyperparameters. They are ignored with a warning. Hyperparameters of later d3rlpy versions raise
            a TypeError that names the equivalent in this library.
    """

    agent_class = agents.BEAR
    state_names = ("temperature", "alpha")

    n_action_samples = 4
    alpha_learning_rate: float = 1e-3
    initial_alpha: float = 1.0
    alpha_threshold: float = 0.05
    mmd_kernel: str = "gaussian"
    mmd_sigma: float = 20.0
    n_mmd_action_samples: int = 4
    vae_kl_weight: float = 0.5

    def _extra_options(self, observation_shape: tuple[int, ...], action_size: int) -> dict[str, Any]:
        imitation = self._imitation_options(observation_shape, action_size, 2 * action_size)
        return {
            **imitation, **alpha_options(self), "mmd_kernel": self.mmd_kernel, "mmd_sigma": self.mmd_sigma,
            "n_mmd_action_samples": self.n_mmd_action_samples, "beta": self.vae_kl_weight,
        }  # fmt: skip


class DiscreteBCQ(DoubleDQN):
    """Estimator for Batch-Constrained deep Q-learning with discrete actions; the agent is a `DiscreteBCQ`.

    With `clip_delta=True` and `beta=0`, an update is equal to an update of d3rlpy 2.8 with `share_encoder=False`.
    `beta` is the weight of the squared outputs of the last layer (logits). In d3rlpy, `beta` is the weight of the
    squared log-probabilities.

    Args:
        action_flexibility: Minimum ratio of the probability of an action to the probability of the most probable
            action. Actions with a smaller ratio are masked.
        beta: Weight of the mean squared logits in the loss of the model of recorded actions.
        learning_rate: Learning rate of the Q-function.
        target_update_interval: Number of gradient steps between updates of the target network.
        clip_delta: True to use the Huber loss of the TD error (half the square up to 1, the absolute error minus 1/2
            above 1), like the code of d3rlpy 0.32 to 2.8. False to use half the square, like the formula in d3rlpy's
            documentation. The loss is averaged over the minibatch and summed over the critics. `clip_delta` has no
            effect unless `q_func_type` is "mean", because quantiles use the quantile Huber loss.
        gamma: Discount factor per step.
        n_critics: Number of Q-functions. Targets use the minimum of their values, combined with the maximum (see
            `lam`).
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

    loss_names = {"loss": "loss", "imitator_loss": "imitator_loss"}

    action_flexibility: float = 0.3
    beta: float = 0.5

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        q_function = self._q_function(lambda: self._encoder(observation_shape), action_size)
        imitator = categorical_policy(self._encoder(observation_shape), action_size)
        optimizer = adam(nn.ModuleList([q_function, imitator]), self.learning_rate, self.eps)
        return agents.DiscreteBCQ(
            q_function, optimizer, imitator=imitator, action_flexibility=self.action_flexibility, beta=self.beta,
            **self._dqn_options(),
        )  # fmt: skip
