"""A whole run: the loop, its callbacks, and what is left in the run directory however it ends."""

import contextlib
import logging
import numbers
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from pfrl_like.experiments.callbacks import Evaluation, StepHooks
from pfrl_like.experiments.checkpoints import Checkpoints
from pfrl_like.experiments.crash import record_crash
from pfrl_like.experiments.earlier_run import progress_of, set_aside
from pfrl_like.experiments.evaluator import Evaluator
from pfrl_like.experiments.interruption import Interruption
from pfrl_like.experiments.loop import Callback, Clock, Source, run
from pfrl_like.experiments.no_update import UpdateCount
from pfrl_like.experiments.ownership import owned
from pfrl_like.experiments.progress import Progress, wants_progress
from pfrl_like.experiments.report import write_report
from pfrl_like.experiments.rerun import is_passed_over
from pfrl_like.experiments.resume import Checkpoint, newest_checkpoint
from pfrl_like.experiments.run_directory import RunRecord, check_directory, log_file
from pfrl_like.experiments.run_state import RunState
from pfrl_like.experiments.sources import VectorSource
from pfrl_like.experiments.trace import Trace
from pfrl_like.loggers import CSVLogger, MetricsLogger
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.close_all import close_all

Drive = Callable[[Source, Clock, Sequence[Callback], Checkpoints], None]


def train(
    agent: Any,
    env: Any,
    source: Source,
    steps: int | None,
    outdir: str | os.PathLike[str],
    *,
    make_logs: Callable[[Sequence[MetricsLogger]], Sequence[Callback]],
    checkpoint_freq: int | None,
    step_offset: int,
    evaluator: Any,
    successful_score: float | None,
    step_hooks: Sequence[Callable[[Any, Any, int], Any]],
    eval_during_episode: bool,
    logger: logging.Logger,
    progress: bool | None,
    hooks: Sequence[Callback],
    loggers: Sequence[MetricsLogger],
    on_error: Callable[[Any], None] = lambda _: None,
    clears: bool = True,
    resume: bool | Checkpoint = False,
    keep_checkpoints: int | None = None,
    on_checkpoint_failure: str = "raise",
    parts: Sequence[Any] = (),
    drive: Drive = lambda source, clock, callbacks, _: run(source, clock, callbacks),
) -> list[dict[str, Any]]:
    """Train, evaluate, save; the common body of the runners.

    Most arguments are those of `train_agent`. `source` is where training comes from, `make_logs` gives the callbacks
    that log, for the loggers of this run, and `on_error` is called with the evaluator after the agent has been saved
    because of an error. `clears` is whether what an earlier run left has still to be set aside. `parts` are further
    ones that go on where they were (see `RunState`), `resume` may be a checkpoint that has been loaded. `drive` lets
    the source tick, and may save checkpoints; without it that is `loop.run`. `steps` is None if it, and not the clock,
    says when training is over.

    Returns:
        The statistics at every evaluation.
    """
    if is_passed_over(agent, outdir):
        return []
    check_run(step_offset if steps is None else steps, step_offset, checkpoint_freq=checkpoint_freq)
    check_checkpoints(step_offset, resume, keep_checkpoints, on_checkpoint_failure)
    outdir = check_directory(outdir)
    clock = Clock(steps, step_offset)
    with owned(outdir), Interruption(clock) as interruption:
        goes_on_from = newest_checkpoint(agent, source, outdir, logger) if resume is True else resume or None
        if goes_on_from is not None:
            step_offset = clock.t = clock.previous_t = goes_on_from.t
        if callable(evaluator) and not hasattr(evaluator, "evaluate_if_necessary"):
            evaluator = evaluator(step_offset)
        if clears:  # an evaluator does it with its own files
            set_aside(outdir, step_offset, logger, evaluation=evaluator is None)
        if hasattr(agent, "t"):
            warn_of_other_step(agent.t, step_offset, logger)
            agent.t = step_offset
        if steps is not None:
            _warn_of_no_evaluation(evaluator, successful_score, steps, step_offset, logger)
        clock.episodes, seconds = progress_of(outdir, step_offset)
        csv = CSVLogger(os.path.join(outdir, "metrics.csv"), append=step_offset > 0, elapsed=seconds)
        evaluation, updates = None, UpdateCount(agent)
        callbacks: list[Callback] = []
        if hasattr(source, "last"):
            callbacks.append(Trace(source, agent, outdir, checkpoint_freq, step_offset))
        callbacks += [StepHooks(step_hooks, env, agent)] if step_hooks else []
        callbacks += make_logs([csv, *loggers])
        if steps is not None and wants_progress(progress):
            callbacks.append(Progress(steps, step_offset, evaluator, last_words=updates.complaint))
        if evaluator is not None:
            evaluation = Evaluation(evaluator, agent, successful_score, eval_during_episode)
            callbacks.append(evaluation)
        callbacks += hooks
        evaluation_hooks = evaluator.evaluation_hooks if isinstance(evaluator, Evaluator) else ()
        known = [csv, *loggers, *callbacks, *step_hooks, evaluator, *evaluation_hooks, *parts]
        state = RunState(agent, env, source, known)
        saves = state.is_known and (checkpoint_freq is not None or resume is not False or parts)
        checkpoints = Checkpoints(
            agent, state if saves else None, checkpoint_freq, outdir, logger, critical=interruption.critical,
            at_end=isinstance(source, VectorSource),  # as PFRL: a serial run ends with `<t>_finish` alone
            keep=keep_checkpoints, stops=on_checkpoint_failure == "raise",
            last=goes_on_from.references if goes_on_from else None,
        )  # fmt: skip
        callbacks.append(checkpoints)  # last of all, so that it sees what the others have done
        if saves:
            source.record()  # type: ignore[attr-defined]
        record = RunRecord(outdir, agent=agent, env=env, steps=steps, step_offset=step_offset, evaluator=evaluator)
        with (
            _reported(outdir, logger),
            log_file(outdir, logger, append=step_offset > 0),
            _closing([csv, *loggers, *callbacks], logger),
        ):
            if goes_on_from is not None:
                record.resumed(goes_on_from.restore(state, clock, logger))
            with _saved_on_error(checkpoints, clock, record, partial(on_error, evaluator)):
                with interruption.of_loop():
                    drive(source, clock, callbacks, checkpoints)
                if clock.t > step_offset and (complaint := updates.complaint()):
                    logger.warning(complaint)
                checkpoints.save(clock, "_finish")
                outcome = ": ".join(filter(None, ["stopped", clock.reason])) if clock.stopped else "finished"
                record.finish(outcome, clock)
        return evaluation.history if evaluation is not None else []


def check_checkpoints(
    step_offset: int, resume: Any, keep_checkpoints: Any = None, on_checkpoint_failure: Any = "raise"
) -> None:
    """Refuse what a run cannot do with its checkpoints, before anything is written.

    Raises:
        TypeError: If one of these is of another type.
        ValueError: If one is out of range, or `step_offset` is given beside `resume`.
    """
    check_counts(optional=True, keep_checkpoints=keep_checkpoints)
    if not isinstance(resume, bool | Checkpoint):
        raise TypeError(f"resume is {resume!r:.80} ({type(resume).__name__}), expected True or False")
    if on_checkpoint_failure not in ("raise", "warn"):
        raise ValueError(f"on_checkpoint_failure is {on_checkpoint_failure!r:.80}, expected 'raise' or 'warn'")
    if resume is True and step_offset:
        raise ValueError(
            f"resume is True and step_offset is {step_offset}, expected one of them: the newest checkpoint says at "
            "which step training goes on"
        )


def check_run(steps: int, step_offset: int, **intervals: int | None) -> None:
    """Refuse numbers of steps that are none, before anything is written; the runner's names for them are told.

    Raises:
        TypeError: If one is no integer.
        ValueError: If one is too small, or training would start after its end.
    """
    check_counts(least=0, steps=steps, step_offset=step_offset)
    check_counts(1, True, **intervals)
    if step_offset > steps:
        raise ValueError(
            f"step_offset is {step_offset} and steps is {steps}, expected a step at which training ends that is not "
            "before that at which it starts"
        )


def warn_of_other_step(t: int, step_offset: int, logger: logging.Logger) -> None:
    """Say that an agent that has come to another step (a fresh one is at 0) is set to that of the run."""
    if t not in (0, step_offset):
        logger.warning(
            "the agent has come to step %s, step_offset is %d: its t is set to that; to go on where the agent stopped, "
            "give step_offset=agent.t", t, step_offset,
        )  # fmt: skip


def _warn_of_no_evaluation(
    evaluator: Any, successful_score: float | None, steps: int, step_offset: int, logger: logging.Logger
) -> None:
    interval = getattr(evaluator, "eval_interval", None)
    if evaluator is None and successful_score is not None:
        logger.warning("successful_score is %s, but there is no evaluator to reach it", successful_score)
    if isinstance(interval, numbers.Integral) and steps > step_offset and steps // interval == step_offset // interval:
        logger.warning(
            "eval_interval is %d, of which no multiple lies after step %d up to %d: nothing will be evaluated",
            interval, step_offset, steps,
        )  # fmt: skip


@contextlib.contextmanager
def _reported(outdir: str, logger: logging.Logger) -> Iterator[None]:
    """Write the report of a run however it ends; a picture is not worth a finished run, nor another error."""
    try:
        yield
    finally:
        try:
            write_report(outdir)
        except Exception:
            logger.exception("outdir:%s the report could not be written", outdir)


@contextlib.contextmanager
def _closing(things: Sequence[Any], logger: logging.Logger) -> Iterator[None]:
    """Close everything at the end; what fails meanwhile does not hide an error that ended the run."""
    try:
        yield
    except BaseException:
        try:
            close_all(things)
        except Exception:
            logger.exception("while closing because of the error above")
        raise
    close_all(things)


@contextlib.contextmanager
def _saved_on_error(
    checkpoints: Checkpoints, clock: Clock, record: RunRecord, on_error: Callable[[], None]
) -> Iterator[None]:
    """Save the agent as `<t>_except` before an error goes on; nothing that fails meanwhile hides the error."""
    outdir, logger = checkpoints.outdir, checkpoints.logger
    try:
        yield
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        error.add_note(f"at step {clock.t:,} of training, after {clock.episodes:,} whole episodes")
        logger.error("outdir:%s step:%s training ended by %s: %s", outdir, clock.t, type(error).__name__, error)
        for act in (
            partial(record.finish, f"{type(error).__name__}: {error}", clock),
            partial(record_crash, error, checkpoints.agent, clock.t, outdir, logger),
            partial(checkpoints.save_interrupted, clock),
            on_error,
        ):
            try:
                act()
            except Exception:
                logger.exception("outdir:%s step:%s while ending because of the error above", outdir, clock.t)
        raise
