"""What happens beside training: hooks, logs, evaluation, checkpoints. Each sees only the clock.

A callback returns the step at which it wants to be called again if no episode ends before; see `loop.Callback`.
"""

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pfrl_like.experiments.loop import Clock
from pfrl_like.experiments.saving import save_agent, statistics_of
from pfrl_like.experiments.sources import SerialSource
from pfrl_like.loggers import MetricsLogger

StepHookLike = Callable[[Any, Any, int], Any]


class CutOff:
    """Ends the running episode with the run, so that it is logged and counted (serial runs, as in PFRL)."""

    def __init__(self, source: SerialSource) -> None:
        self.source = source

    def __call__(self, clock: Clock) -> float:
        if clock.t >= clock.steps and self.source.running:
            clock.end_episodes(self.source.running)
        return clock.steps


class StepHooks:
    """Calls every hook as `hook(env, agent, t)` for every step, with the user's own environment."""

    def __init__(self, hooks: Sequence[StepHookLike], env: Any, agent: Any, step_offset: int) -> None:
        self.hooks, self.env, self.agent = hooks, env, agent
        self.next_t = step_offset + 1

    def __call__(self, clock: Clock) -> float:
        for t in range(self.next_t, clock.t + 1):
            for hook in self.hooks:
                hook(self.env, self.agent, t)
        self.next_t = clock.t + 1
        return self.next_t


class EpisodeLog:
    """Hands the numbers of every finished episode to the loggers.

    Args:
        loggers: Get "episode" (its number, from 0), "return" and "length".
    """

    def __init__(self, loggers: Sequence[MetricsLogger]) -> None:
        self.loggers = loggers

    def __call__(self, clock: Clock) -> float:
        number = clock.episodes - len(clock.ended)
        for episode in clock.ended:
            if episode.finished:
                metrics = {"episode": number, "return": episode.total_reward, "length": episode.length}
                for logger in self.loggers:
                    logger.log(clock.t, metrics)
            number += 1
        return math.inf


class EpisodeLines:
    """Logs a line for every episode, and the agent's statistics (serial runs)."""

    def __init__(self, agent: Any, logger: logging.Logger, outdir: str) -> None:
        self.agent, self.logger, self.outdir = agent, logger, outdir

    def __call__(self, clock: Clock) -> float:
        if clock.ended and self.logger.isEnabledFor(logging.INFO):
            number, total_reward = clock.episodes - 1, clock.ended[-1].total_reward
            self.logger.info("outdir:%s step:%s episode:%s R:%s", self.outdir, clock.t, number, total_reward)
            self.logger.info("statistics:%s", statistics_of(self.agent))
        return math.inf


class IntervalLines:
    """Logs the mean return of recent episodes every `interval` steps (batch runs)."""

    def __init__(self, agent: Any, interval: int, logger: logging.Logger, outdir: str, step_offset: int) -> None:
        self.agent, self.interval, self.logger, self.outdir = agent, interval, logger, outdir
        self.next_t = (step_offset // interval + 1) * interval

    def __call__(self, clock: Clock) -> float:
        if clock.t >= self.next_t:
            self.next_t = (clock.t // self.interval + 1) * self.interval
            last, mean = (clock.returns[-1], np.mean(clock.returns)) if clock.returns else (np.nan, np.nan)
            self.logger.info(
                "outdir:%s step:%s episode:%s last_R:%s average_R:%s", self.outdir, clock.t, clock.episodes, last, mean
            )
            self.logger.info("statistics:%s", statistics_of(self.agent))
        return self.next_t


class Evaluation:
    """Evaluates when it is due, and ends training when the score is good enough.

    Args:
        evaluator: Object with `evaluate_if_necessary(t=, episodes=)` and `max_score`.
        agent: Asked for its statistics.
        successful_score: Score that ends training; None for none.
        during_episode: Whether evaluation may interrupt an episode.

    Attributes:
        history: The agent's statistics and "eval_score" at every evaluation.
    """

    def __init__(self, evaluator: Any, agent: Any, successful_score: float | None, during_episode: bool) -> None:
        self.evaluator, self.agent = evaluator, agent
        self.successful_score, self.during_episode = successful_score, during_episode
        self.history: list[dict[str, Any]] = []

    def __call__(self, clock: Clock) -> float:
        if clock.ended or self.during_episode:
            score = self.evaluator.evaluate_if_necessary(t=clock.t, episodes=clock.episodes)
            if score is not None:
                self.history.append({**dict(statistics_of(self.agent)), "eval_score": score})
            if self.successful_score is not None and self.evaluator.max_score >= self.successful_score:
                clock.stop("stopped at successful_score")
        if not self.during_episode:
            return math.inf
        next_t = getattr(self.evaluator, "next_eval_t", None)  # another's evaluator is asked at every step
        return clock.t + 1 if next_t is None else float(next_t)


class Checkpoints:
    """Saves the agent as `<t>_checkpoint` at every multiple of `interval`."""

    def __init__(self, agent: Any, interval: int, outdir: str, logger: logging.Logger, step_offset: int) -> None:
        self.agent, self.interval, self.outdir, self.logger = agent, interval, outdir, logger
        self.next_t = (step_offset // interval + 1) * interval

    def __call__(self, clock: Clock) -> float:
        while clock.t >= self.next_t:
            save_agent(self.agent, self.next_t, self.outdir, self.logger, suffix="_checkpoint")
            self.next_t += self.interval
        return self.next_t
