"""Random numbers of a minibatch whose rows are divided among processes."""

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

#: Names of torch's functions and methods that draw random numbers for the elements of a tensor.
_DRAWING = """rand randn randint normal bernoulli multinomial poisson binomial rand_like randn_like randint_like normal_
    uniform_ exponential_ bernoulli_ random_ log_normal_ cauchy_ geometric_ dropout alpha_dropout dropout1d dropout2d
    dropout3d feature_alpha_dropout _standard_gamma"""
_DRAWING_NAMES = frozenset(_DRAWING.split())


class JoinedNoise(TorchFunctionMode):
    """Context manager in which a process draws the random numbers of all rows and uses those of its own rows.

    The processes begin with the same state of the random generator, and each has an equal share of the rows. Therefore
    the numbers are the same as if one process had all rows. The context replaces tensors with an axis of `rows` values,
    or with a first axis of a multiple. All other tensors are the same in all processes, and all tensors that are drawn
    in the forward pass of a module whose attribute `has_one_noise` is True: its noise does not depend on the rows.

    Args:
        rank: Number of this process. The process has the rows from `rank * rows` on.
        size: Number of processes.

    Attributes:
        rows: Number of rows of each process. If None, nothing is replaced.
    """

    def __init__(self, rank: int, size: int) -> None:
        super().__init__()
        self.rank, self.size = rank, size
        self.rows: int | None = None
        self._n_forward = 0  # number of running forward passes of modules with `has_one_noise`
        self._hooks: list[Any] = []

    def __enter__(self) -> Self:
        before = register_module_forward_pre_hook(lambda module, _: self._count(module, 1))
        after = register_module_forward_hook(lambda module, *_: self._count(module, -1), always_call=True)
        self._n_forward, self._hooks = 0, [before, after]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def _count(self, module: Any, change: int) -> None:
        self._n_forward += change * (getattr(module, "has_one_noise", False) is True)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of torch."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if self.rows is None or self._n_forward or name not in _DRAWING_NAMES:
            return func(*args, **kwargs)
        if name in ("rand", "randn") and args and all(isinstance(each, int) for each in args):
            args = (args,)  # the form torch.randn(2, 3)
        axes: list[int] = []

        def joined(value: Any) -> Any:
            shape = value.shape if isinstance(value, Tensor) else value
            axis = self._axis(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else None
            if axis is None:
                return value
            axes.append(axis)
            if isinstance(value, Tensor):
                return torch.cat([value] * self.size, axis)
            return [n * self.size if i == axis else n for i, n in enumerate(shape)]

        drawn = func(*map(joined, args), **{key: joined(value) for key, value in kwargs.items()})
        if not axes:
            return drawn
        n = drawn.shape[axes[0]] // self.size
        share = drawn.narrow(axes[0], self.rank * n, n)
        return args[0].copy_(share) if name.endswith("_") else share

    def _axis(self, shape: Sequence[int]) -> int | None:
        """Return the axis of the rows; None if a tensor of this shape does not depend on the rows."""
        rows = self.rows or 0
        if rows in shape:
            return [*shape].index(rows)
        return 0 if rows and shape and shape[0] and shape[0] % rows == 0 else None
