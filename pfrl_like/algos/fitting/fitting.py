"""Offline training of estimators in epochs, with metrics, scores and saved models."""

import contextlib
import dataclasses
import functools
import inspect
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self, TypeVar, cast

from pfrl_like.algos.fitting.epochs import RunLog, UpdateSource, progress_callbacks, warn_of_hooks
from pfrl_like.algos.fitting.hyperparameters import check_folder
from pfrl_like.algos.fitting.minibatches import TrainingData, check_eval_episodes
from pfrl_like.algos.fitting.spaces import check_action_kind, check_scalers_used
from pfrl_like.dataset.conventions import logged_convention
from pfrl_like.distributed.data_parallel import data_parallel, is_main_process, n_processes
from pfrl_like.errors import NotFittedError
from pfrl_like.loggers import LoggerAdapterFactory, LoggingStrategy
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.runs.loop import Callback, Clock, run
from pfrl_like.utils.checks import check_counts, check_flags, check_function, names_unknown_keywords

_LOGGER = logging.getLogger(__name__)

#: Function called as (estimator, episodes). It returns a score. A larger score is better.
Scorer = Callable[[Any, Any], float]
#: Iterator over pairs (epoch, metrics).
Epochs = Iterator[tuple[int, dict[str, float]]]
#: Values that arguments of `fit` and `fit_online` must have if `resume` is True.
_TO_RESUME = {"with_timestamp": False, "save_metrics": True, "logger_adapter": None, "enable_ddp": False}

#: Type of a `fit` method.
Fit = TypeVar("Fit", bound=Callable[..., Any])


def ignore_targets(fit: Fit) -> Fit:
    """Decorate `fit` so that a second argument None is ignored. scikit-learn's pipelines pass None as targets.

    If the caller passes no `n_epochs`, the decorated method passes the hyperparameter `n_epochs`.
    """

    @functools.wraps(fit)
    def fit_without_targets(self: Any, *args: Any, **options: Any) -> Any:
        rest = args[2:] if args[1:2] == (None,) else args[1:]
        if not rest:
            options = epochs_of(self) | options
        return fit(self, *args[:1], *rest, **options)

    return cast(Fit, fit_without_targets)


def epochs_of(algo: Any) -> dict[str, int]:
    """Return a dict with the hyperparameter `n_epochs` of an estimator, or an empty dict if `n_epochs` is None."""
    return {} if algo.n_epochs is None else {"n_epochs": algo.n_epochs}


class Fitting:
    """Mixin for the offline training of estimators."""

    #: What the estimator needs of transitions and only recorded transitions have; empty if it needs no such thing.
    recorded_only: ClassVar[str] = ""

    @names_unknown_keywords
    @ignore_targets
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
        tensorboard_dir: str | None = None,
        resume: bool = False,
    ) -> Self:
        """Train on episodes. If the agent is already built, its training continues.

        Args:
            episodes: A dataset or a list of episodes.
            n_epochs: Number of passes over all transitions. A pass skips an incomplete last minibatch. If the argument
                is missing and the hyperparameter `n_epochs` is not None, the hyperparameter is used. A second
                positional argument None is ignored, because scikit-learn passes None as targets.
            save_metrics: True to write metrics and models to disk.
            experiment_name: Name of the folder. If None, the class name is used.
            with_timestamp: True to append the current time to the name.
            logdir: Directory in which the folder is created.
            verbose: True to print hyperparameters and metrics.
            show_progress: True to show a progress bar for each epoch.
            tensorboard: True to also write metrics for TensorBoard to the directory `runs`.
            eval_episodes: Episodes that are passed to the scorers after each epoch. Most scorers require episodes.
            save_interval: Number of epochs between saved models.
            scorers: Functions called as (estimator, episodes). Each returns a score. Keys are the names in the metrics.
            n_steps: Total number of updates, in epochs of `n_steps_per_epoch` updates. If None, there are `n_epochs`
                passes.
            n_steps_per_epoch: Number of updates per epoch. Used if `n_steps` is not None.
            callback: Function called as (estimator, epoch, updates so far) after each update.
            epoch_callback: Function called as (estimator, epoch, updates so far) after each epoch.
            logging_strategy: `LoggingStrategy.EPOCH` logs losses at the end of every epoch. `LoggingStrategy.STEPS`
                logs losses every `logging_steps` updates.
            logging_steps: Number of updates between logged losses. Used with `LoggingStrategy.STEPS`.
            logger_adapter: Factory of `pfrl_like.loggers` that creates a logger of metrics and models. The logger
                replaces the folder and the TensorBoard files. If None, the folder and the TensorBoard files are
                written.
            enable_ddp: True to learn in all processes of a `torch.distributed` group, which must have the same
                episodes; see `data_parallel`. Each minibatch has `batch_size` transitions for each process, and a pass
                has fewer updates. Only the first process prints and writes files.
            tensorboard_dir: Directory in which the directory `runs` is created. If None, the current directory.
            resume: True to save a checkpoint after each epoch, and to continue a run that was stopped from its newest
                checkpoint. Then `with_timestamp` must be False, because the run is found by the name of its folder,
                `save_metrics` must be True, `logger_adapter` None, and `enable_ddp` False.

        Returns:
            The estimator itself.

        Raises:
            ValueError: If there is no transition, the data are invalid, a number is out of range, or `resume` is True
                and another argument does not allow it.
            CheckpointError: If no checkpoint of the run can be loaded, or if another training writes to the folder.
            TypeError: If `episodes` or `eval_episodes` have another kind of actions (discrete, continuous) than the
                algorithm. If a callback or scorer is not a function, or `logdir` is not a path.
            RuntimeError: If `enable_ddp` is True and there is no process group.
            NonFiniteError: If a loss is NaN or infinite.
        """
        options = {name: value for name, value in locals().items() if name != "self"}
        deque(self._epochs(**options), maxlen=0)
        return self

    def build_with_dataset(self: Any, dataset: Any) -> None:
        """Build the agent for a dataset, and fit the scalers to the dataset, as `fit` does before the first update.

        If the agent is already built, only check that it matches the dataset.

        Args:
            dataset: A dataset or a list of episodes.

        Raises:
            ValueError: If there is no transition, or the data have other shapes than the agent.
            TypeError: If only one of dataset and algorithm has discrete actions.
        """
        self._build_for(self._training_data(dataset))

    def fitter(self, *args: Any, **kwargs: Any) -> Epochs:
        """Return an iterator that trains for one epoch per item. The arguments are the same as in `fit`.

        Yields:
            The number of the epoch and its metrics.
        """
        bound = inspect.signature(self.fit).bind(*args, **kwargs)
        bound.arguments = epochs_of(self) | bound.arguments
        bound.apply_defaults()
        return self._epochs(**bound.arguments)

    def _epochs(self: Any, episodes: Any, n_epochs: int, eval_episodes: Any, scorers: Any, **options: Any) -> Epochs:
        check_counts(n_epochs=n_epochs)
        options["experiment_name"] = options["experiment_name"] or type(self).__name__
        training = Training(self, **options)
        self._check_dynamics()
        warn_of_hooks(self)
        data = self._training_data(episodes)
        self._build_for(data)
        if self.dynamics is None and len(data.source) < self.batch_size:
            text = "batch_size is %d, but there are %d transitions: each minibatch contains all transitions"
            _LOGGER.warning(text, self.batch_size, len(data.source))
        named = named_scorers(scorers)
        if named:
            check_eval_episodes(self, eval_episodes)
        yield from training.epochs(data, named, eval_episodes, n_epochs)

    def _check_dynamics(self: Any) -> None:
        """Raise an error if `dynamics` is not a fitted model, or the estimator cannot learn from generated transitions.

        Raises:
            TypeError: If `dynamics` is not a model.
            ValueError: If the estimator cannot learn from generated transitions.
            NotFittedError: If the model is not fitted.
        """
        if self.dynamics is None:
            return
        given = f"dynamics is {self.dynamics!r:.80}"
        if not hasattr(self.dynamics, "generate"):
            raise TypeError(f"{given}, expected a model of pfrl_like.dynamics or None")
        if self.recorded_only:
            reason = f"{type(self).__name__} needs {self.recorded_only}, which generated transitions do not have"
            raise ValueError(f"{given}, but {reason}: use dynamics=None")
        if getattr(self.dynamics, "impl", self) is None:
            raise NotFittedError(f"{given}, which is not fitted: call the method fit of this model first")

    def _training_data(self: Any, episodes: Any) -> TrainingData:
        """Return the minibatches of episodes."""
        return TrainingData(episodes, self.batch_size, self.n_frames, self.learns_next_observations)

    def _build_for(self: Any, data: TrainingData) -> None:
        """Build the agent if it is not built yet. Raise an error if the data do not match the agent."""
        source = data.source
        check_action_kind(self, source.discrete_action)
        if self.impl is None:
            self.fit_scaler(source.episodes)
            self.create_impl(source.observation_shape, source.action_size)
            if not self.discrete_action and hasattr(self.impl, "policy"):
                actions = (self._actions(episode.known_values("actions")) for episode in source.episodes)
                largest = max(float(each.abs().max()) for each in actions)
                if largest > 1 + 1e-5:  # actions may exceed 1 by rounding
                    advice = "but policies output actions in [-1, 1]: set action_scaler='min_max'"
                    _LOGGER.warning("actions of the data are as large as %g, %s", largest, advice)
        check_scalers_used(self)
        self.check_shapes(source.observation_shape, source.action_size)
        self.retune()


@dataclasses.dataclass
class Training:
    """Training of an estimator: the loop over epochs, and the log of the run.

    The arguments that are not listed here are the arguments of `Fitting.fit`.

    Args:
        algo: The estimator.
        experiment_name: Name of the run in the logs.
        n_steps: Total number of steps. If None, an epoch is a pass over the data.
        first: Number of the first epoch: 0, or 1 if epochs are counted from 1.

    Attributes:
        epoch: Number of the current epoch.
        interval: Number of steps between logged losses. None if losses are logged at the end of every epoch.
        writes_output: True if this process prints and writes files. In data-parallel training only process 0 does.

    Raises:
        ValueError: If a number is out of range, or the folder cannot be created.
        TypeError: If a number is not an integer, or a callback is not a function.
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
    tensorboard_dir: str | None = None
    resume: bool = False
    first: int = 0

    def __post_init__(self) -> None:
        self.epoch, self._params = self.first, self.algo.get_params(deep=False)
        check_flags(resume=self.resume)
        for name, needed in _TO_RESUME.items() if self.resume else ():
            if (given := getattr(self, name)) != needed:
                raise ValueError(f"{name} is {given!r:.80}, but resume=True needs {needed}: pass {name}={needed}")
        check_counts(n_steps_per_epoch=self.n_steps_per_epoch, save_interval=self.save_interval)
        check_counts(logging_steps=self.logging_steps)
        check_counts(optional=True, n_steps=self.n_steps)
        check_function(optional=True, callback=self.callback, epoch_callback=self.epoch_callback)
        by_steps = LoggingStrategy(self.logging_strategy) is LoggingStrategy.STEPS
        self.interval = self.logging_steps if by_steps else None
        self.writes_output = not self.enable_ddp or is_main_process()
        if self.save_metrics and self.logger_adapter is None:
            check_folder(self.logdir, self.experiment_name, self.with_timestamp)

    def saved_state(self) -> dict[str, Any]:
        """Return the number of the epoch, the scores of earlier epochs, and hyperparameters that callbacks changed."""
        plain, now = bool | int | float | str | None, self.algo.get_params(deep=False).items()
        changed = {name: new for name, new in now if isinstance(new, plain) and new != self._params[name]}
        return {"epoch": self.epoch, "scores": self.algo.eval_results_, "params": changed}

    def restore_state(self, state: Mapping[str, Any]) -> tuple[str, ...]:
        """Restore the result of `saved_state`."""
        self.epoch, self.algo.eval_results_ = state["epoch"], state["scores"]
        self.algo.set_params(**state["params"])
        return ()

    def callbacks_for(self, callback: Callable[[Any, int, int], Any] | None, epoch: int) -> list[Callback]:
        """Convert the user's callback to a list with one callback of the training loop; empty if `callback` is None."""
        return [] if callback is None else [lambda clock: callback(self.algo, epoch, clock.t)]

    def epochs(self, data: Any, scorers: Mapping[str, Scorer], eval_episodes: Any, n_epochs: int = 0) -> Epochs:
        """Train on data, one epoch per iteration.

        Args:
            data: Source of minibatches.
            scorers: Functions that are called after every epoch; keys are the names in the metrics.
            eval_episodes: Episodes that are passed to the scorers after each epoch.
            n_epochs: Number of passes over the data. Used if `n_steps` is None.

        Yields:
            The number of the epoch and its metrics.
        """
        algo, start = self.algo, Clock(None)
        algo.eval_results_ = {name: list[float]() for name in scorers}
        data.n_processes = n_processes() if self.enable_ddp else 1
        per_epoch = len(data) if self.n_steps is None else self.n_steps_per_epoch
        learners: Any = data_parallel(algo.impl, same_data=True) if self.enable_ddp else contextlib.nullcontext()
        with learners, RunLog(self, per_epoch, source=self) as log:
            log.params(algo._json_params() | logged_convention(data.source))
            log.resume([], start)
            epoch, step = self.epoch, start.t
            while epoch < n_epochs if self.n_steps is None else step < self.n_steps:
                data.begin_epoch(algo)
                length = len(data) if self.n_steps is None else min(per_epoch, self.n_steps - step)
                source, clock = UpdateSource(algo, data, epoch), Clock(step + length, step)
                hooks = self.callbacks_for(self.callback, epoch)
                if self.interval is not None:
                    hooks.append(log_every(self.interval, source, log, [*algo.state_names, *scorers]))
                with progress_callbacks(clock, self.show_progress and self.writes_output) as bar:
                    run(source, clock, hooks + bar)
                step = clock.t
                if (epoch - self.first + 1) % self.save_interval == 0:  # before scorers, which may raise
                    log.save(algo, epoch, step)
                with isolated_rng():
                    scores = {name: float(scorer(algo, eval_episodes)) for name, scorer in scorers.items()}
                for name, score in scores.items():
                    algo.eval_results_[name].append(score)
                scores = state_metrics(algo) | scores
                metrics = source.metrics() | scores
                log.metrics(epoch, step, metrics if self.interval is None else dict.fromkeys(algo.loss_names) | scores)
                for call in self.callbacks_for(self.epoch_callback, epoch):
                    call(clock)
                self.epoch = epoch = epoch + 1
                log.checkpoint(clock)
                yield epoch - 1, metrics


def log_every(interval: int, source: UpdateSource, log: RunLog, others: Iterable[str] = ()) -> Callback:
    """Return a callback that logs mean losses every `interval` updates.

    The metrics in `others` are unknown until the end of the epoch. They are logged as NaN.
    """

    def write(clock: Clock) -> None:
        if clock.t % interval == 0:
            log.metrics(source.epoch, clock.t, source.metrics(interval) | dict.fromkeys(others))

    return write


def state_metrics(algo: Any) -> dict[str, float]:
    """Return the attributes of the agent that are metrics (`state_names`), keyed by name."""
    return {name: float(getattr(algo.impl, name)) for name in algo.state_names}


def named_scorers(scorers: Any, argument: str = "scorers") -> dict[str, Scorer]:
    """Return scorers keyed by name.

    The name of a scorer in a list is the name of the function. A number is appended to a repeated name.

    Args:
        scorers: Dict or list of scorers. None means no scorers.
        argument: Name of the argument in error messages.

    Raises:
        TypeError: If a scorer is not a function, or `scorers` is neither a mapping nor a list.
    """
    if not isinstance(scorers, Iterable | None):
        expected = "a dict or a list of functions of (algo, episodes)"
        raise TypeError(f"{argument} is {scorers!r:.80}, expected {expected}")
    items: Mapping[Any, Any] = scorers if isinstance(scorers, Mapping) else dict(enumerate(scorers or ()))
    named: dict[str, Scorer] = {}
    for key, scorer in items.items():
        if not callable(scorer):
            raise TypeError(f"{argument}[{key!r}] is {scorer!r:.80}, expected a function of (algo, episodes)")
        name = key if items is scorers else getattr(scorer, "__name__", "scorer")
        named[f"{name}{key}" if name in named else name] = scorer
    return named
