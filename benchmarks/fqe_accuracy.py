"""How close fitted Q evaluation comes to the true discounted return of trained policies, on CartPole and Pendulum.

    python benchmarks/fqe_accuracy.py --results benchmarks/results/fqe_accuracy.jsonl
    python benchmarks/fqe_accuracy.py --table

An agent is trained for some steps, data are gathered by it with noise, an `FQE` learns from these alone, and its value
of start states is held against what the policy brings from there. Each line of the results is a task and a seed; what
is there is not measured again.
"""

import dataclasses
import tempfile
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from measured_once import measured_once, parser_of
from torch import nn

from pfrl_like import agents, explorers, ope
from pfrl_like.experiments import train_agent
from pfrl_like.loggers import NoopAdapterFactory
from pfrl_like.nn import ConcatObsAndAction
from pfrl_like.policies import DeterministicHead
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.utils import set_random_seed

GAMMA, HIDDEN = 0.99, 64
#: Steps after which what is left is discounted to nothing.
HORIZON = 1_000


def layers(n_inputs: int, n_outputs: int) -> list[nn.Module]:
    return [nn.Linear(n_inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_outputs)]


def adam(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(module.parameters(), lr=1e-3)


def dqn(env: Any) -> Any:
    q_function = nn.Sequential(*layers(4, 2), DiscreteActionValueHead())
    explorer = explorers.LinearDecayEpsilonGreedy(1.0, 0.05, 4_000, env.action_space.sample)
    return agents.DoubleDQN(
        q_function, adam(q_function), ReplayBuffer(50_000, num_steps=3), GAMMA, explorer,
        replay_start_size=500, minibatch_size=64, update_interval=2, target_update_interval=200,
    )  # fmt: skip


def td3(env: Any) -> Any:
    high = float(env.action_space.high[0])
    policy = nn.Sequential(*layers(3, 1), nn.Tanh(), Times(high), DeterministicHead())
    critics = [nn.Sequential(ConcatObsAndAction(), *layers(4, 1)) for _ in range(2)]
    noise = explorers.AdditiveGaussian(0.1 * high, low=-high, high=high)
    return agents.TD3(
        policy, *critics, *map(adam, (policy, *critics)), ReplayBuffer(50_000), GAMMA, noise,
        replay_start_size=1_000, minibatch_size=64, burnin_action_func=env.action_space.sample,
        target_policy_smoothing_func=lambda action: (action + 0.2 * torch.randn_like(action)).clamp(-high, high),
    )  # fmt: skip


class Times(nn.Module):
    """A factor."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


@dataclasses.dataclass(frozen=True)
class Task:
    """What is evaluated, and on what data.

    Attributes:
        env_id: The environment.
        make: Makes the agent.
        train_steps: Steps of its training.
        explorer: What disturbs it when data are gathered.
        fqe: Class of the evaluation.
        data_steps: Steps of data.
        fqe_steps: Updates of the evaluation.
    """

    env_id: str
    make: Callable[[Any], Any]
    train_steps: int
    explorer: Callable[[Any], Any]
    fqe: type[ope.FQE]
    data_steps: int = 20_000
    fqe_steps: int = 40_000


TASKS = {
    "cartpole": Task(
        "CartPole-v1", dqn, 12_000,
        lambda space: explorers.ConstantEpsilonGreedy(0.3, space.sample), ope.DiscreteFQE,
    ),
    "cartpole, early": Task(
        "CartPole-v1", dqn, 3_000,
        lambda space: explorers.ConstantEpsilonGreedy(0.3, space.sample), ope.DiscreteFQE,
    ),
    "pendulum": Task(
        "Pendulum-v1", td3, 6_000,
        lambda space: explorers.AdditiveGaussian(1.0, low=-2.0, high=2.0), ope.FQE,
    ),
    "pendulum, early": Task(
        "Pendulum-v1", td3, 1_500,
        lambda space: explorers.AdditiveGaussian(1.0, low=-2.0, high=2.0), ope.FQE,
    ),
}  # fmt: skip


def true_returns(agent: Any, env_id: str, n_episodes: int, seed: int) -> tuple[Any, Any]:
    """Start states, [n, ...], and the discounted returns of the policy from there, [n], without a time limit."""
    env = gymnasium.make(env_id, max_episode_steps=HORIZON)
    starts, returns = [], []
    with agent.eval_mode():
        for i in range(n_episodes):
            obs, _ = env.reset(seed=seed + i)
            starts.append(obs)
            total, factor, ended = 0.0, 1.0, False
            while not ended:
                obs, reward, terminated, truncated, _ = env.step(agent.act(obs))
                total, factor, ended = total + factor * float(reward), factor * GAMMA, terminated or truncated
            returns.append(total)
    return np.stack(starts), np.array(returns)


def measured(task: Task, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    set_random_seed(seed)
    env = gymnasium.make(task.env_id)
    env.reset(seed=seed)
    env.action_space.seed(seed)
    agent = task.make(env)
    with tempfile.TemporaryDirectory() as folder:
        train_agent(agent, env, task.train_steps, folder)
    config = ope.FQEConfig(
        learning_rate=1e-3, batch_size=128, gamma=GAMMA, target_update_interval=80,
        encoder_params={"hidden_units": (HIDDEN, HIDDEN)}, observation_scaler="standard",
    )  # fmt: skip
    gathering = task.fqe(agent, dataclasses.replace(config, observation_scaler=None))
    data = gathering.collect(
        env, explorer=task.explorer(env.action_space), n_steps=task.data_steps, show_progress=False
    )
    fqe = task.fqe(agent, config)
    fqe.fit(data, task.fqe_steps, task.fqe_steps, logger_adapter=NoopAdapterFactory(), show_progress=False)
    starts, returns = true_returns(agent, task.env_id, 100, 1_000 * (seed + 1))
    estimate, truth = float(fqe.predict_state_value(starts).mean()), float(returns.mean())
    return {
        "truth": truth, "standard_error": float(returns.std() / 10), "estimate": estimate,
        "error": abs(estimate - truth) / abs(truth),
    }  # fmt: skip


def table(lines: list[dict[str, Any]]) -> str:
    rows = ["| task | seed | true return | FQE | error |", "|---|---|---|---|---|"]
    for line in sorted(lines, key=lambda line: (line["task"], line["seed"])):
        truth = f"{line['truth']:.2f} +- {line['standard_error']:.2f}"
        rows.append(
            f"| {line['task']} | {line['seed']} | {truth} | {line['estimate']:.2f} | {100 * line['error']:.1f} % |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = parser_of(__doc__, "fqe_accuracy")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parser.parse_args()
    cases = ({"task": name, "seed": seed} for seed in options.seeds for name in options.tasks)
    print(table(measured_once(options, cases, lambda case: measured(TASKS[case["task"]], case["seed"]))))


if __name__ == "__main__":
    main()
