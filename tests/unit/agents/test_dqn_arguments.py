"""Every argument of the DQN family has the effect that its documentation says."""

import copy
import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from agent_parts import AGENTS, make_agent, make_q_function
from torch import nn

from pfrl_like.agents import DQN
from pfrl_like.batch import Batch
from pfrl_like.errors import NonFiniteError
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.nn import to_factorized_noisy
from pfrl_like.q_functions import DiscreteActionValueHead, FCStateQFunctionWithDiscreteAction
from pfrl_like.testing import Chain
from pfrl_like.testing.play import difference, play_one, play_several
from pfrl_like.utils.batch_states import batch_states

CHAIN = Chain(time_limit=7)
EVERY_AGENT = pytest.mark.parametrize("agent", AGENTS)


def make_batch(n: int = 4, seed: int = 0) -> Batch:
    g = torch.Generator().manual_seed(seed)
    obs, next_obs = torch.randn(2, n, 5, generator=g)
    return Batch(obs, torch.tensor([0, 1] * (n // 2)), torch.arange(float(n)), next_obs, torch.full((n,), 0.9))


def watch_updates(agent: DQN) -> list[tuple[int, Batch]]:
    """A list that will hold (t, minibatch) of every update."""
    updates: list[tuple[int, Batch]] = []
    update = agent.update

    def watched(batch: Any, errors_out: Any = None) -> Any:
        updates.append((agent.t, batch))
        return update(batch, errors_out)

    agent.update = watched  # type: ignore[method-assign]
    return updates


def updates_of(n_steps: int, recurrent: bool = False, **options: Any) -> list[tuple[int, Batch]]:
    agent = make_agent(recurrent=recurrent, **options)
    updates = watch_updates(agent)
    play_one(agent, CHAIN, n_steps)
    return updates


def times_of(n_steps: int, **options: Any) -> list[int]:
    return [t for t, _ in updates_of(n_steps, **options)]


# When it learns


def test_replay_start_size_is_when_learning_begins() -> None:
    assert times_of(22, replay_start_size=20) == [20, 21, 22]


def test_minibatch_size_is_the_number_of_transitions() -> None:
    assert [len(batch) for _, batch in updates_of(12, minibatch_size=7)] == [7, 7, 7]


def test_a_recurrent_agent_waits_for_enough_episodes() -> None:
    agent = make_agent(recurrent=True, replay_start_size=6, minibatch_size=6)
    updates = watch_updates(agent)
    play_one(agent, Chain(size=4, terminates=False, time_limit=5), 29)  # five episodes and a half
    assert not updates
    agent.stop_episode()  # which ends the sixth
    play_one(agent, Chain(size=4, terminates=False, time_limit=5), 1, seed=1)
    assert len(updates) == 1


def test_update_interval_is_the_steps_between_updates() -> None:
    assert times_of(25, update_interval=5) == [10, 15, 20, 25]


def test_n_times_update_is_the_updates_at_each_of_them() -> None:
    assert times_of(15, update_interval=5, n_times_update=3) == [10, 10, 10, 15, 15, 15]


def test_a_step_in_several_environments_counts_for_each() -> None:
    agent = make_agent(update_interval=5)
    updates = watch_updates(agent)
    play_several(agent, CHAIN, 3, 5)
    assert [t for t, _ in updates] == [10, 15]


# The target network


@pytest.mark.representatives(4)
@EVERY_AGENT
def test_target_update_interval_is_the_steps_between_moves_of_the_target(agent: str) -> None:
    made = make_agent(agent, target_update_interval=8)
    moves, before = [], copy.deepcopy(made.target_model.state_dict())
    for _ in range(26):
        play_one(made, CHAIN, 1)
        if difference(made.target_model.state_dict(), before) is not None:
            moves.append(made.t)
            before = copy.deepcopy(made.target_model.state_dict())
    assert moves == [16, 24]


# The loss


def first_update(batch: Batch | None = None, **options: Any) -> tuple[torch.Tensor, float]:
    torch.manual_seed(0)
    td_error, stats = make_agent(**options).update(make_batch() if batch is None else batch)
    return td_error, stats["loss"].item()


def test_clip_delta_makes_large_errors_count_linearly() -> None:
    errors, loss = first_update(clip_delta=True)
    errors = errors.abs()
    assert (errors > 1).any()
    assert loss == pytest.approx(torch.where(errors < 1, errors**2 / 2, errors - 0.5).mean().item())
    errors, loss = first_update(clip_delta=False)
    assert loss == pytest.approx((errors**2 / 2).mean().item())


def test_clip_delta_may_be_changed_later() -> None:
    agent, other = (make_agent(q_function=make_q_function(), clip_delta=clip) for clip in (True, False))
    other.load_state_dict(agent.state_dict())
    agent.clip_delta = False
    batch = make_batch().replace(reward=torch.full((4,), 100.0))
    assert torch.equal(agent.loss(batch)[0], other.loss(batch)[0])


@EVERY_AGENT
def test_batch_accumulator_sum_is_the_mean_times_the_rows(agent: str) -> None:
    total, mean = (first_update(agent=agent, batch_accumulator=name)[1] for name in ("sum", "mean"))
    assert total == pytest.approx(4 * mean, rel=1e-5)


@pytest.mark.parametrize("max_grad_norm", [0.01, 0.1])
def test_max_grad_norm_limits_the_whole_gradient(max_grad_norm: float) -> None:
    agent = make_agent(max_grad_norm=max_grad_norm, optimizer=functools.partial(torch.optim.SGD, lr=1.0))
    before = nn.utils.parameters_to_vector(agent.model.parameters())
    agent.update(make_batch())
    moved = nn.utils.parameters_to_vector(agent.model.parameters()) - before
    assert moved.norm().item() == pytest.approx(max_grad_norm, rel=1e-3)


# What the network sees


def halves(obs: Any) -> Any:
    return obs[..., :2] / 2


def test_phi_is_applied_in_acting_and_in_learning_but_not_in_storing() -> None:
    def q_function() -> nn.Module:
        torch.manual_seed(0)
        return FCStateQFunctionWithDiscreteAction(2, 2, 8, 1)

    with_phi, without = make_agent(phi=halves, q_function=q_function()), make_agent(q_function=q_function())
    batch = make_batch()
    learnt = with_phi.update(batch)[0]
    expected = without.update(batch.replace(obs=halves(batch.obs), next_obs=halves(batch.next_obs)))[0]
    torch.testing.assert_close(learnt, expected)
    with with_phi.eval_mode(), without.eval_mode():
        observations = np.random.randn(50, 5).astype(np.float32)
        assert [with_phi.act(obs) for obs in observations] == [without.act(halves(obs)) for obs in observations]
    play_one(with_phi, CHAIN, 1)
    assert with_phi.replay_buffer.sample(1)[0][0]["state"].shape == (5,)


def test_without_phi_the_agent_has_one_that_does_nothing() -> None:
    agent, obs = make_agent(), np.ones(5, np.float32)
    assert agent.phi(obs) is obs
    assert agent.batch_states([obs], agent.device, agent.phi).tolist() == [[1.0] * 5]


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("nest", [str, lambda text: {"text": text, "length": len(text)}, lambda text: (text, 0)])
def test_phi_may_make_numbers_of_objects(nest: Callable[[str], Any], recurrent: bool) -> None:
    def phi(obs: Any) -> Any:
        text = obs if isinstance(obs, str) else obs["text"] if isinstance(obs, dict) else obs[0]
        return np.eye(5, dtype=np.float32)[len(text)]

    agent = make_agent(phi=phi, recurrent=recurrent, replay_start_size=4)
    for i in range(20):
        agent.act(nest("a" * (i % 5)))
        agent.observe(nest("a" * ((i + 1) % 5)), 1.0, False, i % 5 == 4)
    assert agent.optim_t > 0


def test_batch_states_of_the_users_own_gets_the_list_of_observations_the_device_and_phi() -> None:
    calls: list[tuple[Any, Any, Any]] = []

    def own_batch_states(states: Any, device: Any, phi: Any) -> Any:
        calls.append((states, device, phi))
        return 2 * batch_states(states, device, phi)

    def phi(obs: Any) -> Any:
        return obs + 1

    agent = make_agent(phi=phi, batch_states=own_batch_states)
    obs = np.zeros(5, dtype=np.float32)
    agent.act(obs)
    assert len(calls) == 1 and calls[0][0][0] is obs and calls[0][1:] == (torch.device("cpu"), phi)
    batch = make_batch()
    q = agent.model(2 * (batch.obs + 1)).evaluate_actions(batch.action)
    td_error, _ = agent.update(batch.replace(discount=torch.zeros(4)))
    torch.testing.assert_close(td_error, (batch.reward - q).detach())
    assert [len(states) for states, _, _ in calls] == [1, 4, 4]
    assert isinstance(calls[1][0], list)


# Recurrent agents


def test_burn_in_lengthens_the_sequences_and_takes_its_steps_off() -> None:
    agent = make_agent(recurrent=True, episodic_update_len=3, burn_in=2, replay_start_size=50)
    updates, learnt = watch_updates(agent), []
    loss = agent.loss

    def watched(batch: Batch) -> Any:
        learnt.append(batch)
        return loss(batch)

    agent.loss = watched  # type: ignore[method-assign]
    play_one(agent, Chain(terminates=False, time_limit=7), 80)
    assert {len(batch.lengths) for _, batch in updates} == {4}  # type: ignore[arg-type]
    assert max(int(batch.lengths.max()) for _, batch in updates) == 5  # type: ignore[union-attr]
    assert max(int(batch.lengths.max()) for batch in learnt) == 3  # type: ignore[union-attr]


def test_burn_in_brings_the_state_up_to_date() -> None:
    # Learning from steps 2 and 3 after burning in 0 and 1 is to see the TD errors that the whole sequence has there.
    agent = make_agent(recurrent=True, burn_in=2, optimizer=functools.partial(torch.optim.SGD, lr=0.0))
    obs = torch.randn(5, 5)
    whole = Batch(
        obs=obs[:4],
        action=torch.tensor([0, 1, 0, 1]),
        reward=torch.arange(4.0),
        next_obs=obs[1:],
        discount=torch.full((4,), 0.9),
        lengths=torch.tensor([4]),
    )
    largest = agent.update(whole)[0]
    expected = agent.loss(whole)[1][2:].abs().max()
    torch.testing.assert_close(largest, expected.unsqueeze(0))


# Acting


def test_explorer_chooses_in_training_only() -> None:
    agent = make_agent(explorer=ConstantEpsilonGreedy(1.0, lambda: 1))
    obs = np.zeros(5, dtype=np.float32)
    with torch.no_grad():
        agent.model.model.output.bias.copy_(torch.tensor([5.0, 0.0]))  # type: ignore[union-attr]
    assert agent.act(obs) == 1
    with agent.eval_mode():
        assert agent.act(obs) == 0


# Device, logger, refusals


def test_logger_hears_of_a_refused_update(caplog: pytest.LogCaptureFixture) -> None:
    agent = make_agent(logger=logging.getLogger("my.agent"))
    batch = make_batch()
    with pytest.raises(NonFiniteError):
        agent.update(batch.replace(reward=batch.reward * torch.nan))
    assert [record.name for record in caplog.records] == ["my.agent"]
    assert "update 1 was rejected: the loss is nan" in caplog.text


#: Beside those in `support/mistakes.py`.
REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"minibatch_size": True}, TypeError, r"minibatch_size is True \(bool\), expected an integer from 1 on"),
    ({"replay_start_size": None}, TypeError, "replay_start_size is None, expected a number"),
    ({"n_times_update": 0}, ValueError, "n_times_update is 0, expected an integer from 1 on"),
    (
        {"target_update_interval": 5, "update_interval": 2},
        ValueError,
        "target_update_interval is 5, expected at least 1, and a multiple of update_interval, 2",
    ),
    ({"soft_update_tau": 0.0}, ValueError, "soft_update_tau is 0.0, expected a number above 0"),
    ({"max_grad_norm": 0.0}, ValueError, "max_grad_norm is 0.0, expected a positive number or None"),
    ({"num_steps": 2}, ValueError, "num_steps is 2, expected 1, or more with recurrent=True"),
    ({"num_steps": 0, "recurrent": True}, ValueError, "num_steps is 0, expected an integer from 1 on"),
    ({"burn_in": 2}, ValueError, "burn_in is 2, expected 0, or more with recurrent=True"),
    ({"burn_in": -1}, ValueError, "burn_in is -1, expected an integer from 0 on"),
    ({"batch_states": None}, TypeError, r"batch_states is None \(NoneType\), expected a function"),
]


@pytest.mark.parametrize(("options", "error", "message"), REFUSED)
def test_what_does_not_fit_is_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make_agent(**options)


def test_counts_may_be_integers_of_numpy_and_intervals_whole_floats() -> None:
    agent = make_agent(minibatch_size=np.int64(4), update_interval=np.int32(1), target_update_interval=1e2)
    agent.update(make_batch())
    assert agent.optim_t == 1


def test_an_optimizer_of_some_parameters_trains_these() -> None:
    agent = make_agent(optimizer=lambda params: torch.optim.Adam(list(params)[-1:]))
    before = copy.deepcopy(agent.model.state_dict())
    agent.update(make_batch())
    assert {name for name, value in agent.model.state_dict().items() if not torch.equal(value, before[name])} == {
        "model.output.bias"
    }


@pytest.mark.parametrize("name", ["recurrent", "num_steps", "burn_in"])
def test_what_would_have_no_effect_later_cannot_be_set(name: str) -> None:
    agent = make_agent()
    before = getattr(agent, name)
    with pytest.raises(AttributeError, match=f"{name} of DQN cannot be changed: pass it to a new agent"):
        setattr(agent, name, None)
    assert getattr(agent, name) is before


def test_arguments_may_be_given_by_position_in_the_order_of_pfrl() -> None:
    names = (
        "q_function optimizer replay_buffer gamma explorer gpu replay_start_size minibatch_size update_interval "
        "target_update_interval clip_delta phi target_update_method soft_update_tau n_times_update batch_accumulator "
        "episodic_update_len logger batch_states recurrent max_grad_norm"
    )
    parameters = [*inspect.signature(DQN).parameters.values()][: len(names.split())]
    assert [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD] == names.split()


def test_an_optimizer_of_parameters_that_are_no_longer_used_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    q_function = nn.Sequential(nn.Conv1d(1, 1, 1), nn.Flatten(), nn.Linear(5, 3), DiscreteActionValueHead())
    optimizer = torch.optim.Adam(q_function.parameters())
    to_factorized_noisy(q_function)
    make_agent(q_function=q_function, optimizer=lambda params, lr=None: optimizer)
    assert "optimizer holds 2 tensors that are not parameters of q_function" in caplog.text
