"""What agents learn towards from their own last steps is what follows from known tables: every step of every update."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from analytic_parts import (
    GAMMA,
    Table,
    Trial,
    forms_of_trials,
    label_of,
    lambda_return,
    retrace_target,
    softmax,
    state_of,
)
from faulty_agents import FAULTY_ENDS, GammaForDiscount, with_fault
from gymnasium.vector import AutoresetMode
from torch import nn

from pfrl_like import agents
from pfrl_like.agents.acer import ACERDiscreteActionHead
from pfrl_like.nn import Branched
from pfrl_like.policies import SoftmaxCategoricalHead
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import EpisodicReplayBuffer
from pfrl_like.testing.play import Step

LOGITS = ((0.5, -0.5), (0.25, 0.75), (-1.0, 0.5), (0.0, 0.25))
OTHER_LOGITS = ((-0.5, 0.5), (1.0, 0.0), (0.5, 0.25), (-0.75, 0.5))
VALUES = (2.0, -1.5, 0.75, 3.0)
Q_VALUES = ((1.0, 2.0), (0.5, -1.0), (3.0, 2.5), (-2.0, 1.5))
LAMBDA, T_MAX = 0.7, 4


def value(obs: Any) -> float:
    return VALUES[state_of(obs)]


def still(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), lr=0.0)


def make(name: str) -> Any:
    policy, vf = nn.Sequential(Table(LOGITS), SoftmaxCategoricalHead()), Table([[each] for each in VALUES])
    if name == "REINFORCE":
        return agents.REINFORCE(policy, still(policy), batchsize=2)
    if name == "TRPO":
        return agents.TRPO(policy, vf, still(vf), gamma=GAMMA, lambd=LAMBDA, update_interval=15)
    if name.startswith("ACER"):
        q_function = nn.Sequential(Table(Q_VALUES), DiscreteActionValueHead())
        head = ACERDiscreteActionHead(policy, q_function)
        return agents.ACER(head, still(head), T_MAX, GAMMA, EpisodicReplayBuffer(1_000), replay_start_size=10_000)
    model = Branched(policy, vf)
    if name == "A3C":
        return agents.A3C(model, still(model), T_MAX, GAMMA)
    if name == "IMPALA":
        return agents.IMPALA(model, still(model), GAMMA, update_interval=15)
    if name in ("PPO", "APPO"):
        return {"PPO": agents.PPO, "APPO": agents.APPO}[name](
            model, still(model), gamma=GAMMA, lambd=ADVANTAGES[name], update_interval=15, minibatch_size=5, epochs=1
        )
    return agents.A2C(model, still(model), GAMMA, 3, update_steps=5, use_gae=name == "A2C with GAE", tau=LAMBDA)


#: Lambda of each agent's returns.
ADVANTAGES = {"PPO": LAMBDA, "TRPO": LAMBDA, "A2C with GAE": LAMBDA, "A2C": 1.0, "IMPALA": 1.0, "APPO": 1.0}


def close(number: float) -> Any:
    return pytest.approx(number, rel=0, abs=1e-6)


class Seen:
    """Compares every row with what follows from the steps of its episode so far, and counts the rows."""

    def __init__(self, trial: Trial, expected: Callable[[list[Step]], float]) -> None:
        self.trial, self.expected = trial, expected
        self.labels: list[tuple[int, ...]] = []
        self.ends: set[tuple[bool, bool]] = set()

    def compare(self, obs: Any, numbers: Any) -> None:
        for each, number in zip(obs, numbers.tolist(), strict=True):
            steps = self.trial.steps(each)
            assert number == close(self.expected(steps)), steps
            self.labels.append(label_of(each))
            self.ends.add(steps[-1][4:])

    def check_that_each_came_once(self, of_ended: Callable[[Step], bool] | None = None) -> None:
        """Every step at most once; and each one but the last ones, or those of episodes whose end is such a step."""
        assert len(self.labels) == len(set(self.labels)) > 20
        made = {
            label_of(step.obs)
            for env in self.trial.envs
            for episode in env.episodes
            for step in episode
            if of_ended is None or of_ended(episode[-1])
        }
        assert made >= set(self.labels)
        assert len(made) - len(self.labels) < 15


def check_advantages(name: str, trial: Trial) -> None:
    lambd = ADVANTAGES[name]
    seen = Seen(trial, lambda steps: lambda_return(steps, value, lambd) - value(steps[0].obs))
    returns = Seen(trial, lambda steps: lambda_return(steps, value, lambd))
    trial.watch("learn", lambda episodes, result: seen.compare(episodes.steps.obs, result[0]))
    trial.watch("_with_advantages", lambda episodes, steps: returns.compare(steps.obs, steps.returns))
    trial.run()
    seen.check_that_each_came_once()
    returns.check_that_each_came_once()
    check_ends(seen, trial)


def check_returns(name: str, trial: Trial) -> None:
    seen = Seen(trial, lambda steps: sum(step.reward for step in steps))
    trial.watch("learn", lambda episodes, result: seen.compare(episodes.steps.obs, result[0]))
    trial.run()
    if any(terminated for terminated, _ in trial.endings):
        assert {terminated for terminated, _ in seen.ends} == {True}  # what was cut off has no return
        seen.check_that_each_came_once(lambda last: last.terminated)
    else:
        assert not seen.labels


def check_a3c(name: str, trial: Trial) -> None:
    check_steps(trial, lambda steps: lambda_return(steps, value, 1.0) - value(steps[0].obs))


def check_acer_online(name: str, trial: Trial) -> None:
    check_steps(trial, lambda steps: retrace_target(steps, q_of, mean_q, lambda step: 1.0) - q_of(steps[0]))


def check_steps(trial: Trial, expected: Callable[[list[Step]], float]) -> None:
    """Compare the error of every step, as it is learnt from a few at a time."""
    seen = Seen(trial, expected)

    def see(batch: Any, result: Any) -> None:
        check_length(trial, batch)
        seen.compare(batch.obs, result[1])

    trial.watch("loss", see)
    trial.run()
    seen.check_that_each_came_once()
    check_ends(seen, trial)


def check_length(trial: Trial, batch: Any) -> None:
    """The last step is the fourth, or ends its episode."""
    last = trial.steps(batch.obs[-1])[0]
    assert len(batch) == T_MAX or last.terminated or last.truncated


def check_ends(seen: Seen, trial: Trial) -> None:
    assert seen.ends == {(False, False), *trial.endings}


def q_of(step: Step) -> float:
    return Q_VALUES[state_of(step.obs)][int(step.action)]


def mean_q(obs: Any, logits: Any = LOGITS) -> float:
    pairs = zip(softmax(logits[state_of(obs)]), Q_VALUES[state_of(obs)], strict=True)
    return sum(probability * each for probability, each in pairs)


def truncated_ratio(step: Step) -> float:
    now, then = (softmax(rows[state_of(step.obs)])[int(step.action)] for rows in (OTHER_LOGITS, LOGITS))
    return min(1.0, now / then)


def check_acer_replay(name: str, trial: Trial) -> None:
    """The policy has changed since it acted, so that ratios of probabilities are not 1."""
    agent, ends = trial.agent, set()
    trial.run()
    for model in (agent.model, agent.shared_model):
        model.pi[0].rows.data.copy_(torch.tensor(OTHER_LOGITS))
    agent.replay_start_size = 1
    now = functools.partial(mean_q, logits=OTHER_LOGITS)

    def see(batch: Any, result: Any) -> None:
        for i, (obs, error) in enumerate(zip(batch.obs, result[1].tolist(), strict=True)):
            steps = trial.steps(obs, len(batch) - i)
            assert error == close(retrace_target(steps, q_of, now, truncated_ratio) - q_of(steps[0])), steps
            ends.add(steps[-1][4:])

    trial.watch("loss", see)
    for _ in range(60):
        agent.update_from_replay()
    assert ends >= set(trial.endings)


CHECKS: dict[str, Callable[[str, Trial], None]] = {
    **dict.fromkeys(ADVANTAGES, check_advantages),
    "REINFORCE": check_returns,
    "A3C": check_a3c,
    "ACER": check_acer_online,
    "ACER with replay": check_acer_replay,
}


@pytest.mark.representatives(10)
@pytest.mark.parametrize(("name", "ending", "mode", "n_envs"), forms_of_trials(CHECKS, ("PPO", "A3C")))
def test_errors_follow_from_the_tables(name: str, ending: str, mode: AutoresetMode | None, n_envs: int) -> None:
    torch.manual_seed(0)
    CHECKS[name](name, Trial(make(name), ending, mode, n_envs))


@pytest.mark.parametrize(
    ("name", "fault", "mode"),
    [(name, *fault) for name in ("PPO", "A3C", "ACER") for fault in FAULTY_ENDS]
    + [(name, GammaForDiscount, AutoresetMode.SAME_STEP) for name in ("A3C", "ACER")],
)
def test_a_wrong_end_of_an_episode_shows(name: str, fault: type, mode: AutoresetMode) -> None:
    agent = with_fault(fault, make(name))
    with pytest.raises(AssertionError):
        CHECKS[name](name, Trial(agent, "every", mode, 2))
