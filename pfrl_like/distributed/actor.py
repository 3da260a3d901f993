"""`Actor`, an agent that acts in its own process, and `SharedWeights`, parameters in shared memory."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Client
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pfrl_like.agent import AsyncAgent
from pfrl_like.errors import WorkerError
from pfrl_like.export import Signature
from pfrl_like.processes import Portable, SharedArrays, send
from pfrl_like.processes.shared_arrays import Layout
from pfrl_like.utils.env_values import mask_keyword
from pfrl_like.utils.reprs import never_raising

#: An actor sends a message to the learner when it has collected this number of steps, or after this number of seconds.
MAX_STEPS_PER_MESSAGE, MAX_SECONDS = 32, 0.1

#: Indices of the arrays that all actors share. `STEPS`: first the number of steps before the actors started, then the
#: number of steps of each actor. `LISTENING`: 1 while the poller accepts messages. `HOLD`: 1 while the actors must wait
#: for the learner.
STEPS, LISTENING, HOLD = range(3)

#: Maximum number of seconds for which an actor waits for the start of the poller.
PATIENCE = 10.0


class SharedWeights:
    """Tensors of modules in shared memory.

    There is no lock, because a killed process would never release it. Instead, the writer stores a version number
    before each write, and the same number after the write. If a reader finds two different numbers, it reads again.

    Args:
        modules: Modules whose tensors are written or read. They have the same structure in all processes.
        memory: Memory that another process has created. If None, new memory with the values of `modules` is created.
    """

    def __init__(self, modules: Sequence[nn.Module], memory: SharedArrays | None = None) -> None:
        self.modules = list(modules)
        tensors = self._own_tensors()
        sizes = tuple(((tensor.numel() * tensor.element_size(),), "|u1") for tensor in tensors)
        self.memory = memory or SharedArrays((((2,), "<i8"), *sizes))
        self._versions, *arrays = self.memory.arrays
        self._shared = [
            torch.from_numpy(array).view(tensor.dtype).view(tensor.shape)
            for array, tensor in zip(arrays, tensors, strict=True)
        ]
        self._version = 0
        self._barrier = threading.Lock()  # memory barrier: no read or write moves across its operations
        if memory is None:
            self.publish()

    def publish(self) -> None:
        """Write the modules' tensors to the memory. Only one thread in all processes may call this method."""
        version = int(self._versions[0]) + 1
        with self._barrier:
            self._versions[0] = version
        with self._barrier, torch.no_grad():
            torch._foreach_copy_(self._shared, self._own_tensors())
        with self._barrier:
            self._versions[1] = version

    def refresh(self) -> bool:
        """Copy a newer version in the memory to the modules. Return True if there was a newer version."""
        if self._versions[1] == self._version:
            return False
        while True:
            with self._barrier:
                end_version = int(self._versions[1])
            with self._barrier, torch.no_grad():
                torch._foreach_copy_(self._own_tensors(), self._shared)
            with self._barrier:
                begin_version = int(self._versions[0])
            if begin_version == end_version:
                self._version = end_version
                return True

    def close(self) -> None:
        """Close the memory."""
        self._shared.clear()
        del self._versions
        self.memory.close()

    def _own_tensors(self) -> list[Tensor]:
        states = [module.state_dict() for module in self.modules]
        return [value for state in states for value in state.values() if isinstance(value, Tensor)]


class RowSender:
    """Replay buffer of an actor. It collects steps, and sends them to the learner in messages of columns.

    Args:
        send: Function that sends a message: ("rows", columns), or ("stop_episode", None).
    """

    prioritized = False

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send = send
        self._rows: list[tuple[Any, ...]] = []
        self._sent_at = time.monotonic()

    def __len__(self) -> int:
        return 0  # the acting copy never makes an update, because its buffer is empty

    @property
    def memory(self) -> Any:
        """Raise an error, because the steps are in the learner's process.

        Raises:
            TypeError: Always.
        """
        raise TypeError("replay_buffer.memory is not available in an actor: change the steps in the learner's process")

    def append_batch(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: Any,
        truncated: Any,
        env_ids: Any = None,
        **extra: Any,
    ) -> None:
        """Add a step of one environment. Each column has length 1."""
        values = {name: column[0] for name, column in extra.items()}
        step = (obs[0], action[0], float(reward[0]), next_obs[0], bool(terminated[0]), bool(truncated[0]), values)
        self._rows.append(step)
        if len(self._rows) >= MAX_STEPS_PER_MESSAGE or time.monotonic() - self._sent_at >= MAX_SECONDS:
            self.flush()

    def stop_current_episode(self, env_id: Any = 0) -> None:
        """Send the collected steps, and a message that truncates the running episode."""
        self.flush()
        self._send(("stop_episode", None))

    def flush(self) -> None:
        """Send the collected steps."""
        if self._rows:
            self._send(("rows", tuple(zip(*self._rows, strict=True))))
            self._rows.clear()
        self._sent_at = time.monotonic()


class Actor(AsyncAgent):
    """Agent that acts in one environment and sends its steps to the learner's process.

    Requests to save or load the agent are sent to the learner's process, too.

    Args:
        acting: Acting copy of an agent (`OffPolicyAgent.acting_copy`).
        pipe: Connection to the learner's process. Messages are pairs (type of the message, content). The learner
            answers all messages except "rows" and "stop_episode": with (True, result), or with (False, reason) if the
            request failed.
        weights: Parameters of the learner. The actor copies them before each action in training. If None, the actor's
            parameters do not change.
        counts: Arrays shared with the other actors and the learner. If None, only the steps of this actor are counted.
        index: Number of this actor, counted from 0.
    """

    process_idx: int | None = None
    shared_attributes = ()  # the learner's parameters are in `SharedWeights`

    def __init__(
        self,
        acting: Any,
        pipe: Any,
        weights: SharedWeights | None = None,
        counts: SharedArrays | None = None,
        index: int = 0,
    ) -> None:
        self._acting, self.pipe = acting, pipe
        self._weights, self._counts, self._index = weights, counts, index
        self._steps = np.zeros(index + 2, np.int64) if counts is None else counts.arrays[STEPS]
        self._sender = RowSender(self._send)
        acting.replay_buffer = self._sender

    @property
    def t(self) -> int:
        """Number of training steps of all actors together. The schedules of explorers depend on it."""
        return int(self._steps.sum())

    @property
    def explorer(self) -> Any:
        """Explorer of this actor. Step hooks may change its attributes."""
        return self._acting.explorer

    @never_raising
    def __repr__(self) -> str:
        return f"{type(self).__name__} of {self._acting!r}"

    def act(self, obs: Any, *, action_mask: Any = None) -> Any:
        """Choose an action; `action_mask`, [n_actions], is True for allowed actions."""
        self._acting.training = self.training
        if self.training:
            self._acting.t = self.t
            self._refresh()
        return self._acting.act(obs, **mask_keyword(action_mask))  # PFRL's `act` has no argument for masks

    def observe(self, obs: Any, reward: float, done: bool, reset: bool, *, action_mask: Any = None) -> None:
        """Process the result of the last action; `action_mask`, [n_actions], is True for actions allowed in `obs`."""
        self._acting.training = self.training
        self._acting.observe(obs, reward, done, reset, **mask_keyword(action_mask))
        if self.training:
            self._steps[1 + self._index] += 1
            self._wait_for_learner()

    @contextlib.contextmanager
    def eval_mode(self) -> Iterator[None]:
        """Return a context in which the actor does not explore and sends no steps.

        The actor copies the learner's parameters only at the start of the context.
        """
        self._refresh()
        with super().eval_mode():
            yield

    def stop_episode(self) -> None:
        """End the running episode. The next steps belong to a new episode."""
        self._acting.training = self.training
        self._acting.stop_episode()

    def dry_run(self, obs: Any, action_space: Any = None) -> None:
        """Check that the agent can act in an environment with these observations and this action space."""
        self._acting.dry_run(obs, action_space)

    def save(self, dirname: str) -> None:
        """Ask the learner's process to save the agent. It does so between two updates."""
        self._ask("save", os.path.abspath(dirname))

    def load(self, dirname: str) -> None:
        """Ask the learner's process to load the agent."""
        self._ask("load", os.path.abspath(dirname))

    def export(self, path: str | os.PathLike[str], **options: Any) -> Signature:
        """Write the greedy policy with the newest parameters to a file. `options` are those of the agent's `export`."""
        self._refresh()
        signature: Signature = self._acting.export(path, **options)
        return signature

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Return the learner's statistics."""
        return list(self._ask("get_statistics", None))

    def close(self) -> None:
        """Send the remaining steps, wait until the learner has stored them, and disconnect."""
        if not self.pipe.closed:
            try:
                self._ask("hang_up", None)
            finally:
                self.pipe.close()

    def _refresh(self) -> None:
        if self._weights is not None:
            self._weights.refresh()

    def _wait_for_learner(self) -> None:
        """Wait while the learner is behind the rate `updates_per_step`."""
        if self._counts is not None and self._counts.arrays[HOLD][0]:
            self._sender.flush()
            while self._counts.arrays[HOLD][0] and self._counts.arrays[LISTENING][0]:
                time.sleep(0.001)

    def _send(self, message: Any) -> None:
        try:
            send(self.pipe, message)
        except OSError as error:
            raise self._connection_lost() from error

    def _ask(self, kind: str, content: Any) -> Any:
        self._sender.flush()
        self._send((kind, content))
        try:
            done, answer = self.pipe.recv()
        except (EOFError, OSError) as error:
            raise self._connection_lost() from error
        if not done:
            raise RuntimeError(f"the learner's process could not {kind}: {answer}")
        return answer

    def _connection_lost(self) -> WorkerError:
        self._acting.logger.error("actor %d has lost its connection to the learner after %d steps", self._index, self.t)
        return WorkerError(self._index, "has lost its connection to the learner: the poller has stopped")


@dataclass(eq=False)
class ActorFactory:
    """Factory of actors. It can be pickled, and creates an actor in any process.

    Args:
        acting: Function that returns the acting copy. cloudpickle pickles this function.
        modules: Names of the acting copy's modules whose parameters the learner updates.
        address: Address of the poller.
        key: Authentication key of the poller.
        weights: Name and layout of the shared parameters.
        counts: Name and layout of the shared arrays STEPS, LISTENING and HOLD.
        representative: Proxy of the agent in the learner's process. It is not pickled.
    """

    acting: Portable
    modules: tuple[str, ...]
    address: str | bytes
    key: bytes
    weights: tuple[str, Layout]
    counts: tuple[str, Layout]
    representative: Any

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "representative": None}

    def __call__(self, process_idx: int) -> Actor:
        """Create and connect actor `process_idx`, counted from 0. PyTorch uses only one thread in this process.

        Raises:
            ValueError: If `process_idx` is out of range.
            RuntimeError: If the poller has not been started.
        """
        torch.set_num_threads(1)
        counts = SharedArrays.attach(*self.counts)
        steps, listening = counts.arrays[STEPS], counts.arrays[LISTENING]
        if not 0 <= process_idx < len(steps) - 1:
            raise ValueError(f"process_idx is {process_idx}, expected 0 to {len(steps) - 2}, one for each actor")
        deadline = time.monotonic() + PATIENCE
        while not listening[0]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"no poller has started within {PATIENCE:g} s: call poller.start() earlier")
            time.sleep(0.01)
        acting = self.acting().acting_copy()  # a further copy, because several actors may run in one process
        vary_streams(acting.explorer, process_idx)
        weights = SharedWeights([getattr(acting, name) for name in self.modules], SharedArrays.attach(*self.weights))
        pipe = Client(self.address, authkey=self.key)
        send(pipe, process_idx)
        return Actor(acting, pipe, weights, counts, process_idx)


def vary_streams(explorer: Any, index: int) -> None:
    """Advance the random generators of an explorer by `index` jumps. Different actors then draw different numbers.

    The function finds two types of generators: attributes of the explorer, and generators of spaces. A space is found
    if the explorer has one of its methods as an attribute, for example `space.sample`.
    """
    for name, value in [*getattr(explorer, "__dict__", {}).items()] if index else ():
        space: Any = getattr(value, "__self__", None)
        if isinstance(value, np.random.Generator | np.random.RandomState):
            setattr(explorer, name, type(value)(_jumped(value, index)))
        elif hasattr(space, "seed") and isinstance(getattr(space, "np_random", None), np.random.Generator):
            space.seed(int(np.random.Generator(_jumped(space.np_random, index)).integers(2**31)))


def _jumped(stream: Any, index: int) -> Any:
    bits = getattr(stream, "bit_generator", None) or stream._bit_generator
    return bits.jumped(index)
