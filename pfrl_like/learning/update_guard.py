"""Rejection and diagnosis of updates whose loss or gradient is NaN or infinite."""

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
from pfrl_like.distributed.learner_group import member_of
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
        layer: First layer whose output contains NaN or infinity, with the ranges of its inputs and outputs. None if the
            outputs of all layers are finite. The loss or its derivative is then not finite.
        parameters: Names of the parameters and buffers that contain NaN or infinity.
        gradients: Gradients of the rejected loss and of earlier losses of the same update, keyed by the parameter's
            name.
    """

    error: str | None
    layer: dict[str, Any] | None
    parameters: list[str]
    gradients: dict[str, Tensor]


@contextlib.contextmanager
def _undo_changes(agent: Any) -> Iterator[None]:
    """Context manager in which the agent can make an uncompiled update.

    At its end, it undoes all changes of the agent, even the changes of an incomplete update.
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
            part.load_state_dict(state)  # `agent.load_state_dict` would reject numbers that are not finite
        agent.restore_state(progress)


@contextlib.contextmanager
def _record_nonfinite_layers(layers: Mapping[int, str], nonfinite: list[dict[str, Any]]) -> Iterator[None]:
    """Context manager that appends each layer with non-finite output to `nonfinite`, in the order of the calls.

    `layers` contains the names of the layers, keyed by `id`.
    """

    def listen(module: nn.Module, inputs: Any, output: Any) -> None:
        outputs = list(tensors_in(output))
        if id(module) in layers and not all(map(_is_finite, outputs)):
            ranges = {"input": [*map(_range, tensors_in(inputs))], "output": [*map(_range, outputs)]}
            nonfinite.append({"name": layers[id(module)], "class": type(module).__name__, **ranges})

    hook = register_module_forward_hook(listen)
    try:
        yield
    finally:
        hook.remove()


def _is_finite(value: Tensor) -> bool:
    return not value.is_floating_point() or bool(torch.isfinite(value).all())


def _range(value: Tensor) -> dict[str, Any]:
    """Return the shape of a tensor, the number of values that are not finite, and the range of the finite values."""
    value = value.detach()
    finite = value[torch.isfinite(value)].double()
    ends = [finite.min().item(), finite.max().item()] if len(finite) else None
    return {"shape": [*value.shape], "not_finite": value.numel() - len(finite), "range": ends}


class NormalizationSnapshot:
    """Snapshot of buffers that a forward pass changes in training mode, for example running moments.

    Args:
        modules: The modules.
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self._networks = modules
        self._stored: list[tuple[Tensor, Tensor]] = []

    @classmethod
    def of(cls, modules: Iterable[nn.Module]) -> Self | None:
        """Return a snapshot of those modules that have such buffers. Return None if no module has such buffers."""
        with_moments = [module for module in modules if _has_moments(module)]
        return cls(with_moments) if with_moments else None

    def snapshot(self) -> None:
        """Store the current values of the buffers."""
        self._stored = [(buffer, buffer.clone()) for module in self._networks for buffer in module.buffers()]

    def restore(self) -> None:
        """Restore the stored values."""
        for buffer, moment in self._stored:
            buffer.copy_(moment)

    def restore_if(self, refused: Tensor) -> None:
        """Restore the stored values if `refused` is not 0. `refused` is a scalar tensor on the buffers' device."""
        for buffer, moment in self._stored:
            buffer.copy_(torch.where(refused > 0, moment, buffer))


def _has_moments(module: nn.Module) -> bool:
    return reads_training(module) or any(isinstance(part, EmpiricalNormalization) for part in module.modules())


_STATE = torch.default_generator.get_state


class UpdateGuard:
    """Stores the random state and running moments before an update, and rolls back rejected updates.

    Args:
        device: Device of the agent.
        modules: Modules whose running moments must not change in a rejected update.

    Attributes:
        stream: State of torch's random generator on the device before the last update. None if updates draw no random
            numbers, see `probes_left`.
        moments: Snapshot of the running moments before the last update. None if no module has running moments.
        probes_left: Number of updates for which the guard still checks whether they draw random numbers. If the first
            20 updates draw none, the state of the generator is no longer stored. This saves some microseconds per
            update. 0 after the check.
        is_watching: True if `before` stores anything.
    """

    def __init__(self, device: torch.device, modules: Iterable[nn.Module] = ()) -> None:
        self.device = device
        self.moments = NormalizationSnapshot.of(modules)
        self.stream: Tensor | None = None
        self.probes_left = 20
        self.is_watching = True
        self._uses_rng = True

    def before(self) -> None:
        """Store the running moments and the state of the random generator before an update."""
        if self.moments is not None:
            self.moments.snapshot()
        if self._uses_rng:
            self.stream = _STATE() if self.device.type == "cpu" else self._read_stream()

    def after(self) -> None:
        """Check whether the last update has drawn random numbers. No call is needed if `probes_left` is 0."""
        if self.stream is None or not torch.equal(self.stream, self._read_stream()):
            self.probes_left = 0
            return
        self.probes_left -= 1
        if not self.probes_left:
            self._uses_rng, self.stream = False, None
            self.is_watching = self.moments is not None

    def reject(self, agent: Any, error: NonFiniteError, batch: Batch, update: int) -> None:
        """Log a rejected update and roll it back.

        The minibatch is stored in the attribute `batch` of the error. If the error is about earlier updates that a GPU
        skipped, no minibatch is stored.

        Args:
            agent: The agent. Its counters are decreased by the number of updates that a GPU skipped.
            error: The error that the update raised.
            batch: Minibatch of the update.
            update: Number of the update, counted from 1.
        """
        if self.moments is not None:
            self.moments.restore()
        if error.skipped:
            agent.rollback(error.skipped)
        else:
            error.batch = batch
        agent.logger.error("update %d was rejected: %s", update - error.skipped, error)

    def restore_moments(self, refused: Tensor | None) -> None:
        """Restore the running moments if a GPU has skipped the update (`refused` is 1), without waiting for it."""
        if self.moments is not None and refused is not None:
            self.moments.restore_if(refused)

    def streams_before(self) -> GlobalStreams:
        """Return the states of all random generators before the last update.

        If updates draw no numbers from a generator, its current state is returned.
        """
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


# Functions that are methods of agents with the attributes `guard` and `gradient_steps`


def trailed(agent: Any) -> Sequence[GradientStep | CompiledStep]:
    """Return the objects that make the gradient steps. Their attribute `trail` is a hash of their losses."""
    return (*agent.gradient_steps.values(),) if agent._compiled is None else (agent._compiled,)


def settle(agent: Any) -> None:
    """Wait for the GPU, and raise an error if it has skipped updates since the last call. On a CPU, do nothing.

    Raises:
        NonFiniteError: If the GPU skipped updates because a loss or gradient was NaN or infinite. The counters are
            decreased by the number of skipped updates.
    """
    errors = []
    for step in agent.gradient_steps.values():
        try:
            step.settle()
        except NonFiniteError as error:
            agent.rollback(error.skipped)
            errors.append(error)
    if errors:
        raise errors[0]


def save(agent: Any, dirname: str | os.PathLike[str]) -> None:
    """Save the agent to a directory. At every moment, the directory contains either the old or the new files.

    In addition to the files that `load` reads, the directory contains copies under PFRL's names (`model.pt`, ...).

    Raises:
        CheckpointError: If an attribute cannot be saved, or a file cannot be written. The old files are kept.
        NonFiniteError: If a parameter is NaN or infinite. The old files are kept. The error is also raised, after
            saving, if a GPU has skipped updates since the last call of `settle`.
    """
    try:
        agent.settle()
    finally:
        AttributeSavingMixin.save(agent, dirname)


def diagnose(agent: Any, batch: Batch, streams: GlobalStreams | None = None) -> Diagnosis:
    """Repeat a rejected update without compilation, to find the layer whose output is not finite.

    The agent and all random generators are not changed.

    Args:
        agent: The agent.
        batch: Minibatch of the rejected update, the attribute `batch` of the error.
        streams: States of the random generators before the update. If None, the states before the last update are used.
    """
    streams = agent.guard.streams_before() if streams is None else streams
    modules = nn.ModuleDict({name: part for name, part in vars(agent).items() if isinstance(part, nn.Module)})
    layers = {id(part): name for name, part in modules.named_modules()}
    tensors = dict([*modules.named_parameters(), *modules.named_buffers()])
    parameters = [name for name, value in tensors.items() if not _is_finite(value)]
    error, nonfinite = None, list[dict[str, Any]]()
    with isolated_rng(), member_of(None, agent), _undo_changes(agent), _record_nonfinite_layers(layers, nonfinite):
        for value in tensors.values():
            value.grad = None
        streams.restore()
        try:
            agent.update(batch)
        except NonFiniteError as rejection:
            error = str(rejection)
        gradients = {name: value.grad.clone() for name, value in tensors.items() if value.grad is not None}
    return Diagnosis(error, nonfinite[0] if nonfinite else None, parameters, gradients)
