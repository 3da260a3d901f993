import json
import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from pfrl_like.dataset import MDPDataset
from pfrl_like.errors import NonFiniteError, NotFittedError
from pfrl_like.preprocessing import (
    ClipRewardScaler,
    ConstantShiftRewardScaler,
    MinMaxRewardScaler,
    MultiplyRewardScaler,
    ReturnBasedRewardScaler,
    StandardRewardScaler,
    make_scaler,
)

SCALERS = [
    MultiplyRewardScaler(10.0),
    ClipRewardScaler(-1.0, 1.0, multiplier=2.0),
    ClipRewardScaler(high=1.0),
    ConstantShiftRewardScaler(-1.0, multiplier=3.0, multiply_first=True),
    ReturnBasedRewardScaler(return_max=5.0, return_min=1.0),
    MinMaxRewardScaler(maximum=4.0, minimum=1.0, multiplier=10.0),
    StandardRewardScaler(mean=1.0, std=2.0, multiplier=10.0),
]
REWARDS = torch.tensor([-3.0, 0.5, 4.0])


@pytest.mark.parametrize("scaler", SCALERS, ids=lambda scaler: type(scaler).__name__)
def test_descriptions_and_pickles_make_equal_scalers(scaler: Any) -> None:
    described = json.loads(json.dumps(scaler.describe()))
    for again in (make_scaler(described, "rewards"), pickle.loads(pickle.dumps(scaler))):
        assert type(again) is type(scaler) and repr(again) == repr(scaler)
        assert torch.equal(again.transform(REWARDS), scaler.transform(REWARDS))


@pytest.mark.parametrize("name", ["multiply", "return", "min_max", "standard"])
def test_names_make_scalers_of_rewards(name: str) -> None:
    scaler = make_scaler(name, "rewards")
    assert scaler is not None and (scaler.get_type(), scaler.column) == (name, "rewards")
    assert scaler.fit([np.array([1.0, 2.0]), np.array([5.0])]).fitted


def test_integers_become_floating_point() -> None:
    for scaler in SCALERS:
        assert scaler.transform(torch.tensor([1, 2])).dtype == torch.float32


def test_returns_are_those_of_episodes() -> None:
    arrays = np.zeros((5, 2)), np.zeros(5, int), np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.array([0, 0, 1, 0, 1])
    data = MDPDataset.from_arrays(*arrays, discrete_action=True)  # returns 7 and 24
    for source in (data, data.episodes, iter(data.episodes)):
        scaler = ReturnBasedRewardScaler().fit(source)
        assert (scaler.return_max, scaler.return_min) == (24.0, 7.0)
    assert ReturnBasedRewardScaler([SimpleNamespace(rewards=[1.0]), np.array([2.0, 2.0])]).return_max == 4.0


def test_a_scaler_without_returns_says_so() -> None:
    scaler = ReturnBasedRewardScaler()
    assert not scaler.fitted
    for use in (scaler.transform, scaler.reverse_transform):
        with pytest.raises(NotFittedError, match="call fit"):
            use(REWARDS)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: MultiplyRewardScaler(0.0), ValueError, "multiplier is 0"),
        (lambda: MinMaxRewardScaler(multiplier=0.0), ValueError, "multiplier is 0"),
        (lambda: StandardRewardScaler(multiplier="a"), TypeError, "multiplier is 'a'"),  # type: ignore[arg-type]
        (lambda: ClipRewardScaler(), ValueError, "low and high are None"),
        (lambda: make_scaler("clip", "rewards"), ValueError, "low and high are None"),
        (lambda: ClipRewardScaler(1.0, -1.0), ValueError, r"high is -1.0, expected no less than low, which is 1.0"),
        (lambda: ConstantShiftRewardScaler(float("nan")), ValueError, "shift is nan"),
        (lambda: ReturnBasedRewardScaler(return_max=1.0), ValueError, "either a dataset or return_max and return_min"),
        (lambda: ReturnBasedRewardScaler(return_max=1.0, return_min=1.0), ValueError, "expected more than return_min"),
        (lambda: ReturnBasedRewardScaler([np.ones(2)]), ValueError, "no span to divide by"),
        (lambda: ReturnBasedRewardScaler([np.array([np.nan])]), NonFiniteError, "rewards of episode 0 has nan"),
        (lambda: ReturnBasedRewardScaler(3), TypeError, "cannot fit a scaler"),
        (lambda: make_scaler(MultiplyRewardScaler(2.0)), ValueError, "a scaler of rewards, not of observations"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
