"""What runners refuse, and warn of, before they begin."""

import logging
import numbers
from collections.abc import Mapping
from typing import Any

from pfrl_like.experiments.resume import Checkpoint
from pfrl_like.experiments.run_buffers import buffers_of
from pfrl_like.replay_buffers.persistent import PersistentBuffer
from pfrl_like.runs.run_files import record_of
from pfrl_like.utils.checks import check_counts


def check_resume(step_offset: int, resume: Any) -> None:
    """Refuse another `resume` than True, False or a checkpoint, and one beside a `step_offset`.

    Raises:
        TypeError: If it is something else.
        ValueError: If both are given.
    """
    if not isinstance(resume, bool | Checkpoint):
        raise TypeError(f"resume is {resume!r:.80} ({type(resume).__name__}), expected True or False")
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


def items_on_disk(*owners: Any) -> dict[str, int]:
    """How many items those of these buffers hold that outlast their process, by name."""
    found = buffers_of(*owners).items()
    return {name: len(buffer) for name, buffer in found if isinstance(buffer, PersistentBuffer)}


def warn_of_items_left(items: Mapping[str, int], outdir: str, logger: logging.Logger) -> None:
    """Say of buffers that outlast their process that a run which begins anew finds the items of its broken-off part.

    Args:
        items: How many they hold, by name.
        outdir: Run directory, before what that part left is set aside.
        logger: Told of it.
    """
    then = record_of(outdir).get("items_on_disk", {})
    for name, count in items.items():
        if then.get(name, count) != count:
            logger.warning(
                "%s holds %s items, of which there were %s when the run began that was broken off: nothing is removed, "
                "so that this one begins with those; for an equal run, give a buffer in another directory",
                name, f"{count:,}", f"{then[name]:,}",
            )  # fmt: skip


def warn_of_no_evaluation(
    evaluator: Any, successful_score: float | None, steps: int, step_offset: int, logger: logging.Logger
) -> None:
    """Say that a run will not be evaluated although somebody seems to wait for a score."""
    interval = getattr(evaluator, "eval_interval", None)
    if evaluator is None and successful_score is not None:
        logger.warning("successful_score is %s, but there is no evaluator to reach it", successful_score)
    if isinstance(interval, numbers.Integral) and steps > step_offset and steps // interval == step_offset // interval:
        logger.warning(
            "eval_interval is %d, of which no multiple lies after step %d up to %d: nothing will be evaluated",
            interval, step_offset, steps,
        )  # fmt: skip
