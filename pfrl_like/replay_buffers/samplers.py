"""Which part of an episode to sample."""

import numpy as np
from numpy.typing import NDArray

from pfrl_like.utils.random import RandomSource

Indices = NDArray[np.int64]


def subsequences(
    lengths: Indices, max_len: int | None, held: NDArray[np.bool_] | None, rng: RandomSource = None
) -> tuple[Indices, Indices]:
    """Cut each of several episodes at random to at most `max_len` steps.

    Without `held`, a long episode's part begins at any of the steps from which it has full length, all equally likely.
    With `held`, it begins at one of those that hold a recurrent state, the episode's first step counting as one; where
    no such part reaches the episode's end, the next step that holds a state may be the beginning of a shorter part.

    Args:
        lengths: Lengths of the episodes, shape [B].
        max_len: Greatest length of a part; None takes whole episodes.
        held: For every step, episode after episode, whether it holds a recurrent state, shape [sum(lengths)].
        rng: Source of randomness; None is the global NumPy stream.

    Returns:
        Where the parts begin, counted from the beginning of their episodes, and their lengths, each of shape [B].
    """
    if max_len is None or not len(lengths) or max_len >= lengths.max():
        return np.zeros(len(lengths), np.int64), lengths
    latest = np.maximum(lengths - max_len, 0)
    source = np.random if rng is None else rng
    draw = source.random(len(lengths))
    whole = (draw * (latest + 1)).astype(np.int64)
    starts = whole if held is None else _held_starts(draw, lengths, latest, held)
    return starts, np.minimum(lengths - starts, max_len)


def _held_starts(draw: NDArray[np.float64], lengths: Indices, latest: Indices, held: NDArray[np.bool_]) -> Indices:
    begins = np.cumsum(lengths) - lengths
    step = np.arange(len(held)) - np.repeat(begins, lengths)
    held = held | (step == 0)
    end = np.repeat(latest, lengths)
    first_covering_end = np.minimum.reduceat(np.where(held & (step >= end), step, np.repeat(lengths, lengths)), begins)
    allowed = held & (step <= np.repeat(first_covering_end, lengths))
    counts = np.add.reduceat(allowed, begins, dtype=np.int64)
    chosen = np.cumsum(counts) - counts + (draw * counts).astype(np.int64)
    starts: Indices = step[np.flatnonzero(allowed)[chosen]]
    return starts
