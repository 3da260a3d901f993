"""Thousands of agents and buffers are saved here."""

import pytest


@pytest.fixture(autouse=True)
def _quickly(no_waiting_for_the_disk: None) -> None:
    """Without the time that a disk takes."""
