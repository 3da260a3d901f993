"""The loop of on-policy agents: what is collected, what is learnt from it, what is saved."""

import copy
import dataclasses
import functools
import math
from typing import Any

import numpy as np
import pytest
import torch
from async_parts import make_a3c, make_acer
from gymnasium import spaces
from masked_parts import OneAllowed
from on_policy_parts import ON_POLICY, Table, drive, make_nets, make_on_policy, one_hot
from torch import nn
from torch.nn.utils.rnn import pack_sequence

from pfrl_like.batch import Batch
from pfrl_like.errors import NonFiniteError
from pfrl_like.learning.minibatches import all_steps
from pfrl_like.learning.model_outputs import policy_and_value
from pfrl_like.nn import EmpiricalNormalization
from pfrl_like.policies import MultiCategoricalHead, SoftmaxCategoricalHead
from pfrl_like.testing import Chain
from pfrl_like.testing.play import difference, play_one, play_several
from pfrl_like.utils import set_random_seed

CHAIN = Chain(time_limit=7)
VALUES = [[10.0], [20.0], [30.0], [40.0], [1000.0]]
EVERY = pytest.mark.parametrize("kind", ON_POLICY)


def make_table_agent(kind: str = "PPO", **options: Any) -> Any:
    """An agent with known values of five states, whose policy knows nothing."""
    nets = nn.Sequential(Table(np.zeros((5, 2), np.float32)), SoftmaxCategoricalHead()), Table(VALUES)
    return make_on_policy(kind, nets=nets, **{"gamma": 0.5, "update_interval": 100, **options})


def estimates(agent: Any) -> Batch:
    """What the agent would learn from now."""
    return agent._with_advantages(agent._rollout.take(agent.gamma, "cpu", agent._bootstrap_inputs), agent.lambd)


# What is bootstrapped from


def test_advantages_by_hand() -> None:
    agent = make_table_agent(lambd=0.5)
    # 0 -> 1 (reward 1), 1 -> the end (reward 2), 2 -> 3 (reward 3) cut off, 0 -> 2 (reward 4) running
    drive(agent, [(0, 1, 1, False, False), (1, 2, 4, True, False), (2, 3, 3, False, True), (0, 4, 2, False, False)])
    steps = estimates(agent)
    # gamma = lambda = 0.5; deltas: 1 + 0.5 * 20 - 10 = 1;  2 - 20 = -18;  3 + 0.5 * 40 - 30 = -7;  4 + 15 - 10 = 9
    # the first advantage: 1 + 0.25 * -18 = -3.5
    assert steps.advantage.tolist() == pytest.approx([-3.5, -18, -7, 9])
    assert steps.returns.tolist() == pytest.approx([6.5, 2, 23, 19])
    assert steps.value.tolist() == [10, 20, 30, 10]
    assert steps.log_prob.tolist() == pytest.approx([math.log(0.5)] * 4)


def test_a_run_that_stopped_in_mid_episode_is_bootstrapped_from_where_it_was() -> None:
    agent = make_table_agent(lambd=1.0)
    drive(agent, [(0, 1, 3, False, False)])
    agent.stop_episode()
    drive(agent, [(1, 1, 2, False, False)])
    assert estimates(agent).advantage.tolist() == [1 + 0.5 * 40 - 10, 1 + 0.5 * 30 - 20]


def test_episodes_of_reinforce_that_were_stopped_are_not_learnt_from() -> None:
    agent = make_on_policy("REINFORCE", learn_from_truncated=False)
    drive(agent, [(0, 1, 3, False, False)])
    agent.stop_episode()
    drive(agent, [(1, 1, 2, False, False)])
    assert len(agent._rollout) == 1


# Several environments


def test_inactive_environments_leave_no_row_and_cost_no_draw() -> None:
    agent = make_table_agent()
    everywhere = [one_hot(0), one_hot(1)]
    agent.batch_act(everywhere)
    agent.batch_observe([one_hot(1), one_hot(2)], [1.0, 2.0], [False, False], [False, False])
    before = torch.get_rng_state()
    agent.batch_act(everywhere, active=[False, False])
    assert torch.equal(before, torch.get_rng_state())
    agent.batch_observe(everywhere, [9.0, 9.0], [True, True], [True, True], active=[False, False])
    agent.batch_act([one_hot(1), one_hot(0)], active=[True, False])
    agent.batch_observe([one_hot(3), one_hot(0)], [3.0, 9.0], [False, True], [False, True], active=[True, False])
    assert (agent.t, len(agent._rollout), len(agent.entropy_record)) == (3, 3, 3)
    steps = estimates(agent)
    assert steps.reward.tolist() == [1, 3, 2]
    # lambda 0.95: 1 + 0.5 * 20 - 10 + 0.475 * (3 + 0.5 * 40 - 20); the second goes on from what it saw last, state 2
    assert steps.advantage.tolist() == pytest.approx([1 + 0.475 * 3, 3, 2 + 15 - 20])


@pytest.mark.parametrize(
    "make", [*(functools.partial(make_on_policy, kind) for kind in ON_POLICY), make_a3c, make_acer],
    ids=[*ON_POLICY, "A3C", "ACER"],
)  # fmt: skip
@pytest.mark.parametrize(("reward", "error"), [(1e39, NonFiniteError), ("1", TypeError)])
def test_a_reward_that_is_no_finite_number_is_refused_where_it_is_stored(make: Any, reward: Any, error: Any) -> None:
    agent = make()
    agent.act(one_hot(0))
    with pytest.raises(error, match="reward is"):
        agent.observe(one_hot(1), reward, False, False)
    agent.observe(one_hot(1), 1.0, False, False)
    assert agent.t == 1


def test_a_refused_reward_among_several_leaves_none_stored() -> None:
    agent, everywhere = make_on_policy(), [one_hot(0), one_hot(1)]
    agent.batch_act(everywhere, active=[False, True])
    for rewards in ([0.0, 1e39], np.array([0.0, 1e39]), np.array([0.0, np.nan], np.float32)):
        with pytest.raises(NonFiniteError, match="reward is"):
            agent.batch_observe(everywhere, rewards, [False, False], [False, False], active=[False, True])
    agent.batch_observe(everywhere, [math.nan, 1.0], [False, False], [False, False], active=[False, True])
    assert (agent.t, len(agent._rollout)) == (1, 1)


# Masks


@EVERY
def test_forbidden_actions_are_neither_chosen_nor_learnt_about(kind: str) -> None:
    options = {} if kind in ("REINFORCE", "A2C", "IMPALA") else {"entropy_coef": 1.0}
    agent = make_on_policy(kind, nets=make_nets(n_actions=3), **options)
    policy = agent.policy if kind == "TRPO" else agent.model
    before = [param.clone() for param in policy.parameters()]
    play_one(agent, OneAllowed(), 40)
    assert agent.n_updates > 0
    if kind in ("REINFORCE", "TRPO"):  # a policy alone, for which one allowed action leaves nothing to learn
        for param, old in zip(policy.parameters(), before, strict=True):
            torch.testing.assert_close(param, old, rtol=0, atol=1e-6)
    statistics = dict(agent.get_statistics())
    assert statistics["average_entropy"] == pytest.approx(0.0, abs=1e-6)
    with agent.eval_mode():
        play_one(agent, OneAllowed(), 10)


def test_a_mask_for_continuous_actions_is_refused() -> None:
    agent = make_on_policy(nets=make_nets(continuous=True))
    with pytest.raises(TypeError, match="action_mask: the policy returns .*, expected a categorical distribution"):
        agent.act(one_hot(0), action_mask=[True, False])


# Recurrent models


@pytest.mark.parametrize("max_len", [None, 3])
def test_sequences_give_what_the_model_said_when_it_acted(max_len: int | None) -> None:
    set_random_seed(0)
    agent: Any = make_on_policy(recurrent=True, update_interval=100)
    play_several(agent, CHAIN, 3, 20)
    episodes = agent._rollout.take(agent.gamma, "cpu", agent._bootstrap_inputs)
    steps = agent._with_advantages(episodes, 0.9)
    batch = all_steps(dataclasses.replace(episodes, steps=steps), max_len)
    distribution, value = policy_and_value(agent.model, batch)
    torch.testing.assert_close(distribution.log_prob(batch.action), batch.log_prob)
    torch.testing.assert_close(value, batch.value)
    said = torch.tensor(agent.value_record)
    torch.testing.assert_close(said.sort()[0], value.sort()[0])


def test_a_truncated_episode_is_bootstrapped_with_the_state_after_its_last_step() -> None:
    agent: Any = make_on_policy(recurrent=True, update_interval=100, lambd=0.0)
    drive(agent, [(0, 1, 1, False, False), (1, 2, 3, False, True)])
    value = agent._with_advantages(agent._rollout.take(agent.gamma, "cpu", agent._bootstrap_inputs), 0.0)
    vf, rows = agent.model[1], torch.from_numpy(np.stack([one_hot(0), one_hot(1), one_hot(3)]))
    values = vf(pack_sequence([rows]), None)[0].data.squeeze(1)
    expected = torch.tensor([1.0, 2.0]) + 0.9 * values[1:] - values[:2]
    torch.testing.assert_close(value.advantage, expected)


# Saving


def test_an_agent_says_how_many_steps_an_update_needs() -> None:
    assert make_table_agent(update_interval=8).waiting_for() == "the agent holds 0 of the 8 steps of an update"


def test_minibatches_larger_than_a_rollout_are_warned_of(caplog: Any) -> None:
    make_on_policy(minibatch_size=10)
    assert not caplog.text
    make_on_policy(minibatch_size=11)
    assert "minibatch_size is 11, but update_interval gives only 10 steps" in caplog.text


# Learning from elsewhere


def same_steps(agent: Any, recurrent: bool) -> Batch:
    """One episode of five steps, cut off, as a batch."""
    obs = torch.from_numpy(np.stack([one_hot(i % 5) for i in range(6)]))
    sequence = {"lengths": torch.tensor([5])} if recurrent else {}
    return Batch(
        obs=obs[:-1], action=torch.tensor([0, 1, 1, 0, 1]), reward=torch.arange(5.0), next_obs=obs[1:],
        discount=torch.full((5,), 0.9), **sequence,
    )  # fmt: skip


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("kind", ["PPO", "A2C", "IMPALA", "APPO", "TRPO"])
def test_update_learns_from_a_batch_as_from_what_was_collected(kind: str, recurrent: bool) -> None:
    own = {"A2C": {"update_steps": 5, "num_processes": 1}, "IMPALA": {"update_interval": 5}}.get(
        kind, {"update_interval": 5, "lambd": 1.0 if recurrent else 0.0}
    )
    set_random_seed(3)
    agent: Any = make_on_policy(kind, recurrent, **own)
    set_random_seed(3)
    other: Any = make_on_policy(kind, recurrent, **own)
    batch = same_steps(agent, recurrent)
    if kind in ("A2C", "IMPALA", "APPO") and not recurrent:  # transitions have no n-step return
        batch = batch.replace(advantage=torch.ones(5), returns=torch.ones(5))
        advantage, stats = other.update(batch)
        assert advantage.tolist() == [1.0] * 5 and all(map(torch.isfinite, map(torch.mean, stats.values())))
        return
    for i in range(5):
        agent.act(one_hot(i))
        agent.batch_last_action = batch.action[i : i + 1].numpy()
        set_random_seed(4)
        agent.observe(one_hot((i + 1) % 5), float(i), False, i == 4)
    set_random_seed(4)
    errors: list[float] = []
    advantage, _ = other.update(batch, errors)
    assert errors == advantage.abs().tolist() and len(errors) == 5
    found = difference(agent.state_dict()["attributes"], other.state_dict()["attributes"], "attributes", exact=False)
    assert found is None
    assert agent.n_updates == other.n_updates > 0


def test_update_of_several_sequences_gives_advantages_in_the_order_of_the_batch() -> None:
    agent = make_table_agent(lambd=1.0)
    # packed: sequences 0 -> 1 -> 2 and 3 -> the end
    obs, next_obs = torch.eye(5)[[0, 3, 1]], torch.eye(5)[[1, 4, 2]]
    batch = Batch(
        obs=obs, action=torch.zeros(3, dtype=torch.int64), reward=torch.tensor([1.0, 2.0, 3.0]), next_obs=next_obs,
        discount=torch.tensor([0.5, 0.0, 0.5]), lengths=torch.tensor([2, 1]),
    )  # fmt: skip
    # the last of the first: 3 + 0.5 * 30 - 20 = -2; its first: 1 + 0.5 * 20 - 10 + 0.5 * -2 = 0; the other: 2 - 40
    assert agent.update(batch)[0].tolist() == pytest.approx([0, -38, -2])


def test_what_a_batch_brings_is_not_computed_again() -> None:
    agent = make_table_agent()
    seen = []
    agent.learn = lambda episodes: (seen.append(agent._with_advantages(episodes, 0.9)) or torch.zeros(5), {})
    fields = {name: torch.rand(5) for name in ("log_prob", "value", "advantage", "returns")}
    agent.update(same_steps(agent, False).replace(**fields))
    assert all(torch.equal(getattr(seen[0], name), value) for name, value in fields.items())


def test_a_recurrent_agent_refuses_transitions() -> None:
    with pytest.raises(ValueError, match="learns from sequences"):
        make_on_policy(recurrent=True).update(same_steps(None, False))


@EVERY
def test_a_reward_of_nan_is_refused_before_anything_is_changed(kind: str) -> None:
    agent = make_on_policy(
        kind, **({"obs_normalizer": EmpiricalNormalization(5)} if kind in ("PPO", "IMPALA", "TRPO") else {})
    )
    before = copy.deepcopy(agent.state_dict())
    batch = same_steps(agent, False)
    batch = batch.replace(reward=batch.reward * math.nan)
    with pytest.raises(NonFiniteError) as caught:
        agent.update(batch)
    assert caught.value.batch is batch
    assert difference(before, agent.state_dict(), "attributes") is None


# Environments that do not fit


@pytest.mark.parametrize(
    ("head", "space", "error", "message"),
    [
        (SoftmaxCategoricalHead(), spaces.Box(-1, 1, (2,)), TypeError, "use a policy that ends in GaussianHead"),
        (SoftmaxCategoricalHead(), spaces.Discrete(3), ValueError, "actions of size 2, expected 3"),
        (SoftmaxCategoricalHead(), spaces.Discrete(2, start=1), ValueError, "the first action of .* is 1"),
        (None, spaces.Discrete(2), TypeError, "ends in SoftmaxCategoricalHead"),
        (None, spaces.Box(-1, 1, (3,)), ValueError, r"actions of size \(2,\), expected \(3,\)"),
        (MultiCategoricalHead([1, 1]), spaces.MultiDiscrete([1, 2]), ValueError, r"\[1, 1\]"),
        (MultiCategoricalHead([1, 1]), spaces.Discrete(2), TypeError, "SoftmaxCategoricalHead"),
        (MultiCategoricalHead([1, 1]), spaces.MultiBinary(2), ValueError, r"\[1, 1\], expected \[2, 2\]"),
        (MultiCategoricalHead([1, 1]), spaces.MultiDiscrete([1, 1], start=[0, 1]), ValueError, "the first action of"),
        (SoftmaxCategoricalHead(), spaces.MultiBinary(2), TypeError, "ends in MultiCategoricalHead"),
    ],
)
@pytest.mark.parametrize("kind", ["PPO", "REINFORCE", "TRPO"])
def test_an_environment_with_other_actions_is_refused(
    kind: str, head: Any, space: Any, error: type[Exception], message: str
) -> None:
    policy, vf = make_nets(continuous=True)
    if head is not None:
        policy[-1] = head
    agent = make_on_policy(kind, nets=(policy, vf))
    with pytest.raises(error, match=message):
        agent.dry_run(spaces.Box(0, 1, (5,), np.float32).sample(), space)
