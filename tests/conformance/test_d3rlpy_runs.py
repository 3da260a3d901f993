"""Ten updates beside d3rlpy 2.8.1 in float64, from equal weights, on the same minibatches, by the same random numbers.

What d3rlpy answered is in `tests/data/peers/d3rlpy_runs.npz`, where `tests/peers/d3rlpy_runs.py` writes it in d3rlpy's
environment (`make peers`); `pytest -m peers` asks it anew, for five seeds.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from peer_libraries import TESTS, answer, asks
from peers import d3rlpy_runs, problem
from torch import Tensor

from pfrl_like import agents, d3rlpy
from pfrl_like.agents import SoftActorCritic
from pfrl_like.agents.offline.cql import max_next_value, mode_next_value, pooled_conservative_gap
from pfrl_like.batch import Batch
from pfrl_like.d3rlpy import ActionSpace
from pfrl_like.d3rlpy.models.heads import encoder_and_size
from pfrl_like.d3rlpy.models.policies import DeterministicPolicy, GaussianPolicy
from pfrl_like.d3rlpy.models.q_functions import critics
from pfrl_like.explorers import Greedy
from pfrl_like.functions.losses import square
from pfrl_like.replay_buffers import ReplayBuffer

Array = NDArray[Any]
SCRIPT, ANSWERS = "peers/d3rlpy_runs.py", TESTS / "data/peers/d3rlpy_runs.npz"


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@functools.cache
def arrays_in(path: Path) -> dict[str, Array]:
    with np.load(path) as file:
        return dict(file)


def answer_of(path: Path, case: str, optimizer: str, seed: int) -> dict[str, Array]:
    """What d3rlpy answered, by name."""
    start = f"{case}/{optimizer}/{seed}/"
    return {name.removeprefix(start): each for name, each in arrays_in(path).items() if name.startswith(start)}


def draws_of(theirs: Mapping[str, Array], update: int) -> list[Array]:
    """The numbers that an update of d3rlpy drew, in order.

    The uniform actions of CQL, [n, N, A] in [0, 1] here, are [N * n, A] in [-1, 1] there.
    """
    start = f"drawn/{update}/"
    drawn = [theirs[f"{start}{i}"] for i in range(sum(name.startswith(start) for name in theirs))]
    return [
        (each.reshape(problem.ROWS, -1, each.shape[1]).swapaxes(0, 1) + 1) / 2
        if each.ndim == 2 and len(each) > problem.ROWS
        else each
        for each in drawn
    ]


def assert_same_run(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> None:
    """All that d3rlpy reports, its first gradients and its last parameters are ours."""
    names = {name for name in theirs if not name.startswith("drawn/")}
    assert names == ours.keys()
    for name in names:
        assert np.allclose(ours[name], theirs[name], rtol=1e-6, atol=1e-6 * np.abs(theirs[name]).max()), name


# Our side: agents, with the methods and modules that a run needs


class Run:
    """An agent as an algorithm of d3rlpy.

    Args:
        agent: The agent.
        modules: Names of its networks, by the names of d3rlpy.
        names: Our statistic for each metric of d3rlpy, or a function from our statistics to the metric.
    """

    def __init__(self, agent: Any, modules: Mapping[str, str], names: dict[str, Any]) -> None:
        self.agent, self.names = agent, names
        torch_modules = {name: getattr(agent, each) for name, each in modules.items()}
        self.impl = SimpleNamespace(modules=SimpleNamespace(get_torch_modules=lambda: torch_modules))
        self.discrete = isinstance(agent, agents.DQN)
        self.get_action_type = lambda: ActionSpace.DISCRETE if self.discrete else ActionSpace.CONTINUOUS
        agent.delays_first_update, agent.evaluates_critics = False, True
        for name in torch_modules:
            torch_modules[name].train()  # those of targets, too

    def note(self, batch: Batch) -> dict[str, Tensor]:
        """Statistics that are computed before the update."""
        action = getattr(self.agent, "policy", None) and self.agent.policy(batch.obs).mode.detach()
        return {} if self.discrete else {"distance": (action - batch.action).square()}

    def update(self, batch: Any) -> dict[str, float]:
        columns = {
            name: torch.as_tensor(column).double() for name, column in vars(batch).items() if name != "transitions"
        }
        actions = columns["actions"]
        rewards_to_go = [torch.as_tensor(each.rewards_to_go).double().flatten() for each in batch.transitions]
        rows = Batch(
            columns["observations"], actions.flatten().long() if self.discrete else actions,
            columns["rewards"].flatten(), columns["next_observations"],
            problem.GAMMA * (1 - columns["terminals"].flatten()), next_action=columns["next_actions"],
            returns=torch.stack([each @ problem.GAMMA ** torch.arange(float(len(each))) for each in rewards_to_go]),
        )  # fmt: skip
        noted = self.note(rows)
        stats = noted | self.agent.update(rows)[1]
        metrics = {
            name: each(stats) if callable(each) else stats[each].mean()
            for name, each in self.names.items()
            if callable(each) or each in stats
        }
        with_policy = self.discrete or "policy_loss" in stats
        return {name: float(metric) for name, metric in metrics.items() if with_policy or name != "bc_loss"}


def optimizer_of(kind: str, parameters: Any, lr: float = problem.LEARNING_RATE) -> torch.optim.Optimizer:
    if kind == "SGD":
        return torch.optim.SGD(parameters, lr=lr)
    return torch.optim.Adam(parameters, lr=lr, eps=problem.EPS)


ENCODER, SHAPE = d3rlpy.models.VectorEncoderFactory(hidden_units=problem.HIDDEN), (problem.OBS_SIZE,)


def options_of(case: str) -> dict[str, Any]:
    options: dict[str, Any] = d3rlpy_runs.CASES[case][1](d3rlpy)
    return options


def policy_encoder_of(case: str) -> Any:
    return encoder_and_size(options_of(case).get("actor_encoder_factory", ENCODER), SHAPE)


def critics_of(case: str, n_critics: int, discrete: bool = False) -> Any:
    options = options_of(case)
    factory = options.get("q_func_factory", d3rlpy.models.MeanQFunctionFactory())
    size, n_critics = problem.N_ACTIONS if discrete else problem.ACTION_SIZE, options.get("n_critics", n_critics)
    encoder = options.get("critic_encoder_factory", ENCODER)
    return critics(factory, encoder, SHAPE, size, discrete=discrete, n_critics=n_critics)


def run_of_values(kind: Any, case: str, optimizer: str, **options: Any) -> Run:
    model = critics_of(case, 1, discrete=True)
    options["target_update_interval"] = 1 if case == "NFQ" else options_of(case).get("target_update_interval", 8000)
    agent = kind(model, optimizer_of(optimizer, model.parameters()), ReplayBuffer(), problem.GAMMA, Greedy(), **options)
    return Run(agent, {"q_funcs": "model", "targ_q_funcs": "target_model"}, {"loss": "loss"})


def run_of_td3(kind: Any, case: str, optimizer: str, n_critics: int = 2, distance: Any = None, **options: Any) -> Run:
    policy = DeterministicPolicy(*policy_encoder_of(case), problem.ACTION_SIZE)
    q_func = critics_of(case, n_critics)
    optimizers = [optimizer_of(optimizer, each.parameters()) for each in (policy, q_func)]
    agent = kind(policy, q_func, None, *optimizers, None, ReplayBuffer(), problem.GAMMA, Greedy(), **options)
    modules = {
        "policy": "policy", "targ_policy": "target_policy", "q_funcs": "q_func1", "targ_q_funcs": "target_q_func1"
    }  # fmt: skip
    more = {} if distance is None else {"bc_loss": lambda stats: distance(stats["distance"])}
    return Run(agent, modules, {"critic_loss": "loss", "actor_loss": "policy_loss"} | more)


def run_of_sac(kind: Any, case: str, optimizer: str, **options: Any) -> Run:
    policy, q_func = GaussianPolicy(*policy_encoder_of(case), problem.ACTION_SIZE), critics_of(case, 2)
    optimizers = [optimizer_of(optimizer, each.parameters()) for each in (policy, q_func)]
    fields = {"temperature": "temp_learning_rate", "alpha": "alpha_learning_rate"}
    fields = {name: field for name, field in fields.items() if name == "temperature" or kind is not SoftActorCritic}
    # A multiplier that d3rlpy does not learn is one that does not move here.
    lr = {name: options_of(case).get(field, problem.LEARNING_RATE) for name, field in fields.items()}
    agent = kind(
        policy, q_func, None, *optimizers, None, ReplayBuffer(), problem.GAMMA, entropy_target=-problem.ACTION_SIZE,
        multiplier_optimizers={name: functools.partial(optimizer_of, optimizer, lr=lr[name]) for name in lr},
        multipliers_first=True, **options,
    )  # fmt: skip
    modules = {"policy": "policy", "q_funcs": "q_func1", "targ_q_funcs": "target_q_func1"}
    metrics: dict[str, Any] = {
        "critic_loss": "loss",
        "actor_loss": "policy_loss",
        "temp": lambda stats: agent.temperature,
        "temp_loss": lambda stats: stats["temperature_loss"] if lr["temperature"] else 0.0,
    }
    if kind is SoftActorCritic:
        return Run(agent, modules | {"log_temp": "temperature_holder"}, metrics)
    threshold = options["alpha_threshold"]  # which d3rlpy takes off the gap of each of the two critics
    metrics |= {
        "alpha": lambda stats: agent.alpha,
        "conservative_loss": lambda stats: 2 * agent.alpha * (stats["conservative_gap"].mean() - threshold),
        "critic_loss": lambda stats: stats["loss"] - 2 * agent.alpha * threshold,
    }
    return Run(agent, modules | {"log_temp": "temperature_holder", "log_alpha": "alpha_holder"}, metrics)


def run_of_cql(kind: Any, case: str, optimizer: str) -> Run:
    given = options_of(case)
    n, soft = given["n_action_samples"], given.get("soft_q_backup", False)
    hard = functools.partial(max_next_value, n=n) if given.get("max_q_backup") else mode_next_value
    return run_of_sac(
        kind, case, optimizer, n_action_samples=n, soft_q_backup=soft, next_value=None if soft else hard,
        conservative_weight=5.0, alpha_threshold=50.0, initial_alpha=1.0, max_alpha=1e6,
    )  # fmt: skip


def run_of_discrete_cql(case: str, optimizer: str) -> Run:
    run = run_of_values(agents.DiscreteCQL, case, optimizer, gap=pooled_conservative_gap)
    gaps: list[Tensor] = []

    def penalty(value: Any, batch: Batch) -> Tensor:
        gap = pooled_conservative_gap(value, batch.action)
        gaps[:] = [gap.detach().mean()]
        return gap

    run.agent.penalty = penalty
    run.names |= {"conservative_loss": lambda stats: gaps[0], "td_loss": lambda stats: stats["loss"] - gaps[0]}
    return run


RUNS: dict[str, Callable[[str, str], Run]] = {
    "DQN": functools.partial(run_of_values, agents.DQN),
    "DQN, two critics": functools.partial(run_of_values, agents.DQN),
    "DQN, quantiles": functools.partial(run_of_values, agents.DQN),
    "DoubleDQN": functools.partial(run_of_values, agents.DoubleDQN),
    "NFQ": functools.partial(run_of_values, agents.DQN),
    "DDPG": functools.partial(
        run_of_td3, agents.TD3, n_critics=1, policy_update_delay=1, target_policy_smoothing_func=torch.clone
    ),
    "DiscreteCQL": run_of_discrete_cql,
    "DiscreteCQL, two critics": run_of_discrete_cql,
    "SAC": functools.partial(run_of_sac, SoftActorCritic, elementwise=square),
    "SAC, batch normalisation": functools.partial(run_of_sac, SoftActorCritic, elementwise=square),
    "SAC, fixed temperature": functools.partial(run_of_sac, SoftActorCritic, elementwise=square),
    "CQL": functools.partial(run_of_cql, agents.CQL),
    "CQL, soft_q_backup": functools.partial(run_of_cql, agents.CQL),
    "CQL, max_q_backup": functools.partial(run_of_cql, agents.CQL),
    "CQL, fixed multipliers": functools.partial(run_of_cql, agents.CQL),
    "CalQL": functools.partial(run_of_cql, agents.CalQL),
    "TD3": functools.partial(run_of_td3, agents.TD3),
    "TD3, batch normalisation": functools.partial(run_of_td3, agents.TD3),
    "TD3PlusBC": functools.partial(run_of_td3, agents.TD3PlusBC, distance=torch.mean),
    "ReBRAC": functools.partial(run_of_td3, agents.ReBRAC, distance=lambda each: each.sum(1).mean()),
}


def assert_runs_equal(path: Path, case: str, optimizer: str, seed: int) -> None:
    theirs = answer_of(path, case, optimizer, seed)
    ours = d3rlpy_runs.run(RUNS[case](case, optimizer), d3rlpy, seed, functools.partial(draws_of, theirs))
    if "fixed" in case:  # d3rlpy computes gradients of multipliers that no optimiser has
        for answers in (ours, theirs):
            answers.pop("gradients/log_temp", None), answers.pop("gradients/log_alpha", None)
    assert_same_run(ours, theirs)


@pytest.mark.parametrize("optimizer", d3rlpy_runs.OPTIMIZERS)
@pytest.mark.parametrize("case", RUNS)
def test_ten_updates_are_those_of_d3rlpy(case: str, optimizer: str) -> None:
    assert_runs_equal(ANSWERS, case, optimizer, 0)


def test_another_loss_is_told_apart() -> None:
    theirs = answer_of(ANSWERS, "DQN", "SGD", 0)
    ours = d3rlpy_runs.run(RUNS["DoubleDQN"]("DQN", "SGD"), d3rlpy, 0, functools.partial(draws_of, theirs))
    with pytest.raises(AssertionError):
        assert_same_run(ours, theirs)


@asks("d3rlpy")
def test_ten_updates_are_those_of_d3rlpy_with_five_seeds(tmp_path: Path) -> None:
    path = answer("d3rlpy", SCRIPT, tmp_path / "runs.npz", "5", *RUNS)
    for case in RUNS:
        for optimizer in d3rlpy_runs.OPTIMIZERS:
            for seed in range(5):
                assert_runs_equal(path, case, optimizer, seed)
    now = arrays_in(path)
    for name, array in arrays_in(ANSWERS).items():
        assert np.allclose(array, now[name], rtol=1e-9, atol=1e-9), name
