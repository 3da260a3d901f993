"""PFRL's helpers of its runners: saving of replay buffers, and the loop of one process of asynchronous training."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pfrl_like.experiments.callbacks import save_agent
from pfrl_like.experiments.sources import SerialSource
from pfrl_like.runs.loop import Clock, run
from pfrl_like.utils.ask_yes_no import ask_yes_no
from pfrl_like.utils.checks import takes_integral_floats

_LOGGER = logging.getLogger(__name__)


def save_agent_replay_buffer(
    agent: Any, t: int, outdir: str | os.PathLike[str], suffix: str = "", logger: logging.Logger | None = None
) -> None:
    """Save the replay buffer of an agent as `<outdir>/<t><suffix>.replay.pkl`.

    The name is PFRL's; the content is that of the buffer's `save`, and `load` reads it.

    Args:
        agent: Agent with the attribute `replay_buffer`.
        t: Number of training steps so far.
        outdir: Directory of the file.
        suffix: Text after the number of steps.
        logger: Logger that gets the path. If None, the logger of this module is used.

    Raises:
        CheckpointError: If the file cannot be written.
    """
    filename = os.path.join(outdir, f"{t}{suffix}.replay.pkl")
    agent.replay_buffer.save(filename)
    (logger or _LOGGER).info("Saved the current replay buffer to %s", filename)


def ask_and_save_agent_replay_buffer(agent: Any, t: int, outdir: str | os.PathLike[str], suffix: str = "") -> None:
    """Ask the user on the terminal whether to save the replay buffer of an agent, and save it if the answer is yes.

    Args:
        agent: Agent. If it has no `replay_buffer`, nothing is asked.
        t: Number of training steps so far.
        outdir: Directory of the file; see `save_agent_replay_buffer`.
        suffix: Text after the number of steps.
    """
    if hasattr(agent, "replay_buffer"):
        count = len(agent.replay_buffer)
        if ask_yes_no(f"Replay buffer has {count} transitions. Do you save them to a file?"):
            save_agent_replay_buffer(agent, t, outdir, suffix)


def kill_all() -> None:
    """End this process and all processes of its process group (on Windows its children) at once."""
    if os.name == "nt":
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(os.getpid())])
    else:
        os.killpg(os.getpgrp(), signal.SIGTERM)
        sys.exit(1)


@takes_integral_floats
def train_loop(
    process_idx: int,
    env: Any,
    agent: Any,
    steps: int,
    outdir: str | os.PathLike[str],
    counter: Any,
    episodes_counter: Any,
    stop_event: Any,
    exception_event: Any,
    max_episode_len: int | None = None,
    evaluator: Any = None,
    eval_env: Any = None,
    successful_score: float | None = None,
    logger: logging.Logger | None = None,
    global_step_hooks: Sequence[Callable[[Any, Any, int], Any]] = (),
) -> None:
    """Train an agent in one of several processes, which share counters of steps and episodes.

    The agent is saved as `<steps>_finish` by the process that makes the last step, as `successful` by the process whose
    evaluation reaches `successful_score`, and as `<step>_except` by process 0 if it raises an error.

    Args:
        process_idx: Index of the process.
        env: Environment in any form that `as_gymnasium` accepts.
        agent: Agent of this process.
        steps: Step at which training ends. Steps are counted over all processes.
        outdir: Directory of the saved agents.
        counter: `multiprocessing.Value` of the number of steps of all processes.
        episodes_counter: `multiprocessing.Value` of the number of episodes of all processes.
        stop_event: Event that ends training in all processes.
        exception_event: Event of an error elsewhere: process 0 saves its agent and calls `kill_all`.
        max_episode_len: Maximum number of steps in an episode. An episode that reaches this length is truncated. If
            None, there is no limit.
        evaluator: `AsyncEvaluator`, asked after each episode. None for no evaluations.
        eval_env: Environment for evaluation. If None, `env`.
        successful_score: Training ends when an evaluation reaches this score. If None, this condition is disabled.
        logger: Logger of this run. If None, the logger of this module is used.
        global_step_hooks: Functions that are called as `hook(env, agent, t)` after every step of this process.
    """
    logger, outdir = logger or _LOGGER, os.fspath(outdir)
    t, successful = 0, False

    def after_step(clock: Clock) -> None:
        nonlocal t
        t = _increment(counter)
        for hook in global_step_hooks:
            hook(env, agent, t)
        if clock.ended or t >= steps or stop_event.is_set():
            after_episode(clock)
        if process_idx == 0 and exception_event.is_set():
            logger.error("An exception was detected in another process; this process ends")
            save_agent(agent, t, outdir, logger, "_except")
            kill_all()

    def after_episode(clock: Clock) -> None:
        nonlocal successful
        if process_idx == 0:
            logger.info("outdir:%s global_step:%s local_step:%s R:%s", outdir, t, clock.t, source.total_reward)
            logger.info("statistics:%s", agent.get_statistics())
        if evaluator is not None:
            test_env = env if eval_env is None else eval_env
            score = evaluator.evaluate_if_necessary(t=t, episodes=episodes_counter.value, env=test_env, agent=agent)
            successful = None not in (score, successful_score) and score >= successful_score
        if successful:
            stop_event.set()
        else:
            _increment(episodes_counter)
        if t >= steps or stop_event.is_set():
            clock.stop()

    source = SerialSource(agent, env, max_episode_len)
    try:
        run(source, Clock(None), [after_step])
    except (Exception, KeyboardInterrupt):
        if process_idx == 0:
            save_agent(agent, t, outdir, logger, "_except")
        raise
    if t == steps:
        save_agent(agent, t, outdir, logger, "_finish")
    if successful:
        save_agent(agent, "successful", outdir, logger)


def _increment(counter: Any) -> int:
    """Increment a counter of several processes and return its value."""
    with counter.get_lock():
        counter.value += 1
        return int(counter.value)
