"""The score of an algorithm in an environment."""

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.batch import ACTION_MASK
from pfrl_like.env import as_gymnasium
from pfrl_like.metrics.misuse import check_makes, check_scored
from pfrl_like.random_streams.isolated_rng import isolated_rng
from pfrl_like.utils.action_masks import required_keyword, sample_allowed
from pfrl_like.utils.checks import check_counts, check_numbers


def evaluate_on_environment(
    env: Any, n_trials: int = 10, epsilon: float = 0.0, render: bool = False
) -> Callable[..., float]:
    """A scorer that acts in an environment and gives the mean return of the episodes, not discounted.

    The random streams of the caller stay as they are. Where `info` of the environment has an "action_mask", only
    allowed actions are taken: `algo.predict` gets it as the keyword `action_mask`, [1, n_actions].

    Args:
        env: An environment; what `pfrl_like.env.as_gymnasium` takes.
        n_trials: Number of episodes.
        epsilon: Probability of a random action.
        render: Whether to render after each step.

    Returns:
        Function called as `scorer(algo)` or `scorer(algo, episodes)`; it does not look at the episodes.

    Raises:
        ValueError: If `n_trials` is less than 1, or `epsilon` not from 0 to 1.
        TypeError: If one is no number, or `env` is no environment, or one made of several; from the scorer, if `env`
            tells an action mask that `algo.predict` does not take.
    """
    check_makes("evaluate_on_environment(env)", n_trials)
    check_counts(n_trials=n_trials)
    check_numbers(0, 1, epsilon=epsilon)
    adapted = as_gymnasium(env)

    def scorer(algo: Any, *args: Any) -> float:
        check_scored(algo)
        with isolated_rng(env):
            return float(np.mean([_return_of_episode(adapted, algo, epsilon, render) for _ in range(n_trials)]))

    return scorer


def _return_of_episode(env: Any, algo: Any, epsilon: float, render: bool) -> float:
    obs, info = env.reset()
    frames = LastFrames(getattr(algo, "n_frames", 1))
    total, ended = 0.0, False
    while not ended:
        stack = frames.push(obs)
        mask = info.get(ACTION_MASK)
        explores = np.random.random() < epsilon
        action = sample_allowed(env.action_space, mask) if explores else _greedy_action(algo, stack, mask)
        obs, reward, terminated, truncated, info = env.step(action)
        total += float(reward)
        ended = terminated or truncated
        if render:
            env.render()
    return total


def _greedy_action(algo: Any, obs: Any, mask: Any) -> Any:
    told = required_keyword(algo.predict, None if mask is None else np.asarray(mask)[None])
    action = algo.predict(np.asarray(obs)[None], **told)[0]
    return action.item() if np.ndim(action) == 0 else action


class LastFrames:
    """The last images of an episode along their first axis, zeros before its beginning, as datasets stack them.

    Args:
        n_frames: How many; what is no image (three axes) is not stacked.
    """

    def __init__(self, n_frames: int) -> None:
        self._n_frames = n_frames
        self._frames: deque[NDArray[Any]] = deque(maxlen=n_frames)

    def push(self, obs: Any) -> Any:
        """The stack that ends with this observation."""
        if self._n_frames == 1 or np.ndim(obs) != 3:
            return obs
        frame = np.array(obs)
        missing = self._n_frames - 1 - len(self._frames)
        self._frames.extend([*[np.zeros_like(frame)] * missing, frame])
        return np.concatenate(self._frames)
