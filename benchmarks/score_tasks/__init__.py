"""What `scores.py` trains: families of agents, each with tasks and a function that makes an agent from settings."""

import dataclasses
import types
from typing import Any

from score_tasks import actor_critics, asynchronous, on_policy, value_based
from score_tasks.task import Task, presets

FAMILIES: tuple[types.ModuleType, ...] = (value_based, on_policy, asynchronous, actor_critics)
TASKS: dict[str, Task] = {task: each for family in FAMILIES for task, each in family.TASKS.items()}
#: Changed settings, by task and agent.
CHANGES: dict[tuple[str, str], dict[str, Any]] = {}


def family_of(task: str) -> types.ModuleType:
    """The family whose task it is."""
    return next(family for family in FAMILIES if task in family.TASKS)


def settings_of(task: str, name: str) -> dict[str, Any]:
    """The hyperparameters of one agent on one task: those of its preset, and what `change` has changed."""
    settings = family_of(task).settings_of(presets.preset(*TASKS[task].preset_of(name)))
    changes = CHANGES.get((task, name), {})
    return {**settings, **changes, "agent": {**settings["agent"], **changes.get("agent", {})}}


def change(task: str, name: str, changes: dict[str, Any]) -> None:
    """Change settings of one agent on one task in this process; "steps" are those of the task."""
    rest = dict(changes)
    if "steps" in rest:
        TASKS[task] = dataclasses.replace(TASKS[task], steps=rest.pop("steps"))
    before = CHANGES.get((task, name), {})
    CHANGES[task, name] = {**before, **rest, "agent": {**before.get("agent", {}), **rest.get("agent", {})}}


def make_agent(task: str, name: str, env: Any) -> Any:
    """The parts of one run, as a user would put them together."""
    return family_of(task).make_agent(task, name, env, settings_of(task, name))
