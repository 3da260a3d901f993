"""Agents whose Q-function has batch normalisation: which network is in which mode when."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from agent_parts import make_agent, make_batch
from torch import nn

from pfrl_like.agents import DQN
from pfrl_like.errors import NonFiniteError
from pfrl_like.nn import MLPBN, EmpiricalNormalization
from pfrl_like.q_functions import DiscreteActionValueHead


def make_normalised(agent: str = "DQN", **options: Any) -> DQN:
    return make_agent(agent, q_function=nn.Sequential(MLPBN(5, 2, [8]), DiscreteActionValueHead()), **options)


def batches_seen(model: nn.Module) -> int:
    return int(model.get_submodule("0.input_bn").num_batches_tracked)


@pytest.mark.parametrize("agent", ["DQN", "DoubleDQN", "PAL"])
def test_only_the_online_network_learns_moments_once_an_update(agent: str) -> None:
    one = make_normalised(agent, target_update_interval=100)
    before = one.target_model[0].input_bn.running_mean.clone()
    for seed in range(3):
        one.update(make_batch(seed))
    assert batches_seen(one.model) == 3
    assert batches_seen(one.target_model) == 0
    assert torch.equal(one.target_model[0].input_bn.running_mean, before)


def test_moments_come_from_the_current_observations() -> None:
    one, batch = make_normalised(), make_batch(0)
    one.update(batch)
    bn = one.model[0].input_bn  # its momentum is 0.1
    torch.testing.assert_close(bn.running_mean, 0.1 * batch.obs.mean(0))


@pytest.mark.parametrize("training", [True, False])
def test_acting_is_in_evaluation_mode_and_learns_nothing(training: bool) -> None:
    one = make_normalised()
    one.update(make_batch(0))
    one.training = training
    for _ in range(3):
        one.batch_act(list(np.random.randn(2, 5).astype(np.float32)))
        one.act(np.zeros(5, dtype=np.float32))
    assert batches_seen(one.model) == 1
    assert one.model.training


@pytest.mark.parametrize("method", ["hard", "soft"])
def test_the_target_gets_the_moments_with_the_parameters(method: str) -> None:
    one = make_normalised(target_update_method=method, soft_update_tau=0.5, target_update_interval=100)
    one.update(make_batch(0))
    online, target = one.model[0].input_bn, one.target_model[0].input_bn
    one.sync_target_network()
    share = 1.0 if method == "hard" else 0.5
    torch.testing.assert_close(target.running_mean, share * online.running_mean)
    assert target.num_batches_tracked == 1


@pytest.mark.parametrize("normalisation", [lambda: nn.BatchNorm1d(5), lambda: EmpiricalNormalization(5)])
def test_a_refused_update_leaves_the_moments_alone(normalisation: Any) -> None:
    one = make_agent(q_function=nn.Sequential(normalisation(), nn.Linear(5, 2), DiscreteActionValueHead()))
    one.update(make_batch(0))
    before = copy.deepcopy(one.model.state_dict())
    batch = make_batch(1)
    with pytest.raises(NonFiniteError):
        one.update(batch.replace(obs=batch.obs * torch.nan))
    assert all(torch.equal(value, before[name]) for name, value in one.model.state_dict().items())
