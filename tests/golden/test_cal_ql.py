"""Cal-QL: bounds of the conservative term worked out by hand, the arithmetic beside them."""

import functools
import math
from typing import Any

import pytest
import torch
from actor_critic_parts import make_batch
from hand_parts import with_nothing_after
from registry import made
from torch import Tensor

from pfrl_like.agents import CQL, CalQL
from pfrl_like.agents.offline.future_returns import future_returns
from pfrl_like.batch import Batch, Continuation
from pfrl_like.replay_buffers import HindsightReplayBuffer

make = functools.partial(made, CalQL, n_action_samples=3)


def test_returns_are_those_to_the_end_and_go_on_with_a_value_where_it_was_cut_off() -> None:
    obs = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    batch = Batch(obs, obs, torch.tensor([1.0, 2.0, 3.0, 4.0]), 10 * obs, torch.tensor([0.5, 0.5, 0.5, 0.0]))
    # After the first row come steps 0 and 1, the end; after the second step 2, cut off; after the others none.
    continuation = Continuation(
        first=torch.tensor([0, 2, -1, -1]), reward=torch.tensor([8.0, 16.0, 32.0]),
        discount=torch.tensor([0.5, 0.0, 0.5]), next_obs=torch.tensor([[7.0], [7.0], [100.0]]),
        after=torch.tensor([1, -1, -1]), cut=torch.tensor([2]),
    )  # fmt: skip
    seen: list[float] = []

    def value(states: Tensor) -> Tensor:
        seen.extend(states.flatten().tolist())
        return states.flatten()

    returns = future_returns(batch.replace(continuation=continuation), value, 1.0)
    # 1 + (8 + 16 / 2) / 2, 2 + (32 + 100 / 2) / 2, 3 + 30 / 2, 4
    assert returns.tolist() == [9.0, 43.0, 18.0, 4.0]
    assert seen == [10.0, 20.0, 30.0, 40.0, 100.0]  # no others are asked for


@pytest.mark.parametrize("lambd", [0.5, 1.0])
def test_a_device_is_not_waited_for_to_make_returns(lambd: float) -> None:
    number, places = torch.ones(3), torch.tensor([1, 2, -1])
    continuation = Continuation(places, number, number, torch.ones(3, 1), places, places[1:2])
    batch = Batch(torch.ones(3, 1), number, number, torch.ones(3, 1), number, continuation=continuation)
    returns = future_returns(batch.to("meta"), lambda obs: obs.sum(1), lambd)  # without numbers to copy to the host
    assert returns.shape == (3,)


def test_the_policys_actions_count_at_least_the_return() -> None:
    agent, returns = make(), torch.tensor([1.0, -5.0])
    batch = make_batch(n=2).replace(returns=returns)
    values = torch.arange(-9.0, 9.0).view(9, 2)  # of each row 6 of the policy, then 3 uniform ones
    bounded = agent._sampled_action_values(values, batch)
    assert bounded[:, 0].tolist() == [1, 1, 1, 1, 1, 1, 3, 5, 7]
    assert bounded[:, 1].tolist() == [-5, -5, -4, -2, 0, 2, 4, 6, 8]


def test_with_low_returns_it_is_cql_and_high_ones_take_the_gradient_from_the_policys_actions() -> None:
    losses = {}
    for name, kind, returns in (("cql", CQL, 0.0), ("low", CalQL, -1e6), ("high", CalQL, 50.0)):
        agent = made(kind, n_action_samples=3, alpha_threshold=None, initial_alpha=1.0)
        batch = make_batch().replace(returns=torch.full((8,), returns))
        torch.manual_seed(1)
        losses[name] = torch.stack([loss for loss, _, _ in agent.critic_losses(batch)])
    torch.testing.assert_close(losses["low"], losses["cql"])
    assert (losses["high"] > losses["cql"] + 10).all()
    values = torch.zeros(9, 8, requires_grad=True)
    agent._sampled_action_values(values, batch).sum().backward()
    assert values.grad is not None and values.grad[:, 0].tolist() == [0] * 6 + [1] * 3


def test_an_update_makes_the_returns_of_the_targets() -> None:
    agent, batch = make(), with_nothing_after(make_batch())
    seen: list[Any] = []
    bounds = agent._sampled_action_values

    def watched(values: Tensor, rows: Batch) -> Any:
        seen.append(rows.returns)
        return bounds(values, rows)

    agent._sampled_action_values = watched
    torch.manual_seed(1)
    action = agent.policy(batch.next_obs).sample()
    least = torch.minimum(*(critic((batch.next_obs, action)).squeeze(1) for critic in agent.target_critics))
    torch.manual_seed(1)
    agent.update(batch)
    torch.testing.assert_close(seen[0], batch.reward + 0.9 * least)


def test_a_horizon_cuts_returns_short() -> None:
    assert make().sampling == {"continuation": math.inf} and make(horizon=5).sampling == {"continuation": 5}
    with pytest.raises(ValueError, match="horizon"):
        make(horizon=0)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"batch lacks continuation .* continuation=math.inf"):
        make().update(make_batch())
    with pytest.raises(ValueError, match="recurrent is True, but CalQL does not support recurrent networks"):
        make(recurrent=True)
    with pytest.raises(TypeError, match="replay_buffer is HindsightReplayBuffer, which cannot return the steps after"):
        make(replay_buffer=HindsightReplayBuffer(100, lambda achieved, desired, info: None))


def test_features_are_made_of_the_future_too() -> None:
    agent, batch = make(phi=lambda obs: 2 * obs), make_batch(n=2)
    continuation = Continuation(
        torch.tensor([0, -1]), torch.ones(1), torch.full((1,), 0.9), batch.obs[:1], *torch.tensor([[-1], [0]])
    )
    ready = agent._prepare(batch.replace(continuation=continuation))
    torch.testing.assert_close(ready.continuation.next_obs, 2 * batch.obs[:1])
