"""`FittingFQE`, the training methods of `FQE`: offline on data, or online on steps of the evaluated policy."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pfrl_like.algos.fitting.epochs import OnlineUpdates, progress_callbacks
from pfrl_like.algos.fitting.fitting import Scorer, Training, named_scorers
from pfrl_like.algos.fitting.minibatches import SampledData
from pfrl_like.algos.fitting.online import Collector, checked_buffer, train_online
from pfrl_like.algos.fitting.spaces import check_single_rewards
from pfrl_like.dataset.selection import Selection
from pfrl_like.distributed.data_parallel import n_processes
from pfrl_like.env import as_gymnasium
from pfrl_like.envs.make_env import accept_env_ids
from pfrl_like.experiments.evaluation_env import check_apart
from pfrl_like.experiments.sources import SerialSource
from pfrl_like.loggers import FileAdapterFactory, LoggerAdapterFactory, LoggingStrategy
from pfrl_like.runs.loop import Clock, run
from pfrl_like.utils.checks import check_counts

#: Function that is called with (fqe, epoch, number of steps so far). Epochs are counted from 1.
StepCallback = Callable[[Any, int, int], Any]
Metrics = dict[str, float]
#: Arguments of `fitter` that are not arguments of `Training`.
_NOT_OF_TRAINING = {"self", "dataset", "evaluators", "scorers", "eval_episodes", "n_epochs"}


class PolicyCollector(Collector):
    """Collector that acts with the evaluated policy. The arguments are the arguments of `Collector`.

    Attributes:
        deterministic: True to select greedy actions if there is no explorer. False to sample actions.
    """

    deterministic = False

    def choose(self, obs: Any, action_mask: Any) -> Any:
        """Return an action of the policy. If there is an explorer, it selects the action, given the greedy action."""
        greedy = self.deterministic or self.explorer is not None
        return self.explore(self.algo.predict if greedy else self.algo.sample_action, obs, action_mask, self.steps)


class FittingFQE:
    """Mixin for the training of fitted Q evaluation, from data and in environments."""

    def fit(
        self,
        dataset: Any,
        n_steps: int | None = None,
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
        *,
        n_epochs: int | None = None,
        eval_episodes: Any = None,
        scorers: Mapping[str, Scorer] | None = None,
        save_metrics: bool = True,
        verbose: bool = False,
    ) -> list[tuple[int, Metrics]]:
        """Train on data. If the agent is already built, its training continues.

        Args:
            dataset: An `MDPDataset`, a list of episodes, or a replay buffer.
            n_steps: Number of updates. If None, there are `n_epochs` epochs, each with one update per minibatch of the
                dataset.
            n_steps_per_epoch: Number of updates per epoch. The last epoch may be shorter. Used if `n_steps` is not
                None.
            experiment_name: Name of the run in the logs. If None, the class name is used.
            with_timestamp: True to append the current time to the name.
            logging_steps: Number of updates between logged losses. Used with `LoggingStrategy.STEPS`.
            logging_strategy: `LoggingStrategy.EPOCH` logs losses at the end of every epoch. `LoggingStrategy.STEPS`
                logs losses every `logging_steps` updates.
            logger_adapter: Factory of `pfrl_like.loggers` that creates a logger of metrics and models. If None, a
                `FileAdapterFactory` is used.
            show_progress: True to show a progress bar for each epoch.
            save_interval: Number of epochs between saved models.
            evaluators: Functions of (fqe, dataset) that return a score. They are called after every epoch. Pass a dict
                whose keys are the names in the metrics, or a list. The functions in a list are called by their own
                names, with a number if a name repeats.
            callback: Function that is called with (fqe, epoch, number of updates so far) after each update.
            epoch_callback: Function that is called with (fqe, epoch, number of updates so far) after each epoch.
            enable_ddp: True to learn in all processes of a `torch.distributed` group, which must have the same
                dataset; see `data_parallel`. Each minibatch has `batch_size` transitions for each process. Only process
                0 logs.
            n_epochs: Number of epochs, if `n_steps` is None. None takes the hyperparameter `n_epochs`.
            eval_episodes: Episodes that are passed to the evaluators. If None, the dataset is passed.
            scorers: Other name of `evaluators`, as in d3rlpy before version 2.
            save_metrics: True to write metrics and models.
            verbose: True to print hyperparameters and metrics.

        Returns:
            A list of pairs: number of the epoch, counted from 1, and dict of metrics.

        Raises:
            ValueError: If there is no transition, the data are invalid, or a number is out of range.
            TypeError: If only one of data and algorithm has discrete actions, if an evaluator is not a function, or if
                the number of updates is missing.
            RuntimeError: If `enable_ddp` is True and there is no process group.
            NonFiniteError: If a loss is NaN or infinite.
        """
        options = {name: value for name, value in locals().items() if name != "self"}
        return list(self.fitter(**options))

    def fitter(
        self: Any,
        dataset: Any,
        n_steps: int | None = None,
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
        *,
        n_epochs: int | None = None,
        eval_episodes: Any = None,
        scorers: Mapping[str, Scorer] | None = None,
        save_metrics: bool = True,
        verbose: bool = False,
    ) -> Iterator[tuple[int, Metrics]]:
        """Return an iterator that trains one epoch at a time. Arguments and errors are the same as in `fit`.

        Yields:
            Number of the epoch, counted from 1, and dict of metrics.
        """
        options = {name: value for name, value in locals().items() if name not in _NOT_OF_TRAINING}
        data = dataset if hasattr(dataset, "sample_batch") else Selection(dataset)
        size = int(getattr(data, "n_steps", None) or len(data))
        share = size // (n_processes() if enable_ddp else 1)
        if n_steps is None:
            options |= self._steps_of_passes(n_epochs, max(1, share // self.batch_size))
        training = self._training("", **options)
        named = named_scorers(evaluators if scorers is None else scorers, "evaluators")
        self.build_with_dataset(data)
        drawn = SampledData(data, min(self.batch_size, share), self.n_frames, self.observation_shape)
        epochs: Iterator[tuple[int, Metrics]] = training.epochs(
            drawn, named, dataset if eval_episodes is None else eval_episodes
        )
        return epochs

    def _steps_of_passes(self: Any, n_epochs: int | None, n_steps_per_epoch: int) -> dict[str, int]:
        """Return the arguments of `Training` for `n_epochs` passes over the data.

        Raises:
            TypeError: If neither `n_epochs` nor the hyperparameter of this name is given.
        """
        n_epochs = self.n_epochs if n_epochs is None else n_epochs
        if n_epochs is None:
            raise TypeError("n_steps is missing, the number of updates: pass n_steps or n_epochs")
        check_counts(n_epochs=n_epochs)
        return {"n_steps": n_epochs * n_steps_per_epoch, "n_steps_per_epoch": n_steps_per_epoch}

    def _training(
        self, suffix: str, experiment_name: str | None, logger_adapter: Any, verbose: bool = False, **options: Any
    ) -> Training:
        """Return a `Training` that counts epochs from 1 and logs to an adapter."""
        check_counts(n_steps=options["n_steps"])
        name, adapter = experiment_name or f"{type(self).__name__}{suffix}", logger_adapter or FileAdapterFactory()
        return Training(self, name, **options, logger_adapter=adapter, verbose=verbose, tensorboard=False, first=1)

    @accept_env_ids("env")
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
            env: Environment that `pfrl_like.env.as_gymnasium` accepts, or an environment id such as "Pendulum-v1".
            buffer: Replay buffer of `pfrl_like.replay_buffers` or `pfrl_like.online.buffers`. It stores transitions
                with unstacked observations. If None, a buffer of one million transitions is created.
            explorer: Explorer of `pfrl_like.explorers` or `pfrl_like.online.explorers`. It chooses actions given the
                greedy actions. If None, the policy chooses the actions.
            deterministic: True to select greedy actions if there is no explorer. False to sample actions.
            n_steps: Number of steps.
            show_progress: True to show a progress bar.

        Returns:
            The buffer.

        Raises:
            ValueError: If a number is out of range, or the algorithm does not match the environment.
            TypeError: If `buffer` is not a replay buffer, if the algorithm's actions are discrete but those of the
                environment or explorer are not, or the reverse, or if the environment masks actions and the policy does
                not support masks.
        """
        check_counts(n_steps=n_steps)
        self.build_with_env(env)
        buffer = checked_buffer(buffer, 1)
        collector = PolicyCollector(self, buffer, explorer, as_gymnasium(env).action_space)
        collector.deterministic = deterministic
        clock = Clock(n_steps)
        with progress_callbacks(clock, show_progress) as bar:
            run(SerialSource(collector, env, cuts_off_at_end=True), clock, bar)
        return buffer

    @accept_env_ids("env", "eval_env")
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
        """Train online on steps of the evaluated policy.

        Args:
            env: Environment that `pfrl_like.env.as_gymnasium` accepts, or an environment id such as "Pendulum-v1".
            buffer: Replay buffer of `pfrl_like.replay_buffers` or `pfrl_like.online.buffers`. It stores transitions
                with unstacked observations. If None, a buffer of one million transitions is created.
            explorer: Explorer of `pfrl_like.explorers` or `pfrl_like.online.explorers`. It chooses actions given the
                greedy actions. If None, the policy chooses the actions.
            n_steps: Number of steps.
            n_steps_per_epoch: Number of steps per epoch. The last epoch may be shorter.
            update_interval: Number of steps between updates.
            n_updates: Number of updates every `update_interval` steps.
            update_start_step: Number of steps at the beginning of training that are made without updates. There is also
                no update if the buffer contains fewer than `batch_size` steps. An epoch without updates prints no
                losses. In the second case, a warning is issued, once per process.
            random_steps: Number of steps at the beginning of training with random actions. They are sampled uniformly
                from the allowed actions.
            eval_env: Environment for an evaluation after every epoch, or its id. It must not be `env`. If None, there
                is no evaluation.
            eval_epsilon: Probability of a random action during evaluation.
            save_interval: Number of epochs between saved models.
            experiment_name: Name of the run in the logs. If None, the class name plus "_online" is used.
            with_timestamp: True to append the current time to the name.
            logging_steps: Number of steps between logged losses. Used with `LoggingStrategy.STEPS`.
            logging_strategy: `LoggingStrategy.EPOCH` logs losses at the end of every epoch. `LoggingStrategy.STEPS`
                logs losses every `logging_steps` steps.
            logger_adapter: Factory of `pfrl_like.loggers` that creates a logger of metrics and models. If None, a
                `FileAdapterFactory` is used.
            show_progress: True to show a progress bar.
            callback: Function that is called with (fqe, epoch, number of steps so far) at the end of every epoch.

        Raises:
            ValueError: If a number is out of range, the algorithm does not match the environment, the capacity of the
                buffer is smaller than a minibatch, or `eval_env` is `env`.
            TypeError: If `buffer` is not a replay buffer, if the algorithm's actions are discrete but those of the
                environment or explorer are not, or the reverse, or if the environment masks actions and the policy does
                not support masks.
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
        data = SampledData(buffer, self.batch_size, self.n_frames, self.observation_shape)
        source = SerialSource(
            PolicyCollector(self, buffer, explorer, as_gymnasium(env).action_space, random_steps), env
        )
        updates = OnlineUpdates(self, data, update_interval, n_updates, update_start_step)
        train_online(training, source, updates, eval_env, eval_epsilon)
