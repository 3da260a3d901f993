"""What is left in the run directory however a run ends."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from pfrl_like.debug.crash_replay import record_crash
from pfrl_like.errors import CheckpointError, PfrlLikeError
from pfrl_like.experiments.checkpoints import Checkpoints
from pfrl_like.experiments.report import write_report
from pfrl_like.runs.loop import Clock
from pfrl_like.runs.run_directory import RunRecord
from pfrl_like.runs.write_errors import FailedWrites
from pfrl_like.utils.close_all import close_all


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
def closing_all(things: Sequence[Any], logger: logging.Logger) -> Iterator[None]:
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
