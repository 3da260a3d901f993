"""Agents of offline algorithms become better than what they learn from, which are random steps along a line.

A step leads from x to x + a / 2, cut off at +-1, and earns -(x')**2; an episode is cut off after eight of them. The
best is to go to 0 at once and to stay there.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from pfrl_like import agents, policies
from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.dataset import MDPDataset
from pfrl_like.explorers import Greedy
from pfrl_like.nn import ConcatObsAndAction, ConditionalVAE, Lambda, ReturnConditionedTransformer
from pfrl_like.replay_buffers import EpisodicReplayBuffer, ReplayBuffer
from pfrl_like.utils import set_random_seed

EPISODES, STEPS, GAMMA = 250, 8, 0.9
LEFT_STAY_RIGHT = np.array([-1.0, 0.0, 1.0])


class Line(gymnasium.Env[Any, Any]):
    """The task; discrete actions go to the left, stay, and go to the right."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, discrete: bool) -> None:
        self.discrete = discrete
        self.action_space: Any = spaces.Discrete(3) if discrete else spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.x, self.t = float(self.np_random.uniform(-1, 1)), 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        move = LEFT_STAY_RIGHT[action] if self.discrete else float(np.clip(action, -1, 1)[0])
        self.x, self.t = float(np.clip(self.x + move / 2, -1, 1)), self.t + 1
        return self.observe(), -(self.x**2), False, self.t == STEPS, {}

    def observe(self) -> Any:
        return np.array([self.x], np.float32)


def play(env: Line, act: Callable[[Any], Any], observed: Callable[..., Any], n: int) -> tuple[list[Any], list[float]]:
    """Steps (obs, action, reward, ends, next obs), and the returns of so many episodes."""
    steps, returns = [], []
    for i in range(n):
        obs, done, total = env.reset(seed=i)[0], False, 0.0
        while not done:
            action = act(obs)
            following, reward, _, done, _ = env.step(action)
            observed(following, reward, False, done)
            steps.append((obs, action, reward, done, following))
            obs, total = following, total + reward
        returns.append(total)
    return steps, returns


def recorded(discrete: bool) -> tuple[MDPDataset, float]:
    """Random steps, and the mean return."""
    env = Line(discrete)
    env.action_space.seed(0)
    steps, returns = play(env, lambda obs: env.action_space.sample(), lambda *outcome: None, EPISODES)
    obs, action, reward, ends, following = (np.array(column) for column in zip(*steps, strict=True))
    never = np.zeros(len(reward), bool)
    dataset = MDPDataset.from_arrays(obs, action, reward, never, ends, following, discrete_action=discrete)
    return dataset, float(np.mean(returns))


# Agents

adam = functools.partial(torch.optim.Adam, lr=3e-3)


def mlp(n_inputs: int, n_outputs: int, *last: nn.Module, pair: bool = False) -> nn.Module:
    first = [ConcatObsAndAction()] if pair else []
    return nn.Sequential(*first, nn.Linear(n_inputs, 32), nn.ReLU(), nn.Linear(32, n_outputs), *last)


def actor_critic(kind: Any, policy: nn.Module, **options: Any) -> Any:
    critics = [mlp(2, 1, pair=True) for _ in range(2)]
    trained = nn.ModuleList([policy, *(part for name, part in options.items() if name == "perturbation")])
    optimizers = [adam(part.parameters()) for part in (trained, *critics)]
    common = {"minibatch_size": 64, "soft_update_tau": 0.02}
    return kind(policy, *critics, *optimizers, ReplayBuffer(), GAMMA, **common, **options)


def with_imitator(kind: Any, policy: nn.Module, **options: Any) -> Any:
    imitator = ConditionalVAE(mlp(2, 4, pair=True), mlp(3, 1, nn.Tanh(), pair=True), 2)
    return actor_critic(kind, policy, imitator=imitator, imitator_optimizer=adam(imitator.parameters()), **options)


def conservative(kind: Any) -> Any:
    options = {"initial_temperature": 0.01, "alpha_threshold": None, "initial_alpha": 0.5, "n_action_samples": 4}
    return actor_critic(kind, mlp(1, 2, policies.SquashedGaussianHead()), **options)


def edac() -> Any:
    further = [mlp(2, 1, pair=True) for _ in range(2)]
    ensemble = {"further_q_funcs": further, "further_q_func_optimizers": [adam(part.parameters()) for part in further]}
    return actor_critic(agents.EDAC, mlp(1, 2, policies.SquashedGaussianHead()), initial_temperature=0.01, **ensemble)


def awr(kind: Any, policy: nn.Module) -> Any:
    v_func = mlp(1, 1)
    steps = {"n_critic_updates": 2, "n_actor_updates": 4, "batch_size_per_update": 64, "minibatch_size": 256}
    optimizers = adam(policy.parameters()), adam(v_func.parameters())
    return kind(policy, v_func, *optimizers, ReplayBuffer(), GAMMA, beta=0.3, replay_start_size=256, **steps)


def discrete_bcq() -> Any:
    q_function, imitator = mlp(1, 3, Lambda(DiscreteActionValue)), mlp(1, 3, policies.SoftmaxCategoricalHead())
    optimizer = adam([*q_function.parameters(), *imitator.parameters()])
    options = {"target_update_interval": 50, "minibatch_size": 64, "imitator": imitator}
    return agents.DiscreteBCQ(q_function, optimizer, ReplayBuffer(), GAMMA, Greedy(), **options)


def discrete_iql() -> Any:
    critics, v_func = [mlp(1, 3, Lambda(DiscreteActionValue)) for _ in range(2)], mlp(1, 1)
    policy = mlp(1, 3, policies.SoftmaxCategoricalHead())
    optimizers = [adam(part.parameters()) for part in (policy, *critics, v_func)]
    options = {"minibatch_size": 64, "soft_update_tau": 0.02, "v_func": v_func, "v_func_optimizer": optimizers.pop()}
    return agents.DiscreteIQL(policy, *critics, *optimizers, ReplayBuffer(), GAMMA, beta=10.0, **options)


def transformer(kind: Any, n_actions: int, *head: nn.Module) -> Any:
    policy = ReturnConditionedTransformer(
        mlp(1, 32), n_actions, nn.Sequential(nn.Linear(32, n_actions), *head), hidden_size=32, context_size=4,
        n_layers=1, dropout=0.0, discrete=n_actions > 1,
    )  # fmt: skip
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    return kind(policy, optimizer, EpisodicReplayBuffer(), target_return=-0.2, return_scale=4.0, minibatch_size=64)


#: Each agent, whether its actions are discrete, how many updates it takes, what part of the way to the best it goes.
AGENTS: dict[str, tuple[Callable[[], Any], bool, int, float]] = {
    "AWR": (lambda: awr(
        agents.AWR, mlp(1, 1, nn.Tanh(), policies.GaussianHeadWithFixedCovariance(0.4))), False, 300, 0.8),
    "BCQ": (lambda: with_imitator(
        agents.BCQ, mlp(2, 1, nn.Tanh(), pair=True), n_action_samples=10), False, 1000, 0.8),
    "BEAR": (lambda: with_imitator(
        agents.BEAR, mlp(1, 2, policies.SquashedGaussianHead()), initial_temperature=0.01), False, 1000, 0.8),
    "CQL": (lambda: conservative(agents.CQL), False, 500, 0.9),
    "CalQL": (lambda: conservative(agents.CalQL), False, 1000, 0.8),
    "DecisionTransformer": (lambda: transformer(
        agents.DecisionTransformer, 1, nn.Tanh(), policies.DeterministicHead()), False, 1000, 0.6),
    "DiscreteAWR": (lambda: awr(agents.DiscreteAWR, mlp(1, 3, policies.SoftmaxCategoricalHead())), True, 300, 0.8),
    "DiscreteBCQ": (discrete_bcq, True, 1000, 0.8),
    "DiscreteIQL": (discrete_iql, True, 1000, 0.8),
    "DiscreteDecisionTransformer": (lambda: transformer(
        agents.DiscreteDecisionTransformer, 3, policies.SoftmaxCategoricalHead()), True, 1000, 0.5),
    "EDAC": (edac, False, 500, 0.9),
    "PLAS": (lambda: with_imitator(
        agents.PLAS, mlp(1, 2, nn.Tanh()), rl_start_step=500), False, 1500, 0.8),
    "PLASWithPerturbation": (lambda: with_imitator(
        agents.PLASWithPerturbation, mlp(1, 2, nn.Tanh()), rl_start_step=500,
        perturbation=mlp(2, 1, nn.Tanh(), pair=True)), False, 1500, 0.8),
}  # fmt: skip


def best(discrete: bool) -> Callable[[Any], Any]:
    """The best policy: the action that leads nearest to 0."""

    def act(obs: Any) -> Any:
        if discrete:
            return int(np.abs(obs[0] + LEFT_STAY_RIGHT / 2).argmin())
        return np.clip(-2 * obs, -1, 1)

    return act


@pytest.mark.slow
@pytest.mark.parametrize("kind", AGENTS)
def test_agent_becomes_better_than_what_it_learns_from(kind: str) -> None:
    set_random_seed(0)
    make, discrete, updates, part = AGENTS[kind]
    agent, (dataset, behaviour) = make(), recorded(discrete)
    rng = np.random.default_rng(0)
    for _ in range(updates):
        if agent.learns_from_sequences:
            batch = dataset.sample_sequences(agent.minibatch_size, agent.sequence_length, rng=rng, **agent.sampling)
        else:
            batch = dataset.sample_batch(agent.minibatch_size, agent.gamma, rng=rng, **agent.sampling)
        agent.update(batch)
    with agent.eval_mode():
        _, returns = play(Line(discrete), agent.act, agent.observe, 20)
    _, optimal = play(Line(discrete), best(discrete), lambda *outcome: None, 20)
    gained = (float(np.mean(returns)) - behaviour) / (float(np.mean(optimal)) - behaviour)
    assert math.isfinite(gained) and gained > part
