"""Where the numbers of a fitting go: factories of adapters, which may write files, TensorBoard, both, or nothing."""

import csv
import enum
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pfrl_like.loggers.tensorboard import TensorBoardLogger
from pfrl_like.runs.secrets import masked
from pfrl_like.storage.atomic import atomic_write
from pfrl_like.storage.json_file import dump_json


class LoggingStrategy(enum.Enum):
    """When metrics are written: at the end of every epoch, or every so many steps as well."""

    EPOCH = "epoch"
    STEPS = "steps"


class LoggerAdapter(Protocol):
    """Takes the parameters, metrics and models of one fitting."""

    def write_params(self, params: Mapping[str, Any]) -> None:
        """Take in what is fitted, values that JSON has."""

    def before_write_metric(self, epoch: int, step: int) -> None:
        """Called before the metrics of a step."""

    def write_metric(self, epoch: int, step: int, name: str, value: float) -> None:
        """Take in a metric."""

    def after_write_metric(self, epoch: int, step: int) -> None:
        """Called after the metrics of a step."""

    def save_model(self, epoch: int, algo: Any) -> None:
        """Save what is fitted, by its `save`."""

    def close(self) -> None:
        """Called once, at the end."""


class LoggerAdapterFactory(Protocol):
    """Makes an adapter for each fitting."""

    def create(self, algo: Any, experiment_name: str, n_steps_per_epoch: int) -> LoggerAdapter:
        """An adapter.

        Args:
            algo: What is fitted.
            experiment_name: Name of the fitting.
            n_steps_per_epoch: Steps of an epoch.
        """


class NoAdapter:
    """An adapter that keeps nothing; base of those that keep some of what comes."""

    def write_params(self, params: Mapping[str, Any]) -> None:
        """Keep nothing."""

    def before_write_metric(self, epoch: int, step: int) -> None:
        """Do nothing."""

    def write_metric(self, epoch: int, step: int, name: str, value: float) -> None:
        """Keep nothing."""

    def after_write_metric(self, epoch: int, step: int) -> None:
        """Do nothing."""

    def save_model(self, epoch: int, algo: Any) -> None:
        """Keep nothing."""

    def close(self) -> None:
        """Do nothing."""


class FileAdapter(NoAdapter):
    """Writes `params.json`, `model_<epoch>.d3` and for each metric `<name>.csv` with epoch, step and value.

    Args:
        directory: Where they go; made if it is missing. Files of these names are replaced.
    """

    def __init__(self, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)
        self.directory = directory
        self._begun: set[str] = set()

    def write_params(self, params: Mapping[str, Any]) -> None:
        """Write `params.json`, without secrets."""
        path = os.path.join(self.directory, "params.json")
        atomic_write(path, dump_json(masked(params), path))

    def write_metric(self, epoch: int, step: int, name: str, value: float) -> None:
        """Add a line to the metric's file, of which the first one makes a new file."""
        new = name not in self._begun
        self._begun.add(name)
        with open(
            os.path.join(self.directory, f"{name}.csv"), "w" if new else "a", newline="", encoding="utf-8"
        ) as file:
            writer = csv.writer(file)
            if new:
                writer.writerow(["epoch", "step", "value"])
            writer.writerow([epoch, step, value])

    def save_model(self, epoch: int, algo: Any) -> None:
        """Save it beside the metrics."""
        algo.save(os.path.join(self.directory, f"model_{epoch}.d3"))


class TensorBoardAdapter(NoAdapter):
    """Writes metrics for TensorBoard.

    Args:
        directory: Where its files go.

    Raises:
        MissingDependencyError: If TensorBoard is not installed.
    """

    def __init__(self, directory: str) -> None:
        self._logger = TensorBoardLogger(directory)

    def write_metric(self, epoch: int, step: int, name: str, value: float) -> None:
        """Write it."""
        self._logger.log(step, {name: value})

    def close(self) -> None:
        """Write the rest."""
        self._logger.close()


def _handed_on(name: str) -> Callable[..., None]:
    def method(self: "SeveralAdapters", *arguments: Any) -> None:
        for each in self.adapters:
            getattr(each, name)(*arguments)

    method.__doc__ = "Hand it on."
    return method


class SeveralAdapters:
    """Hands everything on to several adapters.

    Args:
        adapters: The adapters.
    """

    def __init__(self, adapters: Sequence[LoggerAdapter]) -> None:
        self.adapters = adapters

    write_params = _handed_on("write_params")
    before_write_metric = _handed_on("before_write_metric")
    write_metric = _handed_on("write_metric")
    after_write_metric = _handed_on("after_write_metric")
    save_model = _handed_on("save_model")
    close = _handed_on("close")


class FileAdapterFactory:
    """Makes a `FileAdapter` for the directory `root_dir/<name of the fitting>`.

    Args:
        root_dir: Where the directories lie.
    """

    def __init__(self, root_dir: str = "d3rlpy_logs") -> None:
        self.root_dir = root_dir

    def create(self, algo: Any, experiment_name: str, n_steps_per_epoch: int) -> LoggerAdapter:
        """The adapter."""
        return FileAdapter(os.path.join(self.root_dir, experiment_name))


class TensorboardAdapterFactory:
    """Makes a `TensorBoardAdapter` for the directory `root_dir/runs/<name of the fitting>`.

    Args:
        root_dir: Where the directories lie.
    """

    def __init__(self, root_dir: str = "tensorboard_logs") -> None:
        self.root_dir = root_dir

    def create(self, algo: Any, experiment_name: str, n_steps_per_epoch: int) -> LoggerAdapter:
        """The adapter."""
        return TensorBoardAdapter(os.path.join(self.root_dir, "runs", experiment_name))


class NoopAdapterFactory:
    """Makes adapters that keep nothing."""

    def create(self, algo: Any, experiment_name: str, n_steps_per_epoch: int) -> LoggerAdapter:
        """The adapter."""
        return NoAdapter()


class CombineAdapterFactory:
    """Makes the adapters of several factories, which all get everything.

    Args:
        factories: The factories.
    """

    def __init__(self, factories: Sequence[LoggerAdapterFactory]) -> None:
        self.factories = factories

    def create(self, algo: Any, experiment_name: str, n_steps_per_epoch: int) -> LoggerAdapter:
        """The adapter."""
        return SeveralAdapters([each.create(algo, experiment_name, n_steps_per_epoch) for each in self.factories])
