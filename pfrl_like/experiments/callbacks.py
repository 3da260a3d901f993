"""What happens beside training: hooks, logs, evaluation. Each sees only the clock."""

import collections
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pfrl_like.errors import CheckpointError
from pfrl_like.loggers import MetricsLogger
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.runs.loop import Clock
from pfrl_like.utils.close_all import close_all


class StepHooks:
    """Calls every hook as `hook(env, agent, t)` for every step, with the user's own environment."""

    def __init__(self, hooks: Sequence[Callable[[Any, Any, int], Any]], env: Any, agent: Any) -> None:
        self.hooks, self.env, self.agent = hooks, env, agent

    def __call__(self, clock: Clock) -> None:
        for t in range(clock.previous_t + 1, clock.t + 1):
            for hook in self.hooks:
                hook(self.env, self.agent, t)


class EpisodeLog:
    """Writes a line for every finished episode: to the loggers, and to the logging module (serial runs).

    Args:
        agent: Asked for its statistics.
        loggers: Where the metrics go.
        logger: Where a line for people goes; None for none.
        outdir: Named in that line.
    """

    def __init__(
        self, agent: Any, loggers: Sequence[MetricsLogger], logger: logging.Logger | None, outdir: str
    ) -> None:
        self.agent, self.loggers, self.logger, self.outdir = agent, loggers, logger, outdir

    def __call__(self, clock: Clock) -> None:
        if not clock.ended:
            return
        first = clock.episodes - len(clock.ended)
        for i, episode in enumerate(clock.ended):
            metrics = {"episode": first + i, "return": episode.total_reward, "length": episode.length}
            for logger in self.loggers:
                logger.log(clock.t, metrics)
            if self.logger is not None and self.logger.isEnabledFor(logging.INFO):
                self.logger.info(
                    "outdir:%s step:%s episode:%s R:%s", self.outdir, clock.t, first + i, episode.total_reward
                )
                self.logger.info("statistics:%s", statistics_of(self.agent))


class IntervalLog:
    """Logs the mean return of recent episodes every `interval` steps (batch runs)."""

    def __init__(self, agent: Any, interval: int | None, window: int, logger: logging.Logger, outdir: str) -> None:
        self.agent, self.interval, self.logger, self.outdir = agent, interval, logger, outdir
        self.returns: collections.deque[float] = collections.deque(maxlen=window)

    def __call__(self, clock: Clock) -> None:
        self.returns.extend(episode.total_reward for episode in clock.ended)
        if self.interval is None or clock.t // self.interval == clock.previous_t // self.interval:
            return
        last, mean = (self.returns[-1], np.mean(self.returns)) if self.returns else (np.nan, np.nan)
        self.logger.info(
            "outdir:%s step:%s episode:%s last_R:%s average_R:%s", self.outdir, clock.t, clock.episodes, last, mean
        )
        self.logger.info("statistics:%s", statistics_of(self.agent))

    def saved_state(self) -> dict[str, Any]:
        """The recent returns."""
        return {"returns": [*self.returns]}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `saved_state` gave."""
        self.returns.extend(state["returns"])


class Evaluation:
    """Evaluates when it is due, and ends training when the score is good enough.

    Args:
        evaluator: Object with `evaluate_if_necessary(t=, episodes=)`, which gives a score if it was.
        agent: Asked for its statistics.
        successful_score: Score that ends training; None for none.
        during_episode: Whether evaluation may interrupt an episode.
    """

    def __init__(self, evaluator: Any, agent: Any, successful_score: float | None, during_episode: bool) -> None:
        self.evaluator, self.agent = evaluator, agent
        self.successful_score, self.during_episode = successful_score, during_episode
        self.history: list[dict[str, Any]] = []

    def __call__(self, clock: Clock) -> None:
        is_last = clock.done and clock.interrupted is None
        if not (self.during_episode or clock.ended or is_last):
            return
        score = self.evaluator.evaluate_if_necessary(t=clock.t, episodes=clock.episodes)
        if score is not None:
            self.history.append({**dict(statistics_of(self.agent)), "eval_score": score})
            self.stop_if_successful(clock)

    def stop_if_successful(self, clock: Clock) -> None:
        """End training if a score so far is good enough."""
        if self.successful_score is None:
            return
        for score in (one["eval_score"] for one in self.history):
            if score >= self.successful_score:
                clock.stop(f"score {score:.1f} >= {self.successful_score:g}")

    def saved_state(self) -> dict[str, Any]:
        """The statistics so far."""
        return {"history": self.history}

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Take up what `saved_state` gave, and say if the evaluator, which is a part of its own, cannot."""
        self.history[:] = state["history"]
        known = hasattr(self.evaluator, "restore_state")
        return () if known else [f"evaluator: a {type(self.evaluator).__name__} has no restore_state"]

    def close(self) -> None:
        """Close what the evaluator has opened."""
        close_all([self.evaluator])


def save_agent(agent: Any, t: int | str, outdir: str, logger: logging.Logger, suffix: str = "") -> None:
    """Save an agent as `<outdir>/<t><suffix>`, without a trace in the random streams; nothing stays of a failure."""
    dirname = os.path.join(outdir, f"{t}{suffix}")
    if not hasattr(agent, "save"):
        logger.warning("The agent (%s) has no method save, so that %s was not written", type(agent).__name__, dirname)
        return
    is_new = not os.path.lexists(dirname)
    try:
        with isolated_rng():
            agent.save(dirname)
    except (CheckpointError, OSError):  # other errors may be told of what was saved before them
        if is_new:
            shutil.rmtree(dirname, ignore_errors=True)
        raise
    logger.info("Saved the agent to %s", dirname)


def statistics_of(agent: Any) -> list[tuple[str, Any]]:
    """The (name, value) pairs of an agent or an environment, none of one that keeps none."""
    statistics: Any = getattr(agent, "get_statistics", list)()
    return list(statistics) if isinstance(statistics, Iterable) else []
