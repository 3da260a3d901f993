"""Tasks for agents that several processes train without a lock; steps are those of all processes."""

from typing import Any

import gymnasium
import torch

from pfrl_like import agents, policies, q_functions, replay_buffers
from pfrl_like.agents.acer import ACERDiscreteActionHead
from pfrl_like.nn import Branched
from score_tasks.on_policy import network
from score_tasks.task import Task

TASKS = {
    "cartpole-async-100k": Task(lambda: gymnasium.make("CartPole-v1"), 100_000, 475.0, 5, ("ACER",)),
    "cartpole-async-200k": Task(lambda: gymnasium.make("CartPole-v1"), 200_000, 450.0, 5, ("A3C",)),
}

#: Everything that may be tuned. The learning rate falls linearly to 0 at the last step.
SETTINGS: dict[str, dict[str, Any]] = dict.fromkeys(
    TASKS,
    {
        "hidden": 64,
        "lr": 1e-3,
        "processes": 2,
        "agent": {"t_max": 20, "gamma": 0.99, "beta": 1e-3, "max_grad_norm": 0.5},
    },
)

#: What single agents have in place of that, or beside it.
OWN: dict[tuple[str, str], dict[str, Any]] = {
    # Early episodes are short: drawn by number and not by length, their steps would come up more often than others.
    ("cartpole-async-100k", "ACER"): {
        "lr": 5e-4,
        "buffer": {"capacity": 50_000, "by_length": True},
        "reward_scale": 0.05,
        "agent": {"gamma": 0.98, "beta": 0.01, "n_times_replay": 4, "replay_start_size": 1_000},
    },
}


def make_agent(task: str, name: str, env: gymnasium.Env, settings: dict[str, Any]) -> Any:
    """The parts of one run, as a user would put them together."""
    sizes = env.observation_space.shape[0], settings["hidden"]
    n_actions = int(env.action_space.n)
    policy = network(*sizes, n_actions, 0.01, policies.SoftmaxCategoricalHead())
    if name == "ACER":
        q_function = network(*sizes, n_actions, 1.0, q_functions.DiscreteActionValueHead())
        model: torch.nn.Module = ACERDiscreteActionHead(policy, q_function)
        own: dict[str, Any] = {"replay_buffer": replay_buffers.EpisodicReplayBuffer(**settings["buffer"])}
    else:
        model, own = Branched(policy, network(*sizes, 1, 1.0)), {}
    optimizer = torch.optim.Adam(model.parameters(), settings["lr"])
    return getattr(agents, name)(model, optimizer, act_deterministically=True, **own, **settings["agent"])
