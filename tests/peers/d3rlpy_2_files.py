"""Files of algorithms and datasets with d3rlpy 2's API: one library writes them, another reads them and continues.

Functions take the library as an argument: d3rlpy 2.8.1 in an environment of its own (`make peers`), or one with the
same names. As a program this file reads, with d3rlpy, what `write` has left in a folder, writes files of its own beside
them, and writes its findings as npz. An algorithm finds, below `<algorithm>/<d3, pt or next>/`,

    predictions, values   greedy actions of some observations, and their values
    drawn/<i>/<j>         the j-th random numbers that predictions (0) and one more update (1) draw
    after/<module>        the parameters after the update, in one row
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from peers import d3rlpy_datasets, problem
from peers.d3rlpy_runs import (
    ALGORITHMS,
    DISCRETE,
    EVALUATED,
    batch_of,
    build,
    config_class,
    config_of,
    first_options,
    flat,
)

Array = NDArray[Any]
DATASETS = {f"{len(shape)}_{discrete}": (shape, discrete) for shape in ((3,), (2, 4, 4)) for discrete in (True, False)}


def unfitted_scalers(library: Any, discrete: bool) -> dict[str, Any]:
    """Scalers that `fit` fits."""
    each = library.preprocessing
    found = {"observation_scaler": each.StandardObservationScaler(), "reward_scaler": each.StandardRewardScaler()}
    return found if discrete else {**found, "action_scaler": each.MinMaxActionScaler()}


def evaluation(library: Any, name: str, folder: Path, config: Any) -> Any:
    """An evaluation of the algorithm in a file."""
    evaluated = library.load_learnable(str(folder.parent / EVALUATED[name] / "model_2.d3"))
    return build(getattr(library.ope, name)(evaluated, config))


def write(library: Any, folder: Path) -> None:
    """Train all algorithms for two updates, and write their files and those of datasets."""
    for name, (shape, discrete) in DATASETS.items():
        with open(folder / f"{name}.h5", "w+b") as file:
            library.dataset.MDPDataset(*d3rlpy_datasets.arrays(shape, discrete)).dump(file)
    for name in ALGORITHMS:
        discrete = name in DISCRETE
        options = first_options(name, library) | unfitted_scalers(library, discrete) | {"batch_size": 8}
        config = config_of(library, config_class(library, name), options)
        algo = evaluation(library, name, folder / name, config) if name in EVALUATED else config.create()
        rows = problem.minibatch(discrete)
        columns = rows["observations"], rows["actions"], rows["rewards"], np.arange(problem.ROWS) % 8 == 7
        algo.fit(
            library.dataset.MDPDataset(*columns), 2, 2, name, with_timestamp=False, show_progress=False,
            logger_adapter=library.logging.FileAdapterFactory(str(folder)),
        )  # fmt: skip
        algo.save_model(str(folder / name / "model_2.pt"))


def read(library: Any, path: Path) -> Any:
    """The algorithm of a `.d3` file, or of a `.pt` file with `params.json` beside it."""
    folder, name = path.parent, path.parent.name
    if path.suffix == ".d3":
        return library.load_learnable(str(path))
    if name in EVALUATED:
        shaped = library.base.LearnableConfigWithShape.deserialize_from_file(str(folder / "params.json"))
        algo = evaluation(library, name, folder, shaped.config)
    else:
        algo = getattr(library.algos, name).from_json(str(folder / "params.json"))
    algo.load_model(str(path))
    return algo


def continued(algo: Any, library: Any, draws: Callable[[int], Any] | None = None) -> dict[str, Array]:
    """What an algorithm predicts, and its parameters after one more update.

    Args:
        algo: The algorithm.
        library: Library that makes the minibatch.
        draws: Function of 0 and 1 that returns the numbers that predictions and the update are to draw, in order. If
            None, torch draws them.
    """
    discrete = algo.get_action_type().name == "DISCRETE"
    rows, found = problem.minibatch(discrete, 1), dict[str, Array]()
    torch.manual_seed(0)
    algo.set_grad_step(4)  # after all warm-ups, where policies are updated
    for i in range(2):
        with problem.Recorded() if draws is None else problem.Replayed(draws(i)) as mode:
            if i:
                algo.update(batch_of(library, rows))
            else:
                found["predictions"] = algo.predict(rows["observations"])
                if "BC" not in (type(algo).__name__[-2:], type(algo).__name__[8:]):
                    found["values"] = algo.predict_value(rows["observations"], rows["actions"])
        if draws is None:
            found |= {f"drawn/{i}/{j}": drawn for j, drawn in enumerate(mode.drawn)}
    modules: Mapping[str, Any] = algo.impl.modules.get_torch_modules()
    return found | {f"after/{name}": flat(each.parameters()) for name, each in modules.items()}


if __name__ == "__main__":
    import d3rlpy

    written, findings = Path(sys.argv[1]).parent, dict[str, Array]()
    for name in DATASETS:
        with open(written / f"{name}.h5", "rb") as file:
            dataset = d3rlpy.dataset.ReplayBuffer.load(file, d3rlpy.dataset.InfiniteBuffer())
        findings |= {f"{name}/{key}": each for key, each in d3rlpy_datasets.transitions_of(dataset).items()}
        with open(written / f"theirs_{name}.h5", "w+b") as file:
            dataset.dump(file)
    for name in ALGORITHMS:
        folder = written / name
        kinds = ["pt"] if name in EVALUATED else ["pt", "d3"]
        for kind in kinds:
            algo = read(d3rlpy, folder / f"model_2.{kind}")
            findings |= {f"{name}/{kind}/{key}": each for key, each in continued(algo, d3rlpy).items()}
        algo.save_model(str(folder / "theirs.pt"))
        if "d3" in kinds:
            algo.save(str(folder / "theirs.d3"))
        findings |= {f"{name}/next/{key}": each for key, each in continued(algo, d3rlpy).items()}
    np.savez(sys.argv[1], **findings)
