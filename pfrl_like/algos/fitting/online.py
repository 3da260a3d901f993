"""Training of estimators in an environment: collection of steps and updates, at the end of every epoch or between."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self

import numpy as np
from gymnasium.spaces import Box

from pfrl_like.algos.fitting import spaces
from pfrl_like.algos.fitting.epochs import OnlineUpdates, RunLog, is_overridden, shown, warn_of_hooks
from pfrl_like.algos.fitting.fitting import Training, state_metrics
from pfrl_like.algos.fitting.minibatches import drawn_data
from pfrl_like.dataset.transition import stacked_shape
from pfrl_like.env import as_gymnasium
from pfrl_like.experiments.evaluator import check_apart
from pfrl_like.experiments.sources import SerialSource
from pfrl_like.learning.compatibility.parts import check_explorer
from pfrl_like.metrics import evaluate_on_environment
from pfrl_like.metrics.scorer import LastFrames
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.runs.loop import Clock, run
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.env_values import Allowed, mask_columns, mask_keyword, required_keyword, sample_allowed


class Collector:
    """Acts in an environment like an agent and stores the steps; a subclass defines how the algorithm acts.

    Args:
        algo: The algorithm, with `n_frames` and `discrete_action`.
        buffer: Replay buffer in which steps are stored.
        explorer: One of `pfrl_like.explorers` or of `pfrl_like.online.explorers`, or anything with
            `sample(algo, observation, step)`, which needs the keyword `action_mask` where actions are masked; None
            leaves the actions to the algorithm.
        action_space: Action space from which the actions of the first `random_steps` steps are drawn.
        random_steps: Number of first steps, whose actions are drawn uniformly from the allowed ones.

    Raises:
        TypeError: If `explorer` is no explorer, or made for other actions.
    """

    def __init__(self, algo: Any, buffer: Any, explorer: Any, action_space: Any, random_steps: int = 0) -> None:
        self.algo, self.buffer = algo, buffer
        self.action_space, self.random_steps = action_space, random_steps
        of_space = getattr(explorer, "for_actions", None)
        explorer = explorer if of_space is None else of_space(action_space)
        selects = hasattr(explorer, "select_action")
        if explorer is not None and not selects and not hasattr(explorer, "sample"):
            raise TypeError(f"explorer is {explorer!r:.80}, expected one of pfrl_like.explorers or online.explorers")
        check_explorer(explorer, "discrete" if algo.discrete_action else "continuous", type(algo).__name__)
        self.explorer: Any = explorer if selects else None
        self.sampler: Any = None if selects else explorer
        self.steps = 0
        self._action: Any = None
        self._mask: Any = None
        self._begin()

    def _begin(self) -> None:
        self._frames = LastFrames(self.algo.n_frames)
        self._obs: Any = None  # the last observation of a running episode, as the environment returned it
        self._stack: Any = None  # the same, stacked with the frames before it

    def _push(self, obs: Any) -> None:
        self._obs, self._stack = obs, self._frames.push(obs)

    def explored(self, own: Callable[..., Any], obs: Any, action_mask: Any, step: int) -> Any:
        """The action that an algorithm predicts or draws, or that the explorer makes of it.

        Args:
            own: `predict` or `sample_action` of the algorithm.
            obs: One observation, frames stacked.
            action_mask: True where an action is allowed, [n_actions]; None allows all.
            step: Number of the step, for the explorer.
        """

        def predicted() -> Any:
            action = own(np.asarray(obs)[None], **required_keyword(own, action_mask))[0]
            return action.item() if np.ndim(action) == 0 else action

        told = None if action_mask is None else Allowed([action_mask])
        return predicted() if self.explorer is None else self.explorer.select_action(step, predicted, told)

    def choose(self, obs: Any, action_mask: Any) -> Any:
        """The action of the algorithm, or that the explorer makes of it.

        Args:
            obs: One observation, frames stacked.
            action_mask: True where an action is allowed, [n_actions]; None allows all.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how to act")

    def act(self, obs: Any, *, action_mask: Any = None) -> Any:
        """The action for the environment's newest observation."""
        if self._obs is None:
            self._push(obs)
        if self.steps < self.random_steps:
            self._action = sample_allowed(self.action_space, action_mask)
        elif self.sampler is not None:
            told = required_keyword(self.sampler.sample, action_mask)
            self._action = self.sampler.sample(self.algo, self._stack, self.steps, **told)
        else:
            self._action = self.choose(self._stack, action_mask)
        self._mask = action_mask
        return self._action

    def observe(self, obs: Any, reward: float, done: bool, reset: bool, *, action_mask: Any = None) -> None:
        """Store the step."""
        self.steps += 1
        before = self._obs
        self._push(obs)
        masks = {name: [mask] for name, mask in mask_columns(self._mask, action_mask, obs).items()}
        self.buffer.append_batch([before], [self._action], [reward], [obs], [done], [reset], **masks)
        if done or reset:
            self._begin()

    def stop_episode(self) -> None:
        """Cut off the running episode; the next step begins a new one."""
        self.buffer.stop_current_episode()
        self._begin()


class AgentCollector(Collector):
    """Acts with an estimator's agent; with `predict` or `sample_action` if actions are scaled or these overridden.

    Args:
        algo: The estimator.
        buffer: Replay buffer in which steps are stored.
        explorer: One of `pfrl_like.explorers` or of `pfrl_like.online.explorers`, or anything with
            `sample(algo, observation, step)`, which needs the keyword `action_mask` where actions are masked; None
            leaves the actions to the algorithm. Within the context it is the agent's explorer.
        action_space: Action space from which the actions of the first `random_steps` steps are drawn.
        random_steps: Number of first steps, whose actions are drawn uniformly from the allowed ones.
    """

    def __init__(self, algo: Any, buffer: Any, explorer: Any, action_space: Any, random_steps: int = 0) -> None:
        self.agent = algo.impl
        super().__init__(algo, buffer, explorer, action_space, random_steps)
        self._before = self.agent.explorer
        self._asks = algo.action_scaler_ is not None or is_overridden(algo, "predict", "sample_action")

    def __enter__(self) -> Self:
        """Set the agent's explorer."""
        if self.explorer is not None and not self._asks:
            self.agent.explorer = self.explorer
        return self

    def __exit__(self, *_: Any) -> None:
        """Restore the agent's former explorer."""
        self.agent.explorer = self._before

    def choose(self, obs: Any, action_mask: Any) -> Any:
        """The action of the agent in training."""
        if self._asks:
            own = self.algo.predict if self.explorer is not None else partial(drawn_actions, self.algo)
            return self.explored(own, obs, action_mask, self.agent.t)
        return self.agent.act(obs, **mask_keyword(action_mask))

    def observe(self, obs: Any, reward: float, done: bool, reset: bool, *, action_mask: Any = None) -> None:
        """Store the step, and count it."""
        super().observe(obs, reward, done, reset, action_mask=action_mask)
        self.agent.count_step()

    def dry_run(self, obs: Any, action_space: Any) -> None:
        """Raise an error if the agent cannot act in an environment; its first observation is used for the check."""
        if self.algo.action_scaler_ is not None:
            action_space = Box(-1.0, 1.0, action_space.shape)
        n_frames = self.algo.n_frames
        stacks = stacked_shape(obs.shape, n_frames) != obs.shape
        self.agent.dry_run(np.concatenate([obs] * n_frames) if stacks else obs, action_space)


def drawn_actions(algo: Any, obs: Any, **options: Any) -> Any:
    """Actions that an algorithm samples; those that it predicts if it cannot sample."""
    try:
        return algo.sample_action(obs, **options)
    except NotImplementedError:
        return algo.predict(obs, **options)


class OnlineFitting:
    """The online training of estimators."""

    def fit_online(
        self,
        env: Any,
        buffer: Any = None,
        explorer: Any = None,
        n_epochs: int = 1000,
        n_steps_per_epoch: int = 4000,
        n_updates_per_epoch: int = 100,
        update_start_step: int = 0,
        eval_env: Any = None,
        eval_epsilon: float = 0.0,
        eval_interval: int = 1,
        experiment_name: str | None = None,
        with_timestamp: bool = True,
        logdir: str = "d3rlpy_logs",
        verbose: bool = True,
        show_progress: bool = True,
        tensorboard: bool = True,
        save_interval: int = 1,
        *,
        save_metrics: bool = True,
        n_steps: int | None = None,
        update_interval: int = 1,
        n_updates: int = 1,
        random_steps: int = 0,
        callback: Callable[[Any, int, int], Any] | None = None,
    ) -> Self:
        """Learn in an environment; an agent that is already built continues its training.

        Args:
            env: An environment that `pfrl_like.env.as_gymnasium` accepts.
            buffer: Replay buffer of transitions, with unstacked observations: one of `pfrl_like.replay_buffers` or
                `pfrl_like.online.buffers`; None makes one of a million steps.
            explorer: Chooses the actions: one of `pfrl_like.explorers` or `pfrl_like.online.explorers`; None leaves
                them to the policy, which explores only if it is stochastic.
            n_epochs: Number of epochs; each collects steps, and then learns from them.
            n_steps_per_epoch: Steps per epoch.
            n_updates_per_epoch: Updates at the end of an epoch.
            update_start_step: Steps before the first update, which may follow the next step. There is no update while
                the buffer holds fewer than `batch_size` steps; an epoch without updates for that reason prints no
                losses, and a warning says so, once a process.
            eval_env: Environment of evaluations, another one than `env`; None for no evaluation.
            eval_epsilon: Probability of a random action in evaluation.
            eval_interval: Epochs between evaluations.
            experiment_name: Name of the folder; None for that of the class with "_online".
            with_timestamp: Whether the time is appended to the name.
            logdir: Directory in which the folder is made.
            verbose: Whether hyperparameters and metrics are printed.
            show_progress: Whether progress is shown.
            tensorboard: Whether metrics are written for TensorBoard, too, under `runs`.
            save_interval: Epochs between saved models.
            save_metrics: Whether anything is written to disk.
            n_steps: Steps in total, instead of `n_epochs`; updates are then made between steps, every `update_interval`
                steps, not at the end of an epoch.
            update_interval: Steps between updates, if `n_steps` is given.
            n_updates: Number of updates every `update_interval` steps, if `n_steps` is given.
            random_steps: Number of first steps, whose actions are drawn uniformly from the allowed ones.
            callback: Called with (estimator, epoch, steps so far) at the end of every epoch.

        Returns:
            The estimator itself.

        Raises:
            ValueError: On numbers out of range, an environment whose observations are no arrays, a buffer that cannot
                hold a minibatch, or an `eval_env` that is `env`.
            TypeError: If the environment has actions of another kind, or something is no environment, buffer,
                explorer, function or path, or an explorer takes no `action_mask` where the environment has one.
            NonFiniteError: On NaN or infinity in observations, rewards or losses.
        """
        check_counts(
            n_epochs=n_epochs, eval_interval=eval_interval, update_interval=update_interval, n_updates=n_updates
        )
        check_counts(
            least=0, n_updates_per_epoch=n_updates_per_epoch, update_start_step=update_start_step,
            random_steps=random_steps,
        )  # fmt: skip
        check_apart(env, eval_env)
        algo: Any = self
        training = Training(
            algo, experiment_name or f"{type(self).__name__}_online",
            n_epochs * n_steps_per_epoch if n_steps is None else n_steps, n_steps_per_epoch, save_interval,
            show_progress, callback, with_timestamp=with_timestamp, save_metrics=save_metrics, logdir=logdir,
            verbose=verbose, tensorboard=tensorboard,
        )  # fmt: skip
        warn_of_hooks(algo)
        build_for_env(algo, env)
        buffer = checked_buffer(buffer, algo.batch_size)
        spaces.check_single_rewards(algo.reward_scaler_, buffer)
        data = drawn_data(buffer, algo.batch_size, algo.n_frames, algo.observation_shape_)
        if not data.options:  # with stacking, the agent itself would store stacks in it
            algo.impl.replay_buffer = buffer
        collector = AgentCollector(algo, buffer, explorer, env.action_space, random_steps)
        schedule = (n_steps_per_epoch, n_updates_per_epoch) if n_steps is None else (update_interval, n_updates)
        updates = OnlineUpdates(algo, data, *schedule, update_start_step)
        with collector:
            train_online(training, SerialSource(collector, env), updates, eval_env, eval_epsilon, eval_interval)
        return self


def train_online(
    training: Training, source: Any, updates: OnlineUpdates, eval_env: Any, eval_epsilon: float, eval_interval: int = 1
) -> None:
    """Train an estimator while its data are collected.

    Args:
        training: The training: its algorithm, epochs and log.
        source: Source of the training loop, which acts in the environment.
        updates: Callback of the training loop, which makes the updates.
        eval_env: Environment of evaluations, another one than the training's; None for no evaluation.
        eval_epsilon: Probability of a random action in evaluation.
        eval_interval: Epochs between evaluations.
    """
    evaluate = None if eval_env is None else evaluate_on_environment(eval_env, epsilon=eval_epsilon)
    training.algo.eval_results_ = {} if evaluate is None else {"evaluation": []}
    clock = Clock(training.n_steps)
    with RunLog(training, training.n_steps_per_epoch) as log, shown(clock, training.show_progress) as bar:
        log.params(training.algo._json_params())
        epochs = OnlineEpochs(training, log, updates, evaluate, eval_interval)
        run(source, clock, [updates, *bar, epochs])


@dataclasses.dataclass
class OnlineEpochs:
    """Callback of the training loop that logs losses, and saves, evaluates and logs at the end of every epoch.

    Args:
        training: The training: its algorithm, epochs and log.
        log: Log of metrics and models.
        updates: Callback of the training loop, which makes the updates.
        evaluate: Function of the algorithm that returns a score; None for no evaluation.
        eval_interval: Epochs between evaluations.

    Attributes:
        epoch: Number of the epoch.
    """

    training: Training
    log: RunLog
    updates: OnlineUpdates
    evaluate: Callable[[Any], float] | None
    eval_interval: int

    def __post_init__(self) -> None:
        self._begin(self.training.first)

    def _begin(self, epoch: int) -> None:
        self.epoch, self._logged = epoch, 0  # `_logged`: updates of the epoch whose losses have been logged
        self.updates.begin_epoch(epoch)

    def __call__(self, clock: Clock) -> None:
        """Log losses if they are due, and end the epoch after its last step."""
        training, algo, returns = self.training, self.training.algo, self.updates.returns
        if training.interval is not None and clock.t % training.interval == 0:
            self.log.metrics(self.epoch, clock.t, self._losses())
        if clock.t % training.n_steps_per_epoch and not clock.done:
            return
        done = self.epoch - training.first
        if (done + 1) % training.save_interval == 0:
            self.log.save(algo, self.epoch, clock.t)
        losses = self._losses() if training.interval is None else dict.fromkeys(algo.loss_names)
        metrics = {**losses, **state_metrics(algo), "rollout_return": float(np.mean(returns)) if returns else None}
        metrics |= dict.fromkeys(algo.eval_results_)
        if self.evaluate is not None and not done % self.eval_interval:
            metrics["evaluation"] = score = self.evaluate(algo)
            algo.eval_results_["evaluation"].append(score)
        self.log.metrics(self.epoch, clock.t, metrics)
        for call in training.called(training.callback, self.epoch):
            call(clock)
        self._begin(self.epoch + 1)

    def _losses(self) -> Mapping[str, float | None]:
        """Mean losses over the updates of the epoch that have not been logged yet; None for each without updates."""
        source, logged = self.updates.source, self._logged
        self._logged = len(source)
        new = self._logged - logged
        return source.metrics(new) if new else dict.fromkeys(self.training.algo.loss_names)


def build_for_env(algo: Any, env: Any) -> None:
    """Build an estimator's agent for an environment, or check that a built one fits.

    Raises:
        NotFittedError: If a scaler is not fitted. Data fit scalers; the bounds of the environment fit "min_max" scalers
            of actions.
        TypeError: If `env` is no environment, or its actions are of another kind than the estimator's.
        ValueError: If its actions are no vectors, its observations no arrays, or their shapes differ from those that
            the agent was built for.
    """
    shape, size = spaces.shapes_of_env(algo, env)
    if algo.impl is None:
        made = spaces.made_scalers(algo, fitted=True)
        spaces.fit_to_space(made["action_scaler"], as_gymnasium(env).action_space)
        spaces.take_scalers(algo, made)
        algo.create_impl(shape, size)
    spaces.check_scalers_taken(algo)
    algo.check_shapes(shape, size)
    algo.retune()


def checked_buffer(buffer: Any, batch_size: int) -> Any:
    """The replay buffer, checked to hold a minibatch; None makes one of a million steps.

    Raises:
        TypeError: If `buffer` is no replay buffer.
        ValueError: If its capacity is smaller than a minibatch.
    """
    if buffer is None:
        return ReplayBuffer(1_000_000)
    needed = ("append_batch", "sample_batch", "stop_current_episode", "__len__")
    if not all(hasattr(buffer, name) for name in needed):
        raise TypeError(
            f"buffer is {buffer!r:.80}, expected one of pfrl_like.replay_buffers or pfrl_like.online.buffers"
        )
    capacity = getattr(buffer, "capacity", None)
    if capacity is not None and capacity < batch_size:
        raise ValueError(f"buffer has a capacity of {capacity}, expected at least batch_size, {batch_size}")
    return buffer
