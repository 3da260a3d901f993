"""CQL, its discrete form, and EDAC: terms of the critics' losses with numbers worked out by hand."""

import math
from typing import Any

import pytest
import torch
from actor_critic_parts import make_batch, make_critic, make_policy
from agent_parts import MAKE_BUFFER, make_agent
from hand_parts import Gaussian, Slope, Table
from pair_base import sgd
from registry import made
from torch import Tensor

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.agents import CQL, EDAC, DiscreteCQL, SoftActorCritic
from pfrl_like.agents.offline.cql import conservative_actions, conservative_gap, discrete_conservative_gap
from pfrl_like.agents.offline.edac import action_gradients, diversity_losses
from pfrl_like.agents.soft_actor_critic import sample_with_log_prob
from pfrl_like.batch import Batch
from pfrl_like.learning.critics import value_of, values_of_actions
from pfrl_like.q_functions import QFunctionEnsemble
from pfrl_like.utils import set_random_seed


def make(kind: Any, n_critics: int = 2, buffer: str = "", recurrent: bool = False, **options: Any) -> Any:
    """An agent with so many critics."""
    set_random_seed(0)
    further = [make_critic(recurrent=recurrent) for _ in range(n_critics - 2)]
    given = {"further_q_funcs": further, "further_q_func_optimizers": list(map(sgd, further))} if further else {}
    return made(kind, buffer, recurrent, entropy_target=None, **given, **options)


def losses(agent: Any, batch: Batch) -> Tensor:
    """Those of the critics, the same draws for every agent."""
    torch.manual_seed(1)
    return torch.stack([loss for loss, _, _ in agent.critic_losses(batch)])


# CQL


def test_the_gap_is_the_soft_maximum_of_actions_drawn_above_the_value_of_the_datas() -> None:
    values = torch.tensor([[3.0, 1.0], [1.0, 4.0]]).log()
    density = torch.tensor([[0.5, 2.0], [0.25, 8.0]]).log()
    gap = conservative_gap(values, density, torch.tensor([2.0, -1.0]))
    # log(3 / 0.5 + 1 / 0.25) - 2,   log(1 / 2 + 4 / 8) + 1
    torch.testing.assert_close(gap, torch.tensor([math.log(10) - 2, 1.0]))


def test_actions_are_the_policys_in_both_states_and_uniform_ones() -> None:
    obs, next_obs = torch.tensor([[0.1, 0.2], [0.3, 0.4]]), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    zeros = torch.zeros(2)
    actions, density = conservative_actions(Gaussian(2.0, 2), Batch(obs, obs, zeros, next_obs, zeros), 3)
    assert actions.shape == (9, 2, 2) and density.shape == (9, 2)
    for drawn, state in ((actions[:3], obs), (actions[3:6], next_obs)):
        torch.testing.assert_close(drawn, (2 * state).expand(3, 2, 2))
    assert (actions[6:].abs() <= 1).all() and len({*actions[6:].flatten().tolist()}) == 12
    # a Gaussian of two numbers at its mean, 1 / (2 pi); uniform in a square of area 4
    torch.testing.assert_close(density[:6], torch.full((6, 2), -math.log(2 * math.pi)))
    torch.testing.assert_close(density[6:], torch.full((3, 2), -math.log(4)))


def test_the_conservative_term_counts_beside_the_critics_losses() -> None:
    batch = make_batch()
    weight = batch.required("weight")[0]
    for accumulator in ("mean", "sum"):
        options: dict[str, Any] = {"batch_accumulator": accumulator, "alpha_threshold": None, "n_action_samples": 4}
        once = make(CQL, initial_alpha=2.0, conservative_weight=1.0, **options)
        torch.manual_seed(1)
        gaps: list[Tensor] = []
        [*once._conservative_losses(batch, gaps)]
        weighted = (torch.stack(gaps) * weight).sum(1) / (len(batch) if accumulator == "mean" else 1)
        plain = 2 * losses(make(SoftActorCritic, batch_accumulator=accumulator), batch)  # which has halves of squares
        torch.testing.assert_close(losses(once, batch), plain + 2 * weighted)
        threefold = make(CQL, initial_alpha=2.0, conservative_weight=3.0, **options)
        torch.testing.assert_close(losses(threefold, batch), plain + 6 * weighted)
        assert once.alpha == 2.0 and once.alpha_holder is None


def test_targets_do_without_the_entropy_if_they_are_told_to() -> None:
    batch = make_batch()
    agent, usual = make(CQL, soft_q_backup=False), make(CQL)
    torch.manual_seed(1)
    next_value, reward = agent.bootstrap(batch)
    assert torch.equal(reward, batch.reward)
    torch.manual_seed(1)
    soft_value, soft = usual.bootstrap(batch)
    torch.testing.assert_close(next_value.q_values, soft_value.q_values)
    torch.manual_seed(1)
    _, _, log_prob = sample_with_log_prob(agent.policy, batch, next=True)
    torch.testing.assert_close(soft, batch.reward - batch.discount * 0.2 * log_prob)


def test_values_of_actions_drawn_are_those_of_one_call_for_each() -> None:
    batch, agent = make_batch(), make(CQL, n_action_samples=2)
    torch.manual_seed(1)
    gaps: list[Tensor] = []
    [*agent._conservative_losses(batch, gaps)]
    torch.manual_seed(1)
    agent.bootstrap(batch)
    actions, density = conservative_actions(agent.policy, batch, 2)
    values = torch.stack([agent.q_func2((batch.obs, action)).squeeze(1) for action in actions])
    expected = conservative_gap(values, density, agent.q_func2((batch.obs, batch.action)).squeeze(1))
    torch.testing.assert_close(gaps[1], expected)


def test_values_of_many_actions_are_the_same_in_several_calls() -> None:
    batch, critic = make_batch(n=300), make_critic()
    actions = torch.rand(5, 300, 2, generator=torch.Generator().manual_seed(0))
    calls: list[int] = []
    critic.register_forward_hook(lambda module, inputs, output: calls.append(len(output)))
    values = values_of_actions(critic, batch, actions)
    assert calls == [300] * 5  # no two of them are 512 rows
    values_of_actions(critic, make_batch(n=100), actions[:, :100])
    assert calls[5:] == [500]
    expected = torch.stack([critic((batch.obs, action)).squeeze(1) for action in actions])
    torch.testing.assert_close(values, expected)


def test_alpha_grows_where_the_gap_is_above_its_threshold() -> None:
    for alpha_threshold, sign in ((-100.0, 1), (100.0, -1)):
        agent = make(CQL, alpha_threshold=alpha_threshold, initial_alpha=1.0, alpha_optimizer_lr=0.25)
        agent.update(make_batch())
        assert agent.alpha == pytest.approx(math.exp(sign * 0.25))  # Adam's first step is as long as its rate
        statistics = dict(agent.get_statistics())
        assert statistics["alpha"] == agent.alpha and math.isfinite(statistics["average_conservative_gap"])


def test_cql_refuses_numbers_out_of_bounds() -> None:
    for options, message in (
        ({"n_action_samples": 0}, "n_action_samples"),
        ({"conservative_weight": -1.0}, "conservative_weight is -1.0"),
        ({"initial_alpha": 0.0}, "initial_alpha is 0, expected a positive number"),
        ({"alpha_threshold": math.inf}, "alpha_threshold is inf"),
        ({"alpha_optimizer_lr": -0.1}, "alpha_optimizer_lr is -0.1"),
    ):
        with pytest.raises(ValueError, match=message):
            make(CQL, **options)


# Discrete CQL


def test_the_discrete_gap_is_the_soft_maximum_of_what_is_allowed() -> None:
    value, action = DiscreteActionValue(torch.tensor([[2.0, 6.0], [3.0, 3.0]]).log()), torch.tensor([1, 0])
    # log(2 + 6) - log 6,   log(3 + 3) - log 3
    expected = torch.tensor([math.log(8 / 6), math.log(2)])
    torch.testing.assert_close(discrete_conservative_gap(value, action), expected)
    allowed = value.masked(torch.tensor([[True, True], [True, False]]))
    torch.testing.assert_close(discrete_conservative_gap(allowed, action), torch.tensor([math.log(8 / 6), 0.0]))


def test_discrete_cql_is_double_dqn_and_the_gap() -> None:
    obs = torch.tensor([1.0, 3.0])
    batch = Batch(
        obs, torch.tensor([1, 0]), torch.tensor([1.0, 0.0]), obs, torch.tensor([0.5, 0.0]), torch.tensor([1.0, 0.5])
    )
    # q = 2 and 3; targets 1 + 0.5 * 2 and 0; losses 0 and 9 / 2; gaps log(e + e**2) - 2 and log(e**3 + e**6) - 3
    gaps = math.log(math.e + math.e**2) - 2, math.log(math.e**3 + math.e**6) - 3
    for conservative_weight in (0.0, 1.0, 4.0):
        options: dict[str, Any] = {"clip_delta": False, "conservative_weight": conservative_weight}
        loss, td_error, _ = make_agent(DiscreteCQL, q_function=Table([1.0, 2.0]), **options).loss(batch)
        expected = (conservative_weight * gaps[0] + 0.5 * (4.5 + conservative_weight * gaps[1])) / 2
        assert loss.item() == pytest.approx(expected)
        assert td_error.tolist() == pytest.approx([0.0, -3.0])
    with pytest.raises(ValueError, match="conservative_weight is -1"):
        make_agent(DiscreteCQL, q_function=Table([1.0, 2.0]), conservative_weight=-1)


# EDAC


class Square(Slope):
    """Q(s, a) = sum of s * slope * a**2."""

    def forward(self, pair: Any) -> Tensor:
        obs, action = pair
        value: Tensor = (obs * self.slope * action**2).sum(1, keepdim=True)
        return value


def test_gradients_are_those_of_each_row_along_its_action() -> None:
    obs, action = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[0.5, 1.0], [0.0, -1.0]], requires_grad=True)
    critics = Square(1.0), Square(-3.0)
    gradients = action_gradients([DiscreteActionValue(critic((obs, action))) for critic in critics], action)
    expected = torch.tensor([[1.0, 4.0], [0.0, -8.0]])  # 2 * s * slope * a
    torch.testing.assert_close(torch.stack(gradients), torch.stack([expected, -3 * expected]))
    assert torch.autograd.grad(gradients[0].sum(), critics[0].slope)[0] == -3.0  # 1 + 4 + 0 - 8


def test_diversity_is_the_cosine_with_the_other_critics() -> None:
    ways = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 5.0]]), torch.tensor([[3.0, 4.0]])
    # cosines 0, 0.6 and 0.8, each times 2 / (3 - 1)
    assert [loss.item() for loss in diversity_losses(ways)] == pytest.approx([0.6, 0.8, 1.4])


def test_each_critic_has_the_gradient_of_the_papers_sum() -> None:
    gradients = torch.randn(4, 5, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    cosines = torch.nn.functional.cosine_similarity(gradients.unsqueeze(0), gradients.unsqueeze(1), dim=-1)
    of_paper = (cosines.sum((0, 1)) - 4).sum() / (4 - 1)  # without those of a critic with itself
    own = torch.stack(diversity_losses([*gradients])).sum()
    torch.testing.assert_close(*[torch.autograd.grad(loss, gradients)[0] for loss in (of_paper, own)])


@pytest.mark.parametrize("recurrent", [False, True])
def test_eta_weighs_the_diversity_and_sac_n_has_none(recurrent: bool) -> None:
    batch = make_batch()
    batch = batch.replace(lengths=torch.tensor([4, 3, 1])) if recurrent else batch
    weight = batch.required("weight")[0]
    buffer = "episodic" if recurrent else "uniform"
    agents = [make(EDAC, 3, buffer, recurrent, eta=eta) for eta in (0.0, 1.0, 2.0)]
    plain, once, twice = [losses(agent, batch) for agent in agents]
    action = batch.action.clone().requires_grad_()  # of a row alone: those before it lie in the critic's memory
    values = [value_of(critic, batch, action) for critic in agents[0].critics]
    terms = torch.stack(diversity_losses(action_gradients(values, action)))
    torch.testing.assert_close(once - plain, (terms * weight).mean(1))
    torch.testing.assert_close(twice - plain, 2 * (terms * weight).mean(1))
    with pytest.raises(ValueError, match="eta is -1"):
        make(EDAC, eta=-1)


def test_one_pass_of_a_critic_serves_its_error_and_its_gradients_along_actions() -> None:
    agent, passes = make(EDAC, 3), []
    for critic in agent.critics:
        critic.register_forward_hook(lambda *_: passes.append(1))
    agent.critic_losses(make_batch())
    assert len(passes) == 3


def test_a_single_critic_cannot_be_kept_apart() -> None:
    policy, ensemble = make_policy(), QFunctionEnsemble([make_critic()])
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.05) for part in (policy, ensemble)]
    given = policy, ensemble, None, *optimizers, None, MAKE_BUFFER["uniform"](capacity=100_000), 0.9
    with pytest.raises(ValueError, match=r"eta is 1.0, which needs at least two critics"):
        EDAC(*given)
    assert EDAC(*given, eta=0).update(make_batch())[0].shape == (8,)


def test_sac_n_has_the_squared_error_of_the_least_of_all_targets() -> None:
    batch, agent = make_batch(), make(EDAC, 4, eta=0.0)
    torch.manual_seed(1)
    next_value, reward = agent.bootstrap(batch)
    target = reward + batch.discount * next_value.q_values.squeeze(1)
    errors = torch.stack([target - critic((batch.obs, batch.action)).squeeze(1) for critic in agent.critics])
    torch.testing.assert_close(losses(agent, batch), (errors**2 * batch.required("weight")[0]).mean(1))
