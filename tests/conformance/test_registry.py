"""Every public agent has an entry in the registry of the tests, from which the tests of all agents are generated."""

import inspect

from registry import LEARNERS, REGISTRY

from pfrl_like import agents
from pfrl_like.agent import Agent

#: Their arguments and parts are those of the agents made of them.
BASES = {"AdvantageWeightedActorCritic", "OffPolicyActorCritic", "OffPolicyAgent", "OnPolicyAgent"}
AGENTS = {name for name, each in vars(agents).items() if inspect.isclass(each) and issubclass(each, Agent)}


def test_every_public_agent_has_an_entry() -> None:
    lacking = sorted(AGENTS - BASES - {*REGISTRY})
    assert not lacking, f"{', '.join(lacking)}: add an Entry to tests/support/registry"


def test_every_agent_that_learns_is_tried_with_all_its_parts() -> None:
    assert {*LEARNERS} == AGENTS - BASES - {"StateQFunctionActor"}  # which acts for a learner elsewhere
