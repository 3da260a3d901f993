"""Prioritised experience replay, proportional form (Schaul et al. 2016, arXiv:1511.05952, section 3)."""

import math
import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from pfrl_like.collections.prioritized import Floats, Index, Priorities, largest, smallest
from pfrl_like.replay_buffers.memory import PrioritizedMemory
from pfrl_like.replay_buffers.replay_buffer import ReplayBuffer
from pfrl_like.utils.checks import check_finite, levels_to_the_caller
from pfrl_like.utils.random import RandomSource

Normalization = bool | Literal["batch", "memory"]


class PriorityWeightError:
    """Base of prioritised buffers: computes priorities from errors, and importance weights from probabilities.

    An item with error e has the priority p = (clip(|e|, error_min, error_max) + eps)**alpha. It is sampled with the
    probability P = p / sum(p). Its importance weight is (N * P)**-beta, divided by the maximum weight (sections 3.3 and
    3.4). A new item has the maximum priority so far, initially 1.

    Args:
        alpha: Exponent of the priorities, >= 0; 0 samples uniformly.
        beta0: Initial exponent of the importance weights, from 0 to 1.
        betasteps: Number of samples over which the exponent of the weights grows to 1. If None, it stays `beta0`; if
            negative, it stays `beta0`, too, after a warning.
        eps: Number added to the absolute errors, >= 0. If it is positive, items with error 0 can be sampled again.
        normalize_by_max: True or "batch" divides the weights by the maximum weight in the minibatch. "memory" divides
            them by the maximum weight over all stored items. False does not divide them.
        error_min: Lower bound that absolute errors are clipped to. If None, there is no bound.
        error_max: Upper bound that absolute errors are clipped to. If None, there is no bound.

    Raises:
        ValueError: If an argument is outside its documented range. The message contains the argument's name and value.
    """

    prioritized = True

    def __init__(
        self,
        alpha: float,
        beta0: float,
        betasteps: float | None,
        eps: float,
        normalize_by_max: Normalization,
        error_min: float | None,
        error_max: float | None,
    ) -> None:
        _require(0.0 <= alpha < math.inf, "alpha", alpha, "a finite number >= 0")
        _require(0.0 <= beta0 <= 1.0, "beta0", beta0, "a number from 0 to 1")
        if betasteps is not None and betasteps < 0:  # of scripts that subtract `replay_start_size` from their steps
            text = f"betasteps is {betasteps}, below 0: the exponent of the weights stays beta0, {beta0}"
            warnings.warn(text, UserWarning, stacklevel=levels_to_the_caller())
            betasteps = None
        _require(betasteps is None or betasteps > 0, "betasteps", betasteps, "None or a number above 0")
        _require(0.0 <= eps < math.inf, "eps", eps, "a finite number >= 0")
        is_known = normalize_by_max in (True, False, "batch", "memory")
        _require(is_known, "normalize_by_max", normalize_by_max, "True, False, 'batch' or 'memory'")
        _require(error_max is None or error_max >= 0, "error_max", error_max, "None or a number >= 0")
        _require(error_min is None or math.isfinite(error_min), "error_min", error_min, "None or a finite number")
        if error_min is not None and error_max is not None:
            _require(error_min <= error_max, "error_min", error_min, f"a number up to error_max={error_max}")
        self.alpha, self.eps = alpha, eps
        self.beta = beta0
        self.beta_add = 0.0 if betasteps is None else (1.0 - beta0) / betasteps
        self.normalize_by_max = "batch" if normalize_by_max is True else normalize_by_max
        self.error_min, self.error_max = error_min, error_max
        self._priorities = Priorities()
        self._last_index: Index | None = None  # indices of the last sample; None after its errors were written back

    def priority_from_errors(self, errors: Any) -> Floats:
        """Return the priorities of items, shape [n], from their errors: a sequence, array or tensor of length n.

        Raises:
            NonFiniteError: If an error is NaN or infinite.
        """
        error = np.abs(np.asarray(_on_host(errors), np.float64).reshape(-1))
        if len(error) and not largest(error) < math.inf:
            check_finite("td_error", error)
        if self.error_min is not None and self.error_min > 0:
            error = np.maximum(error, self.error_min)
        if self.error_max is not None:
            error = np.minimum(error, self.error_max)
        return (error + self.eps) ** self.alpha

    @property
    def waits_for_errors(self) -> bool:
        """True if the errors of the last sample have not been written back yet."""
        return self._last_index is not None

    def update_errors(self, errors: Any) -> None:
        """Update the priorities of the last sample from its errors. Items removed since the sample are skipped.

        The order of the errors is the order of the sampled items.

        Raises:
            RuntimeError: If nothing was sampled since the last call.
            ValueError: If the number of errors differs from the number of sampled items.
            NonFiniteError: If an error is NaN or infinite. No priority is changed.
        """
        if self._last_index is None:
            raise RuntimeError("update_errors: nothing was sampled since the last call; call sample first")
        PriorityWeightError.update_priorities(self, self._last_index, errors)  # a subclass may call this method

    def update_priorities(self, index: Any, td_error: Any) -> None:
        """Update the priorities of sampled items from their errors. Items removed since the sample are skipped.

        Args:
            index: `Batch.index` of the batch that the errors were computed for, shape [n].
            td_error: The errors, a tensor or array, shape [n]; their absolute values are used.

        Raises:
            ValueError: If the lengths differ, or if no item with an index of `index` was ever stored.
            NonFiniteError: If an error is NaN or infinite. No priority is changed.
        """
        self._priorities.update(_on_host(index), self.priority_from_errors(td_error))
        self._last_index = None

    #: Function that returns the smallest number of all processes, if several processes learn together from buffers of
    #: their own. The largest importance weight is then that of all processes.
    smallest_of_group: Callable[[float], float] | None = None

    def weights_from_probabilities(self, probabilities: Any, min_probability: float) -> Floats:
        """Compute the importance weights of a sample, shape [n], and anneal beta by one step.

        Args:
            probabilities: Sampling probability P of each item, shape [n].
            min_probability: Minimum P over all stored items. It is used only if `normalize_by_max` is "memory".
        """
        probability = np.asarray(probabilities, np.float64)
        if self.normalize_by_max == "memory":
            reference = min_probability
        elif self.normalize_by_max:
            reference = smallest(probability) if len(probability) else 1.0
        else:
            reference = 1.0 / len(self._priorities)
        if self.smallest_of_group is not None:  # N * P, because the buffers may have different lengths
            reference = self.smallest_of_group(reference * len(self._priorities)) / len(self._priorities)
        weight: Floats = (probability / reference) ** -self.beta
        self.beta = min(1.0, self.beta + self.beta_add)
        return weight

    def _extra_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        priorities = self._priorities
        header = {"beta": self.beta, "max_priority": priorities.max_priority, "tree": priorities.layout()}
        return header, {"priority": priorities.to_array()}

    def _load_extra_state(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]], first: int, n: int) -> None:
        if not {"beta", "max_priority"} <= set(header) or "priority" not in arrays:
            raise ValueError("the saved buffer has no priorities, expected a file that a prioritised buffer has saved")
        beta, priority = float(header["beta"]), arrays["priority"]
        _require(0.0 <= beta <= 1.0, "beta", beta, "a number from 0 to 1")
        if priority.shape != (n,):
            raise ValueError(f"the saved priorities have shape {priority.shape}, expected ({n},), one per item")
        self._priorities = Priorities.from_array(priority, float(header["max_priority"]), first, header.get("tree"))
        self.beta, self._last_index = beta, None


class PrioritizedReplayBuffer(PriorityWeightError, ReplayBuffer):
    """Replay buffer of transitions, or n-step transitions, sampled in proportion to their priorities.

    `sample` stores the importance weight of an item in the item's first dict, with the key "weight". `sample_batch`
    stores the weights in `Batch.weight`. After an update the agent passes the errors to `update_errors` or
    `update_priorities`. `update_errors` needs the errors of the last sample. `update_priorities` accepts the errors of
    any sample, because it finds items by their sequence numbers. `PriorityWeightError` documents the equations of
    priorities and weights.

    Args:
        capacity: Maximum number of items. If it is exceeded, the oldest items are removed. None if unbounded.
        alpha: Exponent of the priorities, >= 0; 0 samples uniformly.
        beta0: Initial exponent of the importance weights, from 0 to 1.
        betasteps: Number of samples over which the exponent of the weights grows to 1. If None, it stays `beta0`; if
            negative, it stays `beta0`, too, after a warning.
        eps: Number added to the absolute errors, >= 0. If it is positive, items with error 0 can be sampled again.
        normalize_by_max: True or "batch" divides the weights by the maximum weight in the minibatch. "memory" divides
            them by the maximum weight over all stored items. False does not divide them.
        error_min: Lower bound that absolute errors are clipped to. If None, there is no bound.
        error_max: Upper bound that absolute errors are clipped to. If None, there is no bound.
        num_steps: Number of transitions per item, for n-step returns (Sutton and Barto 2018, eq. 7.1).
        rng: NumPy generator; None uses the global NumPy stream.

    Raises:
        ValueError: If an argument is outside its documented range. The message contains the argument's name and value.
    """

    _view = PrioritizedMemory

    def __init__(
        self,
        capacity: int | None = None,
        alpha: float = 0.6,
        beta0: float = 0.4,
        betasteps: float | None = 2e5,
        eps: float = 0.01,
        normalize_by_max: Normalization = True,
        error_min: float | None = 0,
        error_max: float | None = 1,
        num_steps: int = 1,
        *,
        rng: RandomSource = None,
    ) -> None:
        self._waiting_errors: dict[int, float] = {}  # first errors of steps that no item begins with yet, keyed by row
        ReplayBuffer.__init__(self, capacity, num_steps, rng=rng)
        PriorityWeightError.__init__(self, alpha, beta0, betasteps, eps, normalize_by_max, error_min, error_max)

    def _draw(self, n: int) -> tuple[Index, Floats | None]:
        index, probability = self._priorities.draw(n, 0.0, self._rng)
        self._last_index = index
        lowest = self._priorities.min_probability() if self.normalize_by_max == "memory" else math.nan
        return index, self.weights_from_probabilities(probability, lowest)

    def _items_added(self, first: int, count: int) -> None:
        self._priorities.append(count)
        if waiting := self._waiting_errors:
            rows = self._rows(np.arange(first, first + count)).tolist()
            errors = {first + i: waiting.pop(row) for i, row in enumerate(rows) if row in waiting}
            self._priorities.update([*errors], self.priority_from_errors([*errors.values()]))

    def _set_first_errors(self, rows: Index, errors: Floats) -> None:
        """Set the errors of new steps, from which the first priorities of the items that begin with them are computed.

        Args:
            rows: Rows of the steps, [N].
            errors: Absolute TD errors of the steps, [N].
        """
        self._waiting_errors |= dict(zip(rows.tolist(), errors.tolist(), strict=True))

    def _items_dropped(self, first: int, count: int) -> None:
        self._priorities.popleft(count)

    def _extra_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        header, arrays = super()._extra_state()
        rows = [row for run in self._columns.running.values() for row in run.waiting]
        errors = [[i, self._waiting_errors[row]] for i, row in enumerate(rows) if row in self._waiting_errors]
        return {**header, **({"waiting_errors": errors} if errors else {})}, arrays

    def _load_extra_state(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]], first: int, n: int) -> None:
        errors = {n + 1 + int(i): float(error) for i, error in header.get("waiting_errors", ())}
        super()._load_extra_state(header, arrays, first, n)
        self._waiting_errors = errors


def _require(holds: bool, name: str, value: Any, expected: str) -> None:
    if not holds:
        raise ValueError(f"{name} is {value!r}, expected {expected}")


def _on_host(values: Any) -> Any:
    """Return the numbers of a tensor on any device as an array. Return other values unchanged."""
    if not isinstance(values, torch.Tensor):
        return values
    return (values.double() if values.is_floating_point() else values).numpy(force=True)  # NumPy has no bfloat16
