"""The border to environments: what may come, what is made of it, what is refused."""

import copy
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import torch

from pfrl_like.env import as_gymnasium, reset_values, seed_env, step_values
from pfrl_like.envs.abc import ABC
from pfrl_like.errors import EnvError


class Counter:
    """A plain object in the form of gym 0.21; the observation counts the steps, and the episode has three."""

    colour = "red"

    def reset(self):
        self.t = 0
        return np.float32([0])

    def step(self, action):
        self.t += 1
        info = {"TimeLimit.truncated": True} if self.t == 3 and action == 0 else {}
        return np.float32([self.t]), 1.5, self.t == 3, info


class Returning:
    """Returns from `step` whatever it was given."""

    def __init__(self, result):
        self.result = result

    def reset(self):
        return 0

    def step(self, action):
        return self.result


def test_gymnasium_env_is_returned_as_it_is():
    env = gymnasium.make("CartPole-v1")
    assert as_gymnasium(env) is env


def test_adapter_of_an_adapter_is_the_adapter():
    adapter = as_gymnasium(Counter())
    assert as_gymnasium(adapter) is adapter


def test_plain_object_gets_five_values_and_keeps_its_identity():
    env = Counter()
    adapter = as_gymnasium(env)
    assert isinstance(adapter, gymnasium.Env)
    assert adapter.user_env is env
    assert adapter.unwrapped is env
    assert adapter.colour == "red"
    obs, info = adapter.reset()
    assert obs == 0 and info == {}
    assert adapter.step(1) == (np.float32([1]), 1.5, False, False, {})


@pytest.mark.parametrize(("action", "terminated", "truncated"), [(1, True, False), (0, False, True)])
def test_time_limit_of_four_values_is_truncation_and_no_termination(action, terminated, truncated):
    env = as_gymnasium(Counter())
    env.reset()
    env.step(action)
    env.step(action)
    assert env.step(action)[2:4] == (terminated, truncated)


def test_adapter_without_optional_attributes_of_an_env():
    adapter = as_gymnasium(Counter())
    assert adapter.spec is None
    assert adapter.render_mode is None
    assert adapter.metadata == {}
    adapter.close()
    with pytest.raises(AttributeError, match="missing"):
        adapter.missing  # noqa: B018


def test_adapter_shows_the_own_spaces_of_the_env():
    env = ABC()
    assert as_gymnasium(env).action_space is env.action_space


def test_adapter_can_be_copied_and_wrapped_by_gymnasium():
    adapter = as_gymnasium(Counter())
    adapter.reset()
    twin = copy.deepcopy(adapter)
    adapter.step(1)
    assert twin.step(1)[0] == 1
    limited = gymnasium.wrappers.TimeLimit(twin, max_episode_steps=1)
    limited.reset()
    assert limited.step(1)[3]


@pytest.mark.parametrize(
    ("result", "obs", "info"),
    [
        ((1, {"a": 2}), 1, {"a": 2}),
        ((1, 2), (1, 2), None),  # a Tuple observation
        ([1, {}], [1, {}], None),
        ((1, {}, 3), (1, {}, 3), None),
        ({"a": 1}, {"a": 1}, None),
    ],
)
def test_reset_result_is_a_pair_only_if_a_2_tuple_ends_with_a_dict(result, obs, info):
    assert reset_values(result) == (obs, info)


@pytest.mark.parametrize(
    ("result", "came"),
    [
        ((0, 1.0, False), "3 values"),
        (None, "NoneType"),
        ((0, 1, 2, 3, 4, 5), "6 values"),
        ((0, 1.0, True, None), "NoneType as info"),
        ((0, 1.0, True, False, None), "NoneType as info"),
        ((0, 1.0, np.zeros(2), False, {}), r"array\(.*\) as terminated, expected one bool"),
        ((0, 1.0, False, np.zeros(2), {}), "as truncated"),
        ((0, 1.0, np.zeros(2), {}), "as done"),
        ((0, 1.0, "no", False, {}), r"'no' \(str\) as terminated, expected one bool"),
        ((0, 1.0, False, None, {}), r"None \(NoneType\) as truncated"),
        ((0, 1.0, 2, {}), r"2 \(int\) as done"),
        ((0, 1.0, [True], False, {}), "as terminated"),
    ],
)
def test_wrong_step_result_is_named(result, came):
    env = as_gymnasium(Returning(result))
    env.reset()
    with pytest.raises(EnvError, match=came):
        env.step(0)


def test_five_values_pass_with_flags_of_any_kind_as_bools():
    result = step_values((0, 1.0, np.bool_(False), np.array([1]), {}))
    assert result == (0, 1.0, False, True, {}) and type(result[2]) is type(result[3]) is bool
    assert step_values((0, 1.0, 1.0, torch.tensor(False), {}))[2:4] == (True, False)


@pytest.mark.parametrize("env", ["CartPole-v1", None, object(), Counter])
def test_what_is_no_env_is_refused(env):
    with pytest.raises(TypeError, match="expected an environment"):
        as_gymnasium(env)


def test_vector_env_is_refused_as_a_single_one():
    with pytest.raises(TypeError, match="train_agent_batch"):
        as_gymnasium(gymnasium.make_vec("CartPole-v1", 2))


def test_seed_goes_to_the_seed_method_of_an_old_env():
    env = as_gymnasium(ABC(discrete=False))
    draws = []
    for _ in range(2):
        env.reset(seed=3)
        draws.append(env.user_env._random.rand())
    assert draws[0] == draws[1]


def test_seed_and_options_go_to_a_reset_that_takes_them():
    class Env(Counter):
        def reset(self, seed=None, options=None):
            return np.array([seed, options["start"]])

    obs, _ = as_gymnasium(Env()).reset(seed=4, options={"start": 5})
    assert obs.tolist() == [4, 5]


def test_seed_goes_through_wrappers_to_a_reset_that_takes_it():
    class Base(Counter):
        def reset(self, seed=None):
            return seed

    class Outer(Counter):
        unwrapped = Base()

        def reset(self, **kwargs):
            return self.unwrapped.reset(**kwargs)

    assert as_gymnasium(Outer()).reset(seed=4)[0] == 4


def test_seed_that_no_one_takes_is_refused():
    with pytest.raises(ValueError, match="seed is 1"):
        as_gymnasium(Counter()).reset(seed=1)
    with pytest.raises(ValueError, match="takes no options"):
        as_gymnasium(Counter()).reset(options={})


def test_gymnasium_env_is_seeded_at_reset():
    assert seed_env(gymnasium.make("CartPole-v1"), 0) is False


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow  # tests/architecture/test_import.py looks at all modules that the package imports
def test_importing_the_border_imports_no_gym_and_mends_nothing():
    code = """
import sys, numpy as np
before = {"bool8", "float_"} & set(vars(np))
import pfrl_like.env
print("gym" in sys.modules, {"bool8", "float_"} & set(vars(np)) == before)
"""
    assert run_python(code).split() == ["False", "True"]


@pytest.mark.slow
def test_numpy_is_mended_only_when_a_gym_env_arrives():
    pytest.importorskip("gym")
    code = """
import gym, numpy as np
from pfrl_like.env import as_gymnasium
class Plain:
    def reset(self): return 0
    def step(self, action): return 0, 0.0, False, {}
class Around(Plain):
    env = gym.Env()
as_gymnasium(Plain())
print("bool8" in vars(np))
as_gymnasium(Around())
print("bool8" in vars(np))
"""
    expected = ["True", "True"] if np.lib.NumpyVersion(np.__version__) < "2.0.0" else ["False", "True"]
    assert run_python(code).split() == expected
