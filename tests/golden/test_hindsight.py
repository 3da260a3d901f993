"""Hindsight replay of one episode, by hand: a walk 0 -> 1 -> 3 -> 6, whose reward is minus the distance to the goal."""

from typing import Any

import numpy as np
import pytest

from pfrl_like.replay_buffers import HindsightReplayBuffer

ALWAYS = 10**9  # n_goals with which practically every item gets another goal
WALK = [0, 1, 3, 6]


def distance(achieved: Any, desired: Any, info: Any) -> Any:
    return -np.abs(achieved - desired)[:, 0]


def reached(achieved: Any, desired: Any, info: Any) -> Any:
    return (achieved == desired)[:, 0]


def obs_of(place: int, goal: int) -> dict[str, Any]:
    return {
        "observation": np.array([place, 0.5], np.float32),
        "achieved_goal": np.array([place], np.float32),
        "desired_goal": np.array([goal], np.float32),
    }


def walk(goal: int = 9, terminal: bool = False, **options: Any) -> HindsightReplayBuffer:
    """A buffer with the episode; its last step is terminal, or the episode is truncated there."""
    buffer = HindsightReplayBuffer(None, distance, **options)
    for t, (place, after) in enumerate(zip(WALK, WALK[1:], strict=False)):
        buffer.append(obs_of(place, goal), t, -abs(after - goal), obs_of(after, goal), None, terminal and t == 2)
    buffer.stop_current_episode()
    return buffer


def outcomes(buffer: HindsightReplayBuffer, gamma: float = 0.5) -> set[tuple[float, ...]]:
    """All (place, goal, reward, next place, discount) that can be drawn."""
    np.random.seed(0)
    found = set()
    for _ in range(100):
        batch = buffer.sample_batch(3, gamma)
        assert (batch.next_obs["desired_goal"] == batch.obs["desired_goal"]).all()
        columns = (
            batch.obs["observation"][:, 0],
            batch.obs["desired_goal"][:, 0],
            batch.reward,
            batch.next_obs["observation"][:, 0],
            batch.discount,
        )
        found |= set(zip(*(column.tolist() for column in columns), strict=True))
    return found


def test_future_goals_are_those_achieved_from_the_step_on():
    assert outcomes(walk(n_goals=ALWAYS)) == {
        # place, goal, -|next place - goal|, next place, gamma
        (0, 1, 0, 1, 0.5),
        (0, 3, -2, 1, 0.5),
        (0, 6, -5, 1, 0.5),
        (1, 3, 0, 3, 0.5),
        (1, 6, -3, 3, 0.5),
        (3, 6, 0, 6, 0.5),
    }


def test_final_goal_is_the_one_achieved_at_the_end():
    assert outcomes(walk(n_goals=ALWAYS, strategy="final")) == {
        (0, 6, -5, 1, 0.5),
        (1, 6, -3, 3, 0.5),
        (3, 6, 0, 6, 0.5),
    }


def test_episode_goals_are_all_that_were_achieved():
    assert outcomes(walk(n_goals=ALWAYS, strategy="episode")) == {
        (place, goal, -abs(after - goal), after, 0.5) for place, after in [(0, 1), (1, 3), (3, 6)] for goal in (1, 3, 6)
    }


def test_without_goals_to_replace_items_are_as_stored():
    assert outcomes(walk(n_goals=0)) == {(0, 9, -8, 1, 0.5), (1, 9, -6, 3, 0.5), (3, 9, -3, 6, 0.5)}


def test_both_kinds_of_items_are_drawn():
    kept = {(0, 9, -8, 1, 0.5), (1, 9, -6, 3, 0.5), (3, 9, -3, 6, 0.5)}
    replaced = {(0, 6, -5, 1, 0.5), (1, 6, -3, 3, 0.5), (3, 6, 0, 6, 0.5)}
    assert outcomes(walk(n_goals=1, strategy="final")) == kept | replaced


def test_two_step_returns_have_one_goal_and_bootstrap_at_the_truncation():
    assert outcomes(walk(n_goals=ALWAYS, num_steps=2)) == {
        (0, 1, 0 + 0.5 * -2, 3, 0.25),
        (0, 3, -2 + 0.5 * 0, 3, 0.25),
        (0, 6, -5 + 0.5 * -3, 3, 0.25),
        (1, 3, 0 + 0.5 * -3, 6, 0.25),
        (1, 6, -3 + 0.5 * 0, 6, 0.25),
        (3, 6, 0, 6, 0.5),  # one step is left
    }


def test_two_step_returns_end_where_the_goal_ends_the_episode():
    assert outcomes(walk(n_goals=ALWAYS, num_steps=2, terminated_fn=reached)) == {
        (0, 1, 0, 1, 0),  # reached with the first step: the second one is no part of it
        (0, 3, -2 + 0.5 * 0, 3, 0),
        (0, 6, -5 + 0.5 * -3, 3, 0.25),
        (1, 3, 0, 3, 0),
        (1, 6, -3 + 0.5 * 0, 6, 0),
        (3, 6, 0, 6, 0),
    }


@pytest.mark.parametrize(
    ("goal", "discount"),
    [
        (6, 0.5),  # it was terminal because 6 was reached, which is nothing to the goals 1 and 3
        (9, 0.0),  # something else ended it, and would have under any goal
    ],
)
def test_a_terminal_step_stays_terminal_unless_its_own_goal_ended_it(goal, discount):
    buffer = walk(goal, terminal=True, n_goals=ALWAYS, strategy="episode", terminated_fn=reached)
    last_steps = {outcome for outcome in outcomes(buffer) if outcome[0] == 3}
    assert last_steps == {(3, 1, -5, 6, discount), (3, 3, -3, 6, discount), (3, 6, 0, 6, 0)}


def test_the_stored_steps_stay_as_they_were():
    buffer = walk(n_goals=ALWAYS)
    outcomes(buffer)
    assert [item[0]["reward"] for item in buffer.memory] == [-8, -6, -3]
    assert [float(item[0]["state"]["desired_goal"][0]) for item in buffer.memory] == [9, 9, 9]
