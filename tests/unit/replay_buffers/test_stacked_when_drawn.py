"""Single images that are stacked when minibatches are drawn."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pfrl_like import replay_buffers
from pfrl_like.dataset import MDPDataset

N_FRAMES = 3
LENGTH = 7  # of most episodes


def image(number: int) -> Any:
    """An image of two channels that holds a number, and the same negated."""
    return np.stack([np.full((2, 2), number), np.full((2, 2), -number)])


def fill(buffer: Any, n: int, n_envs: int = 1, begin: int = 0) -> None:
    """Steps of several environments, in turn; images are numbered: 1000 an episode, from 1 on within it."""
    for env in range(n_envs):
        buffer.stop_current_episode(env)
    steps = [0] * n_envs
    for i in range(n):
        envs = [env for env in range(n_envs) if n_envs == 1 or (i + env) % 5]  # not all of them every time
        counts = [steps[env] for env in envs]
        numbers = [1000 * (begin + count // LENGTH * n_envs + env + 1) + count % LENGTH + 1
                   for env, count in zip(envs, counts, strict=True)]  # fmt: skip
        last = [count % LENGTH == LENGTH - 1 for count in counts]
        cut = [not end and count % 11 == 3 for end, count in zip(last, counts, strict=True)]
        obs, after = [image(k) for k in numbers], [image(k + 1) for k in numbers]
        buffer.append_batch(obs, [0] * len(envs), [float(k) for k in numbers], after, last, cut, env_ids=envs)
        for env in envs:
            steps[env] += 1


def held(buffer: Any) -> set[int]:
    """The numbers of the images in which the steps that the buffer holds begin."""
    columns, rows = buffer.stored_steps()
    return set(columns.obs.stacked(columns.obs_row[rows])[:, 0, 0, 0].tolist())


def expected(last: int, own: set[int], begins: Callable[[int], bool]) -> list[int]:
    """The numbers that a stack should show: back to where an episode begins, or to what has left the buffer."""
    numbers = [last]
    while len(numbers) < N_FRAMES and not begins(numbers[-1]) and numbers[-1] - 1 in own:
        numbers.append(numbers[-1] - 1)
    numbers += [0] * (N_FRAMES - len(numbers))
    return [sign * number for number in numbers[::-1] for sign in (1, -1)]


def check(buffer: Any) -> None:
    """Compare all stacks with the expected ones."""
    n, own = len(buffer), held(buffer)
    batch = buffer.sample_batch(n, n_frames=N_FRAMES)
    assert batch.obs.shape == batch.next_obs.shape == (n, 2 * N_FRAMES, 2, 2)
    items = [[step["state"][0, 0, 0] for step in item] for item in buffer.memory]
    first = {numbers[0]: numbers for numbers in items}
    columns, rows = buffer.stored_steps()
    followers = columns.successor[rows]
    follow = set(columns.obs.stacked(columns.obs_row[followers[followers > 0]])[:, 0, 0, 0].tolist())
    for stack, after in zip(batch.obs[:, :, 0, 0].tolist(), batch.next_obs[:, :, 0, 0].tolist(), strict=True):
        assert stack == expected(stack[-2], own, lambda number: number not in follow)
        last = first[stack[-2]][-1]
        before = expected(last, own, lambda number: number not in follow)
        assert after == [*before[2:], last + 1, -last - 1]


@pytest.mark.parametrize("num_steps", [1, 3])
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("capacity", [None, 10])
@pytest.mark.parametrize("kind", [replay_buffers.ReplayBuffer, replay_buffers.PrioritizedReplayBuffer])
def test_stacks_end_where_episodes_begin_and_at_what_has_left(
    kind: Any, capacity: int | None, n_envs: int, num_steps: int
) -> None:
    buffer = kind(capacity, num_steps=num_steps)
    for part in range(4):  # drawn from between, so that what is known by then is kept up to date
        fill(buffer, 11, n_envs, begin=10 * part)
        check(buffer)
        if kind is replay_buffers.PrioritizedReplayBuffer:
            buffer.update_errors([1.0] * len(buffer))


@pytest.mark.parametrize(
    "kind", [replay_buffers.ReplayBuffer, replay_buffers.EpisodicReplayBuffer, replay_buffers.PersistentReplayBuffer]
)
def test_it_is_so_after_loading(kind: Any, tmp_path: Path) -> None:
    buffer, loaded = (
        kind(tmp_path / name, 40) if kind is replay_buffers.PersistentReplayBuffer else kind(40)
        for name in ("one", "other")
    )
    fill(buffer, 30)
    check(buffer)
    buffer.save(tmp_path / "saved")
    loaded.load(tmp_path / "saved")
    check(loaded)
    fill(loaded, 20, begin=50)
    check(loaded)


def test_a_dataset_that_is_gone_on_with_gives_what_it_gives_itself() -> None:
    obs = np.stack([image(1000 * (i // 8) + i % 8 + 1) for i in range(24)])
    data = MDPDataset(
        obs, np.arange(24) % 2, np.zeros(24), np.arange(24) % 8 == 7, discrete_action=True, reward_convention="next_row"
    )
    buffer = replay_buffers.ReplayBuffer.from_dataset(data, 25)
    batch = buffer.sample_batch(len(buffer), 0.9, n_frames=N_FRAMES, continuation=math.inf)
    other = data.batch(np.arange(data.n_steps)[batch.index], 0.9, n_frames=N_FRAMES, continuation=math.inf)
    assert torch.equal(batch.obs, other.obs) and torch.equal(batch.next_obs, other.next_obs)
    assert torch.equal(batch.continuation.next_obs, other.continuation.next_obs)
    fill(buffer, 20, begin=50)
    check(buffer)


def test_what_is_no_image_is_not_stacked() -> None:
    buffer = replay_buffers.ReplayBuffer(10)
    buffer.append(np.zeros(4), 0, 0.0, np.ones(4))
    assert buffer.sample_batch(1, n_frames=N_FRAMES).obs.shape == (1, 4)
    assert not len(buffer.stored_steps()[0].predecessor)


def test_numbers_that_cannot_be_are_refused() -> None:
    buffer = replay_buffers.ReplayBuffer(10)
    fill(buffer, 3)
    for n_frames in (0, 1.5):
        with pytest.raises((TypeError, ValueError), match="n_frames"):
            buffer.sample_batch(1, n_frames=n_frames)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n_frames: got 2, expected 1"):
        replay_buffers.HindsightReplayBuffer(10, lambda *_: np.zeros(1)).sample_batch(1, n_frames=2)
