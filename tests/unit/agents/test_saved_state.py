"""What an agent saves beside its networks: counters, statistics, its explorer and recurrent states."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from agent_parts import make_agent
from gymnasium import spaces

from pfrl_like.agents import DQN
from pfrl_like.errors import CheckpointError
from pfrl_like.explorers import AdditiveOU, ConstantEpsilonGreedy, Greedy
from pfrl_like.q_functions import FCQuadraticStateQFunction
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.testing import Chain
from pfrl_like.testing.play import difference, play_one

CHAIN = Chain(time_limit=7)
OBS = np.random.RandomState(0).randn(20, 5).astype(np.float32)


def make_noisy(seed: int = 0) -> DQN:
    """An agent of continuous actions with a process of noise and a generator of its own."""
    q_function = FCQuadraticStateQFunction(5, 2, 8, 1, spaces.Box(-1, 1, (2,), np.float32))
    explorer = AdditiveOU(rng=np.random.default_rng(seed))
    return DQN(q_function, torch.optim.Adam(q_function.parameters()), ReplayBuffer(), 0.9, explorer)


def by_directory(agent: DQN, other: DQN, folder: Any) -> None:
    agent.save(folder)
    other.load(folder)


def by_state_dict(agent: DQN, other: DQN, folder: Any) -> None:
    other.load_state_dict(agent.state_dict())


WAYS = pytest.mark.parametrize("hand_over", [by_directory, by_state_dict])


@WAYS
def test_the_explorer_goes_on_where_it_was(hand_over: Any, tmp_path: Any) -> None:
    agent, other = make_noisy(seed=1), make_noisy(seed=2)
    agent.act(OBS[0])
    agent.observe(OBS[1], 0.0, False, False)
    hand_over(agent, other, tmp_path)
    assert [agent.act(obs).tolist() for obs in OBS] == [other.act(obs).tolist() for obs in OBS]


def test_another_episode_after_loading_begins_with_the_initial_recurrent_state(tmp_path: Any) -> None:
    agent, other = (make_agent(recurrent=True, explorer=Greedy()) for _ in range(2))
    agent.act(OBS[0])
    agent.observe(OBS[1], 0.0, False, False)
    by_directory(agent, other, tmp_path)
    other.stop_episode()
    other.act(OBS[1])
    assert other.recurrent_memory.train_previous_state is None  # type: ignore[union-attr]


def test_the_state_of_another_explorer_is_left_out_with_a_warning(caplog: Any, tmp_path: Any) -> None:
    agent, other = make_noisy(), make_noisy()
    agent.act(OBS[0])
    other.explorer, other.logger = Greedy(), logging.getLogger("other")
    by_directory(agent, other, tmp_path)
    text = "explorer: the saved class is AdditiveOU, but the agent has Greedy: its state is not restored"
    assert text in caplog.text
    assert other.unsaved() == (text,)
    assert agent.unsaved() == ()


class PlainExplorer:
    """Not of this library, and with a state that is nobody's business."""

    def select_action(self, t: int, greedy_action_func: Any, action_value: Any = None) -> Any:
        return greedy_action_func()

    def state_dict(self) -> Any:
        return {"anything": object()}


def test_an_explorer_of_another_kind_does_not_keep_from_saving(tmp_path: Any) -> None:
    agent = make_agent(explorer=PlainExplorer())
    agent.act(OBS[0])
    by_directory(agent, agent, tmp_path)
    assert agent.unsaved() == ["explorer: PlainExplorer is not a pfrl_like Explorer; its state is not saved"]


@pytest.mark.parametrize(
    "state",
    [
        {"t": -1},
        {"t": True},
        {"optim_t": None},
        {"steps": 5},
        {"memory": {}},
        {"loss_record": 5},
        {"loss_record": {"dtype": "torch.float32", "values": [1.0]}},
        {"q_record": [{"dtype": "torch.float32", "values": "abc"}]},
        {"q_record": [{"dtype": "torch.quint8", "values": [1.0]}]},
        {"q_record": [None]},
        {"explorer": []},
        {"explorer": {"class": "ConstantEpsilonGreedy", "state": {"rng": {}}}},
    ],
    ids=str,
)
def test_a_state_that_is_none_is_refused_and_changes_nothing(state: dict[str, Any]) -> None:
    agent = make_agent(explorer=ConstantEpsilonGreedy(0.5, lambda: 0, rng=np.random.default_rng(0)))
    play_one(agent, CHAIN, 20)
    before = agent.saved_state()
    good = {"t": 7, "cumulative_steps": 7, "loss_record": [], **state}
    with pytest.raises(ValueError):
        agent.restore_state(good)
    assert difference(before, agent.saved_state()) is None
    whole = agent.state_dict()
    with pytest.raises(CheckpointError):
        agent.load_state_dict({**whole, "state": {"": good}})
    assert difference(whole, agent.state_dict()) is None


@pytest.mark.parametrize("change", [{"train_state": 5}, {"steps": ["a"]}, {"steps": None}])
def test_a_recurrent_memory_that_is_none_is_refused_and_changes_nothing(change: dict[str, Any]) -> None:
    agent = make_agent(recurrent=True)
    play_one(agent, CHAIN, 10)
    before = agent.saved_state()
    with pytest.raises(ValueError, match="the recurrent memory is|a tensor is"):
        agent.restore_state({**before, "t": 0, "memory": {**before["memory"], **change}})
    assert difference(before, agent.saved_state()) is None


def test_a_snapshot_holds_the_agent_and_its_replay_buffer(tmp_path: Path) -> None:
    agent, other = make_agent(), make_agent()
    play_one(agent, Chain(4), 30)
    agent.save_snapshot(str(tmp_path / "snapshot"))
    other.load_snapshot(str(tmp_path / "snapshot"))
    assert (other.t, other.optim_t, other.cumulative_steps) == (30, agent.optim_t, 30)
    assert torch.equal(other.replay_buffer.sample_batch(30).obs.sum(), agent.replay_buffer.sample_batch(30).obs.sum())
    for mine, theirs in zip(agent.target_model.parameters(), other.target_model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_snapshot_without_its_buffer_is_refused(tmp_path: Path) -> None:
    make_agent().save(str(tmp_path))
    with pytest.raises(CheckpointError, match=r"replay_buffer\.pkl"):
        make_agent().load_snapshot(str(tmp_path))
