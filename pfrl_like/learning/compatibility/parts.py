"""Checks of an agent's modules, optimisers, functions and numbers."""

import contextlib
import inspect
import numbers
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.distributions import Categorical, Distribution

from pfrl_like.action_value import DiscreteActionValue, QuadraticActionValue
from pfrl_like.distributions import ProductOfCategoricals
from pfrl_like.explorer import Explorer
from pfrl_like.learning.model_outputs import wrong_value
from pfrl_like.q_function import StateActionQFunction
from pfrl_like.utils.checks import check_counts

#: Data for a check of an object: its name, the object, True if it is valid, description of a valid object.
Part = tuple[str, Any, bool, str]


def functions_of(agent: Any) -> list[Part]:
    """Return the data for the checks of an agent's functions, `phi` and `batch_states`."""
    return [
        ("phi", agent.phi, callable(agent.phi), "a function of one observation, or None"),
        ("batch_states", agent.batch_states, callable(agent.batch_states), "a function"),
    ]


def check_kinds(modules: Mapping[str, Any], optimizers: Mapping[str, Any], *others: Part) -> None:
    """Check the types of modules, optimisers and other objects.

    Args:
        modules: Trained modules, keyed by argument name.
        optimizers: Optimisers of the modules, keyed by argument name.
        *others: Data for the checks of other objects.

    Raises:
        TypeError: If an object has the wrong type.
    """
    is_optimizer = torch.optim.Optimizer
    parts: list[Part] = [
        *((name, module, isinstance(module, torch.nn.Module), "a torch.nn.Module") for name, module in modules.items()),
        *((name, each, isinstance(each, is_optimizer), "a torch.optim.Optimizer") for name, each in optimizers.items()),
        *others,
    ]
    for name, part, fits, expected in parts:
        if not fits and isinstance(part, type):
            kind = part.__name__
            raise TypeError(f"{name} is the class {kind}, expected {expected}: pass an instance, {kind}(...)")
        if not fits:
            got = " ".join(repr(part).split())  # on one line
            raise TypeError(f"{name} is {got:.80} ({type(part).__name__}), expected {expected}")


def check_numbers_in(agent: Any, **ranges: tuple[float, float | None]) -> None:
    """Check that attributes are numbers in their ranges.

    Args:
        agent: The agent.
        **ranges: (minimum, maximum), both inclusive, keyed by attribute name. A maximum of None sets no upper limit.

    Raises:
        TypeError: If an attribute is not a number.
        ValueError: If an attribute is outside its range.
    """
    for name, (minimum, maximum) in ranges.items():
        value = getattr(agent, name)
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            raise TypeError(f"{name} is {value!r:.80}, expected a number")
        if not (float(value) >= minimum and (maximum is None or float(value) <= maximum)):
            expected = f"at least {minimum}" if maximum is None else f"a number from {minimum} to {maximum}"
            raise ValueError(f"{name} is {value!r}, expected {expected}")


def check_positive(agent: Any, *names: str) -> None:
    """Check that attributes are numbers above 0.

    Raises:
        TypeError: If an attribute is not a number.
        ValueError: If an attribute is not above 0.
    """
    check_numbers_in(agent, **dict.fromkeys(names, (0, None)))
    for name in names:
        if getattr(agent, name) == 0:
            raise ValueError(f"{name} is {getattr(agent, name)!r}, expected a number above 0")


def check_optional_numbers(agent: Any, **ranges: tuple[float, float | None]) -> None:
    """Check that attributes are None or numbers in their ranges. The arguments are those of `check_numbers_in`."""
    check_numbers_in(agent, **{name: each for name, each in ranges.items() if getattr(agent, name) is not None})


def check_max_grad_norm(agent: Any) -> None:
    """Check that `max_grad_norm` is a positive number or None. If it was 0, no parameter would ever change."""
    check_optional_numbers(agent, max_grad_norm=(0, None))
    if agent.max_grad_norm == 0:
        raise ValueError(f"max_grad_norm is {agent.max_grad_norm!r}, expected a positive number or None")


def check_lengths(agent: Any, *names: str, optional: tuple[str, ...] = ()) -> None:
    """Check that attributes are positive integers. The `optional` attributes may be None."""
    check_counts(**{name: getattr(agent, name) for name in names})
    check_counts(optional=True, **{name: getattr(agent, name) for name in optional})


def check_optimizers(agent: Any, modules: Mapping[str, Any], optimizers: Mapping[str, Any]) -> None:
    """Check that optimisers can train the modules.

    Log a warning if an optimiser has parameters that belong to no module.

    Args:
        agent: Agent whose logger is used.
        modules: Trained modules, keyed by argument name.
        optimizers: Optimisers of the modules, keyed by argument name.

    Raises:
        TypeError: If the `step` method of an optimiser needs a closure.
        ValueError: If an optimiser contains no parameter of the modules, or no parameter that requires a gradient.
    """
    learning = {id(param) for module in modules.values() for param in module.parameters()}
    advice = f"construct it with {' or '.join(f'{module}.parameters()' for module in modules)}"
    for name, optimizer in optimizers.items():
        closure = inspect.signature(optimizer.step).parameters.get("closure")
        if closure is not None and closure.default is closure.empty:
            raise TypeError(f"{name} is {type(optimizer).__name__}, whose step needs a closure: use another optimizer")
        params = [param for group in optimizer.param_groups for param in group["params"]]
        if learning.isdisjoint(map(id, params)):
            raise ValueError(f"{name} holds no parameter of {' or '.join(modules)}: {advice}")
        if not any(param.requires_grad for param in params):
            raise ValueError(f"{name} holds no parameter that requires a gradient: call requires_grad_(True) on them")
        if n_others := len(set(map(id, params)) - learning):
            agent.logger.warning(
                "%s holds %d tensors that are not parameters of %s and are not trained: %s. Construct it after layers "
                "are replaced, for example by to_factorized_noisy",
                name, n_others, ", ".join(modules), advice,
            )  # fmt: skip


#: Kinds of actions, keyed by the class of the network's output.
_KINDS: dict[type, str] = {
    DiscreteActionValue: "discrete", Categorical: "discrete", ProductOfCategoricals: "discrete",
    QuadraticActionValue: "continuous",
}  # fmt: skip


def check_takes_state(argument: str, module: nn.Module) -> None:
    """Check that the input of a Q-function is only the state.

    Raises:
        TypeError: If the Q-function takes an action. The message names the argument.
    """
    if isinstance(module, StateActionQFunction):
        text = f"{argument} is {type(module).__name__}, which takes observation and action, expected a Q-function of"
        raise TypeError(f"{text} the observation only, such as FCStateQFunctionWithDiscreteAction")


def check_select_action(explorer: Any) -> None:
    """Check that agents can call the method `select_action` of an explorer.

    Raises:
        TypeError: If the method has a different signature. The message contains the expected signature.
    """
    with contextlib.suppress(ValueError):  # a function written in C may have no signature
        signature = inspect.signature(explorer.select_action)
        try:
            signature.bind(0, None, action_value=None)
        except TypeError as error:
            raise TypeError(
                f"explorer: select_action{signature} of {type(explorer).__name__} has the wrong signature ({error}), "
                "expected select_action(t, greedy_action_func, action_value=None)"
            ) from error


def check_explorer(explorer: Any, kind: str | None, owner: str) -> None:
    """Check that an explorer supports the agent's kind of actions.

    Args:
        explorer: The explorer.
        kind: "discrete", "continuous", or None if the kind is unknown.
        owner: Name of the object that determines the kind of actions, for example "policy". The error message contains
            this name.

    Raises:
        TypeError: If the explorer is a class of this library for the other kind of actions. User-defined explorers are
            not checked.
    """
    kinds = explorer.action_kinds if isinstance(explorer, Explorer) else ()
    if kind is None or not kinds or kind in kinds:
        return
    name, others = type(explorer).__name__, "Boltzmann" if kind == "discrete" else "AdditiveGaussian, AdditiveOU"
    text = f"explorer is {name}, which is made for {kinds[0]} actions, but {owner} has {kind} actions"
    raise TypeError(f"{text}: use {others} or one of the epsilon-greedy explorers")


def kind_of_actions(output: Any) -> str | None:
    """Return the kind of actions of a network's output, "discrete" or "continuous". Return None if it is unknown."""
    return next((kind for base, kind in _KINDS.items() if isinstance(output, base)), None)


def check_same_class(values: Mapping[str, Any]) -> None:
    """Check that the outputs of all critics have the same class, because their values are compared.

    Args:
        values: Outputs of the critics, keyed by name.

    Raises:
        TypeError: If two outputs have different classes. The message names the critics.
    """
    first, *others = values
    for name in others:
        if type(values[first]) is not type(values[name]):
            text = " and ".join(f"{key} gives {type(values[key]).__name__}" for key in (first, name))
            raise TypeError(f"{text}, whose minimum is undefined: expected the same class for all critics")


def check_distribution(
    argument: str, output: Any, *, densities: bool, reparametrised: bool = False, instead: str = "DiscreteSAC"
) -> None:
    """Check that the losses can be computed with a policy's distributions.

    Args:
        argument: Name of the policy in error messages.
        output: Output of the policy.
        densities: True if the losses need log-probabilities.
        reparametrised: True if gradients must flow through samples.
        instead: Name of the agent that the error message recommends for discrete actions.

    Raises:
        TypeError: If the losses cannot be computed. The message names the argument.
    """
    name = type(output).__name__
    if not isinstance(output, Distribution):
        raise wrong_value(output, Distribution, argument)
    if reparametrised and not output.has_rsample and kind_of_actions(output) == "discrete":
        text = f"{argument} gives {name}, whose samples have no gradient"
        raise TypeError(f"{text}: use a Gaussian head, squashed or not, or {instead} for discrete actions")
    if densities and not getattr(output, "has_density", True):
        raise TypeError(f"{argument} gives {name} without log-probabilities: use a Gaussian head, squashed or not")
