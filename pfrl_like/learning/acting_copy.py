"""Copies of an agent that only act: for actors in other processes, for a learner in a thread, and for export."""

import copy
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from pfrl_like.distributed import learner
from pfrl_like.distributed.actor import STEPS, ActorFactory, SharedWeights
from pfrl_like.distributed.learner import Hook
from pfrl_like.errors import ExportError
from pfrl_like.export import NoiseMode, Signature, export_policy
from pfrl_like.learning.recurrent_memory import RecurrentMemory
from pfrl_like.processes import Portable, SharedArrays
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.copy_param import frozen_copy
from pfrl_like.utils.stoppable_thread import StoppableThread

#: Attributes that an acting copy lacks, besides optimisers and modules that do not act.
_LEFT_BEHIND = ("gradient_steps", "_last_steps", "guard", "_compiled", "_compiled_greedy", "batch_last_obs")


def acting_copy(agent: Any) -> Any:
    """Return a copy on the CPU that chooses actions as the agent does and cannot learn."""
    acting = copy.copy(agent)
    parts = [name for name, value in vars(agent).items() if isinstance(value, nn.Module | Optimizer)]
    vars(acting).update(dict.fromkeys((*agent.saved_attributes, *parts, *_LEFT_BEHIND)))  # also constructor-only ones
    for name in agent._acting_attributes:
        setattr(acting, name, frozen_copy(getattr(agent, name)).cpu())
    acting.explorer = copy.deepcopy(acting.explorer)
    acting.device, acting.gpu = torch.device("cpu"), None
    acting.memory = None if acting.memory is None else RecurrentMemory(acting.episodic_update_len)
    acting._clear_records()
    acting.replay_buffer = ()  # an `Actor` replaces it
    acting.target_update_interval = sys.maxsize  # there is no target network to update
    return acting


def setup_actor_learner_training(
    agent: Any,
    n_actors: int,
    update_counter: Any = None,
    n_updates: int | None = None,
    actor_update_interval: int = 8,
    step_hooks: Sequence[Hook] = (),
    optimizer_step_hooks: Sequence[Hook] = (),
    *,
    updates_per_step: float | None = None,
) -> tuple[ActorFactory, StoppableThread, StoppableThread, learner.FailureEvent]:
    """Prepare training with actors in other processes and a learner in a thread of this process.

    Use it as follows, or through `experiments.train_agent_actor_learner`::

        make_actor, learner, poller, exception_event = agent.setup_actor_learner_training(n_actors=4)
        poller.start()
        learner.start()
        train_agent_async(
            outdir, processes=4, make_env=make_env, make_agent=make_actor,
            stop_event=learner.stop_event, exception_event=exception_event,
        )
        poller.stop()
        learner.stop()
        poller.join()
        learner.join()

    The learner updates as fast as it can, or at the rate `updates_per_step`; `update_interval` does not limit it.
    While the learner runs, use the agent only through the actors or `make_actor.representative`. After training the
    agent is in the state that the runner saved last, as `<t>_finish` or `<t>_except`.

    Args:
        agent: The agent.
        n_actors: Number of actors.
        update_counter: A `multiprocessing.Value` that counts how often the actors' parameters were renewed.
        n_updates: Updates after which the learner ends, and sets its `stop_event`; None for no end.
        actor_update_interval: Updates after which the actors' parameters are renewed.
        step_hooks: Called by the learner as (None, agent, step) after every update, where step is the number of
            updates times `update_interval`.
        optimizer_step_hooks: Called as (None, agent, number of updates).
        updates_per_step: Updates for each step from the first update on; the learner waits for steps, and the
            actors for the learner when it is behind. None lets each run as fast as it can.

    Returns:
        A function that makes actor i, counted from 0, in its process; the learner's thread; the thread that receives
        what the actors send; and an event that is set, with its `error`, if one of these threads fails.

    Raises:
        ValueError: If a number is out of range.
        TypeError: If a number is not an integer.
    """
    check_counts(n_actors=n_actors, actor_update_interval=actor_update_interval)
    check_counts(optional=True, n_updates=n_updates)
    if updates_per_step is not None and not updates_per_step > 0:
        raise ValueError(f"updates_per_step is {updates_per_step!r}, expected a positive number, or None")
    weights = SharedWeights([getattr(agent, name) for name in agent._acting_attributes])
    counts = SharedArrays((((n_actors + 1,), "<i8"), ((1,), "|u1"), ((1,), "|u1")))
    counts.arrays[STEPS][0] = agent.t
    server, address, remove = learner.listen(n_actors)
    key, failure = os.urandom(32), learner.FailureEvent()
    parts = (agent, learner.FairLock(), counts, weights, threading.Event())
    representative = learner.AgentProxy(*parts)
    loop = learner.Learner(
        representative, learner.Pace(updates_per_step, counts), threading.Event(), failure,
        n_updates=n_updates, actor_update_interval=actor_update_interval, update_counter=update_counter,
        step_hooks=step_hooks, optimizer_step_hooks=optimizer_step_hooks,
    )  # fmt: skip

    def release() -> None:
        remove()
        for memory in (weights.memory, counts):
            memory.unlink()

    poller = learner.Poller(representative, server, key, loop, threading.Event(), failure, release)
    acting = agent.acting_copy()
    make_actor = ActorFactory(
        Portable(lambda: acting), agent._acting_attributes, address, key, (weights.memory.name, weights.memory.layout),
        (counts.name, counts.layout), learner.RunnersAgentProxy(*parts),
    )  # fmt: skip
    threads = [
        StoppableThread(body.stop_event, target=body.run, name=name, daemon=True)
        for body, name in ((loop, "learner"), (poller, "poller"))
    ]
    return make_actor, threads[0], threads[1], failure


#: Largest number of observations taken from a replay buffer.
_MOST = 256


def export(
    agent: Any,
    path: str | os.PathLike[str],
    *,
    example_obs: Any = None,
    action_mask: Any = None,
    noise: NoiseMode = "fixed",
    format: str | None = None,
) -> Signature:
    """Write the greedy policy into a file that runs without this library.

    The file takes raw observations in batches of any size, as `batch_act` does. It contains `phi` (a cast, a scale or
    a change of axes), the normalisation of observations, which no longer learns, and the choice of the action. It
    does not contain what wrappers do with observations: if a wrapper stacks frames, pass the stacks, with the newest
    frame last. Before the file is written, its actions are compared with the agent's for 1,000 observations:
    numbers to 1e-5, discrete actions wherever the best two values are further apart than that.

    The inputs are, in order: `input_0` and so on, one for each part of a nested observation, where parts of a dict are
    sorted by key; `action_mask`, if one is given here; the recurrent state as `state_0` and so on, zeros
    [layers, B, ...] at the start of an episode; and `noise_0` and so on. The outputs are `action`, and `next_state_0`
    and so on.

    Args:
        agent: The agent, which has `greedy_actions`.
        path: The file. `.pt` is TorchScript, for `torch.jit.load`; `.onnx` a graph with its weights, for instance
            for onnxruntime; `.pt2` is for `torch.export.load`. An existing file is replaced atomically.
        example_obs: Observations to trace and compare with: a list of observations, an array or dict of stacked
            ones, or a space to draw from. None takes observations from the replay buffer, or those of the last
            action. The file takes observations of the same dtype. Give those of the environment itself, such as
            `env.unwrapped.observation_space`: the file then casts float64 where a wrapper does so in training.
        action_mask: An example, [n_actions], True where an action is allowed: the file then takes masks as well.
            Masks in observations, under the key "action_mask", are separate inputs.
        noise: Treatment of random numbers that are drawn when acting greedily, as in IQN, BCQ, BEAR and noisy
            networks. "fixed": nothing is random; quantile fractions are evenly spaced, weights have no noise, and
            other numbers are drawn once, the same for every observation. "input": they are inputs of the file.
        format: One of these endings, if the file's name has another.

    Returns:
        Names, shapes and dtypes of inputs and outputs, which the file also contains as JSON ("signature.json").

    Raises:
        ExportError: If the policy cannot be exported to such a file, if the exported policy acts differently from
            the agent, or if the agent has not seen any observation and none is given.
        CheckpointError: If the file cannot be written; an older one is kept.
        MissingDependencyError: If a package for the format is not installed.
        NonFiniteError: If the agent's own actions are NaN or infinite.
        ValueError: If the ending or `noise` is not one of those listed.
    """
    if agent._acting_hook in agent._overridden_hooks:
        raise ExportError(
            f"{type(agent).__name__} overrides {agent._acting_hook}, which no file can hold: override "
            "greedy_actions(obs, action_mask, active), torch operations on features, instead"
        )
    if example_obs is None:
        example_obs = agent._observations_seen()
    return export_policy(agent.greedy_copy, path, example_obs, action_mask, noise, format)


def greedy_copy(agent: Any) -> Any:
    """Return a copy on the CPU that acts as the agent in evaluation and cannot learn."""
    acting = object.__new__(type(agent))
    names = (*agent._acting_attributes, "obs_normalizer")
    for name, value in list(vars(agent).items()):
        if name in names and isinstance(value, nn.Module):
            vars(acting)[name] = frozen_copy(value).cpu()
        elif not isinstance(value, nn.Module | torch.optim.Optimizer):
            vars(acting)[name] = value
    memory = None if agent.memory is None else RecurrentMemory(None)
    vars(acting).update(training=False, device=torch.device("cpu"), memory=memory, _compiled_greedy=None)
    acting.features = copy.deepcopy(agent.features)
    return acting


def observations_seen(agent: Any) -> Any:
    """Return some raw observations from the replay buffer, or those of the last action.

    Raises:
        ExportError: If there are none.
    """
    items = getattr(getattr(agent, "replay_buffer", None), "memory", ())
    if len(items):
        chosen = range(0, len(items), -(-len(items) // _MOST))
        return [items[i][0]["state"] for i in chosen]
    if agent.batch_last_obs is not None:
        return list(agent.batch_last_obs)
    raise ExportError(
        f"this {type(agent).__name__} has seen no observation yet, which it needs to trace its policy and to "
        "compare the file with it: give some as example_obs, such as env.observation_space or dataset.observations"
    )
