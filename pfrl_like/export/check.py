"""Whether an exported policy does what the agent does."""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.batch import ACTION_MASK, first_leaf, map_nested
from pfrl_like.errors import ExportError, NonFiniteError
from pfrl_like.export.features import leaves_of
from pfrl_like.export.formats import Run
from pfrl_like.export.noise import GivenDraws
from pfrl_like.export.observations import more_of
from pfrl_like.export.policy import Greedy, GreedyPolicy
from pfrl_like.preprocessing.features import rows_of_stack

#: How far a number of an action or a recurrent state may be from the agent's, or, beyond 1, relative to its size.
TOLERANCE = 1e-5
#: How many observations are compared.
N_INPUTS = 1_000
#: In which batches: (number of observations, steps).
_PLAIN = ((1, 1), (2, 1), (13, 1), *[(123, 1)] * 8)
_RECURRENT = ((1, 10), (2, 5), (98, 10))


def check_policy(reference: Greedy, policy: GreedyPolicy, run: Run, stack: Any) -> None:
    """Refuse an exported policy that acts in another way than the agent, for 1,000 observations and given noise.

    Of discrete actions another one will do if the agent holds both for equally good, within `TOLERANCE`.

    Args:
        reference: A copy of the agent, which `policy` has no part in.
        policy: What was exported.
        run: The exported policy.
        stack: Observations, tensors [k, ...], nested as one observation is.

    Raises:
        ExportError: If it does.
        NonFiniteError: If the agent's own actions are NaN or infinite.
    """
    generator, begin = torch.Generator().manual_seed(0), 0
    many = more_of(stack, N_INPUTS, generator)
    for batch, steps in _PLAIN if reference.memory is None else _RECURRENT:
        if reference.memory is not None:
            reference.memory.forget(False)
        state = [torch.zeros(port.sizes(batch), dtype=getattr(torch, port.dtype)) for port in policy.ports("state")]
        for _ in range(steps):
            obs = map_nested(operator.itemgetter(slice(begin, begin + batch)), many)
            state = _check_step(reference, policy, run, obs, state, generator)
            begin += batch


def _check_step(
    reference: Greedy, policy: GreedyPolicy, run: Run, obs: Any, state: list[Tensor], generator: torch.Generator
) -> list[Tensor]:
    """Compare the actions for some observations, with random masks and noise; gives the next recurrent state."""
    batch = len(first_leaf(obs))
    mask = [torch.rand(port.sizes(batch), generator=generator) < 0.7 for port in policy.ports(ACTION_MASK)]
    noise = [draw.sample(batch, generator) for draw in policy.asked_for]
    inputs = [*leaves_of(obs), *mask, *state, *noise]
    actions, *state = run(inputs)
    wanted, wanted_state = _of_agent(reference, obs, mask, policy.numbers(*inputs))
    _check_actions(policy, inputs, actions, wanted)
    for ours, theirs in zip(wanted_state, state, strict=True):
        _check_numbers("recurrent state", ours, theirs)
    return state


def _of_agent(reference: Greedy, obs: Any, mask: list[Tensor], drawn: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """The agent's actions and recurrent state after a step, as if it drew these numbers."""
    rows = rows_of_stack(map_nested(lambda leaf: leaf.numpy(), obs))
    given = {ACTION_MASK: mask[0].numpy()} if mask else {}
    with GivenDraws(drawn):
        actions = torch.as_tensor(np.asarray(reference.batch_act(rows, **given)))
    if not actions.isfinite().all():
        raise NonFiniteError("action", "the agent's own actions are NaN or infinite for observations that it was given")
    return actions, [] if reference.memory is None else leaves_of(reference.memory.test_state)


def _check_actions(policy: GreedyPolicy, inputs: Sequence[Tensor], actions: Tensor, wanted: Tensor) -> None:
    _check_form("action", wanted, actions)
    of_numbers = wanted.is_floating_point()
    errors = _differences(wanted, actions) if of_numbers else (actions != wanted).float()
    wrong = ~(errors <= TOLERANCE).reshape(len(wanted), -1).all(1)
    if wrong.any() and not _is_as_good(policy.judge(*inputs)[1], actions, wanted, wrong):
        raise ExportError(
            f"the exported policy chooses other actions than the agent for {int(wrong.sum())} of {len(wrong)} "
            f"observations, {actions[wrong][0].tolist()} in place of {wanted[wrong][0].tolist()}; nothing was written"
        )


def _is_as_good(value: Any, actions: Tensor, wanted: Tensor, wrong: Tensor) -> bool:
    """Whether other actions were chosen only because the agent holds them for as good.

    Args:
        value: What says which actions are the best: with `score` if they were chosen among several, otherwise actions
            that are numbers were not chosen; those that are discrete have values or probabilities.
        actions: The actions that were chosen, [B, ...].
        wanted: Those of the agent, [B, ...].
        wrong: Where they differ, [B].
    """
    score = getattr(value, "score", None)
    if score is None and not wanted.is_floating_point():
        score = getattr(value, "evaluate_actions", None) or value.log_prob
    return score is not None and float(_differences(score(wanted), score(actions))[wrong].max()) <= TOLERANCE


def _check_form(what: str, wanted: Tensor, found: Tensor) -> None:
    if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        came, expected = (f"{tuple(each.shape)} of {each.dtype}" for each in (found, wanted))
        raise ExportError(f"the exported policy's {what} is {came}, the agent's {expected}; nothing was written")


def _check_numbers(what: str, wanted: Tensor, found: Tensor) -> None:
    _check_form(what, wanted, found)
    largest = float(_differences(wanted, found).max())
    if not largest <= TOLERANCE:
        raise ExportError(
            f"the exported policy's {what} differs from the agent's by {largest:.3g}, more than {TOLERANCE}; "
            "nothing was written"
        )


def _differences(wanted: Tensor, found: Tensor) -> Tensor:
    """Absolute differences, relative to the size of numbers beyond 1."""
    return (found - wanted).abs() / wanted.abs().clamp_min(1)
