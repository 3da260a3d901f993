"""`MDPDataset`, a dataset of arrays."""

from typing import Any

from pfrl_like.d3rlpy.constants import ActionSpace
from pfrl_like.d3rlpy.dataset.buffers import InfiniteBuffer
from pfrl_like.d3rlpy.dataset.episode_generator import EpisodeGenerator
from pfrl_like.d3rlpy.dataset.replay_buffer import ReplayBuffer
from pfrl_like.d3rlpy.dataset.trajectory_slicers import TrajectorySlicerProtocol
from pfrl_like.d3rlpy.dataset.transition_pickers import TransitionPickerProtocol


class MDPDataset(ReplayBuffer):
    """Dataset of arrays in which the reward of an action is in the row of the action.

    An episode ends in each row in which `terminals` or `timeouts` is not 0. Rows after the last end are dropped. An
    episode of n rows that ends in a terminal state has n transitions. A truncated episode has n - 1 transitions,
    because the observation after its last action is unknown.

    Args:
        observations: Observations, an array [n, ...] or a list or tuple of such arrays. They are not copied.
        actions: Actions, [n] or [n, A].
        rewards: Rewards, [n] or [n, 1].
        terminals: Not 0 where the state after the row is terminal, [n].
        timeouts: Not 0 where the episode was truncated, [n]. If None, no episode was truncated.
        transition_picker: Function that makes a transition of a row. If None, single steps.
        trajectory_slicer: Function that makes a trajectory of rows. If None, rows as they are.
        action_space: Kind of the actions. If None, they are discrete if the first episode contains only integers.
        action_size: Number of discrete actions, or length of an action vector. If None, it is found from `actions`.

    Raises:
        TypeError: If an array is a list.
        ValueError: If the arrays have different lengths.
        EpisodeEndError: If no row ends an episode, or if a row has both flags.
    """

    def __init__(
        self,
        observations: Any,
        actions: Any,
        rewards: Any,
        terminals: Any,
        timeouts: Any = None,
        transition_picker: TransitionPickerProtocol | None = None,
        trajectory_slicer: TrajectorySlicerProtocol | None = None,
        action_space: ActionSpace | None = None,
        action_size: int | None = None,
    ) -> None:
        super().__init__(
            InfiniteBuffer(),
            transition_picker=transition_picker,
            trajectory_slicer=trajectory_slicer,
            episodes=EpisodeGenerator(observations, actions, rewards, terminals, timeouts)(),
            action_space=action_space,
            action_size=action_size,
        )
