"""How fitted Q evaluation learns: in epochs from data, or from what the policy that it evaluates gathers meanwhile."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pfrl_like.algos.fitting.epochs import OnlineUpdates, shown
from pfrl_like.algos.fitting.fitting import Training, named_scorers
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

#: Called with what is fitted and the data.
Evaluator = Callable[[Any, Any], float]
#: Called with what is fitted, the number of the epoch, from 1 on, and the steps so far.
StepCallback = Callable[[Any, int, int], Any]
Metrics = dict[str, float]


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


class FittingFQE:
    """The training of fitted Q evaluation: from data, and in environments."""

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
        """How it is trained; epochs are counted from 1 on, and an adapter takes what is logged."""
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
