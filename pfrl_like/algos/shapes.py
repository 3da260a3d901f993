"""Which observations and actions fit an algorithm: what estimators and fitted Q evaluation have in common."""

from typing import Any

from pfrl_like.env import as_gymnasium
from pfrl_like.utils.spaces import action_size_of, space_kind


def shapes_of_env(algo: Any, env: Any) -> tuple[tuple[int, ...], int]:
    """Shape of an environment's observations, and numbers of an action or how many discrete actions there are.

    Args:
        algo: What is to act there: `discrete_action` tells the kind of its actions, `instead` what has the other kind.
        env: The environment.

    Raises:
        TypeError: If it is none, or its actions are of another kind.
        ValueError: If they are no vectors.
    """
    adapted = as_gymnasium(env)
    kind, wanted = ("discrete", "Discrete") if algo.discrete_action else ("box", "a Box")
    if space_kind(adapted.action_space) != kind:
        got = f"got {adapted.action_space}{_way_out(algo)}"
        raise TypeError(f"{type(algo).__name__} needs an environment whose actions are {wanted}, {got}")
    return tuple(adapted.observation_space.shape), action_size_of(adapted.action_space)


def check_action_kind(algo: Any, discrete_action: bool) -> None:
    """Refuse data of another kind of actions than an algorithm's.

    Raises:
        TypeError: If it is another one.
    """
    if discrete_action != algo.discrete_action:
        kinds = {True: "discrete", False: "continuous"}
        raise TypeError(
            f"{type(algo).__name__} has {kinds[algo.discrete_action]} actions, but the episodes have "
            f"{kinds[discrete_action]} ones{_way_out(algo)}"
        )


def _way_out(algo: Any) -> str:
    return f": use {algo.instead}" if hasattr(algo, "instead") else ""


def check_built_for(
    algo: Any, built: tuple[int, ...] | None, size: int | None, observation_shape: Any, action_size: int
) -> None:
    """Refuse observations and actions of other shapes than those that an algorithm was built for.

    Args:
        algo: The algorithm.
        built: The shape of its observations; None for an agent of the user's own, which takes what it takes.
        size: Numbers of its actions, or how many there are.
        observation_shape: Shape of an observation that came.
        action_size: The same of the actions that came; fewer discrete ones may occur than there are.

    Raises:
        ValueError: If they differ.
    """
    if built is None or size is None:
        return
    if tuple(observation_shape) != built or action_size > size or (action_size < size and not algo.discrete_action):
        raise ValueError(
            f"observations {tuple(observation_shape)} and actions of size {action_size} came, but "
            f"{type(algo).__name__} was built for {built} and {size}"
        )


def check_as_many(obs: Any, actions: Any) -> None:
    """Refuse another number of actions than of observations.

    Raises:
        ValueError: If they differ.
    """
    if len(actions) != len(obs):
        raise ValueError(f"there are {len(obs)} observations in x and {len(actions)} actions, expected as many")
