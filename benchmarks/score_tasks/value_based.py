"""Tasks for agents of DQN's family, and the parts of an agent as a user would put them together."""

import math
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from pfrl_like import agents, explorers, q_functions, replay_buffers
from pfrl_like.nn import RecurrentSequential, to_factorized_noisy
from score_tasks.task import nested, presets, task


def cartpole_positions() -> gymnasium.Env:
    """CartPole without velocities.

    An older library lacks the wrapper: an ImportError, which `score_case.py` does not record as a failed training.
    """
    from pfrl_like.wrappers import SelectFeatures

    selected = presets.preset("drqn", "CartPole-v1@positions")["select_features"]
    return SelectFeatures(gymnasium.make("CartPole-v1"), **selected)


def atoms_head(
    n_inputs: int, n_actions: int, *, n_atoms: int, v_min: float, v_max: float, noise: float | None = None
) -> nn.Module:
    """The last layers of C51: probabilities of returns for each action; with noise, the two streams of Rainbow."""

    def stream(*shape: int) -> nn.Module:
        return nn.Sequential(nn.Linear(n_inputs, math.prod(shape)), nn.Unflatten(-1, shape))

    outputs = stream(int(n_actions), n_atoms)
    if noise is not None:
        from pfrl_like.q_functions import DuelingStreams  # not in an older library, as above

        outputs = DuelingStreams(outputs, stream(1, n_atoms))
        to_factorized_noisy(outputs, sigma_scale=noise)
    return q_functions.DistributionalSingleModelStateQFunctionWithDiscreteAction(
        nn.Sequential(outputs, nn.Softmax(-1)), torch.linspace(v_min, v_max, n_atoms)
    )


def minatar_breakout() -> gymnasium.Env:
    """Breakout of MinAtar with the three actions that do something; a game that does not end is cut off."""
    from minatar.gym import BaseEnv

    return gymnasium.wrappers.TimeLimit(BaseEnv("breakout", use_minimal_action_set=True), 5_000)


def channels_first(pixels: np.ndarray) -> np.ndarray:
    """[..., 10, 10, C] as [..., C, 10, 10] in floats; the replay buffer keeps the game's own bools."""
    return np.moveaxis(pixels, -1, -3).astype(np.float32, order="C")


VARIANTS = (
    *("DQN", "DoubleDQN", "CategoricalDQN", "CategoricalDoubleDQN", "QRDQN", "IQN", "DoubleIQN", "FQF"),
    *("AL", "PAL", "DoublePAL", "DPP", "Rainbow"),
)

TASKS = {
    "cartpole": task("CartPole-v1", lambda: gymnasium.make("CartPole-v1"), 475.0, 10, VARIANTS),
    "cartpole-po": task(
        "CartPole-v1@positions", cartpole_positions, 450.0, 5, ("DQN",),
        {"DQN": ("drqn", "CartPole-v1@positions")},
    ),
    "acrobot": task("Acrobot-v1", lambda: gymnasium.make("Acrobot-v1"), -85.0, 3, VARIANTS),
    "mountaincar": task("MountainCar-v0", lambda: gymnasium.make("MountainCar-v0"), -110.0, 3, VARIANTS),
    "lunarlander": task("LunarLander-v3", lambda: gymnasium.make("LunarLander-v3"), 240.0, 5, ("DoubleDQN",)),
    "minatar-breakout": task("MinAtar/Breakout-v1", minatar_breakout, 6.0, 3, ("DQN", "Rainbow")),
}  # fmt: skip

#: Settings of the parts of an agent.
_OF_PARTS = (
    *("lr", "adam_eps", "gamma", "capacity", "num_steps", "by_length", "prioritized", "end_epsilon"),
    *("exploration_steps", "noise", "n_quantiles", "n_cosines", "n_fractions", "entropy_coeff", "fraction_lr"),
)


def settings_of(preset: dict[str, Any]) -> dict[str, Any]:
    """The settings of a preset, as `make_agent` has them."""
    recurrent = preset.pop("recurrent", False)
    preset.pop("dueling", None)  # of Rainbow, and of no other agent
    names = [name for name in _OF_PARTS if not recurrent or name != "num_steps"]
    return nested(preset, names, {"atoms": ("n_atoms", "v_min", "v_max")})


def make_head(name: str, n_actions: int, settings: dict[str, Any]) -> nn.Module:
    """The last layer of a Q-function, of the form that the agent learns."""
    hidden = settings["hidden"]
    if name.startswith("Categorical") or name == "Rainbow":
        return atoms_head(hidden, n_actions, **settings["atoms"], noise=settings.get("noise"))
    if name == "QRDQN":
        shape = settings["n_quantiles"], int(n_actions)
        layers = nn.Sequential(nn.Linear(hidden, math.prod(shape)), nn.Unflatten(1, shape))
        return q_functions.QuantileSingleModelStateQFunctionWithDiscreteAction(layers)
    if name in ("IQN", "DoubleIQN", "FQF"):
        embedding = nn.Sequential(q_functions.CosineBasisLinear(settings["n_cosines"], hidden), nn.ReLU())
        parts = nn.Identity(), embedding, nn.Linear(hidden, n_actions)
        if name != "FQF":
            return q_functions.ImplicitQuantileQFunction(*parts)
        proposal = nn.Linear(hidden, settings["n_fractions"])
        return q_functions.FullyParametrizedQFunction(*parts, proposal, settings["entropy_coeff"])
    return nn.Sequential(nn.Linear(hidden, n_actions), q_functions.DiscreteActionValueHead())


def make_agent(task_name: str, name: str, env: gymnasium.Env, settings: dict[str, Any]) -> Any:
    """The parts of one run, as a user would put them together."""
    shape, n_actions, hidden = env.observation_space.shape, env.action_space.n, settings["hidden"]
    recurrent, pixels = task_name == "cartpole-po", task_name.startswith("minatar")
    head = make_head(name, n_actions, settings)
    if recurrent:
        q_function: nn.Module = RecurrentSequential(nn.GRU(*shape, hidden), *head)
        buffer: Any = replay_buffers.EpisodicReplayBuffer(settings["capacity"], by_length=settings["by_length"])
    else:
        layers = (
            [nn.Conv2d(shape[-1], 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 8 * 8, hidden)]
            if pixels
            else [nn.Linear(*shape, hidden), nn.ReLU(), nn.Linear(hidden, hidden)]
        )
        q_function = nn.Sequential(*layers, nn.ReLU(), head)
        room = {"capacity": settings["capacity"], "num_steps": settings["num_steps"]}
        prioritized = settings.get("prioritized")
        buffer = (
            replay_buffers.PrioritizedReplayBuffer(**room, **prioritized)
            if prioritized
            else replay_buffers.ReplayBuffer(**room)
        )
    explorer: Any = (
        explorers.Greedy()
        if name == "Rainbow"
        else explorers.LinearDecayEpsilonGreedy(
            1.0, settings["end_epsilon"], settings["exploration_steps"], env.action_space.sample
        )
    )
    groups: Any = q_function.parameters()
    if name == "FQF":
        groups = q_functions.fqf_parameter_groups(q_function, lr_factor=settings["fraction_lr"])
    optimizer = torch.optim.Adam(groups, lr=settings["lr"], eps=settings.get("adam_eps", 1e-8))
    own: dict[str, Any] = {"phi": channels_first} if pixels else {"recurrent": recurrent}
    return getattr(agents, {"Rainbow": "CategoricalDoubleDQN"}.get(name, name))(
        q_function, optimizer, buffer, settings["gamma"], explorer, **own, **settings["agent"]
    )
