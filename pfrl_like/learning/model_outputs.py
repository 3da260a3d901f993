"""What models of policies and values give for the rows of a minibatch, and what is said of those that give else."""

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from pfrl_like.batch import Batch
from pfrl_like.distributions import masked
from pfrl_like.learning.acting import wrong_value
from pfrl_like.utils.direct_call import call
from pfrl_like.utils.recurrent import is_recurrent, sequence_outputs


def output_of(model: Any, batch: Batch) -> Any:
    """What a module gives for the rows of a minibatch, of steps or of sequences."""
    if batch.lengths is None or not is_recurrent(model):
        return call(model, batch.obs)
    return sequence_outputs(model, batch.obs, batch.recurrent_state, batch.lengths)


def policy_of(policy: Any, batch: Batch) -> Any:
    """The distributions of actions, [N], that a policy gives for the rows of a minibatch."""
    return allowed(output_of(policy, batch), batch.action_mask)


def policy_and_value(model: Any, batch: Batch) -> tuple[Any, Tensor]:
    """The distributions of actions and the values, [N], that a model gives for the rows of a minibatch."""
    distribution, value = output_of(model, batch)
    return allowed(distribution, batch.action_mask), value.squeeze(-1)


def allowed(distribution: Any, action_mask: Any) -> Any:
    """The distribution with only some actions allowed; no mask allows all."""
    return distribution if action_mask is None else masked(distribution, action_mask)


def check_outputs(outputs: tuple[Any, ...], k: int, argument: str, expected: str = "(distribution, values)") -> None:
    """Refuse what a model gave for k observations if its first part is no distribution or its last one no k values.

    Args:
        outputs: What it gave.
        k: How many observations.
        argument: What errors call the model.
        expected: The parts, in words, as many as there should be.

    Raises:
        TypeError: If the parts are others.
        ValueError: If there is another number of values.
    """
    if len(outputs) != expected.count(",") + 1:
        came = ", ".join(type(part).__name__ for part in outputs)
        raise TypeError(f"{argument} gives ({came}), expected {expected}")
    if not isinstance(outputs[0], Distribution):
        raise wrong_value(outputs[0], Distribution, f"the first part of what {argument}")
    if not isinstance(outputs[-1], Tensor):
        raise wrong_value(outputs[-1], torch.Tensor, f"the last part of what {argument}")
    if outputs[-1].shape[:1] != (k,) or outputs[-1].numel() != k:
        raise ValueError(
            f"{argument} gives values of shape {tuple(outputs[-1].shape)} for {k} observations, expected ({k}, 1)"
        )
