"""Training in one environment."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pfrl_like.envs.make_env import accept_env_ids
from pfrl_like.experiments.callbacks import EpisodeLog
from pfrl_like.experiments.evaluator import evaluating
from pfrl_like.experiments.runner_arguments import arguments_for, check_arguments
from pfrl_like.experiments.sources import SerialSource
from pfrl_like.experiments.training import train
from pfrl_like.loggers import MetricsLogger
from pfrl_like.runs.loop import Callback
from pfrl_like.utils.checks import names_unknown_keywords, takes_integral_floats
from pfrl_like.utils.old_names import old_names

_LOGGER = logging.getLogger(__name__)
StepHookLike = Callable[[Any, Any, int], Any]


@names_unknown_keywords
@takes_integral_floats
@accept_env_ids("env")
def train_agent(
    agent: Any,
    env: Any,
    steps: int,
    outdir: str | os.PathLike[str],
    checkpoint_freq: int | None = None,
    max_episode_len: int | None = None,
    step_offset: int = 0,
    evaluator: Any = None,
    successful_score: float | None = None,
    step_hooks: Sequence[StepHookLike] = (),
    eval_during_episode: bool = False,
    logger: logging.Logger | None = None,
    *,
    progress: bool | None = None,
    hooks: Sequence[Callback] = (),
    loggers: Sequence[MetricsLogger] = (),
    resume: bool = False,
    keep_checkpoints: int | None = None,
    on_checkpoint_failure: Literal["raise", "warn"] = "raise",
) -> list[dict[str, Any]]:
    """Train an agent in an environment.

    The run directory contains `metrics.csv`, `run.json`, `run.log`, the agent as `<t>_finish`, and a report with the
    learning curve. After an error, the agent is saved as `<t>_except`, and the error is raised again.

    Args:
        agent: Object with the methods `act`, `observe`, `save` and `get_statistics`. If it has an attribute `t`, the
            runner sets `t` to `step_offset`.
        env: Gymnasium or gym environment, an object with the methods `reset` and `step`, or an environment id such as
            "CartPole-v1". The runner makes an environment from its id, seeds it from the global NumPy stream, and
            closes it at the end.
        steps: Step at which training ends.
        outdir: Run directory, or its URL on a storage that fsspec knows, such as "s3://bucket/run" (extra `hub`). It is
            created if it does not exist.
        checkpoint_freq: Number of steps between checkpoints `<t>_checkpoint`. A checkpoint contains everything that
            `resume` needs, except the contents of replay buffers. These are in the folder `checkpoint_buffers/`. If
            None, no checkpoints are saved.
        max_episode_len: Maximum number of steps in an episode. An episode that reaches this length is truncated. If
            None, there is no limit.
        step_offset: Step at which training starts, at most `steps`. If positive, the run in `outdir` resumes: the
            episode count and the elapsed time continue, and everything that belongs to later steps is moved to
            `outdir/beyond-...`. If 0, everything that an earlier run wrote is moved to `outdir/earlier-...`.
        evaluator: Object whose method `evaluate_if_necessary(t=, episodes=)` returns a score, or None if no evaluation
            is due. The progress bar shows its attribute `max_score`. If the evaluator has a method `close`, the runner
            calls `close` at the end. A function that makes the evaluator can be passed instead. It is called with the
            step at which training starts. In a run that resumes from a checkpoint, this is the step of the checkpoint.
        successful_score: Training ends when an evaluation reaches this score. If None, this condition is disabled.
        step_hooks: Functions that are called as `hook(env, agent, t)` after every step.
        eval_during_episode: True to allow evaluation during an episode. The evaluator then needs a separate
            environment.
        logger: Logger of this run. If None, the logger of this module is used.
        progress: True to show a progress bar. If None, the bar is shown only on a terminal.
        hooks: Functions that are called with the `Clock` after every iteration of the training loop, after logging and
            evaluation. `clock.stop()` ends training. If a hook has a method `close`, the runner calls `close` at the
            end. `resume` restores the hooks and loggers that have `saved_state()` and `restore_state(state)`, or
            `state_dict()` and `load_state_dict(state)`.
        loggers: Loggers that get the metrics in addition to the CSV file. The runner closes them at the end.
        resume: True to resume from the newest complete checkpoint in `outdir`. The run then continues as if it had not
            stopped. If `outdir` contains no checkpoint or agent, a new run starts. All objects must be constructed in
            the same way as in the saved run. Everything that belongs to steps after the checkpoint is moved to
            `outdir/beyond-...`. If later steps may differ from the steps of an uninterrupted run, the reasons are
            logged.
        keep_checkpoints: Number of checkpoints to keep, in addition to `best`. A run can resume from each of them. If
            None, the agents of all checkpoints are kept, and a run can resume from the newest two.
        on_checkpoint_failure: "raise": a failed write of a checkpoint, table or trace ends training. "warn": the first
            failed write of each file is logged, training continues, and unwritten rows stay in memory until the disk
            has space. Earlier checkpoints are always kept. A file that cannot be created always raises an error. Failed
            writes of `run.log` and of the report never end training.

    Returns:
        A list with one dict for each evaluation: the agent's statistics and "eval_score". If the run was resumed, the
        list also contains the evaluations before the checkpoint.

    Raises:
        NonFiniteError: If an observation, a reward, a loss or a gradient is NaN or infinite.
        ValueError: If an observation or action does not match its space in structure, shape or kind of dtype, if a
            discrete value is out of range, or if a number of steps is out of range. The bounds of a Box are not
            checked.
        TypeError: If a number of steps is not an integer, or `outdir` is not a path.
        EnvError: If the environment violates its interface, for example returns the wrong number of values.
        CheckpointError: If a file cannot be written (see `on_checkpoint_failure`), or if checkpoints exist but none can
            be loaded.
    """
    logger = logger or _LOGGER
    arguments = check_arguments(locals(), "act", "observe")
    return train(
        **arguments_for(train, arguments),
        source=SerialSource(agent, env, max_episode_len),
        make_logs=lambda all_loggers, directory: [EpisodeLog(agent, all_loggers, logger, directory)],
    )


@names_unknown_keywords
@takes_integral_floats
@accept_env_ids("env", "eval_env")
def train_agent_with_evaluation(
    agent: Any,
    env: Any,
    steps: int,
    eval_n_steps: int | None,
    eval_n_episodes: int | None,
    eval_interval: int,
    outdir: str | os.PathLike[str],
    checkpoint_freq: int | None = None,
    train_max_episode_len: int | None = None,
    step_offset: int = 0,
    eval_max_episode_len: int | None = None,
    eval_env: Any = None,
    successful_score: float | None = None,
    step_hooks: Sequence[StepHookLike] = (),
    evaluation_hooks: Sequence[Any] = (),
    save_best_so_far_agent: bool = True,
    use_tensorboard: bool = False,
    eval_during_episode: bool = False,
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
    """Train an agent in an environment and evaluate it at regular intervals; see `train_agent` and `Evaluator`.

    Args:
        agent: Object with the methods `act`, `observe`, `eval_mode`, `save` and `get_statistics`. If it has an
            attribute `t`, the runner sets `t` to `step_offset`.
        env: Gymnasium or gym environment, an object with the methods `reset` and `step`, or an environment id such as
            "CartPole-v1". The runner makes an environment from its id, seeds it from the global NumPy stream, and
            closes it at the end.
        steps: Step at which training ends.
        eval_n_steps: Number of steps of each evaluation. None if `eval_n_episodes` is given.
        eval_n_episodes: Number of episodes of each evaluation. None if `eval_n_steps` is given.
        eval_interval: Number of training steps between evaluations.
        outdir: Run directory, or its URL on a storage that fsspec knows, such as "s3://bucket/run" (extra `hub`). It is
            created if it does not exist.
        checkpoint_freq: Number of steps between checkpoints `<t>_checkpoint`. A checkpoint contains everything that
            `resume` needs, except the contents of replay buffers. These are in the folder `checkpoint_buffers/`. If
            None, no checkpoints are saved.
        train_max_episode_len: Maximum number of steps in a training episode. An episode that reaches this length is
            truncated. If None, there is no limit.
        step_offset: Step at which training starts, at most `steps`. If positive, the run in `outdir` resumes: the
            episode count and the elapsed time continue, and everything that belongs to later steps is moved to
            `outdir/beyond-...`. If 0, everything that an earlier run wrote is moved to `outdir/earlier-...`.
        eval_max_episode_len: Maximum number of steps in an evaluation episode. If None, `train_max_episode_len` is
            used.
        eval_env: Environment for evaluation, or its id. If None, a new environment is made from `env.spec`. If that is
            impossible, a deep copy of `env` is used, and if `env` cannot be copied, `env` itself. An agent with an
            attribute that is `env` is evaluated in `env` itself. `run.json` records the choice.
        successful_score: Training ends when the mean return of an evaluation reaches this value. If None, this
            condition is disabled.
        step_hooks: Functions that are called as `hook(env, agent, t)` after every step.
        evaluation_hooks: `EvaluationHook`s that are called after every evaluation.
        save_best_so_far_agent: True to save the agent as `best` whenever its mean return is the best so far.
        use_tensorboard: True to log evaluations and the rows of `metrics.csv` to TensorBoard, too.
        eval_during_episode: True to allow evaluation during an episode. `eval_env` is then required.
        logger: Logger of this run. If None, the logger of this module is used.
        progress: True to show a progress bar. If None, the bar is shown only on a terminal.
        eval_success_threshold: Minimum return of a successful evaluation episode. If not None, "success_rate" is added
            to the statistics that evaluation hooks and TensorBoard get.
        hooks: Functions that are called with the `Clock` after every iteration of the training loop, after logging and
            evaluation. `clock.stop()` ends training. If a hook has a method `close`, the runner calls `close` at the
            end. `resume` restores the hooks and loggers that have `saved_state()` and `restore_state(state)`, or
            `state_dict()` and `load_state_dict(state)`.
        loggers: Loggers that get the metrics in addition to the CSV file. The runner closes them at the end.
        resume: True to resume from the newest complete checkpoint in `outdir`. The run then continues as if it had not
            stopped. If `outdir` contains no checkpoint or agent, a new run starts. All objects must be constructed in
            the same way as in the saved run. Everything that belongs to steps after the checkpoint is moved to
            `outdir/beyond-...`. If later steps may differ from the steps of an uninterrupted run, the reasons are
            logged.
        keep_checkpoints: Number of checkpoints to keep, in addition to `best`. A run can resume from each of them. If
            None, the agents of all checkpoints are kept, and a run can resume from the newest two.
        on_checkpoint_failure: "raise": a failed write of a checkpoint, table or trace ends training. "warn": the first
            failed write of each file is logged, training continues, and unwritten rows stay in memory until the disk
            has space. Earlier checkpoints are always kept. A file that cannot be created always raises an error. Failed
            writes of `run.log` and of the report never end training.

    Returns:
        The agent, and a list with one dict for each evaluation: the agent's statistics and "eval_score".

    Raises:
        NonFiniteError: If an observation, a reward, a loss or a gradient is NaN or infinite.
        ValueError: If an observation or action does not match its space in structure, shape or kind of dtype, if a
            discrete value is out of range, or if a number of steps is out of range. The bounds of a Box are not
            checked. The error is also raised if both or neither of `eval_n_steps` and `eval_n_episodes` are given, if a
            hook does not support this runner, or if `eval_during_episode` is True and `eval_env` is None.
        TypeError: If a number of steps is not an integer, or `outdir` is not a path.
        EnvError: If the environment violates its interface, for example returns the wrong number of values.
        CheckpointError: If a file cannot be written (see `on_checkpoint_failure`), or if checkpoints exist but none can
            be loaded.
    """
    arguments = check_arguments(locals(), "act", "observe", "eval_mode")
    if eval_during_episode and eval_env is None:
        raise ValueError("eval_during_episode is True, which needs an eval_env independent of env, got None")
    return train_and_evaluate(train_agent, arguments, train_max_episode_len, _LOGGER)


def train_and_evaluate(
    runner: Callable[..., list[dict[str, Any]]],
    arguments: Mapping[str, Any],
    max_episode_len: int | None,
    logger: logging.Logger,
    *,
    vector: bool = False,
) -> tuple[Any, list[dict[str, Any]]]:
    """Run a runner with an evaluator.

    Args:
        runner: Function that trains the agent, such as `train_agent`.
        arguments: Arguments of the runner and of the evaluation.
        max_episode_len: Maximum number of steps in a training episode. An episode that reaches this length is
            truncated. If None, there is no limit.
        logger: Logger of the run if `arguments` contains no logger.
        vector: True if the environment is a vector environment.

    Returns:
        The agent, and the result of the runner.
    """
    arguments = {**arguments, "logger": arguments["logger"] or logger}
    check_hooks(arguments["evaluation_hooks"], f"support_{runner.__name__}", f"{runner.__name__}_with_evaluation")
    with evaluating(arguments, arguments["env"], max_episode_len, vector=vector) as make_evaluator:
        history = runner(**arguments_for(runner, arguments, max_episode_len=max_episode_len, evaluator=make_evaluator))
    return arguments["agent"], history


def check_hooks(hooks: Sequence[Any], flag: str, runner: str) -> None:
    """Check that all evaluation hooks support a runner.

    Raises:
        ValueError: If a hook does not support the runner. The message names the hook.
    """
    for hook in hooks:
        if not getattr(hook, flag, False):
            raise ValueError(f"evaluation_hooks has {hook}, which does not support {runner}(): expected {flag} = True")


__getattr__ = old_names(__name__)
