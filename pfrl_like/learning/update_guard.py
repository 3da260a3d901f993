"""Updates that are refused, and where their numbers went wrong."""

import contextlib
import copy
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.optim import Optimizer

from pfrl_like.agent import AttributeSavingMixin
from pfrl_like.batch import Batch
from pfrl_like.errors import NonFiniteError
from pfrl_like.nn.empirical_normalization import EmpiricalNormalization
from pfrl_like.optimizers.compiled_step import CompiledStep
from pfrl_like.optimizers.gradient_step import GradientStep
from pfrl_like.random_streams.streams import GlobalStreams, isolated_rng
from pfrl_like.storage.plain_tensors import tensors_in
from pfrl_like.utils.contexts import reads_training


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


class NormalizationSnapshot:
    """The buffers of those modules whose forward passes in training change them.

    Args:
        modules: The modules.
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self._networks = modules
        self._kept: list[tuple[Tensor, Tensor]] = []

    @classmethod
    def of(cls, modules: Iterable[nn.Module]) -> Self | None:
        """Those of the modules that have some; None if none has."""
        found = [module for module in modules if _has_moments(module)]
        return cls(found) if found else None

    def snapshot(self) -> None:
        """Remember them as they are now."""
        self._kept = [(buffer, buffer.clone()) for module in self._networks for buffer in module.buffers()]

    def restore(self) -> None:
        """Let them be as they were."""
        for buffer, moment in self._kept:
            buffer.copy_(moment)

    def restore_if(self, refused: Tensor) -> None:
        """Let them be so where a scalar on their device is 1, not 0."""
        for buffer, moment in self._kept:
            buffer.copy_(torch.where(refused > 0, moment, buffer))


def _has_moments(module: nn.Module) -> bool:
    return reads_training(module) or any(isinstance(part, EmpiricalNormalization) for part in module.modules())


_STATE = torch.default_generator.get_state


class UpdateGuard:
    """Watches the updates of an agent: what they draw, the running moments before them, and the refused ones.

    It holds what it has seen, and nothing that the agent may replace.

    Args:
        device: The agent's.
        modules: Modules whose running moments a refused update must leave as they were.

    Attributes:
        stream: State of torch's random stream, that of the device, before the last update; None if that one, as far as
            is known, left it where it was.
        moments: The running moments before the last update; None if no module has some.
        probes_left: Updates that have to leave the stream where it was before that is believed of all: reading its
            state takes some microseconds. 0 once it is known.
        is_watching: True while `before` has something to do.
    """

    def __init__(self, device: torch.device, modules: Iterable[nn.Module] = ()) -> None:
        self.device = device
        self.moments = NormalizationSnapshot.of(modules)
        self.stream: Tensor | None = None
        self.probes_left = 20
        self.is_watching = True
        self._uses_rng = True

    def before(self) -> None:
        """Take note of moments and random stream before an update."""
        if self.moments is not None:
            self.moments.snapshot()
        if self._uses_rng:
            self.stream = _STATE() if self.device.type == "cpu" else self._read_stream()

    def after(self) -> None:
        """See whether the update that was just made has drawn; needs no call once no probes are left."""
        if self.stream is None or not torch.equal(self.stream, self._read_stream()):
            self.probes_left = 0
            return
        self.probes_left -= 1
        if not self.probes_left:
            self._uses_rng, self.stream = False, None
            self.is_watching = self.moments is not None

    def reject(self, agent: Any, error: NonFiniteError, batch: Batch, update: int) -> None:
        """Take note of an update that was refused: the error gets its minibatch, unless a GPU tells of earlier ones.

        Args:
            agent: The agent; updates that a GPU has skipped are counted no longer.
            error: What was raised.
            batch: The minibatch.
            update: Number of the update.
        """
        if self.moments is not None:
            self.moments.restore()
        if error.skipped:
            agent.rollback(error.skipped)
        else:
            error.batch = batch
        agent.logger.error("update %d was refused: %s", update - error.skipped, error)

    def restore_moments(self, refused: Tensor | None) -> None:
        """Let the moments be as before the update where a GPU has skipped it, for which nobody waits."""
        if self.moments is not None and refused is not None:
            self.moments.restore_if(refused)

    def streams_before(self) -> GlobalStreams:
        """The random streams as they were before the last update; those from which updates do not draw as they are."""
        now = GlobalStreams.now()
        if self.stream is None:
            return now
        if self.device.type == "cpu" or now.cuda is None:
            return now._replace(torch=self.stream)
        cuda = [*now.cuda]
        cuda[self.device.index or 0] = self.stream
        return now._replace(cuda=cuda)

    def _read_stream(self) -> Tensor:
        return _STATE() if self.device.type == "cpu" else torch.cuda.get_rng_state(self.device)


# Methods of the agents that have a guard and `gradient_steps`


def trailed(agent: Any) -> Sequence[GradientStep | CompiledStep]:
    """What all losses go through; the `trail` of each is a number that they have gone into."""
    return (*agent.gradient_steps.values(),) if agent._compiled is None else (agent._compiled,)


def settle(agent: Any) -> None:
    """Wait for a GPU to say whether it has skipped updates since it was asked last; nothing on a CPU.

    Raises:
        NonFiniteError: If it has; they are counted no longer.
    """
    found = []
    for step in agent.gradient_steps.values():
        try:
            step.settle()
        except NonFiniteError as error:
            agent.rollback(error.skipped)
            found.append(error)
    if found:
        raise found[0]


def save(agent: Any, dirname: str | os.PathLike[str]) -> None:
    """Save into a directory, which at every instant holds the old save or the new one.

    Beside the files that `load` reads it gets copies under PFRL's names (`model.pt`, ...).

    Raises:
        CheckpointError: If something cannot be saved or written; the old save stays.
        NonFiniteError: If a parameter is NaN or infinite; likewise. Or, after it was saved, if a GPU has skipped
            updates since it was asked last.
    """
    try:
        agent.settle()
    finally:
        AttributeSavingMixin.save(agent, dirname)


def diagnose(agent: Any, batch: Batch, streams: GlobalStreams | None = None) -> Diagnosis:
    """Find out where the numbers of an update that was refused went wrong: make it again, uncompiled.

    The agent and all random streams stay as they are.

    Args:
        agent: The agent.
        batch: The minibatch, an attribute of the error.
        streams: The random streams before the update; None are those of the last one.
    """
    streams = agent.guard.streams_before() if streams is None else streams
    named = {name: part for name, part in vars(agent).items() if isinstance(part, nn.Module)}
    layers = {id(part): _joined(name, key) for name, whole in named.items() for key, part in whole.named_modules()}
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
