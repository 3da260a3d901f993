"""Every agent, with every buffer that fits it, keeps the contracts of `check_agent`."""

import functools

import pytest
from agent_parts import COMBINATIONS, make_agent

from pfrl_like.testing import check_agent


@pytest.mark.parametrize(("agent", "buffer", "recurrent"), COMBINATIONS)
def test_agent_keeps_the_contracts(agent: str, buffer: str, recurrent: bool) -> None:
    check_agent(functools.partial(make_agent, agent, buffer, recurrent))
