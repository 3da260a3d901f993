"""Tasks of continuous actions for agents with a policy and critics that learn from replay."""

import functools
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from pfrl_like import agents, explorers, policies, q_functions, replay_buffers, wrappers
from pfrl_like.nn import ConcatObsAndAction
from score_tasks.task import Task


def pendulum() -> gymnasium.Env:
    """Pendulum with actions in [-1, 1]."""
    return gymnasium.wrappers.RescaleAction(gymnasium.make("Pendulum-v1"), np.float32(-1), np.float32(1))


def mujoco(name: str) -> gymnasium.Env:
    """A task of MuJoCo (extra `mujoco`), whose observations are float64."""
    return wrappers.CastObservationToFloat32(gymnasium.make(name))


TASKS = {
    "pendulum": Task(pendulum, 20_000, -170.0, 5, ("SoftActorCritic", "TD3", "DDPG", "TQC")),
    "lunarlander-continuous": Task(
        lambda: gymnasium.make("LunarLanderContinuous-v3"), 200_000, 180.0, 3, ("SoftActorCritic",)
    ),
    "halfcheetah": Task(lambda: mujoco("HalfCheetah-v5"), 100_000, 4_800.0, 3, ("TD3", "SoftActorCritic")),
    "hopper": Task(lambda: mujoco("Hopper-v5"), 200_000, 1_800.0, 3, ("TD3",)),
    "hopper-100k": Task(lambda: mujoco("Hopper-v5"), 100_000, 1_000.0, 3, ("SoftActorCritic", "TD3")),
    "walker2d": Task(lambda: mujoco("Walker2d-v5"), 100_000, 1_000.0, 3, ("SoftActorCritic", "TD3")),
}

_MUJOCO: dict[str, Any] = {
    "hidden": 256,
    "lr": 1e-3,
    "gamma": 0.99,
    "capacity": 200_000,
    "noise": 0.1,
    "agent": {"replay_start_size": 5_000, "minibatch_size": 256},
}
#: Of normalised critics, which allow of two updates a step.
_MUJOCO_FAST: dict[str, Any] = {
    **_MUJOCO,
    "layer_norm": True,
    "agent": {**_MUJOCO["agent"], "n_times_update": 2, "compile": True},
}

#: Everything that may be tuned. The learning rate falls linearly to 0 at the last step, from the first or, with
#: `lr_hold`, after that share of the steps; the policy's is `policy_lr_factor` of it.
SETTINGS: dict[str, dict[str, Any]] = {
    # Two hidden layers; before learning begins actions are drawn uniformly, later on with noise on the policy's.
    "pendulum": {
        "hidden": 64,
        "lr": 1e-3,
        "gamma": 0.98,
        "capacity": 20_000,
        "noise": 0.1,
        "agent": {"replay_start_size": 1_000, "minibatch_size": 128},
    },
    "lunarlander-continuous": {
        "hidden": 256,
        "lr": 1e-3,
        "gamma": 0.99,
        "capacity": 200_000,
        "layer_norm": True,
        "agent": {"replay_start_size": 5_000, "minibatch_size": 128, "compile": True},
    },
    "halfcheetah": _MUJOCO_FAST,
    "hopper-100k": _MUJOCO_FAST,
    "walker2d": _MUJOCO_FAST,
    # A hopper that falls after 200 fast steps is near the best of the first 100,000 steps: what leads on is the number
    # of updates a step, which normalised critics allow of.
    "hopper": {
        **_MUJOCO,
        "hidden": 128,
        "lr": 5e-4,
        "lr_hold": 0.5,
        "policy_lr_factor": 0.6,
        "layer_norm": True,
        "agent": {
            "replay_start_size": 3_000,
            "minibatch_size": 128,
            "n_times_update": 8,
            "policy_update_delay": 4,
            "compile": True,
        },
    },
}

_SAC = {"agent": {"entropy_target": -1.0, "temperature_optimizer_lr": 1e-3, "soft_update_tau": 0.01}}


def _mujoco_sac(n_actions: int) -> dict[str, Any]:
    agent = {"entropy_target": -float(n_actions), "temperature_optimizer_lr": 1e-3, "minibatch_size": 128}
    return {"agent": agent}


#: What single agents have in place of that, or beside it.
OWN: dict[tuple[str, str], dict[str, Any]] = {
    ("pendulum", "SoftActorCritic"): _SAC,
    ("pendulum", "TD3"): {"agent": {"soft_update_tau": 0.01}},
    ("pendulum", "DDPG"): {
        "agent": {"target_update_interval": 1, "target_update_method": "soft", "soft_update_tau": 0.01}
    },
    ("pendulum", "TQC"): {"n_quantiles": 25, **_SAC},
    ("lunarlander-continuous", "SoftActorCritic"): {
        "agent": {"entropy_target": -2.0, "temperature_optimizer_lr": 1e-3}
    },
    ("halfcheetah", "SoftActorCritic"): _mujoco_sac(6),
    ("hopper-100k", "SoftActorCritic"): _mujoco_sac(3),
    ("walker2d", "SoftActorCritic"): _mujoco_sac(6),
}


def normalized_critic(n_inputs: int, hidden: int) -> nn.Sequential:
    """Two hidden layers, each normalised, which allows of more updates for each step (arXiv:2110.02034)."""
    sizes = [(n_inputs, hidden), (hidden, hidden)]
    layers = [layer for size in sizes for layer in (nn.Linear(*size), nn.LayerNorm(hidden), nn.ReLU())]
    return nn.Sequential(ConcatObsAndAction(), *layers, nn.Linear(hidden, 1))


def make_agent(task: str, name: str, env: gymnasium.Env, settings: dict[str, Any]) -> Any:
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
