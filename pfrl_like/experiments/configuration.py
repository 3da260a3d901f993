"""What a run is made of: told in every checkpoint, so that one made otherwise is noticed when it goes on."""

import inspect
import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from torch.optim import Optimizer

from pfrl_like.envs.env_states import layers_of
from pfrl_like.experiments.run_buffers import buffers_of
from pfrl_like.utils.plain_values import from_json
from pfrl_like.utils.spaces import space_kind

_LONGEST = 300  # characters of a description
_OF_BUFFERS = ("capacity", "num_steps")
_SPACES = ("observation_space", "action_space")
_OF_ENVS = ("num_envs", *_SPACES)


class Configuration:
    """A part of a run (see `loop.Resumable`) that remembers how the others were made.

    It has to be made before anything is loaded or learnt. What changes meanwhile is no part of it. The agent
    itself compares its weights.

    Args:
        agent: Its class, its numbers, flags and names that learning leaves alone, those of its explorer, and its
            optimisers' hyperparameters.
        env: Its wrappers, the name it is registered by, its spaces.
        source: May hold replay buffers, of which the classes, capacities and steps count, as of the agent's.
    """

    def __init__(self, agent: Any, env: Any, source: Any) -> None:
        self._tell = partial(_description, agent, env, buffers_of(agent, source))
        self._told = self._tell()

    def saved_state(self) -> dict[str, Any]:
        """The description."""
        now = self._tell()
        self._told = {name: value for name, value in self._told.items() if now.get(name) == value}
        return {"told": self._told}

    def restore_state(self, state: Mapping[str, Any]) -> list[str]:
        """Say what was made otherwise."""
        return [*self._otherwise(state["told"])]

    def check_env(self, told: Mapping[str, Any]) -> None:
        """Refuse what belongs to an environment with spaces of another form.

        Args:
            told: What `told_in` gave.

        Raises:
            ValueError: Saying which they were, and are.
        """
        forms = {name: told[name] for name in map(_form_of, _SPACES) if told.get(name) and self._told.get(name)}
        if reasons := [*self._otherwise(forms)]:
            raise ValueError(f"it belongs to another environment: {'; '.join(reasons)}")

    def _otherwise(self, told: Mapping[str, Any]) -> Iterator[str]:
        for name, before in told.items():
            if self._told.get(name) != before:
                yield f"{name} was {before!r:.100} and is {self._told.get(name)!r:.100}"


def told_in(state: Mapping[str, Any]) -> dict[str, Any]:
    """The description in the state of a whole run; empty if there is none."""
    own = state["parts"].get(Configuration.__name__)
    return {} if own is None else dict(from_json(own)["told"])


def _description(agent: Any, env: Any, buffers: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in _of_all(agent, env, buffers)}


def _of_all(agent: Any, env: Any, buffers: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "agent", type(agent).__name__
    explorer = getattr(agent, "explorer", None)
    for owner, name in ((agent, ""), (explorer, "explorer.")):
        yield from ((name + each, value) for each, value in _constants_of(owner))
    for name, optimizer in _optimizers_of(agent).items():
        yield name, type(optimizer).__name__
        for number, group in enumerate(optimizer.param_groups):
            yield from ((f"{name}[{number}].{each}", value) for each, value in group.items() if each != "params")
    for name, buffer in buffers.items():
        yield name, type(buffer).__name__
        yield from ((f"{name}.{each}", getattr(buffer, each, None)) for each in _OF_BUFFERS)
    layers = list(layers_of(env))
    yield "env", [type(layer).__name__ for layer in layers]
    yield "env.spec", getattr(getattr(env, "spec", None), "id", None)
    yield from ((f"env.{each}", str(getattr(env, each, None))[:_LONGEST]) for each in _OF_ENVS)
    yield from ((_form_of(each), _form(getattr(env, each, None))) for each in _SPACES)


def _form_of(space: str) -> str:
    return f"form of env.{space}"


def _form(space: Any) -> str | None:
    """What networks are made for; None of what is neither a box nor discrete."""
    kind = space_kind(space)
    if kind == "box":
        return f"a box of shape {space.shape}"
    return f"{space.n} numbers" if kind == "discrete" else None


def _constants_of(owner: Any) -> Iterator[tuple[str, Any]]:
    """Plain attributes of an object that are not saved with it, and tell how it was made.

    Those that begin as its class says, and are no argument, tell what it has been through: `training` of an agent.
    """
    kind, arguments = type(owner), _arguments_of(type(owner))
    saved = {"t", *getattr(kind, "saved_attributes", ())}
    for name, value in getattr(owner, "__dict__", {}).items():
        was_given = name in arguments or not hasattr(kind, name)
        if was_given and not name.startswith("_") and name not in saved and isinstance(value, bool | int | float):
            yield name, value


def _arguments_of(kind: type) -> set[str]:
    """The names of what the constructors of a class, and of those that it comes of, take."""
    constructors = filter(inspect.isfunction, (vars(each).get("__init__") for each in kind.__mro__))
    return {name for constructor in constructors for name in inspect.signature(constructor).parameters}


def _optimizers_of(agent: Any) -> dict[str, Optimizer]:
    names = [*getattr(agent, "__dict__", {}), *getattr(type(agent), "saved_attributes", ())]
    found = {name: getattr(agent, name, None) for name in names}
    return {name: value for name, value in found.items() if isinstance(value, Optimizer)}


def _plain(value: Any) -> Any:
    """A value that is equal to itself after it was written as JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, bool | int | float | str | None) else str(value)[:_LONGEST]
