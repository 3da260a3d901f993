"""Hyperparameters of d3rlpy 0.40 to 1.1.1 as arguments of estimators, models of 0.50 to 1.1.1 as their parameters."""

import warnings
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like import agents
from pfrl_like.algos.fitting.spaces import SCALERS, numbers_in, shape_of_one
from pfrl_like.encoders import PIXEL_PARAMS, VECTOR_PARAMS
from pfrl_like.learning.lagrange import TemperatureHolder
from pfrl_like.nn import ConditionalVAE
from pfrl_like.q_functions.state_action_q_functions import members_of
from pfrl_like.storage.tensors import is_d3
from pfrl_like.utils.checks import check_counts, levels_to_the_caller

#: Error messages about files of d3rlpy.
PARAMS = "contains hyperparameters of d3rlpy 0.40 to 1.1.1 that cannot be loaded"
OTHER_PARAMS = "contains hyperparameters of d3rlpy 2; only those of d3rlpy before 2.0 can be loaded"
MODEL = "is a model of d3rlpy 0.50 to 1.1.1 that cannot be loaded"
OTHER_MODEL = "is a model of d3rlpy, but only those of d3rlpy 0.50 to 1.1.1 can be loaded"

#: Settings of encoders that change the network; values are those of this library's encoders.
_ENCODER = {"activation": "relu", "use_batch_norm": False, "dropout_rate": None, "use_dense": False}
#: Number of quantiles of this library's Q-functions.
_N_QUANTILES = 32
#: Settings of optimisers besides `eps`; values are those of this library's optimisers.
_ADAM = {"optim_cls": "Adam", "betas": [0.9, 0.999], "weight_decay": 0, "amsgrad": False}
#: Hyperparameters that this library lacks; values are those that describe how this library behaves.
_FIXED = {
    "augmentation": [], "gamma": 1.0, "generated_maxlen": 100000, "n_steps": 1, "policy_type": "deterministic",
    "real_ratio": 1.0, "rl_start_step": 0, "target_reduction_type": "min", "update_actor_interval": 1,
}  # fmt: skip
#: Hyperparameters that d3rlpy lacks; values are those that describe how d3rlpy behaves.
_IMPLIED = {"clip_delta": True, "regularizing_rate": 0.0, "update_actor_interval": 1}
#: Entries of a `params.json` that are no hyperparameters.
_OTHERS = {"algorithm", "observation_shape", "action_size", "use_gpu"}
#: Networks in a model of d3rlpy; values are attributes of agents.
_NETWORKS = {
    "_q_func": "critics", "_targ_q_func": "target_critics", "_policy": "policy", "_targ_policy": "target_policy",
    "_value_func": "v_func", "_imitator": "imitator", "_log_temp": "temperature_holder", "_log_alpha": "alpha_holder",
    "_perturbation": "perturbation", "_targ_perturbation": "target_perturbation",
}  # fmt: skip
#: Entries of models of d3rlpy 2. In models of earlier versions, a name begins with `_`.
_ENTRIES = {name.strip("_") for name in _NETWORKS} | {
    "q_funcs", "targ_q_funcs", "dynamics", "transformer", "optim", "actor_optim", "critic_optim", "temp_optim",
    "alpha_optim",
}  # fmt: skip


# Hyperparameters


def are_hyperparameters(params: Mapping[str, Any]) -> bool:
    """Return True if the contents of a `params.json` were written by d3rlpy 0.40 to 1.1.1."""
    return any(name.endswith("encoder_factory") for name in params)


def are_later_hyperparameters(params: Mapping[str, Any]) -> bool:
    """Return True if the contents of a `params.json` were written by d3rlpy 2."""
    config = params.get("config")
    return isinstance(config, Mapping) and config.keys() >= {"type", "params"}


def arguments_of(kind: type[Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the contents of d3rlpy's `params.json` in the form of this library's `params.json`.

    Networks and scalers are those of d3rlpy, so that equal parameters predict equal actions and values. A warning names
    the hyperparameters that have no equivalent. They only affect training.

    Args:
        kind: Class of the estimator.
        params: Contents of the file.

    Raises:
        ValueError: If this library cannot build the networks or the scalers, or a value is damaged.
        TypeError: If an entry has the wrong type.
    """
    if params.get("policy_type", "deterministic") != "deterministic":
        raise ValueError(f"policy_type is {params['policy_type']!r}, expected 'deterministic'")
    check_counts(action_size=params["action_size"], n_frames=params.get("n_frames"))
    known, (channels, *sides) = kind.defaults(), shape_of_one(params["observation_shape"])
    known.pop("augmentation", None)  # d3rlpy's have other types and parameters
    implied = {**_IMPLIED, "latent_size": 2 * params["action_size"]}
    given = {name: value for name, value in implied.items() if name in known}
    given |= {name: params[name] for name in params.keys() & (known.keys() | _OTHERS)}
    # d3rlpy saves the shape of stacked frames, and statistics of single frames in an array of one row.
    given["observation_shape"] = [channels // params["n_frames"] if sides else channels, *sides]
    shapes = {"observations": tuple(given["observation_shape"]), "actions": (params["action_size"],), "rewards": ()}
    given |= {name: _scaler(params, name, shapes[SCALERS[name]]) for name in params.keys() & SCALERS.keys()}
    given["encoder_params"] = _encoder_params(params, PIXEL_PARAMS if sides else VECTOR_PARAMS)
    if "q_func_factory" in params:
        given |= _q_function(params)
    optimizers, ignored = _optimizers(params, known)
    rest = {name: value for name, value in params.items() if name not in given and not name.endswith("_factory")}
    ignored |= {name: value for name, value in rest.items() if value not in (None, _FIXED.get(name))}
    if ignored:
        listed = ", ".join(f"{name}={value!r:.80}" for name, value in sorted(ignored.items()))
        text = f"{kind.__name__} has no equivalent of d3rlpy's {listed}: predictions are the same, training differs"
        warnings.warn(text, UserWarning, stacklevel=levels_to_the_caller())
    return given | optimizers


def _described(params: Mapping[str, Any], name: str) -> tuple[str, Mapping[str, Any]]:
    """Return the type and the parameters of a factory or a scaler."""
    found = params[name]
    if isinstance(found, Mapping) and isinstance(found.get("type"), str) and isinstance(found.get("params"), Mapping):
        return found["type"], found["params"]
    raise ValueError(f"{name} is {found!r:.80}, expected an object with 'type' and 'params'")


def _scaler(params: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Any:
    """Return the description of a scaler. Its statistics are numbers or have a shape, its `std` includes `eps`."""
    if not params[name]:
        return None
    kind, described = _described(params, name)
    arrays: dict[str, Any] = {
        key: None if value is None else numbers_in(f"{name} {key}", value) for key, value in described.items()
    }
    for key, array in arrays.items():
        if array is None:
            continue
        array = array[0] if array.ndim > len(shape) and len(array) == 1 else array
        if array.shape not in ((), shape):
            raise ValueError(f"{name} has {key} of shape {array.shape}, expected {shape}")
        arrays[key] = array
    eps = arrays.pop("eps", None)
    if eps is not None and arrays.get("std") is not None:
        arrays["std"] = arrays["std"] + eps
    return {"type": kind, "params": {key: None if array is None else array.tolist() for key, array in arrays.items()}}


def _encoder_params(params: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the layer sizes, which are the same in all encoders."""
    found: dict[str, Any] = {}
    for name in params:
        if not name.endswith("encoder_factory"):
            continue
        kind, settings = _described(params, name)
        if kind not in ("default", "vector" if "hidden_units" in defaults else "pixel"):
            raise ValueError(f"{name} is {kind!r}, which has no equivalent")
        for key, value in settings.items():
            if key in _ENCODER and value != _ENCODER[key]:
                raise ValueError(f"{name} has {key}={value!r}, expected {_ENCODER[key]!r}")
        sizes = {key: numbers_in(f"{name} {key}", settings.get(key, value)).tolist() for key, value in defaults.items()}
        if found.setdefault("sizes", sizes) != sizes:
            raise ValueError(f"{name} has {sizes}, but another encoder has {found['sizes']}: expected equal layers")
    return dict(found["sizes"])


def _q_function(params: Mapping[str, Any]) -> dict[str, Any]:
    kind, options = _described(params, "q_func_factory")
    if kind in ("qr", "fqf") and options.get("n_quantiles") != _N_QUANTILES:
        raise ValueError(f"q_func_factory has n_quantiles={options.get('n_quantiles')!r}, expected {_N_QUANTILES}")
    shared = {name: options[name] for name in ("share_encoder", "bootstrap") if name in options}
    return {"q_func_type": kind, **shared}


def _optimizers(params: Mapping[str, Any], known: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `eps` and weight decays, and the settings of optimisers that have no equivalent."""
    given, ignored = dict[str, Any](), dict[str, Any]()
    for name, settings in params.items():
        if not name.endswith("optim_factory"):
            continue
        if not isinstance(settings, Mapping):
            raise ValueError(f"{name} is {settings!r:.80}, expected an object with the settings of an optimiser")
        decay, settings = name.replace("optim_factory", "weight_decay"), dict(settings)
        if decay in known:
            given[decay] = settings.pop("weight_decay", 0.0)
        is_multiplier = name.startswith(("temp_", "alpha_"))
        eps = 1e-8 if is_multiplier else given.setdefault("eps", settings.get("eps", 1e-8))
        expected = {**_ADAM, "eps": eps}
        if different := {key: value for key, value in settings.items() if value != expected.get(key)}:
            ignored[name] = different
    return given, ignored


# Models


def is_model(content: Any) -> bool:
    """Return True if the contents of a `.pt` file are a model of d3rlpy 0.50 to 1.1.1: a dict of state dicts."""
    return _has_entries(content, "_")


def _has_entries(content: Any, prefix: str) -> bool:
    """Return True if the contents of a `.pt` file have two entries of d3rlpy, not only a policy and an optimiser."""
    found = {name for name in _ENTRIES if isinstance(content, dict) and f"{prefix}{name}" in content}
    return len(found) > 1 and found != {"policy", "optim"}


def other_model(path: str, content: Any = None) -> str | None:
    """Return the error message for a file that d3rlpy wrote and that `load_model` cannot read; None for other files.

    Args:
        path: The file.
        content: Contents of the file if it is a state dict; otherwise None.
    """
    if is_model(content):
        return f"{MODEL}: expected a file that save_model wrote"
    return OTHER_MODEL if _has_entries(content, "") or is_d3(path) else None


def load_networks(algo: Any, content: Mapping[str, Any]) -> None:
    """Copy the parameters in a model of d3rlpy to an estimator, and clear the states of its optimisers.

    Args:
        algo: The estimator.
        content: Contents of the model file.

    Raises:
        ValueError: If the estimator is not built yet, or has other networks, or a parameter is no tensor of finite
            floating-point numbers. The estimator's parameters stay unchanged.
    """
    if algo.impl is None:
        advice = "create it by from_json from the params.json of the model, or call create_impl"
        raise ValueError(f"it has no shapes, and {type(algo).__name__} is not built yet: {advice}")
    networks = _networks(algo.impl)
    trained = {str(name) for name in content if not str(name).endswith("_optim") and not str(name).startswith("_targ_")}
    if not trained <= networks.keys() <= content.keys():
        kind, expected = type(algo).__name__, sorted(networks)
        raise ValueError(f"it has the networks {sorted(trained)}, but {kind} has {expected}")
    orders = dict.fromkeys(["_q_func", "_targ_q_func"], _order_of_quantiles(algo))
    pairs = [pair for name, each in networks.items() for pair in _pairs(name, each, content[name], orders.get(name))]
    with torch.no_grad():
        for parameter, value in pairs:
            parameter.copy_(value)
    algo.reset_optimizer_states()


def _networks(agent: Any) -> dict[str, Any]:
    """Return the networks of an agent, or lists of networks, keyed by d3rlpy's names."""
    found = {name: getattr(agent, attribute, None) for name, attribute in _NETWORKS.items()}
    if isinstance(agent, agents.BC):
        return {"_imitator": agent.policy}
    if found["_policy"] is None and hasattr(agent, "target_model"):
        found |= {"_q_func": [*members_of(agent.model)], "_targ_q_func": [*members_of(agent.target_model)]}
    return {name: network for name, network in found.items() if network is not None}


def _order_of_quantiles(algo: Any) -> Tensor | None:
    """Return the row of d3rlpy's last layer for each row of ours if a discrete Q-function outputs quantiles.

    d3rlpy's layer has the quantiles of one action in adjacent rows, ours the actions of one quantile.

    Raises:
        ValueError: If the Q-function outputs quantiles at other fractions.
    """
    q_func_type = getattr(algo, "q_func_type", "mean")
    if q_func_type not in ("mean", "qr"):
        raise ValueError(f"q_func_type is {q_func_type!r}, expected 'mean' or 'qr': the networks of d3rlpy differ")
    if q_func_type == "mean" or not algo.discrete_action:
        return None
    return torch.arange(algo.action_size_ * _N_QUANTILES).view(-1, _N_QUANTILES).T.flatten()


def _pairs(name: str, networks: Any, state: Mapping[str, Any], order: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield pairs (parameter, value) for d3rlpy's network `name`.

    Raises:
        ValueError: If d3rlpy's network has other layers, or a parameter is no tensor of finite floating-point numbers.
    """
    left = _tensors(name, state)
    if isinstance(networks, TemperatureHolder):
        if [value.numel() for value in left.values()] != [1] or "_parameter" not in left:
            raise ValueError(f"{name} has {[*left]}, expected '_parameter', a single number")
        yield networks.log_temperature, left["_parameter"].reshape(())
        return
    for layer, names in _layers(networks, left.keys()):
        for kind in ("weight", "bias"):
            if missing := [each for each in names if f"{each}.{kind}" not in left]:
                raise ValueError(f"{name} has no {missing[0]}.{kind}")
            own, values = getattr(layer, kind), [left.pop(f"{each}.{kind}") for each in names]
            if any(value.shape[1:] != own.shape[1:] for value in values) or sum(map(len, values)) != len(own):
                shapes = f"{', '.join(str(tuple(value.shape)) for value in values)}, expected {tuple(own.shape)}"
                raise ValueError(f"{name} has {names[0]}.{kind} of shape {shapes}")
            value = torch.cat(values)
            value = value if order is None or "_encoder" in names[0] else value[order]
            yield own, value
    if "_logstd" in left and (log_scale := getattr([*networks.modules()][-1], "scale_param", None)) is not None:
        yield log_scale, left.pop("_logstd").reshape(log_scale.shape)
    if left:
        raise ValueError(f"{name} has {', '.join(map(repr, left))}, which the network of this library lacks")


def _tensors(name: str, state: Any) -> dict[str, Tensor]:
    if not isinstance(state, Mapping):
        raise ValueError(f"{name} is {state!r:.80}, expected tensors, keyed by name")
    for key, value in state.items():
        if not isinstance(value, Tensor) or not value.is_floating_point() or not value.dim():
            got = f"a {value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
            raise ValueError(f"{name} has {got:.80} as {key}, expected an array of real floating-point numbers")
        if not value.isfinite().all():
            raise ValueError(f"{name} has NaN or infinity in {key}, expected finite numbers")
    return dict(state)


def _layers(networks: Any, keys: Collection[str], prefix: str = "") -> Iterator[tuple[nn.Module, list[str]]]:
    """Yield each layer of a network, or of a list of Q-functions, with the names of d3rlpy's layers that it joins."""
    if isinstance(networks, ConditionalVAE):
        yield from _named(networks.encoder, "_encoder_encoder", ["_mu", "_logstd"])
        yield from _named(networks.decoder, "_decoder_encoder", ["_fc"])
    elif isinstance(networks, nn.Module):
        heads = [name for name in ("_mu", "_logstd", "_fc") if f"{prefix}{name}.weight" in keys]
        yield from _named(networks, f"{prefix}_encoder", [f"{prefix}{head}" for head in heads or ["_fc"]])
    else:
        for i, q_function in enumerate(networks):
            yield from _layers(q_function, keys, f"_q_funcs.{i}.")


def _named(network: nn.Module, encoder: str, heads: list[str]) -> Iterator[tuple[nn.Module, list[str]]]:
    layers = [layer for layer in network.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    n_convolutions = sum(isinstance(layer, nn.Conv2d) for layer in layers)
    hidden = [f"_convs.{i}" for i in range(n_convolutions)]
    hidden += ["_fc"] if hidden else [f"_fcs.{i}" for i in range(len(layers) - 1)]
    return zip(layers, [*([f"{encoder}.{name}"] for name in hidden), heads], strict=True)
