import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pfrl_like.errors import CheckpointError
from pfrl_like.replay_buffers import HindsightReplayBuffer
from pfrl_like.testing import check_replay_buffer

DATA = Path(__file__).parents[2] / "data"
ALWAYS = 10**9  # n_goals with which practically every item gets another goal


def reward_fn(achieved: Any, desired: Any, info: Any) -> Any:
    return -np.abs(achieved - desired).sum(axis=1)


def never(achieved: Any, desired: Any, info: Any) -> Any:
    return np.zeros(len(achieved), bool)


def obs_of(i: int, goal: float = -1.0) -> dict[str, Any]:
    return {"observation": np.float32([i]), "achieved_goal": np.float32([i, i]), "desired_goal": np.float32([goal] * 2)}


def append(buffer: Any, i: int, **options: Any) -> None:
    buffer.append(obs_of(i), 0, 0.0, obs_of(i + 1), **options)


def filled(lengths: Any, capacity: int | None = None, **options: Any) -> HindsightReplayBuffer:
    """Truncated episodes of these lengths; the states of the e-th one begin with 100 * e."""
    buffer = HindsightReplayBuffer(capacity, reward_fn, **options)
    for episode, length in enumerate(lengths):
        for t in range(length):
            append(buffer, 100 * episode + t)
        buffer.stop_current_episode()
    return buffer


class OfGoals(HindsightReplayBuffer):
    """Takes and gives plain observations, with goals around them inside: reward and end do not depend on the goal."""

    def __init__(self, capacity: int | None, **options: Any) -> None:
        super().__init__(capacity, lambda achieved, desired, info: 0.5 * (achieved[:, 0] - 1), **options)

    def append(self, state: Any, action: Any, reward: Any, next_state: Any, **options: Any) -> None:
        super().append(self.with_goals(state), action, reward, self.with_goals(next_state), **options)

    def append_batch(self, obs: Any, action: Any, reward: Any, next_obs: Any, *rest: Any, **options: Any) -> None:
        obs, next_obs = (
            list(map(self.with_goals, each)) if isinstance(each, np.ndarray) else each for each in (obs, next_obs)
        )
        super().append_batch(obs, action, reward, next_obs, *rest, **options)

    def sample(self, num_experiences: int) -> Any:
        items = super().sample(num_experiences)
        names = ("state", "next_state")
        return [[{**step, **{name: step[name]["observation"] for name in names}} for step in item] for item in items]

    def sample_batch(self, *args: Any) -> Any:
        batch = super().sample_batch(*args)
        return batch.replace(obs=batch.obs["observation"], next_obs=batch.next_obs["observation"])

    @staticmethod
    def with_goals(obs: Any) -> Any:
        return {"observation": obs, "achieved_goal": obs, "desired_goal": -obs}


@pytest.mark.parametrize("num_steps", [1, 3])
@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_the_contracts_of_replay_buffers_are_kept(num_steps, strategy):
    check_replay_buffer(functools.partial(OfGoals, num_steps=num_steps, strategy=strategy, terminated_fn=never))


def test_reward_fn_is_told_the_further_columns_of_its_steps():
    seen = []

    def reward_of(achieved, desired, info):
        seen.append((achieved[:, 0].tolist(), info["effort"].tolist()))
        return -info["effort"]

    buffer = HindsightReplayBuffer(None, reward_of, n_goals=ALWAYS)
    for i in range(4):
        append(buffer, i, effort=0.25 * i)
    buffer.stop_current_episode()
    batch = buffer.sample_batch(4)
    achieved, effort = seen[0]
    assert effort == [0.25 * (number - 1) for number in achieved]
    assert batch.reward.tolist() == (-0.25 * batch.obs["observation"][:, 0]).tolist()


def test_a_stack_of_frames_may_be_the_goal():
    buffer = HindsightReplayBuffer(None, lambda a, d, i: (a == d).all(axis=(1, 2, 3)), n_goals=ALWAYS, strategy="final")
    frames = [np.full((16, 16), i, np.uint8) for i in range(8)]
    for t in range(3):
        here, after = (
            {
                "observation": np.float32([i]),
                "achieved_goal": np.stack(frames[i : i + 4]),
                "desired_goal": np.stack(frames[:4]),
            }
            for i in (t, t + 1)
        )
        buffer.append(here, 0, 0.0, after)
    buffer.stop_current_episode()
    batch = buffer.sample_batch(3)
    expected = torch.from_numpy(np.stack([np.stack(frames[3:7])] * 3))
    assert torch.equal(batch.obs["desired_goal"], expected)
    assert torch.equal(batch.reward, (batch.obs["observation"][:, 0] == 2).float())


# Refusals


@pytest.mark.parametrize(
    ("name", "message"),
    [("reward_fn", "reward_fn: got 3, expected a function"), ("terminated_fn", "got 3, expected a function")],
)
def test_what_is_no_function_is_refused(name, message):
    with pytest.raises(TypeError, match=message):
        HindsightReplayBuffer(**{"capacity": 10, "reward_fn": reward_fn, name: 3})


@pytest.mark.parametrize(
    ("obs", "message"),
    [
        (np.zeros(3), "obs: got ndarray, expected a dict with keys"),
        ({"observation": np.zeros(3)}, r"obs: got a dict with keys \['observation'\], expected a dict with keys"),
        ({**obs_of(0), "achieved_goal": np.zeros(3)}, "expected equal shapes and dtypes"),
        ({**obs_of(0), "achieved_goal": {"place": 1}}, "expected equal shapes and dtypes"),
    ],
)
def test_observations_without_goals_are_refused(obs, message):
    buffer = HindsightReplayBuffer(None, reward_fn)
    with pytest.raises(ValueError, match=message):
        buffer.append(obs, 0, 0.0, obs)
    append(buffer, 0)  # nothing of it was stored
    buffer.stop_current_episode()
    assert len(buffer) == 1


def test_steps_that_no_other_goal_can_be_given_are_refused():
    with pytest.raises(ValueError, match="next_obs: got None"):
        HindsightReplayBuffer(None, reward_fn, terminated_fn=never).append(obs_of(0), 0, 0.0, None, None, True)
    with pytest.raises(ValueError, match="terminated_fn is None"):
        append(HindsightReplayBuffer(None, reward_fn), 0, is_state_terminal=True)


@pytest.mark.parametrize("name", ["reward_fn", "terminated_fn"])
@pytest.mark.parametrize(
    ("value", "message"), [(0.0, r"shape \(\), float64"), (np.zeros((4, 1)), r"shape \(4, 1\)"), ("?", "no array")]
)
def test_functions_that_do_not_give_one_number_a_step_are_refused(name, value, message):
    buffer = filled([4], **{"n_goals": ALWAYS, "terminated_fn": never})
    setattr(buffer, name, lambda achieved, desired, info: value)
    with pytest.raises(ValueError, match=f"{name}: returned .*{message}.* for 4 steps, expected one number per step"):
        buffer.sample_batch(4)


def test_a_file_with_terminal_steps_needs_terminated_fn(tmp_path):
    buffer = HindsightReplayBuffer(None, reward_fn, terminated_fn=never)
    append(buffer, 0, is_state_terminal=True)
    buffer.save(str(tmp_path / "buffer"))
    other = filled([3])
    with pytest.raises(CheckpointError, match="terminated_fn is None"):
        other.load(str(tmp_path / "buffer"))
    assert len(other) == 3


def test_a_state_whose_episodes_are_mixed_is_refused():
    buffer = filled([2, 2])
    state = buffer.state_dict()
    state["arrays"]["successor"] = np.array([3, 4, 0, 0])
    with pytest.raises(ValueError, match="are not in order"):
        buffer.load_state_dict(state)
    assert len(buffer.sample(4)) == 4


def test_a_pfrl_file_without_goals_is_refused_and_the_old_content_stays():
    buffer = filled([3, 2], n_goals=ALWAYS, strategy="final")
    with pytest.raises(CheckpointError, match="expected a dict with keys"):
        buffer.load(str(DATA / "pfrl_0_4_replay_buffer.pkl"), allow_pickle=True)
    batch = buffer.sample_batch(5)
    goal = torch.where(batch.obs["observation"] < 50, 3.0, 102.0).expand(5, 2)
    assert torch.equal(batch.obs["desired_goal"], goal)
