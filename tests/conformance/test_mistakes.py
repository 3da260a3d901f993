"""Each mistake of users gets the error that is pinned; `python tests/support/mistakes.py --write` pins what it gets."""

import logging
from pathlib import Path

import pytest
from mistakes import MISTAKES, error_of, pinned


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_its_error(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    assert error_of(name, tmp_path) == pinned()[name]


def test_every_pinned_error_has_a_mistake() -> None:
    assert [*pinned()] == [*MISTAKES]


def test_no_pinned_error_tells_of_a_machine() -> None:
    assert not [error for error in pinned().values() if "/tmp" in error or "site-packages" in error]
