"""Shared memory is seen by all who attach and leaves no name behind."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from bare_packages import PROLOGUE
from time_parts import wait_until

from pfrl_like.processes.shared_arrays import SharedArrays

LAYOUT = (((2, 3), "<f4"), ((5,), "|u1"), ((), "<i8"))
NAMES = Path("/dev/shm")
needs_names = pytest.mark.skipif(not NAMES.exists(), reason="needs /dev/shm")


@pytest.fixture
def memory():
    memory = SharedArrays(LAYOUT)
    yield memory
    memory.close()


def test_arrays_have_the_layout_and_start_at_zero(memory):
    assert tuple((array.shape, array.dtype.str) for array in memory.arrays) == LAYOUT
    assert not any(array.any() for array in memory.arrays)


def test_what_one_writes_the_other_reads_after_the_name_is_gone(memory):
    other = SharedArrays.attach(memory.name, LAYOUT)
    memory.unlink()
    for number, array in enumerate(memory.arrays):
        array[...] = number + 1
    assert [array.max() for array in other.arrays] == [array.min() for array in other.arrays] == [1, 2, 3]
    other.close()


@needs_names
def test_name_tells_the_process_and_goes_with_the_memory(memory):
    assert re.fullmatch(rf"pl_{os.getpid()}_\d+_\d+", memory.name)
    assert (NAMES / memory.name).exists()
    memory.close()
    assert not (NAMES / memory.name).exists()
    memory.close()
    memory.unlink()


def test_memory_may_be_closed_while_a_view_is_left(memory):
    view = memory.arrays[0]
    memory.close()
    assert view.shape == (2, 3)


@needs_names
def test_too_large_a_block_is_an_error_at_once():
    own = f"pl_{os.getpid()}_*"  # others come and go
    before = set(NAMES.glob(own))
    with pytest.raises(OSError):
        SharedArrays((((1 << 50,), "|u1"),))
    assert set(NAMES.glob(own)) - before == set()


@needs_names
@pytest.mark.parametrize(("owner", "age", "stays"), [("dead", 3600, False), ("dead", 0, True), ("me", 3600, True)])
def test_names_of_dead_processes_are_removed_after_a_minute(owner, age, stays):
    memory = SharedArrays(LAYOUT)
    start_time = memory.name.split("_")[2]
    memory.close()
    dead = int(start_time) + 1  # a process of the same number that started at another time
    path = NAMES / f"pl_{os.getpid()}_{start_time if owner == 'me' else dead}_x"
    path.write_bytes(b"")
    os.utime(path, (time.time() - age,) * 2)
    SharedArrays(LAYOUT).close()
    assert path.exists() == stays
    path.unlink(missing_ok=True)


@needs_names
def test_killed_owner_leaves_no_name():
    code = """
import os, signal
from pfrl_like.processes import SharedArrays
memory = SharedArrays((((3,), "<f4"),))
print(memory.name, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    run = subprocess.run([sys.executable, "-c", PROLOGUE + code], capture_output=True, text=True)
    assert run.stdout.startswith("pl_")
    assert wait_until(lambda: not (NAMES / run.stdout.strip()).exists())


def test_arrays_do_not_overlap():
    memory = SharedArrays((((3,), "|u1"), ((3,), "<f8")))
    memory.arrays[0][:] = 255
    assert memory.arrays[1].tolist() == [0, 0, 0]
    assert np.all([array.ctypes.data % 8 == 0 for array in memory.arrays])
    memory.close()


@pytest.mark.slow
@needs_names
def test_workers_that_were_forked_before_it_was_made_leave_the_memory_to_its_owner():
    code = """
from pfrl_like.processes import Portable, SharedArrays, Workers
from multiprocessing import resource_tracker
def tracker(channel, index):
    SharedArrays.attach(*channel.recv()).close()
    channel.send(resource_tracker._resource_tracker._pid)
workers = Workers(Portable(tracker), [()], start_method="fork")
memory = SharedArrays((((3,), "<f4"),))
workers.send(0, (memory.name, memory.layout))
assert workers.receive(timeout=60) == [resource_tracker._resource_tracker._pid]
workers.close()
memory.close()
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
