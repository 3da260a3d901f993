"""`update`: the only way to the parameters, for whoever has a batch."""

import copy
import functools
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from agent_parts import AGENTS, BUFFERS, RECURRENT_BUFFERS, make_agent, make_q_function, sparing
from torch import nn

from pfrl_like.action_value import ImplicitQuantileActionValue
from pfrl_like.agents import DQN
from pfrl_like.batch import Batch
from pfrl_like.errors import NonFiniteError
from pfrl_like.functions.losses import even_fractions
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.testing import Chain
from pfrl_like.testing.play import difference, play_one
from pfrl_like.utils import set_random_seed

CHAIN = Chain(time_limit=7)
STILL = functools.partial(torch.optim.SGD, lr=0.0)


def make_batch(n: int = 4) -> Batch:
    obs, next_obs = torch.randn(2, n, 5)
    return Batch(obs, torch.randint(2, (n,)), torch.randn(n), next_obs, torch.full((n,), 0.9))


@pytest.mark.representatives(5)
@pytest.mark.parametrize(
    ("agent", "buffer"), sparing(itertools.product(AGENTS, [*BUFFERS, *RECURRENT_BUFFERS]), ("uniform",))
)
def test_pfrls_lists_of_dicts_are_the_same_as_a_batch(agent: str, buffer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def even(value: ImplicitQuantileActionValue, n: int) -> torch.Tensor:
        """The same fractions for every row: the rows of sequences come in another order."""
        return even_fractions(n, value.features).expand(len(value.features), -1)

    monkeypatch.setattr(ImplicitQuantileActionValue, "draw", even)
    recurrent = buffer in RECURRENT_BUFFERS
    one = make_agent(agent, buffer, recurrent)
    play_one(one, CHAIN, 60)
    other = copy.deepcopy(one)
    of_dicts, of_columns = ("sample_episodes", "sample_sequences") if recurrent else ("sample", "sample_batch")
    size = (4, 4) if recurrent else (4,)
    set_random_seed(1)
    items = getattr(one.replay_buffer, of_dicts)(*size)
    set_random_seed(1)
    batch = getattr(other.replay_buffer, of_columns)(*size, 0.9)
    errors: list[float] = []
    other_errors: list[float] = []
    one.update(items, errors)
    other.update(batch, other_errors)
    assert sorted(errors) == pytest.approx(sorted(other_errors), rel=1e-5)
    states = (agent.state_dict()["attributes"] for agent in (one, other))
    torch.testing.assert_close(*states, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_errors_of_episodes_come_in_the_order_of_the_episodes() -> None:
    agent = make_agent(recurrent=True, optimizer=STILL)
    play_one(agent, CHAIN, 60)
    episodes = sorted(agent.replay_buffer.sample_episodes(4), key=len)  # type: ignore[attr-defined]
    assert len({len(episode) for episode in episodes}) > 1
    expected = [agent.update([episode])[0].item() for episode in episodes]
    errors: list[float] = []
    td_error, _ = agent.update(episodes, errors)
    assert td_error.tolist() == errors == pytest.approx(expected, rel=1e-5)


def test_what_is_no_minibatch_is_refused() -> None:
    with pytest.raises(TypeError, match="experiences has an item of type str, expected lists of transition dicts"):
        make_agent().update(["abc"])


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(ValueError, match="experiences is empty"):
        make_agent().update([])


def test_errors_of_sequences_are_their_largest() -> None:
    agent = make_agent(recurrent=True, optimizer=STILL)
    lengths = torch.tensor([3, 1])  # rows: steps 0 of both, then 1 and 2 of the first
    batch = make_batch().replace(lengths=lengths)
    by_row = agent.loss(batch)[1].abs()
    errors: list[float] = []
    agent.update(batch, errors)
    assert errors == pytest.approx([by_row[[0, 2, 3]].max().item(), by_row[1].item()])


def test_priorities_follow_the_errors_of_the_items() -> None:
    agent = make_agent(buffer="prioritized", optimizer=STILL, minibatch_size=10)
    play_one(agent, CHAIN, 10)  # the tenth step learns from all ten
    buffer = agent.replay_buffer
    batch = buffer.sample_batch(10, 0.9)
    errors = agent.loss(batch)[1].abs().clamp(0, 1)
    weight = (errors + 0.01) ** (-0.6 * 0.4)  # (p ** alpha) ** -beta at the second draw, up to a factor
    torch.testing.assert_close(batch.weight, weight / weight.max(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"n_times_update": 2}, {"update_interval": 5}])
def test_without_steps_the_target_moves_after_as_many_updates_as_fit_in_its_interval(options: Any) -> None:
    agent = make_agent(target_update_interval=10, **options)
    expected = {"": 10, "n_times_update": 20, "update_interval": 2}["".join(options)]
    for _ in range(2):
        before = copy.deepcopy(agent.target_model.state_dict())
        for _ in range(expected):
            agent.update(make_batch())
            assert difference(agent.target_model.state_dict(), before) is None
        trained = copy.deepcopy(agent.model.state_dict())
        agent.update(make_batch())
        assert difference(agent.target_model.state_dict(), trained) is None
        agent._updates_left = agent.target_update_interval // agent.update_interval * agent.n_times_update


class TestRefusal:
    """A batch that is not finite changes nothing."""

    @pytest.mark.representatives(33)
    @pytest.mark.parametrize("field", ["obs", "next_obs", "reward", "weight", "discount"])
    @pytest.mark.parametrize(("agent", "recurrent"), [(agent, flag) for agent in AGENTS for flag in (False, True)])
    def test_parameters_optimizer_counters_and_statistics_stay(self, agent: str, recurrent: bool, field: str) -> None:
        one = make_agent(agent, recurrent=recurrent)
        batch = make_batch().replace(weight=torch.ones(4))
        if recurrent:
            batch = batch.replace(lengths=torch.tensor([2, 2]))
        one.update(batch)
        before = copy.deepcopy((one.state_dict(), one.get_statistics()))
        bad = batch.replace(**{field: getattr(batch, field) * torch.nan})
        with pytest.raises(NonFiniteError) as caught:
            one.update(bad)
        assert difference(before, (one.state_dict(), one.get_statistics())) is None
        assert caught.value.batch is bad
        one.update(batch)  # and learning goes on

    @pytest.mark.parametrize("method", ["hard", "soft"])
    def test_learning_goes_on_as_if_it_had_not_come(self, method: str) -> None:
        one, other = (make_agent(target_update_interval=2, target_update_method=method) for _ in range(2))
        other.load_state_dict(one.state_dict())
        for _ in range(6):
            batch = make_batch()
            with pytest.raises(NonFiniteError):
                one.update(batch.replace(reward=batch.reward * torch.nan))
            one.update(batch)
            other.update(batch)
            assert difference(one.state_dict(), other.state_dict()) is None

    @pytest.mark.parametrize("buffer", ["prioritized", "prioritized episodic"])
    def test_the_buffer_does_not_wait_for_errors_that_will_not_come(self, buffer: str) -> None:
        agent = make_agent(buffer=buffer, recurrent=buffer in RECURRENT_BUFFERS)
        play_one(agent, CHAIN, 40)
        before = copy.deepcopy(agent.model.state_dict())
        with torch.no_grad():
            next(agent.model.parameters()).mul_(torch.nan)
        priorities = agent.replay_buffer._priorities.to_array()  # type: ignore[attr-defined]
        with pytest.raises(NonFiniteError):
            agent.update_from_replay()
        np.testing.assert_array_equal(agent.replay_buffer._priorities.to_array(), priorities)  # type: ignore[attr-defined]
        agent.model.load_state_dict(before)
        agent.update_from_replay()


class TestModes:
    """Targets are computed in evaluation mode, what is learnt in training mode."""

    @staticmethod
    def make(agent: str, layer: nn.Module) -> DQN:
        torch.manual_seed(0)
        q_function = nn.Sequential(nn.Linear(5, 8), layer, nn.Linear(8, 2), DiscreteActionValueHead())
        return make_agent(agent, q_function=q_function, optimizer=STILL)

    @pytest.mark.parametrize("agent", ["DQN", "DoubleDQN"])
    def test_dropout_is_off_in_targets(self, agent: str) -> None:
        one = self.make(agent, nn.Dropout(0.5))
        batch = make_batch()
        one.model.eval()
        q, next_q = one.model(batch.obs), one.model(batch.next_obs)
        expected = batch.reward + 0.9 * next_q.max - q.evaluate_actions(batch.action)
        torch.testing.assert_close(one.update(batch)[0], expected.detach())
        one.model.train()
        assert not torch.allclose(one.update(batch)[0], expected)  # it is on in what is learnt

    def test_the_first_categorical_update_makes_one_pass(self) -> None:
        torch.manual_seed(0)
        norm = nn.BatchNorm1d(5)
        one = make_agent("CategoricalDQN", q_function=nn.Sequential(norm, make_q_function("CategoricalDQN")))
        one.update(make_batch())
        assert norm.num_batches_tracked == 1


def test_the_target_takes_no_gradient() -> None:
    agent = make_agent()
    agent.update(make_batch())
    assert all(param.grad is None and not param.requires_grad for param in agent.target_model.parameters())


@pytest.mark.parametrize("buffer", ["3-step prioritized", pytest.param("prioritized episodic", marks=pytest.mark.slow)])
def test_a_copy_of_an_agent_goes_its_own_way(buffer: str) -> None:
    agent = make_agent(buffer=buffer, recurrent=buffer in RECURRENT_BUFFERS)
    play_one(agent, CHAIN, 40)
    before = copy.deepcopy(agent.state_dict())
    other = copy.deepcopy(agent)
    set_random_seed(1)
    play_one(other, CHAIN, 40)
    assert difference(before, agent.state_dict()) is None
    set_random_seed(1)
    play_one(agent, CHAIN, 40)
    assert difference(other.state_dict(), agent.state_dict()) is None


def test_statistics_are_means_of_what_was_seen() -> None:
    agent = make_agent(optimizer=STILL)
    assert np.isnan(dict(agent.get_statistics())["average_loss"])
    losses, values = [], []
    for _ in range(3):
        batch = make_batch()
        losses.append(agent.update(batch)[1]["loss"].item())
        values.append(agent.model(batch.obs).evaluate_actions(batch.action).mean().item())
    statistics = dict(agent.get_statistics())
    assert statistics["average_loss"] == pytest.approx(np.mean(losses))
    assert statistics["average_q"] == pytest.approx(np.mean(values))


@pytest.mark.parametrize("action", [2, -1])
@pytest.mark.parametrize("name", AGENTS)
def test_an_action_that_the_networks_do_not_know_is_named(name: str, action: int) -> None:
    agent, batch = make_agent(name), make_batch()
    batch.action[1] = action
    with pytest.raises(ValueError, match=f"action: row 1 of the minibatch has {action}, expected integers from 0 to 1"):
        agent.update(batch)
    agent.update(make_batch())


def test_another_error_of_torch_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        make_agent("DQN").update(make_batch().replace(obs=torch.zeros(4, 3)))


def test_learn_is_the_part_of_an_update_that_changes_parameters() -> None:
    one, batch = make_agent("DQN"), make_batch()
    other = copy.deepcopy(one)
    error, stats = one.learn(batch)
    expected, _ = other.update(batch)
    assert one.optim_t == 0 and difference(one.model.state_dict(), other.model.state_dict()) is None
    assert torch.equal(error, expected) and stats.keys() == {"q", "loss"}


def test_a_subclass_may_override_learn_and_call_that_of_the_base() -> None:
    class Halved(DQN):
        def learn(self, batch: Batch) -> Any:
            return super().learn(batch.replace(reward=batch.reward / 2))

    with pytest.raises(ValueError, match=r"compile is True, but Halved defines learn\(batch\) and not update_step"):
        make_agent(Halved, compile=True)
    agent, batch = make_agent("DQN"), make_batch()
    plain = copy.deepcopy(agent)
    agent.__class__ = Halved
    error, _ = agent.update(batch)
    expected, _ = plain.update(batch.replace(reward=batch.reward / 2))
    assert agent.optim_t == 1 and torch.equal(error, expected)
    assert difference(agent.model.state_dict(), plain.model.state_dict()) is None


def test_a_learn_that_is_assigned_to_an_agent_is_what_update_calls() -> None:
    agent = make_agent("DQN")
    agent.learn = lambda batch: (batch.reward, {})  # type: ignore[method-assign]
    batch = make_batch()
    assert agent.update(batch)[0] is batch.reward
