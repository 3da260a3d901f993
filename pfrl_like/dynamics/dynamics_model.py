"""A dynamics model, an ensemble of networks that predicts an environment's steps (Yu et al. 2020, arXiv:2005.13239)."""

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

#: Initial bounds of the logarithm of a variance (arXiv:1805.12114, appendix A.1).
MAX_LOG_VARIANCE, MIN_LOG_VARIANCE = 0.5, -10.0


def softly_bounded(log_variance: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Logarithms of variances, softly clipped to bounds (arXiv:1805.12114, appendix A.1).

    Args:
        log_variance: Logarithms of variances, of any shape [..., n].
        low: Lower bounds, [n].
        high: Upper bounds, [n].
    """
    below = high - F.softplus(high - log_variance)
    return low + F.softplus(below - low)


def gaussian_loss(mean: Tensor, log_variance: Tensor, target: Tensor) -> Tensor:
    """(target - mean)^2 / variance + log variance, [...]: twice the negative log-likelihood, up to a constant.

    Args:
        mean: Predicted means, of any shape [...].
        log_variance: Logarithms of predicted variances, [...].
        target: Observed numbers, [...].
    """
    return (target - mean).square() * torch.exp(-log_variance) + log_variance


class ProbabilisticEnsemble(nn.Module):
    """An ensemble whose members each predict means and variances of the same numbers.

    The bounds of the logarithms of variances are learnt, too; each predicted number has its own.

    Args:
        encoders: The first part of each member: a module from the input of the ensemble to features [B, feature_size].
        feature_size: Size of the features.
        n_outputs: Number of predicted numbers.

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
        """Means and logarithms of variances of all members, [members, B, n_outputs] each."""
        outputs = [head(encoder(x)) for encoder, head in zip(self.encoders, self.heads, strict=True)]
        means, log_variances = torch.stack(outputs).chunk(2, dim=-1)
        return means, softly_bounded(log_variances, self.min_log_variance, self.max_log_variance)

    def bounds(self) -> tuple[nn.Parameter, nn.Parameter]:
        """The lower and upper bounds of the logarithms of variances, [n_outputs] each."""
        return self.min_log_variance, self.max_log_variance

    def layers(self) -> Iterator[nn.Parameter]:
        """All parameters except the bounds."""
        yield from self.encoders.parameters()
        yield from self.heads.parameters()


class Step(NamedTuple):
    """Steps predicted by a model.

    Attributes:
        next_obs: Next observations, [B, n].
        reward: Rewards, [B].
        variance: Largest norm of the members' predicted variances, [B].
    """

    next_obs: Tensor
    reward: Tensor
    variance: Tensor


def ensemble_loss(
    network: ProbabilisticEnsemble, x: tuple[Tensor, Tensor], target: Tensor, weight: Tensor | None, bound_weight: float
) -> tuple[Tensor, Tensor]:
    """The sum of the members' losses and the weighted widths of the bounds (arXiv:1805.12114, appendix A.1).

    Each member learns from a bootstrap sample of the minibatch: as many rows, drawn with replacement.

    Args:
        network: The network.
        x: Observations and actions, [B, ...] each.
        target: Numbers to predict, [B, n].
        weight: Importance weights, [B], or None.
        bound_weight: Weight of the widths, upper minus lower bounds.

    Returns:
        The loss, and the mean of the members' losses for each row, [B].
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
    """A model of an environment with vector observations; it predicts the change of the observation and the reward.

    It learns like an agent, by `update(batch)`.

    Args:
        network: Ensemble that predicts the change of the observation and the reward from (observation, action).
        optimizer: Optimiser of the network.
        n_actions: Number of discrete actions; None for continuous actions.
        scaler: Fitted scaler of observations; the predicted change is that of the scaled observation, while the input
            of the network is the unscaled one. None for none.
        bound_weight: Weight, in the loss, of the distance between the bounds of the variances' logarithms, at least 0.
        gpu: CUDA device index; None or negative means the CPU.
        device: Device as text or `torch.device`, instead of `gpu`.

    Raises:
        ValueError: On a number out of range, or a device that does not exist.
        TypeError: If a number is none.
    """

    saved_attributes = ("network", "optimizer")
    #: Discount factor, an attribute that agents have; discounts are not used here.
    gamma = 1.0
    #: Function that changes a minibatch before an update, an attribute that agents have.
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
            The loss of each row, averaged over the members, [N], and statistics.

        Raises:
            NonFiniteError: If the loss or a gradient is NaN or infinite; the parameters stay unchanged.
            ValueError: If the network has a wrong number of outputs.
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
        if target.shape[1] != self.network.n_outputs:  # one output would silently be broadcast
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
        """Values in the dtype of the network."""
        return values.to(self.network.max_log_variance.dtype)

    # Predicting

    @torch.no_grad()
    def predict(self, obs: Tensor, action: Tensor) -> Step:
        """Expected steps: the average of the members' predictions.

        Args:
            obs: Observations, [B, n].
            action: Actions, [B, m], or [B] if discrete.
        """
        means, variance = self._predicted(obs, action)
        return self._step(obs, means.mean(0), variance)

    @torch.no_grad()
    def sample(self, obs: Tensor, action: Tensor) -> Step:
        """Draw steps; each row is drawn from the prediction of a random member. Arguments are those of `predict`."""
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
        """The state that checkpoints save, a dict with the number of updates."""
        return {"optim_t": self.optim_t}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Restore the state that `saved_state` returned."""
        self.optim_t = int(state["optim_t"])
