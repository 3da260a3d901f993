"""How fitted Q evaluation learns: in epochs from data, or from what the policy that it evaluates gathers meanwhile."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pfrl_like.algos.fitting.epochs import OnlineUpdates, RunLog, UpdateSource, evaluated, shown
from pfrl_like.algos.fitting.fitting import interval_of, logged_every, named_scorers
from pfrl_like.algos.fitting.minibatches import drawn_data, is_first, together
from pfrl_like.algos.fitting.online import CAPACITY, Collector, checked_buffer
from pfrl_like.algos.fitting.spaces import check_single_rewards
from pfrl_like.dataset.conventions import logged_convention
from pfrl_like.dataset.selection import Selection
from pfrl_like.env import as_gymnasium
from pfrl_like.experiments.evaluator import check_apart
from pfrl_like.experiments.sources import SerialSource
from pfrl_like.loggers import (
    FileAdapterFactory,
    LoggerAdapterFactory,
    LoggingStrategy,
)
from pfrl_like.metrics import evaluate_on_environment
from pfrl_like.replay_buffers import ReplayBuffer
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


class PolicyCollector(Collector):
    """Acts by the evaluated policy; arguments are those of `Collector`.

    Attributes:
        deterministic: Whether its own actions are the greedy ones, not samples, also without an explorer.
    """

    deterministic = False

    def choose(self, obs: Any, action_mask: Any) -> Any:
        """What the policy does, or the explorer, which is given greedy actions."""
        greedy = self.deterministic or self.explorer is not None
        return self.explored(self.algo.predict if greedy else self.algo.sample_action, obs, action_mask, self.steps)


class OnlineFQE:
    """The data that fitted Q evaluation gathers in environments."""

    def collect(
        self: Any,
        env: Any,
        buffer: Any = None,
        explorer: Any = None,
        deterministic: bool = False,
        n_steps: int = 1000000,
        show_progress: bool = True,
    ) -> Any:
        """Gather data by the evaluated policy.

        Args:
            env: The environment.
            buffer: Replay buffer; None makes one.
            explorer: As of the `fit_online` of estimators; it is given greedy actions. None for none.
            deterministic: Whether actions are greedy, not samples of the policy.
            n_steps: Steps.
            show_progress: Whether progress is shown.

        Returns:
            The buffer.

        Raises:
            ValueError: On numbers that cannot be, or an algorithm that does not fit the environment.
            TypeError: If `buffer` is no replay buffer, the environment or the explorer has other actions, or the
                environment tells an action mask of which the policy cannot be told.
        """
        check_counts(n_steps=n_steps)
        self.build_with_env(env)
        buffer = ReplayBuffer(CAPACITY) if buffer is None else checked_buffer(buffer, 1)
        collector = PolicyCollector(self, buffer, explorer, as_gymnasium(env).action_space)
        collector.deterministic = deterministic
        clock = Clock(n_steps)
        with shown(clock, show_progress) as bar:
            run(SerialSource(collector, env, cuts_off_at_end=True), clock, bar)
        return buffer

    def fit_online(
        self: Any,
        env: Any,
        buffer: Any = None,
        explorer: Any = None,
        n_steps: int = 1000000,
        n_steps_per_epoch: int = 10000,
        update_interval: int = 1,
        n_updates: int = 1,
        update_start_step: int = 0,
        random_steps: int = 0,
        eval_env: Any = None,
        eval_epsilon: float = 0.0,
        save_interval: int = 1,
        experiment_name: str | None = None,
        with_timestamp: bool = True,
        logging_steps: int = 500,
        logging_strategy: LoggingStrategy = LoggingStrategy.EPOCH,
        logger_adapter: LoggerAdapterFactory | None = None,
        show_progress: bool = True,
        callback: StepCallback | None = None,
    ) -> None:
        """Learn while the evaluated policy acts.

        Args:
            env: The environment.
            buffer: Replay buffer; None makes one.
            explorer: As in `collect`.
            n_steps: Steps.
            n_steps_per_epoch: Steps of an epoch; the last one has what is left.
            update_interval: Steps between updates.
            n_updates: Updates at a time.
            update_start_step: As of the `fit_online` of estimators.
            random_steps: First steps, whose actions are drawn uniformly from the allowed ones.
            eval_env: Environment in which the policy is evaluated after every epoch, another one than `env`; None for
                no evaluation.
            eval_epsilon: Probability of a random action there.
            save_interval: Epochs between saved models.
            experiment_name: Name in the logs; None for that of the class with "_online".
            with_timestamp: Whether the time is appended to it.
            logging_steps: Steps between metrics, with `LoggingStrategy.STEPS`.
            logging_strategy: When metrics are logged.
            logger_adapter: Makes what they are logged by; None for a `FileAdapterFactory`.
            show_progress: Whether progress is shown.
            callback: Called as (fqe, epoch, steps so far) after every epoch.

        Raises:
            ValueError: As of `collect`, and on a buffer that is smaller than a minibatch, or an `eval_env` that is
                `env`.
            TypeError: As of `collect`.
            NonFiniteError: If a loss is NaN or infinite.
        """
        check_counts(
            n_steps=n_steps, n_steps_per_epoch=n_steps_per_epoch, update_interval=update_interval, n_updates=n_updates,
            save_interval=save_interval, logging_steps=logging_steps,
        )  # fmt: skip
        interval = interval_of(logging_strategy, logging_steps)
        check_counts(least=0, update_start_step=update_start_step, random_steps=random_steps)
        check_function(optional=True, callback=callback)
        check_apart(env, eval_env)
        self.build_with_env(env)
        buffer = ReplayBuffer(CAPACITY) if buffer is None else checked_buffer(buffer, self.batch_size)
        check_single_rewards(self.scalers["reward_scaler"], buffer)
        data = drawn_data(buffer, self.batch_size, self.n_frames, self.observation_shape)
        scorers = {} if eval_env is None else {"evaluation": evaluate_on_environment(eval_env, epsilon=eval_epsilon)}
        collector = PolicyCollector(self, buffer, explorer, as_gymnasium(env).action_space, random_steps)
        source, clock = SerialSource(collector, env), Clock(n_steps)
        name = experiment_name or f"{type(self).__name__}_online"
        log = log_of(self, name, with_timestamp, logger_adapter, n_steps_per_epoch)
        with log, shown(clock, show_progress) as bar:
            log.params(self.params())
            updates = OnlineUpdates(self, data, update_interval, n_updates, update_start_step)
            epochs = Epochs(self, log, updates, n_steps_per_epoch, interval, save_interval, scorers, callback)
            run(source, clock, [updates, *bar, epochs])


@dataclasses.dataclass(eq=False)
class Epochs:
    """Callback of the training loop: what is logged on the way, and what happens at the end of every epoch.

    Args:
        fqe: What is fitted.
        log: Where metrics and models go.
        updates: What learns on the way.
        length: Steps of an epoch.
        interval: Steps between logged losses; None for those of whole epochs, at their ends.
        save_interval: Epochs between saved models.
        scorers: Called with (fqe, None) at the end of an epoch, by name.
        callback: Called with (fqe, epoch, steps so far); None for nothing.
    """

    fqe: Any
    log: RunLog
    updates: OnlineUpdates
    length: int
    interval: int | None
    save_interval: int
    scorers: Mapping[str, Evaluator]
    callback: StepCallback | None

    def __post_init__(self) -> None:
        self._begin(1)

    def __call__(self, clock: Clock) -> None:
        """Log what is due, and end an epoch, if the clock says so."""
        epoch, log, updates = self.epoch, self.log, self.updates
        if self.interval is not None and clock.t % self.interval == 0:
            log.metrics(epoch, clock.t, self._losses())
        if clock.t % self.length and not clock.done:
            return
        if epoch % self.save_interval == 0:
            log.save(self.fqe, epoch, clock.t)
        losses = self._losses() if self.interval is None else {}
        returns = {"rollout_return": float(np.mean(updates.returns))} if updates.returns else {}
        log.metrics(epoch, clock.t, {**losses, **returns, **evaluated(self.fqe, self.scorers, None)})
        called(self.callback, self.fqe, epoch)(clock)
        self._begin(epoch + 1)

    def _begin(self, epoch: int) -> None:
        self.epoch, self._logged = epoch, 0  # updates of the epoch that have been logged
        self.updates.begin_epoch(epoch)

    def _losses(self) -> Metrics:
        """Means over the updates of the epoch that have not been logged yet; nothing if there was none."""
        source, logged = self.updates.source, self._logged
        self._logged = len(source)
        return source.metrics(len(source) - logged) if len(source) > logged else {}
