"""`ActionValue`, the interface of action values, and `lazy_attribute`, an attribute computed at its first access."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from pfrl_like.functions.losses import huber, td_target

#: Function that returns the losses of TD errors.
Elementwise = Callable[[Tensor], Tensor]
#: Loss, error and Q(s, a) of each row, each [B].
Losses = tuple[Tensor, Tensor, Tensor]


class ActionValue(ABC):
    """Values Q(s, .) of the actions in a batch of states."""

    @property
    @abstractmethod
    def greedy_actions(self) -> Tensor:
        """argmax_a Q(s, a), [B, ...]; detached if actions are discrete."""

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
            TypeError: If this class has no discrete actions.
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
            discount: gamma**n, or 0 if the n steps ended in a terminal state, [B].
            next_value: `ActionValue` of the states after the n steps, of the same class. No gradient flows into it.
            next_action: Actions to bootstrap from. If None, the greedy actions of `next_value` are used.
            elementwise: Function that returns the losses of TD errors. Distributional classes ignore this argument,
                because they have their own losses.

        Returns:
            The loss of each row, [B], and two detached tensors [B]: the error of each row, which is its priority in
            prioritised replay, and Q(s, a). The error is target - Q(s, a), unless a class documents another error.
        """
        value = self.evaluate_actions(action)
        with torch.no_grad():
            bootstrap = next_value.max if next_action is None else next_value.evaluate_actions(next_action)
            target = td_target(reward, discount, bootstrap)
        error = target - value  # same as target_loss; inlined for speed
        return elementwise(error), error.detach(), value.detach()

    def target_loss(self, action: Tensor, target: Tensor, elementwise: Elementwise = huber) -> Losses:
        """Return the loss of Q(s, a) for given target values. Distributional classes use the means as Q(s, a).

        Args:
            action: Executed actions, [B, ...].
            target: Target of Q(s, a), [B].
            elementwise: Function that returns the losses of TD errors.

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
        IndexError: If the index is an integer out of range. A `for` loop over an `ActionValue` ends at this error.
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
            return self  # type: ignore[return-value]  # accessed on the class
        value = self.function(instance)
        setattr(instance, self.name, value)  # later accesses read this value and do not call the descriptor
        return value
