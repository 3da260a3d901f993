"""Atari games with DQN's preprocessing (Mnih et al. 2015, doi:10.1038/nature14236): `make_atari`, `wrap_deepmind`."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.utils.checks import check_counts, takes_integral_floats
from pfrl_like.utils.env_values import box_class, space_kind
from pfrl_like.wrappers.frames import FrameStack as FrameStack
from pfrl_like.wrappers.frames import LazyFrames as LazyFrames
from pfrl_like.wrappers.frames import WarpFrame as WarpFrame
from pfrl_like.wrappers.wrapper import Wrapper, has_ended, random_stream, reset_result


class EpisodicLifeEnv(Wrapper):
    """End an episode when a life is lost, and continue the same game in the next episode.

    The loss of a life terminates the episode, so that returns do not contain the rewards of later lives. `reset` starts
    a new game only if the game has ended, if it was truncated (`truncated` or `info["needs_reset"]`), or if a seed or
    options are passed. Otherwise `reset` makes one no-op step in the current game.

    Args:
        env: Environment of an Atari game. `env.unwrapped.ale.lives()` must return the number of lives left.

    Attributes:
        lives: Number of lives after the last step.
        needs_real_reset: True if the next reset starts a new game.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.lives, self.needs_real_reset = 0, True

    def step(self, action: Any) -> Any:
        """Execute an action. The loss of a life ends the episode."""
        result = self.env.step(action)
        self.needs_real_reset = has_ended(result)
        before, self.lives = self.lives, self._lives_left()
        lost = 0 < self.lives < before  # with 0 lives, some games continue for a few frames
        obs, reward, done, *rest = result
        return (obs, reward, bool(done) or lost, *rest)

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode, in the current game or in a new game."""
        result = None
        if not self.needs_real_reset and all(argument is None for argument in kwargs.values()):
            step = self.env.step(0)
            self.needs_real_reset = has_ended(step)
            result = None if self.needs_real_reset else reset_result(step)
        if result is None:
            self.needs_real_reset = True  # if the reset fails, the next reset must also start a new game
            result = self.env.reset(**kwargs)
        self.lives = self._lives_left()
        return result

    def saved_state(self) -> dict[str, Any]:
        """Return the number of lives, and True if the next reset starts a new game."""
        return {"lives": self.lives, "needs_real_reset": self.needs_real_reset}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `saved_state`."""
        self.lives, self.needs_real_reset = int(state["lives"]), bool(state["needs_real_reset"])

    def _lives_left(self) -> int:
        return int(self.env.unwrapped.ale.lives())


class OpeningWrapper(Wrapper):
    """Base class of wrappers that execute some actions after each reset."""

    @abstractmethod
    def opening(self) -> Sequence[int]:
        """Return the first actions of the episode."""

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode and execute its first actions. If an action ends the episode, start another episode.

        Keyword arguments are passed to the environment.
        """
        result = self.env.reset(**kwargs)
        kwargs.pop("seed", None)  # a second reset must not seed again
        for action in self.opening():
            step = self.env.step(action)
            result = self.env.reset(**kwargs) if has_ended(step) else reset_result(step)
        return result

    def step(self, ac: Any) -> Any:
        """Execute the action `ac`."""
        return super().step(ac)


class NoopResetEnv(OpeningWrapper):
    """Start each episode with a random number of no-op steps (Mnih et al. 2015, doi:10.1038/nature14236).

    The number is sampled uniformly from 1 to `noop_max` with the environment's random stream `np_random`.

    Args:
        env: Environment whose action 0 is "NOOP".
        noop_max: Maximum number of no-op steps.

    Attributes:
        override_num_noops: Number of no-op steps of each episode. If None, the number is sampled.

    Raises:
        ValueError: If action 0 is not "NOOP", or if `noop_max` is below 1.
    """

    @takes_integral_floats
    def __init__(self, env: Any, noop_max: int = 30) -> None:
        super().__init__(env)
        check_counts(noop_max=noop_max)
        _check_meaning(env, 0, "NOOP")
        self.noop_max, self.noop_action = noop_max, 0
        self.override_num_noops: int | None = None
        self._seed: int | None = None

    def opening(self) -> Sequence[int]:
        """Return action 0, repeated for the number of no-op steps."""
        count = self.override_num_noops
        if count is None:
            stream = random_stream(self.env)
            integers = getattr(stream, "integers", None) or stream.randint
            count = int(integers(1, self.noop_max + 1))
        return [self.noop_action] * count

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode. Keyword arguments are passed to the environment."""
        if self._seed is not None:
            kwargs, self._seed = {"seed": self._seed} | {k: v for k, v in kwargs.items() if v is not None}, None
        return super().reset(**kwargs)

    def seed(self, seed: int) -> None:
        """Seed the environment with its method `seed` if it exists, otherwise at the next reset."""
        inner = getattr(self.env, "seed", None)
        if callable(inner):
            inner(seed)
        else:
            self._seed = seed


class FireResetEnv(OpeningWrapper):
    """Start each episode with the actions 1 and 2, because some games wait until the fire button is pressed.

    Args:
        env: Environment whose action 1 is "FIRE".

    Raises:
        ValueError: If action 1 is not "FIRE", or if there are fewer than three actions.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        _check_meaning(env, 1, "FIRE")
        if env.action_space.n < 3:
            raise ValueError(f"env has {env.action_space.n} actions, expected at least 3")

    def opening(self) -> Sequence[int]:
        """Return the actions 1 (fire) and 2."""
        return 1, 2


def _check_meaning(env: Any, action: int, meaning: str) -> None:
    meanings = list(getattr(env, "unwrapped", env).get_action_meanings())
    if meanings[action : action + 1] != [meaning]:
        raise ValueError(f"env has the action meanings {meanings}, expected {meaning!r} for action {action}")


def _box_of(env: Any) -> Any:
    """Return the observation space, which must be a Box."""
    if space_kind(env.observation_space) != "box":
        raise ValueError(f"env has the observation space {env.observation_space}, expected a Box")
    return env.observation_space


class ScaledFloatFrame(Wrapper):
    """Divide observations by 255 and convert them to float32.

    A replay buffer needs four times as much memory for float32 observations as for uint8. To avoid this, divide in the
    agent's `phi` instead.

    Args:
        env: Environment with arrays as observations.

    Raises:
        ValueError: If the observation space is not a Box.
    """

    scale = 255.0

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        space = _box_of(env)
        low, high = self.observation(space.low), self.observation(space.high)
        self.observation_space = box_class(space)(low, high, dtype=np.float32)

    def observation(self, observation: Any) -> NDArray[np.float32]:
        """Return the observation divided by 255."""
        return np.asarray(observation).astype(np.float32) / np.float32(self.scale)


class MaxAndSkipEnv(Wrapper):
    """Repeat each action, sum the rewards, and return the pixelwise maximum of the last two frames.

    The maximum is needed because Atari games draw some objects only in every second frame.

    Args:
        env: Environment with arrays as observations.
        skip: Number of times that each action is executed.

    Raises:
        ValueError: If the observations are not arrays, or if `skip` is below 1.
    """

    @takes_integral_floats
    def __init__(self, env: Any, skip: int = 4) -> None:
        super().__init__(env)
        check_counts(skip=skip)
        space = _box_of(env)
        self._skip = skip
        self._last_two = np.zeros((2, *space.shape), space.dtype)

    def step(self, action: Any) -> Any:
        """Execute an action up to `skip` times."""
        total = 0.0
        for i in range(self._skip):
            result = self.env.step(action)
            self._last_two[i % 2] = result[0]
            total += float(result[1])
            if has_ended(result):
                break
        obs = np.maximum(*self._last_two) if i else result[0]
        return (obs, total, *result[2:])


class FlickerFrame(Wrapper):
    """Replace each observation by zeros with probability 0.5. The wrapper uses the environment's stream `np_random`.

    The wrapper makes a game partially observable (Hausknecht and Stone 2015, arXiv:1507.06527), to train recurrent
    agents.

    Args:
        env: Environment with arrays as observations.
    """

    def observation(self, observation: Any) -> NDArray[Any]:
        """Return the observation, or zeros."""
        observation = np.asarray(observation)
        return np.zeros_like(observation) if random_stream(self.env).random() < 0.5 else observation


class ClipRewardEnv(Wrapper):
    """Replace rewards by their signs: -1, 0 or 1.

    Args:
        env: Environment to wrap.
    """

    def reward(self, reward: Any) -> float:
        """Return the sign of the reward."""
        return float(np.sign(reward))


@takes_integral_floats
def make_atari(env_id: str, max_frames: int | None = 30 * 60 * 60, **kwargs: Any) -> Any:
    """Make an Atari game that repeats each action for four frames and starts with up to 30 no-op steps.

    Args:
        env_id: A game of ale-py, for example "PongNoFrameskip-v4" or "ALE/Pong-v5". The latter repeats the previous
            action with probability 0.25 (Machado et al. 2018, arXiv:1709.06009).
        max_frames: Number of frames (60 per second) after which a game is truncated. None or 0 for no limit.
        **kwargs: Arguments of `gymnasium.make`, for example `render_mode`.

    Returns:
        A gymnasium environment with screens [210, 160, 3] as observations.

    Raises:
        ImportError: If ale-py is not installed.
        ValueError: If the environment is not an Atari game, or if `max_frames` is negative.
        TypeError: If `max_frames` is not an integer.
    """
    check_counts(0, optional=True, max_frames=max_frames)
    try:
        import ale_py
    except ImportError as error:
        raise ImportError('make_atari needs ale-py: install the extra "atari", or "ale-py>=0.12"') from error
    import gymnasium

    gymnasium.register_envs(ale_py)
    if not str(gymnasium.spec(env_id).entry_point).startswith("ale_py."):
        raise ValueError(f'env_id is {env_id!r}, expected an Atari game such as "PongNoFrameskip-v4" or "ALE/Pong-v5"')
    options = {"max_num_frames_per_episode": max_frames or None, "disable_env_checker": True, **kwargs}
    env = gymnasium.make(env_id, frameskip=1, **options)
    return MaxAndSkipEnv(NoopResetEnv(env, noop_max=30), skip=4)


def wrap_deepmind(
    env: Any,
    episode_life: bool = True,
    clip_rewards: bool = True,
    frame_stack: bool = True,
    scale: bool = False,
    fire_reset: bool = False,
    channel_order: str = "chw",
    flicker: bool = False,
) -> Any:
    """Wrap an Atari game with the preprocessing of DeepMind's papers.

    Args:
        env: An environment made by `make_atari`.
        episode_life: True to end an episode when a life is lost. Use False for evaluation.
        clip_rewards: True to replace rewards by their signs. Use False for evaluation.
        frame_stack: True if an observation is the last four frames, False if it is one frame.
        scale: True for float32 observations in [0, 1], False for uint8.
        fire_reset: True to press the fire button at the start of each episode, in games that have a fire button.
        channel_order: "chw" for observations [4, 84, 84], "hwc" for [84, 84, 4].
        flicker: True to replace each frame by zeros with probability 0.5.

    Returns:
        The wrapped environment.
    """
    if episode_life:
        env = EpisodicLifeEnv(env)
    if fire_reset and "FIRE" in env.unwrapped.get_action_meanings():
        env = FireResetEnv(env)
    env = WarpFrame(env, channel_order=channel_order)
    if scale:
        env = ScaledFloatFrame(env)
    if clip_rewards:
        env = ClipRewardEnv(env)
    if flicker:
        env = FlickerFrame(env)
    return FrameStack(env, 4, channel_order=channel_order) if frame_stack else env
