"""Loggers of metrics: CSV files, TensorBoard, and the adapters to which `fit` of an estimator logs."""

import contextlib
import csv
import enum
import functools
import io
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Protocol

from pfrl_like.errors import CheckpointError, MissingDependencyError
from pfrl_like.runs.secrets import masked
from pfrl_like.storage import AppendedFile, ErrorContext
from pfrl_like.storage.atomic import atomic_write
from pfrl_like.storage.json_file import dump_json

_LOGGER = logging.getLogger(__name__)

#: Columns before the columns of the metrics.
_FIRST_COLUMNS = ["step", "elapsed"]
#: Minimum number of seconds between writes to the file, so that writing does not slow down short episodes.
FLUSH_INTERVAL = 1.0


class CSVLogger:
    """Writes a row for every call, with the step, the seconds since the start, and the metrics.

    Args:
        path: Path of the file. If `append` is False, an existing file is replaced.
        append: True to append rows to an existing file.
        elapsed: Number of seconds that earlier parts of the run took. The column "elapsed" starts at this number.

    Attributes:
        writes_to: Tuple with the file that the logger writes. The runner sets the attribute `error_context` of the
            file, which handles failed writes.
    """

    def __init__(self, path: str | os.PathLike[str], *, append: bool = False, elapsed: float = 0.0) -> None:
        new = not (append and os.path.exists(path) and os.path.getsize(path))
        self._path, self._names = path, None if new else _columns_of(path)
        self._file = AppendedFile(path, keep=0 if new else None)
        self.writes_to = (self._file,)
        self._writer = csv.writer(SimpleNamespace(write=lambda text: self._file.hold(text.encode())))
        self._flushed = time.monotonic()
        self._start = self._flushed - elapsed

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Write a row. The first row of a file determines the columns. Secrets in strings are masked.

        Raises:
            ValueError: If the names of the metrics differ from the columns.
        """
        if self._names is None:
            self._names = [*metrics]
            self._writer.writerow([*_FIRST_COLUMNS, *metrics])
        elif metrics.keys() != set(self._names):
            raise ValueError(
                f"metrics has {sorted(metrics)}, expected {sorted(self._names)} as in the first line of {self._path}: "
                "use another directory for other metrics"
            )
        now = time.monotonic()
        values = [masked(each, name) if isinstance(each := metrics[name], str) else each for name in self._names]
        self._writer.writerow([step, f"{now - self._start:.3f}", *values])
        if now - self._flushed >= FLUSH_INTERVAL:
            self.push()
            self._flushed = now

    def push(self) -> None:
        """Write the buffered rows to the file. The file's `error_context` handles a failure."""
        self._file.push()

    def flush(self) -> None:
        """Write all rows to the file.

        Raises:
            CheckpointError: If the file cannot be written.
        """
        self._file.flush()

    def saved_state(self) -> dict[str, Any]:
        """Return the elapsed seconds, and the names of the metrics in the file."""
        return {"elapsed": time.monotonic() - self._start, "names": self._names}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `saved_state`.

        The elapsed time continues from the saved value. If the header of the file is damaged, it is replaced by the
        saved names.
        """
        self._start = time.monotonic() - state["elapsed"]
        names = state.get("names")
        if names and self._names and names != self._names and len(names) == len(self._names):
            text = "%s is damaged: the columns were %s and are now %s; the first line is restored"
            _LOGGER.warning(text, self._path, ", ".join(names), ", ".join(self._names))
            self._names, header = names, io.StringIO()
            csv.writer(header).writerow([*_FIRST_COLUMNS, *names])
            self._file.flush()
            with open(self._path, "rb") as file:
                self._file.replace(header.getvalue().encode() + file.read().partition(b"\n")[2])

    def close(self) -> None:
        """Write the remaining rows and close the file."""
        self._file.close()


def _columns_of(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of the metrics in a file."""
    with open(path, newline="", encoding="utf-8") as file:
        return next(csv.reader(file))[len(_FIRST_COLUMNS) :]


Pairs = Sequence[tuple[str, Any]]


def evaluation_scalars(agent_stats: Pairs, eval_stats: Mapping[str, Any], env_stats: Pairs) -> dict[str, Any]:
    """Return the numbers of an evaluation under PFRL's names; see `TensorBoardLogger.log_evaluation`."""
    mean, stdev = eval_stats["mean"], eval_stats["stdev"]
    scalars = {f"agent/{name}": value for name, value in agent_stats}
    scalars |= {f"env/{name}": value for name, value in env_stats}
    scalars |= {f"eval/{name}": eval_stats[name] for name in ("mean", "median", "max", "min", "stdev")}
    return scalars | {"extras/meanplusstdev": mean + stdev, "extras/meanminusstdev": mean - stdev}


class TensorBoardLogger:
    """Writes TensorBoard event files, until a write fails.

    Args:
        directory: Directory of the event files.
        step_offset: Step from which a run resumes. TensorBoard then hides the later steps of older files in
            `directory`. If 0, TensorBoard hides no steps.
        suffix: Suffix of the file names.
        prefix: Prefix of the names of the metrics that `log` writes.

    Attributes:
        error_context: Function that takes the name of the file and returns the context manager in which the logger
            writes. A runner sets this function to handle failed writes.
        writer: TensorBoard's `SummaryWriter`.
        writes_to: Tuple with this logger. The runner sets the attribute `error_context` of every object in this tuple.

    Raises:
        MissingDependencyError: If TensorBoard is not installed.
    """

    def __init__(
        self, directory: str | os.PathLike[str], *, step_offset: int = 0, suffix: str = "", prefix: str = "train/"
    ) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingDependencyError("tensorboard", "use_tensorboard") from error
        self._directory, self._prefix = os.fspath(directory), prefix
        hidden_from = step_offset + 1 if step_offset else None
        self.writer: Any = SummaryWriter(log_dir=self._directory, purge_step=hidden_from, filename_suffix=suffix)
        self.error_context: ErrorContext = contextlib.nullcontext
        self.writes_to = (self,)

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Write the metrics. Each name gets the prefix."""
        self._write({f"{self._prefix}{name}": value for name, value in metrics.items()}, step)

    def log_evaluation(self, step: int, agent_stats: Pairs, eval_stats: Mapping[str, Any], env_stats: Pairs) -> None:
        """Write an evaluation under PFRL's names: agent/..., env/..., eval/..., extras/mean(plus|minus)stdev.

        Args:
            step: Number of training steps so far.
            agent_stats: Statistics of the agent as (name, value) pairs.
            eval_stats: Statistics of the evaluation, the result of `eval_performance`.
            env_stats: Statistics of the environment as (name, value) pairs.
        """
        self._write(evaluation_scalars(agent_stats, eval_stats, env_stats), step)
        self.push()

    def push(self) -> None:
        """Write all logged metrics to the files."""
        with self._writing():
            self.writer.flush()

    def close(self) -> None:
        """Write the remaining metrics and close the files."""
        with self._writing():
            self.writer.close()

    def _write(self, scalars: Mapping[str, Any], step: int) -> None:
        with self._writing():
            for name, value in scalars.items():
                self.writer.add_scalar(name, value, step)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Context manager for writes that converts an `OSError` into a `CheckpointError`.

        After a failed write, the writing thread of TensorBoard ends, and all later metrics are lost.
        """
        with self.error_context("the TensorBoard file"):
            try:
                yield
            except OSError as error:
                reason = f"TensorBoard cannot write: {error.strerror or error}"
                raise CheckpointError(self._directory, reason) from error


class LoggingStrategy(enum.Enum):
    """Time at which metrics are written: only at the end of every epoch, or also every n steps."""

    EPOCH = "epoch"
    STEPS = "steps"


class LoggerAdapter(Protocol):
    """Interface of adapters. An adapter receives the parameters, metrics and models of one `fit`."""

    def write_params(self, params: Mapping[str, Any]) -> None:
        """Receive the parameters of the algorithm as JSON values."""

    def before_write_metric(self, epoch: int, step: int) -> None:
        """Called before the metrics of a step are written."""

    def write_metric(self, epoch: int, step: int, name: str, value: float) -> None:
        """Receive a metric."""

    def after_write_metric(self, epoch: int, step: int) -> None:
        """Called after the metrics of a step were written."""

    def save_model(self, epoch: int, algo: Any) -> None:
        """Save the algorithm with its method `save`."""

    def close(self) -> None:
        """Called once, at the end of `fit`."""


class LoggerAdapterFactory(Protocol):
    """Interface of factories. A factory makes an adapter for each `fit`."""

    def create(self, algo: Any, experiment_name: str, n_steps_per_epoch: int) -> LoggerAdapter:
        """Make an adapter.

        Args:
            algo: The algorithm that is fitted.
            experiment_name: Name of this `fit`.
            n_steps_per_epoch: Number of steps in an epoch.
        """


class NoAdapter:
    """Adapter that discards everything. Other adapters inherit from this class and override some methods."""

    def write_params(self, params: Mapping[str, Any]) -> None:
        """Do nothing."""

    def before_write_metric(self, epoch: int, step: int) -> None:
        """Do nothing."""

    def write_metric(self, epoch: int, step: int, name: str, value: float) -> None:
        """Do nothing."""

    def after_write_metric(self, epoch: int, step: int) -> None:
        """Do nothing."""

    def save_model(self, epoch: int, algo: Any) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class FileAdapter(NoAdapter):
    """Writes `params.json`, `model_<epoch>.d3`, and a file `<name>.csv` with epoch, step and value for each metric.

    Args:
        directory: Directory of the files. It is created if it does not exist. Existing files of the same names are
            replaced.
    """

    def __init__(self, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)
        self.directory = directory
        self._started_metrics: set[str] = set()

    def write_params(self, params: Mapping[str, Any]) -> None:
        """Write `params.json` with secrets masked."""
        path = os.path.join(self.directory, "params.json")
        atomic_write(path, dump_json(masked(params), path))

    def write_metric(self, epoch: int, step: int, name: str, value: float) -> None:
        """Append a row to the file of the metric. The first row of a metric starts a new file."""
        new = name not in self._started_metrics
        self._started_metrics.add(name)
        path = os.path.join(self.directory, f"{name}.csv")
        with open(path, "w" if new else "a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if new:
                writer.writerow(["epoch", "step", "value"])
            writer.writerow([epoch, step, value])

    def save_model(self, epoch: int, algo: Any) -> None:
        """Save the algorithm in the directory of the metrics."""
        algo.save(os.path.join(self.directory, f"model_{epoch}.d3"))


class TensorBoardAdapter(NoAdapter):
    """Writes metrics for TensorBoard.

    Args:
        directory: Directory of the event files.

    Raises:
        MissingDependencyError: If TensorBoard is not installed.
    """

    def __init__(self, directory: str) -> None:
        self._logger = TensorBoardLogger(directory)

    def write_metric(self, epoch: int, step: int, name: str, value: float) -> None:
        """Write a metric."""
        self._logger.log(step, {name: value})

    def close(self) -> None:
        """Write the remaining metrics and close the files."""
        self._logger.close()


def call_all(method: Callable[..., None]) -> Callable[..., None]:
    """Return a method of `SeveralAdapters` that calls a method of every adapter.

    Args:
        method: Method of `LoggerAdapter`, whose name and signature the returned method has.
    """

    @functools.wraps(method)
    def call(self: "SeveralAdapters", *args: Any, **kwargs: Any) -> None:
        for each in self.adapters:
            getattr(each, method.__name__)(*args, **kwargs)

    return call


class SeveralAdapters:
    """Adapter that calls the same method of several adapters.

    Args:
        adapters: The adapters.
    """

    def __init__(self, adapters: Sequence[LoggerAdapter]) -> None:
        self.adapters = adapters

    write_params = call_all(LoggerAdapter.write_params)
    before_write_metric = call_all(LoggerAdapter.before_write_metric)
    write_metric = call_all(LoggerAdapter.write_metric)
    after_write_metric = call_all(LoggerAdapter.after_write_metric)
    save_model = call_all(LoggerAdapter.save_model)
    close = call_all(LoggerAdapter.close)


class FileAdapterFactory:
    """Makes a `FileAdapter` for the directory `root_dir/<name of the fit>`.

    Args:
        root_dir: Parent directory of the directories of all fits.
    """

    def __init__(self, root_dir: str = "d3rlpy_logs") -> None:
        self.root_dir = root_dir

    def create(self, algo: Any, experiment_name: str, n_steps_per_epoch: int) -> LoggerAdapter:
        """Make the adapter."""
        return FileAdapter(os.path.join(self.root_dir, experiment_name))


class TensorboardAdapterFactory:
    """Makes a `TensorBoardAdapter` for the directory `root_dir/runs/<name of the fit>`.

    Args:
        root_dir: Parent of the directory `runs`.
    """

    def __init__(self, root_dir: str = "tensorboard_logs") -> None:
        self.root_dir = root_dir

    def create(self, algo: Any, experiment_name: str, n_steps_per_epoch: int) -> LoggerAdapter:
        """Make the adapter."""
        return TensorBoardAdapter(os.path.join(self.root_dir, "runs", experiment_name))


class NoopAdapterFactory:
    """Makes adapters that discard everything."""

    def create(self, algo: Any, experiment_name: str, n_steps_per_epoch: int) -> LoggerAdapter:
        """Make the adapter."""
        return NoAdapter()


class CombineAdapterFactory:
    """Makes a `SeveralAdapters` with one adapter of each factory.

    Args:
        factories: The factories.
    """

    def __init__(self, factories: Sequence[LoggerAdapterFactory]) -> None:
        self.factories = factories

    def create(self, algo: Any, experiment_name: str, n_steps_per_epoch: int) -> LoggerAdapter:
        """Make the adapter."""
        return SeveralAdapters([each.create(algo, experiment_name, n_steps_per_epoch) for each in self.factories])


class MetricsLogger(Protocol):
    """Interface of loggers that receive the metrics of one run."""

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Log metrics.

        Args:
            step: Number of environment steps so far.
            metrics: Values of the metrics, keyed by name. The names are the same in every call.
        """

    def close(self) -> None:
        """Write the remaining metrics. The runner calls this method once, at the end of the run."""
