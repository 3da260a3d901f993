"""Estimators that select random actions."""

from typing import Any

import numpy as np
import pytest
import torch
from estimator_parts import vectors

from pfrl_like import load_learnable
from pfrl_like.algos import DiscreteRandomPolicy, RandomPolicy
from pfrl_like.errors import ExportError, NotFittedError
from pfrl_like.ope.policies import evaluates_modes, policy_of
from pfrl_like.preprocessing import MinMaxActionScaler
from pfrl_like.utils import set_random_seed

OBS = np.zeros((2000, 4), np.float32)


@pytest.mark.parametrize(("distribution", "std"), [("uniform", 3**-0.5), ("normal", 0.2)])
def test_actions_have_the_distribution_and_the_range_of_the_scaler(distribution: str, std: float) -> None:
    scaler = MinMaxActionScaler(minimum=[0.0, 4.0], maximum=[2.0, 6.0])
    made = RandomPolicy(distribution=distribution, normal_std=0.2, action_scaler=scaler)
    made.build_with_dataset(vectors(False))
    set_random_seed(0)
    actions = made.predict(OBS)
    assert actions.shape == (2000, 2) and actions.dtype == np.float32
    np.testing.assert_allclose(actions.mean(0), [1.0, 5.0], atol=0.05)
    np.testing.assert_allclose(actions.std(0), std, atol=0.03)
    set_random_seed(0)
    assert np.array_equal(made.sample_action(OBS), actions)
    made.set_params(distribution="normal", normal_std=9.0)
    wide = made.predict(OBS)
    assert wide.min() == 0 and wide.max() == 6  # clipped


def test_discrete_actions_are_uniform_among_allowed_ones() -> None:
    made = DiscreteRandomPolicy()
    made.build_with_env("CartPole-v1")
    assert abs(made.predict(OBS).mean() - 0.5) < 0.05
    assert (made.predict(OBS, action_mask=[False, True]) == 1).all()


@pytest.mark.parametrize("kind", [RandomPolicy, DiscreteRandomPolicy])
def test_models_are_saved_and_nothing_is_learnt(kind: Any) -> None:
    made, data = kind(), vectors(kind.discrete_action)
    with pytest.raises(NotFittedError, match="call build_with_dataset, build_with_env, create_impl or load_model$"):
        made.predict(OBS)
    made.create_impl((4,), 3)
    made.save_model("model.pt")
    again = load_learnable("model.pt")
    assert type(again) is kind and again.predict(OBS[:2]).shape == made.predict(OBS[:2]).shape
    for use in (made.fit, made.fitter, made.fit_online, made.update):
        with pytest.raises(NotImplementedError, match="does not learn: use predict"):
            use(data)
    with pytest.raises(NotImplementedError, match="no values"):
        made.predict_value(OBS, made.predict(OBS))
    with pytest.raises(ExportError, match="has no network to export"):
        made.save_policy("policy.pt")
    made.reset_optimizer_states()  # there are none
    with pytest.raises(ValueError, match="expected two estimators that have a policy"):
        made.copy_policy_from(again)


def test_off_policy_evaluation_knows_the_probabilities_of_random_actions() -> None:
    made, obs = DiscreteRandomPolicy(), torch.from_numpy(OBS)
    made.create_impl((4,), 3)
    assert not evaluates_modes(made)
    assert torch.allclose(policy_of(made, 2)(obs).probs, torch.full((2000, 3), 1 / 3))
    scaler = MinMaxActionScaler(minimum=[0.0, 4.0], maximum=[2.0, 6.0])
    continuous = RandomPolicy(action_scaler=scaler)
    continuous.create_impl((4,), 2)
    actions = policy_of(continuous, None)(obs).sample()
    np.testing.assert_allclose(actions.mean(0), [1.0, 5.0], atol=0.05)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"distribution": "even"}, ValueError, "distribution is 'even', expected one of 'uniform', 'normal'"),
        ({"normal_std": -1.0}, ValueError, "normal_std is -1.0"),
        ({"normal_sdt": 1.0}, TypeError, "the nearest is 'normal_std'"),
    ],
)
def test_bad_values_are_named(options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        RandomPolicy(**options).create_impl((4,), 2)
