"""Games whose episodes end with each life, for training."""

from collections.abc import Mapping
from typing import Any

from pfrl_like.wrappers.wrapper import Wrapper, has_ended, reset_result


class EpisodicLifeEnv(Wrapper):
    """End an episode when a life is lost, and go on with the same game in the next one.

    The loss of a life terminates an episode, so that nothing is expected of the lives after it. `reset` starts a new
    game only if the game itself is over, was cut off (`truncated`, `info["needs_reset"]`), or a seed or options are
    given; else it takes one step that does nothing.

    Args:
        env: Environment of an Atari game, whose `unwrapped.ale.lives()` tells the lives left.

    Attributes:
        lives: Lives after the last step.
        needs_real_reset: Whether the next reset starts a new game.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.lives = 0
        self.needs_real_reset = True

    def step(self, action: Any) -> Any:
        """Act."""
        result = self.env.step(action)
        self.needs_real_reset = has_ended(result)
        before, self.lives = self.lives, self._lives_left()
        lost = 0 < self.lives < before  # in some games the last life is spent a few frames before the game is over
        obs, reward, done, *rest = result
        return (obs, reward, bool(done) or lost, *rest)

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode, in the game that runs or in a new one."""
        result = None
        if not self.needs_real_reset and all(argument is None for argument in kwargs.values()):
            step = self.env.step(0)
            self.needs_real_reset = has_ended(step)
            result = None if self.needs_real_reset else reset_result(step)
        if result is None:
            self.needs_real_reset = True  # until a step has been made
            result = self.env.reset(**kwargs)
        self.lives = self._lives_left()
        return result

    def saved_state(self) -> dict[str, Any]:
        """The lives, and whether the next reset starts a new game."""
        return {"lives": self.lives, "needs_real_reset": self.needs_real_reset}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `saved_state` gave."""
        self.lives, self.needs_real_reset = int(state["lives"]), bool(state["needs_real_reset"])

    def _lives_left(self) -> int:
        return int(self.env.unwrapped.ale.lives())
