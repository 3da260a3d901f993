"""Options of offline agents for the formulas of d3rlpy 2.8, with numbers worked out by hand."""

import math
from typing import Any

import pytest
import torch
from actor_critic_parts import make_batch
from hand_parts import Gaussian, Ramps, Slope
from registry import made
from registry.constrained import make_vae
from torch import Tensor, nn

from pfrl_like.agents.offline import imitation
from pfrl_like.agents.offline.awac import COMBINATIONS, sampled_advantage
from pfrl_like.agents.offline.bc import bc_loss, discrete_bc_loss
from pfrl_like.batch import Batch
from pfrl_like.d3rlpy.models import VectorEncoderFactory
from pfrl_like.d3rlpy.models.policies import CategoricalPolicy
from pfrl_like.functions import maximum_mean_discrepancy

#: Two steps, the second of which is terminal.
BATCH = Batch(
    obs=torch.tensor([[1.0], [2.0]]),
    action=torch.tensor([[0.5, 1.0], [0.0, 2.0]]),
    reward=torch.tensor([1.0, 10.0]),
    next_obs=torch.tensor([[3.0], [4.0]]),
    discount=torch.tensor([0.9, 0.0]),
)


def sgd(*modules: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(nn.ModuleList(modules).parameters(), lr=0.5)


def losses_of(agent: Any) -> dict[str, float]:
    """The loss of each optimiser, in the order of the steps; no parameter changes."""
    losses: dict[str, float] = {}
    agent.update_step(BATCH, lambda name, loss: losses.update({name: loss.item()}))
    return losses


def test_stochastic_cloning_has_the_squared_error_of_samples() -> None:
    # samples (1, 1) and (2, 2): ((1 - 0.5)**2 + 0) / 2 and ((2 - 0)**2 + 0) / 2
    assert bc_loss(Gaussian(1.0, 2), BATCH, squared_error=True)[0].item() == (0.125 + 2.0) / 2
    agent = made("BC", policy=Gaussian(1.0, 2), squared_error=True)
    assert agent.imitation_loss(BATCH)[0].item() == (0.125 + 2.0) / 2


def test_a_policy_of_log_probabilities_is_penalised_for_them() -> None:
    policy = CategoricalPolicy(VectorEncoderFactory([1]).create((1,)), 1, 2)
    for parameter in policy.parameters():
        nn.init.zeros_(parameter)
    with torch.no_grad():
        policy._fc.bias.copy_(torch.tensor([1.0, 1.0 + math.log(3.0)]))  # probabilities 1 / 4 and 3 / 4
    loss, _ = discrete_bc_loss(policy, BATCH.replace(action=torch.tensor([0, 1])), beta=0.5)
    surprise = [math.log(4.0), math.log(4 / 3)]
    assert loss.item() == pytest.approx((sum(surprise) + 0.5 * sum(each**2 for each in surprise)) / 2)


def test_iql_with_one_optimiser_adds_the_losses_of_critics_and_value_and_weighs_with_the_new_value() -> None:
    v_func, q_func1, q_func2 = nn.Linear(1, 1, bias=False), Slope(0.5), Slope(1.0)
    nn.init.ones_(v_func.weight)  # V(s) = s
    agent = made(
        "IQL", policy=Gaussian(1.0, 2), v_func=v_func, q_func1=q_func1, q_func2=q_func2, beta=2.0,
        q_func1_optimizer=sgd(q_func1, v_func), v_func_optimizer=None,
    )  # fmt: skip
    losses: dict[str, float] = {}

    def step(name: str, loss: Tensor) -> None:
        losses[name] = loss.item()
        if name == "q_func1_optimizer":
            nn.init.constant_(v_func.weight, 1.5)

    agent.update_step(BATCH, step)
    assert [*losses] == ["q_func1_optimizer", "q_func2_optimizer", "policy_optimizer"]
    # The least Q of the targets is 1.75 and 3, V is 1 and 2; the first critic's TD errors are 1 + 0.9 * 3 - 1.75 and
    # 10 - 3, the second one's 3.7 - 2.5 and 10 - 4.
    value_loss = 0.7 * (0.75**2 + 1) / 2
    assert losses["q_func1_optimizer"] == pytest.approx((1.95**2 + 49) / 2 + value_loss)
    assert losses["q_func2_optimizer"] == pytest.approx((1.2**2 + 36) / 2)
    # V is then 1.5 and 3: weights exp(2 * 0.25) and exp(0)
    surprise = [math.log(2 * math.pi) + 0.125, math.log(2 * math.pi) + 2.0]
    assert losses["policy_optimizer"] == pytest.approx((math.exp(0.5) * surprise[0] + surprise[1]) / 2)


def test_iqls_value_must_be_in_an_optimiser() -> None:
    with pytest.raises(ValueError, match="q_func1_optimizer holds no parameter of v_func"):
        made("IQL", v_func_optimizer=None)


def test_softmax_weights_are_of_the_minibatch_and_the_loss_is_summed() -> None:
    critics = {"q_func1": Slope(0.5), "q_func2": Slope(1.0)}
    agent = made("AWAC", policy=Gaussian(1.0, 2), **critics, weight_type="softmax", lam=0.5)
    # Q(s, a) is 1.75 and 3; of the policy's actions (1, 1) and (2, 2) it is 2 and 4: A = -0.25 and -1
    first = 2 / (1 + math.exp(-1.5))
    surprise = [math.log(2 * math.pi) + 0.125, math.log(2 * math.pi) + 2.0]
    expected = first * surprise[0] + (2 - first) * surprise[1]
    assert losses_of(agent)["policy_optimizer"] == pytest.approx(expected)


def test_awacs_targets_have_the_entropy_of_the_next_policy() -> None:
    policy = Gaussian(1.0, 2)
    agent = made("AWAC", policy=policy, q_func1=Slope(0.5), q_func2=Slope(1.0), next_policy=policy)
    value, reward = agent.bootstrap(BATCH)
    assert value.q_values.flatten().tolist() == [6.0, 8.0]  # of the actions (3, 3) and (4, 4)
    assert reward.tolist() == pytest.approx([1 + 0.9 * math.log(2 * math.pi), 10.0])
    with pytest.raises(ValueError, match="policy_optimizer holds no parameter of next_policy"):
        made("AWAC", next_policy=Gaussian(1.0, 2))


def test_the_advantage_may_be_by_the_mean_critic() -> None:
    # Q(s, a) = 1 + 0.75 * 1.5 and 2 + 0.75 * 2; of the actions (0, 0), (1, 1), (2, 2) it is s, s + 1.5, s + 3
    advantage = sampled_advantage(Ramps(2, 0), [Slope(0.5), Slope(1.0)], BATCH, 3, combine=COMBINATIONS["mean"])
    assert advantage.tolist() == pytest.approx([2.125 - 2.5, 3.5 - 3.5])


def test_crr_acts_by_actions_drawn_with_the_softmax_of_the_mean_critic() -> None:
    torch.manual_seed(0)
    actions = torch.tensor([0.0, math.log(3.0)]).view(2, 1, 1).expand(2, 4000, 1)
    drawn = imitation.resample([Slope(0.0), Slope(2.0)], torch.zeros(4000, 1), actions).mode
    assert (drawn > 0).double().mean().item() == pytest.approx(3 / 4, abs=0.03)
    agent, obs = made("CRR", resample_actions=True, n_action_samples=5), make_batch().obs.numpy()
    for actor in (agent, agent.acting_copy()):
        with actor.eval_mode():
            torch.manual_seed(0)
            first = actor.batch_act(obs)
            assert first.shape == (8, 2) and (first != actor.batch_act(obs)).any()
    with pytest.raises(ValueError, match="resample_actions is True, which needs recurrent=False"):
        made("CRR", recurrent=True, resample_actions=True)


@pytest.mark.parametrize("kind", ["BCQ", "BEAR"])
def test_the_imitator_may_learn_first(kind: str) -> None:
    for first in (True, False):
        names: list[str] = []
        agent = made(kind, imitator=make_vae(), imitates_first=first)
        agent.update_step(make_batch(), lambda name, loss: names.append(name))  # noqa: B023 - called at once
        assert names.index("imitator_optimizer") == (0 if first else len(names) - 1)


# BEAR


def policy_step(agent: Any, batch: Batch, seed: int = 1) -> dict[str, Tensor]:
    """The gradient of the policy's last layer, and the statistics of a step of the policy; no parameter changes."""
    torch.manual_seed(seed)
    gradients: list[Tensor] = []

    def step(name: str, loss: Tensor) -> None:
        if name == "policy_optimizer":
            gradients.extend(torch.autograd.grad(loss, [*agent.policy.parameters()][-1:]))

    stats = agent.policy_step(batch, step)
    return {"gradient": gradients[0], **stats}


def test_bears_discrepancy_may_be_before_the_squashing() -> None:
    agent, batch = made("BEAR", imitator=make_vae(), unsquashed_mmd=True, n_mmd_action_samples=5), make_batch()
    torch.manual_seed(1)
    found = agent._discrepancy(batch)
    torch.manual_seed(1)
    y = agent.imitator.draw(batch.obs, 5).tanh()
    x = agent.policy(batch.obs).base_dist.rsample((5,))
    torch.testing.assert_close(found, maximum_mean_discrepancy(x, y, agent.mmd_sigma, agent.mmd_kernel))


def test_bears_policy_may_learn_without_the_discrepancy() -> None:
    batch = make_batch()
    found, paper = (policy_step(made("BEAR", penalises_policy=each), batch) for each in (False, True))
    without = policy_step(made("BEAR", initial_alpha=0.0, alpha_threshold=None), batch)
    torch.testing.assert_close(found["gradient"], without["gradient"])
    assert not torch.allclose(paper["gradient"], without["gradient"])
    assert found["policy_loss"] == paper["policy_loss"] == without["policy_loss"] + found["mmd_loss"]


def test_bears_policy_learns_the_discrepancy_alone_in_the_warmup() -> None:
    agent, batch = (
        made("BEAR", warmup_steps=1, initial_alpha=2.0, alpha_threshold=0.5),
        make_batch().replace(weight=None),
    )
    before = agent.alpha, agent.temperature, [each.clone() for each in agent.q_func1.parameters()]
    _, stats = agent.update(batch)
    assert stats["policy_loss"].item() == pytest.approx(2.0 * (stats["mmd"].mean().item() - 0.5))
    assert (agent.alpha, agent.temperature, agent.n_policy_updates) == (*before[:2], 1)
    assert all(not torch.equal(a, b) for a, b in zip(before[2], agent.q_func1.parameters(), strict=True))
    agent.update(batch)
    assert agent.alpha != before[0]


def test_bears_alpha_stays_in_its_bounds() -> None:
    agent = made("BEAR", initial_alpha=math.exp(0.9), alpha_optimizer_lr=1.0, log_alpha_bounds=(0.5, 1.0))
    agent.alpha_threshold = -10.0  # far below any discrepancy
    agent.update(make_batch())
    assert agent.alpha == pytest.approx(math.e)


def test_bears_targets_have_a_number_of_samples_of_their_own() -> None:
    batch, values = make_batch(), []
    for options in ({"n_target_samples": 3}, {"n_action_samples": 3}):
        agent = made("BEAR", **options)
        torch.manual_seed(1)
        values.append(agent.bootstrap(batch)[0].q_values)
    torch.testing.assert_close(*values)
