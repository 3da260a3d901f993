"""Training in a vector environment."""

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
        checkpoint_freq: Steps between checkpoints `<t>_checkpoint`, which hold everything that `resume` needs; the
            content of replay buffers is in `checkpoint_buffers/`. None for none.
        log_interval: Steps between log lines; None for none.
        max_episode_len: Steps after which an episode is cut off; None for no limit.
        step_offset: Step at which training starts, at most `steps`. Above 0 the run in `outdir` resumes: its counts of
            episodes and time continue, and everything beyond this step is moved to `outdir/beyond-...`. At 0 everything
            that an earlier run left is moved to `outdir/earlier-...`.
        evaluator: Object whose `evaluate_if_necessary(t=, episodes=)` returns a score, or None between evaluations; the
            progress display shows its `max_score`. If it has a method `close`, that is called at the end. Alternatively
            a function that makes such an object from the step at which training starts; `resume` determines that step.
        successful_score: Training ends once an evaluation reaches this score; None disables this.
        step_hooks: Called as (env, agent, t) for every step.
        return_window_size: Number of episodes in the logged mean return.
        logger: Logger of this run.
        progress: Whether to show progress; None shows it on a terminal.
        hooks: Called with the `Clock` of the loop after every tick, after logging and evaluation; `clock.stop()` ends
            training. If a hook has a method `close`, that is called at the end. Hooks and loggers with `saved_state()`
            and `restore_state(state)`, or with `state_dict()` and `load_state_dict(state)`, are restored by `resume`.
        loggers: Further loggers of the metrics, besides the CSV file; closed at the end.
        resume: Whether to resume from the newest complete checkpoint in `outdir`, as if the run had not stopped; a new
            run starts if nothing was saved there. Agent, environment and all other parts have to be constructed as
            before. Everything beyond the checkpoint is moved aside. If later steps may differ from those of an
            uninterrupted run, the log gives the reasons.
        keep_checkpoints: Number of checkpoints to keep, besides `best`; a run can resume from each of them. None keeps
            all agents, and the complete state of the newest two checkpoints.
        on_checkpoint_failure: "raise" if a checkpoint, table or trace that cannot be written ends training; "warn" if
            the failure is logged, once per file, and training continues, while rows wait in memory for space. Earlier
            checkpoints stay in both cases. A file that cannot be created is an error in any case. Failures of `run.log`
            and of the report never end training.

    Returns:
        The agent's statistics and "eval_score" at every evaluation, including those of the run that was resumed.

    Raises:
        WorkerError: If an environment in another process raised or died.
        NonFiniteError: On NaN or infinity in an observation, a reward, a loss or a gradient.
        ValueError: If an observation or action has another structure, shape or kind of numbers than its space, or a
            discrete one is out of range (bounds of a Box are not checked), or if a number of steps is out of range.
        TypeError: If a number of steps is not an integer, or `outdir` is not a path.
        EnvError: If the environment breaks its contract.
        CheckpointError: If a file cannot be written, see `on_checkpoint_failure`, or if checkpoints exist and none can
            be loaded.
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
    """Train an agent in a vector environment and evaluate it regularly; see `train_agent_batch` and `Evaluator`.

    Args:
        agent: Anything with `batch_act`, `batch_observe`, `eval_mode`, `save`, `get_statistics`.
        env: `SerialVectorEnv`, `MultiprocessVectorEnv`, or a `gymnasium.vector.VectorEnv` in any autoreset mode. It is
            closed if training ends by an error.
        steps: Step, counted over all environments, at which training ends.
        eval_n_steps: Steps of each evaluation; None if `eval_n_episodes` is given.
        eval_n_episodes: Episodes of each evaluation; None if `eval_n_steps` is given.
        eval_interval: Training steps between evaluations.
        outdir: Run directory; made if it is missing.
        checkpoint_freq: Steps between checkpoints `<t>_checkpoint`, which hold everything that `resume` needs; the
            content of replay buffers is in `checkpoint_buffers/`. None for none.
        max_episode_len: Steps after which an episode is cut off; None for no limit.
        step_offset: Step at which training starts, at most `steps`. Above 0 the run in `outdir` resumes: its counts of
            episodes and time continue, and everything beyond this step is moved to `outdir/beyond-...`. At 0 everything
            that an earlier run left is moved to `outdir/earlier-...`.
        eval_max_episode_len: Steps after which an evaluation episode is cut off; None takes `max_episode_len`.
        return_window_size: Number of episodes in the logged mean return.
        eval_env: Environment to evaluate in, single or vector; None for a new one of the same specification, else a
            deep copy of `env`. A `MultiprocessVectorEnv` needs one. For a `VectorFrameStack(env, k)`, give a single
            environment in `atari_wrappers.FrameStack(env, k, channel_order="chw")`, or another `VectorFrameStack`.
        log_interval: Steps between log lines; None for none.
        successful_score: Training ends once the mean return of an evaluation reaches this value; None disables this.
        step_hooks: Called as (env, agent, t) for every step.
        evaluation_hooks: `EvaluationHook`s, called after every evaluation.
        save_best_so_far_agent: Whether to save the agent as `best` whenever its mean return is the best so far.
        use_tensorboard: Whether to log evaluations, and the rows of `metrics.csv`, to TensorBoard, too.
        logger: Logger of this run.
        progress: Whether to show progress; None shows it on a terminal.
        eval_success_threshold: Least return of an evaluation episode that counts as a success; adds "success_rate" to
            the statistics that evaluation hooks and TensorBoard get.
        hooks: Called with the `Clock` of the loop after every tick, after logging and evaluation; `clock.stop()` ends
            training. If a hook has a method `close`, that is called at the end. Hooks and loggers with `saved_state()`
            and `restore_state(state)`, or with `state_dict()` and `load_state_dict(state)`, are restored by `resume`.
        loggers: Further loggers of the metrics, besides the CSV file; closed at the end.
        resume: Whether to resume from the newest complete checkpoint in `outdir`, as if the run had not stopped; a new
            run starts if nothing was saved there. Agent, environment and all other parts have to be constructed as
            before. Everything beyond the checkpoint is moved aside. If later steps may differ from those of an
            uninterrupted run, the log gives the reasons.
        keep_checkpoints: Number of checkpoints to keep, besides `best`; a run can resume from each of them. None keeps
            all agents, and the complete state of the newest two checkpoints.
        on_checkpoint_failure: "raise" if a checkpoint, table or trace that cannot be written ends training; "warn" if
            the failure is logged, once per file, and training continues, while rows wait in memory for space. Earlier
            checkpoints stay in both cases. A file that cannot be created is an error in any case. Failures of `run.log`
            and of the report never end training.

    Returns:
        The agent, and its statistics and "eval_score" at every evaluation.

    Raises:
        WorkerError: If an environment in another process raised or died.
        NonFiniteError: On NaN or infinity in an observation, a reward, a loss or a gradient.
        ValueError: If an observation or action has another structure, shape or kind of numbers than its space, or a
            discrete one is out of range (bounds of a Box are not checked), or if a number of steps is out of range.
            Also if both or neither of `eval_n_steps` and `eval_n_episodes` are given, or a hook does not support this
            runner, or if `eval_env` is None and `env` can be neither made anew nor copied, since evaluation cannot use
            a vector environment whose episodes are running.
        TypeError: If a number of steps is not an integer, or `outdir` is not a path.
        EnvError: If the environment breaks its contract.
        CheckpointError: If a file cannot be written, see `on_checkpoint_failure`, or if checkpoints exist and none can
            be loaded.
    """
    given = check_arguments(locals(), "batch_act", "batch_observe", "eval_mode")
    return train_and_evaluate(train_agent_batch, given, max_episode_len, _LOGGER, vector=True)
