import json
import math
from typing import Any

import pytest
import torch

from pfrl_like.storage.plain_tensors import from_plain, to_plain
from pfrl_like.testing.play import difference


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_nested_tensors_come_back_bit_for_bit(dtype: torch.dtype) -> None:
    value = (torch.randn(2, 3, dtype=dtype), None, (torch.tensor(0.1, dtype=dtype), torch.zeros(0, dtype=dtype)), ())
    back = from_plain(json.loads(json.dumps(to_plain(value), allow_nan=False)), "cpu")
    assert back[0].dtype == dtype
    torch.testing.assert_close(back[0], value[0], rtol=0, atol=0)
    torch.testing.assert_close(back[2], value[2], rtol=0, atol=0)
    assert back[1] is None and back[3] == ()


def test_many_numbers_stay_a_tensor_and_come_back_as_a_copy() -> None:
    many = torch.arange(10_001.0)
    [plain] = to_plain((many,))
    [back] = from_plain([plain], "cpu")
    assert plain is many and torch.equal(back, many) and back.data_ptr() != many.data_ptr()


def test_numbers_that_are_not_finite_come_back_as_nan() -> None:
    back = from_plain(to_plain(torch.tensor([1.0, math.nan, math.inf])), "cpu")
    assert difference(back, torch.tensor([1.0, math.nan, math.nan])) is None


@pytest.mark.parametrize(
    "value", [5, "a", {}, {"dtype": "torch.float32", "values": [[1.0], [1.0, 2.0]]}, [{"dtype": 1}]]
)
def test_what_is_no_such_value_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="a tensor is .* expected its dtype and values"):
        from_plain(value, "cpu")
