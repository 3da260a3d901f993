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

#: Name of a part, the part, whether it fits, and the expected part in words.
Part = tuple[str, Any, bool, str]


def functions_of(agent: Any) -> list[Part]:
    """Return the functions among an agent's parts, `phi` and `batch_states`."""
    return [
        ("phi", agent.phi, callable(agent.phi), "a function of one observation, or None"),
        ("batch_states", agent.batch_states, callable(agent.batch_states), "a function"),
    ]


def check_kinds(modules: Mapping[str, Any], optimizers: Mapping[str, Any], *others: Part) -> None:
    """Check the types of parts.

    Args:
        modules: The modules that learn, by argument.
        optimizers: Their optimisers, by argument.
        *others: Further parts.

    Raises:
        TypeError: If one has the wrong type.
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
            raise TypeError(f"{name} is the class {kind}, expected {expected}: an object made of it, {kind}(...)")
        if not fits:
            came = " ".join(repr(part).split())  # on one line
            raise TypeError(f"{name} is {came:.80} ({type(part).__name__}), expected {expected}")


def check_numbers_in(agent: Any, **ranges: tuple[float, float | None]) -> None:
    """Check that attributes are numbers in their range (least, largest or None), both included.

    Raises:
        TypeError: If one is not a number.
        ValueError: If one is outside its range.
    """
    for name, (least, largest) in ranges.items():
        value = getattr(agent, name)
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            raise TypeError(f"{name} is {value!r:.80}, expected a number")
        if not (float(value) >= least and (largest is None or float(value) <= largest)):
            expected = f"at least {least}" if largest is None else f"a number from {least} to {largest}"
            raise ValueError(f"{name} is {value!r}, expected {expected}")


def check_positive(agent: Any, *names: str) -> None:
    """Check that attributes are numbers above 0.

    Raises:
        TypeError: If one is not a number.
        ValueError: If one is not above 0.
    """
    check_numbers_in(agent, **dict.fromkeys(names, (0, None)))
    for name in names:
        if getattr(agent, name) == 0:
            raise ValueError(f"{name} is {getattr(agent, name)!r}, expected a number above 0")


def check_optional_numbers(agent: Any, **ranges: tuple[float, float | None]) -> None:
    """Make the check of `check_numbers_in`, with None allowed."""
    check_numbers_in(agent, **{name: each for name, each in ranges.items() if getattr(agent, name) is not None})


def check_max_grad_norm(agent: Any) -> None:
    """Check that `max_grad_norm` is a positive number or None; 0 would stop all learning."""
    check_optional_numbers(agent, max_grad_norm=(0, None))
    if agent.max_grad_norm == 0:
        raise ValueError(f"max_grad_norm is {agent.max_grad_norm!r}, expected a positive number or None")


def check_lengths(agent: Any, *names: str, optional: tuple[str, ...] = ()) -> None:
    """Check that attributes are positive integers; the `optional` ones may be None."""
    check_counts(**{name: getattr(agent, name) for name in names})
    check_counts(optional=True, **{name: getattr(agent, name) for name in optional})


def check_optimizers(agent: Any, modules: Mapping[str, Any], optimizers: Mapping[str, Any]) -> None:
    """Check that optimisers can train the modules; warn of parameters that belong to no module.

    Args:
        agent: The agent, whose logger is used.
        modules: The modules that learn, by argument.
        optimizers: Their optimisers, by argument.

    Raises:
        TypeError: If the step of one needs a closure.
        ValueError: If one holds no parameter of the modules, or none that requires a gradient.
    """
    learning = {id(param) for module in modules.values() for param in module.parameters()}
    way_out = f"make it of {' or '.join(f'{module}.parameters()' for module in modules)}"
    for name, optimizer in optimizers.items():
        closure = inspect.signature(optimizer.step).parameters.get("closure")
        if closure is not None and closure.default is closure.empty:
            raise TypeError(f"{name} is {type(optimizer).__name__}, whose step needs a closure, expected one without")
        params = [param for group in optimizer.param_groups for param in group["params"]]
        if learning.isdisjoint(map(id, params)):
            raise ValueError(f"{name} holds no parameter of {' or '.join(modules)}, so nothing would learn: {way_out}")
        if not any(param.requires_grad for param in params):
            raise ValueError(f"{name} holds no parameter that requires a gradient: thaw some with requires_grad_(True)")
        if strangers := len(set(map(id, params)) - learning):
            agent.logger.warning(
                "%s holds %d tensors that belong to none of %s, and which nothing here trains; %s, after layers are "
                "replaced, as to_factorized_noisy does",
                name, strangers, ", ".join(modules), way_out,
            )  # fmt: skip


#: Kind of the actions, by class of a network's output.
_KINDS: dict[type, str] = {
    DiscreteActionValue: "discrete", Categorical: "discrete", ProductOfCategoricals: "discrete",
    QuadraticActionValue: "continuous",
}  # fmt: skip


def check_takes_state(argument: str, module: nn.Module) -> None:
    """Reject a Q-function of state and action where one of the state is needed.

    Raises:
        TypeError: If it is one; the error names the argument.
    """
    if isinstance(module, StateActionQFunction):
        raise TypeError(
            f"{argument} is {type(module).__name__}, which takes observation and action, but is called with the "
            "observation alone: use a Q-function of the state, such as FCStateQFunctionWithDiscreteAction"
        )


def check_select_action(explorer: Any) -> None:
    """Check that an explorer's `select_action` can be called as agents call it.

    Raises:
        TypeError: If it has another signature; the error names the expected one.
    """
    with contextlib.suppress(ValueError):  # some functions written in C have no signature
        signature = inspect.signature(explorer.select_action)
        try:
            signature.bind(0, None, action_value=None)
        except TypeError as error:
            raise TypeError(
                f"explorer: select_action{signature} of {type(explorer).__name__} does not fit ({error}), expected "
                "select_action(t, greedy_action_func, action_value=None)"
            ) from error


def check_explorer(explorer: Any, kind: str | None, chosen_by: str) -> None:
    """Check that an explorer is made for the agent's kind of actions.

    Args:
        explorer: The explorer.
        kind: "discrete", "continuous", or None if the kind is not known.
        chosen_by: The part that determines the kind, for the message.

    Raises:
        TypeError: If it is an explorer of this library for the other kind.
    """
    kinds = explorer.action_kinds if isinstance(explorer, Explorer) else ()
    if kind is None or not kinds or kind in kinds:
        return
    others = {
        "discrete": "one of the epsilon-greedy explorers or Boltzmann",
        "continuous": "AdditiveGaussian, AdditiveOU or one of the epsilon-greedy explorers",
    }
    raise TypeError(
        f"explorer is {type(explorer).__name__}, which is made for {kinds[0]} actions, but {chosen_by} has {kind} "
        f"ones: use {others[kind]}"
    )


def kind_of_actions(output: Any) -> str | None:
    """Return the kind of actions that a network's output belongs to, "discrete" or "continuous"; None if not known."""
    return next((kind for base, kind in _KINDS.items() if isinstance(output, base)), None)


def check_one_form(values: Mapping[str, Any]) -> None:
    """Check that all critics have outputs of the same class, so that their values can be compared.

    Args:
        values: The critics' outputs, by name.

    Raises:
        TypeError: If two differ; the error names them.
    """
    first, *others = values
    for name in others:
        ours, its = type(values[first]), type(values[name])
        if ours is not its:
            raise TypeError(
                f"{first} gives {ours.__name__} and {name} {its.__name__}, of which none can be the least: "
                "expected the same for all"
            )


def check_distribution(
    argument: str, given: Any, *, densities: bool, reparametrised: bool = False, instead: str = "DiscreteSAC"
) -> None:
    """Check that the losses can be computed with a policy's distributions.

    Args:
        argument: Name of the policy in error messages.
        given: Output of the policy.
        densities: True if log-probabilities are needed.
        reparametrised: True if gradients have to flow through samples.
        instead: Agent to recommend for discrete actions.

    Raises:
        TypeError: If they cannot be; the error names the argument.
    """
    name = type(given).__name__
    if not isinstance(given, Distribution):
        raise wrong_value(given, Distribution, argument)
    if reparametrised and not given.has_rsample and kind_of_actions(given) == "discrete":
        raise TypeError(
            f"{argument} gives {name}, through whose samples no gradient flows: use a Gaussian head, "
            f"squashed or not, or {instead} for discrete actions"
        )
    if densities and not getattr(given, "has_density", True):
        raise TypeError(
            f"{argument} gives {name}, which has no density, hence no log-probabilities: use a Gaussian "
            "head, squashed or not"
        )
