"""Training of fitted Q evaluation: in epochs from data, or online from steps of the evaluated policy."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pfrl_like.algos.fitting.epochs import OnlineUpdates, shown
from pfrl_like.algos.fitting.fitting import Scorer, Training, named_scorers
from pfrl_like.algos.fitting.minibatches import drawn_data
from pfrl_like.algos.fitting.online import Collector, checked_buffer, train_online
from pfrl_like.algos.fitting.spaces import check_single_rewards
from pfrl_like.dataset.selection import Selection
from pfrl_like.env import as_gymnasium
from pfrl_like.experiments.evaluator import check_apart
from pfrl_like.experiments.sources import SerialSource
from pfrl_like.loggers import FileAdapterFactory, LoggerAdapterFactory, LoggingStrategy
from pfrl_like.runs.loop import Clock, run
from pfrl_like.utils.checks import check_counts

#: Function of the `FQE`, the number of the epoch, from 1, and the steps so far.
StepCallback = Callable[[Any, int, int], Any]
Metrics = dict[str, float]


class PolicyCollector(Collector):
    """Acts with the evaluated policy; arguments are those of `Collector`.

    Attributes:
        deterministic: Whether the actions without an explorer are greedy, not samples.
    """

    deterministic = False

    def choose(self, obs: Any, action_mask: Any) -> Any:
        """The action of the policy, or of the explorer, which gets the greedy action."""
        greedy = self.deterministic or self.explorer is not None
        return self.explored(self.algo.predict if greedy else self.algo.sample_action, obs, action_mask, self.steps)


class FittingFQE:
    """The training of fitted Q evaluation, from data and in environments."""

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
        evaluators: Mapping[str, Scorer] | Sequence[Scorer] | None = None,
        callback: StepCallback | None = None,
        epoch_callback: StepCallback | None = None,
        enable_ddp: bool = False,
    ) -> list[tuple[int, Metrics]]:
        """Learn from data; an agent that is already built continues its training.

        Args:
            dataset: An `MDPDataset`, a list of episodes, or a replay buffer.
            n_steps: Number of updates.
            n_steps_per_epoch: Updates per epoch; the last epoch has the rest.
            experiment_name: Name in the logs; None for that of the class.
            with_timestamp: True to append the current time to the name.
            logging_steps: Updates between logged losses, with `LoggingStrategy.STEPS`.
            logging_strategy: Whether losses are logged at the end of every epoch, or every `logging_steps` updates.
            logger_adapter: Factory, one of `pfrl_like.loggers`, of the logger of metrics and models; None for a
                `FileAdapterFactory`.
            show_progress: Whether the progress of each epoch is shown.
            save_interval: Number of epochs between saved models.
            evaluators: Functions of the `FQE` and the data, by name, called after every epoch. Those of a list have the
                names of the functions, with a number if a name repeats.
            callback: Called with (fqe, epoch, updates so far) after each update.
            epoch_callback: Called with (fqe, epoch, updates so far) after each epoch.
            enable_ddp: Whether the processes of a `torch.distributed` group learn together, each from its own
                minibatches. All have to make the same number of steps; only process 0 logs.

        Returns:
            The number of each epoch, from 1, and its metrics.

        Raises:
            ValueError: If there is no transition, the data are invalid, or a number is out of range.
            TypeError: On data with another kind of actions, or an evaluator that is no function.
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
        evaluators: Mapping[str, Scorer] | Sequence[Scorer] | None = None,
        callback: StepCallback | None = None,
        epoch_callback: StepCallback | None = None,
        enable_ddp: bool = False,
    ) -> Iterator[tuple[int, Metrics]]:
        """`fit` as an iterator over its epochs; arguments and errors are those of `fit`.

        Yields:
            The number of the epoch, from 1, and its metrics.
        """
        options = {name: value for name, value in locals().items() if name not in ("self", "dataset", "evaluators")}
        training = self._training("", **options)
        scorers = named_scorers(evaluators, "evaluators")
        data = dataset if hasattr(dataset, "sample_batch") else Selection(dataset)
        self.build_with_dataset(data)
        size = int(getattr(data, "n_steps", None) or len(data))
        drawn = drawn_data(data, min(self.batch_size, size), self.n_frames, self.observation_shape)
        epochs: Iterator[tuple[int, Metrics]] = training.epochs(drawn, scorers, dataset)
        return epochs

    def _training(self, suffix: str, experiment_name: str | None, logger_adapter: Any, **options: Any) -> Training:
        """The settings of a training, whose epochs are counted from 1 and whose log is written by an adapter."""
        check_counts(n_steps=options["n_steps"])
        name, adapter = experiment_name or f"{type(self).__name__}{suffix}", logger_adapter or FileAdapterFactory()
        return Training(self, name, **options, logger_adapter=adapter, verbose=False, tensorboard=False, first=1)

    def collect(
        self: Any,
        env: Any,
        buffer: Any = None,
        explorer: Any = None,
        deterministic: bool = False,
        n_steps: int = 1000000,
        show_progress: bool = True,
    ) -> Any:
        """Collect data with the evaluated policy.

        Args:
            env: Environment that `pfrl_like.env.as_gymnasium` accepts.
            buffer: Replay buffer of `pfrl_like.replay_buffers` or `pfrl_like.online.buffers`. It stores transitions
                with unstacked observations. If None, a buffer of one million transitions is created.
            explorer: Explorer of `pfrl_like.explorers` or `pfrl_like.online.explorers`. It chooses actions given the
                greedy actions. If None, the policy chooses the actions.
            deterministic: Whether the actions without an explorer are greedy, not samples.
            n_steps: Number of steps.
            show_progress: True to show a progress bar.

        Returns:
            The buffer.

        Raises:
            ValueError: On numbers out of range, or an algorithm that does not fit the environment.
            TypeError: If `buffer` is no replay buffer, the environment or the explorer has another kind of actions, or
                the environment has an action mask that the policy cannot take.
        """
        check_counts(n_steps=n_steps)
        self.build_with_env(env)
        buffer = checked_buffer(buffer, 1)
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
        """Learn online from steps of the evaluated policy.

        Args:
            env: Environment that `pfrl_like.env.as_gymnasium` accepts.
            buffer: Replay buffer of `pfrl_like.replay_buffers` or `pfrl_like.online.buffers`. It stores transitions
                with unstacked observations. If None, a buffer of one million transitions is created.
            explorer: Explorer of `pfrl_like.explorers` or `pfrl_like.online.explorers`. It chooses actions given the
                greedy actions. If None, the policy chooses the actions.
            n_steps: Number of steps.
            n_steps_per_epoch: Steps per epoch; the last epoch has the rest.
            update_interval: Steps between updates.
            n_updates: Number of updates every `update_interval` steps.
            update_start_step: Number of first steps without updates. There is also no update if the buffer contains
                fewer than `batch_size` steps. If an epoch has no update for this reason, it prints no losses, and a
                warning is logged, once per process.
            random_steps: Number of first steps, whose actions are drawn uniformly from the allowed ones.
            eval_env: Environment of evaluations after every epoch, another one than `env`; None for no evaluation.
            eval_epsilon: Probability of a random action during evaluation.
            save_interval: Number of epochs between saved models.
            experiment_name: Name in the logs; None for that of the class with "_online".
            with_timestamp: True to append the current time to the name.
            logging_steps: Steps between logged losses, with `LoggingStrategy.STEPS`.
            logging_strategy: Whether losses are logged at the end of every epoch, or every `logging_steps` steps.
            logger_adapter: Factory, one of `pfrl_like.loggers`, of the logger of metrics and models; None for a
                `FileAdapterFactory`.
            show_progress: True to show a progress bar.
            callback: Called with (fqe, epoch, steps so far) at the end of every epoch.

        Raises:
            ValueError: On numbers out of range, an algorithm that does not fit the environment, a buffer that is
                smaller than a minibatch, or an `eval_env` that is `env`.
            TypeError: If `buffer` is no replay buffer, the environment or the explorer has another kind of actions, or
                the environment has an action mask that the policy cannot take.
            NonFiniteError: If a loss is NaN or infinite.
        """
        check_counts(update_interval=update_interval, n_updates=n_updates)
        check_counts(least=0, update_start_step=update_start_step, random_steps=random_steps)
        check_apart(env, eval_env)
        training = self._training(
            "_online", experiment_name, logger_adapter, n_steps=n_steps, n_steps_per_epoch=n_steps_per_epoch,
            save_interval=save_interval, with_timestamp=with_timestamp, logging_steps=logging_steps,
            logging_strategy=logging_strategy, show_progress=show_progress, callback=callback,
        )  # fmt: skip
        self.build_with_env(env)
        buffer = checked_buffer(buffer, self.batch_size)
        check_single_rewards(self.reward_scaler, buffer)
        data = drawn_data(buffer, self.batch_size, self.n_frames, self.observation_shape)
        source = SerialSource(
            PolicyCollector(self, buffer, explorer, as_gymnasium(env).action_space, random_steps), env
        )
        updates = OnlineUpdates(self, data, update_interval, n_updates, update_start_step)
        train_online(training, source, updates, eval_env, eval_epsilon)
