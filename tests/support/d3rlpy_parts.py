"""Small datasets of d3rlpy 2 whose rows all differ, and small algorithms that learn from them."""

import dataclasses
from typing import Any

import numpy as np

from pfrl_like import d3rlpy
from pfrl_like.d3rlpy.base import ALGORITHMS
from pfrl_like.d3rlpy.dataset import Episode, MDPDataset


def rewards_of(n: int) -> np.ndarray:
    """0.5, 1.5, 3.5, 7.5, ...: no sum of some is a sum of others."""
    return 2.0 ** np.arange(n) - 0.5


def numbered(ends: str, **options: Any) -> MDPDataset:
    """A dataset of one row per letter: "t" ends an episode in a terminal state, "o" by a timeout, "-" does not."""
    n = len(ends)
    arrays = {
        "observations": np.arange(n, dtype=np.float32).reshape(n, 1),
        "actions": np.arange(n) % 3,
        "rewards": rewards_of(n),
        "terminals": np.array([end == "t" for end in ends]),
        "timeouts": np.array([end == "o" for end in ends]),
    }
    return MDPDataset(**arrays | options)


def episode(n: int, terminated: bool, start: int = 0) -> Episode:
    """An episode whose observations are start, start + 1, ..."""
    row = np.arange(start, start + n, dtype=np.float32).reshape(n, 1)
    return Episode(row, row.astype(np.int64) % 3, row + 0.5, terminated)


def observed(dataset: Any) -> list[float]:
    """The observation of each transition of a dataset, in the order of its buffer."""
    transitions = [dataset.transition_picker(*dataset.buffer[i]) for i in range(dataset.transition_count)]
    return [float(transition.observation[0]) for transition in transitions]


#: Arguments of `fit` that write and show nothing.
QUIET: Any = {"logger_adapter": d3rlpy.logging.NoopAdapterFactory(), "show_progress": False}
ENCODER = d3rlpy.models.VectorEncoderFactory([8])
CONFIGS = [
    config for config, algo in ALGORITHMS.items()
    if config.__module__.endswith("configs") and issubclass(algo, d3rlpy.algos.QLearningAlgoBase)
    and "Random" not in config.__name__
]  # fmt: skip


def is_discrete(config: Any) -> bool:
    return ALGORITHMS[config].get_action_type(None) is d3rlpy.ActionSpace.DISCRETE  # type: ignore[arg-type]


def small(config: Any, **options: Any) -> Any:
    encoders = {each.name: ENCODER for each in dataclasses.fields(config) if each.name.endswith("encoder_factory")}
    steps = {"warmup_steps": 1} if any(each.name == "warmup_steps" for each in dataclasses.fields(config)) else {}
    return config(**{"batch_size": 8} | encoders | steps | options)


def dataset(discrete: bool) -> Any:
    rng, ends = np.random.default_rng(0), np.arange(40) % 20 == 19
    actions = rng.integers(0, 3, 40) if discrete else rng.uniform(-2, 2, (40, 2)).astype(np.float32)
    observations = rng.normal(size=(40, 3)).astype(np.float32)
    return d3rlpy.dataset.MDPDataset(observations, actions, np.arange(40.0, dtype=np.float32), ends)


def trained(config: Any, n_steps: int = 4, **options: Any) -> Any:
    algo = small(config, **options).create()
    algo.fit(dataset(is_discrete(config)), n_steps, 2, **QUIET)
    return algo


OBS = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
