"""Decision Transformers: returns to go, what is seen of a sequence, what is acted by, worked out by hand."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from actor_critic_parts import ENV, make_policy
from gymnasium import spaces
from hand_parts import with_nothing_after
from pair_base import Noise
from registry import made
from torch import Tensor, nn

from pfrl_like.agents import DecisionTransformer, DiscreteDecisionTransformer
from pfrl_like.agents.offline.decision_transformer import predictions, returns_to_go
from pfrl_like.batch import Batch
from pfrl_like.dataset import MDPDataset
from pfrl_like.distributions import DeltaVector
from pfrl_like.errors import ExportError
from pfrl_like.nn import ReturnConditionedTransformer
from pfrl_like.policies import DeterministicHead, SoftmaxCategoricalHead
from pfrl_like.replay_buffers import EpisodicReplayBuffer, ReplayBuffer


def make_network(discrete: bool = False, context_size: int = 4) -> ReturnConditionedTransformer:
    torch.manual_seed(0)
    head: list[nn.Module] = [SoftmaxCategoricalHead()] if discrete else [nn.Tanh(), DeterministicHead()]
    obs = 5 if discrete else 4
    return ReturnConditionedTransformer(
        nn.Linear(obs, 8), 2, nn.Sequential(nn.Linear(8, 2), *head), discrete=discrete, hidden_size=8,
        context_size=context_size, n_layers=2, n_heads=2,
    )  # fmt: skip


def make(discrete: bool = False, policy: Any = None, **options: Any) -> Any:
    kind: Any = DiscreteDecisionTransformer if discrete else DecisionTransformer
    return made(kind, policy=policy or make_network(discrete), **{"target_return": 3.0, **options})


# What it learns from


def recorded() -> MDPDataset:
    """Episodes of 3 steps, terminated, and of 4, cut off; observation and reward are the number of the step."""
    number = np.arange(7.0)
    return MDPDataset.from_arrays(
        number[:, None].astype(np.float32), number[:, None], number, number == 2, number == 6,
        number[:, None].astype(np.float32) + 1,
    )  # fmt: skip


def sequences(max_len: int | None) -> Batch:
    return recorded().sample_sequences(7, max_len, continuation=math.inf, rng=np.random.default_rng(0))


@pytest.mark.parametrize("max_len", [None, 2, 1])
def test_a_dataset_gives_sequences_that_begin_at_each_step_and_end_with_the_episode(max_len: int | None) -> None:
    batch = sequences(max_len)
    assert batch.lengths is not None
    left = {0: 3, 1: 2, 2: 1, 3: 4, 4: 3, 5: 2, 6: 1}
    first = batch.obs[: len(batch.lengths)].flatten().int().tolist()
    assert sorted(first) == [*range(7)]
    assert batch.lengths.tolist() == [min(left[step], max_len or 9) for step in first]
    assert sorted(batch.lengths.tolist(), reverse=True) == batch.lengths.tolist()
    longest = int(batch.lengths[0])
    for t in range(longest):  # packed time first
        rows = [step + t for step, length in zip(first, batch.lengths.tolist(), strict=True) if length > t]
        start = sum(int((batch.lengths > earlier).sum()) for earlier in range(t))
        assert batch.obs[start : start + len(rows)].flatten().int().tolist() == rows
    with pytest.raises(ValueError, match="max_len is 0, expected"):
        recorded().sample_sequences(2, 0)


def test_returns_to_go_reach_to_the_end_of_the_episode() -> None:
    for batch in (sequences(2), sequences(None)):
        to_go = {0: 3, 1: 3, 2: 2, 3: 18, 4: 15, 5: 11, 6: 6}  # 0 + 1 + 2, ...; 3 + 4 + 5 + 6, ...
        assert returns_to_go(batch).tolist() == [to_go[step] for step in batch.obs.flatten().int().tolist()]
    buffer = EpisodicReplayBuffer(100)
    for i in range(4):
        buffer.append(np.float32([i]), np.float32([0]), float(i), np.float32([i + 1]), is_state_terminal=i == 3)
    stored = buffer.sample_sequences(1, 2, continuation=math.inf)
    assert returns_to_go(stored).tolist() == [{0: 6, 1: 6, 2: 5, 3: 3}[int(step)] for step in stored.obs]
    with pytest.raises(ValueError, match="batch lacks continuation"):
        returns_to_go(stored.replace(continuation=None))


class Sees(nn.Module):
    """Gives as the action what it is given, and keeps it."""

    discrete, context_size = False, 4

    def forward(self, returns: Tensor, obs: Tensor, action: Tensor) -> DeltaVector:
        self.seen = returns, obs, action
        return DeltaVector(torch.cat([returns.unsqueeze(2), obs, action], 2).flatten(0, 1))

    def no_action(self, *shape: int) -> Tensor:
        return torch.zeros(*shape, 1)


class Echoes(Sees):
    """The action is the return that is wanted."""

    def forward(self, returns: Tensor, obs: Tensor, action: Tensor) -> DeltaVector:
        super().forward(returns, obs, action)
        return DeltaVector(returns.reshape(-1, 1))


def test_rows_are_put_in_sequences_and_come_back_in_order() -> None:
    batch = sequences(3)
    model = Sees()
    given = predictions(model, returns_to_go(batch), batch).mode
    assert torch.equal(given, torch.cat([returns_to_go(batch).unsqueeze(1), batch.obs, batch.action], 1))
    returns, obs, _ = model.seen
    assert obs.shape == (7, 3, 1) and batch.lengths is not None
    for row, length, own in zip(obs.squeeze(2), batch.lengths.tolist(), returns, strict=True):
        assert torch.equal(row[:length], row[0] + torch.arange(length))
        assert (row[length:] == 0).all() and (own[length:] == 0).all()
    with pytest.raises(ValueError, match="batch contains transitions"):
        predictions(model, torch.zeros(2), recorded().batch(np.arange(2)))


def test_the_network_sees_returns_and_observations_up_to_a_step_and_actions_before_it() -> None:
    network = make_network().eval()
    returns, obs, action = torch.randn(2, 4), torch.randn(2, 4, 4), torch.randn(2, 4, 2)
    plain = network(returns, obs, action).mode.view(2, 4, 2)
    for name, changed_from in (("returns", 2), ("obs", 2), ("action", 3)):  # by a change of the third step
        inputs = {"returns": returns.clone(), "obs": obs.clone(), "action": action.clone()}
        inputs[name][:, 2] += 1
        other = network(**inputs).mode.view(2, 4, 2)
        torch.testing.assert_close(other[:, :changed_from], plain[:, :changed_from])
        assert (other[:, changed_from:] - plain[:, changed_from:]).abs().min() > 1e-6


def test_importance_weights_and_kinds_of_loss() -> None:
    agent = make(discrete=True)
    lengths = torch.tensor([2, 1])
    obs = torch.randn(3, 5)
    batch = Batch(obs, torch.tensor([0, 1, 1]), torch.zeros(3), obs, torch.ones(3), lengths=lengths)
    batch = with_nothing_after(batch)
    agent.policy.eval()
    loss, error = agent.imitation_loss(batch)
    padded = torch.stack([obs[[0, 2]], torch.stack([obs[1], torch.zeros(5)])])
    actions = torch.tensor([[0, 1], [1, 0]])
    log_prob = agent.policy(torch.zeros(2, 2), padded, actions).logits.log_softmax(-1).view(2, 2, 2)
    surprise = -torch.stack([log_prob[0, 0, 0], log_prob[1, 0, 1], log_prob[0, 1, 1]])
    torch.testing.assert_close(loss, surprise.mean())
    torch.testing.assert_close(error, (1 + surprise.exp()).log().detach())
    weighted = agent.imitation_loss(batch.replace(weight=torch.tensor([0.0, 1.0, 0.0])))[0]
    torch.testing.assert_close(weighted, surprise[1] / 3)


# What it acts by


def test_it_acts_by_the_return_that_is_left() -> None:
    agent, model = make(target_return=10.0, return_scale=2.0), Echoes()
    agent.policy = model
    seen, chosen = [], []
    for t, reward in enumerate((1.0, 3.0)):
        chosen.append(agent.select_actions(torch.tensor([[float(t)]]), None, None).item())
        seen.append([part.flatten().tolist() for part in model.seen])
        agent._context.add_reward(0, reward, False)
    # Returns to go 10 and 9, by 2, which it echoes; its first action is seen in the second step.
    assert seen == [[[5.0], [0.0], [0.0]], [[5.0, 4.5], [0.0, 1.0], [5.0, 0.0]]]
    assert chosen == [5.0, 4.5] and agent._context.to_go == {0: 6.0}


def test_it_looks_back_at_so_many_steps() -> None:
    assert make().context_size == 4 and make(context_size=2).sequence_length == 2
    agent = make(context_size=2)
    obs = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    with agent.eval_mode():
        for each in obs:
            agent.act(each)
            agent.observe(each, 1.0, False, False)
        steps = agent._context.steps[0]
        assert [step[0] for step in steps] == [0.0, -1.0]  # 3 - 3 and 3 - 4
        np.testing.assert_array_equal(np.concatenate([step[1] for step in steps]), obs[3:])
    with pytest.raises(ValueError, match="context_size is 9, expected at most 4"):
        make(context_size=9)


def test_environments_and_evaluation_have_contexts_of_their_own() -> None:
    agent = make()
    obs = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    agent.batch_act(list(obs))
    agent.batch_observe(list(obs), [1.0, 2.0], [False, True], [False, False])
    assert agent._context.to_go == {0: 2.0}  # the second episode has ended
    with agent.eval_mode():
        assert agent._context.to_go == {}
        agent.act(obs[0])
    agent.batch_act(list(obs), active=np.array([True, False]))
    assert len(agent._context.steps[0]) == 2 and 1 not in agent._context.steps
    agent.stop_episode()
    assert agent._context.to_go == {}


class OfNested(nn.Module):
    """What a module gives of one part of nested observations."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, obs: Any) -> Tensor:
        embedded: Tensor = self.module(obs["seen"][0])
        return embedded


def test_observations_may_be_nested() -> None:
    plain, nested, later = make(), make(), make()
    for agent in (nested, later):
        agent.policy.obs_embedding = OfNested(agent.policy.obs_embedding)
    obs = np.random.default_rng(0).normal(size=(3, 2, 4)).astype(np.float32)
    for t, each in enumerate(obs):
        if t == 2:
            by_state_dict(nested, later, None)
        wrapped = [{"seen": (row, np.zeros(1, np.float32))} for row in each]
        chosen = []
        for agent, own in ((plain, [*each]), (nested, wrapped), (later, wrapped))[: 3 if t == 2 else 2]:
            torch.manual_seed(0)
            chosen.append(np.stack(agent.batch_act(own)))
            agent.batch_observe(own, [0.5, 0.25], [False] * 2, [False] * 2)
        assert all(np.array_equal(chosen[0], other) for other in chosen[1:])


def test_actors_have_contexts_of_their_own() -> None:
    agent = make()
    agent.act(np.zeros(4, np.float32))
    actors = [agent.acting_copy() for _ in range(2)]
    actors[0].act(np.zeros(4, np.float32))
    assert [len(each._context.steps) for each in (agent, *actors)] == [1, 1, 0]


def by_directory(agent: Any, other: Any, folder: Any) -> None:
    agent.save(folder)
    other.load(folder)


def by_state_dict(agent: Any, other: Any, folder: Any) -> None:
    other.load_state_dict(agent.state_dict())


@pytest.mark.parametrize("hand_over", [by_directory, by_state_dict])
@pytest.mark.parametrize("discrete", [False, True])
def test_a_running_episode_goes_on_with_what_was_seen(discrete: bool, hand_over: Any, tmp_path: Any) -> None:
    agent, other = make(discrete), make(discrete)
    obs = np.random.default_rng(0).normal(size=(4, 2, 5 if discrete else 4)).astype(np.float32)
    for t, rewards in enumerate(([1.0, 0.1], [0.25, 2.0])):
        agent.batch_act([*obs[t]])
        agent.batch_observe([*obs[t + 1]], rewards, [False, t == 1], [False] * 2)
    hand_over(agent, other, tmp_path)
    assert other._context.to_go == {0: 3.0 - 1.25} and len(other._context.steps[0]) == 2
    chosen = []
    for each in (agent, other):
        torch.manual_seed(0)
        chosen.append([np.stack(each.batch_act([*obs[2]]))])
        each.batch_observe([*obs[3]], [0.5, 0.5], [False] * 2, [False] * 2)
        chosen[-1].append(np.stack(each.batch_act([*obs[3]])))
    np.testing.assert_array_equal(*chosen)


@pytest.mark.parametrize("state", [None, {}, {"to_go": {"0": 1.0}}, {"to_go": {"a": 1.0}, "returns": {}, "seen": {}}])
def test_what_is_no_context_is_refused_and_changes_nothing(state: Any) -> None:
    agent = make()
    agent.act(np.zeros(4, np.float32))
    before = dict(agent._context.to_go)
    with pytest.raises(ValueError, match="context is .*, which is not a state of ReturnContext"):
        agent.restore_state({"t": 7, "context": state})
    assert agent.t == 0 and agent._context.to_go == before


def test_a_context_gives_what_the_whole_sequence_gives() -> None:
    agent = make()
    agent.policy.eval()
    obs = torch.randn(4, 2, 4)
    actions = []
    with agent.eval_mode(), torch.no_grad():
        for t in range(4):
            actions.append(torch.from_numpy(np.stack(agent.batch_act([*obs[t].numpy()]))))
            agent.batch_observe([*obs[t].numpy()], [0.5, 0.0], [False] * 2, [False] * 2)
        returns = torch.tensor([[3.0, 2.5, 2.0, 1.5], [3.0] * 4])
        whole = agent.policy(returns, obs.transpose(0, 1), torch.stack(actions, 1)).mode.view(2, 4, 2)
    torch.testing.assert_close(torch.stack(actions, 1), whole)


# Parts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": make_policy("gaussian")}, "policy is Sequential, expected a .*ReturnConditionedTransformer"),
        ({"discrete": True, "policy": make_network()}, "policy has discrete=False, .* use DecisionTransformer"),
        ({"policy": make_network(True)}, "policy has discrete=True, .* use DiscreteDecisionTransformer"),
        ({"buffer": "uniform"}, "replay_buffer is ReplayBuffer, but DecisionTransformer learns from sequences"),
        ({"return_scale": 0}, "return_scale is 0"),
        ({"target_return": "high"}, r"target_return is 'high' \(str\), expected a finite number"),
        ({"compile": True}, "compile is True"),
        ({"gamma": 0.9}, "^gamma is 0.9, but DecisionTransformer has undiscounted returns: leave it out"),
        ({"gamma": 0.9, "discrete": True}, "^gamma is 0.9, but DiscreteDecisionTransformer has undiscounted returns"),
        ({"continuation": 3}, r"^DecisionTransformer.__init__\(\) got an unexpected keyword argument 'continuation'"),
        ({"recurrent": True}, "recurrent is True, but DecisionTransformer does not support recurrent networks"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make(**options)


def test_environments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(TypeError, match="DecisionTransformer has continuous actions, .* DiscreteDecisionTransformer"):
        make().dry_run(ENV.observation_space.sample(), spaces.Discrete(2))
    with pytest.raises(TypeError, match="DiscreteDecisionTransformer has discrete actions"):
        make(discrete=True).dry_run(Noise(ENV.action_space).observation_space.sample(), ENV.action_space)
    with pytest.raises(ValueError, match="obs does not fit policy"):
        make().dry_run(spaces.Box(-1, 1, (7,), np.float32).sample(), ENV.action_space)
    with pytest.raises(ExportError, match="cannot be exported"):
        make().export("policy.pt")


def test_a_replay_buffer_without_sequences_is_no_dataset_for_it(tmp_path: Any) -> None:
    from pfrl_like.experiments import train_agent_offline

    with pytest.raises(TypeError, match=r"dataset is .*\(ReplayBuffer\), expected something with sample_sequences"):
        train_agent_offline(make(), ReplayBuffer(10), 1, tmp_path)
