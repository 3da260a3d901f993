"""Wrappers keep the form of what they wrap: four values or five, gymnasium's class or none."""

import copy
import pickle
import warnings

import gymnasium
import gymnasium.spaces as spaces
import numpy as np
import pytest

from pfrl_like import wrappers
from pfrl_like.env import as_gymnasium
from pfrl_like.envs.abc import ABC
from pfrl_like.errors import EnvError


class FiveValues(gymnasium.Env):
    """Images instead of windows, in gymnasium's form."""

    metadata = {"render_modes": ["rgb_array"]}
    render_mode = "rgb_array"
    observation_space = spaces.Box(-1, 1, (2,), np.float64)
    action_space = spaces.Discrete(3)
    colour = "red"

    def __init__(self, action_space=None):
        self.action_space = action_space or self.action_space
        self.actions = []

    def reset(self, *, seed=None, options=None):
        return np.zeros(2), {"seed": seed}

    def step(self, action):
        self.actions.append(action)
        return np.ones(2), 2.0, False, True, {"a": 1}

    def render(self):
        return np.zeros((4, 4, 3), np.uint8)


class FourValues:
    """The same in PFRL's form."""

    observation_space, action_space, colour = FiveValues.observation_space, FiveValues.action_space, "red"

    def __init__(self, action_space=None):
        self.action_space = action_space or self.action_space

    def reset(self):
        return np.zeros(2)

    def step(self, action):
        return np.ones(2), 2.0, True, {"a": 1}

    def render(self):
        """Nothing to see."""


@pytest.fixture(params=["cast", "cast32", "scale", "render", "monitor", "randomize", "normalize", "base"])
def wrap(request, tmp_path):
    box = spaces.Box(-2, 2, (2,))
    return {
        "cast": lambda cls: wrappers.CastObservation(cls(), np.float32),
        "cast32": lambda cls: wrappers.CastObservationToFloat32(cls()),
        "scale": lambda cls: wrappers.ScaleReward(cls(), 1.0),
        "render": lambda cls: wrappers.Render(cls()),
        "monitor": lambda cls: wrappers.Monitor(cls(), tmp_path, video_callable=False),
        "randomize": lambda cls: wrappers.RandomizeAction(cls(), 0.0),
        "normalize": lambda cls: wrappers.NormalizeActionSpace(cls(box)),
        "base": lambda cls: wrappers.Wrapper(cls()),
    }[request.param]


def test_wrapped_gymnasium_env_is_one_and_returns_its_form(wrap):
    env = wrap(FiveValues)
    assert isinstance(env, gymnasium.Wrapper) and isinstance(env, wrappers.Wrapper)
    assert as_gymnasium(env) is env
    obs, info = env.reset(seed=3)
    assert obs.tolist() == [0, 0] and info == {"seed": 3}
    obs, *rest = env.step(env.action_space.sample())
    assert obs.tolist() == [1, 1] and rest == [2.0, False, True, {"a": 1}]


def test_wrapped_env_of_four_values_returns_four(wrap):
    env = wrap(FourValues)
    assert not isinstance(env, gymnasium.Env)
    assert env.reset().tolist() == [0, 0]
    obs, *rest = env.step(env.action_space.sample())
    assert obs.tolist() == [1, 1] and rest == [2.0, True, {"a": 1}]
    assert as_gymnasium(env).user_env is env


@pytest.mark.parametrize("cls", [FiveValues, FourValues])
def test_attributes_show_through(wrap, cls):
    env = wrap(cls)
    assert env.colour == "red"
    assert type(env.unwrapped) is cls
    assert env.observation_space.shape == (2,)
    with pytest.raises(AttributeError):
        env.missing  # noqa: B018
    assert str(env).startswith(f"<{type(env).__name__}<")


@pytest.mark.parametrize("cls", [FiveValues, FourValues])
def test_copy_has_an_env_of_its_own(wrap, cls):
    env = wrap(cls)
    env.reset()
    twin = copy.deepcopy(env)
    assert type(twin) is type(env)
    assert twin.unwrapped is not env.unwrapped
    twin.step(twin.action_space.sample())


def test_wrapped_env_can_be_pickled():
    env = pickle.loads(pickle.dumps(wrappers.ScaleReward(gymnasium.make("CartPole-v1"), 3.0)))
    assert isinstance(env, gymnasium.Wrapper)
    assert env.scale == 3.0
    env.reset()
    assert env.step(0)[1] == 3.0


def test_wrapped_env_can_be_made_again_from_its_spec():
    env = wrappers.ScaleReward(wrappers.CastObservationToFloat32(gymnasium.make("Pendulum-v1")), scale=3.0)
    twin = gymnasium.make(env.spec)
    assert str(twin) == str(env)
    assert twin.scale == 3.0


def test_gymnasium_may_wrap_a_wrapper():
    env = gymnasium.wrappers.TimeLimit(wrappers.ScaleReward(FiveValues(), 2.0), 5)
    env.reset()
    assert env.step(0)[1] == 4.0
    assert env.get_wrapper_attr("scale") == 2.0


@pytest.mark.parametrize("env", [None, "CartPole-v1", ABC])
def test_what_is_no_env_is_refused(env):
    with pytest.raises(TypeError, match="expected an environment"):
        wrappers.ScaleReward(env, 1.0)


def test_wrong_step_result_is_named():
    class Env(ABC):
        def step(self, action):
            return 1, 2, 3

    with pytest.raises(EnvError, match="step returned 3 values"):
        wrappers.Wrapper(Env()).step(0)


def test_gym_env_is_wrapped_and_runs_on_todays_numpy():
    gym = pytest.importorskip("gym")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gym says that it is dead
        env = wrappers.CastObservation(gym.make("CartPole-v1"), np.float16)
        assert env.reset()[0].dtype == np.float16
        assert len(env.step(0)) == 5
    assert isinstance(env.observation_space, gym.spaces.Box)
