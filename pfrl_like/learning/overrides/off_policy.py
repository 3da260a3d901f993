"""Updates of replay agents whose subclass overrides methods of PFRL's agents."""

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
    """If `compile` is True, check that an agent is not recurrent and overrides no methods of PFRL's agents.

    Raises:
        TypeError: If the agent overrides such methods. The message names these methods.
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
    """Make one update of an actor-critic agent that overrides methods of PFRL's `update`.

    Args:
        agent: The agent. Its method `_update_through_hooks` calls the methods in the order of PFRL's `update`.
        batch: Minibatch whose observations are features.

    Returns:
        TD errors of the critics after the update, [N], and an empty dict, because PFRL's methods record their
        statistics themselves.

    Raises:
        NonFiniteError: If a loss or gradient is NaN or infinite in a gradient step of this library, or if a parameter
            or TD error is NaN or infinite after the subclass's methods have run. Earlier optimiser steps are not rolled
            back.
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
    """Context manager in which a subclass's methods run. At its end, it checks that the parameters are finite.

    Args:
        agent: The agent. Its attribute `_overridden_hooks` contains the names of the overridden methods.
        params: Lists of parameters that the subclass's methods may change, keyed by their names in error messages.

    Raises:
        NonFiniteError: If a loss or gradient is NaN or infinite in a gradient step of this library, or if a parameter
            is NaN or infinite after the subclass's methods have run. The message says that optimiser steps that these
            methods made earlier are not rolled back.
    """
    try:
        yield
        for name, group in params.items():
            if not bool(torch.isfinite(torch.stack(torch._foreach_norm(group))).all()):
                raise NonFiniteError(name, f"the parameters of {name} hold NaN or infinity after an override has run")
    except NonFiniteError as error:
        names = " and ".join(sorted(agent._overridden_hooks)) or "update"  # a function assigned to the agent
        text = f"{error}; optimiser steps that {names} made before cannot be rolled back"
        raise NonFiniteError(error.name, text, error.batch, error.skipped) from error


@contextlib.contextmanager
def within_hook(agent: Any, batch: Batch) -> Iterator[None]:
    """Context manager that sets the agent's attribute `_override_batch` to `batch` until its end."""
    before = agent._override_batch
    agent._override_batch = batch
    try:
        yield
    finally:
        agent._override_batch = before


def _params_of(agent: Any) -> dict[str, list[Tensor]]:
    return {name: step.params for name, step in agent.gradient_steps.items()}


def steps_of_update(agent: Any) -> StepsOfUpdate:
    """Return the `StepsOfUpdate` of the running update. If no update is running, return a new one."""
    if agent._override_batch is None or not isinstance(agent._last_steps, StepsOfUpdate):
        agent._last_steps = StepsOfUpdate(agent.gradient_steps)
    steps: StepsOfUpdate = agent._last_steps
    return steps


# Q-learning


def loss_of_override(agent: Any, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Return the loss that a subclass's `_compute_loss` computes for DQN, the TD errors, and statistics.

    If the subclass's method fills its argument `errors_out`, these errors are returned. Otherwise this library computes
    the TD errors.
    """
    errors: list[float] | None = None if batch.weight is None else []
    with within_hook(agent, batch):
        loss = call_loss_hook(agent, "_compute_loss", ColumnsOfBatch(batch, agent.gamma), errors_out=errors)
    if errors:
        td_error = torch.as_tensor(np.asarray(errors, np.float32), device=batch.reward.device)
    else:
        td_error = agent._td_errors_of(batch)
    return loss, td_error, {"loss": loss.detach()}


def call_loss_hook(agent: Any, method: str, *args: Any, **kwargs: Any) -> Tensor:
    """Call a method of PFRL's agent that computes a loss, and return the scalar loss.

    Args:
        agent: The agent.
        method: Name of the method.
        *args: Positional arguments of the method.
        **kwargs: Keyword arguments of the method.

    Raises:
        TypeError: If the result is not a scalar tensor with a gradient.
    """
    loss = getattr(agent, method)(*args, **kwargs)
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
        got = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else f"{loss!r:.80}"
        suffix = " without a gradient" if isinstance(loss, Tensor) and loss.numel() == 1 else ""
        name = f"{method} of {type(agent).__name__}"
        raise TypeError(f"{name} returned {got}{suffix}, expected the loss, a scalar tensor")
    return loss.reshape(())


def overridden_target(agent: Any) -> Any:
    """Return the `target` function of a DQN that overrides `_compute_target_values`."""

    def target(value: Any, next_value: Any, bootstrap: Tensor, batch: Batch) -> Tensor:
        values: Tensor = agent._compute_target_values(ColumnsOfBatch(batch, agent.gamma))
        return values.reshape(batch.reward.shape)

    return target


def takes_experiences(agent: Any) -> bool:
    """Return True if the agent overrides `update` or `update_from_episodes` with a method that takes PFRL's lists.

    If a function is assigned to the attribute `update` of the agent, the function takes lists of transition dicts only
    if its first argument is named `experiences`. This differs from PFRL, which never calls such a function.
    """
    if agent.learns_from_sequences and "update_from_episodes" in agent._overridden_hooks:
        return True
    assigned = vars(agent).get("update")
    if assigned is None:
        return "update" in agent._overridden_hooks
    return arguments_of(assigned)[:1] == ["experiences"]


def update_by_experiences(agent: Any) -> None:
    """Sample experiences in PFRL's format, and call the subclass's `update` or `update_from_episodes`.

    If the subclass's method does not count the update in `optim_t`, this function counts the update. If the subclass's
    method does not write the TD errors of prioritised items to the buffer, this function writes TD errors. It computes
    them with this library's loss after the update.

    Raises:
        NonFiniteError: If a loss or gradient is NaN or infinite in a gradient step of this library, or if a parameter
            is NaN or infinite after the subclass's methods have run. The message says that optimiser steps that these
            methods made earlier are not rolled back.
    """
    buffer = agent.replay_buffer
    if agent.learns_from_sequences:
        experiences = buffer.sample_episodes(agent.minibatch_size, agent.sequence_length)
        is_overridden = "update_from_episodes" in agent._overridden_hooks
        update = agent.update_from_episodes if is_overridden else agent.update
    else:
        experiences, update = buffer.sample(agent.minibatch_size), agent.update
    updates = agent.optim_t
    try:
        with checked_after_hooks(agent, _params_of(agent)):
            update(experiences)
        if agent.optim_t == updates:
            agent._count_update()
        if buffer.prioritized and buffer.waits_for_errors:
            write_errors(agent, agent._td_errors(experiences))
    except BaseException:
        if buffer.prioritized and buffer.waits_for_errors:
            buffer.update_priorities(np.zeros(0, np.int64), [])  # otherwise the buffer would wait for errors
        raise


def write_errors(agent: Any, td_error: Tensor) -> None:
    """Write TD errors to the agent's replay buffer if the buffer waits for the errors of a sample.

    Args:
        agent: The agent.
        td_error: TD errors in the order of the sample, [N].
    """
    if getattr(agent.replay_buffer, "waits_for_errors", False):
        agent.replay_buffer.update_errors(td_error.abs().tolist())
