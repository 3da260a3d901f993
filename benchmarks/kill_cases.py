"""What `kill_saves.py` kills while it is being saved. All that save number n holds is made of n.

A case has a folder. `save` brings what it holds from one number to the next and saves it; `load` reads what the folder
holds into new objects, raises if that is not one whole save, and returns its number, which is 0 if there is none.
"""

import json
import logging
import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from pfrl_like.agent import AttributeSavingMixin
from pfrl_like.experiments.checkpoints import Checkpoints, saved_in
from pfrl_like.experiments.resume import Checkpoint, newest_checkpoint
from pfrl_like.experiments.run_state import RunState
from pfrl_like.replay_buffers import (
    EpisodicReplayBuffer,
    PersistentEpisodicReplayBuffer,
    PersistentReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    prune,
)
from pfrl_like.runs.loop import Clock
from pfrl_like.runs.run_files import FailedWrites
from pfrl_like.storage import atomic_write

CAPACITY = 120
EPISODE = 7
STEPS = 11  # new ones in a save
LOGGER = logging.getLogger("kill_saves")


class Case(Protocol):
    def save(self, number: int) -> None: ...

    def load(self) -> int: ...


class Counter(AttributeSavingMixin):
    """An agent all of whose numbers are one number."""

    saved_attributes = ("model", "target_model", "optimizer")

    def __init__(self, replay_buffer: Any = None) -> None:
        self.replay_buffer = replay_buffer
        self.model, self.target_model = (
            torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Linear(64, 2)) for _ in range(2)
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.0, momentum=0.9)
        for parameter in self.model.parameters():
            self.optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        self.fill(0)

    def tensors(self) -> list[torch.Tensor]:
        """Everything that is saved, but for the counter."""
        momentum = [state["momentum_buffer"] for state in self.optimizer.state.values()]
        return [*self.model.state_dict().values(), *self.target_model.state_dict().values(), *momentum]

    def fill(self, number: int) -> None:
        self.t = number
        for tensor in self.tensors():
            tensor.fill_(number)

    def number(self) -> int:
        if not all((tensor == self.t).all() for tensor in self.tensors()):
            raise ValueError("the agent is a mixture of two saves")
        return self.t

    def saved_state(self) -> dict[str, Any]:
        return {"t": self.t}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.t = state["t"]


class AgentCase:
    def __init__(self, folder: Path) -> None:
        self.folder, self.agent = folder, Counter()

    def save(self, number: int) -> None:
        self.agent.fill(number)
        self.agent.save(self.folder / "agent")

    def load(self) -> int:
        self.agent = Counter()
        path = self.folder / "agent"
        return self.load_from(path) if path.exists() else 0

    def load_from(self, path: Path) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a directory that needs the save before is not what is promised
            self.agent.load(path)
        for name in self.agent.saved_attributes:  # PFRL's names: not of the same save as each other, but whole
            torch.load(path / f"{name}.pt", weights_only=True)
        return self.agent.number()


class NewNameCase(AgentCase):
    """An agent that is saved to a new name each time."""

    def save(self, number: int) -> None:
        self.agent.fill(number)
        self.agent.save(self.folder / str(number))

    def load(self) -> int:
        self.agent = Counter()
        saved = sorted(int(path.name) for path in self.folder.glob("[0-9]*"))
        for number in saved:
            if (found := self.load_from(self.folder / str(number))) != number:
                raise ValueError(f"{number} holds save {found}")
        for number in saved[:-1]:
            shutil.rmtree(self.folder / str(number))
        return saved[-1] if saved else 0


#: Buffers of some steps, and the names that their kinds have below.
BUFFERS: dict[str, Callable[[], Any]] = {
    "uniform": lambda: ReplayBuffer(CAPACITY),
    "3-step": lambda: ReplayBuffer(CAPACITY, 3),
    "frames": lambda: ReplayBuffer(CAPACITY),
    "prioritised": lambda: PrioritizedReplayBuffer(CAPACITY),
    "episodic": lambda: EpisodicReplayBuffer(CAPACITY),
}


def observation(n: int, kind: str) -> np.ndarray:
    if kind == "frames":
        return np.stack([np.full((16, 16), (n + back) % 251, np.uint8) for back in range(4)])
    return np.full(5, n, np.float32)


def append_step(buffer: Any, n: int, kind: str) -> None:
    extra = {"note": np.full(3, n, np.int32)}
    obs, next_obs = observation(n, kind), observation(n + 1, kind)
    buffer.append(obs, np.int64(n), float(n), next_obs, is_state_terminal=n % EPISODE == 0, **extra)


def last_step(buffer: Any, kind: str) -> int:
    """The number of the last step that a buffer holds, after a look at all; running episodes count.

    Raises:
        ValueError: If a step is wrong or missing.
    """
    waiting = [row for run in buffer._columns.running.values() for row in run.waiting]
    rows = buffer._rows(np.arange(buffer._first, buffer._next))
    steps = buffer._columns.transitions(np.concatenate([rows, np.array(waiting, np.int64)]))
    numbers = [int(step["reward"]) for step in steps]
    for n, step in zip(numbers, steps, strict=True):
        whole = step["action"] == n and (step["note"] == n).all() and step["is_state_terminal"] == (n % EPISODE == 0)
        same = (step["state"] == observation(n, kind)).all() and (step["next_state"] == observation(n + 1, kind)).all()
        if not (whole and same):
            raise ValueError(f"step {n} is wrong: {step}")
    last = numbers[-1] if numbers else 0
    if numbers != list(range(last - len(numbers) + 1, last + 1)):
        raise ValueError(f"there are gaps: {numbers}")
    least = min(last, buffer.capacity) - (EPISODE if "episodic" in kind else 3)
    if len(buffer) < least:
        raise ValueError(f"{len(buffer)} items are held, expected at least {least}")
    return last


def go_on(buffer: Any, number: int, kind: str) -> None:
    """Append the steps of save number n."""
    for n in range(STEPS * (number - 1) + 1, STEPS * number + 1):
        append_step(buffer, n, kind)
    if buffer.prioritized:
        buffer.update_priorities(buffer.sample_batch(4).index, np.full(4, number))


def save_with(buffer: Any, kind: str) -> int:
    """The number of the save that a buffer is of."""
    last = last_step(buffer, kind)
    if last % STEPS:
        raise ValueError(f"its last step is {last}, expected a multiple of {STEPS}")
    return last // STEPS


class BufferCase:
    """A buffer that is saved as one file."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.path, self.kind, self.buffer = folder / "buffer", kind, BUFFERS[kind]()

    def save(self, number: int) -> None:
        go_on(self.buffer, number, self.kind)
        self.buffer.save(self.path)

    def load(self) -> int:
        self.buffer = BUFFERS[self.kind]()
        if not self.path.exists():
            return 0
        self.buffer.load(self.path)
        return save_with(self.buffer, self.kind)


class IncrementsCase:
    """A buffer of which each save writes what is new."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind, self.buffer = folder, kind, BUFFERS[kind]()
        self.reference: Mapping[str, Any] | None = None

    def save(self, number: int) -> None:
        go_on(self.buffer, number, self.kind)
        self.reference = self.buffer.save_increment(self.folder / "files", self.reference)
        atomic_write(self.folder / "reference", json.dumps(self.reference).encode())
        prune(self.folder / "files", [self.reference])

    def load(self) -> int:
        self.buffer, self.reference = BUFFERS[self.kind](), None
        if not (self.folder / "reference").exists():
            return 0
        self.reference = json.loads((self.folder / "reference").read_text())
        self.buffer.load_increment(self.folder / "files", self.reference)
        return save_with(self.buffer, self.kind)


class PersistentCase:
    """A buffer on disk, each `append` of which is a save."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.path, self.kind = folder / "buffer", kind
        self.buffer: Any = None

    def open(self) -> Any:
        # Short journals, so that kills hit the beginnings of new ones as well.
        options: dict[str, Any] = {"journal_length": 150, "sync_every": 40}
        if self.kind == "episodic":
            return PersistentEpisodicReplayBuffer(self.path, CAPACITY, **options)
        return PersistentReplayBuffer(self.path, CAPACITY, num_steps=3 if self.kind == "3-step" else 1, **options)

    def save(self, number: int) -> None:
        if self.buffer is None:
            self.buffer = self.open()
        append_step(self.buffer, number, self.kind)

    def load(self) -> int:
        with self.open() as buffer:
            return last_step(buffer, self.kind)


#: How many checkpoints stay.
KEPT = {"uniform": 1, "3-step": 2, "frames": 3, "prioritised": 2, "episodic": 1}


class Number:
    """A part of a run that is one number."""

    def __init__(self) -> None:
        self.number = 0

    def saved_state(self) -> dict[str, Any]:
        return {"number": self.number}

    def restore_state(self, state: Mapping[str, Any]) -> list[str]:
        self.number = state["number"]
        return []


class Source(Number):
    """What training comes from."""


class CheckpointCase:
    """A run, of which checkpoints are saved and the last ones stay."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind, self.keep = folder, kind, KEPT[kind]
        self.begin()

    def begin(self) -> None:
        self.agent, self.clock = Counter(BUFFERS[self.kind]()), Clock(None)
        self.source, self.part = Source(), Number()
        self.state = RunState(self.agent, None, self.source, [self.part])
        self.use(None)

    def use(self, last: Checkpoint | None) -> None:
        self.checkpoints = Checkpoints(
            self.agent,
            self.state,
            1,
            str(self.folder),
            FailedWrites(LOGGER, stops=True),
            at_end=True,
            keep=self.keep,
            resumed_from=last,
        )

    def save(self, number: int) -> None:
        self.agent.fill(number)
        go_on(self.agent.replay_buffer, number, self.kind)
        self.source.number = self.part.number = number
        self.clock.t, self.clock.previous_t = number, number - 1
        self.checkpoints(self.clock)

    def load(self) -> int:
        self.begin()
        if not (whole := [saved.t for saved in saved_in(str(self.folder)) if saved.is_checkpoint]):
            shutil.rmtree(self.folder)  # an agent alone is nothing to go on from
            self.folder.mkdir()
            return 0
        found = newest_checkpoint(self.agent, self.source, str(self.folder), LOGGER)
        assert found is not None
        found.restore(self.state, self.clock, LOGGER)
        buffer = save_with(self.agent.replay_buffer, self.kind)
        numbers = {max(whole), found.t, self.agent.number(), buffer, self.source.number, self.part.number}
        if len(numbers) > 1:
            raise ValueError(f"it is a mixture of the saves {sorted(numbers)}")
        self.use(found)
        return found.t


def of_kinds(case: Callable[[Path, str], Case], kinds: Iterable[str]) -> dict[str, Callable[[Path], Case]]:
    return {kind: partial(case, kind=kind) for kind in kinds}


#: By mode and kind what makes a case in a folder.
MODES: dict[str, dict[str, Callable[[Path], Case]]] = {
    "agent": {"agent": AgentCase},
    "new names": {"agent": NewNameCase},
    "buffer": of_kinds(BufferCase, BUFFERS),
    "increments": of_kinds(IncrementsCase, BUFFERS),
    "persistent": of_kinds(PersistentCase, ("uniform", "3-step", "frames", "episodic")),
    "checkpoint": of_kinds(CheckpointCase, BUFFERS),
}
