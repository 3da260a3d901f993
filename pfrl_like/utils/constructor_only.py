"""`Fixed`: an attribute that keeps its first value."""

from typing import Any

#: The remedy for what other parts of an agent were built with.
CHOSEN_ONCE = "give it to a new agent, which takes over this one's state by save and load"


class Fixed:
    """Refuses to be assigned again, where a new value would have no effect. Costs nothing to read.

    Args:
        remedy: What to do instead, as errors say it.
    """

    def __init__(self, remedy: str = CHOSEN_ONCE) -> None:
        self.remedy = remedy

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __set__(self, instance: Any, value: Any) -> None:
        if self.name in vars(instance):
            raise AttributeError(f"{self.name} of {type(instance).__name__} is fixed: {self.remedy}")
        vars(instance)[self.name] = value
