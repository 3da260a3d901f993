"""Small wrappers: each does what it says and nothing else."""

import gymnasium
import gymnasium.spaces as spaces
import numpy as np
import pytest

from pfrl_like.envs.abc import ABC
from pfrl_like.wrappers import NormalizeActionSpace, RandomizeAction, Render, ScaleReward, SelectFeatures


class Recording(ABC):
    """Remembers the actions and how it was drawn."""

    def __init__(self, action_space=None):
        super().__init__()
        self.action_space = action_space or spaces.Discrete(4)
        self.actions, self.drawn, self.seeds = [], [], []

    def seed(self, seed):
        self.seeds.append(seed)
        return [seed]

    def step(self, action):
        self.actions.append(action)
        return self.reset(), 3.0, False, {}

    def render(self, *args, **kwargs):
        self.drawn.append((args, kwargs))


def test_reward_is_scaled_and_the_original_kept():
    env = ScaleReward(Recording(), 0.5)
    assert env.original_reward is None
    env.reset()
    assert env.step(0)[1] == 1.5
    assert (env.scale, env.original_reward) == (0.5, 3.0)
    env.scale = 2
    assert env.step(0)[1] == 6.0


def test_every_reset_and_step_is_drawn_with_the_arguments():
    env = Render(Recording(), mode="human")
    env.reset()
    env.step(0)
    env.step(0)
    assert env.drawn == [((), {"mode": "human"})] * 3


def test_render_passes_no_mode_to_an_env_that_has_a_render_mode():
    env = Render(gymnasium.make("CartPole-v1", render_mode="rgb_array"), mode="rgb_array")
    env.reset(seed=0)
    env.step(0)
    with pytest.raises(ValueError, match="mode is 'human', expected 'rgb_array'"):
        Render(env, mode="human")
    env.close()


@pytest.mark.parametrize("fraction", [0.0, 0.25, 1.0])
def test_fraction_of_actions_is_random(fraction):
    env = RandomizeAction(Recording(), fraction)
    env.seed(0)
    for _ in range(4000):
        env.step(3)
    shares = np.bincount(env.actions, minlength=4) / 4000
    assert shares == pytest.approx([fraction / 4] * 3 + [1 - fraction * 3 / 4], abs=0.03)


def test_random_actions_start_where_the_space_starts():
    env = RandomizeAction(Recording(spaces.Discrete(2, start=5)), 1.0)
    for _ in range(50):
        env.step(5)
    assert set(env.actions) == {5, 6}


def test_random_actions_follow_the_global_stream_until_seeded():
    state = np.random.get_state()
    runs = []
    for seed_it in (lambda env: np.random.set_state(state), lambda env: env.seed(9)):
        for _ in range(2):
            env = RandomizeAction(Recording(), 1.0)
            seed_it(env)
            for _ in range(20):
                env.step(0)
            runs.append(env.actions)
    assert runs[0] == runs[1] != runs[2] == runs[3]


def test_seed_goes_on_to_the_env():
    env = RandomizeAction(Recording(), 1.0)
    assert env.seed(9) == [9]
    assert env.seeds == [9]


def test_seed_of_a_gymnasium_reset_seeds_the_random_actions():
    runs = []
    for _ in range(2):
        env = RandomizeAction(gymnasium.make("CartPole-v1"), 1.0)
        env.reset(seed=4)
        runs.append([env.action(0) for _ in range(30)])
    assert runs[0] == runs[1]
    assert env.seed(1) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomizeAction(Recording(), -0.1), "random_fraction is"),
        (lambda: RandomizeAction(Recording(), 1.1), "random_fraction is"),
        (lambda: RandomizeAction(Recording(spaces.Box(-1, 1, (2,))), 0.1), "expected a Discrete"),
        (lambda: NormalizeActionSpace(Recording(spaces.Discrete(2))), "expected a Box with finite bounds"),
        (lambda: NormalizeActionSpace(Recording(spaces.Box(-np.inf, 1, (1,)))), "expected a Box with finite bounds"),
        (lambda: Render(gymnasium.make("CartPole-v1")), 'render_mode="human"'),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


LOW, HIGH = np.float32([-2, 0]), np.float32([2, 10])


@pytest.mark.parametrize(("action", "inside"), [([-1, -1], [-2, 0]), ([1, 1], [2, 10]), ([0, 0.5], [0, 7.5])])
def test_actions_are_mapped_to_the_bounds(action, inside):
    env = NormalizeActionSpace(Recording(spaces.Box(LOW, HIGH)))
    given = np.float32(action)
    env.step(given)
    assert env.env.actions[0].tolist() == inside
    assert env.env.actions[0].dtype == np.float32
    assert given.tolist() == action


def test_normalised_space_is_minus_one_to_one():
    env = NormalizeActionSpace(gymnasium.make("Pendulum-v1"))
    assert env.action_space == spaces.Box(-1.0, 1.0, (1,), np.float32)
    assert env.unwrapped.action_space.high == 2.0


def test_selected_features_are_multiplied_in_the_order_of_their_indices():
    env, plain = SelectFeatures(gymnasium.make("CartPole-v1"), [2, 0], [-20, 5]), gymnasium.make("CartPole-v1")
    obs, full = (each.reset(seed=0)[0] for each in (env, plain))
    assert obs.tolist() == [-20 * full[2], 5 * full[0]]
    low, high = plain.observation_space.low, plain.observation_space.high
    assert env.observation_space == spaces.Box(np.float32([-20 * high[2], 5 * low[0]]), np.float32([-20 * low[2], 24]))
    assert env.observation_space.contains(env.step(0)[0])


def test_selected_features_without_factors_are_as_they_are():
    env, plain = SelectFeatures(gymnasium.make("CartPole-v1"), [1]), gymnasium.make("CartPole-v1")
    assert env.reset(seed=0)[0].tolist() == plain.reset(seed=0)[0][[1]].tolist()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([],), ValueError, r"indices is \[\], expected at least one, from 0 to 3"),
        (([0, 4],), ValueError, r"indices is \[0, 4\], expected at least one, from 0 to 3"),
        (([-1],), ValueError, "indices is -1"),
        (([0.0],), TypeError, "indices is 0.0"),
        ((5,), TypeError, r"indices is 5 \(int\), expected a list"),
        (("01",), TypeError, r"indices is '01' \(str\), expected a list"),
        (([0], 5.0), TypeError, r"factors is 5.0 \(float\), expected a list"),
        (([0, 1], [1.0]), ValueError, r"factors is \[1.0\], expected 2 numbers of float32 other than 0"),
        (([0], [0.0]), ValueError, r"factors is \[0.0\], expected 1 numbers of float32 other than 0"),
        (([0], [1e39]), ValueError, r"factors is \[1e\+39\], expected 1 numbers of float32 other than 0"),
        (([0], [1e-99]), ValueError, r"factors is \[1e-99\], expected 1 numbers of float32 other than 0"),
        (([0], ["5"]), TypeError, "factors is '5'"),
    ],
)
def test_features_that_cannot_be_selected_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        SelectFeatures(gymnasium.make("CartPole-v1"), *arguments)


def test_bounds_beyond_float32_are_infinite():
    env = SelectFeatures(gymnasium.make("CartPole-v1"), [0], [-3e38])
    assert env.observation_space.high.tolist() == [np.inf]


def test_features_are_only_selected_from_vectors_of_floats():
    for space in (spaces.Discrete(3), spaces.Box(-1, 1, (2, 2)), spaces.Box(0, 9, (3,), np.int64)):
        env = Recording()
        env.observation_space = space
        with pytest.raises(ValueError, match="expected a Box of one axis and of floats"):
            SelectFeatures(env, [0])
