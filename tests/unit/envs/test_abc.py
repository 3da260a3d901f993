"""ABC: the right action leads on, a wrong one ends the episode."""

import numpy as np
import pytest

from pfrl_like.envs.abc import ABC


def one_hot(place, size=4):
    return np.eye(size, dtype=np.float32)[place].tolist()


def test_right_actions_earn_one_at_the_end():
    env = ABC(size=2)
    assert env.reset().tolist() == one_hot(0)
    obs, reward, done, info = env.step(0)
    assert (obs.tolist(), reward, done, info) == (one_hot(1), 0.0, False, {})
    obs, reward, done, info = env.step(1)
    assert (obs.tolist(), reward, done, info) == (one_hot(env.terminal_state), 1.0, True, {})
    assert len(obs) == env.n_dim_obs


def test_observe_returns_the_current_observation():
    env = ABC(size=2)
    env.reset()
    assert env.observe().tolist() == one_hot(0)
    env.step(0)
    assert env.observe().tolist() == one_hot(1)


@pytest.mark.parametrize("actions", [[1], [0, 0]])
def test_wrong_action_ends_the_episode_with_nothing(actions):
    env = ABC(size=2)
    env.reset()
    *_, last = [env.step(action) for action in actions]
    assert (last[0].tolist(), last[1], last[2]) == (one_hot(2), 0.0, True)


def test_task_without_episodes_starts_again_and_waits_for_the_right_action():
    env = ABC(size=2, episodic=False)
    env.reset()
    results = [env.step(action) for action in (1, 0, 0, 1)]
    assert [int(result[0].argmax()) for result in results] == [0, 1, 1, 0]
    assert [result[1] for result in results] == [0.0, 0.0, 0.0, 1.0]
    assert not any(result[2] for result in results)


def test_size_is_the_number_of_states_and_actions():
    env = ABC(size=5)
    assert env.action_space.n == 5
    assert env.observation_space.shape == (7,)
    assert env.observation_space.contains(env.reset())


def test_continuous_action_is_the_logits_of_a_draw():
    env = ABC(size=2, discrete=False, episodic=False)
    env.seed(0)
    assert env.action_space.shape == (2,)
    moved = []
    for _ in range(2000):
        env.reset()
        moved.append(env.step(np.float32([1.0, -50.0]))[0].argmax())  # clipped to -1
    assert np.mean(moved) == pytest.approx(1 / (1 + np.exp(-2.0)), abs=0.03)


def test_deterministic_continuous_action_is_the_largest_logit():
    env = ABC(size=2, discrete=False, deterministic=True)
    env.reset()
    assert env.step(np.float32([0.1, 0.0]))[0].argmax() == 1


def test_deterministic_observations_are_shifted_in_every_second_episode():
    env = ABC(partially_observable=True, deterministic=True)
    assert [int(env.reset().argmax()) for _ in range(4)] == [1, 0, 1, 0]
    assert env.step(0)[0].argmax() == 1


def test_random_shift_follows_the_global_numpy_stream_or_the_seed():
    env = ABC(partially_observable=True)
    state = np.random.get_state()
    runs = []
    for _ in range(2):
        np.random.set_state(state)
        runs.append([int(env.reset().argmax()) for _ in range(30)])
    assert runs[0] == runs[1]
    assert set(runs[0]) == {0, 1}
    for _ in range(2):
        env.seed(5)
        runs.append([int(env.reset().argmax()) for _ in range(30)])
    assert runs[2] == runs[3]
    env.close()
