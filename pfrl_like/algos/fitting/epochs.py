"""Updates and log of the training loop of estimators, and calls of methods that users override."""

import contextlib
import inspect
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Self

from torch import Tensor

from pfrl_like.algos.fitting.hyperparameters import d3rlpy_names
from pfrl_like.algos.fitting.minibatches import SampledData
from pfrl_like.errors import MissingDependencyError
from pfrl_like.experiments.callbacks import Progress
from pfrl_like.experiments.checkpoints import Checkpoints
from pfrl_like.experiments.resume import newest_checkpoint
from pfrl_like.experiments.run_state import RunState
from pfrl_like.loggers import CSVLogger, LoggerAdapter, MetricsLogger, TensorBoardLogger
from pfrl_like.runs.loop import Callback, Clock, Episode, run
from pfrl_like.runs.run_directory import move_earlier_files
from pfrl_like.runs.run_files import FailedWrites
from pfrl_like.runs.secrets import masked
from pfrl_like.storage.atomic import atomic_write
from pfrl_like.storage.json_file import dump_json, parse_json, read_json
from pfrl_like.storage.manifest import WriterLock
from pfrl_like.utils.checks import warn_once

#: Function called as (epoch, updates so far, minibatch). It returns the TD errors (None if unknown) and a dict of
#: losses.
UpdateStep = Callable[[int, int, Any], tuple[Tensor | None, dict[str, Any]]]

#: Methods of d3rlpy that this library never calls; values are advice to users who override them.
NOT_CALLED = d3rlpy_names("methods")
_LOGGER = logging.getLogger(__name__)
#: Directory of the TensorBoard files.
RUNS = "runs"


def is_overridden(owner: Any, *names: str) -> bool:
    """Return True if the user overrides one of these methods in a subclass, in a mixin or by assignment.

    Args:
        owner: Object of a class of this package, or of a subclass.
        names: Names of methods.
    """
    methods = (method for name in names if callable(method := getattr(owner, name, None)))
    # `__module__` cannot be used, because functools.wraps copies it.
    scopes = (getattr(getattr(method, "__func__", method), "__globals__", {}) for method in methods)
    return any(not scope.get("__name__", "").startswith("pfrl_like.") for scope in scopes)


def warn_of_hooks(algo: Any) -> None:
    """Warn if the user overrides a method that d3rlpy calls and this library does not call."""
    for name, advice in NOT_CALLED.items():
        if is_overridden(algo, name):
            kind = type(algo).__name__
            warn_once((kind, name), f"{kind} defines {name}, which this library never calls: {advice}")


def update_step(algo: Any) -> UpdateStep | None:
    """Return the subclass's `update` as an `UpdateStep`; None if no subclass overrides `update`.

    Raises:
        TypeError: If `update` takes neither (epoch, total_step, batch) nor (batch).
    """
    if not is_overridden(algo, "update"):
        return None
    signature, kind = inspect.signature(algo.update), type(algo).__name__
    has_counts = _accepts(signature, 3)
    if not has_counts and not _accepts(signature, 1):
        raise TypeError(f"update of {kind} takes {signature}, expected (epoch, total_step, batch) or (batch)")

    def step(epoch: int, total_step: int, batch: Any) -> tuple[Tensor | None, dict[str, Any]]:
        algo._update_position = epoch, total_step
        algo._last_update = None
        try:
            result = algo.update(epoch, total_step, batch) if has_counts else algo.update(batch)
        finally:
            algo._update_position = None
        td_error, losses = (None, {}) if algo._last_update is None else algo._last_update
        return td_error, _losses_by_name(result, losses, algo)

    return step


def _accepts(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _losses_by_name(result: Any, losses: Mapping[str, Any], algo: Any) -> dict[str, Any]:
    """Return the result of a user's `update` as a dict of losses. The items of a list get the names in `loss_names`.

    Raises:
        TypeError: If `result` is neither a dict, a list nor None.
        ValueError: If the number of losses differs from the number of names.
    """
    if isinstance(result, Mapping):
        return dict(result)
    kind = type(algo).__name__
    if not isinstance(result, Iterable | None):
        raise TypeError(f"update of {kind} returned {result!r:.80}, expected a list or a dict of losses")
    values = [*result] if result is not None else []
    names = [*losses] if len(losses) == len(values) else [*algo.loss_names]
    if values and len(values) != len(names):
        expected = f"one for each of {', '.join(algo.loss_names)}, or a dict of losses"
        raise ValueError(f"update of {kind} returned {len(values)} losses, expected {expected}")
    return {name: value for name, value in zip(names, values, strict=False) if value is not None}


class UpdateSource:
    """Source of the training loop: makes one update per step of the clock and records the losses.

    Args:
        algo: The estimator. Its method `_learn` makes the updates, or `update` if the user overrides `update`.
        data: Source of minibatches, a `TrainingData` or `SampledData`.
        epoch: Number of the epoch.
    """

    def __init__(self, algo: Any, data: Any, epoch: int) -> None:
        self.algo, self.data, self.epoch = algo, data, epoch
        self._losses: list[dict[str, Tensor]] = []
        self._update = update_step(algo)

    def __len__(self) -> int:
        """Return the number of updates so far."""
        return len(self._losses)

    def tick(self, clock: Clock) -> tuple[Episode, ...]:
        """Make one update."""
        batch = self.data.next_batch(self.algo.impl)
        if self._update is None:
            td_error, losses = self.algo._learn(self.epoch, clock.t, batch)
        else:
            td_error, losses = self._update(self.epoch, clock.t, self.data.transitions_of(batch, self.algo))
        self.data.set_td_errors(batch, td_error)
        self._losses.append(losses)
        clock.t += 1
        return ()

    def metrics(self, last: int = 0) -> dict[str, float]:
        """Return mean losses over the `last` updates (0: over all updates); NaN if no update computed the loss."""
        updates = self._losses[-last:]
        names = dict.fromkeys([*self.algo.loss_names, *(name for losses in updates for name in losses)])
        by_name = {name: [losses[name] for losses in updates if name in losses] for name in names}
        return {name: float(sum(values) / len(values)) if values else float("nan") for name, values in by_name.items()}


class OnlineUpdates:
    """Callback of the training loop: makes updates from a replay buffer and records the returns of episodes.

    Args:
        algo: The estimator.
        data: Minibatches sampled from a replay buffer.
        interval: Number of steps between updates.
        n: Number of updates every `interval` steps.
        start: Number of initial steps without updates. There is also no update while the buffer contains fewer
            transitions than a minibatch. If an epoch has no update for this reason, a warning is issued, once per
            process.

    Attributes:
        source: Updates of the current epoch.
        returns: Returns of the episodes that ended in the current epoch.
    """

    source: UpdateSource

    def __init__(self, algo: Any, data: SampledData, interval: int, n: int, start: int) -> None:
        self.algo, self.data = algo, data
        self.interval, self.n, self.start, self.n_updates = interval, n, start, 0
        self._n_steps = 0  # total steps of the training; 0 if no update of this epoch was skipped

    def saved_state(self) -> dict[str, Any]:
        """Return the number of updates."""
        return {"n_updates": self.n_updates}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `saved_state`."""
        self.n_updates = state["n_updates"]

    def begin_epoch(self, epoch: int) -> None:
        """Begin an epoch; warn if the last epoch had no update because the buffer contained too few transitions."""
        if self._n_steps and self.n and not len(self.source):
            stored, size = len(self.data.source), self.data.batch_size
            cause = f"the buffer contains {stored} steps, fewer than batch_size ({size}), and the training has"
            text = f"fit_online made no update in epoch {self.source.epoch}: {cause} {self._n_steps}; reduce batch_size"
            warn_once("fit_online without updates", text)
        self._n_steps = 0
        self.source = UpdateSource(self.algo, self.data, epoch)
        self.returns: list[float] = []

    def __call__(self, clock: Clock) -> None:
        """Make `n` updates every `interval` steps, after the first `start` steps."""
        if clock.between_episodes:  # False for an episode that ends because training ends
            self.returns += [episode.total_reward for episode in clock.ended]
        if clock.t > self.start and clock.t % self.interval == 0:
            if len(self.data.source) < self.data.batch_size:
                self._n_steps = clock.steps
                return
            inner = Clock(self.n_updates + self.n, self.n_updates)
            run(self.source, inner, [])
            self.n_updates = inner.t


@contextlib.contextmanager
def progress_callbacks(clock: Clock, show_progress: bool) -> Iterator[list[Callback]]:
    """Context manager that yields a list with a progress bar, or an empty list if `show_progress` is False."""
    bars = [Progress(clock.steps, clock.t)] if show_progress else []
    try:
        yield [*bars]
    finally:
        for bar in bars:
            bar.close()


class RunLog:
    """Log of one training run: hyperparameters, metrics and models.

    The folder `logdir/name` contains `params.json`, `metrics.csv` and the saved models, `model_<step>.pt`.

    Args:
        training: `Training` with the estimator, the name of the run and the logging options.
        n_steps_per_epoch: Number of steps per epoch.
        env: Environment of the training, whose random streams checkpoints contain. None without an environment.
        source: Object whose state checkpoints contain, for example a `SerialSource`.

    Attributes:
        checkpoint: Function that saves a checkpoint, given the clock, if the run saves checkpoints.
    """

    def __init__(self, training: Any, n_steps_per_epoch: int, env: Any = None, source: Any = None) -> None:
        self.training, self.env, self.source = training, env, source
        self.checkpoint: Callback = lambda clock: None
        name, writes = training.experiment_name, training.save_metrics and training.writes_output
        self.verbose = training.verbose and training.writes_output
        self.directory: str | None = None
        self._loggers: list[MetricsLogger] = []
        self._adapter: LoggerAdapter | None = None
        with contextlib.ExitStack() as opened:  # an error releases the lock
            if writes and training.logger_adapter is not None:
                name = timestamped(name) if training.with_timestamp else name
                self._adapter = training.logger_adapter.create(training.algo, name, n_steps_per_epoch)
            elif writes:
                self.directory = _make_folder(os.path.join(training.logdir, name), training.with_timestamp)
                if training.resume:
                    opened.callback(WriterLock(self.directory).release)
                    self._found = newest_checkpoint(training.algo.impl, source, self.directory, _LOGGER)
                    move_earlier_files(self.directory, self._found.t if self._found else 0, _LOGGER)
                self._loggers.append(CSVLogger(os.path.join(self.directory, "metrics.csv"), append=training.resume))
            if training.tensorboard and self.directory is not None:
                try:
                    path = os.path.join(training.tensorboard_dir or "", RUNS, os.path.basename(self.directory))
                    self._loggers.append(TensorBoardLogger(path))
                except MissingDependencyError:
                    text = "tensorboard is True, but TensorBoard is not installed: metrics are written to %s only"
                    _LOGGER.warning(text, self.directory)
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        with self._opened:
            for logger in self._loggers:
                logger.close()
            if self._adapter is not None:
                self._adapter.close()

    def resume(self, parts: Sequence[Any], clock: Clock) -> None:
        """If the run saves checkpoints, restore the newest one.

        Args:
            parts: Objects whose state checkpoints contain, see `RunState`.
            clock: Clock of the run. Its step is set to the step of the checkpoint.
        """
        agent, folder = self.training.algo.impl, self.directory
        if self.training.resume and folder is not None:
            state = RunState(agent, self.env, self.source, [*parts, *self._loggers])
            if self._found is not None:
                self._found.restore(state, clock, _LOGGER)
            writes, found = FailedWrites(_LOGGER, stops=True), self._found
            checkpoints = Checkpoints(agent, state, None, folder, writes, at_end=True, keep=2, resumed_from=found)
            self.checkpoint = partial(checkpoints.save, suffix="_checkpoint")

    def params(self, params: Mapping[str, Any]) -> None:
        """Print the hyperparameters, without secrets, and write them to `params.json`.

        A run that resumes logs a warning with the values that differ from those in the file.
        """
        params = masked(params)
        if self.verbose:
            for name, value in params.items():
                print(f"{name}={value}")
        if self.directory is not None:
            path = os.path.join(self.directory, "params.json")
            content = dump_json(params, path)
            if self.training.resume and self._found is not None and os.path.exists(path):
                before, now = read_json(path, 1 << 28), parse_json(content, path)
                changed = [f"{name} was {before.get(name)!r:.80}, is {now[name]!r:.80}" for name in now
                           if before.get(name) != now[name]]  # fmt: skip
                if changed:
                    _LOGGER.warning("%s: the run resumes with other values: %s", self.directory, "; ".join(changed))
            atomic_write(path, content)
        if self._adapter is not None:
            self._adapter.write_params(params)

    def metrics(self, epoch: int, step: int, metrics: Mapping[str, float | None]) -> None:
        """Print and write metrics. None means an unknown metric: files contain NaN in its place."""
        known = {name: value for name, value in metrics.items() if value is not None}
        if self.verbose:
            for name, value in known.items():
                print(f"epoch={epoch} step={step} {name}={value:.6f}")
        for logger in self._loggers:
            logger.log(step, {"epoch": epoch, **dict.fromkeys(metrics, float("nan")), **known})
        if self._adapter is not None:
            self._adapter.before_write_metric(epoch, step)
            for name, value in known.items():
                self._adapter.write_metric(epoch, step, name, value)
            self._adapter.after_write_metric(epoch, step)

    def save(self, algo: Any, epoch: int, step: int) -> None:
        """Save the model at the end of an epoch, after `step` steps, if the log writes files or has an adapter."""
        if self.directory is not None:
            algo.save_model(os.path.join(self.directory, f"model_{step}.pt"))
        if self._adapter is not None:
            self._adapter.save_model(epoch, algo)


def timestamped(name: str) -> str:
    """Return the name with the current time appended, in microseconds, so that the name is unique."""
    time.sleep(1e-6)
    return f"{name}_{datetime.now():%Y%m%d%H%M%S%f}"


def _make_folder(path: str, with_timestamp: bool) -> str:
    """Create a folder and return its path. If `with_timestamp` is True, append the time, so that the folder is new."""
    while True:
        with contextlib.suppress(FileExistsError):
            os.makedirs(folder := timestamped(path) if with_timestamp else path, exist_ok=not with_timestamp)
            return folder
