"""One update of each of d3rlpy's algorithms; `tests/conformance/test_d3rlpy_updates.py` compares ours with it.

Runs in d3rlpy's environment (`make peers`), and writes what d3rlpy answers:

    PYTHONPATH=tests .peers/d3rlpy/bin/python tests/peers/d3rlpy_updates.py tests/data/peers

`d3rlpy_updates.json` holds the losses of each case that the update reported. `d3rlpy_updates.npz` holds
`<case>/drawn/<i>`, the random numbers that it drew, in order, and `<case>/after/<network>`, all parameters of a network
after it. Weights before it and the minibatch are those of `problem.py`. All is computed in float64.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import d3rlpy
import numpy as np
import torch
from d3rlpy import algos
from peers import problem
from peers.d3rlpy_runs import batch_of, build, config_of
from torch import nn

#: Algorithm and hyperparameters of each case; learning rates and networks are the same everywhere.
CASES: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "DQN": (algos.DQNConfig, {}),
    "DQN, two critics": (algos.DQNConfig, {"n_critics": 2}),
    "DQN, quantiles": (algos.DQNConfig, {"q_func_factory": d3rlpy.models.QRQFunctionFactory(n_quantiles=32)}),
    "DoubleDQN": (algos.DoubleDQNConfig, {}),
    "DiscreteCQL": (algos.DiscreteCQLConfig, {}),
    "DiscreteCQL, two critics": (algos.DiscreteCQLConfig, {"n_critics": 2}),
    "DiscreteBCQ": (algos.DiscreteBCQConfig, {"share_encoder": False, "beta": 0.0}),
    "DiscreteBC": (algos.DiscreteBCConfig, {}),
    "DiscreteSAC": (algos.DiscreteSACConfig, {"temp_learning_rate": 0.0, "initial_temperature": 0.5}),
    "BC": (algos.BCConfig, {}),
    "DDPG": (algos.DDPGConfig, {}),
    "TD3": (algos.TD3Config, {}),
    "TD3PlusBC": (algos.TD3PlusBCConfig, {}),
    "ReBRAC": (algos.ReBRACConfig, {}),
    "SAC": (algos.SACConfig, {}),
    "SAC, fixed temperature": (algos.SACConfig, {"temp_learning_rate": 0.0, "initial_temperature": 0.5}),
    "CQL": (
        algos.CQLConfig,
        {"temp_learning_rate": 0.0, "alpha_learning_rate": 0.0, "n_action_samples": 4, "soft_q_backup": True},
    ),
    "CalQL": (
        algos.CalQLConfig,
        {"temp_learning_rate": 0.0, "alpha_learning_rate": 0.0, "n_action_samples": 4, "soft_q_backup": True},
    ),
    "CalQL, alpha that learns": (algos.CalQLConfig, {"temp_learning_rate": 0.0, "n_action_samples": 4}),
    "IQL": (algos.IQLConfig, {}),
    "IQL, critics that stay": (algos.IQLConfig, {"critic_learning_rate": 0.0}),
    "AWAC": (algos.AWACConfig, {"n_action_samples": 4}),
    "CRR": (algos.CRRConfig, {}),
    "PLAS": (algos.PLASConfig, {"warmup_steps": 0}),
    "PLAS, model": (algos.PLASConfig, {"warmup_steps": 1}),
    "PLASWithPerturbation": (algos.PLASWithPerturbationConfig, {"warmup_steps": 0}),
    "BCQ": (algos.BCQConfig, {"n_action_samples": 4, "imitator_learning_rate": 0.0}),
    "BEAR": (
        algos.BEARConfig,
        {"temp_learning_rate": 0.0, "alpha_learning_rate": 0.0, "imitator_learning_rate": 0.0, "warmup_steps": 0},
    ),
}
#: Networks by the names that d3rlpy gives them, and the parts that they play in the problem.
PARTS = {
    "policy": "policy", "targ_policy": "policy", "q_funcs": "q", "targ_q_funcs": "q", "value_func": "value",
    "imitator": "imitator", "vae_encoder": "vae_encoder", "vae_decoder": "vae_decoder",
    "perturbation": "perturbation", "targ_perturbation": "perturbation",
}  # fmt: skip


def ordered(network: nn.Module) -> list[nn.Parameter]:
    """All parameters; the mean and the deviation of a policy are one layer of double width."""
    named = dict(network.named_parameters())
    heads = [name for name in ("_mu.weight", "_logstd.weight", "_mu.bias", "_logstd.bias", "_logstd") if name in named]
    return [parameter for name, parameter in named.items() if name not in heads] + [named[name] for name in heads]


def networks(algo: Any) -> dict[str, tuple[nn.Module, str, int, bool]]:
    """The networks by name, the part of each, its number among such, and whether it is a target."""
    found: dict[str, tuple[nn.Module, str, int, bool]] = {}
    modules = algo.impl._modules
    for name, part in PARTS.items():
        network = getattr(modules, name, None)
        target = name.startswith("targ_")
        if isinstance(network, nn.ModuleList):
            found |= {f"{name}{i}": (each, part, i, target) for i, each in enumerate(network)}
        elif network is not None:
            found[name] = network, part, 0, target
    return found


def answers(config: type[Any], options: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, Any]]:
    """The losses that one update reports, and the arrays: what it drew, and what it left."""
    algo = build(config_of(d3rlpy, config, options).create(device="cpu:0"))
    discrete = algo.get_action_type() is d3rlpy.ActionSpace.DISCRETE
    parts = networks(algo)
    for network, part, number, target in parts.values():
        parameters = ordered(network)
        problem.fill(parameters, problem.weights(part, sum(map(torch.numel, parameters)), number, target))
    torch.manual_seed(0)
    with problem.Recorded() as recorded:
        losses = algo.update(batch_of(d3rlpy, problem.minibatch(discrete)))
    after = {
        f"after/{name}": torch.cat([each.detach().flatten() for each in ordered(network)]).numpy()
        for name, (network, _, _, target) in parts.items()
        if not target
    }
    return losses, {f"drawn/{i}": drawn for i, drawn in enumerate(recorded.drawn)} | after


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    torch.float32, torch.Tensor.float = torch.float64, torch.Tensor.double  # d3rlpy names float32 in many places
    found = {case: answers(config, options) for case, (config, options) in CASES.items()}
    folder = Path(sys.argv[1])
    losses = {case: reported for case, (reported, _) in found.items()}
    (folder / "d3rlpy_updates.json").write_text(json.dumps(losses, indent=1) + "\n")
    arrays = {f"{case}/{name}": array for case, (_, named) in found.items() for name, array in named.items()}
    np.savez_compressed(folder / "d3rlpy_updates.npz", **arrays)
