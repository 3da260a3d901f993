"""What `OffPolicyAgent` offers an algorithm of several modules and optimisers, shown by a small actor-critic."""

import copy
import functools
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pfrl_like.agents import OffPolicyAgent
from pfrl_like.batch import Batch
from pfrl_like.envs.abc import ABC
from pfrl_like.errors import NonFiniteError
from pfrl_like.explorer import select_actions
from pfrl_like.explorers import AdditiveGaussian
from pfrl_like.functions.losses import huber, td_target, weighted_mean
from pfrl_like.nn import ConcatObsAndAction
from pfrl_like.policies import DeterministicHead
from pfrl_like.replay_buffers import PrioritizedReplayBuffer, ReplayBuffer
from pfrl_like.testing import check_agent
from pfrl_like.testing.play import play_one
from pfrl_like.utils.batch_states import batch_states
from pfrl_like.utils.copy_param import frozen_copy

ENV = ABC(size=2, discrete=False)  # observations [4], actions [2]
OPTIONS: dict[str, Any] = dict(
    gpu=None, device=None, replay_start_size=8, minibatch_size=4, update_interval=1, target_update_interval=1,
    phi=None, target_update_method="soft", soft_update_tau=0.1, n_times_update=1, batch_accumulator="mean",
    episodic_update_len=None, logger=logging.getLogger(__name__), batch_states=batch_states, recurrent=False,
    max_grad_norm=None, num_steps=1, burn_in=0, compile=False,
)  # fmt: skip


class ActorCritic(OffPolicyAgent):
    """Deterministic policy gradient, in which the policy learns in every second update."""

    saved_attributes = (
        "policy", "q_function", "target_policy", "target_q_function", "policy_optimizer", "q_optimizer",
    )  # fmt: skip
    acting_attributes = ("policy",)
    acting_argument = "policy"
    value_type = torch.distributions.Distribution
    target_attributes = ("policy", "q_function")
    averaged_updates = ("loss", "policy_loss")

    def __init__(self, policy: nn.Module, q_function: nn.Module, buffer: Any, optimizers: Any, **options: Any) -> None:
        modules = {"policy": policy, "q_function": q_function}
        explorer = AdditiveGaussian(0.1, low=-1.0, high=1.0)
        super().__init__(modules, optimizers, buffer, 0.9, explorer, **{**OPTIONS, **options})
        self.policy, self.q_function = policy, q_function
        self.target_policy, self.target_q_function = frozen_copy(policy), frozen_copy(q_function)
        self.policy_optimizer, self.q_optimizer = optimizers["policy_optimizer"], optimizers["q_optimizer"]

    def select_actions(self, obs: Any, action_mask: Any, active: Any) -> Any:
        actions = self._value(obs, active).mean.cpu().numpy()
        return select_actions(self.explorer, self.t, actions, None, active) if self.training else actions

    def learn(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        with torch.no_grad():
            next_action = self.target_policy(batch.next_obs).mean
            target = td_target(batch.reward, batch.discount, self.target_q_function((batch.next_obs, next_action)))
        q = self.q_function((batch.obs, batch.action))
        loss = weighted_mean(huber(target - q), batch.weight)
        self.gradient_steps["q_optimizer"](loss)
        stats = {"loss": loss.detach(), "q": q.detach()}
        if self.optim_t % 2 == 1:
            policy_loss = -self.q_function((batch.obs, self.policy(batch.obs).mean)).mean()
            self.gradient_steps["policy_optimizer"](policy_loss)
            stats["policy_loss"] = policy_loss.detach()
        return (target - q).detach(), stats


def make_actor_critic(buffer: Any = ReplayBuffer, normalised: bool = False, **options: Any) -> ActorCritic:
    norms = [nn.BatchNorm1d(8)] if normalised else []
    policy = nn.Sequential(nn.Linear(4, 8), *copy.deepcopy(norms), nn.Tanh(), nn.Linear(8, 2), DeterministicHead())
    q_function = nn.Sequential(ConcatObsAndAction(), nn.Linear(6, 8), *norms, nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0))
    optimizers = {
        "policy_optimizer": torch.optim.Adam(policy.parameters(), lr=0.01),
        "q_optimizer": torch.optim.Adam(q_function.parameters(), lr=0.01),
    }
    return ActorCritic(policy, q_function, buffer(1_000), optimizers, **options)


def make_batch(n: int = 4) -> Batch:
    obs, next_obs = torch.randn(2, n, 4)
    return Batch(obs, torch.rand(n, 2), torch.randn(n), next_obs, torch.full((n,), 0.9))


def parameters(module: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(module.parameters()).detach().clone()


@pytest.mark.parametrize(("buffer", "normalised"), [(ReplayBuffer, False), (PrioritizedReplayBuffer, True)])
def test_it_keeps_the_contracts(buffer: Any, normalised: bool) -> None:
    check_agent(functools.partial(make_actor_critic, buffer, normalised), ENV)


def test_learn_takes_the_place_of_the_loss_and_moves_what_it_says() -> None:
    agent, batch = make_actor_critic(), make_batch()
    moved = []
    for _ in range(2):
        before = {name: parameters(getattr(agent, name)) for name in ("policy", "q_function")}
        agent.update(batch)
        moved.append([not torch.equal(before[name], parameters(getattr(agent, name))) for name in before])
    assert moved == [[False, True], [True, True]]


def test_means_are_kept_of_the_statistics_that_came() -> None:
    agent, batch = make_actor_critic(), make_batch()
    assert [name for name, _ in agent.get_statistics()][:3] == ["average_q", "average_loss", "average_policy_loss"]
    came = [agent.update(batch)[1] for _ in range(3)]
    average = dict(agent.get_statistics())
    assert [sorted(stats) for stats in came] == [["loss", "q"], ["loss", "policy_loss", "q"], ["loss", "q"]]
    assert average["average_loss"] == pytest.approx(np.mean([stats["loss"] for stats in came]))
    assert average["average_policy_loss"] == pytest.approx(came[1]["policy_loss"].item())
    assert len(agent.q_record) == 3 * 4  # type: ignore[attr-defined]


def test_every_target_network_follows_the_network_of_its_name() -> None:
    agent = make_actor_critic()
    before = [parameters(agent.target_policy), parameters(agent.target_q_function)]
    for param in (*agent.policy.parameters(), *agent.q_function.parameters()):
        param.data.add_(1.0)
    agent.sync_target_network()
    after = [parameters(agent.target_policy), parameters(agent.target_q_function)]
    for old, new in zip(before, after, strict=True):
        torch.testing.assert_close(new, old + 0.1)  # tau = 0.1 of the way


def test_a_refused_update_leaves_the_moments_of_all_modules_alone() -> None:
    agent, batch = make_actor_critic(normalised=True), make_batch()
    agent.update(batch)
    before = copy.deepcopy(agent.state_dict())
    with pytest.raises(NonFiniteError):
        agent.update(batch.replace(reward=batch.reward * torch.nan))
    for name in ("policy", "q_function"):
        now = getattr(agent, name).state_dict()
        assert all(torch.equal(value, now[key]) for key, value in before["attributes"][name].items())


def test_a_loaded_agent_learns_on_as_the_saved_one(tmp_path: Path) -> None:
    agent, other, batch = make_actor_critic(), make_actor_critic(), make_batch()
    agent.update(batch)
    agent.save(str(tmp_path))
    other.load(str(tmp_path))
    for one in (agent, other):
        one.update(batch)  # now the policy learns, too, in both
    assert other.get_statistics()[:5] == agent.get_statistics()[:5]
    for name in ("policy", "q_function"):
        assert torch.equal(parameters(getattr(agent, name)), parameters(getattr(other, name)))


def test_an_acting_copy_has_the_policy_and_nothing_to_learn_with() -> None:
    agent = make_actor_critic(normalised=True)
    acting = agent.acting_copy()
    obs = [np.ones(4, np.float32)]
    with agent.eval_mode():
        expected = agent.batch_act(obs)
    acting.training = False
    np.testing.assert_array_equal(acting.batch_act(obs), expected)
    held = [name for name, value in vars(acting).items() if isinstance(value, nn.Module | torch.optim.Optimizer)]
    assert held == ["policy"]
    assert acting.policy is not agent.policy
    assert "BatchNorm" not in str(vars(acting) | {"policy": None})


def test_actors_act_by_the_policy_of_the_learner() -> None:
    agent = make_actor_critic()
    make_actor, learner, poller, failure = agent.setup_actor_learner_training(1, n_updates=16)
    poller.start()
    learner.start()
    actor = make_actor(0)
    first = parameters(actor.acting.policy)
    play_one(actor, ENV, 30)
    actor.get_statistics()  # with this all steps have come
    learner.join(10)
    with actor.eval_mode():
        acting = parameters(actor.acting.policy)
    actor.close()
    poller.stop()
    poller.join(10)
    assert (agent.optim_t, agent.t, len(agent.replay_buffer), failure.is_set()) == (16, 30, 30, False)
    assert torch.equal(acting, parameters(agent.policy))  # they are renewed after every 8 updates
    assert not torch.equal(acting, first)


def test_what_cannot_be_compiled_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"compile is True, but ActorCritic defines learn\(batch\) and not update_step"
    ):
        make_actor_critic(compile=True)


def test_errors_name_the_argument() -> None:
    agent = make_actor_critic()
    with pytest.raises(ValueError, match="obs does not fit policy"):
        agent.act(np.zeros(3, np.float32))
    agent.policy = nn.Linear(4, 2)
    with pytest.raises(TypeError, match="policy gives a Tensor, expected one that gives a Distribution"):
        agent.act(np.zeros(4, np.float32))
    agent = make_actor_critic()
    strange = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    optimizers = {"policy_optimizer": agent.policy_optimizer, "q_optimizer": strange}
    with pytest.raises(ValueError, match=r"q_optimizer holds no parameter of policy or q_function"):
        ActorCritic(agent.policy, agent.q_function, ReplayBuffer(100), optimizers)
    with pytest.raises(TypeError, match="q_function is 3"):
        ActorCritic(agent.policy, 3, ReplayBuffer(100), optimizers)  # type: ignore[arg-type]
