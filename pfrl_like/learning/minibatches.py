"""Minibatches of what was collected, in random order; the numbers are drawn from NumPy's global stream."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfrl_like.batch import Batch, map_nested
from pfrl_like.learning.rollout import Episodes

Rows = NDArray[np.int64]


def everything(episodes: Episodes, max_len: int | None = None) -> Batch:
    """All steps as one minibatch, of sequences of at most `max_len` steps if there are recurrent states."""
    if episodes.states is None:
        return episodes.steps
    return sequences(episodes, *pieces(episodes.lengths, max_len))


def one_by_one(episodes: Episodes) -> Iterator[Batch]:
    """Each episode as a minibatch, of one sequence if there are recurrent states."""
    begin = np.cumsum(episodes.lengths) - episodes.lengths
    for start, length in zip(begin, episodes.lengths, strict=True):
        if episodes.states is None:
            yield episodes.steps[start : start + length]
        else:
            yield sequences(episodes, np.array([start]), np.array([length]))


def shuffled(episodes: Episodes, size: int, epochs: int, max_len: int | None = None) -> Iterator[Iterator[Batch]]:
    """The minibatches of each epoch, of sequences if there are recurrent states.

    Args:
        episodes: All steps.
        size: Steps of a minibatch.
        epochs: How many.
        max_len: Steps of the longest sequence; None for whole episodes.
    """
    if episodes.states is None:
        return shuffled_steps(episodes.steps, size, epochs)
    return shuffled_sequences(episodes, size, epochs, max_len)


def shuffled_steps(steps: Batch, size: int, epochs: int) -> Iterator[Iterator[Batch]]:
    """The minibatches of each epoch; all have `size` steps, the last one's with those of the next shuffling.

    So over all epochs there are as many minibatches as cover each step `epochs` times.

    Args:
        steps: All steps, which are no sequences.
        size: Steps of a minibatch.
        epochs: How often each step comes, but for those that fill the very last minibatch.
    """
    n = len(steps)
    left = np.zeros(0, np.int64)
    for epoch in range(1, epochs + 1):
        wanted = size * (-(-n * epoch // size) - -(-n * (epoch - 1) // size))
        while len(left) < wanted:
            left = np.concatenate([left, np.random.permutation(n)])
        rows, left = left[:wanted], left[wanted:]
        yield _split(steps, torch.from_numpy(rows).to(steps.reward.device), size)


def _split(steps: Batch, rows: Tensor, size: int) -> Iterator[Batch]:
    """Minibatches of `size` of the rows each."""
    if len(rows) == 0:
        return
    chosen = steps[rows]
    columns = {name: getattr(chosen, name) for name in Batch.__slots__ if getattr(chosen, name) is not None}
    nested = {name: columns.pop(name) for name in [*columns] if not isinstance(columns[name], Tensor)}
    parts = [column.split(size) for column in columns.values()]
    absent: dict[str, Any] = {"next_obs": None}
    for i, values in enumerate(zip(*parts, strict=True)):
        place = slice(i * size, (i + 1) * size)
        others = {name: map_nested(lambda leaf: leaf[place], value) for name, value in nested.items()}  # noqa: B023
        yield Batch(**{**absent, **others, **dict(zip(columns, values, strict=True))})


def shuffled_sequences(
    episodes: Episodes, size: int, epochs: int, max_len: int | None = None
) -> Iterator[Iterator[Batch]]:
    """The minibatches of each epoch, of sequences with `size` steps together.

    The sequences are in random order, one after the other, and cut where a minibatch is full. What does not fill a
    minibatch is left out, unless nothing else is there.

    Args:
        episodes: All steps.
        size: Steps of a minibatch.
        epochs: How many.
        max_len: Steps of the longest sequence; None for whole episodes.
    """
    begin, length = pieces(episodes.lengths, max_len)
    size = min(size, len(episodes))
    for _ in range(epochs):
        order = np.random.permutation(len(begin))
        yield (sequences(episodes, *chosen) for chosen in _filled(begin[order], length[order], size))


def pieces(lengths: Rows, max_len: int | None) -> tuple[Rows, Rows]:
    """First rows and lengths of the sequences that come of cutting episodes after every `max_len` steps."""
    begin = np.cumsum(lengths) - lengths
    if max_len is None:
        return begin, lengths
    counts = -(-lengths // max_len)
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    left = np.repeat(lengths, counts) - max_len * number
    return np.repeat(begin, counts) + max_len * number, np.minimum(left, max_len)


def sequences(episodes: Episodes, begin: Rows, lengths: Rows) -> Batch:
    """The sequences that begin in these rows, packed, with the recurrent states before their first steps."""
    order = np.argsort(-lengths, kind="stable")
    begin, lengths = begin[order], lengths[order]
    step = np.arange(lengths[0])[:, None]
    rows = (begin + step)[step < lengths]
    device = episodes.steps.reward.device
    first = torch.from_numpy(begin).to(device)
    return episodes.steps[torch.from_numpy(rows).to(device)].replace(
        lengths=torch.from_numpy(lengths),
        recurrent_state=map_nested(lambda state: state[first].movedim(0, 1).contiguous(), episodes.states),
    )


def _filled(begin: Rows, length: Rows, size: int) -> Iterator[tuple[Rows, Rows]]:
    """First rows and lengths of the sequences of each minibatch, which are cut where it is full."""
    stop = np.cumsum(length)
    for full in range(size, int(stop[-1]) + 1, size):
        first, last = np.searchsorted(stop, full - size, "right"), np.searchsorted(stop, full, "left")
        chosen_begin, chosen_length = begin[first : last + 1].copy(), length[first : last + 1].copy()
        skipped = full - size - (stop[first] - length[first])
        chosen_begin[0] += skipped
        chosen_length[0] -= skipped
        chosen_length[-1] -= stop[last] - full
        yield chosen_begin, chosen_length
