"""Updates in a row of algorithms with d3rlpy 2's API, from weights, minibatches and draws that are equal everywhere.

`run` takes the library as an argument: d3rlpy 2.8.1 in an environment of its own (`make peers`), or one with the same
names. As a program this file writes what d3rlpy answers, in float64, for the first seeds and some optimisers:

    PYTHONPATH=tests .peers/d3rlpy/bin/python tests/peers/d3rlpy_runs.py tests/data/peers/d3rlpy_runs.npz 1 Adam

With "variants" among the optimisers it answers the cases of `variants`, too.

An answer has, below `<case>/<optimizer>/<seed>/`,

    losses/<name>       what each update reports, [UPDATES]
    drawn/<u>/<i>       the i-th random numbers that update u draws
    gradients/<module>  those of the first update just before a parameter changes, all parameters in one row
    after/<module>      the parameters after all updates, in one row
    metrics/<name>      what the evaluators find after all updates, of an evaluation of a policy

Modules have d3rlpy's names. `fill` gives them their weights, `problem.minibatch` makes the minibatches.
"""

import dataclasses
import functools
import itertools
import sys
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from peers import problem
from torch import nn

Array = NDArray[Any]
Options = Callable[[Any], dict[str, Any]]

UPDATES, OPTIMIZERS = 10, ("SGD", "Adam")
FIXED = {"temp_learning_rate": 0.0, "alpha_learning_rate": 0.0}

#: Algorithm whose policy is evaluated.
EVALUATED = {"FQE": "SAC", "DiscreteFQE": "DQN"}
#: Module that an algorithm never trains.
CONSTANTS = {"AWAC": "log_temp"}


def given(**options: Any) -> Options:
    """Options that are the same objects in every library."""
    return lambda library: options


def with_batch_norm(library: Any) -> dict[str, Any]:
    """Encoders whose outputs depend on the mode of the networks."""
    factory = library.models.VectorEncoderFactory(hidden_units=problem.HIDDEN, use_batch_norm=True)
    return dict.fromkeys(("actor_encoder_factory", "critic_encoder_factory"), factory)


def quantiles(library: Any) -> dict[str, Any]:
    """Critics with quantiles at fixed fractions."""
    return {"q_func_factory": library.models.QRQFunctionFactory(n_quantiles=8)}


def drawn_quantiles(library: Any) -> dict[str, Any]:
    """Critics with quantiles at fractions that are drawn."""
    return {"q_func_factory": library.models.IQNQFunctionFactory(n_quantiles=8)}


#: Algorithm and fields of its config. Learning rates, encoders and optimisers are those of the problem everywhere.
CASES: dict[str, tuple[str, Options]] = {
    "DQN": ("DQN", given(target_update_interval=3)),
    "DQN, two critics": ("DQN", given(target_update_interval=3, n_critics=2)),
    "DQN, quantiles": ("DQN", quantiles),
    "DQN, drawn quantiles": ("DQN", drawn_quantiles),
    "DoubleDQN": ("DoubleDQN", given(target_update_interval=3)),
    "NFQ": ("NFQ", given()),
    "DiscreteCQL": ("DiscreteCQL", given(target_update_interval=3)),
    "DiscreteCQL, two critics": ("DiscreteCQL", given(target_update_interval=3, n_critics=2)),
    "DiscreteBCQ": ("DiscreteBCQ", given(target_update_interval=3)),
    "DiscreteBC": ("DiscreteBC", given()),
    "DiscreteSAC": ("DiscreteSAC", given(target_update_interval=3)),
    "BC": ("BC", given()),
    "BC, stochastic": ("BC", given(policy_type="stochastic")),
    "DDPG": ("DDPG", given()),
    "TD3": ("TD3", given()),
    "TD3, batch normalisation": ("TD3", with_batch_norm),
    "TD3PlusBC": ("TD3PlusBC", given()),
    "ReBRAC": ("ReBRAC", given()),
    "SAC": ("SAC", given()),
    "SAC, batch normalisation": ("SAC", with_batch_norm),
    "SAC, fixed temperature": ("SAC", given(temp_learning_rate=0.0)),
    "CQL": ("CQL", given(n_action_samples=4)),
    "CQL, soft_q_backup": ("CQL", given(n_action_samples=4, soft_q_backup=True)),
    "CQL, max_q_backup": ("CQL", given(n_action_samples=4, max_q_backup=True)),
    "CQL, fixed multipliers": ("CQL", given(n_action_samples=4, **FIXED)),
    "CalQL": ("CalQL", given(n_action_samples=4)),
    "IQL": ("IQL", given()),
    # Its loss is a sum, which diverges at the learning rate of the others.
    "AWAC": ("AWAC", given(n_action_samples=4, actor_learning_rate=problem.LEARNING_RATE / 100)),
    "CRR": ("CRR", given(target_update_interval=3)),
    "CRR, binary": ("CRR", given(target_update_interval=3, weight_type="binary", advantage_type="max", n_critics=2)),
    "BCQ": ("BCQ", given(n_action_samples=4)),
    "BEAR": ("BEAR", given(warmup_steps=3, n_target_samples=3)),
    "PLAS": ("PLAS", given(warmup_steps=3)),
    "PLASWithPerturbation": ("PLASWithPerturbation", given(warmup_steps=3)),
    "FQE": ("FQE", given(target_update_interval=3, n_critics=2)),
    "DiscreteFQE": ("DiscreteFQE", given(target_update_interval=3, n_critics=2)),
}  # fmt: skip


#: Those with actions that are indices.
DISCRETE = ("DQN", "DoubleDQN", "NFQ", "DiscreteCQL", "DiscreteBCQ", "DiscreteBC", "DiscreteSAC", "DiscreteFQE")
ALGORITHMS = [*dict.fromkeys(name for name, _ in CASES.values())]


def scalers(library: Any, discrete: bool) -> dict[str, Any]:
    """Scalers of all that can be scaled."""
    each = library.preprocessing
    mean, std, low, high = (np.array(row) for row in ([0.1, -0.2, 0.3], [1.0, 2.0, 0.5], [-1.0, -1.5], [2.0, 1.0]))
    found = {
        "observation_scaler": each.StandardObservationScaler(mean=mean, std=std),
        "reward_scaler": each.StandardRewardScaler(mean=0.3, std=2.0, multiplier=3.0),
    }
    return found if discrete else {**found, "action_scaler": each.MinMaxActionScaler(minimum=low, maximum=high)}


def parts_of(library: Any) -> dict[str, dict[str, Any]]:
    """For each ending of fields of a config, their values by the name of a variant."""
    vector, factories, optimizers = library.models.VectorEncoderFactory, library.models, library.optimizers
    return {
        "q_func_factory": {
            "quantiles": quantiles(library)["q_func_factory"],
            "drawn quantiles": drawn_quantiles(library)["q_func_factory"],
            "shared encoder": factories.MeanQFunctionFactory(share_encoder=True),
        },
        "encoder_factory": {
            "default encoder": factories.DefaultEncoderFactory(),
            "layer normalisation": vector(hidden_units=problem.HIDDEN, use_layer_norm=True, activation="tanh"),
            "batch normalisation": vector(hidden_units=problem.HIDDEN, use_batch_norm=True),
            "swish": vector(hidden_units=problem.HIDDEN, activation="swish", exclude_last_activation=True),
            "SimBa": factories.SimBaEncoderFactory(8, 6, 2),
        },
        "optim_factory": {
            "clipped": optimizers.AdamFactory(0.5, optimizers.WarmupSchedulerFactory(5), eps=problem.EPS, amsgrad=True),
            "AdamW": optimizers.AdamWFactory(
                lr_scheduler_factory=optimizers.CosineAnnealingLRFactory(7), eps=problem.EPS, weight_decay=0.1
            ),
            "RMSprop": optimizers.RMSpropFactory(eps=0.1),
            "momentum": optimizers.SGDFactory(0.7, momentum=0.9, nesterov=True),
            "GPT": optimizers.GPTAdamWFactory(eps=problem.EPS, weight_decay=0.1),
        },
        "n_critics": {"one critic": 1, "three critics": 3},
        "tau": {"large tau": 0.3},
        "initial_temperature": {"low temperature": 0.3},
    }


#: Fields of single algorithms, in groups that are changed together.
CHANGES: dict[str, list[dict[str, Any]]] = {
    "TD3": [{"target_smoothing_sigma": 1.0, "target_smoothing_clip": 0.1, "update_actor_interval": 3}],
    "TD3PlusBC": [{"alpha": 0.5, "update_actor_interval": 3}],
    "ReBRAC": [{"actor_beta": 1.0, "critic_beta": 0.5, "update_actor_interval": 1}],
    "IQL": [{"expectile": 0.9, "weight_temp": 1.0, "max_weight": 1.5}],
    "AWAC": [{"lam": 0.3, "n_action_samples": 1}],
    "CRR": [
        {"beta": 0.3, "max_weight": 1.5, "n_action_samples": 2},
        {"advantage_type": "max", "target_update_type": "soft", "tau": 0.3, "update_actor_interval": 2},
    ],
    "DiscreteBC": [{"beta": 2.0}],
    "CQL": [
        {"initial_alpha": 0.3, "alpha_threshold": -1.0, "conservative_weight": 0.7, "n_critics": 3},
        {"temp_learning_rate": 0.0, "soft_q_backup": True},
    ],
    "CalQL": [
        {"initial_alpha": 0.3, "alpha_threshold": -1.0, "conservative_weight": 0.7},
        {"soft_q_backup": True}, {"max_q_backup": True, "alpha_learning_rate": 0.0},
    ],
    "DiscreteSAC": [{"temp_learning_rate": 0.0, "target_update_interval": 1}],
    "BCQ": [{"lam": 0.2, "action_flexibility": 0.5, "beta": 0.1, "rl_start_step": 2, "update_actor_interval": 3}],
    "PLAS": [{"lam": 0.2, "beta": 0.1, "warmup_steps": 0}],
    "PLASWithPerturbation": [{"lam": 0.2, "warmup_steps": 0, "action_flexibility": 0.5}],
    "BEAR": [
        {"mmd_kernel": "gaussian", "mmd_sigma": 1.0, "vae_kl_weight": 0.1, "lam": 0.2, "n_mmd_action_samples": 3},
        {"alpha_threshold": 0.5, "initial_alpha": 0.3, "warmup_steps": 0}, {"temp_learning_rate": 0.0},
    ],
    "DiscreteBCQ": [{"action_flexibility": 0.8, "beta": 0.1, "share_encoder": False, "n_critics": 2}],
    "DiscreteCQL": [{"alpha": 5.0}],
}  # fmt: skip
#: Variants that d3rlpy refuses. Those of drawn quantiles of pairs need as many greedy quantiles.
REFUSED = [f"{name}, GPT" for name in ("BCQ", "BEAR", "PLAS", "PLASWithPerturbation", "DiscreteBCQ")]
REFUSED += [f"{name}, drawn quantiles" for name in ALGORITHMS if name not in DISCRETE]


def first_options(name: str, library: Any) -> dict[str, Any]:
    """The options of an algorithm's first case."""
    return next(options for each, options in CASES.values() if each == name)(library)


def with_part(name: str, ending: str, variant: str, library: Any) -> dict[str, Any]:
    """The options of an algorithm with a part of `parts_of` in all fields that have its ending."""
    fields = [field.name for field in dataclasses.fields(config_class(library, name)) if field.name.endswith(ending)]
    return first_options(name, library) | dict.fromkeys(fields, parts_of(library)[ending][variant])


def with_scalers(name: str, library: Any) -> dict[str, Any]:
    """The options of an algorithm with scalers."""
    return first_options(name, library) | scalers(library, name in DISCRETE)


def changed(name: str, change: Mapping[str, Any], library: Any) -> dict[str, Any]:
    """The options of an algorithm with other values of some fields."""
    return first_options(name, library) | change


CASES |= {
    "AWAC, scalers": ("AWAC", functools.partial(with_scalers, "AWAC")),
    "FQE, scalers": ("FQE", functools.partial(with_scalers, "FQE")),
    "DiscreteSAC, quantiles": (
        "DiscreteSAC", functools.partial(with_part, "DiscreteSAC", "q_func_factory", "quantiles")
    ),
    "BCQ, quantiles": ("BCQ", functools.partial(with_part, "BCQ", "q_func_factory", "quantiles")),
    "CQL, batch normalisation": ("CQL", functools.partial(with_part, "CQL", "encoder_factory", "batch normalisation")),
    "DoubleDQN, batch normalisation": (
        "DoubleDQN", functools.partial(with_part, "DoubleDQN", "encoder_factory", "batch normalisation")
    ),
}  # fmt: skip


@functools.cache
def variants(library: Any) -> dict[str, tuple[str, Options]]:
    """Further cases, which d3rlpy answers with one seed and Adam."""
    found: dict[str, tuple[str, Options]] = {}
    for name in ALGORITHMS:
        fields = [field.name for field in dataclasses.fields(config_class(library, name))]
        for ending, values in parts_of(library).items():
            for each in values if any(field.endswith(ending) for field in fields) else ():
                found[f"{name}, {each}"] = name, functools.partial(with_part, name, ending, each)
        found[f"{name}, scalers"] = name, functools.partial(with_scalers, name)
        for i, change in enumerate(CHANGES.get(name, [])):
            found[f"{name}, change {i}"] = name, functools.partial(changed, name, change)
    return {case: each for case, each in found.items() if case not in REFUSED and case not in CASES}


def config_of(library: Any, kind: Any, options: Mapping[str, Any], optimizer: str = "Adam") -> Any:
    """A config with the problem's networks and optimisers, and with options of its own."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.name.endswith("learning_rate"):
            values[field.name] = problem.LEARNING_RATE
        elif field.name.endswith("optim_factory"):
            adam = library.optimizers.AdamFactory(eps=problem.EPS)
            values[field.name] = adam if optimizer == "Adam" else library.optimizers.SGDFactory()
        elif field.name.endswith("encoder_factory"):
            values[field.name] = library.models.VectorEncoderFactory(hidden_units=problem.HIDDEN)
        elif field.name == "gamma":
            values[field.name] = problem.GAMMA
    return kind(**values | options)


def config_class(library: Any, name: str) -> Any:
    """The class of the configs of an algorithm."""
    return library.ope.FQEConfig if name in EVALUATED else getattr(library.algos, f"{name}Config")


def algorithm(library: Any, case: str, optimizer: str = "Adam", seed: int = 0) -> Any:
    """The algorithm of a case, with networks for the problem's observations and actions."""
    name, options = CASES[case] if case in CASES else variants(library)[case]
    values = options(library)
    config = config_of(library, config_class(library, name), values, optimizer)
    if name not in EVALUATED:
        return build(config.create(device="cpu:0"))
    scalers = {field: each for field, each in values.items() if field.endswith("scaler")}
    evaluated = build(config_of(library, config_class(library, EVALUATED[name]), scalers).create(device="cpu:0"))
    fill(evaluated.impl.modules.get_torch_modules(), seed)
    return build(getattr(library.ope, name)(evaluated, config, device="cpu:0"))


def batch_of(library: Any, rows: Mapping[str, Array], n_steps: int = 1) -> Any:
    """The `TransitionMiniBatch` of the problem's rows; the one step after a row that is not terminal is the last.

    Args:
        library: Library that makes the minibatch.
        rows: Result of `problem.minibatch`.
        n_steps: Each row is of 1 to so many steps.
    """
    ends, intervals = rows["terminals"][:, 0], 1 + np.arange(problem.ROWS) % n_steps
    transitions = [
        library.dataset.Transition(
            observation=rows["observations"][i], action=rows["actions"][i], reward=rows["rewards"][i],
            next_observation=rows["next_observations"][i], next_action=rows["next_actions"][i],
            terminal=float(ends[i]), interval=int(intervals[i]),
            rewards_to_go=np.stack([rows["rewards"][i], rows["later_rewards"][i]][: 1 if ends[i] else 2]),
        )
        for i in range(problem.ROWS)
    ]  # fmt: skip
    columns = {name: column for name, column in rows.items() if name != "later_rewards"}
    n = intervals.astype(np.float32).reshape(-1, 1)
    return library.dataset.TransitionMiniBatch(**columns, intervals=n, transitions=transitions)


def weights(seed: int, module: str, size: int) -> Array:
    """So many weights of a module; targets have weights of their own."""
    return np.random.RandomState(zlib.crc32(f"{module}/{seed}".encode())).uniform(-0.5, 0.5, size)


def fill(modules: Mapping[str, nn.Module], seed: int) -> None:
    """Give modules their weights, in the order of their parameters. Batch normalisation has seen no data."""
    for name, module in modules.items():
        for part in module.modules():
            if isinstance(part, nn.BatchNorm1d):
                part.reset_running_stats()
        parameters = list(module.parameters())
        problem.fill(parameters, weights(seed, name, sum(each.numel() for each in parameters)))


class FirstGradients:
    """Keeps the gradient of each parameter as it is just before the parameter changes for the first time.

    Args:
        modules: Modules whose parameters are watched, by name.
    """

    def __init__(self, modules: Mapping[str, nn.Module]) -> None:
        self._modules = modules
        self._found: dict[int, torch.Tensor] = {}
        for parameter in (each for module in modules.values() for each in module.parameters() if each.requires_grad):
            parameter.register_post_accumulate_grad_hook(functools.partial(self._keep, parameter._version))

    def _keep(self, version: int, parameter: torch.Tensor) -> None:
        if parameter._version == version:
            self._found[id(parameter)] = parameter.grad.detach().clone()

    def found(self) -> dict[str, Array]:
        """The gradients of each module that has some, in one row, 0 where a parameter has none."""
        rows = {
            name: flat([self._found.get(id(each), torch.zeros_like(each)) for each in module.parameters()])
            for name, module in self._modules.items()
        }
        return {f"gradients/{name}": row for name, row in rows.items() if row.any()}


def flat(tensors: Any) -> Array:
    """Tensors in one row."""
    return torch.cat([each.detach().flatten() for each in tensors]).numpy().copy()


def run(algo: Any, library: Any, seed: int, draws: Callable[[int], Any] | None = None) -> dict[str, Array]:
    """Update an algorithm and return the answer.

    Args:
        algo: Algorithm of `algorithm`, or another that is built, with `update(batch)` and
            `impl.modules.get_torch_modules()`.
        library: Library that makes the minibatches.
        seed: Seed of weights and minibatches, and of the draws that are not given.
        draws: Function of the number of an update, from 0, which returns the numbers that the update is to draw, in
            order. If None, torch draws them.
    """
    modules = algo.impl.modules.get_torch_modules()
    fill({name: each for name, each in modules.items() if name != CONSTANTS.get(type(algo).__name__)}, seed)
    discrete = getattr(algo.get_action_type(), "name", "") == "DISCRETE"
    losses: dict[str, list[float]] = {}
    found: dict[str, Array] = {}
    torch.manual_seed(seed)
    gradients = FirstGradients(modules)
    for update in range(UPDATES):
        batch = batch_of(library, problem.minibatch(discrete, UPDATES * seed + update), n_steps=3)
        with problem.Recorded() if draws is None else problem.Replayed(draws(update)) as mode:
            for name, loss in algo.update(batch).items():
                losses.setdefault(name, []).append(float(loss))
        if update == 0:
            found |= gradients.found()
        if draws is None:
            found |= {f"drawn/{update}/{i}": drawn for i, drawn in enumerate(mode.drawn)}
        else:
            assert not mode.left, "the other library draws more often"
    found |= {f"losses/{name}": np.array(values) for name, values in losses.items()}
    found |= {f"after/{name}": flat(each.parameters()) for name, each in modules.items()}
    return found | (metrics_of(algo, library, seed) if type(algo).__name__ in EVALUATED else {})


def metrics_of(algo: Any, library: Any, seed: int) -> dict[str, Array]:
    """What evaluators find on the transitions of a minibatch."""
    rows = problem.minibatch(algo.get_action_type().name == "DISCRETE", seed)
    terminals = rows["terminals"][:, 0]
    terminals[-1] = 1
    dataset = library.dataset.MDPDataset(rows["observations"], rows["actions"], rows["rewards"], terminals)
    metrics = library.metrics
    evaluators = {
        "initial": metrics.InitialStateValueEstimationEvaluator(), "soft_opc": metrics.SoftOPCEvaluator(1.0),
        "average": metrics.AverageValueEstimationEvaluator(), "td": metrics.TDErrorEvaluator(),
    }  # fmt: skip
    return {f"metrics/{name}": np.array(each(algo, dataset)) for name, each in evaluators.items()}


def build(algo: Any) -> Any:
    """The algorithm with the networks for the problem's observations and actions."""
    discrete = algo.get_action_type().name == "DISCRETE"
    algo.create_impl((problem.OBS_SIZE,), problem.N_ACTIONS if discrete else problem.ACTION_SIZE)
    return algo


def answers(library: Any, case: str, optimizer: str, seed: int) -> dict[str, Array]:
    """The answer of a library for a case, with its path before each name."""
    answer = run(algorithm(library, case, optimizer, seed), library, seed)
    return {f"{case}/{optimizer}/{seed}/{name}": array for name, array in answer.items()}


if __name__ == "__main__":
    import d3rlpy

    torch.set_default_dtype(torch.float64)
    torch.float32, torch.Tensor.float = torch.float64, torch.Tensor.double  # d3rlpy names float32 in many places
    path, n_seeds, *kinds = sys.argv[1:]
    everything: dict[str, Array] = {}
    for kind in kinds:
        cases, numbers = (variants(d3rlpy), range(1)) if kind == "variants" else (CASES, range(int(n_seeds)))
        for name, number in itertools.product(cases, numbers):
            everything |= answers(d3rlpy, name, "Adam" if kind == "variants" else kind, number)
    np.savez_compressed(path, **everything)
