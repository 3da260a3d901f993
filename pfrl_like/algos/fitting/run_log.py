"""Where the numbers of an estimator's training go: the console, a folder with CSV and models, TensorBoard."""

import contextlib
import logging
import os
import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Self

from pfrl_like.errors import MissingDependencyError
from pfrl_like.loggers import CSVLogger, MetricsLogger, TensorBoardLogger
from pfrl_like.loggers.adapters import LoggerAdapter
from pfrl_like.runs.secrets import masked
from pfrl_like.storage.atomic import atomic_write
from pfrl_like.storage.json_file import dump_json

_LOGGER = logging.getLogger(__name__)

#: Where TensorBoard looks for runs.
RUNS = "runs"


class RunLog:
    """Metrics of one training, epoch by epoch.

    The folder `logdir/name` has `params.json`, `metrics.csv` and, as they are saved, `model_<step>.pt`.

    Args:
        name: Of the folder.
        save_metrics: Whether anything is written to disk.
        with_timestamp: Whether the time is appended to the name.
        logdir: Where the folder is made.
        verbose: Whether hyperparameters and metrics are printed.
        tensorboard: Whether they go to TensorBoard, too, under `runs`.
        adapter: What takes all of it in the place of folder and TensorBoard, called with the name; None for these.
    """

    def __init__(
        self,
        name: str,
        *,
        save_metrics: bool = True,
        with_timestamp: bool = True,
        logdir: str = "d3rlpy_logs",
        verbose: bool = True,
        tensorboard: bool = True,
        adapter: Callable[[str], LoggerAdapter] | None = None,
    ) -> None:
        self.verbose = verbose
        self.directory: str | None = None
        self._loggers: list[MetricsLogger] = []
        self._adapter: LoggerAdapter | None = None
        if save_metrics and adapter is not None:
            self._adapter = adapter(timestamped(name) if with_timestamp else name)
        elif save_metrics:
            self.directory = _made(os.path.join(logdir, name), with_timestamp)
            self._loggers.append(CSVLogger(os.path.join(self.directory, "metrics.csv")))
        if tensorboard and self.directory is not None:
            self._add_tensorboard(os.path.basename(self.directory))

    def _add_tensorboard(self, name: str) -> None:
        try:
            self._loggers.append(TensorBoardLogger(os.path.join(RUNS, name)))
        except MissingDependencyError as error:
            _LOGGER.warning("%s; tensorboard=False does without", error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        for logger in self._loggers:
            logger.close()
        if self._adapter is not None:
            self._adapter.close()

    def params(self, params: Mapping[str, Any]) -> None:
        """Print the hyperparameters, without secrets, and write them as `params.json`."""
        params = masked(params)
        if self.verbose:
            for name, value in params.items():
                print(f"{name}={value}")
        if self.directory is not None:
            path = os.path.join(self.directory, "params.json")
            atomic_write(path, dump_json(params, path))
        if self._adapter is not None:
            self._adapter.write_params(params)

    def metrics(self, epoch: int, step: int, metrics: Mapping[str, float], unprinted: Collection[str] = ()) -> None:
        """Write the metrics of an epoch, and print them but for those that are named `unprinted`."""
        if self.verbose:
            for name, value in metrics.items():
                if name not in unprinted:
                    print(f"epoch={epoch} step={step} {name}={value:.6f}")
        for logger in self._loggers:
            logger.log(step, {"epoch": epoch, **metrics})
        if self._adapter is not None:
            self._adapter.before_write_metric(epoch, step)
            for name, value in metrics.items():
                self._adapter.write_metric(epoch, step, name, value)
            self._adapter.after_write_metric(epoch, step)

    def save(self, algo: Any, epoch: int, step: int) -> None:
        """Save the model at the end of an epoch, after so many steps, if anything is written."""
        if self.directory is not None:
            algo.save_model(os.path.join(self.directory, f"model_{step}.pt"))
        if self._adapter is not None:
            self._adapter.save_model(epoch, algo)


def timestamped(name: str) -> str:
    """A name with the time appended, to the microsecond, so that no two are alike."""
    time.sleep(1e-6)
    return f"{name}_{datetime.now():%Y%m%d%H%M%S%f}"


def _made(path: str, with_timestamp: bool) -> str:
    """The folder; with the time in its name it is another one than those of all other trainings."""
    if not with_timestamp:
        os.makedirs(path, exist_ok=True)
        return path
    while True:
        with contextlib.suppress(FileExistsError):
            os.makedirs(chosen := timestamped(path))
            return chosen
