"""A model of an environment, an ensemble of networks, that imagines steps (Yu et al. 2020, arXiv:2005.13239)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pfrl_like.agent import AttributeSavingMixin
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import weighted_mean
from pfrl_like.gpu import resolve_device
from pfrl_like.learning.compatibility.parts import check_numbers_in
from pfrl_like.optimizers.gradient_step import GradientStep
from pfrl_like.preprocessing import Scaler
from pfrl_like.utils.checks import check_counts, constructor_only
from pfrl_like.utils.contexts import evaluating_readers

#: First bounds of the logarithm of a variance (arXiv:1805.12114, appendix A.1).
MAX_LOG_VARIANCE, MIN_LOG_VARIANCE = 0.5, -10.0


def softly_bounded(log_variance: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The logarithms of variances between bounds, near which they bend smoothly (arXiv:1805.12114, appendix A.1).

    Args:
        log_variance: Any shape [..., n].
        low: Lower bounds, [n].
        high: Upper bounds, [n].
    """
    below = high - F.softplus(high - log_variance)
    return low + F.softplus(below - low)


def gaussian_loss(mean: Tensor, log_variance: Tensor, target: Tensor) -> Tensor:
    """(target - mean)^2 / variance + log variance, [...]: twice the negative log-likelihood, less a constant.

    Args:
        mean: Any shape [...].
        log_variance: The same shape.
        target: The same shape.
    """
    return (target - mean).square() * torch.exp(-log_variance) + log_variance


class ProbabilisticEnsemble(nn.Module):
    """Several members, each of which predicts means and variances of the same numbers.

    The bounds of the logarithms of variances are learnt with the rest, each number having its own.

    Args:
        encoders: The first part of each member: a module from what it is called with to features [B, feature_size].
        feature_size: Size of the features.
        n_outputs: How many numbers are predicted.

    Raises:
        ValueError: If there is no member.
    """

    def __init__(self, encoders: Sequence[nn.Module], feature_size: int, n_outputs: int) -> None:
        super().__init__()
        if not encoders:
            raise ValueError("encoders: got none, expected one for each member")
        self.n_outputs = n_outputs
        self.encoders = nn.ModuleList(encoders)
        self.heads = nn.ModuleList(nn.Linear(feature_size, 2 * n_outputs) for _ in encoders)
        self.max_log_variance = nn.Parameter(torch.full((n_outputs,), MAX_LOG_VARIANCE))
        self.min_log_variance = nn.Parameter(torch.full((n_outputs,), MIN_LOG_VARIANCE))

    def __len__(self) -> int:
        return len(self.heads)

    def forward(self, x: Any) -> tuple[Tensor, Tensor]:
        """Means and logarithms of the variances by all members, [members, B, n_outputs] each."""
        outputs = [head(encoder(x)) for encoder, head in zip(self.encoders, self.heads, strict=True)]
        means, log_variances = torch.stack(outputs).chunk(2, dim=-1)
        return means, softly_bounded(log_variances, self.min_log_variance, self.max_log_variance)

    def bounds(self) -> tuple[nn.Parameter, nn.Parameter]:
        """The bounds, the lower ones first."""
        return self.min_log_variance, self.max_log_variance

    def layers(self) -> Iterator[nn.Parameter]:
        """All other parameters."""
        yield from self.encoders.parameters()
        yield from self.heads.parameters()


class Step(NamedTuple):
    """Steps of a model.

    Attributes:
        next_obs: Next observations, [B, n].
        reward: Rewards, [B].
        variance: The largest norm among the members of the variances that they give, [B].
    """

    next_obs: Tensor
    reward: Tensor
    variance: Tensor


def ensemble_loss(
    network: ProbabilisticEnsemble, x: tuple[Tensor, Tensor], target: Tensor, weight: Tensor | None, bound_weight: float
) -> tuple[Tensor, Tensor]:
    """The sum of the members' losses, and of the widths of the bounds (arXiv:1805.12114, appendix A.1).

    Each member learns from a bootstrap of the minibatch: as many rows, drawn with replacement.

    Args:
        network: The network.
        x: Observations and actions, [B, ...] each.
        target: What is to be predicted, [B, n].
        weight: Importance weights, [B], or None.
        bound_weight: Weight of the widths.

    Returns:
        The loss, and of each row the mean of the members' losses, [B].
    """
    means, log_variances = network(x)
    losses = gaussian_loss(means, log_variances, target).mean(-1)
    drawn = torch.randint(losses.shape[1], losses.shape, device=losses.device)
    times = torch.zeros_like(losses).scatter_add_(1, drawn, torch.ones_like(losses))
    low, high = network.bounds()
    loss = weighted_mean((times * losses).sum(0), weight) + bound_weight * (high - low).sum()
    return loss, losses.mean(0)


@constructor_only("n_actions")
class DynamicsModel(AttributeSavingMixin):
    """A model of an environment whose observations are vectors: of the change of the observation, and of the reward.

    It is learnt like an agent, by `update(batch)`.

    Args:
        network: Predicts the numbers of an observation and the reward from (observation, action).
        optimizer: Its optimiser.
        n_actions: How many discrete actions there are; None for continuous ones.
        scaler: Fitted scaler of observations, between whose results changes are predicted; the network itself gets
            observations as they are. None for none.
        bound_weight: Weight, in the loss, of how far apart the bounds of the variances' logarithms are, at least 0.
        gpu: As in `DQN`.
        device: As in `DQN`.

    Raises:
        ValueError: On a number out of range, or a device that is not there.
        TypeError: On something that should be a number.
    """

    saved_attributes = ("network", "optimizer")
    #: As of agents: discounts count for nothing here.
    gamma = 1.0
    #: As of agents: changes a minibatch before it is learnt from.
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
        """Learn from a minibatch.

        Returns:
            The loss of each row, [N], the mean of the members', and statistics.

        Raises:
            NonFiniteError: If the loss or a gradient is NaN or infinite; nothing was learnt.
            ValueError: If the network predicts another number of numbers.
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
        target = torch.cat((change, self._number(batch.reward).unsqueeze(1)), 1)
        if target.shape[1] != self.network.n_outputs:  # of one number there would be a mean of all, without a word
            raise ValueError(
                f"network predicts {self.network.n_outputs} numbers, expected {target.shape[1]}: those of an "
                "observation, and the reward"
            )
        return target

    def _input(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        if self.n_actions is not None:
            action = F.one_hot(action.long(), self.n_actions)
        return self._number(obs), self._number(action)

    def _scaled(self, obs: Tensor) -> Tensor:
        numbers = self._number(obs)
        return numbers if self.scaler is None else self.scaler.transform(numbers)

    def _number(self, values: Tensor) -> Tensor:
        """In the dtype of the network."""
        return values.to(self.network.max_log_variance.dtype)

    # Predicting

    @torch.no_grad()
    def predict(self, obs: Tensor, action: Tensor) -> Step:
        """What is expected, on the average of the members.

        Args:
            obs: Observations, [B, n].
            action: Actions, [B, m], or [B] if discrete.
        """
        means, variance = self._predicted(obs, action)
        return self._step(obs, means.mean(0), variance)

    @torch.no_grad()
    def sample(self, obs: Tensor, action: Tensor) -> Step:
        """Draw from what a member says, for each row from one drawn at random; arguments as of `predict`."""
        means, variance = self._predicted(obs, action)
        rows = torch.arange(len(obs), device=self.device)
        member = torch.randint(len(means), (len(obs),), device=self.device)
        drawn = torch.normal(means[member, rows], variance[member, rows].sqrt())
        return self._step(obs, drawn, variance)

    def _predicted(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        with evaluating_readers(self.network):
            means, log_variances = self.network(self._input(obs, action))
        return means, log_variances.exp()

    def _step(self, obs: Tensor, predicted: Tensor, variance: Tensor) -> Step:
        following = self._scaled(obs) + predicted[:, :-1]
        next_obs = following if self.scaler is None else self.scaler.reverse_transform(following)
        return Step(next_obs, predicted[:, -1], variance.norm(dim=-1).amax(0))

    # Saving

    def saved_state(self) -> dict[str, Any]:
        """The number of updates."""
        return {"optim_t": self.optim_t}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Take up what `saved_state` gave."""
        self.optim_t = int(state["optim_t"])
