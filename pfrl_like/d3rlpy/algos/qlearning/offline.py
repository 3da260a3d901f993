"""Training from a dataset in epochs."""

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from pfrl_like.algos.fitting.epochs import progress_callbacks
from pfrl_like.algos.fitting.fitting import named_scorers
from pfrl_like.d3rlpy.constants import ActionSpace, LoggingStrategy
from pfrl_like.d3rlpy.dataset.library import as_replay_buffer
from pfrl_like.d3rlpy.logging import D3RLPyLogger, NoopAdapterFactory
from pfrl_like.distributed.data_parallel import data_parallel, is_main_process
from pfrl_like.runs.loop import Callback, Clock, run
from pfrl_like.utils.checks import check_counts, levels_to_the_caller


class ActionKindError(TypeError, AssertionError):
    """Raised if only one of algorithm and data has discrete actions."""


def check_kind(algo: Any, discrete: bool, name: str) -> None:
    """Check that an algorithm has the kind of actions of a dataset or an environment.

    Args:
        algo: The algorithm.
        discrete: True if the actions of the data are discrete.
        name: Name of the argument in the error message.

    Raises:
        ActionKindError: If it has another kind.
    """
    kind = ActionSpace.DISCRETE if discrete else ActionSpace.CONTINUOUS
    if algo.get_action_type() not in (kind, ActionSpace.BOTH):
        own, needed = algo.get_action_type().name.lower(), kind.name.lower()
        text = f"{name} has {needed} actions, but {type(algo).__name__} has {own} ones"
        raise ActionKindError(f"{text}: choose an algorithm for {needed} actions")


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


def epochs(algo: Any, dataset: Any, given: Any) -> Iterator[tuple[int, dict[str, float]]]:
    """Train for one epoch per item.

    Args:
        algo: The algorithm.
        dataset: The dataset.
        given: Other arguments of `fit` as attributes.

    Yields:
        The number of the epoch, from 1, and its metrics.
    """
    n_steps, per_epoch = given.n_steps, given.n_steps_per_epoch
    check_counts(n_steps=n_steps, n_steps_per_epoch=per_epoch)
    evaluators = named_scorers(given.evaluators, "evaluators")
    dataset = as_replay_buffer(dataset)
    check_kind(algo, dataset.dataset_info.action_space == ActionSpace.DISCRETE, "dataset")
    if n_steps < per_epoch:
        text = f"n_steps is {n_steps}, less than n_steps_per_epoch, {per_epoch}: fit makes no update"
        warnings.warn(f"{text}; reduce n_steps_per_epoch", UserWarning, stacklevel=levels_to_the_caller())
    for scaler in scalers_to_fit(algo):
        algo.fit_scaler(scaler, dataset)
    if algo.impl is None:
        algo.build_with_dataset(dataset)
    logger = open_log(algo, given, type(algo).__name__)
    by_steps = LoggingStrategy(given.logging_strategy) is LoggingStrategy.STEPS
    metrics: dict[str, float] = {}

    def log(clock: Clock) -> None:
        nonlocal metrics
        if by_steps and clock.t % given.logging_steps == 0:
            metrics = logger.commit(epoch, clock.t)
        if given.callback is not None:
            given.callback(algo, epoch, clock.t)

    with contextlib.closing(logger), learners(algo):
        for epoch in range(1, n_steps // per_epoch + 1):
            clock = Clock(epoch * per_epoch, (epoch - 1) * per_epoch)
            run_with_progress(Updates(algo, dataset, logger), clock, [log], given.show_progress)
            if given.epoch_callback is not None:
                given.epoch_callback(algo, epoch, clock.t)
            for name, evaluator in evaluators.items():
                logger.add_metric(name, evaluator(algo, dataset))
            if not by_steps:
                metrics = logger.commit(epoch, clock.t)
            if epoch % given.save_interval == 0:
                logger.save_model(clock.t, algo)
            yield epoch, metrics


def open_log(algo: Any, given: Any, name: str) -> D3RLPyLogger:
    """Return the log of a training, with the parameters of the algorithm. Of processes that learn together, 0 writes.

    Args:
        algo: The algorithm.
        given: Arguments of `fit` or `fit_online` as attributes.
        name: Name of the training if `experiment_name` is None.

    Raises:
        ValueError: If a number is out of range.
    """
    check_counts(logging_steps=given.logging_steps, save_interval=given.save_interval)
    name = given.experiment_name or name
    writes = is_main_process() or not algo._enable_ddp
    factory = given.logger_adapter if writes else NoopAdapterFactory()
    logger = D3RLPyLogger(algo, factory, name, given.n_steps_per_epoch, given.with_timestamp)
    logger.add_params(algo._config_with_shape().serialize_to_dict())
    return logger


def learners(algo: Any) -> Any:
    """Return the context manager in which processes learn together, if the algorithm has `enable_ddp`."""
    alone = not algo._enable_ddp or algo.impl.agent.learner_group is not None
    return contextlib.nullcontext() if alone else data_parallel(algo.impl.agent)


def run_with_progress(source: Any, clock: Clock, callbacks: list[Callback], show_progress: bool) -> None:
    """Run the training loop.

    Args:
        source: Source of training steps.
        clock: Clock of the run.
        callbacks: Functions that are called with the clock after each step.
        show_progress: True to show a progress bar.
    """
    with progress_callbacks(clock, show_progress) as bars:
        run(source, clock, [*callbacks, *bars])
