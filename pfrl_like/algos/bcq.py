"""Estimators that are constrained by a model of the recorded actions."""

from typing import Any, ClassVar, NoReturn

from torch import Tensor, nn

from pfrl_like import agents
from pfrl_like.algos.dqn import DoubleDQN
from pfrl_like.algos.fitting.networks import ActorCritic, adam, bounded_network, categorical_policy, conditional_vae
from pfrl_like.algos.sac import SAC, alpha_options
from pfrl_like.batch import Batch


class ImitatingActorCritic(ActorCritic):
    """Base of actor-critics that stay close to a model of the recorded actions; the model may be trained first.

    Args:
        imitator_learning_rate: Learning rate of the model.
        lam: Weight of the smallest critic value in the targets; the largest has the weight 1 - lam.
        n_action_samples: Number of actions drawn in the targets and for `predict`.
        update_actor_interval: Updates of the critics per update of the policy.
        rl_start_epoch: First epoch in which policy and critics learn, too.
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

    loss_names: ClassVar[Any] = {**ActorCritic.loss_names, "imitator_loss": "imitator_loss"}

    read_when_used = ActorCritic.read_when_used | {"rl_start_epoch"}

    imitator_learning_rate: float = 1e-3
    lam: float = 0.75
    n_action_samples: int = 100
    update_actor_interval: int = 1
    rl_start_epoch: int = 0

    def _learn(self, epoch: int, total_step: int, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        starts = epoch >= self.rl_start_epoch
        self._agent.rl_start_step = 0 if starts else float("inf")
        td_error, losses = super()._learn(epoch, total_step, batch)
        return td_error, losses if starts else {"imitator_loss": losses["imitator_loss"]}

    def _imitation_options(
        self, observation_shape: tuple[int, ...], action_size: int, latent_size: int
    ) -> dict[str, Any]:
        """Arguments of the agent that other actor-critics do not have."""
        imitator = conditional_vae(lambda size: self._encoder(observation_shape, size), action_size, latent_size)
        return {
            "imitator": imitator, "imitator_optimizer": adam(imitator, self.imitator_learning_rate, self.eps),
            "lam": self.lam, "n_action_samples": self.n_action_samples,
        }  # fmt: skip


class BCQ(ImitatingActorCritic):
    """Batch-Constrained deep Q-learning, `pfrl_like.agents.BCQ`; each call of `predict` draws new actions.

    Differences from d3rlpy 2.8: its model of recorded actions outputs unbounded numbers. This one outputs numbers in
    [-1, 1], as the paper's code does. Its model learns before critics and policy, this one after them. The losses are
    the same.

    Args:
        action_flexibility: Largest perturbation of a drawn action.
        latent_size: Size of the model's latent vector.
        beta: Weight of the KL divergence in the model's loss.
        imitator_learning_rate: Learning rate of the model.
        lam: Weight of the smallest critic value in the targets; the largest has the weight 1 - lam.
        n_action_samples: Number of actions drawn in the targets and for `predict`.
        update_actor_interval: Updates of the critics per update of the policy.
        rl_start_epoch: First epoch in which policy and critics learn, too.
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
        """Raise an error: `predict` already draws actions.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{type(self).__name__} has no other actions than those of predict")


class BEAR(ImitatingActorCritic, SAC):
    """Bootstrapping Error Accumulation Reduction, `pfrl_like.agents.BEAR`.

    A constraint keeps the policy near a conditional autoencoder of the recorded actions. Each call of `predict` draws
    actions from the policy and returns the one that the first critic values most.

    Differences from d3rlpy 2.8: it measures the discrepancy with the policy's actions before they are squashed; here
    the actions of both policy and model are squashed. Where it learns alpha, the step of alpha leaves a gradient in the
    policy that cancels that of the discrepancy. Its alpha has the policy's learning rate. Its model of recorded actions
    differs from the one here as described for `BCQ`.

    Args:
        alpha_learning_rate: Learning rate of the weight alpha of the discrepancy between policy and model.
        initial_alpha: Initial alpha.
        alpha_threshold: Target of the discrepancy; learning alpha holds it there.
        mmd_kernel: Kernel of the discrepancy, "gaussian" or "laplacian".
        mmd_sigma: Width of the kernel.
        n_mmd_action_samples: Number of actions drawn from the policy, and from the model, to measure the discrepancy;
            at least 2.
        vae_kl_weight: Weight of the KL divergence in the model's loss.
        imitator_learning_rate: Learning rate of the model.
        lam: Weight of the smallest critic value in the targets; the largest has the weight 1 - lam.
        n_action_samples: Number of actions drawn in the targets and for `predict`.
        update_actor_interval: Updates of the critics per update of the policy and of the temperature.
        rl_start_epoch: First epoch in which policy and critics learn, too.
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
        temp_learning_rate: Learning rate of the temperature.
        initial_temperature: Initial temperature.
        kwargs: Unknown hyperparameters, which are ignored with a warning. Those of later versions of d3rlpy raise a
            TypeError that names the equivalent here.
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

    def _further_options(self, observation_shape: tuple[int, ...], action_size: int) -> dict[str, Any]:
        imitation = self._imitation_options(observation_shape, action_size, 2 * action_size)
        return {
            **imitation, **alpha_options(self), "mmd_kernel": self.mmd_kernel, "mmd_sigma": self.mmd_sigma,
            "n_mmd_action_samples": self.n_mmd_action_samples, "beta": self.vae_kl_weight,
        }  # fmt: skip


class DiscreteBCQ(DoubleDQN):
    """Batch-Constrained deep Q-learning of discrete actions, `pfrl_like.agents.DiscreteBCQ`.

    With `clip_delta=True` and `beta=0` an update equals that of d3rlpy 2.8 with `share_encoder=False`. `beta` is the
    weight of the squared outputs of the last layer; in d3rlpy it is that of the squared log-probabilities.

    Args:
        action_flexibility: Smallest probability of an action, as a share of that of the most probable one; less
            probable actions are left out.
        beta: Weight of the mean squared logits in the loss of the model of recorded actions.
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
