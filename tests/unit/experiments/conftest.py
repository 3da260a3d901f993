import multiprocessing

import cloudpickle
import pytest
from experiment_fakes import Recorder


@pytest.fixture(scope="module", autouse=True)
def _by_value(request):
    cloudpickle.register_pickle_by_value(request.module)  # workers cannot import a test module


@pytest.fixture
def agent():
    return Recorder()


@pytest.fixture(autouse=True)
def _quickly(no_waiting_for_the_disk, no_haste):
    """Without the time that a disk takes for a thousand checkpoints, and with that which processes need to end."""
    yield
    assert not multiprocessing.active_children()
