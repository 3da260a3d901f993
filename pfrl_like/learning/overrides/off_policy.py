"""Updates and action selection of replay agents by overridden methods of PFRL's agents."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.batch import Batch
from pfrl_like.errors import NonFiniteError
from pfrl_like.learning.overrides.experiences import ColumnsOfBatch
from pfrl_like.learning.overrides.hooks import arguments_of
from pfrl_like.optimizers.gradient_step import StepsOfUpdate


def check_not_compiled(agent: Any, compile: bool) -> None:
    """Check that an agent with `compile=True` does not override methods of PFRL's agents and is not recurrent.

    Raises:
        TypeError: If the agent overrides such methods; the message names them.
        ValueError: If the agent is recurrent.
    """
    if compile and agent._overridden_hooks:
        raise TypeError(
            f"compile is True, but {type(agent).__name__} overrides {', '.join(sorted(agent._overridden_hooks))} of "
            "PFRL's agents, which a compiled update does not call: leave compile out"
        )
    if compile and agent.recurrent:
        raise ValueError("compile is True, which recurrent agents do not support: leave compile out")


# Updates


def learn_through_hooks(agent: Any, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """Make one update of an actor-critic with PFRL's methods. A subclass overrides at least one of these methods.

    Args:
        agent: The agent. Its `_update_through_hooks` calls the methods in the order of PFRL's `update`.
        batch: Minibatch whose observations are features.

    Returns:
        TD errors of the critics after the update, [N], and an empty dict: the methods record their statistics
        themselves.

    Raises:
        NonFiniteError: If a loss or gradient of this library's steps is NaN or infinite, or if a parameter or TD error
            is NaN or infinite after the steps of overridden methods. Earlier optimiser steps are not rolled back.
    """
    agent._last_steps = StepsOfUpdate(agent.gradient_steps)
    with checked_after_hooks(agent, _params_of(agent)):
        with within_hook(agent, batch):
            agent._update_through_hooks(ColumnsOfBatch(batch, agent.gamma))
        agent.guard.restore_moments(agent._last_steps.refused)
    td_error = agent._td_errors_of(batch)
    if not bool(torch.isfinite(td_error).all()):
        names = " and ".join(sorted(agent._overridden_hooks))
        text = f"TD errors are NaN or infinite after optimiser steps of {names}, which cannot be rolled back"
        raise NonFiniteError("td_error", text)
    return td_error, {}


@contextlib.contextmanager
def checked_after_hooks(agent: Any, params: Mapping[str, list[Tensor]]) -> Iterator[None]:
    """Check the parameters after the context, in which overridden methods may make optimiser steps.

    Args:
        agent: The agent; its `_overridden_hooks` contains the names of the methods.
        params: Parameters that the methods change, keyed by their name in error messages.

    Raises:
        NonFiniteError: If a loss or gradient of this library's steps is NaN or infinite, or if a parameter is NaN or
            infinite after the methods. The message says that earlier optimiser steps of the methods are not rolled
            back.
    """
    try:
        yield
        for name, group in params.items():
            if not bool(torch.isfinite(torch.stack(torch._foreach_norm(group))).all()):
                raise NonFiniteError(name, f"the parameters of {name} hold NaN or infinity after an overridden method")
    except NonFiniteError as error:
        names = " and ".join(sorted(agent._overridden_hooks)) or "update"  # `update` may be assigned to the agent
        text = f"{error}; optimiser steps that {names} made before cannot be rolled back"
        raise NonFiniteError(error.name, text, error.batch, error.skipped) from error


@contextlib.contextmanager
def within_hook(agent: Any, batch: Batch) -> Iterator[None]:
    """Set the agent's `_hooked_batch` to the minibatch within the context."""
    before = agent._hooked_batch
    agent._hooked_batch = batch
    try:
        yield
    finally:
        agent._hooked_batch = before


def _params_of(agent: Any) -> dict[str, list[Tensor]]:
    return {name: step.params for name, step in agent.gradient_steps.items()}


def own_step(agent: Any) -> StepsOfUpdate:
    """Return the gradient steps for a default method: the steps of the running update, or else new steps."""
    if agent._hooked_batch is None or not isinstance(agent._last_steps, StepsOfUpdate):
        agent._last_steps = StepsOfUpdate(agent.gradient_steps)
    steps: StepsOfUpdate = agent._last_steps
    return steps


# Q-learning


def loss_of_overridden(agent: Any, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Return the loss of a DQN's overridden `_compute_loss`, the TD errors and statistics.

    If the override fills `errors_out`, these values are the TD errors. Otherwise this library computes the TD errors.
    """
    errors: list[float] | None = None if batch.weight is None else []
    with within_hook(agent, batch):
        loss = given_loss(agent, "_compute_loss", ColumnsOfBatch(batch, agent.gamma), errors_out=errors)
    if errors:
        td_error = torch.as_tensor(np.asarray(errors, np.float32), device=batch.reward.device)
    else:
        td_error = agent._td_errors_of(batch)
    return loss, td_error, {"loss": loss.detach()}


def given_loss(agent: Any, method: str, *args: Any, **kwargs: Any) -> Tensor:
    """Return the scalar loss that an overridden method computes.

    Args:
        agent: The agent.
        method: Name of the method.
        args: Positional arguments of the method.
        kwargs: Keyword arguments of the method.

    Raises:
        TypeError: If the result is not a scalar tensor with a gradient.
    """
    loss = getattr(agent, method)(*args, **kwargs)
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
        got = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else f"{loss!r:.80}"
        without = " without a gradient" if isinstance(loss, Tensor) and loss.numel() == 1 else ""
        raise TypeError(
            f"{method} of {type(agent).__name__} returned {got}{without}, expected the loss, a scalar tensor"
        )
    return loss.reshape(())


def overridden_target(agent: Any) -> Any:
    """Return the `target` function of a DQN whose `_compute_target_values` is overridden."""

    def target(value: Any, next_value: Any, bootstrap: Tensor, batch: Batch) -> Tensor:
        wanted: Tensor = agent._compute_target_values(ColumnsOfBatch(batch, agent.gamma))
        return wanted.reshape(batch.reward.shape)

    return target


def takes_experiences(agent: Any) -> bool:
    """Return True if an overridden `update`, or `update_from_episodes`, takes lists of transition dicts.

    A function that is assigned to the attribute `update` of an agent takes lists if its first argument is named
    `experiences`. PFRL never calls a function that is assigned in this way.
    """
    if agent.learns_from_sequences and "update_from_episodes" in agent._overridden_hooks:
        return True
    own = vars(agent).get("update")
    if own is None:
        return "update" in agent._overridden_hooks
    return arguments_of(own)[:1] == ["experiences"]


def update_by_experiences(agent: Any) -> None:
    """Sample experiences in PFRL's form and call the overridden `update` or `update_from_episodes`.

    If the override does not count its update in `optim_t`, this function counts it. If the override does not write back
    the errors of prioritised items, this function writes the errors of this library's loss after the update.

    Raises:
        NonFiniteError: If a loss or gradient of this library's steps is NaN or infinite, or if a parameter is NaN or
            infinite after the methods. The message says that earlier optimiser steps of the methods are not rolled
            back.
    """
    buffer = agent.replay_buffer
    if agent.learns_from_sequences:
        experiences = buffer.sample_episodes(agent.minibatch_size, agent.sequence_length)
        hooked = "update_from_episodes" in agent._overridden_hooks
        update = agent.update_from_episodes if hooked else agent.update
    else:
        experiences, update = buffer.sample(agent.minibatch_size), agent.update
    updates = agent.optim_t
    try:
        with checked_after_hooks(agent, _params_of(agent)):
            update(experiences)
        if agent.optim_t == updates:
            agent._count_update()
        if buffer.prioritized and buffer.waits_for_errors:
            buffer.update_errors(agent._td_errors(experiences))
    except BaseException:
        if buffer.prioritized and buffer.waits_for_errors:
            buffer.update_priorities(np.zeros(0, np.int64), [])  # ends the wait for errors
        raise
