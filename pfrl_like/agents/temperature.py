"""The weight of the entropy in Soft Actor-Critic, learnt (Haarnoja et al. 2018, arXiv:1812.05905, section 5)."""

import math
import numbers

import torch
from torch import Tensor, nn

from pfrl_like.functions.losses import weighted_mean
from pfrl_like.utils.contexts import ignores_training


@ignores_training
class TemperatureHolder(nn.Module):
    """A temperature that is learnt, by its logarithm.

    Args:
        initial_log_temperature: Logarithm of the first value.
    """

    def __init__(self, initial_log_temperature: float = 0.0) -> None:
        super().__init__()
        self.log_temperature = nn.Parameter(torch.tensor(initial_log_temperature, dtype=torch.float32))

    def forward(self) -> Tensor:
        """The temperature, a scalar."""
        return self.log_temperature.exp()


def temperature_loss(
    temperature: Tensor,
    log_prob: Tensor,
    entropy_target: float,
    weight: Tensor | None = None,
    accumulator: str = "mean",
) -> Tensor:
    """-temperature * (log_prob + entropy_target), a scalar (arXiv:1812.05905, eq. 18).

    Args:
        temperature: The temperature, which takes the gradient.
        log_prob: Log-probabilities of the policy's actions, [N].
        entropy_target: Entropy that the policy should have.
        weight: Importance weights, [N].
        accumulator: "mean" or "sum" over the rows.
    """
    return weighted_mean(-temperature * (log_prob + entropy_target), weight, accumulator)


def make_temperature(
    initial: float,
    target: float | None,
    lr: float | None,
    *,
    name: str = "temperature",
    target_name: str = "entropy_target",
) -> tuple[dict[str, nn.Module], dict[str, torch.optim.Optimizer]]:
    """The temperature, or another weight of a constraint, and its optimiser, by their names; nothing without `target`.

    Args:
        initial: First value.
        target: What the constrained quantity is held at; None if nothing is learnt.
        lr: Learning rate of its Adam; None for Adam's own default.
        name: What the weight is called.
        target_name: What errors call the target.

    Raises:
        TypeError: If an argument is no number.
        ValueError: If the weight is negative, or zero although it is learnt, or another number is out of bounds.
    """
    for argument, value, optional, least in (
        (f"initial_{name}", initial, False, 0.0),
        (target_name, target, True, -math.inf),
        (f"{name}_optimizer_lr", lr, True, 0.0),
    ):
        if not isinstance(value, numbers.Real) and not (optional and value is None):
            raise TypeError(f"{argument} is {value!r:.80}, expected a number{' or None' if optional else ''}")
        if value is not None and not (least <= value < math.inf and value != -math.inf):
            bound = " of at least 0" if least == 0 else ""
            raise ValueError(f"{argument} is {value!r}, expected a finite number{bound}")
    if target is None:
        return {}, {}
    if initial == 0:
        raise ValueError(f"initial_{name} is 0, expected a positive number, since it is learnt by its logarithm")
    holder = TemperatureHolder(math.log(initial))
    parameters = holder.parameters()
    optimizer = torch.optim.Adam(parameters) if lr is None else torch.optim.Adam(parameters, lr=lr)
    return {f"{name}_holder": holder}, {f"{name}_optimizer": optimizer}
