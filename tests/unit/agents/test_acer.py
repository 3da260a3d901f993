"""What each argument of ACER does, and what its replay learns from."""

from typing import Any

import numpy as np
import pytest
import torch
from async_parts import OBS, make_acer, parameters
from torch import nn
from torch.testing import assert_close

from pfrl_like.agents import ACER
from pfrl_like.agents.acer import ACERContinuousActionHead, ACERDiscreteActionHead
from pfrl_like.batch import Batch
from pfrl_like.policies import GaussianHeadWithFixedCovariance, SoftmaxCategoricalHead
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import EpisodicReplayBuffer, PrioritizedEpisodicReplayBuffer

EYE = np.eye(OBS, dtype=np.float32)


def play(agent: Any, n_steps: int = 14, seed: int = 0) -> None:
    """Steps through one-hot observations; every sixth terminates, every tenth is cut off."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    for i in range(1, n_steps + 1):
        agent.act(EYE[i % OBS])
        agent.observe(EYE[(i + 1) % OBS], float(i % 3), i % 6 == 0, i % 10 == 0)


def learnt_from(agent: Any) -> list[Batch]:
    """The batches of all updates, from now on."""
    batches: list[Batch] = []
    loss = agent.loss

    def watched(batch: Batch) -> Any:
        batches.append(batch)
        return loss(batch)

    agent.loss = watched
    return batches


def off_policy(batch: Batch) -> bool:
    return batch.extra is not None and "mu" in batch.extra


def test_replay_follows_each_rollout_once_the_buffer_holds_enough() -> None:
    for start, expected in ((6, [False, False, True, True, True]), (7, [False, False])):
        agent = make_acer(replay_start_size=start, n_times_replay=3)
        batches = learnt_from(agent)
        play(agent, 6)  # rollouts of four steps and of two, to the end of an episode
        assert [off_policy(batch) for batch in batches] == expected


def test_disable_online_update_learns_from_replay_alone() -> None:
    agent = make_acer(disable_online_update=True)
    batches = learnt_from(agent)
    play(agent)
    assert batches
    assert all(map(off_policy, batches))
    assert dict(agent.get_statistics())["average_entropy"] > 0


def test_without_trust_region_there_is_no_divergence() -> None:
    agent = make_acer(use_trust_region=False)
    play(agent)
    assert agent.average_kl == 0
    agent = make_acer(lr=0.5)
    play(agent)
    assert agent.average_kl > 0


def average_of(agent: ACER) -> torch.Tensor:
    return torch.cat([param.flatten() for param in agent.shared_average_model.parameters()])


def test_the_average_model_follows_at_the_rate_told() -> None:
    agent = make_acer(replay=False, trust_region_alpha=0.75)
    before = average_of(agent).clone()
    play(agent, 4)
    assert_close(average_of(agent), 0.75 * before + 0.25 * parameters(agent))
    agent = make_acer(replay=False, trust_region_alpha=1)
    play(agent, 4)
    assert torch.equal(average_of(agent), before)


def test_the_buffer_holds_the_distributions_that_acted_in_training() -> None:
    buffer = EpisodicReplayBuffer(100)
    agent = make_acer(replay_buffer=buffer, lr=0.0)
    for i in range(4):
        agent.act(EYE[i])
        with agent.eval_mode():
            agent.act(EYE[4])
        agent.observe(EYE[i + 1], 0.0, i == 3, False)
    batch = buffer.sample_sequences(1)
    (logits,) = batch.extra["mu"]  # type: ignore[index]
    distribution, _, _ = agent.model(batch.obs)
    assert_close(logits, distribution.logits.detach())


@pytest.mark.slow
def test_recurrent_replay_begins_at_stored_states() -> None:
    agent = make_acer(recurrent=True, t_max=2, n_times_replay=4, replay_start_size=6)
    batches = learnt_from(agent)
    play(agent, 16)
    states = [batch.recurrent_state[0] for batch in batches if off_policy(batch)]
    assert any(state.any() for state in states)
    assert any(not state.any() for state in states)  # those at the beginning of an episode


def test_priorities_of_sequences_are_written_back() -> None:
    buffer = PrioritizedEpisodicReplayBuffer(100)
    agent = make_acer(replay_buffer=buffer, replay_start_size=6)
    play(agent)  # a second sample would be refused before that
    assert agent.optim_t == 4 + 3 * 2


def test_running_means_decay_as_told() -> None:
    slow, quick = make_acer(average_kl_decay=0.999, lr=0.5), make_acer(average_kl_decay=0.0, lr=0.5)
    play(slow)
    play(quick)
    assert 0 < slow.average_kl < quick.average_kl
    none = make_acer(average_value_decay=1, average_entropy_decay=1)
    play(none)
    assert (none.average_value, none.average_entropy) == (0, 0)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"replay": False, "disable_online_update": True}, ValueError, "there is nothing to learn from"),
        ({"n_times_replay": -1}, ValueError, "n_times_replay"),
        ({"replay_start_size": 0.5}, TypeError, "replay_start_size"),
        ({"trust_region_alpha": 2}, ValueError, "trust_region_alpha"),
        ({"truncation_threshold": -1}, ValueError, "truncation_threshold"),
        ({"average_kl_decay": -1}, ValueError, "average_kl_decay"),
        ({"beta": "x"}, TypeError, "beta is 'x'"),
        ({"Q_loss_coef": None}, TypeError, "Q_loss_coef"),
        ({"trust_region_delta": -1}, ValueError, "trust_region_delta"),
    ],
)
def test_arguments_out_of_range_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make_acer(**options)


# Models


def test_the_value_of_the_discrete_head_is_the_mean_of_its_action_values() -> None:
    head = ACERDiscreteActionHead(
        nn.Sequential(nn.Linear(2, 3), SoftmaxCategoricalHead()),
        nn.Sequential(nn.Linear(2, 3), DiscreteActionValueHead()),
    )
    distribution, action_value, value = head(torch.randn(4, 2))
    assert_close(value, (distribution.probs * action_value.q_values).sum(1))


@pytest.mark.parametrize("n", [1, 7])
def test_the_continuous_head_takes_the_mean_advantage_of_n_samples_off(n: int) -> None:
    seen: list[tuple[torch.Size, torch.Size]] = []

    class Advantage(nn.Module):
        def forward(self, inputs: Any) -> torch.Tensor:
            obs, action = inputs
            seen.append((obs.shape, action.shape))
            return obs[:, :1] + action.sum(1, keepdim=True)

    policy = nn.Sequential(nn.Linear(3, 2), GaussianHeadWithFixedCovariance(1e-6))
    head = ACERContinuousActionHead(policy, nn.Linear(3, 1), Advantage(), n=n)
    obs, action = torch.randn(4, 3), torch.randn(4, 2)
    distribution, action_value, value = head(obs)
    assert value.shape == (4, 1)
    # Samples lie at the mean, so that Q = V + A(s, a) - A(s, mean).
    expected = value.squeeze(1) + (action - distribution.loc).sum(1)
    assert_close(action_value.evaluate_actions(action).reshape(-1), expected, rtol=1e-4, atol=1e-4)
    assert sorted(seen) == sorted([((n * 4, 3), (n * 4, 2)), ((4, 3), (4, 2))])


# What is kept


def test_the_average_model_is_saved_and_that_of_a_directory_without_one_is_the_model(tmp_path: Any) -> None:
    agent, other = make_acer(lr=0.5), make_acer()
    play(agent)
    agent.save(tmp_path / "ours")
    other.load(tmp_path / "ours")
    assert not torch.equal(average_of(agent), parameters(agent))
    assert torch.equal(average_of(other), average_of(agent))
    pfrls = tmp_path / "pfrls"
    pfrls.mkdir()
    for name in ("model.pt", "optimizer.pt"):
        (pfrls / name).write_bytes((tmp_path / "ours" / name).read_bytes())
    other.load(pfrls)
    assert torch.equal(average_of(other), parameters(agent))


def test_copying_the_shared_parameters_leaves_the_average_alone() -> None:
    agent = make_acer(trust_region_alpha=0.5, lr=0.5)
    play(agent)
    before = average_of(agent).clone()
    agent.sync_parameters()
    assert torch.equal(average_of(agent), before)
