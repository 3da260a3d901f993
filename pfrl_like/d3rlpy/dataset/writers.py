"""Writers of episodes step by step, and the preprocessors of what they write."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pfrl_like.d3rlpy.dataset.buffers import BufferProtocol
from pfrl_like.d3rlpy.dataset.columns import EpisodeColumns
from pfrl_like.d3rlpy.dataset.components import DatasetInfo, Episode, EpisodeBase
from pfrl_like.d3rlpy.dataset.nested import map_parts, parts_of


class WriterPreprocessProtocol(Protocol):
    """Interface of preprocessors. These methods change nothing."""

    def process_observation(self, observation: Any) -> Any:
        """Return the observation that is stored."""
        return observation

    def process_action(self, action: Any) -> Any:
        """Return the action that is stored."""
        return action

    def process_reward(self, reward: Any) -> Any:
        """Return the reward that is stored."""
        return reward


class BasicWriterPreprocess(WriterPreprocessProtocol):
    """Preprocessor that changes nothing."""


class LastFrameWriterPreprocess(WriterPreprocessProtocol):
    """Preprocessor that stores only the newest of stacked images: [C, H, W] becomes [1, H, W]."""

    def process_observation(self, observation: Any) -> Any:
        """Return the last channel of an image, or of each image of a list."""
        return map_parts(lambda image: image[-1:], observation)


class RecordedEpisode(EpisodeBase):
    """Episode of which each row is appended, as columns of the library.

    A row becomes a step when the next row is appended, or when the episode ends in a terminal state.

    Args:
        stored: The columns.
        info: Dtypes of the values.

    Attributes:
        terminated: True if the state after the last row is terminal.
    """

    def __init__(self, stored: EpisodeColumns, info: DatasetInfo) -> None:
        self.terminated = False
        self._stored, self._rows = stored, []  # type: tuple[EpisodeColumns, list[int]]
        self._newest: tuple[Any, NDArray[Any], float] | None = None  # the row that is no step yet
        signatures = info.observation_signature, info.action_signature, info.reward_signature
        self._obs_dtypes, (self._action_dtype, *_), (self._reward_dtype, *_) = (each.dtype for each in signatures)
        stored.register(self, self._rows)

    def append(self, observation: Any, action: Any, reward: Any) -> None:
        """Append a row.

        Raises:
            ValueError: If a value has another form or shape than in the first row.
        """
        parts = parts_of(observation)
        if len(parts) != len(self._obs_dtypes):
            raise ValueError(f"observation: got {len(parts)} arrays, expected {len(self._obs_dtypes)}")
        arrays = [np.array(part, dtype) for part, dtype in zip(parts, self._obs_dtypes, strict=True)]
        observation = tuple(arrays) if isinstance(observation, list | tuple) else arrays[0]
        self._store_newest(observation)
        self._newest = observation, np.array(action, self._action_dtype).reshape(-1), float(np.reshape(reward, ())[()])

    def end(self, terminated: bool) -> None:
        """End the episode."""
        self.terminated = terminated
        if terminated:
            self._store_newest(None)
            self._newest = None
        self._stored.columns.end("recorded")

    def _store_newest(self, next_observation: Any) -> None:
        if self._newest is not None:
            observation, action, reward = self._newest
            self._rows.append(self._stored.append(observation, action, reward, next_observation, "recorded"))

    def size(self) -> int:
        """Return the number of rows."""
        return len(self._rows) + (self._newest is not None)

    @property
    def observations(self) -> Any:
        """Observations, an array [n, ...] or a list of such arrays."""
        parts = [map_parts(lambda array: array[None], self._newest[0])] if self._newest else []
        columns = self._stored.columns
        if self._rows and columns.obs is not None:
            parts.insert(0, columns.obs.stacked(columns.obs_row[self._rows]))
        return map_parts(lambda *arrays: np.concatenate(arrays), *parts)

    @property
    def actions(self) -> NDArray[Any]:  # type: ignore[override]
        """Actions, [n, A], or [n, 1] if they are indices."""
        parts = [self._newest[1][None]] if self._newest else []
        if self._rows and self._stored.columns.action is not None:
            rows = self._stored.columns.action.stacked(np.array(self._rows))
            parts.insert(0, rows.reshape(len(rows), -1).astype(self._action_dtype))
        return np.concatenate(parts)

    @property
    def rewards(self) -> NDArray[Any]:  # type: ignore[override]
        """Rewards of the actions in the same rows, [n, 1]."""
        newest = [self._newest[2]] if self._newest else []
        rewards = np.append(self._stored.columns.reward[self._rows], newest)
        return rewards.reshape(-1, 1).astype(self._reward_dtype)

    def __reduce__(self) -> Any:
        return Episode, tuple(self.serialize().values())


class ExperienceWriter:
    """Writer of episodes step by step.

    Args:
        buffer: Buffer to which transitions are added.
        preprocessor: Preprocessor of the values.
        info: Dtypes of the values.
        write_at_termination: True to add the transitions of an episode at its end, False to add each when it is known.
        cache_size: Maximum number of rows of an episode.
    """

    def __init__(
        self,
        buffer: BufferProtocol,
        preprocessor: WriterPreprocessProtocol,
        info: DatasetInfo,
        write_at_termination: bool = False,
        cache_size: int = 10000,
    ) -> None:
        self._buffer, self._preprocessor, self._info, self._cache_size = buffer, preprocessor, info, cache_size
        self._write_at_termination = write_at_termination
        self._episode: RecordedEpisode | None = None

    def append(self, stored: EpisodeColumns, observation: Any, action: Any, reward: Any) -> None:
        """Append a row to the running episode, or begin an episode.

        Args:
            stored: Columns of the episodes.
            observation: Observation.
            action: Action at the observation.
            reward: Reward of the action.

        Raises:
            ValueError: If the episode has `cache_size` rows.
        """
        episode = self._episode or RecordedEpisode(stored, self._info)
        if episode.size() >= self._cache_size:
            limit = f"an episode has more than cache_size, {self._cache_size}, rows"
            raise ValueError(f"{limit}: create the ReplayBuffer with a larger cache_size, or call clip_episode")
        process = self._preprocessor
        values = (
            process.process_observation(observation),
            process.process_action(action),
            process.process_reward(reward),
        )
        episode.append(*values)
        self._episode = episode
        if episode.size() > 1 and not self._write_at_termination:
            self._buffer.append(episode, episode.size() - 2)

    def clip_episode(self, terminated: bool) -> None:
        """End the running episode. If it was truncated, its last row is no transition.

        Args:
            terminated: True if the state after the last row is terminal.
        """
        episode, self._episode = self._episode, None
        if episode is None:
            return
        written = 0 if self._write_at_termination else episode.transition_count
        episode.end(bool(terminated))
        for index in range(written, episode.transition_count):
            self._buffer.append(episode, index)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_episode": None}
