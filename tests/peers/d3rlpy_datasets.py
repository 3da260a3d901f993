"""What datasets of d3rlpy 2 hold and sample, for d3rlpy itself and for this library: `facts` takes either module."""

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

FIELDS = ("observation", "action", "reward", "next_observation", "next_action", "terminal", "interval")
COLUMNS = ("observations", "actions", "rewards", "returns_to_go", "terminals", "timesteps", "masks")
ENDS = "--t----o-tt--oot--"


def arrays(shape: tuple[int, ...], discrete: bool) -> list[np.ndarray]:
    """Columns in which each row differs from all others, with ends of all kinds."""
    n, rng = len(ENDS), np.random.default_rng(0)
    actions = np.arange(n) % 4 if discrete else rng.normal(size=(n, 2)).astype(np.float32)
    observations = rng.integers(1, 255, (n, *shape)).astype(np.uint8 if len(shape) == 3 else np.float32)
    flags = (np.array([end == kind for end in ENDS], np.float32) for kind in "to")
    return [observations, actions, rng.normal(size=n).astype(np.float32), *flags]


def transitions_of(dataset: Any) -> dict[str, np.ndarray]:
    """All transitions of a dataset, by field, and the lengths and sums of their rewards to go."""
    held = [dataset.transition_picker(*dataset.buffer[i]) for i in range(dataset.transition_count)]
    found = {field: np.stack([np.asarray(getattr(each, field)) for each in held]) for field in FIELDS}
    return found | {"to_go": np.array([(len(each.rewards_to_go), each.rewards_to_go.sum()) for each in held])}


def sampled_from(dataset: Any) -> dict[str, np.ndarray]:
    """A minibatch of transitions and one of trajectories."""
    np.random.seed(1)
    batch, parts = dataset.sample_transition_batch(9), dataset.sample_trajectory_batch(7, 3)
    found = {f"batch_{field}s": getattr(batch, f"{field}s") for field in FIELDS}
    return found | {f"part_{name}": getattr(parts, name) for name in COLUMNS}


class Env(gymnasium.Env):  # type: ignore[type-arg]
    """The spaces of an environment."""

    observation_space = gymnasium.spaces.Box(0, 100, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)


def written(module: Any, buffer: Any, late: bool) -> Any:
    """A dataset of rows that are appended one by one. Episodes have two rows or more."""
    dataset = module.ReplayBuffer(buffer, env=Env(), write_at_termination=late)
    for row, end in enumerate("---t--o-o-----t----"):
        dataset.append(np.full(2, row, np.float64), row % 4, 0.5 + row)
        if end != "-":
            dataset.clip_episode(end == "t")
    return dataset


def facts(module: Any) -> dict[str, np.ndarray]:
    """All findings, by name."""
    pickers = {
        "basic": module.BasicTransitionPicker(),
        "frames": module.FrameStackTransitionPicker(3),
        "steps": module.MultiStepTransitionPicker(3, 0.9),
    }
    datasets = {
        f"{name}_{len(shape)}_{discrete}": module.MDPDataset(*arrays(shape, discrete), transition_picker=picker)
        for name, picker in pickers.items()
        for shape in ((3,), (2, 4, 4))
        for discrete in (True, False)
    }
    for limit in (None, 6, 9):
        for late in (False, True):
            buffer = module.InfiniteBuffer() if limit is None else module.FIFOBuffer(limit)
            datasets[f"written_{limit}_{late}"] = written(module, buffer, late)
    slicer = module.FrameStackTrajectorySlicer(2)
    datasets["slices"] = module.MDPDataset(*arrays((2, 4, 4), True), trajectory_slicer=slicer)
    found = {}
    for name, dataset in datasets.items():
        info, episodes = dataset.dataset_info, dataset.episodes
        counts = [dataset.transition_count, dataset.size(), info.action_space.value, info.action_size]
        values = transitions_of(dataset) | sampled_from(dataset) | {"counts": np.array(counts)}
        values["episodes"] = np.array([(e.size(), e.transition_count, e.compute_return()) for e in episodes])
        found |= {f"{name}.{key}": value for key, value in values.items()}
    return found


if __name__ == "__main__":
    import d3rlpy.dataset

    np.savez(Path(sys.argv[1]), **facts(d3rlpy.dataset))
