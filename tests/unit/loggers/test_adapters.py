"""Where adapters put the numbers of a fitting."""

import csv
from pathlib import Path
from typing import Any

from pfrl_like.loggers import CombineAdapterFactory, FileAdapterFactory, NoopAdapterFactory


class Model:
    def save(self, path: str) -> None:
        Path(path).write_text("model")


def steps_of(path: Path) -> list[tuple[str, str, str]]:
    return [(row["epoch"], row["step"], row["value"]) for row in csv.DictReader(path.open())]


def test_each_metric_has_a_file_that_grows(tmp_path: Path) -> None:
    adapter = FileAdapterFactory(str(tmp_path)).create(None, "run", 10)
    for epoch, step in ((1, 10), (2, 20)):
        for name, value in (("loss", 0.5 * epoch), ("score", 3.0)):
            adapter.write_metric(epoch, step, name, value)
    adapter.close()
    assert steps_of(tmp_path / "run" / "loss.csv") == [("1", "10", "0.5"), ("2", "20", "1.0")]
    assert steps_of(tmp_path / "run" / "score.csv") == [("1", "10", "3.0"), ("2", "20", "3.0")]


def test_a_fitting_of_the_same_name_replaces_what_an_earlier_one_wrote(tmp_path: Path) -> None:
    factory = FileAdapterFactory(str(tmp_path))
    for value, epochs in ((1.0, 3), (2.0, 2)):
        adapter = factory.create(None, "run", 10)
        for epoch in range(1, epochs + 1):
            adapter.write_metric(epoch, 10 * epoch, "loss", value)
        adapter.close()
    assert steps_of(tmp_path / "run" / "loss.csv") == [("1", "10", "2.0"), ("2", "20", "2.0")]


def test_adapters_of_several_factories_get_everything(tmp_path: Path) -> None:
    folders = [str(tmp_path / name) for name in ("one", "other")]
    factory = CombineAdapterFactory([NoopAdapterFactory(), *map(FileAdapterFactory, folders)])
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
