"""What a GPU has skipped is told, before a save at the latest, and is not counted."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping

from pfrl_like.agent import AttributeSavingMixin
from pfrl_like.errors import NonFiniteError
from pfrl_like.optimizers.gradient_step import GradientStep


class SettlingMixin(AttributeSavingMixin, ABC):
    """Lets an agent that learns by `gradient_steps` ask its GPU which updates were skipped."""

    gradient_steps: Mapping[str, GradientStep]

    @abstractmethod
    def take_back(self, updates: int) -> None:
        """Let the counters be as if so many of the last updates had never come."""

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
