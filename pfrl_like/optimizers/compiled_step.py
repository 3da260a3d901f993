"""A whole update as one compiled region: forward, backward, check, clip and descent, for small networks on a CPU.

The region holds the user's modules as they are; the gradient is asked for with `torch.autograd.grad` and the optimiser
is written as tensor mathematics (`descent.py`), since a compiled region breaks at `backward()` and `Optimizer.step()`.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from pfrl_like.batch import Batch
from pfrl_like.errors import NonFiniteError
from pfrl_like.optimizers.descent import DESCENTS
from pfrl_like.optimizers.gradient_step import GradientStep

Loss = Callable[[Batch], tuple[Tensor, Tensor, dict[str, Tensor]]]
#: Fields that the host keeps for itself.
HOST_FIELDS = ("index", "lengths", "extra")
#: What guards of a compiled region are still looked at: plain values, on which a user's module may branch. Tensors and
#: objects are told apart by `CompiledStep` itself, at a fraction of the cost.
VALUE_GUARDS = ("EQUALS_MATCH", "CONSTANT_MATCH", "BOOL_MATCH", "NONE_MATCH", "GRAD_MODE", "DETERMINISTIC_ALGORITHMS")


class CompiledStep:
    """Learns from batches like a loss followed by `GradientStep`, within float error.

    The first update runs uncompiled, since it makes the optimiser's state; the second one compiles, which takes some
    20 seconds, or 2 when the compiler's cache on disk knows the region. Another batch size, or hyperparameters of the
    optimiser other than the learning rate, compile again.

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
                f"compile=True knows the optimisers {known} of torch.optim, got {type(optimizer).__name__}; "
                "use one of them, or leave compile out"
            )
        self.loss = loss
        self.optimizer = optimizer
        self.max_grad_norm = max_grad_norm
        self._eager = GradientStep(optimizer, max_grad_norm)
        self._descent = DESCENTS[type(optimizer)]
        self._regions: dict[Any, Callable[..., Any]] = {}
        self._cached_for: tuple[Any, ...] = (None, None)
        self._lrs: list[Tensor] = []
        self._constants: Any = None

    def __call__(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Learn once; returns the TD errors and the statistics of the loss."""
        optimizer = self.optimizer
        if self._cached_for[0] is not optimizer.state or self._cached_for[1] is not optimizer.param_groups:
            if not optimizer.state:
                loss, td_error, stats = self.loss(batch)
                self._eager(loss)
                return td_error, stats
            self._prepare()
        for lr, group in zip(self._lrs, optimizer.param_groups, strict=True):
            lr.fill_(group["lr"])
        key, tensors = _signature(batch)
        region = self._regions.get((key, self._group_constants()))
        if region is None:
            region = self._compile(key)
            with torch._dynamo.config.patch(trace_autograd_ops=True):
                td_error, stats, finite = region(*tensors)
        else:
            td_error, stats, finite = region(*tensors)
        if not finite.item():
            loss_value = stats["loss"].item()
            name = "gradient" if math.isfinite(loss_value) else "loss"
            raise NonFiniteError(name, f"the {name} is not finite (loss {loss_value}); the update was not applied")
        return td_error, stats

    def _group_constants(self) -> tuple[Any, ...]:
        """The hyperparameters that are constants of the region, as a key."""
        return tuple(
            tuple(value for name, value in group.items() if name not in ("params", "lr"))
            for group in self.optimizer.param_groups
        )

    def _prepare(self) -> None:
        optimizer = self.optimizer
        self._cached_for = (optimizer.state, optimizer.param_groups)
        self._regions.clear()
        device = optimizer.param_groups[0]["params"][0].device
        self._lrs = [torch.zeros((), device=device) for _ in optimizer.param_groups]

    def _compile(self, key: Sequence[Any]) -> Callable[..., Any]:
        names = tuple(name for name, _ in key)
        loss, descent, max_norm = self.loss, self._descent, self.max_grad_norm
        rows: list[tuple[Tensor, Mapping[str, Any], Tensor, dict[str, Any]]] = []
        for group, lr in zip(self.optimizer.param_groups, self._lrs, strict=True):
            constants = {name: value for name, value in group.items() if name not in ("params", "lr")}
            sign = {"maximize": constants.get("maximize", False)}
            for param in group["params"]:
                if param.requires_grad:
                    state = {n: v for n, v in self.optimizer.state[param].items() if v is not None}
                    rows.append((param, state, lr, {**constants, **sign}))
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

        options = {"guard_filter_fn": lambda guards: [guard.guard_type in VALUE_GUARDS for guard in guards]}
        compiled = torch.compile(region, fullgraph=True, dynamic=False, options=options)
        self._regions[(key, self._group_constants())] = compiled
        return compiled


def _signature(batch: Batch) -> tuple[tuple[Any, ...], list[Any]]:
    """What distinguishes one region from another, and the region's arguments."""
    key, tensors = [], []
    for name in _TENSOR_FIELDS:
        value = getattr(batch, name)
        if value is not None:
            key.append((name, _shape(value)))
            tensors.append(value)
    return tuple(key), tensors


def _shape(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.shape, value.dtype
    if isinstance(value, Mapping):
        return tuple((name, _shape(item)) for name, item in value.items())
    return tuple(_shape(item) for item in value)


_TENSOR_FIELDS = tuple(field.name for field in dataclasses.fields(Batch) if field.name not in HOST_FIELDS)
