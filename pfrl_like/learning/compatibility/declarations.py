"""Which networks and explorers fit an agent, as far as it can be told before an observation is there.

What a network takes and gives is read from its annotations (`utils.declared`). What is not declared passes, and is
found out when the agent meets an environment, or first learns.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.distributions import Categorical, Distribution

from pfrl_like.action_value import DiscreteActionValue, QuadraticActionValue
from pfrl_like.distributions import ProductOfCategoricals
from pfrl_like.explorer import Explorer
from pfrl_like.learning.acting import critic_giving, wrong_type
from pfrl_like.q_function import StateActionQFunction
from pfrl_like.utils.declared import input_of, may_be, output_of

#: Classes that say of which kind the actions are.
_KINDS: dict[type, str] = {
    DiscreteActionValue: "discrete", Categorical: "discrete", ProductOfCategoricals: "discrete",
    QuadraticActionValue: "continuous",
}  # fmt: skip


def check_output(argument: str, module: nn.Module, wanted: type, example: str | None = None) -> Any:
    """Refuse a module that gives something else, naming an example of what fits; returns what it is declared to give.

    Raises:
        TypeError: Naming the argument.
    """
    given = output_of(module)
    if not may_be(given, wanted):
        raise wrong_type(tuple if isinstance(given, tuple) else given, wanted, argument, example)
    return given


def check_takes_state(argument: str, module: nn.Module) -> None:
    """Refuse a Q-function of state and action where one of the state is needed.

    Raises:
        TypeError: Naming the argument.
    """
    if isinstance(module, StateActionQFunction) or isinstance(input_of(module), tuple):
        raise TypeError(
            f"{argument} is a {type(module).__name__}, which takes observation and action, but is called with the "
            "observation alone: use a Q-function of the state, such as FCStateQFunctionWithDiscreteAction"
        )


def check_explorer(explorer: Any, kind: str | None, chosen_by: str) -> None:
    """Refuse an explorer of other actions than the agent's.

    Args:
        explorer: The explorer.
        kind: "discrete", "continuous", or None if that is not known.
        chosen_by: What gives these actions, for the message.

    Raises:
        TypeError: If it is one of the library's that are made for the other kind.
    """
    kinds = explorer.action_kinds if isinstance(explorer, Explorer) else ()
    if kind is None or not kinds or kind in kinds:
        return
    others = {
        "discrete": "one of the epsilon-greedy explorers or Boltzmann",
        "continuous": "AdditiveGaussian, AdditiveOU or one of the epsilon-greedy explorers",
    }
    raise TypeError(
        f"explorer is a {type(explorer).__name__}, which is made for {kinds[0]} actions, but {chosen_by} has {kind} "
        f"ones: use {others[kind]}"
    )


def kind_of_actions(given: Any) -> str | None:
    """Whether what a network gives is about "discrete" or "continuous" actions; None if that is not known."""
    if not isinstance(given, type):
        return None
    return next((kind for base, kind in _KINDS.items() if issubclass(given, base)), None)


def check_takes_pair(argument: str, module: nn.Module, other: str = "action") -> None:
    """Refuse a module that is declared to take a tensor where it is called with a pair.

    Args:
        argument: What errors call it.
        module: The module.
        other: What comes beside the observation.

    Raises:
        TypeError: Naming the argument.
    """
    takes = input_of(module)
    if isinstance(takes, type) and issubclass(takes, Tensor):
        raise TypeError(
            f"{argument} is a {type(module).__name__}, which takes a tensor, but is called with a pair of observation "
            f"and {other}: begin it with ConcatObsAndAction"
        )


def check_critics(critics: Mapping[str, nn.Module], wanted: type = DiscreteActionValue) -> None:
    """Refuse critics that are no Q-functions of state and action, or not all of one form.

    Args:
        critics: The critics, by the names that errors use.
        wanted: The form that they must have.

    Raises:
        TypeError: Naming the critic.
    """
    forms = {}
    for name, critic in critics.items():
        takes = input_of(critic)
        if isinstance(takes, type) and issubclass(takes, Tensor):
            raise TypeError(
                f"{name} is a {type(critic).__name__}, which takes a tensor, but critics are called with a pair of "
                f"observation and action: use {critic_giving(wanted)}, or begin it with ConcatObsAndAction"
            )
        if wanted is DiscreteActionValue and may_be(output_of(critic), Tensor):
            forms[name] = output_of(critic)  # numbers, one for each row
        else:
            forms[name] = check_output(name, critic, wanted, critic_giving(wanted))
    check_one_form(forms)


def check_critics_of_state(critics: Mapping[str, nn.Module]) -> None:
    """Refuse critics that are no Q-functions of the state with discrete actions, or not all of one form.

    Args:
        critics: The critics, by the names that errors use.

    Raises:
        TypeError: Naming the critic.
    """
    forms = {}
    for name, critic in critics.items():
        check_takes_state(name, critic)
        forms[name] = check_output(name, critic, DiscreteActionValue)
    check_one_form(forms)


def check_one_form(forms: Mapping[str, Any]) -> None:
    """Refuse critics of different forms, whose values cannot be compared.

    Raises:
        TypeError: Naming two of them.
    """
    known = {name: given for name, given in forms.items() if isinstance(given, type)}
    for name, given in known.items():
        first = next(iter(known))
        if _form(given) is not _form(known[first]):
            raise TypeError(
                f"{first} gives a {known[first].__name__} and {name} a {given.__name__}, of which none can be the "
                "least: expected the same for all"
            )


def _form(given: type) -> type:
    return DiscreteActionValue if issubclass(given, Tensor) else given


def check_distribution(
    argument: str, given: Any, *, densities: bool, reparametrised: bool = False, instead: str = "DiscreteSAC"
) -> None:
    """Refuse a policy whose distributions cannot be learnt.

    Args:
        argument: What errors call the policy.
        given: What it is declared to give.
        densities: Whether log-probabilities are needed.
        reparametrised: Whether gradients have to flow through samples.
        instead: What to use for discrete actions.

    Raises:
        TypeError: Naming the argument.
    """
    if not may_be(given, Distribution):
        raise wrong_type(given, Distribution, argument)
    if reparametrised and getattr(given, "has_rsample", None) is False and kind_of_actions(given) == "discrete":
        raise TypeError(
            f"{argument} gives a {given.__name__}, through whose samples no gradient flows: use a Gaussian head, "
            f"squashed or not, or {instead} for discrete actions"
        )
    if densities and not getattr(given, "has_density", True):
        raise TypeError(
            f"{argument} gives a {given.__name__}, which has no density, hence no log-probabilities: use a Gaussian "
            "head, squashed or not"
        )


def check_policy(agent: Any, modules: Mapping[str, nn.Module], further: tuple[type, ...] = (Tensor,)) -> None:
    """Refuse a policy, or a model that gives distributions and something else, of an agent that needs densities.

    Args:
        agent: The agent: its `acting_argument` is the policy, or the model if its `value_type` is a tuple.
        modules: The modules that learn, by argument.
        further: What a model gives beside distributions.

    Raises:
        TypeError: Naming the argument.
    """
    argument = agent.acting_argument
    given = output_of(modules[argument])
    if agent.value_type is tuple and argument == "model":
        check_output(argument, modules[argument], tuple)
        wanted = (Distribution, *further)
        parts = given if isinstance(given, tuple) else (Any,) * len(wanted)
        if len(parts) != len(wanted) or not all(map(may_be, parts, wanted)):
            came, expected = (
                ", ".join(getattr(part, "__name__", str(part)) for part in each) for each in (parts, wanted)
            )
            raise TypeError(f"{argument} gives a tuple of {came}, expected one of {expected}")
        given = parts[0]
    check_distribution(argument, given, densities=True)
