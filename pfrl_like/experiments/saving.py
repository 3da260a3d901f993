"""What is asked of an agent beside acting and observing; agents that know no more are let be."""

import logging
import os
from typing import Any

from pfrl_like.utils.isolated_rng import isolated_rng


def save_agent(agent: Any, t: int | str, outdir: str | os.PathLike[str], logger: logging.Logger, suffix: str = "") -> None:
    """Save an agent as `<outdir>/<t><suffix>`, without a trace in the random streams.

    An agent without the method `save` is passed over, with a line in the log.
    """
    if not hasattr(agent, "save"):
        logger.info("%s has no method save: not saved", type(agent).__name__)
        return
    dirname = os.path.join(outdir, f"{t}{suffix}")
    with isolated_rng():
        agent.save(dirname)
    logger.info("Saved the agent to %s", dirname)


def statistics_of(agent: Any) -> list[tuple[str, Any]]:
    """The (name, value) pairs of an agent or environment; none if it keeps no statistics.

    A gymnasium wrapper is looked through.
    """
    get = method_of(agent, "get_statistics")
    return [] if get is None else list(get())


def method_of(owner: Any, name: str) -> Any:
    """A method by its name, also of an environment inside gymnasium wrappers; None if there is none."""
    method = getattr(owner, name, None)
    if method is None and getattr(owner, "has_wrapper_attr", None) is not None and owner.has_wrapper_attr(name):
        method = owner.get_wrapper_attr(name)
    return method if callable(method) else None
