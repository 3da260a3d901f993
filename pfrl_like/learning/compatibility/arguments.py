"""Checks of an agent's constructor arguments: numbers, options, modules, optimisers, buffer and explorer."""

import inspect
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from pfrl_like.learning.compatibility.parts import (
    check_kinds,
    check_lengths,
    check_max_grad_norm,
    check_numbers_in,
    check_optimizers,
    check_select_action,
    functions_of,
)
from pfrl_like.nn.empirical_normalization import EmpiricalNormalization
from pfrl_like.q_functions.state_action_q_functions import QFunctionEnsemble
from pfrl_like.replay_buffer import AbstractEpisodicReplayBuffer
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.recurrent import is_recurrent


def arguments_for(base: type, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return those constructor arguments of an agent that its base class has, too. They are keyed by name.

    Args:
        base: The base class, whose constructor has no `**kwargs`.
        args: `locals()` of the agent's constructor.
    """
    return {name: args[name] for name in inspect.signature(base).parameters if name in args}


def keywords_for(base: type, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return those constructor arguments of an agent that are keyword-only in its base class. They are keyed by name.

    Args:
        base: The base class.
        args: `locals()` of the agent's constructor. If its `logger` is None, the result contains the logger of the
            module that defines the agent's class.
    """
    args = {**args, "logger": args["logger"] or logging.getLogger(args["__class__"].__module__)}
    parameters = inspect.signature(base).parameters.values()
    return {each.name: args[each.name] for each in parameters if each.kind is each.KEYWORD_ONLY and each.name in args}


def check_parts(agent: Any, modules: Mapping[str, Any], optimizers: Mapping[str, Any]) -> None:
    """Check that the modules, optimisers and other arguments have the expected types and match each other.

    Args:
        agent: The agent. The other arguments, such as `phi`, are attributes of the agent.
        modules: Trained modules, keyed by argument name.
        optimizers: Optimisers of the modules, keyed by argument name.
    """
    buffer, explorer = agent.replay_buffer, agent.explorer
    check_kinds(
        modules, optimizers,
        ("replay_buffer", buffer, _has(buffer, "capacity", "append_batch", "sample_batch", "__len__"),
         "one of pfrl_like.replay_buffers"),
        ("explorer", explorer, _has(explorer, "select_action"), "one of pfrl_like.explorers"),
        *functions_of(agent),
    )  # fmt: skip
    check_select_action(explorer)
    _check_recurrence(agent, modules)
    check_optimizers(agent, modules, optimizers)


def check_pairs(modules: Mapping[str, torch.nn.Module], optimizers: Mapping[str, torch.optim.Optimizer]) -> None:
    """Check that each optimiser contains parameters of its module. Otherwise the module would never be trained.

    Args:
        modules: Trained modules, keyed by argument name.
        optimizers: One optimiser for each module, in the order of `modules`, keyed by argument name. Additional
            optimisers may follow.

    Raises:
        ValueError: If an optimiser contains no parameter of its module.
    """
    for (module_name, module), (name, optimizer) in zip(modules.items(), optimizers.items(), strict=False):
        params = {id(param) for group in optimizer.param_groups for param in group["params"]}
        if params.isdisjoint(map(id, module.parameters())):
            advice = f"construct it with {module_name}.parameters()"
            raise ValueError(f"{name} holds no parameter of {module_name}: {advice}")


def _check_recurrence(agent: Any, modules: Mapping[str, torch.nn.Module]) -> None:
    """Check that the modules and the buffer match `recurrent`. Only the network that acts must be recurrent."""
    unsupported = f"but {type(agent).__name__} does not support recurrent networks"
    for name in ("recurrent", "episodic_update_len"):
        if getattr(agent, name) and not agent._may_be_recurrent:
            raise ValueError(f"{name} is {getattr(agent, name)!r}, {unsupported}: leave {name} out")
    for name, module in modules.items():
        kind = type(module).__name__
        if agent.recurrent and name == agent._acting_network_name and not is_recurrent(module):
            text = f"recurrent is True, but {name} is {kind}, which keeps no recurrent state"
            raise TypeError(f"{text}: compose it with pfrl_like.nn.RecurrentSequential, or leave recurrent out")
        if not agent.recurrent and is_recurrent(module):
            advice = "but recurrent is False: pass recurrent=True"
            advice = advice if agent._may_be_recurrent else f"{unsupported}: use a different network"
            raise TypeError(f"{name} is {kind}, which keeps a recurrent state, {advice}")
    buffer = agent.replay_buffer
    episodic, got = isinstance(buffer, AbstractEpisodicReplayBuffer), f"replay_buffer is {type(buffer).__name__}"
    if agent.learns_from_sequences and not episodic:
        name = "a recurrent agent" if agent.recurrent else type(agent).__name__
        advice = "use EpisodicReplayBuffer or PrioritizedEpisodicReplayBuffer"
        raise TypeError(f"{got}, but {name} learns from sequences: {advice}")
    if not agent.learns_from_sequences and episodic and buffer.prioritized:
        advice = "use PrioritizedReplayBuffer or EpisodicReplayBuffer, or pass recurrent=True"
        raise TypeError(f"{got}, which prioritises sequences, but recurrent is False: {advice}")


def check_arguments(agent: Any) -> None:
    """Check that numbers and options have the values documented in `DQN`. Call `check_parts` before this function."""
    counts = ("minibatch_size", "update_interval", "n_times_update", "num_steps")
    check_lengths(agent, *counts, optional=("episodic_update_len",))
    check_counts(least=0, burn_in=agent.burn_in)
    check_numbers_in(agent, gamma=(0, 1), replay_start_size=(0, None), soft_update_tau=(0, None))
    check_max_grad_norm(agent)
    interval = agent.target_update_interval
    if not (interval is None and agent._targets.schedule != "by interval"):
        check_counts(target_update_interval=interval)
    start = agent.replay_start_size
    if not agent._is_offline:
        check_start(agent)
    rules = [
        ("replay_start_size", start >= agent.minibatch_size, f"at least minibatch_size, {agent.minibatch_size}"),
        ("target_update_interval",  # as in PFRL, only of agents that act with a Q-function
         interval is None or interval % agent.update_interval == 0 or agent._acting_network_name == "policy",
         f"at least 1, and a multiple of update_interval, {agent.update_interval}"),
        ("target_update_method", agent.target_update_method in ("hard", "soft"), "'hard' or 'soft'"),
        ("soft_update_tau", 0 < agent.soft_update_tau <= 1, "a number above 0, at most 1"),
        ("batch_accumulator", agent.batch_accumulator in ("mean", "sum"), "'mean' or 'sum'"),
        ("num_steps", agent.num_steps == 1 or agent.recurrent,
         "1, or more with recurrent=True; otherwise set num_steps of the replay buffer"),
        ("burn_in", agent.burn_in == 0 or agent.recurrent, "0, or more with recurrent=True"),
    ]  # fmt: skip
    for name, holds, expected in rules:
        if not holds:
            raise ValueError(f"{name} is {getattr(agent, name)!r}, expected {expected}")


def check_start(agent: Any) -> None:
    """Check that the capacity of the replay buffer is at least `replay_start_size`, so that updates can begin.

    Offline agents make this check only at the beginning of a run in an environment.

    Raises:
        ValueError: If the capacity is smaller.
    """
    start, capacity = agent.replay_start_size, getattr(agent.replay_buffer, "capacity", None)
    if capacity is not None and start > capacity:
        raise ValueError(f"replay_start_size is {start!r}, expected at most the capacity of replay_buffer, {capacity}")


def _has(part: Any, *names: str) -> bool:
    return not isinstance(part, type) and all(hasattr(part, name) for name in names)


def check_on_policy_parts(agent: Any, modules: Mapping[str, Any], optimizers: Mapping[str, Any]) -> None:
    """Check that the modules, optimisers and other arguments have the expected types and match each other.

    Args:
        agent: The agent. The other arguments, such as `phi`, are attributes of the agent.
        modules: Trained modules, keyed by argument name.
        optimizers: Optimisers of the modules, keyed by argument name.
    """
    normalizer = agent.obs_normalizer
    fits = normalizer is None or isinstance(normalizer, EmpiricalNormalization)
    expected = "a pfrl_like.nn.EmpiricalNormalization or None"
    check_kinds(modules, optimizers, ("obs_normalizer", normalizer, fits, expected), *functions_of(agent))
    for name, module in modules.items():
        if is_recurrent(module) != bool(agent.recurrent):
            keeps = f"{type(module).__name__}, which keeps {'a' if is_recurrent(module) else 'no'} recurrent state"
            advice = "recurrent=True requires modules made of pfrl_like.nn.RecurrentSequential"
            raise TypeError(f"recurrent is {agent.recurrent}, but {name} is {keeps}: {advice}")
    check_optimizers(agent, modules, optimizers)
    check_numbers_in(agent, gamma=(0, 1))
    check_max_grad_norm(agent)


def listed(argument: str, parts: Any) -> dict[str, Any]:
    """Return the elements of a list argument, keyed by names such as "q_funcs[0]".

    Raises:
        TypeError: If `parts` is not a list, for example if it is a single module.
    """
    single = isinstance(parts, nn.Module) and not isinstance(parts, nn.ModuleList)  # a Sequential is one module
    if single or not isinstance(parts, Iterable) or isinstance(parts, str | Mapping):
        raise TypeError(f"{argument} is a single {type(parts).__name__}, expected one list element per critic")
    return {f"{argument}[{i}]": part for i, part in enumerate(parts)}


def numbered(
    q_funcs: Mapping[str, nn.Module], optimizers: Mapping[str, torch.optim.Optimizer]
) -> tuple[dict[str, nn.Module], dict[str, torch.optim.Optimizer]]:
    """Check critics and their optimisers, and return them with the keys q_func1, q_func1_optimizer, ...

    Args:
        q_funcs: Critics, keyed by argument name.
        optimizers: One optimiser for each critic, in the same order, keyed by argument name.

    Raises:
        TypeError: If a critic or an optimiser has the wrong type.
        ValueError: If there is no critic, if the numbers of critics and optimisers differ, if a critic occurs twice, if
            an optimiser contains no parameter of its critic, or if an ensemble is not the only critic.
    """
    if len(q_funcs) != len(optimizers) or not q_funcs:
        raise ValueError(f"got {len(q_funcs)} critics and {len(optimizers)} optimisers, expected one optimiser each")
    check_kinds(q_funcs, optimizers)
    if len(set(map(id, q_funcs.values()))) < len(q_funcs):
        raise ValueError("two of the critics are the same module, expected a separate module for each critic")
    check_pairs(q_funcs, optimizers)
    for name, q_func in q_funcs.items() if len(q_funcs) > 1 else ():
        if any(isinstance(part, QFunctionEnsemble) for part in q_func.modules()):
            raise ValueError(f"{name} is an ensemble, which contains several critics: pass it as the only critic")
    names = [f"q_func{i}" for i in range(1, len(q_funcs) + 1)]
    named = {f"{name}_optimizer": optimizer for name, optimizer in zip(names, optimizers.values(), strict=True)}
    return dict(zip(names, q_funcs.values(), strict=True)), named


def critics_and_optimizers(args: Mapping[str, Any]) -> tuple[dict[str, nn.Module], dict[str, torch.optim.Optimizer]]:
    """Call `numbered` with the arguments `q_func1`, `q_func2`, `further_q_funcs` and their optimisers.

    If `q_func1` is an ensemble, `q_func2` and its optimiser may be None.

    Args:
        args: `locals()` of the agent's constructor.
    """
    q_funcs = {name: args[name] for name in ("q_func1", "q_func2")}
    optimizers = {f"{name}_optimizer": args[f"{name}_optimizer"] for name in q_funcs}
    no_second = args["q_func2"] is None and args["q_func2_optimizer"] is None
    if no_second and isinstance(args["q_func1"], QFunctionEnsemble):
        del q_funcs["q_func2"], optimizers["q_func2_optimizer"]
    q_funcs |= listed("further_q_funcs", args["further_q_funcs"])
    return numbered(q_funcs, optimizers | listed("further_q_func_optimizers", args["further_q_func_optimizers"]))
