"""The states of wrappers around vector environments."""

from collections.abc import Mapping, Sequence
from typing import Any

from pfrl_like.envs.env_states import is_resumable, layers_of

#: What every vector wrapper of gymnasium or ours has.
_COMMON = frozenset(("env", "action_space", "observation_space", "spec"))


def innermost(env: Any) -> Any:
    """The vector environment below all wrappers."""
    *_, found = layers_of(env)
    return found


def saved_layers(env: Any) -> list[Any]:
    """What each wrapper saves, from the outside in; None of those that save nothing."""
    *wrappers, _ = layers_of(env)
    return [layer.saved_state() if is_resumable(layer) else None for layer in wrappers]


def restore_layers(env: Any, states: Sequence[Mapping[str, Any] | None]) -> list[str]:
    """Put back what `saved_layers` gave.

    Returns:
        Why the wrappers are not as they were; nothing if they are.

    Raises:
        ValueError: If there are others.
    """
    *wrappers, _ = layers_of(env)
    reasons = []
    for layer, state in zip(wrappers, states, strict=True):
        if state is not None:
            layer.restore_state(state)
        elif {name.lstrip("_") for name in vars(layer)} - _COMMON:
            reasons.append(f"nothing is known of what {type(layer).__name__} remembers")
    return reasons


def reasons_of(arrivals: Sequence[Any]) -> list[str]:
    """Why environments have not come to where they were."""
    return [f"environment {i}: {arrival.reason}" for i, arrival in enumerate(arrivals) if not arrival.exact]


def not_recorded(env: Any) -> str:
    """What to say of a vector environment that cannot be recorded."""
    return f"nobody knows how the episodes in a {type(env).__name__} come about"
