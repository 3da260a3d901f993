"""Helpers of all builders: the spaces of an environment, and the call of an agent's constructor."""

import dataclasses
import inspect
import itertools
from typing import Any

from pfrl_like.utils.env_values import action_size_of, space_kind
from pfrl_like.zoo.composition import Call, parts, variable
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

    def numbers_of_choices(self) -> list[int]:
        """Return the number of choices in each dimension of the actions.

        Raises:
            ValueError: If the actions are neither MultiDiscrete nor MultiBinary of one axis.
        """
        kind = space_kind(self.action)
        if kind not in ("multi_discrete", "multi_binary") or len(self.action.shape) != 1:
            raise ValueError(f"the action space is {self.action}, expected a MultiDiscrete or MultiBinary of one axis")
        return [int(n) for n in self.action.nvec] if kind == "multi_discrete" else [2] * self.action.shape[0]


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
    return getattr(parts.agents, name)(*[arguments[key] for key in required], **others)


def _is_required_by_position(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY
