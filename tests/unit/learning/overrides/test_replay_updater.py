"""PFRL's `replay_updater` of replay agents."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hook_parts import REPLAYING, replaying

from pfrl_like.replay_buffer import ReplayUpdater


def test_its_attributes_are_those_of_the_agent() -> None:
    agent = replaying("DQN")
    agent.replay_updater.batchsize, agent.replay_updater.update_interval = 3, 5
    assert (agent.minibatch_size, agent.update_interval) == (3, 5)
    agent.n_times_update = 4
    assert agent.replay_updater.n_times_update == 4 and not agent.replay_updater.episodic_update
    for name in ("batch_size", "optimizer"):
        with pytest.raises(AttributeError, match=f"replay_updater has no attribute '{name}', expected .*batchsize"):
            setattr(agent.replay_updater, name, 3)
        assert not hasattr(agent.replay_updater, name)


@pytest.mark.parametrize("name", ["batchsize", "n_times_update", "update_interval", "episodic_update_len"])
def test_a_count_of_it_is_checked(name: str) -> None:
    updater = replaying("DQN").replay_updater
    setattr(updater, name, 8.0)
    for value, error in ((-8, ValueError), (8.5, TypeError)):
        with pytest.raises(error, match=f"{name}.*expected an integer from 1 on"):
            setattr(updater, name, value)
    assert getattr(updater, name) == 8


@pytest.mark.parametrize("owner", REPLAYING)
def test_updates_are_made_when_they_are_due(owner: str) -> None:
    agent = replaying(owner)
    agent.update_interval, agent.n_times_update, agent.replay_start_size = 2, 3, len(agent.replay_buffer)
    assert not agent.replay_updater.update_if_necessary(3) and agent.optim_t == 0
    assert agent.replay_updater.update_if_necessary(4) and agent.optim_t == 3
    agent.replay_updater.replay_start_size += 1
    assert not agent.replay_updater.update_if_necessary(4)


def test_a_recurrent_agent_waits_for_episodes() -> None:
    agent = replaying("RecurrentDQN")
    agent.replay_start_size, agent.minibatch_size = 1, agent.replay_buffer.n_episodes + 1
    assert agent.replay_updater.episodic_update and not agent.replay_updater.update_if_necessary(0)
    assert agent.replay_updater.update_func == agent.update_from_episodes


def play(agent: Any, n: int) -> None:
    for _ in range(n):
        agent.act(np.zeros(3, np.float32))
        agent.observe(np.zeros(3, np.float32), 0.0, False, False)


def test_a_function_that_is_assigned_gets_the_samples() -> None:
    agent, sizes = replaying("DQN"), list[int]()
    agent.replay_start_size, agent.update_interval = 12, 2
    updates = agent.optim_t
    agent.replay_updater.update_func = lambda experiences: sizes.append(len(experiences))
    assert isinstance(agent.replay_updater, ReplayUpdater)
    play(agent, 6)
    assert sizes == [agent.minibatch_size] * 3 and agent.optim_t == updates


def test_an_update_of_a_prioritized_sample_writes_the_errors_back() -> None:
    agent = replaying("DQN", buffer="prioritized")
    before = agent.replay_buffer._priorities.to_array().copy()
    agent.update(agent.replay_buffer.sample(4))
    assert not agent.replay_buffer.waits_for_errors
    assert (agent.replay_buffer._priorities.to_array() != before).sum() == 4
    errors: list[float] = []
    agent.update(agent.replay_buffer.sample(4), errors_out=errors)
    agent.replay_buffer.update_errors(errors)


def test_copies_have_an_updater_of_their_own() -> None:
    agent = replaying("DQN")
    other = pickle.loads(pickle.dumps(agent))
    other.replay_updater.batchsize = 7
    assert (agent.minibatch_size, other.minibatch_size) == (agent.replay_updater.batchsize, 7)
    assert copy.deepcopy(agent.replay_updater).batchsize == agent.minibatch_size
