"""`train`, which all runners call: it connects training loop, callbacks, run directory and error handling."""

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from pfrl_like.debug.crash_replay import checkpoint, is_skipped, record_crash
from pfrl_like.debug.trace import Trace
from pfrl_like.errors import CheckpointError, PfrlLikeError
from pfrl_like.experiments import runner_arguments
from pfrl_like.experiments.callbacks import Evaluation, Progress, StepHooks, save_agent, wants_progress
from pfrl_like.experiments.checkpoints import Checkpoints
from pfrl_like.experiments.evaluator import Evaluator
from pfrl_like.experiments.hooks import StepHook
from pfrl_like.experiments.report import write_report
from pfrl_like.experiments.resume import Checkpoint, Configuration, newest_checkpoint
from pfrl_like.experiments.run_state import RunState
from pfrl_like.experiments.signals import Interruption, outcome_of
from pfrl_like.experiments.sources import SerialSource, VectorSource
from pfrl_like.loggers import CSVLogger, MetricsLogger
from pfrl_like.processes.supervisor import close_all
from pfrl_like.runs.loop import Callback, Clock, Source, run
from pfrl_like.runs.mirror import mirrored, uploads
from pfrl_like.runs.run_directory import RunRecord, check_directory, log_file, move_earlier_files, progress_of, run_info
from pfrl_like.runs.run_files import METRICS, FailedWrites, directory_lock
from pfrl_like.utils.env_values import mask_keyword, takes_mask


@contextlib.contextmanager
def writing_report(outdir: str, writes: FailedWrites) -> Iterator[None]:
    """Write the report of a run at the end of the context. If this is impossible, the error is only logged."""
    try:
        yield
    finally:
        try:
            with writes.handling("report.html", stops=False):
                write_report(outdir)
        except Exception:
            writes.logger.exception("outdir:%s the report could not be written", outdir)


@contextlib.contextmanager
def closing_all(things: Sequence[Any], logger: logging.Logger | None = None) -> Iterator[None]:
    """Close all objects at the end of the context. After an error, failures to close are only logged."""
    try:
        yield
    except BaseException:
        try:
            close_all(things)
        except Exception:
            if logger is not None:
                logger.exception("some objects could not be closed after the error above")
        raise
    close_all(things)


@contextlib.contextmanager
def saving_on_error(
    checkpoints: Checkpoints, clock: Clock, record: RunRecord, on_error: Callable[[], None]
) -> Iterator[None]:
    """Save the agent as `<t>_except` after an error, and raise the error again.

    If another error occurs while the agent is saved, the other error is only logged. An `optuna.TrialPruned` is a
    normal end of a run: the agent is saved as `<t>_finish`, and the exception is raised unchanged.
    """
    outdir, logger = checkpoints.outdir, checkpoints.logger
    try:
        yield
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        if _is_pruned(error):
            clock.stop("pruned")
            save_agent(checkpoints.agent, clock.t, outdir, logger, suffix="_finish")
            record.finish("pruned", clock)
            raise
        checkpoints.writes.ended_by = error  # must be set before further writes fail
        error.add_note(f"at step {clock.t:,} of training, after {clock.episodes:,} whole episodes")
        what = f"{type(error).__name__}: {error}".removesuffix(": ")
        cause = outcome_of(error, clock.t)
        logger.error("outdir:%s step:%s training ended by %s", outdir, clock.t, what)

        def record_ending() -> None:
            record.finish(f"{cause}; {checkpoints.way_to_continue(clock.t)}" if cause else what, clock)

        for act in (
            partial(record.finish, cause or what, clock),  # first, because a second signal may end the process
            partial(record_crash, error, checkpoints.agent, clock.t, outdir, logger),
            partial(checkpoints.save_interrupted, clock),
            record_ending,
            on_error,
        ):
            try:
                act()
            except PfrlLikeError as failure:  # the message alone explains the error
                logger.error("outdir:%s step:%s another error followed the error above: %s", outdir, clock.t, failure)
            except Exception:
                logger.exception("outdir:%s step:%s another error followed the error above", outdir, clock.t)
        if isinstance(error, CheckpointError | KeyboardInterrupt):
            error.add_note(f"in {outdir}, {checkpoints.newest}")
        if isinstance(error, KeyboardInterrupt) and checkpoints.can_resume:
            error.add_note("start the program again, with resume=True: the run continues from its newest checkpoint")
        raise


def _is_pruned(error: BaseException) -> bool:
    """True for an `optuna.TrialPruned`. Optuna is imported if such an error exists."""
    optuna = sys.modules.get("optuna")
    return optuna is not None and isinstance(error, optuna.TrialPruned)


class UpdateCount:
    """Detects if an agent has made an update since this object was constructed.

    Args:
        agent: The agent.
    """

    def __init__(self, agent: Any) -> None:
        self.agent = getattr(agent, "agent", agent)
        self.before = self._updates()

    def warning(self) -> str:
        """Return a warning that no update was made; empty if an update was made, or if the agent counts no updates."""
        return ": ".join(["no update was made", *self._reasons()]) if self._is_missing() else ""

    def waits(self) -> str:
        """Return the reason why no update was made yet; empty if an update was made, or if the reason is unknown."""
        return "".join(f"no updates yet: {reason}" for reason in self._reasons()) if self._is_missing() else ""

    def _is_missing(self) -> bool:
        return self.before is not None and self._updates() == self.before

    def _updates(self) -> Any:
        # A user's `get_statistics` may contain the number, but it is called only as often as in PFRL.
        count = getattr(self.agent, "optim_t", getattr(self.agent, "n_updates", None))
        return count if isinstance(count, int) else None

    def _reasons(self) -> list[str]:
        reason = getattr(self.agent, "waiting_for", str)()
        return [reason] if reason and isinstance(reason, str) else []


RunLoop = Callable[[Source, Clock, Sequence[Callback], Checkpoints], None]


def train(
    agent: Any,
    env: Any,
    source: Source,
    steps: int | None,
    outdir: str | os.PathLike[str],
    *,
    make_logs: Callable[[Sequence[MetricsLogger], str], Sequence[Callback]],
    logger: logging.Logger,
    hooks: Sequence[Callback],
    loggers: Sequence[MetricsLogger],
    checkpoint_freq: int | None = None,
    step_offset: int = 0,
    evaluator: Any = None,
    successful_score: float | None = None,
    step_hooks: Sequence[Callable[[Any, Any, int], Any]] = (),
    eval_during_episode: bool = False,
    progress: bool | None = None,
    on_error: Callable[[Any], None] = lambda _: None,
    moves_files: bool = True,
    resume: bool | Checkpoint = False,
    keep_checkpoints: int | None = None,
    on_checkpoint_failure: str = "raise",
    parts: Sequence[Any] = (),
    run_loop: RunLoop = lambda source, clock, callbacks, _: run(source, clock, callbacks),
) -> list[dict[str, Any]]:
    """Train, evaluate and save an agent. All runners call this function.

    Args:
        agent: The agent.
        env: Environment that the user passed. The step hooks get this environment, and its random streams are saved.
        source: Source of training steps.
        steps: Step at which training ends. If None, `run_loop` ends training.
        outdir: Run directory, or a `Mirror` of a run directory at a URL. It is created if it does not exist.
        make_logs: Function that takes the loggers of metrics and the run directory, and returns the callbacks that log.
        logger: Logger of this run.
        hooks: Functions that are called with the `Clock` after every iteration of the training loop, after logging and
            evaluation. `clock.stop()` ends training. If a hook has a method `close`, the runner calls `close` at the
            end. `resume` restores the hooks and loggers that have `saved_state()` and `restore_state(state)`, or
            `state_dict()` and `load_state_dict(state)`.
        loggers: Loggers that get the metrics in addition to the CSV file. The runner closes them at the end.
        checkpoint_freq: Number of steps between checkpoints `<t>_checkpoint`. A checkpoint contains everything that
            `resume` needs, except the contents of replay buffers. These are in the folder `checkpoint_buffers/`. If
            None, no checkpoints are saved.
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
        progress: True to show a progress bar. If None, the bar is shown only on a terminal.
        on_error: Function that is called with the evaluator after an error, as soon as the agent has been saved.
        moves_files: True to move files of an earlier run. False if the caller has already moved them.
        resume: True to resume from the newest complete checkpoint in `outdir`. A checkpoint that is already loaded can
            be passed instead.
        keep_checkpoints: Number of checkpoints to keep, in addition to `best`. A run can resume from each of them. If
            None, the agents of all checkpoints are kept, and a run can resume from the newest two.
        on_checkpoint_failure: "raise": a failed write of a checkpoint, table or trace ends training. "warn": the first
            failed write of each file is logged, training continues, and unwritten rows stay in memory until the disk
            has space. Earlier checkpoints are always kept. A file that cannot be created always raises an error. Failed
            writes of `run.log` and of the report never end training.
        parts: Additional objects that are saved and restored, see `RunState`.
        run_loop: Function that calls the source's `tick` until training is over, and may save checkpoints. The default
            calls `loop.run`.

    Returns:
        A list with one dict for each evaluation: the agent's statistics and "eval_score".
    """
    if getattr(agent, "training", True) is False:
        raise ValueError(
            "agent.training is False, so the agent would not learn: set it to True, leave eval_mode, or, for an agent "
            "of load_agent, construct the agent and call its method load(directory)"
        )
    if is_skipped(agent, outdir):
        return []
    mirror, outdir, clock = outdir, check_directory(outdir), Clock(steps, step_offset)
    with mirrored(mirror), directory_lock(outdir), Interruption(clock) as interruption:
        resume = resume or checkpoint() is not None
        configuration = Configuration(agent, env, source)
        resumed_from = resume if isinstance(resume, Checkpoint) else None
        if resume is True:
            resumed_from = newest_checkpoint(agent, source, outdir, logger, configuration)
        items = runner_arguments.items_on_disk(agent, source)
        if no_checkpoint := resume is True and resumed_from is None:
            runner_arguments.warn_of_old_items(items, outdir, logger)
        if resumed_from is not None:
            step_offset = clock.t = clock.previous_t = resumed_from.t
        asks_to_save = checkpoint_freq is not None or bool(runner_arguments.saving_hooks(hooks))
        saves = (asks_to_save or resume is not False or bool(parts)) and hasattr(source, "saved_state")
        if saves:
            source.record()  # type: ignore[attr-defined]
        if callable(evaluator) and not hasattr(evaluator, "evaluate_if_necessary"):
            evaluator = evaluator(step_offset)
        board = None
        if isinstance(evaluator, Evaluator):
            board, evaluator.repeatable = evaluator.tensorboard, saves
        if moves_files:  # the evaluator has moved its own files
            move_earlier_files(
                outdir, step_offset, logger,
                evaluation=evaluator is None, tensorboard=board is None, no_checkpoint=no_checkpoint,
            )  # fmt: skip
        runner_arguments.set_step(agent, step_offset, logger)
        runner_arguments.warn_of_no_evaluation(evaluator, successful_score, steps, step_offset, logger)
        clock.episodes, seconds = progress_of(outdir, step_offset)
        csv = CSVLogger(os.path.join(outdir, METRICS.name), append=step_offset > 0, elapsed=seconds)
        evaluation, updates = None, UpdateCount(agent)
        evaluation_hooks = evaluator.evaluation_hooks if isinstance(evaluator, Evaluator) else ()
        callbacks: list[Callback] = []
        if hasattr(source, "last"):
            callbacks.append(Trace(source, agent, outdir, checkpoint_freq, step_offset))
        callbacks += [StepHooks(step_hooks, env, agent)] if step_hooks else []
        callbacks += make_logs([csv, *loggers, *([board] if board is not None else [])], outdir)
        if steps is not None and wants_progress(progress):
            begins = "" if resumed_from is None else f"resuming from step {step_offset:,} of {outdir}"
            last, waits = updates.warning, updates.waits
            callbacks.append(Progress(steps, step_offset, evaluator, closing=last, waits=waits, opening=begins))
        if evaluator is not None:
            restart = getattr(source, "restart_after_use", None)
            evaluation = Evaluation(evaluator, agent, successful_score, eval_during_episode, evaluation_hooks, restart)
            callbacks.append(evaluation)
        callbacks += hooks
        stateful_parts = [configuration, csv, *loggers, *callbacks, *step_hooks, evaluator, *evaluation_hooks, *parts]
        state = RunState(agent, env, source, stateful_parts)
        writes = FailedWrites(logger, stops=on_checkpoint_failure == "raise")
        writes.handle_writes_of([csv, *loggers, *callbacks, evaluator])
        checkpoints = Checkpoints(
            agent, state if saves else None, checkpoint_freq, outdir, writes, critical=interruption.critical,
            at_end=isinstance(source, VectorSource),  # as in PFRL, a serial run saves only `<t>_finish` at its end
            keep=keep_checkpoints, resumed_from=resumed_from,
        )  # fmt: skip
        # A checkpoint contains the effects of all other callbacks.
        callbacks += [checkpoints, *uploads(mirror, writes, checkpoints, evaluator)]
        info = {"steps": steps, "step_offset": step_offset, "items_on_disk": items, "url": getattr(mirror, "url", None)}
        record = RunRecord(outdir, run_info(agent, env, source, evaluator) | info, writes)
        with (
            writing_report(outdir, writes),
            log_file(outdir, writes, append=step_offset > 0),
            closing_all([csv, *loggers, *callbacks], logger),
        ):
            if resumed_from is not None:
                record.resumed(resumed_from.restore(state, clock, logger))
                if evaluation is not None:
                    evaluation.stop_if_due(clock)
            for hook in (each for each in step_hooks if step_offset and isinstance(each, StepHook)):
                hook.resume(env, agent, step_offset)
            runner_arguments.warn_of_no_update(agent, source, steps, step_offset, logger)
            with saving_on_error(checkpoints, clock, record, partial(on_error, evaluator)):
                with interruption.training_loop():
                    if evaluation is not None and evaluation.finish_tick(clock, [*hooks, checkpoints]):
                        checkpoints.save(clock, "_except")
                    run_loop(source, clock, callbacks, checkpoints)
                if clock.t > step_offset and (text := updates.warning()):
                    logger.warning(text)
                if resumed_from is None or os.path.basename(resumed_from.path) != f"{clock.t}_finish":
                    checkpoints.save(clock, "_finish")
                outcome = ": ".join(filter(None, ["stopped", clock.reason])) if clock.stopped else "finished"
                if checkpoints.failure:
                    outcome += f"; the final checkpoint is not saved: {checkpoints.failure}"
                    logger.error("the final checkpoint is not saved; %s", checkpoints.newest)
                writes.push()
                record.finish(outcome, clock)
        return evaluation.history if evaluation is not None else []


#: Keys of `info` that mark an episode as successful.
_SUCCESS = ("is_success", "success")
_ENOUGH = "enough paths"


class Actor(Protocol):
    """Interface of objects that choose the actions of sampled paths and observe the results.

    Both methods may also accept the keyword argument `action_mask`, like the methods of a `BatchAgent`.
    """

    def act(self, obs: Any) -> Any:
        """Choose an action."""

    def observe(self, obs: Any, reward: float, terminated: bool, truncated: bool) -> None:
        """Observe the result of the last action."""


class PathRecorder:
    """Wraps an actor and records its steps in the training loop as paths.

    A path is a dict with the keys "observations", "actions", "rewards" and "terminations" (arrays with one row per
    step), "env_infos" (one dict per step), "last_observation", "complete" (True if the episode is over),
    "undiscounted_return" and "success". "undiscounted_return" and "success" describe the whole episode so far. The
    first steps of the episode may belong to an earlier path.

    Args:
        actor: The actor.
        env: Environment in any form that `as_gymnasium` accepts.
        max_path_length: Maximum number of steps in an episode. An episode that reaches this length is truncated. If
            None, there is no limit.
    """

    def __init__(self, actor: Actor, env: Any, max_path_length: int | None) -> None:
        self.actor: Any = actor
        self.takes_mask = takes_mask(actor.act)
        self.dry_run = getattr(actor, "dry_run", None)
        self.source = SerialSource(self, env, max_path_length)
        self.source.record()
        self.env = self.source.env  # this is an `EpisodeTape`; it stores `info`
        self.paths: list[dict[str, Any]] = []
        self._rows: list[tuple[Any, ...]] = []
        self._success = False

    def act(self, obs: Any, *, action_mask: Any = None) -> Any:
        """Return the actor's action."""
        if self.source.length == 0:
            self._success = False
        self._obs, self._action = obs, self.actor.act(obs, **mask_keyword(action_mask, self.takes_mask))
        return self._action

    def observe(self, obs: Any, reward: float, terminated: bool, truncated: bool, *, action_mask: Any = None) -> None:
        """Record the step and pass it to the actor."""
        info = self.env.info
        self._rows.append((self._obs, self._action, reward, terminated, info))
        self._last = obs
        self._success = self._success or any(bool(info.get(name)) for name in _SUCCESS)
        self.actor.observe(obs, reward, terminated, truncated, **mask_keyword(action_mask, self.takes_mask))
        if terminated or truncated:
            self._end_path(True)

    def _end_path(self, complete: bool) -> None:
        observations, actions, rewards, terminations, infos = zip(*self._rows, strict=True)
        self._rows = []
        try:
            stacked: Any = np.stack(observations)
        except ValueError:  # observations are nested or have different shapes
            stacked = list(observations)
        self.paths.append(
            {
                "observations": stacked, "actions": np.array(actions), "rewards": np.array(rewards, np.float64),
                "terminations": np.array(terminations), "env_infos": list(infos), "last_observation": self._last,
                "complete": complete, "undiscounted_return": self.source.total_reward, "success": self._success,
            }
        )  # fmt: skip

    def sample(
        self, source: Source, clock: Clock, callbacks: Sequence[Callback], n_paths: int, n_steps: int | None
    ) -> list[dict[str, Any]]:
        """Sample `n_paths` complete paths, or `n_steps` steps. If `n_steps` is given, the last path may be incomplete.

        Args:
            source: Source of this recorder, or a wrapper around the source.
            clock: Clock of the run. If a hook stops the clock, sampling ends.
            callbacks: Functions that are called after every step.
            n_paths: Number of paths.
            n_steps: Number of steps. If None, `n_paths` complete paths are sampled.

        Returns:
            The paths.
        """
        self.paths, first = [], clock.t

        def enough(clock: Clock) -> None:
            reached = len(self.paths) >= n_paths if n_steps is None else clock.t - first >= n_steps
            if reached and not clock.stopped:
                clock.stop(_ENOUGH)

        try:
            run(source, clock, [*callbacks, enough])
        finally:
            clock.between_ticks = False  # the algorithm has not used the paths yet, so the state is incomplete
        if clock.reason == _ENOUGH:
            clock.stopped, clock.reason = False, ""
        if self._rows:
            self._end_path(False)
        return self.paths

    def saved_state(self) -> dict[str, Any]:
        """Return the state of the running episode that the source does not save."""
        return {"success": self._success}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `saved_state`."""
        self._success = bool(state["success"])
