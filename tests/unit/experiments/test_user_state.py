"""Which attributes of an object are looked at, as text, to find those that change."""

from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from pfrl_like.experiments import run_state as own_attributes
from pfrl_like.experiments.run_state import OwnAttributes


def test_data_are_not_written_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []
    monkeypatch.setattr(own_attributes, "to_json", written.append)
    mebibytes = np.zeros(1 << 18)
    OwnAttributes(SimpleNamespace(count=1, frames=mebibytes, recorded={"frames": [(mebibytes,)]}))
    assert written == [1]


def test_attributes_that_are_mocks_are_passed_over() -> None:
    owner = SimpleNamespace(count=1, part=mock.Mock(), many=[mock.MagicMock()])
    own = OwnAttributes(owner)
    owner.count = 2
    assert own.saved_state() == {"values": {"count": 2}, "lost": []}
