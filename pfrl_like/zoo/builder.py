"""Helpers of all builders: the spaces of an environment, and the call of an agent's constructor."""

import dataclasses
import inspect
import itertools
from collections.abc import Callable
from typing import Any

from pfrl_like.utils.checks import check_numbers
from pfrl_like.utils.env_values import action_size_of, space_kind
from pfrl_like.zoo.composition import Call, evaluate, parts, variable
from pfrl_like.zoo.names import resolve


@dataclasses.dataclass(frozen=True)
class Spaces:
    """Spaces of an environment.

    Attributes:
        obs: Observation space.
        action: Action space.
    """

    obs: Any
    action: Any

    def n_actions(self) -> int:
        """Return the number of discrete actions.

        Raises:
            ValueError: If the actions are not Discrete.
        """
        if space_kind(self.action) != "discrete":
            raise ValueError(f"the action space is {self.action}, expected Discrete")
        return action_size_of(self.action)

    def action_size(self) -> int:
        """Return the length of an action vector.

        Raises:
            ValueError: If the actions are not a Box with one axis.
        """
        if space_kind(self.action) != "box":
            raise ValueError(f"the action space is {self.action}, expected a Box of one axis")
        return action_size_of(self.action)


def compose_agent(name: str, **arguments: Any) -> Call:
    """Return the call of an agent's constructor. Arguments that are calls get variables with their names.

    Args:
        name: Class of the agent.
        **arguments: Arguments of the constructor. The parts that it requires come first, in its order.
    """
    parameters = inspect.signature(resolve(f"agents.{name}")).parameters
    for key, value in arguments.items():
        variable(key, value)
    is_first = lambda key: key in arguments and _is_required_by_position(parameters[key])  # noqa: E731
    required = [*itertools.takewhile(is_first, parameters)]
    others = {key: arguments[key] for key in [*parameters, *arguments] if key in arguments and key not in required}
    agent: Call = getattr(parts.agents, name)(*[arguments[key] for key in required], **others)
    return agent


def named_arguments(agent: Call) -> dict[str, Any]:
    """Return the arguments of an agent's call, by name."""
    names = inspect.signature(evaluate(agent._function, {})).parameters
    return {**dict(zip(names, agent._args, strict=False)), **agent._kwargs}


def _is_required_by_position(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY


def make_buffer(
    capacity: int | None, num_steps: int = 1, recurrent: bool = False, by_length: bool = True, prioritized: Any = None
) -> Any:
    """Return a replay buffer.

    Args:
        capacity: Maximum number of steps. None for no limit.
        num_steps: Number of steps of n-step returns. A buffer of episodes leaves them to the agent.
        recurrent: True for a buffer of episodes.
        by_length: True to draw episodes in proportion to their lengths.
        prioritized: Arguments of a prioritised buffer. None for a uniform one.
    """
    buffers = parts.replay_buffers
    if recurrent and prioritized:
        return buffers.PrioritizedEpisodicReplayBuffer(capacity, **prioritized)
    if recurrent:
        return buffers.EpisodicReplayBuffer(capacity, by_length=by_length)
    if prioritized:
        return buffers.PrioritizedReplayBuffer(capacity, num_steps=num_steps, **prioritized)
    return buffers.ReplayBuffer(capacity, num_steps)


def make_adam(params: Any, lr: float, eps: float = 1e-8, betas: Any = (0.9, 0.999), lr_factor: float = 1.0) -> Any:
    """Return Adam.

    Args:
        params: Parameters of a module, or parameter groups.
        lr: Learning rate.
        eps: Epsilon.
        betas: Coefficients of the two running averages.
        lr_factor: Factor of the learning rate of these parameters. A schedule of the learning rate keeps it.
    """
    if lr_factor != 1:
        params = [{"params": params, "lr": lr * lr_factor, "lr_factor": lr_factor}]
    check_numbers(0.0, lr=lr)
    options: dict[str, Any] = {} if eps == 1e-8 else {"eps": eps}
    options |= {} if tuple(betas) == (0.9, 0.999) else {"betas": tuple(betas)}
    return parts.torch.optim.Adam(params, lr=lr, **options)


def add_module(
    arguments: dict[str, Any], name: str, optimizer: str, make: Callable[[], Any], adam: Callable[[Any], Any]
) -> None:
    """Add a module and its optimiser to the arguments of an agent, unless these contain them.

    Args:
        arguments: Arguments of the agent.
        name: Argument of the module. Where it is None, the optimiser is None, too.
        optimizer: Argument of the optimiser.
        make: Function that returns the module.
        adam: Function that returns the optimiser of parameters.
    """
    if name not in arguments:
        arguments[name] = make()
    module = variable(name, arguments[name])
    if optimizer not in arguments:
        arguments[optimizer] = variable(optimizer, None if module is None else adam(module.parameters()))
