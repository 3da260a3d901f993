"""What estimators take over from others, and what their optimisers forget."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from estimator_parts import QUIET, make, predicted, vectors

from pfrl_like.testing.requirement import difference

OBS = np.random.default_rng(1).normal(size=(7, 4))


def fitted(name: str, **options: Any) -> Any:
    made = make(name, **options)
    return made.fit(vectors(made.discrete_action), n_epochs=1, **QUIET)


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
    with pytest.raises(ValueError, match="algo has a policy of another form"):
        taking.copy_policy_from(fitted("TD3", encoder_params={"hidden_units": [16, 16]}))
    with pytest.raises(ValueError, match="algo has a q func1 of another form"):
        taking.copy_q_function_from(fitted("TD3", n_critics=3))
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
