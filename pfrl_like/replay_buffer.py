"""The interface of replay buffers for agents, and PFRL's helpers for lists of transitions."""

import os
import secrets
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from pfrl_like.batch import Batch, map_nested
from pfrl_like.errors import CheckpointError
from pfrl_like.utils.batch_states import (
    Experience,
    Phi,
    batch_of_experiences,
    batch_states,
    column,
    next_state,
    recurrent_states,
    rewards_and_ends,
)
from pfrl_like.utils.checks import check_counts, names_unknown_keywords, takes_integral_floats
from pfrl_like.utils.recurrent import flatten_sequences_time_first
from pfrl_like.utils.reprs import never_raising

BatchStates = Callable[[Sequence[Any], Any, Phi], Any]

#: PFRL's methods, each with the batched method that agents call instead.
_BATCHED = {
    "append": "append_batch",
    "sample": "sample_batch",
    "sample_episodes": "sample_sequences",
    "update_errors": "update_priorities",
}


class AbstractReplayBuffer(ABC):
    """Interface of a buffer in which an agent stores transitions and from which it samples transitions.

    `append`, `sample`, `save`, `load` and `stop_current_episode` have PFRL's signatures. `append_batch` and
    `sample_batch` do the same with whole columns; the agents call these two methods. If a class defines only `append`,
    or inherits `append` from a mix-in, it gets the `append_batch` of this class, which calls `append`. An overridden
    `append` is therefore always called. The same rule applies to `sample` and `sample_batch`, to `sample_episodes` and
    `sample_sequences`, and to `update_errors` and `update_priorities`. A class with `update_errors` is a prioritised
    buffer.
    """

    #: True if sampled batches have importance weights. The agent then passes the TD errors of each batch to
    #: `update_priorities`.
    prioritized: bool = False

    #: True if `sample_batch` accepts `continuation`, the number of steps after an item in `Batch.continuation`.
    tells_future: bool = False

    #: True if `sample_batch` accepts `n_frames`, the number of images to stack.
    stacks_frames: bool = False

    #: The newest `append_batch` that a class of the buffer defines. An overridden `append` may call it to store a step.
    _append_batch: Callable[..., None]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in vars(cls):
            cls.__init__ = names_unknown_keywords(takes_integral_floats(cls.__init__))  # type: ignore[method-assign]
        if "append_batch" in vars(cls):
            cls._append_batch = cls.append_batch
        for own, batched in _BATCHED.items():
            definer = next((vars(base) for base in cls.__mro__ if own in vars(base) or batched in vars(base)), ())
            if own in definer and batched not in definer:
                setattr(cls, batched, getattr(AbstractEpisodicReplayBuffer, batched))
        cls.prioritized = cls.prioritized or hasattr(cls, "update_errors")

    @never_raising
    def __repr__(self) -> str:
        capacity = "" if self.capacity is None else f" of {self.capacity:,}"
        known = {"n_episodes": "{:,} episodes", "num_steps": "num_steps={}", "dirname": "on disk in {}"}
        facts = [text.format(getattr(self, name)) for name, text in known.items() if hasattr(self, name)]
        facts = [f"{len(self):,}{capacity} transitions", *["prioritized"] * self.prioritized, *facts]
        return f"{type(self).__name__}({', '.join(facts)})"

    @property
    @abstractmethod
    def capacity(self) -> int | None:
        """Maximum number of items that can be sampled; None if unbounded."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of items that can be sampled."""

    @abstractmethod
    def append(
        self,
        state: Any,
        action: Any,
        reward: float,
        next_state: Any = None,
        next_action: Any = None,
        is_state_terminal: bool = False,
        env_id: Any = 0,
        **kwargs: Any,
    ) -> None:
        """Store one transition.

        Args:
            state: Observation s_t, an array or nested dicts and tuples of arrays; it is copied.
            action: Action a_t.
            reward: Reward of a_t.
            next_state: Observation s_{t+1}; may be None if s_{t+1} is terminal.
            next_action: Action a_{t+1}, if known.
            is_state_terminal: True if s_{t+1} is terminal; the value of s_{t+1} is then not bootstrapped.
            env_id: Environment of the step; any hashable object.
            **kwargs: Extra columns; every later step must have the same extra columns.
        """

    def append_batch(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: Any,
        truncated: Any,
        env_ids: Sequence[Any] | None = None,
        **extra: Any,
    ) -> None:
        """Store one transition of each of several environments; ends the episodes that are terminated or truncated.

        Args:
            obs: Observations, a sequence or a stacked array of length k. Nested observations are a list of k nested
                observations, or one nested structure of stacked arrays.
            action: Actions, length k.
            reward: Rewards, length k.
            next_obs: Observations after the step, length k. At the end of an episode: its last observation, not the
                observation of the reset.
            terminated: True where `next_obs` is terminal, length k.
            truncated: True where the episode was truncated after the step, length k.
            env_ids: Ids of the environments, k hashable objects. If None, the ids are 0 to k - 1.
            **extra: Extra columns, each of length k.
        """
        for i, env_id in enumerate(range(len(reward)) if env_ids is None else env_ids):
            step = {"state": obs[i], "action": action[i], "reward": reward[i], "next_state": next_obs[i]}
            columns = {"next_action": None, **{name: values[i] for name, values in extra.items()}}
            self.append(**step, is_state_terminal=bool(terminated[i]), env_id=env_id, **columns)
            if terminated[i] or truncated[i]:
                self.stop_current_episode(env_id=env_id)

    def append_chunk(self, chunk: Any, env_ids: Sequence[Any] | None = None) -> None:
        """Store the steps of a chunk, in (t, environment) order. This equals one `append_batch` call for each t.

        Args:
            chunk: A `distributed.chunk.Chunk` of T steps of k environments; it is copied.
            env_ids: Ids of the k environments, hashable objects. If None, the ids are 0 to k - 1.
        """
        for env_id in chunk.cut_ids(env_ids):
            self.stop_current_episode(env_id)
        for step in chunk.steps(env_ids):
            self.append_batch(**step)

    @abstractmethod
    def stop_current_episode(self, env_id: Any = 0) -> None:
        """End the running episode of the environment `env_id`. Its next step starts a new episode."""

    @abstractmethod
    def sample(self, n: int) -> Any:
        """Draw distinct items. Each item is a list of transition dicts, with one dict per step of an n-step return.

        Raises:
            ValueError: If `n` is larger than the buffer.
        """

    def sample_batch(
        self, n: int, gamma: float = 1.0, device: torch.device | str = "cpu", *, next_actions: bool = False
    ) -> Batch:
        """Draw the same items as `sample`, and return them as tensors.

        Args:
            n: Number of distinct items.
            gamma: Discount factor per step, used for n-step sums and for `Batch.discount`.
            device: Device of the tensors.
            next_actions: True to fill `Batch.next_action`. This implementation ignores the argument: it fills
                `Batch.next_action` if the items of `sample` contain the next actions.

        Raises:
            ValueError: If `n` is larger than the buffer.
        """
        batch = batch_of_experiences(self.sample(n), gamma)
        return batch.replace(index=np.arange(len(batch))).to(device)

    @abstractmethod
    def save(self, filename: str) -> None:
        """Write the content to one file, atomically."""

    @abstractmethod
    def load(self, filename: str) -> None:
        """Replace the content with the content of a file.

        Raises:
            CheckpointError: If the file is damaged or is not a saved buffer; the old content stays.
        """

    def save_increment(self, folder: str | os.PathLike[str], last: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Save into a folder whose files several saves share.

        This implementation writes the whole content. Subclasses write only the changes since the save `last`.

        Args:
            folder: Folder of the files of all saves; created if it does not exist.
            last: The reference that this method returned for an earlier save. If None, the whole content is written.

        Returns:
            A reference for `load_increment`, as JSON.
        """
        os.makedirs(folder, exist_ok=True)
        name = f"table-{secrets.token_hex(8)}.bin"
        path = os.path.join(folder, name)
        self.save(path)
        table = {"name": name, "size": os.path.getsize(path), "crc32": _checksum(path)}
        return {"kind": type(self).__name__, "segments": [], "table": table, "rng": None}

    def load_increment(self, folder: str | os.PathLike[str], reference: Mapping[str, Any]) -> None:
        """Replace the content with the content of a save.

        Raises:
            CheckpointError: If a file is missing or damaged, or does not match this buffer; the old content stays.
        """
        table = reference["table"]
        path = os.path.join(folder, os.path.basename(table["name"]))
        try:
            intact = os.path.getsize(path) == table["size"] and _checksum(path) == table["crc32"]
        except OSError as error:
            raise CheckpointError(path, f"cannot be read: {error.strerror or error}") from error
        if not intact:
            raise CheckpointError(path, "is damaged, or is not the file that was saved")
        self.load(path)

    def update_priorities(self, index: Any, td_error: Any) -> None:
        """Update the priorities of sampled items from their errors; items removed since the sample are skipped.

        Args:
            index: `Batch.index` of the batch that the errors were computed for, shape [n].
            td_error: The errors, a tensor or array, shape [n]; their absolute values are used.

        Raises:
            TypeError: If this buffer is not prioritised.
        """
        update_errors: Any = getattr(self, "update_errors", None)
        if update_errors is None:
            raise TypeError(f"{type(self).__name__} has no priorities")
        if len(index):  # sorted into the order of `sample`
            update_errors(torch.as_tensor(td_error)[np.argsort(index)].abs().tolist())


class AbstractEpisodicReplayBuffer(AbstractReplayBuffer):
    """A replay buffer that can also sample whole episodes and parts of episodes."""

    @property
    @abstractmethod
    def n_episodes(self) -> int:
        """Number of finished episodes that can be sampled."""

    @abstractmethod
    def sample_episodes(self, n_episodes: int, max_len: int | None = None) -> Any:
        """Draw distinct episodes as lists of transition dicts, each cut at random to at most `max_len` steps."""

    def sample_sequences(
        self,
        n: int,
        max_len: int | None = None,
        gamma: float = 1.0,
        device: torch.device | str = "cpu",
        *,
        next_actions: bool = False,
    ) -> Batch:
        """Draw the same episodes as `sample_episodes`, and return them as a `Batch` of sequences (`Batch.lengths`)."""
        return batch_of_experiences(self.sample_episodes(n, max_len), gamma, sequences=True).to(device)


def _checksum(path: str) -> int:
    checksum = 0
    with open(path, "rb") as file:
        while piece := file.read(1 << 24):
            checksum = zlib.crc32(piece, checksum)
    return checksum


def random_subseq(seq: Sequence[Any], subseq_len: int) -> Sequence[Any]:
    """Return a random part of a sequence with `subseq_len` items; all starts are equally likely.

    A sequence of at most `subseq_len` items is returned whole.
    """
    if len(seq) <= subseq_len:
        return seq
    begin = np.random.randint(len(seq) - subseq_len + 1)
    return seq[begin : begin + subseq_len]


def batch_experiences(
    experiences: Sequence[Experience],
    device: torch.device | str,
    phi: Phi,
    gamma: float,
    batch_states: BatchStates = batch_states,
) -> dict[str, Any]:
    """Collate items of `sample` in PFRL's form; `sample_batch` returns the same data faster.

    Args:
        experiences: k items, each of one to n transition dicts.
        device: Device of the tensors.
        phi: Feature extractor, applied to each observation.
        gamma: Discount factor per step.
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).

    Returns:
        `state`, `action`, `reward` (discounted sum), `next_state`, `is_state_terminal`, `discount` (gamma**n), each for
        k items; `reward`, `is_state_terminal` and `discount` are float32. `next_action` if every item has one.
    """
    first, last = [item[0] for item in experiences], [item[-1] for item in experiences]
    rewards, ended = rewards_and_ends(experiences, gamma)
    batch = {
        "state": batch_states([step["state"] for step in first], device, phi),
        "action": _column(first, "action", device),
        "reward": torch.tensor(rewards, dtype=torch.float32, device=device),
        "next_state": batch_states([next_state(step) for step in last], device, phi),
        "is_state_terminal": torch.tensor(ended, dtype=torch.float32, device=device),
        "discount": torch.tensor([gamma ** len(item) for item in experiences], dtype=torch.float32, device=device),
    }
    return batch | _next_actions(last, device)


def batch_recurrent_experiences(
    experiences: Sequence[Experience],
    device: torch.device | str,
    phi: Phi,
    gamma: float,
    batch_states: BatchStates = batch_states,
) -> dict[str, Any]:
    """Collate episodes, or parts of episodes, in PFRL's form; `sample_sequences` returns the same data faster.

    Args:
        experiences: k episodes, each a list of transition dicts with recurrent states, in order of decreasing length.
        device: Device of the tensors.
        phi: Feature extractor, applied to each observation.
        gamma: Discount factor per step.
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).

    Returns:
        A dict. `state` and `next_state` have one batch per episode. `action`, `reward`, `is_state_terminal`, `discount`
        and, if every step has it, `next_action` are packed time first. `recurrent_state` and `next_recurrent_state`
        belong to the first step of each episode.

    Raises:
        ValueError: If the episodes are not ordered by decreasing length.
    """
    lengths = [len(episode) for episode in experiences]
    if lengths != sorted(lengths, reverse=True):
        raise ValueError(f"experiences: got episodes of lengths {lengths}, expected decreasing lengths")
    steps = flatten_sequences_time_first(experiences)
    ended = [step["is_state_terminal"] for step in steps]
    batch = {
        "state": [batch_states([step["state"] for step in episode], device, phi) for episode in experiences],
        "action": _column(steps, "action", device),
        "reward": torch.tensor([step["reward"] for step in steps], dtype=torch.float32, device=device),
        "next_state": [batch_states([next_state(step) for step in episode], device, phi) for episode in experiences],
        "is_state_terminal": torch.tensor(ended, dtype=torch.float32, device=device),
        "discount": torch.full((len(steps),), gamma, dtype=torch.float32, device=device),
    }
    return batch | recurrent_states(experiences, device) | _next_actions(steps, device)


def _next_actions(steps: Experience, device: torch.device | str) -> dict[str, Any]:
    actions = _column(steps, "next_action", device)
    return {} if actions is None else {"next_action": actions}


def _column(steps: Experience, name: str, device: torch.device | str) -> Any:
    return map_nested(lambda leaf: leaf.to(device), column(steps, name))


class ReplayUpdater:
    """PFRL's class that regularly samples a replay buffer and calls an update function with each sample.

    Args:
        replay_buffer: The buffer to sample from.
        update_func: Function called with a list of items or, if `episodic_update` is True, with a list of (parts of)
            episodes.
        batchsize: Number of items or episodes per sample.
        episodic_update: True to sample episodes, False to sample items.
        n_times_update: Number of samples per update.
        replay_start_size: Minimum size of the buffer for an update.
        update_interval: Number of steps between updates.
        episodic_update_len: Maximum length of the parts of episodes, in steps. If None, whole episodes are sampled.

    Raises:
        ValueError: If `batchsize` is larger than `replay_start_size`, or if a number is out of range.
        TypeError: If a number is not an integer.
    """

    @takes_integral_floats
    def __init__(
        self,
        replay_buffer: AbstractReplayBuffer,
        update_func: Callable[[Any], Any],
        batchsize: int,
        episodic_update: bool,
        n_times_update: int,
        replay_start_size: int,
        update_interval: int,
        episodic_update_len: int | None = None,
    ) -> None:
        check_counts(batchsize=batchsize, n_times_update=n_times_update, update_interval=update_interval)
        check_counts(optional=True, episodic_update_len=episodic_update_len)
        check_counts(0, replay_start_size=replay_start_size)
        if batchsize > replay_start_size:
            raise ValueError(f"batchsize: got {batchsize}, expected at most replay_start_size={replay_start_size}")
        self.replay_buffer = replay_buffer
        self.update_func = update_func
        self.batchsize = batchsize
        self.episodic_update = episodic_update
        self.n_times_update = n_times_update
        self.replay_start_size = replay_start_size
        self.update_interval = update_interval
        self.episodic_update_len = episodic_update_len

    def update_if_necessary(self, iteration: int) -> bool:
        """Make an update if it is due at time step `iteration`. Return True if an update was made."""
        buffer: Any = self.replay_buffer
        if len(buffer) < self.replay_start_size or iteration % self.update_interval:
            return False
        if self.episodic_update:
            if not hasattr(buffer, "sample_episodes"):
                raise TypeError(f"replay_buffer: got {type(buffer).__name__}, expected an episodic buffer")
            if buffer.n_episodes < self.batchsize:
                return False
        for _ in range(self.n_times_update):
            if self.episodic_update:
                self.update_func(buffer.sample_episodes(self.batchsize, self.episodic_update_len))
            else:
                self.update_func(buffer.sample(self.batchsize))
        return True
