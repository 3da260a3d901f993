"""What arguments that several runners have in common must be: looked at before anything is moved or made for a run."""

import numbers
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pfrl_like.utils.checks import check_counts, check_flags


def check_arguments(arguments: Mapping[str, Any], *methods: str) -> None:
    """Refuse arguments of a runner that are not what their names say; those of other names pass.

    Args:
        arguments: All that the runner was called with: `locals()`, in its first line.
        methods: What its agent must have.

    Raises:
        TypeError: Naming the argument, what came and what is expected.
        ValueError: If a number or a choice is out of range, or of `eval_n_steps` and `eval_n_episodes` both or neither
            are given although there is an evaluation.
    """
    if methods:
        check_has("agent", arguments["agent"], *methods)
    for name, (fits, expected) in _EXPECTED.items():
        if name in arguments and not fits(arguments[name]):
            raise _unfit(name, arguments[name], expected)
    for name, (fits, one, several) in _LISTS.items():
        if name in arguments:
            _check_list(name, arguments[name], fits, one, several)
    check_flags(**{name: arguments[name] for name in _FLAGS & arguments.keys()})
    check_counts(1, True, **{name: arguments[name] for name in _KEPT & arguments.keys()})
    for name in _ON_FAILURE & arguments.keys():
        if arguments[name] not in ("raise", "warn"):
            raise ValueError(f"{name} is {arguments[name]!r:.80}, expected 'raise' or 'warn'")
    if "eval_n_steps" in arguments and arguments["eval_interval"] is not None:
        check_extent(eval_n_steps=arguments["eval_n_steps"], eval_n_episodes=arguments["eval_n_episodes"])


def check_extent(**extent: int | None) -> None:
    """Refuse both or neither of two numbers, of steps and of episodes, and numbers that are none.

    Args:
        **extent: The numbers, under the caller's names for them.

    Raises:
        ValueError: If not exactly one is given, or it is too small.
        TypeError: If it is no integer.
    """
    if len(extent) - list(extent.values()).count(None) != 1:
        given = " and ".join(f"{name} is {value}" for name, value in extent.items())
        raise ValueError(f"{given}, expected exactly one of them")
    check_counts(1, True, **extent)


def check_has(name: str, part: Any, *attributes: str, way_out: str = "") -> None:
    """Refuse a part that lacks what it is used for.

    Raises:
        TypeError: Naming what came and the first attribute that it lacks.
    """
    for attribute in attributes:
        if not hasattr(part, attribute):
            raise _unfit(name, part, f"something with {attribute}{way_out}")


def _check_list(name: str, given: Any, fits: Callable[[Any], bool], one: str, several: str) -> None:
    if not isinstance(given, Collection):
        raise _unfit(name, given, f"a list of {several}{': put it in a list' if fits(given) else ''}")
    for index, each in enumerate(given):
        if not fits(each):
            raise _unfit(f"{name}[{index}]", each, one)


def _unfit(name: str, given: Any, expected: str) -> TypeError:
    return TypeError(f"{name} is {given!r:.80} ({type(given).__name__}), expected {expected}")


def _is_env(given: Any) -> bool:
    return not isinstance(given, type) and all(callable(getattr(given, name, None)) for name in ("reset", "step"))


def _is_number(given: Any) -> bool:
    return isinstance(given, numbers.Real) and not isinstance(given, bool)


def _or_none(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda given: given is None or fits(given)


_NUMBER = _or_none(_is_number), "a number, or None"
_ENV = "an environment: an object with the methods reset and step"
_EXPECTED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "env": (_is_env, _ENV),
    "eval_env": (_or_none(_is_env), f"{_ENV}, or None"),
    "evaluator": (
        _or_none(lambda given: callable(given) or hasattr(given, "evaluate_if_necessary")),
        "an object with the method evaluate_if_necessary, a function that makes one, or None",
    ),
    "successful_score": _NUMBER,
    "eval_success_threshold": _NUMBER,
    "logger": (_or_none(lambda given: hasattr(given, "addHandler")), "a logging.Logger, or None"),
    "progress": (lambda given: given is None or isinstance(given, bool), "True, False or None"),
}
_FUNCTIONS = callable, "a function", "functions"
_LISTS: Mapping[str, tuple[Callable[[Any], bool], str, str]] = {
    "hooks": _FUNCTIONS,
    "step_hooks": _FUNCTIONS,
    "global_step_hooks": _FUNCTIONS,
    "evaluation_hooks": _FUNCTIONS,
    "loggers": (lambda given: hasattr(given, "log"), "an object with the method log", "loggers of metrics"),
}
_KEPT = {"keep_checkpoints", "keep_snapshots"}
_ON_FAILURE = {"on_checkpoint_failure", "on_snapshot_failure"}
_FLAGS = {"eval_during_episode", "save_best_so_far_agent", "use_tensorboard", "profile", "use_shared_memory"}
