"""The hindsight buffer against the slow reference: goals, rewards, terminations and n-step sums of any episodes."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_buffer import ReferenceHindsightBuffer, feed, reference_target

from pfrl_like.replay_buffers import HindsightReplayBuffer

STRATEGIES = ["future", "final", "episode"]
ALWAYS = 10**9  # n_goals with which practically every item gets another goal
STEP = st.tuples(st.integers(0, 2), st.sampled_from(["on", "on", "on", "on", "fallen", "reached", "truncated"]))
STEPS = st.lists(STEP, max_size=40)
CAPACITY = st.sampled_from([None, 1, 2, 3, 5, 8])
QUICK = settings(max_examples=40)


def reward_fn(achieved: Any, desired: Any, info: Any) -> Any:
    return -np.abs(achieved - desired)[..., 0] / 8


def terminated_fn(achieved: Any, desired: Any, info: Any) -> Any:
    return (achieved == desired).all(axis=-1)


def obs_of(number: float, goal: float) -> dict[str, Any]:
    """An observation that is a number, which is also its achieved goal."""
    number, goal = np.float32(number), np.float32(goal)
    return {
        "observation": np.full(3, number),
        "achieved_goal": np.stack([number, number]),
        "desired_goal": np.stack([goal, goal]),
    }


def transitions(steps: list[Any]) -> list[tuple[dict[str, Any], bool]]:
    """The arguments of `append` for every step, and whether the episode is cut off; no two states are alike."""
    at, made = [1000 * env_id for env_id in range(3)], []
    for i, (env_id, end) in enumerate(steps):
        here = at[env_id]
        at[env_id] += 1 if end == "on" else 10
        goal = here + 1 if end == "reached" else -5
        made.append(
            (
                dict(
                    state=obs_of(here, goal),
                    action=np.int64(i % 5),
                    reward=0.5 * i,
                    next_state=obs_of(here + 1, goal),
                    is_state_terminal=end in ("fallen", "reached"),
                    env_id=env_id,
                ),
                end == "truncated",
            )
        )
    return made


def pair(steps: list[Any], capacity: Any, num_steps: int, strategy: Any, n_goals: int) -> tuple[Any, Any]:
    options = {"num_steps": num_steps, "strategy": strategy, "terminated_fn": terminated_fn}
    buffer = HindsightReplayBuffer(capacity, reward_fn, n_goals=n_goals, **options)
    reference = ReferenceHindsightBuffer(capacity, reward_fn=reward_fn, **options)
    for each in (buffer, reference):
        feed(each, transitions(steps))
    return buffer, reference


def plain(item: Any) -> Any:
    """What an item holds, to be compared."""
    keys = ("observation", "achieved_goal", "desired_goal")
    return [
        (
            [step[name][key].tolist() for name in ("state", "next_state") for key in keys],
            int(step["action"]),
            float(step["reward"]),
            step["is_state_terminal"],
        )
        for step in item
    ]


@QUICK
@given(
    STEPS, CAPACITY, st.sampled_from([1, 2, 3, 5]), st.sampled_from(STRATEGIES), st.sampled_from([0, 1, ALWAYS]),
    st.integers(0, 2**31),
)  # fmt: skip
def test_items_are_those_of_the_reference_under_a_goal_it_allows(steps, capacity, num_steps, strategy, n_goals, seed):
    buffer, reference = pair(steps, capacity, num_steps, strategy, n_goals)
    assert len(buffer) == len(reference.items)
    number_of = {float(reference.own(i)[0]["state"]["observation"][0]): i for i in range(len(buffer))}
    np.random.seed(seed)
    seen = set()
    for item in buffer.sample(len(buffer)):
        i = number_of[float(item[0]["state"]["observation"][0])]
        goal = item[0]["state"]["desired_goal"]
        seen.add(i)
        allowed = [reference.relabelled(i, other) for other in reference.goals(i) if (other == goal).all()]
        if n_goals != ALWAYS:
            allowed.append(reference.own(i))
        if n_goals == 0:
            allowed = [reference.own(i)]
        assert plain(item) in [plain(other) for other in allowed]
    assert seen == set(range(len(buffer)))


@QUICK
@given(
    STEPS, CAPACITY, st.sampled_from([1, 2, 3, 5]), st.sampled_from(STRATEGIES), st.sampled_from([0.0, 0.5, 1.0]),
    st.integers(0, 2**31),
)  # fmt: skip
def test_batches_are_the_targets_of_the_items_of_the_same_draw(steps, capacity, num_steps, strategy, gamma, seed):
    buffer, _ = pair(steps, capacity, num_steps, strategy, n_goals=2)
    if not len(buffer):
        return
    n = (len(buffer) + 1) // 2
    np.random.seed(seed)
    items = buffer.sample(n)
    after = np.random.random()
    np.random.seed(seed)
    batch = buffer.sample_batch(n, gamma)
    assert np.random.random() == after
    for i, item in enumerate(items):
        obs, action, reward, next_obs, discount = reference_target(item, gamma)
        for key in ("observation", "achieved_goal", "desired_goal"):
            np.testing.assert_array_equal(batch.obs[key][i], obs[key])
            np.testing.assert_array_equal(batch.next_obs[key][i], next_obs[key])
        assert batch.action[i] == action
        assert batch.reward[i] == pytest.approx(reward, rel=1e-6)
        assert batch.discount[i] == pytest.approx(discount, rel=1e-6)


@QUICK
@given(STEPS, STEPS, CAPACITY, st.sampled_from([1, 3]), st.sampled_from(STRATEGIES))
def test_a_loaded_buffer_goes_on_as_the_saved_one(tmp_path_factory, steps, later, capacity, num_steps, strategy):
    # A running episode goes on only from the very observation it waits for, so its desired goal must not change.
    made = transitions([(env_id, end.replace("reached", "on")) for env_id, end in steps + later])
    buffers = [pair([], capacity, num_steps, strategy, n_goals=4)[0] for _ in range(2)]
    feed(buffers[0], made[: len(steps)])
    path = str(tmp_path_factory.mktemp("buffer") / "buffer")
    buffers[0].save(path)
    buffers[1].load(path)
    drawn = []
    for buffer in buffers:
        np.random.seed(0)
        drawn.append([plain(item) for item in buffer.sample(len(buffer))])
        feed(buffer, made[len(steps) :])
        drawn[-1] += [plain(item) for item in buffer.sample(len(buffer))]
    assert drawn[0] == drawn[1]


def one_episode(strategy: Any, length: int, n_goals: int) -> HindsightReplayBuffer:
    return pair([(0, "on")] * (length - 1) + [(0, "truncated")], None, 1, strategy, n_goals)[0]


@pytest.mark.parametrize("strategy, steps", [("future", [2, 3, 4, 5]), ("final", [5]), ("episode", [0, 1, 2, 3, 4, 5])])
def test_goals_are_drawn_uniformly_from_the_steps_of_the_strategy(strategy, steps):
    np.random.seed(0)
    buffer = one_episode(strategy, 6, ALWAYS)
    counts: Counter[int] = Counter()
    for _ in range(600):
        batch = buffer.sample_batch(6)
        row = batch.obs["observation"][:, 0].tolist().index(2.0)
        counts[int(batch.obs["desired_goal"][row, 0]) - 1] += 1  # step t achieves the goal t + 1
    assert sorted(counts) == steps
    spread = 4 * (600 / len(steps)) ** 0.5  # four standard deviations of a count
    assert all(abs(count - 600 / len(steps)) < spread for count in counts.values())


@pytest.mark.parametrize("n_goals", [0, 1, 4])
def test_k_of_k_plus_1_items_get_another_goal(n_goals):
    np.random.seed(0)
    buffer = one_episode("future", 100, n_goals)
    changed = np.mean([(buffer.sample_batch(100).obs["desired_goal"][:, 0] != -5).float().mean() for _ in range(100)])
    assert changed == pytest.approx(n_goals / (n_goals + 1), abs=0.02)  # four standard deviations: 4 * 0.5 / 100
