"""The interface of explorers."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from pfrl_like.utils.reprs import never_raising, with_arguments

#: Attributes that define how a class selects actions.
_CHOICE = {"select_action", "select_actions", "reads_action_value", "action_kinds"}


class Explorer(ABC):
    """Selects the actions of an agent in training.

    A new explorer must define only `select_action`. An explorer that can select actions for many environments at once
    also overrides `select_actions`. If a class inherits both methods and overrides only `select_action` (itself or by a
    mix-in), the class uses the `select_actions` of `Explorer`, which calls the new `select_action`. The same applies if
    a `select_action` is assigned to a class or an explorer.
    """

    #: True if the explorer reads more of the action value than its `action_mask`. If False, agents compute only the
    #: mask.
    reads_action_value: bool = True
    #: Kinds of actions that the explorer supports. Agents with other kinds of actions reject the explorer.
    action_kinds: tuple[str, ...] = ("discrete", "continuous")

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        chooses = next(base for base in cls.__mro__ if _CHOICE & vars(base).keys())
        for name in ("reads_action_value", "action_kinds"):
            if name not in vars(chooses):  # a class with its own method may read everything and select any action
                setattr(cls, name, vars(Explorer)[name])
        definer = next(base for base in cls.__mro__ if vars(base).keys() & {"select_action", "select_actions"})
        if "select_actions" not in vars(definer):
            cls.select_actions = Explorer.select_actions  # type: ignore[method-assign]
        cls._select_action = cls.select_action  # type: ignore[attr-defined]  # the original method

    @never_raising
    def __repr__(self) -> str:
        return with_arguments(self, "epsilon")

    @abstractmethod
    def select_action(self, t: int, greedy_action_func: Callable[[], Any], action_value: Any = None) -> Any:
        """Select an action for one environment.

        Args:
            t: Number of steps so far.
            greedy_action_func: Function without arguments that returns the greedy action.
            action_value: `ActionValue` of a batch of size 1, for explorers that need more than the greedy action.
                Agents without action values pass None or, if actions are masked, an object that contains only the mask.
                If `action_value` has an `action_mask`, the explorer must select an allowed action.
        """

    def select_actions(self, t: int, greedy_actions: Any, action_value: Any = None, active: Any = None) -> Any:
        """Select an action for each of k environments.

        For k = 1 the method uses the same random numbers and returns the same action as `select_action`.

        Args:
            t: Number of steps so far.
            greedy_actions: Greedy actions, array [k, ...].
            action_value: `ActionValue` of a batch of size k, for explorers that need more than the greedy action.
                Agents without action values pass None or, if actions are masked, an object that contains only the mask.
                If `action_value` has an `action_mask`, the explorer must select allowed actions.
            active: False for environments whose action is ignored, [k]. They get the greedy action and use no random
                numbers.

        Returns:
            Actions, [k, ...].
        """
        return _one_by_one(self, t, greedy_actions, action_value, active)

    def state_dict(self) -> dict[str, Any]:
        """Return the state needed to resume exactly: only numbers, strings, lists and dicts. It is often empty."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned.

        Raises:
            ValueError: If the state belongs to a different type of explorer.
        """
        if state:
            raise ValueError(f"state has {sorted(state)}, but {type(self).__name__} has no state")


def select_actions(explorer: Any, t: int, greedy_actions: Any, action_value: Any = None, active: Any = None) -> Any:
    """Call `explorer.select_actions`; if the object has only `select_action`, call it for each environment."""
    cls = type(explorer)
    if (
        hasattr(cls, "select_actions")  # check the class, because a mock has every attribute
        and "select_action" not in getattr(explorer, "__dict__", ())
        and getattr(cls, "_select_action", cls.select_action) is cls.select_action
    ):
        return explorer.select_actions(t, greedy_actions, action_value, active)
    return _one_by_one(explorer, t, greedy_actions, action_value, active)


def _one_by_one(explorer: Any, t: int, greedy_actions: Any, action_value: Any, active: Any) -> Any:
    def choose(i: int) -> Any:
        if active is not None and not active[i]:
            return greedy_actions[i]
        action = explorer.select_action(
            t, lambda: greedy_actions[i], action_value=None if action_value is None else action_value[i : i + 1]
        )
        if mask is not None and np.ndim(action) == 0 and mask[i].any() and not mask[i][int(action)]:
            raise ValueError(
                f"{type(explorer).__name__}.select_action chose {action}, which the action mask forbids: expected one "
                f"that action_value.action_mask allows, {mask[i].nonzero().flatten().tolist()}"
            )
        return action

    mask = getattr(action_value, "action_mask", None)
    return np.asarray([choose(i) for i in range(len(greedy_actions))])
