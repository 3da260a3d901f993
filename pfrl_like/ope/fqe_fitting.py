"""How fitted Q evaluation learns from data: updates in epochs, with metrics, evaluators, callbacks and saved models."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pfrl_like.algos.fitting.epochs import RunLog, UpdateSource, evaluated, shown
from pfrl_like.algos.fitting.fitting import interval_of, logged_every, named_scorers
from pfrl_like.algos.fitting.minibatches import drawn_data, is_first, together
from pfrl_like.dataset.conventions import logged_convention
from pfrl_like.dataset.selection import Selection
from pfrl_like.loggers import (
    FileAdapterFactory,
    LoggerAdapterFactory,
    LoggingStrategy,
)
from pfrl_like.runs.loop import Callback, Clock, run
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
        evaluators: Mapping[str, Evaluator] | Sequence[Evaluator] | None = None,
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
            evaluators: Functions of what is fitted and the data, by name; called after every epoch. Those of a list are
                called as the functions are, a second one of a name with its number.
            callback: Called as (fqe, epoch, steps so far) after every update.
            epoch_callback: The same after every epoch.
            enable_ddp: Whether the processes of a `torch.distributed` group learn together, each from minibatches of
                its own. All have to make as many steps; process 0 alone logs.

        Returns:
            The number of each epoch, from 1 on, and its metrics.

        Raises:
            ValueError: If there is no transition, or the data or a number cannot be.
            TypeError: On data of other actions, or an evaluator that is no function.
            RuntimeError: With `enable_ddp`, if there is no process group.
            NonFiniteError: If a loss is NaN or infinite.
        """
        options = {name: value for name, value in locals().items() if name != "self"}
        return list(self.fitter(**options))

    def fitter(
        self: Any,
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
        evaluators: Mapping[str, Evaluator] | Sequence[Evaluator] | None = None,
        callback: StepCallback | None = None,
        epoch_callback: StepCallback | None = None,
        enable_ddp: bool = False,
    ) -> Iterator[tuple[int, Metrics]]:
        """`fit` as an iterator over its epochs; arguments and errors are those of `fit`.

        Yields:
            The number of the epoch, from 1 on, and its metrics.
        """
        check_counts(
            n_steps=n_steps, n_steps_per_epoch=n_steps_per_epoch, save_interval=save_interval,
            logging_steps=logging_steps,
        )  # fmt: skip
        interval = interval_of(logging_strategy, logging_steps)
        check_function(optional=True, callback=callback, epoch_callback=epoch_callback)
        scorers = _named(evaluators)
        data = dataset if hasattr(dataset, "sample_batch") else Selection(dataset)
        self.build_with_dataset(data)
        size = int(getattr(data, "n_steps", None) or len(data))
        drawn = drawn_data(data, min(self.batch_size, size), self.n_frames, self.observation_shape)
        silent = enable_ddp and not is_first()
        name = experiment_name or type(self).__name__
        log = log_of(self, name, with_timestamp, logger_adapter, n_steps_per_epoch, silent)

        def epochs() -> Iterator[tuple[int, Metrics]]:
            with log, together(self.agent, enable_ddp):
                log.params(self.params() | logged_convention(data))
                for epoch, start in enumerate(range(0, n_steps, n_steps_per_epoch), 1):
                    clock = Clock(min(start + n_steps_per_epoch, n_steps), start)
                    source = UpdateSource(self, drawn, epoch)
                    logs = [] if interval is None else [logged_every(interval, source, log)]
                    with shown(clock, show_progress and not silent) as bar:
                        run(source, clock, [*logs, called(callback, self, epoch), *bar])
                    if epoch % save_interval == 0:  # before evaluators, which are functions of the user's
                        log.save(self, epoch, clock.t)
                    scores = evaluated(self, scorers, dataset)
                    called(epoch_callback, self, epoch)(clock)
                    metrics = source.metrics() | scores
                    log.metrics(epoch, clock.t, metrics if interval is None else scores)
                    yield epoch, metrics

        return epochs()


def _named(evaluators: Any) -> dict[str, Evaluator]:
    """Evaluators by name."""
    if not isinstance(evaluators, Mapping | Sequence | None):
        raise TypeError(f"evaluators is {evaluators!r:.80}, expected functions by name, or a list of functions")
    named: Mapping[Any, Any] = evaluators if isinstance(evaluators, Mapping) else dict(enumerate(evaluators or ()))
    for name, evaluator in named.items():
        check_function(**{f"evaluators[{name!r}]": evaluator})
    return named_scorers(evaluators)


def log_of(
    fqe: Any, name: str, with_timestamp: bool, factory: LoggerAdapterFactory | None, n_steps: int, silent: bool = False
) -> RunLog:
    """The log of a fitting, which an adapter takes.

    Args:
        fqe: What is fitted.
        name: Of the fitting.
        with_timestamp: Whether the time is appended to it.
        factory: Makes the adapter; None for a `FileAdapterFactory`.
        n_steps: Steps of an epoch.
        silent: Whether nothing is logged.
    """
    made = factory or FileAdapterFactory()
    return RunLog(
        name, save_metrics=not silent, with_timestamp=with_timestamp, verbose=False, tensorboard=False,
        adapter=lambda name: made.create(fqe, name, n_steps),
    )  # fmt: skip


def called(callback: StepCallback | None, fqe: Any, epoch: int) -> Callback:
    """Calls a callback of the user's, if there is one, with the time."""
    return lambda clock: None if callback is None else callback(fqe, epoch, clock.t)
