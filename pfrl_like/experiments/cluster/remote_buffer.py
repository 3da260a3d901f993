"""`RemoteBuffer`: the agent's replay buffer in a process of its own, the replay actor (Ape-X, arXiv:1803.00933).

Steps go from the environment actors to the replay actor. The learner has only references to them. It asks for
minibatches ahead, so that the replay actor samples during an update.
"""

import contextlib
import functools
import os
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import torch

from pfrl_like.batch import Batch
from pfrl_like.errors import WorkerError
from pfrl_like.experiments.cluster.env_actor import add_paths, check_versions, versions
from pfrl_like.experiments.cluster.replay_journal import JournaledBuffer
from pfrl_like.processes.rerun_request import rerun_request
from pfrl_like.random_streams.streams import Streams
from pfrl_like.replay_buffer import AbstractEpisodicReplayBuffer
from pfrl_like.replay_buffers import PrioritizedReplayBuffer
from pfrl_like.replay_buffers.persistent import PersistentBuffer
from pfrl_like.utils.random_seed import set_random_seed

#: Maximum number of messages of steps that the replay actor has not yet confirmed.
_MAX_UNCONFIRMED = 16
#: Number of items of a buffer, and number of its finished episodes (0 if it counts none).
Size = tuple[int, int]


class ReplayActor:
    """A replay buffer in a process of Ray.

    After the first save of the buffer, each chunk is written to a journal before it is confirmed.

    Args:
        packed: Result of `cloudpickle.dumps` for a tuple that contains the buffer, or a function that opens it.
        seed: Seed of the global random streams. A buffer without a generator of its own draws from them.
    """

    def __init__(self, packed: bytes, seed: int) -> None:
        self._packed, self._seed = packed, seed

    def start(self, paths: Sequence[str]) -> tuple[Size, int, dict[str, str]]:
        """Load the buffer, and return its size, the number of the process and the result of `versions`.

        Args:
            paths: Folders of modules that the user imports.
        """
        torch.set_num_threads(1)
        add_paths(paths)
        (buffer,) = cloudpickle.loads(self._packed)
        self.buffer = buffer() if isinstance(buffer, functools.partial) else buffer
        self._stored = JournaledBuffer(self.buffer)
        set_random_seed(self._seed)
        return self._size(), os.getpid(), versions()

    def append_chunk(self, chunk: Any, env_ids: Sequence[Any], is_cut: bool, label: Mapping[str, Any]) -> Size:
        """Store the steps of a chunk, and write it to the journal.

        Args:
            chunk: The chunk.
            env_ids: Ids of its environments.
            is_cut: True to end the running episodes of these environments first.
            label: JSON values that the journal contains beside the chunk.
        """
        self._stored.append_chunk(chunk, env_ids, is_cut, label)
        return self._size()

    def begin_journal(self, folder: str) -> int:
        """Begin a new journal, because the buffer was saved into a folder. Return its number."""
        return self._stored.begin(folder)

    def restore_journal(self, folder: str, number: int, keeps: bool) -> tuple[list[dict[str, Any]], Size]:
        """Store the chunks of a journal and of all later ones again, and begin a new journal.

        Args:
            folder: Folder of the journals.
            number: Number of the first journal.
            keeps: False to remove the journals instead.

        Returns:
            The labels of the chunks, and the size of the buffer.
        """
        self._stored.loaded = folder, number
        return self._stored.restore_journal(keeps=keeps), self._size()

    def call(self, name: str, args: Any, options: Mapping[str, Any], errors: Any) -> tuple[Any, Size]:
        """Update priorities, and call a method of the buffer. Return its result and the size of the buffer.

        Args:
            name: Name of the method.
            args: Arguments of the method.
            options: Keyword arguments of the method.
            errors: Arguments of the calls of `update_priorities`.
        """
        for each in errors:
            self.buffer.update_priorities(*each)
        result = getattr(self.buffer, name)(*args, **options)
        if isinstance(result, Batch):  # Ray sends arrays faster than tensors
            result = result._map(lambda leaf: leaf.numpy() if isinstance(leaf, torch.Tensor) else leaf, keep=())
        return result, self._size()

    def streams(self, saved: Mapping[str, Any] | None) -> dict[str, Any]:
        """Restore the random streams if `saved` is not None. Return their states as JSON values."""
        streams = Streams.of(self.buffer)
        if saved is not None:
            streams.restore(saved)
        return streams.to_plain()

    def _size(self) -> Size:
        return len(self.buffer), getattr(self.buffer, "n_episodes", 0)


@dataclass(frozen=True)
class RemoteChunk:
    """Reference to a `Chunk` in Ray's object store. It stands for the chunk in the driver.

    Attributes:
        ray: The module `ray`.
        ref: The reference.
        label: JSON values for the journal of the replay actor: numbers of the "request", the "actor" and its earlier
            processes ("life"), number of "steps", and return and length of the "episodes" that ended.
        is_cut: True if the running episodes of all environments were ended before the chunk.
    """

    ray: Any
    ref: Any
    label: Mapping[str, Any]
    is_cut: bool = False

    @property
    def n_steps(self) -> int:
        """Number of steps of the chunk."""
        return int(self.label["steps"])

    def steps(self) -> Iterator[dict[str, Any]]:
        """Fetch the chunk, and yield the result of `Chunk.steps`."""
        yield from self.ray.get(self.ref).steps()


class RemoteBuffer(AbstractEpisodicReplayBuffer):
    """Stands in the learner for a replay buffer in a process of Ray.

    The process runs on the node of the learner, because it writes the files of checkpoints. With k minibatches in
    flight, a minibatch is sampled before the errors of the last k - 1 updates, and the last steps, are known.

    Args:
        ray: The module `ray`, with a connection.
        buffer: The buffer. Its content, if it has any, is sent to the process.
        packed: Result of `cloudpickle.dumps` for a tuple that contains the buffer.
        seed: Seed of the random streams of the process.
        in_flight: Number k of minibatches that are requested at the same time. 1 requests a minibatch when it is used.
            It is 1 for buffers with `wait_priority_after_sampling=True`.
        limits: Seconds in which the process must start, and in which it must answer a request.

    Attributes:
        pid: Number of the process on its node.

    Raises:
        WorkerError: If the process does not start, is lost, or does not answer.
    """

    has_no_rng = True  # in the process of the learner
    #: True if the errors of the newest result of `sample` or `sample_episodes` are expected.
    waits_for_errors = False

    def __init__(
        self, ray: Any, buffer: Any, packed: bytes, seed: int, in_flight: int, limits: Sequence[float]
    ) -> None:
        self.prioritized = buffer.prioritized
        self._capacity: int | None = buffer.capacity
        self.num_steps = getattr(buffer, "num_steps", 1)
        #: True if the TD errors of new steps become their first priorities.
        self.uses_first_errors = isinstance(buffer, PrioritizedReplayBuffer)
        self._ray, self._timeout = ray, limits[0]
        # Some buffers need the errors of each minibatch before they sample the next one.
        self._in_flight = 1 if getattr(buffer, "wait_priority_after_sampling", False) else in_flight
        self._errors: list[tuple[Any, Any]] = []  # of updates, sent with the next request
        self._unconfirmed: deque[Any] = deque()
        self._ahead: deque[Any] = deque()
        self._request: Any = None  # of the minibatches in `_ahead`
        self._is_on_disk = isinstance(buffer, PersistentBuffer)
        # A rerun of a part of a run does not change the files of the run.
        self._has_journal = rerun_request() is None
        self._loaded: tuple[str, int] | None = None  # folder and journal of the save that was loaded
        node = ray.get_runtime_context().get_node_id()
        strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        options = {"num_cpus": 0, "max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": strategy}
        self._actor = ray.remote(ReplayActor).options(**options).remote(packed, seed)
        self._size: Size
        self._size, self.pid, found = self._get(self._actor.start.remote(sys.path))
        check_versions(0, found, "of the replay buffer ")
        self._timeout = limits[1]

    @property
    def capacity(self) -> int | None:
        """Maximum number of items; None if unbounded."""
        return self._capacity

    def __len__(self) -> int:
        return self._confirmed()[0]

    @property
    def n_episodes(self) -> int:
        """Number of finished episodes that can be sampled."""
        return self._confirmed()[1]

    # Storing

    def append_chunk(self, chunk: Any, env_ids: Sequence[Any] | None = None) -> None:
        """Send the reference to a chunk to the replay actor, and return before the chunk is stored.

        Args:
            chunk: A `RemoteChunk`.
            env_ids: Ids of its environments.

        Raises:
            WorkerError: If the replay actor is lost.
            NonFiniteError, ValueError: If an earlier chunk could not be stored.
        """
        self._unconfirmed.append(self._actor.append_chunk.remote(chunk.ref, env_ids, chunk.is_cut, chunk.label))
        self._confirmed(_MAX_UNCONFIRMED)

    def append(self, *args: Any, **options: Any) -> None:
        """Store one transition; see `AbstractReplayBuffer.append`."""
        self._call("append", *args, **options)

    def stop_current_episode(self, env_id: Any = 0) -> None:
        """End the running episode of the environment `env_id`. Its next step starts a new episode."""
        self._call("stop_current_episode", env_id)

    # Sampling

    def sample(self, n: int) -> Any:
        """Draw distinct items; see `AbstractReplayBuffer.sample`."""
        self.waits_for_errors = self.prioritized
        return self._call("sample", n)

    def sample_episodes(self, n_episodes: int, max_len: int | None = None) -> Any:
        """Draw distinct episodes; see `AbstractEpisodicReplayBuffer.sample_episodes`."""
        self.waits_for_errors = self.prioritized
        return self._call("sample_episodes", n_episodes, max_len)

    def sample_batch(self, n: int, gamma: float = 1.0, device: torch.device | str = "cpu", **options: Any) -> Batch:
        """Return the oldest requested minibatch, and request another one; see `AbstractReplayBuffer.sample_batch`."""
        return self._sample_ahead("sample_batch", (n, gamma), options).to(device)

    def sample_sequences(
        self, n: int, max_len: Any = None, gamma: float = 1.0, device: Any = "cpu", **options: Any
    ) -> Batch:
        """Return the oldest requested minibatch of sequences, and request another one, like `sample_batch`."""
        return self._sample_ahead("sample_sequences", (n, max_len, gamma), options).to(device)

    def update_priorities(self, index: Any, td_error: Any) -> None:
        """Send the errors of sampled items with the next request; see `AbstractReplayBuffer.update_priorities`."""
        self._errors.append((np.asarray(index), torch.as_tensor(td_error).detach().double().cpu().numpy()))
        self.waits_for_errors = False

    def update_errors(self, errors: Any) -> None:
        """Update the priorities of the newest result of `sample` or `sample_episodes`, in the order of its items."""
        self._call("update_errors", errors)
        self.waits_for_errors = False

    # Saving

    def save(self, filename: str) -> None:
        """Write the content to one file, atomically. The replay actor writes the file."""
        self._call("save", os.path.abspath(filename))

    def load(self, filename: str, **options: Any) -> None:
        """Replace the content with the content of a file; see `AbstractReplayBuffer.load`."""
        self._call("load", os.path.abspath(filename), **options)

    def save_increment(self, folder: Any, last: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Save the content, with all sent chunks, into a folder; see `AbstractReplayBuffer.save_increment`.

        The reference also contains the states of the random streams of the replay actor, and the number of the journal
        of later steps.
        """
        folder = os.path.abspath(folder)
        reference = dict(self._call("save_increment", folder, last))
        reference["streams"] = self._get(self._actor.streams.remote(None))
        if self._has_journal:
            reference["journal"] = self._get(self._actor.begin_journal.remote(folder))
        return reference

    def load_increment(self, folder: Any, reference: Mapping[str, Any]) -> None:
        """Replace the content with the content of a save; see `AbstractReplayBuffer.load_increment`.

        The steps after the save are stored by `restore_journal`.
        """
        folder = os.path.abspath(folder)
        self._call("load_increment", folder, reference)
        self._get(self._actor.streams.remote(reference.get("streams")))
        has_journal = self._has_journal and "journal" in reference
        self._loaded = (folder, int(reference["journal"])) if has_journal else None

    def restore_journal(self, *, keeps: bool) -> list[dict[str, Any]]:
        """Store the steps after the save that was loaded, and return the labels of their chunks (see `RemoteChunk`).

        Args:
            keeps: False to forget these steps instead, because the run will repeat them. The result is then empty.

        Raises:
            CheckpointError: If a journal is damaged.
        """
        if self._loaded is None:
            return []
        labels, self._size = self._get(self._actor.restore_journal.remote(*self._loaded, keeps))
        self._loaded = None
        return list(labels)

    def close(self) -> None:
        """End the replay actor. Its content is lost, except what is in files. The size can still be read."""
        with contextlib.suppress(Exception):  # the actor or Ray itself may have ended
            self._confirmed()
            if self._is_on_disk:
                self._get(self._send("close", (), {}))
        self._unconfirmed.clear()
        with contextlib.suppress(Exception):
            self._ray.kill(self._actor)

    # Requests

    def _sample_ahead(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Batch:
        if (name, args, options) != self._request:
            self._ahead.clear()
            self._request = name, args, options
        while len(self._ahead) < self._in_flight:
            self._ahead.append(self._send(*self._request))
        batch: Batch = self._get(self._ahead.popleft())[0]
        return batch._map(lambda leaf: torch.tensor(leaf) if isinstance(leaf, np.ndarray) else leaf, keep=("index",))

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        """Call a method of the buffer after all earlier requests, and wait for its result."""
        self._confirmed()
        result, self._size = self._get(self._send(name, args, options))
        return result

    def _send(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        errors, self._errors = self._errors, []
        return self._actor.call.remote(name, args, options, errors)

    def _confirmed(self, limit: int = 0) -> Size:
        """Wait until at most `limit` chunks are unconfirmed. Return the size after the newest confirmed chunk."""
        while len(self._unconfirmed) > limit:
            self._size = self._get(self._unconfirmed.popleft())
        return self._size

    def _get(self, ref: Any) -> Any:
        try:
            return self._ray.get(ref, timeout=self._timeout)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except self._ray.exceptions.RayError as error:  # the process has ended, or does not answer in time
            text = f"of the replay buffer is lost: {str(error).splitlines()[0].rstrip('.')}"
            raise WorkerError(0, f"{text}. To continue from the newest checkpoint, use resume=True") from None
