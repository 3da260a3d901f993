"""Where the numbers of a refused update went wrong: the update once more, with somebody listening at every layer."""

import contextlib
import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.optim import Optimizer

from pfrl_like.batch import Batch
from pfrl_like.errors import NonFiniteError
from pfrl_like.random_streams.isolated_rng import isolated_rng
from pfrl_like.random_streams.streams import GlobalStreams
from pfrl_like.storage.plain_tensors import tensors_in


class Diagnosis(NamedTuple):
    """What was found.

    Attributes:
        error: What the update said this time; None if it was made.
        layer: The first layer whose output is not finite, with the ranges of what went in and came out; None if all
            outputs were, so that it is the loss, or its derivative, that is not.
        parameters: Names of the parameters and buffers that are not finite.
        gradients: Those of the loss that was refused, and of those before it, by parameter.
    """

    error: str | None
    layer: dict[str, Any] | None
    parameters: list[str]
    gradients: dict[str, Tensor]


class _Learner(Protocol):
    def update(self, batch: Batch) -> Any: ...
    def saved_state(self) -> dict[str, Any]: ...
    def restore_state(self, state: dict[str, Any]) -> None: ...


def diagnose(agent: _Learner, batch: Batch, streams: GlobalStreams) -> Diagnosis:
    """Make a refused update again, uncompiled, and find out where it went wrong; the agent and all streams stay.

    Args:
        agent: What refused it.
        batch: The minibatch.
        streams: The random streams before the update.
    """
    named = {name: part for name, part in vars(agent).items() if isinstance(part, nn.Module)}
    layers = {id(part): _joined(name, rest) for name, whole in named.items() for rest, part in whole.named_modules()}
    tensors = {_joined(name, key): value for name, whole in named.items() for key, value in _numbers(whole)}
    parameters = [name for name, value in tensors.items() if not _is_finite(value)]
    error, found = None, list[dict[str, Any]]()
    with isolated_rng(), _as_it_was(agent), _listening(layers, found):
        for value in tensors.values():
            value.grad = None
        streams.restore()
        try:
            agent.update(batch)
        except NonFiniteError as refusal:
            error = str(refusal)
        gradients = {name: value.grad.clone() for name, value in tensors.items() if value.grad is not None}
    return Diagnosis(error, found[0] if found else None, parameters, gradients)


def _joined(*names: str) -> str:
    return ".".join(filter(None, names))


def _numbers(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


@contextlib.contextmanager
def _as_it_was(agent: Any) -> Iterator[None]:
    """Within it the agent learns uncompiled; afterwards it is what it was, an update that was half made included."""
    parts = [part for part in vars(agent).values() if isinstance(part, nn.Module | Optimizer)]
    states, progress = copy.deepcopy(([part.state_dict() for part in parts], agent.saved_state()))
    compiled = vars(agent).get("_compiled")
    if compiled is not None:
        agent._compiled = None
    try:
        yield
    finally:
        if compiled is not None:
            agent._compiled = compiled
        for part, state in zip(parts, states, strict=True):
            part.load_state_dict(state)  # the agent's own would refuse numbers that are not finite
        agent.restore_state(progress)


@contextlib.contextmanager
def _listening(layers: Mapping[int, str], found: list[dict[str, Any]]) -> Iterator[None]:
    """Within it `found` is filled with the layers whose outputs are not finite, in their order."""

    def listen(module: nn.Module, inputs: Any, output: Any) -> None:
        outputs = list(tensors_in(output))
        if id(module) in layers and not all(map(_is_finite, outputs)):
            ranges = {"input": [*map(_range, tensors_in(inputs))], "output": [*map(_range, outputs)]}
            found.append({"name": layers[id(module)], "class": type(module).__name__, **ranges})

    hook = register_module_forward_hook(listen)
    try:
        yield
    finally:
        hook.remove()


def _is_finite(value: Tensor) -> bool:
    return not value.is_floating_point() or bool(torch.isfinite(value).all())


def _range(value: Tensor) -> dict[str, Any]:
    """What is told of a tensor: its shape, how many numbers are not finite, and the range of the others."""
    value = value.detach()
    finite = value[torch.isfinite(value)].double()
    ends = [finite.min().item(), finite.max().item()] if len(finite) else None
    return {"shape": [*value.shape], "not_finite": value.numel() - len(finite), "range": ends}
