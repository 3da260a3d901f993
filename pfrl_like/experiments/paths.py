"""Paths: what an algorithm met in an environment, episode by episode, as dicts of arrays."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from pfrl_like.experiments.sources import SerialSource
from pfrl_like.runs.loop import Callback, Clock, Source, run
from pfrl_like.utils.action_masks import mask_keyword, takes_mask

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
