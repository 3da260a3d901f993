"""Public datasets as datasets of d3rlpy 2, each with its environment. Files are stored as by `pfrl_like.datasets`."""

import dataclasses
import re
from typing import Any

import gymnasium
import numpy as np

from pfrl_like.d3rlpy.dataset.compat import MDPDataset
from pfrl_like.d3rlpy.dataset.components import Transition
from pfrl_like.d3rlpy.dataset.library import from_library_dataset
from pfrl_like.d3rlpy.dataset.replay_buffer import ReplayBuffer
from pfrl_like.d3rlpy.dataset.trajectory_slicers import FrameStackTrajectorySlicer, TrajectorySlicerProtocol
from pfrl_like.d3rlpy.dataset.transition_pickers import FrameStackTransitionPicker, TransitionPickerProtocol
from pfrl_like.d3rlpy.envs.wrappers import Atari, GoalConcatWrapper, goal_observation
from pfrl_like.dataset import MDPDataset as LibraryDataset
from pfrl_like.dataset.conventions import field_of
from pfrl_like.datasets import public_sets
from pfrl_like.utils.checks import check_choice, check_numbers

__all__ = [
    "MDPDataset", "get_atari", "get_atari_transitions", "get_cartpole", "get_d4rl", "get_dataset", "get_minari",
    "get_pendulum",
]  # fmt: skip

_N_RANDOM = {"cartpole": 60, "pendulum": 20}  # the first episodes, of a random agent
_ATARI_EPOCHS = 50
_TORQUE = 2.0  # of the action 1 in the packaged episodes of Pendulum


def get_cartpole(
    dataset_type: str = "replay",
    transition_picker: TransitionPickerProtocol | None = None,
    trajectory_slicer: TrajectorySlicerProtocol | None = None,
    render_mode: str | None = None,
) -> tuple[ReplayBuffer, Any]:
    """Return the episodes of CartPole-v1 in this package, and the environment. They are not the episodes of d3rlpy.

    Args:
        dataset_type: "replay" for episodes of a random, a half trained and a trained agent, "random" for the first.
        transition_picker: Function that makes a transition of a row. If None, single steps.
        trajectory_slicer: Function that makes a trajectory of rows. If None, rows as they are.
        render_mode: Mode of rendering of the environment.

    Raises:
        ValueError: If `dataset_type` is unknown.
    """
    dataset = _packaged("cartpole", dataset_type)
    env = gymnasium.make("CartPole-v1", render_mode=render_mode)
    return from_library_dataset(dataset, transition_picker, trajectory_slicer), env


def get_pendulum(
    dataset_type: str = "replay",
    transition_picker: TransitionPickerProtocol | None = None,
    trajectory_slicer: TrajectorySlicerProtocol | None = None,
    render_mode: str | None = None,
) -> tuple[ReplayBuffer, Any]:
    """Return the episodes of Pendulum-v1 in this package, and the environment. They are not the episodes of d3rlpy.

    Args:
        dataset_type: "replay" for episodes of a random, a half trained and a trained agent, "random" for the first.
        transition_picker: Function that makes a transition of a row. If None, single steps.
        trajectory_slicer: Function that makes a trajectory of rows. If None, rows as they are.
        render_mode: Mode of rendering of the environment.

    Raises:
        ValueError: If `dataset_type` is unknown.
    """
    dataset = _packaged("pendulum", dataset_type)
    dataset = LibraryDataset.of_table(dataclasses.replace(dataset.table, action=_TORQUE * dataset.table.action), False)
    env = gymnasium.make("Pendulum-v1", render_mode=render_mode)
    return from_library_dataset(dataset, transition_picker, trajectory_slicer), env


def _packaged(name: str, kind: str) -> LibraryDataset:
    check_choice("dataset_type", kind, ("replay", "random"))
    dataset: LibraryDataset = getattr(public_sets, f"get_{name}")()[0]
    return dataset if kind == "replay" else LibraryDataset.from_episodes(dataset[: _N_RANDOM[name]])


def get_d4rl(
    env_name: str,
    transition_picker: TransitionPickerProtocol | None = None,
    trajectory_slicer: TrajectorySlicerProtocol | None = None,
    render_mode: str | None = None,
    max_episode_steps: int = 1000,
) -> tuple[ReplayBuffer, Any]:
    """Return a dataset of D4RL, and the environment, as `pfrl_like.datasets.get_d4rl` does.

    Args:
        env_name: Name of the dataset, for example "hopper-medium-v2".
        transition_picker: Function that makes a transition of a row. If None, single steps.
        trajectory_slicer: Function that makes a trajectory of rows. If None, rows as they are.
        render_mode: Mode of rendering of the environment.
        max_episode_steps: Number of steps after which an episode of the environment is truncated.

    Raises:
        ValueError: If the name is unknown.
        DownloadError: If the file cannot be downloaded.
        MissingDependencyError: If h5py or mujoco is not installed.
    """
    dataset, env = public_sets.get_d4rl(env_name)
    env = gymnasium.make(env.spec, render_mode=render_mode, max_episode_steps=max_episode_steps)
    return from_library_dataset(dataset, transition_picker, trajectory_slicer), env


def get_minari(
    env_name: str,
    transition_picker: TransitionPickerProtocol | None = None,
    trajectory_slicer: TrajectorySlicerProtocol | None = None,
    render_mode: str | None = None,
    tuple_observation: bool = False,
) -> tuple[ReplayBuffer, Any]:
    """Return a dataset of Minari, and the environment, as `pfrl_like.datasets.get_minari` does.

    If observations are dicts with the keys "observation" and "desired_goal", both are concatenated.

    Args:
        env_name: Id of the dataset, for example "mujoco/hopper/medium-v0".
        transition_picker: Function that makes a transition of a row. If None, single steps.
        trajectory_slicer: Function that makes a trajectory of rows. If None, rows as they are.
        render_mode: Mode of rendering of the environment.
        tuple_observation: True for tuples of observation and goal, instead of the concatenated arrays.

    Raises:
        ValueError: If `env_name` is not an id of Minari.
        TypeError: If observations are other dicts.
        DownloadError: If a file cannot be downloaded.
        MissingDependencyError: If h5py, or a package that the environment needs, is not installed.
    """
    dataset, env = public_sets.get_minari(env_name)
    env = env if render_mode is None else gymnasium.make(env.spec, render_mode=render_mode)
    table, keys = dataset.table, ("observation", "desired_goal")
    if isinstance(table.obs.structure, dict) and {*keys} <= table.obs.structure.keys():
        joined = goal_observation(table.observations(np.arange(1, table.n_rows + 1)), *keys, tuple_observation)
        table = dataclasses.replace(table, obs=field_of(joined)[0], obs_row=np.arange(table.n_rows))
        dataset = LibraryDataset.of_table(table, dataset.discrete_action, dataset.get_action_size())
        env = GoalConcatWrapper(env, *keys, tuple_observation)
    return from_library_dataset(dataset, transition_picker, trajectory_slicer), env


def get_atari(
    env_name: str,
    num_stack: int | None = None,
    sticky_action: bool = True,
    pre_stack: bool = False,
    render_mode: str | None = None,
) -> tuple[ReplayBuffer, Any]:
    """Return a million steps of DQN on an Atari game, and the environment, as `pfrl_like.datasets.get_atari` does.

    Args:
        env_name: Name of the dataset, for example "breakout-mixed-v0".
        num_stack: Number of images in an observation of the environment and of a transition. If None, one.
        sticky_action: True if the environment repeats the previous action with probability 1/4.
        pre_stack: Must be False: images are stacked when they are sampled.
        render_mode: Mode of rendering of the environment.

    Raises:
        ValueError: If the name is unknown, or if `pre_stack` is True.
        DownloadError: If a file cannot be downloaded.
        MissingDependencyError: If ale-py is not installed.
    """
    if pre_stack:
        raise ValueError("pre_stack is True, expected False: num_stack stacks the same images when they are sampled")
    dataset, env = public_sets.get_atari(env_name)
    probability = 0.25 if sticky_action else 0.0
    options: dict[str, Any] = {"repeat_action_probability": probability, "render_mode": render_mode}
    env = Atari(gymnasium.make(env.unwrapped.spec.id, frameskip=1, **options), num_stack, is_eval=True)
    parts = FrameStackTransitionPicker(num_stack or 1), FrameStackTrajectorySlicer(num_stack or 1)
    return from_library_dataset(dataset, *parts), env


def get_atari_transitions(
    game_name: str,
    fraction: float = 0.01,
    index: int = 0,
    num_stack: int | None = None,
    sticky_action: bool = True,
    pre_stack: bool = False,
    render_mode: str | None = None,
) -> tuple[list[Transition], Any]:
    """Return transitions of all 50 million steps of DQN on an Atari game, and the environment.

    The transitions are distinct and sampled with NumPy's global stream. All data are downloaded: 7 GB for each million.

    Args:
        game_name: Name of the game in lower_snake_case, for example "ms_pacman".
        fraction: Share of the transitions that is returned, in (0, 1].
        index: Number of the run, 0 to 4.
        num_stack: Number of images in an observation. If None, one.
        sticky_action: True if the environment repeats the previous action with probability 1/4.
        pre_stack: Must be False: images are stacked when they are sampled.
        render_mode: Mode of rendering of the environment.

    Raises:
        ValueError: If a name or number is out of range.
        DownloadError: If a file cannot be downloaded.
        MissingDependencyError: If ale-py is not installed.
    """
    check_numbers(0, 1, fraction=fraction)
    transitions: list[Transition] = []
    for epoch in range(1, _ATARI_EPOCHS + 1):
        name = f"{game_name.replace('_', '-')}-epoch-{epoch}-v{index}"
        dataset, env = get_atari(name, num_stack, sticky_action, pre_stack, render_mode)
        count = dataset.transition_count
        rows = np.random.permutation(count)[: int(fraction * count)]
        transitions += [dataset.transition_picker(*dataset.buffer[row]) for row in rows.tolist()]
    return transitions, env


def get_dataset(
    env_name: str,
    transition_picker: TransitionPickerProtocol | None = None,
    trajectory_slicer: TrajectorySlicerProtocol | None = None,
    render_mode: str | None = None,
) -> tuple[ReplayBuffer, Any]:
    """Return the dataset with a name, and its environment.

    Args:
        env_name: "cartpole" or "pendulum", optionally with "-replay" or "-random"; an id of Minari with a slash; a name
            of D4RL, for example "hopper-medium-v2"; or a name of an Atari game, for example "breakout-mixed-v0".
        transition_picker: Function that makes a transition of a row. Atari games do not use it.
        trajectory_slicer: Function that makes a trajectory of rows. Atari games do not use it.
        render_mode: Mode of rendering of the environment.

    Raises:
        ValueError: If the name is unknown.
    """
    parts = transition_picker, trajectory_slicer, render_mode
    packaged = re.fullmatch("(cartpole|pendulum)(?:-(replay|random))?", env_name)
    if packaged is not None:
        get = get_cartpole if packaged[1] == "cartpole" else get_pendulum
        return get(packaged[2] or "replay", *parts)
    if "/" in env_name:
        return get_minari(env_name, *parts)
    if re.match("hopper|halfcheetah|walker2d", env_name):
        return get_d4rl(env_name, *parts)
    return get_atari(env_name, render_mode=render_mode)
