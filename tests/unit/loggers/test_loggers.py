"""Where the numbers of runs and fittings are written."""

import csv
import threading
from pathlib import Path
from typing import Any

import pytest
from disk_parts import full_from

from pfrl_like import loggers
from pfrl_like.errors import CheckpointError


def rows_of(path: Path) -> list[dict[str, str]]:
    return [{**row, "elapsed": "0"} for row in csv.DictReader(path.open())]


def logged(path: Path, *calls: tuple[int, dict[str, Any]], append: bool = False) -> list[dict[str, str]]:
    """What a logger leaves that is called so."""
    logger = loggers.CSVLogger(path, append=append)
    for step, metrics in calls:
        logger.log(step, metrics)
    logger.close()
    return rows_of(path)


TWICE = [(10, {"loss": 0.5, "return": 3}), (20, {"return": 4, "loss": 0.25})]  # in another order
IN_ROWS = [
    {"step": "10", "elapsed": "0", "loss": "0.5", "return": "3"},
    {"step": "20", "elapsed": "0", "loss": "0.25", "return": "4"},
]


def test_each_call_is_a_line_whose_columns_are_those_of_the_first(tmp_path: Path) -> None:
    assert logged(tmp_path / "metrics.csv", *TWICE) == IN_ROWS


def test_a_first_line_that_was_damaged_is_mended_by_what_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    logger = loggers.CSVLogger(path)
    logger.log(1, {"loss": 2})
    state = logger.saved_state()
    logger.close()
    path.write_bytes(path.read_bytes().replace(b"loss", b"lost"))
    logger = loggers.CSVLogger(path, append=True)
    logger.restore_state(state)
    logger.log(2, {"loss": 3})
    logger.close()
    assert [row["loss"] for row in rows_of(path)] == ["2", "3"]


def test_a_text_that_is_a_secret_is_masked(tmp_path: Path) -> None:
    [row] = logged(tmp_path / "metrics.csv", (1, {"server": "https://me:pw@host", "token": 5}))
    assert row == {"step": "1", "elapsed": "0", "server": "https://********@host", "token": "5"}


def test_a_file_is_gone_on_with_in_its_own_columns(tmp_path: Path) -> None:
    for call in TWICE:
        found = logged(tmp_path / "metrics.csv", call, append=True)
    assert found == IN_ROWS


@pytest.mark.parametrize("append", [False, True])
def test_other_metrics_are_refused(append: bool, tmp_path: Path) -> None:
    logger = loggers.CSVLogger(tmp_path / "metrics.csv")
    logger.log(10, {"loss": 0.5})
    if append:
        logger.close()
        logger = loggers.CSVLogger(tmp_path / "metrics.csv", append=True)
    with pytest.raises(ValueError, match=r"metrics has \['return'\], expected \['loss'\] as in .*metrics.csv"):
        logger.log(20, {"return": 1.0})
    logger.close()
    assert len(rows_of(tmp_path / "metrics.csv")) == 1


def test_what_a_file_held_is_replaced_unless_it_is_gone_on_with(tmp_path: Path) -> None:
    logged(tmp_path / "metrics.csv", (10, {"loss": 1}))
    assert logged(tmp_path / "metrics.csv", (10, {"return": 1})) == [{"step": "10", "elapsed": "0", "return": "1"}]


# Where adapters put the numbers of a fitting


class Model:
    def save(self, path: str) -> None:
        Path(path).write_text("model")


def steps_of(path: Path) -> list[tuple[str, str, str]]:
    return [(row["epoch"], row["step"], row["value"]) for row in csv.DictReader(path.open())]


def test_each_metric_has_a_file_that_grows(tmp_path: Path) -> None:
    adapter = loggers.FileAdapterFactory(str(tmp_path)).create(None, "run", 10)
    for epoch, step in ((1, 10), (2, 20)):
        for name, value in (("loss", 0.5 * epoch), ("score", 3.0)):
            adapter.write_metric(epoch, step, name, value)
    adapter.close()
    assert steps_of(tmp_path / "run" / "loss.csv") == [("1", "10", "0.5"), ("2", "20", "1.0")]
    assert steps_of(tmp_path / "run" / "score.csv") == [("1", "10", "3.0"), ("2", "20", "3.0")]


def test_a_fitting_of_the_same_name_replaces_what_an_earlier_one_wrote(tmp_path: Path) -> None:
    factory = loggers.FileAdapterFactory(str(tmp_path))
    for value, epochs in ((1.0, 3), (2.0, 2)):
        adapter = factory.create(None, "run", 10)
        for epoch in range(1, epochs + 1):
            adapter.write_metric(epoch, 10 * epoch, "loss", value)
        adapter.close()
    assert steps_of(tmp_path / "run" / "loss.csv") == [("1", "10", "2.0"), ("2", "20", "2.0")]


def test_adapters_of_several_factories_get_everything(tmp_path: Path) -> None:
    folders = [str(tmp_path / name) for name in ("one", "other")]
    factory = loggers.CombineAdapterFactory([loggers.NoopAdapterFactory(), *map(loggers.FileAdapterFactory, folders)])
    adapter: Any = factory.create(None, "run", 10)
    adapter.write_params({"gamma": 0.9})
    adapter.before_write_metric(1, 10)
    adapter.write_metric(1, 10, "loss", 0.5)
    adapter.after_write_metric(1, 10)
    adapter.save_model(1, Model())
    adapter.close()
    for name in ("one", "other"):
        found = {path.name for path in (tmp_path / name / "run").iterdir()}
        assert found == {"params.json", "loss.csv", "model_1.d3"}


# What TensorBoard writes, and cannot


def test_a_full_disk_is_named_at_every_later_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.setattr(threading, "excepthook", lambda _: None)  # TensorBoard's thread ends by the same error
    logger = loggers.TensorBoardLogger(tmp_path)
    logger.log(1, {"loss": 0.5})
    logger.push()
    with full_from(1):
        for step in (2, 3):
            with pytest.raises(CheckpointError, match="TensorBoard cannot write: File too large"):
                logger.log(step, {"loss": 0.25})
                logger.push()
        with pytest.raises(CheckpointError):
            logger.close()
