"""Further writers, for faults and lost disks: whoever adds one, such as whole checkpoints, adds a `Subject` here."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lab.subjects import (
    CAPACITY,
    SAVED,
    Mixture,
    Subject,
    agent,
    append,
    estimator,
    fill,
    number_of,
    opened,
    recording,
    rewards_of,
    same,
    steps_until,
)
from lab.subjects import LOADED as _LOADED
from resume_parts import noisy_env, small_dqn

from pfrl_like.batch import Batch
from pfrl_like.dataset import MDPDataset
from pfrl_like.debug.crash_replay import BATCH, CRASH, read_crash, record_crash
from pfrl_like.errors import NonFiniteError
from pfrl_like.experiments import train_agent
from pfrl_like.experiments.resume import newest_checkpoint
from pfrl_like.replay_buffers import (
    EpisodicReplayBuffer,
    HindsightReplayBuffer,
    PrioritizedEpisodicReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    prune,
)
from pfrl_like.storage import atomic_write, dump_json, load_tensors, read_json

_INTERVAL = 20  # steps between checkpoints
_REFERENCE = "reference.json"  # where a checkpoint would be
_QUIET = logging.Logger("quiet", logging.CRITICAL)

BUFFERS: dict[str, Callable[[], Any]] = {
    "3-step": lambda: ReplayBuffer(CAPACITY, 3),
    "prioritised": lambda: PrioritizedReplayBuffer(CAPACITY),
    "episodic": lambda: EpisodicReplayBuffer(CAPACITY),
    "prioritised episodic": lambda: PrioritizedEpisodicReplayBuffer(CAPACITY),
    "hindsight": lambda: HindsightReplayBuffer(CAPACITY, _goal_function, n_goals=0, terminated_fn=_goal_function),
}


def _goal_function(achieved: Any, desired: Any, info: Any) -> Any:
    return np.zeros(len(achieved))


def _goals(number: int) -> dict[str, Any]:
    value = np.full(2, number, np.float32)
    return {"observation": value, "achieved_goal": value, "desired_goal": value}


def _of_kind(make: Callable[[], Any]) -> Subject:
    """A buffer of some kind that holds an episode of a number."""

    def write(folder: Path, number: int) -> None:
        buffer = make()
        obs = _goals(number) if isinstance(buffer, HindsightReplayBuffer) else np.full(3, number, np.float32)
        for i in range(CAPACITY):
            buffer.append(obs, number, number, obs, is_state_terminal=i == CAPACITY - 1)
        buffer.save(str(folder / "buffer"))

    def read(folder: Path) -> int:
        buffer = make()
        buffer.load(str(folder / "buffer"))
        return same([rewards_of(buffer)])

    return Subject(write, read)


def _reference(folder: Path) -> dict[str, Any] | None:
    path = folder / _REFERENCE
    return read_json(str(path), 1 << 20) if path.exists() else None


def _save_increment(buffer: Any, folder: Path) -> None:
    """Save, commit as a checkpoint would, and remove what no checkpoint needs."""
    reference = buffer.save_increment(folder / "increments", _reference(folder))
    atomic_write(folder / _REFERENCE, dump_json(reference, folder))
    prune(folder / "increments", [reference])


def _restored(folder: Path) -> Any:
    buffer = PrioritizedReplayBuffer(None)
    if (reference := _reference(folder)) is not None:
        buffer.load_increment(folder / "increments", reference)
    return buffer


def write_increment(folder: Path, number: int) -> None:
    _save_increment(append(_restored(folder), number), folder)


def write_rewinding(folder: Path, number: int) -> None:
    with opened(folder, False) as buffer:
        append(buffer, number)
        _save_increment(buffer, folder)


def read_rewinding(folder: Path) -> int:
    """What the directory goes back to."""
    with opened(folder, False) as buffer:
        buffer.load_increment(folder / "increments", _reference(folder))
        return steps_until(buffer)


def write_minari(folder: Path, number: int) -> None:
    recording(number).dump_minari(folder, f"set-v{number}")


def read_minari(folder: Path) -> int:
    """The newest set that is there, by what Minari goes."""
    names = [path.parent.parent.name for path in folder.glob("set-v*/data/metadata.json")]
    newest = max(names, key=lambda name: int(name.removeprefix("set-v")))
    return number_of(MDPDataset.load_minari(folder / newest))


def write_policy(folder: Path, number: int) -> None:
    fill([estimator().impl.model], number)
    estimator().save_policy(folder / "policy.pt")


def read_policy(folder: Path) -> int:
    return same([parameter.detach().numpy() for parameter in torch.jit.load(folder / "policy.pt").parameters()])


def write_crash(folder: Path, number: int) -> None:
    rows = torch.full((4, 5), float(number))
    batch = Batch(rows, torch.zeros(4, dtype=torch.long), rows[:, 0], rows, torch.zeros(4))
    fill((agent().model, agent().target_model), number)
    record_crash(NonFiniteError("loss", "is not finite", batch), agent(), number, str(folder), _QUIET)


def read_newest_crash(folder: Path) -> int:
    """The newest record, which is there once its last file is."""
    newest = max((path.parent for path in folder.glob(f"crash-*/{CRASH}")), key=lambda path: int(path.name[6:]))
    record = read_crash(newest)
    numbers = [load_tensors(str(newest / BATCH))["reward"], record["t"]]
    if not record["agent_not_saved"]:
        agent().load(newest / "agent")
        numbers += [parameter.detach().numpy() for parameter in agent().model.parameters()]
    return same(numbers)


def _run(folder: Path, steps: int) -> None:
    env = noisy_env(0)
    train_agent(small_dqn(env), env, steps, folder / "run", checkpoint_freq=_INTERVAL, resume=True)


def write_checkpoint(folder: Path, number: int) -> None:
    """A run that goes on to the next checkpoint, which is the one that it ends with."""
    _run(folder, _INTERVAL * (number + 1))


def read_checkpoint(folder: Path) -> int:
    """How far the run has come, by the checkpoint that it would go on from."""
    agent = small_dqn(noisy_env(0))
    checkpoint = newest_checkpoint(agent, None, str(folder / "run"), _QUIET)
    if checkpoint is None or agent.t != checkpoint.t or len(agent.replay_buffer) < min(agent.t, CAPACITY):
        raise Mixture((agent.t, len(agent.replay_buffer)))
    return agent.t // _INTERVAL - 1


WRITERS: dict[str, Subject] = {
    **SAVED,
    **{f"{name} buffer": _of_kind(make) for name, make in BUFFERS.items()},
    "increments": Subject(write_increment, lambda folder: steps_until(_restored(folder)), adds=True),
    "rewinding": Subject(write_rewinding, read_rewinding, adds=True),
    "minari": Subject(write_minari, read_minari),
    "policy": Subject(write_policy, read_policy),
    "crash": Subject(write_crash, read_newest_crash),
    "epochs": _LOADED["epochs"],
    "checkpoint": Subject(write_checkpoint, read_checkpoint, adds=True),
}
#: Those that take too long for the default run, or are written much as others are.
SLOW = (
    "epochs", "evaluation", "checkpoint", "persistent episodes", "3-step buffer", "prioritised episodic buffer",
    "hindsight buffer",
)  # fmt: skip
