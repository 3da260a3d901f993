"""Estimators write where they are run, so each test runs in a folder of its own; all begin with the same seeds."""

from pathlib import Path

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    np.random.seed(0)
