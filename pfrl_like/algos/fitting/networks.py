"""Networks of estimators (Q-functions and policies), and the base classes of estimators with such networks."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from pfrl_like import q_functions
from pfrl_like.action_value import ImplicitQuantileActionValue
from pfrl_like.algos.fitting.base import Estimator
from pfrl_like.distributions import ClippedGaussian
from pfrl_like.encoders import Encoder
from pfrl_like.nn import ActivityPenalty, ConditionalVAE
from pfrl_like.policies import DeterministicHead, SoftmaxCategoricalHead, SquashedGaussianHead
from pfrl_like.utils.checks import check_choice, check_counts, check_numbers
from pfrl_like.utils.contexts import ignores_training

#: Number of quantiles of "qr", number of fractions of "fqf" (arXiv:1911.02140), and number of cosines per fraction of
#: "iqn" and "fqf" (arXiv:1806.06923).
N_QUANTILES, N_FRACTIONS, N_COSINES = 32, 32, 64


def mean_q_function(encoder: Encoder, n_actions: int) -> nn.Module:
    """Return a Q-function that outputs the expected return of each action."""
    layers = nn.Sequential(encoder, nn.Linear(encoder.feature_size, n_actions))
    return q_functions.SingleModelStateQFunctionWithDiscreteAction(layers)


def quantile_q_function(encoder: Encoder, n_actions: int) -> nn.Module:
    """Return a Q-function that outputs quantiles at evenly spaced fractions."""
    last = nn.Linear(encoder.feature_size, N_QUANTILES * n_actions)
    layers = nn.Sequential(encoder, last, nn.Unflatten(1, (N_QUANTILES, n_actions)))
    return q_functions.QuantileSingleModelStateQFunctionWithDiscreteAction(layers)


class EvenImplicitQuantileQFunction(q_functions.ImplicitQuantileQFunction):
    """`ImplicitQuantileQFunction` that is deterministic in evaluation mode, because it uses evenly spaced fractions."""

    def forward(self, x: Any) -> ImplicitQuantileActionValue:
        """Return the quantile functions of a batch of states."""
        value = super().forward(x)
        return value if self.training else value.at_even_fractions()


def implicit_q_function(encoder: Encoder, n_actions: int) -> nn.Module:
    """Return a Q-function that outputs quantiles at random fractions."""
    return EvenImplicitQuantileQFunction(*_quantile_parts(encoder, n_actions))


def fully_parametrized_q_function(encoder: Encoder, n_actions: int) -> nn.Module:
    """Return a Q-function that outputs quantiles at fractions proposed by a network."""
    proposal = nn.Linear(encoder.feature_size, N_FRACTIONS)
    return q_functions.FullyParametrizedQFunction(*_quantile_parts(encoder, n_actions), proposal)


def _quantile_parts(encoder: Encoder, n_actions: int) -> tuple[nn.Module, nn.Module, nn.Module]:
    size = encoder.feature_size
    phi = nn.Sequential(q_functions.CosineBasisLinear(N_COSINES, size), nn.ReLU())
    return encoder, phi, nn.Linear(size, n_actions)


#: Functions that create Q-functions; keys are the values of `q_func_type`.
Q_FUNC_TYPES: dict[str, Callable[[Encoder, int], nn.Module]] = {
    "mean": mean_q_function,
    "qr": quantile_q_function,
    "iqn": implicit_q_function,
    "fqf": fully_parametrized_q_function,
}


def deterministic_policy(encoder: Encoder, action_size: int, regularizing_rate: float = 0.0) -> nn.Module:
    """Return a deterministic policy with actions in [-1, 1].

    `regularizing_rate` is the weight of a penalty: the mean square of the inputs of the tanh.
    """
    penalty = [ActivityPenalty(regularizing_rate)] if regularizing_rate else []
    last = nn.Linear(encoder.feature_size, action_size)
    return nn.Sequential(encoder, last, *penalty, nn.Tanh(), DeterministicHead())


def squashed_gaussian_policy(encoder: Encoder, action_size: int) -> nn.Module:
    """Return a policy with squashed Gaussian distributions. Its actions are in [-1, 1]."""
    return nn.Sequential(encoder, nn.Linear(encoder.feature_size, 2 * action_size), SquashedGaussianHead())


@ignores_training
class ClippedGaussianHead(nn.Module):
    """Head of a Gaussian policy with squashed means, whose samples are clipped to [-1, 1].

    The bounds of the standard deviations are those of d3rlpy.

    Args:
        action_size: Size of an action, for standard deviations that do not depend on the state. The input is then the
            means before squashing, [..., n]. If 0, the input is the means and the logarithms of the standard
            deviations, [..., 2n].
    """

    def __init__(self, action_size: int = 0) -> None:
        super().__init__()
        self.scale_param = nn.Parameter(torch.zeros(action_size)) if action_size else None

    def forward(self, x: Tensor) -> ClippedGaussian:
        """Return a distribution of batch shape [...] and event shape [n]."""
        if self.scale_param is None:
            mean, log_scale = x.chunk(2, -1)
            log_scale = log_scale.clamp(-20.0, 2.0)
        else:
            mean, log_scale = x, 7.0 * self.scale_param.sigmoid() - 5.0
        return ClippedGaussian(mean.tanh(), log_scale.exp(), log_scale)


def gaussian_policy(encoder: Encoder, action_size: int, of_state: bool = True) -> nn.Module:
    """Return a policy with Gaussian distributions, whose means and samples are in [-1, 1].

    `of_state` is True if the standard deviations depend on the state.
    """
    head = ClippedGaussianHead() if of_state else ClippedGaussianHead(action_size)
    return nn.Sequential(encoder, nn.Linear(encoder.feature_size, action_size * (1 + of_state)), head)


def value_function(encoder: Encoder) -> nn.Module:
    """Return a network from observations to values of states, [N, 1]."""
    return nn.Sequential(encoder, nn.Linear(encoder.feature_size, 1))


def categorical_policy(encoder: Encoder, n_actions: int) -> nn.Module:
    """Return a policy with categorical distributions of discrete actions."""
    return nn.Sequential(encoder, nn.Linear(encoder.feature_size, n_actions), SoftmaxCategoricalHead())


def bounded_network(encoder: Encoder, action_size: int) -> nn.Module:
    """Return a network with the encoder's input and with `action_size` outputs in [-1, 1]."""
    return nn.Sequential(encoder, nn.Linear(encoder.feature_size, action_size), nn.Tanh())


def conditional_vae(make_encoder: Callable[[int], Encoder], action_size: int, latent_size: int) -> ConditionalVAE:
    """Return a conditional variational autoencoder, a model of recorded actions.

    Args:
        make_encoder: Function called as `make_encoder(size)`. It returns an encoder of pairs (observation, vector of
            this size).
        action_size: Size of an action.
        latent_size: Size of the model's latent vector.
    """
    encoder = make_encoder(action_size)
    to_latent = nn.Sequential(encoder, nn.Linear(encoder.feature_size, 2 * latent_size))
    return ConditionalVAE(to_latent, bounded_network(make_encoder(latent_size), action_size), latent_size)


def adam(module: nn.Module, lr: float, eps: float, weight_decay: float = 0.0) -> torch.optim.Optimizer:
    """Return an Adam optimiser of all parameters of a module."""
    return torch.optim.Adam(module.parameters(), lr=lr, eps=eps, weight_decay=weight_decay)


def copy_targets_by_interval(agent: Any, interval: float) -> None:
    """Make an agent copy its parameters to the target networks every `interval` updates, without soft updates.

    Args:
        agent: The agent.
        interval: Number of updates, which is rounded down.

    Raises:
        ValueError: If `interval` is less than 1.
    """
    check_numbers(1, target_update_interval=interval)
    agent._targets = dataclasses.replace(agent._targets, schedule="by interval")
    agent.target_update_method, agent.target_update_interval = "hard", int(interval)
    agent.sync_target_network()


class QLearning(Estimator):
    """Base class of estimators with one or several Q-functions.

    Args:
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

    gamma: float = 0.99
    n_critics: int = 1
    bootstrap: bool = False
    share_encoder: bool = False
    eps: float = 1e-8
    q_func_type: str = "mean"

    def _q_function(self, make_encoder: Callable[[], Encoder], n_actions: int = 1, pool: str = "mean") -> nn.Module:
        """Return a Q-function, or an ensemble of several Q-functions.

        Args:
            make_encoder: Function that returns an encoder of observations, or of pairs (observation, action).
            n_actions: Number of discrete actions; 1 if the encoder takes pairs (observation, action).
            pool: "mean" or "least" (the minimum): reduction of the ensemble's values to one value, for example to
                select the greedy action. Targets always use the minimum.

        Raises:
            ValueError: If `q_func_type` is unknown.
        """
        check_choice("q_func_type", self.q_func_type, Q_FUNC_TYPES)
        check_counts(n_critics=self.n_critics)
        make, shared = Q_FUNC_TYPES[self.q_func_type], make_encoder() if self.share_encoder else None
        members = [make(shared or make_encoder(), n_actions) for _ in range(self.n_critics)]
        if n_actions > 1 and self.n_critics == 1 and not self.bootstrap:
            return members[0]
        return q_functions.QFunctionEnsemble(members, self.bootstrap, pool)

    def _critics_of_states(self, observation_shape: tuple[int, ...], n_actions: int) -> q_functions.QFunctionEnsemble:
        """Return an ensemble of Q-functions that output the values of all actions, also if `n_critics` is 1."""
        critics = self._q_function(lambda: self._encoder(observation_shape), n_actions, pool="least")
        if isinstance(critics, q_functions.QFunctionEnsemble):
            return critics
        return q_functions.QFunctionEnsemble([critics])


class ActorCritic(QLearning):
    """Base class of estimators with a policy and critics for continuous actions.

    Args:
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

    loss_names: ClassVar[Any] = {"critic_loss": "loss", "actor_loss": "policy_loss"}

    actor_learning_rate: float = 3e-4
    critic_learning_rate: float = 3e-4
    tau: float = 0.005
    n_critics: int = 2

    def _critics(self, observation_shape: tuple[int, ...], action_size: int) -> nn.Module:
        return self._q_function(lambda: self._encoder(observation_shape, action_size), pool="least")

    def _actor_critic(
        self,
        agent_class: Any,
        policy: nn.Module,
        critics: nn.Module,
        weight_decay: float = 0.0,
        trained: nn.Module | None = None,
        **options: Any,
    ) -> Any:
        """Build an agent that has two critic arguments. The first is the ensemble `critics`, the second is None.

        Args:
            agent_class: Class of the agent.
            policy: The policy.
            critics: The critics.
            weight_decay: Weight decay of the policy's optimiser.
            trained: Module whose parameters the policy's optimiser trains. None for `policy`.
            options: Further constructor arguments of the agent.
        """
        trained = policy if trained is None else trained
        return agent_class(
            policy, critics, None, adam(trained, self.actor_learning_rate, self.eps, weight_decay),
            adam(critics, self.critic_learning_rate, self.eps), None, gamma=self.gamma, soft_update_tau=self.tau,
            **self._common(), **options,
        )  # fmt: skip
