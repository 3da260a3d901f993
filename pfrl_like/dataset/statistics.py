"""Mean, standard deviation and range of what a dataset holds."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns import Indices
from pfrl_like.dataset.table import NO_ACTION, NO_OBS, NO_REWARD, Table

_CHUNK_ROWS = 1 << 16
_CHUNK_BYTES = 1 << 26


def statistics(table: Table, discrete: bool) -> dict[str, dict[str, Any]]:
    """Those of returns, rewards, continuous actions and array observations, over what was told of each."""
    episode = table.episode[1:] if len(table.lengths) else table.episode
    returns = np.bincount(episode, weights=table.reward, minlength=len(table.lengths))
    rewards = np.delete(table.previous_reward, table.starts[(table.made_up & NO_REWARD) > 0] - 1)
    found = {"return": _moments_of(returns)}
    if len(rewards):
        found["reward"] = _moments_of(rewards)
    if not discrete:
        found["action"] = _moments_of(table.action[told_rows(table, NO_ACTION) - 1])
    if table.is_array:
        rows = told_rows(table, NO_OBS)
        found["observation"] = moments(lambda: chunks(table, rows))
    return found


def told_rows(table: Table, bit: int) -> Indices:
    """The rows in which something is known: all but the last ones of the episodes that lack it."""
    return np.delete(np.arange(1, table.n_rows + 1), table.ends[(table.made_up & bit) > 0] - 1)


def chunks(table: Table, rows: Indices) -> Iterator[NDArray[Any]]:
    """The array observations of these rows, so many at a time that they take little memory."""
    row_bytes = int(np.prod(table.obs_shape)) * table.obs.leaves[0].dtype.itemsize
    size = max(1, min(_CHUNK_ROWS, _CHUNK_BYTES // max(1, row_bytes)))
    for start in range(0, len(rows), size):
        yield table.observations(rows[start : start + size])


def _moments_of(values: NDArray[Any]) -> dict[str, Any]:
    found = moments(lambda: iter([values]))
    return {name: value if np.ndim(value) else float(value) for name, value in found.items()}


def moments(parts: Callable[[], Iterator[NDArray[Any]]]) -> dict[str, Any]:
    """Mean, std, min and max along the first axis of arrays that come part by part, in two passes."""
    total: Any = 0.0
    count = 0
    low: Any = None
    high: Any = None
    for part in parts():
        total = total + part.sum(0, dtype=np.float64)
        count += len(part)
        low = part.min(0) if low is None else np.minimum(low, part.min(0))
        high = part.max(0) if high is None else np.maximum(high, part.max(0))
    mean = total / count
    squares: Any = 0.0
    for part in parts():
        squares = squares + np.square(part - mean).sum(0)
    return {"mean": mean, "std": np.sqrt(squares / count), "min": low, "max": high}
