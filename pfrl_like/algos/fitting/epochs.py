"""What epochs of training are made of: updates whose losses are averaged, and the progress that is shown."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from torch import Tensor

from pfrl_like.algos.fitting.data import DrawnData
from pfrl_like.algos.fitting.hooks import update_step
from pfrl_like.batch import Batch
from pfrl_like.dataset import TransitionMiniBatch
from pfrl_like.experiments.progress import Progress
from pfrl_like.random_streams.isolated_rng import isolated_rng
from pfrl_like.runs.loop import Callback, Clock, Episode, run
from pfrl_like.utils.user_warnings import warn_once


class Data(Protocol):
    """Where minibatches come from."""

    def next_batch(self, agent: Any) -> Batch:
        """The next minibatch for an agent, on its device."""

    def shown(self, batch: Batch, algo: Any) -> TransitionMiniBatch:
        """The transitions of the minibatch given last, as an overridden `update` gets them."""

    def learnt(self, batch: Batch, td_error: Tensor | None) -> None:
        """Take in how wrong the rows of a minibatch were; None if that is not known."""


class UpdateSource:
    """Updates of an estimator from data, each a step of the clock, whose losses are averaged.

    Args:
        algo: The estimator, or what is fitted like one: `impl` is the agent, `_learn` takes a minibatch, or an
            `update` that a user has overridden, and `loss_names` are the names of the losses.
        data: Where minibatches come from.
        epoch: Number of the epoch.
    """

    def __init__(self, algo: Any, data: Data, epoch: int) -> None:
        self.algo, self.data, self.epoch = algo, data, epoch
        self._losses: list[dict[str, Tensor]] = []
        self._update = update_step(algo)

    def __len__(self) -> int:
        """Updates so far."""
        return len(self._losses)

    def tick(self, clock: Clock) -> tuple[Episode, ...]:
        """One update."""
        batch = self.data.next_batch(self.algo.impl)
        if self._update is None:
            td_error, losses = self.algo._learn(self.epoch, clock.t, batch)
        else:
            td_error, losses = self._update(self.epoch, clock.t, self.data.shown(batch, self.algo))
        self.data.learnt(batch, td_error)
        self._losses.append(losses)
        clock.t += 1
        return ()

    def metrics(self, last: int = 0) -> dict[str, float]:
        """Means over so many last updates, 0 for the whole epoch; NaN of losses that had no turn."""
        chosen = self._losses[-last:]
        names = dict.fromkeys([*self.algo.loss_names, *(name for losses in chosen for name in losses)])
        by_name = {name: [losses[name] for losses in chosen if name in losses] for name in names}
        return {name: float(sum(found) / len(found)) if found else float("nan") for name, found in by_name.items()}


class OnlineUpdates:
    """Callback of a training loop: updates from a replay buffer whenever they are due, and the returns of episodes.

    Args:
        algo: The estimator, or what is fitted like one.
        data: The minibatches, drawn from a replay buffer.
        interval: Steps between updates.
        n: Updates at a time.
        start: Steps that are made before updates begin. There is none either while the buffer lacks a minibatch; an
            epoch without any for that reason is warned of, once a process.

    Attributes:
        source: Updates of the epoch that runs.
        returns: Returns of the episodes that ended in it.
    """

    source: UpdateSource

    def __init__(self, algo: Any, data: DrawnData, interval: int, n: int, start: int) -> None:
        self.algo, self.data = algo, data
        self.interval, self.n, self.start, self.n_updates = interval, n, start, 0
        self._n_steps = 0  # of the training in whose current epoch updates were due and the buffer held too little

    def begin_epoch(self, epoch: int) -> None:
        """Keep losses and returns of an epoch from now on; warn if the last one lacked steps to learn from."""
        if self._n_steps and self.n and not len(self.source):
            stored, batch_size = len(self.data.source), self.data.batch_size
            warn_once(
                "fit_online without updates",
                f"fit_online made no update in epoch {self.source.epoch} and learnt nothing: the buffer holds {stored} "
                f"steps, fewer than batch_size, {batch_size}, and n_steps is {self._n_steps} in all; give more steps "
                "or a smaller batch_size",
            )
        self._n_steps = 0
        self.source = UpdateSource(self.algo, self.data, epoch)
        self.returns: list[float] = []

    def __call__(self, clock: Clock) -> None:
        """Make updates, if they are due."""
        if clock.between_episodes:  # and not cut off by the end of training
            self.returns += [episode.total_reward for episode in clock.ended]
        if clock.t > self.start and clock.t % self.interval == 0:
            if len(self.data.source) < self.data.batch_size:
                self._n_steps = clock.steps
                return
            inner = Clock(self.n_updates + self.n, self.n_updates)
            run(self.source, inner, [])
            self.n_updates = inner.t


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


def evaluated(algo: Any, scorers: Mapping[str, Callable[[Any, Any], float]], data: Any) -> dict[str, float]:
    """Scores after an epoch, which leave the random streams as they are."""
    with isolated_rng():
        return {name: float(scorer(algo, data)) for name, scorer in scorers.items()}
