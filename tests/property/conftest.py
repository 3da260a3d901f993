"""Lets the tests of this folder import the references beside them, and shares what tests of files need."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="module")
def without_waiting_for_the_disk():
    """What a process leaves behind does not depend on it, and it takes nearly all of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pfrl_like.storage.log_directory.MappedFile.sync", lambda file: None)
        yield
