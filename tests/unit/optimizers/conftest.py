"""What tests of compiled updates share."""

import pytest
import torch


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions run as they are written."""
    monkeypatch.setattr(torch, "compile", lambda region, **_: region)
