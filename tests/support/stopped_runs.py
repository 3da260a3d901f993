"""Runs to be stopped and gone on with: every agent under every runner that goes on exactly, and what a run has left."""

import contextlib
import dataclasses
import functools
import hashlib
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from network_parts import OBS
from pair_base import Case, Noise, is_of_goals
from registry import LEARNERS

from pfrl_like import agents, experiments
from pfrl_like import loggers as adapters
from pfrl_like.algos import EpochDDPG, EpochDQN
from pfrl_like.dataset import MDPDataset
from pfrl_like.envs import MultiprocessVectorEnv, SerialVectorEnv
from pfrl_like.experiments import evaluator
from pfrl_like.experiments.checkpoints import saved_in
from pfrl_like.experiments.run_state import buffers_of
from pfrl_like.random_streams.streams import GlobalStreams
from pfrl_like.utils import set_random_seed
from pfrl_like.utils.goals import ACHIEVED_GOAL, DESIRED_GOAL, OBSERVATION

#: Kinds of parts that take long.
HEAVY = ("dueling", "distributional dueling")
SCALE = 0.2
#: Files that tell of a run's steps, and of nothing else.
TABLES = ("scores.txt", "metrics.csv", "epochs.csv", "trace.bin", "trace.jsonl")

# Environments

#: Where noise comes from, given the environment's own stream.
NOISES: dict[str, Callable[[Any], Any]] = {
    "deterministic": lambda own: np.zeros(OBS),
    "own stream": lambda own: own.normal(size=OBS),
    "global streams": lambda own: np.random.normal(size=OBS) + random.random() - torch.rand(()).item(),
}


class Wander(Noise):
    """Observations, rewards and ends depend on all actions of the episode, and on noise.

    Args:
        action_space: Its actions.
        goals: Whether observations are those of a goal environment.
        noise: The kind of noise.
    """

    def __init__(self, action_space: spaces.Space[Any], goals: bool = False, noise: str = "deterministic") -> None:
        super().__init__(action_space, goals)
        self.noise = NOISES[noise]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.t, self.place = 0, np.zeros(OBS)
        return super().reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        moved = np.sin(self.place + 1 + np.resize(np.asarray(action, float), OBS))
        self.place = moved + SCALE * self.noise(self.np_random)
        return self.observe(), float(self.place.sum()), bool(self.place[0] > 0.95), self.t == 9, {}

    def observe(self) -> Any:
        seen = (self.place + SCALE * self.noise(self.np_random)).astype(np.float32)
        first, second = OBS - self.N_GOAL, self.N_GOAL
        parts = {OBSERVATION: seen[:first], ACHIEVED_GOAL: seen[first:], DESIRED_GOAL: np.ones(second, np.float32)}
        return parts if self.goals else seen


# Runs


class Plan(NamedTuple):
    """A run.

    Attributes:
        agent: Its agent; which parts that has, the number says.
        runner: Its runner.
        noise: Where the noise of its environments comes from.
        number: Tells it from others that are alike.
    """

    agent: str
    runner: str
    noise: str
    number: int

    @property
    def case(self) -> Case:
        """The agent's parts."""
        fitting = [case for case in LEARNERS[self.agent].fitting() if {*HEAVY}.isdisjoint(case.values())]
        if self.runner == "EpochRunner":
            fitting = [case for case in fitting if not case["recurrent"] and not is_of_goals(case)]
        return random.Random(f"case {self}").choice(fitting)

    @property
    def sizes(self) -> dict[str, int]:
        """How long it is, and how often it saves and evaluates."""
        drawn = random.Random(f"sizes {self}")
        return {
            "steps": drawn.randint(60, 120), "checkpoint_freq": drawn.randint(10, 40),
            "eval_interval": drawn.randint(15, 40), "n_envs": drawn.randint(1, 3),
        }  # fmt: skip

    def env(self, seed: int = 0, noise: str | None = None) -> Wander:
        """An environment after a reset with a seed, as a script begins."""
        case = self.case
        env = Wander(LEARNERS[self.agent].space(case), is_of_goals(case), noise or self.noise)
        env.reset(seed=seed)
        return env

    def make(self, folder: Path) -> Any:
        """Its agent, whose persistent buffer lies in a folder."""
        return LEARNERS[self.agent].make(self.case, folder)


def of_evaluation(plan: Plan) -> dict[str, Any]:
    return {"eval_n_steps": None, "eval_n_episodes": 2, "eval_interval": plan.sizes["eval_interval"]}


@dataclasses.dataclass(frozen=True)
class Maker:
    """Makes an environment; it draws nothing, and what it needs to know is not looked through for streams."""

    has_no_rng = True
    plan: Plan
    seed: int

    def __call__(self) -> Wander:
        return self.plan.env(self.seed)


def in_one(plan: Plan, agent: Any, **options: Any) -> Any:
    return experiments.train_agent_with_evaluation(agent, plan.env(), **options, **of_evaluation(plan))


def in_several(
    make: Callable[[Sequence[Callable[[], Any]]], Any], plan: Plan, agent: Any, apart: bool = False, **options: Any
) -> Any:
    env = make([Maker(plan, i) for i in range(plan.sizes["n_envs"])])
    several = (in_turn, in_processes)[plan.number % 2]
    own = several([Maker(plan, 10 + i) for i in range(2)]) if apart else None
    with contextlib.ExitStack() as stack:
        for each in (env, own) if apart else (env,):
            stack.callback(each.close)
        return experiments.train_agent_batch_with_evaluation(
            agent, env, eval_env=own, max_episode_len=8, **options, **of_evaluation(plan)
        )


def in_turn(makers: Sequence[Callable[[], Any]]) -> Any:
    return SerialVectorEnv([make() for make in makers])


def in_processes(makers: Sequence[Callable[[], Any]]) -> Any:
    return MultiprocessVectorEnv(makers, "fork")


def of_gymnasium(plan: Plan, agent: Any, **options: Any) -> Any:
    mode = [*AutoresetMode][plan.number % len(AutoresetMode)]
    return in_several(functools.partial(SyncVectorEnv, autoreset_mode=mode), plan, agent, **options)


def from_data(plan: Plan, agent: Any, **options: Any) -> Any:
    """From the agent's replay buffer, or from a dataset."""
    buffer, steps = agent.replay_buffer, recorded(plan)
    data: Any = buffer
    if plan.case["recurrent"] or agent.learns_from_sequences or plan.number % 2 or isinstance(steps[0][0], dict):
        for obs, action, reward, next_obs, terminated, truncated in steps if len(buffer) == 0 else ():
            buffer.append(obs, action, reward, next_obs, is_state_terminal=terminated)
            if truncated and not terminated:
                buffer.stop_current_episode()
    else:
        obs, actions, rewards, _, terminated, truncated = map(np.array, zip(*steps, strict=True))
        discrete, timeouts = isinstance(LEARNERS[plan.agent].space(plan.case), spaces.Discrete), truncated & ~terminated
        data = MDPDataset.from_arrays(obs, actions, rewards, terminated, timeouts, discrete_action=discrete)
    return experiments.train_agent_offline(
        agent, data, **options, eval_env=plan.env(), log_interval=7, **of_evaluation(plan)
    )


def recorded(plan: Plan) -> list[tuple[Any, ...]]:
    """Steps of random actions, always the same ones."""
    env, steps = plan.env(5, "own stream"), []
    env.action_space.seed(plan.number)
    obs, _ = env.reset(seed=6)
    while len(steps) < 80 or not (steps[-1][4] or steps[-1][5]):
        action = env.action_space.sample()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        steps.append((obs, action, reward, next_obs, terminated, truncated))
        obs = env.reset()[0] if terminated or truncated else next_obs
    return steps


def in_epochs(plan: Plan, agent: Any, **options: Any) -> Any:
    """With the parts of an agent in an agent of the algorithm's own."""
    env, sizes = plan.env(), plan.sizes
    schedule = {
        "exploration_policy": agent.explorer, "replay_buffer": agent.replay_buffer, "steps_per_epoch": 2,
        "n_train_steps": 3, "buffer_batch_size": 4, "min_buffer_size": 10, "use_target": True, "max_path_length": 8,
    }  # fmt: skip
    algorithm: Any
    if plan.agent == "DDPG":
        algorithm = EpochDDPG(env, agent.policy, agent.q_function, **schedule)
    else:
        algorithm = EpochDQN(env, None, agent.model, double_q=plan.agent == "DoubleDQN", **schedule)
    runner = experiments.EpochRunner(
        algorithm, env, options["outdir"], eval_env=plan.env(1), eval_n_episodes=2, hooks=options["hooks"],
        snapshot_interval=1 + plan.number % 2, on_snapshot_failure=options["on_checkpoint_failure"],
    )  # fmt: skip
    batch_size = sizes["checkpoint_freq"] // 2
    average = runner.train(sizes["steps"] // batch_size // 2 + 1, batch_size, resume=options["resume"])
    return algorithm.agent, average


RUNNERS: dict[str, Callable[..., Any]] = {
    "train_agent_with_evaluation": in_one,
    "SerialVectorEnv": functools.partial(in_several, in_turn),
    "MultiprocessVectorEnv": functools.partial(in_several, in_processes, apart=True),
    "SyncVectorEnv": of_gymnasium,
    "train_agent_offline": from_data,
    "EpochRunner": in_epochs,
}
#: Agents that learn only from what they have just done.
ONLINE = {"A2C", "A3C", "ACER", "APPO", "IMPALA", "PPO", "REINFORCE", "TRPO"}
IN_EPOCHS = {"DQN", "DoubleDQN", "DDPG"}


def fits(agent: str, runner: str) -> bool:
    """Whether a runner can train an agent."""
    if runner == "EpochRunner":
        return agent in IN_EPOCHS
    return runner != "train_agent_offline" or agent not in ONLINE


def go(
    plan: Plan, folder: Path, hooks: Sequence[Callable[[Any], None]] = (), on_checkpoint_failure: str = "raise"
) -> dict[str, str]:
    """Run, or go on if a checkpoint is there; returns digests of what is left in the end."""
    return digests(run(plan, folder, hooks, on_checkpoint_failure))


def run(
    plan: Plan, folder: Path, hooks: Sequence[Callable[[Any], None]] = (), on_checkpoint_failure: str = "raise",
    view: Callable[[Any, Any, Path], dict[str, Any]] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run, or go on if a checkpoint is there; returns a view of agent, result and directory in the end: `left`."""
    outdir = folder / "run"
    goes_on = any(saved.is_checkpoint for saved in saved_in(str(outdir)))
    set_random_seed(plan.number)
    if not goes_on:
        shutil.rmtree(folder / "buffer", ignore_errors=True)  # a persistent one that nobody has a checkpoint of
    folder.mkdir(parents=True, exist_ok=True)
    agent = plan.make(folder)
    if goes_on:
        np.random.random(7), torch.rand(7), random.random()  # whatever a script draws
    steps, sizes = Steps(), plan.sizes
    options = {
        "outdir": outdir, "steps": sizes["steps"], "checkpoint_freq": sizes["checkpoint_freq"], "resume": True,
        "on_checkpoint_failure": on_checkpoint_failure,
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        for buffer in buffers_of(agent).values():
            stack.callback(getattr(buffer, "close", lambda: None))  # so that another object may open its files
        stack.enter_context(steps.as_time())
        agent, told = RUNNERS[plan.runner](plan, agent, hooks=[steps, *hooks], **options)
        return (view or left)(agent, told, outdir)


class Steps:
    """Tells the number of steps in place of the time, so that tables of runs can be compared whole."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, clock: Any) -> None:
        self.count += clock.t - clock.previous_t

    def time(self) -> float:
        return self.count / 8

    monotonic = time

    @contextlib.contextmanager
    def as_time(self) -> Iterator[None]:
        """Let the tables tell it."""
        with pytest.MonkeyPatch.context() as patch:
            for module in (evaluator, adapters):
                patch.setattr(module, "time", self)
            yield


# What is left


def left(agent: Any, told: Any, outdir: Path) -> dict[str, Any]:
    """Everything that later steps, or readers, may see of a run."""
    tables = {name: (outdir / name).read_bytes() for name in TABLES if (outdir / name).exists()}
    return {
        "agent": agent.state_dict(), "statistics": agent.get_statistics(), "told": told,
        "buffers": {name: buffer.state_dict() for name, buffer in buffers_of(agent).items()},
        "streams": GlobalStreams.now().to_plain(), "tables": tables,
    }  # fmt: skip


def digests(value: Any) -> dict[str, str]:
    """A digest of the bytes of each leaf of nested values, by its name."""
    return dict(_digests(value, ""))


def _digests(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key in value:
            yield from _digests(value[key], f"{name}/{key}")
    elif isinstance(value, list | tuple) and not all(isinstance(each, int | float | str) for each in value):
        for i, each in enumerate(value):
            yield from _digests(each, f"{name}/{i}")
    else:
        array = value.detach().numpy() if isinstance(value, torch.Tensor) else value
        numbers = isinstance(array, np.ndarray | np.generic) and array.dtype.kind != "O"
        content = f"{array.dtype}{array.shape}".encode() + array.tobytes() if numbers else repr(array).encode()
        yield name, hashlib.sha256(content).hexdigest()[:16]


def differences(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """The names of what is not the same."""
    return [name for name in {**first, **second} if first.get(name) != second.get(name)]


def plans(numbers: Iterable[int] = (0,)) -> Iterator[Plan]:
    """All runs, in turns of each agent with another runner and another noise."""
    of_agents = {
        agent: [Plan(agent, runner, noise, 0) for runner in RUNNERS if fits(agent, runner) for noise in NOISES]
        for agent in LEARNERS
    }
    for number in numbers:
        for i, each in enumerate(of_agents.values()):
            random.Random(f"{number} {i}").shuffle(each)
        for turn in range(max(map(len, of_agents.values()))):
            yield from (each[turn]._replace(number=number) for each in of_agents.values() if turn < len(each))


assert {*ONLINE} | IN_EPOCHS <= {*vars(agents)}
