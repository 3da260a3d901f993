"""Directories of every kind that the library writes, and what resuming each of them gives.

`python tests/support/written_directories.py FOLDER [NAME ...]` writes them, with an .npz of numbers beside each, into
tests/data/written_before; a test loads and resumes them with the library as it is.
"""

import contextlib
import csv
import functools
import json
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import estimator_parts
import fqe_parts
import numpy as np
import pair_base
import stopped_runs
import torch
from network_parts import OBS
from on_policy_parts import make_on_policy
from pair_base import EPISODIC, Case
from registry import LEARNERS
from torch import nn

import pfrl_like
from pfrl_like import algos
from pfrl_like.dataset import MDPDataset
from pfrl_like.nn import EmpiricalNormalization
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.testing.play import play_one
from pfrl_like.utils import set_random_seed
from pfrl_like.utils.goals import ACHIEVED_GOAL, DESIRED_GOAL, OBSERVATION

#: Numbers in nested dicts and lists; those below "loaded" come from the files as they are.
Numbers = dict[str, Any]


class Written(NamedTuple):
    """A directory.

    Attributes:
        write: Writes it; the folder exists and is empty.
        resume: Loads what was written, in a copy of it, and takes further steps.
    """

    write: Callable[[Path], None]
    resume: Callable[[Path], Numbers]


# Agents

#: The parts of each agent; those it does not name are the defaults below.
AGENTS: dict[str, Case] = {
    "DQN": {"q_function": "expected", "replay_buffer": "PrioritizedReplayBuffer"},
    "DQN, recurrent": {"q_function": "expected", "replay_buffer": "EpisodicReplayBuffer", "recurrent": True},
    "IQN": {"q_function": "implicit"},
    "DDPG": {"policy": "deterministic", "q_func": "numbers", "n_critics": 1},
    "TD3": {"policy": "deterministic", "q_func": "numbers"},
    "SoftActorCritic": {"policy": "squashed", "q_func": "numbers"},
    "TQC": {"policy": "squashed", "q_func": "quantile"},
    "CQL": {"policy": "squashed", "q_func": "numbers"},
    "IQL": {"policy": "Gaussian", "q_func": "numbers"},
    "BC": {"policy": "deterministic"},
    "BCQ": {"q_func": "numbers"},
    "BEAR": {"policy": "Gaussian", "q_func": "numbers", "imitator": "autoencoder"},
    "DecisionTransformer": {"policy": "deterministic", "replay_buffer": "EpisodicReplayBuffer"},
    "PPO": {"policy": "softmax"},
    "A2C": {"policy": "softmax"},
    "TRPO": {"policy": "softmax"},
    "REINFORCE": {"policy": "softmax"},
    "A3C": {"policy": "softmax"},
    "ACER": {"policy": "softmax", "q_function": "expected", "replay_buffer": "EpisodicReplayBuffer"},
}
DEFAULTS = {
    "recurrent": False, "replay_buffer": "ReplayBuffer", "n_critics": 2, "explorer": "ConstantEpsilonGreedy",
}  # fmt: skip
GAUSSIAN = {"explorer": "AdditiveGaussian"}
BUFFER = "buffer.replay"


def case_of(name: str) -> Case:
    """The parts of an agent."""
    agent = name.partition(",")[0]
    given = DEFAULTS | (GAUSSIAN if agent in ("DDPG", "TD3") else {}) | AGENTS[name]
    return {"agent": agent} | {part: given[part] for part in LEARNERS[agent].parts}


def made_agent(name: str, seed: int) -> tuple[Any, Any]:
    """An agent and its environment, from a seed."""
    set_random_seed(seed)
    case = case_of(name)
    env = stopped_runs.Wander(LEARNERS[case["agent"]].space(case), noise="own stream")
    if name == "PPO":
        return make_on_policy("PPO", obs_normalizer=EmpiricalNormalization(OBS)), env
    return LEARNERS[case["agent"]].make(case, Path()), env


def write_agent(name: str, folder: Path) -> None:
    agent, env = made_agent(name, 0)
    play_one(agent, env, 32)
    agent.save(folder / "agent")
    remove_copies(folder / "agent")
    if name == "DQN":
        agent.replay_buffer.save(folder / BUFFER)


def resume_agent(name: str, folder: Path) -> Numbers:
    agent, env = made_agent(name, 1)
    agent.load(folder / "agent")
    if (folder / BUFFER).exists():
        agent.replay_buffer.load(folder / BUFFER)
    loaded = checksums(agent)
    return {"loaded": loaded, "actions": play_one(agent, env, 20, seed=1), "later": learnt(agent), "draws": draws()}


def learnt(agent: Any) -> Numbers:
    """The parameters and statistics of an agent."""
    parts = {name: getattr(agent, name) for name in agent.saved_attributes}
    modules = {name: joined(part.state_dict()) for name, part in parts.items() if isinstance(part, nn.Module)}
    return {**modules, "statistics": [value for _, value in agent.get_statistics()]}


def checksums(agent: Any) -> Numbers:
    """Checksums of an agent's modules and of the memories of its optimisers, and its statistics."""
    parts = {name: getattr(agent, name) for name in agent.saved_attributes}
    states = {name: part.state_dict() for name, part in parts.items() if hasattr(part, "state_dict")}
    sums = {name: checksum(state.get("state", state)) for name, state in states.items()}
    return {**sums, "statistics": [value for _, value in agent.get_statistics()]}


def checksum(nested: Any) -> int:
    """That of all numbers of nested tensors."""
    return zlib.crc32(joined(nested).tobytes())


def joined(nested: Any) -> Any:
    """All numbers of nested tensors in a row."""
    found = [np.asarray(each, np.float32).reshape(-1) for each in flat(nested).values()]
    return np.concatenate([np.zeros(0, np.float32), *found])


def draws() -> Numbers:
    """The next numbers of the global streams."""
    return {"numpy": np.random.random(), "torch": torch.rand(())}


def remove_copies(saved: Path) -> None:
    """Leave the files that the manifest names, without those for PFRL, which hold the same."""
    files = json.loads((saved / "manifest.json").read_text())["files"]
    for path in saved.iterdir():
        if path.is_file() and path.name not in {"manifest.json", *(file["name"] for file in files.values())}:
            path.unlink()


# Runs


class SmallPlan(stopped_runs.Plan):
    """A short run with parts that are told."""

    PARTS = {
        "DQN": AGENTS["DQN"],
        "PPO": AGENTS["PPO"],
        "SoftActorCritic": AGENTS["SoftActorCritic"] | {"replay_buffer": "PersistentReplayBuffer"},
        "CQL": AGENTS["CQL"],
        "DDPG": AGENTS["DDPG"] | GAUSSIAN,
    }

    @property
    def case(self) -> Case:
        given = DEFAULTS | self.PARTS[self.agent]
        return {"agent": self.agent} | {part: given[part] for part in LEARNERS[self.agent].parts}

    @property
    def sizes(self) -> dict[str, int]:
        return {"steps": 40, "checkpoint_freq": 12, "eval_interval": 10, "n_envs": 2}


RUNS = [
    SmallPlan("DQN", "train_agent_with_evaluation", "own stream", 0),
    SmallPlan("PPO", "SerialVectorEnv", "own stream", 0),
    SmallPlan("SoftActorCritic", "train_agent_with_evaluation", "own stream", 0),
    SmallPlan("CQL", "train_agent_offline", "own stream", 1),
    SmallPlan("DDPG", "EpochRunner", "own stream", 0),
]
NEEDED = re.compile(r"scores\.txt|metrics\.csv|epochs\.csv|trace\.(bin|jsonl)|checkpoint_buffers")
#: What `run.json` tells of the machine.
PLACES = {"outdir": "run", "directory": ".", "git_head": None, "files": {}, "started_as": [], "command": []}


class Stopped(Exception):
    """Ends a run."""


def write_run(plan: SmallPlan, folder: Path) -> None:
    def stop(clock: Any) -> None:
        if clock.t >= 30:
            raise Stopped

    with mock.patch("platform.platform", lambda: "Linux"), contextlib.suppress(Stopped):
        stopped_runs.run(plan, folder, [stop])
    outdir = folder / "run"
    newest = next(Path(saved.path) for saved in stopped_runs.saved_in(str(outdir)) if saved.is_checkpoint)
    remove_copies(newest)
    for path in outdir.iterdir():
        if path.name == "run.json":
            told = json.loads(path.read_text())
            told["hardware"]["cpu"] = "any"
            path.write_text(json.dumps(told | PLACES, indent=2) + "\n")
        elif path != newest and not NEEDED.fullmatch(path.name):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if (meta := folder / "buffer" / "meta.json").exists():
        meta.write_text(meta.read_text().replace(str(folder.resolve()), "/written"))


def resume_run(plan: SmallPlan, folder: Path) -> Numbers:
    newest = stopped_runs.saved_in(str(folder / "run"))[0]
    with tempfile.TemporaryDirectory() as elsewhere:
        agent = plan.make(Path(elsewhere))
        agent.load(newest.path)
        loaded = checksums(agent)
        for buffer in stopped_runs.buffers_of(agent).values():
            getattr(buffer, "close", lambda: None)()

    def view(agent: Any, told: Any, outdir: Path) -> Numbers:
        buffers = stopped_runs.buffers_of(agent)
        return {
            "loaded": loaded, "later": learnt(agent), "draws": draws(),
            "tables": {path.stem: table(path) for path in (outdir / "scores.txt", outdir / "metrics.csv")},
            "items": {name: len(buffer) for name, buffer in buffers.items()},
        }  # fmt: skip

    return stopped_runs.run(plan, folder, view=view)


def table(path: Path) -> Numbers:
    """The numbers of a run's table, by column."""
    if not path.exists():
        return {}
    with path.open() as file:
        rows = [*csv.DictReader(file, delimiter="\t" if path.suffix == ".txt" else ",")]
    return {name: [float(row[name] or "nan") for row in rows] for name in rows[0]}


# Replay buffers

BUFFERS = {**pair_base.BUFFERS, "ReplayBuffer": lambda folder: ReplayBuffer(100, num_steps=3)}


def goal_obs(i: int) -> dict[str, Any]:
    return {name: np.full(2, i % 3, np.float32) for name in (OBSERVATION, ACHIEVED_GOAL, DESIRED_GOAL)}


def fill(buffer: Any, name: str, first: int, count: int) -> None:
    """Append steps whose observations are their numbers; every fifth ends an episode."""
    of = goal_obs if name.startswith("Hindsight") else lambda i: np.full(OBS, i, np.float32)
    for i in range(first, first + count):
        buffer.append(of(i), np.array([i, -i], np.float32), float(i), of(i + 1), is_state_terminal=i % 10 == 9)
        if i % 10 == 4:
            buffer.stop_current_episode()


def is_persistent(name: str) -> bool:
    return name.startswith("Persistent")


def sampled(buffer: Any, name: str) -> Numbers:
    """A batch, of which priorities are told."""
    batch = buffer.sample_sequences(3, 4, 0.9) if name in EPISODIC else buffer.sample_batch(6, 0.9)
    if "Prioritized" in name:
        buffer.update_priorities(batch.index, np.linspace(0.1, 2.0, len(batch.index)))
    columns = ("obs", "action", "reward", "next_obs", "discount", "weight", "index")
    return {column: getattr(batch, column) for column in columns}


def write_buffer(name: str, folder: Path) -> None:
    set_random_seed(0)
    buffer = BUFFERS[name](folder)
    fill(buffer, name, 0, 20)
    sampled(buffer, name)
    fill(buffer, name, 20, 13)
    buffer.close() if is_persistent(name) else buffer.save(folder / BUFFER)


def resume_buffer(name: str, folder: Path) -> Numbers:
    set_random_seed(1)
    buffer = BUFFERS[name](folder)
    if not is_persistent(name):
        buffer.load(folder / BUFFER)
    loaded = {"items": len(buffer)}
    first = sampled(buffer, name)
    fill(buffer, name, 33, 8)
    found = {"loaded": loaded, "first": first, "then": [sampled(buffer, name) for _ in range(2)], "items": len(buffer)}
    if is_persistent(name):
        buffer.close()
    return found


# Datasets

MINARI = "small/random-v0"
Form = tuple[bool, Callable[[MDPDataset, Path], None], Callable[[Path], MDPDataset]]


def one_file(discrete: bool, name: str, **options: Any) -> Form:
    """A dataset in one file."""
    return (
        discrete,
        lambda data, folder: data.dump(folder / name, **options),
        lambda folder: MDPDataset.load(folder / name),
    )


DATASETS: dict[str, Form] = {
    "HDF5": one_file(True, "data.h5"),
    "HDF5, same row": one_file(False, "data.h5", reward_convention="same_row"),
    "npz": one_file(False, "data.npz"),
    "npz, same row": one_file(True, "data.npz", reward_convention="same_row"),
    "Minari": (
        True,
        lambda data, folder: data.dump_minari(folder, MINARI),
        lambda folder: MDPDataset.load_minari(folder / MINARI),
    ),
}


def small_data(discrete: bool) -> MDPDataset:
    return estimator_parts.vectors(discrete, 24, 8)


def write_dataset(name: str, folder: Path) -> None:
    discrete, write, _ = DATASETS[name]
    write(small_data(discrete), folder)


def resume_dataset(name: str, folder: Path) -> Numbers:
    discrete, _, read = DATASETS[name]
    set_random_seed(1)
    data = read(folder)
    loaded = {
        "arrays": data.to_arrays(), "lengths": [len(episode) for episode in data],
        "is_action_discrete": data.is_action_discrete(), "action_size": data.get_action_size(),
        "is_same_row": data.reward_convention == "same_row",
    }  # fmt: skip
    data.extend(small_data(discrete))
    batch = data.sample_batch(5)
    later = {name: getattr(batch, name) for name in ("obs", "action", "reward", "next_obs", "discount")}
    return {"loaded": loaded, "later": later, "statistics": data.compute_stats()["reward"]["mean"]}


# Estimators

ESTIMATORS: dict[str, tuple[bool, dict[str, Any]]] = {
    "DQN": (True, {}),
    "CQL": (False, {"scaler": "standard", "n_action_samples": 2}),
    "BC": (False, {"scaler": "min_max"}),
}
EPOCH = {"n_epochs": 1, "verbose": False, "show_progress": False, "tensorboard": False, "with_timestamp": False}


def small_vectors(discrete: bool) -> MDPDataset:
    return estimator_parts.vectors(discrete, 64, 16)


def write_estimator(name: str, folder: Path) -> None:
    discrete, options = ESTIMATORS[name]
    set_random_seed(0)
    estimator = estimator_parts.make(name, **options)
    estimator.fit(small_vectors(discrete), logdir=str(folder), experiment_name="fitted", **EPOCH)
    estimator.save(folder / "learnable.pt")


def resume_estimator(name: str, folder: Path) -> Numbers:
    discrete, _ = ESTIMATORS[name]
    set_random_seed(1)
    kind = getattr(algos, name)
    estimator = kind.from_json(folder / "fitted" / "params.json")
    estimator.load_model(*(folder / "fitted").glob("model_*.pt"))
    again = pfrl_like.load_learnable(folder / "learnable.pt")
    loaded = {"fitted": checksums(estimator.impl), "learnable": checksums(again.impl)}
    first = judged(estimator, discrete), judged(again, discrete)
    set_random_seed(2)
    again.fit(small_vectors(discrete), save_metrics=False, **EPOCH)
    return {"loaded": loaded, "first": first, "then": judged(again, discrete), "later": learnt(again.impl)}


def judged(estimator: Any, discrete: bool) -> Numbers:
    """Actions, and values of recorded ones where values are learnt."""
    arrays = small_vectors(discrete).to_arrays()
    x, action = arrays["observations"][:6], arrays["actions"][:6]
    valued = {} if type(estimator).__name__ == "BC" else {"values": estimator.predict_value(x, action)}
    return {"actions": estimator_parts.predicted(estimator, x), **valued}


def write_fqe(discrete: bool, folder: Path) -> None:
    set_random_seed(0)
    algo = fqe_parts.built(estimator_parts.make("DiscreteCQL" if discrete else "BC"))
    fqe_parts.fitted(discrete, algo, 6).save(folder / "fqe.pt")


def resume_fqe(discrete: bool, folder: Path) -> Numbers:
    set_random_seed(1)
    fqe = pfrl_like.load_learnable(folder / "fqe.pt")
    data = fqe_parts.data(discrete)
    arrays = data.to_arrays()
    x, action = arrays["observations"][:6], arrays["actions"][:6]
    loaded, first = checksum(fqe_parts.networks(fqe)), fqe.predict_value(x, action)
    actions = fqe.algo.predict(x)
    fqe.fit(data, 4, **fqe_parts.QUIET)
    then, later = fqe.predict_value(x, action), joined(fqe_parts.networks(fqe))
    return {"loaded": loaded, "first": first, "actions": actions, "then": then, "later": later}


# All of them


def of_each(kind: str, names: Any, write: Any, resume: Any) -> dict[str, Written]:
    """A directory for each name."""
    return {
        f"{kind}/{file_name(name)}": Written(functools.partial(write, name), functools.partial(resume, name))
        for name in names
    }


def file_name(name: Any) -> str:
    if isinstance(name, SmallPlan):
        return f"{name.agent}_{name.runner}"
    return re.sub(r"\W+", "_", {True: "DiscreteFQE", False: "FQE"}.get(name, name))


CASES: dict[str, Written] = {
    **of_each("agents", AGENTS, write_agent, resume_agent),
    **of_each("runs", RUNS, write_run, resume_run),
    **of_each("buffers", BUFFERS, write_buffer, resume_buffer),
    **of_each("datasets", DATASETS, write_dataset, resume_dataset),
    **of_each("estimators", ESTIMATORS, write_estimator, resume_estimator),
    **of_each("estimators", (True, False), write_fqe, resume_fqe),
}


NESTED = (Mapping, list, tuple, torch.Tensor)


def flat(nested: Any, name: str = "") -> dict[str, Any]:
    """The numbers of nested dicts, lists and tensors as arrays, by path; None and text are left out."""
    if isinstance(nested, Mapping):
        items: Any = nested.items()
    elif isinstance(nested, list | tuple) and any(isinstance(each, NESTED) for each in nested):
        items = enumerate(nested)
    else:
        array = np.asarray(nested.detach() if isinstance(nested, torch.Tensor) else nested)
        return {name: array} if array.dtype.kind in "bifu" else {}
    return {path: leaf for key, each in items for path, leaf in flat(each, f"{name}/{key}").items()}


def numbers_beside(folder: Path) -> Path:
    """The file of what resuming a directory gives."""
    return folder.with_name(f"{folder.name}.npz")


def resumed(name: str, written: Path, folder: Path) -> dict[str, Any]:
    """What resuming a copy of a directory gives; the copy is made as a folder that is not there."""
    shutil.copytree(written, folder)
    return flat(CASES[name].resume(folder))


def write(folder: Path, name: str) -> None:
    """Write a directory, and the numbers beside it."""
    written = folder / name
    shutil.rmtree(written, ignore_errors=True)
    written.mkdir(parents=True)
    CASES[name].write(written)
    pin(written, name)


def pin(written: Path, name: str) -> None:
    """Write the numbers beside a directory."""
    with tempfile.TemporaryDirectory() as elsewhere:
        np.savez_compressed(numbers_beside(written), **resumed(name, written, Path(elsewhere) / "copy"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    target, *chosen = sys.argv[1:]
    for case in chosen or CASES:
        write(Path(target), case)
        print(case)
