"""What agents with a replay buffer learn towards is what follows from known tables: every row of every update."""

import functools
import math
from collections.abc import Callable
from typing import Any

import analytic_parts
import analytic_tables as known
import numpy as np
import pytest
import torch
from faulty_agents import FAULTY_ENDS, GammaForDiscount, with_fault
from gymnasium.vector import AutoresetMode
from torch import nn

from pfrl_like import agents
from pfrl_like.action_value import DistributionalDiscreteActionValue, QuantileDiscreteActionValue
from pfrl_like.agents.dpp import DPPL, DPPGreedy
from pfrl_like.explorers import ConstantEpsilonGreedy, Greedy
from pfrl_like.nn import RecurrentSequential
from pfrl_like.policies import DeterministicHead
from pfrl_like.q_functions import DiscreteActionValueHead, FullyParametrizedQFunction, ImplicitQuantileQFunction
from pfrl_like.testing.play import Step
from pfrl_like.utils.contexts import ignores_training

#: Q(s, a) of the network that learns and of its target: the best actions are not the same in all states.
ONLINE = ((1.0, 2.0), (0.5, -1.0), (3.0, 2.5), (-2.0, 1.5))
TARGET = ((2.5, 1.0), (-1.5, 0.5), (2.0, 4.0), (1.0, -0.5))
ALPHA, ETA = 0.8, 0.7


@ignores_training
class Ones(nn.Module):
    """Features of fractions that do not depend on them."""

    def forward(self, taus: torch.Tensor) -> torch.Tensor:
        return torch.ones(*taus.shape, 2, dtype=torch.float64)


@ignores_training
class Twice(nn.Module):
    """Twice the fraction, as both features: quantiles 2 tau Q, whose mean is Q whatever the masses of the parts are."""

    def forward(self, taus: torch.Tensor) -> torch.Tensor:
        return 2 * taus.unsqueeze(2).expand(-1, -1, 2)


ATOMS = range(-20, 21)


def masses(mean: float) -> list[float]:
    """Probabilities of the atoms: half of it even, the other half in a hat at twice the mean."""
    return [0.5 / len(ATOMS) + 0.5 * max(0.0, 1 - abs(atom - 2 * mean)) for atom in ATOMS]


@ignores_training
class Quantiles(nn.Module):
    """Three quantiles around numbers [B, 2]."""

    def forward(self, mean: torch.Tensor) -> QuantileDiscreteActionValue:
        return QuantileDiscreteActionValue(torch.stack([mean + shift for shift in (-1.0, 0.0, 1.0)], 1))


@ignores_training
class Atoms(nn.Module):
    """Distributions whose means are numbers [B, 2]."""

    def forward(self, mean: torch.Tensor) -> DistributionalDiscreteActionValue:
        probabilities = torch.tensor([[masses(number) for number in row] for row in mean.tolist()], dtype=torch.float64)
        # A table learns nothing of this, but what learns has to have a gradient.
        probabilities = probabilities + 0 * mean.unsqueeze(2)
        return DistributionalDiscreteActionValue(probabilities, torch.tensor(ATOMS, dtype=torch.float64))


def q_network(kind: type[Any], rows: Any) -> nn.Module:
    """The table as a Q-function of the form that the agent needs."""
    if issubclass(kind, agents.IQN):
        return ImplicitQuantileQFunction(analytic_parts.Table(rows), Ones(), nn.Identity())
    if issubclass(kind, agents.FQF):
        proposal = nn.Linear(2, 3, dtype=torch.float64)  # other masses in each state, of each network
        return FullyParametrizedQFunction(analytic_parts.Table(rows), Twice(), nn.Identity(), proposal)
    heads: dict[type[Any], Callable[[], nn.Module]] = {
        agents.QRDQN: Quantiles,
        agents.CategoricalDQN: Atoms,
        agents.CategoricalDoubleDQN: Atoms,
    }
    return nn.Sequential(analytic_parts.Table(rows), heads.get(kind, DiscreteActionValueHead)())


def q(rows: Any, obs: Any) -> Any:
    return rows[analytic_parts.state_of(obs)]


def best(rows: Any, obs: Any) -> int:
    return int(np.argmax(q(rows, obs)))


def gap(rows: Any, obs: Any, action: Any) -> float:
    return float(max(q(rows, obs)) - q(rows, obs)[int(action)])


def largest(steps: list[Step]) -> float:
    return analytic_parts.n_step_return(steps, lambda obs: max(q(TARGET, obs)))


def doubly(steps: list[Step]) -> float:
    return analytic_parts.n_step_return(steps, lambda obs: q(TARGET, obs)[best(ONLINE, obs)])


def advantage(steps: list[Step], base: Callable[[list[Step]], float] = largest) -> float:
    return base(steps) - ALPHA * gap(TARGET, steps[0].obs, steps[0].action)


def persistent(steps: list[Step], base: Callable[[list[Step]], float] = largest) -> float:
    last, action = steps[-1], steps[0].action
    next_gap = 0.0 if last.terminated else gap(TARGET, last.next_obs, action)
    return max(advantage(steps, base), base(steps) - ALPHA * next_gap)


def preference(steps: list[Step], mean: Callable[[Any], float]) -> float:
    first = steps[0]
    return q(TARGET, first.obs)[int(first.action)] + analytic_parts.n_step_return(steps, mean) - mean(first.obs)


def boltzmann(obs: Any) -> float:
    values = q(TARGET, obs)
    return sum(p * v for p, v in zip(analytic_parts.softmax([ETA * v for v in values]), values, strict=True))


def log_sum(obs: Any) -> float:
    return math.log(sum(math.exp(ETA * v) for v in q(TARGET, obs))) / ETA


# TD errors, of rows that are n steps in a row. Those of quantiles and of distributions are no differences of means.


def plain_error(steps: list[Step], target: Callable[[list[Step]], float]) -> float:
    return target(steps) - float(q(ONLINE, steps[0].obs)[int(steps[0].action)])


def cross_entropy(steps: list[Step], target: Callable[[list[Step]], float], next_action: Any) -> float:
    """Of the next state's distribution, moved and shrunk, its mass shared by the nearest atoms (arXiv:1707.06887)."""
    last, first = steps[-1].next_obs, steps[0]
    discount = 0.0 if steps[-1].terminated else analytic_parts.GAMMA ** len(steps)
    reward, wanted = analytic_parts.n_step_return(steps, lambda obs: 0.0), dict.fromkeys(ATOMS, 0.0)
    for atom, mass in zip(ATOMS, masses(q(TARGET, last)[next_action(last)]), strict=True):
        place = min(max(reward + discount * atom, ATOMS[0]), ATOMS[-1])
        for other in ATOMS:
            wanted[other] += mass * max(0.0, 1 - abs(place - other))
    own = masses(q(ONLINE, first.obs)[int(first.action)])
    return -sum(mass * math.log(p) for mass, p in zip(wanted.values(), own, strict=True))


ERRORS: dict[str, Callable[..., float]] = {
    "CategoricalDQN": functools.partial(cross_entropy, next_action=functools.partial(best, TARGET)),
    "CategoricalDoubleDQN": functools.partial(cross_entropy, next_action=functools.partial(best, ONLINE)),
    **dict.fromkeys(("QRDQN", "IQN", "DoubleIQN", "FQF"), lambda steps, target: abs(plain_error(steps, target))),
}

#: Agents, further arguments, and the target that follows from n steps in a row.
DISCRETE: dict[str, tuple[type[Any], dict[str, Any], Callable[[list[Step]], float]]] = {
    "DQN": (agents.DQN, {}, largest),
    "DoubleDQN": (agents.DoubleDQN, {}, doubly),
    "AL": (agents.AL, {"alpha": ALPHA}, advantage),
    "PAL": (agents.PAL, {"alpha": ALPHA}, persistent),
    "DoublePAL": (agents.DoublePAL, {"alpha": ALPHA}, functools.partial(persistent, base=doubly)),
    "DPP": (agents.DPP, {"eta": ETA}, functools.partial(preference, mean=boltzmann)),
    "DPPL": (DPPL, {"eta": ETA}, functools.partial(preference, mean=log_sum)),
    "DPPGreedy": (DPPGreedy, {}, functools.partial(preference, mean=lambda obs: max(q(TARGET, obs)))),
    "CategoricalDQN": (agents.CategoricalDQN, {}, largest),
    "CategoricalDoubleDQN": (agents.CategoricalDoubleDQN, {}, doubly),
    "QRDQN": (agents.QRDQN, {}, largest),
    "IQN": (agents.IQN, {}, largest),
    "DoubleIQN": (agents.DoubleIQN, {}, doubly),
    "FQF": (agents.FQF, {}, largest),
}

CONTINUOUS: dict[str, tuple[int, Callable[[Any], float]]] = {
    "DDPG": (1, lambda obs: known.least(obs, known.TARGET_POLICY, 1)),
    "TD3": (2, lambda obs: known.least(obs, known.TARGET_POLICY, 2)),
    "SoftActorCritic": (2, known.soft),
}


def make_discrete(name: str, n: int, **options: Any) -> Any:
    kind, own, _ = DISCRETE[name]
    network = q_network(kind, ONLINE)
    agent = kind(
        network, torch.optim.SGD(network.parameters(), lr=0.0), known.buffer_of(n), analytic_parts.GAMMA,
        ConstantEpsilonGreedy(0.5, lambda: np.random.randint(2)), target_update_interval=10_000,
        **{**known.SCHEDULE, **own, **options},
    )  # fmt: skip
    known.put(agent.target_model, TARGET)
    return agent


def make_continuous(name: str, n: int, **options: Any) -> Any:
    n_critics, _ = CONTINUOUS[name]
    soft_agent = name == "SoftActorCritic"
    policy: nn.Module = analytic_parts.KnownPolicy(known.POLICY)
    if not soft_agent:
        policy = nn.Sequential(analytic_parts.Table([row[:1] for row in known.POLICY]), DeterministicHead())
    parts = [policy, *map(analytic_parts.QuadraticCritic, known.CRITICS[:n_critics])]
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.0) for part in parts]
    own: dict[str, Any] = {
        "DDPG": {"target_update_interval": 10_000, "explorer": Uniform()},
        "TD3": {"target_policy_smoothing_func": lambda action: action, "explorer": Uniform(), "soft_update_tau": 1e-30},
        "SoftActorCritic": {
            "initial_temperature": known.TEMPERATURE, "soft_update_tau": 1e-30,
            "burnin_action_func": lambda: np.random.uniform(-1, 1, 1).astype(np.float32),
        },
    }[name]  # fmt: skip
    agent = getattr(agents, name)(
        *parts, *optimizers, known.buffer_of(n), gamma=analytic_parts.GAMMA, **{**known.SCHEDULE, **own, **options}
    )
    for target, rows in zip(agent.target_critics, known.TARGET_CRITICS, strict=False):
        known.put(target, rows)
    if not soft_agent:
        known.put(agent.target_policy, [row[:1] for row in known.TARGET_POLICY])
    return agent


class Uniform(Greedy):
    """Actions at random in place of the policy's."""

    def select_action(self, t: int, greedy_action_func: Any, action_value: Any = None) -> Any:
        return np.random.uniform(-1, 1, 1).astype(np.float32)


def check_agent_of(name: str, n: int, trial: analytic_parts.Trial) -> None:
    """The agent of a trial, which is one of these with n-step returns, learns what follows from its tables."""
    if name in DISCRETE:
        return known.check_rows(trial, functools.partial(ERRORS.get(name, plain_error), target=DISCRETE[name][2]), n)
    n_critics, next_value = CONTINUOUS[name]

    def error(steps: list[Step]) -> float:
        target, first = analytic_parts.n_step_return(steps, next_value), steps[0]
        errors = [target - known.critic_value(rows, first.obs, first.action) for rows in known.CRITICS[:n_critics]]
        return errors[0] if n_critics == 1 else sum(map(abs, errors)) / n_critics

    return known.check_rows(trial, error, n)


def make(name: str, n: int) -> Any:
    return make_discrete(name, n) if name in DISCRETE else make_continuous(name, n)


def sequence_lengths(lengths: Any) -> list[int]:
    """For each row of packed sequences, how many rows of its sequence begin there."""
    return [int(length) - i for i in range(int(lengths[0])) for length in lengths if length > i]


def check_sequences(name: str, n: int, ending: str, mode: AutoresetMode | None, n_envs: int) -> None:
    """Recurrent agents with n-step returns within sequences of at most four steps."""
    kind, own, target = DISCRETE[name]
    network = RecurrentSequential(*q_network(kind, ONLINE))
    agent = kind(
        network, torch.optim.SGD(network.parameters(), lr=0.0), known.buffer_of(1, "episodic"), analytic_parts.GAMMA,
        ConstantEpsilonGreedy(0.5, lambda: np.random.randint(2)), target_update_interval=10_000, recurrent=True,
        episodic_update_len=4, num_steps=n, replay_start_size=6, minibatch_size=3, **own,
    )  # fmt: skip
    known.put(agent.target_model, TARGET)
    trial, seen = analytic_parts.Trial(agent, ending, mode, n_envs), set()

    def see(batch: Any, result: Any) -> None:
        left = sequence_lengths(batch.lengths)
        assert max(left) <= 4
        for obs, rest, error in zip(batch.obs, left, result[1].tolist(), strict=True):
            steps = trial.steps(obs, min(n, rest))
            assert error == pytest.approx(plain_error(steps, target), rel=0, abs=1e-6), steps
            seen.add((len(steps), *steps[-1][4:]))

    trial.watch("loss", see)
    trial.run()
    assert seen >= {(1, *end) for end in analytic_parts.ENDINGS[ending]} | {(n, False, False)}


@pytest.mark.representatives(2)
@pytest.mark.parametrize("name", ["DQN", "DoubleDQN", "PAL"])
@pytest.mark.parametrize("n", [1, 3])
def test_td_errors_of_sequences_follow_from_the_tables(name: str, n: int) -> None:
    check_sequences(name, n, "every", AutoresetMode.NEXT_STEP, 3)


@pytest.mark.representatives(11)
@pytest.mark.parametrize(
    ("name", "n", "ending", "mode", "n_envs"),
    analytic_parts.forms_of_trials((*DISCRETE, *CONTINUOUS), ("DQN", "SoftActorCritic"), 1, 3),
)
def test_td_errors_follow_from_tables(name: str, n: int, ending: str, mode: AutoresetMode | None, n_envs: int) -> None:
    check_agent_of(name, n, analytic_parts.Trial(make(name, n), ending, mode, n_envs, continuous=name in CONTINUOUS))


@pytest.mark.parametrize("name", ["DQN", "TD3"])
@pytest.mark.parametrize(("fault", "mode"), FAULTY_ENDS)
def test_a_wrong_end_of_an_episode_shows(name: str, fault: type, mode: AutoresetMode) -> None:
    with pytest.raises(AssertionError):
        check_faulty(name, fault, mode)


def test_gamma_in_place_of_the_discount_shows() -> None:
    with pytest.raises(AssertionError):
        check_faulty("DQN", GammaForDiscount, AutoresetMode.SAME_STEP)


def check_faulty(name: str, fault: type, mode: AutoresetMode) -> None:
    agent = with_fault(fault, make(name, 3))
    check_agent_of(name, 3, analytic_parts.Trial(agent, "every", mode, 2, continuous=name in CONTINUOUS))
