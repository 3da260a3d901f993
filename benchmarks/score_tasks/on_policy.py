"""Tasks for agents that learn from their own last steps alone."""

from typing import Any

import gymnasium
import torch
from torch import nn

from pfrl_like import agents, policies
from pfrl_like.nn import Branched, EmpiricalNormalization, RecurrentBranched, RecurrentSequential
from score_tasks import actor_critics, value_based
from score_tasks.task import nested, task

TASKS = {
    "cartpole-100k": task("CartPole-v1", lambda: gymnasium.make("CartPole-v1"), 475.0, 5, ("PPO", "TRPO")),
    "cartpole-300k": task("CartPole-v1", lambda: gymnasium.make("CartPole-v1"), 475.0, 5, ("A2C", "REINFORCE")),
    "pendulum-100k": task("Pendulum-v1", lambda: gymnasium.make("Pendulum-v1"), -200.0, 5, ("PPO", "TRPO")),
    "cartpole-po-100k": task("CartPole-v1@positions", value_based.cartpole_positions, 450.0, 5, ("PPO",)),
    "hopper-on-policy": task("Hopper-v5", lambda: actor_critics.mujoco("Hopper-v5"), 500.0, 3, ("PPO",)),
    "halfcheetah-on-policy": task("HalfCheetah-v5", lambda: actor_critics.mujoco("HalfCheetah-v5"), 500.0, 3, ("PPO",)),
    "walker2d-on-policy": task("Walker2d-v5", lambda: actor_critics.mujoco("Walker2d-v5"), 500.0, 3, ("PPO",)),
}


def settings_of(preset: dict[str, Any]) -> dict[str, Any]:
    """The settings of a preset, as `make_agent` has them."""
    return nested(preset, ("lr", "normalize"))


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


def make_agent(task_name: str, name: str, env: gymnasium.Env, settings: dict[str, Any]) -> Any:
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
