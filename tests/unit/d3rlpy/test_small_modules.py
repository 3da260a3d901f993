"""Seeds, groups of processes, notebooks, and names that only algorithms of users need."""

import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from pfrl_like import d3rlpy, loggers
from pfrl_like.errors import MissingDependencyError


@pytest.fixture(autouse=True)
def _cudnn() -> Any:
    before = torch.backends.cudnn.deterministic
    yield
    torch.backends.cudnn.deterministic = before


def test_a_seed_repeats_the_global_generators() -> None:
    def draws() -> Any:
        d3rlpy.seed(1)
        return random.random(), np.random.random(), torch.rand(1).item()

    assert draws() == draws()


def test_the_strategy_of_logging_is_that_of_the_library() -> None:
    assert d3rlpy.LoggingStrategy is d3rlpy.constants.LoggingStrategy is loggers.LoggingStrategy


def test_a_process_joins_a_group_and_leaves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "WORLD_SIZE": "1", "RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    assert d3rlpy.distributed.init_process_group("gloo") == 0
    d3rlpy.distributed.destroy_process_group()
    assert not torch.distributed.is_initialized()


def test_a_minibatch_of_users_losses_is_refused_with_advice() -> None:
    with pytest.raises(TypeError, match=r"subclass an agent of pfrl_like\.agents"):
        d3rlpy.TorchMiniBatch(*[None] * 8, "cpu")


def test_a_video_is_shown_from_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(HTML=str, display=shown.append))
    (tmp_path / "video.mp4").write_bytes(b"video")
    d3rlpy.notebook_utils.render_video(str(tmp_path / "video.mp4"))
    assert "data:video/mp4;base64,dmlkZW8=" in shown[0]


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("IPython.display", "pyvirtualdisplay.display"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match="pip install IPython"):
        d3rlpy.notebook_utils.render_video("video.mp4")
    with pytest.raises(MissingDependencyError, match="pip install pyvirtualdisplay"):
        d3rlpy.notebook_utils.start_virtual_display()
