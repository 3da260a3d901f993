from functools import partial

import numpy as np
import pytest
import torch
from actor_critic_parts import make_batch
from pair_base import adam
from torch import nn

from pfrl_like import agents
from pfrl_like.action_value import DiscreteActionValue, EnsembleActionValue
from pfrl_like.agents.offline.cql import discrete_conservative_gap
from pfrl_like.explorers import Greedy
from pfrl_like.functions import bootstrap_weight
from pfrl_like.functions.losses import square
from pfrl_like.nn import ConcatObsAndAction
from pfrl_like.policies import DeterministicHead, SoftmaxCategoricalHead, SquashedGaussianHead
from pfrl_like.q_functions import FCSAQFunction, FCStateQFunctionWithDiscreteAction, QFunctionEnsemble
from pfrl_like.replay_buffers import ReplayBuffer

VALUES = torch.tensor([[[1.0, 5.0, 2.0]], [[4.0, 1.0, 3.0]]])  # of two members, in one state
OPTIONS = {"replay_buffer": ReplayBuffer(None), "gamma": 0.9}


def ensemble(**options) -> EnsembleActionValue:
    return EnsembleActionValue([DiscreteActionValue(values) for values in VALUES], **options)


def test_the_mean_or_the_least_is_greedy() -> None:
    assert torch.equal(ensemble().q_values, torch.tensor([[2.5, 3.0, 2.5]]))
    assert torch.equal(ensemble(pool="least").q_values, torch.tensor([[1.0, 1.0, 2.0]]))
    assert ensemble().greedy_actions.tolist() == [1] and ensemble(pool="least").greedy_actions.tolist() == [2]
    assert ensemble().masked(torch.tensor([[True, False, True]])).greedy_actions.tolist() == [0]
    assert ensemble()[0].n_actions == 3 and ensemble().max.tolist() == [3.0]


def test_all_learn_from_the_least_value_of_the_greedy_action() -> None:
    value = ensemble()
    action, reward, discount = torch.tensor([2]), torch.tensor([1.0]), torch.tensor([0.5])
    loss, error, mean = value.td_loss(action, reward, discount, ensemble(), elementwise=square)
    # Greedy is action 1, by the mean; the least value of it is 1, so the target is 1.5; the members hold 2 and 3.
    assert loss.tolist() == [0.5**2 + 1.5**2] and error.tolist() == [1.0] and mean.tolist() == [2.5]
    loss, _, _ = value.target_loss(action, torch.tensor([1.5]), square)
    assert loss.tolist() == [0.5**2 + 1.5**2]


def test_bootstrapped_members_learn_from_rows_of_their_own() -> None:
    torch.manual_seed(0)
    weights = bootstrap_weight(torch.empty(2, 4000))
    assert set(weights.flatten().tolist()) == {0.0, 2.0} and abs(float(weights.mean()) - 1) < 0.05
    arguments = torch.tensor([2]), torch.tensor([1.0]), torch.tensor([0.5])
    losses = {float(ensemble(bootstrap=True).td_loss(*arguments, ensemble(), elementwise=square)[0]) for _ in range(50)}
    assert losses == {2 * a + 2 * b for a in (0, 0.25) for b in (0, 2.25)}


def test_conservative_gaps_of_all_are_added_up() -> None:
    action = torch.tensor([0])
    gaps = [discrete_conservative_gap(DiscreteActionValue(values), action) for values in VALUES]
    assert torch.allclose(discrete_conservative_gap(ensemble(), action), sum(gaps))


def critics(n: int, **options) -> QFunctionEnsemble:
    return QFunctionEnsemble([FCSAQFunction(4, 2, 8, 1) for _ in range(n)], pool="least", **options)


def actor_critic(kind, q_func: QFunctionEnsemble, **options):
    head = DeterministicHead() if kind is agents.TD3 else SquashedGaussianHead()
    policy = nn.Sequential(nn.Linear(4, 2 if kind is agents.TD3 else 4), head)
    explorer = {"explorer": Greedy()} if kind is agents.TD3 else {}
    return kind(policy, q_func, None, adam(policy), adam(q_func), None, **OPTIONS, **explorer, **options)


@pytest.mark.parametrize("kind", [agents.TD3, agents.SoftActorCritic, agents.CQL])
@pytest.mark.parametrize("n", [1, 3])
def test_an_ensemble_stands_for_the_critics_of_an_actor_critic(kind, n: int) -> None:
    torch.manual_seed(0)
    q_func = critics(n)
    agent = actor_critic(kind, q_func)
    assert agent.critics == [*q_func.members] and len(agent.target_critics) == n
    before = [[param.clone() for param in member.parameters()] for member in q_func.members]
    for _ in range(3):
        _, stats = agent.update(make_batch())
    assert {f"q_func{i}_loss" for i in range(1, n + 1)} <= stats.keys()
    for member, old in zip(q_func.members, before, strict=True):
        assert all(not torch.equal(*pair) for pair in zip(member.parameters(), old, strict=True))
    assert np.isfinite([value for name, value in agent.get_statistics() if name.startswith("average_q")]).all()


@pytest.mark.parametrize("pool", ["mean", "least"])
@pytest.mark.parametrize("kind", [agents.TD3, agents.TD3PlusBC])
def test_an_ensemble_learns_what_separate_critics_learn(kind: type[agents.TD3], pool: str) -> None:
    rows = make_batch()
    learnt = []
    for together in (True, False):
        torch.manual_seed(0)
        policy = nn.Sequential(nn.Linear(4, 2), DeterministicHead())
        parts = [FCSAQFunction(4, 2, 8, 1) for _ in range(2)]
        if together:
            q_func = QFunctionEnsemble(parts, pool=pool)
            given = policy, q_func, None, adam(policy), adam(q_func), None
        else:
            given = policy, *parts, adam(policy), *map(adam, parts)
        learnt.append(kind(*given, **OPTIONS, explorer=Greedy()))
    for agent in learnt:
        torch.manual_seed(1)
        for _ in range(2):  # the policy, which follows the first critic, learns in the second one
            agent.update(rows)
    for one, other in zip(*([*agent.critics, agent.policy] for agent in learnt), strict=True):
        assert all(torch.allclose(*pair) for pair in zip(one.parameters(), other.parameters(), strict=True))


def test_members_may_share_layers() -> None:
    shared = nn.Linear(6, 8)
    members = [nn.Sequential(ConcatObsAndAction(), shared, nn.Linear(8, 1)) for _ in range(2)]
    agent, before = actor_critic(agents.SoftActorCritic, QFunctionEnsemble(members)), shared.weight.clone()
    for _ in range(3):
        agent.update(make_batch())
    assert not torch.equal(shared.weight, before)


@pytest.mark.parametrize("name", ["SoftActorCritic", "AWAC", "CQL", "IQL", "CrossQ", "DiscreteSAC"])
@pytest.mark.parametrize("bootstrap", [False, True])
def test_equal_critics_part_if_they_bootstrap(name: str, bootstrap: bool) -> None:
    kind, discrete = getattr(agents, name), name == "DiscreteSAC"
    torch.manual_seed(0)
    make = partial(FCStateQFunctionWithDiscreteAction if discrete else FCSAQFunction, 4, 2, 8, 1)
    q_func = QFunctionEnsemble([make(), make()], bootstrap=bootstrap)
    q_func.members[1].load_state_dict(q_func.members[0].state_dict())
    if discrete:
        policy = nn.Sequential(nn.Linear(4, 2), SoftmaxCategoricalHead())
        agent = kind(policy, q_func, None, adam(policy), adam(q_func), None, **OPTIONS)
    else:
        value = nn.Linear(4, 1)
        further = {"v_func": value, "v_func_optimizer": adam(value)} if name == "IQL" else {}
        agent = actor_critic(kind, q_func, **further)
    rows = make_batch().replace(action=torch.randint(2, (8,))) if discrete else make_batch()
    agent.update(rows)
    pairs = zip(*(member.parameters() for member in q_func.members), strict=True)
    assert all(torch.equal(*pair) for pair in pairs) == (not bootstrap)


def test_ddpg_bootstraps_from_the_least() -> None:
    policy, q_func = nn.Sequential(nn.Linear(4, 2), DeterministicHead()), critics(2)
    agent = agents.DDPG(policy, q_func, adam(policy), adam(q_func), explorer=Greedy(), **OPTIONS)
    rows = make_batch()
    value, _ = agent.bootstrap(rows)
    action = policy(rows.next_obs).sample()
    each = torch.stack([member((rows.next_obs, action)) for member in q_func.members])
    assert torch.allclose(value.q_values, each.amin(0))


def test_what_is_no_ensemble_is_refused() -> None:
    with pytest.raises(ValueError, match="members is empty"):
        QFunctionEnsemble([])
    with pytest.raises(ValueError, match="pool is 'most'"):
        QFunctionEnsemble([FCSAQFunction(4, 2, 8, 1)], pool="most")
    policy, q_func = nn.Sequential(nn.Linear(4, 4), SquashedGaussianHead()), FCSAQFunction(4, 2, 8, 1)
    with pytest.raises(TypeError, match="q_func2 is None"):
        agents.SoftActorCritic(policy, q_func, None, adam(policy), adam(q_func), None, **OPTIONS)
