"""How action masks reach what acts, and what is stored of them: the same for runners, collectors and scores.

A mask is True where an action is allowed, [n_actions]; environments tell it in `info["action_mask"]`. One that allows
nothing allows everything. Whoever acts gets it only when there is one to tell.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from pfrl_like.batch import ACTION_MASK


class Allowed:
    """What explorers are told in the place of action values, where there are none: which actions may be chosen.

    Args:
        action_mask: True where an action is allowed, [k, n_actions].
    """

    def __init__(self, action_mask: Any) -> None:
        self.action_mask = torch.as_tensor(np.asarray(action_mask, np.bool_))

    def __getitem__(self, rows: slice) -> "Allowed":
        return Allowed(self.action_mask[rows])


def takes_mask(act: Callable[..., Any]) -> bool:
    """Whether a function has the keyword `action_mask`; an agent's `act` written for PFRL's interface has not."""
    parameters = inspect.signature(act).parameters.values()
    return any(parameter.name == ACTION_MASK or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def mask_keyword(mask: Any, takes: bool = True) -> dict[str, Any]:
    """The keyword that tells of a mask; none without a mask, or for what takes none."""
    return {} if mask is None or not takes else {ACTION_MASK: mask}


def required_keyword(choose: Callable[..., Any], mask: Any) -> dict[str, Any]:
    """`mask_keyword` for what must not choose without knowing what is allowed.

    Args:
        choose: What chooses actions.
        mask: What is allowed, of any shape that `choose` takes; None if that is not told.

    Raises:
        TypeError: If there is a mask, which `choose` does not take.
    """
    if mask is not None and not takes_mask(choose):
        name = getattr(choose, "__qualname__", type(choose).__name__)
        raise TypeError(
            f"{name} takes no action_mask, but the environment tells which actions are allowed: give it the keyword "
            "action_mask, or use an agent or estimator of the library, which has it"
        )
    return mask_keyword(mask)


def mask_columns(mask: Any, next_mask: Any, next_obs: Any) -> dict[str, Any]:
    """What a replay buffer is to store of a step's masks.

    Args:
        mask: What was allowed when the action was chosen, of one environment or a row for each; None if that was not
            told.
        next_mask: What is allowed after it; None likewise.
        next_obs: The observation after it, of any of the environments, which may bring its mask along.

    Returns:
        "action_mask" and "next_action_mask", all True where nothing was told; empty if neither was, or if observations
        have theirs in them.
    """
    known = [each for each in (mask, next_mask) if each is not None]
    if not known or (isinstance(next_obs, dict) and ACTION_MASK in next_obs):
        return {}
    first, second = (np.ones_like(known[0]) if each is None else each for each in (mask, next_mask))
    return {ACTION_MASK: first, f"next_{ACTION_MASK}": second}


def sample_allowed(space: Any, mask: Any) -> Any:
    """A random action of a space, drawn from its own stream, uniformly among the allowed ones if a mask is told."""
    allowed = None if mask is None else np.asarray(mask, np.int8)
    return space.sample() if allowed is None or not allowed.any() else space.sample(mask=allowed)
