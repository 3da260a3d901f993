"""Writes `params.json` and model files as d3rlpy 1.1.1 does, and says what the networks in them predict."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

State = dict[str, Tensor]
HIDDEN, FEATURE_SIZE = [8, 6], 5
#: (channels, kernel size, stride)
FILTERS = [[3, 4, 2], [4, 3, 1]]
ADAM = {"optim_cls": "Adam", "betas": [0.9, 0.999], "eps": 1e-08, "weight_decay": 0, "amsgrad": False}
PLAIN = {"activation": "relu", "use_batch_norm": False, "dropout_rate": None}
VECTOR_PARAMS = {"hidden_units": HIDDEN, "use_dense": False, **PLAIN}
VECTOR = {"type": "vector", "params": VECTOR_PARAMS}
PIXEL = {"type": "pixel", "params": {"filters": FILTERS, "feature_size": FEATURE_SIZE, **PLAIN}}


def params_of(name: str, shape: Sequence[int], action_size: int, *roles: str, **changes: Any) -> dict[str, Any]:
    """Contents of a `params.json`; `roles` are the beginnings of the names of its factories, such as "actor_"."""
    encoder = VECTOR if len(shape) == 1 else PIXEL
    factories = {
        f"{role}{kind}": each
        for role in roles
        for kind, each in (("optim_factory", ADAM), ("encoder_factory", encoder))
    }
    q_function = {"type": "mean", "params": {"share_encoder": False}}
    shared = {"batch_size": 32, "n_frames": 1, "n_steps": 1, "gamma": 0.9, "scaler": None, "use_gpu": None}
    shapes = {"algorithm": name, "observation_shape": [*shape], "action_size": action_size}
    return {**shared, "q_func_factory": q_function, **factories, **shapes, **changes}


def write_params(path: Path, params: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps(params, indent=2))
    return path


def write_model(path: Path, networks: Mapping[str, State]) -> Path:
    """A model with the state of one optimiser beside its networks, as each of them has."""
    optimizer = torch.optim.Adam([torch.zeros(1, requires_grad=True)])
    torch.save({**networks, "_optim": optimizer.state_dict()}, path)
    return path


def linear(n_in: int, n_out: int, name: str) -> State:
    return {f"{name}.weight": torch.randn(n_out, n_in), f"{name}.bias": torch.randn(n_out)}


def network(
    heads: Mapping[str, int], size: int, shape: Sequence[int] = (), prefix: str = "", encoder: str = "_encoder"
) -> State:
    """Parameters of a network.

    Args:
        heads: Number of outputs of the last layers, by name.
        size: Number of inputs; of those that follow the convolutions where the observations are images.
        shape: Of an image.
        prefix: Before the names of all layers.
        encoder: Name of the encoder.
    """
    state, stem = State(), f"{prefix}{encoder}"
    for i, (n_out, kernel, _) in enumerate(FILTERS if shape else ()):
        n_in = FILTERS[i - 1][0] if i else shape[0]
        state[f"{stem}._convs.{i}.weight"] = torch.randn(n_out, n_in, kernel, kernel)
        state[f"{stem}._convs.{i}.bias"] = torch.randn(n_out)
    if shape:
        size += convolved(state, torch.zeros(1, *shape), stem).shape[1]
    layers = {"_fc": FEATURE_SIZE} if shape else {f"_fcs.{i}": n_out for i, n_out in enumerate(HIDDEN)}
    for name, n_out in layers.items():
        state, size = state | linear(size, n_out, f"{stem}.{name}"), n_out
    for name, n_out in heads.items():
        state |= linear(size, n_out, f"{prefix}{name}")
    return state


def q_functions(n_outputs: int, size: int, n_critics: int = 1, shape: Sequence[int] = ()) -> State:
    """Parameters of an ensemble of Q-functions."""
    members = [network({"_fc": n_outputs}, size, shape, f"_q_funcs.{i}.") for i in range(n_critics)]
    return {name: value for member in members for name, value in member.items()}


def convolved(state: State, x: Tensor, stem: str) -> Tensor:
    for i in range(sum(name.startswith(f"{stem}._convs") for name in state) // 2):
        layer = f"{stem}._convs.{i}"
        x = F.relu(F.conv2d(x, state[f"{layer}.weight"], state[f"{layer}.bias"], stride=FILTERS[i][2]))
    return x.flatten(1)


def output(
    state: State, head: str, x: Tensor, more: Tensor | None = None, prefix: str = "", encoder: str = "_encoder"
) -> Tensor:
    """What a head says, for observations and, in critics, actions."""
    stem, is_image = f"{prefix}{encoder}", x.dim() == 4
    x = convolved(state, x, stem)
    x = x if more is None else torch.cat((x, more), 1)
    for name in ["_fc"] if is_image else [f"_fcs.{i}" for i in range(len(HIDDEN))]:
        x = F.relu(F.linear(x, state[f"{stem}.{name}.weight"], state[f"{stem}.{name}.bias"]))
    return F.linear(x, state[f"{prefix}{head}.weight"], state[f"{prefix}{head}.bias"])
