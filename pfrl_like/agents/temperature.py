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
    initial: float, entropy_target: float | None, lr: float | None
) -> tuple[dict[str, nn.Module], dict[str, torch.optim.Optimizer]]:
    """The temperature and its optimiser, by their names; nothing if there is no `entropy_target`.

    Raises:
        TypeError: If an argument is no number.
        ValueError: If the temperature is negative, or zero although it is learnt, or another number is out of bounds.
    """
    learnt = entropy_target is not None
    for name, value, optional, least in (
        ("initial_temperature", initial, False, 0.0),
        ("entropy_target", entropy_target, True, -math.inf),
        ("temperature_optimizer_lr", lr, True, 0.0),
    ):
        if not isinstance(value, numbers.Real) and not (optional and value is None):
            raise TypeError(f"{name} is {value!r:.80}, expected a number{' or None' if optional else ''}")
        if value is not None and not (least <= value < math.inf and value != -math.inf):
            raise ValueError(f"{name} is {value!r}, expected a finite number{' of at least 0' if least == 0 else ''}")
    if not learnt:
        return {}, {}
    if initial == 0:
        raise ValueError("initial_temperature is 0, expected a positive number, since it is learnt by its logarithm")
    holder = TemperatureHolder(math.log(initial))
    parameters = holder.parameters()
    optimizer = torch.optim.Adam(parameters) if lr is None else torch.optim.Adam(parameters, lr=lr)
    return {"temperature_holder": holder}, {"temperature_optimizer": optimizer}
