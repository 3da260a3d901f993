"""Tasks for agents that learn from their own last steps alone."""

from typing import Any

import gymnasium
import torch
from torch import nn

from pfrl_like import agents, policies
from pfrl_like.nn import Branched, EmpiricalNormalization, RecurrentBranched, RecurrentSequential
from score_tasks import actor_critics, value_based
from score_tasks.task import Task

TASKS = {
    "cartpole-100k": Task(lambda: gymnasium.make("CartPole-v1"), 100_000, 475.0, 5, ("PPO", "TRPO")),
    "cartpole-300k": Task(lambda: gymnasium.make("CartPole-v1"), 300_000, 475.0, 5, ("A2C", "REINFORCE")),
    "pendulum-100k": Task(lambda: gymnasium.make("Pendulum-v1"), 100_000, -200.0, 5, ("PPO", "TRPO")),
    "cartpole-po-100k": Task(value_based.TASKS["cartpole-po"].make_env, 100_000, 450.0, 5, ("PPO",)),
    "hopper-on-policy": Task(lambda: actor_critics.mujoco("Hopper-v5"), 100_000, 500.0, 3, ("PPO",)),
    "halfcheetah-on-policy": Task(lambda: actor_critics.mujoco("HalfCheetah-v5"), 100_000, 500.0, 3, ("PPO",)),
    "walker2d-on-policy": Task(lambda: actor_critics.mujoco("Walker2d-v5"), 100_000, 500.0, 3, ("PPO",)),
}

#: As in the appendix of arXiv:1707.06347, in four environments; rewards scaled so that values are near 1.
_MUJOCO: dict[str, Any] = {
    "hidden": 64,
    "lr": 3e-4,
    "normalize": True,
    "n_envs": 4,
    "reward_scale": 0.05,
    "agent": {
        "update_interval": 2_048,
        "minibatch_size": 64,
        "epochs": 10,
        "gamma": 0.99,
        "lambd": 0.95,
        "entropy_coef": 0.0,
        "max_grad_norm": 0.5,
    },
}

#: Everything that may be tuned. The learning rate falls linearly to 0 at the last step.
SETTINGS: dict[str, dict[str, Any]] = {
    "cartpole-100k": {"hidden": 64, "lr": 1e-3, "agent": {"entropy_coef": 0.0}},
    "cartpole-300k": {"hidden": 64, "lr": 1e-3, "agent": {}},
    "pendulum-100k": {"hidden": 64, "lr": 1e-3, "normalize": True, "agent": {"gamma": 0.9, "entropy_coef": 0.0}},
    "hopper-on-policy": _MUJOCO,
    "halfcheetah-on-policy": _MUJOCO,
    "walker2d-on-policy": _MUJOCO,
    "cartpole-po-100k": {
        "hidden": 64,
        "lr": 1e-3,
        "n_envs": 8,
        "reward_scale": 0.02,  # so that values are of the size of what a GRU gives
        "agent": {
            "recurrent": True,
            "max_recurrent_sequence_len": 32,
            "update_interval": 512,
            "minibatch_size": 256,
            "epochs": 10,
            "gamma": 0.99,
            "lambd": 0.95,
            "entropy_coef": 0.0,
            "max_grad_norm": 0.5,
        },
    },
}

#: What single agents have in place of that, or beside it; `n_envs` are stepped together.
OWN: dict[tuple[str, str], dict[str, Any]] = {
    ("cartpole-100k", "PPO"): {
        "n_envs": 8,
        "agent": {
            "update_interval": 256,
            "minibatch_size": 256,
            "epochs": 20,
            "gamma": 0.98,
            "lambd": 0.8,
            "entropy_coef": 0.0,
            "max_grad_norm": 0.5,
        },
    },
    ("cartpole-100k", "TRPO"): {
        "n_envs": 2,
        "agent": {
            "update_interval": 1_024,
            "vf_epochs": 20,
            "vf_batch_size": 512,
            "lambd": 0.98,
            "conjugate_gradient_damping": 1e-3,
        },
    },
    ("cartpole-300k", "A2C"): {
        "n_envs": 8,
        "agent": {"gamma": 0.99, "num_processes": 8, "update_steps": 8, "entropy_coeff": 0.0, "max_grad_norm": 0.5},
    },
    # A whole episode may be one that was cut off: the time limit is part of this task.
    ("cartpole-300k", "REINFORCE"): {"agent": {"batchsize": 5, "learn_from_truncated": True}},
    ("pendulum-100k", "PPO"): {"n_envs": 4, "agent": {"update_interval": 2_048, "max_grad_norm": 0.5}},
    ("pendulum-100k", "TRPO"): {
        "n_envs": 2,
        "agent": {"update_interval": 2_048, "vf_epochs": 15, "vf_batch_size": 128},
    },
}


def orthogonal(n_inputs: int, n_outputs: int, gain: float) -> nn.Linear:
    """A layer as on-policy agents like it at first (arXiv:2005.12729, section 3)."""
    layer = nn.Linear(n_inputs, n_outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def network(n_inputs: int, hidden: int, n_outputs: int, gain: float, *head: nn.Module) -> nn.Sequential:
    """Two hidden layers."""
    inner = [orthogonal(n_inputs, hidden, 2**0.5), nn.Tanh(), orthogonal(hidden, hidden, 2**0.5), nn.Tanh()]
    return nn.Sequential(*inner, orthogonal(hidden, n_outputs, gain), *head)


def recurrent_network(n_inputs: int, hidden: int, n_outputs: int, gain: float, *head: nn.Module) -> RecurrentSequential:
    """A hidden layer that remembers."""
    return RecurrentSequential(nn.GRU(n_inputs, hidden), orthogonal(hidden, n_outputs, gain), *head)


def make_agent(task: str, name: str, env: gymnasium.Env, settings: dict[str, Any]) -> Any:
    """The parts of one run, as a user would put them together."""
    (size,), hidden, continuous = env.observation_space.shape, settings["hidden"], hasattr(env.action_space, "high")
    n_actions = env.action_space.shape[0] if continuous else int(env.action_space.n)
    head = (
        policies.GaussianHeadWithStateIndependentCovariance(n_actions, "diagonal", lambda x: torch.exp(2 * x))
        if continuous
        else policies.SoftmaxCategoricalHead()
    )

    options = {"act_deterministically": True, **settings["agent"]}
    make, branched = (recurrent_network, RecurrentBranched) if options.get("recurrent") else (network, Branched)
    policy, vf = make(size, hidden, n_actions, 0.01, head), make(size, hidden, 1, 1.0)
    if settings.get("normalize"):
        options["obs_normalizer"] = EmpiricalNormalization(size, clip_threshold=5)
    if name == "TRPO":
        return agents.TRPO(policy, vf, torch.optim.Adam(vf.parameters(), settings["lr"]), **options)
    model = policy if name == "REINFORCE" else branched(policy, vf)
    return getattr(agents, name)(model, torch.optim.Adam(model.parameters(), settings["lr"]), **options)
