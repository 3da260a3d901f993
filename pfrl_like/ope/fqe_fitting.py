"""How fitted Q evaluation learns from data: updates in epochs, with metrics, evaluators, callbacks and saved models."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from pfrl_like.algos.epochs import evaluated, shown
from pfrl_like.algos.run_log import timestamped
from pfrl_like.algos.together import is_first, together
from pfrl_like.dataset.selection import Selection
from pfrl_like.experiments.loop import Callback, Clock, run
from pfrl_like.experiments.train_agent_offline import DatasetSource
from pfrl_like.loggers.adapters import (
    FileAdapterFactory,
    LoggerAdapter,
    LoggerAdapterFactory,
    LoggingStrategy,
    NoopAdapterFactory,
)
from pfrl_like.utils.checks import check_counts, check_function

#: Called with what is fitted and the data.
Evaluator = Callable[[Any, Any], float]
#: Called with what is fitted, the number of the epoch, from 1 on, and the steps so far.
StepCallback = Callable[[Any, int, int], Any]
Metrics = dict[str, float]


class FittingFQE:
    """The offline training of fitted Q evaluation."""

    def fit(
        self,
        dataset: Any,
        n_steps: int,
        n_steps_per_epoch: int = 10000,
        experiment_name: str | None = None,
        with_timestamp: bool = True,
        logging_steps: int = 500,
        logging_strategy: LoggingStrategy = LoggingStrategy.EPOCH,
        logger_adapter: LoggerAdapterFactory | None = None,
        show_progress: bool = True,
        save_interval: int = 1,
        evaluators: Mapping[str, Evaluator] | None = None,
        callback: StepCallback | None = None,
        epoch_callback: StepCallback | None = None,
        enable_ddp: bool = False,
    ) -> list[tuple[int, Metrics]]:
        """Learn from data; what has learnt already learns on.

        Args:
            dataset: An `MDPDataset`, a list of episodes, or a replay buffer.
            n_steps: Number of updates.
            n_steps_per_epoch: Updates of an epoch; the last one has what is left.
            experiment_name: Name in the logs; None for that of the class.
            with_timestamp: Whether the time is appended to it.
            logging_steps: Updates between metrics, with `LoggingStrategy.STEPS`.
            logging_strategy: When metrics are logged.
            logger_adapter: Makes what they are logged by; None for a `FileAdapterFactory`.
            show_progress: Whether the progress of each epoch is shown.
            save_interval: Epochs between saved models.
            evaluators: Functions of what is fitted and the data, by name; called after every epoch.
            callback: Called as (fqe, epoch, steps so far) after every update.
            epoch_callback: The same after every epoch.
            enable_ddp: Whether the processes of a `torch.distributed` group learn together, each from minibatches of
                its own. All have to make as many steps; process 0 alone logs.

        Returns:
            The number of each epoch, from 1 on, and its metrics.

        Raises:
            ValueError: If there is no transition, or the data or a number cannot be.
            TypeError: On data of other actions.
            RuntimeError: With `enable_ddp`, if there is no process group.
            NonFiniteError: If a loss is NaN or infinite.
        """
        options = {name: value for name, value in locals().items() if name != "self"}
        return list(self.fitter(**options))

    def fitter(
        self,
        dataset: Any,
        n_steps: int,
        n_steps_per_epoch: int = 10000,
        logging_steps: int = 500,
        logging_strategy: LoggingStrategy = LoggingStrategy.EPOCH,
        experiment_name: str | None = None,
        with_timestamp: bool = True,
        logger_adapter: LoggerAdapterFactory | None = None,
        show_progress: bool = True,
        save_interval: int = 1,
        evaluators: Mapping[str, Evaluator] | None = None,
        callback: StepCallback | None = None,
        epoch_callback: StepCallback | None = None,
        enable_ddp: bool = False,
    ) -> Iterator[tuple[int, Metrics]]:
        """`fit` as an iterator over its epochs; arguments and errors are those of `fit`.

        Yields:
            The number of the epoch, from 1 on, and its metrics.
        """
        check_counts(n_steps=n_steps, n_steps_per_epoch=n_steps_per_epoch, save_interval=save_interval)
        check_function(optional=True, callback=callback, epoch_callback=epoch_callback)
        for name, evaluator in (evaluators or {}).items():
            check_function(**{f"evaluators[{name!r}]": evaluator})  # type: ignore[arg-type]
        fqe: Any = self
        data = data_of(dataset)
        fqe.build_with_dataset(data)
        learning = Learning(fqe)
        frames = {} if is_buffer(data) else {"n_frames": fqe.n_frames}
        source = DatasetSource(learning, data, min(fqe.batch_size, size_of(data)), **frames)
        silent = enable_ddp and not is_first()
        factory = NoopAdapterFactory() if silent else logger_adapter
        logs = logs_of(fqe, experiment_name, with_timestamp, factory, n_steps_per_epoch)

        def epochs() -> Iterator[tuple[int, Metrics]]:
            with Log(fqe, learning, logs, logging_strategy, logging_steps) as log, together(fqe.agent, enable_ddp):
                for epoch, start in enumerate(range(0, n_steps, n_steps_per_epoch), 1):
                    clock = Clock(min(start + n_steps_per_epoch, n_steps), start)
                    hooks = [log.step(epoch), called(callback, fqe, epoch)]
                    with shown(clock, show_progress and not silent) as bar:
                        run(source, clock, hooks + bar)
                    if epoch % save_interval == 0:  # before evaluators, which are functions of the user's
                        log.save(epoch)
                    scores = evaluated(fqe, evaluators or {}, dataset)
                    called(epoch_callback, fqe, epoch)(clock)
                    yield epoch, log.end_of_epoch(epoch, clock.t, scores)

        return epochs()


class Learning:
    """What data are drawn for: updates, whose metrics it keeps.

    Args:
        fqe: What is fitted.
    """

    def __init__(self, fqe: Any) -> None:
        agent = fqe.agent
        self.fqe, self.gamma, self.device, self.sampling = fqe, agent.gamma, agent.device, agent.sampling
        self.stats: list[dict[str, torch.Tensor]] = []

    def update(self, batch: Any) -> Any:
        """Learn once."""
        td_error, stats = self.fqe.learn(batch)
        self.stats.append(stats)
        return td_error, stats

    def means(self, start: int = 0) -> Metrics:
        """Means of the metrics from some update on."""
        chosen = self.stats[start:]
        return (
            {name: float(torch.stack([each[name] for each in chosen]).mean()) for name in chosen[0]} if chosen else {}
        )


class Log:
    """Metrics on their way to an adapter, step by step and epoch by epoch.

    Args:
        fqe: What is fitted.
        learning: What keeps the metrics.
        adapter: Where they go.
        strategy: When.
        interval: Steps between them, with `LoggingStrategy.STEPS`.
    """

    def __init__(
        self, fqe: Any, learning: Learning, adapter: LoggerAdapter, strategy: LoggingStrategy, interval: int
    ) -> None:
        check_counts(logging_steps=interval)
        self.fqe, self.learning, self.adapter = fqe, learning, adapter
        self.interval = interval if LoggingStrategy(strategy) is LoggingStrategy.STEPS else None

    def __enter__(self) -> "Log":
        self.adapter.write_params(self.fqe.params())
        return self

    def __exit__(self, *_: Any) -> None:
        self.adapter.close()

    def step(self, epoch: int) -> Callback:
        """Writes metrics whenever they are due within an epoch."""

        def write(clock: Clock) -> None:
            if self.interval is not None and clock.t % self.interval == 0:
                self._write(epoch, clock.t, self.learning.means(-self.interval))

        return write

    def save(self, epoch: int) -> None:
        """Save what has learnt, as that of an epoch."""
        self.adapter.save_model(epoch, self.fqe)

    def end_of_epoch(self, epoch: int, step: int, scores: Metrics) -> Metrics:
        """Write the metrics of an epoch and its scores, and give all of them."""
        metrics = {**self.learning.means(), **scores}
        self.learning.stats.clear()
        self._write(epoch, step, metrics if self.interval is None else scores)
        return metrics

    def _write(self, epoch: int, step: int, metrics: Metrics) -> None:
        self.adapter.before_write_metric(epoch, step)
        for name, value in metrics.items():
            self.adapter.write_metric(epoch, step, name, value)
        self.adapter.after_write_metric(epoch, step)


def is_buffer(data: Any) -> bool:
    """Whether data are a replay buffer."""
    return hasattr(data, "stored_steps")


def data_of(dataset: Any) -> Any:
    """What minibatches are drawn from: a replay buffer or a dataset as it is, or episodes."""
    return dataset if hasattr(dataset, "sample_batch") else Selection(dataset)


def size_of(data: Any) -> int:
    """How many transitions there are."""
    return int(getattr(data, "n_steps", None) or len(data))


def logs_of(
    fqe: Any, name: str | None, with_timestamp: bool, factory: LoggerAdapterFactory | None, n_steps: int, end: str = ""
) -> LoggerAdapter:
    """The adapter of a fitting."""
    name = name or f"{type(fqe).__name__}{end}"
    return (factory or FileAdapterFactory()).create(fqe, timestamped(name) if with_timestamp else name, n_steps)


def called(callback: StepCallback | None, fqe: Any, epoch: int) -> Callback:
    """Calls a callback of the user's, if there is one, with the time."""
    return lambda clock: None if callback is None else callback(fqe, epoch, clock.t)
