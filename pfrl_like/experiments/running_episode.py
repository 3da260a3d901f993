"""Episodes that go on in another process: how they came about, and their actions taken again."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from pfrl_like.utils.env_values import first_values
from pfrl_like.utils.random_streams import GlobalStreams, Streams


class WatchedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keeps the `info` of the last step, which no agent is told of, and how the running episode came about.

    Args:
        env: The environment.

    Attributes:
        info: Of the last step.
        remembers: Whether it keeps also the states of random streams before an episode, and its actions.
        actions: The actions.
    """

    info: dict[str, Any]

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.remembers = False
        self.actions: list[Any] = []
        self._begun: tuple[GlobalStreams, dict[str, Any]] | None = None

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self._begun = (
            (GlobalStreams.now(), Streams.of(self.env, with_global=False).to_plain()) if self.remembers else None
        )
        self.actions = []
        obs, self.info = first_values(super().reset(**options))
        return obs, self.info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action."""
        if self.remembers:
            self.actions.append(action)
        values = super().step(action)
        self.info = values[4]
        return values

    def running(self, obs: Any) -> dict[str, Any] | None:
        """How the running episode came to an observation, in plain values; None if that is not known."""
        if self._begun is None:
            return None
        streams, own = self._begun
        return {"streams": streams.to_plain(), "env": own, "actions": self.actions, "obs": digest(obs)}

    def rewind(self, episode: Mapping[str, Any]) -> "Repeating":
        """Let the random streams be as they were before an episode; what takes its actions again."""
        GlobalStreams.from_plain(episode["streams"]).restore()
        Streams.of(self.env, with_global=False).restore(episode["env"])
        self.remembers = True
        kind = getattr(self.action_space, "dtype", None)
        return Repeating([np.asarray(action, kind)[()] for action in episode["actions"]])


class Repeating:
    """An actor that takes given actions, whatever comes of them."""

    def __init__(self, actions: Sequence[Any]) -> None:
        self.actions = iter(actions)

    def act(self, obs: Any) -> Any:
        """The next one."""
        return next(self.actions)

    def observe(self, obs: Any, reward: float, terminated: bool, truncated: bool) -> None:
        """Nothing is learnt twice."""


def digest(obs: Any) -> str:
    """What tells an observation, nested or not, from others."""
    if isinstance(obs, Mapping):
        return str({key: digest(obs[key]) for key in sorted(obs)})
    if isinstance(obs, tuple | list):
        return str([digest(part) for part in obs])
    return hashlib.sha256(np.asarray(obs).tobytes()).hexdigest()
