"""`Learners`: processes of Ray that make every update of the agent together with the driver (data parallelism)."""

import contextlib
import dataclasses
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import torch
from torch import distributed

from pfrl_like.distributed.chunk import Chunk
from pfrl_like.distributed.data_parallel import data_parallel
from pfrl_like.distributed.learner_group import LearnerGroup
from pfrl_like.errors import CheckpointError, PfrlLikeError, WorkerError
from pfrl_like.experiments.cluster.env_actor import add_paths, check_versions, error_of, versions
from pfrl_like.experiments.cluster.ray_session import variables
from pfrl_like.experiments.cluster.remote_buffer import RemoteChunk
from pfrl_like.random_streams.streams import GlobalStreams, Streams
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.plain_values import from_json, to_json
from pfrl_like.utils.random_seed import set_random_seed

#: Maximum number of calls of all learners that are not yet confirmed.
_MAX_UNCONFIRMED = 32
#: Numbers of an agent, and settings of the groups of parameters of its optimisers.
Settings = tuple[dict[str, Any], list[dict[str, Any]]]
#: Environment variables that name the network interface of a process group.
_INTERFACES = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"
#: Maximum number of seconds after an error in which the learner that is the reason is found.
_FAULT_SECONDS = 20.0
#: State of an on-policy agent that each learner has for itself. All other state is that of the driver.
_OWN_STATE = "rollout"


class Progress(NamedTuple):
    """The data of a learner.

    Attributes:
        is_ready: True if the learner has enough data for an update.
        steps_left: Number of steps that its next update still needs. 0 if their number is not fixed.
    """

    is_ready: bool
    steps_left: int

    @classmethod
    def of(cls, agent: Any) -> "Progress":
        """Return the progress of an agent."""
        if hasattr(agent, "update_from_replay"):
            return cls(agent.waiting_for() is None, 0)
        return cls(agent.is_due(), agent.steps_until_update or 0)


@contextlib.contextmanager
def process_group(
    store: Any, rank: int, size: int, address: str, device: torch.device, seconds: float
) -> Iterator[None]:
    """Context manager in which this process belongs to the default group of `torch.distributed`.

    Args:
        store: Store through which the processes find each other.
        rank: Number of this process in the group.
        size: Number of processes.
        address: Address of the driver's node. If it is a loopback address, all sockets are on the loopback interface.
        device: Device of the agent.
        seconds: Seconds in which the other processes must take part in an exchange.
    """
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
    names = dict.fromkeys(_INTERFACES if address.startswith("127.") else (), loopback)
    timeout = timedelta(seconds=seconds)
    backend = "nccl" if device.type == "cuda" else "gloo"
    with variables(names):
        distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
        try:
            yield
        finally:
            distributed.destroy_process_group()


class LearnerActor:
    """An agent in a process of Ray that learns from its own steps, in a group with the driver.

    Args:
        packed: Result of `cloudpickle.dumps` for a tuple that contains the function that makes the agent.
        seed: Seed of the global random streams.
        rank: Number of this learner. The driver is learner 0.
        size: Number of learners.
    """

    def __init__(self, packed: bytes, seed: int, rank: int, size: int) -> None:
        self._packed, self._seed, self._rank, self._size = packed, seed, rank, size
        self._context = contextlib.ExitStack()

    def gpu(self) -> str:
        """Return the identifier of the GPU of this process."""
        return gpu_of(torch.device("cuda"))

    def start(self, paths: Sequence[str], n_threads: int) -> dict[str, str]:
        """Make the agent, and return the result of `versions`.

        Args:
            paths: Folders of modules that the user imports.
            n_threads: Number of threads of PyTorch.
        """
        torch.set_num_threads(n_threads)
        add_paths(paths)
        (make_agent,) = cloudpickle.loads(self._packed)
        set_random_seed(self._seed)
        self.agent = make_agent()
        set_random_seed(self._seed)  # `make_agent` may have set the same seed in all learners
        return versions()

    def join(self, address: str, port: int, seconds: float) -> None:
        """Join the process group of the driver, whose store listens at an address and a port; see `process_group`."""
        store = _store(address, port, seconds)
        group = process_group(store, self._rank, self._size, address, self.agent.device, seconds)
        self._context.enter_context(group)

    def begin(self, state: Mapping[str, Any], own: Mapping[str, Any] | None) -> Progress:
        """Begin to learn, with the parameters of the driver.

        Args:
            state: Saved state of the driver's agent, without the part that each learner has for itself.
            own: Result of `saved_state` in a checkpoint. None if there is none.
        """
        self.agent.restore_state({**state, **({} if own is None else from_json(own["agent"]))})
        self._context.enter_context(data_parallel(self.agent))
        if own is not None:
            Streams.of(self.agent).restore(own["streams"])
        return Progress.of(self.agent)

    def store(self, chunk: Chunk, is_cut: bool, env_ids: Sequence[int]) -> Progress:
        """Store the steps of a chunk. If `is_cut` is True, first end the running episodes of its environments."""
        if is_cut:
            chunk = dataclasses.replace(chunk, cut=np.ones(len(env_ids), np.bool_))
        self.agent.observe_chunk(chunk, env_ids)
        return Progress.of(self.agent)

    def update(self, settings: Settings) -> Progress:
        """Make an update together with the other learners, with the settings of the driver."""
        change_settings(self.agent, settings)
        try:
            update_once(self.agent)
        except BaseException:
            self._context.close()  # the others need not wait for this learner
            raise
        return Progress.of(self.agent)

    def saved_state(self) -> dict[str, Any]:
        """Return the state of this learner that differs from that of the driver, as JSON values."""
        streams = Streams.of(self.agent).to_plain()
        state = {name: value for name, value in self.agent.saved_state().items() if name == _OWN_STATE}
        return {"agent": to_json(state), "streams": streams}

    def save_increment(self, folder: str, last: Mapping[str, Any] | None) -> dict[str, Any]:
        """Save the replay buffer into an existing folder; see `AbstractReplayBuffer.save_increment`.

        Raises:
            CheckpointError: If the folder does not exist on the node of this process.
        """
        if not os.path.isdir(folder):
            reason = f"does not exist on the node of learner {self._rank}: put outdir on a disk that all learners see"
            raise CheckpointError(folder, reason)
        return dict(self.agent.replay_buffer.save_increment(folder, last))

    def load_increment(self, folder: str, reference: Mapping[str, Any]) -> None:
        """Replace the content of the replay buffer; see `AbstractReplayBuffer.load_increment`."""
        self.agent.replay_buffer.load_increment(folder, reference)


def _store(address: str, port: int, seconds: float, **options: Any) -> Any:
    kind: Any = distributed.TCPStore  # type: ignore[attr-defined]
    return kind(address, port, wait_for_workers=False, timeout=timedelta(seconds=seconds), **options)


def update_once(agent: Any) -> None:
    """Make one update from the replay buffer or the rollout of an agent."""
    (agent.update_from_replay if hasattr(agent, "update_from_replay") else agent.update_from_rollout)()


def settings_of(agent: Any) -> Settings:
    """Return the public numbers of an agent and the settings of its optimisers. Hooks change those of the driver."""
    numbers = {name: value for name, value in vars(agent).items() if type(value) in (bool, int, float)}
    public = {name: value for name, value in numbers.items() if name != "gpu" and not name.startswith("_")}
    groups = ({name: value for name, value in group.items() if name != "params"} for group in _groups_of(agent))
    return public, [*groups]


def change_settings(agent: Any, settings: Settings) -> None:
    """Give an agent the settings of another one; see `settings_of`."""
    for name, value in settings[0].items():
        if getattr(agent, name, None) != value:
            setattr(agent, name, value)
    for group, values in zip(_groups_of(agent), settings[1], strict=True):
        group.update(values)


def _groups_of(agent: Any) -> list[dict[str, Any]]:
    parts = (getattr(agent, name) for name in agent.saved_attributes)
    return [group for part in parts if isinstance(part, torch.optim.Optimizer) for group in part.param_groups]


def gpu_of(device: torch.device) -> str:
    """Return the identifier of a GPU, which is the same in all processes."""
    return str(torch.cuda.get_device_properties(device).uuid)


class LearnerBuffer(AbstractReplayBuffer):
    """Stands in the driver for the replay buffer of another learner, whose content belongs to the checkpoints.

    Args:
        learners: The learners.
        rank: Number of the learner.
        capacity: Capacity of the buffer.
    """

    def __init__(self, learners: "Learners", rank: int, capacity: int | None) -> None:
        self._learners, self._rank, self._capacity = learners, rank, capacity

    @property
    def capacity(self) -> int | None:
        """Maximum number of items; None if unbounded."""
        return self._capacity

    def append(self, *args: Any, **options: Any) -> Any:
        """Raise an error, because the content is in another process.

        Raises:
            TypeError: Always.
        """
        raise TypeError(f"the content of this buffer is in the process of learner {self._rank}")

    __len__ = stop_current_episode = sample = save = load = append

    def save_increment(self, folder: Any, last: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Save the content, with all sent chunks, into a folder; see `AbstractReplayBuffer.save_increment`."""
        folder = os.path.abspath(folder)
        os.makedirs(folder, exist_ok=True)
        return dict(self._learners.call(self._rank, "save_increment", folder, last))

    def load_increment(self, folder: Any, reference: Mapping[str, Any]) -> None:
        """Replace the content with the content of a save; see `AbstractReplayBuffer.load_increment`."""
        self._learners.call(self._rank, "load_increment", os.path.abspath(folder), reference)


class Learners:
    """The driver and other processes, which make every update together. The driver is learner 0.

    Each learner has its own steps. Environment actor i belongs to learner i % size.

    Args:
        ray: The module `ray`, with a connection.
        agent: Agent of the driver.
        packed: Result of `cloudpickle.dumps` for a tuple that contains the function that makes the agent.
        seeds: Seeds of the random streams of the other learners.
        cpus: Number of CPUs that Ray reserves for each of them. If the agent is on a GPU, each also gets a GPU.
        limits: Seconds in which the processes must start, and in which they must answer a request.

    Attributes:
        size: Number of learners.
        buffers: Stand-ins for the replay buffers of the other learners, keyed by rank.

    Raises:
        WorkerError: If a learner does not start, is lost, does not answer, or raises an error.
    """

    has_no_rng = True  # in the process of the driver

    def __init__(
        self, ray: Any, agent: Any, packed: bytes, seeds: Sequence[int], cpus: float, limits: tuple[float, float]
    ) -> None:
        self.size = len(seeds) + 1
        self._ray, self._agent, self._start_timeout, self._timeout = ray, agent, *limits
        self._context = contextlib.ExitStack()
        self._group: LearnerGroup | None = None
        self._unconfirmed: deque[tuple[int, Any]] = deque()
        self._progress: dict[int, Progress] = {}
        on_gpu = agent.device.type == "cuda"
        self._needs = f"{cpus:g} CPU and {int(on_gpu)} GPU"
        options = {"num_cpus": cpus, "num_gpus": int(on_gpu), "max_restarts": 0, "max_task_retries": 0}
        self._class = ray.remote(LearnerActor).options(**options)
        self._arguments = {rank: (packed, seed, rank, self.size) for rank, seed in enumerate(seeds, 1)}
        self._actors = {rank: self._class.remote(*arguments) for rank, arguments in self._arguments.items()}
        self._others: list[Any] = []  # processes that reserve a GPU and do nothing
        owners = self._actors if hasattr(agent, "update_from_replay") else ()
        self.buffers = {rank: LearnerBuffer(self, rank, agent.replay_buffer.capacity) for rank in owners}
        try:
            self._start(on_gpu)
            self._join()
        except BaseException:
            self.close()
            raise

    def _start(self, on_gpu: bool) -> None:
        """Make the agents of the other learners."""
        own = gpu_of(self._agent.device) if on_gpu else ""
        for rank, actor in [*self._actors.items()] if on_gpu else ():
            if self._started(rank, actor.gpu.remote()) == own:  # Ray does not know that the driver uses it
                self._others.append(actor)
                self._actors[rank] = self._class.remote(*self._arguments[rank])
        threads = torch.get_num_threads()
        for rank, ref in {rank: actor.start.remote(sys.path, threads) for rank, actor in self._actors.items()}.items():
            check_versions(rank, self._started(rank, ref), "of the learners ")

    def _started(self, rank: int, ref: Any) -> Any:
        if not self._ray.wait([ref], timeout=self._start_timeout)[0]:
            reason = f"it needs {self._needs}, or make_agent has not returned; allow more time with start_timeout"
            raise WorkerError(rank, f"of the learners has not started within {self._start_timeout:g} s: {reason}")
        return self._get(rank, ref)

    def _join(self) -> None:
        """Form the process group. Its store listens only at the address of this node."""
        address = self._ray.util.get_node_ip_address()
        server = socket.create_server((address, 0))
        port = server.getsockname()[1]
        store = _store(address, port, self._timeout, is_master=True, master_listen_fd=server.detach())
        with self._together("join", address, port, self._timeout):
            group = process_group(store, 0, self.size, address, self._agent.device, self._timeout)
            self._context.enter_context(group)

    def begin(self, saved: Mapping[str, Any] | None = None) -> None:
        """Send the parameters to all learners, and learn together from now on.

        Args:
            saved: Result of `saved_state` in a checkpoint. None if there is none. The caller restores the global random
                streams afterwards.
        """
        state = {name: value for name, value in self._agent.saved_state().items() if name != _OWN_STATE}
        own = [None] * len(self._actors) if saved is None else saved["own"]
        if saved is not None and saved["shared"] is not None:  # the group begins with the streams of this process
            GlobalStreams.from_plain(saved["shared"]).restore()
        with self._together("begin", state, own=own):
            self._group = self._context.enter_context(data_parallel(self._agent))

    def store(self, rank: int, chunk: RemoteChunk, env_ids: Sequence[int]) -> None:
        """Send the reference to a chunk to a learner, and return before the chunk is stored.

        Args:
            rank: Number of the learner, not 0.
            chunk: The reference.
            env_ids: Numbers of the environments.
        """
        self._ask(rank, "store", chunk.ref, chunk.is_cut, env_ids)
        self._confirm(_MAX_UNCONFIRMED)

    def progress(self) -> Progress:
        """Return True if every learner has enough data for an update, and the largest number of missing steps."""
        self._confirm()
        all_of_them = [Progress.of(self._agent), *self._progress.values()]
        return Progress(all(each.is_ready for each in all_of_them), max(each.steps_left for each in all_of_them))

    def update(self) -> None:
        """Make an update. All learners make it together."""
        with self._together("update", settings_of(self._agent)):
            update_once(self._agent)
        self._confirm(_MAX_UNCONFIRMED)

    def saved_state(self) -> dict[str, Any]:
        """Return the states of the other learners, except their replay buffers, and the streams of the group."""
        shared = None if self._group is None else self._group.streams.to_plain()
        return {"own": [self.call(rank, "saved_state") for rank in self._actors], "shared": shared}

    def call(self, rank: int, name: str, *args: Any) -> Any:
        """Call a method of a learner after all earlier requests, and wait for its result."""
        return self._get(rank, getattr(self._actors[rank], name).remote(*args))

    def close(self) -> None:
        """End the other processes, and leave the process group."""
        for actor in [*self._actors.values(), *self._others]:
            with contextlib.suppress(Exception):  # the process or Ray itself may have ended
                self._ray.kill(actor)
        with contextlib.suppress(Exception):  # the others have left the group
            self._context.close()
        self._group = None

    # Requests

    def _ask(self, rank: int, name: str, *args: Any) -> None:
        self._unconfirmed.append((rank, getattr(self._actors[rank], name).remote(*args)))

    def _confirm(self, limit: int = 0) -> None:
        """Wait until at most `limit` requests are unconfirmed."""
        while len(self._unconfirmed) > limit:
            rank, ref = self._unconfirmed.popleft()
            if isinstance(progress := self._get(rank, ref), Progress):
                self._progress[rank] = progress

    @contextlib.contextmanager
    def _together(self, name: str, *args: Any, own: Sequence[Any] = ()) -> Iterator[None]:
        """Context manager for work that all learners do together.

        Args:
            name: Name of the method that the other learners call.
            *args: Arguments of the method.
            own: Last argument of the method for each of the other learners. If empty, there is no such argument.

        Raises:
            WorkerError: If another learner is the reason of an error.
        """
        for rank in self._actors:
            self._ask(rank, name, *args, *own[rank - 1 : rank])
        begun = time.monotonic()
        try:
            yield
        except RuntimeError as error:  # also the errors of an exchange
            if not isinstance(error, PfrlLikeError):
                self._raise_failure(time.monotonic() - begun)
            raise

    def _raise_failure(self, seconds: float) -> None:
        """Raise the error of a learner that has failed, if there is one. The common work took a number of seconds."""
        refs = [ref for _, ref in self._unconfirmed]
        ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=min(_FAULT_SECONDS, self._timeout))
        failures = []
        for rank, ref in self._unconfirmed:
            try:
                if ref in ready:
                    self._get(rank, ref)
                elif seconds >= self._timeout:
                    failures.append(_lost(rank, f"it did not answer within {self._timeout:g} s"))
            except WorkerError as error:
                failures.append(error)
        # A learner that raises an error may do so because another one is lost.
        for failure in sorted(failures, key=lambda each: bool(each.traceback_text)):
            raise failure from None

    def _get(self, rank: int, ref: Any) -> Any:
        try:
            return self._ray.get(ref, timeout=self._timeout)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, PfrlLikeError):
                raise error.cause from error
            raise error_of(rank, "of the learners ", error) from None
        except self._ray.exceptions.RayError as error:  # the process has ended, or does not answer in time
            raise _lost(rank, str(error).splitlines()[0].rstrip(".")) from None


def _lost(rank: int, reason: str) -> WorkerError:
    text = f"of the learners is lost: {reason}. To continue from the newest checkpoint, use resume=True"
    return WorkerError(rank, text)
