"""Hyperparameters as annotated class attributes: storage, checks, and changes after fitting."""

import contextlib
import copy
import inspect
import os
import tomllib
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.utils import checks


class Setting(NamedTuple):
    """Setting of an agent: an attribute, or an entry of an optimiser. Its value is a bool, number, string or None.

    Attributes:
        owner: An object, or a parameter group of an optimiser.
        key: Name of the setting in `owner`.
        fixed: True if the agent would ignore a new value.
    """

    owner: Any
    key: str
    fixed: bool

    @property
    def value(self) -> Any:
        """Value of the setting."""
        return self.owner[self.key] if isinstance(self.owner, dict) else vars(self.owner)[self.key]

    def set(self, value: Any) -> None:
        """Set the value. An agent then also changes what depends on it, for example its gradient steps."""
        if isinstance(self.owner, dict):
            self.owner[self.key] = value
        else:
            setattr(self.owner, self.key, value)


def settings_of(part: Any) -> dict[str, Setting]:
    """Return the settings of an agent, its optimisers, and its objects from this library, keyed by path."""
    return dict(_settings(part, "", set()))


def _settings(part: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Setting]]:
    seen.add(id(part))
    for name, value in {**vars(part), **vars(part).get("_modules", {})}.items():
        where = f"{path}.{name}"
        if isinstance(value, bool | int | float | str | None):
            is_fixed = isinstance(inspect.getattr_static(type(part), name, None), checks.ConstructorOnly)
            yield where, Setting(part, name, is_fixed)
        elif isinstance(value, torch.optim.Optimizer):
            for number, group in enumerate(value.param_groups):
                for key in group.keys() - {"params"}:
                    yield f"{where}.{number}.{key}", Setting(group, key, False)
        elif id(value) not in seen and _is_part(value) and name != "_last_steps":  # it has the same optimisers
            yield from _settings(value, where, seen)


def _is_part(value: Any) -> bool:
    """Return True if an attribute may have settings: if it is a module or an object of this library."""
    is_ours = isinstance(value, nn.Module) or type(value).__module__.startswith("pfrl_like.")
    return is_ours and hasattr(value, "__dict__")


def parameters_of(agent: Any) -> dict[str, Tensor]:
    """Return all parameters and buffers of an agent's networks, keyed by name."""
    networks = {name: getattr(agent, name) for name in agent.saved_attributes}
    return nn.ModuleDict({name: part for name, part in networks.items() if isinstance(part, nn.Module)}).state_dict()


def changed_settings(before: Any, after: Any) -> dict[str, Setting] | None:
    """Return the settings of agent `after` that differ from agent `before`.

    If networks or fixed settings differ, return None.
    """
    old, new = settings_of(before), settings_of(after)
    old_params, new_params = parameters_of(before), parameters_of(after)
    if old.keys() != new.keys() or old_params.keys() != new_params.keys():
        return None
    if not all(torch.equal(param, new_params[name]) for name, param in old_params.items()):
        return None
    # `repr`: NaN equals no number, also not itself.
    changed = {path: setting for path, setting in new.items() if repr(setting.value) != repr(old[path].value)}
    return None if any(setting.fixed for setting in changed.values()) else changed


class Retuning:
    """Mixin that changes an estimator's hyperparameters after the agent was built.

    `retune` builds one agent with the old and one agent with the new hyperparameters. The settings that differ between
    these agents are set in the agent of the estimator. If the two agents differ in their networks or initial
    parameters, `retune` raises an error: the hyperparameter cannot change after fitting.
    """

    #: Hyperparameters that are not stored in the agent. The estimator reads them whenever it uses them.
    read_when_used: ClassVar[frozenset[str]] = frozenset(
        {"batch_size", "augmentation", "n_augmentations", "dynamics", "n_epochs"}
    )

    #: Values of hyperparameters that do not affect the settings, for the agents that are built for comparison.
    _comparison_values: ClassVar[dict[str, Any]] = {
        "impl": None, "scaler": None, "action_scaler": None, "reward_scaler": None, "augmentation": [], "use_gpu": None,
    }  # fmt: skip
    #: Hyperparameters from which the agent was built; None if the agent is an `impl` of the user.
    _agent_args: dict[str, Any] | None = None

    def retune(self: Any) -> None:
        """Change the settings of the agent according to the hyperparameters that changed since the agent was built.

        `set_params`, `fit` and `fit_online` call this method.

        Raises:
            ValueError: If a changed hyperparameter cannot change after fitting, or a value is out of range. The agent
                stays unchanged.
            TypeError: If a value has the wrong type. The agent stays unchanged.
        """
        now = self.get_params(deep=False)
        built = now if self._agent_args is None else self._agent_args
        changed = [name for name in built.keys() - {"impl"} if repr(built[name]) != repr(now[name])]
        if self.impl is None or not changed:
            return
        augments = {"augmentation", "n_augmentations"} & {*changed}
        augment = self._augment() if augments else None
        settings, new_settings = settings_of(self.impl), self._new_settings(built, now, changed)
        for path, setting in new_settings.items():
            settings[path].set(setting.value)
        if augments:
            self.impl.augment = augment
        self._agent_args = now

    def _new_settings(self: Any, built: dict[str, Any], now: dict[str, Any], changed: list[str]) -> dict[str, Setting]:
        """Return the new settings of the agent, keyed by path; `changed` are the names of changed hyperparameters."""
        paths, new_settings = settings_of(self.impl).keys(), dict[str, Setting]()
        params, before = dict(built), self._comparison_agent(built)
        for name in sorted(changed):
            params[name] = now[name]
            after = self._comparison_agent(params)
            settings = {} if after is None else changed_settings(before, after)
            if settings is None or not settings.keys() <= paths or not (settings or name in self.read_when_used):
                raise ValueError(
                    f"{name} is {now[name]!r:.80}, but the agent was built with {built[name]!r:.80}, and {name} cannot "
                    "change after fit: set it before fit, or on a clone (a clone is not built)"
                )
            new_settings |= settings
            before = after
        return new_settings

    def _comparison_agent(self: Any, params: dict[str, Any]) -> Any:
        """Build an agent from hyperparameters with a fixed seed; None if the estimator has an `impl` of the user."""
        if self.observation_shape_ is None:
            return None
        other: Any = self._create(params | self._comparison_values)
        other.scaler_ = self.scaler_
        with isolated_rng():
            torch.manual_seed(0)
            np.random.seed(0)
            other.create_impl(self.observation_shape_, self.action_size_)
        return other.impl


#: Hyperparameters that are integers of at least 1.
COUNTS = frozenset({"batch_size", "n_frames", "n_critics", "n_ensembles", "latent_size", "update_actor_interval"})
#: Hyperparameters that are the number of rows of a minibatch.
ROWS = frozenset({"batch_size", "batch_size_per_update"})
#: Hyperparameters that are True or False.
FLAGS = frozenset({
    "bootstrap", "clip_delta", "compile", "discrete_action", "share_encoder", "soft_q_backup", "use_batch_norm",
})  # fmt: skip
#: Names, and endings of names, of hyperparameters that are finite numbers of at least 0.
AT_LEAST_0 = frozenset({
    "actor_beta", "alpha", "conservative_weight", "critic_beta", "eps", "eta", "momentum", "regularizing_rate",
    "vae_kl_weight",
})  # fmt: skip
ENDINGS = ("learning_rate", "weight_decay", "_sigma", "_clip")
#: Hyperparameters that are numbers with other bounds; values are (minimum, maximum) or (minimum,).
BOUNDS = {"gamma": (0.0, 1.0), "tau": (0.0, 1.0), "target_update_interval": (1.0,)}


def check_ranges(algo: Any) -> None:
    """Raise an error if a hyperparameter of an estimator has a wrong type or is out of range.

    Raises:
        TypeError: If a hyperparameter has the wrong type: a number, an integer or a bool is expected.
        ValueError: If a hyperparameter is out of range, or if `use_batch_norm` is True and minibatches have one row.
    """
    defaults = algo.defaults()
    names = defaults.keys()
    flags = [name for name in names & FLAGS if defaults[name] is not None]  # `FQE` finds its `discrete_action`
    checks.check_flags(**{name: getattr(algo, name) for name in sorted(flags)})
    checks.check_counts(**{name: getattr(algo, name) for name in sorted(names & COUNTS)})
    starts = names & {"rl_start_epoch", "warmup_steps"}
    checks.check_counts(least=0, **{name: getattr(algo, name) for name in sorted(starts)})
    checks.check_counts(optional=True, n_epochs=algo.n_epochs)
    numbered = sorted(name for name in names if name in AT_LEAST_0 | BOUNDS.keys() or name.endswith(ENDINGS))
    for name in numbered:
        checks.check_numbers(*BOUNDS.get(name, (0.0,)), **{name: getattr(algo, name)})
    if "target_update_interval" in names and algo.target_update_interval % 1:
        raise ValueError(f"target_update_interval is {algo.target_update_interval}, expected a whole number of updates")
    rows = {name: getattr(algo, name) for name in sorted(names & ROWS)}
    if algo.use_batch_norm and 1 in rows.values():
        sizes = " and ".join(f"{name} {value}" for name, value in rows.items())
        raise ValueError(f"use_batch_norm is True, but {sizes}: expected at least 2, because one row has no variance")


def check_folder(logdir: Any, name: str, with_timestamp: bool) -> None:
    """Raise an error if a folder cannot be created because its path, or a part of the path, is a file.

    Args:
        logdir: Directory in which the folder is created.
        name: Name of the folder.
        with_timestamp: True if the time is appended to the name. The folder is then always new, and only `logdir` is
            checked.

    Raises:
        TypeError: If `logdir` is not a path.
        ValueError: If the folder, or one of its parent directories, is a file.
    """
    if not isinstance(logdir, str | os.PathLike):
        raise TypeError(f"logdir is {logdir!r:.80}, expected a path; set save_metrics=False to write nothing")
    path = os.path.abspath(logdir if with_timestamp else os.path.join(logdir, name))
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise ValueError(f"logdir is {os.fspath(logdir)!r}, but {path!r} is a file, expected a folder")


def d3rlpy_names(section: str) -> Mapping[str, str]:
    """Return a section of `d3rlpy_names.toml`: names of d3rlpy with the advice for users of each."""
    table = tomllib.loads(Path(__file__).with_name("d3rlpy_names.toml").read_text(encoding="utf-8"))[section]
    return {name: advice for advice, names in table.items() for name in names.split()}


#: Hyperparameters of later d3rlpy versions that raise an error; values are the equivalents in this library.
LATER_NAMES = d3rlpy_names("hyperparameters")

#: Values of hyperparameters in `LATER_NAMES` that raise no error, because this library behaves like this anyway. None
#: also raises no error.
_FIXED_VALUES: Mapping[str, Any] = {
    **dict.fromkeys(["compile_graph", "enable_ddp", "max_q_backup"], False),
    **dict.fromkeys([name for name in LATER_NAMES if name.endswith("encoder_factory")], "default"),
    "n_steps": 1, "policy_type": "deterministic", "q_func_factory": "mean", "target_reduction_type": "min",
}  # fmt: skip


class Hyperparameters:
    """Base class whose constructor stores its keyword arguments, as scikit-learn requires.

    A hyperparameter is a public, annotated class attribute with a value. A `ClassVar`, or an attribute whose name ends
    in `_` (a result of fitting), is not a hyperparameter. Each hyperparameter is a keyword-only argument of the
    constructor, and the class attribute is its default. Subclasses inherit hyperparameters and may assign other
    defaults. Unknown keywords are ignored with a warning, or raise an error (see `ignores_unknown`). The message
    contains the nearest name, or all names if no name is near. Hyperparameters of later d3rlpy versions raise an error.

    Some hyperparameters can be passed as a name, for example "min_max" (see `made_by`). The attribute is then the
    object that is created from the name, and `get_params` returns the name.
    """

    #: True to ignore unknown keywords with a warning. False to raise a TypeError.
    ignores_unknown: ClassVar[bool] = True
    #: Alternative names of hyperparameters; values are the usual names.
    spellings: ClassVar[Mapping[str, str]] = {}
    #: Hyperparameters of later d3rlpy versions that raise an error; values are the equivalents in this library.
    later_names: ClassVar[Mapping[str, str]] = {}
    #: Hyperparameters that may be passed as names; values are the functions that create the objects.
    made_by: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}

    #: Values of the hyperparameters in `made_by` as the user passed them.
    _user_values: Mapping[str, Any] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _, *parameters = inspect.signature(cls.__init__).parameters.values()
        if cls.__init__ is Hyperparameters.__init__:
            keyword, rest = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)
            named = cls.defaults().items()
            parameters = [inspect.Parameter(name, keyword, default=default) for name, default in named]
            parameters += [rest] * cls.ignores_unknown
        cls.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.made_by:
            vars(self)["_user_values"] = {**self._user_values, name: value}
            with contextlib.suppress(TypeError, ValueError):  # `fit` raises the error of an invalid value
                value = self.made_by[name](value)
        super().__setattr__(name, value)

    def __init__(self, **hyperparameters: Any) -> None:
        for name, default in self.defaults().items():
            setattr(self, name, copy.copy(default))
        self.set_params(**hyperparameters)

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return the defaults of all hyperparameters, keyed by name."""
        names = [
            name
            for base in reversed(cls.__mro__)
            for name, annotation in inspect.get_annotations(base).items()
            if not (name.startswith("_") or name.endswith("_") or _is_class_var(annotation)) and hasattr(cls, name)
        ]
        return {name: getattr(cls, name) for name in sorted(set(names))}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all hyperparameters, keyed by name.

        Args:
            deep: True to return deep copies of the values.
        """
        params = {name: self._user_values.get(name, getattr(self, name)) for name in self.defaults()}
        return copy.deepcopy(params) if deep else params

    def set_params(self, **params: Any) -> Self:
        """Set hyperparameters; unknown hyperparameters are ignored with a warning that contains the nearest name.

        If the class attribute `ignores_unknown` is False, unknown hyperparameters raise an error with this name.
        As in scikit-learn, the name `dynamics__lam` sets the hyperparameter `lam` of the object `dynamics`.

        Returns:
            The object itself.

        Raises:
            TypeError: If a hyperparameter is unknown and `ignores_unknown` is False. If a hyperparameter exists only in
                later d3rlpy versions. The message then describes the equivalent in this library. No error is raised for
                a value that describes how this library behaves anyway, such as `n_steps=1`.
        """
        known = self.defaults()
        for given in sorted(params, key=lambda name: "__" in name):  # `dynamics` before `dynamics__lam`
            value, (outer, _, inner) = params[given], given.partition("__")
            name = self.spellings.get(outer, outer)
            if name in known and not inner:
                setattr(self, name, value)
                continue
            if name in known and hasattr(getattr(self, name), "set_params"):
                getattr(self, name).set_params(**{inner: value})
                continue
            unknown, default = f"{type(self).__name__} has no hyperparameter {given!r}", _FIXED_VALUES.get(given)
            if given not in self.later_names:
                names = f"; the hyperparameters are {', '.join(known)}"
                nearest = checks.nearest_names(given, known, 0.6) or names
                if not self.ignores_unknown:
                    raise TypeError(f"{unknown}{nearest}")
                text = f"{unknown}, which is ignored{nearest}"
                warnings.warn(text, UserWarning, stacklevel=checks.levels_to_the_caller())
            elif value is not None and not (isinstance(value, type(default)) and value == default):
                raise TypeError(f"{unknown}, which other versions of d3rlpy have: {self.later_names[given]}")
        return self

    def __repr__(self) -> str:
        params = self.get_params(deep=False)
        texts = {name: (repr(params[name]), repr(default)) for name, default in self.defaults().items()}
        changed = [f"{name}={text}" for name, (text, default) in texts.items() if text != default]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))


def _is_class_var(annotation: Any) -> bool:
    """Return True if an annotation is a `ClassVar`; postponed annotations are strings."""
    if isinstance(annotation, str):
        return annotation.removeprefix("typing.").startswith("ClassVar")
    return annotation is ClassVar or typing.get_origin(annotation) is ClassVar
