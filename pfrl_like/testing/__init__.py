"""Checks of the library's contracts, for its own classes and for user-defined classes."""

from pfrl_like.testing.agent_checks import check_agent
from pfrl_like.testing.estimator_checks import check_estimator
from pfrl_like.testing.play import Chain, ChainQFunction, check_env, torch_assert_allclose
from pfrl_like.testing.replay_buffer_checks import check_replay_buffer

__all__ = [
    "Chain", "ChainQFunction", "check_agent", "check_env", "check_estimator", "check_replay_buffer",
    "torch_assert_allclose",
]  # fmt: skip
