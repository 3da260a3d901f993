"""Functions that collate lists of observations or PFRL's lists of transition dicts to batches."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.batch import ACTION_MASK, Batch, describe_nested
from pfrl_like.utils import recurrent
from pfrl_like.utils.old_names import old_names

Phi = Callable[[Any], Any]


def batch_states(states: Sequence[Any], device: torch.device | str, phi: Phi) -> Any:
    """Apply a feature extractor to each observation and collate the results to a batch.

    Args:
        states: Observations with the same structure: numbers, arrays, tensors, or nested dicts and tuples of these.
        device: Device of the batch.
        phi: Feature extractor of one observation.

    Returns:
        Tensors [k, ...] with the dtype of the features, nested like the features of one observation.

    Raises:
        ValueError: If `states` is empty, or if the shapes of the observations differ.
        Exception: Any exception that `phi` raises, with a note that describes the observation.
        TypeError: If a feature cannot be converted to a tensor.
    """
    if len(states) == 0:
        raise ValueError("states is empty, expected at least one observation")
    features: list[Any] = []
    try:
        for state in states:
            features.append(phi(state))
    except Exception as error:
        index = len(features)
        error.add_note(f"phi raised this for observation {index} of {len(states)}: {describe_nested(states[index])}")
        raise
    return _collate(features, device)


def _collate(features: list[Any], device: torch.device | str) -> Any:
    first = features[0]
    if isinstance(first, Mapping):
        return {key: _collate([feature[key] for feature in features], device) for key in first}
    if isinstance(first, tuple):
        return tuple(_collate([feature[i] for feature in features], device) for i in range(len(first)))
    try:
        if isinstance(first, Tensor):
            return torch.stack(features).to(device)
        tensor = torch.from_numpy(np.array(features))
    except (ValueError, TypeError, RuntimeError) as error:
        raise _collate_error(features) from error
    return tensor if device == _CPU else tensor.to(device, non_blocking=torch.device(device).type == "cuda")


_CPU = torch.device("cpu")


def _collate_error(features: list[Any]) -> Exception:
    shapes = sorted({str(np.shape(feature)) for feature in features if isinstance(feature, np.ndarray | Tensor)})
    if len(shapes) > 1:
        return ValueError(f"states must have one shape, got {', '.join(shapes)}")
    expected = "numbers, arrays, tensors, or nested dicts and tuples of these; `phi` can convert features"
    return TypeError(f"states has features of type {type(features[0]).__name__}, expected {expected}")


class _CallableModule(ModuleType):
    """Callable module, because PFRL's documentation uses `pfrl.utils.batch_states` as a function."""

    def __call__(self, states: Sequence[Any], device: torch.device | str, phi: Phi) -> Any:
        return batch_states(states, device, phi)

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, (self.__name__,)  # a function that uses the module can be sent to another process


sys.modules[__name__].__class__ = _CallableModule


Transition = Mapping[str, Any]
Experience = Sequence[Transition]


def batch_of_experiences(experiences: Any, gamma: float, *, sequences: bool = False) -> Batch:
    """Collate items of `sample` (or episodes of `sample_episodes`) on the CPU.

    Args:
        experiences: List of items. An item is a list of steps: one n-step transition or, if `sequences` is True, an
            episode or a section of an episode. A tuple of this list and importance weights is also accepted.
        gamma: Discount factor per step.
        sequences: True if the items are sequences for a recurrent network. Sequences are sorted by descending length,
            and `index` of the batch contains their original positions.

    Raises:
        ValueError: If `experiences` is empty.
        TypeError: If the items are not lists of transition dicts.
    """
    if isinstance(experiences, tuple):
        weighted = zip(*experiences, strict=True)
        experiences = [[{**step, "weight": own} for step in item] for item, own in weighted]
    if not experiences:
        raise ValueError("experiences is empty, expected at least one item")
    if not all(isinstance(item, Sequence) and item and isinstance(item[0], Mapping) for item in experiences):
        got = type(experiences[0]).__name__
        raise TypeError(f"experiences has an item of type {got}, expected lists of transition dicts, as of sample")
    if sequences:
        return _sequences(experiences, gamma)
    reward, ended = rewards_and_ends(experiences, gamma)
    discount = [0.0 if end else gamma ** len(item) for end, item in zip(ended, experiences, strict=True)]
    first, last = [item[0] for item in experiences], [item[-1] for item in experiences]
    return _batch(first, last, reward, discount)


def _sequences(episodes: Sequence[Experience], gamma: float) -> Batch:
    lengths = np.array([len(episode) for episode in episodes])
    order = np.argsort(-lengths, kind="stable")
    episodes = [episodes[i] for i in order]
    steps = recurrent.flatten_sequences_time_first(episodes)
    discount = [0.0 if step["is_state_terminal"] else gamma for step in steps]
    batch = _batch(steps, steps, [step["reward"] for step in steps], discount)
    return batch.replace(index=order, lengths=torch.from_numpy(lengths[order]), **recurrent_states(episodes))


def _batch(
    first: Sequence[Transition], last: Sequence[Transition], reward: Sequence[float], discount: Sequence[float]
) -> Batch:
    weight = column(first, "weight")
    next_columns = {name: column(last, name) for name in ("next_action_mask", "next_action")}
    return Batch(
        stack([step["state"] for step in first]), column(first, "action"), torch.tensor(reward, dtype=torch.float32),
        stack([next_state(step) for step in last]), torch.tensor(discount, dtype=torch.float32),
        None if weight is None else weight.float(), action_mask=column(first, ACTION_MASK), **next_columns,
    )  # fmt: skip


# Functions that `pfrl_like.replay_buffer` also uses


def rewards_and_ends(items: Sequence[Experience], gamma: float) -> tuple[list[float], list[bool]]:
    """Return two lists with one value per item: the discounted sum of rewards, and True if a step is terminal."""
    rewards = [sum(gamma**i * step["reward"] for i, step in enumerate(item)) for item in items]
    return rewards, [any(step["is_state_terminal"] for step in item) for item in items]


def next_state(step: Transition) -> Any:
    """Return the next observation of a step. In a terminal step it may be None; return the observation instead."""
    return step["state"] if step["next_state"] is None else step["next_state"]


def recurrent_states(episodes: Sequence[Experience], device: torch.device | str = "cpu") -> dict[str, Any]:
    """Return the recurrent states before and after the first step of each episode, as columns of a `Batch`."""
    states = {}
    for name in ("recurrent_state", "next_recurrent_state"):
        state = recurrent.concatenate_recurrent_states([episode[0].get(name) for episode in episodes])
        states[name] = recurrent.recurrent_state_from_numpy(state, device)
    return states


def column(steps: Sequence[Transition], name: str) -> Any:
    """Return the values of one key, stacked over the steps. None if a step does not have the key."""
    values = [step.get(name) for step in steps]
    return None if any(value is None for value in values) else stack(values)


def stack(values: Sequence[Any]) -> Any:
    """Stack arrays, numbers, or nested dicts and tuples of these, to tensors with a new first axis.

    Other objects, such as strings, are returned as a list.
    """
    if isinstance(values[0], Mapping):
        return {key: stack([value[key] for value in values]) for key in values[0]}
    if isinstance(values[0], tuple):
        return tuple(stack([value[i] for value in values]) for i in range(len(values[0])))
    arrays = [np.asarray(value) for value in values]
    return list(values) if arrays[0].dtype.kind in "OUS" else torch.from_numpy(np.stack(arrays))


__getattr__ = old_names(__name__)
