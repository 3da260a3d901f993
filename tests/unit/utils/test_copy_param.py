import copy
import gc
from typing import Any

import pytest
import torch
from torch import nn

from pfrl_like.utils.copy_param import copy_grad, copy_param, soft_copy_param, synchronize_parameters


def filled(value: float, module: nn.Module | None = None) -> nn.Module:
    """A module with every floating-point number set to one value."""
    module = nn.Linear(2, 2) if module is None else copy.deepcopy(module)
    for tensor in module.state_dict().values():
        tensor.fill_(value)
    return module


def numbers(module: nn.Module) -> set[float]:
    return {number for tensor in module.state_dict().values() for number in tensor.flatten().tolist()}


def test_soft_update_goes_tau_of_the_way_each_time() -> None:
    src, dst = filled(4.0), filled(0.0)
    synchronize_parameters(src, dst, "soft", 0.25)
    assert numbers(dst) == {1.0}
    synchronize_parameters(src, dst, "soft", 0.25)
    assert numbers(dst) == {1.75}  # 1 + 0.25 * (4 - 1)


@pytest.mark.parametrize(
    ("tau", "unless", "expected"), [(0.0, None, 0.0), (1.0, None, 4.0), (0.25, 0.0, 1.0), (0.25, 1.0, 0.0)]
)
def test_soft_update_reaches_both_ends_unless_a_number_on_the_device_says_no(
    tau: float, unless: float | None, expected: float
) -> None:
    dst = filled(0.0)
    synchronize_parameters(filled(4.0), dst, "soft", tau, None if unless is None else torch.tensor(unless))
    assert numbers(dst) == {expected}


def test_buffers_follow_and_counters_are_copied() -> None:
    src, dst = filled(4.0, nn.BatchNorm1d(2)), filled(0.0, nn.BatchNorm1d(2))
    synchronize_parameters(src, dst, "soft", 0.25)
    assert dst.running_mean.tolist() == [1.0, 1.0]
    assert dst.num_batches_tracked.item() == 4
    synchronize_parameters(src, dst, "hard")
    assert numbers(dst) == numbers(src) == {4.0}


def test_tied_weight_moves_once() -> None:
    def tied(value: float) -> nn.Module:
        layer = nn.Linear(2, 2)
        return filled(value, nn.Sequential(layer, layer))

    dst = tied(0.0)
    soft_copy_param(dst, tied(4.0), 0.25)
    assert numbers(dst) == {1.0}


def test_no_gradient_is_recorded_and_none_is_needed() -> None:
    src, dst = filled(4.0), filled(0.0).requires_grad_(False)
    synchronize_parameters(src, dst, "soft", 0.5)
    assert all(p.grad_fn is None for p in [*src.parameters(), *dst.parameters()])


def test_parameters_stay_the_same_objects() -> None:
    dst = filled(0.0)
    before = list(dst.parameters())
    copy_param(dst, filled(4.0))
    assert all(now is then for now, then in zip(dst.parameters(), before, strict=True))


def test_tensors_bound_anew_are_noticed() -> None:
    src, dst = filled(4.0, nn.BatchNorm1d(2)), filled(0.0, nn.BatchNorm1d(2))
    copy_param(dst, src)
    dst.running_mean = torch.zeros(2)
    src.weight = nn.Parameter(torch.full((2,), 9.0))
    copy_param(dst, src)
    assert dst.running_mean.tolist() == [4.0, 4.0]
    assert dst.weight.tolist() == [9.0, 9.0]


def test_modules_cast_to_another_dtype_and_other_sources_are_noticed() -> None:
    src, dst = filled(4.0), filled(0.0)
    copy_param(dst, src)
    copy_param(dst, filled(5.0))
    assert numbers(dst) == {5.0}
    src.double()
    dst.double()
    src.weight.data.fill_(7.0)
    copy_param(dst, src)
    assert numbers(dst) == {4.0, 7.0}


@pytest.mark.slow
def test_modules_are_not_kept_alive() -> None:
    import weakref

    src, dst = filled(4.0), filled(0.0)
    copy_param(dst, src)
    reference = weakref.ref(dst)
    del dst
    gc.collect()
    assert reference() is None


def test_state_that_is_no_tensor_is_copied_the_slow_way() -> None:
    class Counting(nn.Linear):
        """Keeps a number in its state dict."""

        count = 0

        def get_extra_state(self) -> Any:
            return {"count": self.count}

        def set_extra_state(self, state: Any) -> None:
            self.count = state["count"]

    src, dst = Counting(1, 1), Counting(1, 1)
    src.count = 3
    copy_param(dst, src)
    assert dst.count == 3
    assert torch.equal(dst.weight, src.weight)
    with pytest.raises(ValueError, match="Counting has state that is not a tensor"):
        soft_copy_param(dst, src, 0.5)


@pytest.mark.parametrize(
    ("dst", "message"),
    [
        (nn.Linear(2, 3), r"weight is \(2, 2\) torch.float32 in src and \(3, 2\) torch.float32 in dst"),
        (nn.Linear(2, 2, bias=False), r"only one of them has \['bias'\]"),
        (nn.Linear(2, 2).double(), "torch.float64 in dst"),
    ],
)
def test_modules_of_another_form_are_refused(dst: nn.Module, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        synchronize_parameters(nn.Linear(2, 2), dst, "hard")


@pytest.mark.parametrize(
    ("method", "tau", "message"),
    [
        ("medium", None, "method is 'medium', expected 'hard' or 'soft'"),
        ("soft", None, "tau is None"),
        ("soft", 1.5, "tau is 1.5, expected a number from 0 to 1"),
    ],
)
def test_values_out_of_range_are_refused(method: str, tau: float | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        synchronize_parameters(filled(1.0), filled(2.0), method, tau)


def test_gradients_are_copied() -> None:
    src, dst = filled(1.0), filled(2.0)
    src(torch.ones(1, 2)).sum().backward()
    src.bias.grad = None
    copy_grad(dst, src)
    assert dst.weight.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert dst.bias.grad is None
    assert dst.weight.grad is not src.weight.grad
