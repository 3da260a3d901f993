"""Small agents of continuous actions and what they are made of, for tests that need one."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from network_parts import HIDDEN, VALUES
from pair_base import MAKE_BUFFER
from torch import nn

from pfrl_like import agents, policies
from pfrl_like.batch import Batch
from pfrl_like.envs.abc import ABC
from pfrl_like.explorers import AdditiveGaussian
from pfrl_like.nn import ConcatObsAndAction, RecurrentSequential

#: Observations of 4 numbers, actions of 2.
ENV = ABC(size=2, discrete=False)
OBS, ACTION = 4, 2

HEADS: dict[str, tuple[int, Callable[[], nn.Module]]] = {
    "deterministic": (ACTION, lambda: nn.Sequential(nn.Tanh(), policies.DeterministicHead())),
    "gaussian": (2 * ACTION, policies.GaussianHeadWithDiagonalCovariance),
    "fixed gaussian": (ACTION, lambda: policies.GaussianHeadWithFixedCovariance(0.3)),
    "squashed": (2 * ACTION, policies.SquashedGaussianHead),
}
#: The last layers of critics, from `HIDDEN` numbers.
CRITICS: dict[str, Callable[[], list[nn.Module]]] = {
    "numbers": lambda: [nn.Linear(HIDDEN, 1)],
    "quantiles": lambda: VALUES["quantile"](1),
    "atoms": lambda: VALUES["distributional"](1),
    "implicit": lambda: VALUES["implicit"](1),
    "proposed": lambda: VALUES["proposed"](1),
}


def make_policy(head: str = "squashed", recurrent: bool = False) -> nn.Module:
    """A small policy."""
    size, make_head = HEADS[head]
    if recurrent:
        return RecurrentSequential(nn.GRU(OBS, HIDDEN), nn.Linear(HIDDEN, size), make_head())
    return nn.Sequential(nn.Linear(OBS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, size), make_head())


def make_critic(critic: str = "numbers", recurrent: bool = False) -> nn.Module:
    """A small critic."""
    last = CRITICS[critic]()
    if recurrent:
        return RecurrentSequential(ConcatObsAndAction(), nn.LSTM(OBS + ACTION, HIDDEN), *last)
    return nn.Sequential(ConcatObsAndAction(), nn.Linear(OBS + ACTION, HIDDEN), nn.Tanh(), *last)


def make_agent(
    agent: str = "TD3",
    buffer: str | None = None,
    recurrent: bool = False,
    *,
    head: str | None = None,
    critic: str = "numbers",
    policy: nn.Module | None = None,
    q_funcs: list[nn.Module] | None = None,
    optimizer: Callable[..., torch.optim.Optimizer] = functools.partial(torch.optim.Adam, lr=1e-2),  # noqa: B008
    **options: Any,
) -> Any:
    """An agent for `ENV` that begins to learn after 10 steps; options go to its constructor."""
    head = head or ("squashed" if agent == "SoftActorCritic" else "deterministic")
    policy = make_policy(head, recurrent) if policy is None else policy
    q_funcs = q_funcs or [make_critic(critic, recurrent) for _ in range(1 if agent == "DDPG" else 2)]
    parts = [policy, *q_funcs]
    explorer = {} if agent == "SoftActorCritic" else {"explorer": AdditiveGaussian(0.1, low=-1.0, high=1.0)}
    common: dict[str, Any] = {"replay_start_size": 10, "minibatch_size": 4, "recurrent": recurrent, **explorer}
    if recurrent:
        common["episodic_update_len"] = 4
    if agent == "DDPG":
        common |= {"target_update_interval": 1, "target_update_method": "soft", "soft_update_tau": 0.1}
    if agent == "SoftActorCritic":
        common |= {"entropy_target": -2.0, "initial_temperature": 0.2}
    if "replay_buffer" not in options:
        options["replay_buffer"] = MAKE_BUFFER[buffer or ("episodic" if recurrent else "uniform")](capacity=1_000)
    optimizers = [optimizer(part.parameters()) for part in parts]
    return getattr(agents, agent)(*parts, *optimizers, gamma=0.9, **{**common, **options})


def make_batch(seed: int = 0, n: int = 8) -> Batch:
    """Random transitions for the agents of `make_agent`."""
    g = torch.Generator().manual_seed(seed)
    obs, next_obs = torch.randn(2, n, OBS, generator=g)
    return Batch(
        obs=obs,
        action=torch.rand(n, ACTION, generator=g) * 2 - 1,
        reward=torch.randn(n, generator=g),
        next_obs=next_obs,
        discount=torch.full((n,), 0.9),
        weight=torch.rand(n, generator=g),
    )


def parameters(module: nn.Module) -> torch.Tensor:
    """All parameters of a module as one vector."""
    return nn.utils.parameters_to_vector(module.parameters()).detach().clone()


def random_action() -> np.ndarray:
    """A uniform action from NumPy's global stream."""
    return np.random.uniform(-1, 1, ACTION).astype(np.float32)
