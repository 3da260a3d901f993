"""What a replay buffer holds, as a table."""

from typing import Any, Protocol

import numpy as np

from pfrl_like.columns import Columns, Indices
from pfrl_like.dataset.conventions import assembled, log_probs_of
from pfrl_like.dataset.table import Table, joined


class Buffer(Protocol):
    """What a dataset can be made of: the library's replay buffers."""

    def stored_steps(self) -> tuple[Columns, Indices]:
        """The store and the rows of all steps in it."""


def table_from_buffer(buffer: Buffer) -> tuple[Table, bool]:
    """A copy of a buffer's steps, and whether their actions are discrete.

    Episodes that run are cut off. Where a step's next observation is not what the step after it began with, an episode
    ends, cut off with the former; and where a stored step was made terminal.

    Raises:
        ValueError: If the buffer is empty, or its actions are no numbers.
        TypeError: If it is none of the library's.
    """
    if not hasattr(buffer, "stored_steps"):
        raise TypeError(f"buffer: got a {type(buffer).__name__}, expected one of pfrl_like.replay_buffers")
    columns, rows = buffer.stored_steps()
    if not len(rows) or columns.obs is None or columns.action is None:
        raise ValueError("buffer: got an empty one, expected at least one transition")
    action = columns.action.plain
    if action is None or action.dtype.kind not in "biuf" or action.ndim > 2:
        raise ValueError("buffer: expected actions that are numbers or vectors of numbers")
    rows, ends = in_episodes(columns, rows)
    at, following = columns.obs_row[rows], columns.next_row[rows]
    told = following[ends] != at[ends]
    terminal = columns.terminal[rows[ends]]
    chosen = action.take(rows, 0)
    discrete = action.ndim == 1 and action.dtype.kind != "f"
    chosen = chosen.astype(np.int64) if discrete else chosen.reshape(len(chosen), -1)
    extended = told | terminal
    # A state that was not told is, as elsewhere, shown as the one before.
    end_obs = following[ends][extended]
    held = columns.further(rows).get("log_prob")
    table = assembled(
        columns.obs, chosen, columns.reward[rows], terminal, ends, extended, obs_row=at, end_obs=end_obs,
        log_prob=None if held is None else log_probs_of("log_prob", held, len(rows), discrete),
    )  # fmt: skip
    return joined([table.with_end_obs_unknown(~told & terminal)]), discrete


def in_episodes(columns: Columns, rows: Indices) -> tuple[Indices, Indices]:
    """The same rows episode by episode, in the order of their first steps, and the places of the last ones."""
    count = len(rows)
    place = np.full(columns.steps.size, -1, np.int64)
    place[rows] = np.arange(count)
    successor = columns.successor[rows]
    after = np.where(successor > 0, place[np.maximum(successor, 0)], -1)
    linked = after >= 0
    linked[linked] = columns.next_row[rows[linked]] == columns.obs_row[rows[after[linked]]]
    linked &= ~columns.terminal[rows]  # a step in mid-episode may have been made terminal
    head, depth = np.arange(count), np.zeros(count, np.int64)
    head[after[linked]] = np.flatnonzero(linked)
    depth[after[linked]] = 1
    while (head[head] != head).any():  # each round doubles the distance looked back
        depth += depth[head]
        head = head[head]
    order = np.lexsort((depth, head))
    last = np.append(head[order][1:] != head[order][:-1], True)
    return rows[order], np.flatnonzero(last)


def episodes_of(table: Table) -> list[Any]:
    """The rows of each episode's steps; episodes without a step are left out."""
    return np.split(table.steps, np.cumsum(table.lengths[table.lengths > 0])[:-1]) if len(table.steps) else []
