"""A run in which the agent has learnt nothing, and why."""

from typing import Any

from pfrl_like.experiments.callbacks import statistics_of


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
