"""How fitted Q evaluation learns from data: updates in epochs, with metrics, evaluators, callbacks and saved models."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from pfrl_like import agents
from pfrl_like.algos.fitting.epochs import RunLog, UpdateSource, evaluated, shown
from pfrl_like.algos.fitting.fitting import interval_of, logged_every, named_scorers
from pfrl_like.algos.fitting.minibatches import drawn_data, is_first, together
from pfrl_like.algos.fitting.spaces import (
    check_action_kind,
    check_built_for,
    check_single_rewards,
    shape_of_one,
    shapes_of_env,
)
from pfrl_like.dataset import MDPDataset
from pfrl_like.dataset.conventions import logged_convention
from pfrl_like.dataset.selection import Selection
from pfrl_like.dataset.transition import stacked_shape
from pfrl_like.env import as_gymnasium
from pfrl_like.learning.compatibility.spaces import OneObservation
from pfrl_like.loggers import (
    FileAdapterFactory,
    LoggerAdapterFactory,
    LoggingStrategy,
)
from pfrl_like.ope.episodes import first_of
from pfrl_like.ope.fqe_saving import FQEConfig, make_critics
from pfrl_like.ope.policies import (
    ActingPolicy,
    KnowingFQE,
    NoPolicy,
    agent_of,
    check_fits,
    evaluates_modes,
    lying_on,
    policy_of,
    tried,
)
from pfrl_like.preprocessing import Scaler
from pfrl_like.preprocessing.features import FeatureExtractor
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.runs.loop import Callback, Clock, run
from pfrl_like.utils.batch_states import batch_states
from pfrl_like.utils.checks import check_counts, check_function
from pfrl_like.utils.env_values import space_kind

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
        fqe: Any = self
        data = data_of(dataset)
        fqe.build_with_dataset(data)
        drawn = drawn_data(data, min(fqe.batch_size, size_of(data)), fqe.n_frames, fqe.observation_shape)
        silent = enable_ddp and not is_first()
        name = experiment_name or type(self).__name__
        log = log_of(fqe, name, with_timestamp, logger_adapter, n_steps_per_epoch, silent)

        def epochs() -> Iterator[tuple[int, Metrics]]:
            with log, together(fqe.agent, enable_ddp):
                log.params(fqe.params() | logged_convention(data))
                for epoch, start in enumerate(range(0, n_steps, n_steps_per_epoch), 1):
                    clock = Clock(min(start + n_steps_per_epoch, n_steps), start)
                    source = UpdateSource(fqe, drawn, epoch)
                    logs = [] if interval is None else [logged_every(interval, source, log)]
                    with shown(clock, show_progress and not silent) as bar:
                        run(source, clock, [*logs, called(callback, fqe, epoch), *bar])
                    if epoch % save_interval == 0:  # before evaluators, which are functions of the user's
                        log.save(fqe, epoch, clock.t)
                    scores = evaluated(fqe, scorers, dataset)
                    called(epoch_callback, fqe, epoch)(clock)
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


def is_buffer(data: Any) -> bool:
    """Whether data are a replay buffer."""
    return hasattr(data, "stored_steps")


def data_of(dataset: Any) -> Any:
    """What minibatches are drawn from: a replay buffer or a dataset as it is, or episodes."""
    return dataset if hasattr(dataset, "sample_batch") else Selection(dataset)


def size_of(data: Any) -> int:
    """How many transitions there are."""
    return int(getattr(data, "n_steps", None) or len(data))


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


class BuildingFQE(KnowingFQE):
    """The agent that learns, made for shapes, for data or for an environment."""

    n_frames: int
    scalers: dict[str, Scaler | None]
    _algo: Any
    _config: FQEConfig
    _device: torch.device
    _impl: Any
    _shape: tuple[int, ...] | None
    _action_size: int | None

    def create_impl(self, observation_shape: Any, action_size: int) -> None:
        """Build the agent, of continuous actions unless it is known better; `fit` does it for the shapes of its data.

        Args:
            observation_shape: Shape of an observation, frames not stacked.
            action_size: Numbers of an action, or how many discrete actions there are.

        Raises:
            ValueError: On shapes that cannot be.
            NotFittedError: If a scaler or the algorithm is not fitted.
            TypeError: If the algorithm cannot act, or has other actions.
        """
        check_counts(action_size=action_size)
        shape = shape_of_one(observation_shape)
        with self.taking_kind(False):
            self.inner_create_impl(shape, int(action_size))
        self._shape, self._action_size = shape, int(action_size)

    def inner_create_impl(self, observation_shape: Any, action_size: int) -> None:
        """What `create_impl` calls."""
        policy: torch.nn.Module = NoPolicy()
        if self._algo is not None:
            policy = lying_on(self._device, policy_of(self._algo, action_size if self.discrete_action else None))
        features = self._features(policy)
        extract = FeatureExtractor(features.get("phi"), features.get("batch_states", batch_states))
        seen = stacked_shape(observation_shape, self.n_frames)
        shape = tuple(extract([np.zeros(seen, np.float32)], "cpu").shape[1:])
        critics, optimizer = make_critics(self._config, self.scalers, shape, action_size, bool(self.discrete_action))
        rows = self._config.batch_size
        modes = self._algo is None or evaluates_modes(self._algo)
        agent_class = agents.DiscreteFittedQEvaluation if self.discrete_action else agents.FittedQEvaluation
        self._impl = agent_class(
            policy, [critics], [optimizer], ReplayBuffer(None), self._config.gamma, device=self._device,
            minibatch_size=rows, replay_start_size=rows, act_deterministically=modes,
            target_update_interval=self._config.target_update_interval, **features,
        )  # fmt: skip

    def _features(self, policy: Any) -> dict[str, Any]:
        """How observations reach the policy, and so the critics."""
        agent: Any = None if self._algo is None or isinstance(policy, ActingPolicy) else agent_of(self._algo)
        return {"phi": agent.phi, "batch_states": agent.batch_states} if hasattr(agent, "phi") else {}

    def build_with_dataset(self, dataset: Any) -> None:
        """Build the agent for the shapes of data, and fit the scalers to them; one that is there has to fit.

        Args:
            dataset: An `MDPDataset`, a list of episodes, or a replay buffer.

        Raises:
            TypeError: If its actions are of another kind than those of the critics or of the algorithm.
            ValueError: If it is empty, does not fit what is built or evaluated, or is a replay buffer of n-step returns
                where there is a `reward_scaler`.
            NotFittedError: If the algorithm is an estimator that is not built yet.
        """
        check_single_rewards(self.scalers["reward_scaler"], dataset)
        if self._impl is not None and self._shape is None:  # an agent of the user's own
            return
        selection = _selection_of(dataset)
        shape, size = selection.observation_shape, selection.action_size
        with self.taking_kind(selection.discrete_action):
            check_action_kind(self, selection.discrete_action)
            check_fits(self._algo, selection.discrete_action, shape, size)
            n_actions = self._tried_size(first_of(selection, self.n_frames), size)
            if self._impl is None:
                for scaler in self.scalers.values():
                    if scaler is not None and not scaler.fitted:
                        scaler.fit(selection.episodes)
                self.create_impl(shape, n_actions)
        check_built_for(self, self._shape, self._action_size, shape, size)

    def build_with_env(self, env: Any) -> None:
        """Build the agent for the spaces of an environment; one that is there has to fit.

        Raises:
            TypeError: If its actions are of another kind than those of the critics or of the algorithm.
            ValueError: If its actions are no vectors, or it does not fit what is built or evaluated.
            NotFittedError: If the algorithm is an estimator that is not built yet.
        """
        adapted = as_gymnasium(env)
        with self.taking_kind(space_kind(adapted.action_space) == "discrete"):
            shape, size = shapes_of_env(self, env)
            seen = np.zeros(stacked_shape(shape, self.n_frames), adapted.observation_space.dtype)
            self._tried_size(OneObservation(seen), size, env=True)
            if self._impl is None:
                self.create_impl(shape, size)
        check_built_for(self, self._shape, self._action_size, shape, size)

    def _tried_size(self, observation: OneObservation, size: int, env: bool = False) -> int:
        """Numbers of an action, or how many there are, as of `tried`, which refuses an algorithm of other ones."""
        if self._algo is None:
            return size
        return tried(self._algo, observation, bool(self.discrete_action), size, env).size


def _selection_of(dataset: Any) -> Selection:
    if isinstance(dataset, Selection):
        return dataset
    if is_buffer(dataset):
        return Selection(MDPDataset.from_buffer(dataset))
    return Selection(dataset)
