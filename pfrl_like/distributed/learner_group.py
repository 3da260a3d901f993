"""Learners in several processes that make every update together (data parallelism)."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, distributed

from pfrl_like.batch import Batch
from pfrl_like.errors import CheckpointError
from pfrl_like.random_streams.joined_noise import JoinedNoise
from pfrl_like.random_streams.streams import GlobalStreams, Streams
from pfrl_like.storage.atomic import atomic_write, read_errors

#: Name of the file with the random streams in a directory written by `LearnerGroup.save`.
LEARNERS = "learners.json"


class LearnerGroup:
    """The processes that learn together, as one of them sees them.

    Every process has the same parameters and a share of each minibatch. The joined minibatch consists of the shares of
    all processes in the order of their ranks.

    Args:
        group: Process group of `torch.distributed`. If None, the default group is used.
        same_data: True if all processes sample from the same data.
        check_alike: Function that raises an error if the agents of the processes differ.

    Attributes:
        rank: Number of this process in the group.
        size: Number of processes.
        streams: States of the global random streams for sampling and updates. They are the same in all processes.
            Everything else, for example acting, uses the streams of the process.
        is_updating: True during an update.
        is_checked: False to check before the next update that the agents of all processes are alike.
    """

    has_no_rng = True  # its streams are saved with the agent, see `random_streams.reachable`

    def __init__(self, group: Any, same_data: bool, check_alike: Callable[["LearnerGroup"], None]) -> None:
        self._group, self.same_data, self._check_alike = group, same_data, check_alike
        self.rank, self.size = distributed.get_rank(group), distributed.get_world_size(group)
        on_gpu = "nccl" in distributed.get_backend(group)
        self._device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
        streams = GlobalStreams.now()
        if streams.cuda is not None:  # a process may use a GPU of another number
            streams = streams._replace(cuda=[streams.cuda[torch.cuda.current_device()]] * len(streams.cuda))
        self.streams: GlobalStreams = self.from_first(streams)
        self.is_updating = False
        self.is_checked = False
        self._noise = JoinedNoise(self.rank, self.size)
        self._rows: int | None = None  # of this process in the update
        self._own_draws = False
        self._index: Any = None  # of the joined minibatch
        self._has_started = False

    def __reduce__(self) -> Any:
        return type(None), ()  # a copy of an agent belongs to no group

    # Exchange

    def from_first(self, value: Any) -> Any:
        """Return the value of process 0, any object that can be pickled."""
        values = [value]
        source = 0 if self._group is None else distributed.get_global_rank(self._group, 0)
        distributed.broadcast_object_list(values, source, self._group, self._device)
        return values[0]

    def of_all(self, value: Any) -> list[Any]:
        """Return the values of all processes, objects that can be pickled, in the order of the ranks."""
        values = [None] * self.size
        distributed.all_gather_object(values, value, self._group)
        return values

    def rows_of_all(self, rows: Tensor) -> Tensor:
        """Return the rows of all processes, [size * N, ...], in the order of the ranks. N is the same everywhere."""
        sent = rows.detach().contiguous().to(self._device)
        parts = [torch.empty_like(sent) for _ in range(self.size)]
        distributed.all_gather(parts, sent, self._group)
        return torch.cat(parts).to(rows.device)

    def smallest(self, value: float) -> float:
        """Return the smallest value of all processes."""
        return float(self.rows_of_all(torch.tensor([value], dtype=torch.float64)).min())

    def average(self, loss: Tensor, leaves: Sequence[Tensor]) -> Tensor:
        """Replace the gradients of the leaves by their means over the processes. Return the mean of the losses.

        NaN and infinity of one process spread to all processes, so all reject the same updates. If no process has a
        gradient for a leaf, the gradient stays None.
        """
        missing = [leaf.grad is None for leaf in leaves]
        grads = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]
        present = torch.tensor([0.0 if each else 1.0 for each in missing], device=loss.device)
        flat = torch.cat([*(grad.reshape(-1) for grad in grads), loss.detach().reshape(1), present])
        sent = flat.to(self._device)
        distributed.all_reduce(sent, group=self._group)
        flat = sent.to(loss.device) / self.size
        *means, value, present = torch.split(flat, [*(grad.numel() for grad in grads), 1, len(grads)])
        nowhere = [each == 0 for each in present.tolist()] if any(missing) else missing
        for leaf, mean, is_missing in zip(leaves, means, nowhere, strict=True):
            leaf.grad = None if is_missing else mean.view(leaf.shape).to(leaf.dtype)
        return value.view(())

    # Updates

    @contextlib.contextmanager
    def draws(self) -> Iterator[None]:
        """Context manager in which the global random streams are the same in all processes."""
        own = GlobalStreams.now()
        self.streams.restore()
        try:
            yield
        finally:
            self.streams = GlobalStreams.now()
            own.restore()

    @contextlib.contextmanager
    def update(self, batch: Batch | None = None) -> Iterator[None]:
        """Context manager for an update.

        The noise is drawn for the joined minibatch, and each process uses the noise of its rows.

        Args:
            batch: Minibatch of this process. If it contains sequences, the processes may have different numbers of
                rows: each process then draws its own noise, and statistics are those of its own rows. If None, all
                processes draw the same noise until `share` is called.
        """
        own_draws = batch is not None and batch.lengths is not None
        rows = None if batch is None or own_draws else len(batch)
        if not self.is_checked:
            self._check_alike(self)
            self.is_checked = True
        self.is_updating, self._own_draws, self._rows, self._noise.rows = True, own_draws, rows, rows
        try:
            with contextlib.nullcontext() if own_draws else self.draws(), self._noise:
                yield
        finally:
            self.is_updating = False

    def sample(self, sample: Callable[[int], Batch], n: int) -> Batch:
        """Sample the minibatch of this process, with n rows.

        If all processes have the same data, they draw the same joined minibatch without replacement, and each takes its
        share. Otherwise each process samples from its own data.

        Args:
            sample: Function that samples a given number of rows.
            n: Number of rows.
        """
        if not self.same_data:
            return sample(n)
        with self.draws():
            joined = sample(n * self.size)
        self._index = joined.index
        return joined[self.rows(n * self.size)]

    def sample_for(self, agent: Any, buffer: Any, device: Any) -> Batch:
        """Sample the minibatch of this process from a replay buffer, with the arguments that the agent needs."""
        options = {"gamma": agent.gamma, "device": device, **agent.sampling}
        return self.sample(lambda n: buffer.sample_batch(n, **options), agent.minibatch_size)

    def rows(self, n: int) -> slice:
        """Return the rows of this process in a joined minibatch of n rows."""
        return slice(n // self.size * self.rank, n // self.size * (self.rank + 1))

    def share(self, batch: Batch) -> Batch:
        """Return the rows of this process in a joined minibatch.

        A minibatch of sequences, or one that cannot be divided equally, is returned unchanged. All processes then
        compute the same gradient.
        """
        if batch.lengths is not None or len(batch) % self.size:
            self._noise.rows = None
            return batch
        self._noise.rows = len(batch) // self.size
        return batch[self.rows(len(batch))]

    def priorities(self, batch: Batch, td_error: Tensor) -> tuple[Any, Tensor]:
        """Return the items whose priorities this process updates after an update, and their TD errors."""
        if not self.same_data or batch.lengths is not None:
            return batch.index, td_error
        return self._index, self.rows_of_all(td_error)

    def statistics(self, stats: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the statistics of the joined minibatch: the rows of all processes, and the means of other numbers.

        Outside updates, return the statistics of this process unchanged.
        """
        if not self.is_updating or self._own_draws or not stats:
            return stats
        values = [torch.as_tensor(value).detach() for value in stats.values()]
        flat = self.rows_of_all(torch.cat([value.reshape(-1).double().cpu() for value in values])).view(self.size, -1)
        parts = torch.split(flat, [value.numel() for value in values], 1)
        pairs = zip(stats, values, parts, strict=True)
        return {
            name: part.reshape(-1) if self._rows and value.ndim else part.mean(0).view(value.shape)
            for name, value, part in pairs
        }

    def starts(self, agent: Any) -> bool:
        """Return True from the first call on at which the replay buffers of all processes are large enough."""
        self._has_started = self._has_started or all(self.of_all(agent.waiting_for() is None))
        return self._has_started

    # Checkpoints

    def save(self, dirname: str, agent: Any, *owners: Any) -> None:
        """Save the agent and the random streams of all processes. All processes call this method, and process 0 writes.

        Args:
            dirname: Directory, written by `agent.save`. The file `learners.json` is added.
            agent: The agent.
            *owners: Other objects of each process that have random streams, for example its environment.

        Raises:
            CheckpointError: In all processes, if the agent or the file cannot be written.
        """
        own = self.of_all(Streams.of(agent, *owners).to_plain())
        with self._errors_of_all(dirname):
            if self.rank == 0:
                agent.save(dirname)
                state = {"updates": updates_of(agent), "shared": self.streams.to_plain(), "own": own}
                atomic_write(os.path.join(dirname, LEARNERS), json.dumps(state).encode())

    def load(self, dirname: str, agent: Any, *owners: Any) -> None:
        """Load what `save` has written. All processes call this method, with the same kinds of objects.

        Raises:
            CheckpointError: In all processes, if the directory is incomplete or was saved by another number of
                processes.
        """
        path = os.path.join(dirname, LEARNERS)
        with self._errors_of_all(dirname):
            agent.load(dirname)
            with read_errors(path, "does not contain the streams of all processes"):
                with open(path, "rb") as file:
                    state = json.load(file)
                if state["updates"] != updates_of(agent):
                    raise ValueError(f"the file has {state['updates']} updates, the agent has {updates_of(agent)}")
                if len(state["own"]) != self.size:
                    raise ValueError(f"it was saved by {len(state['own'])} processes, this group has {self.size}")
                Streams.of(agent, *owners).restore(state["own"][self.rank])
                self.streams = GlobalStreams.from_plain(state["shared"])

    @contextlib.contextmanager
    def _errors_of_all(self, dirname: str) -> Iterator[None]:
        """Context manager at whose end all processes wait for each other. If one raises an error, all do."""
        error = None
        try:
            yield
        except Exception as own:
            error = own
        texts = self.of_all(None if error is None else str(error))
        if error is not None:
            raise error
        for rank, text in enumerate(texts):
            if text is not None:
                raise CheckpointError(dirname, f"process {rank} raised an error: {text}")


@contextlib.contextmanager
def member_of(group: LearnerGroup | None, agent: Any) -> Iterator[None]:
    """Context manager in which an agent makes updates with a group. If `group` is None, the agent learns alone."""
    before = agent.learner_group
    _set_group(agent, group)
    try:
        yield
    finally:
        _set_group(agent, before)


def _set_group(agent: Any, group: LearnerGroup | None) -> None:
    agent.learner_group = group
    for step in agent.gradient_steps.values():
        step.average = None if group is None else group.average


def sample_share(group: LearnerGroup | None, sample: Callable[[int], Batch], n: int) -> Batch:
    """Sample n rows with `sample`. In a group, sample the minibatch of this process, see `LearnerGroup.sample`."""
    return sample(n) if group is None else group.sample(sample, n)


def priorities(group: LearnerGroup | None, batch: Batch, td_error: Tensor) -> tuple[Any, Tensor]:
    """Return the items whose priorities this process updates after an update on a minibatch, and their TD errors."""
    return (batch.index, td_error) if group is None else group.priorities(batch, td_error)


def updates_of(agent: Any) -> int:
    """Return the number of updates that an agent has made."""
    return int(getattr(agent, "optim_t", getattr(agent, "n_updates", 0)))
