"""`Actor`: an agent that acts in a process of its own and sends its steps to the learner; weights in shared memory."""

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

#: Steps that go to the learner together, and seconds after which fewer do.
ROWS, SECONDS = 32, 0.1

#: Arrays that all actors share: steps made before and by each of them, whether the poller listens, whether to wait.
STEPS, LISTENING, HOLD = range(3)

#: Seconds that an actor waits for the poller to begin.
PATIENCE = 10.0


class SharedWeights:
    """The tensors of some modules in shared memory.

    Nobody waits for a lock, which a killed process would keep for ever: the writer numbers each version at its
    beginning and at its end, and a reader that was overtaken reads again.

    Args:
        modules: What is written or read: modules of the same form in all processes.
        memory: Where, if another process has made it; None makes it, with the values of `modules`.
    """

    def __init__(self, modules: Sequence[nn.Module], memory: SharedArrays | None = None) -> None:
        self.modules = list(modules)
        own = self._own_tensors()
        sizes = tuple(((tensor.numel() * tensor.element_size(),), "|u1") for tensor in own)
        self.memory = memory or SharedArrays((((2,), "<i8"), *sizes))
        self._begun_and_ended, *arrays = self.memory.arrays
        self._shared = [
            torch.from_numpy(array).view(tensor.dtype).view(tensor.shape)
            for array, tensor in zip(arrays, own, strict=True)
        ]
        self._seen = 0
        self._order = threading.Lock()  # passing through it keeps the processor from reordering what is inside
        if memory is None:
            self.publish()

    def publish(self) -> None:
        """Write the modules' tensors; for one thread of one process."""
        version = int(self._begun_and_ended[0]) + 1
        with self._order:
            self._begun_and_ended[0] = version
        with self._order, torch.no_grad():
            torch._foreach_copy_(self._shared, self._own_tensors())
        with self._order:
            self._begun_and_ended[1] = version

    def refresh(self) -> bool:
        """Bring the modules up to date; whether there was anything new."""
        if self._begun_and_ended[1] == self._seen:
            return False
        while True:
            with self._order:
                ended = int(self._begun_and_ended[1])
            with self._order, torch.no_grad():
                torch._foreach_copy_(self._own_tensors(), self._shared)
            with self._order:
                begun = int(self._begun_and_ended[0])
            if begun == ended:
                self._seen = ended
                return True

    def close(self) -> None:
        """Let go of the memory."""
        self._shared.clear()
        del self._begun_and_ended
        self.memory.close()

    def _own_tensors(self) -> list[Tensor]:
        states = [module.state_dict() for module in self.modules]
        return [value for state in states for value in state.values() if isinstance(value, Tensor)]


class RowSender:
    """What an actor has for a replay buffer: it collects steps and sends them as columns.

    Args:
        send: Called with ("rows", columns), or ("stop_episode", None).
    """

    prioritized = False

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send = send
        self._rows: list[tuple[Any, ...]] = []
        self._sent_at = time.monotonic()

    def __len__(self) -> int:
        return 0  # nothing to learn from here

    @property
    def memory(self) -> Any:
        """Refused: steps are on their way to the learner.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            "memory of an actor's replay buffer: its steps go to the learner's process, where replay_buffer.memory "
            "holds them; change them there, or before the actor observes them"
        )

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
        """Take in a step of one environment; an observation that two steps share is sent once."""
        further = {name: column[0] for name, column in extra.items()}
        step = (obs[0], action[0], float(reward[0]), next_obs[0], bool(terminated[0]), bool(truncated[0]), further)
        self._rows.append(step)
        if len(self._rows) >= ROWS or time.monotonic() - self._sent_at >= SECONDS:
            self.flush()

    def stop_current_episode(self, env_id: Any = 0) -> None:
        """Say that the running episode was cut off."""
        self.flush()
        self._send(("stop_episode", None))

    def flush(self) -> None:
        """Send what there is."""
        if self._rows:
            self._send(("rows", tuple(zip(*self._rows, strict=True))))
            self._rows.clear()
        self._sent_at = time.monotonic()


class Actor(AsyncAgent):
    """Acts as an agent does, in one environment; steps, and requests to save or load, go to the learner's process.

    Args:
        acting: An agent's acting half (`OffPolicyAgent.acting_copy`).
        pipe: Connection to who learns: of messages (kind, content), of which all but "rows" and "stop_episode" are
            answered by pairs (whether it was done, result or reason).
        weights: Where newer parameters come from, looked at before each action in training; None for nowhere.
        counts: Arrays shared with the other actors and the learner; None counts the own steps alone.
        index: Number of this actor.
    """

    process_idx: int | None = None
    shared_attributes = ()  # parameters come from the learner

    def __init__(
        self,
        acting: Any,
        pipe: Any,
        weights: SharedWeights | None = None,
        counts: SharedArrays | None = None,
        index: int = 0,
    ) -> None:
        self.acting, self.pipe = acting, pipe
        self._weights, self._counts, self._index = weights, counts, index
        self._steps = np.zeros(index + 2, np.int64) if counts is None else counts.arrays[STEPS]
        self._sender = RowSender(self._send)
        acting.replay_buffer = self._sender

    @property
    def t(self) -> int:
        """Environment steps in training, of all actors together: what explorers' schedules follow."""
        return int(self._steps.sum())

    def act(self, obs: Any, *, action_mask: Any = None) -> Any:
        """Choose an action; `action_mask` says which are allowed, [n_actions]."""
        self.acting.training = self.training
        if self.training:
            self.acting.t = self.t
            self._refresh()
        return self.acting.act(obs, **mask_keyword(action_mask))  # which may have PFRL's signatures

    def observe(self, obs: Any, reward: float, done: bool, reset: bool, *, action_mask: Any = None) -> None:
        """Take in what the last action led to; `action_mask` belongs to `obs`, [n_actions]."""
        self.acting.training = self.training
        self.acting.observe(obs, reward, done, reset, **mask_keyword(action_mask))
        if self.training:
            self._steps[1 + self._index] += 1
            self._wait_for_learner()

    @contextlib.contextmanager
    def eval_mode(self) -> Iterator[None]:
        """Within it the actor neither explores nor tells the learner, and keeps the parameters of its beginning."""
        self._refresh()
        with super().eval_mode():
            yield

    def stop_episode(self) -> None:
        """Leave the episode that runs: what comes next belongs to a new one."""
        self.acting.training = self.training
        self.acting.stop_episode()

    def dry_run(self, obs: Any, action_space: Any = None) -> None:
        """Refuse an environment in which the agent cannot act."""
        self.acting.dry_run(obs, action_space)

    def save(self, dirname: str) -> None:
        """Have the learner's process save the agent, as it is between two updates."""
        self._ask("save", os.path.abspath(dirname))

    def load(self, dirname: str) -> None:
        """Have the learner's process load the agent."""
        self._ask("load", os.path.abspath(dirname))

    def export(self, path: str | os.PathLike[str], **options: Any) -> Signature:
        """Write the greedy policy, with the parameters that it acts with, into a file: `export` of agents."""
        self._refresh()
        signature: Signature = self.acting.export(path, **options)
        return signature

    def get_statistics(self) -> list[tuple[str, Any]]:
        """The learner's statistics."""
        return list(self._ask("get_statistics", None))

    def close(self) -> None:
        """Send what is left and hang up, once all has been stored."""
        if not self.pipe.closed:
            try:
                self._ask("hang_up", None)
            finally:
                self.pipe.close()

    def _refresh(self) -> None:
        if self._weights is not None:
            self._weights.refresh()

    def _wait_for_learner(self) -> None:
        """Wait while the learner is behind, if there is a pace to keep."""
        if self._counts is not None and self._counts.arrays[HOLD][0]:
            self._sender.flush()
            while self._counts.arrays[HOLD][0] and self._counts.arrays[LISTENING][0]:
                time.sleep(0.001)

    def _send(self, message: Any) -> None:
        try:
            send(self.pipe, message)
        except OSError as error:
            raise self._left_alone() from error

    def _ask(self, kind: str, content: Any) -> Any:
        self._sender.flush()
        self._send((kind, content))
        try:
            done, answer = self.pipe.recv()
        except (EOFError, OSError) as error:
            raise self._left_alone() from error
        if not done:
            raise RuntimeError(f"the learner's process could not {kind}: {answer}")
        return answer

    def _left_alone(self) -> WorkerError:
        self.acting.logger.error("actor %d has lost its learner after %d steps", self._index, self.t)
        return WorkerError(self._index, "has lost its learner, whose poller no longer listens")


@dataclass(eq=False)
class ActorFactory:
    """Makes actor i, in any process; it travels there by pickle, the agent's acting half by cloudpickle.

    Args:
        acting: Gives the acting half.
        modules: Names of its modules whose parameters the learner renews.
        address: Where the poller listens.
        key: What it wants to hear.
        weights: Name and layout of the shared parameters.
        counts: Those of the arrays STEPS, LISTENING and HOLD.
        representative: The agent that stands for all actors in the learner's process; it stays there.
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
        """Make actor `process_idx`, from 0, and connect it; this process computes on one thread from now on.

        Raises:
            ValueError: If there is no such actor.
            RuntimeError: If the poller has not been started.
        """
        torch.set_num_threads(1)
        counts = SharedArrays.attach(*self.counts)
        steps, listening = counts.arrays[STEPS], counts.arrays[LISTENING]
        if not 0 <= process_idx < len(steps) - 1:
            raise ValueError(f"process_idx is {process_idx}, expected 0 to {len(steps) - 2}: one for each actor")
        deadline = time.monotonic() + PATIENCE
        while not listening[0]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"no poller listens after {PATIENCE:g} s; call poller.start() before the actors run")
            time.sleep(0.01)
        acting = self.acting().acting_copy()  # several actors may live in one process
        vary_streams(acting.explorer, process_idx)
        weights = SharedWeights([getattr(acting, name) for name in self.modules], SharedArrays.attach(*self.weights))
        pipe = Client(self.address, authkey=self.key)
        send(pipe, process_idx)
        return Actor(acting, pipe, weights, counts, process_idx)


def vary_streams(explorer: Any, index: int) -> None:
    """Let copies of an explorer draw different numbers: its own generators jump ahead `index` times.

    These are generators among its attributes, and those of spaces of which an attribute is a method.
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
