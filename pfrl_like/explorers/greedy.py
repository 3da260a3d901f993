"""An explorer that does not explore."""

from collections.abc import Callable
from typing import Any

from pfrl_like.explorer import Explorer


class Greedy(Explorer):
    """Always selects the greedy action."""

    reads_action_value = False

    def select_action(self, t: int, greedy_action_func: Callable[[], Any], action_value: Any = None) -> Any:
        """Return the greedy action."""
        return greedy_action_func()

    def select_actions(self, t: int, greedy_actions: Any, action_value: Any = None, active: Any = None) -> Any:
        """Return the greedy actions, [k, ...]."""
        return greedy_actions
