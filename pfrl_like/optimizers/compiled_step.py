"""A complete update, compiled as one region for small networks on a CPU: forward, backward, check, clip and step.

The region calls the user's modules. It computes gradients with `torch.autograd.grad`, and makes the optimiser's step
with tensor operations, because a compiled region cannot contain `backward()` and `Optimizer.step()`.
"""

import dataclasses
import functools
import operator
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop

from pfrl_like.batch import Batch
from pfrl_like.errors import NonFiniteError
from pfrl_like.optimizers.compiled_region import CompiledRegion, form, holders_of
from pfrl_like.optimizers.gradient_step import GradientStep, StepsOfUpdate, earlier_steps_text, flushes_denormals
from pfrl_like.optimizers.rmsprop_eps_inside_sqrt import RMSpropEpsInsideSqrt

State = Mapping[str, Any]
Group = Mapping[str, Any]
Result = tuple[Tensor, dict[str, Tensor]]
Descent = Callable[[Tensor, Tensor, State, Tensor, Group], Result]


def adam(param: Tensor, grad: Tensor, state: State, lr: Tensor, group: Group, decoupled: bool = False) -> Result:
    """Adam (arXiv:1412.6980, algorithm 1) with optional AMSGrad, and AdamW (arXiv:1711.05101, algorithm 2).

    If `decoupled` is True here or in the parameter group, the weight decay is decoupled (AdamW). Otherwise the weight
    decay is an L2 regularisation, added to the gradient.
    """
    if decoupled or group.get("decoupled_weight_decay"):
        param = param * (1 - lr * group["weight_decay"])
    elif group["weight_decay"]:
        grad = grad + group["weight_decay"] * param
    beta1, beta2 = group["betas"]
    step = state["step"] + 1
    mean = torch.lerp(state["exp_avg"], grad, 1 - beta1)
    square = state["exp_avg_sq"] * beta2 + (1 - beta2) * grad * grad
    new = {"step": step, "exp_avg": mean, "exp_avg_sq": square}
    if group["amsgrad"]:
        square = new["max_exp_avg_sq"] = torch.maximum(state["max_exp_avg_sq"], square)
    # `torch.stack` stores both corrections in memory. Without `torch.stack`, the compiler would compute the powers for
    # every element of the parameter.
    count = step.to(lr.device)
    correction1, correction2 = torch.stack([lr / (1 - beta1**count), (1 - beta2**count).rsqrt()]).unbind()
    return param - correction1 * mean / (square.sqrt() * correction2 + group["eps"]), new


def rmsprop(param: Tensor, grad: Tensor, state: State, lr: Tensor, group: Group, eps_inside: bool = False) -> Result:
    """RMSprop (Hinton 2012, lecture 6), optionally centred (arXiv:1308.0850, eq. 40) and with momentum.

    If `eps_inside` is True, epsilon is added to the variance, otherwise to the square root of the variance.
    """
    if group["weight_decay"]:
        grad = grad + group["weight_decay"] * param
    alpha, eps = group["alpha"], group["eps"]
    square = state["square_avg"] * alpha + (1 - alpha) * grad * grad
    new = {"step": state["step"] + 1, "square_avg": square}
    variance = square
    if group["centered"]:
        mean = new["grad_avg"] = torch.lerp(state["grad_avg"], grad, 1 - alpha)
        variance = square - mean * mean
    direction = grad / ((variance + eps).sqrt() if eps_inside else variance.sqrt() + eps)
    if group["momentum"]:
        direction = new["momentum_buffer"] = state["momentum_buffer"] * group["momentum"] + direction
    return param - lr * direction, new


def sgd(param: Tensor, grad: Tensor, state: State, lr: Tensor, group: Group) -> Result:
    """Stochastic gradient descent, optionally with (Nesterov's) momentum."""
    if group["weight_decay"]:
        grad = grad + group["weight_decay"] * param
    momentum = group["momentum"]
    if not momentum:
        return param - lr * grad, {}
    buffer = state["momentum_buffer"] * momentum + (1 - group["dampening"]) * grad
    direction = grad + momentum * buffer if group["nesterov"] else buffer
    return param - lr * direction, {"momentum_buffer": buffer}


DESCENTS: dict[type[Optimizer], Descent] = {
    Adam: adam,
    AdamW: functools.partial(adam, decoupled=True),
    RMSprop: rmsprop,
    RMSpropEpsInsideSqrt: functools.partial(rmsprop, eps_inside=True),
    SGD: sgd,
}


#: Function called as (name of an optimiser, loss). It makes a gradient step.
Step = Callable[[str, Tensor], None]
#: Result of an update: the TD error (or another error) of each row, [N], and the statistics, keyed by name.
Update = tuple[Tensor, dict[str, Tensor]]
Learn = Callable[..., Update]
_NO_OWNER = types.SimpleNamespace()
#: Fields of a `Batch` that stay on the CPU. They are not passed to a region.
HOST_FIELDS = ("index", "lengths", "extra")


class CompiledStep:
    """Compiled update with one or more gradient steps. Its results differ from the uncompiled update only in rounding.

    For each combination of additional arguments of `learn`, the first update of a run is uncompiled and creates the
    state of the optimisers. The second update compiles the region. This takes about 30 s, or 5 s if the compiler's
    cache on disk contains the region. An update compiles a new region if the batch size has changed, if a
    hyperparameter of an optimiser other than the learning rate has changed, or if parameters were added, frozen or
    unfrozen.

    Args:
        learn: Function called as (batch, step, additional arguments). It makes gradient steps with `step(name of the
            optimiser, loss)` and returns the TD errors and the statistics. One of the statistics must be "loss".
        optimizers: Optimisers of the classes in `DESCENTS`, keyed by name: torch's Adam, AdamW, RMSprop and SGD, and
            `RMSpropEpsInsideSqrt`.
        max_grad_norm: Maximum L2 norm of each optimiser's gradient. If None, gradients are not clipped.

    Raises:
        TypeError: If the class of an optimiser is none of these.
        NonFiniteError: At a call, if a loss or gradient of the batch is NaN or infinite. The gradient step on this loss
            and the later steps of the update are not made. If there are several optimisers, the message contains the
            names of the optimiser of this loss and of the optimisers that have made steps.
    """

    has_no_rng = True  # the generators of the agent are found by themselves, see `random_streams.reachable`

    def __init__(self, learn: Learn, optimizers: Mapping[str, Optimizer], max_grad_norm: float | None = None) -> None:
        self.learn = learn
        self.optimizers = {**optimizers}
        self.max_grad_norm = max_grad_norm
        self._trained = {name: _CompiledOptimizer(optimizer) for name, optimizer in optimizers.items()}
        several = len(optimizers) > 1
        self._eager = {name: GradientStep(each, max_grad_norm, several) for name, each in optimizers.items()}
        #: Running hash of the losses of all updates, in order. Set it to 0 to start again.
        self.trail = 0
        self._flushes = flushes_denormals()
        self._regions: dict[Any, Callable[..., Any]] = {}
        self._used: dict[Any, list[_CompiledOptimizer]] = {}  # optimisers of `learn`, keyed by its arguments
        self._made: dict[Any, list[str]] = {}  # for each gradient step of `learn`, the name of its optimiser

    def __getstate__(self) -> dict[str, Any]:
        return {"learn": self.learn, "optimizers": self.optimizers, "max_grad_norm": self.max_grad_norm}

    def __setstate__(self, state: dict[str, Any]) -> None:
        CompiledStep.__init__(self, **state)  # a copy compiles a new region

    def saved_state(self) -> dict[str, Any]:
        """Return the additional arguments of the earlier updates, and the optimisers of their gradient steps."""
        return {"updates": [[[*arguments], made] for arguments, made in self._made.items()]}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `saved_state`: updates with these arguments are compiled when they first run."""
        for arguments, made in state["updates"]:
            self._record_made((*arguments,), made)

    def __call__(self, batch: Batch, *arguments: Any) -> Update:
        """Make one update. `arguments` are the additional arguments of `learn`. Return its result."""
        used = self._used.get(arguments)
        if used is None:
            return self._learn_uncompiled(batch, arguments)
        self._refresh(used)
        if any([trained.new for trained in used]):
            return self._learn_uncompiled(batch, arguments)
        for trained in used:
            trained.refresh_learning_rates()
        names, tensors = _present(batch)
        constants = tuple([trained.constants() for trained in used])
        key = (arguments, names, tuple(map(form, tensors)), constants)
        region = self._regions.get(key)
        if region is None:
            region = self._regions[key] = self._compile(names, arguments, used)
        torch.set_flush_denormal(True)
        try:
            td_error, stats, n_bad, losses = region(*tensors)
        finally:
            torch.set_flush_denormal(self._flushes)
        if n_bad.item():
            raise _non_finite_error(self._made[arguments], int(n_bad.item()), len(self.optimizers) > 1)
        self.trail = hash((self.trail, *losses.tolist()))
        return td_error, stats

    def _learn_uncompiled(self, batch: Batch, arguments: tuple[Any, ...]) -> Update:
        self._refresh(self._trained.values())
        steps = StepsOfUpdate(self._eager)
        td_error, stats = self.learn(batch, steps, *arguments)
        for step in self._eager.values():
            try:
                step.settle()
            except NonFiniteError as error:
                error.skipped = 0  # the skipped step belongs to this update, not to an earlier one
                raise
            self.trail, step.trail = hash((self.trail, step.trail)), 0
        self._record_made(arguments, steps.made)
        for trained in self._used[arguments]:
            trained.record_first_step()
        return td_error, stats

    def _record_made(self, arguments: tuple[Any, ...], made: list[str]) -> None:
        self._made[arguments] = made
        self._used[arguments] = [self._trained[name] for name in dict.fromkeys(made)]

    def _refresh(self, optimizers: "Iterable[_CompiledOptimizer]") -> None:
        for trained in optimizers:
            if trained.has_changed():
                trained.read_state()
                self._regions.clear()

    def _compile(
        self, names: Sequence[str], arguments: tuple[Any, ...], used: "Sequence[_CompiledOptimizer]"
    ) -> Callable[..., Any]:
        learn, max_norm = self.learn, self.max_grad_norm
        rows = {name: trained.rows() for name, trained in self._trained.items() if trained in used}

        def region(*tensors: Any) -> tuple[Tensor, dict[str, Tensor], Tensor, Tensor]:
            losses: list[Tensor] = []
            finite: list[Tensor] = []  # for each loss and gradient: True if it and all earlier ones are finite

            def step(name: str, loss: Tensor) -> None:
                losses.append(loss.detach())
                grads = torch.autograd.grad(loss, [row[0] for row in rows[name]])
                with torch.no_grad():
                    finite.extend(_descend(rows[name], loss, grads, max_norm, finite))

            td_error, stats = learn(Batch(**{**_ABSENT, **dict(zip(names, tensors, strict=True))}), step, *arguments)
            return td_error, stats, sum((~each for each in finite), torch.tensor(0)), torch.stack(losses)

        own = [holder for trained in used for holder in trained.holders()]
        owner = getattr(learn, "__self__", _NO_OWNER)
        return CompiledRegion(region, lambda: [*holders_of(owner), *own], "the update")


Row = tuple[Tensor, Group, Tensor, dict[str, Any], Descent]


def _non_finite_error(made: Sequence[str], n_bad: int, several: bool) -> NonFiniteError:
    """Return the exception for an update in which the last `n_bad` checks have failed.

    The checks are made alternately for the loss and the gradient of each step.
    """
    first, is_gradient = divmod(2 * len(made) - n_bad, 2)
    name = "gradient" if is_gradient else "loss"
    prefix, others = (f"{made[first]}: ", earlier_steps_text(made[:first])) if several else ("", "")
    return NonFiniteError(name, f"{prefix}the {name} is not finite; this step was not made{others}")


def _descend(
    rows: Sequence[Row], loss: Tensor, grads: Sequence[Tensor], max_norm: float | None, so_far: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Update parameters and optimiser state if all losses and gradients of the update are finite so far.

    Return two bool scalars: True if everything up to the loss is finite, and True if everything up to its gradient is
    finite.
    """
    norm = torch.stack([(grad * grad).sum() for grad in grads]).sum().sqrt()
    loss_finite = torch.isfinite(loss) & so_far[-1] if so_far else torch.isfinite(loss)
    finite = loss_finite & torch.isfinite(norm)
    if max_norm is not None:
        scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
        grads = tuple(grad * scale for grad in grads)
    for (param, state, lr, group, descent), grad in zip(rows, grads, strict=True):
        new_param, new_state = descent(param, -grad if group["maximize"] else grad, state, lr, group)
        param.copy_(torch.where(finite, new_param, param))
        for name, new in new_state.items():
            state[name].copy_(torch.where(finite, new, state[name]))
    return loss_finite, finite


class _CompiledOptimizer:
    """Data of an optimiser that a region needs: parameters, their state, and the learning rates as tensors."""

    def __init__(self, optimizer: Optimizer) -> None:
        if type(optimizer) not in DESCENTS:
            known = ", ".join(kind.__name__ for kind in DESCENTS)
            raise TypeError(f"optimizer is {type(optimizer).__name__}, expected {known}, or compile=False")
        if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
            reason = "has hooks of step, which a compiled update does not call, for example to clip gradients or to "
            raise TypeError(f"optimizer {reason}schedule learning rates: remove them, or do not compile")
        self.optimizer = optimizer
        self._descent = DESCENTS[type(optimizer)]
        # Function that returns the hyperparameters of a parameter group that a region contains as constants.
        self._constants_of = operator.itemgetter(*sorted(set(optimizer.param_groups[0]) - {"params", "lr"}))
        self._known: tuple[Any, int, Any, int] = (None, 0, None, 0)
        self.read_state()

    def has_changed(self) -> bool:
        """Return True if parameters or state objects, or `requires_grad` flags, changed since `read_state`."""
        optimizer, (state, n_states, groups, n_groups) = self.optimizer, self._known
        return (
            state is not optimizer.state  # load_state_dict sets new objects
            or n_states != len(state)  # the state was cleared
            or groups is not optimizer.param_groups
            or n_groups != len(groups)
            or not all(map(_REQUIRES_GRAD, self._params))
            or any(map(_REQUIRES_GRAD, self._frozen))
        )

    def read_state(self) -> None:
        """Store references to the current parameters and state."""
        state, groups = self.optimizer.state, self.optimizer.param_groups
        self._known = (state, len(state), groups, len(groups))
        params = [param for group in groups for param in group["params"]]
        self._params = [param for param in params if param.requires_grad]
        self._frozen = [param for param in params if not param.requires_grad]
        #: Parameters whose state must be created by an uncompiled step.
        self.new = {
            param
            for group in groups if self._descent is not sgd or group["momentum"]  # plain SGD has no state
            for param in group["params"] if param.requires_grad and not state.get(param)
        }  # fmt: skip
        self._lrs = [torch.zeros((), device=params[0].device) for _ in groups]

    def record_first_step(self) -> None:
        """Record that an uncompiled step was made. The step may have created the optimiser's state."""
        self.new = set()
        state, _, *groups = self._known
        self._known = (state, len(state), *groups)

    def refresh_learning_rates(self) -> None:
        """Copy the current learning rates to their tensors."""
        for lr, group in zip(self._lrs, self.optimizer.param_groups, strict=True):
            lr.fill_(group["lr"])

    def constants(self) -> tuple[Any, ...]:
        """Return the hyperparameters that a region contains as constants, for each parameter group."""
        return tuple(map(self._constants_of, self.optimizer.param_groups))

    def rows(self) -> list[Row]:
        """Return for each parameter: parameter, state, learning rate, hyperparameters and function of `DESCENTS`."""
        rows: list[Row] = []
        for group, lr in zip(self.optimizer.param_groups, self._lrs, strict=True):
            constants = {name: value for name, value in group.items() if name not in ("params", "lr")}
            for param in group["params"]:
                if param.requires_grad:
                    state = {n: v for n, v in self.optimizer.state.get(param, {}).items() if v is not None}
                    rows.append((param, state, lr, constants, self._descent))
        return rows

    def holders(self) -> list[Mapping[Any, Any]]:
        """Return the dicts that contain the tensors of the state and the learning rates."""
        states = [self.optimizer.state[param] for param in self._params if param in self.optimizer.state]
        return [*states, dict(enumerate(self._lrs))]


def _present(batch: Batch) -> tuple[tuple[str, ...], list[Any]]:
    """Return the names and the values of those fields of a batch that are not None."""
    values = _ALL_FIELDS(batch)
    names = tuple(name for name, value in zip(_FIELDS, values, strict=True) if value is not None)
    return names, [value for value in values if value is not None]


_REQUIRES_GRAD = operator.attrgetter("requires_grad")
_FIELDS = tuple(field.name for field in dataclasses.fields(Batch) if field.name not in HOST_FIELDS)
#: Fields of `Batch` without a default, each with the value None.
_ABSENT = {field.name: None for field in dataclasses.fields(Batch) if field.default is dataclasses.MISSING}
_ALL_FIELDS = operator.attrgetter(*_FIELDS)
