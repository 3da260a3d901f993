"""Atari games as DQN saw them (Mnih et al. 2015, doi:10.1038/nature14236): `make_atari` and `wrap_deepmind`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.spaces import box_class, space_kind
from pfrl_like.wrappers.episodic_life import EpisodicLifeEnv as EpisodicLifeEnv
from pfrl_like.wrappers.frame_stack import FrameStack as FrameStack
from pfrl_like.wrappers.frame_stack import LazyFrames as LazyFrames
from pfrl_like.wrappers.opening import FireResetEnv as FireResetEnv
from pfrl_like.wrappers.opening import NoopResetEnv as NoopResetEnv
from pfrl_like.wrappers.warp_frame import WarpFrame as WarpFrame
from pfrl_like.wrappers.wrapper import Wrapper, has_ended, random_stream


class ScaledFloatFrame(Wrapper):
    """Divide observations by 255, as float32.

    A replay buffer needs four times the memory for these; a `phi` that divides needs none.

    Args:
        env: Environment with arrays as observations.

    Raises:
        ValueError: If the observation space is no Box.
    """

    scale = 255.0

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        space = env.observation_space
        if space_kind(space) != "box":
            raise ValueError(f"env has the observation space {space}, expected a Box")
        low, high = self.observation(space.low), self.observation(space.high)
        self.observation_space = box_class(space)(low, high, dtype=np.float32)

    def observation(self, observation: Any) -> NDArray[np.float32]:
        """The observation divided by 255."""
        return np.asarray(observation).astype(np.float32) / np.float32(self.scale)


class MaxAndSkipEnv(Wrapper):
    """Repeat each action, sum up the rewards, and show the larger of the last two frames in every pixel.

    Atari games draw some objects in every second frame only. If the episode ends before the last repetition, the two
    frames are the last ones there were.

    Args:
        env: Environment with arrays as observations.
        skip: How often an action is repeated.

    Raises:
        ValueError: If the observations are no arrays, or `skip` is less than 1.
    """

    def __init__(self, env: Any, skip: int = 4) -> None:
        super().__init__(env)
        check_counts(skip=skip)
        space = env.observation_space
        if space_kind(space) != "box":
            raise ValueError(f"env has the observation space {space}, expected a Box")
        self._skip = skip
        self._last_two = np.zeros((2, *space.shape), space.dtype)

    def step(self, action: Any) -> Any:
        """Act up to `skip` times."""
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
    """Replace each observation by zeros with probability 0.5, drawn from the environment's own stream `np_random`.

    It makes a game partially observable (Hausknecht and Stone 2015, arXiv:1507.06527), for agents with a memory.

    Args:
        env: Environment with arrays as observations.
    """

    def observation(self, observation: Any) -> NDArray[Any]:
        """The observation or zeros."""
        observation = np.asarray(observation)
        return np.zeros_like(observation) if random_stream(self.env).random() < 0.5 else observation


class ClipRewardEnv(Wrapper):
    """Replace rewards by their signs: -1, 0 or 1.

    Args:
        env: Environment to wrap.
    """

    def reward(self, reward: Any) -> float:
        """The sign of the reward."""
        return float(np.sign(reward))


def make_atari(env_id: str, max_frames: int | None = 30 * 60 * 60, **kwargs: Any) -> Any:
    """An Atari game that repeats each action for four frames and begins with up to 30 steps that do nothing.

    Args:
        env_id: A game of ale-py: "PongNoFrameskip-v4", or "ALE/Pong-v5", in which a quarter of the actions is replaced
            by the one before (Machado et al. 2018, arXiv:1709.06009).
        max_frames: Frames, at 60 a second, after which a game is truncated; None or 0 for no limit.
        **kwargs: Arguments of `gymnasium.make`, as `render_mode`.

    Returns:
        A gymnasium environment with screens [210, 160, 3] as observations.

    Raises:
        ImportError: If ale-py is not installed.
        ValueError: If the environment is no Atari game.
    """
    try:
        import ale_py
    except ImportError as error:
        raise ImportError(
            'make_atari needs the package ale-py: install the extra "atari", or "ale-py>=0.12"'
        ) from error
    import gymnasium

    gymnasium.register_envs(ale_py)
    if not str(gymnasium.spec(env_id).entry_point).startswith("ale_py."):
        raise ValueError(f'env_id is {env_id!r}, expected an Atari game such as "PongNoFrameskip-v4" or "ALE/Pong-v5"')
    limit = max_frames or None
    env = gymnasium.make(
        env_id, frameskip=1, max_num_frames_per_episode=limit, **{"disable_env_checker": True, **kwargs}
    )
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
    """Show an agent an Atari game in the way of DeepMind's papers.

    Args:
        env: What `make_atari` made.
        episode_life: Whether the loss of a life ends an episode; only for training.
        clip_rewards: Whether rewards are reduced to their signs; only for training.
        frame_stack: Whether an observation is the last four frames instead of one.
        scale: Whether observations are float32 in [0, 1] instead of uint8.
        fire_reset: Whether an episode begins with the fire button, in games that have one.
        channel_order: "chw" for observations [4, 84, 84], "hwc" for [84, 84, 4].
        flicker: Whether half of the frames are dark.

    Returns:
        The environment with the wrappers around it.
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
