"""How fitted Q evaluation gathers data by the policy that it evaluates, and learns from it on the way."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from pfrl_like.algos.fitting.epochs import OnlineUpdates, RunLog, evaluated, shown
from pfrl_like.algos.fitting.fitting import interval_of
from pfrl_like.algos.fitting.minibatches import drawn_data
from pfrl_like.algos.fitting.online import CAPACITY, Collector, checked_buffer
from pfrl_like.algos.fitting.spaces import check_single_rewards
from pfrl_like.env import as_gymnasium
from pfrl_like.experiments.evaluator import check_apart
from pfrl_like.experiments.sources import SerialSource
from pfrl_like.loggers import LoggerAdapterFactory, LoggingStrategy
from pfrl_like.metrics import evaluate_on_environment
from pfrl_like.ope.fqe_fitting import Evaluator, Metrics, StepCallback, called, log_of
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.runs.loop import Clock, run
from pfrl_like.utils.checks import check_counts, check_function


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
