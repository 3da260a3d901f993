"""Every on-policy agent keeps the contracts; its advantages are zero where its values are the true ones."""

import functools
from typing import Any

import numpy as np
import pytest
import torch
from chain_parts import CHAINS, vector_env
from gymnasium.vector import AutoresetMode
from on_policy_parts import ON_POLICY, Table, make_on_policy

from pfrl_like.agents import PPO
from pfrl_like.batch import Batch
from pfrl_like.experiments import train_agent_batch
from pfrl_like.nn import Branched
from pfrl_like.policies import SoftmaxCategoricalHead
from pfrl_like.testing import Chain, check_agent

GAMMA = 0.9


def sparing(kinds: Any) -> list[Any]:
    return [pytest.param(*kind, marks=[] if kind == ("PPO", False) else pytest.mark.slow) for kind in kinds]


@pytest.mark.parametrize(("kind", "recurrent"), sparing([(kind, r) for kind in ON_POLICY for r in (False, True)]))
def test_agent_keeps_the_contracts(kind: str, recurrent: bool) -> None:
    check_agent(functools.partial(make_on_policy, kind, recurrent))


OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("PPO", {"clip_eps_vf": 0.2, "target_kl": 0.01, "max_grad_norm": 0.5, "act_deterministically": True}),
    ("PPO", {"recurrent": True, "max_recurrent_sequence_len": 3}),
    ("A2C", {"use_gae": True, "max_grad_norm": 0.5}),
    ("REINFORCE", {"batchsize": 2, "backward_separately": True, "beta": 0.1}),
    ("TRPO", {"recurrent": True, "max_recurrent_sequence_len": 3}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "options"), OPTIONS)
def test_options_keep_the_contracts(kind: str, options: dict[str, Any]) -> None:
    check_agent(functools.partial(make_on_policy, kind, **options))


def make_knowing_agent(chain: Chain) -> tuple[PPO, list[Batch]]:
    """An agent that always goes on, with the true values of that and 1000 for the end; and what it would learn from."""
    values = chain.q_values(GAMMA).max(1, keepdims=True)
    values[-1] = 1000.0
    goes_on = np.tile([-50.0, 50.0], (len(values), 1))
    model = Branched(torch.nn.Sequential(Table(goes_on), SoftmaxCategoricalHead()), Table(values))
    agent = PPO(model, torch.optim.SGD(model.parameters(), lr=0.0), gamma=GAMMA, lambd=0.7, update_interval=20)
    seen = []

    def learn(episodes: Any) -> Any:
        steps = agent._evaluated(episodes, agent.lambd)
        seen.append(steps)
        return steps.advantage, {}

    agent.learn = learn  # type: ignore[method-assign]
    return agent, seen


@pytest.mark.representatives(4)
@pytest.mark.parametrize("n_envs", [pytest.param(1, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("mode", [None, *AutoresetMode], ids=str)
@pytest.mark.parametrize("ending", CHAINS)
def test_advantages_are_zero_where_the_values_are_true(
    ending: str, mode: AutoresetMode | None, n_envs: int, tmp_path: Any
) -> None:
    chain = CHAINS[ending]
    agent, seen = make_knowing_agent(chain)
    limit = 4 if ending == "cut off by the runner" else None
    train_agent_batch(agent, vector_env(chain, n_envs, mode), 45, tmp_path, max_episode_len=limit)
    assert len(seen) >= 2 and sum(map(len, seen)) + len(agent._rollout) == agent.t
    for steps in seen:
        assert 20 <= len(steps) < 20 + n_envs
        assert (steps.discount == 0).any() == chain.terminates
        torch.testing.assert_close(steps.advantage / 30, torch.zeros_like(steps.advantage), rtol=0, atol=1e-6)
