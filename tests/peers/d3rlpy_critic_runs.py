"""Updates in a row of algorithms with several critics of each kind, as in `d3rlpy_runs.py`, whose answers it writes.

    PYTHONPATH=tests .peers/d3rlpy/bin/python tests/peers/d3rlpy_critic_runs.py tests/data/peers/d3rlpy_critic_runs.npz

Targets reduce the critics in the way of the algorithm: by the minimum, by a mixture of minimum and maximum (BCQ, BEAR,
PLAS), and the minimum of each action (discrete SAC). The order of quantiles is that of their mean.
"""

import dataclasses
import sys
from typing import Any

import numpy as np
import torch
from peers import d3rlpy_runs, problem

#: Algorithm and the fields of its config that are necessary for a short run.
ALGORITHMS: dict[str, dict[str, Any]] = {
    "DQN": {"target_update_interval": 3}, "DoubleDQN": {"target_update_interval": 3}, "NFQ": {},
    "DiscreteCQL": {"target_update_interval": 3}, "DiscreteBCQ": {"target_update_interval": 3},
    "DiscreteSAC": {"target_update_interval": 3}, "DDPG": {}, "TD3": {}, "TD3PlusBC": {}, "ReBRAC": {}, "SAC": {},
    "CQL": {"n_action_samples": 4}, "CalQL": {"n_action_samples": 4},
    "AWAC": {"n_action_samples": 4, "actor_learning_rate": problem.LEARNING_RATE / 100},
    "CRR": {"target_update_interval": 3}, "BCQ": {"n_action_samples": 4},
    "BEAR": {"warmup_steps": 3, "n_target_samples": 3}, "PLAS": {"warmup_steps": 3},
    "PLASWithPerturbation": {"warmup_steps": 3}, "IQL": {}, "BC": {}, "DiscreteBC": {},
}  # fmt: skip
DISCRETE = ("DQN", "DoubleDQN", "NFQ", "DiscreteCQL", "DiscreteBCQ", "DiscreteSAC")
#: Class of the Q-functions' factory, and its arguments. d3rlpy 2.8.1 has vectors only with equal numbers of quantiles.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "means": ("MeanQFunctionFactory", {}),
    "quantiles": ("QRQFunctionFactory", {"n_quantiles": 8}),
    "drawn quantiles": ("IQNQFunctionFactory", {"n_quantiles": 8, "n_greedy_quantiles": 8}),
    "batch normalisation": ("MeanQFunctionFactory", {}),
}
#: What the layer refuses, beside drawn quantiles of several critics of discrete actions.
REFUSED = {("DiscreteSAC", "quantiles")} | {
    *((each, "drawn quantiles") for each in ("DiscreteSAC", "CQL", "CalQL", "BCQ", "BEAR")),
    *(
        (each, "batch normalisation")
        for each in ("CQL", "CalQL", "IQL", "AWAC", "CRR", "BCQ", "BEAR", "PLAS", "PLASWithPerturbation")
    ),
}
CASES = [
    (algorithm, kind)
    for algorithm in ALGORITHMS
    for kind in KINDS
    if (algorithm, kind) not in REFUSED and (kind[0] == "b" or algorithm not in ("IQL", "BC", "DiscreteBC"))
]


def options(library: Any, algorithm: str, kind: str) -> dict[str, Any]:
    """Fields of the config of a case."""
    factory, arguments = KINDS[kind]
    n_critics = 3 if kind == "means" else 1 if kind == "drawn quantiles" and algorithm in DISCRETE else 2
    chosen = {
        **ALGORITHMS[algorithm], "n_critics": n_critics,
        "q_func_factory": getattr(library.models, factory)(**arguments),
    }  # fmt: skip
    fields = {each.name for each in dataclasses.fields(getattr(library.algos, f"{algorithm}Config"))}
    if kind == "batch normalisation":
        encoder = library.models.VectorEncoderFactory(hidden_units=problem.HIDDEN, use_batch_norm=True)
        chosen |= {name: encoder for name in fields if name.endswith("encoder_factory")}
    return {name: value for name, value in chosen.items() if name in fields}


def answer(library: Any, algorithm: str, kind: str, draws: Any = None) -> dict[str, Any]:
    """The answer of a library for a case, see `d3rlpy_runs.run`."""
    config = getattr(library.algos, f"{algorithm}Config")
    algo = d3rlpy_runs.build(d3rlpy_runs.make(library, config, options(library, algorithm, kind), "SGD"))
    return d3rlpy_runs.run(algo, library, 0, draws)


if __name__ == "__main__":
    import d3rlpy

    torch.set_default_dtype(torch.float64)
    torch.float32, torch.Tensor.float = torch.float64, torch.Tensor.double  # d3rlpy names float32 in many places
    everything: dict[str, Any] = {}
    for case in CASES:
        found = answer(d3rlpy, *case)
        everything |= {f"{'/'.join(case)}/{name}": array for name, array in found.items()}
    np.savez_compressed(sys.argv[1], **everything)
