"""What `scores.py` trains: families of agents, each with tasks, hyperparameters, and a function that makes an agent."""

import dataclasses
import types
from typing import Any

from score_tasks import actor_critics, asynchronous, on_policy, value_based
from score_tasks.task import Task

FAMILIES: tuple[types.ModuleType, ...] = (value_based, on_policy, asynchronous, actor_critics)
TASKS: dict[str, Task] = {task: each for family in FAMILIES for task, each in family.TASKS.items()}


def family_of(task: str) -> types.ModuleType:
    """The family whose task it is."""
    return next(family for family in FAMILIES if task in family.TASKS)


def settings_of(task: str, name: str) -> dict[str, Any]:
    """The hyperparameters of one agent on one task."""
    family = family_of(task)
    common, own = family.SETTINGS[task], family.OWN.get((task, name), {})
    return {**common, **own, "agent": {**common["agent"], **own.get("agent", {})}}


def change(task: str, name: str, changes: dict[str, Any]) -> None:
    """Change settings of one agent on one task in this process; "steps" are those of the task."""
    rest = dict(changes)
    if "steps" in rest:
        TASKS[task] = dataclasses.replace(TASKS[task], steps=rest.pop("steps"))
    own = family_of(task).OWN
    before = own.get((task, name), {})
    own[task, name] = {**before, **rest, "agent": {**before.get("agent", {}), **rest.get("agent", {})}}


def make_agent(task: str, name: str, env: Any) -> Any:
    """The parts of one run, as a user would put them together."""
    return family_of(task).make_agent(task, name, env, settings_of(task, name))
