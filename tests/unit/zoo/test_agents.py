"""The table of agents."""

import re

import numpy as np
import pytest
from gymnasium import spaces

from pfrl_like.zoo.agents import AGENTS, action_kind, check_actions
from pfrl_like.zoo.builder import Spaces

SPACES = {
    "discrete": spaces.Discrete(2),
    "continuous": spaces.Box(-1, 1, (2,), np.float32),
    "multi-discrete": spaces.MultiDiscrete([2, 3]),
    "multi-binary": spaces.MultiBinary(2),
    "": spaces.Box(-1, 1, (2, 2), np.float32),
}


def composes(name: str, space: spaces.Space) -> bool:  # type: ignore[type-arg]
    """True if an agent can be composed for an action space."""
    recipe, obs = AGENTS[name], spaces.Box(-1, 1, (3,), np.float32)
    target = {"target_return": 1.0} if "DecisionTransformer" in recipe.class_name else {}
    try:
        recipe.build(recipe.class_name, Spaces(obs, space), **recipe.settings, **target)
    except ValueError as error:
        assert "action space is" in str(error), error
        return False
    return True


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_is_composed_for_exactly_the_actions_in_the_table(name: str) -> None:
    assert tuple(kind for kind, space in SPACES.items() if composes(name, space)) == AGENTS[name].actions


def test_the_kind_of_actions_is_that_of_the_space() -> None:
    assert [action_kind(space) for space in SPACES.values()] == [*SPACES]


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("sac", "discrete", "'sac', which takes continuous actions, but the action space is Discrete(2): expected an"),
        ("sac", "discrete", "expected an agent for discrete actions: dqn, double_dqn, drqn, rainbow, "),
        ("cql", "discrete", "expected an agent for discrete actions: discrete_bc, discrete_bcq, discrete_cql, "),
        (
            "acer",
            "multi-binary",
            "expected an agent for multi-binary actions: ppo, trpo, a2c, impala, appo, reinforce, a3c",
        ),
        ("cql", "multi-discrete", "expected an environment with continuous actions"),
    ],
)
def test_an_agent_that_does_not_fit_names_those_that_fit(name: str, kind: str, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        check_actions(name, AGENTS[name], SPACES[kind])


def test_agents_that_fit_and_unknown_spaces_pass() -> None:
    check_actions("ppo", AGENTS["ppo"], SPACES["multi-discrete"])
    check_actions("sac", AGENTS["sac"], SPACES[""])
