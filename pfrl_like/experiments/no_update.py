"""A run in which the agent has learnt nothing, and why."""

from typing import Any

from pfrl_like.experiments.callbacks import statistics_of


class UpdateCount:
    """Tells whether an agent has made an update since this was made, as far as its statistics ("n_updates") tell.

    Args:
        agent: The agent.
    """

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.before = self._updates()

    def complaint(self) -> str:
        """What to tell people about; empty if there was an update, or nobody knows."""
        if self.before is None or self._updates() != self.before:
            return ""
        return "no update was made" + self._reason()

    def _updates(self) -> Any:
        return dict(statistics_of(self.agent)).get("n_updates")

    def _reason(self) -> str:
        agent = getattr(self.agent, "agent", self.agent)
        buffer, start = getattr(agent, "replay_buffer", None), getattr(agent, "replay_start_size", None)
        if buffer is None or start is None:
            return ""
        if len(buffer) < start:
            return f": the buffer holds {len(buffer):,} transitions, replay_start_size is {start:,}"
        episodes = getattr(buffer, "n_episodes", None) if getattr(agent, "recurrent", False) else None
        if episodes is not None and episodes < agent.minibatch_size:
            return f": the buffer holds {episodes:,} episodes, minibatch_size is {agent.minibatch_size:,}"
        return ""
