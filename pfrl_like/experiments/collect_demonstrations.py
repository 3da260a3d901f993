"""Collection of demonstrations: transitions of an agent that neither explores nor learns."""

import logging
import os
from collections.abc import Callable
from typing import Any

from pfrl_like.envs.make_env import accept_env_ids
from pfrl_like.experiments.runner_arguments import check_arguments, check_steps_or_episodes
from pfrl_like.experiments.sources import SerialSource
from pfrl_like.runs.loop import Clock, run
from pfrl_like.runs.run_directory import check_directory
from pfrl_like.utils.checks import names_unknown_keywords, takes_integral_floats
from pfrl_like.utils.env_values import mask_columns, mask_keyword, takes_mask

_LOGGER = logging.getLogger(__name__)


class _Recorder:
    """Wraps an agent and stores its transitions with their action masks."""

    def __init__(self, agent: Any, append: Callable[..., None], stop: Callable[[], None]) -> None:
        self.agent, self.append, self.stop = agent, append, stop
        self.dry_run = getattr(agent, "dry_run", None)
        self.takes_mask = takes_mask(agent.act)

    def act(self, obs: Any, *, action_mask: Any = None) -> Any:
        self.obs, self.mask = obs, action_mask
        self.action = self.agent.act(obs, **mask_keyword(action_mask, self.takes_mask))
        return self.action

    def observe(self, obs: Any, reward: float, done: bool, reset: bool, *, action_mask: Any = None) -> None:
        self.agent.observe(obs, reward, done, reset, **mask_keyword(action_mask, self.takes_mask))
        self.append(
            state=self.obs, action=self.action, reward=reward, next_state=obs, is_state_terminal=done,
            **mask_columns(self.mask, action_mask, obs),
        )  # fmt: skip
        if reset and not done:
            self.stop()


@names_unknown_keywords
@takes_integral_floats
@accept_env_ids("env")
def collect_demonstrations(
    agent: Any,
    env: Any,
    steps: int | None,
    episodes: int | None,
    outdir: str | os.PathLike[str],
    max_episode_len: int | None = None,
    logger: logging.Logger | None = None,
) -> Any:
    """Run an agent in evaluation mode and save its transitions in `<outdir>/demonstrations.replay`.

    Args:
        agent: Agent whose transitions are recorded.
        env: Environment in any form that `as_gymnasium` accepts, or an environment id.
        steps: Number of steps to record. None if `episodes` is given.
        episodes: Number of episodes to record. None if `steps` is given.
        outdir: Directory of the file. It is created if it does not exist.
        max_episode_len: Maximum number of steps in an episode. An episode that reaches this length is truncated. If
            None, there is no limit.
        logger: Logger that gets a line for every episode. If None, the logger of this module is used.

    Returns:
        The saved `ReplayBuffer`. `ReplayBuffer.load` reads the file.

    Raises:
        ValueError: If both or neither of `steps` and `episodes` are given, or if a number is out of range.
        TypeError: If a number is not an integer, or `outdir` is not a path.
    """
    from pfrl_like.replay_buffers import ReplayBuffer

    check_arguments(locals(), "act", "observe", "eval_mode")
    check_steps_or_episodes(steps=steps, episodes=episodes)
    outdir = check_directory(outdir)
    logger = logger or _LOGGER
    buffer = ReplayBuffer()
    recorder = _Recorder(agent, buffer.append, buffer.stop_current_episode)

    def watch(clock: Clock) -> None:
        for episode in clock.ended:
            number = clock.episodes - 1
            logger.info("demonstration episode %s length:%s R:%s", number, episode.length, episode.total_reward)
        if episodes is not None and clock.episodes >= episodes:
            clock.stop()

    clock = Clock(steps)
    with agent.eval_mode():
        run(SerialSource(recorder, env, max_episode_len), clock, [watch])
    if not clock.between_episodes:
        buffer.stop_current_episode()
    os.makedirs(outdir, exist_ok=True)
    buffer.save(os.path.join(outdir, "demonstrations.replay"))
    return buffer
