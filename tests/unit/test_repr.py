"""`repr` of agents, replay buffers, explorers, datasets and vector environments."""

import builtins
import inspect
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pair_base
import pytest
import torch
from argument_effects import Life
from dataset_parts import next_row
from registry import REGISTRY

from pfrl_like import agents, dataset, envs, explorers, online, replay_buffers
from pfrl_like.agent import Agent
from pfrl_like.env import VectorEnv
from pfrl_like.explorer import Explorer
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.wrappers.vector_frame_stack import VectorEnvWrapper

DENIED = [(builtins, "open"), (os, "open"), (np, "memmap")]
DENIED += [(torch.Tensor, name) for name in ("item", "tolist", "numpy", "cpu", "__bool__", "__int__", "__float__")]
MODULES = (agents, dataset, envs, explorers, online.explorers, online.buffers, replay_buffers)
BASES = (Agent, AbstractReplayBuffer, Explorer, online.explorers.OnlineExplorer, VectorEnv)
BASES += (dataset.MDPDataset, dataset.Episode, dataset.Transition, dataset.TransitionMiniBatch)
CLASSES = {kind for module in MODULES for kind in vars(module).values() if inspect.isclass(kind)}
CLASSES = {kind for kind in CLASSES if issubclass(kind, BASES) and not inspect.isabstract(kind)}


def text_of(shown: Any) -> str:
    """Its `repr`, for which no file is opened and no tensor read: such an error would leave only the class."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in DENIED:
            patch.setattr(owner, name, None)
        text = repr(shown)
    assert len(text.splitlines()) <= 6 and text.strip("<").startswith(type(shown).__name__) and "(...)" not in text
    return text


@pytest.mark.representatives(25)
@pytest.mark.parametrize("name", REGISTRY)
def test_agents_show_their_parts_and_counts(name: str) -> None:
    agent = REGISTRY[name].kind(**REGISTRY[name].arguments())
    acting = getattr(agent, "_acting", agent)
    before = text_of(agent)
    assert f"(cpu, 0 training steps, 0 updates, gamma={acting.gamma})" in before
    life = Life(agent, REGISTRY[name].family.obs_size)
    text = text_of(agent)
    assert f"{life.n_steps} training steps, {life.n_updates} updates" in text and text.count("\n") == before.count("\n")
    sizes = dict(re.findall(r"(\w+) ([\d,]+) \(", text))
    counted = {name: {*getattr(acting, name).parameters()} for name in sizes}
    assert sizes == {name: f"{sum(map(torch.numel, each)):,}" for name, each in counted.items()}
    groups = [step.optimizer.param_groups for step in getattr(agent, "gradient_steps", {}).values()]
    learnt = {param for group in sum(groups, []) for param in group["params"]}
    every = set().union(*counted.values())
    assert learnt <= every and len(every) == sum(map(len, counted.values())) > 0
    for part in {"replay_buffer", "explorer"} & vars(acting).keys():
        assert f"\n  {part}: {getattr(acting, part)!r}" in text or getattr(acting, part) is None


@pytest.mark.parametrize("name", pair_base.BUFFERS)
def test_buffers_show_what_they_hold(name: str, tmp_path: Path) -> None:
    buffer = pair_base.BUFFERS[name](tmp_path)
    assert f"{name}(0 of 100 transitions, " in text_of(buffer)
    obs = {key: np.zeros(2, np.float32) for key in ("observation", "achieved_goal", "desired_goal")}
    for _ in range(5):
        buffer.append(obs, 0, 0.0, obs)
    buffer.stop_current_episode()
    kinds = {"Prioritized": "prioritized", "Episodic": "1 episodes", "": f"num_steps={buffer.num_steps}"}
    kinds |= {"Persistent": f"on disk in {tmp_path / 'buffer'}"}
    facts = ["5 of 100 transitions", *(text for kind, text in kinds.items() if kind in name)]
    assert text_of(buffer) == f"{name}({', '.join(facts)})"


OBS, REST = np.zeros((4, 2), np.float32), (np.arange(4), np.zeros(4), np.arange(4) % 2)
STEPS = next_row(OBS, *REST, discrete_action=True)
NESTED = next_row({"a": OBS}, *REST, discrete_action=True)
ENV = envs.SerialVectorEnv([pair_base.Noise(pair_base.spaces.Discrete(2))] * 3)
SHOWN: dict[str, Any] = {
    "Greedy()": explorers.Greedy(),
    "Boltzmann(T=2.0)": explorers.Boltzmann(2.0, rng=np.random.default_rng(0)),
    "ConstantEpsilonGreedy(epsilon=0.3)": explorers.ConstantEpsilonGreedy(0.1 + 0.2, int),
    "LinearDecayEpsilonGreedy(epsilon=1.0, start_epsilon=1.0, end_epsilon=0.1, decay_steps=9)":
        explorers.LinearDecayEpsilonGreedy(1.0, 0.1, 9, int),
    "ExponentialDecayEpsilonGreedy(epsilon=1.0, start_epsilon=1.0, end_epsilon=0.1, decay=0.9)":
        explorers.ExponentialDecayEpsilonGreedy(1.0, 0.1, 0.9, int),
    "AdditiveGaussian(scale=[0.5, 1], low=[-1. -1.])": explorers.AdditiveGaussian([0.5, 1], np.array([-1.0, -1.0])),
    "AdditiveGaussian(scale=float32[2], high=float64[9])": explorers.AdditiveGaussian(torch.ones(2), None, np.ones(9)),
    "AdditiveOU(mu=0.0, theta=0.15, sigma=0.3, start_with_mu=False)": explorers.AdditiveOU(),
    "LinearDecayEpsilonGreedy(start_epsilon=1.0, end_epsilon=0.1, duration=1000000)":
        online.explorers.LinearDecayEpsilonGreedy(),
    "ReplayBuffer(0 of 9 transitions, num_steps=1)": online.buffers.ReplayBuffer(9, ENV.envs[0]),
    "_ShiftedGaussian(mean=0.0, scale=0.1, low=-1.0, high=1.0)": online.explorers.NormalNoise()._noise,
    "NormalNoise(mean=0.0, std=0.1)": online.explorers.NormalNoise(),
    "MDPDataset(2 episodes, 2 transitions, observations float32[2] in memory, discrete int64 actions of size 4)": STEPS,
    "MDPDataset(2 episodes, 2 transitions, observations {'a': 'float32[2]'} in memory, discrete int64 actions of size "
    "4)": NESTED,
    "TransitionMiniBatch(1 transitions, observations float32[1, 2], actions int64[1])":
        dataset.TransitionMiniBatch(STEPS[0]),
    "Episode(1 transitions, return 0, terminated)": STEPS[0],
    "Transition(observation [1.], action 0, next_reward 4., next_observation [2.], terminal 1)":
        dataset.Transition((1,), 2, np.ones(1), 0, 0.0, np.full(1, 2.0), 0, 4.0, 1),
    "<SerialVectorEnv of 3 environments, observations Box(-inf, inf, (5,), float32), actions Discrete(2)>": ENV,
}  # fmt: skip


@pytest.mark.parametrize("text", SHOWN)
def test_explorers_datasets_and_environments_show_their_values(text: str) -> None:
    assert text_of(SHOWN[text]) == text
    assert repr(VectorEnvWrapper(ENV)) == f"<VectorEnvWrapper{ENV!r}>"


def test_an_explorer_shows_epsilon_now() -> None:
    explorer = explorers.LinearDecayEpsilonGreedy(1.0, 0.0, 10, int)
    explorer.select_action(3, lambda: 0)
    assert "(epsilon=0.7, start_epsilon=1.0" in text_of(explorer)


def test_a_dataset_in_a_mapped_file_says_so(tmp_path: Path) -> None:
    np.save(tmp_path / "obs.npy", OBS)
    mapped = np.load(tmp_path / "obs.npy", mmap_mode="r")
    assert "observations float32[1] on disk, " in text_of(next_row(mapped[:, 1:], *REST, discrete_action=True))


@pytest.mark.parametrize("kind", sorted(CLASSES, key=str))
def test_half_built_objects_show_their_class(kind: Any) -> None:
    tried = {*REGISTRY, *pair_base.BUFFERS, *(type(each).__name__ for each in SHOWN.values())}
    assert kind.__name__ in tried or issubclass(kind, Agent | VectorEnv | dataset.Transition)
    for each in kind, type("Own", (kind,), {"__init__": lambda self: None}):
        assert repr(each.__new__(each)).removeprefix("<").startswith(each.__name__)


def test_an_agent_whose_constructor_failed_shows_what_it_has() -> None:
    agent = agents.DQN.__new__(agents.DQN)
    with pytest.raises(ValueError, match="minibatch_size"):
        agents.DQN.__init__(agent, **REGISTRY["DQN"].arguments(minibatch_size=0))
    assert text_of(agent).startswith("DQN(cpu, gamma=0.9)\n  replay_buffer: ReplayBuffer(0 of 1,000 transitions")
