"""What TensorBoard writes, and cannot."""

import threading
from pathlib import Path

import pytest
from disk_parts import full_from

from pfrl_like.errors import CheckpointError
from pfrl_like.loggers import TensorBoardLogger

pytest.importorskip("tensorboard")


def test_a_full_disk_is_named_at_every_later_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)  # TensorBoard's thread ends by the same error
    logger = TensorBoardLogger(tmp_path)
    logger.log(1, {"loss": 0.5})
    logger.push()
    with full_from(1):
        for step in (2, 3):
            with pytest.raises(CheckpointError, match="TensorBoard cannot write: File too large"):
                logger.log(step, {"loss": 0.25})
                logger.push()
        with pytest.raises(CheckpointError):
            logger.close()
