"""The algorithms of this library, from parts as a user would put them together."""

import contextlib
import tempfile
import time
from typing import Any

import numpy as np
import torch
from torch import nn

from pfrl_like import agents, experiments, explorers, policies, q_functions, replay_buffers, utils
from pfrl_like.dataset import MDPDataset
from pfrl_like.nn import ConcatObsAndAction, ConditionalVAE

#: Those whose policy is a Gaussian with scales that do not depend on the state, as both papers' code has it.
_GAUSSIAN = ("IQL", "AWAC")
_SQUASHED = ("CQL", "CalQL", "CRR", "BEAR")
#: Whose temperature is learnt.
_SOFT = ("CQL", "CalQL", "BEAR")
_OPTIONS = (
    *("alpha", "actor_beta", "critic_beta", "expectile", "beta", "max_weight", "lam", "n_action_samples"),
    *("alpha_threshold", "initial_alpha", "conservative_weight", "policy_update_delay", "action_flexibility"),
    *("mmd_kernel", "mmd_sigma", "n_mmd_action_samples", "soft_q_backup", "compile"),
)


#: What d3rlpy adds to standard deviations.
_EPSILON = 1e-3


class Standard(nn.Module):
    """Observations, alone or beside actions, with mean 0 and standard deviation 1 in the data."""

    def __init__(self, observations: np.ndarray) -> None:
        super().__init__()
        moments = observations.mean(0), observations.std(0) + _EPSILON
        for name, moment in zip(("mean", "width"), moments, strict=True):
            self.register_buffer(name, torch.as_tensor(moment, dtype=torch.float32))

    def forward(self, x: Any) -> Any:
        if isinstance(x, tuple):
            return self(x[0]), *x[1:]
        return (x - self.mean) / self.width


def mlp(n_inputs: int, n_outputs: int, hidden: tuple[int, ...], *head: nn.Module) -> nn.Sequential:
    sizes = (n_inputs, *hidden)
    layers = [layer for size in zip(sizes, hidden, strict=False) for layer in (nn.Linear(*size), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], n_outputs), *head)


def make_policy(algorithm: str, n_obs: int, n_actions: int, hidden: tuple[int, ...]) -> nn.Module:
    if algorithm in _GAUSSIAN:
        head = policies.GaussianHeadWithStateIndependentCovariance(
            n_actions, var_type="diagonal", var_func=lambda x: torch.exp(2 * x)
        )
        return mlp(n_obs, n_actions, hidden, nn.Tanh(), head)
    if algorithm in _SQUASHED:
        return mlp(n_obs, 2 * n_actions, hidden, policies.SquashedGaussianHead())
    if algorithm == "BCQ":  # a perturbation of drawn actions
        return nn.Sequential(ConcatObsAndAction(), *mlp(n_obs + n_actions, n_actions, hidden, nn.Tanh()))
    return mlp(n_obs, n_actions, hidden, nn.Tanh(), policies.DeterministicHead())


def make_agent(
    algorithm: str, n_obs: int, n_actions: int, settings: dict[str, Any], scaler: nn.Module | None = None
) -> Any:
    """An agent, of the parts that its algorithm has; `scaler` stands before policy and critics of actor-critics."""
    if scaler is not None and (algorithm == "BC" or algorithm.startswith("Discrete")):
        raise ValueError(f"standard_scaler: {algorithm} is not made with one here")
    hidden, buffer = settings["hidden"], replay_buffers.ReplayBuffer(None)
    size = {"minibatch_size": settings["batch_size"], "replay_start_size": settings["batch_size"]}
    if algorithm == "DiscreteBC":
        policy = mlp(n_obs, n_actions, hidden, policies.SoftmaxCategoricalHead())
        optimizer = torch.optim.Adam(policy.parameters(), settings["actor_lr"])
        return agents.DiscreteBC(policy, optimizer, buffer, beta=settings["beta"], **size)
    if algorithm.startswith("Discrete"):
        return _discrete(
            algorithm,
            mlp(n_obs, n_actions, hidden, q_functions.DiscreteActionValueHead()),
            buffer,
            mlp(n_obs, n_actions, hidden, policies.SoftmaxCategoricalHead()),
            settings,
            size,
        )
    policy = make_policy(algorithm, n_obs, n_actions, hidden)
    if algorithm == "BC":
        return agents.BC(policy, torch.optim.Adam(policy.parameters(), settings["actor_lr"]), buffer, **size)
    return _actor_critic(algorithm, policy, buffer, n_obs, n_actions, settings, scaler)


def _discrete(
    algorithm: str,
    q_function: nn.Module,
    buffer: Any,
    imitator: nn.Module,
    settings: dict[str, Any],
    size: dict[str, int],
) -> Any:
    modules, options = [q_function], {"conservative_weight": settings.get("conservative_weight")}
    if algorithm == "DiscreteBCQ":
        options = {"imitator": imitator} | {name: settings[name] for name in ("beta", "action_flexibility")}
        modules.append(imitator)
    return getattr(agents, algorithm)(
        q_function, torch.optim.Adam(nn.ModuleList(modules).parameters(), settings["critic_lr"]), buffer,
        settings["gamma"], explorers.Greedy(), target_update_interval=settings["target_update_interval"], **options,
        **size,
    )  # fmt: skip


def _actor_critic(
    algorithm: str,
    policy: nn.Module,
    buffer: Any,
    n_obs: int,
    n_actions: int,
    settings: dict[str, Any],
    scaler: nn.Module | None,
) -> Any:
    hidden = settings["hidden"]

    def adam(module: nn.Module, lr: str = "critic_lr") -> torch.optim.Optimizer:
        return torch.optim.Adam(module.parameters(), settings[lr])

    critics = [nn.Sequential(ConcatObsAndAction(), *mlp(n_obs + n_actions, 1, hidden)) for _ in range(2)]
    options: dict[str, Any] = {name: settings[name] for name in _OPTIONS if name in settings}
    if "gap_threshold" in settings:  # ours is of the weighted gap
        options["alpha_threshold"] = settings["gap_threshold"] * settings["conservative_weight"]
    if algorithm in ("TD3PlusBC", "ReBRAC"):
        options["explorer"] = explorers.Greedy()
    if algorithm in _SOFT:
        options |= {"entropy_target": -n_actions, "temperature_optimizer_lr": settings["temperature_lr"]}
        options["alpha_optimizer_lr"] = settings["alpha_lr"]
    if algorithm in ("BCQ", "BEAR"):
        latent = 2 * n_actions
        encoder = nn.Sequential(ConcatObsAndAction(), *mlp(n_obs + n_actions, 2 * latent, hidden))
        decoder = nn.Sequential(ConcatObsAndAction(), *mlp(n_obs + latent, n_actions, hidden))
        options["imitator"] = ConditionalVAE(encoder, decoder, latent)
        options["imitator_optimizer"] = adam(options["imitator"], "imitator_lr")
    if algorithm == "IQL":
        options["v_func"] = mlp(n_obs, 1, hidden)
        options["v_func_optimizer"] = adam(options["v_func"])
    optimizers = adam(policy, "actor_lr"), *map(adam, critics)
    if scaler is not None:
        policy, *critics = (nn.Sequential(scaler, network) for network in (policy, *critics))
    return getattr(agents, algorithm)(
        policy, *critics, *optimizers, buffer, settings["gamma"],
        minibatch_size=settings["batch_size"], soft_update_tau=settings["tau"], **options,
    )  # fmt: skip


def available(algorithm: str) -> bool:
    """Whether the library has it."""
    return hasattr(agents, algorithm)


def _made(algorithm: str, settings: dict[str, Any], data: str, seed: int) -> tuple[Any, MDPDataset]:
    utils.set_random_seed(seed)
    dataset = MDPDataset.load(data)
    scaler = Standard(np.asarray(dataset.observations)) if settings.get("standard_scaler") else None
    sizes = dataset.get_observation_shape()[0], dataset.get_action_size()
    return make_agent(algorithm, *sizes, settings, scaler), dataset


def train(
    algorithm: str,
    settings: dict[str, Any],
    data: str,
    seed: int,
    policy: str,
    folder: str | None = None,
    checkpoint_freq: int | None = None,
) -> int:
    """Train and write the greedy policy as TorchScript; with a folder training checkpoints there, and resumes.

    Returns:
        Transitions that there were to learn from.
    """
    agent, dataset = _made(algorithm, settings, data, seed)
    with tempfile.TemporaryDirectory() if folder is None else contextlib.nullcontext(folder) as outdir:
        experiments.train_agent_offline(
            agent, dataset, settings["updates"], outdir,
            checkpoint_freq=checkpoint_freq, resume=folder is not None,
        )  # fmt: skip
    agent.export(policy, example_obs=np.asarray(dataset.observations[:1_000], np.float32))
    return dataset.n_steps


def rate(algorithm: str, settings: dict[str, Any], data: str, seconds: float, warm: int) -> float:
    """Updates a second in a run, after the first ones."""
    agent, dataset = _made(algorithm, settings, data, 0)
    start = 0.0
    result: list[float] = []

    def watch(clock: Any) -> None:
        nonlocal start
        if clock.t == warm:
            start = time.perf_counter()
        elif clock.t > warm and (elapsed := time.perf_counter() - start) >= seconds:
            result.append((clock.t - warm) / elapsed)
            clock.stop()

    with tempfile.TemporaryDirectory() as outdir:
        experiments.train_agent_offline(agent, dataset, 10**9, outdir, hooks=[watch])
    return result[0]
