"""One gradient step on a loss: clear, backward, check, clip, step.

If the optimiser is torch's Adam, AdamW or SGD, the step is PyTorch's fused kernel, called with cached lists of the
user's parameters and optimiser state. If it is a different optimiser, or has hooks or a tensor as learning rate, the
step is `optimizer.step()`.
"""

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Optimizer

from pfrl_like.errors import NonFiniteError
from pfrl_like.optimizers.rmsprop_eps_inside_sqrt import RMSpropEpsInsideSqrt, SharedRMSpropEpsInsideSqrt


def flushes_denormals() -> bool:
    """Return True if the user has set this thread to flush denormal numbers to zero."""
    return torch.full((), 1e-39).mul(1.0).item() == 0.0


#: A GPU skips steps whose loss or gradient is NaN or infinite. The CPU reads the number of skipped steps only every
#: `CHECK_INTERVAL` steps, because it must wait for the GPU.
CHECK_INTERVAL = 100

#: Function behind `loss.backward()`, without the checks of `backward`. In small networks, these checks take as long as
#: the gradient.
_run_backward = torch.autograd.Variable._execution_engine.run_backward

#: Function called as (gradients, divisor). It makes a step. If `divisor` is not None, it first divides the gradients by
#: `divisor`.
Kernel = Callable[[list[Tensor], Tensor | None], None]

#: Two copies of the parameters' step counts. The copy on the CPU includes skipped steps, the copy on the GPU does not.
Counts = tuple[list[Tensor], list[Tensor]]
#: Copies of an optimiser's parameters, keyed by the parameter. None if there are none.
Copies = Mapping[Tensor, Tensor] | None

#: If the gradients contain at most this number of values, their norm is computed from one concatenated vector. For more
#: values, one norm per parameter is faster.
MAX_CONCATENATED = 100_000


class GradientStep:
    """Makes gradient steps of one optimiser.

    Args:
        optimizer: The user's optimiser. Every step reads the hyperparameters, such as the learning rate, from its
            `param_groups`.
        max_grad_norm: Maximum L2 norm of the gradient. If None, gradients are not clipped.
        own_only: True to compute only the gradients of this optimiser's parameters, even if losses depend on other
            parameters, too.
        copies: Copies of the optimiser's parameters, keyed by the parameter. The losses depend on the copies. The
            gradients of the copies update the optimiser's parameters, and the copies stay unchanged. If None, the
            losses depend on the optimiser's parameters themselves.

    Attributes:
        average: Function called as (loss, leaves) after `backward`. It replaces the gradients of the leaves by their
            means over several processes and returns the mean of the losses. None if this process learns alone.
        trail: Running hash of all losses, in order. Set it to 0 to start again. Losses on a GPU are added only by
            `settle`.

    Raises:
        NonFiniteError: At a call, if the loss or a gradient is NaN or infinite. Parameters and optimiser state stay
            unchanged. A GPU skips such a step, and the error is raised up to 100 calls later, or by `settle`.
    """

    def __init__(
        self, optimizer: Optimizer, max_grad_norm: float | None = None, own_only: bool = False, copies: Copies = None
    ) -> None:
        self.optimizer, self.max_grad_norm, self.own_only = optimizer, max_grad_norm, own_only
        self.copies = copies
        self.average: Callable[[Tensor, Sequence[Tensor]], Tensor] | None = None
        self.trail = 0
        self._calls, self._losses = 0, list[Tensor]()  # on a GPU, since the last `settle`
        self._device: torch.device | None = None
        self._counts: list[Counts] = []  # step counts, one pair for each group of the optimiser
        self._flushes = flushes_denormals()
        self._prepare()

    def __getstate__(self) -> dict[str, Any]:
        names = ("optimizer", "max_grad_norm", "own_only", "copies")
        return {name: getattr(self, name) for name in names}  # the caches are omitted: a copy has its own parameters

    def __setstate__(self, state: dict[str, Any]) -> None:
        GradientStep.__init__(self, **state)

    def __call__(self, loss: Tensor, refused: Tensor | None = None) -> None:
        """Make a gradient step on a loss.

        Args:
            loss: The loss, a scalar.
            refused: Scalar tensor on the GPU, the property `refused` of the previous step's `GradientStep` in the same
                update. If it is 1, the GPU skipped the previous step. The GPU then also skips this step, and `settle`
                counts the two steps as one. None if there is no previous step, or on a CPU.
        """
        if self._calls == CHECK_INTERVAL:
            self.settle()
        optimizer = self.optimizer
        state, n_states, groups, n_groups = self._cache_key
        if (
            state is not optimizer.state  # load_state_dict sets new objects
            or n_states != len(state)  # the state was cleared
            or groups is not optimizer.param_groups
            or n_groups != len(groups)
            or (self.kernel is not None and any(self._hooks))
            or (self._frozen and any(param.requires_grad for param in self._frozen))
            or (self.own_only and not all(param.requires_grad for param in self.params))
        ):
            self._prepare()
        leaves = self.leaves
        for leaf in leaves:
            leaf.grad = None
        _run_backward((loss,), (self.one,), False, False, self._inputs, allow_unreachable=True, accumulate_grad=True)
        if self.average is not None:
            loss = self.average(loss, leaves)
        grads = [leaf.grad for leaf in leaves]
        if self.on_gpu:
            self._step_on_gpu(loss, grads, refused)
            return
        present = [grad for grad in grads if grad is not None]
        excess = 0.0
        if self.max_grad_norm is not None:
            parts = present if self._concatenates else torch._foreach_norm(present)
            flat = torch._utils._flatten_dense_tensors(parts)  # type: ignore[no-untyped-call]
            norm = torch.linalg.vector_norm(flat).item()
            finite = math.isfinite(norm)
            excess = (norm + 1e-6) / self.max_grad_norm
        else:
            torch._amp_foreach_non_finite_check_and_unscale_(present, self.found_inf, self.one)
            finite = self.found_inf.item() == 0
        value = loss.item()
        if not finite or not math.isfinite(value):
            self.found_inf.zero_()
            raise _non_finite_error(value)
        self.trail = hash((self.trail, value))
        divisor = self.divisor.fill_(excess) if excess > 1 else None
        torch.set_flush_denormal(True)
        try:
            if self.kernel is not None and len(present) == len(grads):
                self.kernel(present, divisor)
            else:
                if divisor is not None:
                    torch._foreach_div_(present, divisor)
                self._slow_step()
        finally:
            torch.set_flush_denormal(self._flushes)

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Make the later steps with another optimiser."""
        self.optimizer = optimizer
        self._prepare()

    @property
    def refused(self) -> Tensor | None:
        """On a GPU, a tensor that is 1 if the GPU skipped the last step, else 0. None on a CPU."""
        return self.found_inf if self.on_gpu else None

    def settle(self) -> None:
        """Wait for the GPU, and raise an error if it has skipped steps since the last call. On a CPU, do nothing.

        Raises:
            NonFiniteError: If the GPU has skipped steps. The attribute `skipped` of the error is the number of these
                steps.
        """
        calls, self._calls = self._calls, 0
        if self._losses:
            self.trail = zlib.crc32(torch.stack(self._losses).double().cpu().numpy().data, self.trail)
            self._losses.clear()
        if calls and (count := int(self.skipped.item())):
            self.skipped.zero_()
            self._count_without_skipped()
            message = f"{count} of {calls} steps were skipped, because the loss or gradient was NaN or infinite"
            raise NonFiniteError("gradient", message, skipped=count)

    def _step_on_gpu(self, loss: Tensor, grads: Sequence[Tensor | None], refused: Tensor | None) -> None:
        present = [grad for grad in grads if grad is not None]
        if self.max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.leaves, self.max_grad_norm)
        value = loss.detach()
        self._losses.append(value)
        bad = (~torch.isfinite(value)).float()
        if refused is not None:
            self.skipped.sub_(refused)
            bad = torch.maximum(bad, refused)
        self.found_inf.copy_(bad)
        torch._amp_foreach_non_finite_check_and_unscale_(present, self.found_inf, self.one)
        self.skipped.add_(self.found_inf)
        if self.kernel is not None and len(present) == len(grads):
            self.kernel(present, None)
        elif self.found_inf.item() == 0:
            self._slow_step()
        self._calls += 1

    def _slow_step(self) -> None:
        if self.copies is not None:
            for param, leaf in zip(self.params, self.leaves, strict=True):
                param.grad = leaf.grad
        self.optimizer.step()
        self._prepare()  # the first step has created the optimiser's state

    def _count_without_skipped(self) -> None:
        """Subtract the number of steps that the GPU has skipped from the step counts of the optimiser on the CPU."""
        for counts, gpu_counts in self._counts:
            skipped = counts[0] - gpu_counts[0].cpu()
            for count in counts if skipped else ():
                count -= skipped

    def _prepare(self) -> None:
        self._count_without_skipped()
        self._counts.clear()
        optimizer = self.optimizer
        state, groups = optimizer.state, optimizer.param_groups
        self._cache_key = (state, len(state), groups, len(groups))
        self._hooks = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks
        params = [param for group in optimizer.param_groups for param in group["params"]]
        self.params = [param for param in params if param.requires_grad]
        self._frozen = [param for param in params if not param.requires_grad]
        if not self.params:
            raise ValueError("optimizer has no parameter that requires a gradient")
        self.leaves = self.params if self.copies is None else [self.copies[param] for param in self.params]
        self._inputs = tuple(self.leaves) if self.own_only else ()
        device = self.params[0].device
        self.on_gpu = device.type != "cpu"
        if device != self._device:
            self._device = device
            # The kernels accept only float32 scalars on the device of the parameters.
            self.found_inf, self.skipped = (torch.zeros((), dtype=torch.float32, device=device) for _ in range(2))
            self.one, self.divisor = (torch.ones((), dtype=torch.float32, device=device) for _ in range(2))
        n_values, dtypes = sum(param.numel() for param in self.params), {param.dtype for param in self.params}
        self._concatenates = n_values <= MAX_CONCATENATED and len(dtypes) == 1
        self.kernel = self._fused_kernel()

    def _fused_kernel(self) -> Kernel | None:
        optimizer = self.optimizer
        make = _KERNELS.get(type(optimizer))
        is_plain = _is_plain(optimizer) and not any(self._hooks)
        if make is None or not is_plain or len({param.device for param in self.params}) > 1:
            return None
        group_kernels = []
        for group in optimizer.param_groups:
            params = [param for param in group["params"] if param.requires_grad]
            kernel = make(optimizer, group, params, self.found_inf if self.on_gpu else None, self._counts)
            if kernel is None:
                return None
            group_kernels.append((len(params), kernel))
        if len(group_kernels) == 1:
            return group_kernels[0][1]

        def all_groups(grads: list[Tensor], divisor: Tensor | None) -> None:
            start = 0
            for count, kernel in group_kernels:
                kernel(grads[start : start + count], divisor)
                start += count

        return all_groups


def _non_finite_error(loss: float) -> NonFiniteError:
    name, fault = ("gradient", "contains NaN or infinity") if math.isfinite(loss) else ("loss", f"is {loss}")
    return NonFiniteError(name, f"the {name} {fault} (loss {loss}), expected finite numbers; this step was not made")


def _is_plain(optimizer: Optimizer) -> bool:
    """Return True if the user has not replaced `optimizer.step`."""
    step = optimizer.__dict__.get("step")  # a learning-rate scheduler replaces it with a wrapper that counts calls
    return step is None or hasattr(step, "_wrapped_by_lr_sched")


def _is_fusable(group: dict[str, Any], params: Sequence[Tensor]) -> bool:
    return (
        all(param.dtype in (torch.float32, torch.float64) and not param.is_sparse for param in params)
        and len({param.dtype for param in params}) == 1
        and group.get("fused") is not False
        and not group.get("foreach")
        and not group.get("capturable")
        and not group.get("differentiable")
        and not isinstance(group["lr"], Tensor)
    )


def _adam_kernel(
    optimizer: Optimizer, group: dict[str, Any], params: list[Tensor], found_inf: Tensor | None, counts: list[Counts]
) -> Kernel | None:
    """Return a kernel for Adam (arXiv:1412.6980) or AdamW (arXiv:1711.05101) on the optimiser's state, or None."""
    states = [optimizer.state.get(param) for param in params]
    if not _is_fusable(group, params) or not all(states):
        return None
    exp_avgs = [state["exp_avg"] for state in states]  # type: ignore[index]
    exp_avg_sqs = [state["exp_avg_sq"] for state in states]  # type: ignore[index]
    steps = [state["step"] for state in states]  # type: ignore[index]
    maxima = [state["max_exp_avg_sq"] for state in states] if group["amsgrad"] else []  # type: ignore[index]
    on_host = [step.numpy() for step in steps if step.device.type == "cpu"]
    if len(on_host) not in (0, len(steps)):
        return None
    if on_host and found_inf is not None:  # Adam counts steps on the CPU unless it is `fused` or `capturable`
        on_gpu = [step.to(param.device) for step, param in zip(steps, params, strict=True)]
        counts.append((steps, on_gpu))
        steps = on_gpu
    are_on_gpu = steps[0].device.type != "cpu"
    decoupled = isinstance(optimizer, AdamW) or group.get("decoupled_weight_decay", False)
    fused = torch._fused_adamw_ if decoupled else torch._fused_adam_

    def kernel(grads: list[Tensor], divisor: Tensor | None) -> None:
        beta1, beta2 = group["betas"]
        if are_on_gpu:
            torch._foreach_add_(steps, 1)
        for count in on_host:
            count += 1  # `count` shares the tensor's memory; this is ten times as fast as a kernel
        fused(
            params, grads, exp_avgs, exp_avg_sqs, maxima, steps,
            lr=group["lr"], beta1=beta1, beta2=beta2, weight_decay=group["weight_decay"], eps=group["eps"],
            amsgrad=group["amsgrad"], maximize=group["maximize"], grad_scale=divisor, found_inf=found_inf,
        )  # fmt: skip
        if found_inf is not None:
            torch._foreach_sub_(steps, [found_inf] * len(steps))
        optimizer._opt_called = True  # type: ignore[attr-defined]  # learning-rate schedulers read this attribute

    return kernel


def _sgd_kernel(
    optimizer: Optimizer, group: dict[str, Any], params: list[Tensor], found_inf: Tensor | None, counts: list[Counts]
) -> Kernel | None:
    """Return a kernel for SGD on the optimiser's momentum buffers; None before the first step creates them."""
    states = [optimizer.state.get(param) or {} for param in params]
    momenta = [state.get("momentum_buffer") for state in states]
    buffers: list[Tensor] = [buffer for buffer in momenta if buffer is not None] if group["momentum"] else []
    if not _is_fusable(group, params) or (group["momentum"] and len(buffers) < len(params)):
        return None

    def kernel(grads: list[Tensor], divisor: Tensor | None) -> None:
        torch._fused_sgd_(
            params, grads, buffers,
            weight_decay=group["weight_decay"], momentum=group["momentum"], lr=group["lr"],
            dampening=group["dampening"], nesterov=group["nesterov"], maximize=group["maximize"],
            is_first_step=False, grad_scale=divisor, found_inf=found_inf,
        )  # fmt: skip
        optimizer._opt_called = True  # type: ignore[attr-defined]

    return kernel


def _rmsprop_kernel(
    optimizer: Any, group: dict[str, Any], params: list[Tensor], found_inf: Tensor | None, counts: list[Counts]
) -> Kernel | None:
    """Return a kernel that calls `RMSpropEpsInsideSqrt.move`. None on a GPU, or if no step has been made yet."""
    if found_inf is not None or not all(optimizer.state.get(param) for param in params):
        return None

    def kernel(grads: list[Tensor], divisor: Tensor | None) -> None:
        if divisor is not None:
            torch._foreach_div_(grads, divisor)
        optimizer.move(params, grads, group)
        optimizer._opt_called = True

    return kernel


_KERNELS: dict[type[Optimizer], Callable[..., Kernel | None]] = {
    Adam: _adam_kernel,
    AdamW: _adam_kernel,
    SGD: _sgd_kernel,
    RMSpropEpsInsideSqrt: _rmsprop_kernel,
    SharedRMSpropEpsInsideSqrt: _rmsprop_kernel,
}


class StepsOfUpdate:
    """Makes the gradient steps of one update.

    Args:
        gradient_steps: Gradient steps, keyed by the name of the optimiser.

    Raises:
        ValueError: At a call with an unknown name.
        NonFiniteError: At a call, if the `GradientStep` rejects the loss. If there are several optimisers, the message
            contains the names of the optimiser that made no step and of the optimisers that have made steps. A GPU
            skips all steps after a rejected step, and the error is raised later.
    """

    def __init__(self, gradient_steps: Mapping[str, GradientStep]) -> None:
        self.gradient_steps = gradient_steps
        self.made: list[str] = []  # names of the optimisers, one for each step
        #: On a GPU, a tensor that is 1 if the GPU skipped a step of this update, else 0; None on a CPU.
        self.refused: Tensor | None = None

    def __call__(self, optimizer: str, loss: Tensor) -> None:
        step = self.gradient_steps.get(optimizer)
        if step is None:
            raise ValueError(f"optimizer is {optimizer!r}, expected one of {', '.join(self.gradient_steps)}")
        try:
            step(loss, self.refused)
        except NonFiniteError as error:
            if len(self.gradient_steps) == 1:
                raise
            # On a GPU, the error may be about an earlier update. Therefore the steps of this update are not listed.
            others = "" if step.on_gpu else earlier_steps_text(self.made)
            raise NonFiniteError(error.name, f"{optimizer}: {error}{others}", skipped=error.skipped) from None
        self.made.append(optimizer)
        self.refused = step.refused


def earlier_steps_text(made: Sequence[str]) -> str:
    """Return the end of an error text: the steps before a rejected step. `made` are their optimisers' names."""
    return f"; the earlier steps of {' and '.join(made)} were made" if made else ", and no other step was made"
