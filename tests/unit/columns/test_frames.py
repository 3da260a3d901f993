import gc
import weakref

import numpy as np
import pytest

from pfrl_like.columns.field import Field
from pfrl_like.columns.frames import FrameLeaf, frame_leaf
from pfrl_like.columns.leaves import Rows
from pfrl_like.replay_buffers import ReplayBuffer


class LazyFrames:
    """What PFRL's and gym's classes have in common."""

    def __init__(self, frames, join):
        self._frames = frames
        self.join = join

    def __array__(self, dtype=None, copy=None):
        return self.join(self._frames)


def concatenated(axis):
    return lambda frames: np.concatenate(frames, axis=axis)


def image(i, shape=(16, 16)):
    return np.random.default_rng(i).integers(0, 256, shape, dtype=np.uint8)


def stacks(n, depth=4):
    """Observations of an episode as a frame stack gives them: the first frame repeated, then one more at each step."""
    frames = [image(max(0, i - depth + 1)) for i in range(n + depth - 1)]
    return [np.stack(frames[i : i + depth]) for i in range(n)]


def filled(observations):
    buffer = ReplayBuffer()
    for i, (obs, next_obs) in enumerate(zip(observations, observations[1:], strict=False)):
        buffer.append(obs, i, float(i), next_obs)
    return buffer


def leaf_of(buffer):
    leaf = buffer._columns.obs.leaves[0]
    assert isinstance(leaf, FrameLeaf)
    return leaf


def n_frames(buffer):
    leaf = leaf_of(buffer)
    return leaf.frames.size - 1 - len(leaf.frames.free)


def test_an_episode_of_stacks_is_stored_as_its_frames():
    observations = stacks(50)
    buffer = filled(observations)
    assert n_frames(buffer) == 50
    for item, obs, next_obs in zip(buffer.memory, observations, observations[1:], strict=False):
        np.testing.assert_array_equal(item[0]["state"], obs)
        np.testing.assert_array_equal(item[0]["next_state"], next_obs)


def test_a_stack_in_which_one_old_frame_changed_is_stored_right():
    observations = stacks(4)
    changed = observations[2].copy()
    changed[1, 0, 0] += 1
    buffer = ReplayBuffer()
    buffer.append(observations[1], 0, 0.0, changed)
    np.testing.assert_array_equal(buffer.memory[0][0]["next_state"], changed)


def test_an_array_changed_by_its_owner_later_does_not_change_the_store():
    obs = stacks(2)
    buffer = filled(obs)
    kept = obs[1].copy()
    obs[1][:] = 0
    np.testing.assert_array_equal(buffer.memory[0][0]["next_state"], kept)


@pytest.mark.parametrize(
    ("shape", "join", "expected"),
    [
        ((1, 16, 16), concatenated(0), (4, 16, 16)),
        ((16, 16, 1), concatenated(2), (16, 16, 4)),
        ((16, 16, 3), concatenated(2), (16, 16, 12)),
        ((16, 16), np.stack, (4, 16, 16)),
        ((16, 16), lambda frames: np.stack(frames, axis=-1), (16, 16, 4)),
    ],
)
def test_lazy_frames_are_split_and_come_back_as_arrays(shape, join, expected):
    frames = [image(i, shape) for i in range(9)]
    observations = [LazyFrames(frames[i : i + 4], join) for i in range(6)]
    buffer = filled(observations)
    assert n_frames(buffer) == 9
    batch = buffer.sample_batch(5)
    assert batch.obs.shape == (5, *expected)
    for row, action in enumerate(batch.action.tolist()):
        np.testing.assert_array_equal(batch.obs[row], np.asarray(observations[action]))
        np.testing.assert_array_equal(batch.next_obs[row], np.asarray(observations[action + 1]))


def test_lazy_frames_that_lost_their_identity_are_still_shared():
    frames = [image(i, (1, 16, 16)) for i in range(9)]
    copies = [LazyFrames([f.copy() for f in frames[i : i + 4]], concatenated(0)) for i in range(6)]
    assert n_frames(filled(copies)) == 9


@pytest.mark.slow
def test_the_users_frames_are_let_go_when_an_episode_ends_and_after_a_change():
    frames = [image(i, (1, 16, 16)) for i in range(5)]
    alive = weakref.ref(frames[4])
    buffer = ReplayBuffer()
    buffer.append(LazyFrames(frames[:4], concatenated(0)), 0, 0.0, LazyFrames(frames[1:], concatenated(0)))
    del frames
    gc.collect()
    assert alive() is not None
    buffer.stop_current_episode()
    gc.collect()
    assert alive() is None
    frames = [image(i, (1, 16, 16)) for i in range(4)]
    alive = weakref.ref(frames[0])
    buffer.memory[0][0]["state"] = LazyFrames(frames, concatenated(0))
    del frames
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    "value",
    [
        np.zeros((4, 84, 84), np.float32),  # arrays are taken for stacks only if they are images
        np.zeros((84, 84), np.uint8),
        np.zeros((84, 84, 4), np.uint8),
        np.zeros((7, 7, 3), np.uint8),
        np.zeros((1, 84, 84), np.uint8),
        3,
    ],
)
def test_other_arrays_are_no_stacks(value):
    assert frame_leaf(Rows(), value) is None


def test_objects_whose_frames_do_not_make_up_the_array_are_stored_as_arrays():
    lazy = LazyFrames([image(i) for i in range(4)], lambda frames: np.stack(frames)[::-1].copy())
    buffer = filled([lazy, lazy, lazy])
    np.testing.assert_array_equal(buffer.memory[0][0]["state"], np.asarray(lazy))


def test_an_atari_transition_takes_at_most_7300_bytes():
    buffer = ReplayBuffer(capacity=3000)
    frames = np.random.default_rng(0).integers(0, 256, (505, 84, 84), dtype=np.uint8)
    for i in range(3500):
        at = i % 500
        end = i % 500 == 499
        buffer.append_batch([frames[at : at + 4]], [i % 4], [0.0], [frames[at + 1 : at + 5]], [end], [False])
    assert len(buffer) == 3000
    assert buffer.nbytes <= 7300 * 3000


def test_frame_numbers_out_of_range_are_refused():
    rows = Rows()
    field = Field.like(rows, stacks(1)[0], strict=True, frames=True)
    row = rows.take(1)
    field.put(int(row[0]), [stacks(1)[0]])
    header, arrays = field.dump(row, "obs")
    arrays["obs/0/index"][0, 0] = 7
    with pytest.raises(ValueError, match="frame numbers"):
        Field.from_spec(Rows(), header).fill(arrays, "obs", np.array([0]))
