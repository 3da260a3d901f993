"""Advantage-weighted regression: returns, losses and weights worked out by hand, the arithmetic beside them."""

import functools
import math
from typing import Any

import numpy as np
import pytest
import torch
from actor_critic_parts import ENV, make_batch, make_policy
from hand_parts import with_nothing_after
from registry import made
from torch import nn

from pfrl_like import agents
from pfrl_like.agents.offline.awr import awr_value_loss, select_sequences, td_lambda_returns
from pfrl_like.batch import Batch, Continuation
from pfrl_like.dataset import MDPDataset
from pfrl_like.errors import NonFiniteError
from pfrl_like.functions import lambda_returns, linked_lambda_returns, rows_after
from pfrl_like.nn import Lambda
from pfrl_like.policies import SoftmaxCategoricalHead
from pfrl_like.replay_buffers import EpisodicReplayBuffer, HindsightReplayBuffer, ReplayBuffer

make = functools.partial(made, agents.AWR)


# What comes after a step


def recorded() -> MDPDataset:
    """Episodes of 3 steps, terminated, and of 4, cut off; observation and reward are the number of the step."""
    number = np.arange(7.0)
    following = np.where(number == 2, 20.0, np.where(number == 6, 70.0, number + 1))
    return MDPDataset.from_arrays(
        number[:, None].astype(np.float32), np.zeros((7, 1)), number, number == 2, number == 6,
        following[:, None].astype(np.float32),
    )  # fmt: skip


def buffered(kind: Any = ReplayBuffer, **options: Any) -> ReplayBuffer:
    """The same in a buffer, with the second episode still running."""
    buffer: ReplayBuffer = kind(100, **options)
    for i in range(7):
        following = {2: 20.0, 6: 70.0}.get(i, i + 1.0)
        buffer.append(np.float32([i]), np.float32([0]), float(i), np.float32([following]), is_state_terminal=i == 2)
    return buffer


def told(continuation: Continuation, row: int) -> list[tuple[float, float, float]]:
    """Reward, discount and next observation of the steps that come after a row."""
    found, at = [], int(continuation.first[row])
    columns = continuation.reward, continuation.discount, continuation.next_obs
    while at >= 0:
        found.append(tuple(values[at].item() for values in columns))
        at = int(continuation.after[at])
    return found


@pytest.mark.parametrize("stored", [False, True])
def test_the_future_are_the_steps_up_to_the_episodes_end(stored: bool) -> None:
    if stored:
        batch = buffered().sample_batch(7, 0.5, continuation=math.inf)
        batch = batch[batch.obs.flatten().argsort()]
    else:
        batch = recorded().batch(np.arange(7), 0.5, continuation=math.inf)
    assert batch.continuation is not None and len(batch.continuation.reward) == 5  # all but the first steps, each once
    steps = [(1, 0.5, 2), (2, 0, 20), (4, 0.5, 5), (5, 0.5, 6), (6, 0.5, 70)]
    for row, expected in enumerate([steps[:2], steps[1:2], [], steps[2:], steps[3:], steps[4:], []]):
        assert told(batch.continuation, row) == expected
    some = batch[torch.tensor([3, 0])]
    assert told(some.continuation, 0) == steps[2:] and told(some.continuation, 1) == steps[:2]


def test_the_future_of_an_item_begins_after_its_last_step() -> None:
    batch = recorded().batch(np.array([0, 2, 3, 5]), 0.5, num_steps=2, continuation=math.inf)
    expected: list[Any] = [[(2, 0, 20)], [], [(5, 0.5, 6), (6, 0.5, 70)], []]
    assert [told(batch.continuation, row) for row in range(4)] == expected
    buffer = buffered(num_steps=2)
    buffer.stop_current_episode()
    sampled = buffer.sample_batch(7, 0.5, continuation=math.inf)
    sampled = sampled[sampled.obs.flatten().argsort()][torch.tensor([0, 2, 3, 5])]
    assert [told(sampled.continuation, row) for row in range(4)] == expected


def test_a_horizon_ends_the_future() -> None:
    dataset = recorded()
    for horizon, lengths in ((1, [1, 1]), (2, [2, 2]), (9, [2, 3])):
        continuation = dataset.batch(np.array([0, 3]), 0.5, continuation=horizon).continuation
        assert [len(told(continuation, row)) for row in range(2)] == lengths
    none = dataset.batch(np.array([2, 6]), 0.5, continuation=9).continuation
    assert none.first.tolist() == [-1, -1] and none.next_obs.shape == (0, 1)
    assert dataset.batch(np.array([0])).continuation is None


def test_the_future_of_images_is_stacked_as_they_are() -> None:
    images = np.arange(5, dtype=np.uint8)[:, None, None, None] * np.ones((1, 1, 2, 2), np.uint8)
    dataset = MDPDataset(images, np.zeros((5, 1)), np.zeros(5), np.arange(5) == 4, reward_convention="next_row")
    batch = dataset.batch(np.array([0, 2]), n_frames=2, continuation=math.inf)
    assert batch.continuation.next_obs[:, :, 0, 0].sort(0)[0].tolist() == [[1, 2], [2, 3], [3, 4]]


def test_a_value_function_of_something_else_is_refused() -> None:
    batch = recorded().sample_batch(7, 0.5, continuation=math.inf)
    with pytest.raises(ValueError, match=r"v_func returns shape \(7, 2\) for 7 rows, expected a tensor"):
        td_lambda_returns(nn.Linear(1, 2), batch, 0.9)


def test_hindsight_knows_no_future() -> None:
    buffer = HindsightReplayBuffer(10, lambda achieved, desired, info: np.zeros(len(achieved)))
    with pytest.raises(ValueError, match="continuation: got 3, expected 0"):
        buffer.sample_batch(0, continuation=3)
    policy, v_func = make_policy("fixed gaussian"), nn.Linear(4, 1)
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.1) for part in (policy, v_func)]
    with pytest.raises(TypeError, match="replay_buffer is HindsightReplayBuffer, which cannot return the steps after"):
        agents.AWR(policy, v_func, *optimizers, buffer, 0.9, replay_start_size=5, minibatch_size=5)


def test_a_step_without_next_observation_is_refused_in_the_future_too() -> None:
    buffer = ReplayBuffer(10)
    buffer.append(np.float32([0]), 0, 0.0, np.float32([1]))
    buffer.append(np.float32([1]), 0, 0.0, None)
    with pytest.raises(ValueError, match="next_state: got None for a step that is not terminal"):
        buffer._columns.batch(np.array([buffer._ring[0]]), np.array([0]), None, 1, 0.5, "cpu", continuation=3)


# Returns

VALUE = Lambda(lambda obs: 2 * obs)


def test_returns_reach_to_the_end_of_the_episode() -> None:
    batch = recorded().batch(np.arange(7), 0.5, continuation=math.inf)
    # lam 1, gamma 1/2, V(s) = 2 s: 0 + 1/2 + 2/4, 1 + 2/2, 2; then 6 + 140/2 = 76, 5 + 76/2, 4 + 43/2, 3 + 25.5/2
    assert td_lambda_returns(VALUE, batch, 1.0).tolist() == [1.0, 2.0, 2.0, 15.75, 25.5, 43.0, 76.0]
    # lam 0: r + V(s')/2
    assert td_lambda_returns(VALUE, batch, 0.0).tolist() == [1.0, 3.0, 2.0, 7.0, 9.0, 11.0, 76.0]
    # lam 1/2: r + (V(s') + G')/4 within the episode; 6 + 70, 5 + (12 + 76)/4, 4 + (10 + 27)/4, 3 + (8 + 13.25)/4
    # and 2, 1 + (4 + 2)/4, 0 + (2 + 2.5)/4
    expected = [1.125, 2.5, 2.0, 8.3125, 13.25, 27.0, 76.0]
    assert td_lambda_returns(VALUE, batch, 0.5).tolist() == expected
    agent = make(lam=0.5, v_func=nn.Sequential(nn.Linear(1, 1)), policy=nn.Sequential(nn.Linear(1, 1), *HEAD))
    with torch.no_grad():
        agent.v_func[0].weight.fill_(2.0), agent.v_func[0].bias.zero_()
    error, _ = agent.update(batch)
    torch.testing.assert_close(error, torch.tensor(expected) - 2 * torch.arange(7.0))


HEAD = [make_policy("fixed gaussian")[-1]]


def test_returns_of_several_steps_go_on_where_these_end() -> None:
    batch = recorded().batch(np.arange(7), 0.5, num_steps=2, continuation=math.inf)
    assert td_lambda_returns(VALUE, batch, 1.0).tolist() == [1.0, 2.0, 2.0, 15.75, 25.5, 43.0, 76.0]
    # 0 + 1/2 + (V(2) + G(2))/8, 1 + 2/2, 2; 3 + 4/2 + (10 + G(5))/8, with G(5) = 5 + 6/2 + 140/4
    first = td_lambda_returns(VALUE, batch, 0.5)[:4]
    assert first.tolist() == [0.5 + 0.5 * 0.25 * (4 + 2), 2.0, 2.0, 5 + 0.25 * (0.5 * 10 + 0.5 * 27)]


def test_a_horizon_cuts_returns_short() -> None:
    batch = recorded().batch(np.array([3]), 0.5, continuation=1)
    assert td_lambda_returns(VALUE, batch, 1.0).tolist() == [3 + 4 / 2 + 2 * 5 / 4]
    assert make(horizon=7).sampling == {"continuation": 7} and make().sampling == {"continuation": math.inf}
    with pytest.raises(ValueError, match="horizon is 7, expected None with recurrent=True"):
        make(horizon=7, recurrent=True)


def test_returns_of_sequences_end_with_them() -> None:
    # Two sequences, of three steps, terminal, and of one; packed: a0 b0 a1 a2.
    lengths = torch.tensor([3, 1])
    obs = torch.tensor([[0.0], [3.0], [1.0], [2.0]])
    batch = Batch(obs, obs, obs.squeeze(1), obs + 1, torch.tensor([0.5, 0.5, 0.5, 0.0]), lengths=lengths)
    network = nn.Linear(1, 1)
    with torch.no_grad():
        network.weight.fill_(2.0), network.bias.zero_()
    assert td_lambda_returns(network, batch, 1.0).tolist() == [1.0, 7.0, 2.0, 2.0]
    assert rows_after(lengths).tolist() == [2, -1, 3, -1]


def test_linked_returns_are_those_of_a_column() -> None:
    g = torch.Generator().manual_seed(0)
    reward, discount, next_value = torch.rand(3, 50, generator=g)
    continues = torch.rand(50, generator=g) < 0.9
    after = torch.where(continues & (torch.arange(50) < 49), torch.arange(1, 51), -1)
    order = torch.randperm(50, generator=g)
    place = torch.empty(51, dtype=torch.int64)
    place[order], place[-1] = torch.arange(50), -1
    linked = linked_lambda_returns(reward[order], discount[order], next_value[order], place[after[order]], 0.9)
    torch.testing.assert_close(linked, lambda_returns(reward, discount, next_value, continues, 0.9)[order])


def test_awr_says_what_a_batch_lacks() -> None:
    with pytest.raises(ValueError, match=r"batch lacks continuation .* continuation=math.inf"):
        make().update(make_batch())


# Losses


def test_the_value_learns_the_returns() -> None:
    v_func = nn.Linear(1, 1, bias=False)
    nn.init.ones_(v_func.weight)
    obs = torch.tensor([[1.0], [2.0]])
    batch = Batch(obs, obs, torch.zeros(2), obs, torch.zeros(2), returns=torch.tensor([4.0, 1.0]))
    loss, error, value = awr_value_loss(v_func, batch)
    assert (error.tolist(), value.tolist(), loss.item()) == ([3.0, -1.0], [1.0, 2.0], (9 + 1) / 2)
    weighted = batch.replace(weight=torch.tensor([1.0, 0.5]))
    assert awr_value_loss(v_func, weighted, "sum")[0].item() == 9 + 0.5


def test_weights_are_those_of_the_advantage_after_the_value_has_learnt() -> None:
    batch = with_nothing_after(make_batch())
    for standardize_advantages in (False, True):
        agent = make(beta=0.5, max_weight=3.0, standardize_advantages=standardize_advantages)
        returns = td_lambda_returns(agent.v_func, batch, 0.95)
        _, stats = agent.update(batch)
        advantage = agent._advantage(batch, returns)
        if standardize_advantages:
            advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-5)
        torch.testing.assert_close(stats["weight"], (advantage / 0.5).exp().clamp(max=3.0))


def test_an_update_takes_so_many_steps_on_so_many_rows() -> None:
    agent = make(n_critic_updates=4, n_actor_updates=5, batch_size_per_update=3)
    seen: list[tuple[str, int]] = []
    for name in ("policy", "v_func"):
        getattr(agent, name).register_forward_hook(
            lambda module, inputs, output, name=name: seen.append((name, len(inputs[0])))
        )
    agent.update(with_nothing_after(make_batch()))
    assert [each for each in seen if each[1] == 3] == [("v_func", 3)] * 4 + [("policy", 3)] * 5
    assert (agent.optim_t, agent.n_policy_updates) == (1, 1)


def test_one_return_that_is_not_finite_stops_all_steps() -> None:
    agent, batch = make(batch_size_per_update=1), with_nothing_after(make_batch())
    before = agent.v_func(batch.obs).clone()
    batch.reward[5] = torch.inf
    with pytest.raises(NonFiniteError, match="returns or state values are not finite; no gradient step was made"):
        agent.update(batch)
    assert torch.equal(agent.v_func(batch.obs), before) and agent.optim_t == 0


def three_sequences() -> Batch:
    buffer = EpisodicReplayBuffer(100)
    for length in (2, 4, 3):
        for i in range(length):
            buffer.append(np.float32([10 * length + i]), 0, 0.0, np.float32([0]), is_state_terminal=i == length - 1)
    return buffer.sample_sequences(3)


def test_a_device_is_not_waited_for_to_know_which_sequences_are_drawn() -> None:
    agent = make(batch_size_per_update=2)
    agent.device = torch.device("meta")  # which has no numbers that could be copied to the host
    assert len(agent._random_part(three_sequences()).lengths) == 2


def test_some_sequences_are_whole_and_in_order() -> None:
    batch = three_sequences()
    some = select_sequences(batch.replace(recurrent_state=torch.tensor([[[4.0], [3.0], [2.0]]])), torch.tensor([2, 0]))
    assert some.lengths.tolist() == [4, 2] and some.recurrent_state.flatten().tolist() == [4, 2]
    assert some.obs.flatten().tolist() == [40, 20, 41, 21, 42, 43]


# Parts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lam": 1.5}, "lam is 1.5, expected a number from 0 to 1"),
        ({"beta": 0}, "beta is 0"),
        ({"max_weight": -1}, "max_weight is -1"),
        ({"n_actor_updates": 0}, "n_actor_updates"),
        ({"horizon": 0}, "horizon"),
    ],
)
def test_numbers_out_of_bounds_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_the_two_forms_refuse_each_others_policies_and_actions() -> None:
    categorical = nn.Sequential(nn.Linear(4, 2), SoftmaxCategoricalHead())
    with pytest.raises(TypeError, match="policy gives Categorical, .* or DiscreteAWR for discrete actions"):
        make(policy=categorical).dry_run(ENV.observation_space.sample())
    with pytest.raises(TypeError, match="policy gives DiagonalGaussian"):
        made(agents.DiscreteAWR, policy=make_policy("gaussian")).dry_run(ENV.observation_space.sample())
    with pytest.raises(TypeError, match="DiscreteAWR has discrete actions, .* use AWR"):
        discrete = nn.Sequential(nn.Linear(4, 2), SoftmaxCategoricalHead())
        made(agents.DiscreteAWR, policy=discrete).dry_run(ENV.observation_space.sample(), ENV.action_space)
    with pytest.raises(TypeError, match="v_func gives DeltaVector"):
        make(v_func=make_policy("deterministic")).dry_run(ENV.observation_space.sample())
    with pytest.raises(ValueError, match="v_func failed on observations"):
        make(v_func=nn.Sequential(nn.Linear(3, 1))).dry_run(ENV.observation_space.sample(), ENV.action_space)
