import pytest
from experiment_fakes import Recorder


@pytest.fixture
def agent():
    return Recorder()


@pytest.fixture(autouse=True)
def _quickly(no_waiting_for_the_disk):
    """Without the time that a disk takes for a thousand checkpoints."""
