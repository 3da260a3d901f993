"""What the library writes and reads: a subject saves the state of a number, and tells the number of what it loads.

Whoever adds a writer, such as of whole checkpoints, adds a `Subject` here.
"""

import functools
import json
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import estimator_parts
import fqe_parts
import numpy as np
import torch
from agent_parts import make_agent
from epoch_parts import epoch_runner
from resume_parts import noisy_env, small_dqn

from pfrl_like import replay_buffers as buffers
from pfrl_like.algos import Estimator
from pfrl_like.batch import Batch
from pfrl_like.dataset import MDPDataset
from pfrl_like.debug.crash_replay import BATCH, CRASH, read_crash, record_crash
from pfrl_like.errors import NonFiniteError
from pfrl_like.experiments import train_agent
from pfrl_like.experiments.report import write_report
from pfrl_like.experiments.resume import newest_checkpoint
from pfrl_like.ope import load_learnable
from pfrl_like.runs.run_directory import earlier_parts
from pfrl_like.storage import atomic_write, dump_json, load_tensors, read_json

CAPACITY = 8


class Subject(NamedTuple):
    """A kind of files.

    Attributes:
        write: Make the folder hold the state of a number.
        read: The number of what it holds; raises what the library raises.
        adds: Whether a state is all of the states before it as well.
    """

    write: Callable[[Path, int], Any]
    read: Callable[[Path], int]
    adds: bool = False


class Mixture(AssertionError):
    """What was loaded is no state that was ever saved."""


def same(values: Any) -> int:
    """The one number that all of these are."""
    found = set(np.concatenate([np.ravel(value) for value in values]).tolist())
    if len(found) != 1:
        raise Mixture(found)
    return int(found.pop())


def numbers_of(modules: Any) -> list[Any]:
    return [parameter.detach().numpy() for module in modules for parameter in module.parameters()]


def fill(modules: Any, number: int) -> None:
    with torch.no_grad():
        for module in modules:
            for parameter in module.parameters():
                parameter.fill_(number)


@functools.cache
def agent() -> Any:
    """One agent for all: what is refused leaves it as it was."""
    return make_agent("DQN")


def write_agent(folder: Path, number: int) -> None:
    agent().t = number
    fill((agent().model, agent().target_model), number)
    agent().save(folder / "agent")


def read_agent(folder: Path) -> int:
    agent().load(folder / "agent")
    return same([*numbers_of((agent().model, agent().target_model)), agent().t])


def append(buffer: Any, number: int) -> Any:
    """A step whose every value is a number."""
    buffer.append(np.full(3, number, np.float32), number, number, np.full(3, number + 1, np.float32))
    return buffer


def write_buffer(folder: Path, number: int) -> None:
    buffer = buffers.ReplayBuffer(CAPACITY)
    for _ in range(CAPACITY):
        buffer.append(np.full(3, number, np.float32), number, number, np.full(3, number, np.float32))
    buffer.save(str(folder / "buffer"))


def read_buffer(folder: Path, allow_pickle: bool = False) -> int:
    buffer = buffers.ReplayBuffer(CAPACITY)
    buffer.load(str(folder / "buffer"), allow_pickle=allow_pickle)
    if not len(buffer):
        raise Mixture("nothing")
    batch = buffer.sample_batch(len(buffer), 0.9)
    return same([batch.obs.numpy(), batch.reward.numpy(), batch.action.numpy()])


def opened(folder: Path, episodic: bool) -> Any:
    kind: Any = buffers.PersistentEpisodicReplayBuffer if episodic else buffers.PersistentReplayBuffer
    return kind(folder / "persistent", None)


def add_step(folder: Path, number: int, episodic: bool = False) -> None:
    with opened(folder, episodic) as buffer:
        append(buffer, number)
        buffer.stop_current_episode()


def rewards_of(buffer: Any) -> list[int]:
    """The rewards of a buffer's steps; items are steps, lists of steps, or lists of episodes."""
    items = [item if isinstance(item, list) else [item] for item in buffer.memory]
    return [int(step["reward"]) for item in items for step in item]


def steps_until(buffer: Any) -> int:
    """The last step's number; those before it have the numbers from 0 on."""
    rewards = rewards_of(buffer)
    if rewards != [*range(len(rewards))]:
        raise Mixture(rewards)
    return len(rewards) - 1


def last_step(folder: Path, episodic: bool = False) -> int:
    with opened(folder, episodic) as buffer:
        buffer.stop_current_episode()  # so that a step whose end has failed counts
        return steps_until(buffer)


def recording(number: int) -> MDPDataset:
    rows = np.full((5, 2), number, np.float32)
    return MDPDataset(rows, rows, rows[:, 0], np.arange(5) == 2, reward_convention="next_row")


def number_of(dataset: MDPDataset) -> int:
    kept = np.flatnonzero(np.arange(5) != 0)  # the first row's reward pays nothing
    return same([dataset.observations, dataset.actions[:2], dataset.rewards[kept[:2]]])


def dumps(name: str) -> Subject:
    return Subject(
        lambda folder, number: recording(number).dump(folder / name),
        lambda folder: number_of(MDPDataset.load(folder / name)),
    )


def write_minari(folder: Path, number: int) -> None:
    recording(number).dump_minari(folder, f"set-v{number}")  # Minari's sets are never replaced


def read_minari(folder: Path) -> int:
    """The newest set that is there, by what Minari goes."""
    names = [path.name for path in folder.glob("set-v*") if os.path.lexists(path / "data/metadata.json")]
    newest = max(names, key=lambda name: int(name.removeprefix("set-v")))
    return number_of(MDPDataset.load_minari(folder / newest))


@functools.cache
def estimator() -> Any:
    made = estimator_parts.make("DQN")
    made.create_impl((4,), 3)
    return made


def write_model(folder: Path, number: int) -> None:
    fill((estimator().impl.model, estimator().impl.target_model), number)
    estimator().save_model(folder / "model.pt")


def read_model(folder: Path) -> int:
    estimator().load_model(folder / "model.pt")
    return same(numbers_of((estimator().impl.model, estimator().impl.target_model)))


def write_params(folder: Path, number: int) -> None:
    params = estimator()._json_params() | {"batch_size": number + 1}
    atomic_write(folder / "params.json", dump_json(params, "params"))


@functools.cache
def evaluation() -> Any:
    made = fqe_parts.make(algo=estimator_parts.make("DQN"))
    made.algo.create_impl((fqe_parts.OBS,), 2)
    made.create_impl((fqe_parts.OBS,), 2)
    return made


def write_evaluation(folder: Path, number: int) -> None:
    fill(evaluation().agent.critics, number)
    evaluation().save(folder / "fqe.pt")


def write_epochs(folder: Path, number: int) -> None:
    """A run in epochs that goes on for one more."""
    runner = epoch_runner(folder / "run")
    if number:
        runner.restore()
    runner.train(number + 1, 10)


def read_run(folder: Path) -> int:
    """A record that cannot be read is none: a run that begins does not fail by what another one has left."""
    parts = earlier_parts(str(folder))
    write_report(str(folder))
    return int(parts[0].get("step_offset", -1)) if parts else -1


def write_run(folder: Path, number: int) -> None:
    record = {"step_offset": number, "outcome": "finished", "agent": "DQN", "env": "x", "earlier_parts": []}
    atomic_write(folder / "run.json", json.dumps(record).encode())


#: What is saved again and again.
SAVED: dict[str, Subject] = {
    "agent": Subject(write_agent, read_agent),
    "buffer": Subject(write_buffer, read_buffer),
    "persistent": Subject(add_step, last_step, adds=True),
    "persistent episodes": Subject(
        functools.partial(add_step, episodic=True), functools.partial(last_step, episodic=True), adds=True
    ),
    "hdf5": dumps("data.h5"),
    "npz": dumps("data.npz"),
    "model": Subject(write_model, read_model),
    "params": Subject(write_params, lambda folder: Estimator.from_json(folder / "params.json").batch_size - 1),
    "evaluation": Subject(
        write_evaluation, lambda folder: same(numbers_of(load_learnable(folder / "fqe.pt").agent.critics))
    ),
    "run": Subject(write_run, read_run),
}
#: And what is written once.
LOADED = SAVED | {
    "pickles": Subject(write_buffer, functools.partial(read_buffer, allow_pickle=True)),
    "minari": Subject(write_minari, read_minari),
    "epochs": Subject(write_epochs, lambda folder: epoch_runner(folder / "run").restore() - 1),
}
#: Those whose first state takes a second or more.
SLOWLY_MADE = ("epochs", "evaluation")


def files_of(folder: Path) -> list[str]:
    """Names of the files below a folder, in an order that does not hang on the letters drawn for them."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return sorted(names, key=lambda name: (re.sub("-[0-9a-f]{8,16}", "-", name), name))


# Further writers, for faults and lost disks


_INTERVAL = 20  # steps between checkpoints
_REFERENCE = "reference.json"  # where a checkpoint would be
_QUIET = logging.Logger("quiet", logging.CRITICAL)

BUFFERS: dict[str, Callable[[], Any]] = {
    "3-step": lambda: buffers.ReplayBuffer(CAPACITY, 3),
    "prioritised": lambda: buffers.PrioritizedReplayBuffer(CAPACITY),
    "episodic": lambda: buffers.EpisodicReplayBuffer(CAPACITY),
    "prioritised episodic": lambda: buffers.PrioritizedEpisodicReplayBuffer(CAPACITY),
    "hindsight": lambda: buffers.HindsightReplayBuffer(
        CAPACITY, _goal_function, n_goals=0, terminated_fn=_goal_function
    ),
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
        obs = _goals(number) if isinstance(buffer, buffers.HindsightReplayBuffer) else np.full(3, number, np.float32)
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
    buffers.prune(folder / "increments", [reference])


def _restored(folder: Path) -> Any:
    buffer = buffers.PrioritizedReplayBuffer(None)
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
    "minari": LOADED["minari"],
    "policy": Subject(write_policy, read_policy),
    "crash": Subject(write_crash, read_newest_crash),
    "epochs": LOADED["epochs"],
    "checkpoint": Subject(write_checkpoint, read_checkpoint, adds=True),
}
#: Those that take too long for the default run, or are written much as others are.
SLOW = (
    "epochs", "evaluation", "checkpoint", "persistent episodes", "3-step buffer", "prioritised episodic buffer",
    "hindsight buffer",
)  # fmt: skip
