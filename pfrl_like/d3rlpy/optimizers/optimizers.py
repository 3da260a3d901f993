"""Factories of optimisers and of learning-rate schedulers."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler

from pfrl_like.d3rlpy.serializable import Config

NamedModules = Iterable[tuple[str, nn.Module]]


@dataclasses.dataclass
class LRSchedulerFactory(Config, family=True):
    """Base class of factories of learning-rate schedulers."""

    def create(self, optim: Optimizer) -> LRScheduler:
        """Return a scheduler, which makes one step after each step of the optimiser.

        Args:
            optim: The optimiser.

        Raises:
            NotImplementedError: If the subclass does not define this method.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define create(optim)")


@dataclasses.dataclass
class WarmupSchedulerFactory(LRSchedulerFactory, type_name="warmup"):
    """Learning rate that grows linearly: step t, from 0, uses min((t + 1) / warmup_steps, 1) times the rate.

    Args:
        warmup_steps: Number of steps until the learning rate is reached.
    """

    warmup_steps: int

    def create(self, optim: Optimizer) -> LRScheduler:
        return LambdaLR(optim, lambda step: min((step + 1) / self.warmup_steps, 1))


@dataclasses.dataclass
class CosineAnnealingLRFactory(LRSchedulerFactory, type_name="cosine_annealing"):
    """Learning rate that falls as half a period of a cosine (arXiv:1608.03983, without restarts).

    Args:
        T_max: Number of steps until the minimum.
        eta_min: Minimum learning rate.
        last_epoch: Index of the last step that has been made; -1 at the beginning.
    """

    T_max: int
    eta_min: float = 0.0
    last_epoch: int = -1

    def create(self, optim: Optimizer) -> LRScheduler:
        return CosineAnnealingLR(optim, self.T_max, self.eta_min, self.last_epoch)


class OptimizerWrapper:
    """An optimiser with its scheduler and its bound on the norm of the gradient.

    Each step of `optim` first clips the gradient, and the scheduler makes a step after it, also if `optim` is used
    without the wrapper.

    Args:
        params: Parameters of the optimiser.
        optim: The optimiser.
        compiled: True to set gradients to None between steps, False to set them to 0.
        clip_grad_norm: Maximum L2 norm of the gradient. If None, `step` does not change the gradient.
        lr_scheduler: Scheduler of the optimiser's learning rates. If None, they are constant.
    """

    def __init__(
        self,
        params: Sequence[nn.Parameter],
        optim: Optimizer,
        compiled: bool,
        clip_grad_norm: float | None = None,
        lr_scheduler: LRScheduler | None = None,
    ) -> None:
        self.params, self.optim, self.compiled = params, optim, compiled
        self.clip_grad_norm, self.lr_scheduler = clip_grad_norm, lr_scheduler
        if clip_grad_norm:
            optim.register_step_pre_hook(self._clip)
        if lr_scheduler is not None:
            optim.register_step_post_hook(lambda *_: lr_scheduler.step())

    def _clip(self, *_: Any) -> None:
        nn.utils.clip_grad_norm_(self.params, self.clip_grad_norm or math.inf)

    def zero_grad(self) -> None:
        """Clear the gradients."""
        self.optim.zero_grad(set_to_none=self.compiled)

    def step(self) -> None:
        """Clip the gradient, and update the parameters and the learning rates."""
        self.optim.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the states: {"optim": dict, "lr_scheduler": dict or None}."""
        scheduler = self.lr_scheduler
        return {"optim": self.optim.state_dict(), "lr_scheduler": scheduler and scheduler.state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load the states that `state_dict` returned, or the state of the optimiser alone, as in older files.

        Args:
            state_dict: The states. A file without a scheduler leaves the scheduler unchanged.
        """
        self.optim.load_state_dict(dict(state_dict.get("optim", state_dict)))
        if self.lr_scheduler is not None and state_dict.get("lr_scheduler") is not None:
            self.lr_scheduler.load_state_dict(state_dict["lr_scheduler"])


@dataclasses.dataclass
class OptimizerFactory(Config, family=True):
    """Base class of factories of optimisers.

    Args:
        clip_grad_norm: Maximum L2 norm of the gradient. If None, the gradient is not clipped.
        lr_scheduler_factory: Factory of the learning-rate scheduler. If None, the learning rate is constant.
    """

    clip_grad_norm: float | None = None
    lr_scheduler_factory: LRSchedulerFactory | None = None

    def create(self, named_modules: NamedModules, lr: float, compiled: bool) -> OptimizerWrapper:
        """Return an optimiser with its scheduler.

        Args:
            named_modules: Pairs of name and module, for example `module.named_modules()`.
            lr: Learning rate.
            compiled: True to set gradients to None between steps, False to set them to 0.
        """
        modules = list(named_modules)
        optim = self.create_optimizer(modules, lr)
        scheduler = None if self.lr_scheduler_factory is None else self.lr_scheduler_factory.create(optim)
        return OptimizerWrapper(parameters_of(modules), optim, compiled, self.clip_grad_norm, scheduler)

    def create_optimizer(self, named_modules: NamedModules, lr: float) -> Optimizer:
        """Return an optimiser of all parameters of the modules.

        Args:
            named_modules: Pairs of name and module, for example `module.named_modules()`.
            lr: Learning rate.

        Raises:
            NotImplementedError: If the subclass does not define this method.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define create_optimizer(named_modules, lr)")

    def _options(self) -> dict[str, Any]:
        """Return the fields of the subclass, which are arguments of the optimiser."""
        common = {each.name for each in dataclasses.fields(OptimizerFactory)}
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.name not in common}


@dataclasses.dataclass
class SGDFactory(OptimizerFactory, type_name="sgd"):
    """Factory of stochastic gradient descent.

    Args:
        clip_grad_norm: Maximum L2 norm of the gradient. If None, the gradient is not clipped.
        lr_scheduler_factory: Factory of the learning-rate scheduler. If None, the learning rate is constant.
        momentum: Momentum.
        dampening: Dampening of the momentum. The optimiser ignores this field, as d3rlpy 2 does.
        weight_decay: Weight of the L2 penalty.
        nesterov: True for Nesterov momentum.
    """

    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def create_optimizer(self, named_modules: NamedModules, lr: float) -> Optimizer:
        return torch.optim.SGD(parameters_of(named_modules), lr, **self._options() | {"dampening": 0.0})


@dataclasses.dataclass
class AdamFactory(OptimizerFactory, type_name="adam"):
    """Factory of Adam (arXiv:1412.6980).

    Args:
        clip_grad_norm: Maximum L2 norm of the gradient. If None, the gradient is not clipped.
        lr_scheduler_factory: Factory of the learning-rate scheduler. If None, the learning rate is constant.
        betas: Decay rates of the running means of the gradient and of its square.
        eps: Number that is added to the denominator.
        weight_decay: Weight of the L2 penalty.
        amsgrad: True for the variant AMSGrad.
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0
    amsgrad: bool = False

    def create_optimizer(self, named_modules: NamedModules, lr: float) -> Optimizer:
        return torch.optim.Adam(parameters_of(named_modules), lr, **self._options())


@dataclasses.dataclass
class AdamWFactory(AdamFactory, type_name="adam_w"):
    """Factory of Adam with decoupled weight decay (arXiv:1711.05101).

    Args:
        clip_grad_norm: Maximum L2 norm of the gradient. If None, the gradient is not clipped.
        lr_scheduler_factory: Factory of the learning-rate scheduler. If None, the learning rate is constant.
        betas: Decay rates of the running means of the gradient and of its square.
        eps: Number that is added to the denominator.
        weight_decay: Factor of the weight decay.
        amsgrad: True for the variant AMSGrad.
    """

    def create_optimizer(self, named_modules: NamedModules, lr: float) -> Optimizer:
        return torch.optim.AdamW(parameters_of(named_modules), lr, **self._options())


@dataclasses.dataclass
class RMSpropFactory(OptimizerFactory, type_name="rmsprop"):
    """Factory of RMSprop.

    Args:
        clip_grad_norm: Maximum L2 norm of the gradient. If None, the gradient is not clipped.
        lr_scheduler_factory: Factory of the learning-rate scheduler. If None, the learning rate is constant.
        alpha: Decay rate of the running mean of the squared gradient.
        eps: Number that is added to the denominator.
        weight_decay: Weight of the L2 penalty.
        momentum: Momentum.
        centered: True to divide by the standard deviation of the gradient, False to divide by its root mean square.
    """

    alpha: float = 0.95
    eps: float = 1e-2
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = True

    def create_optimizer(self, named_modules: NamedModules, lr: float) -> Optimizer:
        return torch.optim.RMSprop(parameters_of(named_modules), lr, **self._options())


@dataclasses.dataclass
class GPTAdamWFactory(AdamFactory, type_name="gpt_adam_w"):
    """Factory of AdamW for transformers: only weights of linear and convolutional layers decay.

    Args:
        clip_grad_norm: Maximum L2 norm of the gradient. If None, the gradient is not clipped.
        lr_scheduler_factory: Factory of the learning-rate scheduler. If None, the learning rate is constant.
        betas: Decay rates of the running means of the gradient and of its square.
        eps: Number that is added to the denominator.
        weight_decay: Factor of the weight decay.
        amsgrad: True for the variant AMSGrad.
    """

    def create_optimizer(self, named_modules: NamedModules, lr: float) -> Optimizer:
        modules = list(named_modules)
        decaying = {module.weight for _, module in modules if isinstance(module, nn.Linear | nn.Conv2d)}
        names: dict[nn.Parameter, str] = {}
        for prefix, module in modules:
            for name, parameter in module.named_parameters(prefix):
                names.setdefault(parameter, name)
        in_order = sorted(names, key=lambda parameter: names[parameter])
        decay, no_decay = [[p for p in in_order if (p in decaying) is decays] for decays in (True, False)]
        options = self._options()
        groups = [
            {"params": decay, "weight_decay": options.pop("weight_decay")},
            {"params": no_decay, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr, **options)


def parameters_of(named_modules: NamedModules) -> list[nn.Parameter]:
    """Return the parameters of modules, each once, in the order of `parameters()`."""
    return list(dict.fromkeys(parameter for _, module in named_modules for parameter in module.parameters()))
