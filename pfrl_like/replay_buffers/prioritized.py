"""Prioritised experience replay, proportional form (Schaul et al. 2016, arXiv:1511.05952, section 3)."""

import math
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from pfrl_like.collections.prioritized import Floats, Index, Priorities, largest, smallest
from pfrl_like.replay_buffers.memory import PrioritizedMemory
from pfrl_like.replay_buffers.replay_buffer import ReplayBuffer
from pfrl_like.utils.checks import check_finite
from pfrl_like.utils.random import RandomSource

Normalization = bool | Literal["batch", "memory"]


class PriorityWeightError:
    """Base of prioritised buffers: computes priorities from errors, and importance weights from probabilities.

    An item of error e has the priority p = (clip(|e|, error_min, error_max) + eps)**alpha and is drawn with the
    probability P = p / sum(p); its weight is (N * P)**-beta, divided by the largest weight (sections 3.3 and 3.4).
    New items have the largest priority so far, at first 1.

    Args:
        alpha: Exponent of the priorities, >= 0; 0 draws uniformly.
        beta0: Exponent of the weights at the first draw, from 0 to 1.
        betasteps: Number of draws over which the exponent of the weights grows to 1; None keeps it at `beta0`.
        eps: Added to the absolute errors, >= 0; a positive number lets items of error 0 be drawn again.
        normalize_by_max: Divide the weights by the largest one of the minibatch (True or "batch"), by the largest one
            that any stored item would have ("memory"), or not at all (False).
        error_min: Smaller absolute errors count as this; None for no limit.
        error_max: Larger absolute errors count as this; None for no limit.

    Raises:
        ValueError: Naming the argument that is out of its range.
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
        self._last_index: Index | None = None  # indices of the last draw, until its errors are written back

    def priority_from_errors(self, errors: Any) -> Floats:
        """Priorities of items from their errors, a sequence, array or tensor of length n; shape [n].

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
        """True after a draw until its errors are written back."""
        return self._last_index is not None

    def update_errors(self, errors: Any) -> None:
        """Update the priorities of the last draw from errors in its order; items removed since the draw are skipped.

        Raises:
            RuntimeError: If nothing was drawn since the last call.
            ValueError: If there are more or fewer errors than items.
            NonFiniteError: If an error is NaN or infinite; no priority is changed.
        """
        if self._last_index is None:
            raise RuntimeError("update_errors needs a sample before it, whose errors are not written back yet")
        PriorityWeightError.update_priorities(self, self._last_index, errors)  # a subclass's method may call this one

    def update_priorities(self, index: Any, td_error: Any) -> None:
        """Update the priorities of sampled items from their errors; items removed since the draw are skipped.

        Args:
            index: `Batch.index` of the batch from which the errors were computed, shape [n].
            td_error: The errors, a tensor or array, shape [n]; their absolute values are used.

        Raises:
            ValueError: If the lengths differ or an index belongs to no item so far.
            NonFiniteError: If an error is NaN or infinite; no priority is changed.
        """
        self._priorities.update(_on_host(index), self.priority_from_errors(td_error))
        self._last_index = None

    def weights_from_probabilities(self, probabilities: Any, min_probability: float) -> Floats:
        """Compute the importance weights of a draw, shape [n], and anneal beta by one step.

        Args:
            probabilities: The probability of each item in the first draw, shape [n].
            min_probability: The smallest such probability of any stored item; used only if weights are normalised over
                the memory.
        """
        probability = np.asarray(probabilities, np.float64)
        if self.normalize_by_max == "memory":
            reference = min_probability
        elif self.normalize_by_max:
            reference = smallest(probability) if len(probability) else 1.0
        else:
            reference = 1.0 / len(self._priorities)
        weight: Floats = (probability / reference) ** -self.beta
        self.beta = min(1.0, self.beta + self.beta_add)
        return weight

    def _own_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        priorities = self._priorities
        header = {"beta": self.beta, "max_priority": priorities.max_priority, "tree": priorities.layout()}
        return header, {"priority": priorities.to_array()}

    def _load_own_state(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]], first: int, n: int) -> None:
        if not {"beta", "max_priority"} <= set(header) or "priority" not in arrays:
            raise ValueError("the saved buffer holds no priorities, expected one that a prioritised buffer has saved")
        beta, priority = float(header["beta"]), arrays["priority"]
        _require(0.0 <= beta <= 1.0, "beta", beta, "a number from 0 to 1")
        if priority.shape != (n,):
            raise ValueError(f"the saved priorities have shape {priority.shape}, expected one for each of {n} items")
        self._priorities = Priorities.from_array(priority, float(header["max_priority"]), first, header.get("tree"))
        self.beta, self._last_index = beta, None


class PrioritizedReplayBuffer(PriorityWeightError, ReplayBuffer):
    """Replay buffer of transitions, or n-step transitions, drawn in proportion to their priorities.

    `sample` puts the weight under "weight" into the first dict of each item, `sample_batch` into `Batch.weight`. The
    errors are written back with `update_errors` (last sample) or `update_priorities` (any sample). Items have sequence
    numbers, so several batches can wait for their errors at once. `PriorityWeightError` has the equations of priorities
    and weights.

    Args:
        capacity: Largest number of items, beyond which the oldest are removed; None if unbounded.
        alpha: Exponent of the priorities, >= 0; 0 draws uniformly.
        beta0: Exponent of the weights at the first draw, from 0 to 1.
        betasteps: Number of draws over which the exponent of the weights grows to 1; None keeps it at `beta0`.
        eps: Added to the absolute errors, >= 0; a positive number lets items of error 0 be drawn again.
        normalize_by_max: Divide the weights by the largest one of the minibatch (True or "batch"), by the largest one
            that any stored item would have ("memory"), or not at all (False).
        error_min: Smaller absolute errors count as this; None for no limit.
        error_max: Larger absolute errors count as this; None for no limit.
        num_steps: Transitions per item, for n-step returns (Sutton and Barto 2018, eq. 7.1).
        rng: Source of randomness; None is the global NumPy stream.

    Raises:
        ValueError: Naming the argument that is out of its range.
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
        ReplayBuffer.__init__(self, capacity, num_steps, rng=rng)
        PriorityWeightError.__init__(self, alpha, beta0, betasteps, eps, normalize_by_max, error_min, error_max)

    def _draw(self, n: int) -> tuple[Index, Floats | None]:
        index, probability = self._priorities.draw(n, 0.0, self._rng)
        self._last_index = index
        lowest = self._priorities.min_probability() if self.normalize_by_max == "memory" else math.nan
        return index, self.weights_from_probabilities(probability, lowest)

    def _items_added(self, first: int, count: int) -> None:
        self._priorities.append(count)

    def _items_dropped(self, first: int, count: int) -> None:
        self._priorities.popleft(count)


def _require(holds: bool, name: str, value: Any, expected: str) -> None:
    if not holds:
        raise ValueError(f"{name} is {value!r}, expected {expected}")


def _on_host(values: Any) -> Any:
    """The numbers of a tensor on any device as an array; other values are returned unchanged."""
    if not isinstance(values, torch.Tensor):
        return values
    return (values.double() if values.is_floating_point() else values).numpy(force=True)  # NumPy has no bfloat16
