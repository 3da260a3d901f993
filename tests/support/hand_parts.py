"""Networks whose numbers can be worked out by hand, for golden tests; observations are [B, 1]."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.batch import Batch, Continuation
from pfrl_like.distributions import DiagonalGaussian
from pfrl_like.policies import DeterministicHead


class Slope(nn.Module):
    """Q(s, a) = s + slope * (the sum of a)."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(slope))

    def forward(self, pair: Any) -> Tensor:
        obs, action = pair
        value: Tensor = obs + self.slope * action.sum(-1, keepdim=True)
        return value


class Table(nn.Module):
    """Q(s, a) = s * weight[a], or what a head makes of these numbers; observations may be [B]."""

    def __init__(self, weight: list[float], head: Callable[[Tensor], Any] = DiscreteActionValue) -> None:
        super().__init__()
        self.weight, self.head = nn.Parameter(torch.tensor(weight)), head

    def forward(self, obs: Tensor) -> Any:
        return self.head(obs.reshape(-1, 1) * self.weight)


class Acts(nn.Module):
    """pi(s) = gain * s, without spread, so many times."""

    def __init__(self, gain: float, n: int = 1) -> None:
        super().__init__()
        self.gain, self.n, self.head = nn.Parameter(torch.tensor(gain)), n, DeterministicHead()

    def forward(self, obs: Tensor) -> Any:
        return self.head(self.gain * obs.expand(-1, self.n))


class Certain(DiagonalGaussian):
    """A Gaussian whose samples are its mean."""

    def _noise(self, sample_shape: Any = ()) -> Tensor:
        return torch.zeros(*sample_shape, *self.loc.shape)


class Gaussian(Acts):
    """A Gaussian of scale 1 around gain * s, whose samples are its mean."""

    def forward(self, obs: Tensor) -> Any:
        loc = self.gain * obs.expand(-1, self.n)
        return Certain(loc, torch.ones_like(loc))


class Ramp(DiagonalGaussian):
    """A Gaussian of mean 0 and scale 1 whose samples are 0, 1, ... less a shift."""

    def __init__(self, shape: tuple[int, ...], shift: float) -> None:
        super().__init__(torch.zeros(shape), torch.ones(shape))
        self.shift = shift

    def sample(self, sample_shape: Any = ()) -> Tensor:
        n = sample_shape[0]
        return (torch.arange(float(n)) - self.shift).view(n, 1, 1).expand(n, *self.loc.shape)


class Ramps(nn.Module):
    """A policy of so many numbers, each drawn as a `Ramp`."""

    def __init__(self, n: int, shift: float) -> None:
        super().__init__()
        self.n, self.shift = n, shift

    def forward(self, obs: Tensor) -> Ramp:
        return Ramp((len(obs), self.n), self.shift)


def column(*numbers: float) -> Tensor:
    """Numbers, one in each row."""
    return torch.tensor(numbers).unsqueeze(1)


def with_nothing_after(batch: Batch) -> Batch:
    """The batch with the knowledge that no step follows."""
    none = torch.zeros(0)
    after = Continuation(torch.full((len(batch),), -1), none, none, batch.obs[:0], none.long(), none.long())
    return batch.replace(continuation=after)
