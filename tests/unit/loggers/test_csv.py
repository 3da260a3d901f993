"""Metrics in columns."""

import csv
from pathlib import Path

import pytest

from pfrl_like.loggers import CSVLogger


def rows_of(path: Path) -> list[dict[str, str]]:
    return [{**row, "elapsed": "0"} for row in csv.DictReader(path.open())]


def test_each_call_is_a_line_whose_columns_are_those_of_the_first(tmp_path: Path) -> None:
    logger = CSVLogger(tmp_path / "metrics.csv")
    logger.log(10, {"loss": 0.5, "return": 3})
    logger.log(20, {"return": 4, "loss": 0.25})  # in another order
    logger.close()
    assert rows_of(tmp_path / "metrics.csv") == [
        {"step": "10", "elapsed": "0", "loss": "0.5", "return": "3"},
        {"step": "20", "elapsed": "0", "loss": "0.25", "return": "4"},
    ]


def test_a_first_line_that_was_damaged_is_mended_by_what_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    logger = CSVLogger(path)
    logger.log(1, {"loss": 2})
    state = logger.saved_state()
    logger.close()
    path.write_bytes(path.read_bytes().replace(b"loss", b"lost"))
    logger = CSVLogger(path, append=True)
    logger.restore_state(state)
    logger.log(2, {"loss": 3})
    logger.close()
    assert [row["loss"] for row in rows_of(path)] == ["2", "3"]


def test_a_text_that_is_a_secret_is_masked(tmp_path: Path) -> None:
    logger = CSVLogger(tmp_path / "metrics.csv")
    logger.log(1, {"server": "https://me:pw@host", "token": 5})
    logger.close()
    assert rows_of(tmp_path / "metrics.csv") == [
        {"step": "1", "elapsed": "0", "server": "https://********@host", "token": "5"}
    ]


def test_a_file_is_gone_on_with_in_its_own_columns(tmp_path: Path) -> None:
    for step, metrics in ((10, {"loss": 0.5, "return": 3}), (20, {"return": 4, "loss": 0.25})):
        logger = CSVLogger(tmp_path / "metrics.csv", append=True)
        logger.log(step, metrics)
        logger.close()
    assert [(row["step"], row["loss"], row["return"]) for row in rows_of(tmp_path / "metrics.csv")] == [
        ("10", "0.5", "3"), ("20", "0.25", "4"),
    ]  # fmt: skip


@pytest.mark.parametrize("append", [False, True])
def test_other_metrics_are_refused(append: bool, tmp_path: Path) -> None:
    logger = CSVLogger(tmp_path / "metrics.csv")
    logger.log(10, {"loss": 0.5})
    if append:
        logger.close()
        logger = CSVLogger(tmp_path / "metrics.csv", append=True)
    with pytest.raises(ValueError, match=r"metrics has \['return'\], expected \['loss'\] as in .*metrics.csv"):
        logger.log(20, {"return": 1.0})
    logger.close()
    assert len(rows_of(tmp_path / "metrics.csv")) == 1


def test_what_a_file_held_is_replaced_unless_it_is_gone_on_with(tmp_path: Path) -> None:
    for name in ("loss", "return"):
        logger = CSVLogger(tmp_path / "metrics.csv")
        logger.log(10, {name: 1})
        logger.close()
    assert rows_of(tmp_path / "metrics.csv") == [{"step": "10", "elapsed": "0", "return": "1"}]
