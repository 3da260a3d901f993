"""What is sent to a process as it starts: local things by value, shared ones by reference; what cannot be is named."""

import multiprocessing
import pickle
import threading

import numpy as np
import pytest
import torch

from pfrl_like.processes import ProcessArgument, check_sendable
from pfrl_like.processes.worker import resolve_start_method
from pfrl_like.utils import batch_states


def test_tensors_that_are_not_shared_are_copied_and_stay_what_they_are():
    linear = torch.nn.Linear(2, 3)
    views = torch.arange(6.0).view(2, 3).T[1:]
    argument = ProcessArgument({"linear": linear, "call": lambda x: x + 1, "views": views, "empty": torch.empty(0)})
    copy = pickle.loads(pickle.dumps(argument)).value
    assert all(map(torch.equal, copy["linear"].parameters(), linear.parameters()))
    assert torch.equal(copy["views"], views) and copy["empty"].shape == (0,) and copy["call"](1) == 2
    assert not linear.weight.is_shared() and not copy["linear"].weight.is_shared()


def test_arrays_can_grow():
    copy = pickle.loads(pickle.dumps(ProcessArgument(np.zeros(3)))).value
    copy.resize(5, refcheck=False)
    assert copy.shape == (5,)


def test_one_tensor_in_two_places_stays_one():
    weight = torch.nn.Parameter(torch.zeros(2))
    first, second = pickle.loads(pickle.dumps(ProcessArgument((weight, [weight])))).value
    assert first is second[0]


def test_two_tensors_over_one_memory_stay_over_one():
    first = torch.zeros(4)
    copy, view = pickle.loads(pickle.dumps(ProcessArgument((first, first[1:3])))).value
    view[0] = 5
    assert copy.tolist() == [0, 5, 0, 0] and not first.any()


def test_a_value_is_itself_where_nothing_is_pickled():
    value = object()
    assert ProcessArgument(value).value is value


def test_locks_counters_and_shared_tensors_can_be_sent_and_threads_locks_cannot():
    spawn = multiprocessing.get_context("spawn")
    shared = torch.zeros(2).share_memory_()
    check_sendable("agent", (spawn.Lock(), spawn.Value("q"), spawn.Pipe(), shared), "spawn")
    with pytest.raises(TypeError, match='agent cannot be sent to another process: .*; make it there; .*"fork"'):
        check_sendable("agent", threading.Lock(), "spawn", "make it there; ")
    check_sendable("agent", threading.Lock(), "fork")


def test_a_local_function_may_use_the_modules_of_the_package():
    def collate(states):
        return batch_states(states, "cpu", lambda x: x)

    copy = pickle.loads(pickle.dumps(ProcessArgument(collate))).value
    assert copy([torch.ones(1)]).shape == (1, 1)


@pytest.mark.parametrize("chosen", ["spawn", "fork"])
def test_the_start_method_that_is_set_is_heeded(chosen, monkeypatch):
    monkeypatch.setattr("threading.active_count", lambda: 1)  # pytest-xdist has threads of its own
    multiprocessing.set_start_method(chosen)
    assert resolve_start_method(None) == chosen
    assert resolve_start_method("forkserver") == "forkserver"


def test_fork_is_not_the_default_where_threads_run():
    multiprocessing.set_start_method("fork")
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    assert resolve_start_method(None) == "forkserver"
    over.set()
    thread.join()
