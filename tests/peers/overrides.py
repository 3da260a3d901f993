"""Parameters that a seed gives, and overrides as users of PFRL write them: the same for `pfrl` and for `pfrl_like`."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def filled(module: Any, seed: int = 1) -> Any:
    """A module with parameters that depend on the seed alone."""
    numbers = np.random.RandomState(seed)
    for param in module.parameters():
        param.data = torch.from_numpy(numbers.normal(scale=0.4, size=param.shape).astype(np.float32))
    return module


def sgd(module: Any) -> Any:
    return torch.optim.SGD(module.parameters(), lr=0.1)


def minimise(optimizer: Any, loss: Any) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def parameters_of(agent: Any, *names: str) -> Any:
    """All parameters of those of an agent's modules that it has, one after the other, [n]."""
    parts = [getattr(agent, name, None) for name in names]
    params = [param for part in parts if part is not None for param in part.parameters()]
    return torch.cat([param.detach().flatten() for param in params]).numpy()


def library(base: Any) -> Any:
    """The package of a class."""
    return sys.modules[base.__module__.partition(".")[0]]


def plain(base: Any) -> Any:
    return base


def own(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Of a function, which makes subclasses that have it as a method of that name."""
    return lambda method: lambda base: type("Own", (base,), {name: method})


def skipped(name: str) -> Callable[[Any], Any]:
    return lambda base: type("Skipped", (base,), {name: lambda self, *args, **kwargs: None})


def halved(name: str) -> Callable[[Any], Any]:
    """A subclass whose loss is half of what it was."""

    def make(base: Any) -> Any:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return 0.5 * getattr(base, name)(self, *args, **kwargs)

        return type("Halved", (base,), {name: method})

    return make
