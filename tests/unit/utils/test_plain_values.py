"""Values come back from JSON as they went, also in their types."""

import json
import math
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch

from pfrl_like.testing.play import difference
from pfrl_like.utils.plain_values import from_json, many_to_json, to_json

VALUES: list[Any] = [
    None, True, 3, -0.5, "text", b"\x00\xff", math.nan, -math.inf, np.float32(0.1), np.int64(-3), np.bool_(True),
    np.zeros((2, 0, 3)), np.array(5), np.arange(6, dtype=np.uint8).reshape(2, 3)[:, ::2], (1, [2.5, (np.ones(2),)]),
    {"a": {1: (), "b": [None]}}, np.array(["x", "yz"]), [],
]  # fmt: skip


def there_and_back(plain: Any) -> Any:
    return json.loads(json.dumps(plain, allow_nan=False))


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back(value: Any) -> None:
    came = from_json(there_and_back(to_json(value)))
    assert type(came) is type(value) and (difference(came, value) is None or came != came)


@pytest.mark.parametrize(
    "values",
    [
        [], [np.int64(1), np.int64(2)], [np.zeros(2, np.float32), np.ones(2, np.float32)], [1, 2], [np.array(1)] * 2,
        [np.zeros(1), np.zeros(2)], [np.int64(1), 2], [(1, np.ones(1))] * 3, [np.zeros(0)] * 3,
    ],
    ids=repr,
)  # fmt: skip
def test_many_come_back(values: Any) -> None:
    came = from_json(there_and_back(many_to_json(values)))
    assert difference(came, values) is None and [type(value) for value in came] == [type(value) for value in values]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6).reshape(2, 3).T, torch.full((2,), 0.1, dtype=torch.bfloat16), torch.tensor(True),
        torch.empty(0, 3), torch.tensor([1 + 2j]).conj(), torch.zeros(3, requires_grad=True),
        torch.nn.Linear(1, 2).weight,
    ],
    ids=["transposed", "bfloat16", "bool", "empty", "conjugate", "with a gradient", "parameter"],
)  # fmt: skip
def test_a_tensor_comes_back(tensor: torch.Tensor) -> None:
    came = from_json(there_and_back(to_json(tensor)))
    assert type(came) is torch.Tensor and came.dtype == tensor.dtype and came.requires_grad == tensor.requires_grad
    assert torch.equal(came, tensor)


class Frames:
    """Stacked when somebody asks."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.arange(3)


def test_arrays_of_others_come_back_as_numpy_arrays() -> None:
    assert from_json(to_json(Frames())).tolist() == [0, 1, 2]
    assert from_json(to_json(OrderedDict(a=1))) == {"a": 1}


ITSELF: list[Any] = []
ITSELF.append(ITSELF)
NOT_SAVED = [
    object(), [lambda: 1], np.array([object()]), {1, 2}, ITSELF, torch.zeros(2).to_sparse(),
    torch.zeros(2, device="meta"),
]  # fmt: skip


@pytest.mark.parametrize("value", NOT_SAVED)
def test_what_cannot_be_saved_is_told(value: Any) -> None:
    with pytest.raises(TypeError):
        to_json(value)


@pytest.mark.parametrize(
    "plain",
    [
        {}, {"float": "x"}, {"a": 1, "b": 2}, {"array": 1}, {"array": ["O", [1], ""]}, {"array": ["<f4", [2], "AAAA"]},
        {"bytes": "?"}, {"array": ["<f4", [10**12], "AAAAAA=="]}, {"dict": [[[], 1]]}, {"unknown": 1}, {"tuple": 5},
        {"unknown": ["<f4", [1], "AAAAAA=="]}, {"tensor": ["torch.float32", [2], "AAAAAA==", False]},
        {"tensor": ["torch.float32", [1] * 65, "AAAAAA==", False]},
        {"tensor": ["torch.load", [1], "AAAAAA==", False]}, {"tensor": ["torch.int64", [1], "AAAAAAAAAAA=", True]},
        {"stack": 1, "scalars": True}, {"stack": ["<f4", [1 << 40, 0], ""], "scalars": False},
        {"stack": ["<f4", [1], "AAAAAA=="]}, [{}],
    ],
)  # fmt: skip
def test_what_is_no_saved_value_is_refused(plain: Any) -> None:
    with pytest.raises(ValueError, match="not a saved value"):
        from_json(plain)
