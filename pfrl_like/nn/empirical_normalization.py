"""Normalisation with the mean and variance of all values so far."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pfrl_like.utils.checks import check_counts, takes_integral_floats
from pfrl_like.utils.contexts import hold_during_fork, ignores_training


@ignores_training
class EmpiricalNormalization(nn.Module):
    """Normalises values with the mean and variance (the moments) of all values so far.

    The moments of batches are merged exactly (Chan et al. 1983, doi:10.1080/00031305.1983.10483115, eq. 2.1). Every
    call updates the moments, in training and in evaluation mode, except with `update=False` or inside the context
    `holding_still`. Agents use this context in evaluation.

    Args:
        shape: Shape of a value without the batch axis; an integer for vectors.
        batch_axis: Index of the batch axis.
        eps: Number added to the variance before the square root.
        dtype: Floating-point dtype of the moments, a NumPy or torch dtype.
        until: Number of values after which the updates stop. The last batch is used completely. If None, updates never
            stop. On a GPU, a limit requires a synchronisation at each update.
        clip_threshold: Maximum absolute value of the result. If None, results are not clipped.

    Raises:
        ValueError: If an argument is out of range.
        TypeError: If `until` is not an integer.
    """

    _mean: Tensor
    _var: Tensor
    count: Tensor

    @takes_integral_floats
    def __init__(
        self,
        shape: int | tuple[int, ...],
        batch_axis: int = 0,
        eps: float = 1e-2,
        dtype: Any = np.float32,
        until: int | None = None,
        clip_threshold: float | None = None,
    ) -> None:
        super().__init__()
        check_counts(0, optional=True, until=until)
        self.shape = (int(shape),) if isinstance(shape, int | np.integer) else tuple(shape)
        dtype = dtype if isinstance(dtype, torch.dtype) else torch.from_numpy(np.empty(0, dtype)).dtype
        checks = [
            ("batch_axis", batch_axis, 0 <= batch_axis <= len(self.shape), f"an axis from 0 to {len(self.shape)}"),
            ("eps", eps, eps >= 0, "a number of at least 0"),
            ("dtype", dtype, dtype.is_floating_point, "a floating-point dtype"),
            ("clip_threshold", clip_threshold, clip_threshold is None or clip_threshold > 0, "above 0, or None"),
        ]
        for name, value, fits, expected in checks:
            if not fits:
                raise ValueError(f"{name} is {value!r}, expected {expected}")
        self.batch_axis, self.eps, self.until = batch_axis, eps, until
        self.clip_threshold = clip_threshold
        # Identifiers of the threads inside `holding_still`. The attribute is set here, because compiled regions only
        # check attributes that exist at compilation.
        self._holds_still: tuple[int, ...] = ()
        moment = torch.zeros(self.shape, dtype=dtype).unsqueeze(batch_axis)
        self.register_buffer("_mean", moment)
        self.register_buffer("_var", torch.ones_like(moment))
        self.register_buffer("count", torch.tensor(0))

    @property
    def mean(self) -> Tensor:
        """Copy of the mean of all values so far, with the shape `shape`. It is 0 before the first value."""
        return self._mean.squeeze(self.batch_axis).clone()

    @property
    def std(self) -> Tensor:
        """Population standard deviation of all values so far, of shape `shape`. It is 1 before the first value."""
        return self._var.squeeze(self.batch_axis).sqrt()

    @torch.no_grad()
    def experience(self, x: Tensor) -> None:
        """Update the moments with a batch of values.

        Raises:
            ValueError: If the shape of the values does not match.
        """
        self._check(x)
        n = x.shape[self.batch_axis]
        if n == 0 or (self.until is not None and self.count >= self.until):
            return
        var, mean = torch.var_mean(x.to(self._mean.dtype), dim=self.batch_axis, correction=0, keepdim=True)
        self.count += n
        weight = (n / self.count).to(mean.dtype)
        delta = mean - self._mean
        self._mean += weight * delta
        self._var += weight * (var - self._var + delta * (mean - self._mean))

    def forward(self, x: Tensor, update: bool = True) -> Tensor:
        """Normalise a batch of values.

        Args:
            x: Values, with any batch size.
            update: True to update the moments with the values before the normalisation.

        Raises:
            ValueError: If the shape of the values does not match.
        """
        held_threads = self._holds_still
        if update and not (held_threads and (torch.compiler.is_compiling() or threading.get_ident() in held_threads)):
            self.experience(x)
        else:
            self._check(x)
        y = (x - self._mean) * (self._var + self.eps).rsqrt()
        return y if self.clip_threshold is None else y.clamp(-self.clip_threshold, self.clip_threshold)

    def inverse(self, y: Tensor) -> Tensor:
        """Return the values whose normalised values are `y`. The result is wrong for values that `forward` clipped."""
        self._check(y)
        return y * (self._var + self.eps).sqrt() + self._mean

    def extra_repr(self) -> str:
        """Return the text of shape and options in `repr`."""
        names = ("shape", "batch_axis", "eps", "until", "clip_threshold")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)

    def _check(self, x: Tensor) -> None:
        axis = self.batch_axis
        if x.shape[:axis] + x.shape[axis + 1 :] != self.shape or x.ndim != len(self.shape) + 1:
            raise ValueError(f"x has shape {tuple(x.shape)}, expected {self.shape} with the batch at axis {axis}")


@contextlib.contextmanager
def holding_still(module: nn.Module) -> Iterator[nn.Module]:
    """Inside the context, calls by this thread do not update any `EmpiricalNormalization` in a module."""
    parts, thread = normalizations_of(module), threading.get_ident()
    with _LOCK:
        for part in parts:
            part._holds_still += (thread,)
    try:
        yield module
    finally:
        with _LOCK:
            for part in parts:
                i = part._holds_still.index(thread)
                part._holds_still = part._holds_still[:i] + part._holds_still[i + 1 :]


def normalizations_of(module: nn.Module) -> tuple[EmpiricalNormalization, ...]:
    """Return every `EmpiricalNormalization` in a module. The function stores the result in the module."""
    found = vars(module).get(_NORMALIZATIONS)
    if found is None:
        found = tuple(part for part in module.modules() if isinstance(part, EmpiricalNormalization))
        vars(module)[_NORMALIZATIONS] = found
    return found


_LOCK = hold_during_fork(threading.Lock())
#: Attribute of a module in which `normalizations_of` stores its result.
_NORMALIZATIONS = "_pfrl_like_normalizations"
