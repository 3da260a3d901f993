import importlib

import pytest
import torch
from hook_parts import replaying

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


def test_recurrent_states_can_be_read_and_set() -> None:
    agent, plain = replaying("RecurrentDQN"), replaying("DQN")
    assert agent.train_recurrent_states is agent.test_recurrent_states is plain.train_recurrent_states is None
    agent.train_recurrent_states = state = (torch.ones(1, 1, 2),)
    assert agent.train_recurrent_states is agent.recurrent_memory.train_state is state
    plain.train_prev_recurrent_states = None
    with pytest.raises(AttributeError, match="DQN has no recurrent states: build it with recurrent=True"):
        plain.test_recurrent_states = state
