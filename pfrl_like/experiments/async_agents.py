"""The agent that several processes train, as the process that started them saves it and tells of it."""

import logging
import os
import shutil
from typing import Any

from pfrl_like.experiments.async_source import AsyncWorkers
from pfrl_like.experiments.callbacks import statistics_of
from pfrl_like.experiments.sources import stop_episode


class SharedAgent:
    """An agent whose shared attributes other processes change.

    Args:
        agent: The agent of this process.
        source: The processes.
    """

    def __init__(self, agent: Any, source: AsyncWorkers) -> None:
        self.agent, self.source = agent, source

    def save(self, dirname: str) -> None:
        """Save the agent with what the processes have learnt up to now, at the step that they have come to.

        What they do not share, such as running means, becomes that of process 0 at the end of its last episode.
        """
        if self.source.state is not None:
            self.agent.restore_state(self.source.state)
            stop_episode(self.agent)  # the running one is process 0's, and ends with it
        getattr(self.agent, "sync_parameters", lambda: None)()
        if hasattr(self.agent, "t"):
            self.agent.t = self.source.counters.steps_begun
        self.agent.save(dirname)

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Those of process 0, of the agent itself before these have come."""
        return statistics_of(self.agent) if self.source.statistics is None else self.source.statistics


class AgentOfProcess0:
    """An agent that shares nothing: what process 0 leaves when it ends.

    Args:
        agent: The agent of this process, which does not learn; None if there is none.
        source: The processes.
        folder: Where process 0 saves its own.
        logger: Told if process 0 could not save.
    """

    def __init__(self, agent: Any, source: AsyncWorkers, folder: str, logger: logging.Logger) -> None:
        self.agent, self.source, self.folder, self.logger = agent, source, folder, logger

    def save(self, dirname: str) -> None:
        """End all processes, and copy what process 0 has saved."""
        self.source.close()
        if os.path.isdir(self.folder):
            shutil.copytree(self.folder, dirname, dirs_exist_ok=True)
        else:
            self.logger.warning("Process 0 ended without saving its agent, so that %s was not written", dirname)

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Those of process 0."""
        return self.source.statistics or []
