"""BCQ and its discrete form: candidates, targets and losses worked out by hand, the arithmetic beside them."""

import functools
import math
from typing import Any

import numpy as np
import pytest
import torch
from actor_critic_parts import ENV, make_batch, make_critic, parameters
from agent_parts import MAKE_BUFFER
from gymnasium import spaces
from hand_parts import Slope, Table
from pair_base import Noise
from registry import made
from registry.constrained import make_vae, of_pairs
from torch import Tensor, nn

from pfrl_like.action_value import DiscreteActionValue, QuantileDiscreteActionValue, soft_min_of
from pfrl_like.agents import BCQ, DiscreteBCQ
from pfrl_like.agents.offline.bc import discrete_bc_loss
from pfrl_like.agents.offline.bcq import CandidateChoice, bcq_next_value, likely_actions, perturb
from pfrl_like.agents.offline.imitation import conditional_vae_loss
from pfrl_like.batch import Batch
from pfrl_like.distributions import Categorical
from pfrl_like.nn import ConcatObsAndAction, ConditionalVAE, Lambda
from pfrl_like.policies import SoftmaxCategoricalHead
from pfrl_like.q_functions import QFunctionEnsemble

make, make_discrete = functools.partial(made, BCQ), functools.partial(made, DiscreteBCQ)


# The imitator


class Numbers(nn.Module):
    """Gives the same numbers for every row."""

    def __init__(self, *numbers: float) -> None:
        super().__init__()
        self.numbers = nn.Parameter(torch.tensor(numbers))

    def forward(self, pair: Any) -> Tensor:
        return self.numbers.expand(len(pair[1]), -1)


OBS = torch.tensor([[1.0], [2.0]])
BATCH = Batch(OBS, torch.tensor([[0.5], [1.0]]), torch.tensor([1.0, 10.0]), OBS + 2, torch.tensor([0.5, 0.0]))


def test_the_imitator_makes_actions_anew_near_the_prior() -> None:
    vae = ConditionalVAE(Numbers(1.0, 3.0, 0.0, math.log(2.0)), Numbers(0.25), 2)
    # KL: (1 + 1 - 1) / 2 - 0 = 1/2 and (9 + 4 - 1) / 2 - log 2; squared errors 1/16 and 9/16
    divergence = (0.5 + 6 - math.log(2)) / 2
    for beta in (0.5, 2.0):
        loss, error = conditional_vae_loss(vae, BATCH, beta)
        assert error.tolist() == pytest.approx([1 / 16 + beta * divergence, 9 / 16 + beta * divergence])
        assert loss.item() == pytest.approx(error.mean().item())
    weighted = BATCH.replace(weight=torch.tensor([1.0, 0.5]))
    assert conditional_vae_loss(vae, weighted, 0.0, "sum")[0].item() == pytest.approx(1 / 16 + 9 / 32)


def test_latent_numbers_are_drawn_around_their_mean_and_cut_off_to_act() -> None:
    seen: list[Tensor] = []

    class Keeps(nn.Module):
        """Sees what is decoded."""

        def forward(self, pair: Any) -> Tensor:
            seen.append(pair[1])
            return pair[1][:, :1]

    vae = ConditionalVAE(Numbers(10.0, math.log(0.5)), Keeps(), 1)
    torch.manual_seed(0)
    vae((torch.zeros(4000, 1), torch.zeros(4000, 1)))
    assert seen[0].mean().item() == pytest.approx(10.0, abs=0.05)
    assert seen[0].std().item() == pytest.approx(0.5, abs=0.03)
    drawn = vae.draw(torch.zeros(100, 1), 40)
    assert drawn.shape == (40, 100, 1) and drawn.abs().max() == 0.5
    assert (drawn.abs() < 0.5).float().mean().item() == pytest.approx(0.383, abs=0.03)  # of a normal distribution
    with pytest.raises(ValueError, match=r"encoder returns 3 numbers, expected 2 \* latent_size, 4"):
        ConditionalVAE(Numbers(0.0, 0.0, 0.0), Numbers(0.0), 2)((OBS, OBS))


# Candidates


class Ramp(ConditionalVAE):
    """Draws the actions -0.5, 0, 0.5, ... in every state."""

    def __init__(self) -> None:
        super().__init__(nn.Identity(), nn.Identity(), 1)

    def draw(self, obs: Any, n: int) -> Tensor:
        return (torch.arange(float(n)) / 2 - 0.5).view(n, 1, 1).expand(n, len(obs), 1)


def test_a_perturbation_has_as_many_numbers_as_an_action() -> None:
    with pytest.raises(ValueError, match=r"policy gives shape \(\d+, 1\) for actions of \(\d+, 2\)"):
        make(policy=nn.Sequential(of_pairs(6, 1), nn.Tanh())).update(make_batch())


def test_perturbed_actions_stay_near_and_in_bounds() -> None:
    policy = Lambda(lambda pair: torch.ones_like(pair[1]))
    action = torch.tensor([[0.5], [0.95], [-1.0]])
    moved = perturb(policy, torch.zeros(3, 1), action, 0.1)
    torch.testing.assert_close(moved, torch.tensor([[0.6], [1.0], [-0.9]]))
    assert make(action_flexibility=0.3)._choice.scale == 0.3


def test_the_choice_is_the_candidate_of_most_value() -> None:
    still = Lambda(lambda pair: torch.zeros_like(pair[1]))
    for slope, expected in ((1.0, 0.5), (-1.0, -0.5)):
        choice = CandidateChoice(Ramp(), still, Slope(slope), 3, 0.05)
        assert choice(OBS).mode.tolist() == [[expected], [expected]]
    peak = Lambda(lambda pair: -pair[1].square())
    assert CandidateChoice(Ramp(), still, peak, 3, 0.05)(OBS).mode.tolist() == [[0.0], [0.0]]
    assert make(n_action_samples=7)._choice.n == 7


def test_the_target_is_the_soft_least_value_of_the_best_candidate() -> None:
    up = Lambda(lambda pair: torch.ones_like(pair[1]))
    # Candidates -0.5, 0, 0.5 are perturbed to -0.4, 0.1, 0.6. Q = s' + a and s' - 3 a, with s' = 3 and 4; the least
    # and largest of them are s' - 3 * 0.6 and s' + 0.6, s' - 0.3 and s' + 0.1, s' - 0.4 and s' + 1.2.
    critics = [Slope(1.0), Slope(-3.0)]
    for lam, best in ((1.0, -0.3), (0.75, -0.4 * 0.75 + 1.2 * 0.25), (0.0, 1.2)):
        value = bcq_next_value(Ramp(), up, critics, BATCH, 3, 0.1, lam)
        expected = torch.tensor([[3 + best], [4 + best]])
        torch.testing.assert_close(value.q_values, expected)


def test_of_distributions_the_least_or_the_largest_is_drawn() -> None:
    low = torch.tensor([0.0, 1.0]).view(1, 2, 1).expand(4000, 2, 1)
    values = [QuantileDiscreteActionValue(low), QuantileDiscreteActionValue(low + 10)]
    assert soft_min_of(values, 1.0).quantiles.max() == 1 and soft_min_of(values, 0.0).quantiles.min() == 10
    torch.manual_seed(0)
    drawn = soft_min_of(values, 0.75).quantiles
    assert (drawn[:, 0] == 0).float().mean().item() == pytest.approx(0.75, abs=0.03)
    assert torch.equal(drawn[:, 1], drawn[:, 0] + 1)  # whole distributions
    values[0].averages = True
    torch.testing.assert_close(soft_min_of(values, 0.75).quantiles, low + 2.5)
    numbers = [DiscreteActionValue(torch.tensor([[1.0]])), DiscreteActionValue(torch.tensor([[3.0]]))]
    assert soft_min_of(numbers, 0.75).q_values.item() == 1.5
    with pytest.raises(TypeError, match="expected the same class for all"):
        soft_min_of([values[0], numbers[0]], 0.5)


# Learning


def test_the_perturbation_follows_the_first_critic() -> None:
    policy = of_pairs(6, 2)
    agent = make(policy=nn.Sequential(policy, nn.Tanh()), action_flexibility=0.5)
    batch, losses = make_batch(), []
    torch.manual_seed(3)
    drawn = agent.imitator.draw(batch.obs, 1)[0]
    action = (drawn + 0.5 * agent.policy((batch.obs, drawn))).clamp(-1, 1)
    expected = -(agent.q_func1((batch.obs, action)).squeeze(1) * batch.required("weight")[0]).mean()
    torch.manual_seed(3)
    agent.policy_step(batch, lambda name, loss: losses.append((name, loss)))
    assert losses[0][0] == "policy_optimizer"
    torch.testing.assert_close(losses[0][1], expected)


def test_only_the_imitator_learns_before_rl_start_step() -> None:
    agent, batch = make(rl_start_step=2), make_batch()
    names = ("policy", "q_func1", "q_func2", "imitator")

    def changed() -> set[str]:
        before = {name: [p.clone() for p in getattr(agent, name).parameters()] for name in names}
        agent.update(batch)
        return {
            name
            for name in names
            if not all(map(torch.equal, before[name], getattr(agent, name).parameters()))
        }  # fmt: skip

    assert [changed() for _ in range(3)] == [{"imitator"}, {"imitator"}, {*names}]
    agent.rl_start_step = math.inf
    assert changed() == {"imitator"} and agent.n_policy_updates == 1


def test_environments_that_are_not_active_cost_no_draw() -> None:
    agent = make()
    obs = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    agent.batch_act(list(obs))
    torch.manual_seed(5)
    alone = agent.batch_act([obs[1]])
    agent.batch_act(list(obs))
    torch.manual_seed(5)
    some = agent.batch_act(list(obs), active=np.array([False, True, False]))
    np.testing.assert_array_equal(some[1], alone[0])
    before = torch.get_rng_state()
    agent.batch_act(list(obs), active=np.zeros(3, bool))
    assert torch.equal(before, torch.get_rng_state())


# Discrete


def test_likely_actions_are_so_many_times_as_probable_as_the_most_probable_one() -> None:
    distribution = Categorical(torch.tensor([[0.6, 0.3, 0.1]]).log())
    for threshold, expected in (
        (0.0, [True, True, True]), (0.4, [True, True, False]), (0.6, [True, False, False]), (1.0, [True, False, False]),
    ):  # fmt: skip
        assert likely_actions(distribution, threshold).tolist() == [expected]
    allowed = torch.tensor([[False, True, True]])
    assert likely_actions(distribution.masked(allowed), 0.3, allowed).tolist() == [[False, True, True]]
    assert likely_actions(distribution.masked(allowed), 0.5, allowed).tolist() == [[False, True, False]]
    assert likely_actions(distribution.masked(allowed), 0.0, allowed).tolist() == [[False, True, True]]


STEPS = Batch(OBS, torch.tensor([0, 0]), torch.tensor([1.0, 10.0]), OBS + 2, torch.tensor([0.5, 0.5]))


def discrete(action_flexibility: float, **options: Any) -> Any:
    imitator = Table([0.0, -0.5], Categorical)
    q_function = Table([1.0, 2.0])
    return make_discrete(
        q_function=q_function, imitator=imitator, action_flexibility=action_flexibility, clip_delta=False, **options
    )


def test_discrete_bcq_bootstraps_from_the_best_likely_action() -> None:
    # The ratio is exp(-s' / 2), 0.22 and 0.14, with s' = 3 and 4. Q(s, 0) = s; Q(s', .) = s', 2 s'.
    for threshold, target in ((0.1, [1 + 3.0, 10 + 4.0]), (0.2, [1 + 3.0, 10 + 2.0]), (0.3, [1 + 1.5, 10 + 2.0])):
        _, td_error, _ = discrete(action_flexibility=threshold).loss(STEPS)
        assert td_error.tolist() == pytest.approx([target[0] - 1, target[1] - 2])
    masked = STEPS.replace(next_action_mask=torch.tensor([[False, True], [True, True]]))
    assert discrete(0.3).loss(masked)[1].tolist() == pytest.approx([1 + 3.0 - 1, 10 + 2.0 - 2])


def test_the_losses_of_discrete_bcq_are_added() -> None:
    for beta in (0.5, 2.0):
        agent = discrete(0.1, beta=beta)
        loss, _, stats = agent.loss(STEPS)
        imitation = discrete_bc_loss(agent.imitator, STEPS, beta)[0]
        assert loss.item() == pytest.approx((0.5 * 9 + 0.5 * 144) / 2 + imitation.item())
        assert stats["imitator_loss"].item() == pytest.approx(imitation.item())


def test_discrete_bcq_acts_among_likely_and_allowed_actions() -> None:
    obs = np.array([3.0], np.float32)
    for threshold, expected in ((0.3, 0), (0.2, 1)):
        agent = discrete(threshold)
        with agent.eval_mode():
            assert agent.act(obs) == expected
            assert agent.act(obs, action_mask=[False, True]) == 1
            assert agent.act(obs, action_mask=[True, False]) == 0


# Parts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lam": 2}, "lam is 2"),
        ({"n_action_samples": 0}, "n_action_samples"),
        ({"action_flexibility": -1}, "action_flexibility is -1"),
        ({"beta": -1}, "beta is -1"),
        ({"rl_start_step": -1}, "rl_start_step is -1"),
        ({"recurrent": True}, "recurrent is True, but BCQ does not support recurrent networks"),
        ({"policy": nn.Sequential(nn.Linear(6, 2), nn.Tanh())}, "policy; .* ConcatObsAndAction"),
        ({"policy": nn.Sequential(ConcatObsAndAction(), nn.Linear(6, 2), SoftmaxCategoricalHead())}, "policy gives"),
        ({"imitator": nn.Linear(6, 2)}, "imitator is Linear, expected a pfrl_like.nn.ConditionalVAE"),
        ({"imitator": ConditionalVAE(nn.Linear(6, 6), of_pairs(7, 2), 3)}, "imitator.encoder .* ConcatObs"),
        ({"imitator": ConditionalVAE(of_pairs(6, 6), nn.Linear(7, 2), 3)}, "imitator.decoder.* ConcatObs"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make(**options).dry_run(ENV.observation_space.sample(), ENV.action_space)


def test_the_two_forms_refuse_each_others_actions() -> None:
    with pytest.raises(TypeError, match="BCQ has continuous actions, .* use DiscreteBCQ"):
        make().dry_run(ENV.observation_space.sample(), spaces.Discrete(2))
    with pytest.raises(TypeError, match="q_function gives DiscreteActionValue, which has discrete actions"):
        make_discrete().dry_run(Noise(ENV.action_space).observation_space.sample(), ENV.action_space)
    with pytest.raises(TypeError, match="imitator gives Tensor, expected Categorical"):
        make_discrete(imitator=nn.Linear(5, 2)).dry_run(np.zeros(5, np.float32))
    with pytest.raises(ValueError, match="recurrent is True, but DiscreteBCQ does not support recurrent networks"):
        make_discrete(recurrent=True)


@pytest.mark.parametrize("bootstrap", [False, True])
def test_an_ensemble_takes_the_place_of_the_critics(bootstrap: bool) -> None:
    torch.manual_seed(0)
    policy, vae = nn.Sequential(of_pairs(6, 2), nn.Tanh()), make_vae()
    ensemble = QFunctionEnsemble([make_critic() for _ in range(3)], bootstrap)
    optimizers = [torch.optim.Adam(part.parameters(), lr=1e-2) for part in (policy, ensemble, vae)]
    agent = BCQ(
        policy, ensemble, None, *optimizers[:2], None, MAKE_BUFFER["uniform"](capacity=100), 0.9,
        imitator=vae, imitator_optimizer=optimizers[2], n_action_samples=3, replay_start_size=10, minibatch_size=4,
    )  # fmt: skip
    before = [parameters(member) for member in ensemble.members]
    agent.update(make_batch())
    assert len(agent.critics) == 3 and agent._choice.critic is ensemble.members[0]
    assert not any(map(torch.equal, before, map(parameters, ensemble.members)))
    assert agent.act(np.zeros(4, np.float32)).shape == (2,)
