"""Tasks for agents of DQN's family: settings, and the parts of an agent as a user would put them together."""

import math
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from pfrl_like import agents, explorers, q_functions, replay_buffers
from pfrl_like.action_value import DistributionalDiscreteActionValue
from pfrl_like.nn import RecurrentSequential, to_factorized_noisy
from score_tasks.task import Task


class HideVelocities(gymnasium.ObservationWrapper):
    """Leaves the cart's position and the pole's angle, scaled so that a step's change can be told from none."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return np.array([5 * observation[0], 20 * observation[2]], dtype=np.float32)


class AtomsHead(nn.Module):
    """The last layer of C51: probabilities of `n_atoms` returns for each action."""

    def __init__(self, n_inputs: int, n_actions: int, n_atoms: int, v_min: float, v_max: float) -> None:
        super().__init__()
        self.linear = nn.Linear(n_inputs, n_actions * n_atoms)
        self.shape = (-1, int(n_actions), n_atoms)
        self.register_buffer("z_values", torch.linspace(v_min, v_max, n_atoms))

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.linear(hidden).reshape(self.shape)

    def forward(self, hidden: torch.Tensor) -> DistributionalDiscreteActionValue:
        return DistributionalDiscreteActionValue(self.logits(hidden).softmax(dim=2), self.z_values)


class RainbowHead(AtomsHead):
    """The last layer of Rainbow: advantages and a value of every atom, with noise in the weights."""

    def __init__(self, n_inputs: int, n_actions: int, n_atoms: int, v_min: float, v_max: float, noise: float) -> None:
        super().__init__(n_inputs, n_actions, n_atoms, v_min, v_max)
        self.value = nn.Linear(n_inputs, n_atoms)
        to_factorized_noisy(self, sigma_scale=noise)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        advantage = super().logits(hidden)
        return self.value(hidden).unsqueeze(1) + advantage - advantage.mean(1, keepdim=True)


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
    "cartpole": Task(lambda: gymnasium.make("CartPole-v1"), 50_000, 475.0, 10, VARIANTS),
    "cartpole-po": Task(lambda: HideVelocities(gymnasium.make("CartPole-v1")), 100_000, 450.0, 5, ("DQN",)),
    "acrobot": Task(lambda: gymnasium.make("Acrobot-v1"), 100_000, -85.0, 3, VARIANTS),
    "mountaincar": Task(lambda: gymnasium.make("MountainCar-v0"), 120_000, -110.0, 3, VARIANTS),
    "lunarlander": Task(lambda: gymnasium.make("LunarLander-v3"), 300_000, 240.0, 5, ("DoubleDQN",)),
    "minatar-breakout": Task(minatar_breakout, 500_000, 6.0, 3, ("DQN", "Rainbow")),
}

#: Everything that may be tuned. The learning rate falls linearly to 0 at the last step.
SETTINGS: dict[str, dict[str, Any]] = {
    "cartpole": {
        "hidden": 256,
        "lr": 2.3e-3,
        "gamma": 0.99,
        "capacity": 50_000,
        "num_steps": 3,
        "end_epsilon": 0.04,
        "exploration_steps": 8_000,
        "atoms": {"n_atoms": 51, "v_min": 0.0, "v_max": 100.0},  # of C51; 100 = 1 / (1 - gamma)
        "agent": {
            "replay_start_size": 1_000,
            "minibatch_size": 64,
            "update_interval": 256,
            "n_times_update": 128,
            "target_update_interval": 256,
            "max_grad_norm": 10.0,
        },
    },
    "cartpole-po": {
        "hidden": 128,
        "lr": 1e-3,
        "gamma": 0.99,
        "capacity": 50_000,
        "by_length": True,
        "reward_scale": 0.01,  # so that values are of the size of what a GRU gives
        "end_epsilon": 0.05,  # falls to 0 at the last step, like the learning rate
        "exploration_steps": 8_000,
        "agent": {
            "replay_start_size": 1_000,
            "minibatch_size": 64,
            "update_interval": 256,
            "n_times_update": 32,
            "target_update_interval": 256,
            "episodic_update_len": 20,
            "num_steps": 3,
            "max_grad_norm": 10.0,
        },
    },
    "acrobot": {
        "hidden": 256,
        "lr": 6.3e-4,
        "gamma": 0.99,
        "capacity": 50_000,
        "num_steps": 3,
        "end_epsilon": 0.1,
        "exploration_steps": 12_000,
        "agent": {
            "replay_start_size": 1_000,
            "minibatch_size": 64,
            "update_interval": 4,
            "n_times_update": 2,
            "target_update_interval": 252,
            "max_grad_norm": 10.0,
        },
    },
    "mountaincar": {
        "hidden": 128,
        "lr": 4e-3,  # the values waver with it, which is what leads to the goal at first
        "gamma": 0.98,
        "capacity": 50_000,
        "num_steps": 3,
        "reward_scale": 1.0,
        "end_epsilon": 0.07,  # falls to 0 at the last step, like the learning rate
        "exploration_steps": 24_000,
        "agent": {
            "replay_start_size": 1_000,
            "minibatch_size": 128,
            "update_interval": 16,
            "n_times_update": 8,
            "target_update_interval": 608,
            "max_grad_norm": 10.0,
        },
    },
    "lunarlander": {
        "hidden": 256,
        "lr": 5e-4,
        "gamma": 0.99,
        "capacity": 100_000,
        "num_steps": 3,
        "prioritized": {"alpha": 0.6, "beta0": 0.4, "betasteps": 300_000},
        "reward_scale": 0.1,
        "end_epsilon": 0.05,  # falls to 0 at the last step, like the learning rate
        "exploration_steps": 36_000,
        "agent": {
            "replay_start_size": 1_000,
            "minibatch_size": 128,
            "update_interval": 4,
            "n_times_update": 4,
            "target_update_interval": 500,
            "max_grad_norm": 10.0,
        },
    },
    # The network of arXiv:1903.03176; Adam and an update every fourth frame as in arXiv:2011.14826.
    "minatar-breakout": {
        "hidden": 128,
        "lr": 2.5e-4,
        "adam_eps": 3.125e-4,
        "gamma": 0.99,
        "capacity": 100_000,
        "num_steps": 1,
        "end_epsilon": 0.1,
        "exploration_steps": 100_000,
        "agent": {
            "replay_start_size": 5_000,
            "minibatch_size": 32,
            "update_interval": 4,
            "target_update_interval": 1_000,
        },
    },
}

_IQN = {
    "n_cosines": 64,
    "reward_scale": 0.1,  # for returns that are not much wider than the Huber loss's bend
    "agent": {
        "quantile_thresholds_N": 8,
        "quantile_thresholds_N_prime": 8,
        "quantile_thresholds_K": 8,
        "act_deterministically": True,
    },
}
#: The learning rate of the fractions is that of the rest times `fraction_lr`.
_FQF = {"n_cosines": 64, "n_fractions": 8, "entropy_coeff": 1e-3, "fraction_lr": 1e-3}


def _own_of_variants(task: str, lowest_return: float, n_updates: int) -> dict[tuple[str, str], dict[str, Any]]:
    """Settings of DQN's variants beside those of DQN, where every step costs 1."""
    atoms = {"atoms": {"n_atoms": 51, "v_min": lowest_return, "v_max": 0.0}}
    replay = {"alpha": 0.5, "beta0": 0.4, "betasteps": n_updates, "normalize_by_max": "memory"}
    own: dict[str, dict[str, Any]] = {
        "CategoricalDQN": atoms,
        "CategoricalDoubleDQN": atoms,
        "QRDQN": {"n_quantiles": 51},
        "IQN": _IQN,
        "DoubleIQN": _IQN,
        "FQF": _FQF,
        "AL": {"agent": {"alpha": 0.5}},
        "PAL": {"agent": {"alpha": 0.5}},
        "DPP": {"agent": {"eta": 1.0}},
        "Rainbow": {**atoms, "prioritized": replay, "noise": 0.5},
    }
    return {(task, name): settings for name, settings in own.items()}


#: What single agents have in place of that, or beside it.
OWN: dict[tuple[str, str], dict[str, Any]] = {
    ("cartpole", "AL"): {"agent": {"alpha": 0.5}},
    ("cartpole", "PAL"): {"agent": {"alpha": 0.5}},
    # Preferences of lost actions sink with every move of the target. Few moves, long returns and no old transitions
    # keep the gaps small enough to be learnt.
    ("cartpole", "DPP"): {
        "lr": 2e-3,
        "capacity": 5_000,
        "num_steps": 10,
        "agent": {"eta": 1.0, "n_times_update": 64, "target_update_interval": 1_024},
    },
    # Explores by the noise alone; beta reaches 1 with the last update.
    ("cartpole", "Rainbow"): {
        "prioritized": {"alpha": 0.5, "beta0": 0.4, "betasteps": 24_500, "normalize_by_max": "memory"},
        "noise": 0.5,
    },
    ("cartpole", "QRDQN"): {"n_quantiles": 51},
    ("cartpole", "IQN"): _IQN,
    ("cartpole", "DoubleIQN"): _IQN,
    ("cartpole", "FQF"): _FQF,
    **_own_of_variants("acrobot", -100.0, 49_500),
    **_own_of_variants("mountaincar", -50.0, 59_500),
    ("minatar-breakout", "Rainbow"): {
        "num_steps": 3,
        "prioritized": {"alpha": 0.5, "beta0": 0.4, "betasteps": 123_750, "normalize_by_max": "memory"},
        "noise": 0.5,
        "agent": {"compile": True},
        "atoms": {"n_atoms": 51, "v_min": 0.0, "v_max": 20.0},  # a brick takes some 6 steps: 1 / 6 / (1 - gamma)
    },
}


def make_head(name: str, n_actions: int, settings: dict[str, Any]) -> nn.Module:
    """The last layer of a Q-function, of the form that the agent learns."""
    hidden = settings["hidden"]
    if name.startswith("Categorical"):
        return AtomsHead(hidden, n_actions, **settings["atoms"])
    if name == "Rainbow":
        return RainbowHead(hidden, n_actions, **settings["atoms"], noise=settings["noise"])
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


def make_agent(task: str, name: str, env: gymnasium.Env, settings: dict[str, Any]) -> Any:
    """The parts of one run, as a user would put them together."""
    shape, n_actions, hidden = env.observation_space.shape, env.action_space.n, settings["hidden"]
    recurrent, pixels = task == "cartpole-po", task.startswith("minatar")
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
