"""Stacks over several environments are those that each environment alone would give."""

import copy
import functools
import pickle

import gymnasium
import gymnasium.spaces as spaces
import numpy as np
import pytest
from env_forms import InPfrlForm
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from pfrl_like.envs import MultiprocessVectorEnv, SerialVectorEnv, as_vector_stream
from pfrl_like.wrappers import VectorEnvWrapper, VectorFrameStack
from pfrl_like.wrappers.atari_wrappers import FrameStack, LazyFrames

K = 3
LENGTHS = (4, 6)
CUT_OFF_AT = 2


class Counting(gymnasium.Env):
    """Observes 20 times the number of its episode plus the step in it; truncated if its length is even."""

    observation_space = spaces.Box(0, 255, (1, 16, 16), np.uint8)
    action_space = spaces.Discrete(2)

    def __init__(self, length):
        self.length, self.episode = length, -1

    def reset(self, *, seed=None, options=None):
        self.t, self.episode = 0, self.episode + 1
        return self._obs(), {}

    def step(self, action):
        self.t += 1
        ended = self.t == self.length
        truncates = self.length % 4 == 0
        return self._obs(), 1.0, ended and not truncates, ended and truncates, {}

    def _obs(self):
        return np.full((1, 16, 16), 20 * self.episode + self.t, np.uint8)


FACTORIES = [functools.partial(Counting, length) for length in LENGTHS]


def gymnasium_vector(mode, cls=SyncVectorEnv):
    return lambda: cls(FACTORIES, autoreset_mode=mode)


VECTOR_ENVS = {
    "serial": lambda: SerialVectorEnv([make() for make in FACTORIES]),
    "serial, four values": lambda: SerialVectorEnv([InPfrlForm(Counting(length)) for length in LENGTHS]),
    "multiprocess": lambda: MultiprocessVectorEnv(FACTORIES, start_method="fork"),
    "next step": gymnasium_vector(AutoresetMode.NEXT_STEP),
    "same step": gymnasium_vector(AutoresetMode.SAME_STEP),
    "disabled": gymnasium_vector(AutoresetMode.DISABLED),
    "async": gymnasium_vector(AutoresetMode.NEXT_STEP, AsyncVectorEnv),
}


def transitions(env, n_steps, cut_off_at=None):
    """Per environment (obs, next obs, terminated, truncated) of what the agent is shown, each obs as its numbers."""
    stream = as_vector_stream(env)
    now, seen = stream.reset(), [[] for _ in LENGTHS]
    for t in range(n_steps):
        step = stream.step(np.zeros(len(LENGTHS), np.int64))
        for i in np.flatnonzero(step.active):
            pair = [np.asarray(obs[i])[:, 0, 0].tolist() for obs in (now.obs, step.obs)]
            seen[i].append((*pair, bool(step.terminated[i]), bool(step.truncated[i])))
        cut = np.array([t == cut_off_at, False])
        now = stream.begin((step.terminated | step.truncated | cut) & step.active)
    stream.close()
    return seen


def alone(length, n_steps, cut_off_at=None):
    """The same by `FrameStack` around one environment."""
    env = FrameStack(Counting(length), K, "chw")
    (obs, _), seen = env.reset(), []
    for t in range(n_steps):
        next_obs, _, terminated, truncated, _ = env.step(0)
        seen.append((*[np.asarray(o)[:, 0, 0].tolist() for o in (obs, next_obs)], terminated, truncated))
        obs = env.reset()[0] if terminated or truncated or t == cut_off_at else next_obs
    return seen


@pytest.mark.representatives(4)
@pytest.mark.parametrize("cut_off_at", [None, CUT_OFF_AT])
@pytest.mark.parametrize("name", VECTOR_ENVS)
def test_agent_sees_what_each_environment_alone_would_show(name, cut_off_at):
    seen = transitions(VectorFrameStack(VECTOR_ENVS[name](), K), 20, cut_off_at)
    for i, length in enumerate(LENGTHS):
        expected = alone(length, 20, cut_off_at if i == 0 else None)
        assert len(seen[i]) >= 15
        assert seen[i] == expected[: len(seen[i])]


def test_form_of_the_environments_inside_is_kept():
    five = VectorFrameStack(VECTOR_ENVS["serial"](), K)
    obs, infos = five.reset()
    assert len(obs) == len(infos) == 2 and len(five.step([0, 0])) == 5
    four = VectorFrameStack(VECTOR_ENVS["serial, four values"](), K)
    assert len(four.reset()) == 2 and isinstance(four.reset()[0], LazyFrames) and len(four.step([0, 0])) == 4


@pytest.mark.parametrize("name", ["serial", "next step"])
def test_space_is_that_of_the_stack(name):
    env = VectorFrameStack(VECTOR_ENVS[name](), K)
    space = as_vector_stream(env).observation_space
    assert space == spaces.Box(0, 255, (K, 16, 16), np.uint8)
    for axis in (2, -1):
        along = VectorFrameStack(VECTOR_ENVS[name](), K, stack_axis=axis)
        obs, _ = along.reset()
        assert np.asarray(obs[0]).shape == as_vector_stream(along).observation_space.shape == (1, 16, 16 * K)
        np.testing.assert_array_equal(np.asarray(along.step([0, 0])[0][0])[0, 0], [0] * 32 + [1] * 16)


@pytest.mark.parametrize("name", ["serial", "next step"])
def test_impossible_stacks_are_refused(name):
    with pytest.raises(ValueError, match="k is 0"):
        VectorFrameStack(VECTOR_ENVS[name](), 0)
    with pytest.raises(ValueError, match="more than 3 axes"):
        VectorFrameStack(VECTOR_ENVS[name](), 2, stack_axis=3)


def test_a_single_environment_is_refused_with_the_wrapper_that_takes_it():
    message = "is Counting, expected a vector environment.*use atari_wrappers.FrameStack for a single environment"
    with pytest.raises(TypeError, match=message):
        VectorFrameStack(Counting(3), 2)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copy_has_environments_and_frames_of_its_own(duplicate):
    env = VectorFrameStack(VECTOR_ENVS["serial"](), np.int64(K))
    env.reset()
    twin = duplicate(env)
    for _ in range(2):
        env.step([0, 0])
    stacks = twin.step([0, 0])[0]
    assert [np.asarray(stack).max(axis=(1, 2)).tolist() for stack in stacks] == [[0, 0, 1]] * 2


def test_wrapper_hands_everything_on():
    inner = VECTOR_ENVS["serial"]()
    env = VectorEnvWrapper(inner)
    env.seed([1, 2])
    assert env.envs is inner.envs and env.num_envs == 2 and env.unwrapped is inner
    obs, infos = env.reset()
    assert [one.max() for one in obs] == [0, 0] and infos == [{}, {}]
    assert [one.max() for one in env.reset(mask=[True, False])[0]] == [0, 20]
    assert len(env.step([0, 0])) == 5
    assert str(env).startswith("<VectorEnvWrapper<")
    with pytest.raises(AttributeError):
        env.missing  # noqa: B018


class Drawn(SerialVectorEnv):
    """Vector environment with the other methods of PFRL's interface."""

    def seed(self, seeds):
        return seeds

    def render(self, mode, **kwargs):
        return mode, kwargs

    def compute_reward(self, achieved_goal, desired_goal, info):
        return achieved_goal, desired_goal, info


def test_wrapper_has_the_methods_of_pfrls_wrapper():
    env = VectorEnvWrapper(Drawn([make() for make in FACTORIES]))
    assert env.seed(seed=[1, 2]) == [1, 2]
    assert env.render() == ("human", {}) and env.render("rgb_array", x=1) == ("rgb_array", {"x": 1})
    assert env.compute_reward(1, desired_goal=2, info={}) == (1, 2, {})


@pytest.mark.parametrize(
    ("render", "expected"),
    [
        (lambda **kwargs: kwargs, {"mode": "rgb_array", "x": 1}),
        (lambda *args, **kwargs: (args, kwargs), (("rgb_array",), {"x": 1})),
        (lambda *args, x, mode: (args, x, mode), ((), 1, "rgb_array")),
        (lambda x: x, 1),
    ],
)
def test_mode_reaches_every_render_that_can_take_it(render, expected):
    env = VectorEnvWrapper(VECTOR_ENVS["next step"]())
    env.env.render = render
    assert env.render("rgb_array", x=1) == expected


def test_wrapper_renders_an_environment_without_modes():
    env = VectorEnvWrapper(VECTOR_ENVS["next step"]())
    env.env.render = lambda: "frames"
    assert env.render() == "frames"
