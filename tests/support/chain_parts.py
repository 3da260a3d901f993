"""Chains whose true values are known, and several of them at once."""

import functools
from collections.abc import Callable
from typing import Any

from gymnasium.vector import AutoresetMode, SyncVectorEnv

from pfrl_like.envs import SerialVectorEnv
from pfrl_like.testing import Chain

CHAINS = {
    "terminated": Chain(),
    "truncated": Chain(terminates=False, time_limit=5),
    "both": Chain(time_limit=3),  # from state 1 on, the third step is the end and the time limit
    "cut off by the runner": Chain(terminates=False),
}


def several(make: Callable[[], Any], n_envs: int, mode: AutoresetMode | None) -> Any:
    """Environments in a vector of the library's own, or of gymnasium's with an autoreset mode."""
    if mode is None:
        return SerialVectorEnv([make() for _ in range(n_envs)])
    return SyncVectorEnv([make] * n_envs, autoreset_mode=mode)


def vector_env(chain: Chain, n_envs: int, mode: AutoresetMode | None) -> Any:
    """Several chains like one."""
    return several(functools.partial(Chain, chain.size, chain.terminates, chain.time_limit), n_envs, mode)
