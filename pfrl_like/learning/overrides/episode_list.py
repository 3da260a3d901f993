"""PFRL's attribute `memory` of PPO and TRPO: the ended episodes since the last update, as lists of transition dicts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import torch

from pfrl_like.learning.rollout import Rollout, Rows

#: Names of the rollout's columns, keyed by PFRL's names of a transition's values.
_COLUMNS = {"state": "obs", "action": "action", "reward": "reward", "nonterminal": "terminated"}


class StoredTransition(dict[str, Any]):
    """Transition dict of a step in a rollout.

    The keys are `state`, `action`, `reward`, `nonterminal` (0.0 or 1.0) and `next_state`; for recurrent models also
    `recurrent_state` and `next_recurrent_state`. The states are features, after `phi`. If a new value is assigned to
    `state`, `action`, `reward` or `nonterminal`, the step in the rollout changes, too, until an update has used it.
    `next_state` is None after a terminal step.

    Args:
        rollout: The rollout.
        rows: Rows of the step's episode.
        i: Index of the step in the episode.
    """

    def __init__(self, rollout: Rollout, rows: Rows, i: int) -> None:
        row = int(rows[i])
        self._rollout, self._row, self._version = rollout, row, rollout.version
        if i + 1 < len(rows):
            next_obs, next_state = (rollout.read(name, int(rows[i + 1])) for name in ("obs", "state"))
        else:
            next_obs, next_state = rollout.read_bootstrap_input(row)
        values = {
            "state": rollout.read("obs", row),
            "action": rollout.read("action", row),
            "reward": float(rollout.read("reward", row)),
            "next_state": next_obs,
            "nonterminal": 0.0 if rollout.read("terminated", row) else 1.0,
        }
        state = rollout.read("state", row)
        if state is not None:
            values |= {"recurrent_state": state, "next_recurrent_state": next_state}
        super().__init__(values)

    def __setitem__(self, key: str, value: Any) -> None:
        if key in _COLUMNS and self._version == self._rollout.version:
            if key == "nonterminal" and value and not self[key]:
                raise ValueError("nonterminal is 0, and cannot become 1: the observation after the step is not stored")
            self._rollout.write(_COLUMNS[key], self._row, not value if key == "nonterminal" else value)
        super().__setitem__(key, value)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Assign several values."""
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


class EpisodeList(list[Any]):
    """The ended episodes of an agent since the last update, each a list of transition dicts.

    `append` and `extend` add episodes to the next update, and `clear` removes all episodes from it. Other methods that
    change a list raise TypeError. Every read of `memory` makes a new list, which takes some microseconds a step.

    Args:
        agent: The PPO or TRPO agent.
    """

    def __init__(self, agent: Any) -> None:
        rollout = agent._rollout
        episodes = rollout.ended_episodes()
        super().__init__([StoredTransition(rollout, rows, i) for i in range(len(rows))] for rows in episodes)
        self._agent = agent

    def append(self, episode: Sequence[Mapping[str, Any]]) -> None:
        """Add an episode to the next update.

        Args:
            episode: Transition dicts with the keys `state`, `action`, `reward`, `next_state` and `nonterminal`. The
                states are raw observations, before `phi`.

        Raises:
            TypeError: If the agent is recurrent, or if it stores log-probabilities of its actions.
            ValueError: If a key is missing.
        """
        add_episode(self._agent, episode)
        super().append(list(episode))

    def extend(self, episodes: Iterable[Sequence[Mapping[str, Any]]]) -> None:
        """Add episodes to the next update, as `append` does."""
        for episode in list(episodes):
            self.append(episode)

    def clear(self) -> None:
        """Remove all ended episodes from the next update."""
        rollout = self._agent._rollout
        rollout.forget(np.array([rows[-1] for rows in rollout.ended_episodes()], np.int64))
        super().clear()

    def __iadd__(self, episodes: Iterable[Any]) -> "EpisodeList":  # type: ignore[misc]
        self.extend(episodes)
        return self

    def __reduce__(self) -> Any:
        return list, ([list(episode) for episode in self],)


def _rejected(name: str) -> Callable[..., NoReturn]:
    def method(self: EpisodeList, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(f"memory.{name} of {type(self._agent).__name__} is not available: use append, extend or clear")

    method.__doc__ = "Raise TypeError."
    return method


for _name in ("__setitem__", "__delitem__", "__imul__", "insert", "pop", "remove", "reverse", "sort"):
    setattr(EpisodeList, _name, _rejected(_name))


def add_episode(agent: Any, episode: Sequence[Mapping[str, Any]]) -> None:
    """Add an episode to the agent's rollout; see `EpisodeList.append`."""
    if agent.recurrent or agent._acting_columns:
        kind = "recurrent agents" if agent.recurrent else type(agent).__name__
        raise TypeError(f"memory.append is not available for {kind}: use agent.update(batch) with sequences")
    keys = {*_COLUMNS, "next_state"}
    missing = sorted(set().union(*(keys - step.keys() for step in episode))) or ["steps"] * (not episode)
    if missing:
        raise ValueError(
            f"episode has no {', '.join(missing)}, expected transition dicts with {', '.join(sorted(keys))}"
        )
    terminated = torch.tensor([not step["nonterminal"] for step in episode])
    ended = np.arange(len(episode)) == len(episode) - 1
    rows = agent._rollout.append(
        np.full(len(episode), -1), ended, terminated=terminated,
        obs=agent.features([step["state"] for step in episode], agent.device),
        action=torch.as_tensor(np.asarray([step["action"] for step in episode])),
        reward=torch.tensor([float(step["reward"]) for step in episode]),
    )  # fmt: skip
    if not terminated[-1]:
        agent._rollout.add_bootstrap_inputs(rows[-1:], agent.features([episode[-1]["next_state"]], agent.device))


def _set_memory(agent: Any, episodes: Iterable[Any]) -> None:
    if getattr(episodes, "_agent", None) is not agent:  # `memory += episodes` assigns the list itself
        memory = EpisodeList(agent)
        memory.clear()
        memory.extend(episodes)


#: Property `memory` of PPO and TRPO.
episode_memory = property(EpisodeList, _set_memory, doc="The ended episodes since the last update; see `EpisodeList`.")
