"""Attributes that are set after construction count from the next step; errors of `phi` stay as they are."""

import functools
from typing import Any

import actor_critic_parts
import agent_parts
import numpy as np
import pytest
import torch
from async_parts import make_a3c
from on_policy_parts import ON_POLICY, make_on_policy

from pfrl_like.agents import DQN
from pfrl_like.explorers import Greedy
from pfrl_like.optimizers.compiled_step import CompiledStep
from pfrl_like.utils.batch_states import batch_states

MAKE = {
    "DQN": agent_parts.make_agent,
    **{name: functools.partial(actor_critic_parts.make_agent, name) for name in ("DDPG", "TD3", "SoftActorCritic")},
    **{name: functools.partial(make_on_policy, name) for name in ON_POLICY},
}
OFF_POLICY = [name for name in MAKE if name not in ON_POLICY]


def learn(name: str, agent: Any) -> None:
    """Make one update of an off-policy agent, or as many steps as an on-policy agent needs for an update."""
    if name not in ON_POLICY:
        agent.update((agent_parts if name == "DQN" else actor_critic_parts).make_batch(0))
        return
    for i in range(10):
        agent.act(np.full(5, i, np.float32) / 10)
        agent.observe(np.full(5, i + 1, np.float32) / 10, 1.0, False, i == 9)


def optimizers_of(agent: Any) -> list[str]:
    return [name for name in agent.gradient_steps if "temperature" not in name]


def parameters_of(agent: Any, optimizer: str) -> list[torch.Tensor]:
    return [param for group in getattr(agent, optimizer).param_groups for param in group["params"]]


def with_new_optimizers(name: str, lr: float) -> Any:
    """An agent that has learnt, and gets other optimisers then."""
    agent: Any = MAKE[name]()
    learn(name, agent)
    for optimizer in optimizers_of(agent):
        setattr(agent, optimizer, torch.optim.SGD(parameters_of(agent, optimizer), lr=lr))
    return agent


@pytest.mark.parametrize("name", MAKE)
def test_an_optimiser_that_is_set_later_makes_the_next_steps(name: str) -> None:
    agent = with_new_optimizers(name, lr=0.0)
    before = [param.clone() for optimizer in optimizers_of(agent) for param in parameters_of(agent, optimizer)]
    learn(name, agent)
    after = [param for optimizer in optimizers_of(agent) for param in parameters_of(agent, optimizer)]
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize("name", ["DQN", "SoftActorCritic", "PPO", "A2C", "REINFORCE"])
def test_a_bound_of_the_gradient_that_is_set_later_counts(name: str) -> None:
    agent = with_new_optimizers(name, lr=1.0)
    agent.max_grad_norm = 1e-7
    before = [param.clone() for param in parameters_of(agent, optimizers_of(agent)[0])]
    learn(name, agent)
    after = parameters_of(agent, optimizers_of(agent)[0])
    assert max(float((old - new).detach().abs().max()) for old, new in zip(before, after, strict=True)) < 1e-5


def test_a_compiled_update_is_made_again_with_the_new_parts() -> None:
    agent: Any = agent_parts.make_agent()
    agent._compiled = CompiledStep(agent.update_step, {"optimizer": agent.optimizer})
    agent._compiled.trail = 3
    agent.optimizer = torch.optim.SGD(agent.model.parameters(), lr=0.5)
    agent.max_grad_norm = 0.25
    compiled = agent._compiled
    assert (compiled.optimizers, compiled.max_grad_norm, compiled.trail) == ({"optimizer": agent.optimizer}, 0.25, 3)


@pytest.mark.parametrize("name", ["DQN", "PPO", "A3C"])
def test_phi_and_batch_states_that_are_set_later_count_from_the_next_step(name: str) -> None:
    agent: Any = make_a3c() if name == "A3C" else MAKE[name]()
    obs, seen = np.ones(5, np.float32), []

    def phi(obs: Any) -> Any:
        seen.append("phi")
        return obs

    def collate(states: Any, device: Any, phi: Any) -> Any:
        seen.append("batch_states")
        return batch_states(states, device, phi)

    agent.act(obs)
    agent.phi = phi
    agent.act(obs)
    assert set(seen) == {"phi"}
    agent.batch_states = collate
    agent.act(obs)
    assert {*seen} == {"phi", "batch_states"}
    agent.phi = None
    seen.clear()
    agent.act(obs)
    assert set(seen) == {"batch_states"}


def test_the_minibatch_of_a_replay_agent_goes_through_the_new_phi() -> None:
    agent: Any = agent_parts.make_agent()
    agent.update(agent_parts.make_batch(0))
    agent.phi = lambda obs: obs * 0
    found = []
    agent.augment = lambda batch: found.append(batch) or batch
    agent.update(agent_parts.make_batch(0))
    assert not found[0].obs.any() and not found[0].next_obs.any()


def test_numbers_and_explorer_that_are_set_later_count() -> None:
    agent: Any = agent_parts.make_agent(replay_start_size=4)
    obs = np.ones(5, np.float32)
    agent.gamma, agent.minibatch_size, agent.explorer = 0.5, 3, Greedy()
    found = []
    agent.augment = lambda batch: found.append(batch) or batch
    for _ in range(5):
        greedy = int(agent.model(torch.ones(1, 5)).greedy_actions)
        assert agent.act(obs) == greedy
        agent.observe(obs, 1.0, False, False)
    assert found[-1].discount.tolist() == [0.5] * 3


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("phi", 3, TypeError, "phi is 3, expected a function"),
        ("batch_states", None, TypeError, "batch_states is None, expected a function"),
        ("max_grad_norm", 0, ValueError, "max_grad_norm is 0, expected a positive number or None"),
        ("optimizer", None, TypeError, "optimizer is None .*, expected a torch.optim.Optimizer"),
        ("optimizer", torch.optim.SGD([torch.ones(1)]), ValueError, "optimizer holds no parameter of model: constr"),
    ],
)
@pytest.mark.parametrize("kind", ["DQN", "PPO"])
def test_what_does_not_fit_is_refused_and_the_old_value_stays(
    kind: str, name: str, value: Any, error: type[Exception], message: str
) -> None:
    agent: Any = MAKE[kind]()
    before = getattr(agent, name)
    with pytest.raises(error, match=message):
        setattr(agent, name, value)
    assert getattr(agent, name) is before


@pytest.mark.parametrize("name", ["DDPG", "TD3", "SoftActorCritic"])
def test_an_optimiser_that_the_agent_does_not_have_is_refused(name: str) -> None:
    agent: Any = MAKE[name]()
    names = " or ".join(optimizers_of(agent))
    with pytest.raises(AttributeError, match=f"{name} has no optimizer, expected {names}.* another name"):
        agent.optimizer = torch.optim.SGD(agent.policy.parameters(), lr=1.0)
    assert not hasattr(agent, "optimizer")
    with pytest.raises(AttributeError, match=f"{name} has no attribute 'optimizer'"):
        agent.optimizer  # noqa: B018


class Unfinished(DQN):
    """An agent whose constructor does not call the constructor of its base class."""

    def __init__(self) -> None:
        self.model = None


@pytest.mark.parametrize("name", ["phi", "batch_states", "max_grad_norm", "optimizer"])
def test_an_agent_without_the_constructor_of_its_base_class_says_so(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}': Unfinished.__init__ must call super"):
        getattr(Unfinished(), name)


class Mistake(KeyError):
    """A mistake of a user's `phi`."""


def failing(obs: Any) -> Any:
    if obs[0] > 4:
        raise Mistake("no such key")
    return obs


@pytest.mark.parametrize("name", ["DQN", "PPO", "A3C"])
def test_a_mistake_in_phi_comes_as_it_is_with_the_observation(name: str) -> None:
    agent: Any = make_a3c() if name == "A3C" else MAKE[name]()
    agent.phi = failing
    good = np.ones(5, np.float32)
    agent.act(good)
    for call in (agent.act, agent.dry_run):
        with pytest.raises(Mistake, match="no such key") as raised:
            call(good * 5)
        assert raised.value.__notes__ == ["phi raised this for observation 0 of 1: (5,) of float32"]
        assert raised.traceback[-1].name == "failing"


def test_a_mistake_in_phi_during_an_update_comes_as_it_is() -> None:
    agent: Any = agent_parts.make_agent(phi=failing)
    for i in range(9):
        agent.act(np.full(5, i // 3, np.float32))
        agent.observe(np.full(5, i // 3, np.float32), 1.0, False, False)
    agent.act(np.ones(5, np.float32))
    with pytest.raises(Mistake) as raised:
        for _ in range(20):
            agent.observe(np.full(5, 9, np.float32), 1.0, False, False)
    assert "phi raised this for observation" in raised.value.__notes__[0]
