"""The transitions of episodes in minibatches, of which scores are means."""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.dataset import Episode, TransitionMiniBatch
from pfrl_like.dataset.episode import listed
from pfrl_like.dataset.transition import Transitions
from pfrl_like.metrics.misuse import check_scored
from pfrl_like.utils.checks import check_counts


def scored_episodes(episodes: Any) -> list[Episode]:
    """The episodes given, or those of a dataset, which can be gone through several times.

    Raises:
        ValueError: If there is no transition.
        TypeError: If something is no episode.
    """
    if episodes is None:
        raise TypeError("episodes is None, expected episodes or a dataset: give some to fit as eval_episodes")
    return listed(episodes)


def minibatches(
    episodes: Iterable[Episode],
    window_size: int,
    n_frames: int = 1,
    *,
    first_only: bool = False,
    told_next: bool = False,
) -> Iterator[TransitionMiniBatch]:
    """The transitions in order, `window_size` at a time; a minibatch may span several episodes of one dataset.

    Args:
        episodes: The episodes, or a dataset.
        window_size: Transitions of a minibatch.
        n_frames: How many images are stacked.
        first_only: Take the first transition of each episode only.
        told_next: Leave out transitions into terminal states that nobody told.

    Raises:
        ValueError: If `window_size` is less than 1, or there is no transition.
        TypeError: If something is no episode.
    """
    check_counts(window_size=window_size)
    for _, group in groupby(scored_episodes(episodes), key=lambda episode: id(episode.table)):
        own = list(group)
        table, action_size = own[0].table, own[0].get_action_size()
        all_rows = np.concatenate([episode.steps[: 1 if first_only else None] for episode in own])
        all_rows = all_rows[np.isin(all_rows, table.told_steps)] if told_next else all_rows
        for start in range(0, len(all_rows), window_size):
            rows = all_rows[start : start + window_size]
            yield TransitionMiniBatch.of_rows(Transitions(table, rows, action_size), table, rows, n_frames)


def measured(
    model: Any,
    episodes: Iterable[Episode],
    window_size: int,
    measure: Callable[[TransitionMiniBatch], Any],
    *,
    first_only: bool = False,
    told_next: bool = False,
) -> NDArray[Any]:
    """What is measured of each transition, [N, ...], in order.

    Args:
        model: An algorithm or a dynamics model; its `n_frames`, if it has one, says how many images are stacked.
        episodes: The episodes, or a dataset.
        window_size: Transitions of a minibatch.
        measure: Gives it of a minibatch, [B, ...].
        first_only: Take the first transition of each episode only.
        told_next: Leave out transitions into terminal states that nobody told.

    Raises:
        ValueError: If the episodes have no transition, or `window_size` is less than 1.
        TypeError: If something is no episode, or `model` predicts nothing.
    """
    check_scored(model)
    options = {"first_only": first_only, "told_next": told_next}
    windows = minibatches(episodes, window_size, getattr(model, "n_frames", 1), **options)
    found = [np.asarray(measure(window)) for window in windows]  # one at a time, which may be images
    if not found:
        raise ValueError("of no transition of the episodes the next observation was told, so that nothing is measured")
    return np.concatenate(found)


def mean(values: Any) -> float:
    """The mean in double precision."""
    return float(np.mean(values, dtype=np.float64))


def has_discrete_actions(batch: TransitionMiniBatch) -> bool:
    """Whether the actions are indices."""
    return batch.actions.ndim == 1
