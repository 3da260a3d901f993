"""IQN as PFRL 0.4.0 saved it has the same quantile function here, acts the same, and learns on."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like import agents, q_functions
from pfrl_like.explorers import Greedy
from pfrl_like.nn import RecurrentSequential
from pfrl_like.replay_buffers import EpisodicReplayBuffer, ReplayBuffer

DATA = Path(__file__).parents[1] / "data"
CASES = [(case, kind) for case in ("iqn", "recurrent_iqn") for kind in (agents.IQN, agents.DoubleIQN)]


def load(case: str, kind: Any) -> Any:
    """The library's agent, built as the script built PFRL's, with what that one saved."""
    recurrent = case == "recurrent_iqn"
    phi, f = nn.Sequential(q_functions.CosineBasisLinear(6, 8), nn.ReLU()), nn.Linear(8, 2)
    if recurrent:
        psi: nn.Module = RecurrentSequential(nn.Linear(4, 8), nn.ReLU(), nn.GRU(8, 8))
        model: nn.Module = q_functions.RecurrentImplicitQuantileQFunction(psi, phi, f)
    else:
        model = q_functions.ImplicitQuantileQFunction(nn.Sequential(nn.Linear(4, 8), nn.ReLU()), phi, f)
    buffer = EpisodicReplayBuffer(100) if recurrent else ReplayBuffer(100)
    sizes = {"replay_start_size": 10, "minibatch_size": 4, "episodic_update_len": 5 if recurrent else None}
    acting = {"quantile_thresholds_K": 4, "act_deterministically": True, "recurrent": recurrent}
    agent = kind(model, torch.optim.Adam(model.parameters()), buffer, 0.9, Greedy(), **sizes, **acting)
    agent.load(DATA / f"pfrl_0_4_{case}")
    return agent


def expected(case: str) -> dict[str, Any]:
    return json.loads((DATA / f"pfrl_0_4_{case}.json").read_text())


@pytest.mark.parametrize(("case", "kind"), CASES)
def test_quantiles_at_given_fractions_are_those_of_pfrl(case: str, kind: Any) -> None:
    theirs, agent = expected(case), load(case, kind)
    obs = torch.tensor(theirs["observations"])
    with torch.no_grad():  # the recurrent network sees the rows as one sequence
        value = agent.model(nn.utils.rnn.pack_sequence([obs]), None)[0] if agent.recurrent else agent.model(obs)
        quantiles = value(torch.tensor(theirs["fractions"]).repeat(len(obs), 1)).quantiles
        q_values = value.at_even_fractions().q_values
    np.testing.assert_allclose(quantiles, theirs["quantiles"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(q_values, theirs["q_values"], rtol=1e-5, atol=1e-6)  # 0.125, 0.375, 0.625, 0.875


@pytest.mark.parametrize(("case", "kind"), CASES)
def test_deterministic_actions_are_those_of_pfrl(case: str, kind: Any) -> None:
    theirs, agent = expected(case), load(case, kind)
    with agent.eval_mode():
        actions = [int(agent.act(np.float32(obs))) for obs in theirs["observations"]]
    assert actions == theirs["greedy_actions"]


@pytest.mark.parametrize(("case", "kind"), CASES)
def test_its_learning_goes_on(case: str, kind: Any) -> None:
    agent = load(case, kind)
    (before,) = {int(state["step"]) for state in agent.optimizer.state.values()}
    weights = [parameter.detach().clone() for parameter in agent.model.parameters()]
    for t in range(30):
        agent.act(np.float32([t / 30, 1, 0, 0]))
        agent.observe(np.float32([(t + 1) / 30, 1, 0, 0]), float(t), t % 5 == 4, False)
    assert before > 200 and agent.optim_t > 0
    assert {int(state["step"]) for state in agent.optimizer.state.values()} == {before + agent.optim_t}
    assert not any(map(torch.equal, weights, agent.model.parameters()))
