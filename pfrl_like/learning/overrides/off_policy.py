"""Updates and action selection of replay agents with the methods of PFRL's agents that a subclass overrides."""

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
    """Check that an agent with `compile=True` overrides no method of PFRL's agents and is not recurrent.

    Raises:
        TypeError: If it overrides methods; the error names them.
        ValueError: If the agent is recurrent.
    """
    if compile and agent._overridden_hooks:
        raise TypeError(
            f"compile is True, but {type(agent).__name__} overrides {', '.join(sorted(agent._overridden_hooks))} of "
            "PFRL's agents, which a compiled update does not call: leave compile out"
        )
    if compile and agent.recurrent:
        raise ValueError("compile is True, which recurrent agents do not support: leave it out")


# Updates


def learn_through_hooks(agent: Any, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """Make one update of an actor-critic with PFRL's methods, of which some are overridden.

    Args:
        agent: The agent; its `_update_through_hooks` calls the methods as PFRL's `update` does.
        batch: Minibatch of features.

    Returns:
        TD errors of the critics after the update, [N], and no statistics: the methods record their own.

    Raises:
        NonFiniteError: If a loss or gradient of our own steps is NaN or infinite, or a parameter or TD error after
            the steps of overridden methods. Earlier optimiser steps stay.
    """
    agent._last_steps = StepsOfUpdate(agent.gradient_steps)
    with checked_after_hooks(agent, _params_of(agent)):
        with within_hook(agent, batch):
            agent._update_through_hooks(ColumnsOfBatch(batch, agent.gamma))
        agent.guard.restore_moments(agent._last_steps.refused)
    td_error = agent._td_errors_of(batch)
    if not bool(torch.isfinite(td_error).all()):
        names = " and ".join(sorted(agent._overridden_hooks))
        raise NonFiniteError("td_error", f"TD errors are NaN or infinite after optimiser steps of {names}, which stay")
    return td_error, {}


@contextlib.contextmanager
def checked_after_hooks(agent: Any, params: Mapping[str, list[Tensor]]) -> Iterator[None]:
    """Check the parameters after the context, in which overridden methods may make optimiser steps.

    Args:
        agent: The agent, whose `_overridden_hooks` names the methods.
        params: Parameters that the methods change, by their name in errors.

    Raises:
        NonFiniteError: If a loss or gradient of our own steps is NaN or infinite, or a parameter afterwards. The
            message says that earlier optimiser steps of the methods stay.
    """
    try:
        yield
        for name, group in params.items():
            if not bool(torch.isfinite(torch.stack(torch._foreach_norm(group))).all()):
                raise NonFiniteError(name, f"the parameters of {name} hold NaN or infinity after an overridden method")
    except NonFiniteError as error:
        names = " and ".join(sorted(agent._overridden_hooks)) or "update"  # `update` may be assigned to the agent
        text = f"{error}; optimiser steps that {names} made before cannot be taken back"
        raise NonFiniteError(error.name, text, error.batch, error.skipped) from error


@contextlib.contextmanager
def within_hook(agent: Any, batch: Batch) -> Iterator[None]:
    """Set the agent's `_hooked_batch` within the context to the minibatch for overridden methods and default bodies."""
    before = agent._hooked_batch
    agent._hooked_batch = batch
    try:
        yield
    finally:
        agent._hooked_batch = before


def _params_of(agent: Any) -> dict[str, list[Tensor]]:
    return {name: step.params for name, step in agent.gradient_steps.items()}


def own_step(agent: Any) -> StepsOfUpdate:
    """Return the gradient steps for a default method body: those of the running update, or else new ones."""
    if agent._hooked_batch is None or not isinstance(agent._last_steps, StepsOfUpdate):
        agent._last_steps = StepsOfUpdate(agent.gradient_steps)
    steps: StepsOfUpdate = agent._last_steps
    return steps


# Q-learning


def loss_of_overridden(agent: Any, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Return `loss` of a DQN whose `_compute_loss` is overridden: the method's loss, with our TD errors and values.

    If the override fills `errors_out`, these are the TD errors.
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
    """Return the loss computed by an overridden method, a scalar.

    Args:
        agent: The agent.
        method: Name of the method.
        args: Its arguments.
        kwargs: Its arguments by name.

    Raises:
        TypeError: If the result is not a single number with a gradient.
    """
    loss = getattr(agent, method)(*args, **kwargs)
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
        came = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else f"{loss!r:.80}"
        without = " without a gradient" if isinstance(loss, Tensor) and loss.numel() == 1 else ""
        raise TypeError(
            f"{method} of {type(agent).__name__} returned {came}{without}, expected the loss, a scalar tensor"
        )
    return loss.reshape(())


def overridden_target(agent: Any) -> Any:
    """Return the `target` of a DQN whose `_compute_target_values` is overridden."""

    def target(value: Any, next_value: Any, bootstrap: Tensor, batch: Batch) -> Tensor:
        wanted: Tensor = agent._compute_target_values(ColumnsOfBatch(batch, agent.gamma))
        return wanted.reshape(batch.reward.shape)

    return target


def takes_experiences(agent: Any) -> bool:
    """Return True if an overridden `update`, or `update_from_episodes`, takes lists of transition dicts.

    A function assigned to one agent as its `update` takes them if its first argument is called `experiences`; PFRL
    never calls a function that is assigned in this way.
    """
    if agent.learns_from_sequences and "update_from_episodes" in agent._overridden_hooks:
        return True
    own = vars(agent).get("update")
    if own is None:
        return "update" in agent._overridden_hooks
    return arguments_of(own)[:1] == ["experiences"]


def update_by_experiences(agent: Any) -> None:
    """Sample in PFRL's form and call the overridden `update` or `update_from_episodes`.

    If the override has not counted its update in `optim_t`, the update is counted. If it has not written back the
    errors of prioritised items, the errors of our loss after the update are used.

    Raises:
        NonFiniteError: If a loss or gradient of our own steps is NaN or infinite, or a parameter afterwards. The
            message says that earlier optimiser steps of the methods stay.
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
            buffer.update_priorities(np.zeros(0, np.int64), [])  # the buffer may wait for errors, which will not come
        raise
