"""What estimators take over from others, and what their optimisers forget."""

import copy
import warnings

import numpy as np
import pytest
import torch
from estimator_parts import QUIET, fitted, make, predicted, vectors

from pfrl_like import ope
from pfrl_like.errors import NotFittedError
from pfrl_like.testing.play import difference

OBS = np.random.default_rng(1).normal(size=(7, 4))


def test_policies_and_q_functions_are_copied() -> None:
    given, taking = fitted("TD3"), fitted("DDPG", n_critics=2)
    assert not np.array_equal(predicted(given, OBS), predicted(taking, OBS))
    taking.copy_policy_from(given)
    assert np.array_equal(predicted(given, OBS), predicted(taking, OBS))
    actions = predicted(given, OBS)
    assert not np.array_equal(given.predict_value(OBS, actions), taking.predict_value(OBS, actions))
    other = fitted("TD3")
    other.copy_q_function_from(given)
    assert np.array_equal(given.predict_value(OBS, actions), other.predict_value(OBS, actions))
    with pytest.raises(ValueError, match="expected two estimators that have a policy"):
        fitted("DQN").copy_policy_from(given)


def test_a_target_follows_the_policy_of_what_has_no_target() -> None:
    imitator, taking = fitted("BC"), fitted("TD3")
    taking.copy_policy_from(imitator)
    for policy in (taking.impl.policy, taking.impl.target_policy):
        assert all(map(torch.equal, policy.parameters(), imitator.impl.policy.parameters()))


def test_networks_of_another_form_are_not_copied() -> None:
    taking = fitted("TD3")
    before = copy.deepcopy(taking.impl.state_dict())
    with pytest.raises(ValueError, match="algo has a policy with different parameters"):
        taking.copy_policy_from(fitted("TD3", encoder_params={"hidden_units": [16, 16]}))
    with pytest.raises(ValueError, match="algo has a Q-function with different parameters"):
        taking.copy_q_function_from(fitted("TD3", n_critics=3))
    assert not difference(taking.impl.state_dict(), before)


def test_the_shapes_that_another_one_was_built_for_build_this_one() -> None:
    pretrained, made = fitted("CQL"), make("SAC")
    assert made.observation_shape is None and made.action_size is None
    made.create_impl(pretrained.observation_shape, pretrained.action_size)
    assert made.observation_shape == (4,) and made.action_size == 2
    assert made.get_action_type() is ope.ActionSpace.CONTINUOUS
    assert make("DQN").get_action_type() is ope.ActionSpace.DISCRETE


@pytest.mark.parametrize("what", ["policy", "q_function"])
def test_networks_that_see_through_another_scaler_are_warned_of(what: str) -> None:
    given = fitted("CQL", scaler="standard")
    for scaler in (None, "min_max"):
        other = fitted("SAC", scaler=scaler)
        with pytest.warns(UserWarning, match=f"copied {what.replace('q_f', 'Q-f')} .* scaler StandardScaler") as told:
            getattr(other, f"copy_{what}_from")(given)
        assert told[0].filename == __file__
    same = make("SAC", scaler=given.scaler_)
    same.create_impl(given.observation_shape, given.action_size)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(same, f"copy_{what}_from")(given)
    assert what == "q_function" or np.array_equal(same.predict(OBS), given.predict(OBS))


@pytest.mark.parametrize("what", ["policy", "q_function"])
def test_what_optimisers_keep_is_copied_and_rates_are_not(what: str) -> None:
    given, taking = fitted("CQL"), make("SAC", actor_learning_rate=0.1, critic_learning_rate=0.2)
    taking.create_impl(given.observation_shape, given.action_size)
    other = {"policy": "q_func1_optimizer", "q_function": "policy_optimizer"}[what]
    name, rate = {"policy": ("policy_optimizer", 0.1), "q_function": ("q_func1_optimizer", 0.2)}[what]
    getattr(taking, f"copy_{what}_optim_from")(given)
    ours, theirs = getattr(taking.impl, name).state_dict(), getattr(given.impl, name).state_dict()
    assert ours["state"] and not difference(ours["state"], theirs["state"])
    assert ours["param_groups"][0]["lr"] == rate and not getattr(taking.impl, other).state
    kept = copy.deepcopy(theirs["state"])
    taking.fit(vectors(False), n_epochs=1, **QUIET)
    assert not difference(getattr(given.impl, name).state_dict()["state"], kept)


def test_the_optimiser_of_several_networks_takes_the_state_of_one() -> None:
    given, taking = fitted("DiscreteBCQ"), make("DiscreteBCQ")
    taking.create_impl((4,), 3)
    taking.copy_q_function_optim_from(given)
    learnt = {id(param) for param in taking.impl.model.parameters()}
    assert {id(param) for param in taking.impl.optimizer.state} == learnt


@pytest.mark.parametrize("what", ["policy", "q_function"])
def test_states_of_other_forms_are_not_taken(what: str) -> None:
    taking = fitted("SAC")
    before = copy.deepcopy(taking.impl.state_dict())
    take = getattr(taking, f"copy_{what}_optim_from")
    with pytest.raises(ValueError, match="with different parameters"):
        take(fitted("SAC", encoder_params={"hidden_units": [8]}))
    wrong = fitted("SAC")
    name = {"policy": "policy_optimizer", "q_function": "q_func1_optimizer"}[what]
    [*getattr(wrong.impl, name).state.values()][-1]["exp_avg"] = torch.zeros(3, 3)
    with pytest.raises(ValueError, match=r"state 'exp_avg' of shape \(3, 3\)"):
        take(wrong)
    wrong = fitted("SAC")
    params = getattr(wrong.impl, name).param_groups[0]["params"]
    wrong.impl.gradient_steps[name].optimizer = torch.optim.SGD(params, lr=0.1)
    with pytest.raises(ValueError, match="has the optimiser SGD, expected Adam"):
        take(wrong)
    assert not difference(taking.impl.state_dict(), before)


@pytest.mark.parametrize("what", ["policy", "policy_optim", "q_function", "q_function_optim"])
def test_what_lacks_such_a_part_is_refused(what: str) -> None:
    part = "policy" if what.startswith("policy") else "Q-function"
    without = fitted("DQN" if part == "policy" else "BC")
    for taking, given in ((fitted("SAC"), without), (without, fitted("SAC")), (without, without)):
        with pytest.raises(ValueError, match=f"expected two estimators that have a {part}"):
            getattr(taking, f"copy_{what}_from")(given)
    with pytest.raises(TypeError, match="algo is int, expected an estimator"):
        getattr(without, f"copy_{what}_from")(5)
    with pytest.raises(NotFittedError):
        getattr(fitted("SAC"), f"copy_{what}_from")(make("SAC"))


def test_nothing_is_copied_if_a_part_does_not_fit() -> None:
    taking, wrong = fitted("TD3"), fitted("TD3")
    wrong.impl.target_policy = fitted("TD3", encoder_params={"hidden_units": [8]}).impl.policy
    before = copy.deepcopy(taking.impl.state_dict())
    with pytest.raises(ValueError, match="algo has a policy with different parameters"):
        taking.copy_policy_from(wrong)
    assert not difference(taking.impl.state_dict(), before)


def test_optimisers_that_forget_step_like_new_ones() -> None:
    data = vectors(False)
    old, new = fitted("SAC"), make("SAC")
    new.create_impl((4,), 2)
    for name in old.impl.saved_attributes:
        if isinstance(getattr(old.impl, name), torch.nn.Module):
            getattr(new.impl, name).load_state_dict(getattr(old.impl, name).state_dict())
    old.reset_optimizer_states()
    batch = data.sample_batch(16, 0.9)
    for made in (old, new):
        torch.manual_seed(0)
        made.update(0, 0, batch)
    assert all(map(torch.equal, old.impl.policy.parameters(), new.impl.policy.parameters()))
