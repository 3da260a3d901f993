"""Training and collection of transitions in an environment."""

import contextlib
import time
from typing import Any

import numpy as np

from pfrl_like.d3rlpy.algos.qlearning import offline
from pfrl_like.d3rlpy.constants import LoggingStrategy
from pfrl_like.d3rlpy.dataset import ReplayBuffer, create_fifo_replay_buffer
from pfrl_like.d3rlpy.logging import D3RLPyLogger, NoopAdapterFactory
from pfrl_like.d3rlpy.metrics import evaluate_qlearning_with_environment
from pfrl_like.d3rlpy.types import GymEnv
from pfrl_like.runs.loop import Clock, Episode
from pfrl_like.utils.checks import check_counts

#: Maximum number of transitions in a buffer that the caller does not give.
BUFFER_SIZE = 1000000


class EnvironmentSteps:
    """Source of the training loop: makes one environment step per step of the clock, and stores it.

    Args:
        algo: The algorithm.
        env: The environment.
        buffer: Buffer of the transitions.
        logger: Log of times and returns.
        explorer: Explorer that selects the actions. If None, they are sampled from the policy.
        deterministic: True to select greedy actions, without the explorer.
        random_steps: Steps before this number have random actions.
    """

    def __init__(
        self, algo: Any, env: Any, buffer: ReplayBuffer, logger: D3RLPyLogger, explorer: Any,
        deterministic: bool = False, random_steps: int = 0,
    ) -> None:  # fmt: skip
        self.algo, self.env, self.buffer, self.logger = algo, env, buffer, logger
        self.explorer, self.deterministic, self.random_steps = explorer, deterministic, random_steps
        self.obs, _ = env.reset()
        self.length, self.total_reward, self.started = 0, 0.0, 0.0

    def tick(self, clock: Clock) -> list[Episode]:
        """Make one step. If it ends the episode, begin an episode."""
        clock.t += 1
        self.started = time.perf_counter()
        with self.logger.measure_time("inference"):
            action = self._action(clock.t)
        with self.logger.measure_time("environment_step"):
            next_obs, reward, terminated, truncated, _ = self.env.step(action)
        self.buffer.append(self.obs, action, float(reward))
        self.obs, self.length, self.total_reward = next_obs, self.length + 1, self.total_reward + float(reward)
        if not (terminated or truncated):
            return []
        self.buffer.clip_episode(terminated)
        ended = Episode(self.total_reward, self.length)
        self.logger.add_metric("rollout_return", self.total_reward)
        self.obs, _ = self.env.reset()
        self.length, self.total_reward = 0, 0.0
        return [ended]

    def _action(self, step: int) -> Any:
        if step < self.random_steps:
            return self.env.action_space.sample()
        x = [part[None] for part in self.obs] if isinstance(self.obs, tuple) else np.asarray(self.obs)[None]
        if self.deterministic:
            return self.algo.predict(x)[0]
        return (self.algo.sample_action(x) if self.explorer is None else self.explorer.sample(self.algo, x, step))[0]


def train(algo: Any, env: GymEnv, given: Any) -> None:
    """Train in an environment.

    Args:
        algo: The algorithm.
        env: The environment.
        given: Other arguments of `fit_online` as attributes.
    """
    per_epoch, interval = given.n_steps_per_epoch, given.update_interval
    check_counts(n_steps=given.n_steps, n_steps_per_epoch=per_epoch, update_interval=interval)
    buffer = _prepared(algo, env, given.buffer, given.explorer)
    logger = offline.open_log(algo, given, f"{type(algo).__name__}_online")
    updates = offline.Updates(algo, buffer, logger)
    by_steps = LoggingStrategy(given.logging_strategy) is LoggingStrategy.STEPS

    def learn(clock: Clock) -> None:
        if clock.t <= given.update_start_step or clock.t % interval or not _has_minibatch(algo, buffer):
            return
        for _ in range(given.n_updates):
            updates.update()
        if by_steps and clock.t % given.logging_steps == 0:
            logger.commit(clock.t // per_epoch, clock.t)

    def end_step(clock: Clock) -> None:
        epoch = clock.t // per_epoch
        if given.callback is not None:
            given.callback(algo, epoch, clock.t)
        logger.add_metric("time_step", time.perf_counter() - steps.started)
        if clock.t % per_epoch:
            return
        if given.eval_env is not None:
            score = evaluate_qlearning_with_environment(algo, given.eval_env, given.eval_n_trials, given.eval_epsilon)
            logger.add_metric("evaluation", score)
        if epoch % given.save_interval == 0:
            logger.save_model(clock.t, algo)
        if not by_steps:
            logger.commit(epoch, clock.t)

    with contextlib.closing(logger), offline.learners(algo):
        steps = EnvironmentSteps(algo, env, buffer, logger, given.explorer, random_steps=given.random_steps)
        offline.run_with_progress(steps, Clock(given.n_steps), [learn, end_step], given.show_progress)
        buffer.clip_episode(False)


def collect(
    algo: Any,
    env: GymEnv,
    buffer: ReplayBuffer | None,
    explorer: Any,
    deterministic: bool,
    n_steps: int,
    show_progress: bool,
) -> ReplayBuffer:
    """Make steps in an environment and return the buffer. The arguments are those of `collect` of an algorithm."""
    check_counts(n_steps=n_steps)
    buffer = _prepared(algo, env, buffer, explorer)
    logger = D3RLPyLogger(algo, NoopAdapterFactory(), type(algo).__name__, n_steps)
    steps = EnvironmentSteps(algo, env, buffer, logger, explorer, deterministic)
    offline.run_with_progress(steps, Clock(n_steps), [], show_progress)
    buffer.clip_episode(False)
    return buffer


def _prepared(algo: Any, env: GymEnv, buffer: ReplayBuffer | None, explorer: Any) -> ReplayBuffer:
    """Fit the scalers to the environment, build the networks, and return the buffer.

    Raises:
        TypeError: If `buffer` is no buffer, or if `explorer` is no explorer.
    """
    for name, given, method in (("buffer", buffer, "clip_episode"), ("explorer", explorer, "sample")):
        if given is not None and (isinstance(given, type) or not hasattr(given, method)):
            raise TypeError(f"{name} is {given!r:.80}, expected an object with the method {method}")
    offline.check_kind(algo, hasattr(env.action_space, "n"), "env")
    for scaler in offline.scalers_to_fit(algo):
        if scaler is not algo.reward_scaler:
            scaler.fit_with_env(env)
    if algo.impl is None:
        algo.build_with_env(env)
    return create_fifo_replay_buffer(BUFFER_SIZE, env=env) if buffer is None else buffer


def _has_minibatch(algo: Any, buffer: ReplayBuffer) -> bool:
    """True if the buffer, and those of all processes that learn together, have more transitions than a minibatch."""
    has, group = buffer.transition_count > algo.batch_size, getattr(algo.impl.agent, "learner_group", None)
    return has if group is None else all(group.of_all(has))
