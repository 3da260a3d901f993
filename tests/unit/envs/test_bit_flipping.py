"""BitFlipping: action i flips bit i; the desired bits earn 0, all else -1."""

import gymnasium.utils.env_checker
import numpy as np
import pytest

from pfrl_like.envs.bit_flipping import BitFlipping
from pfrl_like.testing import check_env


def start(**options):
    env = BitFlipping(**options)
    obs, _ = env.reset(seed=1)
    return env, obs, np.flatnonzero(obs["achieved_goal"] != obs["desired_goal"])


def test_an_action_flips_its_bit_and_nothing_else():
    env, before, _ = start(n_bits=4)
    after = env.step(2)[0]
    assert (after["observation"] != before["observation"]).tolist() == [False, False, True, False]
    assert after["achieved_goal"].tolist() == after["observation"].tolist()
    assert after["desired_goal"].tolist() == before["desired_goal"].tolist()


def test_the_desired_bits_earn_zero_and_end_the_episode():
    env, _, wrong = start(n_bits=6)
    *steps, last = [env.step(bit)[1:] for bit in wrong]
    assert len(steps) > 0
    assert steps == [(-1.0, False, False, {"is_success": False})] * len(steps)
    assert last == (0.0, True, False, {"is_success": True})


def test_an_episode_may_go_on_at_the_desired_bits():
    env, _, wrong = start(n_bits=6, terminates=False)
    for bit in wrong:
        outcome = env.step(bit)[1:3]
    assert outcome == (0.0, False)
    assert env.step(0)[1:3] == (-1.0, False)


@pytest.mark.parametrize(("max_steps", "expected"), [(None, 5), (2, 2)])
def test_an_episode_is_cut_off_after_so_many_steps(max_steps, expected):
    env, _, wrong = start(n_bits=5, max_steps=max_steps)
    right = next(bit for bit in range(5) if bit not in wrong)
    assert [env.step(right)[3] for _ in range(expected)] == [False] * (expected - 1) + [True]


def test_rewards_and_ends_of_single_goals_and_of_stacks():
    env = BitFlipping(2)
    achieved = np.float32([[0, 0], [0, 1], [1, 1]])
    desired = np.float32([[0, 0], [1, 0], [1, 1]])
    assert env.compute_reward(achieved, desired, {}).tolist() == [0.0, -1.0, 0.0]
    assert env.compute_terminated(achieved, desired, {}).tolist() == [True, False, True]
    assert env.compute_reward(achieved[1], desired[1], {}) == -1.0
    assert not BitFlipping(2, terminates=False).compute_terminated(achieved, desired, {}).any()


def test_the_seed_decides_the_episodes_and_bits_are_fair():
    runs = []
    for _ in range(2):
        env = BitFlipping(8)
        first = env.reset(seed=3)[0]
        runs.append([first, *(env.reset()[0] for _ in range(200))])
    for key in ("observation", "desired_goal"):
        one, other = (np.stack([obs[key] for obs in run]) for run in runs)
        assert (one == other).all()
        assert np.abs(one.mean() - 0.5) < 0.05  # five standard deviations of a mean of 1,608 bits


def test_observations_handed_out_do_not_change_later():
    env, obs, _ = start(n_bits=4)
    before = obs["observation"].copy()
    env.step(0)
    assert (obs["observation"] == before).all()


@pytest.mark.slow
def test_it_keeps_the_contracts_of_environments():
    check_env(BitFlipping(4))
    gymnasium.utils.env_checker.check_env(BitFlipping(4), skip_render_check=True)


@pytest.mark.parametrize("name", ["n_bits", "max_steps"])
def test_sizes_below_one_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} is 0, expected an integer from 1 on"):
        BitFlipping(**{name: 0})
