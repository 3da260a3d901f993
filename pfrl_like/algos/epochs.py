"""What epochs of training are made of: updates whose losses are averaged, and the progress that is shown."""

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

from torch import Tensor

from pfrl_like.batch import Batch
from pfrl_like.experiments.loop import Callback, Clock, Episode
from pfrl_like.experiments.progress import Progress


class Data(Protocol):
    """Where minibatches come from."""

    def next_batch(self, agent: Any) -> Batch:
        """The next minibatch for an agent, on its device."""

    def learnt(self, batch: Batch, td_error: Tensor) -> None:
        """Take in how wrong the rows of a minibatch were."""


class UpdateSource:
    """Updates of an estimator from data, each a step of the clock; `metrics` are the means of their losses."""

    def __init__(self, algo: Any, data: Data, epoch: int) -> None:
        self.algo, self.data, self.epoch = algo, data, epoch
        self._losses: dict[str, list[Any]] = {name: [] for name in algo.loss_names}

    def tick(self, clock: Clock) -> tuple[Episode, ...]:
        """One update."""
        batch = self.data.next_batch(self.algo.impl)
        td_error, losses = self.algo._learn(self.epoch, clock.t, batch)
        self.data.learnt(batch, td_error)
        for name, loss in losses.items():
            self._losses[name].append(loss)
        clock.t += 1
        return ()

    @property
    def metrics(self) -> dict[str, float]:
        """Means over the epoch, NaN of losses that had no turn."""
        means = {name: sum(losses) / len(losses) for name, losses in self._losses.items() if losses}
        return {name: float(means.get(name, float("nan"))) for name in self._losses}


@contextlib.contextmanager
def shown(clock: Clock, show_progress: bool) -> Iterator[list[Callback]]:
    """The callback that shows the progress of a clock, if it is to be shown."""
    if not show_progress:
        yield []
        return
    progress = Progress(clock.steps, clock.t)
    try:
        yield [progress]
    finally:
        progress.close()
