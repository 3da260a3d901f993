"""Training of estimators in an environment: collection of steps, updates and epochs."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from gymnasium.spaces import Box

from pfrl_like import online
from pfrl_like.algos.fitting import spaces
from pfrl_like.algos.fitting.epochs import OnlineUpdates, RunLog, is_overridden, progress_callbacks, warn_of_hooks
from pfrl_like.algos.fitting.fitting import Training, state_metrics
from pfrl_like.algos.fitting.minibatches import SampledData
from pfrl_like.dataset.transition import stacked_shape
from pfrl_like.env import as_gymnasium
from pfrl_like.envs.make_env import accept_env_ids
from pfrl_like.experiments.evaluation_env import check_apart
from pfrl_like.experiments.sources import SerialSource
from pfrl_like.learning.compatibility.parts import check_explorer
from pfrl_like.metrics import evaluate_on_environment
from pfrl_like.metrics.scorer import LastFrames
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.runs.loop import Clock, run
from pfrl_like.utils.checks import check_counts, check_flags, names_unknown_keywords
from pfrl_like.utils.env_values import Allowed, mask_columns, mask_keyword, required_keyword, sample_allowed


class Collector:
    """Object that acts in an environment like an agent and stores the steps. A subclass defines `choose`.

    Args:
        algo: Algorithm with the attributes `n_frames` and `discrete_action`.
        buffer: Replay buffer in which steps are stored.
        explorer: Explorer of `pfrl_like.explorers` or `pfrl_like.online.explorers`, or an object with the method
            `sample(algo, observation, step)`. If the environment masks actions, `sample` also needs the keyword
            `action_mask`. If None, the algorithm chooses all actions.
        action_space: Action space from which the actions of the first `random_steps` steps are sampled.
        random_steps: Number of initial steps with random actions, sampled uniformly from the allowed actions.

    Raises:
        TypeError: If `explorer` is not an explorer, or is an explorer for the other kind of actions.
    """

    def __init__(self, algo: Any, buffer: Any, explorer: Any, action_space: Any, random_steps: int = 0) -> None:
        self.algo, self.buffer = algo, buffer
        self.action_space, self.random_steps = action_space, random_steps
        convert = getattr(explorer, "for_actions", None)
        explorer = explorer if convert is None else convert(action_space)
        has_select = hasattr(explorer, "select_action")
        if explorer is not None and not has_select and not hasattr(explorer, "sample"):
            raise TypeError(f"explorer is {explorer!r:.80}, expected an explorer of pfrl_like.explorers")
        check_explorer(explorer, "discrete" if algo.discrete_action else "continuous", type(algo).__name__)
        self.explorer: Any = explorer if has_select else None
        self.sampler: Any = None if has_select else explorer
        self.steps = 0
        self._action: Any = None
        self._mask: Any = None
        self._begin()

    def _begin(self) -> None:
        self._frames = LastFrames(self.algo.n_frames)
        self._obs: Any = None  # last observation of the running episode, without stacked frames
        self._stack: Any = None  # the same observation with stacked frames

    def _push(self, obs: Any) -> None:
        self._obs, self._stack = obs, self._frames.push(obs)

    def explore(self, predict: Callable[..., Any], obs: Any, action_mask: Any, step: int) -> Any:
        """Return the algorithm's action, or the action that the explorer selects given the algorithm's action.

        Args:
            predict: The method `predict` or `sample_action` of the algorithm.
            obs: One observation with stacked frames.
            action_mask: True for allowed actions, [n_actions]. None allows all actions.
            step: Number of steps so far, for the explorer.
        """

        def algo_action() -> Any:
            action = predict(np.asarray(obs)[None], **required_keyword(predict, action_mask))[0]
            return action.item() if np.ndim(action) == 0 else action

        allowed = None if action_mask is None else Allowed([action_mask])
        return algo_action() if self.explorer is None else self.explorer.select_action(step, algo_action, allowed)

    def base_policy(self, deterministic: bool = False) -> Callable[..., Any]:
        """Return the algorithm's method `predict` or `sample_action`, whose actions the explorer changes.

        `sample_action` is not used if `deterministic` is True. With an explorer, it is also not used for discrete
        actions, or if the user overrides only `predict`.
        """
        algo, greedy = self.algo, deterministic
        if self.explorer is not None:
            only_predict = is_overridden(algo, "predict") and not is_overridden(algo, "sample_action")
            greedy = greedy or algo.discrete_action or only_predict
        return algo.predict if greedy else partial(sample_or_predict, algo)

    def choose(self, obs: Any, action_mask: Any) -> Any:
        """Return the algorithm's action, or the action that the explorer selects given the algorithm's action.

        Args:
            obs: One observation with stacked frames.
            action_mask: True for allowed actions, [n_actions]. None allows all actions.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define choose")

    def act(self, obs: Any, *, action_mask: Any = None) -> Any:
        """Return the action for the newest observation of the environment."""
        if self._obs is None:
            self._push(obs)
        if self.steps < self.random_steps:
            self._action = sample_allowed(self.action_space, action_mask)
        elif self.sampler is not None:
            keyword = required_keyword(self.sampler.sample, action_mask)
            self._action = self.sampler.sample(self.algo, self._stack, self.steps, **keyword)
        else:
            self._action = self.choose(self._stack, action_mask)
        self._mask = action_mask
        return self._action

    def observe(self, obs: Any, reward: float, done: bool, reset: bool, *, action_mask: Any = None) -> None:
        """Store the step that leads to `obs`."""
        self.steps += 1
        last_obs = self._obs
        self._push(obs)
        masks = {name: [mask] for name, mask in mask_columns(self._mask, action_mask, obs).items()}
        self.buffer.append_batch([last_obs], [self._action], [reward], [obs], [done], [reset], **masks)
        if done or reset:
            self._begin()

    def saved_state(self) -> dict[str, Any]:
        """Return the number of steps and the last observation of the running episode."""
        return {"steps": self.steps, "obs": self._obs, "stack": self._stack}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `saved_state`."""
        self.steps, self._obs, self._stack = state["steps"], state["obs"], state["stack"]
        for frame in () if self._obs is None else np.array_split(self._stack, self.algo.n_frames):
            self._frames.push(frame)

    def stop_episode(self) -> None:
        """Truncate the running episode; the next step begins a new episode."""
        self.buffer.stop_current_episode()
        self._begin()


class PolicyCollector(Collector):
    """Collector that acts with the methods `predict` and `sample_action`. The arguments are those of `Collector`.

    Attributes:
        deterministic: True to select greedy actions. False to sample actions, to which explorers of continuous actions
            add noise. Explorers of discrete actions always get greedy actions.
    """

    deterministic = False

    def choose(self, obs: Any, action_mask: Any) -> Any:
        """Return an action of the policy. If there is an explorer, it selects the action, given this action."""
        return self.explore(self.base_policy(self.deterministic), obs, action_mask, self.steps)


class AgentCollector(Collector):
    """Object that acts with an estimator's agent.

    The agent chooses the actions. If the user overrides `predict` or `sample_action`, or if actions are scaled, the
    method `predict` or `sample_action` of the estimator chooses them.

    Args:
        algo: The estimator.
        buffer: Replay buffer in which steps are stored.
        explorer: Explorer of `pfrl_like.explorers` or `pfrl_like.online.explorers`, or an object with the method
            `sample(algo, observation, step)`. If the environment masks actions, `sample` also needs the keyword
            `action_mask`. If None, the algorithm chooses all actions. Within the context of this object, the agent uses
            this explorer.
        action_space: Action space from which the actions of the first `random_steps` steps are sampled.
        random_steps: Number of initial steps with random actions, sampled uniformly from the allowed actions.
    """

    def __init__(self, algo: Any, buffer: Any, explorer: Any, action_space: Any, random_steps: int = 0) -> None:
        self.agent = algo.impl
        super().__init__(algo, buffer, explorer, action_space, random_steps)
        self._agent_explorer = self.agent.explorer
        self._uses_predict = algo.action_scaler_ is not None or is_overridden(algo, "predict", "sample_action")

    def __enter__(self) -> Self:
        """Replace the agent's explorer with `explorer`, if the agent chooses the actions."""
        if self.explorer is not None and not self._uses_predict:
            self.agent.explorer = self.explorer
        return self

    def __exit__(self, *_: Any) -> None:
        """Restore the agent's original explorer."""
        self.agent.explorer = self._agent_explorer

    def choose(self, obs: Any, action_mask: Any) -> Any:
        """Return a training action."""
        if self._uses_predict:
            return self.explore(self.base_policy(), obs, action_mask, self.agent.t)
        return self.agent.act(obs, **mask_keyword(action_mask))

    def observe(self, obs: Any, reward: float, done: bool, reset: bool, *, action_mask: Any = None) -> None:
        """Store the step that leads to `obs`, and increase the agent's step counter."""
        super().observe(obs, reward, done, reset, action_mask=action_mask)
        self.agent.count_step()

    def dry_run(self, obs: Any, action_space: Any) -> None:
        """Raise an error if the agent cannot act in an environment. `obs` is the environment's first observation."""
        if self.algo.action_scaler_ is not None:
            action_space = Box(-1.0, 1.0, action_space.shape)
        n_frames = self.algo.n_frames
        stacks = stacked_shape(obs.shape, n_frames) != obs.shape
        self.agent.dry_run(np.concatenate([obs] * n_frames) if stacks else obs, action_space)


def sample_or_predict(algo: Any, obs: Any, **options: Any) -> Any:
    """Return actions from `sample_action`, or from `predict` if the algorithm cannot sample actions."""
    try:
        return algo.sample_action(obs, **options)
    except NotImplementedError:
        return algo.predict(obs, **options)


class OnlineFitting:
    """Mixin for the online training of estimators."""

    @accept_env_ids("env")
    def build_with_env(self, env: Any) -> None:
        """Build the agent for the spaces of an environment, as `fit_online` does before the first step.

        If the agent is already built, only check that it matches the environment.

        Args:
            env: Environment that `pfrl_like.env.as_gymnasium` accepts, or an environment id such as "Pendulum-v1".

        Raises:
            NotFittedError: If a scaler is not fitted. Only a "min_max" scaler of actions can be fitted to the spaces.
            TypeError: If `env` is not an environment, or only one of environment and algorithm has discrete actions.
            ValueError: If continuous actions are not vectors, observations are not arrays, or the environment has other
                shapes than the agent.
        """
        build_for_env(self, env)

    @names_unknown_keywords
    @accept_env_ids("env", "eval_env")
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
        tensorboard_dir: str | None = None,
        timelimit_aware: bool = True,
        resume: bool = False,
    ) -> Self:
        """Train in an environment. If the agent is already built, its training continues.

        Args:
            env: Environment that `pfrl_like.env.as_gymnasium` accepts, or an environment id such as "Pendulum-v1".
            buffer: Replay buffer of `pfrl_like.replay_buffers` or `pfrl_like.online.buffers`. It stores transitions
                with unstacked observations. If None, a buffer of one million transitions is created.
            explorer: Explorer of `pfrl_like.explorers` or `pfrl_like.online.explorers`. If None, the policy chooses the
                actions. Then there is exploration only if the policy is stochastic.
            n_epochs: Number of epochs. Each epoch collects steps and then makes updates.
            n_steps_per_epoch: Number of steps per epoch.
            n_updates_per_epoch: Number of updates at the end of an epoch.
            update_start_step: Number of initial steps without updates. There is also no update while the buffer
                contains fewer than `batch_size` steps. If an epoch has no update for this reason, it prints no losses,
                and a warning is issued, once per process.
            eval_env: Environment for evaluations, or its id. It must not be `env`. None disables evaluation.
            eval_epsilon: Probability of a random action during evaluation.
            eval_interval: Number of epochs between evaluations.
            experiment_name: Name of the folder. If None, the class name plus "_online" is used.
            with_timestamp: True to append the current time to the name.
            logdir: Directory in which the folder is created.
            verbose: True to print hyperparameters and metrics.
            show_progress: True to show a progress bar.
            tensorboard: True to also write metrics for TensorBoard to the directory `runs`.
            save_interval: Number of epochs between saved models.
            save_metrics: True to write metrics and models to disk.
            n_steps: Total number of steps. If not None, `n_epochs` is ignored, and updates are made every
                `update_interval` steps, not at the end of an epoch.
            update_interval: Number of steps between updates. Used if `n_steps` is not None.
            n_updates: Number of updates every `update_interval` steps. Used if `n_steps` is not None.
            random_steps: Number of initial steps with random actions, sampled uniformly from the allowed actions.
            callback: Function called as (estimator, epoch, steps so far) at the end of every epoch.
            tensorboard_dir: Directory in which the directory `runs` is created. If None, the current directory.
            timelimit_aware: Must be True: a step at which a time limit ends the episode is truncated, not terminal.
            resume: True to save a checkpoint after each epoch, and to continue a run that was stopped from its newest
                checkpoint. Then `with_timestamp` must be False, because the run is found by the name of its folder, and
                `save_metrics` must be True.

        Returns:
            The estimator itself.

        Raises:
            ValueError: If a number is out of range, observations of the environment are not arrays, the capacity of the
                buffer is smaller than a minibatch, `eval_env` is `env`, or `resume` is True and another argument does
                not allow it.
            CheckpointError: If no checkpoint of the run can be loaded, or if another training writes to the folder.
            TypeError: If the environment has the wrong kind of actions, or an argument is not an environment, buffer,
                explorer, function or path. If the environment masks actions and the explorer has no keyword
                `action_mask`.
            NonFiniteError: If observations, rewards or losses contain NaN or infinity.
        """
        given = dict(locals())
        check_timelimit_aware(timelimit_aware)
        check_counts(update_interval=update_interval, n_updates=n_updates)
        check_counts(least=0, n_updates_per_epoch=n_updates_per_epoch)
        check_counts(least=0, update_start_step=update_start_step, random_steps=random_steps)
        algo: Any = self
        training = online_training(algo, given)
        buffer = checked_buffer(buffer, algo.batch_size)
        spaces.check_single_rewards(algo.reward_scaler_, buffer)
        data = SampledData(buffer, algo.batch_size, algo.n_frames, algo.observation_shape_)
        if not data.options:  # an agent with stacked frames would store them in the buffer
            algo.impl.replay_buffer = buffer
        collector = AgentCollector(algo, buffer, explorer, env.action_space, random_steps)
        schedule = (n_steps_per_epoch, n_updates_per_epoch) if n_steps is None else (update_interval, n_updates)
        updates = OnlineUpdates(algo, data, *schedule, update_start_step)
        source, parts = SerialSource(collector, env), [collector, updates, explorer]
        with collector:
            train_online(training, source, updates, eval_env, eval_epsilon, eval_interval, parts)
        return self

    @accept_env_ids("env")
    def collect(
        self: Any,
        env: Any,
        buffer: Any = None,
        explorer: Any = None,
        deterministic: bool = False,
        n_steps: int = 1000000,
        show_progress: bool = True,
        timelimit_aware: bool = True,
    ) -> Any:
        """Collect data in an environment. If the agent is not built yet, it is built for the environment.

        Args:
            env: Environment that `pfrl_like.env.as_gymnasium` accepts, or an environment id such as "Pendulum-v1".
            buffer: Replay buffer of `pfrl_like.replay_buffers` or `pfrl_like.online.buffers`. It stores transitions
                with unstacked observations. If None, a `pfrl_like.online.buffers.ReplayBuffer` of one million
                transitions is created, whose `to_mdp_dataset` returns a dataset.
            explorer: Explorer of `pfrl_like.explorers` or `pfrl_like.online.explorers`. If None, the policy chooses the
                actions.
            deterministic: True to select greedy actions, which an explorer may change. False to sample actions.
            n_steps: Number of steps.
            show_progress: True to show a progress bar.
            timelimit_aware: Must be True: a step at which a time limit ends the episode is truncated, not terminal.

        Returns:
            The buffer.

        Raises:
            ValueError: If a number is out of range, or the algorithm does not match the environment.
            TypeError: If `buffer` is not a replay buffer, if the algorithm's actions are discrete but those of the
                environment or explorer are not, or the reverse, or if the environment masks actions and the algorithm
                does not support masks.
        """
        check_counts(n_steps=n_steps)
        check_timelimit_aware(timelimit_aware)
        self.build_with_env(env)
        buffer = online.buffers.ReplayBuffer(1_000_000, env) if buffer is None else checked_buffer(buffer, 1)
        collect_steps(self, env, buffer, explorer, deterministic, n_steps, show_progress)
        return buffer


def check_timelimit_aware(timelimit_aware: bool) -> None:
    """Raise an error if the argument `timelimit_aware` is not True.

    Raises:
        ValueError: If it is False.
        TypeError: If it is not a bool.
    """
    check_flags(timelimit_aware=timelimit_aware)
    if not timelimit_aware:
        advice = "for terminal time limits, wrap the environment so that it returns terminated in place of truncated"
        raise ValueError(f"timelimit_aware is False, expected True: {advice}")


def collect_steps(
    algo: Any, env: Any, buffer: Any, explorer: Any, deterministic: bool, n_steps: int, show_progress: bool
) -> None:
    """Store the steps of an algorithm in a buffer. The arguments are those of `OnlineFitting.collect`."""
    kind = getattr(algo, "collector_class", PolicyCollector)
    collector = kind(algo, buffer, explorer, as_gymnasium(env).action_space)
    collector.deterministic = deterministic
    clock = Clock(n_steps)
    with progress_callbacks(clock, show_progress) as bar:
        run(SerialSource(collector, env, cuts_off_at_end=True), clock, bar)


def train_online(
    training: Training, source: SerialSource, updates: OnlineUpdates, eval_env: Any, eval_epsilon: float,
    eval_interval: int = 1, parts: Sequence[Any] = (),
) -> None:  # fmt: skip
    """Train an estimator in an environment.

    Args:
        training: `Training` with the estimator and the options of epochs and log.
        source: Source of the training loop that acts in the environment.
        updates: Callback of the training loop that makes the updates.
        eval_env: Environment for evaluations. It must not be the training environment. None disables evaluation.
        eval_epsilon: Probability of a random action during evaluation.
        eval_interval: Number of epochs between evaluations.
        parts: Objects whose state checkpoints contain, in addition to the agent and the source.
    """
    evaluate = None if eval_env is None else evaluate_on_environment(eval_env, epsilon=eval_epsilon)
    training.algo.eval_results_ = {} if evaluate is None else {"evaluation": []}
    clock, env = Clock(training.n_steps), source.env
    if training.resume:
        source.record()
    with RunLog(training, training.n_steps_per_epoch, env, source) as log:
        log.params(training.algo._json_params())
        log.resume([training, *parts, eval_env], clock)
        epochs = OnlineEpochs(training, log, updates, evaluate, eval_interval)
        with progress_callbacks(clock, training.show_progress) as bar:
            run(source, clock, [updates, *bar, epochs])


@dataclasses.dataclass
class OnlineEpochs:
    """Callback of the training loop that logs losses and ends epochs.

    At the end of an epoch the estimator is saved, evaluated and logged.

    Args:
        training: `Training` with the estimator and the options of epochs and log.
        log: Log of metrics and models.
        updates: Callback of the training loop that makes the updates.
        evaluate: Function called as `evaluate(estimator)`. It returns a score. None disables evaluation.
        eval_interval: Number of epochs between evaluations.
    """

    training: Training
    log: RunLog
    updates: OnlineUpdates
    evaluate: Callable[[Any], float] | None
    eval_interval: int

    def __post_init__(self) -> None:
        self._begin(self.training.epoch)

    def _begin(self, epoch: int) -> None:
        self.training.epoch = epoch
        self._logged = 0  # number of updates of the epoch whose losses are logged
        self.updates.begin_epoch(epoch)

    def __call__(self, clock: Clock) -> None:
        """Log losses every `interval` steps, and end the epoch after the last step of the epoch."""
        training, algo, returns = self.training, self.training.algo, self.updates.returns
        epoch = training.epoch
        if training.interval is not None and clock.t % training.interval == 0:
            self.log.metrics(epoch, clock.t, self._losses())
        if clock.t % training.n_steps_per_epoch and not clock.done:
            return
        n_done = epoch - training.first  # number of earlier epochs
        if (n_done + 1) % training.save_interval == 0:
            self.log.save(algo, epoch, clock.t)
        losses = self._losses() if training.interval is None else dict.fromkeys(algo.loss_names)
        metrics = {**losses, **state_metrics(algo), "rollout_return": float(np.mean(returns)) if returns else None}
        metrics |= dict.fromkeys(algo.eval_results_)
        if self.evaluate is not None and not n_done % self.eval_interval:
            metrics["evaluation"] = score = self.evaluate(algo)
            algo.eval_results_["evaluation"].append(score)
        self.log.metrics(epoch, clock.t, metrics)
        for call in training.callbacks_for(training.callback, epoch):
            call(clock)
        self._begin(epoch + 1)
        self.log.checkpoint(clock)

    def _losses(self) -> Mapping[str, float | None]:
        """Return mean losses over the updates that are not logged yet, or None for each loss if all are logged."""
        source, logged = self.updates.source, self._logged
        self._logged = len(source)
        new = self._logged - logged
        return source.metrics(new) if new else dict.fromkeys(self.training.algo.loss_names)


def online_training(algo: Any, given: Mapping[str, Any]) -> Training:
    """Return the `Training` of an estimator's `fit_online`, and build the agent for the environment.

    Args:
        algo: The estimator.
        given: Arguments of `fit_online`, keyed by name.
    """
    check_counts(n_epochs=given["n_epochs"], eval_interval=given["eval_interval"])
    check_apart(given["env"], given["eval_env"])
    options = {each.name: given[each.name] for each in dataclasses.fields(Training) if each.name in given}
    options["experiment_name"] = given["experiment_name"] or f"{type(algo).__name__}_online"
    if given["n_steps"] is None:
        options["n_steps"] = given["n_epochs"] * given["n_steps_per_epoch"]
    training = Training(algo, **options)
    warn_of_hooks(algo)
    build_for_env(algo, given["env"])
    return training


def build_for_env(algo: Any, env: Any) -> None:
    """Build an estimator's agent for an environment, or check that a built agent matches the environment.

    A "min_max" scaler of actions is fitted to the bounds of the action space. Other scalers must already be fitted.

    Raises:
        NotFittedError: If a scaler is not fitted.
        TypeError: If `env` is not an environment, or has the wrong kind of actions.
        ValueError: If continuous actions are not vectors, observations are not arrays, or shapes differ from the shapes
            for which the agent was built.
    """
    shape, size = spaces.shapes_of_env(algo, env)
    if algo.impl is None:
        scalers = spaces.copy_scalers(algo, fitted=True)
        spaces.fit_to_space(scalers["action_scaler"], as_gymnasium(env).action_space)
        spaces.set_scalers(algo, scalers)
        algo.create_impl(shape, size)
    spaces.check_scalers_used(algo)
    algo.check_shapes(shape, size)
    algo.retune()


def checked_buffer(buffer: Any, batch_size: int) -> Any:
    """Check a replay buffer and return it. If `buffer` is None, return a new buffer of one million transitions.

    Raises:
        TypeError: If `buffer` is not a replay buffer.
        ValueError: If the capacity of the buffer is smaller than a minibatch.
    """
    if buffer is None:
        return ReplayBuffer(1_000_000)
    needed = ("append_batch", "sample_batch", "stop_current_episode", "__len__")
    if not all(hasattr(buffer, name) for name in needed):
        raise TypeError(f"buffer is {buffer!r:.80}, expected a buffer of pfrl_like.replay_buffers")
    capacity = getattr(buffer, "capacity", None)
    if capacity is not None and capacity < batch_size:
        raise ValueError(f"buffer has a capacity of {capacity}, expected at least {batch_size} (batch_size)")
    return buffer
