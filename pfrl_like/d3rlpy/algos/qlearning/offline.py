"""Training from a dataset in epochs."""

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from pfrl_like.algos.fitting.epochs import progress_callbacks
from pfrl_like.d3rlpy.constants import ActionSpace, LoggingStrategy
from pfrl_like.d3rlpy.dataset.library import from_library_dataset
from pfrl_like.d3rlpy.logging import D3RLPyLogger
from pfrl_like.dataset import MDPDataset as LibraryDataset
from pfrl_like.distributed.data_parallel import data_parallel
from pfrl_like.runs.loop import Callback, Clock, run
from pfrl_like.utils.checks import check_counts, levels_to_the_caller


class ActionKindError(TypeError, AssertionError):
    """Raised if only one of algorithm and data has discrete actions."""


def check_kind(algo: Any, discrete: bool, name: str) -> None:
    """Check that an algorithm has the kind of actions of a dataset or an environment.

    Raises:
        ActionKindError: If it has another kind.
    """
    kind = ActionSpace.DISCRETE if discrete else ActionSpace.CONTINUOUS
    if algo.get_action_type() not in (kind, ActionSpace.BOTH):
        got = f"{name} has {kind.name.lower()} actions, but {type(algo).__name__} has {algo.get_action_type().name.lower()} ones"
        raise ActionKindError(f"{got}: choose an algorithm for {kind.name.lower()} actions")


def scalers_to_fit(algo: Any) -> list[Any]:
    """Return the scalers of an algorithm that are not fitted."""
    scalers = (algo.observation_scaler, algo.action_scaler, algo.reward_scaler)
    return [scaler for scaler in scalers if scaler is not None and not scaler.built]


class Updates:
    """Source of the training loop: makes one update per step of the clock.

    Args:
        algo: The algorithm.
        dataset: Dataset or buffer.
        logger: Log of the metrics.
    """

    def __init__(self, algo: Any, dataset: Any, logger: D3RLPyLogger) -> None:
        self.algo, self.dataset, self.logger = algo, dataset, logger

    def tick(self, clock: Clock) -> tuple[()]:
        """Make one update."""
        with self.logger.measure_time("step"):
            self.update()
        clock.t += 1
        return ()

    def update(self) -> None:
        """Sample a minibatch, learn from it, and log the metrics."""
        with self.logger.measure_time("sample_batch"):
            step = self.algo.learn_from(self.dataset)
        with self.logger.measure_time("algorithm_update"):
            metrics = step()
        for name, value in metrics.items():
            self.logger.add_metric(name, value)


def epochs(
    algo: Any,
    dataset: Any,
    n_steps: int,
    n_steps_per_epoch: int,
    logging_steps: int,
    logging_strategy: LoggingStrategy,
    experiment_name: str | None,
    with_timestamp: bool,
    logger_adapter: Any,
    show_progress: bool,
    save_interval: int,
    evaluators: Mapping[str, Any] | None,
    callback: Any,
    epoch_callback: Any,
) -> Iterator[tuple[int, dict[str, float]]]:
    """Train for one epoch per item. The arguments are those of `fit` of an algorithm.

    Yields:
        The number of the epoch, from 1, and its metrics.
    """
    check_counts(n_steps=n_steps, n_steps_per_epoch=n_steps_per_epoch)
    check_counts(logging_steps=logging_steps, save_interval=save_interval)
    if isinstance(dataset, LibraryDataset):
        dataset = from_library_dataset(dataset)
    check_kind(algo, dataset.dataset_info.action_space == ActionSpace.DISCRETE, "dataset")
    if n_steps < n_steps_per_epoch:
        text = f"n_steps is {n_steps}, less than n_steps_per_epoch, {n_steps_per_epoch}: fit makes no update"
        warnings.warn(f"{text}; reduce n_steps_per_epoch", UserWarning, stacklevel=levels_to_the_caller())
    for scaler in scalers_to_fit(algo):
        scaler.fit_with_transition_picker(dataset.episodes, dataset.transition_picker)
    if algo.impl is None:
        algo.build_with_dataset(dataset)
    name = experiment_name or type(algo).__name__
    logger = D3RLPyLogger(algo, logger_adapter, name, n_steps_per_epoch, with_timestamp)
    logger.add_params(algo._config_with_shape().serialize_to_dict())
    by_steps = LoggingStrategy(logging_strategy) is LoggingStrategy.STEPS
    metrics: dict[str, float] = {}

    def log(clock: Clock) -> None:
        if by_steps and clock.t % logging_steps == 0:
            metrics.update(logger.commit(epoch, clock.t))
        if callback is not None:
            callback(algo, epoch, clock.t)

    with contextlib.closing(logger), learners(algo):
        for epoch in range(1, n_steps // n_steps_per_epoch + 1):
            clock = Clock(epoch * n_steps_per_epoch, (epoch - 1) * n_steps_per_epoch)
            metrics = {}
            train(Updates(algo, dataset, logger), clock, [log], show_progress)
            if epoch_callback is not None:
                epoch_callback(algo, epoch, clock.t)
            for name, evaluator in (evaluators or {}).items():
                logger.add_metric(name, evaluator(algo, dataset))
            if not by_steps:
                metrics = logger.commit(epoch, clock.t)
            if epoch % save_interval == 0:
                logger.save_model(clock.t, algo)
            yield epoch, metrics


def learners(algo: Any) -> Any:
    """Return the context manager in which processes learn together, if the algorithm has `enable_ddp`."""
    return data_parallel(algo.impl.agent) if algo._enable_ddp else contextlib.nullcontext()


def train(source: Any, clock: Clock, callbacks: list[Callback], show_progress: bool) -> None:
    """Run the training loop with a progress bar, or without."""
    with progress_callbacks(clock, show_progress) as bars:
        run(source, clock, [*callbacks, *bars])
