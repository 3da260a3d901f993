"""A whole update as one compiled region: forward, backward, check, clip and descent, for small networks on a CPU.

The region holds the user's modules as they are; the gradient is asked for with `torch.autograd.grad` and the optimiser
is written as tensor mathematics (`descent.py`), since a compiled region breaks at `backward()` and `Optimizer.step()`.
"""

import dataclasses
import math
import operator
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from pfrl_like.batch import Batch
from pfrl_like.errors import NonFiniteError
from pfrl_like.optimizers.compiled_region import CompiledRegion, form, holders_of
from pfrl_like.optimizers.denormals import flushes_denormals
from pfrl_like.optimizers.descent import DESCENTS
from pfrl_like.optimizers.gradient_step import GradientStep

Loss = Callable[[Batch], tuple[Tensor, Tensor, dict[str, Tensor]]]
_NOBODY = types.SimpleNamespace()
#: Fields that the host keeps for itself.
HOST_FIELDS = ("index", "lengths", "extra")


class CompiledStep:
    """Learns from batches like a loss followed by `GradientStep`, within float error.

    The first update runs uncompiled, since it makes the optimiser's state; the second one compiles, which takes some
    30 seconds, or 5 when the compiler's cache on disk knows the region. Another batch size, other hyperparameters of
    the optimiser than the learning rate, and parameters that are added, frozen or set free compile again.

    Args:
        loss: From a batch to the scalar loss, TD errors and statistics.
        optimizer: Adam, AdamW, RMSprop or SGD of torch.
        max_grad_norm: Largest L2 norm of the whole gradient, None for no clipping.

    Raises:
        TypeError: If the optimiser is another one.
        NonFiniteError: When called with a batch whose loss or gradient is NaN or infinite; nothing was changed.
    """

    def __init__(self, loss: Loss, optimizer: Optimizer, max_grad_norm: float | None = None) -> None:
        if type(optimizer) not in DESCENTS:
            known = ", ".join(kind.__name__ for kind in DESCENTS)
            raise TypeError(
                f"compile=True knows the optimisers {known}, got {type(optimizer).__name__}; "
                "use one of them, or leave compile out"
            )
        self.loss = loss
        self.optimizer = optimizer
        self.max_grad_norm = max_grad_norm
        self._eager = GradientStep(optimizer, max_grad_norm)
        self._descent = DESCENTS[type(optimizer)]
        self._flushes = flushes_denormals()
        self._regions: dict[Any, Callable[..., Any]] = {}
        self._cached_for: tuple[Any, ...] = (None, None, 0)
        self._trained: list[Tensor] = []
        self._frozen: list[Tensor] = []
        self._new: set[Tensor] = set()  # parameters whose state an ordinary step has to make
        self._begun: set[Tensor] = set()  # parameters that have seen one: an optimiser may keep no state at all
        self._lrs: list[Tensor] = []
        self._constants_of: Callable[[Any], Any] = _constants_getter(optimizer.param_groups[0])

    def __getstate__(self) -> dict[str, Any]:
        return {"loss": self.loss, "optimizer": self.optimizer, "max_grad_norm": self.max_grad_norm}

    def __setstate__(self, state: dict[str, Any]) -> None:
        CompiledStep.__init__(self, **state)  # a copy compiles a region of its own parameters

    def __call__(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Learn once; returns the TD errors and the statistics of the loss."""
        optimizer = self.optimizer
        groups = optimizer.param_groups
        state, cached_groups, n_groups = self._cached_for
        if (
            state is not optimizer.state  # load_state_dict puts new objects there
            or cached_groups is not groups
            or n_groups != len(groups)
            or not all(map(_REQUIRES_GRAD, self._trained))
            or any(map(_REQUIRES_GRAD, self._frozen))
        ):
            self._prepare()
        if self._new:
            loss, td_error, stats = self.loss(batch)
            self._eager(loss)
            self._begun |= self._new
            self._new = set()
            return td_error, stats
        for lr, group in zip(self._lrs, groups, strict=True):
            lr.fill_(group["lr"])
        names, tensors = _present(batch)
        key = (names, tuple(map(form, tensors)), tuple(map(self._constants_of, groups)))
        region = self._regions.get(key)
        if region is None:
            region = self._regions[key] = self._compile(names)
        torch.set_flush_denormal(True)
        try:
            td_error, stats, finite = region(*tensors)
        finally:
            torch.set_flush_denormal(self._flushes)
        if not finite.item():
            loss_value = stats["loss"].item()
            name = "gradient" if math.isfinite(loss_value) else "loss"
            raise NonFiniteError(name, f"the {name} is not finite (loss {loss_value}); the update was not applied")
        return td_error, stats

    def _prepare(self) -> None:
        state, groups = self.optimizer.state, self.optimizer.param_groups
        self._cached_for = (state, groups, len(groups))
        self._regions.clear()
        params = [param for group in groups for param in group["params"]]
        self._trained = [param for param in params if param.requires_grad]
        self._frozen = [param for param in params if not param.requires_grad]
        self._new = {param for param in self._trained if not state.get(param)} - self._begun
        self._lrs = [torch.zeros((), device=params[0].device) for _ in groups]

    def _compile(self, names: Sequence[str]) -> Callable[..., Any]:
        loss, descent, max_norm = self.loss, self._descent, self.max_grad_norm
        rows: list[tuple[Tensor, Mapping[str, Any], Tensor, dict[str, Any]]] = []
        for group, lr in zip(self.optimizer.param_groups, self._lrs, strict=True):
            constants = {name: value for name, value in group.items() if name not in ("params", "lr")}
            for param in group["params"]:
                if param.requires_grad:
                    state = {n: v for n, v in self.optimizer.state.get(param, {}).items() if v is not None}
                    rows.append((param, state, lr, constants))
        params = [row[0] for row in rows]

        def region(*tensors: Any) -> tuple[Tensor, dict[str, Tensor], Tensor]:
            value, td_error, stats = loss(Batch(**dict(zip(names, tensors, strict=True))))
            grads = torch.autograd.grad(value, params)
            with torch.no_grad():
                norm = torch.stack([(grad * grad).sum() for grad in grads]).sum().sqrt()
                finite = torch.isfinite(value) & torch.isfinite(norm)
                if max_norm is not None:
                    scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
                    grads = tuple(grad * scale for grad in grads)
                for (param, state, lr, group), grad in zip(rows, grads, strict=True):
                    new_param, new_state = descent(param, -grad if group["maximize"] else grad, state, lr, group)
                    param.copy_(torch.where(finite, new_param, param))
                    for name, new in new_state.items():
                        state[name].copy_(torch.where(finite, new, state[name]))
            return td_error, stats, finite

        states = [self.optimizer.state[param] for param in params if param in self.optimizer.state]
        own = [*states, dict(enumerate(self._lrs))]
        return CompiledRegion(region, lambda: [*holders_of(getattr(loss, "__self__", _NOBODY)), *own], "the update")


def _constants_getter(group: Mapping[str, Any]) -> Callable[[Any], Any]:
    """What takes the hyperparameters that are constants of a region out of a parameter group."""
    return operator.itemgetter(*sorted(set(group) - {"params", "lr"}))


def _present(batch: Batch) -> tuple[tuple[str, ...], list[Any]]:
    """Names and values of the fields that a batch has."""
    values = _ALL_FIELDS(batch)
    names = tuple(name for name, value in zip(_FIELDS, values, strict=True) if value is not None)
    return names, [value for value in values if value is not None]


_REQUIRES_GRAD = operator.attrgetter("requires_grad")
_FIELDS = tuple(field.name for field in dataclasses.fields(Batch) if field.name not in HOST_FIELDS)
_ALL_FIELDS = operator.attrgetter(*_FIELDS)
