"""Every replay buffer keeps the contracts of `check_replay_buffer`."""

import pytest
from agent_parts import MAKE_BUFFER

from pfrl_like.testing import check_replay_buffer


@pytest.mark.parametrize("buffer", MAKE_BUFFER)
def test_buffer_keeps_the_contracts(buffer: str) -> None:
    check_replay_buffer(MAKE_BUFFER[buffer])
