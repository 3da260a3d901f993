"""Tasks of continuous actions for agents with a policy and critics that learn from replay."""

import functools
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from pfrl_like import agents, explorers, policies, q_functions, replay_buffers, wrappers
from pfrl_like.nn import ConcatObsAndAction
from score_tasks.task import nested, task


def pendulum() -> gymnasium.Env:
    """Pendulum with actions in [-1, 1]."""
    return gymnasium.wrappers.RescaleAction(gymnasium.make("Pendulum-v1"), np.float32(-1), np.float32(1))


def mujoco(name: str) -> gymnasium.Env:
    """A task of MuJoCo (extra `mujoco`), whose observations are float64."""
    return wrappers.CastObservationToFloat32(gymnasium.make(name))


TASKS = {
    "pendulum": task("Pendulum-v1", pendulum, -170.0, 5, ("SoftActorCritic", "TD3", "DDPG", "TQC")),
    "lunarlander-continuous": task(
        "LunarLanderContinuous-v3", lambda: gymnasium.make("LunarLanderContinuous-v3"), 180.0, 3, ("SoftActorCritic",)
    ),
    "halfcheetah": task("HalfCheetah-v5", lambda: mujoco("HalfCheetah-v5"), 4_800.0, 3, ("TD3", "SoftActorCritic")),
    "hopper": task("Hopper-v5", lambda: mujoco("Hopper-v5"), 1_800.0, 3, ("TD3",)),
    "hopper-100k": task(
        "Hopper-v5", lambda: mujoco("Hopper-v5"), 1_000.0, 3, ("SoftActorCritic", "TD3"),
        {"TD3": ("td3", "Hopper-v5@100k")},
    ),
    "walker2d": task("Walker2d-v5", lambda: mujoco("Walker2d-v5"), 1_000.0, 3, ("SoftActorCritic", "TD3")),
}  # fmt: skip

#: Settings of the parts of an agent.
_OF_PARTS = ("lr", "policy_lr_factor", "gamma", "capacity", "layer_norm", "noise", "n_quantiles")


def settings_of(preset: dict[str, Any]) -> dict[str, Any]:
    """The settings of a preset, as `make_agent` has them."""
    return nested(preset, _OF_PARTS)


def normalized_critic(n_inputs: int, hidden: int) -> nn.Sequential:
    """Two hidden layers, each normalised, which allows of more updates for each step (arXiv:2110.02034)."""
    sizes = [(n_inputs, hidden), (hidden, hidden)]
    layers = [layer for size in sizes for layer in (nn.Linear(*size), nn.LayerNorm(hidden), nn.ReLU())]
    return nn.Sequential(ConcatObsAndAction(), *layers, nn.Linear(hidden, 1))


def make_agent(task_name: str, name: str, env: gymnasium.Env, settings: dict[str, Any]) -> Any:
    """The parts of one run, as a user would put them together."""
    (n_obs,), (n_actions,), hidden = env.observation_space.shape, env.action_space.shape, settings["hidden"]
    soft = name in ("SoftActorCritic", "TQC")
    head = policies.SquashedGaussianHead() if soft else nn.Sequential(nn.Tanh(), policies.DeterministicHead())
    policy = nn.Sequential(
        *[nn.Linear(n_obs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()],
        *[nn.Linear(hidden, 2 * n_actions if soft else n_actions), head],
    )
    if name == "TQC":
        make_critic = functools.partial(
            q_functions.QuantileFCSAQFunction, n_obs, n_actions, settings["n_quantiles"], hidden, 2
        )
    elif settings.get("layer_norm"):
        make_critic = functools.partial(normalized_critic, n_obs + n_actions, hidden)
    else:
        make_critic = functools.partial(q_functions.FCSAQFunction, n_obs, n_actions, hidden, 2)
    critics = [make_critic() for _ in range(1 if name == "DDPG" else 2)]
    optimizers = [torch.optim.Adam(part.parameters(), lr=settings["lr"]) for part in (policy, *critics)]
    optimizers[0].param_groups[0]["lr_factor"] = settings.get("policy_lr_factor", 1.0)
    buffer = replay_buffers.ReplayBuffer(settings["capacity"])
    explorer = {} if soft else {"explorer": explorers.AdditiveGaussian(settings["noise"], low=-1.0, high=1.0)}
    return getattr(agents, name)(
        policy, *critics, *optimizers, buffer, settings["gamma"], burnin_action_func=env.action_space.sample,
        **explorer, **settings["agent"],
    )  # fmt: skip
