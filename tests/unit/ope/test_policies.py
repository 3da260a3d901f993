"""What is evaluated is what acts."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from fqe_parts import actions_of
from torch import nn

from pfrl_like import agents, algos, ope
from pfrl_like.dataset import MDPDataset
from pfrl_like.distributions import mode_of
from pfrl_like.explorers import Greedy
from pfrl_like.loggers import NoopAdapterFactory
from pfrl_like.nn import Branched, EmpiricalNormalization
from pfrl_like.ope.policies import log_probs, policy_of, policy_on_device
from pfrl_like.policies import GaussianHeadWithStateIndependentCovariance, SoftmaxCategoricalHead
from pfrl_like.preprocessing import MinMaxActionScaler
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import ReplayBuffer

OBS, N_ACTIONS = 4, 5
X = np.random.default_rng(0).normal(3.0, 2.0, (200, OBS)).astype(np.float32)


def discrete_bcq() -> Any:
    estimator = algos.DiscreteBCQ(action_flexibility=0.9)
    estimator.create_impl((OBS,), N_ACTIONS)
    return estimator


def moments() -> EmpiricalNormalization:
    normalizer = EmpiricalNormalization(OBS)
    normalizer.experience(torch.as_tensor(X))
    return normalizer


def policy_network(*before: nn.Module) -> nn.Module:
    return nn.Sequential(*before, nn.Linear(OBS, N_ACTIONS), SoftmaxCategoricalHead())


def ppo() -> Any:
    model = Branched(policy_network(), nn.Linear(OBS, 1))
    optimizer = torch.optim.Adam(model.parameters())
    return agents.PPO(model, optimizer, obs_normalizer=moments(), act_deterministically=True)


def trpo() -> Any:
    vf = nn.Linear(OBS, 1)
    optimizer = torch.optim.Adam(vf.parameters())
    return agents.TRPO(policy_network(), vf, optimizer, obs_normalizer=moments(), act_deterministically=True)


def with_phi() -> Any:
    q_function = nn.Sequential(nn.Linear(OBS, N_ACTIONS), DiscreteActionValueHead())
    imitator = policy_network()
    optimizer = torch.optim.Adam([*q_function.parameters(), *imitator.parameters()])
    return agents.DiscreteBCQ(
        q_function, optimizer, ReplayBuffer(), 0.9, Greedy(), imitator=imitator, action_flexibility=0.9,
        phi=lambda obs: -obs,
    )  # fmt: skip


def q_agent() -> Any:
    q_function = nn.Sequential(nn.Linear(OBS, N_ACTIONS), DiscreteActionValueHead())
    return agents.DQN(q_function, torch.optim.Adam(q_function.parameters()), ReplayBuffer(), 0.9, Greedy())


@pytest.mark.filterwarnings("ignore::pfrl_like.ope.UnreliableEstimateWarning")
@pytest.mark.parametrize("make", [discrete_bcq, with_phi, ppo, trpo, q_agent, policy_network])
def test_actions_that_data_do_not_show_are_known_from_the_algorithm(make: Any) -> None:
    algo, columns = make(), data().to_arrays()
    columns["actions"] = columns["actions"] % (N_ACTIONS - 2)
    few = MDPDataset.from_arrays(**columns, discrete_action=True)
    fqe = ope.DiscreteFQE(algo, ope.FQEConfig(batch_size=16, encoder_params={"hidden_units": (8,)}))
    fqe.fit(few, 2, logger_adapter=NoopAdapterFactory(), show_progress=False)
    assert fqe.action_size == N_ACTIONS and N_ACTIONS - 1 in fqe.predict(X)
    assert isinstance(algo, nn.Module) or np.array_equal(fqe.predict(X), actions_of(algo, X))
    found = ope.evaluate_offline(algo, few, n_steps=2, config=fqe.config, show_progress=False)
    assert np.isfinite(found["fqe"].value)


def data() -> MDPDataset:
    rng = np.random.default_rng(0)
    ends = np.arange(len(X)) % 10 == 9
    action = np.where(np.arange(len(X)) < N_ACTIONS, np.arange(len(X)), rng.integers(0, N_ACTIONS, len(X)))
    return MDPDataset.from_arrays(X, action, rng.normal(size=len(X)), ends, discrete_action=True)


@pytest.mark.filterwarnings("ignore::pfrl_like.ope.UnreliableEstimateWarning")
@pytest.mark.parametrize("where", ["in the policy", "before it"])
def test_evaluation_teaches_the_policy_no_moments(where: str) -> None:
    algo = policy_network(moments()) if where == "in the policy" else ppo()
    normalizer = algo[0] if where == "in the policy" else algo.obs_normalizer
    before = copy.deepcopy(normalizer.state_dict())
    config = ope.FQEConfig(batch_size=16, encoder_params={"hidden_units": (8,)})
    told = np.full(len(X), -1.0)
    ope.evaluate_offline(algo, data(), behavior=told, n_steps=2, config=config, show_progress=False)
    after = normalizer.state_dict()
    assert before["count"] == len(X) and all(torch.equal(before[name], after[name]) for name in before)
    normalizer.experience(torch.as_tensor(X))  # it learns again
    assert normalizer.count == 2 * len(X)


def test_a_policy_whose_moments_are_kept_shares_its_parameters_and_can_be_copied() -> None:
    network = policy_network(moments())
    policy = policy_of(network, N_ACTIONS)
    assert {id(each) for each in policy.parameters()} == {id(each) for each in network.parameters()}
    elsewhere = policy_on_device(torch.device("meta"), policy)
    for each, device in ((elsewhere, "meta"), (policy, "cpu")):
        assert {tensor.device.type for tensor in each.state_dict().values()} == {device}


def test_a_policy_without_moments_is_taken_itself() -> None:
    network = nn.Sequential(nn.Linear(OBS, 2), GaussianHeadWithStateIndependentCovariance(2))
    assert policy_of(network, None) is policy_on_device(torch.device("cpu"), network) is network


#: Actions from -1 to 3 and from 10 to 10.5 as -1 to 1.
FAR = MinMaxActionScaler(minimum=[-1.0, 10.0], maximum=[3.0, 10.5])


def far(name: str) -> Any:
    estimator = getattr(algos, name)(encoder_params={"hidden_units": [8]}, action_scaler=FAR)
    estimator.create_impl((OBS,), 2)
    return estimator


@pytest.mark.parametrize("name", ["SAC", "AWR", "TD3", "BC", "BCQ"])
def test_the_policy_of_an_estimator_that_scales_actions_gives_those_of_the_data(name: str) -> None:
    estimator = far(name)
    with torch.no_grad():
        torch.manual_seed(0)
        modes = mode_of(policy_of(estimator, None)(torch.as_tensor(X)))
    torch.manual_seed(0)
    np.testing.assert_allclose(modes, estimator.predict(X), rtol=1e-5)
    assert modes[:, 1].min() > 9.9
    fqe = ope.FQE(estimator)
    fqe.create_impl((OBS,), 2)
    torch.manual_seed(0)
    np.testing.assert_allclose(fqe.predict(X), modes, rtol=1e-5)


def test_densities_of_scaled_actions_are_those_of_the_data() -> None:
    """p(a) = p'(a') / (2 * 0.25) where a' = ((a_1 - 1) / 2, (a_2 - 10.25) / 0.25)."""
    estimator = far("SAC")
    scaled = np.random.default_rng(0).uniform(-0.9, 0.9, (len(X), 2)).astype(np.float32)
    actions = scaled * np.float32([2.0, 0.25]) + np.float32([1.0, 10.25])
    density = log_probs(policy_of(estimator, None), X, actions)
    before = log_probs(policy_of(estimator.impl, None), X, scaled)
    np.testing.assert_allclose(density, before - np.log(2 * 0.25), rtol=1e-3, atol=1e-3)
    samples = policy_of(estimator, None)(torch.as_tensor(X)).sample()
    assert ((samples >= torch.tensor([-1.0, 10.0])) & (samples <= torch.tensor([3.0, 10.5]))).all()
