"""Checks that the training data of an agent are the steps that its environments made, in every autoreset mode."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from torch.utils._pytree import tree_leaves

from pfrl_like.batch import Batch, map_nested
from pfrl_like.envs import SerialVectorEnv, VectorStream, as_vector_stream
from pfrl_like.testing.play import RecordedEnv, Step, play_stream, require
from pfrl_like.utils.env_values import space_kind

#: Maximum difference between rewards, or between discounts, that are treated as equal.
TOLERANCE = 1e-5


class Row(NamedTuple):
    """One row of an agent's training data. `next_obs` is None if the agent does not use the next observation."""

    obs: NDArray[np.float32]
    action: NDArray[np.float32]
    reward: float
    discount: float
    next_obs: NDArray[np.float32] | None


class UpdateRecorder:
    """Records the batch of each call of `update`, and of each call of `learn` that does not come from `update`.

    Attributes:
        raw: Batches that were passed to `update`. They contain raw observations.
        features: Batches, or episodes of a rollout, that were passed to `learn`. They contain features.
    """

    def __init__(self, agent: Any) -> None:
        self.raw: list[Any] = []
        self.features: list[Any] = []
        self._inside = False
        for name, records in (("update", self.raw), ("learn", self.features)):
            if callable(getattr(agent, name, None)):
                recording = functools.partial(self._call, getattr(agent, name), records)
                vars(agent)[name] = recording  # the agent treats `setattr` as an override of PFRL's method

    def _call(self, learn: Callable[..., Any], records: list[Any], batch: Any, *others: Any, **keywords: Any) -> Any:
        """Record the batch and call `update` or `learn`. Inside `update`, do not record the batch of `learn`."""
        if self._inside:
            return learn(batch, *others, **keywords)
        records.append(batch)
        self._inside = True
        try:
            return learn(batch, *others, **keywords)
        finally:
            self._inside = False


def rows_of(data: Any) -> list[Row]:
    """Return the rows of a `Batch` (transitions or sequences) or of the episodes of a rollout."""
    steps = data if isinstance(data, Batch) else data.steps
    columns = [_numbers(column) for column in (steps.obs, steps.action)]
    reward, discount = steps.reward.tolist(), steps.discount.tolist()
    if isinstance(data, Batch):
        next_obs = list(_numbers(data.next_obs))
    else:
        next_rows = zip([*columns[0][1:], None], data.continues.tolist(), strict=True)
        next_obs = [obs if continues else None for obs, continues in next_rows]
        for row, obs in zip(data.last_rows.tolist(), _numbers(data.last_obs), strict=True):
            next_obs[row] = obs
        discount = [0.0 if obs is None else each for each, obs in zip(discount, next_obs, strict=True)]
    return [Row(*values) for values in zip(*columns, reward, discount, next_obs, strict=True)]


class Record:
    """Recorded steps of environments. An agent's training data are compared with them.

    Args:
        envs: The environments.
        gamma: The agent's discount factor per step.
        features: Function that converts a list of observations to a batch of features. If None, raw observations are
            compared.
        truncation_terminates: True if the agent treats truncated episodes as terminated.
    """

    def __init__(
        self,
        envs: Sequence[RecordedEnv],
        gamma: float,
        features: Callable[[list[Any]], Any] | None = None,
        truncation_terminates: bool = False,
    ) -> None:
        self.gamma = gamma
        self.truncation_terminates = truncation_terminates
        self.features = features
        self.windows: list[tuple[list[Step], list[Step] | None]] = []  # consecutive steps, and their next episode
        for env in envs:
            for i, episode in enumerate(env.episodes):
                after = env.episodes[i + 1] if i + 1 < len(env.episodes) else None
                pairs = [(s, e) for s in range(len(episode)) for e in range(s + 1, len(episode) + 1)]
                self.windows += [(episode[start:end], after) for start, end in pairs]
        rewards = [[gamma**i * step.reward for i, step in enumerate(steps)] for steps, _ in self.windows]
        self._rewards = np.array([*map(sum, rewards)])

    def find(self, row: Row) -> list[Step] | str:
        """Return the recorded steps that a row was made from, consecutive steps of one episode.

        If there are no such steps, return a description of the error.
        """
        error = ""
        for i in np.flatnonzero(np.abs(self._rewards - row.reward) < TOLERANCE):
            steps, after = self.windows[i]
            this_error = self._compare(row, steps, after)
            if this_error is None:
                return steps
            error = error or this_error
        message = f"the reward {row.reward:.4f} is not the reward of a step, nor the discounted sum of consecutive"
        return error or f"{message} steps of one episode: the agent has added rewards of other steps"

    def _compare(self, row: Row, steps: list[Step], after: list[Step] | None) -> str | None:
        first, last = steps[0], steps[-1]
        is_end = last.terminated or (last.truncated and self.truncation_terminates)
        expected = 0.0 if is_end else self.gamma ** len(steps)
        ended = f"terminated={last.terminated} and truncated={last.truncated}"
        if not np.array_equal(row.obs, self._features_of(first.obs)):
            return f"a step from obs {first.obs} is in the training data with the observation {row.obs}"
        if not np.array_equal(row.action, _flat(first.action)):
            return f"a step with the action {first.action} is in the training data with the action {row.action}"
        if abs(row.discount - expected) > TOLERANCE:
            hint = ": only termination stops bootstrapping" if row.discount == 0 else ""
            hint = ", and bootstraps from a terminal state" if expected == 0 else hint
            discounts = f"with the discount {row.discount:.4g}, expected {expected:.4g}"
            return f"a step with {ended} is in the training data {discounts}{hint}"
        if expected == 0 or row.next_obs is None or np.array_equal(row.next_obs, self._features_of(last.next_obs)):
            return None
        if after and np.array_equal(row.next_obs, self._features_of(after[0].obs)):
            message = f"a step with {ended} bootstraps from {row.next_obs}, the first observation of the next episode"
            return f"{message}, expected the last observation of its episode, {last.next_obs}"
        return f"a step with next_obs {last.next_obs} is in the training data with next_obs {row.next_obs}"

    def _features_of(self, obs: Any) -> NDArray[np.float32]:
        features: NDArray[np.float32] = _flat(obs) if self.features is None else _numbers(self.features([obs]))[0]
        return features


def _numbers(nested: Any) -> NDArray[np.float32]:
    """Flatten nested tensors [N, ...], concatenate them and return an array [N, n]."""
    leaves = tree_leaves(_columns(nested))
    return np.concatenate([torch.as_tensor(leaf).detach().cpu().float().flatten(1).numpy() for leaf in leaves], axis=1)


def _columns(nested: Any) -> Any:
    """Return nested tensors with sorted dicts. Tensors [N] get the shape [N, 1]."""
    if isinstance(nested, Mapping):
        return {key: _columns(nested[key]) for key in sorted(nested)}
    if isinstance(nested, tuple | list):
        return type(nested)(_columns(part) for part in nested)
    return nested[:, None] if nested.ndim == 1 else nested


def _flat(value: Any) -> NDArray[np.float32]:
    """Return one observation or action as a flat vector."""
    vector: NDArray[np.float32] = _numbers(map_nested(lambda leaf: np.asarray(leaf)[None], value))[0]
    return vector


#: Pairs of an autoreset mode (None if the caller resets the environments) and a number of environments.
STREAM_SETUPS: tuple[tuple[AutoresetMode | None, int], ...] = (
    (AutoresetMode.NEXT_STEP, 3),
    (AutoresetMode.SAME_STEP, 2),
    (AutoresetMode.DISABLED, 2),
    (None, 3),
)


def check_streams(
    make_agent: Callable[[], Any],
    env: Any,
    n_steps: int,
    seed: int,
    require_equal: Callable[[Any, Any, str], None],
    state_of: Callable[[Any], Any],
) -> None:
    """Check the training data and the replay buffer of an agent, for each autoreset mode in `STREAM_SETUPS`.

    Args:
        make_agent: Function that returns an untrained agent with `batch_act`, and with `update` or `learn`. Every call
            returns an equal agent.
        env: Environment. The check makes copies of it.
        n_steps: Number of steps of each run, summed over all environments.
        seed: Seed of the environments.
        require_equal: Function called as (state, other state, error text) that raises an AssertionError if the states
            differ.
        state_of: Function that returns the state of an agent.

    Raises:
        AssertionError: If a contract is broken. The message names the contract.
    """
    states: dict[int, tuple[str, Any]] = {}
    missing = None
    for mode, n_envs in STREAM_SETUPS:
        envs = [RecordedEnv(env, number, seed) for number in range(n_envs)]
        if mode is not None and not _fits_gymnasium(envs[0]):
            continue
        agent, setup = make_agent(), f"{n_envs} environments, autoreset {mode.value if mode else 'by the caller'}"
        recorder = UpdateRecorder(agent)
        play_stream(agent, stream_of(envs, mode), n_steps)
        require(recorder.raw or recorder.features, f"the agent has made no update in {n_steps} steps of {setup}")
        if mode in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED):  # the agent gets the same calls in both modes
            state = state_of(agent)
            other, expected = states.setdefault(n_envs, (setup, state))
            require_equal(expected, state, f"training with {setup} resulted in a different agent than with {other}")
        missing = check_rows(agent, recorder, envs, setup) or missing
    require(missing is None, f"a step is not in the replay buffer: {missing}")


def stream_of(envs: list[RecordedEnv], mode: AutoresetMode | None) -> VectorStream:
    """Return a vector environment of gymnasium with this autoreset mode, or of PFRL if the mode is None."""
    if mode is None:
        return as_vector_stream(SerialVectorEnv(envs))
    makers = [lambda env=env: env for env in envs]
    return as_vector_stream(gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=mode))


def check_rows(agent: Any, recorder: UpdateRecorder, envs: list[RecordedEnv], setup: str = "") -> str | None:
    """Check that the recorded training data and the replay buffer contain only steps of these environments.

    Returns:
        A description of a step of an ended episode that is not in the replay buffer; None if no such step is missing.

    Raises:
        AssertionError: If a row of the training data or of the buffer equals no recorded step.
    """
    device, gamma = getattr(agent, "device", "cpu"), agent.gamma

    def features(obs: list[Any]) -> Any:
        return agent.batch_states(obs, device, agent.phi)

    raw = [row for data in recorder.raw for row in rows_of(data)]
    buffer: Any = getattr(agent, "replay_buffer", None)
    stored = [] if buffer is None else rows_of(all_items(agent))
    for name, rows, features_of_obs in (
        ("update", raw, None),
        ("learn", [row for data in recorder.features for row in rows_of(data)], features),
        ("the replay buffer", stored, None),
    ):
        record = Record(envs, gamma, features_of_obs, getattr(agent, "learn_from_truncated", False))
        results = [record.find(row) for row in rows]
        error = next((each for each in results if isinstance(each, str)), None)
        require(error is None, f"the data passed to {name} are not the steps that were made ({setup}): {error}")
        if stored and rows is stored and (buffer.capacity is None or len(buffer) < buffer.capacity):
            stored_steps = {id(steps[0]) for steps in results}
            return next((f"{step} ({setup})" for step in ended_steps(envs) if id(step) not in stored_steps), None)
    return None


def all_items(agent: Any) -> Any:
    """Return all items of an agent's replay buffer."""
    buffer = agent.replay_buffer
    if getattr(agent, "learns_from_sequences", getattr(agent, "recurrent", False)):
        batch = buffer.sample_sequences(buffer.n_episodes, None, agent.gamma)
    else:
        batch = buffer.sample_batch(len(buffer), agent.gamma)
    if buffer.prioritized:
        buffer.update_priorities(batch.index, np.ones(len(batch.index)))
    return batch


def ended_steps(envs: list[RecordedEnv]) -> Iterator[Step]:
    """Yield the recorded steps of all episodes that have ended."""
    for env in envs:
        for episode in env.episodes:
            if env.ended or episode is not env.episodes[-1]:
                yield from episode


def _fits_gymnasium(env: Any) -> bool:
    """True if gymnasium can make a vector environment from copies of this environment."""
    spaces = env.observation_space, env.action_space
    return all(isinstance(space, gymnasium.Space) and space_kind(space) != "other" for space in spaces)
