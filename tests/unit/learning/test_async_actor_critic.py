"""A3C and ACER: what they share, what is their own, and what each argument of A3C does."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from async_parts import MAKE, OBS, a3c_model, make_a3c, make_acer, parameters
from torch import nn
from torch.testing import assert_close

from pfrl_like.agents import A3C, ACER
from pfrl_like.batch import Batch
from pfrl_like.nn import Branched
from pfrl_like.policies import SoftmaxCategoricalHead
from pfrl_like.utils.batch_states import batch_states

EYE = np.eye(OBS, dtype=np.float32)


def play(agent: Any, n_steps: int = 12, ends: tuple[int, ...] = (6,), seed: int = 0) -> None:
    """Steps through one-hot observations, each with its number as the reward; those in `ends` terminate."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    for i in range(n_steps):
        agent.act(EYE[i % OBS])
        agent.observe(EYE[(i + 1) % OBS], 0.1 * i, i in ends, False)


def moved_by(agent: Any, n_steps: int, ends: tuple[int, ...] = ()) -> torch.Tensor:
    """How far the shared parameters move; with SGD at rate 1 that is the gradient."""
    before = parameters(agent)
    play(agent, n_steps, ends)
    return before - parameters(agent)


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_gradients_of_the_copy_move_the_shared_parameters_and_the_copy_follows(make: Any) -> None:
    agent = make()
    own, shared = agent.model, agent.shared_model
    assert all(a is not b for a, b in zip(own.parameters(), shared.parameters(), strict=True))
    before = parameters(agent)
    play(agent, 3)
    assert torch.equal(parameters(agent), before)  # fewer than t_max
    with torch.no_grad():  # another process
        next(shared.parameters()).add_(1.0)
    assert not torch.equal(next(own.parameters()), next(shared.parameters()))
    play(agent, 1)
    assert all(torch.equal(a, b) for a, b in zip(own.parameters(), shared.parameters(), strict=True))
    difference = parameters(agent) - before
    assert difference[:40].min() > 0.5  # both what the other did and what was learnt here
    assert not torch.equal(difference[:40], torch.ones(40))


def test_updates_come_after_t_max_steps_and_at_ends() -> None:
    agent = make_a3c(t_max=5)
    play(agent, 12, ends=(6,))  # 5, then 2 to the end; then 5
    assert agent.optim_t == 3
    play(agent, 4)
    assert agent.optim_t == 3


def test_a_new_run_forgets_the_steps_of_the_last() -> None:
    agent = make_a3c(recurrent=True)
    play(agent, 3)
    agent.stop_episode()
    play(agent, 3)
    assert agent.optim_t == 0


def test_a_copy_that_is_sent_leaves_out_the_own_model() -> None:
    for agent in (make_a3c(), make_acer()):
        play(agent, 8)
        assert "model" not in agent.__getstate__()
        other = pickle.loads(pickle.dumps(agent))
        assert_close(parameters(other), parameters(agent))
        held = {id(param) for group in other.optimizer.param_groups for param in group["params"]}
        assert held == set(map(id, other.shared_model.parameters()))
        assert held.isdisjoint(map(id, other.model.parameters()))
        for each in (agent, other, copy.deepcopy(agent)):
            play(each, 4)
        assert_close(parameters(other), parameters(agent))


def test_a_shared_model_that_is_put_in_is_followed() -> None:
    agent, other = make_a3c(), make_a3c()
    play(other)
    agent.shared_model, agent.optimizer = other.shared_model, other.optimizer
    assert torch.equal(next(agent.model.parameters()), next(other.shared_model.parameters()))
    before = parameters(other)
    play(agent)
    assert not torch.equal(parameters(other), before)


def test_buffers_such_as_running_moments_are_shared() -> None:
    model = nn.Sequential(
        nn.BatchNorm1d(OBS), Branched(nn.Sequential(nn.Linear(OBS, 2), SoftmaxCategoricalHead()), nn.Linear(OBS, 1))
    )
    agent = A3C(model, torch.optim.SGD(model.parameters(), lr=0.1), 4, 0.9)
    play(agent, 4)
    assert model[0].running_mean.abs().sum() > 0  # type: ignore[union-attr, operator]


@pytest.mark.parametrize(
    ("state", "message"), [({"t": "x"}, "t is 'x'"), ({"other": 1}, "other"), ({"steps": {"0": "x"}}, "the steps are")]
)
def test_a_state_that_is_none_is_refused(state: dict[str, Any], message: str) -> None:
    for make in (make_a3c, make_acer):
        with pytest.raises(ValueError, match=message):
            make().restore_state(state)


def test_several_sequences_are_refused() -> None:
    rows: Any = dict.fromkeys(("obs", "action", "reward", "next_obs", "discount"), torch.zeros(4))
    with pytest.raises(ValueError, match="2 sequences"):
        make_a3c().update(Batch(**rows, lengths=torch.tensor([2, 2])))


@pytest.mark.parametrize("make", [make_a3c, make_acer])
def test_forbidden_actions_are_neither_taken_nor_learnt(make: Any) -> None:
    agent = make(t_max=2, replay_start_size=2) if make is make_acer else make(t_max=2)
    entropies: list[float] = []
    loss = agent.loss

    def watched(batch: Batch) -> Any:
        result = loss(batch)
        entropies.extend(result[2].get("entropy", torch.zeros(0)).tolist())
        return result

    agent.loss = watched
    mask = np.array([False, True])
    for i in range(8):
        assert agent.act(EYE[0], action_mask=mask) == 1
        agent.observe(EYE[1], 1.0, i == 3, False, action_mask=mask)
    assert entropies == [0.0] * 8  # one action is left
    state = agent.state_dict()["attributes"]["model"]
    assert all(torch.isfinite(value).all() for value in state.values())


def test_recurrent_states_go_on_over_updates_and_end_with_episodes() -> None:
    agent = make_a3c(recurrent=True, t_max=2)
    states: list[Any] = []
    agent._learn_from = lambda batch: states.append(batch.recurrent_state)  # type: ignore[method-assign]
    play(agent, 7, ends=(3,))
    assert states[0] is None  # the initial one
    (second,), (third,) = states[1:]
    assert second.abs().sum() > 0
    assert not third.any()
    assert second.shape == (1, 1, 8)


def test_an_override_reads_the_recurrent_state_of_its_environment() -> None:
    class Own(A3C):
        def update(self, statevar: Any) -> None:  # type: ignore[override]
            states.append(self.train_recurrent_states[0])

    states, model = list[Any](), a3c_model(recurrent=True)
    agent = Own(model, torch.optim.SGD(model.parameters(), 0.1), 1, 0.9, recurrent=True)
    agent.batch_act(EYE[:2])
    agent.batch_observe(EYE[1:3], [0.0] * 2, [False] * 2, [False] * 2)
    assert torch.equal(torch.cat(states, dim=1), agent.train_recurrent_states[0])
    assert agent.test_recurrent_states is None


# Arguments of A3C


def test_keep_loss_scale_same_weighs_short_rollouts_up() -> None:
    plain, scaled = (moved_by(make_a3c(lr=1.0, t_max=6, keep_loss_scale_same=keep), 2, (1,)) for keep in (False, True))
    assert_close(scaled, 3 * plain)  # t_max / n = 6 / 2
    plain, scaled = (moved_by(make_a3c(lr=1.0, t_max=6, keep_loss_scale_same=keep), 6) for keep in (False, True))
    assert torch.equal(scaled, plain)


def test_normalize_grad_by_t_max_divides_by_the_number_of_steps() -> None:
    plain, scaled = (moved_by(make_a3c(lr=1.0, t_max=6, normalize_grad_by_t_max=n), 4, (3,)) for n in (False, True))
    assert_close(scaled, plain / 4)


def test_max_grad_norm_bounds_the_gradient() -> None:
    assert moved_by(make_a3c(lr=1.0), 4).norm() > 0.1
    assert_close(moved_by(make_a3c(lr=1.0, max_grad_norm=0.1), 4).norm().item(), 0.1, rtol=1e-4, atol=0)


def test_batch_states_and_phi_make_the_features() -> None:
    seen: list[int] = []

    def own(states: Any, device: Any, phi: Any) -> Any:
        seen.append(len(states))
        return batch_states(states, device, phi)

    agent = make_a3c(batch_states=own, phi=lambda obs: obs[::-1].copy())
    play(agent, 4)
    assert seen == [1, 1, 1, 1, 1]  # each observation that was acted on, then what came after


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"gamma": 1.5}, ValueError, "gamma is 1.5"),
        ({"gamma": "x"}, TypeError, "gamma"),
        ({"max_grad_norm": -1}, ValueError, "max_grad_norm"),
        ({"average_value_decay": 2}, ValueError, "average_value_decay"),
        ({"average_reward_tau": -1}, ValueError, "average_reward_tau"),
        ({"beta": -1}, ValueError, "beta"),
        ({"max_grad_norm": 0}, ValueError, "max_grad_norm is 0, expected a positive number"),
        ({"phi": 3}, TypeError, "phi"),
        ({"batch_states": 3}, TypeError, "batch_states"),
        ({"unknown": 3}, TypeError, "unknown"),
    ],
)
def test_arguments_out_of_range_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make_a3c(**options)


def test_parts_that_do_not_fit_are_refused() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="no parameter of model"):
        A3C(nn.Linear(2, 2), optimizer, 4, 0.9)
    with pytest.raises(TypeError, match="model is"):
        A3C(len, optimizer, 4, 0.9)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="optimizer is"):
        A3C(model, model, 4, 0.9)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="model gives Tensor"):
        A3C(model, optimizer, 4, 0.9).act(np.zeros(2, np.float32))


def test_a_model_that_gives_other_parts_is_refused_by_name() -> None:
    def act(agent: type[Any], *parts: nn.Module, **options: Any) -> None:
        model = Branched(*parts)
        agent(model, torch.optim.SGD(model.parameters(), lr=0.1), 4, 0.9, **options).act(EYE[0])

    policy = nn.Sequential(nn.Linear(OBS, 2), SoftmaxCategoricalHead())
    with pytest.raises(TypeError, match=r"model \(first output\) gives Tensor"):
        act(A3C, nn.Linear(OBS, 1), policy)
    with pytest.raises(ValueError, match=r"model gives values of shape \(1, 2\) for 1 observations"):
        act(A3C, policy, nn.Linear(OBS, 2))
    with pytest.raises(TypeError, match=r"expected \(distribution, ActionValue, values\)"):
        act(ACER, policy, nn.Linear(OBS, 1), replay_buffer=None)


@pytest.mark.parametrize("make", [make_a3c, make_acer])
def test_steps_without_a_mask_allow_everything(make: Any) -> None:
    agent = make()
    batches: list[Batch] = []
    loss = agent.loss
    agent.loss = lambda batch: (batches.append(batch), loss(batch))[1]
    masks = [None, np.array([True, False]), None, np.array([False, True])]
    for mask in masks:
        agent.act(EYE[0], action_mask=mask)
        agent.observe(EYE[1], 0.0, False, False)
    expected = [[True, True], [True, False], [True, True], [False, True]]
    assert batches[0].action_mask.tolist() == expected  # type: ignore[union-attr]
    assert batches[0].next_action_mask.tolist() == [*expected[1:], [True, True]]  # type: ignore[union-attr]


def test_importance_weights_count() -> None:
    moved = []
    for weight in (None, torch.full((4,), 0.5), torch.zeros(4)):
        agent = make_a3c(lr=1.0)
        before = parameters(agent)
        batch = Batch(
            obs=torch.eye(OBS)[:4], action=torch.zeros(4, dtype=torch.int64), reward=torch.arange(4.0),
            next_obs=torch.eye(OBS)[1:], discount=torch.full((4,), 0.9), weight=weight,
        )  # fmt: skip
        agent.update(batch)
        moved.append(parameters(agent) - before)
    assert_close(moved[1], moved[0] / 2)
    assert not moved[2].any()


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("make", [make_a3c, make_acer])
def test_an_agent_saved_between_two_updates_goes_on_as_if_it_had_not_been(make: Any, recurrent: bool) -> None:
    agent, other = make(recurrent, t_max=5), make(recurrent, t_max=5)
    if make is make_acer:
        agent.replay_buffer = other.replay_buffer = None
    play(agent, 8)
    other.load_state_dict(copy.deepcopy(agent.state_dict()))
    for each in (agent, other):
        each.act(EYE[0], action_mask=np.array([False, True]))  # nothing but this step has a mask
        each.observe(EYE[1], 1.0, False, False)
        play(each, 3, ends=(), seed=1)
    assert agent.optim_t == other.optim_t == 3
    assert torch.equal(parameters(agent), parameters(other))


def test_an_optimiser_of_more_than_the_model_warns_and_works(caplog: Any) -> None:
    model = make_a3c().shared_model
    other = nn.Parameter(torch.ones(3))
    agent = A3C(model, torch.optim.SGD([*model.parameters(), other], lr=0.1), 4, 0.9)
    assert "holds 1 tensors that are not parameters of model" in caplog.text
    before = parameters(agent)
    play(agent, 4)
    assert not torch.equal(parameters(agent), before)
    assert other.tolist() == [1, 1, 1]
