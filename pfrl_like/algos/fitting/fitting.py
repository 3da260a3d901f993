"""How estimators learn from data: epoch after epoch, with metrics, scores and saved models."""

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
        self: Any,
        episodes: Any,
        n_epochs: int,
        n_steps: int | None,
        n_steps_per_epoch: int,
        eval_episodes: Any,
        scorers: Any,
        show_progress: bool,
        save_interval: int,
        callback: Any,
        epoch_callback: Any,
        experiment_name: str | None,
        logging_strategy: LoggingStrategy,
        logging_steps: int,
        logger_adapter: Any,
        enable_ddp: bool,
        **log_options: Any,
    ) -> Iterator[tuple[int, dict[str, float]]]:
        check_counts(
            n_epochs=n_epochs, n_steps_per_epoch=n_steps_per_epoch, save_interval=save_interval,
            logging_steps=logging_steps,
        )  # fmt: skip
        check_counts(optional=True, n_steps=n_steps)
        interval = interval_of(logging_strategy, logging_steps)
        check_function(optional=True, callback=callback, epoch_callback=epoch_callback)
        check_dynamics(self)
        warn_of_hooks(self)
        name = experiment_name or type(self).__name__
        if log_options["save_metrics"] and logger_adapter is None:
            check_folder(log_options["logdir"], name, log_options["with_timestamp"])
        data = TrainingData(episodes, self.batch_size, self.n_frames, self.learns_next_observations)
        self._build_for(data)
        if self.dynamics is None:
            warn_of_few_transitions(len(data.selection), self.batch_size)
        scorers = named_scorers(scorers)
        if scorers:
            check_eval_episodes(self, eval_episodes)
        self.eval_results_ = {name: list[float]() for name in scorers}
        if enable_ddp and not is_first():
            log_options |= {"save_metrics": False, "verbose": False}
        if logger_adapter is not None:
            per_epoch = len(data) if n_steps is None else n_steps_per_epoch
            log_options["adapter"] = lambda name: logger_adapter.create(self, name, per_epoch)
        with together(self.impl, enable_ddp), RunLog(name, **log_options) as log:
            log.params(self._json_params() | logged_convention(data.selection))
            epoch = step = 0
            while epoch < n_epochs if n_steps is None else step < n_steps:
                data.begin_epoch(self)
                length = len(data) if n_steps is None else min(n_steps_per_epoch, n_steps - step)
                source, clock = UpdateSource(self, data, epoch), Clock(step + length, step)
                hooks: list[Callback] = []
                if callback is not None:
                    hooks.append(lambda clock: callback(self, epoch, clock.t))  # noqa: B023 - called in this round
                if interval is not None:
                    hooks.append(logged_every(interval, source, log, [*self.state_names, *scorers]))
                with shown(clock, show_progress) as bar:
                    run(source, clock, hooks + bar)
                step = clock.t
                if (epoch + 1) % save_interval == 0:  # before scorers, which are functions of the user's
                    log.save(self, epoch, step)
                scores = evaluated(self, scorers, eval_episodes)
                for name, score in scores.items():
                    self.eval_results_[name].append(score)
                scores = self._state_metrics() | scores
                metrics = source.metrics() | scores
                log.metrics(epoch, step, metrics if interval is None else none_of(self.loss_names) | scores)
                if epoch_callback is not None:
                    epoch_callback(self, epoch, step)
                yield epoch, metrics
                epoch += 1

    def _build_for(self: Any, data: TrainingData) -> None:
        """Build the agent, or refuse data that it is not built for."""
        selection = data.selection
        check_action_kind(self, selection.discrete_action)
        if self.impl is None:
            self.fit_scaler(selection.episodes)
            self.create_impl(selection.observation_shape, selection.action_size)
            if not self.discrete_action and hasattr(self.impl, "policy"):
                actions = (self._actions(episode.told("actions")) for episode in selection.episodes)
                warn_of_far_actions(max(float(each.abs().max()) for each in actions))
        check_scalers_taken(self)
        self.check_shapes(selection.observation_shape, selection.action_size)
        self.retune()


def interval_of(strategy: LoggingStrategy, steps: int) -> int | None:
    """Steps between logged losses; None if they are logged at the end of every epoch."""
    return steps if LoggingStrategy(strategy) is LoggingStrategy.STEPS else None


def logged_every(interval: int, source: UpdateSource, log: RunLog, others: Iterable[str] = ()) -> Callback:
    """What logs the mean losses of every `interval` updates; the `others` come at the end of an epoch."""

    def write(clock: Clock) -> None:
        if clock.t % interval == 0:
            log.metrics(source.epoch, clock.t, source.metrics(interval) | none_of(others))

    return write


def none_of(names: Iterable[str]) -> dict[str, float]:
    """NaN for each metric that is not known now."""
    return dict.fromkeys(names, float("nan"))


def check_dynamics(algo: Any) -> None:
    """Refuse `dynamics` that generate nothing.

    Raises:
        TypeError: If they are no model.
    """
    if algo.dynamics is not None and not hasattr(algo.dynamics, "generate"):
        raise TypeError(f"dynamics is {algo.dynamics!r:.80}, expected one of pfrl_like.dynamics, or None")


def warn_of_far_actions(largest: float) -> None:
    """Say that policies will not reach actions as large as this, if it is more than rounding."""
    if largest > 1 + 1e-5:
        _LOGGER.warning(
            "actions of the data are as large as %g, but policies act in [-1, 1]: action_scaler='min_max' scales them",
            largest,
        )


def warn_of_few_transitions(n: int, batch_size: int) -> None:
    """Say that every minibatch will be all there is, and an epoch of passes one update, if they are fewer than one."""
    if n < batch_size:
        _LOGGER.warning(
            "batch_size is %d, but there are %d transitions: each minibatch is all of them, and a pass is one update",
            batch_size,
            n,
        )


def named_scorers(scorers: Any) -> dict[str, Scorer]:
    """Scorers by name; those of a list are called as the functions are, a second one of a name with its number.

    Raises:
        TypeError: If one is no function, or they are no list.
    """
    if not isinstance(scorers, Iterable | None):
        raise TypeError(f"scorers is {scorers!r:.80}, expected functions of (algo, episodes), by name or in a list")
    if scorers is None or isinstance(scorers, Mapping):
        named = dict(scorers or {})
    else:
        named = {}
        for i, scorer in enumerate(scorers):
            name = getattr(scorer, "__name__", "scorer")
            named[f"{name}{i}" if name in named else name] = scorer
    for name, scorer in named.items():
        if not callable(scorer):
            raise TypeError(f"scorers[{name!r}] is {scorer!r:.80}, expected a function of (algo, episodes)")
    return named
