"""Updates that are refused: what a GPU has skipped is told, not counted, and where the numbers went wrong is found."""

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from pfrl_like.agent import AttributeSavingMixin
from pfrl_like.batch import Batch
from pfrl_like.errors import NonFiniteError
from pfrl_like.learning.diagnosis import Diagnosis, diagnose
from pfrl_like.nn.empirical_normalization import EmpiricalNormalization
from pfrl_like.optimizers.compiled_step import CompiledStep
from pfrl_like.optimizers.gradient_step import GradientStep
from pfrl_like.random_streams.streams import GlobalStreams
from pfrl_like.utils.contexts import reads_training


class Moments:
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

    def keep(self) -> None:
        """Remember them as they are now."""
        self._kept = [(buffer, buffer.clone()) for module in self._networks for buffer in module.buffers()]

    def put_back(self) -> None:
        """Let them be as they were."""
        for buffer, moment in self._kept:
            buffer.copy_(moment)

    def put_back_if(self, refused: Tensor) -> None:
        """Let them be so where a scalar on their device is 1, not 0."""
        for buffer, moment in self._kept:
            buffer.copy_(torch.where(refused > 0, moment, buffer))


def _has_moments(module: nn.Module) -> bool:
    return reads_training(module) or any(isinstance(part, EmpiricalNormalization) for part in module.modules())


_STATE = torch.default_generator.get_state


class GuardMixin(AttributeSavingMixin, ABC):
    """What an agent that learns by `gradient_steps` knows of updates whose numbers were not finite.

    Attributes:
        stream: State of torch's random stream, that of the agent's device, before the last update; None if that one, as
            far as is known, left it where it was.
        draws: Whether updates draw from it, as far as is known: reading its state takes some microseconds.
        looks_left: Updates that have to leave it where it was before that is believed of all.
    """

    gradient_steps: Mapping[str, GradientStep]
    _compiled: CompiledStep | None = None
    device: torch.device
    logger: logging.Logger
    stream: torch.Tensor | None = None
    draws: bool = True
    looks_left: int = 20

    @abstractmethod
    def update(self, batch: Batch) -> Any:
        """Learn once."""

    @abstractmethod
    def take_back(self, updates: int) -> None:
        """Let the counters be as if so many of the last updates had never come."""

    @property
    def trailed(self) -> Sequence[GradientStep | CompiledStep]:
        """What all losses go through; the `trail` of each is a number that they have gone into."""
        return (*self.gradient_steps.values(),) if self._compiled is None else (self._compiled,)

    def refused(self, error: NonFiniteError, batch: Batch, counter: str) -> None:
        """Take note of an update that was refused: the error gets its minibatch, unless a GPU tells of earlier ones.

        Args:
            error: What was raised; those that a GPU has skipped are counted no longer.
            batch: The minibatch.
            counter: The attribute that counts updates.
        """
        if error.skipped:
            self.take_back(error.skipped)
        else:
            error.batch = batch
        self.logger.error("update %d was refused: %s", getattr(self, counter) + 1, error)

    def settle(self) -> None:
        """Wait for a GPU to say whether it has skipped updates since it was asked last; nothing on a CPU.

        Raises:
            NonFiniteError: If it has; they are counted no longer.
        """
        found = []
        for step in self.gradient_steps.values():
            try:
                step.settle()
            except NonFiniteError as error:
                self.take_back(error.skipped)
                found.append(error)
        if found:
            raise found[0]

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

    def read_stream(self) -> torch.Tensor:
        """The state of the stream that updates draw from."""
        return _STATE() if self.device.type == "cpu" else torch.cuda.get_rng_state(self.device)

    def look_for_draws(self) -> None:
        """See whether the update that was just made has drawn."""
        if self.stream is None or not torch.equal(self.stream, self.read_stream()):
            self.looks_left = 0
            return
        self.looks_left -= 1
        if not self.looks_left:
            self.draws, self.stream = False, None

    def diagnose(self, batch: Batch, streams: GlobalStreams | None = None) -> Diagnosis:
        """Find out where the numbers of an update that was refused went wrong; nothing is changed.

        Args:
            batch: The minibatch, an attribute of the error.
            streams: The random streams before the update; None are those of the last one.
        """
        return diagnose(self, batch, self.streams_before() if streams is None else streams)

    def save(self, dirname: str | os.PathLike[str]) -> None:
        """Save into a directory, which at every instant holds the old save or the new one.

        Beside the files that `load` reads it gets copies under PFRL's names (`model.pt`, ...).

        Raises:
            CheckpointError: If something cannot be saved or written; the old save stays.
            NonFiniteError: If a parameter is NaN or infinite; likewise. Or, after it was saved, if a GPU has skipped
                updates since it was asked last.
        """
        try:
            self.settle()
        finally:
            super().save(dirname)
