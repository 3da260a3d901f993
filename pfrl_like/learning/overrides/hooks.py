"""The one mechanism that finds overridden methods of PFRL's agents: at the class, beside it, or on an instance."""

import functools
import inspect
from abc import ABCMeta
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any, cast

from pfrl_like.batch import Batch
from pfrl_like.learning.overrides.experiences import experiences_of
from pfrl_like.learning.overrides.hook_table import HOOKS, NAMES, Hook

_PACKAGE = __name__.partition(".")[0]

#: Rows of the table by class and name.
_ROWS = {(hook.owner, hook.name): hook for hook in HOOKS}
#: Those that are called at every step, and need no indirection.
_DIRECT = {("OffPolicyAgent", "update")}


class HookMethod:
    """A method of an agent that PFRL's users override: assigning it to an instance counts, or is refused.

    Args:
        hook: Its row of the table.
        function: Its body here; None if it is refused.
    """

    def __init__(self, hook: Hook, function: Callable[..., Any] | None) -> None:
        self.hook, self.function = hook, function
        self.__doc__ = getattr(function, "__doc__", None)
        self.__isabstractmethod__ = False

    def __get__(self, agent: Any, owner: type | None = None) -> Any:
        name = self.hook.name
        if agent is not None and name in vars(agent) and name not in type(agent).overridden_hooks:
            return vars(agent)[name]
        if agent is None:
            return self.function or self
        if self.function is None:
            raise AttributeError(f"{self.hook.owner} has no {name} here: see {self.hook.replacement}", name=name)
        return MethodType(self.function, agent)

    def __set__(self, agent: Any, value: Any) -> None:
        if self.hook.outcome == "refused":
            raise self.hook.refusal(type(agent).__name__)
        if getattr(agent, "_compiled", None) is not None:
            name = self.hook.name
            raise TypeError(f"{name} is assigned to an agent that was built with compile=True, which does not call it")
        if isinstance(value, MethodType) and value.__self__ is agent:  # pickled, it would be found again by its name
            value = functools.partial(value.__func__, agent)
        vars(agent)[self.hook.name] = value
        agent.overridden_hooks = agent.overridden_hooks | {self.hook.name}

    def __delete__(self, agent: Any) -> None:
        if self.hook.name not in vars(agent):
            raise AttributeError(f"{self.hook.name} is not assigned to this {type(agent).__name__}")
        del vars(agent)[self.hook.name]
        own = NAMES & vars(agent).keys()
        agent.overridden_hooks = type(agent).overridden_hooks | own


class HookType(ABCMeta):
    """Class of agent classes: knows, once a class is made, which of PFRL's methods it overrides.

    Attributes:
        overridden_hooks: Names of the methods of the table that the class overrides and that are called; `update` of
            agents with a replay buffer is among them only in PFRL's form, with another first argument than `batch`. An
            agent that a method was assigned to has an attribute of its own of this name.

    Raises:
        TypeError: If a class overrides, or is assigned, a method that is not called here. It names the replacement.
    """

    overridden_hooks: frozenset[str]

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(name, bases, namespace, **kwargs)
        if _is_ours(cls):
            for (owner, method), hook in _ROWS.items():
                if owner == name and (owner, method) not in _DIRECT:
                    is_inherited = method not in namespace and hook.outcome != "refused"
                    own = getattr(super(cls, cls), method) if is_inherited else namespace.get(method)
                    type.__setattr__(cls, method, HookMethod(hook, own))
        resolve_hooks(cls)

    def __setattr__(cls, name: str, value: Any) -> None:
        hook = _ROWS.get((cls.__name__, name)) if _is_ours(cls) else None
        if hook is not None and (cls.__name__, name) not in _DIRECT and not _is_foreign(value):  # a patch is taken back
            value = value if isinstance(value, HookMethod) else HookMethod(hook, value)
        before = vars(cls).get(name)
        super().__setattr__(name, value)
        if name not in NAMES:
            return
        try:
            _resolve_all(cls)
        except TypeError:
            if before is None:
                super().__delattr__(name)
            else:
                super().__setattr__(name, before)
            raise

    def __delattr__(cls, name: str) -> None:
        super().__delattr__(name)
        if name in NAMES:
            _resolve_all(cls)


def _resolve_all(cls: HookType) -> None:
    resolve_hooks(cls)
    for each in cast(list[HookType], cls.__subclasses__()):
        _resolve_all(each)


def resolve_hooks(cls: HookType) -> None:
    """Find which hooks a class overrides, and give its `update` what it takes.

    Constructors call it again, for a mix-in may have been given a method since the class was made.

    Raises:
        TypeError: If it overrides a method that is not called here.
    """
    found = set()
    for hook in _hooks_of(cls):
        definer = next((base for base in cls.__mro__ if hook.name in vars(base)), None)
        if definer is None or (_is_ours(definer) and not _is_foreign(vars(definer)[hook.name])):
            continue
        function = vars(definer)[hook.name]
        if hook.outcome == "refused":
            raise hook.refusal(cls.__name__)
        if hook.name == "update" and hook.arguments.startswith("experiences"):
            if arguments_of(function)[1:2] == ["batch"]:
                continue
            if getattr(function, "given_experiences", None) is not function:
                type.__setattr__(cls, "update", _given_experiences(function))
        found.add(hook.name)
    type.__setattr__(cls, "overridden_hooks", frozenset(found))


def _hooks_of(cls: type) -> Iterator[Hook]:
    """The rows of the table that hold for a class: of each name that of the nearest class of this package."""
    seen = set()
    for base in cls.__mro__:
        for name in NAMES if _is_ours(base) else ():
            hook = _ROWS.get((base.__name__, name))
            if hook is not None and name not in seen:
                seen.add(name)
                yield hook


def _is_foreign(value: Any) -> bool:
    """True for a method that is not of this package, by where its code stands: a wrapper has the module of another."""
    if isinstance(value, HookMethod):
        return False
    module = getattr(value, "__globals__", {}).get("__name__", "")
    return getattr(value, "given_experiences", None) is value or module.partition(".")[0] != _PACKAGE


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == _PACKAGE


def arguments_of(function: Callable[..., Any]) -> list[str]:
    """Names of the arguments of a function, with `self` unless it is bound."""
    return [*inspect.signature(function).parameters]


def _given_experiences(update: Callable[..., Any]) -> Callable[..., Any]:
    """An `update` of PFRL's form that may also be called with a `Batch`, as offline runners and learners do."""

    @functools.wraps(update)
    def given_experiences(self: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(batch, Batch):
            return update(self, batch, *args, **kwargs)
        updates = self.optim_t
        learnt = update(self, experiences_of(batch, self.gamma), *args, **kwargs)
        if self.optim_t == updates:
            self.count_update()
        return (self.td_errors(batch), {}) if learnt is None else learnt

    given_experiences.given_experiences = given_experiences  # type: ignore[attr-defined]
    return given_experiences
