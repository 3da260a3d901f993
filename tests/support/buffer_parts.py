"""Steps whose observations and rewards are their numbers, and buffers of them."""

from typing import Any

import numpy as np

from pfrl_like.replay_buffers import ReplayBuffer


def step(i: int, terminal: bool = False, **extra: Any) -> dict[str, Any]:
    """The arguments of `append`."""
    states = {"state": np.full(2, i, np.float32), "next_state": np.full(2, i + 1, np.float32)}
    return states | {"action": i % 3, "reward": float(i), "is_state_terminal": terminal} | extra


def append(buffer: Any, i: int, terminal: bool = False, **extra: Any) -> None:
    buffer.append(**step(i, terminal, **extra))


def filled(n: int, *args: Any, kind: Any = ReplayBuffer, **kwargs: Any) -> Any:
    """A buffer of the kind with n steps of an episode that goes on."""
    buffer = kind(*args, **kwargs)
    for i in range(n):
        append(buffer, i)
    return buffer


def rewards(items: Any) -> list[list[float]]:
    return [[one["reward"] for one in item] for item in items]
