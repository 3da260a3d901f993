"""How estimators learn from data: epoch after epoch, with metrics, scores and saved models."""

import dataclasses
import functools
import inspect
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self, TypeVar, cast

from pfrl_like.algos.fitting.epochs import RunLog, UpdateSource, evaluated, shown, warn_of_hooks
from pfrl_like.algos.fitting.hyperparameters import check_folder
from pfrl_like.algos.fitting.minibatches import TrainingData, check_eval_episodes, is_first, together
from pfrl_like.algos.fitting.spaces import check_action_kind, check_scalers_taken
from pfrl_like.dataset.conventions import logged_convention
from pfrl_like.loggers import LoggerAdapterFactory, LoggingStrategy
from pfrl_like.runs.loop import Callback, Clock, run
from pfrl_like.utils.checks import check_counts, check_function

_LOGGER = logging.getLogger(__name__)

#: Called with the estimator and episodes; larger is better.
Scorer = Callable[[Any, Any], float]


#: A method that fits.
Fit = TypeVar("Fit", bound=Callable[..., Any])


def without_targets(fit: Fit) -> Fit:
    """`fit` that overlooks a None as its second argument: there scikit-learn's pipelines hand on targets.

    Where it is not told `n_epochs`, it takes those of the constructor.
    """

    @functools.wraps(fit)
    def fit_without(self: Any, *args: Any, **options: Any) -> Any:
        rest = args[2:] if args[1:2] == (None,) else args[1:]
        if not rest:
            options = epochs_of(self) | options
        return fit(self, *args[:1], *rest, **options)

    return cast(Fit, fit_without)


def epochs_of(algo: Any) -> dict[str, int]:
    """The `n_epochs` that an estimator was constructed with, if any were, by name."""
    return {} if algo.n_epochs is None else {"n_epochs": algo.n_epochs}


class Fitting:
    """The offline training of estimators."""

    @without_targets
    def fit(
        self,
        episodes: Any,
        n_epochs: int = 1000,
        save_metrics: bool = True,
        experiment_name: str | None = None,
        with_timestamp: bool = True,
        logdir: str = "d3rlpy_logs",
        verbose: bool = True,
        show_progress: bool = True,
        tensorboard: bool = True,
        eval_episodes: Any = None,
        save_interval: int = 1,
        scorers: Mapping[str, Scorer] | None = None,
        *,
        n_steps: int | None = None,
        n_steps_per_epoch: int = 10_000,
        callback: Callable[[Any, int, int], Any] | None = None,
        epoch_callback: Callable[[Any, int, int], Any] | None = None,
        logging_strategy: LoggingStrategy = LoggingStrategy.EPOCH,
        logging_steps: int = 500,
        logger_adapter: LoggerAdapterFactory | None = None,
        enable_ddp: bool = False,
    ) -> Self:
        """Learn from episodes; an agent that is there already learns on.

        Args:
            episodes: A dataset or a list of episodes.
            n_epochs: Passes over all transitions, save for the rest of the last minibatch; those of the constructor,
                if it has them and none are given here. A None before it, where scikit-learn hands on targets, is
                overlooked.
            save_metrics: Whether anything is written to disk.
            experiment_name: Name of the folder; None for that of the class.
            with_timestamp: Whether the time is appended to it.
            logdir: Where the folder is made.
            verbose: Whether hyperparameters and metrics are printed.
            show_progress: Whether the progress of each epoch is shown.
            tensorboard: Whether metrics go to TensorBoard, too, under `runs`.
            eval_episodes: What the scorers are called with, after each epoch; most of them need some.
            save_interval: Epochs between saved models.
            scorers: Functions of (estimator, episodes), by name.
            n_steps: Updates in all, in epochs of `n_steps_per_epoch`; None for `n_epochs` passes.
            n_steps_per_epoch: Updates of an epoch then.
            callback: Called with (estimator, epoch, updates so far) after each update.
            epoch_callback: The same after each epoch.
            logging_strategy: Whether losses are logged at the end of every epoch, or every `logging_steps` updates.
            logging_steps: Updates between them then.
            logger_adapter: Makes what takes metrics and models in the place of folder and TensorBoard; one of
                `pfrl_like.loggers`.
            enable_ddp: Whether the processes of a `torch.distributed` group learn together, with averaged gradients;
                each needs as many transitions as the others, and the first one alone prints and writes.

        Returns:
            The estimator itself.

        Raises:
            ValueError: If there is no transition, or the data or a number cannot be.
            TypeError: On discrete actions for an algorithm of continuous ones, and the reverse, those of
                `eval_episodes` included; on what is no function, or no path.
            RuntimeError: With `enable_ddp`, if there is no process group.
            NonFiniteError: If a loss is NaN or infinite.
        """
        options = {name: value for name, value in locals().items() if name != "self"}
        deque(self._epochs(**options), maxlen=0)
        return self

    def fitter(self, *args: Any, **kwargs: Any) -> Iterator[tuple[int, dict[str, float]]]:
        """`fit` as an iterator over its epochs, with the same arguments.

        Yields:
            The number of the epoch and its metrics.
        """
        bound = inspect.signature(self.fit).bind(*args, **kwargs)
        bound.arguments = epochs_of(self) | bound.arguments
        bound.apply_defaults()
        return self._epochs(**bound.arguments)

    def _epochs(
        self: Any, episodes: Any, n_epochs: int, eval_episodes: Any, scorers: Any, **options: Any
    ) -> Iterator[tuple[int, dict[str, float]]]:
        check_counts(n_epochs=n_epochs)
        options["experiment_name"] = options["experiment_name"] or type(self).__name__
        training = Training(self, **options)
        if self.dynamics is not None and not hasattr(self.dynamics, "generate"):
            raise TypeError(f"dynamics is {self.dynamics!r:.80}, expected one of pfrl_like.dynamics, or None")
        warn_of_hooks(self)
        data = TrainingData(episodes, self.batch_size, self.n_frames, self.learns_next_observations)
        self._build_for(data)
        if self.dynamics is None and len(data.source) < self.batch_size:
            follows = "each minibatch is all of them, and a pass is one update"
            _LOGGER.warning(
                "batch_size is %d, but there are %d transitions: %s", self.batch_size, len(data.source), follows
            )
        named = named_scorers(scorers)
        if named:
            check_eval_episodes(self, eval_episodes)
        yield from training.epochs(data, named, eval_episodes, n_epochs)

    def _build_for(self: Any, data: TrainingData) -> None:
        """Build the agent, or refuse data that it is not built for."""
        selection = data.source
        check_action_kind(self, selection.discrete_action)
        if self.impl is None:
            self.fit_scaler(selection.episodes)
            self.create_impl(selection.observation_shape, selection.action_size)
            if not self.discrete_action and hasattr(self.impl, "policy"):
                actions = (self._actions(episode.told("actions")) for episode in selection.episodes)
                largest = max(float(each.abs().max()) for each in actions)
                if largest > 1 + 1e-5:  # more than rounding
                    reach = "but policies act in [-1, 1]: action_scaler='min_max' scales them"
                    _LOGGER.warning("actions of the data are as large as %g, %s", largest, reach)
        check_scalers_taken(self)
        self.check_shapes(selection.observation_shape, selection.action_size)
        self.retune()


@dataclasses.dataclass
class Training:
    """How an estimator, or what is fitted like one, is trained: its epochs, and what is logged.

    Arguments that are not named here are those of `Fitting.fit`.

    Args:
        algo: What is fitted.
        experiment_name: Name in the logs.
        n_steps: Steps in all; None for passes over the data.
        first: Number of the first epoch.

    Attributes:
        interval: Steps between logged losses; None if they are logged at the end of every epoch.
        speaks: Whether this process prints and writes.

    Raises:
        ValueError: If a number cannot be, or the folder.
        TypeError: If one is no integer, or a callback no function.
    """

    algo: Any
    experiment_name: str
    n_steps: int | None
    n_steps_per_epoch: int
    save_interval: int
    show_progress: bool
    callback: Callable[[Any, int, int], Any] | None
    epoch_callback: Callable[[Any, int, int], Any] | None = None
    logging_strategy: LoggingStrategy = LoggingStrategy.EPOCH
    logging_steps: int = 500
    logger_adapter: LoggerAdapterFactory | None = None
    enable_ddp: bool = False
    with_timestamp: bool = True
    save_metrics: bool = True
    logdir: str = "d3rlpy_logs"
    verbose: bool = True
    tensorboard: bool = True
    first: int = 0

    def __post_init__(self) -> None:
        check_counts(
            n_steps_per_epoch=self.n_steps_per_epoch, save_interval=self.save_interval, logging_steps=self.logging_steps
        )
        check_counts(optional=True, n_steps=self.n_steps)
        check_function(optional=True, callback=self.callback, epoch_callback=self.epoch_callback)
        by_steps = LoggingStrategy(self.logging_strategy) is LoggingStrategy.STEPS
        self.interval = self.logging_steps if by_steps else None
        self.speaks = not self.enable_ddp or is_first()
        if self.save_metrics and self.logger_adapter is None:
            check_folder(self.logdir, self.experiment_name, self.with_timestamp)

    def log(self, n_steps_per_epoch: int) -> RunLog:
        """The log of a training with so many steps an epoch."""
        adapter = self.logger_adapter
        return RunLog(
            self.experiment_name, save_metrics=self.save_metrics and self.speaks, with_timestamp=self.with_timestamp,
            logdir=self.logdir, verbose=self.verbose and self.speaks, tensorboard=self.tensorboard,
            adapter=None if adapter is None else lambda name: adapter.create(self.algo, name, n_steps_per_epoch),
        )  # fmt: skip

    def called(self, callback: Callable[[Any, int, int], Any] | None, epoch: int) -> list[Callback]:
        """A callback of the user's, if there is one, as a callback of the loop."""
        return [] if callback is None else [lambda clock: callback(self.algo, epoch, clock.t)]

    def epochs(
        self, data: Any, scorers: Mapping[str, Scorer], eval_episodes: Any, n_epochs: int = 0
    ) -> Iterator[tuple[int, dict[str, float]]]:
        """Learn from data.

        Args:
            data: Where minibatches come from.
            scorers: Called after every epoch, by name.
            eval_episodes: What they are called with.
            n_epochs: Passes over the data, if `n_steps` is None.

        Yields:
            The number of the epoch and its metrics.
        """
        algo, epoch, step = self.algo, self.first, 0
        algo.eval_results_ = {name: list[float]() for name in scorers}
        per_epoch = len(data) if self.n_steps is None else self.n_steps_per_epoch
        with together(algo.impl, self.enable_ddp), self.log(per_epoch) as log:
            log.params(algo._json_params() | logged_convention(data.source))
            while epoch < n_epochs if self.n_steps is None else step < self.n_steps:
                data.begin_epoch(algo)
                length = len(data) if self.n_steps is None else min(per_epoch, self.n_steps - step)
                source, clock = UpdateSource(algo, data, epoch), Clock(step + length, step)
                hooks = self.called(self.callback, epoch)
                if self.interval is not None:
                    hooks.append(logged_every(self.interval, source, log, [*algo.state_names, *scorers]))
                with shown(clock, self.show_progress and self.speaks) as bar:
                    run(source, clock, hooks + bar)
                step = clock.t
                if (epoch - self.first + 1) % self.save_interval == 0:  # before scorers, functions of the user's
                    log.save(algo, epoch, step)
                scores = evaluated(algo, scorers, eval_episodes)
                for name, score in scores.items():
                    algo.eval_results_[name].append(score)
                scores = state_metrics(algo) | scores
                metrics = source.metrics() | scores
                log.metrics(epoch, step, metrics if self.interval is None else none_of(algo.loss_names) | scores)
                for call in self.called(self.epoch_callback, epoch):
                    call(clock)
                yield epoch, metrics
                epoch += 1


def logged_every(interval: int, source: UpdateSource, log: RunLog, others: Iterable[str] = ()) -> Callback:
    """What logs the mean losses of every `interval` updates; the `others` come at the end of an epoch."""

    def write(clock: Clock) -> None:
        if clock.t % interval == 0:
            log.metrics(source.epoch, clock.t, source.metrics(interval) | none_of(others))

    return write


def none_of(names: Iterable[str]) -> dict[str, float | None]:
    """None for each metric that is not known now."""
    return dict.fromkeys(names)


def state_metrics(algo: Any) -> dict[str, float]:
    """Metrics of an epoch that are no losses."""
    return {name: float(getattr(algo.impl, name)) for name in algo.state_names}


def named_scorers(scorers: Any, argument: str = "scorers") -> dict[str, Scorer]:
    """Scorers by name; those of a list are called as the functions are, a second one of a name with its number.

    Args:
        scorers: The scorers, by name or in a list; None for none.
        argument: What errors call them.

    Raises:
        TypeError: If one is no function, or they are no list.
    """
    if not isinstance(scorers, Iterable | None):
        expected = "functions of (algo, episodes) by name, or a list of functions"
        raise TypeError(f"{argument} is {scorers!r:.80}, expected {expected}")
    given: Mapping[Any, Any] = scorers if isinstance(scorers, Mapping) else dict(enumerate(scorers or ()))
    named: dict[str, Scorer] = {}
    for key, scorer in given.items():
        if not callable(scorer):
            raise TypeError(f"{argument}[{key!r}] is {scorer!r:.80}, expected a function of (algo, episodes)")
        name = key if given is scorers else getattr(scorer, "__name__", "scorer")
        named[f"{name}{key}" if name in named else name] = scorer
    return named
