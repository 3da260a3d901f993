"""Updates in a row of Decision Transformers with d3rlpy 2's API, as `d3rlpy_runs.py` makes them for other algorithms.

As a program this file writes what d3rlpy 2.8.1 answers: in float64, for some seeds and all cases, or cases that are
named in full; or for `.d3` files, which it loads, continues, and saves again:

    export PYTHONPATH=tests
    .peers/d3rlpy/bin/python tests/peers/d3rlpy_transformer_runs.py PATH seeds 0,1,2 [CASE/OPTIMIZER ...]
    .peers/d3rlpy/bin/python tests/peers/d3rlpy_transformer_runs.py PATH files FILE ...
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from peers import d3rlpy_runs, problem

Array = NDArray[Any]
LENGTH = 4
#: Sizes of the network; the learning rate of discrete actions grows in the first four updates or so.
SIZES: dict[str, Any] = {
    "context_size": LENGTH, "max_timestep": 12, "num_heads": 2, "num_layers": 2, "batch_size": problem.ROWS,
}  # fmt: skip
NO_DROPOUT = dict.fromkeys(("attn_dropout", "resid_dropout", "embed_dropout"), 0.0)
SCHEDULE = {"warmup_tokens": 150, "final_tokens": 500}


def scaled(library: Any) -> dict[str, Any]:
    """Scalers that are fitted."""
    scalers, one = library.preprocessing, np.ones(problem.OBS_SIZE)
    return NO_DROPOUT | {
        "observation_scaler": scalers.StandardObservationScaler(mean=one / 2, std=2 * one),
        "reward_scaler": scalers.StandardRewardScaler(mean=0.5, std=2.0),
    }


def scaled_actions(library: Any) -> dict[str, Any]:
    """Scalers that are fitted, also of actions."""
    one = np.ones(problem.ACTION_SIZE)
    return scaled(library) | {"action_scaler": library.preprocessing.MinMaxActionScaler(-2 * one, 1.5 * one)}


def with_gpt_adam_w(library: Any) -> dict[str, Any]:
    """The optimiser for transformers, with clipped gradients and a warm-up."""
    make, warmup = library.optimizers.GPTAdamWFactory, library.optimizers.WarmupSchedulerFactory(warmup_steps=5)
    factory = make(eps=problem.EPS, weight_decay=0.1, clip_grad_norm=0.25, lr_scheduler_factory=warmup)
    return NO_DROPOUT | {"optim_factory": factory}


def positions(name: str) -> d3rlpy_runs.Options:
    """Options without dropout and with a kind of position encoding."""
    return lambda library: NO_DROPOUT | {"position_encoding_type": getattr(library.PositionEncodingType, name)}


#: Discrete or not, and fields of the config. With dropout, torch draws the same numbers in every library.
CASES: dict[str, tuple[bool, d3rlpy_runs.Options]] = {
    "continuous, SIMPLE": (False, positions("SIMPLE")),
    "continuous, GLOBAL": (False, positions("GLOBAL")),
    "continuous, dropout": (False, d3rlpy_runs.given()),
    "continuous, scalers": (False, scaled_actions),
    "continuous, GPTAdamW": (False, with_gpt_adam_w),
    "discrete, SIMPLE": (True, positions("SIMPLE")),
    "discrete, GLOBAL": (True, positions("GLOBAL")),
    "discrete, dropout": (True, d3rlpy_runs.given()),
    "discrete, scalers": (True, scaled),
    "discrete, GPTAdamW": (True, with_gpt_adam_w),
}


def make(library: Any, case: str, optimizer: str) -> Any:
    """The algorithm of a case, built."""
    discrete, options = CASES[case]
    config = getattr(library.algos, f"{'Discrete' * discrete}DecisionTransformerConfig")
    adam = library.optimizers.AdamFactory(eps=problem.EPS)
    given = SIZES | (SCHEDULE if discrete else {}) | {
        "learning_rate": problem.LEARNING_RATE,
        "encoder_factory": library.models.VectorEncoderFactory(hidden_units=problem.HIDDEN),
        "optim_factory": adam if optimizer == "Adam" else library.optimizers.SGDFactory(),
    }  # fmt: skip
    return d3rlpy_runs.build(config(**given | options(library)).create(device="cpu:0"))


def minibatch(library: Any, discrete: bool, seed: int) -> Any:
    """Trajectories of which most begin with padding."""
    stream = np.random.RandomState(seed)
    masks = np.arange(LENGTH) >= stream.randint(0, LENGTH, (problem.ROWS, 1))
    later = stream.randint(0, 9, (problem.ROWS, 1)) * masks[:, :1]  # a full context may lie within an episode
    shape = (problem.ROWS, LENGTH)
    columns = {
        "observations": stream.randn(*shape, problem.OBS_SIZE), "actions": actions(stream, discrete, shape, (1,)),
        "rewards": stream.randn(*shape, 1), "returns_to_go": 3 * stream.randn(*shape, 1),
        "terminals": np.zeros((*shape, 1)), "timesteps": masks.cumsum(1) + later, "masks": np.ones(shape),
    }  # fmt: skip
    columns = {name: (each.T * masks.T).T.astype(np.float32) for name, each in columns.items()}
    return library.dataset.TrajectoryMiniBatch(**columns, length=LENGTH)


def actions(stream: np.random.RandomState, discrete: bool, shape: tuple[int, ...], of_index: tuple[int, ...]) -> Array:
    """Actions of so many steps; an index has the shape `of_index`."""
    if discrete:
        return stream.randint(0, problem.N_ACTIONS, shape + of_index)
    return stream.uniform(-0.9, 0.9, (*shape, problem.ACTION_SIZE))


def context(library: Any, discrete: bool, n_steps: int) -> Any:
    """The first steps of an episode, for `predict`."""
    stream = np.random.RandomState(n_steps)
    chosen, numbers = actions(stream, discrete, (n_steps,), ()), stream.randn(2, n_steps, 1)
    observations = stream.randn(n_steps, problem.OBS_SIZE)
    return library.algos.TransformerInput(observations, chosen, *numbers, np.arange(1, n_steps + 1))


def predictions(algo: Any, library: Any, discrete: bool) -> Array:
    """What an algorithm predicts for contexts that are shorter and longer than its own."""
    return np.stack([algo.predict(context(library, discrete, n)) for n in (1, LENGTH - 1, LENGTH, LENGTH + 2)])


def answers(library: Any, case: str, optimizer: str, seed: int) -> dict[str, Array]:
    """The answer of a library for a case: as in `d3rlpy_runs.py`, and predictions after the updates."""
    algo, discrete = make(library, case, optimizer), CASES[case][0]
    modules = algo.impl.modules.get_torch_modules()
    d3rlpy_runs.fill(modules, seed)
    torch.manual_seed(seed)
    gradients = d3rlpy_runs.FirstGradients(modules)
    metrics = []
    found: dict[str, Array] = {}
    for update in range(d3rlpy_runs.UPDATES):
        metrics.append(algo.update(minibatch(library, discrete, d3rlpy_runs.UPDATES * seed + update)))
        found = found or gradients.found()
    found |= {f"losses/{name}": np.array([each[name] for each in metrics]) for name in metrics[0]}
    found |= {f"after/{name}": d3rlpy_runs.flat(each.parameters()) for name, each in modules.items()}
    found["predictions"] = predictions(algo, library, discrete)
    return {f"{case}/{optimizer}/{seed}/{name}": array for name, array in found.items()}


def continued(library: Any, path: str) -> dict[str, Any]:
    """What the algorithm in a file predicts, then the metrics of one more update, without dropout, and predictions."""
    algo = library.load_learnable(path)
    discrete = algo.get_action_type().name == "DISCRETE"
    before, metrics = predictions(algo, library, discrete), algo.update(minibatch(library, discrete, 0))
    return {"before": before, **metrics, "after": predictions(algo, library, discrete)}


if __name__ == "__main__":
    import d3rlpy

    path, mode, *given = sys.argv[1:]
    everything: dict[str, Array] = {}
    if mode == "files":
        for file in given:
            everything |= {f"{Path(file).stem}/{name}": each for name, each in continued(d3rlpy, file).items()}
            d3rlpy.load_learnable(file).save(f"{file}.again")
    else:
        torch.set_default_dtype(torch.float64)
        torch.float32, torch.Tensor.float = torch.float64, torch.Tensor.double  # d3rlpy names float32 in many places
        seeds, *named = given
        for case in named or (f"{name}/{kind}" for name in CASES for kind in d3rlpy_runs.OPTIMIZERS):
            for seed in seeds.split(","):
                everything |= answers(d3rlpy, *case.split("/"), int(seed))
    np.savez_compressed(path, **everything)
