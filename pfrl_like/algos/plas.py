"""Estimators of Policy in the Latent Action Space."""

from collections.abc import Iterator
from typing import Any, ClassVar

from torch import Tensor, nn

from pfrl_like import agents
from pfrl_like.algos.fitting.networks import ActorCritic, adam, bounded_network, conditional_vae
from pfrl_like.batch import Batch
from pfrl_like.utils.checks import warn_once


class PLAS(ActorCritic):
    """Estimator for Policy in the Latent Action Space; the agent is a `pfrl_like.agents.PLAS`.

    The first `warmup_steps` updates train only a model of the recorded actions. Then the policy selects latent vectors,
    which the model decodes to actions. `predict` and `sample_action` return equal actions.

    There is one difference from d3rlpy 2.8. Here the model of recorded actions has outputs in [-1, 1], as in the
    paper's code. In d3rlpy its outputs are unbounded. The losses are equal.

    Args:
        imitator_learning_rate: Learning rate of the model of recorded actions.
        lam: Weight of the minimum over the critics in the targets. The maximum over the critics has the weight 1 - lam.
        warmup_steps: Number of initial updates. They train only the model of recorded actions. Later updates train only
            the policy and the critics.
        beta: Weight of the KL divergence in the model's loss.
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
    """

    agent_class: ClassVar[Any] = agents.PLAS
    ignores_unknown = False
    loss_names: ClassVar[Any] = {**ActorCritic.loss_names, "imitator_loss": "imitator_loss"}
    later_names: ClassVar[Any] = {
        **ActorCritic.later_names,
        **dict.fromkeys(["rl_start_epoch", "rl_start_step"], "warmup_steps is the number of initial updates"),
    }

    actor_learning_rate = 1e-4
    critic_learning_rate = 1e-3
    imitator_learning_rate: float = 1e-4
    lam: float = 0.75
    warmup_steps: int = 500_000
    beta: float = 0.5

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        latent_size = 2 * action_size
        imitator = conditional_vae(lambda size: self._encoder(observation_shape, size), action_size, latent_size)
        policy = bounded_network(self._encoder(observation_shape), latent_size)
        return self._actor_critic(
            self.agent_class, policy, self._critics(observation_shape, action_size), lam=self.lam, beta=self.beta,
            rl_start_step=self.warmup_steps, imitator=imitator,
            imitator_optimizer=adam(imitator, self.imitator_learning_rate, self.eps),
            **self._perturbation(observation_shape, action_size, policy),
        )  # fmt: skip

    def _perturbation(self, observation_shape: tuple[int, ...], action_size: int, policy: nn.Module) -> dict[str, Any]:
        """Return the arguments of `_actor_critic` that concern a perturbation."""
        return {}

    def _epochs(self, *args: Any, **options: Any) -> Iterator[tuple[int, dict[str, float]]]:
        yield from super()._epochs(*args, **options)
        if (made := self._agent.optim_t) <= self.warmup_steps:
            kind, steps = type(self).__name__, self.warmup_steps
            text = f"{kind} has made {made} updates. The first warmup_steps ({steps}) updates do not train the policy"
            warn_once((kind, "warmup_steps"), f"{text}: set a smaller warmup_steps, or call fit again")

    def _learn(self, epoch: int, total_step: int, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        # `total_step` begins anew at each call of `fit`. The number of the agent's updates does not.
        td_error, losses = super()._learn(epoch, self._agent.optim_t, batch)
        return td_error, {"imitator_loss": losses["imitator_loss"]} if "imitator_loss" in losses else losses

    def sample_action(self, x: Any, *, action_mask: Any = None) -> Any:
        """Return the actions of `predict`, because the policy is deterministic. Errors are the same as in `predict`.

        Args:
            x: Observations with stacked frames, [n, ...].
            action_mask: Must be None, because actions are continuous.
        """
        return self.predict(x, action_mask=action_mask)


class PLASWithPerturbation(PLAS):
    """Estimator for PLAS with a perturbation; the agent is a `pfrl_like.agents.PLASWithPerturbation`.

    A network perturbs the decoded actions of `PLAS`, so that actions may differ from the recorded actions. For the
    difference from d3rlpy 2.8 see `PLAS`.

    Args:
        action_flexibility: Maximum perturbation of a decoded action.
        imitator_learning_rate: Learning rate of the model of recorded actions.
        lam: Weight of the minimum over the critics in the targets. The maximum over the critics has the weight 1 - lam.
        warmup_steps: Number of initial updates. They train only the model of recorded actions. Later updates train only
            the policy and the critics.
        beta: Weight of the KL divergence in the model's loss.
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
    """

    agent_class = agents.PLASWithPerturbation

    action_flexibility: float = 0.05

    def _perturbation(self, observation_shape: tuple[int, ...], action_size: int, policy: nn.Module) -> dict[str, Any]:
        perturbation = bounded_network(self._encoder(observation_shape, action_size), action_size)
        trained = nn.ModuleList([policy, perturbation])
        return {"perturbation": perturbation, "action_flexibility": self.action_flexibility, "trained": trained}
