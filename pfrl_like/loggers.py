"""Recorders of metrics: CSV, TensorBoard, Weights & Biases, MLflow, or a file of text."""

import contextlib
import csv
import enum
import io
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Protocol

from pfrl_like.errors import CheckpointError, MissingDependencyError
from pfrl_like.runs.secrets import masked
from pfrl_like.storage import AppendedFile, Told
from pfrl_like.storage.atomic import atomic_write
from pfrl_like.storage.json_file import dump_json

_LOGGER = logging.getLogger(__name__)

#: The columns before those of the metrics.
_OWN = ["step", "elapsed"]
#: Seconds between writes to the file, so that short episodes do not wait for the disk.
FLUSH_INTERVAL = 1.0


class CSVLogger:
    """Writes a line for every call: step, seconds since the start, and the metrics.

    Args:
        path: The file; what it held is replaced.
        append: Whether to keep what it held and go on below.
        elapsed: Seconds that had passed before.

    Attributes:
        writes_to: The file, so that a runner can say what becomes of a failure.
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
        """Write a line; the first one of a file sets the columns. Secrets in texts are masked.

        Raises:
            ValueError: If the metrics have other names than the columns.
        """
        if self._names is None:
            self._names = [*metrics]
            self._writer.writerow([*_OWN, *metrics])
        elif metrics.keys() != set(self._names):
            raise ValueError(
                f"metrics has {sorted(metrics)}, expected {sorted(self._names)} as in the first line of {self._path}: "
                "what has others needs another directory"
            )
        now = time.monotonic()
        values = [masked(each, name) if isinstance(each := metrics[name], str) else each for name in self._names]
        self._writer.writerow([step, f"{now - self._start:.3f}", *values])
        if now - self._flushed >= FLUSH_INTERVAL:
            self.push()
            self._flushed = now

    def push(self) -> None:
        """Let the file hold all lines, as soon as it can."""
        self._file.push()

    def flush(self) -> None:
        """Let the file hold all lines.

        Raises:
            CheckpointError: If that cannot be.
        """
        self._file.flush()

    def saved_state(self) -> dict[str, Any]:
        """The seconds that have passed, and the metrics that the file has columns of."""
        return {"elapsed": time.monotonic() - self._start, "names": self._names}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Go on counting where `saved_state` was asked for; a first line that has been damaged since is mended."""
        self._start = time.monotonic() - state["elapsed"]
        names = state.get("names")
        if names and self._names and names != self._names and len(names) == len(self._names):
            told = "%s is damaged: its columns were %s and are called %s; its first line is written anew"
            _LOGGER.warning(told, self._path, ", ".join(names), ", ".join(self._names))
            self._names, header = names, io.StringIO()
            csv.writer(header).writerow([*_OWN, *names])
            self._file.flush()
            with open(self._path, "rb") as file:
                self._file.replace(header.getvalue().encode() + file.read().partition(b"\n")[2])

    def close(self) -> None:
        """Write the rest and close the file."""
        self._file.close()


def _columns_of(path: str | os.PathLike[str]) -> list[str]:
    """The metrics that a file has columns of."""
    with open(path, newline="", encoding="utf-8") as file:
        return next(csv.reader(file))[len(_OWN) :]


Pairs = Sequence[tuple[str, Any]]


class TensorBoardLogger:
    """Writes TensorBoard event files, until it cannot.

    Args:
        directory: Where they go.
        step_offset: Step that a run goes on from: TensorBoard hides what older files in the directory have beyond it.
            0 hides nothing.
        suffix: Ends the name of the file.

    Attributes:
        told: Gives a context to write in, where a runner says what becomes of a failure.

    Raises:
        MissingDependencyError: If TensorBoard is not installed.
    """

    def __init__(self, directory: str | os.PathLike[str], *, step_offset: int = 0, suffix: str = "") -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingDependencyError("tensorboard", "use_tensorboard") from error
        self._directory = os.fspath(directory)
        hidden_from = step_offset + 1 if step_offset else None
        self._writer: Any = SummaryWriter(log_dir=self._directory, purge_step=hidden_from, filename_suffix=suffix)
        self.told: Told = contextlib.nullcontext
        self.writes_to = (self,)

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Write each metric under its name with the prefix "train/"."""
        self._write({f"train/{name}": value for name, value in metrics.items()}, step)

    def log_evaluation(self, step: int, agent_stats: Pairs, eval_stats: Mapping[str, Any], env_stats: Pairs) -> None:
        """Write an evaluation under PFRL's names: agent/..., env/..., eval/... and extras/meanplusstdev, ...minusstdev.

        Args:
            step: Steps of training so far.
            agent_stats: (name, value) pairs.
            eval_stats: What `eval_performance` gave.
            env_stats: (name, value) pairs.
        """
        scalars = {f"agent/{name}": value for name, value in agent_stats}
        scalars |= {f"env/{name}": value for name, value in env_stats}
        scalars |= {f"eval/{name}": eval_stats[name] for name in ("mean", "median", "max", "min", "stdev")}
        scalars["extras/meanplusstdev"] = eval_stats["mean"] + eval_stats["stdev"]
        scalars["extras/meanminusstdev"] = eval_stats["mean"] - eval_stats["stdev"]
        self._write(scalars, step)
        self.push()

    def push(self) -> None:
        """Let the files hold all that was logged."""
        with self._writing():
            self._writer.flush()

    def close(self) -> None:
        """Write the rest and close the files."""
        with self._writing():
            self._writer.close()

    def _write(self, scalars: Mapping[str, Any], step: int) -> None:
        with self._writing():
            for name, value in scalars.items():
                self._writer.add_scalar(name, value, step)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """What TensorBoard cannot write ends its thread, and with it everything that would come after."""
        with self.told("what TensorBoard shows"):
            try:
                yield
            except OSError as error:
                reason = f"TensorBoard cannot write: {error.strerror or error}"
                raise CheckpointError(self._directory, reason) from error


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
        path = os.path.join(self.directory, f"{name}.csv")
        with open(path, "w" if new else "a", newline="", encoding="utf-8") as file:
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


class MetricsLogger(Protocol):
    """Takes numbers about one run."""

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Take in some metrics.

        Args:
            step: Environment steps so far.
            metrics: Numbers by name, the same names every time.
        """

    def close(self) -> None:
        """Write what has not been written yet; called once, at the end of the run."""
