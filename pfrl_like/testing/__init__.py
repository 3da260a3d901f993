"""Checks of the library's contracts, for its own parts and for those that users write."""

from pfrl_like.testing.agent_checks import check_agent as check_agent
from pfrl_like.testing.allclose import torch_assert_allclose as torch_assert_allclose
from pfrl_like.testing.chain import Chain as Chain
from pfrl_like.testing.chain import ChainQFunction as ChainQFunction
from pfrl_like.testing.env_checks import check_env as check_env
from pfrl_like.testing.estimator_checks import check_estimator as check_estimator
from pfrl_like.testing.replay_buffer_checks import check_replay_buffer as check_replay_buffer
