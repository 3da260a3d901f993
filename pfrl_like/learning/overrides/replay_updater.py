"""PFRL's attribute `replay_updater` of replay agents."""

from typing import Any

from pfrl_like.replay_buffer import ReplayUpdater
from pfrl_like.utils.checks import check_counts, integral

#: Names of the agent's attributes, keyed by PFRL's names of the updater's attributes.
_ATTRIBUTES = {
    "replay_buffer": "replay_buffer",
    "batchsize": "minibatch_size",
    "episodic_update": "learns_from_sequences",
    "n_times_update": "n_times_update",
    "replay_start_size": "replay_start_size",
    "update_interval": "update_interval",
    "episodic_update_len": "episodic_update_len",
}


class AgentUpdater(ReplayUpdater):
    """The updates of an agent, with the interface of PFRL's `ReplayUpdater`.

    Its attributes are those of the agent: an assignment changes the agent. If a function is assigned to `update_func`,
    the agent calls the function with samples of the replay buffer, in place of its own updates.

    Args:
        agent: The agent.
    """

    def __init__(self, agent: Any) -> None:
        vars(self)["_agent"] = agent

    def __getattr__(self, name: str) -> Any:
        attribute = "update_from_episodes" if name == "update_func" else _attribute(name)
        agent = vars(self)["_agent"]
        return agent.update if name == "update_func" and not agent.recurrent else getattr(agent, attribute)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "update_func":
            options = {each: getattr(self, each) for each in _ATTRIBUTES}
            vars(self)["_agent"].replay_updater = ReplayUpdater(update_func=value, **options)
            return
        if _attribute(name) and name not in ("replay_buffer", "episodic_update"):
            value = integral(value)
            check_counts(int(name != "replay_start_size"), name == "episodic_update_len", **{name: value})
        setattr(vars(self)["_agent"], _attribute(name), value)

    def update_if_necessary(self, iteration: int) -> bool:
        """Make `n_times_update` updates of the agent if they are due at time step `iteration`.

        Args:
            iteration: Time step.

        Returns:
            True if updates were made.
        """
        buffer: Any = self.replay_buffer
        if iteration % self.update_interval or len(buffer) < self.replay_start_size:
            return False
        if self.episodic_update and buffer.n_episodes < self.batchsize:
            return False
        for _ in range(self.n_times_update):
            vars(self)["_agent"].update_from_replay()
        return True


def _attribute(name: str) -> str:
    """Return the agent's name of an attribute of the updater.

    Raises:
        AttributeError: If the updater has no such attribute.
    """
    if name not in _ATTRIBUTES:
        names = ", ".join([*_ATTRIBUTES, "update_func"])
        raise AttributeError(f"replay_updater has no attribute {name!r}, expected one of {names}", name=name)
    return _ATTRIBUTES[name]


def _updater_of(agent: Any) -> Any:
    return AgentUpdater(agent) if agent._own_updater is None else agent._own_updater


def _set_updater(agent: Any, updater: Any) -> None:
    agent._own_updater = updater


#: Property of replay agents. An object with the method `update_if_necessary(t)` that is assigned to it makes the
#: updates in `batch_observe`, in place of the agent.
replay_updater = property(_updater_of, _set_updater, doc="PFRL's object that makes the updates.")
