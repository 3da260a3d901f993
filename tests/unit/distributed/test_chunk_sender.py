"""`ChunkSender` collects steps, and its chunks hold the same steps."""

from typing import Any

import numpy as np
import pytest
from chunk_parts import FORMS, plain, received, steps_of

from pfrl_like.columns.frame_stacks import FrameStacks
from pfrl_like.distributed.chunk import Chunk
from pfrl_like.distributed.chunk_sender import ChunkSender
from pfrl_like.replay_buffers import ReplayBuffer


def sent(steps: Any, k: int = 3) -> Chunk:
    sender = ChunkSender(k)
    for step in steps:
        sender.append_batch(**step)
    chunk = sender.take()
    assert chunk is not None
    return chunk


def counted(obs: list[float], **columns: Any) -> dict[str, Any]:
    """A step of as many environments; each observation is its number, the next one greater by 10."""
    k = len(obs)
    now = np.array(obs)[:, None]
    no = np.zeros(k, bool)
    step = {"obs": now, "action": np.arange(k), "reward": np.array(obs), "next_obs": now + 10}
    return {**step, "terminated": no, "truncated": no, **columns}


def test_a_chunk_has_time_and_environment_as_axes() -> None:
    chunk = sent([counted([1.0, 2.0]), counted([11.0, 12.0])], k=2)
    assert chunk.obs[..., 0].tolist() == [[1, 2], [11, 12]]
    assert chunk.reward.tolist() == [[1, 2], [11, 12]]
    assert chunk.last_obs[:, 0].tolist() == [21, 22]
    assert chunk.next_obs()[..., 0].tolist() == [[11, 12], [21, 22]]
    assert (chunk.n_envs, chunk.n_steps, chunk.active, chunk.cut) == (2, 4, None, None)


def test_the_observation_after_an_episode_is_among_the_last_observations() -> None:
    end = counted([1.0, 2.0], terminated=np.array([True, False]))
    chunk = sent([end, counted([100.0, 12.0])], k=2)
    assert chunk.has_last.tolist() == [[True, False], [True, True]]
    assert chunk.last_obs[:, 0].tolist() == [11, 110, 22]
    assert chunk.next_obs()[..., 0].tolist() == [[11, 12], [110, 22]]


def test_an_environment_that_took_no_step_is_not_active() -> None:
    alone = counted([12.0], env_ids=[1])
    chunk = sent([counted([1.0, 2.0], truncated=np.array([True, False])), alone, counted([50.0, 22.0])], k=2)
    assert chunk.active is not None
    assert chunk.active.tolist() == [[True, True], [False, True], [True, True]]
    assert chunk.n_steps == 5
    assert [step["env_ids"] for step in chunk.steps("ab")] == [["a", "b"], ["b"], ["a", "b"]]
    assert chunk.next_obs()[chunk.active][:, 0].tolist() == [11, 12, 22, 60, 32]


@pytest.mark.parametrize("form", FORMS)
def test_the_steps_of_a_chunk_are_those_that_were_sent(form: str) -> None:
    steps = list(steps_of(form, 20, masks=True))
    chunk = received(sent(steps))
    for got, wanted in zip(chunk.steps(), steps, strict=True):
        assert {name: plain(list(got[name])) for name in got} == {name: plain(list(wanted[name])) for name in wanted}


def test_nothing_is_taken_twice() -> None:
    sender = ChunkSender(2)
    assert sender.take() is None
    sender.append_batch(**counted([1.0, 2.0]))
    assert sender.take() is not None
    assert sender.take() is None
    assert len(sender) == 0


def test_arrays_that_the_environment_reuses_are_copied() -> None:
    step = counted([1.0, 2.0])
    sender = ChunkSender(2)
    sender.append_batch(**step)
    for column in step.values():
        column[:] = 0
    chunk = sender.take()
    assert chunk is not None
    assert (chunk.obs.ravel().tolist(), chunk.last_obs.ravel().tolist()) == ([1, 2], [11, 12])


def test_an_episode_that_is_stopped_is_truncated_at_its_newest_step() -> None:
    sender = ChunkSender(2)
    sender.append_batch(**counted([1.0, 2.0]))
    sender.stop_current_episode(1)
    sender.append_batch(**counted([11.0, 70.0]))
    chunk = sender.take()
    assert chunk is not None
    assert chunk.truncated.tolist() == [[False, True], [False, False]]
    assert chunk.next_obs()[..., 0].tolist() == [[11, 12], [21, 80]]


def test_an_episode_that_is_stopped_after_it_was_sent_is_cut() -> None:
    sender, buffer = ChunkSender(2), ReplayBuffer(10, num_steps=3)
    for obs in ([1.0, 2.0], [11.0, 12.0]):
        sender.append_batch(**counted(obs))
    buffer.append_chunk(sender.take(), "ab")
    sender.stop_current_episode(0)
    sender.append_batch(**counted([50.0, 22.0]))
    chunk = sender.take()
    assert chunk is not None and chunk.cut is not None
    assert chunk.cut.tolist() == [True, False]
    buffer.append_chunk(chunk, "ab")
    assert [[float(step["state"][0]) for step in item] for item in buffer.memory] == [[1, 11], [11], [2, 12, 22]]


def test_a_column_that_some_steps_lack_has_none_there() -> None:
    chunk = sent([counted([1.0], action_mask=[[True, False]]), counted([11.0])], k=1)
    assert chunk.extra["action_mask"][1, 0] is None
    assert next(chunk.steps())["action_mask"][0].tolist() == [True, False]


@pytest.mark.parametrize("form", ["lazy_frames", "array_frames"])
def test_each_frame_is_sent_once(form: str) -> None:
    chunk = sent(steps_of(form, 32))
    n_episodes = np.count_nonzero(chunk.has_last)  # the first stack of an episode has two different frames
    assert isinstance(chunk.obs, FrameStacks)
    assert chunk.obs.frames is chunk.last_obs.frames
    assert n_episodes > 3
    assert len(chunk.obs.frames) == chunk.n_steps + 2 * n_episodes


def test_shared_frames_are_counted_once() -> None:
    chunk = sent(steps_of("lazy_frames", 10))
    arrays = (
        chunk.action,
        chunk.reward,
        chunk.terminated,
        chunk.truncated,
        chunk.active,
        chunk.obs,
        chunk.last_obs.index,
    )
    assert chunk.nbytes == sum(array.nbytes for array in arrays)


def test_wrong_ids_and_lengths_are_named() -> None:
    sender = ChunkSender(2)
    with pytest.raises(ValueError, match=r"env_ids is \[0, 2\], expected ids below 2"):
        sender.append_batch(**counted([1.0, 2.0], env_ids=[0, 2]))
    with pytest.raises(ValueError, match="next_obs"):
        sender.append_batch(**counted([1.0, 2.0], next_obs=np.zeros((3, 1))))
    with pytest.raises(TypeError, match="learner's process"):
        _ = sender.memory
    assert sender.take() is None
