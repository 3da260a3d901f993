"""Storage for the steps between two updates: `Rollout` for several environments, `Steps` for one environment."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfrl_like.batch import Batch, concatenate_nested, map_nested
from pfrl_like.storage.plain_tensors import from_saved, to_saved

Rows = NDArray[np.int64]
#: Function from indices of environments, [m], to two inputs of the model: features of the last observations, [m, ...],
#: and the recurrent states before these observations, [m, layers, ...]. The model computes the bootstrap values from
#: them.
BootstrapInputs = Callable[[Rows], tuple[Any, Any]]


@dataclasses.dataclass(frozen=True)
class Episodes:
    """Steps of complete or incomplete episodes, one episode after the other.

    Attributes:
        steps: The N steps as rows, with features as `obs`. `next_obs` is None, because `obs` of the next row contains
            the next observation.
        lengths: Number of steps of each episode, [S]. The first `lengths[0]` rows are the first episode.
        last_rows: Last rows of the M episodes that end without a terminal state, [M], int64. The targets of these rows
            bootstrap.
        last_obs: Features of the observations after `last_rows`, tensors [M, ...].
        last_state: Recurrent states before `last_obs`, tensors [M, layers, ...]. None if the model is not recurrent.
        states: Recurrent states before each step, tensors [N, layers, ...]. None if the model is not recurrent.
    """

    steps: Batch
    lengths: Rows
    last_rows: Tensor
    last_obs: Any
    last_state: Any = None
    states: Any = None

    def __len__(self) -> int:
        return len(self.steps)

    def next_values(self, value: Tensor, last_value: Tensor) -> Tensor:
        """Return the value after each step, [N]: the value of the next row, or `last_value` at the end of an episode.

        Args:
            value: Values of the rows' observations, [N].
            last_value: Values of `last_obs`, [M].
        """
        next_value = torch.roll(value, -1)
        next_value[torch.from_numpy(np.cumsum(self.lengths) - 1).to(value.device)] = 0.0
        next_value[self.last_rows] = last_value
        return next_value

    @property
    def continues(self) -> Tensor:
        """True where the next row is the next step of the same episode, bool [N]."""
        reward = self.steps.reward
        continues = torch.ones(reward.shape, dtype=torch.bool)
        continues[torch.from_numpy(np.cumsum(self.lengths) - 1)] = False
        return continues.to(reward.device)


class Rollout:
    """Steps of several environments, in the order in which the environments made them.

    An environment that takes no step adds no row. An episode consists of the steps of one environment up to a step that
    is marked as its last step.

    Args:
        initial_rows: Number of rows in the first allocation.

    Attributes:
        initial_rows: Number of rows in the first allocation.
        n_ended: Number of ended episodes in the rollout.
        version: Number of times that steps were removed. The rows of the steps change when it does.
    """

    def __init__(self, initial_rows: int = 256) -> None:
        self.initial_rows = initial_rows
        self._columns: dict[str, Any] = {}
        self._env = np.zeros(0, np.int64)
        self._ended = np.zeros(0, np.bool_)
        self._n = 0
        self._tails: list[tuple[Rows, Any, Any]] = []  # arguments of the `add_bootstrap_inputs` calls
        self.n_ended = self.version = 0

    def __len__(self) -> int:
        return self._n

    def append(self, env_ids: Rows, ended: NDArray[np.bool_], **columns: Any) -> Rows:
        """Store one step of each of m environments.

        Args:
            env_ids: Indices of the environments, all different, [m].
            ended: True where the step is the last step of its episode, [m].
            **columns: Tensors [m, ...] or nested dicts and tuples of tensors, with the same names in every call. Only
                "action_mask" may be missing. All actions are then allowed.

        Returns:
            Row numbers of the steps, [m].

        Raises:
            ValueError: If the shape of a value differs from earlier calls. Nothing is stored.
        """
        start, stop = self._n, self._n + len(env_ids)
        if stop > len(self._env):
            self._reserve(stop)
        if ("action_mask" in columns) != ("action_mask" in self._columns):
            self._complete_masks(columns, len(env_ids))
        for name, values in columns.items():
            if name not in self._columns:
                self._columns[name] = map_nested(self._new_column, values)
            column = self._columns[name]
            if not isinstance(values, Tensor) or not isinstance(column, Tensor) or column.shape[1:] != values.shape[1:]:
                _check(name, column, values)
        for name, values in columns.items():
            if isinstance(values, Tensor):
                self._columns[name][start:stop] = values
            else:
                _put(self._columns[name], start, stop, values)
        self._env[start:stop] = env_ids
        self._ended[start:stop] = ended
        self._n = stop
        self.n_ended += int(np.count_nonzero(ended))
        return np.arange(start, stop)

    def add_bootstrap_inputs(self, rows: Rows, last_obs: Any, last_state: Any = None) -> None:
        """Set the final observations of truncated episodes, from which the update bootstraps.

        Args:
            rows: Rows of the episodes' last steps, [m].
            last_obs: Features of the observations after these rows, tensors [m, ...].
            last_state: Recurrent states before `last_obs`, tensors [m, layers, ...].
        """
        self._tails.append((rows, last_obs, last_state))

    def running(self) -> tuple[Rows, Rows]:
        """Return the indices of environments with a running episode, ascending, and the rows of their last steps."""
        order, _, ends = self._by_episode()
        last = order[ends]
        last = last[~self._ended[last]]
        return self._env[last], last

    def ended_episodes(self) -> list[Rows]:
        """Return the rows of each ended episode, in the order of their ends."""
        order, _, ends = self._by_episode()
        episodes = [rows for rows in np.split(order, ends[:-1] + 1) if len(rows) and self._ended[rows[-1]]]
        return sorted(episodes, key=lambda rows: int(rows[-1]))

    def read(self, name: str, row: int) -> Any:
        """Return the value of a step as numbers and arrays. None if the column does not exist."""
        return map_nested(lambda leaf: leaf[row].numpy(force=True).copy()[()], self._columns.get(name))

    def read_bootstrap_input(self, row: int) -> tuple[Any, Any]:
        """Return the observation and the recurrent state after a truncated episode, whose last step is `row`.

        Both are None if the episode is terminated, because its last observation is not stored.
        """
        for rows, *inputs in self._tails:
            for i in np.flatnonzero(rows == row):
                obs, state = (map_nested(lambda leaf: leaf[i].numpy(force=True), each) for each in inputs)  # noqa: B023
                return obs, state
        return None, None

    def write(self, name: str, row: int, value: Any) -> None:
        """Replace the value of a step.

        Args:
            name: Name of the column.
            row: Row of the step.
            value: Number or array, or nested dicts and tuples of them, with the shapes of the column.
        """
        _put(self._columns[name], row, row + 1, map_nested(torch.as_tensor, value))

    def end(self, rows: Rows) -> None:
        """Mark the steps in `rows` as last steps of episodes."""
        self._ended[rows] = True
        self.n_ended += len(rows)

    def forget(self, rows: Rows) -> None:
        """Remove episodes, complete or incomplete. `rows` are the episodes' last steps."""
        order, lengths, ends = self._by_episode()
        removed = np.repeat(np.isin(order[ends], rows), lengths)
        self._keep(np.sort(order[~removed]))

    def take(
        self, gamma: float, device: torch.device | str, bootstrap_inputs: BootstrapInputs | None = None
    ) -> Episodes:
        """Return the steps and remove them.

        Args:
            gamma: Discount factor per step.
            device: Device of the returned tensors.
            bootstrap_inputs: Function that returns the bootstrap inputs of running episodes. If None, running episodes
                stay in the rollout. Otherwise the steps of running episodes are returned as well.

        Raises:
            ValueError: If there is no step to return.
        """
        order, lengths, ends = self._by_episode()
        running = ~self._ended[order[ends]]
        kept = np.zeros(0, np.int64)
        if bootstrap_inputs is None:
            stays = np.repeat(running, lengths)
            kept, order, lengths = np.sort(order[stays]), order[~stays], lengths[~running]
        elif running.any():
            last = order[ends[running]]
            self.add_bootstrap_inputs(last, *bootstrap_inputs(self._env[last]))
        if not len(order):
            raise ValueError("no episode has ended, expected at least one ended episode for an update")
        episodes = self._episodes(order, lengths, gamma, device)
        if len(kept):
            self._keep(kept)
        else:
            self._n, self.n_ended, self._tails = 0, 0, []
        self.version += 1
        return episodes

    def _by_episode(self) -> tuple[Rows, Rows, Rows]:
        """Sort the rows by environment and time.

        Return the sorted rows, the length of each episode, and the position of each episode's last step in the sorted
        rows.
        """
        env = self._env[: self._n]
        order = np.argsort(env, kind="stable")
        at_end = self._ended[order]
        if len(order):
            at_end[:-1] |= np.diff(env[order]) != 0
            at_end[-1] = True
        ends = np.flatnonzero(at_end)
        return order, np.diff(ends, prepend=-1), ends

    def _episodes(self, order: Rows, lengths: Rows, gamma: float, device: torch.device | str) -> Episodes:
        rows = torch.from_numpy(order)
        columns = {
            name: map_nested(lambda leaf: leaf.index_select(0, rows.to(leaf.device)).to(device), column)
            for name, column in self._columns.items()
        }
        states, terminated = columns.pop("state", None), columns.pop("terminated")
        discount = gamma * (~terminated).to(columns["reward"].dtype)
        position = np.empty(self._n, np.int64)
        position[order] = np.arange(len(order))
        last_rows, *inputs = self._joined_tails()
        by_position = torch.from_numpy(np.argsort(position[last_rows]))  # whatever the order in which the steps came
        last_obs, last_state = (
            map_nested(lambda leaf: leaf[by_position.to(leaf.device)].to(device), part) for part in inputs
        )
        last_positions = torch.from_numpy(position[last_rows])[by_position].to(device)
        batch = Batch(next_obs=None, discount=discount, **columns)
        return Episodes(batch, lengths, last_positions, last_obs, last_state, states)

    def _joined_tails(self) -> tuple[Rows, Any, Any]:
        """Return the last rows of truncated episodes, and the observations and recurrent states after these rows.

        If no episode is truncated, all three results are empty.
        """
        if not self._tails:
            return np.zeros(0, np.int64), self._empty_rows("obs"), self._empty_rows("state")
        rows, obs, states = zip(*self._tails, strict=True)
        return np.concatenate(rows), concatenate_nested(obs), concatenate_nested(states)

    def _empty_rows(self, name: str) -> Any:
        """Return a column with 0 rows. None if the column does not exist."""
        return map_nested(lambda leaf: leaf[:0], self._columns.get(name))

    def _keep(self, rows: Rows) -> None:
        """Remove all steps except the steps in `rows`."""
        self.version += 1
        at, n = torch.from_numpy(rows), len(rows)
        for column in self._columns.values():
            _put(column, 0, n, map_nested(lambda leaf: leaf.index_select(0, at.to(leaf.device)), column))
        self._env[:n], self._ended[:n] = self._env[rows], self._ended[rows]
        self._n, self.n_ended = n, int(np.count_nonzero(self._ended[:n]))
        tails, self._tails = self._tails, []
        for last_rows, obs, state in tails:
            kept = np.flatnonzero(np.isin(last_rows, rows))
            if len(kept):
                inputs = [map_nested(lambda leaf: leaf[kept], part) for part in (obs, state)]  # noqa: B023
                self.add_bootstrap_inputs(np.searchsorted(rows, last_rows[kept]), *inputs)

    # Memory

    def _reserve(self, rows: int) -> None:
        size = max(self.initial_rows, rows, 2 * len(self._env))
        added = size - len(self._env)
        self._env = np.concatenate([self._env, np.zeros(added, np.int64)])
        self._ended = np.concatenate([self._ended, np.zeros(added, np.bool_)])

        def grow(leaf: Tensor) -> Tensor:
            return torch.cat([leaf, leaf.new_empty(size - len(leaf), *leaf.shape[1:])])

        self._columns = {name: map_nested(grow, column) for name, column in self._columns.items()}

    def _new_column(self, leaf: Tensor) -> Tensor:
        return torch.empty(len(self._env), *leaf.shape[1:], dtype=leaf.dtype, device=leaf.device)

    def _complete_masks(self, columns: dict[str, Any], m: int) -> None:
        """If only some steps have a mask, give the other steps a mask that allows all actions."""
        if "action_mask" in columns:
            self._columns["action_mask"] = map_nested(self._new_column, columns["action_mask"]).fill_(True)
        else:
            mask = self._columns["action_mask"]
            columns["action_mask"] = mask.new_ones(m, *mask.shape[1:])

    # Saving

    def state_dict(self, bootstrap_inputs: BootstrapInputs) -> dict[str, Any]:
        """Return the steps and the bootstrap inputs. The tensors share memory with the rollout."""
        env_ids, rows = self.running()
        tails = [self._joined_tails()] if self._tails else []
        if len(rows):
            tails.append((rows, *bootstrap_inputs(env_ids)))
        env, ended = (torch.from_numpy(column[: self._n]) for column in (self._env, self._ended))
        columns = map_nested(lambda leaf: leaf[: self._n], self._columns)
        saved_columns = {name: to_saved(column) for name, column in columns.items()}
        saved_tails = [to_saved((torch.from_numpy(rows), obs, state)) for rows, obs, state in tails]
        return {"env": env, "ended": ended, "columns": saved_columns, "tails": saved_tails}

    def load_state_dict(self, state: Mapping[str, Any], device: torch.device | str) -> BootstrapInputs:
        """Restore the result of `state_dict`.

        Returns:
            Function that returns the saved bootstrap inputs of the running episodes.

        Raises:
            ValueError: If `state` has the wrong form. The rollout is not changed.
        """
        try:
            new = Rollout(self.initial_rows)
            env, ended = (from_saved(state[name], "cpu").numpy() for name in ("env", "ended"))
            columns = {name: from_saved(text, device) for name, text in state["columns"].items()}
            if len(env):
                new.append(env, ended, **columns)
            tails = [from_saved(text, device) for text in state["tails"]]
            tails = [(rows.cpu().numpy(), obs, last_state) for rows, obs, last_state in tails]
            env_ids, running = new.running()
            if any(len(rows) == 0 or rows.min() < 0 or rows.max() >= len(env) for rows, _, _ in tails):
                raise ValueError("a row is out of range")
            if len(running) and (not tails or tails[-1][0].tolist() != running.tolist()):
                raise ValueError("the running episodes do not match the steps")
        except (KeyError, TypeError, AttributeError, IndexError, RuntimeError, ValueError) as error:
            raise ValueError(f"the rollout is {state!r:.100}, which is invalid: {error}") from error
        last = tails.pop() if len(running) else None
        new._tails = tails
        vars(self).update(vars(new))

        def bootstrap_inputs(envs: Rows) -> tuple[Any, Any]:
            assert last is not None
            at = torch.from_numpy(np.searchsorted(env_ids, envs)).to(device)
            return map_nested(lambda leaf: leaf[at], last[1]), map_nested(lambda leaf: leaf[at], last[2])

        return bootstrap_inputs


def _put(column: Any, start: int, stop: int, values: Any) -> None:
    """Write nested values to the rows start..stop-1 of a nested column."""
    if isinstance(column, Mapping):
        for key, part in column.items():
            _put(part, start, stop, values[key])
    elif isinstance(column, tuple | list):
        for part, value in zip(column, values, strict=True):
            _put(part, start, stop, value)
    elif column is not None:
        column[start:stop] = values


def _check(name: str, column: Any, values: Any) -> None:
    """Check that the values have the same nested structure and the same shapes as the column."""
    forms: list[list[tuple[int, ...]]] = [[], []]
    for nested, form in ((column, forms[0]), (values, forms[1])):
        map_nested(lambda leaf: form.append(tuple(leaf.shape[1:])), nested)  # noqa: B023 - called immediately
    if forms[0] != forms[1]:
        raise ValueError(f"{name} has the shapes {forms[1]}, expected {forms[0]} as in the first step")


@dataclasses.dataclass
class Steps:
    """Steps of one episode since the last update.

    Attributes:
        recurrent_state: Recurrent state before the first step. None if the model is not recurrent.
        rows: The steps. Each step is a tuple of the features of its observation, tensors [1, ...], the observation
            before `phi`, the action, the reward, and the mask of allowed actions, [n_actions]. A mask of None allows
            all actions.
    """

    recurrent_state: Any
    rows: list[tuple[Any, Any, Any, float, Any]] = dataclasses.field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, last_obs: Any, last_mask: Any, gamma: float, done: bool) -> Batch:
        """Return the steps as one sequence.

        Args:
            last_obs: Features of the observation after the last step, tensors [1, ...].
            last_mask: True for the actions that are allowed in `last_obs`, [n_actions]. None allows all actions.
            gamma: Discount factor per step.
            done: True if `last_obs` is terminal.
        """
        obs, _, action, reward, masks = zip(*self.rows, strict=True)
        features = concatenate_nested([*obs, last_obs])
        mask = _stacked([*masks, last_mask])
        discount = torch.full((len(self),), gamma)
        if done:
            discount[-1] = 0.0
        options: dict[str, Any] = {"recurrent_state": self.recurrent_state, "lengths": torch.tensor([len(self)])}
        if mask is not None:
            options |= {"action_mask": mask[:-1], "next_action_mask": mask[1:]}
        obs, next_obs = map_nested(lambda leaf: leaf[:-1], features), map_nested(lambda leaf: leaf[1:], features)
        return Batch(obs, torch.from_numpy(np.array(action)), torch.tensor(reward), next_obs, discount, **options)

    def state_dict(self, with_raw_obs: bool = False) -> Any:
        """Return the steps as tensors.

        Args:
            with_raw_obs: True to include the observations before `phi`. If False, `from_state` replaces them with the
                features.
        """
        obs, raw_obs, action, reward, masks = zip(*self.rows, strict=True)
        columns = torch.from_numpy(np.array(action)), torch.tensor(reward, dtype=torch.float64), _stacked(masks)
        raw = [[map_nested(lambda leaf: torch.as_tensor(np.asarray(leaf)), each) for each in raw_obs]]
        return to_saved([self.recurrent_state, concatenate_nested(obs), *columns, *(raw if with_raw_obs else ())])

    @classmethod
    def from_state(cls, state: Any) -> "Steps":
        """Return the steps whose `state_dict` is `state`.

        Raises:
            ValueError: If `state` has the wrong form.
        """
        try:
            recurrent_state, obs, action, reward, masks, *raw_obs = from_saved(state, "cpu")
            k = len(reward)
            features = [map_nested(lambda leaf: leaf[i : i + 1], obs) for i in range(k)]  # noqa: B023 - called immediately
            single_obs = raw_obs[0] if raw_obs else [map_nested(lambda leaf: leaf[0], each) for each in features]
            raw = [map_nested(lambda leaf: leaf.numpy(), each) for each in single_obs]
            columns = action.numpy(), reward.tolist(), [None] * k if masks is None else masks.numpy()
            return cls(recurrent_state, list(zip(features, raw, *columns, strict=True)))
        except (TypeError, AttributeError, IndexError, ValueError) as error:
            raise ValueError(f"the steps are {state!r:.100}, which is invalid: {error}") from error


def _stacked(masks: Sequence[Any]) -> Tensor | None:
    """Stack masks to a bool tensor. A mask of None allows all actions. Return None if all masks are None."""
    example = next((mask for mask in masks if mask is not None), None)
    if example is None:
        return None
    return torch.from_numpy(np.array([np.ones_like(example) if mask is None else mask for mask in masks], bool))
