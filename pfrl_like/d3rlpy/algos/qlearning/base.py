"""The base class of algorithms that learn from transitions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch

from pfrl_like.algos.fitting.epochs import is_overridden
from pfrl_like.algos.fitting.saving import export_greedy
from pfrl_like.batch import Batch, first_leaf, map_nested
from pfrl_like.d3rlpy.algos.qlearning import offline, online
from pfrl_like.d3rlpy.base import LearnableBase, export_ending
from pfrl_like.d3rlpy.constants import ActionSpace, LoggingStrategy
from pfrl_like.d3rlpy.dataset import ReplayBuffer, TransitionMiniBatch
from pfrl_like.d3rlpy.dataset.library import batch_of_minibatch, sample_batch
from pfrl_like.d3rlpy.logging import FileAdapterFactory, LoggerAdapterFactory
from pfrl_like.d3rlpy.types import GymEnv, NDArray, Observation, Shape
from pfrl_like.utils.contexts import keep_training_mode

_FILES = FileAdapterFactory()
#: Function called as (algorithm, epoch, number of steps).
StepCallback = Callable[[Any, int, int], Any]


class QLearningAlgoBase(LearnableBase):
    """Base class of algorithms that learn from transitions. An algorithm builds an agent of `pfrl_like.agents`.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the config has an `action_scaler`, but actions are discrete.
        TypeError: If `device` has the wrong type.
    """

    #: Statistic of the agent for each metric.
    metrics: ClassVar[Mapping[str, str]] = {}
    #: d3rlpy's names of the policy, its optimiser, and the optimiser of the Q-functions. Empty if there is none.
    policy_parts: ClassVar[tuple[str, str]] = ("", "")
    critic_optimizer: ClassVar[str] = ""

    def inner_create_impl(self, observation_shape: Shape, action_size: int) -> None:
        """Build the agent. As in d3rlpy, updates evaluate only the critics, and only for the policy's loss."""
        super().inner_create_impl(observation_shape, action_size)
        for name, network in getattr(self._impl.agent, "__dict__", {}).items():  # random policies have no agent
            if isinstance(network, torch.nn.Module) and "q_func" not in name:
                keep_training_mode(network)

    def save_policy(self, fname: str) -> None:
        """Export the greedy policy, with scalers, to a file that runs without this library.

        If the greedy actions are random (BCQ, BEAR, CRR), the file contains fixed numbers in place of random ones. The
        exported actions may differ from `predict` by up to 0.001 (above 1: relative), because sums of many float32
        numbers depend on their order.

        Args:
            fname: Path of the file. `.onnx` selects the ONNX format, `.pt` selects TorchScript.

        Raises:
            NotFittedError: If the networks are not built.
            ValueError: If the path has another ending.
            ExportError: If the policy cannot be exported.
            CheckpointError: If the file cannot be written. An existing file of this name stays unchanged.
        """
        agent = self._built.agent
        export_ending(fname)
        scaler: Any = self.action_scaler
        shape: Any = self.observation_shape
        export_greedy(agent, tuple(shape), fname, action_scaler=scaler, tolerance=1e-3)

    def predict(self, x: Observation) -> NDArray:
        """Return greedy actions: indices [N], or vectors [N, A].

        Args:
            x: Observations, [N, ...].

        Raises:
            NotFittedError: If the networks are not built.
            ValueError: If `x` has no batch axis, or if its shape is not that of the networks.
        """
        return self._acted(self._observations(x), self._greedy)

    def sample_action(self, x: Observation) -> NDArray:
        """Return actions sampled from the policy, in the shapes of `predict`. A deterministic policy acts greedily.

        Args:
            x: Observations, [N, ...].

        Raises:
            NotFittedError: If the networks are not built.
            ValueError: If `x` has no batch axis, or if its shape is not that of the networks.
        """
        return self._acted(self._observations(x), self._sample)

    def predict_value(self, x: Observation, action: NDArray) -> NDArray:
        """Return the mean of the critics' values, [N].

        Args:
            x: Observations, [N, ...].
            action: Actions: indices [N] or [N, 1], one index for all observations, or vectors [N, A].

        Raises:
            NotFittedError: If the networks are not built.
            NotImplementedError: If the algorithm has no Q-functions.
            ValueError: If the shape of `x` or `action` is wrong, or if an index is not that of an action.
        """
        agent = self._built.agent
        if not self.critic_optimizer:
            raise NotImplementedError(f"{type(self).__name__} has no Q-functions: evaluate it with d3rlpy.ope.FQE")
        obs, actions = self._observations(x), torch.as_tensor(action, device=self._device)
        size: Any = self.action_size
        if self.get_action_type() is ActionSpace.DISCRETE:
            actions, n = actions.reshape(-1).long(), len(first_leaf(obs))
            if len(actions) not in (1, n):
                raise ValueError(f"action has {len(actions)} rows, but x has {n} observations: expected equal lengths")
            wrong = actions[(actions < 0) | (actions >= size)] if size is not None else actions[:0]
            if len(wrong):
                raise ValueError(f"action has the index {int(wrong[0])}, expected 0 to {size - 1}")
            actions = actions.expand(n)
        elif size is not None and actions.shape != (expected := (len(first_leaf(obs)), size)):
            raise ValueError(f"action has shape {tuple(actions.shape)}, expected {expected}")
        elif self.action_scaler is not None:
            actions = self.action_scaler.transform(actions)
        with torch.no_grad(), self._evaluating():
            values: NDArray = agent.values_of_pairs(obs, actions).mean(0).cpu().numpy()
        return values

    def update(self, batch: TransitionMiniBatch) -> dict[str, float]:
        """Make one update from a minibatch, and return metrics.

        Args:
            batch: Minibatch of `sample_transition_batch`. The algorithm scales its values.

        Raises:
            NotFittedError: If the networks are not built.
            NonFiniteError: If the loss or a gradient is NaN or infinite.
        """
        discrete = self.get_action_type() is ActionSpace.DISCRETE
        returns = self.need_returns_to_go
        scaler = self.reward_scaler
        return self.learn(
            batch_of_minibatch(batch, self.gamma, discrete, self._device, returns=returns, reward_scaler=scaler)
        )

    def learn(self, batch: Batch) -> dict[str, float]:
        """Make one update from a batch of recorded values, and return metrics. The method scales actions and rewards.

        Args:
            batch: The batch.
        """
        agent = self._built.agent
        actions: Any = self.action_scaler
        if actions is not None:
            following = actions.transform(batch.next_action)
            batch = batch.replace(action=actions.transform(batch.action), next_action=following)
        if self.reward_scaler is not None:
            batch = batch.replace(reward=self.reward_scaler.transform(batch.reward))
        before = self.metrics_before(agent, batch)
        agent.optim_t = self._grad_step  # `set_grad_step` changes the phase of delayed updates
        with offline.learners(self):
            error, statistics = agent.update(batch)
        self._grad_step += 1
        return before | self.report(error, statistics)

    def metrics_before(self, agent: Any, batch: Batch) -> dict[str, float]:
        """Return metrics that are no statistics of the agent. The method is called before the update."""
        return {}

    def report(self, error: torch.Tensor, statistics: Mapping[str, torch.Tensor]) -> dict[str, float]:
        """Return metrics.

        Args:
            error: Errors of the rows, [N].
            statistics: Statistics of the agent's update.
        """
        return {name: float(statistics[ours].mean()) for name, ours in self.metrics.items() if ours in statistics}

    def fit_scaler(self, scaler: Any, dataset: ReplayBuffer) -> None:
        """Fit a scaler to the transitions of a dataset.

        Args:
            scaler: Scaler of observations, actions or rewards.
            dataset: The dataset.
        """
        scaler.fit_with_transition_picker(dataset.episodes, dataset.transition_picker)

    def learn_from(self, dataset: ReplayBuffer) -> Callable[[], dict[str, float]]:
        """Sample a minibatch, and return a function that makes an update from it.

        The minibatch is read from columns, unless a subclass defines `update`, or scaled rewards are to be summed.
        """
        slow = self.need_returns_to_go and self.reward_scaler is not None
        if slow or is_overridden(self, "update"):
            minibatch = dataset.sample_transition_batch(self.batch_size)
            return lambda: self.update(minibatch)
        returns = self.need_returns_to_go
        batch = sample_batch(dataset, self.batch_size, self.gamma, self._device, returns=returns)
        return lambda: self.learn(batch)

    def fit(
        self,
        dataset: Any,
        n_steps: int,
        n_steps_per_epoch: int = 10000,
        experiment_name: str | None = None,
        with_timestamp: bool = True,
        logging_steps: int = 500,
        logging_strategy: LoggingStrategy = LoggingStrategy.EPOCH,
        logger_adapter: LoggerAdapterFactory = _FILES,
        show_progress: bool = True,
        save_interval: int = 1,
        evaluators: Mapping[str, Any] | None = None,
        callback: StepCallback | None = None,
        epoch_callback: StepCallback | None = None,
    ) -> list[tuple[int, dict[str, float]]]:
        """Train on a dataset, and return the number and the metrics of each epoch.

        Args:
            dataset: Dataset of the layer, or of `pfrl_like.dataset`, which is converted.
            n_steps: Number of updates. Updates after the last whole epoch are not made.
            n_steps_per_epoch: Number of updates in an epoch.
            experiment_name: Name in the log. If None, the class name.
            with_timestamp: True to append `_YYYYmmddHHMMSS` to the name.
            logging_steps: Number of updates between logged metrics. Used with `LoggingStrategy.STEPS`.
            logging_strategy: `LoggingStrategy.EPOCH` logs metrics after each epoch.
            logger_adapter: Factory of the log. With `enable_ddp`, only process 0 uses it.
            show_progress: True to show a progress bar for each epoch.
            save_interval: Number of epochs between saved models.
            evaluators: Functions called as (algorithm, dataset) after each epoch; keys are the names of the metrics.
            callback: Function called as (algorithm, epoch, updates so far) after each update.
            epoch_callback: Function called as (algorithm, epoch, updates so far) after each epoch.

        Raises:
            ValueError: If there are no transitions, or a number is out of range.
            ActionKindError: If the dataset has another kind of actions than the algorithm.
            TypeError: If `dataset` is no dataset, or an evaluator is not a function.
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
        logger_adapter: LoggerAdapterFactory = _FILES,
        show_progress: bool = True,
        save_interval: int = 1,
        evaluators: Mapping[str, Any] | None = None,
        callback: StepCallback | None = None,
        epoch_callback: StepCallback | None = None,
    ) -> Iterator[tuple[int, dict[str, float]]]:
        """Return an iterator that trains for one epoch per item.

        Args:
            dataset: Dataset of the layer, or of `pfrl_like.dataset`, which is converted.
            n_steps: Number of updates. Updates after the last whole epoch are not made.
            n_steps_per_epoch: Number of updates in an epoch.
            logging_steps: Number of updates between logged metrics. Used with `LoggingStrategy.STEPS`.
            logging_strategy: `LoggingStrategy.EPOCH` logs metrics after each epoch.
            experiment_name: Name in the log. If None, the class name.
            with_timestamp: True to append `_YYYYmmddHHMMSS` to the name.
            logger_adapter: Factory of the log. With `enable_ddp`, only process 0 uses it.
            show_progress: True to show a progress bar for each epoch.
            save_interval: Number of epochs between saved models.
            evaluators: Functions called as (algorithm, dataset) after each epoch; keys are the names of the metrics.
            callback: Function called as (algorithm, epoch, updates so far) after each update.
            epoch_callback: Function called as (algorithm, epoch, updates so far) after each epoch.

        Yields:
            The number of the epoch, from 1, and its metrics.

        Raises:
            ValueError: If there are no transitions, or a number is out of range.
            ActionKindError: If the dataset has another kind of actions than the algorithm.
            TypeError: If `dataset` is no dataset, or an evaluator is not a function.
            NonFiniteError: If a loss is NaN or infinite.
        """
        return offline.epochs(self, dataset, SimpleNamespace(**locals()))

    def fit_online(
        self,
        env: GymEnv,
        buffer: ReplayBuffer | None = None,
        explorer: Any = None,
        n_steps: int = 1000000,
        n_steps_per_epoch: int = 10000,
        update_interval: int = 1,
        n_updates: int = 1,
        update_start_step: int = 0,
        random_steps: int = 0,
        eval_env: GymEnv | None = None,
        eval_epsilon: float = 0.0,
        eval_n_trials: int = 10,
        save_interval: int = 1,
        experiment_name: str | None = None,
        with_timestamp: bool = True,
        logging_steps: int = 500,
        logging_strategy: LoggingStrategy = LoggingStrategy.EPOCH,
        logger_adapter: LoggerAdapterFactory = _FILES,
        show_progress: bool = True,
        callback: StepCallback | None = None,
    ) -> None:
        """Train in an environment. Updates begin when the buffer has more transitions than a minibatch.

        Args:
            env: Environment with the five-value `step`.
            buffer: Buffer of the transitions. If None, the last 1000000 are kept.
            explorer: Explorer that selects the actions. If None, they are sampled from the policy.
            n_steps: Number of environment steps.
            n_steps_per_epoch: Number of environment steps in an epoch.
            update_interval: Number of steps between updates.
            n_updates: Number of updates every `update_interval` steps.
            update_start_step: Number of initial steps without updates.
            random_steps: Steps before this number have random actions.
            eval_env: Environment of the metric `evaluation`. If None, there is no evaluation.
            eval_epsilon: Probability of a random action in the evaluation.
            eval_n_trials: Number of episodes of an evaluation.
            save_interval: Number of epochs between saved models.
            experiment_name: Name in the log. If None, the class name and `_online`.
            with_timestamp: True to append `_YYYYmmddHHMMSS` to the name.
            logging_steps: Number of steps between logged metrics. Used with `LoggingStrategy.STEPS`.
            logging_strategy: `LoggingStrategy.EPOCH` logs metrics after each epoch.
            logger_adapter: Factory of the log. With `enable_ddp`, only process 0 uses it.
            show_progress: True to show a progress bar.
            callback: Function called as (algorithm, epoch, steps so far) after each step.

        Raises:
            ValueError: If a number is out of range.
            ActionKindError: If the environment has another kind of actions than the algorithm.
            NonFiniteError: If a loss is NaN or infinite.
        """
        online.train(self, env, SimpleNamespace(**locals()))

    def collect(
        self,
        env: GymEnv,
        buffer: ReplayBuffer | None = None,
        explorer: Any = None,
        deterministic: bool = False,
        n_steps: int = 1000000,
        show_progress: bool = True,
    ) -> ReplayBuffer:
        """Make steps in an environment without updates, and return the buffer.

        Args:
            env: Environment with the five-value `step`.
            buffer: Buffer of the transitions. If None, the last 1000000 are kept.
            explorer: Explorer that selects the actions. If None, they are sampled from the policy.
            deterministic: True to select greedy actions, without the explorer.
            n_steps: Number of environment steps.
            show_progress: True to show a progress bar.

        Raises:
            ValueError: If a number is out of range.
            ActionKindError: If the environment has another kind of actions than the algorithm.
        """
        return online.collect(self, env, buffer, explorer, deterministic, n_steps, show_progress)

    @property
    def need_returns_to_go(self) -> bool:
        """True if updates use the return from each step to the end of its episode."""
        return False

    def copy_policy_from(self, algo: "QLearningAlgoBase") -> None:
        """Copy the parameters of the policy of another algorithm.

        Args:
            algo: The other algorithm. Its policy has the same class and encoder.

        Raises:
            TypeError: If `algo` is no algorithm of this package.
            NotImplementedError: If one of the algorithms has no policy.
            ValueError: If the policies have different classes.
        """
        _copy(self._built.policy, _built(algo).policy)

    def copy_policy_optim_from(self, algo: "QLearningAlgoBase") -> None:
        """Copy the state of the policy's optimiser of another algorithm, but not its learning rate.

        Args:
            algo: The other algorithm. Its policy has the same class and encoder.

        Raises:
            TypeError: If `algo` is no algorithm of this package.
            NotImplementedError: If one of the algorithms has no policy.
            ValueError: If the optimisers have different classes.
        """
        _copy(self._built.policy_optim, _built(algo).policy_optim)

    def copy_q_function_from(self, algo: "QLearningAlgoBase") -> None:
        """Copy the parameters of the Q-functions of another algorithm.

        Args:
            algo: The other algorithm. Its Q-functions have the same number, class and encoders.

        Raises:
            TypeError: If `algo` is no algorithm of this package.
            NotImplementedError: If one of the algorithms has no Q-functions.
            ValueError: If the Q-functions have different classes.
        """
        _copy(self._built.q_function, _built(algo).q_function)

    def copy_q_function_optim_from(self, algo: "QLearningAlgoBase") -> None:
        """Copy the state of the critics' optimiser of another algorithm, but not its learning rate.

        Args:
            algo: The other algorithm. Its Q-functions have the same number, class and encoders.

        Raises:
            TypeError: If `algo` is no algorithm of this package.
            NotImplementedError: If one of the algorithms has no Q-functions.
            ValueError: If the optimisers have different classes.
        """
        _copy(self._built.q_function_optim, _built(algo).q_function_optim)

    def reset_optimizer_states(self) -> None:
        """Forget the states of all optimisers, for example Adam's moments."""
        for wrapper in self._built.modules.optimizers():
            wrapper.optim.state.clear()

    # Parts that subclasses use

    def _greedy(self, obs: Any) -> Any:
        """Return greedy actions as a tensor."""
        return self._built.agent.greedy_actions(obs)[0]

    def _sample(self, obs: Any) -> Any:
        """Return sampled actions as a tensor."""
        return self._greedy(obs)

    def greedy_tensor(self, obs: Any) -> torch.Tensor:
        """Return greedy actions as a tensor, in the range of the dataset's.

        Args:
            obs: Observations as tensors, [N, ...].
        """
        return self._acted_tensor(obs, self._greedy)

    def _observations(self, x: Any) -> Any:
        """Return observations as tensors.

        Raises:
            ValueError: If there is no batch axis, or if the shape is not that of the networks.
        """
        parts = tuple(x) if isinstance(x, list) else x
        obs = map_nested(lambda part: torch.tensor(np.asarray(part), device=self._device), parts)
        if not isinstance(obs, tuple) and obs.ndim < 2:
            raise ValueError(f"x has shape {tuple(obs.shape)}, expected a batch axis: pass x[None] for one observation")
        shape = map_nested(lambda part: tuple(part.shape[1:]), obs)
        built = () if self._observation_shape is None else self._observation_shape
        expected = tuple(tuple(size) if isinstance(size, Sequence) else size for size in built)
        if expected not in ((), shape):
            raise ValueError(f"x has observations of shape {shape}, expected {expected}")
        return obs


def _built(algo: Any) -> Any:
    """Return the implementation of an algorithm.

    Raises:
        TypeError: If `algo` is no algorithm of this package.
    """
    if not isinstance(algo, QLearningAlgoBase):
        raise TypeError(f"algo is {type(algo).__name__}, expected an algorithm of pfrl_like.d3rlpy")
    return algo._built


def _copy(target: Any, source: Any) -> None:
    """Copy the parameters of a network, or the state of an optimiser, whose learning rates stay.

    Raises:
        ValueError: If the classes differ.
    """
    kinds = [type(part[0] if isinstance(part, torch.nn.ModuleList) else part).__name__ for part in (target, source)]
    if kinds[0] != kinds[1]:
        raise ValueError(f"algo has a {kinds[1]}, expected a {kinds[0]}")
    state = source.state_dict()
    if isinstance(target, torch.optim.Optimizer):
        state = {"state": state["state"], "param_groups": target.state_dict()["param_groups"]}
    target.load_state_dict(state)
