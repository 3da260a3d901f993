"""Atari games as DQN saw them (Mnih et al. 2015, doi:10.1038/nature14236): `make_atari` and `wrap_deepmind`."""

from typing import Any

from pfrl_like.wrappers.clip_reward import ClipRewardEnv as ClipRewardEnv
from pfrl_like.wrappers.episodic_life import EpisodicLifeEnv as EpisodicLifeEnv
from pfrl_like.wrappers.flicker_frame import FlickerFrame as FlickerFrame
from pfrl_like.wrappers.frame_stack import FrameStack as FrameStack
from pfrl_like.wrappers.frame_stack import LazyFrames as LazyFrames
from pfrl_like.wrappers.max_and_skip import MaxAndSkipEnv as MaxAndSkipEnv
from pfrl_like.wrappers.opening import FireResetEnv as FireResetEnv
from pfrl_like.wrappers.opening import NoopResetEnv as NoopResetEnv
from pfrl_like.wrappers.scaled_float_frame import ScaledFloatFrame as ScaledFloatFrame
from pfrl_like.wrappers.warp_frame import WarpFrame as WarpFrame


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
