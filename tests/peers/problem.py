"""One small problem for two libraries: weights, a minibatch, and random numbers; needs NumPy and torch alone."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode

Array = NDArray[Any]

OBS_SIZE, ACTION_SIZE, N_ACTIONS, ROWS = 3, 2, 3, 16
HIDDEN = [8, 8]
#: So large an epsilon that Adam's first step depends on how large a gradient is, not on its sign alone.
LEARNING_RATE, EPS, GAMMA = 0.01, 0.01, 0.9
#: What numbers are drawn by.
DRAWING = {torch.randn, torch.randn_like, torch.rand, torch.rand_like, torch.normal, Tensor.normal_, Tensor.uniform_}

#: Streams of the weights, by the part that a network plays; those of further critics follow.
SEEDS = {"policy": 1, "q": 11, "value": 21, "imitator": 31, "vae_encoder": 41, "vae_decoder": 51, "perturbation": 61}
OF_TARGETS = 100


def weights(part: str, size: int, number: int = 0, target: bool = False) -> Array:
    """So many weights of a network: the `number`-th of its kind, or its target, which differs."""
    stream = np.random.RandomState(SEEDS[part] + number + OF_TARGETS * target)
    return stream.uniform(-0.5, 0.5, size).astype(np.float32)


def minibatch(discrete: bool, seed: int = 0) -> dict[str, Array]:
    """Transitions of which some are terminal; rewards are large enough for TD errors below 1 and above.

    `later_rewards` are all that follows a step that is not terminal.
    """
    stream = np.random.RandomState(seed)
    actions = (
        stream.randint(0, N_ACTIONS, (ROWS, 1)).astype(np.float32)
        if discrete
        else stream.uniform(-0.9, 0.9, (ROWS, ACTION_SIZE)).astype(np.float32)
    )
    return {
        "observations": stream.randn(ROWS, OBS_SIZE).astype(np.float32),
        "actions": actions,
        "rewards": (2 * stream.randn(ROWS, 1)).astype(np.float32),
        "next_observations": stream.randn(ROWS, OBS_SIZE).astype(np.float32),
        "next_actions": np.roll(actions, -1, 0),
        "terminals": (stream.uniform(size=(ROWS, 1)) < 0.25).astype(np.float32),
        "later_rewards": stream.randn(ROWS, 1).astype(np.float32),
    }


def fill(parameters: Iterable[Tensor], values: Array) -> None:
    """Let parameters be the given values, one after the other."""
    parameters = list(parameters)
    parts = torch.as_tensor(values).split([each.numel() for each in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.detach().copy_(part.view_as(parameter))


class Recorded(TorchFunctionMode):
    """Keeps what is drawn, in order, as `drawn`.

    `torch.multinomial` draws one uniform number a row, kept in its place, and inverts the cumulated probabilities.
    """

    def __init__(self) -> None:
        super().__init__()
        self.drawn: list[Array] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        multinomial = func is torch.multinomial
        made = torch.rand_like(args[0][:, :1]) if multinomial else func(*args, **(kwargs or {}))
        if multinomial or func in DRAWING:
            self.drawn.append(made.numpy().copy())
        return (args[0].cumsum(1) < made).sum(1, keepdim=True) if multinomial else made


class Replayed(TorchFunctionMode):
    """Gives what another library has drawn.

    Args:
        draws: What was drawn, in order, each in the shape in which it is asked for.
    """

    def __init__(self, draws: Iterable[Array]) -> None:
        super().__init__()
        self.left = [torch.as_tensor(each) for each in draws]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func not in DRAWING:
            return made
        assert self.left, f"{func} draws more often than the other library did"
        assert made.shape == self.left[0].shape, f"{func} draws {made.shape}, the other library {self.left[0].shape}"
        given = self.left.pop(0)
        return args[0].copy_(given) if func in (Tensor.normal_, Tensor.uniform_) else given
