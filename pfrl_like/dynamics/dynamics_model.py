"""Dynamics model: ensemble of networks that predict an environment's steps (Yu et al. 2020, arXiv:2005.13239)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pfrl_like.agent import AttributeSavingMixin
from pfrl_like.batch import Batch
from pfrl_like.distributed.learner_group import LearnerGroup
from pfrl_like.functions.losses import weighted_mean
from pfrl_like.gpu import resolve_device
from pfrl_like.learning.compatibility.parts import check_numbers_in
from pfrl_like.optimizers.gradient_step import GradientStep
from pfrl_like.preprocessing import Scaler
from pfrl_like.utils.checks import check_counts, constructor_only
from pfrl_like.utils.contexts import evaluation_mode

#: Initial bounds of the logarithm of a variance (arXiv:1805.12114, appendix A.1).
MAX_LOG_VARIANCE, MIN_LOG_VARIANCE = 0.5, -10.0


def softly_bounded(log_variance: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Return logarithms of variances, softly clipped to bounds (arXiv:1805.12114, appendix A.1).

    Args:
        log_variance: Logarithms of variances, of any shape [..., n].
        low: Lower bounds, [n].
        high: Upper bounds, [n].
    """
    bounded = high - F.softplus(high - log_variance)
    return low + F.softplus(bounded - low)


def gaussian_loss(mean: Tensor, log_variance: Tensor, target: Tensor) -> Tensor:
    """Return (target - mean)^2 / variance + log variance, [...].

    This is twice the negative log-likelihood of the target, without the constant term.

    Args:
        mean: Predicted means, of any shape [...].
        log_variance: Logarithms of predicted variances, [...].
        target: Observed values, [...].
    """
    return (target - mean).square() * torch.exp(-log_variance) + log_variance


class ProbabilisticEnsemble(nn.Module):
    """Ensemble whose members predict means and variances of the same outputs.

    The log-variances have a lower and an upper bound for each output. The bounds are learnt.

    Args:
        encoders: The first layers of each member: modules that map the input of the ensemble to features, [B,
            feature_size].
        feature_size: Size of the features.
        n_outputs: Number of outputs.

    Raises:
        ValueError: If `encoders` is empty.
    """

    def __init__(self, encoders: Sequence[nn.Module], feature_size: int, n_outputs: int) -> None:
        super().__init__()
        if not encoders:
            raise ValueError("encoders is empty, expected one encoder for each member")
        self.n_outputs = n_outputs
        self.encoders = nn.ModuleList(encoders)
        self.heads = nn.ModuleList(nn.Linear(feature_size, 2 * n_outputs) for _ in encoders)
        self.max_log_variance = nn.Parameter(torch.full((n_outputs,), MAX_LOG_VARIANCE))
        self.min_log_variance = nn.Parameter(torch.full((n_outputs,), MIN_LOG_VARIANCE))

    def __len__(self) -> int:
        return len(self.heads)

    def forward(self, x: Any) -> tuple[Tensor, Tensor]:
        """Return the means and log-variances of all members, [members, B, n_outputs] each."""
        outputs = [head(encoder(x)) for encoder, head in zip(self.encoders, self.heads, strict=True)]
        means, log_variances = torch.stack(outputs).chunk(2, dim=-1)
        return means, softly_bounded(log_variances, self.min_log_variance, self.max_log_variance)

    def bounds(self) -> tuple[nn.Parameter, nn.Parameter]:
        """Return the lower and upper bounds of the log-variances, [n_outputs] each."""
        return self.min_log_variance, self.max_log_variance

    def layers(self) -> Iterator[nn.Parameter]:
        """Yield all parameters except the bounds."""
        yield from self.encoders.parameters()
        yield from self.heads.parameters()


class Step(NamedTuple):
    """Predictions of a model for a batch of observations and actions.

    Attributes:
        next_obs: Next observations, [B, n].
        reward: Rewards, [B].
        variance: Uncertainty, [B]: the norm of the predicted variances, maximum over the members.
    """

    next_obs: Tensor
    reward: Tensor
    variance: Tensor


def ensemble_loss(
    network: ProbabilisticEnsemble, x: tuple[Tensor, Tensor], target: Tensor, weight: Tensor | None, bound_weight: float
) -> tuple[Tensor, Tensor]:
    """Return the sum of the members' losses plus the weighted distance between the bounds of the log-variances.

    Each member is trained on a bootstrap sample of the minibatch: B rows, sampled with replacement (arXiv:1805.12114,
    appendix A.1).

    Args:
        network: The network.
        x: Observations and actions, [B, ...] each.
        target: Values to predict, [B, n].
        weight: Importance weights, [B], or None.
        bound_weight: Weight of the distance between the bounds, upper minus lower bound, summed over the outputs.

    Returns:
        The scalar loss, and the loss of each row averaged over the members, [B].
    """
    means, log_variances = network(x)
    losses = gaussian_loss(means, log_variances, target).mean(-1)
    sampled_rows = torch.randint(losses.shape[1], losses.shape, device=losses.device)
    counts = torch.zeros_like(losses).scatter_add_(1, sampled_rows, torch.ones_like(losses))
    low, high = network.bounds()
    loss = weighted_mean((counts * losses).sum(0), weight) + bound_weight * (high - low).sum()
    return loss, losses.mean(0)


@constructor_only("n_actions")
class DynamicsModel(AttributeSavingMixin):
    """Model of an environment with vector observations that predicts the next observation and the reward.

    Like an agent, the model is trained by calls of `update(batch)`.

    Args:
        network: Ensemble whose input is (observation, action). It predicts the change of the observation, and the
            reward.
        optimizer: Optimiser of the network.
        n_actions: Number of discrete actions; None for continuous actions.
        scaler: Fitted scaler of observations, or None. The network predicts the change of the scaled observation. The
            input of the network is the unscaled observation.
        bound_weight: Weight of the distance between the bounds of the log-variances in the loss, at least 0.
        gpu: CUDA device index. None or a negative index means the CPU.
        device: Device as a string or `torch.device`, instead of `gpu`.

    Raises:
        ValueError: If an argument is out of range, or the device does not exist.
        TypeError: If an argument that must be a number is not a number.
    """

    saved_attributes = ("network", "optimizer")
    _learns_in_group = True
    #: The processes that make the updates together. None if this process learns alone.
    learner_group: LearnerGroup | None = None
    #: Discount factor. Training loops read this attribute of an agent. The model does not use it.
    gamma = 1.0
    #: Function that changes each minibatch before the update, as in agents. None leaves minibatches unchanged.
    augment: Callable[[Batch], Batch] | None = None

    def __init__(
        self,
        network: ProbabilisticEnsemble,
        optimizer: torch.optim.Optimizer,
        *,
        n_actions: int | None = None,
        scaler: Scaler | None = None,
        bound_weight: float = 0.01,
        gpu: int | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        self.device = resolve_device(gpu, device)
        self.network = network.to(self.device)
        self.optimizer = optimizer
        self.n_actions, self.scaler, self.bound_weight = n_actions, scaler, bound_weight
        check_counts(optional=True, n_actions=n_actions)
        check_numbers_in(self, bound_weight=(0, None))
        self.gradient_steps = {"optimizer": GradientStep(optimizer)}
        self.optim_t = 0

    # Learning

    def update(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Make one update from a minibatch.

        Returns:
            The loss of each row averaged over the members, [N], and a dict of statistics.

        Raises:
            NonFiniteError: If the loss or a gradient is NaN or infinite. The parameters stay unchanged.
            ValueError: If the network has the wrong number of outputs.
        """
        batch = batch.to(self.device)
        batch = batch if self.augment is None else self.augment(batch)
        x, target = self._input(batch.obs, batch.action), self._target(batch)
        loss, losses = ensemble_loss(self.network, x, target, batch.weight, self.bound_weight)
        self.gradient_steps["optimizer"](loss)
        self.optim_t += 1
        return losses.detach(), {"loss": loss.detach()}

    def _target(self, batch: Batch) -> Tensor:
        change = self._scaled(batch.next_obs) - self._scaled(batch.obs)
        target = torch.cat((change, self._cast(batch.reward).unsqueeze(1)), 1)
        if target.shape[1] != self.network.n_outputs:  # without this check, a single output would be broadcast
            n, expected = self.network.n_outputs, target.shape[1]
            raise ValueError(f"network has {n} outputs, expected {expected}: the size of an observation plus 1")
        return target

    def _input(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        if self.n_actions is not None:
            action = F.one_hot(action.long(), self.n_actions)
        return self._cast(obs), self._cast(action)

    def _scaled(self, obs: Tensor) -> Tensor:
        values = self._cast(obs)
        return values if self.scaler is None else self.scaler.transform(values)

    def _cast(self, values: Tensor) -> Tensor:
        """Convert values to the dtype of the network."""
        return values.to(self.network.max_log_variance.dtype)

    # Predicting

    @torch.no_grad()
    def predict(self, obs: Tensor, action: Tensor) -> Step:
        """Return the expected next observations and rewards: the mean of the members' predictions.

        Args:
            obs: Observations, [B, n].
            action: Actions, [B, m], or [B] if discrete.
        """
        means, variance = self._predicted(obs, action)
        return self._step(obs, means.mean(0), variance)

    @torch.no_grad()
    def sample(self, obs: Tensor, action: Tensor) -> Step:
        """Sample next observations and rewards; the arguments are the same as in `predict`.

        A random member is selected for each row. The row is sampled from the member's distribution.
        """
        means, variance = self._predicted(obs, action)
        rows = torch.arange(len(obs), device=self.device)
        member = torch.randint(len(means), (len(obs),), device=self.device)
        sample = torch.normal(means[member, rows], variance[member, rows].sqrt())
        return self._step(obs, sample, variance)

    def _predicted(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        with evaluation_mode(self.network):
            means, log_variances = self.network(self._input(obs, action))
        return means, log_variances.exp()

    def _step(self, obs: Tensor, predicted: Tensor, variance: Tensor) -> Step:
        next_obs = self._scaled(obs) + predicted[:, :-1]
        next_obs = next_obs if self.scaler is None else self.scaler.reverse_transform(next_obs)
        return Step(next_obs, predicted[:, -1], variance.norm(dim=-1).amax(0))

    # Saving

    def saved_state(self) -> dict[str, Any]:
        """Return the number of updates in a dict. Checkpoints contain this dict in addition to the saved attributes."""
        return {"optim_t": self.optim_t}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Restore the state that `saved_state` returned."""
        self.optim_t = int(state["optim_t"])
