"""Runs that go on otherwise than they were made say so."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like.agents import DQN, REINFORCE, DoubleDQN
from pfrl_like.dataset import MDPDataset
from pfrl_like.errors import CheckpointError
from pfrl_like.experiments import train_agent, train_agent_offline
from pfrl_like.experiments.resume import Configuration
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.policies import SoftmaxCategoricalHead
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import PrioritizedReplayBuffer, ReplayBuffer
from pfrl_like.utils import set_random_seed


def go_on(
    outdir: Path,
    env_id: str = "CartPole-v1",
    kind: Any = DoubleDQN,
    buffer: Any = ReplayBuffer,
    capacity: int = 50,
    num_steps: int = 1,
    lr: float = 1e-3,
    gamma: float = 0.9,
    epsilon: float = 0.5,
    hooks: Any = (),
    wrapper: Any = lambda env: env,
) -> dict[str, Any]:
    set_random_seed(0)
    env = wrapper(gymnasium.make(env_id))
    env.reset(seed=0)
    env.action_space.seed(0)
    q_function = nn.Sequential(nn.Linear(env.observation_space.shape[0], 2), DiscreteActionValueHead())
    agent = kind(
        q_function, torch.optim.Adam(q_function.parameters(), lr), buffer(capacity, num_steps=num_steps), gamma,
        ConstantEpsilonGreedy(epsilon, env.action_space.sample), replay_start_size=10, minibatch_size=4,
    )  # fmt: skip
    train_agent(agent, env, 60, outdir, checkpoint_freq=20, resume=True, hooks=hooks)
    told: dict[str, Any] = json.loads((outdir / "run.json").read_text())
    return told


class Wide(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Observations of another form."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-1, 1, (6,), np.float32)

    def observation(self, observation: Any) -> Any:
        return np.zeros(6, np.float32)


def files(outdir: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in outdir.rglob("*") if path.is_file()}


def stop(clock: Any) -> None:
    if clock.t == 45:
        raise KeyboardInterrupt


@pytest.mark.parametrize("change", [{"buffer": PrioritizedReplayBuffer}, {"num_steps": 3}])
def test_a_buffer_that_holds_other_things_is_refused(change: Any, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        go_on(tmp_path, hooks=[stop])
    with pytest.raises(CheckpointError, match="no buffer that fits this one"):
        go_on(tmp_path, **change)


def test_the_checkpoint_of_another_environment_is_refused_and_nothing_is_moved(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        go_on(tmp_path, hooks=[stop])
    before = files(tmp_path)
    with pytest.raises(
        CheckpointError,
        match=r"it belongs to another environment: form of env.observation_space was 'a box of shape \(4,\)' and is "
        r"'a box of shape \(6,\)'",
    ):
        go_on(tmp_path, wrapper=Wide)
    assert files(tmp_path) == before


def test_the_checkpoint_of_another_agent_tells_both_and_nothing_is_moved(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        go_on(tmp_path, hooks=[stop])
    before = files(tmp_path)
    model = nn.Sequential(nn.Linear(4, 2), SoftmaxCategoricalHead())
    agent = REINFORCE(model, torch.optim.Adam(model.parameters()))
    with pytest.raises(CheckpointError) as caught:
        train_agent(agent, gymnasium.make("CartPole-v1"), 60, tmp_path, checkpoint_freq=20, resume=True)
    told = "was saved by the agent DoubleDQN, and that of this run is REINFORCE: does not fit this run: it has"
    assert told in str(caught.value) and "ValueError" not in str(caught.value)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"gamma": 0.5}, "gamma was 0.9 and is 0.5"),
        ({"lr": 1e-5}, "optimizer[0].lr was 0.001 and is 1e-05"),
        ({"capacity": 20}, "replay_buffer.capacity was 50 and is 20"),
        ({"epsilon": 0.1}, "explorer.epsilon was 0.5 and is 0.1"),
        ({"kind": DQN}, "agent was 'DoubleDQN' and is 'DQN'"),
        ({"env_id": "CartPole-v0"}, "env.spec was 'CartPole-v1' and is 'CartPole-v0'"),
        ({}, None),
    ],
)
@pytest.mark.filterwarnings("ignore:.*out of date")
def test_what_was_made_otherwise_is_told(change: Any, reason: str | None, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        go_on(tmp_path, hooks=[stop])
    resumed = go_on(tmp_path, **change)["resumed"]
    if reason is None:
        assert (resumed["resume"], resumed["reasons"]) == ("exact", [])
    else:
        assert resumed["resume"] == "approximate" and reason in resumed["reasons"]


def offline_then_online(outdir: Path, hooks: Any = ()) -> dict[str, Any]:
    set_random_seed(0)
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    env.action_space.seed(0)
    q_function = nn.Sequential(nn.Linear(4, 2), DiscreteActionValueHead())
    agent = DQN(
        q_function, torch.optim.Adam(q_function.parameters()), ReplayBuffer(50), 0.9,
        ConstantEpsilonGreedy(0.5, env.action_space.sample), replay_start_size=10, minibatch_size=4,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    data = MDPDataset(
        rng.normal(size=(40, 4)).astype(np.float32), rng.integers(2, size=40), rng.normal(size=40),
        np.arange(40) % 10 == 9, discrete_action=True, reward_convention="next_row",
    )  # fmt: skip
    train_agent_offline(
        agent, data, 30, outdir / "offline", resume=True, rng=rng, eval_env=gymnasium.make("CartPole-v1"),
        eval_n_episodes=1, eval_interval=10,
    )  # fmt: skip
    train_agent(agent, env, 60, outdir / "online", checkpoint_freq=20, resume=True, hooks=hooks)
    told: dict[str, Any] = json.loads((outdir / "online" / "run.json").read_text())
    return told | {"parameters": [each.tolist() for each in q_function.parameters()]}


def test_what_an_agent_went_through_before_is_not_how_it_was_made(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = offline_then_online(tmp_path / "whole")["parameters"]
    with pytest.raises(KeyboardInterrupt):
        offline_then_online(tmp_path / "parts", [stop])
    told = offline_then_online(tmp_path / "parts")
    assert (told["resumed"]["resume"], told["resumed"]["reasons"]) == ("exact", [])
    assert told["parameters"] == wanted and "go on exactly" not in caplog.text


class Chosen(DQN):
    """With arguments of which one has a default in the class."""

    act_deterministically = True
    training_shown = False

    def __init__(self, act_deterministically: bool) -> None:
        self.act_deterministically = act_deterministically
        self.training_shown, self.width = True, 3


def test_arguments_count_also_where_the_class_has_a_default() -> None:
    told = Configuration(Chosen(False), None, None).saved_state()["told"]
    assert told["act_deterministically"] is False and told["width"] == 3 and "training_shown" not in told
