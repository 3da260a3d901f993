"""`Batch`, the input of an update, and functions for nested observations."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

#: Key of an action mask in `info` and in observations that are dicts.
ACTION_MASK = "action_mask"


def map_nested(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply `function` to every leaf of nested dicts, tuples and lists; None stays None."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {key: map_nested(function, item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(map_nested(function, item) for item in value)
    return function(value)


def describe_nested(nested: Any) -> Any:
    """Return a nested value of texts: the shape and dtype of each tensor or array in `nested`."""

    def describe(leaf: Any) -> str:
        dtype = str(getattr(leaf, "dtype", type(leaf).__name__)).removeprefix("torch.")
        return f"{tuple(getattr(leaf, 'shape', ()))} of {dtype}"

    return map_nested(describe, nested)


def combine_nested(function: Callable[[list[Any]], Any], parts: Sequence[Any]) -> Any:
    """Apply `function` to the list of corresponding leaves of nested values of the same structure; None stays None."""
    first = parts[0]
    if isinstance(first, Mapping):
        return {key: combine_nested(function, [part[key] for part in parts]) for key in first}
    if isinstance(first, tuple | list):
        return tuple(combine_nested(function, [part[i] for part in parts]) for i in range(len(first)))
    return None if first is None else function(list(parts))


#: Function that concatenates nested values of the same structure along the first axis of their tensors.
concatenate_nested = functools.partial(combine_nested, torch.cat)


def first_leaf(nested: Any) -> Any:
    """Return the first leaf of nested dicts and tuples."""
    while isinstance(nested, Mapping | tuple):
        nested = next(iter(nested.values() if isinstance(nested, Mapping) else nested))
    return nested


@dataclasses.dataclass(frozen=True, slots=True)
class Continuation:
    """The steps that follow the rows of a batch, up to the ends of their episodes.

    The batch has N rows, and the continuation has M steps. A step that follows several rows is contained only once. The
    newest step of a running episode counts as the end of the episode. Its return bootstraps from its next observation.

    Attributes:
        first: For each row of the batch, the position of the step that follows the row, [N], int64; -1 if no step
            follows.
        reward: Rewards of the steps, [M], float32.
        discount: gamma, or 0 where the step ended in a terminal state, [M], float32.
        next_obs: Observations after the steps, nested like the observations of the batch.
        after: For each step, the position of the step that follows it, [M], int64; -1 if no step follows.
        cut: Positions of the steps that no step follows and that do not end in a terminal state, [E], int64, ascending.
            Reading the length E needs no synchronisation with the device.
    """

    first: Tensor
    reward: Tensor
    discount: Tensor
    next_obs: Any
    after: Tensor
    cut: Tensor

    def map(self, function: Callable[[Any], Any]) -> "Continuation":
        """Return a copy with `function` applied to every tensor, including the tensors in nested observations."""
        return Continuation(*[map_nested(function, getattr(self, field.name)) for field in dataclasses.fields(self)])


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """A minibatch of transitions, or of sequences of transitions, as tensors.

    If `lengths` is set, the rows are B sequences in the order of a `PackedSequence`: sorted by descending length, time
    first. Every row-wise field then has shape [N, ...] with N = sum(lengths). If `lengths` is None, N = B.

    Attributes:
        obs: Observations, a tensor [N, ...] or a dict or tuple of tensors; as stored, before `phi` is applied.
        action: Actions, [N] int64 or [N, ...] float.
        reward: Sum of the n discounted rewards, [N], float32.
        next_obs: Observations after the n steps, like `obs`.
        discount: gamma**n, or 0 where the n steps ended in a terminal state, [N], float32.
        weight: Importance weights of prioritised replay, [N], float32.
        index: Sequence numbers of the sampled items, [B], an int64 array on the host. The `update_priorities` of a
            prioritised buffer takes them as its first argument.
        action_mask: True where an action is allowed in `obs`, [N, n_actions], bool.
        next_action_mask: True where an action is allowed in `next_obs`, [N, n_actions], bool.
        next_action: Action taken in `next_obs`, like `action`. An unknown action is NaN, or -1 for integers.
        recurrent_state: Recurrent state before the first step of each sequence, tensors [layers, B, ...], nested like
            the model's state. If None, the sequences start with the initial state.
        next_recurrent_state: Recurrent state after the first step of each sequence.
        lengths: Lengths of the sequences, [B], int64, on the host.
        next_row: For n-step returns within a sequence: for each row, the row whose `next_obs` is the observation after
            the n steps, [N], int64. If None, each row's own `next_obs` is the observation after the n steps.
        log_prob: Log-probability of `action` under the policy that chose it, [N].
        value: Value estimate of `obs` at the time when `action` was chosen, [N].
        advantage: Advantage estimate, [N].
        returns: Target of the value function, [N].
        continuation: The steps that follow the rows of the batch.
        extra: Other columns, keyed by name.
    """

    obs: Any
    action: Any
    reward: Tensor
    next_obs: Any
    discount: Tensor
    weight: Tensor | None = None
    index: Any = None
    action_mask: Tensor | None = None
    next_action_mask: Tensor | None = None
    next_action: Any = None
    recurrent_state: Any = None
    next_recurrent_state: Any = None
    lengths: Tensor | None = None
    next_row: Tensor | None = None
    log_prob: Tensor | None = None
    value: Tensor | None = None
    advantage: Tensor | None = None
    returns: Tensor | None = None
    continuation: Continuation | None = None
    extra: Mapping[str, Any] | None = None

    def __len__(self) -> int:
        return len(self.reward)

    def required(self, *names: str) -> list[Tensor]:
        """Return the named fields.

        Raises:
            ValueError: If a named field is None.
        """
        if missing := [name for name in names if getattr(self, name) is None]:
            raise ValueError(f"batch has no {', '.join(missing)}, which this update needs")
        return [getattr(self, name) for name in names]

    def replace(self, **changes: Any) -> "Batch":
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to(self, device: torch.device | str) -> "Batch":
        """Return the same rows on `device`; `index` and `lengths` stay on the host."""
        if self.reward.device == torch.device(device):
            return self
        return self._map(lambda leaf: leaf.to(device, non_blocking=True) if isinstance(leaf, Tensor) else leaf)

    def __getitem__(self, rows: Any) -> "Batch":
        """Return selected rows of a batch of transitions; a batch of sequences cannot be indexed.

        Raises:
            ValueError: If the batch contains sequences.
        """
        if self.lengths is not None:
            raise ValueError("a batch of sequences cannot be indexed by row: its rows are packed time first")
        continuation = self.continuation and dataclasses.replace(self.continuation, first=self.continuation.first[rows])
        return self._map(lambda leaf: leaf[rows], keep=("continuation",)).replace(continuation=continuation)

    def _map(self, function: Callable[[Any], Any], keep: tuple[str, ...] = ("index", "lengths")) -> "Batch":
        fields = {name: getattr(self, name) for name in Batch.__slots__}
        for name, value in fields.items():
            if value is not None and name not in keep:
                fields[name] = value.map(function) if isinstance(value, Continuation) else map_nested(function, value)
        return Batch(**fields)


def batch_of_states(obs: Any, action: Any = None) -> Batch:
    """Return a batch for evaluating values: observations, optional actions, and zeros as reward and discount."""
    zeros = torch.zeros(first_leaf(obs).shape[0], device=first_leaf(obs).device)
    return Batch(obs=obs, action=action, reward=zeros, next_obs=None, discount=zeros)


def concatenate_batches(parts: Sequence[Batch]) -> Batch:
    """Concatenate batches of transitions by rows; the result has the columns of the first batch."""
    if len(parts) == 1:
        return parts[0]
    names = [field.name for field in dataclasses.fields(Batch) if field.name not in ("index", "continuation")]
    joined = {name: concatenate_nested([getattr(part, name) for part in parts]) for name in names}
    return Batch(**joined, continuation=_concatenate_continuations(parts))


def _concatenate_continuations(parts: Sequence[Batch]) -> Continuation | None:
    """Join the continuations of all batches; rows of a batch without `continuation` have no following step."""
    known = [part.continuation for part in parts if part.continuation is not None]
    if not known:
        return None
    first, after, cut, count = [], [], [], 0
    for part in parts:
        if part.continuation is None:
            first.append(torch.full_like(part.reward, -1, dtype=torch.int64))
            continue
        first.append(part.continuation.first + count * (part.continuation.first >= 0))
        after.append(part.continuation.after + count * (part.continuation.after >= 0))
        cut.append(part.continuation.cut + count)
        count += len(part.continuation.reward)
    reward, discount = (torch.cat([getattr(each, name) for each in known]) for name in ("reward", "discount"))
    next_obs = concatenate_nested([each.next_obs for each in known])
    return Continuation(torch.cat(first), reward, discount, next_obs, torch.cat(after), torch.cat(cut))
