"""`ActionValue`, the interface of action values, and `lazy_attribute`, a decorator for cached attributes."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from pfrl_like.functions.losses import huber, td_target

#: Function from TD errors to losses, element by element.
Elementwise = Callable[[Tensor], Tensor]
#: Loss, error and Q(s, a) of each row, each [B].
Losses = tuple[Tensor, Tensor, Tensor]


class ActionValue(ABC):
    """Values Q(s, .) of the actions in a batch of states."""

    @property
    @abstractmethod
    def greedy_actions(self) -> Tensor:
        """argmax_a Q(s, a), [B, ...]. Discrete actions are detached."""

    @property
    @abstractmethod
    def max(self) -> Tensor:
        """max_a Q(s, a), [B]."""

    @abstractmethod
    def evaluate_actions(self, actions: Tensor) -> Tensor:
        """Return Q(s, a) for one action per state, [B]."""

    @property
    @abstractmethod
    def params(self) -> tuple[Tensor, ...]:
        """The tensors that define the action values."""

    def __getitem__(self, i: Any) -> "ActionValue":
        """Return the values of the states that the index `i` selects. An integer selects a batch of size 1.

        Raises:
            TypeError: If this class does not support indexing.
        """
        raise TypeError(f"{type(self).__name__} does not support indexing")

    def masked(self, action_mask: Any) -> "ActionValue":
        """Return the values, restricted to the actions that `action_mask` allows.

        Raises:
            TypeError: If the actions of this class are not discrete.
        """
        raise TypeError(f"action_mask was passed, but {type(self).__name__} has no discrete actions")

    def compute_advantage(self, actions: Tensor) -> Tensor:
        """Return Q(s, a) - max_b Q(s, b), [B]."""
        return self.evaluate_actions(actions) - self.max

    def compute_double_advantage(self, actions: Any, argmax_actions: Tensor) -> Tensor:
        """Return Q(s, a) - Q(s, b), [B], for the greedy actions b of another Q-function."""
        return self.evaluate_actions(actions) - self.evaluate_actions(argmax_actions)

    def td_loss(
        self,
        action: Tensor,
        reward: Tensor,
        discount: Tensor,
        next_value: Any,
        next_action: Tensor | None = None,
        elementwise: Elementwise = huber,
    ) -> Losses:
        """Return the loss of a minibatch for one-step or n-step targets.

        Args:
            action: Executed actions, [B, ...].
            reward: Sum of the n discounted rewards, [B].
            discount: gamma**n, [B]. 0 if the n steps ended in a terminal state.
            next_value: `ActionValue` of the states after the n steps. It has the same class. No gradient flows into it.
            next_action: Actions whose values in `next_value` are used in the target. If None, the greedy actions are
                used.
            elementwise: Function from TD errors to losses, element by element. Distributional classes ignore this
                argument, because they have their own losses.

        Returns:
            The loss of each row, [B], and two detached tensors [B]: the error of each row, and Q(s, a). The error is
            target - Q(s, a), unless the class documents a different error. Prioritised replay uses the error as
            priority.
        """
        value = self.evaluate_actions(action)
        with torch.no_grad():
            bootstrap = next_value.max if next_action is None else next_value.evaluate_actions(next_action)
            target = td_target(reward, discount, bootstrap)
        error = target - value  # the computation of `target_loss`, inlined for speed
        return elementwise(error), error.detach(), value.detach()

    def target_loss(self, action: Tensor, target: Tensor, elementwise: Elementwise = huber) -> Losses:
        """Return the loss of Q(s, a) for given target values. If the class is distributional, Q(s, a) is the mean.

        Args:
            action: Executed actions, [B, ...].
            target: Target of Q(s, a), [B].
            elementwise: Function from TD errors to losses, element by element.

        Returns:
            The loss of each row, [B], and two detached tensors [B]: the error target - Q(s, a), and Q(s, a).
        """
        value = self.evaluate_actions(action)
        error = target - value
        return elementwise(error), error.detach(), value.detach()


def as_rows(i: Any, n: int) -> Any:
    """Convert an integer index to a slice of one row, so that indexing keeps the batch axis.

    Any other index is returned unchanged. `n` is the number of rows.

    Raises:
        IndexError: If the index is an integer out of range. This error ends a `for` loop over an `ActionValue`.
    """
    if not isinstance(i, int | np.integer):
        return i
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of range for the values of {n} states")
    return slice(int(i), int(i) + 1 or None)


Value = TypeVar("Value")


class lazy_attribute(Generic[Value]):
    """Attribute that is computed at its first access, like `functools.cached_property`.

    In Python 3.11, `functools.cached_property` has a lock, which `torch.compile` cannot trace.

    Args:
        function: Method that computes the attribute.
    """

    def __init__(self, function: Callable[[Any], Value]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Value:
        if instance is None:
            return self  # type: ignore[return-value]  # the attribute was read from the class
        value = self.function(instance)
        setattr(instance, self.name, value)  # later accesses read this value and do not call the descriptor
        return value
