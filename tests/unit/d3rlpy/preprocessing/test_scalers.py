import copy
import pickle
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from pfrl_like.d3rlpy.preprocessing import (
    ClipRewardScaler,
    ConstantShiftRewardScaler,
    MinMaxActionScaler,
    MinMaxObservationScaler,
    MinMaxRewardScaler,
    MultiplyRewardScaler,
    PixelObservationScaler,
    ReturnBasedRewardScaler,
    Scaler,
    StandardObservationScaler,
    StandardRewardScaler,
    TupleObservationScaler,
)
from pfrl_like.errors import NonFiniteError, NotFittedError

ROWS = np.array([[0.0, 2.0], [4.0, 4.0], [8.0, 12.0]], np.float32)


def episode(rows: Any, rewards: list[float], transition_count: int) -> Any:
    """Episode whose actions are a tenth of the observations."""
    actions = np.asarray(rows if isinstance(rows, np.ndarray) else rows[0]) / 10
    return SimpleNamespace(
        observations=rows,
        actions=actions,
        rewards=np.array(rewards, np.float32).reshape(-1, 1),
        transition_count=transition_count,
        size=lambda: len(actions),
    )


def pick(source: Any, index: int) -> Any:
    rows = source.observations
    row = rows[index] if isinstance(rows, np.ndarray) else [part[index] for part in rows]
    return SimpleNamespace(observation=row, action=source.actions[index], reward=source.rewards[index])


def cut(source: Any, end_index: int, size: int) -> Any:
    rows = slice(end_index + 1 - size, end_index + 1)
    return SimpleNamespace(
        observations=source.observations[rows], actions=source.actions[rows], rewards=source.rewards[rows]
    )


#: The first episode timed out: its last row is no transition. The second has only this row.
EPISODES = [episode(ROWS, [1.0, 3.0, 100.0], 2), episode(ROWS[:1], [7.0], 0), episode(ROWS[2:], [8.0], 1)]


def fitted(scaler: Scaler) -> Any:
    scaler.fit_with_transition_picker(EPISODES, pick)
    assert scaler.built
    return scaler


def test_scalers_are_fitted_to_transitions() -> None:
    observations = fitted(MinMaxObservationScaler())
    np.testing.assert_array_equal([observations.minimum, observations.maximum], [[0, 2], [8, 12]])
    standard = fitted(StandardObservationScaler())
    np.testing.assert_allclose(standard.mean, [4, 6])  # (0 + 4 + 8) / 3, (2 + 4 + 12) / 3
    np.testing.assert_allclose(standard.std, np.sqrt([32 / 3, 56 / 3]))  # means of 16, 0, 16 and of 16, 4, 36
    actions = fitted(MinMaxActionScaler())
    np.testing.assert_allclose([actions.minimum, actions.maximum], [[0, 0.2], [0.8, 1.2]], rtol=1e-6)
    rewards = fitted(StandardRewardScaler())
    assert (rewards.mean, rewards.std) == pytest.approx((4.0, np.sqrt(26 / 3)))  # of 1, 3, 8: squares 9, 1, 16
    assert fitted(MinMaxRewardScaler()) == MinMaxRewardScaler(1.0, 8.0)
    assert fitted(ReturnBasedRewardScaler()) == ReturnBasedRewardScaler(8.0, 4.0)


def test_scalers_are_fitted_to_all_steps_with_a_slicer() -> None:
    rewards = MinMaxRewardScaler()
    rewards.fit_with_trajectory_slicer(EPISODES, cut)
    assert rewards == MinMaxRewardScaler(1.0, 100.0)
    returns = ReturnBasedRewardScaler()
    returns.fit_with_trajectory_slicer(EPISODES, cut)
    assert returns == ReturnBasedRewardScaler(104.0, 7.0)
    observations = MinMaxObservationScaler()
    observations.fit_with_trajectory_slicer(EPISODES, cut)
    np.testing.assert_array_equal([observations.minimum, observations.maximum], [[0, 2], [8, 12]])


def test_integer_observations_have_bounds() -> None:
    scaler, images = MinMaxObservationScaler(), gymnasium.spaces.Box(0, 255, (1, 2, 2), np.uint8)
    scaler.fit_with_env(SimpleNamespace(observation_space=images))
    assert scaler.transform(torch.full((1, 1, 2, 2), 255, dtype=torch.uint8)).tolist() == [[[[1, 1], [1, 1]]]]


def test_bounds_come_from_an_environment_and_moments_do_not() -> None:
    box = gymnasium.spaces.Box(np.float32([-1, -2]), np.float32([3, 4]))
    env: Any = SimpleNamespace(action_space=box, observation_space=gymnasium.spaces.Box(-np.inf, np.inf, (2,)))
    actions = MinMaxActionScaler()
    actions.fit_with_env(env)
    np.testing.assert_array_equal([actions.minimum, actions.maximum], [[-1, -2], [3, 4]])
    with pytest.raises(NonFiniteError):
        MinMaxObservationScaler().fit_with_env(env)
    with pytest.raises(NotImplementedError, match="StandardObservationScaler cannot be fitted to an environment"):
        StandardObservationScaler().fit_with_env(env)
    with pytest.raises(TypeError, match="action_space is Discrete"):
        MinMaxActionScaler().fit_with_env(SimpleNamespace(action_space=gymnasium.spaces.Discrete(2)))
    for unchanged in (StandardRewardScaler(), PixelObservationScaler()):
        unchanged.fit_with_env(env)


@pytest.mark.parametrize(
    ("scaler", "value", "scaled"),
    [
        (MinMaxObservationScaler(np.array([0.0]), np.array([4.0])), 1.0, -0.5),
        (MinMaxActionScaler(np.array([0.0]), np.array([4.0])), 3.0, 0.5),
        (StandardObservationScaler(np.array([2.0]), np.array([0.5]), eps=0.5), 5.0, 3.0),
        (StandardRewardScaler(2.0, 0.5, eps=0.5, multiplier=2.0), 5.0, 6.0),
        (MinMaxRewardScaler(1.0, 5.0, multiplier=10.0), 2.0, 2.5),
        (ReturnBasedRewardScaler(5.0, 1.0, multiplier=2.0), 3.0, 1.5),
        (MultiplyRewardScaler(2.0), 3.0, 6.0),
        (ClipRewardScaler(-1.0, 1.0, 2.0), 0.5, 1.0),
        (ConstantShiftRewardScaler(1.0, 2.0), 3.0, 8.0),
        (ConstantShiftRewardScaler(1.0, 2.0, multiply_first=True), 3.0, 7.0),
    ],
)
def test_scaling_follows_the_formula_and_is_inverted(scaler: Any, value: float, scaled: float) -> None:
    assert scaler.transform(torch.tensor([[value]])).item() == pytest.approx(scaled)
    assert scaler.reverse_transform(torch.tensor([[scaled]])).item() == pytest.approx(value)
    array = np.array([[value]], np.float32)
    assert scaler.transform_numpy(array) == pytest.approx(scaled)
    assert scaler.reverse_transform_numpy(np.array([[scaled]], np.float32)) == pytest.approx(value)


def test_a_clipped_reward_stays_clipped() -> None:
    assert ClipRewardScaler(high=1.0).transform(torch.tensor([5.0, -5.0])).tolist() == [1.0, -5.0]


def test_pixels_are_divided_by_255_and_the_inverse_gives_integers() -> None:
    scaler, pixels = PixelObservationScaler(), np.array([[0, 51, 255]], np.uint8)
    scaled = scaler.transform(torch.from_numpy(pixels))
    torch.testing.assert_close(scaled, torch.tensor([[0.0, 0.2, 1.0]]))
    assert scaler.reverse_transform(torch.tensor([0.0, 1.0])).dtype == torch.int64
    assert scaler.transform_numpy(pixels).dtype == np.float64
    np.testing.assert_allclose(scaler.reverse_transform_numpy(np.array([0.5])), [127.5])


def test_arrays_keep_single_precision_where_the_statistics_do() -> None:
    row = np.array([[1.0, 2.0]], np.float32)
    single = MinMaxObservationScaler(row[0] - 1, row[0] + 1)
    assert single.transform_numpy(row).dtype == np.float32
    assert fitted(StandardObservationScaler()).transform_numpy(row).dtype == np.float64
    assert MultiplyRewardScaler(2.0).transform_numpy(row).dtype == np.float32


def test_fitted_bounds_have_the_dtype_of_the_data_and_moments_double_precision() -> None:
    bounds, moments = MinMaxActionScaler(), StandardObservationScaler()
    for scaler in (bounds, moments):
        scaler.fit_with_transition_picker([episode(ROWS, [0.0] * 3, 3)], pick)
    assert bounds.minimum is not None and bounds.minimum.dtype == bounds.transform_numpy(ROWS).dtype == np.float32
    assert moments.mean is not None and moments.mean.dtype == np.float64


def test_a_scaler_without_statistics_says_what_to_do() -> None:
    with pytest.raises(NotFittedError, match="StandardRewardScaler is not fitted: call fit .* or pass mean and std"):
        StandardRewardScaler().transform(torch.zeros(1))


def test_a_changed_field_takes_effect() -> None:
    scaler = MinMaxRewardScaler(0.0, 1.0)
    assert scaler.transform(torch.tensor([1.0])).item() == 1.0
    scaler.maximum = 2.0
    assert scaler.transform(torch.tensor([1.0])).item() == 0.5


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda scaler: pickle.loads(pickle.dumps(scaler))])
def test_a_used_scaler_is_copied_and_pickled(copied: Any) -> None:
    scaler = fitted(StandardObservationScaler())
    expected = scaler.transform(torch.ones(1, 2))
    torch.testing.assert_close(copied(scaler).transform(torch.ones(1, 2)), expected)


def test_parts_of_tuple_observations_have_their_own_scalers() -> None:
    parts = [ROWS, ROWS[:, :1] * 10]
    scaler = TupleObservationScaler([MinMaxObservationScaler(), PixelObservationScaler(), StandardObservationScaler()])
    assert not scaler.built
    scaler.fit_with_transition_picker([episode([*parts[:1], *parts], [0.0] * 3, 3)], pick)
    assert scaler.built
    first, _, last = scaler.transform([torch.from_numpy(part) for part in (*parts[:1], *parts)])
    assert (first[0].tolist(), last[1].item()) == ([-1.0, -1.0], 0.0)
    back = scaler.reverse_transform_numpy(scaler.transform_numpy((*parts[:1], *parts)))
    np.testing.assert_allclose(back[2], parts[1], rtol=1e-6, atol=1e-6)
    bounds = TupleObservationScaler([MinMaxObservationScaler()])
    space = gymnasium.spaces.Tuple([gymnasium.spaces.Box(-2.0, 2.0, (1,))])
    bounds.fit_with_env(SimpleNamespace(observation_space=space))
    assert bounds.reverse_transform([torch.ones(1)])[0].item() == 2.0
