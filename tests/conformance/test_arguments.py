"""Every argument of every public agent has an effect: the agent is made twice, with one argument changed."""

import functools
from typing import Any

import pytest
from argument_effects import OBSERVED, Effect, Life, changed, differ, held, live, parameters_of
from registry import KINDS, REGISTRY, arguments_of, obs_size

from pfrl_like import agents
from pfrl_like.agents import AdvantageWeightedActorCritic, OffPolicyActorCritic, OffPolicyAgent, OnPolicyAgent

#: Their arguments are those of the agents made of them.
BASES = {AdvantageWeightedActorCritic, OffPolicyActorCritic, OffPolicyAgent, OnPolicyAgent}


def arguments() -> list[Any]:
    """Every agent with each of its arguments; slow are those that it has from another agent."""
    return [
        pytest.param(kind, name, id=f"{kind.__name__}-{name}", marks=[] if owner is kind else pytest.mark.slow)
        for kind in KINDS
        for name, owner in parameters_of(kind).items()
    ]


def test_every_argument_of_every_public_agent_has_an_entry() -> None:
    public = {getattr(agents, name) for name in agents.__all__} - BASES
    assert public <= {*KINDS}
    for name, entry in REGISTRY.items():
        assert parameters_of(entry.kind).keys() <= entry.every_effect.keys(), name


def test_every_entry_is_of_an_argument_of_some_agent() -> None:
    assert {name for entry in REGISTRY.values() for name in entry.every_effect} == {
        name for kind in KINDS for name in parameters_of(kind)
    }


@functools.cache
def usual(kind: Any) -> Life:
    """The life of the agent as it is."""
    return live(lambda: kind(**arguments_of(kind)), obs_size(kind))


@pytest.mark.representatives(80, "StateQFunctionActor-pipe", "StateQFunctionActor-recurrent", "ACER-phi")
@pytest.mark.parametrize(("kind", "name"), arguments())
def test_argument_has_its_effect(kind: Any, name: str) -> None:
    effect = REGISTRY[kind.__name__].every_effect[name]
    if effect.held_by:
        assert held(effect.held_by, name), f"{effect.held_by} does not speak of {name}"
    if effect.refused:
        check_refusal(kind, name, effect)
    elif effect.shows:
        check_effect(kind, name, effect)
    else:
        assert effect.held_by


def check_refusal(kind: Any, name: str, effect: Effect) -> None:
    given = arguments_of(kind, **effect.given)
    kind(**given)
    with pytest.raises((TypeError, ValueError), match=effect.refused):
        kind(**changed(given, **{name: effect.value}))


def check_effect(kind: Any, name: str, effect: Effect) -> None:
    names = effect.shows.replace("nothing", "").split()
    alone = effect.given or "log" in names

    def make(**changes: Any) -> Any:
        return kind(**changed(arguments_of(kind, **effect.given), **changes))

    before = live(make, obs_size(kind)) if alone else usual(kind)
    after = live(functools.partial(make, **{name: effect.value}, **effect.also), obs_size(kind))
    for each in names:
        assert differ(OBSERVED[each](before), OBSERVED[each](after)), f"{name} changes nothing of the {each}"
    if "parameters" not in names:
        assert not differ(OBSERVED["parameters"](before), OBSERVED["parameters"](after))
