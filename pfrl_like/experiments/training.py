"""A whole run: the loop, its callbacks, and what is left in the run directory however it ends."""

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from pfrl_like.debug.crash_replay import checkpoint, is_passed_over, record_crash
from pfrl_like.debug.trace import Trace
from pfrl_like.errors import CheckpointError, PfrlLikeError
from pfrl_like.experiments.callbacks import Evaluation, Progress, StepHooks, statistics_of, wants_progress
from pfrl_like.experiments.checkpoints import Checkpoints
from pfrl_like.experiments.evaluator import Evaluator
from pfrl_like.experiments.report import write_report
from pfrl_like.experiments.resume import Checkpoint, Configuration, newest_checkpoint
from pfrl_like.experiments.run_state import RunState
from pfrl_like.experiments.runner_arguments import (
    items_on_disk,
    warn_of_items_left,
    warn_of_no_evaluation,
    warn_of_other_step,
)
from pfrl_like.experiments.signals import Interruption
from pfrl_like.experiments.sources import SerialSource, VectorSource
from pfrl_like.loggers import CSVLogger, MetricsLogger
from pfrl_like.processes.supervisor import close_all
from pfrl_like.runs.loop import Callback, Clock, Source, run
from pfrl_like.runs.run_directory import RunRecord, check_directory, log_file, progress_of, set_aside
from pfrl_like.runs.run_files import METRICS, FailedWrites, owned
from pfrl_like.utils.env_values import mask_keyword, takes_mask


@contextlib.contextmanager
def reported(outdir: str, writes: FailedWrites) -> Iterator[None]:
    """Write the report of a run however it ends; a picture is not worth a finished run, nor another error."""
    try:
        yield
    finally:
        try:
            with writes.told("report.html", stops=False):
                write_report(outdir)
        except Exception:
            writes.logger.exception("outdir:%s the report could not be written", outdir)


@contextlib.contextmanager
def closing_all(things: Sequence[Any], logger: logging.Logger | None = None) -> Iterator[None]:
    """Close everything at the end; what fails meanwhile, of which a logger is told, hides no error of the block."""
    try:
        yield
    except BaseException:
        try:
            close_all(things)
        except Exception:
            if logger is not None:
                logger.exception("while closing because of the error above")
        raise
    close_all(things)


@contextlib.contextmanager
def saved_on_error(
    checkpoints: Checkpoints, clock: Clock, record: RunRecord, on_error: Callable[[], None]
) -> Iterator[None]:
    """Save the agent as `<t>_except` before an error goes on; nothing that fails meanwhile hides the error."""
    outdir, logger = checkpoints.outdir, checkpoints.logger
    try:
        yield
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        checkpoints.writes.ended_by = error  # whatever cannot be written from now on
        error.add_note(f"at step {clock.t:,} of training, after {clock.episodes:,} whole episodes")
        what = f"{type(error).__name__}: {error}".removesuffix(": ")
        logger.error("outdir:%s step:%s training ended by %s", outdir, clock.t, what)
        for act in (
            partial(record.finish, what, clock),
            partial(record_crash, error, checkpoints.agent, clock.t, outdir, logger),
            partial(checkpoints.save_interrupted, clock),
            on_error,
        ):
            try:
                act()
            except PfrlLikeError as failure:  # which says all there is to say
                logger.error("outdir:%s step:%s while ending because of the error above: %s", outdir, clock.t, failure)
            except Exception:
                logger.exception("outdir:%s step:%s while ending because of the error above", outdir, clock.t)
        if isinstance(error, CheckpointError):
            error.add_note(f"in {outdir}, {checkpoints.newest}")
        raise


class UpdateCount:
    """Tells whether an agent has made an update since this was made, as far as `optim_t` or its statistics tell.

    Args:
        agent: The agent.
    """

    def __init__(self, agent: Any) -> None:
        self.agent = getattr(agent, "agent", agent)
        self.before = self._updates()
        self.missing = self.before is not None

    def complaint(self) -> str:
        """What to tell people about; empty if there was an update, or nobody knows."""
        return ": ".join(["no update was made", *self._reasons()]) if self._is_missing() else ""

    def waits(self) -> str:
        """What the first update waits for; empty if there was one, or nobody knows."""
        return ": ".join(["no updates yet", *reasons]) if self._is_missing() and (reasons := self._reasons()) else ""

    def _is_missing(self) -> bool:
        self.missing = self.missing and self._updates() == self.before
        return self.missing

    def _updates(self) -> Any:
        updates = getattr(self.agent, "optim_t", None)
        return updates if isinstance(updates, int) else dict(statistics_of(self.agent)).get("n_updates")

    def _reasons(self) -> list[str]:
        reason = getattr(self.agent, "waiting_for", str)()
        return [reason] if reason and isinstance(reason, str) else []


Drive = Callable[[Source, Clock, Sequence[Callback], Checkpoints], None]


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
    clears: bool = True,
    resume: bool | Checkpoint = False,
    keep_checkpoints: int | None = None,
    on_checkpoint_failure: str = "raise",
    parts: Sequence[Any] = (),
    drive: Drive = lambda source, clock, callbacks, _: run(source, clock, callbacks),
) -> list[dict[str, Any]]:
    """Train, evaluate, save; the common body of the runners.

    Most arguments are those of `train_agent`. `source` is where training comes from, `make_logs` gives the callbacks
    that log, for the loggers of this run and its directory, and `on_error` is called with the evaluator after the agent
    has been saved because of an error. `clears` is whether what an earlier run left has still to be set aside. `parts`
    are further ones that go on where they were (see `RunState`), `resume` may be a checkpoint that has been loaded.
    `drive` lets the source tick, and may save checkpoints; without it that is `loop.run`. `steps` is None if it, and
    not the clock, says when training is over.

    Returns:
        The statistics at every evaluation.
    """
    if is_passed_over(agent, outdir):
        return []
    outdir = check_directory(outdir)
    clock = Clock(steps, step_offset)
    with owned(outdir), Interruption(clock) as interruption:
        resume = resume or checkpoint() is not None
        configuration = Configuration(agent, env, source)
        goes_on_from = resume if isinstance(resume, Checkpoint) else None
        if resume is True:
            goes_on_from = newest_checkpoint(agent, source, outdir, logger, configuration)
        items = items_on_disk(agent, source)
        if in_vain := resume is True and goes_on_from is None:
            warn_of_items_left(items, outdir, logger)
        if goes_on_from is not None:
            step_offset = clock.t = clock.previous_t = goes_on_from.t
        saves = hasattr(source, "saved_state") and (checkpoint_freq is not None or resume is not False or bool(parts))
        if saves:
            source.record()  # type: ignore[attr-defined]
        evaluator = _begin(agent, evaluator, outdir, step_offset, clears, in_vain, logger)
        if steps is not None:
            warn_of_no_evaluation(evaluator, successful_score, steps, step_offset, logger)
        clock.episodes, seconds = progress_of(outdir, step_offset)
        csv = CSVLogger(os.path.join(outdir, METRICS.name), append=step_offset > 0, elapsed=seconds)
        evaluation, updates = None, UpdateCount(agent)
        callbacks: list[Callback] = []
        if hasattr(source, "last"):
            callbacks.append(Trace(source, agent, outdir, checkpoint_freq, step_offset))
        callbacks += [StepHooks(step_hooks, env, agent)] if step_hooks else []
        board = evaluator.tensorboard if isinstance(evaluator, Evaluator) else None  # which closes it
        callbacks += make_logs([csv, *loggers, *([board] if board is not None else [])], outdir)
        if steps is not None and wants_progress(progress):
            callbacks.append(Progress(steps, step_offset, evaluator, last_words=updates.complaint, waits=updates.waits))
        if evaluator is not None:
            evaluation = Evaluation(evaluator, agent, successful_score, eval_during_episode)
            callbacks.append(evaluation)
        callbacks += hooks
        evaluation_hooks = evaluator.evaluation_hooks if isinstance(evaluator, Evaluator) else ()
        remembering = [configuration, csv, *loggers, *callbacks, *step_hooks, evaluator, *evaluation_hooks, *parts]
        state = RunState(agent, env, source, remembering)
        writes = FailedWrites(logger, stops=on_checkpoint_failure == "raise")
        writes.govern([csv, *loggers, *callbacks, evaluator])
        checkpoints = Checkpoints(
            agent, state if saves else None, checkpoint_freq, outdir, writes, critical=interruption.critical,
            at_end=isinstance(source, VectorSource),  # as PFRL: a serial run ends with `<t>_finish` alone
            keep=keep_checkpoints, goes_on_from=goes_on_from,
        )  # fmt: skip
        callbacks.append(checkpoints)  # last of all, so that it sees what the others have done
        record = RunRecord(
            outdir, agent=agent, env=env, steps=steps, step_offset=step_offset, evaluator=evaluator,
            items_on_disk=items, writes=writes, source=source,
        )  # fmt: skip
        with (
            reported(outdir, writes),
            log_file(outdir, writes, append=step_offset > 0),
            closing_all([csv, *loggers, *callbacks], logger),
        ):
            if goes_on_from is not None:
                record.resumed(goes_on_from.restore(state, clock, logger))
                if evaluation is not None:
                    evaluation.stop_if_successful(clock)
            with saved_on_error(checkpoints, clock, record, partial(on_error, evaluator)):
                with interruption.of_loop():
                    drive(source, clock, callbacks, checkpoints)
                if clock.t > step_offset and (complaint := updates.complaint()):
                    logger.warning(complaint)
                if goes_on_from is None or (goes_on_from.t, goes_on_from.is_finish) != (clock.t, True):
                    checkpoints.save(clock, "_finish")
                outcome = ": ".join(filter(None, ["stopped", clock.reason])) if clock.stopped else "finished"
                if checkpoints.failure:
                    outcome += f"; the end is not saved: {checkpoints.failure}"
                    logger.error("the end is not saved; %s", checkpoints.newest)
                writes.push()
                record.finish(outcome, clock)
        return evaluation.history if evaluation is not None else []


def _begin(
    agent: Any, evaluator: Any, outdir: str, step_offset: int, clears: bool, in_vain: bool, logger: logging.Logger
) -> Any:
    """Set the agent to the step at which training starts, and aside what lies beyond it; return the evaluator."""
    if callable(evaluator) and not hasattr(evaluator, "evaluate_if_necessary"):
        evaluator = evaluator(step_offset)
    if clears:  # an evaluator does it with its own files
        boards = isinstance(evaluator, Evaluator) and evaluator.tensorboard is not None
        set_aside(outdir, step_offset, logger, evaluation=evaluator is None, tensorboard=not boards, in_vain=in_vain)
    if hasattr(agent, "t"):
        warn_of_other_step(agent.t, step_offset, logger)
        agent.t = step_offset
    return evaluator


#: What `info` has of an episode that reached its goal.
_SUCCESS = ("is_success", "success")
_ENOUGH = "enough paths"


class Actor(Protocol):
    """What walks the paths: it acts, is told what came, and stores it if it wants to learn from it.

    Both methods may have the keyword `action_mask` as well, as those of a `BatchAgent`.
    """

    def act(self, obs: Any) -> Any:
        """The action to take."""

    def observe(self, obs: Any, reward: float, terminated: bool, truncated: bool) -> None:
        """What came of the last action."""


class PathRecorder:
    """Stands between the loop and an actor, and keeps what passes as paths.

    A path is a dict: "observations", "actions", "rewards", "terminations" (arrays of its steps), "env_infos" (a dict
    for each), "last_observation", "complete" (whether the episode is over), "undiscounted_return" and "success" of the
    episode so far, which an earlier path may have begun.

    Args:
        actor: Who walks.
        env: Environment of any of the forms that `as_gymnasium` takes.
        max_path_length: Steps after which an episode is cut off; None for no limit.
    """

    def __init__(self, actor: Actor, env: Any, max_path_length: int | None) -> None:
        self.actor: Any = actor
        self.takes_mask = takes_mask(actor.act)
        self.dry_run = getattr(actor, "dry_run", None)
        self.source = SerialSource(self, env, max_path_length)
        self.source.record()
        self.env = self.source.env  # a tape, which also keeps `info`, which no agent is told of
        self.paths: list[dict[str, Any]] = []
        self._rows: list[tuple[Any, ...]] = []
        self._success = False

    def act(self, obs: Any, *, action_mask: Any = None) -> Any:
        """The actor's action."""
        if self.source.length == 0:
            self._success = False
        self._obs, self._action = obs, self.actor.act(obs, **mask_keyword(action_mask, self.takes_mask))
        return self._action

    def observe(self, obs: Any, reward: float, terminated: bool, truncated: bool, *, action_mask: Any = None) -> None:
        """Keep what came, and tell the actor."""
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
        except ValueError:  # nested, or of several shapes
            stacked = list(observations)
        self.paths.append(
            {
                "observations": stacked, "actions": np.array(actions), "rewards": np.array(rewards, np.float64),
                "terminations": np.array(terminations), "env_infos": list(infos), "last_observation": self._last,
                "complete": complete, "undiscounted_return": self.source.total_reward, "success": self._success,
            }
        )  # fmt: skip

    def walk(
        self, source: Source, clock: Clock, callbacks: Sequence[Callback], n_paths: int, n_steps: int | None
    ) -> list[dict[str, Any]]:
        """Walk so many whole paths or, if it is given, so many steps, the last path of which may not be over.

        Args:
            source: This recorder's, or something around it.
            clock: Clock of the run; a hook that stops it ends the walk.
            callbacks: Called after every step.
            n_paths: Paths.
            n_steps: Steps; None for `n_paths`.

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
            clock.between_ticks = False  # the algorithm goes on with the paths
        if clock.reason == _ENOUGH:
            clock.stopped, clock.reason = False, ""
        if self._rows:
            self._end_path(False)
        return self.paths

    def saved_state(self) -> dict[str, Any]:
        """What the source does not know of the episode that runs between two walks."""
        return {"success": self._success}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `saved_state` gave."""
        self._success = bool(state["success"])
