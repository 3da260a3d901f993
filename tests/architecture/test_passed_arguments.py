"""Every argument of an agent's constructor is read, or is an argument of the base class that `locals()` passes on.

`arguments_for` and `keywords_for` select arguments by name. An argument that is renamed on one side only would be lost.
"""

import ast
import inspect
import textwrap
from typing import Any

import pytest

from pfrl_like import agents
from pfrl_like.agent import Agent
from pfrl_like.learning.compatibility.arguments import arguments_for, critics_and_optimizers, keywords_for

#: Functions that select from the `locals()` of a constructor.
SELECTING = {function.__name__: function for function in (arguments_for, keywords_for)}
#: Arguments that another function reads from `locals()`.
READ_BY = {
    "critics_and_optimizers": {"q_func1", "q_func2", "q_func1_optimizer", "q_func2_optimizer"}
    | {"further_q_funcs", "further_q_func_optimizers"},
    "keywords_for": {"logger"},
}


def constructors(cls: type = Agent) -> dict[str, Any]:
    """The constructors of the package's agents that pass arguments on by name."""
    assert agents.__all__  # the package imports all of them
    found = {}
    for each in cls.__subclasses__():
        found |= constructors(each)
        own = inspect.unwrap(vars(each)["__init__"]) if "__init__" in vars(each) else None
        if own and each.__module__.startswith("pfrl_like.") and {*SELECTING} & {*own.__code__.co_names}:
            found[f"{each.__module__}.{each.__qualname__}"] = own
    return found


def lost_arguments(constructor: Any) -> set[str]:
    """The arguments that are neither read nor passed on."""
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(constructor))).body
    read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    for call in [node for node in ast.walk(function) if isinstance(node, ast.Call)]:
        name = ast.unparse(call.func)
        read |= READ_BY.get(name, set())
        if name in SELECTING:
            base = constructor.__globals__[ast.unparse(call.args[0])]
            accepted = inspect.signature(base).parameters.values()
            read |= {each.name for each in accepted if name == "arguments_for" or each.kind is each.KEYWORD_ONLY}
    return {*inspect.signature(constructor).parameters} - {"self"} - read


@pytest.mark.parametrize("name", constructors())
def test_no_argument_of_an_agent_is_lost(name: str) -> None:
    assert lost_arguments(constructors()[name]) == set()


def test_the_constructors_are_found() -> None:
    assert len(constructors()) > 30


def test_names_that_other_functions_read_are_arguments_of_soft_actor_critic() -> None:
    known = inspect.signature(constructors()["pfrl_like.agents.soft_actor_critic.SoftActorCritic"]).parameters
    assert READ_BY[critics_and_optimizers.__name__] <= {*known}


class Base:
    def __init__(self, gamma: float = 0.99, *, tau: float = 1.0) -> None:
        self.gamma, self.tau = gamma, tau


class Renamed(Base):
    def __init__(self, discount: float, tau: float, lr: float) -> None:
        self.lr = lr
        super().__init__(**arguments_for(Base, locals()))


class OnlyKeywords(Base):
    def __init__(self, gamma: float, tau: float, logger: Any = None) -> None:
        super().__init__(**keywords_for(Base, locals()))


def test_a_renamed_argument_is_found() -> None:
    assert lost_arguments(Renamed.__init__) == {"discount"}
    assert lost_arguments(OnlyKeywords.__init__) == {"gamma"}
