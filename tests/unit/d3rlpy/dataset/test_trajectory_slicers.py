import numpy as np
import pytest
from d3rlpy_parts import numbered

from pfrl_like.d3rlpy.dataset import BasicTrajectorySlicer, FrameStackTrajectorySlicer, TrajectoryMiniBatch

SLICER = BasicTrajectorySlicer()


def test_rows_before_the_first_are_zeros() -> None:
    part = SLICER(numbered("---t").episodes[0], 1, 3)
    assert part.observations.ravel().tolist() == [0, 0, 1] and part.rewards.ravel().tolist() == [0, 0.5, 1.5]
    assert part.masks.tolist() == [0, 1, 1] and part.timesteps.tolist() == [0, 1, 2]
    assert part.returns_to_go.ravel().tolist() == [0, 0.5 + 1.5 + 3.5 + 7.5, 1.5 + 3.5 + 7.5]
    assert (part.length, len(part), part.get_transition_count()) == (3, 3, 2)


@pytest.mark.parametrize(("ends", "last"), [("---t", 1), ("---o", 0)])
def test_only_a_terminal_end_is_marked(ends: str, last: int) -> None:
    part = SLICER(numbered(ends).episodes[0], 3, 2)
    assert part.terminals.ravel().tolist() == [0, last] and part.timesteps.tolist() == [3, 4]


def test_frames_are_stacked_in_each_row() -> None:
    images = np.arange(1, 5, dtype=np.uint8).reshape(4, 1, 1, 1)
    part = FrameStackTrajectorySlicer(2)(numbered("---t", observations=images).episodes[0], 2, 4)
    assert part.observations.reshape(4, 2).tolist() == [[0, 0], [0, 1], [1, 2], [2, 3]]
    assert part.observations.dtype == np.float64


def test_a_minibatch_is_single_precision_and_has_shapes() -> None:
    dataset = numbered("---t", observations=(np.zeros((4, 2)), np.ones((4, 3))))
    parts = [SLICER(dataset.episodes[0], i, 2) for i in range(3)]
    batch = TrajectoryMiniBatch.from_partial_trajectories(parts)
    assert batch.observation_shape == [(2, 2), (2, 3)] and batch.action_shape == (2, 1) and len(batch) == 3
    assert {batch.timesteps.dtype, batch.actions.dtype, batch.observations[0].dtype} == {np.dtype(np.float32)}


@pytest.mark.parametrize("arguments", [(4, 1), (-1, 1)])
def test_rows_outside_the_episode_are_rejected(arguments: tuple) -> None:
    with pytest.raises(IndexError, match="end_index"):
        SLICER(numbered("---t").episodes[0], *arguments)
