"""Training of one agent in several processes, for example one for each GPU."""

import contextlib
import functools
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, distributed, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from pfrl_like.batch import map_nested
from pfrl_like.distributed.learner_group import LearnerGroup, member_of, updates_of
from pfrl_like.nn.empirical_normalization import EmpiricalNormalization


@contextlib.contextmanager
def data_parallel(agent: Any, *, same_data: bool = False, group: Any = None) -> Iterator[LearnerGroup]:
    """Context manager in which the processes of a `torch.distributed` group make every update of an agent together.

    Each process has an agent of its own. At the beginning, process 0 sends the parameters and the states of the
    optimisers to all processes. Every update learns from a joined minibatch, of which each process has an equal share:
    `minibatch_size` is the size of a share. Every gradient step averages the gradients over the processes before they
    are clipped, so that the parameters stay the same in all processes. If one process rejects an update because of NaN
    or infinity, all do.

    All processes must make the same number of updates: they train for the same number of steps with the same
    hyperparameters. On-policy agents learn from the joined rollouts of all processes, which must have the same number
    of steps if the minibatches are to be divided. The steps of IMPALA and APPO include the log-probabilities of the
    policy that acted. The age of this policy may differ between the processes.

    Args:
        agent: Agent with a replay buffer, `A2C`, `PPO`, `TRPO`, `IMPALA` or `APPO`.
        same_data: True if all processes have the same dataset or the same content of the replay buffer. They then draw
            one joined minibatch without replacement, and each takes its share. If the data have a random generator of
            their own, it must have the same seed in all processes. False if each process has data of its own, for
            example the steps of its environments.
        group: Process group. If None, the default group is used.

    Yields:
        The group of learners, with the attributes `rank` and `size`.

    Raises:
        RuntimeError: If there is no process group.
        TypeError: If the agent cannot learn in a group, or a network has running moments of its rows.
        ValueError: If the agent is compiled, sums its losses over the rows, or differs between the processes.
    """
    if not has_process_group():
        raise RuntimeError("there is no process group: start with torchrun and call init_process_group first")
    modules, optimizers = check_agent(agent)
    learners = LearnerGroup(group, same_data, functools.partial(_check_alike, agent, modules, values=True))
    _check_alike(agent, modules, learners, values=False)
    parts: list[Any] = [*modules.values(), *optimizers]
    states = map_nested(_on_cpu, [part.state_dict() for part in parts])
    for part, state in zip(parts, learners.from_first(states), strict=True):
        if learners.rank:
            part.load_state_dict(state)
    buffer = getattr(agent, "replay_buffer", None)
    shares_weights = not same_data and getattr(buffer, "prioritized", False)
    if shares_weights:
        buffer.smallest_of_group = learners.smallest  # type: ignore[union-attr]
    try:
        with member_of(learners, agent):
            yield learners
    finally:
        if shares_weights:
            buffer.smallest_of_group = None  # type: ignore[union-attr]


def check_agent(agent: Any) -> tuple[dict[str, nn.Module], list[Optimizer]]:
    """Check that an agent can learn in a group. Return its modules, keyed by attribute name, and its optimisers.

    Raises:
        TypeError: If the agent cannot learn in a group, or a network has running moments of its rows.
        ValueError: If the agent is compiled, or sums its losses over the rows.
    """
    kind = type(agent).__name__
    if not getattr(agent, "_learns_in_group", False):
        raise TypeError(f"agent is {kind}, expected an agent with a replay buffer, A2C, PPO, TRPO, IMPALA or APPO")
    if getattr(agent, "_compiled", None) is not None:
        raise ValueError("agent has compile=True, whose gradients are not averaged: construct it with compile=False")
    if getattr(agent, "batch_accumulator", "mean") != "mean":
        raise ValueError(
            f"agent has batch_accumulator={agent.batch_accumulator!r}, expected 'mean' in several processes"
        )
    values = {name: getattr(agent, name) for name in agent.saved_attributes}
    modules = {name: value for name, value in values.items() if isinstance(value, nn.Module)}
    for name, module in modules.items():
        for layer in module.modules() if name != "obs_normalizer" else ():
            if isinstance(layer, _BatchNorm) and not isinstance(layer, nn.SyncBatchNorm):
                advice = "on GPUs, convert the network with torch.nn.SyncBatchNorm.convert_sync_batchnorm before the "
                advice += "agent is constructed; on CPUs, use layers without batch statistics, such as LayerNorm"
            elif isinstance(layer, EmpiricalNormalization):
                advice = "use the argument obs_normalizer of PPO, or normalise the observations in the environment"
            else:
                continue
            raise TypeError(f"{name} has {type(layer).__name__}, whose moments are those of one process: {advice}")
    return modules, [value for value in values.values() if isinstance(value, Optimizer)]


def _check_alike(agent: Any, modules: Mapping[str, nn.Module], learners: LearnerGroup, values: bool) -> None:
    """Check that the agents of all processes have the same class, sizes and number of updates.

    If `values` is True, also compare the sums of the parameters.
    """
    names = ("minibatch_size", "update_interval")
    facts = {"class": type(agent).__name__, **{name: getattr(agent, name, None) for name in names}}
    facts["number of updates"] = updates_of(agent)
    for name, module in modules.items():
        params = [*module.parameters()]
        facts[name] = [param.sum().item() for param in params] if values else [tuple(param.shape) for param in params]
    everyone = learners.of_all(facts)
    for name, value in facts.items():
        found = [other.get(name) for other in everyone]
        if any(other != value for other in found):
            text = ", ".join(f"{each!r:.80}" for each in found)
            raise ValueError(f"{name} of the agent differs between the processes: {text}; expected the same everywhere")


def _on_cpu(value: Any) -> Any:
    return value.cpu() if isinstance(value, Tensor) else value


def has_process_group() -> bool:
    """Return True if this process belongs to a `torch.distributed` group."""
    return distributed.is_available() and distributed.is_initialized()


def n_processes() -> int:
    """Return the number of processes of the default `torch.distributed` group, 1 if there is no group."""
    return distributed.get_world_size() if has_process_group() else 1


def is_main_process() -> bool:
    """Return True if this is process 0 of the `torch.distributed` group, or if there is no group."""
    return not has_process_group() or distributed.get_rank() == 0
