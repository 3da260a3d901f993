"""Hyperparameters, declared once as annotated attributes: their storage, checks and later changes."""

import contextlib
import copy
import difflib
import inspect
import os
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.utils.checks import ConstructorOnly, check_counts, check_flags, check_numbers, levels_to_the_caller


class Setting(NamedTuple):
    """A setting of an agent: an attribute or an entry of an optimiser that holds a number, a text or the like.

    Attributes:
        owner: Attributes of an object, or a parameter group of an optimiser.
        key: Name of the setting in `owner`.
        fixed: Whether a new value would have no effect.
    """

    owner: MutableMapping[str, Any]
    key: str
    fixed: bool

    @property
    def value(self) -> Any:
        """Value of the setting."""
        return self.owner[self.key]


def settings_of(part: Any) -> dict[str, Setting]:
    """The settings of an agent, its optimisers and its parts from this library, by path."""
    return dict(_settings(part, "", set()))


def _settings(part: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Setting]]:
    seen.add(id(part))
    for name, value in {**vars(part), **vars(part).get("_modules", {})}.items():
        where = f"{path}.{name}"
        if isinstance(value, bool | int | float | str | None):
            is_fixed = isinstance(inspect.getattr_static(type(part), name, None), ConstructorOnly)
            yield where, Setting(vars(part), name, is_fixed)
        elif isinstance(value, torch.optim.Optimizer):
            for number, group in enumerate(value.param_groups):
                for key in group.keys() - {"params"}:
                    yield f"{where}.{number}.{key}", Setting(group, key, False)
        elif id(value) not in seen and _is_part(value) and name != "last_steps":  # of optimizers found by their names
            yield from _settings(value, where, seen)


def _is_part(value: Any) -> bool:
    """True if a value may have settings: a module or an object of this library."""
    return isinstance(value, nn.Module) or (
        hasattr(value, "__dict__") and type(value).__module__.startswith("pfrl_like.")
    )


def parameters_of(agent: Any) -> dict[str, Tensor]:
    """All parameters and buffers of an agent's networks, by name."""
    networks = {name: getattr(agent, name) for name in agent.saved_attributes}
    return nn.ModuleDict({name: part for name, part in networks.items() if isinstance(part, nn.Module)}).state_dict()


def differing(before: Any, after: Any) -> dict[str, Setting] | None:
    """The settings of the second agent that differ from the first; None if the agents differ in more than settings."""
    old, new = settings_of(before), settings_of(after)
    ours, theirs = parameters_of(before), parameters_of(after)
    if old.keys() != new.keys() or ours.keys() != theirs.keys():
        return None
    if not all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items()):
        return None
    found = {path: setting for path, setting in new.items() if setting.value != old[path].value}
    return None if any(setting.fixed for setting in found.values()) else found


class Retuning:
    """Changes of an estimator's hyperparameters after the agent was built.

    `retune` builds a second agent with the new hyperparameters and compares it with the old one: the settings that
    differ are set in the agent of the estimator. If the networks or their initial parameters differ, the change comes
    too late and is an error.
    """

    #: Hyperparameters that estimators read where they use them.
    read_when_used: ClassVar[frozenset[str]] = frozenset(
        {"batch_size", "augmentation", "n_augmentations", "dynamics", "n_epochs"}
    )

    #: Hyperparameters that agents built for comparison do without, since they do not affect the others.
    _left_out: ClassVar[dict[str, Any]] = {
        "impl": None, "scaler": None, "action_scaler": None, "reward_scaler": None, "augmentation": [], "use_gpu": None,
    }  # fmt: skip
    #: The hyperparameters that the agent was built with; None if it is an `impl` of the user.
    _built_with: dict[str, Any] | None = None

    def retune(self: Any) -> None:
        """Apply hyperparameters that were assigned since the agent was built to the agent.

        `set_params`, `fit` and `fit_online` call it.

        Raises:
            ValueError: On a hyperparameter that can no longer change, or a value out of range; the agent stays
                unchanged.
            TypeError: On a value of a wrong type; the agent stays unchanged.
        """
        now = self.get_params(deep=False)
        built = now if self._built_with is None else self._built_with
        changed = [name for name in built.keys() - {"impl"} if repr(built[name]) != repr(now[name])]
        if self.impl is None or not changed:
            return
        augments = {"augmentation", "n_augmentations"} & {*changed}
        augment = self._augment() if augments else None
        ours, news = settings_of(self.impl), self._news(built, now, changed)
        for path, setting in news.items():
            ours[path].owner[ours[path].key] = setting.value
        if augments:
            self.impl.augment = augment
        self._built_with = now

    def _news(self: Any, built: dict[str, Any], now: dict[str, Any], changed: list[str]) -> dict[str, Setting]:
        """The settings of the agent, by path, that the changed hyperparameters require."""
        ours, news = settings_of(self.impl).keys(), dict[str, Setting]()
        params, before = dict(built), self._built_so(built)
        for name in sorted(changed):
            params[name] = now[name]
            after = self._built_so(params)
            found = {} if after is None else differing(before, after)
            if found is None or not found.keys() <= ours or not (found or name in self.read_when_used):
                raise ValueError(
                    f"{name} is {now[name]!r:.80}, but the agent was built with {built[name]!r:.80} and keeps that: "
                    "set it before fit, or in a clone, which is not built"
                )
            news |= found
            before = after
        return news

    def _built_so(self: Any, params: dict[str, Any]) -> Any:
        """Build an agent with other hyperparameters, from a fixed seed; None if the agent is an `impl` of the user."""
        if self.observation_shape_ is None:
            return None
        twin: Any = self._made(params | self._left_out)
        twin.scaler_ = self.scaler_
        with isolated_rng():
            torch.manual_seed(0)
            np.random.seed(0)
            twin.create_impl(self.observation_shape_, self.action_size_)
        return twin.impl


#: Hyperparameters that are counts.
COUNTS = frozenset({"batch_size", "n_frames", "n_critics", "n_ensembles", "latent_size", "update_actor_interval"})
#: Hyperparameters that count rows of a minibatch.
ROWS = frozenset({"batch_size", "batch_size_per_update"})
#: Hyperparameters that are True or False.
FLAGS = frozenset({"bootstrap", "clip_delta", "share_encoder", "soft_q_backup", "use_batch_norm"})
#: Hyperparameters that are finite numbers of at least 0, and endings of the names of others.
AT_LEAST_0 = frozenset({"alpha", "conservative_weight", "eps", "momentum", "regularizing_rate", "vae_kl_weight"})
ENDINGS = ("learning_rate", "weight_decay", "_sigma", "_clip")
#: Hyperparameters that are numbers with other bounds.
BOUNDS = {"gamma": (0.0, 1.0), "tau": (0.0, 1.0), "target_update_interval": (1.0,)}


def check_ranges(algo: Any) -> None:
    """Raise an error if a hyperparameter of an estimator has a wrong type or is out of range.

    Raises:
        TypeError: If a number is none, a count no integer, or a flag neither True nor False.
        ValueError: If one is out of range, or `use_batch_norm` is True with minibatches of one row.
    """
    names = algo.defaults().keys()
    check_flags(**{name: getattr(algo, name) for name in sorted(names & FLAGS)})
    check_counts(**{name: getattr(algo, name) for name in sorted(names & COUNTS)})
    check_counts(least=0, **{name: getattr(algo, name) for name in names & {"rl_start_epoch"}})
    check_counts(optional=True, n_epochs=algo.n_epochs)
    numbered = sorted(name for name in names if name in AT_LEAST_0 | BOUNDS.keys() or name.endswith(ENDINGS))
    for name in numbered:
        check_numbers(*BOUNDS.get(name, (0.0,)), **{name: getattr(algo, name)})
    rows = {name: getattr(algo, name) for name in sorted(names & ROWS)}
    if algo.use_batch_norm and 1 in rows.values():
        given = " and ".join(f"{name} {value}" for name, value in rows.items())
        raise ValueError(f"use_batch_norm is True, but {given}: expected at least 2, as one row has no variance")


def check_folder(logdir: Any, name: str, with_timestamp: bool) -> None:
    """Raise an error if a folder cannot be made because a file has its path.

    Args:
        logdir: Directory in which the folder is made.
        name: Name of the folder.
        with_timestamp: Whether the time is appended to the name; the folder itself cannot exist then.

    Raises:
        TypeError: If `logdir` is no path.
        ValueError: If the folder, or a part of the path to it, is a file.
    """
    if not isinstance(logdir, str | os.PathLike):
        raise TypeError(f"logdir is {logdir!r:.80}, expected the path of a folder; save_metrics=False writes nothing")
    path = os.path.abspath(logdir if with_timestamp else os.path.join(logdir, name))
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise ValueError(f"logdir is {os.fspath(logdir)!r}, but {path!r} is a file, expected a folder")


#: Equivalents here, each with the names in d3rlpy. Names that work here, too, are hyperparameters and not listed.
_INSTEAD = (
    (
        "encoder_params sizes all networks, as in {'hidden_units': [256, 256]} or {'filters': [(32, 8, 4)], "
        "'feature_size': 512}; an agent of pfrl_like.agents takes any networks",
        "encoder_factory actor_encoder_factory critic_encoder_factory value_encoder_factory imitator_encoder_factory",
    ),
    (
        "learning rates and eps set the optimisers, which are Adam; an agent of pfrl_like.agents takes any optimiser",
        "optim_factory actor_optim_factory critic_optim_factory value_optim_factory temp_optim_factory "
        "alpha_optim_factory imitator_optim_factory",
    ),
    ("q_func_type is 'mean', 'qr', 'iqn' or 'fqf'", "q_func_factory"),
    ("targets take the least of the critics", "target_reduction_type"),
    ("targets take one action of the policy, and no maximum", "max_q_backup"),
    ("n_action_samples counts the actions drawn for targets and for predict", "n_target_samples"),
    ("rl_start_epoch is the epoch from which policy and critics learn", "rl_start_step warmup_steps warmup_epochs"),
    ("fit learns from single steps; fit_online takes a ReplayBuffer(capacity, num_steps=n)", "n_steps"),
    (
        "dynamics=MOPO(n_transitions=..., horizon=..., lam=...) generates at the beginning of every epoch",
        "generator real_ratio generated_maxlen rollout_interval rollout_horizon rollout_batch_size "
        "n_initial_transitions",
    ),
    ("lam weighs the largest norm of the members' variances", "variance_type"),
    ("use_gpu is True, False or the number of a GPU", "device"),
    ("each hyperparameter is a keyword of its own", "config"),
    ("fit has enable_ddp", "enable_ddp"),
    ("fit_online(random_steps=n) draws actions at random", "distribution normal_std"),
    ("agents of pfrl_like.agents have compile", "compile_graph compile"),
    ("agents of pfrl_like.agents have max_grad_norm", "clip_grad_norm"),
    ("pfrl_like.agents.BC takes a policy of any type; this one learns one action for each state", "policy_type"),
    ("pfrl_like.agents.IQL has expectile and beta", "expectile weight_temp value_learning_rate"),
    ("pfrl_like.agents.CRR has advantage_type and weight_type", "advantage_type weight_type target_update_type"),
    ("pfrl_like.agents.ReBRAC has actor_beta and critic_beta", "actor_beta critic_beta"),
    (
        "pfrl_like.agents.DecisionTransformer takes a transformer",
        "context_size max_timestep num_heads num_layers attn_dropout resid_dropout embed_dropout activation_type "
        "embed_activation_type position_encoding_type final_tokens warmup_tokens",
    ),
)

#: Hyperparameters of later d3rlpy versions that raise an error, each with its equivalent here.
LATER_NAMES: Mapping[str, str] = {name: instead for instead, names in _INSTEAD for name in names.split()}

#: Values that ask for the behaviour that is the only one here, so that they are ignored; None is ignored for all names.
_SAME: Mapping[str, Any] = {
    **dict.fromkeys(["compile", "compile_graph", "enable_ddp", "max_q_backup"], False),
    **dict.fromkeys([name for name in LATER_NAMES if name.endswith("encoder_factory")], "default"),
    "n_steps": 1, "policy_type": "deterministic", "q_func_factory": "mean", "target_reduction_type": "min",
}  # fmt: skip


class Hyperparameters:
    """Base of classes whose constructor takes and stores keywords, as scikit-learn requires.

    A hyperparameter is a public attribute that a class annotates and gives a value; attributes that are a `ClassVar` or
    end in `_` (results of fitting) are none. It is a keyword-only argument of the constructor, with that value as its
    default, and an attribute. Subclasses inherit hyperparameters, and change a default by assigning another value.
    Unknown keywords are ignored with a warning that names the nearest; those of later versions of d3rlpy are an error.

    For a hyperparameter that is chosen by name the attribute is the object of that name; `get_params` returns the name.
    """

    #: Other spellings of hyperparameters, each with the name used here.
    spellings: ClassVar[Mapping[str, str]] = {}
    #: Hyperparameters of later d3rlpy versions that raise an error, each with its equivalent here.
    later_names: ClassVar[Mapping[str, str]] = {}
    #: Hyperparameters that may be chosen by name, each with the function that makes the object.
    made_by: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}

    #: The values of these hyperparameters as they were given.
    _given: Mapping[str, Any] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _, *parameters = inspect.signature(cls.__init__).parameters.values()
        if cls.__init__ is Hyperparameters.__init__:
            keyword, rest = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)
            named = cls.defaults().items()
            parameters = [*(inspect.Parameter(name, keyword, default=default) for name, default in named), rest]
        cls.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.made_by:
            vars(self)["_given"] = {**self._given, name: value}
            with contextlib.suppress(TypeError, ValueError):  # an invalid value raises an error where it is used
                value = self.made_by[name](value)
        super().__setattr__(name, value)

    def __init__(self, **hyperparameters: Any) -> None:
        for name, default in self.defaults().items():
            setattr(self, name, copy.copy(default))
        self.set_params(**hyperparameters)

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The hyperparameters with their defaults, by name."""
        names = [
            name
            for base in reversed(cls.__mro__)
            for name, annotation in inspect.get_annotations(base).items()
            if not (name.startswith("_") or name.endswith("_") or _of_class(annotation)) and hasattr(cls, name)
        ]
        return {name: getattr(cls, name) for name in sorted(set(names))}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All hyperparameters by name; the constructor makes an equal object of them.

        Args:
            deep: Whether the values are copies.
        """
        params = {name: self._given.get(name, getattr(self, name)) for name in self.defaults()}
        return copy.deepcopy(params) if deep else params

    def set_params(self, **params: Any) -> Self:
        """Set hyperparameters; unknown ones are ignored with a warning that names the nearest.

        As in scikit-learn, `dynamics__lam` is `lam` of `dynamics`.

        Returns:
            The object itself.

        Raises:
            TypeError: On a hyperparameter of later versions of d3rlpy; the message names the equivalent here. If its
                value asks for the behaviour that is the only one here, such as `n_steps=1`, it is ignored.
        """
        known = self.defaults()
        for given in sorted(params, key=lambda name: "__" in name):  # objects before their own hyperparameters
            value, (outer, _, inner) = params[given], given.partition("__")
            name = self.spellings.get(outer, outer)
            if name in known and not inner:
                setattr(self, name, value)
                continue
            if name in known and hasattr(getattr(self, name), "set_params"):
                getattr(self, name).set_params(**{inner: value})
                continue
            unknown, same = f"{type(self).__name__} has no hyperparameter {given!r}, which", _SAME.get(given)
            if given not in self.later_names:
                text = f"{unknown} is ignored{_hint(given, known)}"
                warnings.warn(text, UserWarning, stacklevel=levels_to_the_caller())
            elif value is not None and not (isinstance(value, type(same)) and value == same):
                raise TypeError(f"{unknown} later versions of d3rlpy have: {self.later_names[given]}")
        return self

    def __repr__(self) -> str:
        params = self.get_params(deep=False)
        texts = {name: (repr(params[name]), repr(default)) for name, default in self.defaults().items()}
        changed = [f"{name}={text}" for name, (text, default) in texts.items() if text != default]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))


def _hint(given: str, known: Iterable[str]) -> str:
    """The hint of a warning: the known names that an unknown one may mean.

    These are all names that end in it, such as those that end in `learning_rate`, or whose initials do, as for `lr`;
    otherwise the nearest name.
    """
    initials = {name: "".join(word[:1] for word in name.split("_")) for name in known}
    ends = (name for name in initials if name.endswith(f"_{given}") or initials[name].endswith(given) and given[1:])
    if longer := sorted(ends):
        return f": there {'is' if len(longer) == 1 else 'are'} {', '.join(map(repr, longer))}"
    return "".join(f"; the nearest is {name!r}" for name in difflib.get_close_matches(given, known, n=1, cutoff=0.0))


def _of_class(annotation: Any) -> bool:
    """True if an annotation is a `ClassVar`, or the text of one (`from __future__ import annotations` makes texts)."""
    if isinstance(annotation, str):
        return annotation.removeprefix("typing.").startswith("ClassVar")
    return annotation is ClassVar or typing.get_origin(annotation) is ClassVar
