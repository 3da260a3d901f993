"""The interface of action values, the loss of plain numbers, and attributes that are computed once."""

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
        """argmax_a Q(s, a), [B, ...], detached where actions are discrete."""

    @property
    @abstractmethod
    def max(self) -> Tensor:
        """max_a Q(s, a), [B]."""

    @abstractmethod
    def evaluate_actions(self, actions: Tensor) -> Tensor:
        """Return Q(s, a) of one action for each state, [B]."""

    @property
    @abstractmethod
    def params(self) -> tuple[Tensor, ...]:
        """The tensors that everything else is computed from."""

    def __getitem__(self, i: Any) -> "ActionValue":
        """Return the values of some states; an integer selects a batch of one.

        Raises:
            TypeError: If this form cannot be indexed.
        """
        raise TypeError(f"{type(self).__name__} cannot be indexed")

    def masked(self, action_mask: Any) -> "ActionValue":
        """Return the values with only some actions allowed.

        Raises:
            TypeError: If this form has no discrete actions.
        """
        raise TypeError(f"action_mask was given, but {type(self).__name__} has no list of actions to choose from")

    def compute_advantage(self, actions: Tensor) -> Tensor:
        """Return Q(s, a) - max_b Q(s, b), [B]."""
        return self.evaluate_actions(actions) - self.max

    def compute_double_advantage(self, actions: Any, argmax_actions: Tensor) -> Tensor:
        """Return Q(s, a) - Q(s, b), where b are the greedy actions of another Q-function, [B]."""
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
        """Loss of a minibatch against one- or n-step targets.

        Args:
            action: Actions taken, [B, ...].
            reward: Sum of the n discounted rewards, [B].
            discount: gamma**n, or 0 where the n steps ended in a terminal state, [B].
            next_value: Value of the states after the n steps, of the same form as this one; takes no gradient.
            next_action: Actions to bootstrap from; None for the greedy ones of `next_value`.
            elementwise: Loss of a TD error. Distributional forms have losses of their own and ignore it.

        Returns:
            Loss, [B], and detached: the error of each row (target - Q(s, a), or the equivalent of the form; for
            priorities), and Q(s, a), both [B].
        """
        value = self.evaluate_actions(action)
        with torch.no_grad():
            bootstrap = next_value.max if next_action is None else next_value.evaluate_actions(next_action)
            target = td_target(reward, discount, bootstrap)
        error = target - value  # as in target_loss; calling it would cost more than these lines
        return elementwise(error), error.detach(), value.detach()

    def target_loss(
        self, action: Tensor, target: Tensor, elementwise: Callable[[Tensor], Tensor] = huber
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Loss of Q(s, a) against target values; distributional forms compare their means with them.

        Args:
            action: Actions taken, [B, ...].
            target: Target of Q(s, a), [B]; takes no gradient.
            elementwise: Loss of a TD error.

        Returns:
            Loss, [B], and detached: the error of each row (target - Q(s, a), or the equivalent of the form; for
            priorities), and Q(s, a), both [B].
        """
        value = self.evaluate_actions(action)
        error = target - value
        return elementwise(error), error.detach(), value.detach()


def as_rows(i: Any, n: int) -> Any:
    """Convert an index into `n` rows so that it keeps the batch axis.

    Raises:
        IndexError: If it is an integer out of range; this ends a loop over the rows.
    """
    if not isinstance(i, int | np.integer):
        return i
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of range for the values of {n} states")
    return slice(int(i), int(i) + 1 or None)


Value = TypeVar("Value")


class lazy_attribute(Generic[Value]):
    """`functools.cached_property` without the lock that it has in Python 3.11, which a compiler cannot trace.

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
            return self  # type: ignore[return-value]  # the class itself has no such attribute
        value = self.function(instance)
        setattr(instance, self.name, value)  # found before this descriptor
        return value
