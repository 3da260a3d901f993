"""Attributes of agents that users of PFRL set after construction. A change counts from the next step."""

import types
from collections.abc import Callable
from typing import Any, TypeVar

from torch import nn

from pfrl_like.learning.compatibility.parts import check_kinds, check_max_grad_norm, check_optimizers
from pfrl_like.optimizers.compiled_step import CompiledStep
from pfrl_like.preprocessing.features import FeatureExtractor, identity
from pfrl_like.utils.checks import check_function

Class = TypeVar("Class", bound=type[Any])
#: Function called as (agent, name, new value). It updates what depends on the value, and returns the value to store.
Change = Callable[[Any, str, Any], Any]


def change_features(agent: Any, name: str, value: Any) -> Any:
    """Replace the agent's feature extractor after a change of `phi` or `batch_states`.

    Raises:
        TypeError: If the new value is not a function. Nothing is changed.
    """
    value = identity if name == "phi" and value is None else value
    check_function(**{name: value})
    parts = {"phi": agent.phi, "batch_states": agent.batch_states, name: value}
    agent._set_features(FeatureExtractor(parts["phi"], parts["batch_states"]))
    return value


def change_max_norm(agent: Any, name: str, value: float | None) -> float | None:
    """Change the maximum norm of the gradient in the agent's gradient steps.

    Raises:
        TypeError: If the new value is neither a number nor None. Nothing is changed.
        ValueError: If the new value is not positive. Nothing is changed.
    """
    check_max_grad_norm(types.SimpleNamespace(max_grad_norm=value))
    for step in (agent.gradient_steps or {}).values():
        step.max_grad_norm = value
    _compile_again(agent, {}, value)
    return value


def change_optimizer(agent: Any, name: str, value: Any) -> Any:
    """Make the agent's later gradient steps with another optimiser.

    Raises:
        TypeError: If the new value is not an optimiser. Nothing is changed.
        ValueError: If the new optimiser contains no parameter of the agent's modules. Nothing is changed.
    """
    modules = {key: part for key, part in vars(agent).items() if isinstance(part, nn.Module) and "target" not in key}
    check_kinds({}, {name: value})
    check_optimizers(agent, modules, {name: value})
    agent.gradient_steps[name].set_optimizer(value)
    _compile_again(agent, {name: value}, agent.max_grad_norm)
    return value


def _compile_again(agent: Any, changed: dict[str, Any], max_grad_norm: float | None) -> None:
    if (step := agent._compiled) is not None:  # the same object, because recorders of a run hold it
        again = CompiledStep(agent.update_step, {**step.optimizers, **changed}, max_grad_norm)
        vars(step).update({**vars(again), "trail": step.trail})


class Setting:
    """Descriptor of an attribute. After construction, a change of the attribute calls a function.

    Args:
        name: Name of the attribute.
        change: The function.

    Raises:
        AttributeError: If the attribute is read before it is set. If it is an optimiser that the agent does not have,
            also when it is set.
    """

    def __init__(self, name: str, change: Change) -> None:
        self.name, self.change = name, change

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is not None and self.name not in vars(instance):
            raise AttributeError(f"{owner.__name__} has no attribute {self.name!r}", name=self.name, obj=instance)
        return self if instance is None else vars(instance)[self.name]

    def __set__(self, instance: Any, value: Any) -> None:
        if self.name in vars(instance):
            value = self.change(instance, self.name, value)
        elif self.change is change_optimizer and self.name not in (vars(instance).get("gradient_steps") or [self.name]):
            text = f"{type(instance).__name__} has no {self.name}, expected {' or '.join(instance.gradient_steps)}"
            raise AttributeError(f"{text}; give an optimiser of your own another name")
        vars(instance)[self.name] = value


def settings(**changes: Change) -> Callable[[Class], Class]:
    """Class decorator that makes attributes a `Setting`. The functions are keyed by the name of the attribute."""

    def declare(cls: Class) -> Class:
        for name, change in changes.items():
            type.__setattr__(cls, name, Setting(name, change))
        return cls

    return declare
