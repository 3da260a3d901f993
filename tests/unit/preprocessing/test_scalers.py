import copy
import json
import pickle
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like.dataset import MDPDataset
from pfrl_like.errors import NonFiniteError, NotFittedError
from pfrl_like.preprocessing import (
    ClipRewardScaler,
    ConstantShiftRewardScaler,
    MinMaxActionScaler,
    MinMaxRewardScaler,
    MinMaxScaler,
    MultiplyRewardScaler,
    PixelScaler,
    ReturnBasedRewardScaler,
    Scaler,
    StandardRewardScaler,
    StandardScaler,
    make_scaler,
)
from pfrl_like.preprocessing.scalers import SCALERS

ROWS = np.array([[1.0, 10.0], [3.0, 30.0]])
EPISODE = SimpleNamespace(observations=ROWS, actions=ROWS / 10, rewards=ROWS[:, 0])
#: Names that alone make a scaler.
ALL = [(column, name) for column, names in SCALERS.items() for name in names if name not in {"clip", "shift"}]
IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2)


def made(name: str, column: str = "observations") -> Any:
    return make_scaler(name, column)


@pytest.mark.parametrize(("column", "name"), ALL)
def test_a_scaler_reads_its_own_column(column: str, name: str) -> None:
    longer = SimpleNamespace(observations=2 * ROWS, actions=ROWS, rewards=2 * ROWS[:, 0])
    scaler = made(name, column).fit([EPISODE, longer])
    assert (scaler.get_type(), scaler.column, scaler.fitted) == (name, column, True)
    for value in scaler.get_params().values():
        assert not isinstance(value, np.ndarray) or value.shape == getattr(EPISODE, column).shape[1:]


@pytest.mark.parametrize(
    "data",
    [
        [EPISODE],
        EPISODE,
        SimpleNamespace(episodes=[EPISODE]),
        ROWS,
        torch.from_numpy(ROWS),
        (row[None] for row in ROWS),
        [torch.from_numpy(ROWS)],
        ROWS.astype(np.int32),
    ],
    ids=["episodes", "episode", "dataset", "array", "tensor", "arrays", "tensors", "integers"],
)
def test_every_form_of_data_gives_the_same(data: Any) -> None:
    mean = StandardScaler().fit(data).mean
    assert mean is not None and mean.tolist() == [2.0, 20.0]


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ([], ValueError, "no observations"),
        (np.zeros((0, 2)), ValueError, "no observations"),
        ([ROWS, ROWS[:, :1]], ValueError, r"observations of episode 1 have shape \(2, 1\)"),
        (np.float64(1), ValueError, "shape"),
        ([ROWS, np.array([[1.0, np.nan]])], NonFiniteError, r"observations of episode 1 has nan at index \(0, 1\)"),
        (np.array([[np.inf]]), NonFiniteError, "inf"),
        (np.array([["a"]]), TypeError, "dtype <U1"),
        (np.array([[None]]), TypeError, "dtype object"),
        ("rows", TypeError, "str"),
        (3, TypeError, "int"),
        ({"observations": ROWS}, TypeError, "dict"),
        ([[1.0, 2.0]], TypeError, "episode 0"),
    ],
)
@pytest.mark.parametrize("name", ["min_max", "standard"])
def test_bad_data_is_refused(name: str, data: Any, error: type[Exception], message: str) -> None:
    scaler = made(name)
    with pytest.raises(error, match=message):
        scaler.fit(data)
    assert not scaler.fitted


def test_nan_is_found_in_a_later_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pfrl_like.preprocessing.scaler.PIECE", 2)
    with pytest.raises(NonFiniteError, match=r"from row 2 on has nan at index \(0, 1\)"):
        StandardScaler(np.array([[0.0, 0.0], [0.0, 0.0], [0.0, np.nan]]))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: StandardScaler(mean=[1.0]), ValueError, "needs mean and std, but std is None"),
        (lambda: MinMaxScaler(ROWS, minimum=[0.0]), ValueError, "not both"),
        (lambda: MinMaxScaler(minimum=[2.0], maximum=[1.0]), ValueError, "no less than minimum"),
        (lambda: StandardScaler(mean=[1.0], std=[-1.0]), ValueError, "negative"),
        (lambda: StandardScaler(mean=[1.0], std=[1.0, 2.0]), ValueError, "different shapes"),
        (lambda: StandardScaler(mean=[1.0], std=[np.nan]), NonFiniteError, "std"),
        (lambda: MinMaxActionScaler(SimpleNamespace(actions=np.array([0, 1]))), TypeError, "actions cannot be scaled"),
        (lambda: MultiplyRewardScaler(0.0), ValueError, "multiplier is 0"),
        (lambda: MinMaxRewardScaler(multiplier=0.0), ValueError, "multiplier is 0"),
        (lambda: StandardRewardScaler(multiplier="a"), TypeError, "multiplier is 'a'"),  # type: ignore[arg-type]
        (lambda: ClipRewardScaler(), ValueError, "low and high are None"),
        (lambda: ClipRewardScaler(1.0, -1.0), ValueError, r"high is -1.0, expected no less than low, which is 1.0"),
        (lambda: ConstantShiftRewardScaler(float("nan")), ValueError, "shift is nan"),
        (lambda: ReturnBasedRewardScaler(return_max=1.0), ValueError, "either a dataset or return_max and return_min"),
        (lambda: ReturnBasedRewardScaler(return_max=1.0, return_min=1.0), ValueError, "expected more than return_min"),
        (lambda: ReturnBasedRewardScaler([np.ones(2)]), ValueError, "for equal returns use a MultiplyRewardScaler"),
        (lambda: ReturnBasedRewardScaler([np.array([np.nan])]), NonFiniteError, "rewards of episode 0 has nan"),
        (lambda: ReturnBasedRewardScaler(3), TypeError, "cannot fit a scaler"),
    ],
)
def test_statistics_that_cannot_be_right_are_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("scaler", [MinMaxScaler(), StandardScaler(), ReturnBasedRewardScaler()], ids=repr)
def test_a_scaler_without_statistics_says_so(scaler: Any) -> None:
    assert not scaler.fitted
    for use in (scaler.transform, scaler.reverse_transform):
        with pytest.raises(NotFittedError, match="call fit"):
            use(torch.zeros(1, 2))


FITTED = [
    PixelScaler(), MinMaxScaler(ROWS), StandardScaler(ROWS), MinMaxActionScaler(ROWS), MultiplyRewardScaler(10.0),
    ClipRewardScaler(-1.0, 1.0, multiplier=2.0), ClipRewardScaler(high=1.0),
    ConstantShiftRewardScaler(-1.0, multiplier=3.0, multiply_first=True),
    ReturnBasedRewardScaler(return_max=5.0, return_min=1.0),
    MinMaxRewardScaler(maximum=4.0, minimum=1.0, multiplier=10.0),
    StandardRewardScaler(mean=1.0, std=2.0, multiplier=10.0),
]  # fmt: skip


@pytest.mark.parametrize("scaler", FITTED, ids=lambda scaler: type(scaler).__name__)
def test_descriptions_and_copies_make_equal_scalers(scaler: Any) -> None:
    described = make_scaler(json.loads(json.dumps(scaler.describe())), scaler.column)
    assert eval(repr(scaler), {type(scaler).__name__: type(scaler), "array": np.array}).describe() == scaler.describe()
    x = torch.tensor([[-3.0, 4.0]])
    for again in (described, pickle.loads(pickle.dumps(scaler)), copy.deepcopy(scaler)):
        assert type(again) is type(scaler) and repr(again) == repr(scaler)
        assert torch.equal(again.transform(x), scaler.transform(x))
    for kind in (torch.int64, torch.uint8):
        assert scaler.transform(torch.ones(1, 2, dtype=kind)).dtype == torch.float32


def test_returns_are_those_of_episodes() -> None:
    arrays = np.zeros((5, 2)), np.zeros(5, int), np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.array([0, 0, 1, 0, 1])
    data = MDPDataset.from_arrays(*arrays, discrete_action=True)  # returns 7 and 24
    for source in (data, data.episodes, iter(data.episodes)):
        scaler = ReturnBasedRewardScaler().fit(source)
        assert (scaler.return_max, scaler.return_min) == (24.0, 7.0)
    assert ReturnBasedRewardScaler([SimpleNamespace(rewards=[1.0]), np.array([2.0, 2.0])]).return_max == 4.0


@pytest.mark.parametrize(
    ("scaler", "column", "error", "message"),
    [
        (3, "observations", TypeError, "the scaler of observations is"),
        (MinMaxScaler, "observations", TypeError, "the scaler of observations is"),
        ({"type": "pixel"}, "observations", ValueError, "the scaler of observations is"),
        ({}, "observations", ValueError, "the scaler of observations is"),
        ("standrd", "observations", ValueError, "'standrd'.*nearest is 'standard'"),
        ("minmax", "actions", ValueError, "scaler of actions is 'minmax'.*nearest is 'min_max'"),
        ("clip", "rewards", ValueError, "low and high are None"),
        (MinMaxScaler(), "actions", ValueError, "scales observations, expected a scaler of actions"),
        (MultiplyRewardScaler(2.0), "observations", ValueError, "scales rewards, expected a scaler of observations"),
    ],
)
def test_what_names_no_scaler_is_refused(scaler: Any, column: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make_scaler(scaler, column)


def test_objects_and_none_are_taken_as_they_are() -> None:
    class Own(MinMaxScaler):
        type_name = "own"

    scaler = Own(ROWS)
    assert make_scaler(scaler) is scaler
    assert make_scaler(None) is None


def test_pixels_need_no_fit() -> None:
    scaler = PixelScaler()
    assert scaler.fitted and scaler.get_params() == {}
    assert scaler.fit([]) is scaler


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_floating_point_keeps_its_dtype(dtype: torch.dtype) -> None:
    x = torch.tensor([[1.0, 30.0]], dtype=dtype)
    scaler = MinMaxScaler(ROWS)
    assert scaler.transform(x).dtype == scaler.reverse_transform(x).dtype == dtype
    assert scaler.transform(x).tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize("shape", [(4, 1), (4, 3), (2, 4), (), (2, 4, 2, 2), (2, 3, 2, 1), (3, 2)])
def test_rows_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    rows = IMAGES if len(shape) == 4 or shape == (3, 2) else ROWS
    with pytest.raises(ValueError, match=rf"fitted to rows of \({', '.join(map(str, rows.shape[1:]))},?\)"):
        MinMaxScaler(rows).transform(torch.zeros(shape))


@pytest.mark.parametrize("shape", [(2,), (5, 2), (0, 2), (3, 5, 2)])
def test_any_axes_may_come_before_those_of_a_row(shape: tuple[int, ...]) -> None:
    x = torch.rand(shape)
    torch.testing.assert_close(
        StandardScaler(ROWS).transform(x), (x - torch.tensor([2.0, 20.0])) / torch.tensor([1.0, 10.0])
    )


def test_gradients_pass_even_if_first_used_in_inference_mode() -> None:
    scaler, x = MinMaxScaler(ROWS), torch.zeros(1, 2, requires_grad=True)
    with torch.inference_mode():
        scaler.transform(torch.zeros(1, 2))
    scaler.transform(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[0.5, pytest.approx(0.05)]]


def test_a_new_fit_replaces_the_statistics() -> None:
    scaler = MinMaxScaler(ROWS)
    scaler.transform(torch.zeros(1, 2))
    assert scaler.fit(ROWS * 2).transform(torch.tensor([[6.0, 60.0]])).tolist() == [[1.0, 1.0]]


def test_parameters_are_handed_on_as_they_are() -> None:
    params = StandardScaler(ROWS).get_params()
    again = StandardScaler(**params).get_params()
    assert all(again[name] is params[name] for name in params)  # what scikit-learn's clone asks for
    assert StandardScaler(**params).get_params(deep=True)["mean"] is not params["mean"]


class Policy(nn.Module):
    """A layer between a scaler of observations and one of actions, as an exported policy has it."""

    def __init__(self, observations: Scaler, actions: Scaler, size: int) -> None:
        super().__init__()
        self.observations, self.actions, self.layer = observations, actions, nn.Linear(size, 2)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        features = self.observations.transform(obs).flatten(1)
        return self.actions.reverse_transform(torch.tanh(self.layer(features)))


@pytest.mark.parametrize(
    ("name", "rows"), [("standard", ROWS), ("min_max", ROWS), ("pixel", IMAGES), ("standard", IMAGES)]
)
def test_an_exported_policy_scales(name: str, rows: Any) -> None:
    policy = Policy(made(name).fit(rows), MinMaxActionScaler(ROWS), rows[0].size)
    few = torch.from_numpy(rows) if rows.dtype == np.uint8 else torch.from_numpy(rows).float()
    many = few.repeat(5, *[1] * (few.ndim - 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        traced: Any = torch.jit.trace(policy, few)
    assert torch.equal(traced(many), policy(many))
    exported = torch.export.export(policy, (few,), dynamic_shapes=({0: torch.export.Dim("batch")},), strict=False)
    torch.testing.assert_close(exported.module()(many), policy(many))
    assert torch.equal(policy(few), policy(few))  # no part of the exporter stays behind


def test_flags_are_numbers() -> None:
    rows = np.array([[True, False], [False, False]])
    scaled = MinMaxScaler(rows).transform(torch.from_numpy(rows))
    assert scaled.tolist() == [[1.0, 0.0], [0.0, 0.0]]
