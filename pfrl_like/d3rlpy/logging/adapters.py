"""Adapters for parameters, metrics and models of a `fit`, their factories, and the logger that averages metrics.

Names of folders and files are those of d3rlpy 2. A metric has the number of its epoch and of its update. The adapters
of `pfrl_like.loggers` write the same values under their own names.
"""

import logging
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Protocol

import numpy as np

from pfrl_like import loggers
from pfrl_like.errors import MissingDependencyError
from pfrl_like.loggers import TensorBoardLogger, call_all
from pfrl_like.runs.secrets import masked

_LOGGER = logging.getLogger(__name__)


class LoggerAdapter(loggers.LoggerAdapter, Protocol):
    """Interface of adapters. A subclass overrides the methods that it needs; the others do nothing."""

    def watch_model(self, epoch: int, step: int) -> None:
        """Called after the metrics of a step were written, to write gradients.

        Args:
            epoch: Number of the epoch, from 1.
            step: Number of updates so far.
        """


class LoggerAdapterFactory(loggers.LoggerAdapterFactory, Protocol):
    """Interface of factories. A factory makes an adapter for each `fit`."""


class NoopAdapter(loggers.NoAdapter, LoggerAdapter):
    """Adapter that discards everything."""

    def watch_model(self, epoch: int, step: int) -> None:
        """Do nothing."""


class NoopAdapterFactory(LoggerAdapterFactory):
    """Makes adapters that discard everything."""

    def create(self, algo: Any, experiment_name: str, n_steps_per_epoch: int) -> NoopAdapter:
        """Make the adapter."""
        return NoopAdapter()


class FileAdapter(loggers.FileAdapter):
    """Writes files to one directory.

    The files are `params.json`, `model_<step>.d3`, `<metric>.csv` with the columns epoch, step and value and no header,
    and `<module>.<parameter>_grad.csv` with the columns epoch, step, min, max, mean and std and a header. Rows are
    appended to files of metrics that exist.

    Args:
        algo: Algorithm. Gradients are those of `algo.impl.modules.get_gradients()`.
        logdir: Directory of the files. It is created if it does not exist.
    """

    def __init__(self, algo: Any, logdir: str) -> None:
        super().__init__(logdir)
        self._algo = algo
        self._watches = False

    @property
    def logdir(self) -> str:
        """Directory of the files."""
        return self.directory

    def write_metric(self, epoch: int, step: int, name: str, value: float) -> None:
        """Append a row to the file of the metric."""
        self._append(name, f"{epoch},{step},{value}")

    def watch_model(self, epoch: int, step: int) -> None:
        """Append a row to the file of each parameter that has a gradient. The first call replaces the files."""
        for name, grad in self._algo.impl.modules.get_gradients():
            if not self._watches:
                self._append(f"{name}_grad", "epoch,step,min,max,mean,std", mode="w")
            self._append(f"{name}_grad", f"{epoch},{step},{grad.min()},{grad.max()},{grad.mean()},{grad.std()}")
        self._watches = True

    def _append(self, name: str, row: str, mode: str = "a") -> None:
        with open(os.path.join(self.directory, f"{name}.csv"), mode, encoding="utf-8") as file:
            file.write(f"{row}\n")


class FileAdapterFactory(LoggerAdapterFactory):
    """Makes a `FileAdapter` for the directory `root_dir/<name of the fit>`.

    Args:
        root_dir: Parent directory of the directories of all fits.
    """

    def __init__(self, root_dir: str = "d3rlpy_logs") -> None:
        self._root_dir = root_dir

    def create(self, algo: Any, experiment_name: str, n_steps_per_epoch: int) -> FileAdapter:
        """Make the adapter."""
        return FileAdapter(algo, os.path.join(self._root_dir, experiment_name))


class TensorboardAdapter(NoopAdapter):
    """Writes metrics, hyperparameters and histograms of gradients for TensorBoard. The time axis is the epoch.

    Args:
        algo: Algorithm. Gradients are those of `algo.impl.modules.get_gradients()`.
        root_dir: Parent of the directory `runs`.
        experiment_name: Name of the directory in `runs`.

    Raises:
        MissingDependencyError: If TensorBoard is not installed.
    """

    def __init__(self, algo: Any, root_dir: str, experiment_name: str) -> None:
        self._algo, self._name = algo, experiment_name
        self._logger = TensorBoardLogger(os.path.join(root_dir, "runs", experiment_name), prefix="metrics/")
        self._params: dict[str, Any] = {}
        self._metrics: dict[str, float] = {}

    def write_params(self, params: Mapping[str, Any]) -> None:
        """Keep the parameters that are single numbers or strings. They are written with the metrics."""
        self._params = {name: value for name, value in masked(params).items() if np.isscalar(value)}

    def before_write_metric(self, epoch: int, step: int) -> None:
        """Start the metrics of a step."""
        self._metrics = {}

    def write_metric(self, epoch: int, step: int, name: str, value: float) -> None:
        """Write `metrics/<name>`."""
        self._logger.log(epoch, {name: value})
        self._metrics[name] = value

    def after_write_metric(self, epoch: int, step: int) -> None:
        """Write the parameters and the metrics to TensorBoard's table of hyperparameters."""
        self._logger.writer.add_hparams(self._params, self._metrics, run_name=self._name, global_step=epoch)

    def watch_model(self, epoch: int, step: int) -> None:
        """Write a histogram `histograms/<module>.<parameter>_grad` for each parameter that has a gradient."""
        for name, grad in self._algo.impl.modules.get_gradients():
            self._logger.writer.add_histogram(f"histograms/{name}_grad", grad, epoch)

    def close(self) -> None:
        """Write the remaining metrics and close the files."""
        self._logger.close()


class TensorboardAdapterFactory(LoggerAdapterFactory):
    """Makes a `TensorboardAdapter` for the directory `root_dir/runs/<name of the fit>`.

    Args:
        root_dir: Parent of the directory `runs`.
    """

    def __init__(self, root_dir: str = "tensorboard_logs") -> None:
        self._root_dir = root_dir

    def create(self, algo: Any, experiment_name: str, n_steps_per_epoch: int) -> TensorboardAdapter:
        """Make the adapter."""
        return TensorboardAdapter(algo, self._root_dir, experiment_name)


class WanDBAdapter(NoopAdapter):
    """Sends parameters, metrics and gradients to Weights & Biases. Secrets in the parameters are masked.

    Args:
        algo: Algorithm. The gradients of `algo.impl.modules.get_torch_modules()` are sent.
        experiment_name: Name of the run.
        n_steps_per_epoch: Number of updates between two sets of gradients.
        project: Name of the project. If None, Weights & Biases chooses it.

    Raises:
        MissingDependencyError: If wandb is not installed.
    """

    def __init__(self, algo: Any, experiment_name: str, n_steps_per_epoch: int, project: str | None = None) -> None:
        try:
            import wandb
        except ImportError as error:
            raise MissingDependencyError("wandb", "WanDBAdapter") from error
        self.run: Any = wandb.init(project=project, name=experiment_name)
        modules = tuple(algo.impl.modules.get_torch_modules().values())
        self.run.watch(modules, log="gradients", log_freq=n_steps_per_epoch)

    def write_params(self, params: Mapping[str, Any]) -> None:
        """Send the parameters."""
        self.run.config.update(masked(params))

    def write_metric(self, epoch: int, step: int, name: str, value: float) -> None:
        """Send a metric and the number of its epoch."""
        self.run.log({name: value, "epoch": epoch}, step=step)

    def close(self) -> None:
        """Finish the run."""
        self.run.finish()


class WanDBAdapterFactory(LoggerAdapterFactory):
    """Makes a `WanDBAdapter`.

    Args:
        project: Name of the project. If None, Weights & Biases chooses it.
    """

    def __init__(self, project: str | None = None) -> None:
        self._project = project

    def create(self, algo: Any, experiment_name: str, n_steps_per_epoch: int) -> WanDBAdapter:
        """Make the adapter."""
        return WanDBAdapter(algo, experiment_name, n_steps_per_epoch, self._project)


class CombineAdapter(loggers.SeveralAdapters):
    """Adapter that calls the same method of several adapters.

    Args:
        adapters: The adapters.
    """

    watch_model = call_all(LoggerAdapter.watch_model)


class CombineAdapterFactory(LoggerAdapterFactory):
    """Makes a `CombineAdapter` with one adapter of each factory.

    Args:
        adapter_factories: The factories.
    """

    def __init__(self, adapter_factories: Sequence[LoggerAdapterFactory]) -> None:
        self._adapter_factories = adapter_factories

    def create(self, algo: Any, experiment_name: str, n_steps_per_epoch: int) -> CombineAdapter:
        """Make the adapter."""
        factories = self._adapter_factories
        return CombineAdapter([each.create(algo, experiment_name, n_steps_per_epoch) for each in factories])


class D3RLPyLogger:
    """Collects the metrics of a `fit`, and writes their means to an adapter.

    Args:
        algo: Algorithm.
        adapter_factory: Factory of the adapter.
        experiment_name: Name of the `fit`.
        n_steps_per_epoch: Number of updates in an epoch.
        with_timestamp: True to append `_YYYYmmddHHMMSS` to the name.

    Attributes:
        adapter: The adapter.
    """

    def __init__(
        self,
        algo: Any,
        adapter_factory: LoggerAdapterFactory,
        experiment_name: str,
        n_steps_per_epoch: int,
        with_timestamp: bool = True,
    ) -> None:
        self._name = f"{experiment_name}_{datetime.now():%Y%m%d%H%M%S}" if with_timestamp else experiment_name
        self.adapter: Any = adapter_factory.create(algo, self._name, n_steps_per_epoch)
        self._values: defaultdict[str, list[float]] = defaultdict(list)

    def add_params(self, params: Mapping[str, Any]) -> None:
        """Write the parameters of the algorithm, JSON values."""
        self.adapter.write_params(params)

    def add_metric(self, name: str, value: float) -> None:
        """Add a value of a metric."""
        self._values[name].append(value)

    @contextmanager
    def measure_time(self, name: str) -> Iterator[None]:
        """Add the seconds that a block takes to the metric `time_<name>`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add_metric(f"time_{name}", time.perf_counter() - start)

    def commit(self, epoch: int, step: int) -> dict[str, float]:
        """Write the mean of each metric since the last call, then the gradients, and return the means.

        Args:
            epoch: Number of the epoch, from 1.
            step: Number of updates so far.
        """
        means = {name: sum(values) / len(values) for name, values in self._values.items()}
        self._values.clear()
        self.adapter.before_write_metric(epoch, step)
        for name, mean in means.items():
            self.adapter.write_metric(epoch, step, name, mean)
        self.adapter.after_write_metric(epoch, step)
        self.adapter.watch_model(epoch, step)
        _LOGGER.info("%s: epoch=%d step=%d %s", self._name, epoch, step, means)
        return means

    def save_model(self, step: int, algo: Any) -> None:
        """Save the algorithm after `step` updates."""
        self.adapter.save_model(step, algo)

    def close(self) -> None:
        """Close the adapter."""
        self.adapter.close()
