"""Rejection of non-finite updates, and the diagnosis of such updates."""

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
    """Result of the diagnosis of a rejected update.

    Attributes:
        error: Error message of the repeated update; None if the update succeeded.
        layer: First layer whose output is not finite, with the ranges of its inputs and outputs. None if the outputs of
            all layers are finite; the loss or its derivative is then not finite.
        parameters: Names of the parameters and buffers that are not finite.
        gradients: Gradients of the rejected loss and of earlier losses, keyed by parameter.
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
    """Context in which the agent learns uncompiled.

    Afterwards, all changes are undone, even of an incomplete update.
    """
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
            part.load_state_dict(state)  # the agent's own method would reject numbers that are not finite
        agent.restore_state(progress)


@contextlib.contextmanager
def _listening(layers: Mapping[int, str], found: list[dict[str, Any]]) -> Iterator[None]:
    """Append to `found`, within the context, the layers whose outputs are not finite, in the order of evaluation."""

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
    """Describe a tensor: its shape, the number of values that are not finite, and the range of the finite values."""
    value = value.detach()
    finite = value[torch.isfinite(value)].double()
    ends = [finite.min().item(), finite.max().item()] if len(finite) else None
    return {"shape": [*value.shape], "not_finite": value.numel() - len(finite), "range": ends}


class NormalizationSnapshot:
    """Snapshot of module buffers that a forward pass in training changes.

    Args:
        modules: The modules.
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self._networks = modules
        self._kept: list[tuple[Tensor, Tensor]] = []

    @classmethod
    def of(cls, modules: Iterable[nn.Module]) -> Self | None:
        """Return a snapshot of the modules that have such buffers; None if there is no such module."""
        found = [module for module in modules if _has_moments(module)]
        return cls(found) if found else None

    def snapshot(self) -> None:
        """Store the current buffers."""
        self._kept = [(buffer, buffer.clone()) for module in self._networks for buffer in module.buffers()]

    def restore(self) -> None:
        """Restore the stored buffers."""
        for buffer, moment in self._kept:
            buffer.copy_(moment)

    def restore_if(self, refused: Tensor) -> None:
        """Restore the stored buffers if `refused`, a scalar tensor on their device, is 1. Do nothing if it is 0."""
        for buffer, moment in self._kept:
            buffer.copy_(torch.where(refused > 0, moment, buffer))


def _has_moments(module: nn.Module) -> bool:
    return reads_training(module) or any(isinstance(part, EmpiricalNormalization) for part in module.modules())


_STATE = torch.default_generator.get_state


class UpdateGuard:
    """Stores random stream and running moments before an update, and rolls back rejected updates.

    The guard stores only data. It stores no object that the agent may replace.

    Args:
        device: Device of the agent.
        modules: Modules whose running moments must not change in a rejected update.

    Attributes:
        stream: State of torch's random stream on the device, before the last update. None if updates are assumed to
            draw no random numbers.
        moments: Running moments before the last update; None if no module has running moments.
        probes_left: Number of further updates that must leave the stream unchanged before updates are assumed to draw
            no random numbers. The state is then no longer read, which saves some microseconds per update. 0 after the
            check.
        is_watching: True while `before` has something to store.
    """

    def __init__(self, device: torch.device, modules: Iterable[nn.Module] = ()) -> None:
        self.device = device
        self.moments = NormalizationSnapshot.of(modules)
        self.stream: Tensor | None = None
        self.probes_left = 20
        self.is_watching = True
        self._uses_rng = True

    def before(self) -> None:
        """Store moments and the state of the random stream before an update."""
        if self.moments is not None:
            self.moments.snapshot()
        if self._uses_rng:
            self.stream = _STATE() if self.device.type == "cpu" else self._read_stream()

    def after(self) -> None:
        """Check whether the last update has drawn random numbers; not needed if `probes_left` is 0."""
        if self.stream is None or not torch.equal(self.stream, self._read_stream()):
            self.probes_left = 0
            return
        self.probes_left -= 1
        if not self.probes_left:
            self._uses_rng, self.stream = False, None
            self.is_watching = self.moments is not None

    def reject(self, agent: Any, error: NonFiniteError, batch: Batch, update: int) -> None:
        """Log a rejected update and roll it back.

        The error gets the minibatch as its attribute `batch`, unless a GPU reports earlier updates.

        Args:
            agent: The agent. Its counters are decreased by the number of updates that a GPU skipped.
            error: The error that was raised.
            batch: The minibatch.
            update: Number of the update.
        """
        if self.moments is not None:
            self.moments.restore()
        if error.skipped:
            agent.rollback(error.skipped)
        else:
            error.batch = batch
        agent.logger.error("update %d was rejected: %s", update - error.skipped, error)

    def restore_moments(self, refused: Tensor | None) -> None:
        """Restore the moments if a GPU skipped the update, without waiting for the GPU."""
        if self.moments is not None and refused is not None:
            self.moments.restore_if(refused)

    def streams_before(self) -> GlobalStreams:
        """Return the random streams before the last update; streams that updates do not draw from are current."""
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
    """Return the objects that all losses pass through. The attribute `trail` of each object is a hash of the losses."""
    return (*agent.gradient_steps.values(),) if agent._compiled is None else (agent._compiled,)


def settle(agent: Any) -> None:
    """Wait for a GPU to report whether it has skipped updates since the last report; does nothing on a CPU.

    Raises:
        NonFiniteError: If the GPU skipped updates; the counters are decreased by their number.
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
    """Save to a directory atomically: at any time it contains the complete old save or the complete new save.

    In addition to the files that `load` reads, the directory contains copies under PFRL's names (`model.pt`, ...).

    Raises:
        CheckpointError: If a part cannot be saved or written; the old save is kept.
        NonFiniteError: If a parameter is NaN or infinite; the old save is kept. Also raised after saving, if a GPU has
            skipped updates since the last report.
    """
    try:
        agent.settle()
    finally:
        AttributeSavingMixin.save(agent, dirname)


def diagnose(agent: Any, batch: Batch, streams: GlobalStreams | None = None) -> Diagnosis:
    """Repeat a rejected update without compilation to find where its numbers became non-finite.

    The agent and all random streams are not changed.

    Args:
        agent: The agent.
        batch: Minibatch of the rejected update, the attribute `batch` of the error.
        streams: Random streams before the update; None uses the streams before the last update.
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
        except NonFiniteError as rejection:
            error = str(rejection)
        gradients = {name: value.grad.clone() for name, value in tensors.items() if value.grad is not None}
    return Diagnosis(error, found[0] if found else None, parameters, gradients)
