"""An update of several losses that breaks off half-way: the error says what was learnt before, and that is what was."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from actor_critic_parts import make_agent, make_batch, parameters
from agent_parts import make_agent as make_dqn
from agent_parts import make_batch as make_discrete_batch

from pfrl_like.errors import NonFiniteError
from pfrl_like.optimizers.gradient_step import StepsOfUpdate

NETWORKS = ("q_func1", "q_func2", "policy", "temperature_holder")


def poison(name: str) -> Callable[[Any], None]:
    """What makes a network give NaN."""

    def act(agent: Any) -> None:
        for param in getattr(agent, name).parameters():
            param.data.mul_(torch.nan)

    return act


def unreachable_entropy(agent: Any) -> None:
    """What makes the temperature's loss NaN, and no other."""
    agent.entropy_target = torch.nan


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize(
    ("kind", "spoil", "says", "n_made"),
    [
        (
            "TD3",
            poison("q_func1"),
            "q_func1_optimizer: the loss is .*; this step was not made, and no other step was made$",
            0,
        ),
        (
            "TD3",
            poison("q_func2"),
            "q_func2_optimizer: the loss is .*; the earlier steps of q_func1_optimizer were made$",
            1,
        ),
        (
            "TD3",
            poison("policy"),
            "policy_optimizer: the loss .*; the earlier steps of q_func1_optimizer and q_func2_optimizer were made$",
            2,
        ),
        (
            "SoftActorCritic",
            unreachable_entropy,
            "temperature_optimizer: the loss .*; the earlier steps of q_func1_opt.* and policy_optimizer were made$",
            3,
        ),
    ],
)
def test_the_error_says_what_was_learnt_before(kind: str, spoil: Any, says: str, n_made: int, compile: bool) -> None:
    agent = make_agent(kind, compile=compile)
    for seed in range(5):  # with and without the policy, each first as it is and then as a region
        agent.update(make_batch(seed))
    networks = [getattr(agent, name) for name in NETWORKS if hasattr(agent, name)]
    spoil(agent)
    before = [*map(parameters, networks)]
    with pytest.raises(NonFiniteError, match=says) as caught:
        agent.update(make_batch(9))
    after = [*map(parameters, networks)]
    moved = [not torch.equal(old.nan_to_num(), new.nan_to_num()) for old, new in zip(before, after, strict=True)]
    assert moved == [i < n_made for i in range(len(networks))]
    assert caught.value.name == "loss"
    assert agent.optim_t == 5


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("compile", [False, True])
def test_a_gradient_is_told_from_a_loss(compile: bool) -> None:
    agent = make_agent("DDPG", compile=compile)
    for seed in range(3):
        agent.update(make_batch(seed))
    agent.policy[0].weight.register_hook(lambda grad: grad * torch.nan)
    text = "actor_optimizer: the gradient .* of critic_optimizer were made"
    with pytest.raises(NonFiniteError, match=text) as caught:
        agent.update(make_batch(9))
    assert caught.value.name == "gradient"


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("compile", [False, True])
def test_of_a_single_optimiser_nothing_more_is_said(compile: bool) -> None:
    agent, batch = make_dqn(compile=compile), make_discrete_batch(0)
    for _ in range(3):
        agent.update(batch)
    with pytest.raises(NonFiniteError, match="^the loss is .*; this step was not made$"):
        agent.update(batch.replace(reward=batch.reward * torch.nan))


def test_the_name_of_no_optimizer_is_refused_with_those_there_are() -> None:
    agent = make_agent("TD3")
    step = StepsOfUpdate(agent.gradient_steps)
    with pytest.raises(ValueError, match="'policy', expected one of policy_optimizer, q_func1_optimizer"):
        step("policy", torch.zeros(()))
