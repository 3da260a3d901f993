"""Episodes that begin with a few actions of the wrapper's own."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from pfrl_like.utils.checks import check_counts
from pfrl_like.wrappers.wrapper import Wrapper, has_ended, random_stream, reset_result


class OpeningWrapper(Wrapper):
    """Base of the wrappers that act after each reset, and reset once more if that ends the episode."""

    @abstractmethod
    def opening(self) -> Sequence[int]:
        """The actions that this episode begins with."""

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode and play its opening; keyword arguments go to the environment."""
        result = self.env.reset(**kwargs)
        kwargs.pop("seed", None)  # a second reset goes on with the stream that the first one has seeded
        for action in self.opening():
            step = self.env.step(action)
            result = self.env.reset(**kwargs) if has_ended(step) else reset_result(step)
        return result


class NoopResetEnv(OpeningWrapper):
    """Begin each episode with a random number of steps that do nothing (Mnih et al. 2015, doi:10.1038/nature14236).

    The number is drawn from the environment's own stream `np_random`, uniformly from 1 to `noop_max`.

    Args:
        env: Environment whose action 0 is "NOOP".
        noop_max: The largest number of such steps.

    Attributes:
        override_num_noops: The number itself; None to draw it.

    Raises:
        ValueError: If action 0 has another meaning, or `noop_max` is less than 1.
    """

    def __init__(self, env: Any, noop_max: int = 30) -> None:
        super().__init__(env)
        check_counts(noop_max=noop_max)
        _check_meaning(env, 0, "NOOP")
        self.noop_max = noop_max
        self.noop_action = 0
        self.override_num_noops: int | None = None
        self._seed: int | None = None

    def opening(self) -> Sequence[int]:
        """Actions 0."""
        count = self.override_num_noops
        if count is None:
            stream = random_stream(self.env)
            integers = getattr(stream, "integers", None) or stream.randint
            count = int(integers(1, self.noop_max + 1))
        return [self.noop_action] * count

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode; keyword arguments go to the environment."""
        if self._seed is not None:
            kwargs, self._seed = {"seed": self._seed} | {k: v for k, v in kwargs.items() if v is not None}, None
        return super().reset(**kwargs)

    def seed(self, seed: int) -> None:
        """Seed the environment, as PFRL's scripts do: at once if it has a method `seed`, else with the next reset."""
        inner = getattr(self.env, "seed", None)
        if callable(inner):
            inner(seed)
        else:
            self._seed = seed


class FireResetEnv(OpeningWrapper):
    """Begin each episode with the actions 1 and 2, for games that stand still until the fire button is pressed.

    Args:
        env: Environment whose action 1 is "FIRE".

    Raises:
        ValueError: If action 1 has another meaning, or there are fewer than three actions.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        _check_meaning(env, 1, "FIRE")
        if env.action_space.n < 3:
            raise ValueError(f"env has {env.action_space.n} actions, expected at least 3")

    def opening(self) -> Sequence[int]:
        """Fire, then the action after it."""
        return 1, 2


def _check_meaning(env: Any, action: int, meaning: str) -> None:
    meanings = list(getattr(env, "unwrapped", env).get_action_meanings())
    if meanings[action : action + 1] != [meaning]:
        raise ValueError(f"env has actions of the meanings {meanings}, expected {meaning!r} as number {action}")
