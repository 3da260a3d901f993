"""k environments seen through any kind of vector environment give the transitions of k single ones stepped by hand."""

import sys
from typing import NamedTuple

import cloudpickle
import gymnasium
import gymnasium.spaces as spaces
import numpy as np
import pytest
from env_forms import InPfrlForm
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space
from hypothesis import given, settings
from hypothesis import strategies as st

from pfrl_like.envs import MultiprocessVectorEnv, SerialVectorEnv, as_vector_stream

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test module

N_ACTIONS = 3
ARRAY = spaces.Box(-1, 10**6, (4,), np.float32)


class Script(NamedTuple):
    """What one environment does: the length of each episode in turn, and how it ends."""

    lengths: tuple[int, ...]
    ends: tuple[str, ...]  # terminated, truncated or both
    form: str = "array"
    masked: bool = False


class Chain(gymnasium.Env):
    """The observation is (environment, episode, step, last action); reward and mask follow from it."""

    action_space = spaces.Discrete(N_ACTIONS)

    def __init__(self, index, script):
        self.index, self.script, self.episode = index, script, -1
        self.observation_space = {
            "array": ARRAY,
            "dict": spaces.Dict(a=ARRAY, b=spaces.Discrete(10)),
            "tuple": spaces.Tuple([ARRAY, ARRAY]),
        }[script.form]

    def reset(self, *, seed=None, options=None):
        self.episode, self.t, self.action = self.episode + 1, 0, -1
        return self.observe(), self.info()

    def step(self, action):
        self.t, self.action = self.t + 1, int(action)
        is_over = self.t >= self.script.lengths[self.episode % len(self.script.lengths)]
        end = self.script.ends[self.episode % len(self.script.ends)] if is_over else ""
        reward = 100 * self.index + 10 * self.episode + self.t + self.action / 4
        return self.observe(), reward, end in ("terminated", "both"), end in ("truncated", "both"), self.info()

    def observe(self):
        array = np.float32([self.index, self.episode, self.t, self.action])
        return {"array": array, "dict": {"a": array, "b": self.t}, "tuple": (array, -array)}[self.script.form]

    def info(self):
        mask = (np.arange(N_ACTIONS) + self.t + self.episode) % 3 != 0
        return {"action_mask": mask} if self.script.masked else {}


class Native(VectorEnv):
    """A vector environment that is no collection of single ones, and returns the same buffers at every step."""

    def __init__(self, envs, mode):
        self.envs, self.num_envs, self.metadata = envs, len(envs), {"autoreset_mode": mode}
        self.single_observation_space, self.single_action_space = ARRAY, Chain.action_space
        self.observation_space, self.action_space = (batch_space(s, len(envs)) for s in (ARRAY, Chain.action_space))
        self.obs = np.zeros((len(envs), 4), np.float32)
        self.reward = np.zeros(len(envs), np.float32)
        self.terminated, self.truncated = np.zeros((2, len(envs)), bool)

    def reset(self, *, seed=None, options=None):
        rows = options["reset_mask"] if options else np.ones(self.num_envs, bool)
        self.terminated[rows] = self.truncated[rows] = False
        infos = {}
        for i in np.flatnonzero(rows):
            self.obs[i], info = self.envs[i].reset()
            infos = self._add_info(infos, info, i)
        return self.obs, infos

    def step(self, actions):
        assert self.action_space.contains(actions)
        mode, ended, infos = self.metadata["autoreset_mode"], self.terminated | self.truncated, {}
        for i, env in enumerate(self.envs):
            if mode is AutoresetMode.NEXT_STEP and ended[i]:
                (self.obs[i], info), self.reward[i] = env.reset(), 0
                self.terminated[i] = self.truncated[i] = False
            else:
                self.obs[i], self.reward[i], self.terminated[i], self.truncated[i], info = env.step(actions[i])
                if mode is AutoresetMode.SAME_STEP and (self.terminated[i] or self.truncated[i]):
                    infos = self._add_info(infos, {"final_obs": self.obs[i].copy(), "final_info": info}, i)
                    self.obs[i], info = env.reset()
            infos = self._add_info(infos, info, i)
        return self.obs, self.reward, self.terminated, self.truncated, infos


class WithoutInfos(SerialVectorEnv):
    """PFRL's own class leaves the pairs of a gymnasium reset together."""

    def reset(self, mask=None):
        result = super().reset(mask)
        return [(obs, info) for obs, info in zip(*result, strict=True)]


def serial_of_four_values(envs):
    return SerialVectorEnv([InPfrlForm(env) for env in envs])


def sync(mode, **options):
    return lambda envs: SyncVectorEnv([lambda env=env: env for env in envs], autoreset_mode=mode, **options)


def native(mode):
    return lambda envs: Native(envs, mode)


MODES = list(AutoresetMode)
IN_PROCESS = {
    "serial": lambda envs: SerialVectorEnv(envs),
    "serial of four values": serial_of_four_values,
    "serial with pairs": WithoutInfos,
    **{f"sync {mode.value}": sync(mode) for mode in MODES},
    **{f"sync {mode.value}, one buffer": sync(mode, copy=False) for mode in MODES},
}
NATIVE = {f"native {mode.value}": native(mode) for mode in MODES}
ALL_CAN_CUT_OFF = {**IN_PROCESS, f"native {AutoresetMode.DISABLED.value}": native(AutoresetMode.DISABLED)}


def act(obs):
    """A policy that is a function of the observation alone, so that every form sees the same actions."""
    array = obs["a"] if isinstance(obs, dict) else obs[0] if isinstance(obs, tuple) else obs
    return int((array[1] + 2 * array[2] + array[3]) % N_ACTIONS)


def plain(obs):
    """An observation as nested lists, to compare and to keep."""
    if isinstance(obs, dict):
        return {key: plain(item) for key, item in obs.items()}
    return [plain(item) for item in obs] if isinstance(obs, tuple) else np.asarray(obs).tolist()


def by_hand(env, n, limit=None):
    """The first n transitions of a single environment."""
    transitions = []
    while len(transitions) < n:
        (obs, info), t = env.reset(), 0
        end = False
        while not end and len(transitions) < n:
            action, mask, t = act(obs), info.get("action_mask"), t + 1
            before = plain(obs)
            obs, reward, terminated, truncated, info = env.step(action)
            next_mask = info.get("action_mask")
            end = terminated or truncated or t == limit
            masks = [None if m is None else m.tolist() for m in (mask, next_mask)]
            transitions.append((before, action, reward, plain(obs), terminated, truncated, *masks))
    return transitions


def through_stream(env, n, limit=None):
    """The first n transitions of each environment of a vector environment."""
    stream = as_vector_stream(env)
    transitions = [[] for _ in range(stream.num_envs)]
    now = stream.reset()
    t = np.zeros(stream.num_envs, int)
    while min(map(len, transitions)) < n:
        before = [plain(obs) for obs in now.obs]
        actions = np.array([act(obs) if active else 0 for obs, active in zip(now.obs, now.active, strict=True)])
        step = stream.step(actions)
        assert (step.active == now.active).all()
        assert (step.reward.dtype, step.terminated.dtype, step.truncated.dtype) == (np.float64, bool, bool)
        t += step.active
        for i in np.flatnonzero(step.active):
            masks = [None if m is None else m[i].tolist() for m in (now.action_mask, step.action_mask)]
            end = (bool(step.terminated[i]), bool(step.truncated[i]))
            transitions[i].append((before[i], actions[i], step.reward[i], plain(step.obs[i]), *end, *masks))
        over = step.active & (step.terminated | step.truncated | (t == limit))
        t[over] = 0
        now = stream.begin(over)
    stream.close()
    return [one[:n] for one in transitions]


def check(make, scripts, n=12, limit=None):
    expected = [by_hand(Chain(i, script), n, limit) for i, script in enumerate(scripts)]
    assert through_stream(make([Chain(i, script) for i, script in enumerate(scripts)]), n, limit) == expected


lengths = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)
ends = st.lists(st.sampled_from(["terminated", "truncated", "both"]), min_size=1, max_size=3).map(tuple)


def scripts(forms=("array",), masks=(False,), ends=ends):
    def alike(drawn):
        parts, form, masked = drawn
        return [Script(*part, form, masked) for part in parts]

    parts = st.lists(st.tuples(lengths, ends), min_size=1, max_size=3)
    return st.tuples(parts, st.sampled_from(forms), st.sampled_from(masks)).map(alike)


quick = settings(max_examples=25, deadline=None)


@pytest.mark.representatives(2)
@pytest.mark.parametrize("name", [name for name in IN_PROCESS if "four" not in name])
@quick
@given(scripts=scripts(["array", "dict", "tuple"], [False, True]))
def test_transitions_are_those_of_single_envs(name, scripts):
    check(IN_PROCESS[name], scripts)


@quick
@given(scripts=scripts(["array", "dict"], ends=ends.filter(lambda drawn: "both" not in drawn)))
def test_transitions_of_four_values_are_those_of_single_envs(scripts):
    check(serial_of_four_values, scripts)


@pytest.mark.parametrize("name", NATIVE)
@quick
@given(scripts=scripts(masks=[False, True]))
def test_transitions_of_a_native_vector_env_are_those_of_single_envs(name, scripts):
    check(NATIVE[name], [script._replace(ends=("terminated", "truncated")) for script in scripts])


@pytest.mark.representatives(3)
@pytest.mark.parametrize("name", ALL_CAN_CUT_OFF)
@quick
@given(scripts=scripts(), limit=st.integers(1, 4))
def test_transitions_are_those_of_single_envs_when_the_caller_cuts_episodes_off(name, scripts, limit):
    check(ALL_CAN_CUT_OFF[name], [script._replace(ends=("terminated", "truncated")) for script in scripts], limit=limit)


EXAMPLE = [Script((3, 1), ("terminated", "truncated")), Script((2,), ("both",)), Script((1, 4), ("truncated",))]


def multiprocess(envs):
    return MultiprocessVectorEnv([lambda env=env: env for env in envs], "fork")


def asynchronous(mode, shared_memory=True):
    def make(envs):
        factories = [lambda env=env: env for env in envs]
        return AsyncVectorEnv(factories, autoreset_mode=mode, shared_memory=shared_memory, context="fork")

    return make


PROCESSES = {
    "multiprocess": multiprocess,
    **{f"async {mode.value}": asynchronous(mode) for mode in MODES},
    **{f"async {mode.value} by pipe": asynchronous(mode, shared_memory=False) for mode in MODES},
}


@pytest.mark.representatives(7)
@pytest.mark.parametrize("limit", [None, 2])
@pytest.mark.parametrize("form", ["array", "dict"])
@pytest.mark.parametrize("name", PROCESSES)
def test_transitions_through_processes_are_those_of_single_envs(name, form, limit):
    check(PROCESSES[name], [script._replace(form=form, masked=True) for script in EXAMPLE], limit=limit)
