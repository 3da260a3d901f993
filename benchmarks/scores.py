"""Scores of the agents after training, over seeds: `python benchmarks/scores.py --jobs 2`.

One line of JSON is appended to the results file for every seed that has finished; a run that was interrupted goes on
with the seeds that are missing, and so does one whose hyperparameters were changed. What is scored is the agent as
the last training step left it, greedily, over 20 episodes, not the best of its evaluations.
"""

import argparse
import dataclasses
import hashlib
import itertools
import json
import math
import multiprocessing
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

import pfrl_like
from pfrl_like import agents, experiments, explorers, policies, q_functions, replay_buffers, utils, wrappers
from pfrl_like.action_value import DistributionalDiscreteActionValue
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.nn import Branched, EmpiricalNormalization, RecurrentSequential, to_factorized_noisy
from pfrl_like.q_functions.dueling_dqn import dueling
from pfrl_like.utils.contexts import ignores_training

RESULTS = Path(__file__).parent / "results" / "scores.jsonl"
EPISODES = 20


class HideVelocities(gymnasium.ObservationWrapper):
    """Leaves the cart's position and the pole's angle, scaled so that a step's change can be told from none."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return np.array([5 * observation[0], 20 * observation[2]], dtype=np.float32)


@ignores_training
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
        return dueling(self.value(hidden).unsqueeze(1), super().logits(hidden))


def minatar_breakout() -> gymnasium.Env:
    """Breakout of MinAtar with the three actions that do something; a game that does not end is cut off."""
    from minatar.gym import BaseEnv

    return gymnasium.wrappers.TimeLimit(BaseEnv("breakout", use_minimal_action_set=True), 5_000)


def pendulum() -> gymnasium.Env:
    """Pendulum with actions in [-1, 1]."""
    return gymnasium.wrappers.RescaleAction(gymnasium.make("Pendulum-v1"), np.float32(-1), np.float32(1))


def channels_first(pixels: np.ndarray) -> np.ndarray:
    """[..., 10, 10, C] as [..., C, 10, 10] in floats; the replay buffer keeps the game's own bools."""
    return np.moveaxis(pixels, -1, -3).astype(np.float32, order="C")


@dataclasses.dataclass(frozen=True)
class Task:
    make_env: Callable[[], gymnasium.Env]
    steps: int
    bar: float
    n_seeds: int
    agents: tuple[str, ...]


#: Agents that learn from their own last steps alone.
ON_POLICY = ("PPO", "A2C", "TRPO", "REINFORCE")

VARIANTS = (
    *("DQN", "DoubleDQN", "CategoricalDQN", "CategoricalDoubleDQN", "QRDQN", "IQN", "DoubleIQN", "FQF"),
    *("AL", "PAL", "DoublePAL", "DPP", "Rainbow"),
)

TASKS = {
    "cartpole": Task(lambda: gymnasium.make("CartPole-v1"), 50_000, 475.0, 10, VARIANTS),
    "cartpole-100k": Task(lambda: gymnasium.make("CartPole-v1"), 100_000, 475.0, 5, ("PPO", "TRPO")),
    "cartpole-300k": Task(lambda: gymnasium.make("CartPole-v1"), 300_000, 475.0, 5, ("A2C", "REINFORCE")),
    "pendulum-100k": Task(lambda: gymnasium.make("Pendulum-v1"), 100_000, -200.0, 5, ("PPO", "TRPO")),
    "cartpole-po": Task(lambda: HideVelocities(gymnasium.make("CartPole-v1")), 100_000, 450.0, 5, ("DQN",)),
    "acrobot": Task(lambda: gymnasium.make("Acrobot-v1"), 100_000, -85.0, 5, ("DQN",)),
    "mountaincar": Task(lambda: gymnasium.make("MountainCar-v0"), 120_000, -110.0, 5, ("DQN",)),
    "lunarlander": Task(lambda: gymnasium.make("LunarLander-v3"), 300_000, 240.0, 5, ("DoubleDQN",)),
    "minatar-breakout": Task(minatar_breakout, 500_000, 6.0, 2, ("DQN", "Rainbow")),
    "pendulum": Task(pendulum, 20_000, -170.0, 5, ("SoftActorCritic", "TD3", "DDPG", "TQC")),
}

#: Tasks of continuous actions, whose agents have a policy and critics.
CONTINUOUS = ("pendulum",)

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
    # `n_envs` environments are stepped together.
    "cartpole-100k": {"hidden": 64, "lr": 1e-3, "agent": {"entropy_coef": 0.0}},
    "cartpole-300k": {"hidden": 64, "lr": 1e-3, "agent": {}},
    "pendulum-100k": {"hidden": 64, "lr": 1e-3, "normalize": True, "agent": {"gamma": 0.9, "entropy_coef": 0.0}},
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
    # Two hidden layers; before learning begins actions are drawn uniformly, later on with noise on the policy's.
    "pendulum": {
        "hidden": 64,
        "lr": 1e-3,
        "gamma": 0.98,
        "capacity": 20_000,
        "noise": 0.1,
        "agent": {"replay_start_size": 1_000, "minibatch_size": 128},
    },
}

_SAC = {"agent": {"entropy_target": -1.0, "temperature_optimizer_lr": 1e-3, "soft_update_tau": 0.01}}

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

#: What single agents have in place of that, or beside it.
OWN: dict[tuple[str, str], dict[str, Any]] = {
    ("pendulum", "SoftActorCritic"): _SAC,
    ("pendulum", "TD3"): {"agent": {"soft_update_tau": 0.01}},
    ("pendulum", "DDPG"): {
        "agent": {"target_update_interval": 1, "target_update_method": "soft", "soft_update_tau": 0.01}
    },
    ("pendulum", "TQC"): {"n_quantiles": 25, **_SAC},
    ("cartpole", "AL"): {"agent": {"alpha": 0.5}},
    ("cartpole", "PAL"): {"agent": {"alpha": 0.5}},
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
    # The learning rate of the fractions is that of the rest times `fraction_lr`.
    ("cartpole", "FQF"): {"n_cosines": 64, "n_fractions": 8, "entropy_coeff": 1e-3, "fraction_lr": 1e-3},
    ("minatar-breakout", "Rainbow"): {
        "num_steps": 3,
        "prioritized": {"alpha": 0.5, "beta0": 0.4, "betasteps": 123_750, "normalize_by_max": "memory"},
        "noise": 0.5,
        "agent": {"compile": True},
        "atoms": {"n_atoms": 51, "v_min": 0.0, "v_max": 20.0},  # a brick takes some 6 steps: 1 / 6 / (1 - gamma)
    },
}


def settings_of(task: str, name: str) -> dict[str, Any]:
    """The hyperparameters of one agent on one task."""
    common, own = SETTINGS[task], OWN.get((task, name), {})
    return {**common, **own, "agent": {**common["agent"], **own.get("agent", {})}}


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


def make_actor_critic(task: str, name: str, env: gymnasium.Env) -> Any:
    """The parts of one run with continuous actions."""
    settings = settings_of(task, name)
    (n_obs,), (n_actions,), hidden = env.observation_space.shape, env.action_space.shape, settings["hidden"]
    soft = name in ("SoftActorCritic", "TQC")
    head = policies.SquashedGaussianHead() if soft else nn.Sequential(nn.Tanh(), policies.DeterministicHead())
    policy = nn.Sequential(
        *[nn.Linear(n_obs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()],
        *[nn.Linear(hidden, 2 * n_actions if soft else n_actions), head],
    )
    critics = [
        q_functions.QuantileFCSAQFunction(n_obs, n_actions, settings["n_quantiles"], hidden, 2)
        if name == "TQC"
        else q_functions.FCSAQFunction(n_obs, n_actions, hidden, 2)
        for _ in range(1 if name == "DDPG" else 2)
    ]
    optimizers = [torch.optim.Adam(part.parameters(), lr=settings["lr"]) for part in (policy, *critics)]
    buffer = replay_buffers.ReplayBuffer(settings["capacity"])
    explorer = {} if soft else {"explorer": explorers.AdditiveGaussian(settings["noise"], low=-1.0, high=1.0)}
    return getattr(agents, name)(
        policy, *critics, *optimizers, buffer, settings["gamma"], burnin_action_func=env.action_space.sample,
        **explorer, **settings["agent"],
    )  # fmt: skip


def make_agent(task: str, name: str, env: gymnasium.Env) -> Any:
    """The parts of one run, as a user would put them together."""
    if task in CONTINUOUS:
        return make_actor_critic(task, name, env)
    settings = settings_of(task, name)
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


def orthogonal(n_inputs: int, n_outputs: int, gain: float) -> nn.Linear:
    """A layer as on-policy agents like it at first (arXiv:2005.12729, section 3)."""
    layer = nn.Linear(n_inputs, n_outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def make_on_policy_agent(task: str, name: str, env: gymnasium.Env) -> Any:
    """The parts of one run of an agent of `ON_POLICY`."""
    settings = settings_of(task, name)
    (size,), hidden, continuous = env.observation_space.shape, settings["hidden"], hasattr(env.action_space, "high")
    n_actions = env.action_space.shape[0] if continuous else int(env.action_space.n)
    head = (
        policies.GaussianHeadWithStateIndependentCovariance(n_actions, "diagonal", lambda x: torch.exp(2 * x))
        if continuous
        else policies.SoftmaxCategoricalHead()
    )

    def body(n_outputs: int, gain: float) -> list[nn.Module]:
        inner = [orthogonal(size, hidden, 2**0.5), nn.Tanh(), orthogonal(hidden, hidden, 2**0.5), nn.Tanh()]
        return [*inner, orthogonal(hidden, n_outputs, gain)]

    policy, vf = nn.Sequential(*body(n_actions, 0.01), head), nn.Sequential(*body(1, 1.0))
    options = {"act_deterministically": True, **settings["agent"]}
    if settings.get("normalize"):
        options["obs_normalizer"] = EmpiricalNormalization(size, clip_threshold=5)
    if name == "TRPO":
        return agents.TRPO(policy, vf, torch.optim.Adam(vf.parameters(), settings["lr"]), **options)
    model = policy if name == "REINFORCE" else Branched(policy, vf)
    return getattr(agents, name)(model, torch.optim.Adam(model.parameters(), settings["lr"]), **options)


def make_several(task: str, n_envs: int, seed: int) -> SerialVectorEnv:
    """Environments that are stepped together."""
    several = [TASKS[task].make_env() for _ in range(n_envs)]
    for i, env in enumerate(several):
        env.reset(seed=1_000 * seed + i)
    return SerialVectorEnv(several)


def run(job: tuple[str, str, int]) -> dict[str, Any]:
    """Train one agent with one seed and score what came of it."""
    task, name, seed = job
    torch.set_num_threads(1)
    utils.set_random_seed(seed)
    env = TASKS[task].make_env()
    env.reset(seed=seed)
    env.action_space.seed(seed)
    agent = (make_on_policy_agent if name in ON_POLICY else make_agent)(task, name, env)
    optimizers = [part for part in vars(agent).values() if isinstance(part, torch.optim.Optimizer)]

    def set_lr(env: Any, agent: Any, value: float) -> None:
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = value * group.get("lr_factor", 1.0)

    def set_epsilon(env: Any, agent: Any, value: float) -> None:
        agent.explorer.end_epsilon = value

    def report(env: Any, agent: Any, t: int) -> None:
        if t % (steps // 10) == 0:
            speed = t / (time.perf_counter() - start)
            print(f"{task} {name} seed {seed}: step {t:,} of {steps:,}, {speed:.0f} a second", flush=True)

    settings, steps, start = settings_of(task, name), TASKS[task].steps, time.perf_counter()
    hooks = [experiments.LinearInterpolationHook(steps, settings["lr"], 0.0, set_lr), report]
    if "reward_scale" in settings:
        env = wrappers.ScaleReward(env, settings["reward_scale"])
        hooks.append(experiments.LinearInterpolationHook(steps, settings["end_epsilon"], 0.0, set_epsilon))
    with tempfile.TemporaryDirectory() as outdir:
        if "n_envs" in settings:
            several = make_several(task, settings["n_envs"], seed)
            experiments.train_agent_batch(agent, several, steps, outdir, step_hooks=hooks)
        else:
            experiments.train_agent(agent, env, steps, outdir, step_hooks=hooks)
    seconds = time.perf_counter() - start
    returns = greedy_returns(agent, TASKS[task].make_env())
    return {
        "task": task,
        "agent": name,
        "seed": seed,
        "score": float(np.mean(returns)),
        "returns": returns,
        "seconds": round(seconds, 1),
        "settings": fingerprint(task, name),
        "versions": {
            "pfrl_like": pfrl_like.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "gymnasium": gymnasium.__version__,
            "python": platform.python_version(),
        },
    }


def greedy_returns(agent: Any, env: gymnasium.Env) -> list[float]:
    """Returns of 20 episodes whose starts are the same for every agent."""
    returns = []
    with agent.eval_mode():
        for episode in range(EPISODES):
            obs, _ = env.reset(seed=10_000 + episode)
            total, ended = 0.0, False
            while not ended:
                obs, reward, terminated, truncated, _ = env.step(agent.act(obs))
                ended = terminated or truncated
                agent.observe(obs, reward, terminated, ended)
                total += float(reward)
            returns.append(total)
    return returns


def fingerprint(task: str, name: str) -> str:
    """Tells results of other hyperparameters apart."""
    text = json.dumps([settings_of(task, name), TASKS[task].steps, EPISODES], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def read_results(path: Path) -> list[dict[str, Any]]:
    """The lines that belong to the present hyperparameters."""
    if not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        line for line in lines if line["task"] in TASKS and line["settings"] == fingerprint(line["task"], line["agent"])
    ]


def print_table(results: list[dict[str, Any]]) -> None:
    """Mean over seeds with its 95 % bootstrap interval, and how many seeds reach the bar."""
    print("| task | agent | steps | seeds | mean score [95 %] | lowest | seeds >= bar |\n" + "| --- " * 7 + "|")
    pairs = [(task, name) for task in TASKS for name in TASKS[task].agents]
    for task, name in pairs:
        scores = np.array([line["score"] for line in results if (line["task"], line["agent"]) == (task, name)])
        if len(scores) == 0:
            continue
        means = np.random.default_rng(0).choice(scores, (10_000, len(scores))).mean(axis=1)
        low, high = np.quantile(means, [0.025, 0.975])
        seeds, reached = f"{len(scores)} of {TASKS[task].n_seeds}", (scores >= TASKS[task].bar).sum()
        print(
            f"| {task} | {name} | {TASKS[task].steps:,} | {seeds} | {scores.mean():.1f} [{low:.1f}, {high:.1f}]"
            f" | {scores.min():.1f} | {reached} (bar {TASKS[task].bar:g}) |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="*", default=list(TASKS), choices=TASKS)
    parser.add_argument("--agent", nargs="*", help="only these agents")
    parser.add_argument("--seeds", type=int, nargs="*", help="only these; all of each task without it")
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one thread each")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="only print what there is")
    args = parser.parse_args()

    done = {(line["task"], line["agent"], line["seed"]) for line in read_results(args.results)}
    jobs = [
        (task, name, seed)
        for task in args.task
        for name, seed in itertools.product(TASKS[task].agents, args.seeds or range(TASKS[task].n_seeds))
        if (not args.agent or name in args.agent) and (task, name, seed) not in done
    ]
    if jobs and not args.table:
        args.results.parent.mkdir(parents=True, exist_ok=True)
        with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
            for result in pool.imap_unordered(run, jobs):
                with args.results.open("a") as file:
                    file.write(json.dumps(result) + "\n")
                print(f"{result['task']} {result['agent']} seed {result['seed']}: {result['score']:.1f}", flush=True)
    print_table(read_results(args.results))


if __name__ == "__main__":
    main()
