"""Seeds, the networks of an algorithm by name, and the minibatch that algorithms of d3rlpy's users take."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from pfrl_like.utils.random_seed import set_random_seed


def seed(n: int) -> None:
    """Seed the global random generators of `random`, NumPy and torch, and use deterministic algorithms of cuDNN.

    Args:
        n: An integer in [0, 2**32).

    Raises:
        TypeError: If `n` is not an integer.
        ValueError: If `n` is out of range.
    """
    set_random_seed(n)
    torch.backends.cudnn.deterministic = True


class Modules:
    """Base class of dataclasses whose fields are the networks and optimizers of an algorithm."""

    def get_torch_modules(self) -> dict[str, nn.Module]:
        """Return the networks by the names of their fields."""
        return {name: value for name, value in vars(self).items() if isinstance(value, nn.Module)}

    def get_gradients(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield `<network>.<parameter>` and the gradient of each parameter that has one."""
        for module_name, module in self.get_torch_modules().items():
            for name, parameter in module.named_parameters():
                if parameter.requires_grad and parameter.grad is not None:
                    yield f"{module_name}.{name}", parameter.grad.detach().cpu().numpy()


@dataclass(frozen=True)
class TorchMiniBatch:
    """Minibatch of the losses of d3rlpy's users. It cannot be made: the losses of this library take a `Batch`.

    Raises:
        TypeError: Always.
    """

    observations: Any
    actions: Any
    rewards: Any
    next_observations: Any
    next_actions: Any
    returns_to_go: Any
    terminals: Any
    intervals: Any
    device: str
    numpy_batch: Any = None

    def __post_init__(self) -> None:
        raise TypeError(
            "TorchMiniBatch belongs to algorithms written against d3rlpy's torch code, which are not supported: "
            "subclass an agent of pfrl_like.agents, whose loss takes a pfrl_like.batch.Batch"
        )
