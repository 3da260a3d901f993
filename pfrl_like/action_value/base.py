"""The interface of action values, the TD loss of scalar values, and lazily computed attributes."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from pfrl_like.functions.losses import huber, td_target


class ActionValue(ABC):
    """Q(s, .) of a batch of states."""

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
        """Return the values of selected states; an integer selects a batch of size 1.

        Raises:
            TypeError: If this class does not support indexing.
        """
        raise TypeError(f"{type(self).__name__} does not support indexing")

    def masked(self, action_mask: Any) -> "ActionValue":
        """Return the values with only some actions allowed.

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
        elementwise: Callable[[Tensor], Tensor] = huber,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss of a minibatch for one-step or n-step targets.

        Args:
            action: Executed actions, [B, ...].
            reward: Sum of the n discounted rewards, [B].
            discount: gamma**n, or 0 if the n steps ended in a terminal state, [B].
            next_value: `ActionValue` of the states after the n steps, of the same class; no gradient flows into it.
            next_action: Actions to bootstrap from; None uses the greedy actions of `next_value`.
            elementwise: Function that returns the losses of TD errors. Distributional classes have their own losses and
                ignore it.

        Returns:
            Loss, [B], and two detached tensors: the error of each row, [B], used as priority (target - Q(s, a), or an
            equivalent of the class), and Q(s, a), [B].
        """
        value = self.evaluate_actions(action)
        with torch.no_grad():
            bootstrap = next_value.max if next_action is None else next_value.evaluate_actions(next_action)
            target = td_target(reward, discount, bootstrap)
        error = target - value  # same as target_loss; inlined for speed
        return elementwise(error), error.detach(), value.detach()

    def target_loss(
        self, action: Tensor, target: Tensor, elementwise: Callable[[Tensor], Tensor] = huber
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss of Q(s, a) for target values; distributional classes compare their means with the targets.

        Args:
            action: Executed actions, [B, ...].
            target: Target of Q(s, a), [B]; no gradient flows into it.
            elementwise: Function that returns the losses of TD errors.

        Returns:
            Loss, [B], and two detached tensors: the error of each row, [B], used as priority (target - Q(s, a), or an
            equivalent of the class), and Q(s, a), [B].
        """
        value = self.evaluate_actions(action)
        error = target - value
        return elementwise(error), error.detach(), value.detach()


def as_rows(i: Any, n: int) -> Any:
    """Convert an index into `n` rows so that the result has the batch axis.

    Raises:
        IndexError: If the index is an integer out of range. The error ends a loop over the rows.
    """
    if not isinstance(i, int | np.integer):
        return i
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of range for the values of {n} states")
    return slice(int(i), int(i) + 1 or None)


Value = TypeVar("Value")


class lazy_attribute(Generic[Value]):
    """`functools.cached_property` without the lock of Python 3.11, which a compiler cannot trace.

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
        setattr(instance, self.name, value)  # later reads find the attribute before this descriptor
        return value
