"""TQC, REDQ (and DroQ), CrossQ and discrete SAC: their equations by hand, their arguments, the contracts."""

import math
from typing import Any

import pytest
import torch
from actor_critic_parts import ENV, make_batch, make_critic
from on_policy_parts import Table
from pair_base import sgd
from registry import made
from torch import nn

from pfrl_like import q_functions
from pfrl_like.action_value import QuantileDiscreteActionValue
from pfrl_like.agents import REDQ, TQC, CrossQ, DiscreteSAC
from pfrl_like.agents.discrete_sac import discrete_sac_next_value, discrete_sac_policy_loss
from pfrl_like.agents.soft_actor_critic import soft_next_value, soft_reward
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import truncated_mixture
from pfrl_like.nn import ConcatObsAndAction
from pfrl_like.policies import SoftmaxCategoricalHead
from pfrl_like.testing.play import play_one


def make_redq(n: int = 4, **options: Any) -> Any:
    critics = [make_critic() for _ in range(n)]
    return made(REDQ, q_funcs=critics, q_func_optimizers=[*map(sgd, critics)], **options)


def make_crossq(**options: Any) -> Any:
    def critic() -> nn.Module:
        layers = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1)
        return nn.Sequential(ConcatObsAndAction(), *layers)

    return made(CrossQ, q_func1=critic(), q_func2=critic(), **{"policy_update_delay": 2, **options})


# TQC


def test_the_largest_quantiles_of_all_critics_are_left_out() -> None:
    quantiles = [torch.tensor([[1.0, 2.0, 9.0]]), torch.tensor([[5.0, 3.0, 4.0]])]
    assert truncated_mixture(quantiles, 1).tolist() == [[1.0, 2.0, 3.0, 4.0]]  # without 5 and 9
    assert truncated_mixture(quantiles, 0).tolist() == [[1.0, 2.0, 3.0, 4.0, 5.0, 9.0]]
    with pytest.raises(ValueError, match="n_dropped is 3, expected less than"):
        truncated_mixture(quantiles, 3)


def test_tqcs_target_is_the_mixture_and_its_policy_follows_the_mean() -> None:
    agent = made(TQC, n_dropped=2)
    values = [QuantileDiscreteActionValue(torch.randn(3, 5, 1)) for _ in range(2)]
    assert agent._pool(values).quantiles.shape == (3, 6, 1)  # 2 * (5 - 2)
    assert agent._policy_pool([torch.tensor([1.0]), torch.tensor([4.0])]).item() == 2.5
    with pytest.raises(ValueError, match="n_dropped"):
        made(TQC, n_dropped=-1)
    with pytest.raises(TypeError, match="a critic gives DiscreteActionValue, .* QuantileDiscreteActionValue"):
        made(TQC, q_func1=make_critic(), q_func2=make_critic()).update(make_batch())


# REDQ


def test_redqs_targets_come_from_a_few_critics_drawn_anew() -> None:
    agent = make_redq(n=4, subset_size=2)
    drawn = [tuple(map(id, agent._bootstrap_critics())) for _ in range(50)]
    assert {len(set(one)) for one in drawn} == {2}
    assert len({frozenset(one) for one in drawn}) == 6  # of 4 critics every pair comes
    targets = {id(critic) for critic in agent.target_critics}
    assert all(targets.issuperset(one) for one in drawn)


def test_redqs_policy_learns_once_a_step() -> None:
    agent = make_redq(n_times_update=3)
    play_one(agent, ENV, 12)
    assert (agent.optim_t, agent.n_policy_updates) == (9, 3)
    often = make_redq(n_times_update=3, policy_update_delay=1)
    play_one(often, ENV, 12)
    assert often.n_policy_updates == 9


def test_redq_refuses_what_it_cannot_do() -> None:
    for options, message in (
        ({"n": 1}, "q_funcs has length 1, expected at least 2"),
        ({"subset_size": 5}, "q_funcs has length 4, expected at least 2 and at least subset_size, 5"),
        ({"compile": True}, "compile is True, but REDQ samples other critics"),
    ):
        with pytest.raises(ValueError, match=message):
            make_redq(**options)


def test_droqs_critics_leave_units_out_only_while_they_learn() -> None:
    critic = q_functions.DropoutFCSAQFunction(4, 2, 32, 2, dropout=0.5)
    batch = make_batch()
    assert not torch.equal(critic((batch.obs, batch.action)), critic(batch.obs, batch.action))
    critic.eval()
    assert torch.equal(critic((batch.obs, batch.action)), critic(batch.obs, batch.action))
    assert sum(isinstance(part, nn.LayerNorm) for part in critic.modules()) == 2


def test_droq_takes_all_critics_without_a_draw() -> None:
    agent = make_redq(n=2)
    before = torch.get_rng_state()
    assert [*map(id, agent._bootstrap_critics())] == [*map(id, agent.target_critics)]
    assert torch.equal(before, torch.get_rng_state())


# CrossQ


def test_crossq_normalises_present_and_next_states_together() -> None:
    agent, batch = make_crossq(), make_batch()
    assert not [name for name in vars(agent) if name.startswith("target_q")]
    norm = agent.q_func1[2]
    seen: list[torch.Tensor] = []
    norm.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].detach()))
    agent.critic_losses(batch)
    linear = agent.q_func1[1]
    assert [len(rows) for rows in seen] == [16]  # 8 present and 8 next states at once
    torch.testing.assert_close(seen[0][:8], linear(torch.cat([batch.obs, batch.action], 1)))
    torch.testing.assert_close(norm.running_mean, 0.1 * seen[0].mean(0))


def test_crossqs_gradient_does_not_flow_through_the_target() -> None:
    agent, batch = make_crossq(), make_batch().replace(weight=None)
    norm = agent.q_func1[2]
    norm.eval()  # so that rows do not depend on each other
    agent.q_func2[2].eval()
    torch.manual_seed(0)
    loss, td_error, value = list(agent.critic_losses(batch))[0]
    (slope,) = torch.autograd.grad(loss, agent.q_func1[4].bias)
    assert slope.item() == pytest.approx(-td_error.mean().item(), rel=1e-4)  # of half the squared error, by its bias
    torch.testing.assert_close(value, agent.q_func1((batch.obs, batch.action)).flatten())


def test_crossqs_policy_learns_in_every_third_update_and_leaves_the_moments_alone() -> None:
    agent = make_crossq(policy_update_delay=3)
    for seed in range(6):
        agent.update(make_batch(seed))
    assert agent.n_policy_updates == 2
    assert agent.q_func1[2].num_batches_tracked == 6
    assert agent.q_func1.training
    with pytest.raises(TypeError, match="soft_update_tau is given, but CrossQ has no target networks"):
        make_crossq(soft_update_tau=0.1)
    up_to_phi = [*([None] * 7), 0.9, None, 10, 4, 1, None]
    with pytest.raises(TypeError, match="soft_update_tau is given, but CrossQ"):
        CrossQ(*up_to_phi, 0.1)


def test_crossq_may_have_a_recurrent_policy() -> None:
    agent = made(CrossQ, recurrent=True, num_steps=2)
    play_one(agent, ENV, 30)
    assert agent.n_policy_updates > 0
    batch = agent._prepare(agent.replay_buffer.sample_sequences(4, 4, 0.9))
    with torch.no_grad():  # of rows that jump two steps ahead, the state after these
        torch.manual_seed(0)
        value, log_prob = soft_next_value(agent.policy, agent.critics, batch)
        torch.manual_seed(0)
        _, td_error, q = list(agent.critic_losses(batch))[0]
    expected = soft_reward(batch, log_prob, agent.temperature) + batch.discount * value.q_values.flatten() - q
    torch.testing.assert_close(td_error, expected)
    with pytest.raises(TypeError, match="q_func1 is RecurrentSequential, .* only the policy may be recurrent"):
        made(CrossQ, recurrent=True, q_func1=make_critic(recurrent=True))


# Discrete actions


def q_of(*numbers: float) -> nn.Module:
    return nn.Sequential(Table([numbers]), q_functions.DiscreteActionValueHead())


FIELDS = ("obs", "action", "reward", "next_obs", "discount")
#: Chooses the second action three times as often as the first.
POLICY = nn.Sequential(Table([[0.0, math.log(3.0)]]), SoftmaxCategoricalHead())
BATCH = Batch(
    obs=torch.ones(1, 1), action=torch.tensor([1]), reward=torch.tensor([1.0]), next_obs=torch.ones(1, 1),
    discount=torch.tensor([0.5]),
)  # fmt: skip


def test_the_discrete_target_is_a_mean_over_actions() -> None:
    value = discrete_sac_next_value(POLICY, [q_of(4.0, 8.0), q_of(2.0, 12.0)], BATCH, 0.1)
    # the least values are 2 and 8
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert value.tolist() == pytest.approx([0.25 * 2 + 0.75 * 8 + 0.1 * entropy])
    mask = torch.tensor([[True, False]])
    only = discrete_sac_next_value(POLICY, [q_of(4.0, 8.0)], BATCH.replace(next_action_mask=mask), 0.1)
    assert only.tolist() == pytest.approx([4.0])  # one action is left, and no entropy


def test_the_discrete_policy_weighs_value_against_entropy() -> None:
    loss, entropy = discrete_sac_policy_loss(POLICY, [q_of(4.0, 8.0), q_of(2.0, 12.0)], BATCH, 0.1)
    expected = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert entropy.tolist() == pytest.approx([expected])
    assert loss.item() == pytest.approx(-0.1 * expected - 6.5)
    weighted, _ = discrete_sac_policy_loss(POLICY, [q_of(4.0, 8.0)], BATCH.replace(weight=torch.tensor([0.5])), 0.0)
    assert weighted.item() == pytest.approx(-0.5 * (0.25 * 4 + 0.75 * 8))


def quantiles_of(*quantiles: list[float]) -> nn.Module:
    """A critic whose quantiles, [n_actions] for each, do not depend on the state."""
    table = nn.Sequential(Table([sum(quantiles, [])]), nn.Unflatten(1, (len(quantiles), len(quantiles[0]))))
    return q_functions.QuantileSingleModelStateQFunctionWithDiscreteAction(table)


def test_discrete_critics_of_distributions_learn_from_one_action_of_the_policy() -> None:
    critics = [quantiles_of([0.0, 4.0], [8.0, 6.0]), quantiles_of([3.0, 0.0], [3.0, 20.0])]
    agent = made(DiscreteSAC, policy=POLICY, q_func1=critics[0], q_func2=critics[1], entropy_target=None)
    first, second = (BATCH.replace(next_action_mask=torch.tensor([mask])) for mask in ([True, False], [False, True]))
    # The second critic holds less of the first action, 3 on the average, the first one of the second action, 5.
    for batch, mean in ((first, 3.0), (second, 5.0)):
        (_, error, value), _ = agent.critic_losses(batch)
        assert value.tolist() == [5.0]
        assert error.tolist() == pytest.approx([abs(1 + 0.5 * mean - 5)])
    # Over draws of both actions the error's mean is that of their targets, with the entropy in them.
    many = Batch(**{name: torch.cat([getattr(BATCH, name)] * 4000) for name in FIELDS})
    targets = [1 + 0.5 * (mean - 0.2 * math.log(p)) for mean, p in ((3.0, 0.25), (5.0, 0.75))]
    errors = list(agent.critic_losses(many))[0][1]
    assert sorted(set(errors.tolist())) == pytest.approx(sorted(abs(target - 5) for target in targets))
    assert errors.mean().item() == pytest.approx(5 - 0.25 * targets[0] - 0.75 * targets[1], abs=0.05)


def test_discrete_critics_are_of_one_form() -> None:
    critics = [quantiles_of([0.0, 4.0]), q_of(0.0, 4.0)]
    for pair in (critics, critics[::-1]):
        agent = made(DiscreteSAC, policy=POLICY, q_func1=pair[0], q_func2=pair[1])
        with pytest.raises(TypeError, match="critics return .*ActionValue, .*ActionValue, which cannot be compared"):
            agent.update(BATCH)
