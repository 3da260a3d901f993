"""Lagrange multipliers: learnt weights of loss terms, for example the temperature of Soft Actor-Critic.

The method is described by Haarnoja et al. 2018 (arXiv:1812.05905, section 5).
"""

import functools
import math
import numbers
from collections.abc import Callable, Iterable
from typing import Any, Self

import torch
from torch import Tensor, nn

from pfrl_like.functions.losses import weighted_mean
from pfrl_like.optimizers.compiled_step import Step
from pfrl_like.utils.contexts import ignores_training

#: Importance weights, [N]. If None, all weights are 1.
Weight = Tensor | None


@ignores_training
class TemperatureHolder(nn.Module):
    """A learnt temperature, parametrised by its logarithm.

    Args:
        initial_log_temperature: Logarithm of the initial temperature.

    Attributes:
        maximum: Maximum of the temperature. None, the default, sets no maximum.
    """

    maximum: float | None = None

    def __init__(self, initial_log_temperature: float = 0.0) -> None:
        super().__init__()
        self.log_temperature = nn.Parameter(torch.tensor(float(initial_log_temperature)))

    def forward(self) -> Tensor:
        """Return the temperature, a scalar."""
        temperature = self.log_temperature.exp()
        return temperature if self.maximum is None else temperature.clamp(max=self.maximum)


def temperature_loss(
    temperature: Tensor, log_prob: Tensor, entropy_target: float, weight: Weight = None, accumulator: str = "mean"
) -> Tensor:
    """Return the temperature loss `-temperature * (log_prob + entropy_target)`, a scalar (arXiv:1812.05905, eq. 18).

    Args:
        temperature: The temperature, a scalar. Gradients flow into this argument.
        log_prob: Log-probabilities of the policy's actions, [N].
        entropy_target: Target entropy of the policy.
        weight: Importance weights, [N]. If None, all weights are 1.
        accumulator: "mean" or "sum" over the rows.
    """
    return weighted_mean(-temperature * (log_prob + entropy_target), weight, accumulator)


class LagrangeMultiplier:
    """Weight of a loss term. It is constant, or learnt so that a constrained quantity reaches its target.

    Args:
        name: Name of the multiplier.
        initial: Initial value, positive. A constant multiplier may also be 0.
        target_name: Name of the target in error messages.
        target: Target of the constrained quantity. If None, the multiplier is constant.
        lr: Learning rate of the multiplier's Adam optimiser. If None, Adam's default is used.
        make_optimizer: Function from the parameters to their optimiser, instead of Adam with the learning rate `lr`.
        maximum: Maximum of a learnt multiplier. If None, there is no maximum.

    Attributes:
        holder: Module with the learnt value. None if the multiplier is constant.
        optimizer: Optimiser of the holder. None if the multiplier is constant.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If `initial` is negative, if it is 0 and `target` is given, or if `target` or `lr` is out of range.
    """

    def __init__(
        self,
        name: str,
        initial: float,
        target_name: str,
        target: float | None,
        lr: float | None,
        make_optimizer: Callable[[Any], torch.optim.Optimizer] | None = None,
        maximum: float | None = None,
    ) -> None:
        check_multiplier(name, initial, target_name, target, lr)
        self.name, self.initial = name, initial
        self.holder: TemperatureHolder | None = None
        self.optimizer: torch.optim.Optimizer | None = None
        if target is not None:
            self.holder = TemperatureHolder(math.log(initial))
            self.holder.maximum = maximum
            options: dict[str, Any] = {} if lr is None else {"lr": lr}
            make_optimizer = make_optimizer or functools.partial(torch.optim.Adam, **options)
            self.optimizer = make_optimizer(self.holder.parameters())

    def __call__(self) -> Any:
        """Return the current value: a number, or a scalar tensor without gradient."""
        if self.holder is None or self.holder.maximum is not None:
            return self.initial if self.holder is None else self.holder().detach()
        return self.holder.log_temperature.detach().exp()  # the same as `holder()`, in one call less

    def update(self, step: Step, quantity: Tensor, target: Any, weight: Weight, accumulator: str) -> dict[str, Tensor]:
        """Make a gradient step on `temperature_loss`. If the multiplier is constant, do nothing.

        The multiplier grows if the mean of quantity + target is positive.

        Args:
            step: Function that makes a gradient step, called as (name of the optimiser's attribute, loss).
            quantity: The constrained quantity, [N].
            target: Minus the target of the quantity, a number or a scalar tensor. For log-probabilities, this is the
                target entropy. A constant multiplier ignores this argument.
            weight: Importance weights, [N]. If None, all weights are 1.
            accumulator: "mean" or "sum" over the rows.

        Returns:
            The loss as the statistic "<name>_loss". Empty if the multiplier is constant.
        """
        if self.holder is None:
            return {}
        loss = temperature_loss(self.holder(), quantity, target, weight, accumulator)
        step(f"{self.name}_optimizer", loss)
        return {f"{self.name}_loss": loss.detach()}

    def constant(self) -> Self:
        """Return a constant multiplier with the initial value of this multiplier."""
        return type(self)(self.name, self.initial, "target", None, None)


def parts_of(
    multipliers: Iterable[LagrangeMultiplier],
) -> tuple[dict[str, nn.Module], dict[str, torch.optim.Optimizer]]:
    """Return the modules (`holder`) and optimisers of the learnt multipliers, as two dicts.

    The keys are attribute names of the agent: `<name>_holder` and `<name>_optimizer`.
    """
    trainable = [each for each in multipliers if each.holder is not None]
    holders: dict[str, Any] = {f"{each.name}_holder": each.holder for each in trainable}
    optimizers: dict[str, Any] = {f"{each.name}_optimizer": each.optimizer for each in trainable}
    return holders, optimizers


def check_multiplier(name: str, initial: float, target_name: str, target: float | None, lr: float | None) -> None:
    """Check the arguments of a multiplier.

    Args:
        name: Name of the multiplier.
        initial: Initial value.
        target_name: Name of the target in error messages.
        target: Target of the constrained quantity. If None, the multiplier is constant.
        lr: Learning rate of the multiplier's Adam optimiser. If None, Adam's default is used.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If `initial` is negative, if it is 0 and `target` is given, or if `target` or `lr` is out of range.
    """
    for argument, value, optional, minimum in (
        (f"initial_{name}", initial, False, 0.0),
        (target_name, target, True, -math.inf),
        (f"{name}_optimizer_lr", lr, True, 0.0),
    ):
        if not isinstance(value, numbers.Real) and not (optional and value is None):
            raise TypeError(f"{argument} is {value!r:.80}, expected a number{' or None' if optional else ''}")
        if value is not None and not (minimum <= value < math.inf and value != -math.inf):
            bound = " of at least 0" if minimum == 0 else ""
            raise ValueError(f"{argument} is {value!r}, expected a finite number{bound}")
    if initial == 0 and target is not None:
        raise ValueError(f"initial_{name} is 0, expected a positive number, because its logarithm is learnt")
