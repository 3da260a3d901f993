"""Training in several environments at once."""

import logging
import os
from collections.abc import Sequence
from typing import Any, Literal

from pfrl_like.experiments.callbacks import EpisodeLog, IntervalLog
from pfrl_like.experiments.runner_arguments import check_arguments, handed_on
from pfrl_like.experiments.sources import VectorSource
from pfrl_like.experiments.train_agent import StepHookLike, train_and_evaluate
from pfrl_like.experiments.training import train
from pfrl_like.loggers import MetricsLogger
from pfrl_like.processes.supervisor import close_all
from pfrl_like.runs.loop import Callback

_LOGGER = logging.getLogger(__name__)


def train_agent_batch(
    agent: Any,
    env: Any,
    steps: int,
    outdir: str | os.PathLike[str],
    checkpoint_freq: int | None = None,
    log_interval: int | None = None,
    max_episode_len: int | None = None,
    step_offset: int = 0,
    evaluator: Any = None,
    successful_score: float | None = None,
    step_hooks: Sequence[StepHookLike] = (),
    return_window_size: int = 100,
    logger: logging.Logger | None = None,
    *,
    progress: bool | None = None,
    hooks: Sequence[Callback] = (),
    loggers: Sequence[MetricsLogger] = (),
    resume: bool = False,
    keep_checkpoints: int | None = None,
    on_checkpoint_failure: Literal["raise", "warn"] = "raise",
) -> list[dict[str, Any]]:
    """Train an agent in a vector environment.

    Args:
        agent: Anything with `batch_act`, `batch_observe`, `save`, `get_statistics`.
        env: `SerialVectorEnv`, `MultiprocessVectorEnv`, or a `gymnasium.vector.VectorEnv` in any autoreset mode. It is
            closed if training ends by an error.
        steps: Step, counted over all environments, at which training ends.
        outdir: Run directory; made if it is missing.
        checkpoint_freq: Steps between checkpoints `<t>_checkpoint`, which hold all that `resume` needs; what replay
            buffers hold is in `checkpoint_buffers/`. None for none.
        log_interval: Steps between log lines; None for none.
        max_episode_len: Steps after which an episode is cut off; None for no limit.
        step_offset: Step at which training starts, not above `steps`. Above 0 the run in `outdir` goes on: episodes and
            time are counted on, and what lay beyond this step is kept aside in `outdir/beyond-...`. At 0 everything
            that an earlier run left is kept aside in `outdir/earlier-...`.
        evaluator: Object whose `evaluate_if_necessary(t=, episodes=)` gives a score, or None between evaluations;
            progress shows its `max_score`. Its method `close`, if any, is called at the end. Or a function that makes
            it, called with the step at which training starts, which `resume` finds out.
        successful_score: Score of an evaluation that ends training.
        step_hooks: Called as (env, agent, t) for every step.
        return_window_size: Episodes over which the logged mean return is taken.
        logger: Logger of this run.
        progress: Whether to show progress; None shows it on a terminal.
        hooks: Called with the `Clock` of the loop after every tick, last of all; `clock.stop()` ends training. A method
            `close` of a hook, if any, is called at the end.
        loggers: Further loggers of the metrics, beside the CSV file; closed at the end.
        resume: Whether to go on from the newest checkpoint in `outdir`; see `train_agent`.
        keep_checkpoints: Checkpoints that stay; see `train_agent`.
        on_checkpoint_failure: Whether a checkpoint that cannot be written ends training; see `train_agent`.

    Returns:
        The agent's statistics and "eval_score" at every evaluation.

    Raises:
        WorkerError: If an environment in another process raised or died. Otherwise as `train_agent`.
    """
    logger = logger or _LOGGER
    given = check_arguments(locals(), "batch_act", "batch_observe")
    return train(
        **handed_on(train, given),
        source=VectorSource(agent, env, max_episode_len),
        make_logs=lambda sinks, directory: [
            EpisodeLog(agent, sinks, None, directory),
            IntervalLog(agent, log_interval, return_window_size, logger, directory),
        ],
        eval_during_episode=True,
        on_error=lambda evaluator: close_all([env, getattr(evaluator, "env", None)]),
    )


def train_agent_batch_with_evaluation(
    agent: Any,
    env: Any,
    steps: int,
    eval_n_steps: int | None,
    eval_n_episodes: int | None,
    eval_interval: int,
    outdir: str | os.PathLike[str],
    checkpoint_freq: int | None = None,
    max_episode_len: int | None = None,
    step_offset: int = 0,
    eval_max_episode_len: int | None = None,
    return_window_size: int = 100,
    eval_env: Any = None,
    log_interval: int | None = None,
    successful_score: float | None = None,
    step_hooks: Sequence[StepHookLike] = (),
    evaluation_hooks: Sequence[Any] = (),
    save_best_so_far_agent: bool = True,
    use_tensorboard: bool = False,
    logger: logging.Logger | None = None,
    *,
    progress: bool | None = None,
    eval_success_threshold: float | None = None,
    hooks: Sequence[Callback] = (),
    loggers: Sequence[MetricsLogger] = (),
    resume: bool = False,
    keep_checkpoints: int | None = None,
    on_checkpoint_failure: Literal["raise", "warn"] = "raise",
) -> tuple[Any, list[dict[str, Any]]]:
    """Train an agent in a vector environment and evaluate it regularly.

    The arguments are those of `train_agent_batch` and `train_agent_with_evaluation`; `eval_env` may be a single
    environment or a vector environment, and `eval_max_episode_len` defaults to `max_episode_len`. A
    `MultiprocessVectorEnv` needs an `eval_env`; beside a `VectorFrameStack(env, k)` that is a single environment in
    `atari_wrappers.FrameStack(env, k, channel_order="chw")`, or a `VectorFrameStack` of its own.

    Returns:
        The agent, and its statistics and "eval_score" at every evaluation.

    Raises:
        ValueError: If `eval_env` is None and `env` can be neither made anew nor copied, since a vector environment
            cannot be evaluated in while its episodes run. Otherwise as `train_agent_with_evaluation`.
    """
    given = check_arguments(locals(), "batch_act", "batch_observe", "eval_mode")
    return train_and_evaluate(train_agent_batch, given, max_episode_len, _LOGGER, vector=True)
