import copy
import multiprocessing
import pickle
import threading

import numpy as np
import pytest
import torch
from time_parts import run_together

from pfrl_like.context import disable_parallel, in_parallel, parallel
from pfrl_like.gpu import Device, get_gpu_count


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


def test_a_copy_has_the_same_number(two_gpus: None) -> None:
    device = Device(0)
    assert copy.deepcopy(device).get_id() == 0 and device.get_id() == 0


def test_in_parallel_copies_move_on_and_the_device_with_them(two_gpus: None) -> None:
    device = Device(0)
    with parallel():
        first = copy.deepcopy(device)
        assert (first.get_id(), device.get_id()) == (1, 1)
        second = copy.deepcopy(device)  # after the last GPU comes the first
        assert (second.get_id(), device.get_id(), first.get_id()) == (0, 0, 1)
    assert copy.deepcopy(first).get_id() == 1


def test_what_holds_a_device_takes_it_along(two_gpus: None) -> None:
    device = Device(1)
    with parallel():
        held = copy.deepcopy({"use_gpu": device, "again": device})
    assert held["use_gpu"].get_id() == 0 and held["again"] is held["use_gpu"]


def test_blocks_nest_and_end_with_an_error(two_gpus: None) -> None:
    with pytest.raises(KeyError), parallel():
        with parallel():
            pass
        assert copy.deepcopy(Device(0)) == Device(1)
        raise KeyError
    assert copy.deepcopy(Device(0)) == Device(0)


def test_copies_in_other_threads_move_on(two_gpus: None) -> None:
    device, made = Device(0), []
    with parallel():
        threads = [threading.Thread(target=lambda: made.append(copy.deepcopy(device).get_id())) for _ in range(10)]
        run_together(threads)
    assert sorted(made) == [0] * 5 + [1] * 5


def test_without_a_gpu_copies_keep_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with parallel():
        assert copy.deepcopy(Device(3)).get_id() == 3


def test_a_device_travels_to_another_process_with_its_number(two_gpus: None) -> None:
    with parallel():
        assert pickle.loads(pickle.dumps(Device(1))) == Device(1)
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert in_parallel() and not pool.apply(in_parallel)


@pytest.mark.parametrize(
    ("use_gpu", "device"),
    [(True, Device(0)), (1, Device(1)), (0, Device(0)), (np.int64(1), Device(1)), (False, None), (None, None)],
)
def test_use_gpu_names_a_device(use_gpu: object, device: Device | None) -> None:
    assert Device.of(use_gpu) == device


def test_a_device_names_itself() -> None:
    device = Device(1)
    assert Device.of(device) is device


@pytest.mark.parametrize(("use_gpu", "error"), [("cuda", TypeError), (0.5, TypeError), (-1, ValueError)])
def test_what_is_no_gpu_is_refused(use_gpu: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="use_gpu|idx"):
        Device.of(use_gpu)


def test_copies_stay_where_parallel_is_disabled(two_gpus: None) -> None:
    assert get_gpu_count() == 2
    with parallel(), disable_parallel():
        assert copy.deepcopy(Device(0)) == Device(0) and not in_parallel()
        with parallel():
            assert copy.deepcopy(Device(0)) == Device(1)
        assert not in_parallel()
    assert not in_parallel()
