from typing import Any

import pytest
import torch

from pfrl_like.gpu import resolve_device


@pytest.mark.parametrize("gpu", [None, -1, -2])
def test_none_and_negative_mean_the_cpu(gpu: int | None) -> None:
    assert resolve_device(gpu) == torch.device("cpu")


@pytest.mark.parametrize("device", ["cpu", "cpu:0", torch.device("cpu"), torch.device("cpu:0")])
def test_device_is_taken_as_text_or_object(device: Any) -> None:
    assert resolve_device(None, device) == torch.device("cpu")
    assert resolve_device(-1, device) == torch.device("cpu")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, "cpu"), ValueError, "gpu=0 and device='cpu' contradict each other"),
        ((0, None), ValueError, "device is cuda:0, but torch finds no CUDA device"),
        ((None, "cuda"), ValueError, "device is cuda:0, but torch finds"),
        ((None, "gpu"), ValueError, "device is 'gpu', expected a device of torch"),
        *((arguments, TypeError, "expected") for arguments in [("0", None), (True, None), (0.0, None), (None, 0)]),
    ],
)
def test_what_is_no_device_that_is_there_is_refused_with_a_sentence(
    arguments: Any, error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(error, match=message):
        resolve_device(*arguments)


def test_gpu_beyond_the_last_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    assert resolve_device(0) == resolve_device(None, "cuda") == resolve_device(0, "cuda:0") == torch.device("cuda:0")
    with pytest.raises(ValueError, match="device is cuda:3, but torch finds 1 CUDA device:"):
        resolve_device(3)
