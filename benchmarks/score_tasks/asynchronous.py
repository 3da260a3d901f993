"""Tasks for agents that several processes train without a lock; steps are those of all processes."""

from typing import Any

import gymnasium
import torch

from pfrl_like import agents, policies, q_functions, replay_buffers
from pfrl_like.agents.acer import ACERDiscreteActionHead
from pfrl_like.nn import Branched
from score_tasks.on_policy import network
from score_tasks.task import nested, task

TASKS = {
    "cartpole-async-100k": task("CartPole-v1", lambda: gymnasium.make("CartPole-v1"), 475.0, 5, ("ACER",)),
    "cartpole-async-200k": task("CartPole-v1", lambda: gymnasium.make("CartPole-v1"), 450.0, 5, ("A3C",)),
}


def settings_of(preset: dict[str, Any]) -> dict[str, Any]:
    """The settings of a preset, as `make_agent` has them."""
    return nested(preset, ("lr",), {"buffer": ("capacity", "by_length")})


def make_agent(task_name: str, name: str, env: gymnasium.Env, settings: dict[str, Any]) -> Any:
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
