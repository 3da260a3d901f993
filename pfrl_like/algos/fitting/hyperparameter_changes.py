"""Hyperparameters that change when the agent is there: what can take effect in it does so, the rest is refused."""

import inspect
from collections.abc import Iterator, MutableMapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pfrl_like.random_streams.isolated_rng import isolated_rng
from pfrl_like.utils.constructor_only import Fixed


class Setting(NamedTuple):
    """A place in an agent that holds a number, a text or the like.

    Attributes:
        owner: Attributes of an object, or a group of an optimiser's parameters.
        key: Name in there.
        fixed: Whether a new value would have no effect.
    """

    owner: MutableMapping[str, Any]
    key: str
    fixed: bool

    @property
    def value(self) -> Any:
        """What stands there."""
        return self.owner[self.key]


def settings_of(part: Any) -> dict[str, Setting]:
    """The settings of an agent, of its optimisers and of the parts of this library that it is made of, by path."""
    return dict(_settings(part, "", set()))


def _settings(part: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Setting]]:
    seen.add(id(part))
    for name, value in {**vars(part), **vars(part).get("_modules", {})}.items():
        where = f"{path}.{name}"
        if isinstance(value, bool | int | float | str | None):
            yield where, Setting(vars(part), name, isinstance(inspect.getattr_static(type(part), name, None), Fixed))
        elif isinstance(value, torch.optim.Optimizer):
            for number, group in enumerate(value.param_groups):
                for key in group.keys() - {"params"}:
                    yield f"{where}.{number}.{key}", Setting(group, key, False)
        elif id(value) not in seen and _is_part(value):
            yield from _settings(value, where, seen)


def _is_part(value: Any) -> bool:
    """Whether it may have settings: modules, and objects of this library."""
    return isinstance(value, nn.Module) or (
        hasattr(value, "__dict__") and type(value).__module__.startswith("pfrl_like.")
    )


def parameters_of(agent: Any) -> dict[str, Tensor]:
    """All parameters of an agent and what else its networks save, by name."""
    networks = {name: getattr(agent, name) for name in agent.saved_attributes}
    return nn.ModuleDict({name: part for name, part in networks.items() if isinstance(part, nn.Module)}).state_dict()


def differing(before: Any, after: Any) -> dict[str, Setting] | None:
    """The settings of one agent that another one has otherwise; None if they differ in more than can be set."""
    old, new = settings_of(before), settings_of(after)
    ours, theirs = parameters_of(before), parameters_of(after)
    if old.keys() != new.keys() or ours.keys() != theirs.keys():
        return None
    if not all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items()):
        return None
    found = {path: setting for path, setting in new.items() if setting.value != old[path].value}
    return None if any(setting.fixed for setting in found.values()) else found


class Retuning:
    """Hyperparameters of estimators that are set after the agent was built.

    What an agent would have been with other hyperparameters is seen by building it so: the numbers that differ are
    what has to be set in the one that is there. If its networks would be others, or begin otherwise, it is too late.
    """

    #: Hyperparameters that estimators read where they use them.
    read_when_used: ClassVar[frozenset[str]] = frozenset(
        {"batch_size", "augmentation", "n_augmentations", "dynamics", "n_epochs"}
    )

    impl: Any
    scaler_: Any
    observation_shape_: tuple[int, ...] | None
    action_size_: int | None
    #: Hyperparameters that an agent built for comparison does without, for they do not change the rest.
    _left_out: ClassVar[dict[str, Any]] = {
        "impl": None, "scaler": None, "action_scaler": None, "reward_scaler": None, "augmentation": [], "use_gpu": None,
    }  # fmt: skip
    #: The hyperparameters that the agent has; None for those of the time when it was handed in.
    _built_with: dict[str, Any] | None = None

    def retune(self) -> None:
        """Let hyperparameters that were assigned since the agent was built take effect in it.

        `set_params`, `fit` and `fit_online` do it.

        Raises:
            ValueError: On one that cannot be changed any more, or a value that cannot be; the agent stays as it was.
            TypeError: Likewise.
        """
        algo: Any = self
        now = algo.get_params(deep=False)
        built = now if self._built_with is None else self._built_with
        changed = [name for name in built.keys() - {"impl"} if repr(built[name]) != repr(now[name])]
        if self.impl is None or not changed:
            return
        augments = {"augmentation", "n_augmentations"} & {*changed}
        augment = algo._augment() if augments else None
        ours, news = settings_of(self.impl), self._news(built, now, changed)
        for path, setting in news.items():
            ours[path].owner[ours[path].key] = setting.value
        if augments:
            self.impl.augment = augment
        self._built_with = now

    def _news(self, built: dict[str, Any], now: dict[str, Any], changed: list[str]) -> dict[str, Setting]:
        """What has to be set in the agent because of the hyperparameters that have changed."""
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

    def _built_so(self, params: dict[str, Any]) -> Any:
        """The agent as it would be built with other hyperparameters, the same every time; None for one handed in."""
        if self.observation_shape_ is None:
            return None
        twin: Any = type(self)(**params | self._left_out)
        twin.scaler_ = self.scaler_
        with isolated_rng():
            torch.manual_seed(0)
            np.random.seed(0)
            twin.create_impl(self.observation_shape_, self.action_size_)
        return twin.impl
