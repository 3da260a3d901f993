import importlib

import pytest

from pfrl_like import agents


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("al", "AL"),
        ("categorical_double_dqn", "CategoricalDoubleDQN"),
        ("categorical_dqn", "CategoricalDQN"),
        ("double_dqn", "DoubleDQN"),
        ("double_pal", "DoublePAL"),
        ("dpp", "DPP"),
        ("dqn", "DQN"),
        ("iqn", "IQN"),
        ("pal", "PAL"),
        ("state_q_function_actor", "StateQFunctionActor"),
    ],
)
def test_agents_lie_in_the_modules_of_pfrl(module: str, name: str) -> None:
    assert getattr(importlib.import_module(f"pfrl_like.agents.{module}"), name) is getattr(agents, name)
