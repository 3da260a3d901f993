"""The checks at the border name the argument, what came and what was expected."""

import inspect
import warnings
from typing import Any

import gymnasium.spaces as spaces
import numpy as np
import pytest
import torch

from pfrl_like.errors import NonFiniteError
from pfrl_like.utils import checks

NAN, INF = float("nan"), float("inf")
BOX = spaces.Box(-1.0, 1.0, shape=(2,), dtype=np.float32)


@pytest.mark.parametrize(
    "value",
    [
        np.zeros((2, 3)),
        np.array(3.0),
        np.full(4, 1e30, dtype=np.float32),  # its square overflows
        np.float16([1, 2]),
        np.zeros((4, 4), dtype=np.float32)[::2, ::2],
        np.array([1, 2]),
        np.array(["a"], dtype=object),
        {"a": 1.0, "b": (2, [3.0])},
        torch.ones(3),
        None,
        "text",
        1,
    ],
)
def test_finite_values_and_what_is_no_float_pass(value):
    checks.check_finite("obs", value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (NAN, "obs is nan"),
        (np.float32(INF), "obs has inf"),
        (np.array([0.0, NAN]), "obs has nan at index 1"),
        (np.array([[0.0, -INF]], dtype=np.float32), r"obs has -inf at index \(0, 1\) \(1 of 2"),
        (np.float16([INF]), "obs has inf"),
        ({"a": (0.0, np.array([NAN]))}, r"obs\['a'\]\[1\] has nan"),
        (torch.tensor([NAN]), "obs has nan"),
    ],
)
def test_non_finite_value_is_named_with_its_place(value, message):
    with pytest.raises(NonFiniteError, match=message) as caught:
        checks.check_finite("obs", value)
    assert caught.value.name.startswith("obs")


@pytest.mark.parametrize("reward", [1, 0.5, np.float32(1), np.int64(2), True, np.array(1.0)])
def test_a_number_is_a_reward(reward):
    checks.check_reward(reward)


@pytest.mark.parametrize(
    ("reward", "error"),
    [
        (None, TypeError),
        ("1", TypeError),
        (np.array([1.0]), TypeError),
        (NAN, NonFiniteError),
        (np.array(INF), NonFiniteError),
        (1e39, NonFiniteError),
        (np.float64(-1e39), NonFiniteError),
        pytest.param(10**400, NonFiniteError, id="large"),
        pytest.param(10**5000, NonFiniteError, id="too long to be printed"),
    ],
)
def test_what_is_no_finite_number_is_no_reward(reward, error):
    with pytest.raises(error, match="reward is"):
        checks.check_reward(reward)


NESTED = spaces.Dict(a=BOX, b=spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)]), c=spaces.MultiDiscrete([2, 5]))


@pytest.mark.parametrize(
    ("space", "obs"),
    [
        (BOX, np.float32([5, 5])),  # bounds are not checked
        (BOX, np.float64([0, 0])),
        (BOX, np.array([1, 0])),
        (BOX, [0.0, 1.0]),
        (spaces.Discrete(3, start=1), 3),
        (NESTED, NESTED.sample()),
        (spaces.Text(5), "whatever"),
        (None, object()),
    ],
)
def test_observation_of_the_space_passes(space, obs):
    checks.check_observation(space, obs)


@pytest.mark.parametrize(
    ("space", "obs", "message"),
    [
        (BOX, np.zeros(3, np.float32), r"obs has shape \(3,\), .* has shape \(2,\)"),
        (BOX, np.array(["a", "b"]), "obs has dtype <U1"),
        (BOX, {"a": 1}, "obs is .*dict"),
        (BOX, None, "obs is None"),
        (BOX, [[0.0], [1.0, 2.0]], "obs is .* expected an array"),
        (spaces.Box(0, 255, (2,), np.uint8), np.zeros(2), "obs has dtype float64, .* dtype uint8"),
        (spaces.Discrete(3), 3, "obs is 3, .* outside"),
        (spaces.Discrete(3), 0.5, "obs has dtype float64"),
        (NESTED, {"a": np.zeros(2)}, "obs is a dict with the keys"),
        (NESTED, {**NESTED.sample(), "a": np.zeros(1)}, r"obs\['a'\] has shape"),
        (NESTED, {**NESTED.sample(), "b": (0,)}, r"obs\['b'\] is .* tuple of length 2"),
    ],
)
def test_observation_that_is_not_of_the_space_is_refused(space, obs, message):
    with pytest.raises(ValueError, match=message):
        checks.check_observation(space, obs)


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (spaces.Discrete(2), 1),
        (spaces.Discrete(2, start=-1), np.int64(-1)),
        (spaces.Discrete(2), np.array(0)),
        (BOX, np.float32([1, -1])),
        (NESTED, NESTED.sample()),
        (None, "anything"),
    ],
)
def test_action_of_the_space_passes(space, action):
    checks.check_action(space, action)


@pytest.mark.parametrize(
    ("space", "action", "message"),
    [
        (spaces.Discrete(2), 2, "action is 2, expected an integer from 0 to 1"),
        (spaces.Discrete(2), np.array(-1), "action is -1"),
        (spaces.Discrete(2), 0.0, "action has dtype float64"),
        (BOX, np.zeros(3), r"action has shape \(3,\)"),
        (BOX, np.float32([2, 0]), "action is .* outside the space"),
        (BOX, np.float32([NAN, 0]), "action has nan"),
        (spaces.MultiDiscrete([2, 2]), np.array([0, 2]), "outside"),
        (spaces.MultiBinary(2), np.array([0, 2]), "outside"),
    ],
)
def test_action_outside_the_space_is_refused(space, action, message):
    with pytest.raises(ValueError, match=message):
        checks.check_action(space, action)


def test_bounds_of_a_box_may_be_left_to_the_env():
    checks.check_action(BOX, np.float32([2, 0]), bounds=False)
    with pytest.raises(NonFiniteError):
        checks.check_action(BOX, np.float32([NAN, 0]), bounds=False)


def test_actions_of_several_envs_are_checked():
    checks.check_actions(spaces.Discrete(3), np.array([0, 2]), 2)
    checks.check_actions(BOX, np.zeros((2, 2)), 2)
    for space, actions, message in [
        (spaces.Discrete(3), np.array([0, 3]), "action is .*3"),
        (spaces.Discrete(3), [0, -1], r"action\[1\] is -1"),
        (BOX, np.full((2, 2), 2.0), r"action\[0\] is"),
        (BOX, np.zeros((3, 2)), "contains 3 actions"),
    ]:
        with pytest.raises(ValueError, match=message):
            checks.check_actions(space, actions, 2)
    checks.check_actions(BOX, np.full((2, 2), 2.0), 2, bounds=False)


def test_spaces_of_gym_are_understood():
    gym_spaces = pytest.importorskip("gym.spaces")
    checks.check_action(gym_spaces.Discrete(2), 1)
    checks.check_observation(gym_spaces.Dict(a=gym_spaces.Box(0, 1, (2,))), {"a": np.zeros(2)})
    with pytest.raises(ValueError, match="action is 2"):
        checks.check_action(gym_spaces.Discrete(2), 2)


@pytest.mark.parametrize(
    ("options", "good", "bad", "expected"),
    [
        ({}, (-1e30, 0, np.float32(0.5)), (INF, -INF, NAN), "a finite number"),
        ({"least": 0}, (0, 7, np.int64(7)), (-0.1, INF, NAN), "a finite number of at least 0"),
        ({"least": 0, "most": 1}, (0, 1, 0.5), (-0.1, 1.5, NAN), "a number from 0 to 1"),
        ({"least": 0, "most": 1, "between": True}, (0.5, 1e-9), (0, 1.0, 2, NAN), "a number between 0 and 1"),
    ],
)
def test_numbers_out_of_bounds_are_refused(options, good, bad, expected):
    checks.check_numbers(**options, **{f"x{i}": number for i, number in enumerate(good)})
    for number in bad:
        with pytest.raises(ValueError, match=f"y is .*, expected {expected}$"):
            checks.check_numbers(**options, x=good[1], y=number)
    for thing in ("0.5", None, True):
        with pytest.raises(TypeError, match=rf"y is {thing!r} \(.*\), expected {expected}$"):
            checks.check_numbers(**options, y=thing)


def test_a_value_that_is_none_of_those_known_is_refused():
    checks.check_choice("kernel", "laplacian", ("gaussian", "laplacian"))
    with pytest.raises(ValueError, match=r"^kernel is 'cubic', expected one of 'gaussian', 'laplacian'$"):
        checks.check_choice("kernel", "cubic", ("gaussian", "laplacian"))


def test_an_unknown_keyword_is_told_the_nearest_and_the_signature_stays() -> None:
    @checks.names_unknown_keywords
    def act(obs: Any, *, epsilon: float = 0.0) -> float:
        return 1.0 + epsilon + obs

    @checks.names_unknown_keywords
    def all_of(**options: Any) -> dict[str, Any]:
        return act(**options)

    assert str(inspect.signature(act)) == "(obs: Any, *, epsilon: float = 0.0) -> float"
    assert act(1.0, epsilon=1.0) == 3.0
    for options, end in (
        ({"epsilom": 1.0}, "got an unexpected keyword argument 'epsilom'; the nearest is 'epsilon'"),
        ({"seed": 1.0}, "got an unexpected keyword argument 'seed'; the arguments are obs, epsilon"),
        ({}, "missing 1 required positional argument: 'obs'"),
        ({"obs": "x"}, "unsupported operand .*"),
    ):
        with pytest.raises(TypeError, match=f"{end}$"):
            all_of(**options)


@pytest.mark.parametrize(
    ("given", "known", "end"),
    [
        ("learning_rate", ["learning_starts", "lr"], "; the nearest is 'lr'"),
        ("learning_rate", ["actor_learning_rate", "rate"], ": there is 'actor_learning_rate'"),
        ("episode_terminals", ["terminals", "timeouts"], "; the nearest is 'timeouts'"),
        ("total_timesteps", ["outdir"], ""),
        ("actor_lr", ["action_scaler", "actor_learning_rate"], "; the nearest is 'actor_learning_rate'"),
        ("Dqn", ["DQN", "TD3"], "; the nearest is 'DQN'"),
    ],
)
def test_a_name_of_another_library_stands_before_similar_names(given: str, known: list[str], end: str) -> None:
    assert checks.nearest_names(given, known, cutoff=0.6) == end


# Warnings name the user's line, and come once a process where they are asked to


def test_a_warning_comes_once_for_each_key() -> None:
    with warnings.catch_warnings(record=True) as came:
        warnings.simplefilter("always")
        checks.warn_once("rows", "3 rows were dropped")
        checks.warn_once("rows", "5 rows were dropped")
        checks.warn_once("columns", "2 columns were dropped")
    assert [str(each.message) for each in came] == ["3 rows were dropped", "2 columns were dropped"]


def test_the_warning_names_the_line_of_the_user() -> None:
    with pytest.warns(FutureWarning, match="rows") as came:
        checks.warn_once("rows", "rows were dropped", FutureWarning)
    assert came[0].filename == __file__


def test_integral_floats_are_integers_where_an_integer_is_annotated() -> None:
    @checks.takes_integral_floats
    def given(count: int, rate: float, /, *rest: Any, most: int | None = None, **others: Any) -> Any:
        return count, rate, rest, most, others

    got = given(1e3, 2.0, 3.0, most=np.float32(4), fifth=5.0)
    assert got == (1000, 2, (3,), 4, {"fifth": 5})
    assert [type(each) for each in (got[0], got[1], *got[2], got[3], got[4]["fifth"])] == [
        int,
        float,
        float,
        int,
        float,
    ]
    unchanged = given(1.5, 0, most=None)
    assert unchanged[0] == 1.5
    assert unchanged[3] is None
    assert np.isinf(given(np.inf, 0)[0])
    assert given(True, 0)[0] is True
