"""The interface of explorers."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from pfrl_like.utils.checks import names_unknown_keywords, takes_integral_floats
from pfrl_like.utils.reprs import never_raising, with_arguments

#: Attributes that a class must define together. If a class defines only some of them, it gets the defaults of
#: `Explorer` for `reads_action_value` and `action_kinds`.
_SELECTION = {"select_action", "select_actions", "reads_action_value", "action_kinds"}


class Explorer(ABC):
    """Selects the actions of an agent in training.

    A new explorer must define only `select_action`. To select the actions of many environments in one call, an explorer
    also overrides `select_actions`. If a subclass or a mix-in overrides only `select_action`, the class uses the
    `select_actions` of `Explorer`, which calls the new `select_action` for each environment. The same happens if a user
    assigns a function to `select_action` of a class or an explorer.
    """

    #: True if the explorer reads attributes of `action_value` other than `action_mask`. If False, agents may pass an
    #: object that contains only the mask.
    reads_action_value: bool = True
    #: Supported actions: "discrete", "continuous" or both. An agent with other actions rejects the explorer.
    action_kinds: tuple[str, ...] = ("discrete", "continuous")

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in vars(cls):
            cls.__init__ = names_unknown_keywords(takes_integral_floats(cls.__init__))  # type: ignore[method-assign]
        selecting_base = next(base for base in cls.__mro__ if _SELECTION & vars(base).keys())
        for name in ("reads_action_value", "action_kinds"):
            if name not in vars(selecting_base):  # the new method may read all attributes and select any action
                setattr(cls, name, vars(Explorer)[name])
        method_base = next(base for base in cls.__mro__ if vars(base).keys() & {"select_action", "select_actions"})
        if "select_actions" not in vars(method_base):
            cls.select_actions = Explorer.select_actions  # type: ignore[method-assign]
        cls._select_action = cls.select_action  # type: ignore[attr-defined]  # the original method

    @never_raising
    def __repr__(self) -> str:
        return with_arguments(self, "epsilon")

    @abstractmethod
    def select_action(self, t: int, greedy_action_func: Callable[[], Any], action_value: Any = None) -> Any:
        """Select an action for one environment.

        Args:
            t: Number of training steps so far, summed over all environments.
            greedy_action_func: Function without arguments that returns the greedy action.
            action_value: `ActionValue` of a batch of size 1, for explorers that need more than the greedy action.
                Agents without action values pass None or, if actions are masked, an object that contains only the mask.
                If `action_value` has an `action_mask`, the explorer must select an allowed action.
        """

    def select_actions(self, t: int, greedy_actions: Any, action_value: Any = None, active: Any = None) -> Any:
        """Select an action for each of k environments.

        For k = 1 the method uses the same random numbers and returns the same action as `select_action`.

        Args:
            t: Number of training steps so far, summed over all environments.
            greedy_actions: Greedy actions, array [k, ...].
            action_value: `ActionValue` of a batch of size k, for explorers that need more than the greedy action.
                Agents without action values pass None or, if actions are masked, an object that contains only the mask.
                If `action_value` has an `action_mask`, the explorer must select allowed actions.
            active: False for environments whose action is ignored, [k]. Their result is the greedy action, and no
                random numbers are used for them. If None, all environments are active.

        Returns:
            Actions, [k, ...].
        """
        return _one_by_one(self, t, greedy_actions, action_value, active)

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a run needs to resume exactly, {} for an explorer without state.

        The state contains only numbers, strings, lists and dicts.
        """
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned.

        Raises:
            ValueError: If the state was saved by an explorer of a different class.
        """
        if state:
            raise ValueError(f"state has {sorted(state)}, expected an empty state for {type(self).__name__}")


def select_actions(explorer: Any, t: int, greedy_actions: Any, action_value: Any = None, active: Any = None) -> Any:
    """Call `select_actions` of an explorer.

    If the explorer has no `select_actions`, or if a user has assigned a function to its `select_action`, call
    `select_action` for each environment.
    """
    cls = type(explorer)
    if (
        hasattr(cls, "select_actions")  # check the class, because a mock has every attribute
        and "select_action" not in getattr(explorer, "__dict__", ())
        and getattr(cls, "_select_action", cls.select_action) is cls.select_action
    ):
        return explorer.select_actions(t, greedy_actions, action_value, active)
    return _one_by_one(explorer, t, greedy_actions, action_value, active)


def _one_by_one(explorer: Any, t: int, greedy_actions: Any, action_value: Any, active: Any) -> Any:
    def select(i: int) -> Any:
        if active is not None and not active[i]:
            return greedy_actions[i]
        value = None if action_value is None else action_value[i : i + 1]
        action = explorer.select_action(t, lambda: greedy_actions[i], action_value=value)
        if mask is not None and np.ndim(action) == 0 and mask[i].any() and not mask[i][int(action)]:
            expected = f"an action that action_value.action_mask allows, one of {mask[i].nonzero().flatten().tolist()}"
            raise ValueError(f"{type(explorer).__name__}.select_action returned {action}, expected {expected}")
        return action

    mask = getattr(action_value, "action_mask", None)
    return np.asarray([select(i) for i in range(len(greedy_actions))])
