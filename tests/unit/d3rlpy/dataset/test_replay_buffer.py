import numpy as np
import pytest
from d3rlpy_parts import episode, numbered, observed

from pfrl_like.d3rlpy.constants import ActionSpace
from pfrl_like.d3rlpy.dataset import (
    EpisodeGenerator,
    FrameStackTransitionPicker,
    InfiniteBuffer,
    MDPDataset,
    MixedReplayBuffer,
    ReplayBuffer,
    ReplayBufferBase,
    Transition,
    TransitionMiniBatch,
    create_infinite_replay_buffer,
    sample_batch,
)


def test_numpys_stream_draws_one_index_for_each_transition_as_in_d3rlpy() -> None:
    dataset = numbered("---t---o")  # 7 transitions; the numbers are those that d3rlpy 2.8.1 drew
    np.random.seed(3)
    assert dataset.sample_transition_batch(5).observations.ravel().tolist() == [2, 0, 1, 3, 0]
    np.random.seed(3)
    assert sample_batch(dataset, 5, 0.9).obs.ravel().tolist() == [2, 0, 1, 3, 0]
    np.random.seed(4)
    assert [float(dataset.sample_transition().observation[0]) for _ in range(6)] == [2, 6, 5, 1, 0, 0]
    np.random.seed(5)
    ends = [float(dataset.sample_trajectory(3).observations[-1, 0]) for _ in range(6)]
    assert ends == [3, 6, 5, 6, 6, 0]


def test_a_minibatch_is_single_precision_with_columns() -> None:
    batch = numbered("--t").sample_transition_batch(4)
    names = ("observations", "actions", "rewards", "next_observations", "next_actions", "terminals", "intervals")
    assert {getattr(batch, name).shape for name in names} == {(4, 1)}
    assert {getattr(batch, name).dtype for name in names} == {np.dtype(np.float32)}
    assert (batch.observation_shape, batch.action_shape, batch.reward_shape, len(batch)) == ((1,), (1,), (1,), 4)


def test_trajectories_are_sampled_in_batches() -> None:
    batch = numbered("--t--o").sample_trajectory_batch(5, 3)
    assert batch.observations.shape == (5, 3, 1) and batch.timesteps.shape == (5, 3) and batch.length == 3


def test_an_empty_dataset_cannot_be_sampled() -> None:
    dataset = numbered("o")
    with pytest.raises(ValueError, match="no transitions"):
        dataset.sample_transition()


def test_values_must_be_described() -> None:
    with pytest.raises(ValueError, match="neither episodes nor env: pass one of them, or observation_signature"):
        ReplayBuffer(InfiniteBuffer())
    info = numbered("-t").dataset_info
    dataset = ReplayBuffer(InfiniteBuffer(), **vars(info) | {"action_space": ActionSpace.CONTINUOUS})
    assert dataset.dataset_info.action_space == ActionSpace.CONTINUOUS and dataset.episodes == []


def test_a_generator_gives_a_dataset() -> None:
    generator = EpisodeGenerator(np.zeros((2, 1)), np.zeros(2), np.zeros(2), np.array([0, 1]))
    picker = FrameStackTransitionPicker(2)
    dataset = MDPDataset.from_episode_generator(generator, InfiniteBuffer(), picker)
    assert dataset.transition_count == 2 and dataset.transition_picker is picker


class First(ReplayBuffer):
    """A dataset of a user, which always samples its first transition."""

    def sample_transition(self) -> Transition:
        return self.transition_picker(self.episodes[0], 0)


class FirstBatch(ReplayBuffer):
    """A dataset of a user, whose minibatches repeat the first transition."""

    def sample_transition_batch(self, batch_size: int) -> TransitionMiniBatch:
        return TransitionMiniBatch.from_transitions([self.transition_picker(self.episodes[0], 0)] * batch_size)


@pytest.mark.parametrize("kind", [First, FirstBatch])
def test_a_users_sampling_is_used(kind: type[ReplayBuffer]) -> None:
    dataset = kind(InfiniteBuffer(), episodes=[episode(50, True, 7)])
    assert dataset.sample_transition_batch(5).observations.ravel().tolist() == [7] * 5
    batch = sample_batch(dataset, 5, 0.9, returns=True)
    assert batch.obs.ravel().tolist() == [7] * 5 and batch.next_action.tolist() == [2] * 5
    assert batch.returns is not None and len(batch.returns) == 5
    both = MixedReplayBuffer(create_infinite_replay_buffer(episodes=[episode(9, True, 100)]), dataset, 0.5)
    from_second = sample_batch(both, 8, 0.9).obs.ravel()[4:].tolist()
    assert (from_second == [7] * 4) is (kind is First)  # d3rlpy, too, mixes single transitions


def mixed(ratio: float) -> MixedReplayBuffer:
    return MixedReplayBuffer(
        create_infinite_replay_buffer(episodes=[episode(5, True)]),
        create_infinite_replay_buffer(episodes=[episode(50, True, 100)]),
        ratio,
    )


@pytest.mark.parametrize(("n", "ratio", "secondary"), [(8, 0.25, 2), (7, 0.25, 2), (10, 0.33, 4), (1, 0.1, 1)])
def test_the_share_of_the_first_dataset_is_rounded_down(n: int, ratio: float, secondary: int) -> None:
    dataset = mixed(ratio)
    for observations in (dataset.sample_transition_batch(n).observations, sample_batch(dataset, n, 0.9).obs):
        assert int((observations >= 100).sum()) == secondary and len(observations) == n


def test_mixed_datasets_count_both_and_append_to_the_first() -> None:
    dataset = mixed(0.5)
    dataset.append_episode(episode(3, True))
    dataset.append(np.zeros(1), 0, 0.0)
    dataset.append(np.zeros(1), 0, 0.0)
    dataset.clip_episode(True)
    assert (dataset.transition_count, dataset.size(), len(dataset.episodes)) == (60, 4, 4)
    assert observed(dataset.primary_replay_buffer)[5:] == [0, 1, 2, 0, 0]
    assert isinstance(dataset, ReplayBufferBase) and dataset.sample_trajectory_batch(4, 2).observations.shape == (
        4,
        2,
        1,
    )


def test_mixed_datasets_refuse_what_cannot_be_mixed() -> None:
    dataset = mixed(0.5)
    for refused in (dataset.sample_transition, lambda: dataset.sample_trajectory(2), lambda: dataset.dump("data.h5")):
        with pytest.raises(NotImplementedError, match="call"):
            refused()
