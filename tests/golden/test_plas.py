"""PLAS with and without perturbation: actions, targets and losses worked out by hand, the arithmetic beside them."""

import functools
from typing import Any

import pytest
import torch
from actor_critic_parts import ENV, make_batch
from gymnasium import spaces
from hand_parts import Slope
from pair_base import sgd
from registry import arguments_of, made
from registry.constrained import of_pairs
from torch import nn

from pfrl_like.agents import PLAS, PLASWithPerturbation
from pfrl_like.agents.offline.plas import LatentPolicy
from pfrl_like.batch import Batch
from pfrl_like.nn import ConditionalVAE, Lambda
from pfrl_like.policies import DeterministicHead

make, make_perturbed = functools.partial(made, PLAS), functools.partial(made, PLASWithPerturbation)

OBS = torch.tensor([[1.0], [2.0]])
BATCH = Batch(OBS, torch.tensor([[0.5], [1.0]]), torch.tensor([1.0, 10.0]), OBS + 2, torch.tensor([0.5, 0.0]))

#: The latent number is half the bound; the action is a tenth of observation times latent number.
HALF = Lambda(lambda obs: torch.full_like(obs, 0.5))
TENTH = ConditionalVAE(nn.Identity(), Lambda(lambda pair: 0.1 * pair[0] * pair[1]), 1)
ONES = Lambda(lambda pair: torch.ones_like(pair[1]))


def test_actions_are_decoded_from_latent_vectors() -> None:
    for bound, expected in ((2.0, [0.1, 0.2]), (4.0, [0.2, 0.4])):
        action = LatentPolicy(HALF, TENTH, bound)(OBS).mode
        torch.testing.assert_close(action, torch.tensor(expected).unsqueeze(1))
    assert make(latent_bound=3.0)._latent_policy.bound == 3.0


def test_decoded_actions_are_perturbed() -> None:
    for scale, expected in ((0.25, [0.35, 0.45]), (0.85, [0.95, 1.0])):
        action = LatentPolicy(HALF, TENTH, 2.0, ONES, scale)(OBS).mode
        torch.testing.assert_close(action, torch.tensor(expected).unsqueeze(1))
    agent = make_perturbed(action_flexibility=0.3)
    for policy, network in (
        (agent._latent_policy, "perturbation"),
        (agent._target_latent_policy, "target_perturbation"),
    ):
        assert policy.scale == 0.3 and policy.perturbation is getattr(agent, network)


def test_the_target_is_the_soft_least_value_of_the_target_policys_action() -> None:
    # a' = 0.1 s' with s' = 3 and 4. Q = s' + a' and s' - 3 a': 3.3 and 2.1, 4.4 and 2.8.
    for lam, expected in ((1.0, [2.1, 2.8]), (0.75, [0.75 * 2.1 + 0.25 * 3.3, 0.75 * 2.8 + 0.25 * 4.4])):
        agent = make(lam=lam)
        agent._target_latent_policy = LatentPolicy(HALF, TENTH, 2.0)
        agent.target_q_func1, agent.target_q_func2 = Slope(1.0), Slope(-3.0)
        value, reward = agent.bootstrap(BATCH)
        torch.testing.assert_close(value.q_values, torch.tensor(expected).unsqueeze(1))
        assert reward is BATCH.reward


def test_the_policy_follows_the_first_critic() -> None:
    agent, losses = make(), []
    agent._latent_policy, agent.q_func1 = LatentPolicy(HALF, TENTH, 2.0), Slope(1.0)
    agent.policy_step(BATCH, lambda name, loss: losses.append((name, loss.item())))
    assert losses == [("policy_optimizer", pytest.approx(-(1.1 + 2.2) / 2))]


@pytest.mark.parametrize("kind", [PLAS, PLASWithPerturbation])
def test_the_imitator_learns_first_and_then_stays_as_it_is(kind: Any) -> None:
    agent, batch = made(kind, rl_start_step=2), make_batch()
    learning = {"policy", "q_func1", "q_func2", "perturbation"} & {*agent.saved_attributes}
    names = {*learning, "imitator", *(f"target_{name}" for name in learning)}

    def changed() -> set[str]:
        before = {name: [p.clone() for p in getattr(agent, name).parameters()] for name in names}
        agent.update(batch)
        return {
            name
            for name in names
            if not all(map(torch.equal, before[name], getattr(agent, name).parameters()))
        }  # fmt: skip

    assert [changed() for _ in range(3)] == [{"imitator"}, {"imitator"}, names - {"imitator"}]
    agent.rl_start_step = 10
    assert changed() == {"imitator"} and agent.n_policy_updates == 1


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (PLAS, {"lam": 2}, "lam is 2"),
        (PLAS, {"latent_bound": 0}, "latent_bound is 0"),
        (PLAS, {"rl_start_step": -1}, "rl_start_step is -1"),
        (PLAS, {"recurrent": True}, "recurrent is True, but PLAS does not support recurrent networks"),
        (PLAS, {"policy": nn.Sequential(nn.Linear(4, 1), nn.Tanh())}, r"policy gives .* \(1, 1\), expected \(1, 3\)"),
        (PLAS, {"policy": nn.Sequential(nn.Linear(4, 3), DeterministicHead())}, "policy gives DeltaVector"),
        (PLAS, {"imitator": nn.Linear(6, 2)}, "imitator is Linear, expected a pfrl_like.nn.ConditionalVAE"),
        (PLAS, {"imitator": ConditionalVAE(of_pairs(6, 6), nn.Linear(7, 2), 3)}, "imitator.decoder.* ConcatObs"),
        (PLASWithPerturbation, {"action_flexibility": -1}, "action_flexibility is -1"),
        (
            PLASWithPerturbation,
            {"policy_optimizer": sgd(nn.Linear(1, 1))},
            "policy_optimizer holds no parameter of policy",
        ),
    ],
)
def test_what_does_not_fit_is_refused(kind: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        made(kind, **options).dry_run(ENV.observation_space.sample(), ENV.action_space)


def test_a_perturbation_has_as_many_numbers_as_an_action_and_is_learnt_by_the_policys_optimizer() -> None:
    given = arguments_of(PLASWithPerturbation)
    perturbation = nn.Sequential(of_pairs(6, 1), nn.Tanh())
    with pytest.raises(ValueError, match="policy_optimizer holds no parameter of perturbation"):
        PLASWithPerturbation(**given | {"perturbation": perturbation})
    given["policy_optimizer"].add_param_group({"params": [*perturbation.parameters()]})
    agent = PLASWithPerturbation(**given | {"perturbation": perturbation})
    with pytest.raises(ValueError, match=r"perturbation gives shape \(1, 1\) for actions of \(1, 2\)"):
        agent.dry_run(ENV.observation_space.sample())


def test_discrete_actions_are_refused() -> None:
    with pytest.raises(TypeError, match="PLAS has continuous actions, .* use DiscreteBCQ"):
        make().dry_run(ENV.observation_space.sample(), spaces.Discrete(2))
