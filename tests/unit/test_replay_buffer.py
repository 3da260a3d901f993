import numpy as np
import pytest
import torch

from pfrl_like.replay_buffer import ReplayUpdater, batch_experiences, batch_recurrent_experiences, random_subseq
from pfrl_like.replay_buffers import EpisodicReplayBuffer, ReplayBuffer
from pfrl_like.utils.batch_states import batch_states

CPU = torch.device("cpu")


def step(i, terminal=False, **extra):
    return dict(
        state=np.full(2, i, np.float32),
        action=i,
        reward=float(i),
        next_state=None if terminal else np.full(2, i + 1, np.float32),
        next_action=extra.pop("next_action", None),
        is_state_terminal=terminal,
        **extra,
    )


def test_random_subseq_begins_anywhere():
    assert random_subseq([1, 2], 3) == [1, 2]
    assert {tuple(random_subseq([1, 2, 3, 4], 3)) for _ in range(50)} == {(1, 2, 3), (2, 3, 4)}


def test_batch_experiences_sums_the_steps_of_an_item():
    items = [[step(1), step(2, terminal=True)], [step(3)]]
    batch = batch_experiences(items, CPU, lambda obs: obs * 2, 0.5)
    assert batch["state"].tolist() == [[2.0, 2.0], [6.0, 6.0]]
    assert batch["action"].tolist() == [1, 3]
    assert batch["reward"].tolist() == [1 + 0.5 * 2, 3]
    assert batch["next_state"][1].tolist() == [8.0, 8.0]
    assert batch["is_state_terminal"].tolist() == [1.0, 0.0]
    assert batch["discount"].tolist() == [0.25, 0.5]
    assert "next_action" not in batch


def test_next_actions_are_batched_if_all_are_known():
    batch = batch_experiences([[step(1, next_action=7)]], CPU, lambda obs: obs, 0.5)
    assert batch["next_action"].tolist() == [7]


def test_a_user_may_batch_observations_otherwise():
    def reversed_states(states, device, phi):
        return batch_states(states[::-1], device, phi)

    batch = batch_experiences([[step(1)], [step(3)]], CPU, lambda obs: obs, 0.5, batch_states=reversed_states)
    assert batch["state"][:, 0].tolist() == [3.0, 1.0]


def test_batch_recurrent_experiences_packs_time_first():
    state = np.ones((1, 3), np.float32)
    episodes = [
        [step(i, recurrent_state=state * i, next_recurrent_state=None) for i in (1, 2)],
        [step(5, recurrent_state=None, next_recurrent_state=None)],
    ]
    batch = batch_recurrent_experiences(episodes, CPU, lambda obs: obs, 0.9)
    assert batch["reward"].tolist() == [1.0, 5.0, 2.0]
    assert [len(states) for states in batch["state"]] == [2, 1]
    assert batch["recurrent_state"].shape == (1, 2, 3)
    assert batch["recurrent_state"][0, :, 0].tolist() == [1.0, 0.0]
    assert batch["next_recurrent_state"] is None
    assert batch["discount"].tolist() == pytest.approx([0.9] * 3)


def test_shorter_episodes_first_are_refused():
    with pytest.raises(ValueError, match=r"lengths \[1, 2\]"):
        batch_recurrent_experiences([[step(0)], [step(1), step(2)]], CPU, lambda obs: obs, 0.9)


def updater(buffer, calls, **kwargs):
    arguments = dict(batchsize=2, episodic_update=False, n_times_update=3, replay_start_size=4, update_interval=2)
    return ReplayUpdater(buffer, calls.append, **(arguments | kwargs))


def filled(buffer, n):
    for i in range(n):
        buffer.append(**step(i, terminal=i % 2 == 1))
    return buffer


def test_updates_begin_with_enough_steps_and_come_at_their_interval():
    calls = []
    assert not updater(filled(ReplayBuffer(), 3), calls).update_if_necessary(2)
    assert not updater(filled(ReplayBuffer(), 4), calls).update_if_necessary(3)
    assert calls == []
    assert updater(filled(ReplayBuffer(), 4), calls).update_if_necessary(4)
    assert [len(items) for items in calls] == [2, 2, 2]


def test_episodic_updates_get_parts_of_episodes():
    calls = []
    one = updater(filled(EpisodicReplayBuffer(), 4), calls, episodic_update=True, episodic_update_len=1)
    assert one.update_if_necessary(2)
    assert [[len(part) for part in parts] for parts in calls] == [[1, 1]] * 3


def test_episodic_updates_wait_for_enough_episodes():
    calls = []
    waiting = updater(filled(EpisodicReplayBuffer(), 4), calls, episodic_update=True, batchsize=3)
    assert not waiting.update_if_necessary(2)


def test_episodic_updates_need_an_episodic_buffer():
    with pytest.raises(TypeError, match="replay_buffer"):
        updater(filled(ReplayBuffer(), 4), [], episodic_update=True).update_if_necessary(2)


def test_a_batch_that_may_not_be_there_is_refused():
    with pytest.raises(ValueError, match="batchsize: got 5"):
        updater(ReplayBuffer(), [], batchsize=5)


def test_episodic_updates_take_whatever_samples_episodes():
    class Episodes:
        n_episodes = 2

        def __len__(self):
            return 4

        def sample_episodes(self, n_episodes, max_len=None):
            return [[step(0)]] * n_episodes

    calls = []
    assert updater(Episodes(), calls, episodic_update=True).update_if_necessary(2)
    assert [len(episodes) for episodes in calls] == [2, 2, 2]
