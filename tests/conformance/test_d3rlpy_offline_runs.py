"""Agents of imitation and of offline learning make the ten updates of d3rlpy 2.8.1 (see `test_d3rlpy_runs.py`)."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conformance.test_d3rlpy_runs import SCRIPT, _float64, answer_of, assert_same_run
from peer_libraries import TESTS, answer, asks
from peers import d3rlpy_runs, problem
from torch import nn

from pfrl_like import agents, d3rlpy
from pfrl_like.algos.fitting.networks import copy_targets_by_interval
from pfrl_like.batch import Batch
from pfrl_like.d3rlpy import ActionSpace, Modules
from pfrl_like.d3rlpy.models import MeanQFunctionFactory, VectorEncoderFactory
from pfrl_like.d3rlpy.models.heads import Perturbation, ValueFunction, encoder_and_size
from pfrl_like.d3rlpy.models.policies import CategoricalPolicy, DeterministicPolicy, GaussianPolicy, conditional_vae
from pfrl_like.d3rlpy.models.q_functions import critics
from pfrl_like.explorers import Greedy
from pfrl_like.functions.losses import huber
from pfrl_like.q_functions import QFunctionEnsemble
from pfrl_like.replay_buffers import ReplayBuffer

float64 = _float64  # a fixture that each test uses
ENCODER, SHAPE = VectorEncoderFactory(problem.HIDDEN), (problem.OBS_SIZE,)
ANSWERS = TESTS / "data/peers/d3rlpy_offline_runs.npz"
Metrics = Callable[[Any, Mapping[str, Any]], dict[str, Any]]


class Run:
    """An agent as an algorithm of d3rlpy.

    Args:
        agent: The agent.
        modules: Its networks by the names of d3rlpy.
        metrics: Function of the errors of the rows and of the agent's statistics that returns the metrics of d3rlpy.
        discrete: True if actions are indices.
        target_update_interval: Number of updates between copies of the targets, the first after the first update. If
            0, the agent's own schedule is not changed.
    """

    def __init__(
        self, agent: Any, modules: Mapping[str, nn.Module], metrics: Metrics, *, discrete: bool = False,
        target_update_interval: int = 0,
    ) -> None:  # fmt: skip
        kind = dataclasses.make_dataclass("OfAgent", [(name, nn.Module) for name in modules], bases=(Modules,))
        self.agent, self.metrics = agent, metrics
        if target_update_interval:
            copy_targets_by_interval(agent, target_update_interval)
            agent.delays_first_update = False
        self.impl = SimpleNamespace(modules=kind(**modules))
        self.get_action_type = lambda: ActionSpace.DISCRETE if discrete else ActionSpace.CONTINUOUS

    def update(self, batch: Any) -> dict[str, float]:
        obs, actions, rewards, next_obs, ends = (
            torch.as_tensor(column).double()
            for column in (
                batch.observations, batch.actions, batch.rewards, batch.next_observations, batch.terminals,
            )
        )  # fmt: skip
        actions = actions.flatten().long() if self.get_action_type() is ActionSpace.DISCRETE else actions
        discount = problem.GAMMA * (1 - ends.flatten())
        error, stats = self.agent.update(Batch(obs, actions, rewards.flatten(), next_obs, discount))
        return {name: float(value) for name, value in self.metrics(error, stats).items()}


class AWAC(Run):
    """A run with the name of d3rlpy's class, which has a constant temperature."""


def loss(error: Any, stats: Mapping[str, Any]) -> dict[str, Any]:
    return {"loss": stats["loss"]}


def losses(error: Any, stats: Mapping[str, Any]) -> dict[str, Any]:
    return {"critic_loss": stats["loss"], "actor_loss": stats["policy_loss"]}


def losses_and_temperature(error: Any, stats: Mapping[str, Any]) -> dict[str, Any]:
    return {**losses(error, stats), "temp": 0.0, "temp_loss": 0.0}


def optimizer_of(kind: str, module: nn.Module, factor: float = 1.0) -> torch.optim.Optimizer:
    parameters, lr = module.parameters(), factor * problem.LEARNING_RATE
    return torch.optim.SGD(parameters, lr) if kind == "SGD" else torch.optim.Adam(parameters, lr, eps=problem.EPS)


def parts(kind: type[nn.Module], n_outputs: int = problem.ACTION_SIZE, **options: Any) -> Any:
    return kind(*encoder_and_size(ENCODER, SHAPE), n_outputs, **options)


def perturbation() -> Perturbation:
    size = problem.ACTION_SIZE
    return Perturbation(*encoder_and_size(ENCODER, SHAPE, size), size, takes_action=True)


class Temperature(nn.Module):
    """A logarithm that no loss uses."""

    def __init__(self) -> None:
        super().__init__()
        self._parameter = nn.Parameter(torch.zeros(1, 1))


def ensemble(n_critics: int, discrete: bool = False) -> QFunctionEnsemble:
    size = problem.N_ACTIONS if discrete else problem.ACTION_SIZE
    return critics(MeanQFunctionFactory(), ENCODER, SHAPE, size, discrete=discrete, n_critics=n_critics)


def networks(agent: Any, **others: nn.Module) -> dict[str, nn.Module]:
    """The networks that all actor-critics have, and others."""
    return {
        "policy": agent.policy, "q_funcs": agent.q_func1.members, "targ_q_funcs": agent.target_q_func1.members, **others
    }  # fmt: skip


def run_of_bc(optimizer: str, *, stochastic: bool = False) -> Run:
    options = {"squashes_samples": False, "min_logstd": -4.0, "max_logstd": 15.0}
    policy = parts(GaussianPolicy, **options) if stochastic else parts(DeterministicPolicy)
    agent = agents.BC(policy, optimizer_of(optimizer, policy), ReplayBuffer(), squared_error=stochastic)
    return Run(agent, {"imitator": policy}, loss)


def run_of_discrete_bc(optimizer: str) -> Run:
    policy = parts(CategoricalPolicy, problem.N_ACTIONS)
    agent = agents.DiscreteBC(policy, optimizer_of(optimizer, policy), ReplayBuffer(), beta=0.5)

    def metrics(error: Any, stats: Mapping[str, Any]) -> dict[str, Any]:
        whole, imitation = stats["loss"], error.mean()
        return {"loss": whole, "imitation_loss": imitation, "regularization_loss": whole - imitation}

    return Run(agent, {"imitator": policy}, metrics, discrete=True)


def run_of_iql(optimizer: str) -> Run:
    policy = parts(GaussianPolicy, squashes_samples=False, min_logstd=-5.0, max_logstd=2.0, has_common_std=True)
    q_func, v_func = ensemble(2), parts(ValueFunction, 1)
    shared = optimizer_of(optimizer, nn.ModuleList([q_func, v_func]))
    agent = agents.IQL(
        policy, q_func, None, optimizer_of(optimizer, policy), shared, None, ReplayBuffer(), problem.GAMMA,
        v_func=v_func, v_func_optimizer=None,
    )  # fmt: skip

    def metrics(error: Any, stats: Mapping[str, Any]) -> dict[str, Any]:
        q_loss, v_loss = stats["loss"], stats["v_func_loss"]
        return {"critic_loss": q_loss + v_loss, "q_loss": q_loss, "v_loss": v_loss, "actor_loss": stats["policy_loss"]}

    return Run(agent, networks(agent, value_func=v_func), metrics)


def run_of_awac(optimizer: str) -> Run:
    policy = parts(GaussianPolicy, squashes_samples=False, min_logstd=-6.0, max_logstd=0.0, has_common_std=True)
    q_func = ensemble(2)
    agent = agents.AWAC(
        policy, q_func, None, optimizer_of(optimizer, policy, 0.01), optimizer_of(optimizer, q_func), None,
        ReplayBuffer(), problem.GAMMA, n_action_samples=4, weight_type="softmax", next_policy=policy.squashed(),
    )  # fmt: skip
    return AWAC(agent, networks(agent, log_temp=Temperature()), losses_and_temperature)


def run_of_crr(optimizer: str, n_critics: int = 1, **options: Any) -> Run:
    policy, q_func = parts(GaussianPolicy, squashes_samples=False), ensemble(n_critics)
    agent = agents.CRR(
        policy, q_func, None, optimizer_of(optimizer, policy), optimizer_of(optimizer, q_func), None, ReplayBuffer(),
        problem.GAMMA, advantage_critics="mean", **options,
    )  # fmt: skip
    modules = networks(agent, targ_policy=agent.target_policy)
    return Run(agent, modules, losses, target_update_interval=3)


def with_imitator(error: Any, stats: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of an agent that imitates first."""
    return ({"vae_loss": stats["imitator_loss"]} if "imitator_loss" in stats else {}) | (
        losses(error, stats) if "policy_loss" in stats else {}
    )


def run_of_bcq(optimizer: str) -> Run:
    policy, q_func = perturbation(), ensemble(2)
    vae = conditional_vae(ENCODER, SHAPE, problem.ACTION_SIZE)
    agent = agents.BCQ(
        policy, q_func, None, optimizer_of(optimizer, policy), optimizer_of(optimizer, q_func), None, ReplayBuffer(),
        problem.GAMMA, imitator=vae, imitator_optimizer=optimizer_of(optimizer, vae), n_action_samples=4,
        imitates_first=True,
    )  # fmt: skip
    modules = networks(agent, targ_policy=agent.target_policy, vae_encoder=vae.encoder, vae_decoder=vae.decoder)
    return Run(agent, modules, with_imitator)


def run_of_plas(optimizer: str, perturbed: bool = False) -> Run:
    policy, q_func, xi = parts(Perturbation, 2 * problem.ACTION_SIZE), ensemble(2), perturbation()
    vae = conditional_vae(ENCODER, SHAPE, problem.ACTION_SIZE)
    kind: Any = agents.PLASWithPerturbation if perturbed else agents.PLAS
    actor = nn.ModuleList([policy, xi]) if perturbed else policy
    agent = kind(
        policy, q_func, None, optimizer_of(optimizer, actor), optimizer_of(optimizer, q_func), None, ReplayBuffer(),
        problem.GAMMA, imitator=vae, imitator_optimizer=optimizer_of(optimizer, vae), rl_start_step=3,
        **({"perturbation": xi} if perturbed else {}),
    )  # fmt: skip
    others = {"targ_policy": agent.target_policy, "vae_encoder": vae.encoder, "vae_decoder": vae.decoder}
    others |= {"perturbation": xi, "targ_perturbation": agent.target_perturbation} if perturbed else {}
    return Run(agent, networks(agent, **others), with_imitator)


def run_of_discrete_bcq(optimizer: str) -> Run:
    q_func = ensemble(1, discrete=True)
    encoder: Any = q_func.members[0]._encoder
    imitator = CategoricalPolicy(encoder, problem.HIDDEN[-1], problem.N_ACTIONS)
    agent = agents.DiscreteBCQ(
        q_func, optimizer_of(optimizer, nn.ModuleList([q_func, imitator])), ReplayBuffer(), problem.GAMMA, Greedy(),
        imitator=imitator,
    )  # fmt: skip
    modules = {
        "q_funcs": agent.model.members, "targ_q_funcs": agent.target_model.members, "imitator": agent.imitator
    }  # fmt: skip

    def metrics(error: Any, stats: Mapping[str, Any]) -> dict[str, Any]:
        whole, imitation = stats["loss"], stats["imitator_loss"]
        return {"loss": whole, "td_loss": whole - imitation, "imitator_loss": imitation}

    return Run(agent, modules, metrics, discrete=True, target_update_interval=3)


def multiplier_optimizers(optimizer: str, *names: str) -> dict[str, Any]:
    """Functions that make the optimisers of Lagrange multipliers."""
    return dict.fromkeys(names, lambda parameters: optimizer_of(optimizer, nn.ParameterList(parameters)))


def run_of_bear(optimizer: str) -> Run:
    policy, q_func = parts(GaussianPolicy), ensemble(2)
    vae = conditional_vae(ENCODER, SHAPE, problem.ACTION_SIZE)
    agent = agents.BEAR(
        policy, q_func, None, optimizer_of(optimizer, policy), optimizer_of(optimizer, q_func), None, ReplayBuffer(),
        problem.GAMMA, imitator=vae, imitator_optimizer=optimizer_of(optimizer, vae), imitates_first=True,
        entropy_target=-problem.ACTION_SIZE, warmup_steps=3, n_target_samples=3, unsquashed_mmd=True,
        mmd_kernel="laplacian",
        penalises_policy=False, log_alpha_bounds=(-5.0, 10.0), multipliers_first=True,
        multiplier_optimizers=multiplier_optimizers(optimizer, "temperature", "alpha"),
    )  # fmt: skip
    modules = networks(
        agent, vae_encoder=vae.encoder, vae_decoder=vae.decoder, log_temp=agent.temperature_holder,
        log_alpha=agent.alpha_holder,
    )  # fmt: skip

    def metrics(error: Any, stats: Mapping[str, Any]) -> dict[str, Any]:
        found = {"imitator_loss": stats["imitator_loss"], **losses(error, stats)}
        if "mmd_loss" in stats:
            found |= {"temp": agent.temperature, "temp_loss": stats["temperature_loss"], "alpha": agent.alpha}
            found |= {"mmd_loss": stats["mmd_loss"]}
        return found

    return Run(agent, modules, metrics)


def run_of_discrete_sac(optimizer: str) -> Run:
    policy, q_func = parts(CategoricalPolicy, problem.N_ACTIONS), ensemble(2, discrete=True)
    agent = agents.DiscreteSAC(
        policy, q_func, None, optimizer_of(optimizer, policy), optimizer_of(optimizer, q_func), None, ReplayBuffer(),
        problem.GAMMA, entropy_target=0.98 * math.log(problem.N_ACTIONS), elementwise=huber, multipliers_first=True,
        multiplier_optimizers=multiplier_optimizers(optimizer, "temperature"),
    )  # fmt: skip
    modules = networks(agent, log_temp=agent.temperature_holder)
    return Run(agent, modules, losses, discrete=True, target_update_interval=3)


RUNS: dict[str, Callable[[str], Run]] = {
    "BC": run_of_bc,
    "BC, stochastic": functools.partial(run_of_bc, stochastic=True),
    "DiscreteBC": run_of_discrete_bc,
    "IQL": run_of_iql,
    "BCQ": run_of_bcq,
    "BEAR": run_of_bear,
    "DiscreteSAC": run_of_discrete_sac,
    "DiscreteBCQ": run_of_discrete_bcq,
    "PLAS": run_of_plas,
    "PLASWithPerturbation": functools.partial(run_of_plas, perturbed=True),
    "AWAC": run_of_awac,
    "CRR": run_of_crr,
    "CRR, binary": functools.partial(run_of_crr, n_critics=2, weight_type="binary", advantage_type="max"),
}


def draws_for(case: str, theirs: Mapping[str, Any], update: int) -> Iterator[Any]:
    """The numbers that an update of d3rlpy drew, in our order: it draws BEAR's latent vectors sample by sample."""
    size = 2 * problem.ACTION_SIZE
    for i in itertools.count():
        drawn = theirs.get(f"drawn/{update}/{i}")
        if drawn is None:
            return
        is_latent = case == "BEAR" and drawn.shape[1:] == (size,) and len(drawn) > problem.ROWS
        yield drawn.reshape(-1, problem.ROWS, size).swapaxes(0, 1).reshape(drawn.shape) if is_latent else drawn


def assert_runs_equal(path: Path, case: str, optimizer: str, seed: int) -> None:
    theirs = answer_of(path, case, optimizer, seed)
    ours = d3rlpy_runs.run(RUNS[case](optimizer), d3rlpy, seed, functools.partial(draws_for, case, theirs))
    if case == "BEAR":  # a gradient of the warm-up, by which d3rlpy makes no step
        del theirs["gradients/log_alpha"]
    assert_same_run(ours, theirs)


@pytest.mark.parametrize("optimizer", d3rlpy_runs.OPTIMIZERS)
@pytest.mark.parametrize("case", RUNS)
def test_ten_updates_are_those_of_d3rlpy(case: str, optimizer: str) -> None:
    assert_runs_equal(ANSWERS, case, optimizer, 0)


@asks("d3rlpy")
def test_ten_updates_are_those_of_d3rlpy_with_five_seeds(tmp_path: Path) -> None:
    path = answer("d3rlpy", SCRIPT, tmp_path / "runs.npz", "5", *RUNS)
    for case in RUNS:
        for optimizer in d3rlpy_runs.OPTIMIZERS:
            for seed in range(5):
                assert_runs_equal(path, case, optimizer, seed)
