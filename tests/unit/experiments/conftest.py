import importlib.util
import pathlib
import sys

import pytest

_spec = importlib.util.spec_from_file_location("experiment_fakes", pathlib.Path(__file__).with_name("fakes.py"))
_fakes = importlib.util.module_from_spec(_spec)
sys.modules["experiment_fakes"] = _fakes
_spec.loader.exec_module(_fakes)


@pytest.fixture
def agent():
    return _fakes.Recorder()


@pytest.fixture(autouse=True)
def _quickly(no_waiting_for_the_disk):
    """Without the time that a disk takes for a thousand checkpoints."""
