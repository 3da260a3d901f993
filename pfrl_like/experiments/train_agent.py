"""Training in one environment."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pfrl_like.experiments.callbacks import EpisodeLog
from pfrl_like.experiments.evaluator import evaluating
from pfrl_like.experiments.runner_arguments import check_arguments, handed_on
from pfrl_like.experiments.sources import SerialSource
from pfrl_like.experiments.training import train
from pfrl_like.loggers import MetricsLogger
from pfrl_like.runs.loop import Callback

_LOGGER = logging.getLogger(__name__)
StepHookLike = Callable[[Any, Any, int], Any]


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

    The run directory gets `metrics.csv`, `run.json`, `run.log`, the agent as `<t>_finish` (`<t>_except` after an error,
    which is raised again) and a report with the learning curve.

    Args:
        agent: Anything with `act`, `observe`, `save`, `get_statistics`; its attribute `t`, if any, is set to
            `step_offset`.
        env: Environment of gymnasium or gym, or an object with `reset` and `step`.
        steps: Step at which training ends.
        outdir: Run directory; made if it is missing.
        checkpoint_freq: Steps between checkpoints `<t>_checkpoint`, which hold all that `resume` needs; what replay
            buffers hold is in `checkpoint_buffers/`. None for none.
        max_episode_len: Steps after which an episode is cut off; None for no limit.
        step_offset: Step at which training starts, not above `steps`. Above 0 the run in `outdir` goes on: episodes and
            time are counted on, and what lay beyond this step is kept aside in `outdir/beyond-...`. At 0 everything
            that an earlier run left is kept aside in `outdir/earlier-...`.
        evaluator: Object whose `evaluate_if_necessary(t=, episodes=)` gives a score, or None between evaluations;
            progress shows its `max_score`. Its method `close`, if any, is called at the end. Or a function that makes
            it, called with the step at which training starts, which `resume` finds out.
        successful_score: Score of an evaluation that ends training.
        step_hooks: Called as (env, agent, t) after every step.
        eval_during_episode: Whether evaluation need not wait for an episode's end; needs an environment of its own.
        logger: Logger of this run.
        progress: Whether to show progress; None shows it on a terminal.
        hooks: Called with the `Clock` of the loop after every tick, last of all; `clock.stop()` ends training. A method
            `close` of a hook, if any, is called at the end. Those of the hooks and loggers that have `saved_state()`
            and `restore_state(state)`, or `state_dict()` and `load_state_dict(state)`, go on with `resume`, too.
        loggers: Further loggers of the metrics, beside the CSV file; closed at the end.
        resume: Whether to go on from the newest checkpoint in `outdir` that is whole, as if the run had not stopped; a
            new run if nothing was saved there. Agent, environment and the rest have to be made as they were. What lay
            beyond the checkpoint is kept aside. If steps may differ from those of a run that was not stopped, the log
            says why.
        keep_checkpoints: Checkpoints that stay, `best` beside them; each can be gone on from. None keeps all agents,
            and what else the newest two need.
        on_checkpoint_failure: "raise" if a checkpoint, table or trace that cannot be written ends training, "warn" if
            the log tells it, once a file, and training goes on; rows wait in memory for room then. What was saved
            before stays in both cases. Files that cannot even be begun are an error in any case, and `run.log` and the
            report are never worth an end.

    Returns:
        The agent's statistics and "eval_score" at every evaluation, those before a checkpoint that training went on
        from included.

    Raises:
        NonFiniteError: On NaN or infinity in an observation, a reward, a loss or a gradient.
        ValueError: On an observation or action of another structure, shape or kind of numbers than its space, or a
            discrete one out of range (bounds of a Box are not checked); on a number of steps out of range.
        TypeError: On a number of steps that is no integer, or an `outdir` that is no path.
        EnvError: If the environment breaks its contract.
        CheckpointError: If something cannot be written, see `on_checkpoint_failure`, or nothing can be gone on from.
    """
    logger = logger or _LOGGER
    given = check_arguments(locals(), "act", "observe")
    return train(
        **handed_on(train, given),
        source=SerialSource(agent, env, max_episode_len),
        make_logs=lambda sinks, directory: [EpisodeLog(agent, sinks, logger, directory)],
    )


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
    """Train an agent in an environment and evaluate it regularly; see `train_agent` and `Evaluator`.

    Args:
        agent: Agent to train.
        env: Environment to train in.
        steps: Step at which training ends.
        eval_n_steps: Steps of each evaluation; None if `eval_n_episodes` is given.
        eval_n_episodes: Episodes of each evaluation; None if `eval_n_steps` is given.
        eval_interval: Steps between evaluations.
        outdir: Run directory.
        checkpoint_freq: Steps between checkpoints; None for none.
        train_max_episode_len: Steps after which a training episode is cut off.
        step_offset: Step at which training starts; see `train_agent`.
        eval_max_episode_len: The same for evaluation; None takes `train_max_episode_len`.
        eval_env: Environment to evaluate in; None for a fresh one of the same specification, else a deep copy, else
            `env` itself, as `run.json` tells.
        successful_score: Mean return in evaluation that ends training.
        step_hooks: Called as (env, agent, t) after every step.
        evaluation_hooks: `EvaluationHook`s, called after every evaluation.
        save_best_so_far_agent: Whether to save the agent as `best` whenever the score is the best so far.
        use_tensorboard: Whether to log evaluations, and what `metrics.csv` gets, to TensorBoard, too.
        eval_during_episode: Whether evaluation need not wait for an episode's end; needs `eval_env`.
        logger: Logger of this run.
        progress: Whether to show progress; None shows it on a terminal.
        eval_success_threshold: Return from which an evaluation episode counts as a success; adds "success_rate" to what
            evaluation hooks and TensorBoard get.
        hooks: Called with the `Clock` of the loop after every tick.
        loggers: Further loggers of the metrics; closed at the end.
        resume: Whether to go on from the newest checkpoint in `outdir`; see `train_agent`.
        keep_checkpoints: Checkpoints that stay; see `train_agent`.
        on_checkpoint_failure: Whether a checkpoint that cannot be written ends training; see `train_agent`.

    Returns:
        The agent, and its statistics and "eval_score" at every evaluation.

    Raises:
        ValueError: If both or neither of `eval_n_steps` and `eval_n_episodes` are given, a hook does not support this
            runner, or `eval_during_episode` is asked for without `eval_env`. Otherwise as `train_agent`.
    """
    given = check_arguments(locals(), "act", "observe", "eval_mode")
    if eval_during_episode and eval_env is None:
        raise ValueError("eval_during_episode is True, which needs an eval_env independent of env, got None")
    return train_and_evaluate(train_agent, given, train_max_episode_len, _LOGGER)


def train_and_evaluate(
    runner: Callable[..., list[dict[str, Any]]],
    given: Mapping[str, Any],
    max_episode_len: int | None,
    logger: logging.Logger,
    *,
    vector: bool = False,
) -> tuple[Any, list[dict[str, Any]]]:
    """Let a runner train with an evaluator.

    Args:
        runner: The runner.
        given: Arguments of the runner and of the evaluation.
        max_episode_len: Steps after which a training episode is cut off.
        logger: Logger of the run if none is given.
        vector: Whether the environment is a vector environment.

    Returns:
        The agent, and what the runner returns.
    """
    given = {**given, "logger": given["logger"] or logger}
    check_hooks(given["evaluation_hooks"], f"support_{runner.__name__}", f"{runner.__name__}_with_evaluation")
    with evaluating(given, given["env"], max_episode_len, vector=vector) as make_evaluator:
        history = runner(**handed_on(runner, given, max_episode_len=max_episode_len, evaluator=make_evaluator))
    return given["agent"], history


def check_hooks(hooks: Sequence[Any], flag: str, runner: str) -> None:
    """Refuse evaluation hooks that say they do not support a runner.

    Raises:
        ValueError: Naming the hook.
    """
    for hook in hooks:
        if not getattr(hook, flag, False):
            error = ValueError(f"{hook} does not support {runner}().")  # the sentence that callers of PFRL know
            error.add_note(f"evaluation_hooks: expected hooks with {flag} = True")
            raise error
