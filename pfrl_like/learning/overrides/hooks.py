"""Table of the methods of PFRL 0.4's agents that a subclass may override, and detection of overrides."""

import functools
import inspect
import itertools
import tomllib
from abc import ABCMeta
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MethodType
from typing import Any, Literal, NamedTuple, cast

from pfrl_like.batch import Batch
from pfrl_like.learning.overrides.experiences import experiences_of
from pfrl_like.learning.settings import Setting

Outcome = Literal["called", "adapted", "refused"]


class Hook(NamedTuple):
    """A method of one of PFRL's agents.

    Attributes:
        owner: Name of the agent class.
        name: Name of the method.
        arguments: PFRL's arguments, without `self`.
        outcome: Treatment of an override. "called": the library calls the override as PFRL does. "adapted": the library
            calls the override with PFRL's arguments, and its result replaces one step of this library's update.
            "refused": a class that overrides the method raises TypeError.
        replacement: Method to override instead. Empty unless `outcome` is "refused".
    """

    owner: str
    name: str
    arguments: str
    outcome: Outcome
    replacement: str = ""

    def refusal(self, overrider: str) -> TypeError:
        """Return the exception for an override that is not supported.

        Args:
            overrider: Name of the class that overrides the method. If the override was assigned to an agent, the name
                of the agent's class.
        """
        return TypeError(
            f"{overrider} overrides {self.name} of PFRL's {self.owner}, which this library does not call: "
            f"override {self.replacement} instead"
        )


_TABLES = tomllib.loads(Path(__file__).with_name("hooks.toml").read_text(encoding="utf-8"))
#: Table of all methods.
HOOKS = tuple(
    Hook(owner, name, arguments, cast(Outcome, outcome), table.get("replacement", ""))
    for outcome, tables in _TABLES.items()
    for table in tables
    for owner, (name, arguments) in itertools.product(table["owners"].split(), table["methods"].items())
)

#: Names of all methods in the table.
NAMES = frozenset(hook.name for hook in HOOKS)

_PACKAGE = __name__.partition(".")[0]

#: Rows of the table, keyed by class and name.
_ROWS = {(hook.owner, hook.name): hook for hook in HOOKS}
#: Methods that are called at every update. For speed, they have no `HookMethod` and remain plain functions.
_DIRECT = {("OffPolicyAgent", "update")}


class HookMethod:
    """Descriptor of a method of PFRL's agent that users may override.

    A function that is assigned to an attribute of an agent is treated as an override. If the outcome of the hook is
    "refused", the assignment raises TypeError.

    Args:
        hook: Row of the table for this method.
        function: Default implementation. None if the outcome of the hook is "refused".
    """

    def __init__(self, hook: Hook, function: Callable[..., Any] | None) -> None:
        self.hook, self.function = hook, function
        self.__doc__ = getattr(function, "__doc__", None)
        self.__isabstractmethod__ = False

    def __get__(self, agent: Any, owner: type | None = None) -> Any:
        name = self.hook.name
        if agent is not None and name in vars(agent) and name not in type(agent)._overridden_hooks:
            return vars(agent)[name]
        if agent is None:
            return self.function or self
        if self.function is None:
            text = f"{self.hook.owner} of this library has no {name}: see {self.hook.replacement}"
            raise AttributeError(text, name=name)
        return MethodType(self.function, agent)

    def __set__(self, agent: Any, value: Any) -> None:
        if self.hook.outcome == "refused":
            raise self.hook.refusal(type(agent).__name__)
        if getattr(agent, "_compiled", None) is not None:
            name = self.hook.name
            raise TypeError(f"{name} is assigned to an agent that was built with compile=True, which does not call it")
        if isinstance(value, MethodType) and value.__self__ is agent:  # pickle would store only the name of it
            value = functools.partial(value.__func__, agent)
        vars(agent)[self.hook.name] = value
        agent._overridden_hooks = agent._overridden_hooks | {self.hook.name}

    def __delete__(self, agent: Any) -> None:
        if self.hook.name not in vars(agent):
            raise AttributeError(f"{self.hook.name} is not assigned to this {type(agent).__name__}")
        del vars(agent)[self.hook.name]
        assigned = NAMES & vars(agent).keys()
        agent._overridden_hooks = type(agent)._overridden_hooks | assigned


class HookType(ABCMeta):
    """Metaclass of agents. It records the methods of PFRL's agents that a class overrides.

    Attributes:
        _overridden_hooks: Names of the methods that the class overrides and that this library calls. For agents with a
            replay buffer, `update` is included only if its first argument is not named `batch`, as in PFRL. If a method
            is assigned to an agent, the agent gets its own attribute `_overridden_hooks`, which also contains this
            method.
        _has_own_observe: True if the class overrides `batch_observe`.

    Raises:
        TypeError: If a class overrides a method that this library does not call, or if such an override is assigned to
            the class. The message names the method to override instead.
    """

    _overridden_hooks: frozenset[str]
    _has_own_observe: bool

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(name, bases, namespace, **kwargs)
        if _is_ours(cls):
            for (owner, method), hook in _ROWS.items():
                if owner == name and (owner, method) not in _DIRECT:
                    is_inherited = method not in namespace and hook.outcome != "refused"
                    default = getattr(super(cls, cls), method) if is_inherited else namespace.get(method)
                    type.__setattr__(cls, method, HookMethod(hook, default))
        elif "__init__" in namespace:
            type.__setattr__(cls, "__init__", _checked_constructor(vars(cls)["__init__"]))
        resolve_hooks(cls)

    def __setattr__(cls, name: str, value: Any) -> None:
        hook = _ROWS.get((cls.__name__, name)) if _is_ours(cls) else None
        # A function of this package is no override; for example, `monkeypatch` assigns one to restore a method.
        if hook is not None and (cls.__name__, name) not in _DIRECT and not _is_foreign(value):
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


def _checked_constructor(init: Callable[..., None]) -> Callable[..., None]:
    """Wrap a subclass's constructor. If it does not call that of this package, errors of missing attributes say so."""

    @functools.wraps(init)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        # Other classes have no `__getattr__`, which slows all reads of attributes.
        if "features" not in vars(self):
            type.__setattr__(type(self), "__getattr__", _missing_attribute)

    return construct


def _missing_attribute(agent: Any, name: str) -> Any:
    cls = type(agent)
    if name.startswith("__") or "features" in vars(agent) or not isinstance(getattr(cls, name, None), Setting | None):
        return object.__getattribute__(agent, name)  # raises the original error
    own = next(base.__name__ for base in cls.__mro__ if "__init__" in vars(base))
    text = f"{cls.__name__} has no attribute {name!r}: {own}.__init__ must call super().__init__(...)"
    raise AttributeError(text, name=name)


def _resolve_all(cls: HookType) -> None:
    resolve_hooks(cls)
    for each in cast(list[HookType], cls.__subclasses__()):
        if "_overridden_hooks" in vars(each):  # a rejected class exists until it is garbage-collected
            _resolve_all(each)


def resolve_hooks(cls: HookType) -> None:
    """Set `_overridden_hooks` and `_has_own_observe` of a class.

    If the class overrides PFRL's `update`, make the override accept a `Batch`, too.

    Constructors call this function again, because methods may have been added to a mix-in after the class was created.

    Raises:
        TypeError: If the class overrides a method that this library does not call.
    """
    overridden = set()
    for hook in _hooks_of(cls):
        base = next((base for base in cls.__mro__ if hook.name in vars(base)), None)
        if base is None or (_is_ours(base) and not _is_foreign(vars(base)[hook.name])):
            continue
        function = vars(base)[hook.name]
        if hook.outcome == "refused":
            raise hook.refusal(cls.__name__)
        if hook.name == "update" and hook.arguments.startswith("experiences"):
            if arguments_of(function)[1:2] == ["batch"]:
                continue
            if getattr(function, "accept_batch", None) is not function:
                type.__setattr__(cls, "update", _accept_batch(function))
        overridden.add(hook.name)
    type.__setattr__(cls, "_overridden_hooks", frozenset(overridden))
    observe = getattr(cls, "batch_observe", None)
    type.__setattr__(cls, "_has_own_observe", observe is not None and _is_foreign(observe))


def _hooks_of(cls: type) -> Iterator[Hook]:
    """Yield the table rows of a class: for each method, the row of the nearest base class in this package."""
    names = set()
    for base in cls.__mro__:
        for name in NAMES if _is_ours(base) else ():
            hook = _ROWS.get((base.__name__, name))
            if hook is not None and name not in names:
                names.add(name)
                yield hook


def _is_foreign(value: Any) -> bool:
    """Return True if a method's code is outside this package.

    The function reads `__globals__`, not `__module__`, because `functools.wraps` copies `__module__` from the wrapped
    function.
    """
    if isinstance(value, HookMethod):
        return False
    module = getattr(value, "__globals__", {}).get("__name__", "")
    return getattr(value, "accept_batch", None) is value or module.partition(".")[0] != _PACKAGE


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == _PACKAGE


def arguments_of(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's arguments. `self` is included unless the function is a bound method."""
    return [*inspect.signature(function).parameters]


def _accept_batch(update: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a subclass's `update(experiences)`, so that it also accepts a `Batch` from offline runners and learners."""

    @functools.wraps(update)
    def accept_batch(self: Any, experiences: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(experiences, Batch):
            return update(self, experiences, *args, **kwargs)
        updates = self.optim_t
        result = update(self, experiences_of(experiences, self.gamma), *args, **kwargs)
        if self.optim_t == updates:
            self._count_update()
        return (self._td_errors(experiences), {}) if result is None else result

    accept_batch.accept_batch = accept_batch  # type: ignore[attr-defined]
    return accept_batch
