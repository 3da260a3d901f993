"""Hyperparameters that are declared once, as annotated attributes of a class, and stored by the constructor."""

import contextlib
import copy
import difflib
import inspect
import typing
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self

from pfrl_like.algos.fitting.later_names import asks_for_nothing_else
from pfrl_like.utils.user_warnings import levels_to_the_caller


class Hyperparameters:
    """Base of classes whose constructor takes keywords and stores them, as scikit-learn wants it.

    Each public attribute that a class annotates and gives a value, other than a `ClassVar` and what ends in `_`, which
    fitting finds out, is a hyperparameter: a keyword-only argument of the constructor with that value as its default,
    and an attribute. Subclasses inherit them, and change a default by assigning another. Unknown keywords are accepted
    with a warning that names the nearest; those of later versions of d3rlpy are refused.

    What is chosen by name is an attribute as the object of that name; `get_params` gives it as it was given.
    """

    #: Other spellings that the documents have, and what they stand for.
    spellings: ClassVar[Mapping[str, str]] = {}
    #: Names that are refused, and what does the same here.
    later_names: ClassVar[Mapping[str, str]] = {}
    #: Hyperparameters that may be chosen by name, and what makes the objects.
    made_by: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}

    #: Those of them as they were given.
    _given: Mapping[str, Any] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        empty, keyword = inspect.Parameter.empty, inspect.Parameter.KEYWORD_ONLY
        parameters = [
            inspect.Parameter(name, keyword, default=default, annotation=empty)
            for name, default in cls.defaults().items()
        ]
        rest = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)
        cls.__signature__ = inspect.Signature([*parameters, rest])  # type: ignore[attr-defined]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.made_by:
            vars(self)["_given"] = {**self._given, name: value}
            with contextlib.suppress(TypeError, ValueError):  # what cannot be stays, and is refused when it is used
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
        """All hyperparameters, from which the constructor makes an equal object.

        Args:
            deep: Whether the values are copies.
        """
        params = {name: self._given.get(name, getattr(self, name)) for name in self.defaults()}
        return copy.deepcopy(params) if deep else params

    def set_params(self, **params: Any) -> Self:
        """Set hyperparameters; others are ignored with a warning that names the nearest. Returns the object itself.

        As in scikit-learn, `dynamics__lam` is `lam` of `dynamics`.

        Raises:
            TypeError: On one that later versions of d3rlpy have, naming what does the same here; it is ignored if its
                value asks for what is done here anyway, as `n_steps=1` does.
        """
        known = self.defaults()
        for given in sorted(params, key=lambda name: "__" in name):  # parts before what they are made of
            value, (outer, _, inner) = params[given], given.partition("__")
            name = self.spellings.get(outer, outer)
            if name in known and not inner:
                setattr(self, name, value)
                continue
            if name in known and hasattr(getattr(self, name), "set_params"):
                getattr(self, name).set_params(**{inner: value})
                continue
            if asks_for_nothing_else(type(self).__name__, given, value, self.later_names):
                continue
            text = f"{type(self).__name__} has no hyperparameter {given!r}, which is ignored{_hint(given, known)}"
            warnings.warn(text, UserWarning, stacklevel=levels_to_the_caller())
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
    """What an unknown name may have meant.

    That is every one that it is the end of, as of `learning_rate`, in initials as well, as `lr`, or else the nearest.
    """
    initials = {name: "".join(word[:1] for word in name.split("_")) for name in known}
    ends = (name for name in initials if name.endswith(f"_{given}") or initials[name].endswith(given) and given[1:])
    if longer := sorted(ends):
        return f": there {'is' if len(longer) == 1 else 'are'} {', '.join(map(repr, longer))}"
    return "".join(f"; the nearest is {name!r}" for name in difflib.get_close_matches(given, known, n=1, cutoff=0.0))


def _of_class(annotation: Any) -> bool:
    """Whether it is a `ClassVar`, or the text of one, as `from __future__ import annotations` leaves it."""
    if isinstance(annotation, str):
        return annotation.removeprefix("typing.").startswith("ClassVar")
    return annotation is ClassVar or typing.get_origin(annotation) is ClassVar
