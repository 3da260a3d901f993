"""Transition pickers: functions that make a `Transition` of a row of an episode."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pfrl_like.d3rlpy.dataset.components import EpisodeBase, Transition
from pfrl_like.d3rlpy.dataset.nested import create_zero_observation, recent_frames
from pfrl_like.utils.checks import check_counts, check_numbers


class TransitionPickerProtocol(Protocol):
    """Interface of transition pickers."""

    def __call__(self, episode: EpisodeBase, index: int) -> Transition:
        """Return the transition that begins in a row of an episode.

        Args:
            episode: The episode.
            index: Index of the row, less than `episode.transition_count`.
        """
        ...


class StepPicker(TransitionPickerProtocol):
    """Picker of one step or several steps, which the classes of this module configure.

    The library reads transitions of these classes from its columns, without `Transition` objects.

    Attributes:
        n_frames: Number of images that are stacked.
        n_steps: Maximum number of steps.
        gamma: Discount factor of the rewards within the steps.
    """

    n_frames = 1
    n_steps = 1
    gamma = 1.0

    def __call__(self, episode: EpisodeBase, index: int) -> Transition:
        """Return the transition that begins in a row of an episode.

        Args:
            episode: The episode.
            index: Index of the row.

        Raises:
            IndexError: If `index` is not from 0 to `episode.transition_count` - 1.
        """
        if not 0 <= index < episode.transition_count:
            raise IndexError(f"index: got {index}, expected 0 to {episode.transition_count - 1} in this episode")
        end = min(index + self.n_steps, episode.transition_count)
        terminal = episode.terminated and end == episode.transition_count
        rewards, actions, observations = episode.rewards, episode.actions, episode.observations
        observation = recent_frames(observations, index, self.n_frames)
        powers = self.gamma ** np.arange(end - index)
        return Transition(
            observation=observation,
            action=actions[index],
            reward=rewards[index] if self.n_steps == 1 else np.sum(powers[:, None] * rewards[index:end], axis=0),
            next_observation=(
                create_zero_observation(observation) if terminal else recent_frames(observations, end, self.n_frames)
            ),
            next_action=np.zeros_like(actions[index]) if terminal else actions[end],
            terminal=float(terminal),
            interval=end - index,
            rewards_to_go=self.rewards_to_go(episode, index),
        )

    def rewards_to_go(self, episode: EpisodeBase, index: int) -> NDArray[Any]:
        """Return the rewards from a row to the end of the episode, [L, 1]."""
        return episode.rewards[index:]


class BasicTransitionPicker(StepPicker):
    """Picker of single steps."""


class FrameStackTransitionPicker(StepPicker):
    """Picker of single steps that stacks images [C, H, W] to [n_frames * C, H, W], oldest first.

    Images before the first one are zeros. Other arrays are stacked along their first axis, too.

    Args:
        n_frames: Number of images that are stacked.

    Raises:
        ValueError: If `n_frames` is less than 1.
        TypeError: If `n_frames` is not an integer.
    """

    def __init__(self, n_frames: int) -> None:
        check_counts(n_frames=n_frames)
        self.n_frames = n_frames


class MultiStepTransitionPicker(StepPicker):
    """Picker of n steps, or of fewer steps at the end of an episode.

    Args:
        n_steps: Number of steps.
        gamma: Discount factor of the rewards within the steps.

    Raises:
        ValueError: If `n_steps` is less than 1, or `gamma` is not from 0 to 1.
        TypeError: If an argument is not a number.
    """

    def __init__(self, n_steps: int, gamma: float) -> None:
        check_counts(n_steps=n_steps)
        check_numbers(0, 1, gamma=gamma)
        self.n_steps, self.gamma = n_steps, gamma


class SparseRewardTransitionPicker(StepPicker):
    """Picker of single steps that gives all failed steps the same return.

    A step failed if its reward and all later rewards of the episode are `step_reward`. Its `rewards_to_go` is
    [[failure_return]], so that it does not depend on the time limit.

    Args:
        failure_return: Return of failed steps.
        step_reward: Reward of steps that do not reach the goal.

    Raises:
        ValueError: If an argument is not finite.
        TypeError: If an argument is not a number.
    """

    def __init__(self, failure_return: float, step_reward: float = 0.0) -> None:
        check_numbers(failure_return=failure_return, step_reward=step_reward)
        self._failure_return, self._step_reward = failure_return, step_reward

    def rewards_to_go(self, episode: EpisodeBase, index: int) -> NDArray[Any]:
        """Return the rewards from a row to the end of the episode, [L, 1], or [[failure_return]]."""
        rewards = super().rewards_to_go(episode, index)
        failed = np.all(rewards == self._step_reward)
        return np.array([[self._failure_return]], np.float32) if failed else rewards


#: Pickers whose transitions are read from columns. Subclasses are not among them, because they may change `__call__`.
KNOWN_PICKERS = (
    BasicTransitionPicker, FrameStackTransitionPicker, MultiStepTransitionPicker, SparseRewardTransitionPicker,
)  # fmt: skip
