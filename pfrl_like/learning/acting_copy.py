"""Copies of an agent that cannot learn, setup of actor-learner training, and export of the greedy policy."""

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
from pfrl_like.learning.rollout import Rollout
from pfrl_like.processes import Portable, SharedArrays
from pfrl_like.utils.checks import check_counts, takes_integral_floats
from pfrl_like.utils.copy_param import frozen_copy
from pfrl_like.utils.stoppable_thread import StoppableThread

#: Attributes that are None in an acting copy, in addition to the optimisers and the modules that do not select actions.
_CLEARED_ATTRIBUTES = (
    "gradient_steps", "_last_steps", "guard", "_compiled", "_compiled_greedy", "batch_last_obs", "composition",
)  # fmt: skip


def acting_copy(agent: Any) -> Any:
    """Return a copy on the CPU that selects actions like the agent and cannot learn."""
    acting = _acting_half(agent)
    acting._clear_records()
    acting.replay_buffer = ()  # an `Actor` assigns its own buffer
    acting.target_update_interval = sys.maxsize  # there is no target network to update
    return acting


def rollout_acting_copy(agent: Any) -> Any:
    """Return a copy on the CPU that selects actions like the on-policy agent and cannot learn.

    Assign a `ChunkSender` to the attribute `step_collector` of the copy, and pass its chunks to `observe_chunk` of the
    agent. The chunks have the columns `log_prob` (of the acting policy), `entropy` and, if the model returns values,
    `value`, each [T, k].
    """
    acting = _acting_half(agent)
    acting._rollout, acting._records = Rollout(), {}
    acting._features = acting._last_outputs = None
    acting._next_obs, acting._bootstrap_inputs = [], acting._make_bootstrap_inputs
    return acting


def _acting_half(agent: Any) -> Any:
    acting = copy.copy(agent)
    parts = [name for name, value in vars(agent).items() if isinstance(value, nn.Module | Optimizer)]
    # `vars` bypasses `constructor_only`, which forbids assignments
    vars(acting).update(dict.fromkeys((*agent.saved_attributes, *parts, *_CLEARED_ATTRIBUTES)))
    for name, module in agent.acting_modules.items():
        setattr(acting, name, frozen_copy(module).cpu())
    acting.explorer = copy.deepcopy(acting.explorer)
    acting.device, acting.gpu = torch.device("cpu"), None
    interval = getattr(acting, "episodic_update_len", None)
    acting.recurrent_memory = None if acting.recurrent_memory is None else RecurrentMemory(interval)
    return acting


@takes_integral_floats
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

    The runner `experiments.train_agent_actor_learner` calls this method. To train without this runner::

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

    The learner makes updates as fast as it can, or at the rate `updates_per_step`. The agent's `update_interval` does
    not limit the learner. While the learner runs, do not use the agent directly. Use the actors, or
    `make_actor.representative`, a proxy of the agent that holds a lock during each call. After training, the agent has
    the parameters of the last save, `<t>_finish` or `<t>_except`.

    Args:
        agent: The agent.
        n_actors: Number of actors.
        update_counter: A `multiprocessing.Value` that counts the transfers of parameters to the actors.
        n_updates: Number of updates after which the learner stops and sets its `stop_event`. If None, there is no
            limit.
        actor_update_interval: Number of updates between transfers of parameters to the actors.
        step_hooks: Functions that the learner calls as (None, agent, step) after every update. `step` is the number of
            updates times `update_interval`.
        optimizer_step_hooks: Functions that the learner calls as (None, agent, number of updates) after every update.
        updates_per_step: Number of updates per environment step, counted from the first update on. If the learner is
            ahead of this rate, the learner waits for steps. If the learner is behind, the actors wait. If None, neither
            the learner nor the actors wait.

    Returns:
        Four objects: a function that creates actor i (counted from 0) in its process, the learner's thread, the thread
        that receives the actors' data, and an event that is set if one of these threads fails. The attribute `error` of
        the event is the exception.

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
    server, address, remove_address = learner.listen(n_actors)
    key, failure = os.urandom(32), learner.FailureEvent()
    parts = (agent, learner.FairLock(), counts, weights, threading.Event())
    agent_proxy = learner.AgentProxy(*parts)
    loop = learner.Learner(
        agent_proxy, learner.Pace(updates_per_step, counts), threading.Event(), failure,
        n_updates=n_updates, actor_update_interval=actor_update_interval, update_counter=update_counter,
        step_hooks=step_hooks, optimizer_step_hooks=optimizer_step_hooks,
    )  # fmt: skip

    def release() -> None:
        remove_address()
        for memory in (weights.memory, counts):
            memory.unlink()

    poller = learner.Poller(agent_proxy, server, key, loop, threading.Event(), failure, release)
    acting = agent.acting_copy()
    make_actor = ActorFactory(
        Portable(lambda: acting), agent._acting_attributes, address, key, (weights.memory.name, weights.memory.layout),
        (counts.name, counts.layout), learner.AgentProxyForRunner(*parts),
    )  # fmt: skip
    threads = [
        StoppableThread(body.stop_event, target=body.run, name=name, daemon=True)
        for body, name in ((loop, "learner"), (poller, "poller"))
    ]
    return make_actor, threads[0], threads[1], failure


#: Maximum number of example observations that are read from a replay buffer.
_MAX_EXAMPLE_OBS = 256


def export(
    agent: Any,
    path: str | os.PathLike[str],
    *,
    example_obs: Any = None,
    action_mask: Any = None,
    noise: NoiseMode = "fixed",
    format: str | None = None,
) -> Signature:
    """Write the greedy policy to a file that runs without this library.

    The inputs of the file are raw observations in batches of any size, as in `batch_act`. The file contains `phi`, the
    observation normaliser with fixed statistics, and the action selection. `phi` may only cast, scale, or change axes.
    The file does not contain the wrappers of the environment. For example, if a wrapper stacks frames, pass the stacked
    frames, with the newest frame last.

    Before the file is written, its actions are compared with the agent's actions for 1,000 observations. Continuous
    actions must agree to 1e-5. Discrete actions must be equal, unless the two best values differ by less than 1e-5.

    The file has the following inputs, in this order:

    - `input_0`, `input_1`, ...: the arrays of the observation. If the observation is a dict, the arrays are sorted by
    key.
    - `action_mask`: only if the argument `action_mask` is given.
    - `state_0`, `state_1`, ...: the recurrent state, [layers, B, ...]. Pass zeros at the start of an episode.
    - `noise_0`, `noise_1`, ...: random numbers, only if `noise` is "input".

    The outputs are `action` and, for the next call, `next_state_0`, `next_state_1`, ....

    Args:
        agent: Agent with the method `greedy_actions`.
        path: Path of the file. `.pt` is TorchScript, for `torch.jit.load`. `.onnx` is a graph with weights, for example
            for onnxruntime. `.pt2` is for `torch.export.load`. An existing file is replaced atomically.
        example_obs: Observations for tracing and for the comparison: a list of observations, an array or dict of
            stacked observations, or a space to sample from. If None, observations are read from the replay buffer or,
            if the buffer is empty, from the last `act` call. The dtype of these observations is the dtype of the file's
            input. If a wrapper of the environment casts float64 observations and changes nothing else, the file can
            contain this cast: pass float64 observations from before this wrapper, or `env.unwrapped.observation_space`.
        action_mask: Example of an action mask, [n_actions], True where an action is allowed. If an example is given,
            the file has the input `action_mask`. A mask in the observation, under the key "action_mask", belongs to the
            inputs `input_0`, ....
        noise: Treatment of random numbers that greedy action selection draws, as in IQN, BCQ, BEAR and noisy networks.
            "fixed": the file draws no random numbers. Quantile fractions are evenly spaced, weights have no noise, and
            other random numbers are drawn once and are the same for every observation. "input": the random numbers are
            inputs of the file.
        format: File format, ".pt", ".onnx" or ".pt2". Needed only if `path` has none of these extensions.

    Returns:
        Names, shapes and dtypes of inputs and outputs. The file contains the same data as JSON ("signature.json").

    Raises:
        ExportError: If the policy cannot be exported to this format, if the exported policy acts differently from the
            agent, or if `example_obs` is None and the agent has not received any observation.
        CheckpointError: If the file cannot be written. An existing file is kept.
        MissingDependencyError: If a package for the format is not installed.
        NonFiniteError: If the agent's actions for the example observations are NaN or infinite.
        ValueError: If `noise` or the file format is not one of the values above.
    """
    if agent._acting_hook in agent._overridden_hooks:
        raise ExportError(
            f"{type(agent).__name__} overrides {agent._acting_hook}, which cannot be exported: override "
            "greedy_actions(obs, action_mask, active) instead, with torch operations on features only"
        )
    if example_obs is None:
        example_obs = agent._observations_seen()
    return export_policy(agent.greedy_copy, path, example_obs, action_mask, noise, format)


def greedy_copy(agent: Any) -> Any:
    """Return a copy on the CPU that acts like the agent in evaluation and cannot learn."""
    acting = object.__new__(type(agent))
    names = (*agent._acting_attributes, "obs_normalizer")
    for name, value in list(vars(agent).items()):
        if name in names and isinstance(value, nn.Module):
            vars(acting)[name] = frozen_copy(value).cpu()
        elif not isinstance(value, nn.Module | torch.optim.Optimizer):
            vars(acting)[name] = value
    memory = None if agent.recurrent_memory is None else RecurrentMemory(None)
    vars(acting).update(training=False, device=torch.device("cpu"), recurrent_memory=memory, _compiled_greedy=None)
    acting.features = copy.deepcopy(agent.features)
    return acting


def observations_seen(agent: Any) -> Any:
    """Return observations before `phi`: from the replay buffer or, if the buffer is empty, from the last `act` call.

    Raises:
        ExportError: If the agent has no observations.
    """
    items = getattr(getattr(agent, "replay_buffer", None), "memory", ())
    if len(items):
        step = -(-len(items) // _MAX_EXAMPLE_OBS)
        return [items[i][0]["state"] for i in range(0, len(items), step)]
    if agent.batch_last_obs is not None:
        return list(agent.batch_last_obs)
    raise ExportError(
        f"example_obs is None, and this {type(agent).__name__} has not received any observation: pass observations "
        "or a space, for example env.observation_space or dataset.observations"
    )
