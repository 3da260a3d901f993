"""Buffers that users wrote for PFRL's interface: what they define is what agents use."""

import collections
import functools
import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from agent_parts import make_agent

from pfrl_like import replay_buffers as kinds
from pfrl_like.errors import CheckpointError
from pfrl_like.explorers import Greedy
from pfrl_like.replay_buffer import AbstractEpisodicReplayBuffer, AbstractReplayBuffer


class Plain(AbstractReplayBuffer):
    """PFRL's interface and nothing else."""

    capacity = None

    def __init__(self):
        self.items, self.stopped = [], []

    def append(
        self, state, action, reward, next_state=None, next_action=None, is_state_terminal=False, env_id=0, **kwargs
    ):
        step = dict(state=state, action=action, reward=reward, next_state=next_state, next_action=next_action)
        self.items.append([dict(step, is_state_terminal=is_state_terminal, **kwargs)])

    def sample(self, n):
        return self.items[-n:]

    def __len__(self):
        return len(self.items)

    def save(self, filename):
        pass

    def load(self, filename):
        pass

    def stop_current_episode(self, env_id=0):
        self.stopped.append(env_id)


class PlainPrioritized(Plain):
    def __init__(self):
        super().__init__()
        self.errors = []

    def sample(self, n):
        return [[{**item[0], "weight": 0.5}] for item in super().sample(n)]

    def update_errors(self, errors):
        self.errors.append(errors)


class PlainEpisodic(Plain, AbstractEpisodicReplayBuffer):
    n_episodes = 3

    def sample_episodes(self, n_episodes, max_len=None):
        return [[item[0] for item in self.items[:length]] for length in (1, 3, 2)]


def agent_with(buffer, minibatch_size=2, **options):
    sizes = {"replay_start_size": 4, "minibatch_size": minibatch_size, "target_update_interval": 100}
    return make_agent(replay_buffer=buffer, explorer=Greedy(), **sizes, **options)


def train(agent, steps=8):
    for i in range(steps):
        agent.act(np.full(5, i, np.float32))
        agent.observe(np.full(5, i + 1, np.float32), float(i), i % 4 == 3, i == 5)
    return agent


def test_an_agent_stores_in_a_buffer_of_pfrls_interface_and_learns_from_it():
    buffer = Plain()
    agent = train(agent_with(buffer))
    assert agent.optim_t == 5  # from step 4 on
    assert [item[0]["reward"] for item in buffer.items] == list(range(8))
    assert [item[0]["is_state_terminal"] for item in buffer.items] == [False, False, False, True] * 2
    assert buffer.items[3][0]["next_state"].tolist() == [4.0] * 5
    assert buffer.stopped == [0, 0, 0]  # at the terminal steps 3 and 7 and at step 5, which was cut off


def test_every_environment_has_its_own_env_id_there():
    buffer = Plain()
    buffer.append_batch([0, 1], [0, 1], [2.0, 3.0], [1, 2], [False, False], [False, True], mask=["a", "b"])
    assert [(item[0]["state"], item[0]["mask"]) for item in buffer.items] == [(0, "a"), (1, "b")]
    assert buffer.stopped == [1]
    buffer.append_batch([5], [0], [1.0], [6], [True], [False], [1], next_action=[1])
    assert (buffer.items[2][0]["next_action"], buffer.stopped) == (1, [1, 1])


def test_errors_come_back_to_a_prioritised_buffer_of_pfrls_interface_whose_weights_count():
    buffer = PlainPrioritized()
    assert buffer.prioritized and not Plain().prioritized
    for i in range(3):
        buffer.append(np.full(5, i, np.float32), 0, float(i), np.zeros(5, np.float32), is_state_terminal=True)
    agent = agent_with(buffer)
    batch = buffer.sample_batch(2, 0.9)
    assert batch.weight.tolist() == [0.5, 0.5] and batch.reward.tolist() == [1.0, 2.0]
    assert batch.discount.tolist() == [0.0, 0.0]
    agent.update_from_replay()
    assert len(buffer.errors) == 1 and len(buffer.errors[0]) == 2 and min(buffer.errors[0]) >= 0


def test_errors_of_sequences_come_back_in_the_order_of_the_sample():
    class Prioritized(PlainEpisodic):
        def update_errors(self, errors):
            self.errors = errors

    buffer = Prioritized()
    for i in range(3):
        buffer.append(np.full(5, i, np.float32), 0, float(i), np.zeros(5, np.float32))
    batch = buffer.sample_sequences(3)
    assert batch.lengths.tolist() == [3, 2, 1]
    buffer.update_priorities(batch.index, torch.tensor([-3.0, 2.0, 1.0]))
    assert buffer.errors == [1.0, 3.0, 2.0]


def test_a_recurrent_agent_learns_from_the_episodes_that_a_users_buffer_samples():
    assert train(agent_with(PlainEpisodic(), recurrent=True, minibatch_size=3)).optim_t == 5


@pytest.mark.parametrize(
    "base",
    [kinds.ReplayBuffer, kinds.PrioritizedReplayBuffer, kinds.EpisodicReplayBuffer, kinds.PersistentReplayBuffer],
)
def test_an_append_of_a_subclass_is_what_agents_call(base, tmp_path):
    class HalfRewards(base):
        def append(self, state, action, reward, *args, **kwargs):
            super().append(state, action, reward / 2, *args, **kwargs)

    buffer = HalfRewards(str(tmp_path), 100) if base is kinds.PersistentReplayBuffer else HalfRewards(100)
    train(agent_with(buffer))
    assert sorted(item[0]["reward"] for item in buffer.sample(8)) == [i / 2 for i in range(8)]


def test_update_errors_of_a_subclass_is_called_and_may_go_on_to_the_librarys():
    class Doubled(kinds.PrioritizedReplayBuffer):
        def update_errors(self, errors):
            super().update_errors([2 * error for error in errors])

    buffer = Doubled(100, alpha=1.0, eps=0.0, error_max=None)
    buffer.append(np.zeros(5, np.float32), 0, 1.0, np.zeros(5, np.float32))
    buffer.update_priorities(buffer.sample_batch(1).index, [3.0])
    assert buffer._priorities.to_array().tolist() == [6.0]  # 2 * 3


def test_sample_episodes_of_a_subclass_is_what_recurrent_agents_learn_from():
    class Counting(kinds.PrioritizedEpisodicReplayBuffer):
        draws = 0

        def sample_episodes(self, n_episodes, max_len=None):
            self.draws += 1
            return super().sample_episodes(n_episodes, max_len)

    buffer = Counting(100)
    agent = train(agent_with(buffer, recurrent=True), 12)
    assert buffer.draws == agent.optim_t > 0


def test_a_class_that_overrides_both_forms_keeps_both():
    class Both(kinds.ReplayBuffer):
        append = functools.partialmethod(kinds.ReplayBuffer.append)

        def append_batch(self, *args, **kwargs):
            seen.append(len(args[2]))
            super().append_batch(*args, **kwargs)

    seen = []
    buffer = Both()
    buffer.append(0, 0, 0.0, 1)
    buffer.append_batch([0, 1], [0, 0], [0.0, 0.0], [1, 2], [False] * 2, [False] * 2)
    assert seen == [1, 2] and len(buffer) == 3


class OverMemory(kinds.ReplayBuffer):
    """Stores and draws through `memory`, as subclasses of PFRL's buffer do."""

    def append(
        self, state, action, reward, next_state=None, next_action=None, is_state_terminal=False, env_id=0, **kwargs
    ):
        step = dict(state=state, action=action, reward=reward / 2, next_state=next_state, next_action=next_action)
        self.memory.append([dict(step, is_state_terminal=is_state_terminal, **kwargs)])

    def sample(self, n):
        drawn.append(n)
        return self.memory.sample(n)


class OverOwnMemory(OverMemory):
    """The same with a container of its own."""

    def __init__(self, capacity):
        super().__init__(capacity)
        self.memory = collections.deque(maxlen=capacity)

    def sample(self, n):
        drawn.append(n)
        return random.sample(list(self.memory), n)


class OverPriorities(kinds.PrioritizedReplayBuffer):
    """PFRL's prioritised draw, written out."""

    append = OverMemory.append

    def sample(self, n):
        drawn.append(n)
        items, probabilities, smallest = self.memory.sample(n)
        for item, weight in zip(items, self.weights_from_probabilities(probabilities, smallest), strict=True):
            item[0]["weight"] = weight
        return items

    def update_errors(self, errors):
        self.memory.set_last_priority(self.priority_from_errors(errors))


drawn: list[int] = []


@pytest.mark.parametrize("kind", [OverMemory, OverOwnMemory, OverPriorities])
def test_agents_learn_from_a_subclass_that_stores_and_draws_through_memory(kind):
    buffer = kind(6)
    drawn.clear()
    agent = train(agent_with(buffer))
    memory = buffer.memory.data if kind is OverPriorities else buffer.memory
    assert [item[0]["reward"] for item in memory] == [1.0, 1.5, 2.0, 2.5, 3.0, 3.5]
    assert [item[0]["is_state_terminal"] for item in memory] == [False, True, False, False, False, True]
    assert drawn == [2] * 5 and agent.optim_t == 5
    if kind is OverPriorities:
        assert (buffer._priorities.to_array() != 1.0).any() and buffer.beta > 0.4


def test_a_weight_that_a_users_prioritised_sample_sets_is_that_of_the_library():
    buffers = [OverPriorities(10, rng=np.random.default_rng(0)), kinds.PrioritizedReplayBuffer(10)]
    buffers[1]._rng = np.random.default_rng(0)
    batches = []
    for buffer in buffers:
        for i in range(10):
            buffer.append(np.full(5, i, np.float32), 0, 2.0 * i, np.zeros(5, np.float32))
        buffer.update_priorities(buffer.sample_batch(5).index, [0.1, 0.2, 0.3, 0.4, 0.5])
        batches.append(buffer.sample_batch(4))
    assert torch.equal(batches[0].weight, batches[1].weight) and len(set(batches[0].weight.tolist())) > 1
    assert torch.equal(batches[0].obs, batches[1].obs)


class HalfRewardsMixIn:
    def append(self, state, action, reward, *args, **kwargs):
        super().append(state, action, reward / 2, *args, **kwargs)


class NewestMixIn:
    def sample(self, n):
        return self.memory[-n:]


@pytest.mark.parametrize("base", [kinds.ReplayBuffer, kinds.EpisodicReplayBuffer])
def test_methods_of_a_mix_in_are_what_agents_call(base):
    class Mixed(HalfRewardsMixIn, NewestMixIn, base):
        pass

    class Grandchild(Mixed):
        pass

    buffer = Grandchild(100)
    train(agent_with(buffer))
    assert sorted(item[0]["reward"] for item in buffer.memory) == [i / 2 for i in range(8)]
    assert buffer.sample_batch(2).reward.tolist() == [item[0]["reward"] for item in buffer.memory[-2:]]


def test_a_mix_in_behind_the_buffer_changes_nothing():
    class Behind(kinds.ReplayBuffer, NewestMixIn):
        pass

    assert Behind.sample_batch is kinds.ReplayBuffer.sample_batch


def test_a_users_buffer_is_saved_whole(tmp_path):
    class Saving(Plain):
        def save(self, filename):
            Path(filename).write_text(json.dumps(self.items))

        def load(self, filename):
            self.items = json.loads(Path(filename).read_text())

    buffer, loaded = Saving(), Saving()
    buffer.append(1, 0, 1.0)
    first = buffer.save_increment(tmp_path)
    buffer.append(2, 0, 2.0)
    second = buffer.save_increment(tmp_path, first)
    loaded.load_increment(tmp_path, second)
    assert loaded.items == buffer.items
    kinds.prune(tmp_path, [second])
    with pytest.raises(CheckpointError, match="cannot be read"):
        loaded.load_increment(tmp_path, first)
    (tmp_path / second["table"]["name"]).write_text("[1, 3]")
    with pytest.raises(CheckpointError, match="damaged"):
        loaded.load_increment(tmp_path, second)
