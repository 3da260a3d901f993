"""Append of chunks: many steps of several environments at once, with the same result as one append per step."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.batch import first_leaf, map_nested
from pfrl_like.columns.columns import Columns
from pfrl_like.columns.field import Extra, Field
from pfrl_like.columns.frame_stacks import FrameStacks
from pfrl_like.columns.leaves import Rows
from pfrl_like.columns.steps import ENDED, OPTIONAL, RUNNING, Indices, Running
from pfrl_like.utils.checks import LARGEST_REWARD, reward_out_of_range

Bools = NDArray[np.bool_]
#: Numbers of the previous step and of the next step of the same episode, or -1, each [N].
_Links = tuple[Indices, Indices]


@dataclasses.dataclass(frozen=True)
class StepColumns:
    """N steps of several environments, in the order in which they are stored.

    Attributes:
        obs: All observations, nested arrays [n, ...] or `FrameStacks`.
        obs_index: Number of each step's observation in `obs`, [N].
        next_index: Number of each step's next observation in `obs`, [N]. The steps of an episode share it with the
            observation of the next step.
        action: Actions, an array [N, ...], or an array of N objects.
        reward: Rewards, [N].
        terminal: True where the step is terminal, [N].
        ended: True for the last steps of episodes, [N].
        env: Number of each step's environment, [N].
        env_ids: Ids of the environments, indexed by `env`.
        extra: Extra columns, arrays [N, ...]. In arrays of objects, None means that the step has no value.
    """

    obs: Any
    obs_index: Indices
    next_index: Indices
    action: Any
    reward: NDArray[Any]
    terminal: Bools
    ended: Bools
    env: Indices
    env_ids: Sequence[Any]
    extra: Mapping[str, Any]

    @property
    def links(self) -> _Links:
        """For each step the number of the previous step and of the next step of its episode, or -1; both [N]."""
        order = np.argsort(self.env, kind="stable")
        is_last = self.ended[order]
        is_last |= np.diff(self.env[order], append=-1) != 0
        links = np.full((2, len(order)), -1)
        later = order[1:][~is_last[:-1]]
        earlier = order[:-1][~is_last[:-1]]
        links[0, later], links[1, earlier] = earlier, later
        return links[0], links[1]


def append_steps(columns: Columns, steps: StepColumns) -> Indices:
    """Store steps and end their episodes. The result is the same as of one `Columns.append` per step.

    The lists `waiting` of the running episodes that the steps begin are empty.

    Returns:
        The rows of the steps, [N].

    Raises:
        NonFiniteError: If a reward is NaN, infinite or too large for float32. Nothing is stored.
        ValueError: If a value has a different structure, shape or dtype than in the first step. Nothing is stored.
    """
    leaves, actions, extras = _check(columns, steps)
    links = previous, following = steps.links
    begins = np.flatnonzero(previous < 0)
    first_of = dict(zip(steps.env[begins[::-1]].tolist(), begins[::-1].tolist(), strict=True))
    firsts = np.array([*first_of.values()], np.int64)  # first step of each environment
    runs = [columns.running.get(steps.env_ids[env]) for env in steps.env[firsts]]
    rows = columns.steps.take(len(steps.env))
    at, next_at = _put_observations(columns, steps, leaves, links, firsts, runs)
    assert columns.action is not None
    columns.action.put_many(rows, actions, rows)
    columns.reward[rows] = steps.reward
    columns.terminal[rows] = steps.terminal
    columns.obs_row[rows], columns.next_row[rows] = at, next_at
    columns.successor[rows] = np.where(steps.ended, ENDED, np.where(following < 0, RUNNING, rows[following]))
    tails = np.where(previous < 0, 0, rows[previous])
    for step, run in zip(firsts.tolist(), runs, strict=True):
        if run is not None and run.tail:
            columns.successor[run.tail] = rows[step]
            tails[step] = run.tail
    if len(columns.predecessor):
        columns.predecessor[rows] = tails
    for name, extra in columns.extras.items():
        if name in extras:
            extra.put_column(rows, extras[name])
        elif name in OPTIONAL:
            extra.index[rows] = 0
    _update_running(columns, steps, rows, next_at, links)
    return rows


def _check(columns: Columns, steps: StepColumns) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """Return the checked leaves of the observations and actions, and the checked extra columns."""
    reward = np.abs(steps.reward)
    if not reward.max(initial=0.0) <= LARGEST_REWARD:
        raise reward_out_of_range(steps.reward[np.argmax(~(reward <= LARGEST_REWARD))])
    columns._check_names(steps.extra)
    new = [name for name in steps.extra if name not in columns.extras]
    for name in new:
        Extra(Rows(), name).check_column(steps.extra[name])  # checked before the column is added
    obs, count = map_nested(_listed, steps.obs), len(first_leaf(steps.obs))
    action = _listed(steps.action)

    def leaves_of(field: Field) -> list[Any]:
        return columns.check_or_widen(lambda: field.check_many(obs, count, "obs"))

    obs_field, action_field, first = columns.obs, columns.action, None
    if obs_field is None or action_field is None:  # the first step defines the columns, after all checks
        first = _first(obs), action[0]
        obs_field = Field.like(Rows(), first[0], strict=True, frames=True)
        action_field = Field.like(Rows(), first[1], strict=False)
    leaves = leaves_of(obs_field)
    actions = action_field.check_many(action, len(steps.env), "action")
    for name in new:
        columns.add_extra(name)
    extras = {name: columns.extras[name].check_column(values) for name, values in steps.extra.items()}
    if first is not None:
        columns._checked(*first, None, steps.extra)
        assert columns.obs is not None
        leaves = leaves_of(columns.obs)
    return leaves, actions, extras


def _listed(leaf: Any) -> Any:
    """Return stacks of frames and objects as a list, other arrays unchanged."""
    if isinstance(leaf, FrameStacks):
        return leaf.stacks()
    return leaf.tolist() if leaf.dtype == object else leaf


def _first(column: Any) -> Any:
    """Return the first of nested columns, whose leaves are arrays or lists."""
    if isinstance(column, Mapping):
        return {key: _first(part) for key, part in column.items()}
    return tuple(_first(part) for part in column) if isinstance(column, tuple) else column[0]


def _picked(leaves: Sequence[Any], index: Indices) -> list[Any]:
    """Return some rows of leaves, which are arrays or lists."""
    return [[leaf[i] for i in index.tolist()] if isinstance(leaf, list) else leaf[index] for leaf in leaves]


def _put_observations(
    columns: Columns,
    steps: StepColumns,
    leaves: list[Any],
    links: _Links,
    firsts: Indices,
    runs: Sequence[Running | None],
) -> tuple[Indices, Indices]:
    """Store the observations. Return the rows of each step's observation and next observation, both [N].

    Args:
        columns: The columns.
        steps: The steps.
        leaves: Checked leaves of `steps.obs`.
        links: `steps.links`.
        firsts: The first step of each environment, [E].
        runs: The running episodes of these environments, or None; [E].
    """
    field, (previous, following) = columns.obs, links
    assert field is not None
    pending = np.array([run.pending if run else 0 for run in runs], np.int64)
    same = (pending > 0) & field.same_many(pending, _picked(leaves, steps.obs_index[firsts]))
    for run, is_same in zip(runs, same.tolist(), strict=True):
        if run is not None and run.pending and not is_same:
            if columns.is_loose(run):
                columns.free_observation(run.pending)
            else:
                field.mark_last(run.pending)
    at = np.zeros(len(steps.env), np.int64)
    at[firsts[same]] = pending[same]
    new = np.flatnonzero(at == 0)
    at[new] = columns.obs_rows.take(len(new))
    previous_at = np.where(previous < 0, 0, at[previous])
    field.put_many(at[new], _picked(leaves, steps.obs_index[new]), previous_at[new])
    next_at, last = at[following], np.flatnonzero(following < 0)
    next_at[last] = columns.obs_rows.take(len(last))
    field.put_many(next_at[last], _picked(leaves, steps.next_index[last]), at[last])
    if columns.plain is None:
        for row in next_at[last].tolist():
            field.mark_last(row)  # keep no reference to the frames of the chunk
    return at, next_at


def _update_running(columns: Columns, steps: StepColumns, rows: Indices, next_at: Indices, links: _Links) -> None:
    """Update the running episodes. They stay in the order in which they began."""
    running = columns.running
    for env in steps.env[steps.ended].tolist():
        running.pop(steps.env_ids[env], None)
    begins, ends = (np.flatnonzero(numbers < 0) for numbers in links)
    newest_begin, newest = (dict(zip(steps.env[each].tolist(), each.tolist(), strict=True)) for each in (begins, ends))
    for env in sorted(newest_begin, key=newest_begin.__getitem__):
        step = newest[env]
        if not steps.ended[step]:
            run = running.setdefault(steps.env_ids[env], Running())
            run.tail, run.pending = rows.item(step), next_at.item(step)
