"""Policies of other actions, and of other observations, than those of the data or of the environment."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from agent_parts import make_agent
from fqe_parts import BOX, DISCRETE, OBS, QUIET, LeansOn, built, config, data, softmax_policy
from pair_base import Noise
from torch import nn

from pfrl_like import algos, ope
from pfrl_like.dataset.selection import Selection
from pfrl_like.policies import GaussianHeadWithFixedCovariance, SoftmaxCategoricalHead

N = len(Selection(data()))


def gaussians(size: int, n_obs: int = OBS) -> nn.Module:
    return nn.Sequential(nn.Linear(n_obs, size), GaussianHeadWithFixedCovariance(0.5))


def categorical(n_actions: int, n_obs: int = OBS) -> nn.Module:
    return nn.Sequential(nn.Linear(n_obs, n_actions), SoftmaxCategoricalHead())


def of_torch(n_actions: int) -> nn.Module:
    class Head(nn.Module):
        def forward(self, logits: torch.Tensor) -> torch.distributions.Categorical:
            return torch.distributions.Categorical(logits=logits)

    return nn.Sequential(nn.Linear(OBS, n_actions), Head())


DISCRETE_ONES = r"algo has discrete actions.*, but the actions of the {} continuous"
CONTINUOUS_ONES = r"algo has continuous actions.*, but the actions of the {} discrete"
#: What does not fit, the kind of the actions it meets, and what is said of it.
MISFITS: dict[str, tuple[Callable[[], Any], bool, type[Exception], str]] = {
    "an agent of a Q-function": (lambda: make_agent("DoubleDQN"), False, TypeError, DISCRETE_ONES),
    "a categorical policy": (softmax_policy, False, TypeError, DISCRETE_ONES),
    "discrete predictions": (lambda: LeansOn(True), False, TypeError, DISCRETE_ONES),
    "continuous predictions": (lambda: LeansOn(False), True, TypeError, CONTINUOUS_ONES),
    "a continuous agent": (lambda: built(algos.TD3()).impl, True, TypeError, CONTINUOUS_ONES),
    "no policy": (lambda: nn.Linear(OBS, 2), False, TypeError, "algo returns Tensor, expected distributions"),
    "longer actions": (lambda: gaussians(3), False, ValueError, "algo has 3 action dimensions, but .* 2"),
    "fewer actions": (lambda: categorical(1), True, ValueError, "algo has 1 discrete actions, but .* 2"),
    "other observations": (lambda: categorical(2, 3), True, ValueError, r"obs does not fit algo; obs is \(1, 5\)"),
}


@pytest.mark.parametrize("way", ["the data", "the environment"])
@pytest.mark.parametrize("name", MISFITS)
def test_fqe_refuses_an_algorithm_of_other_actions_and_remains_as_it_was(name: str, way: str) -> None:
    make, discrete, error, message = MISFITS[name]
    algo = make()
    fqe = (ope.DiscreteFQE if hasattr(algo, "update") and discrete else ope.FQE)(algo, config())
    known = fqe.discrete_action
    text = message.format("data are" if way == "the data" else "environment are")
    with pytest.raises(error, match=text):
        if way == "the data":
            fqe.fit(data(discrete), 1, **QUIET)
        else:
            fqe.collect(Noise(DISCRETE if discrete else BOX), n_steps=1, show_progress=False)
    assert (fqe.impl, fqe.observation_shape, fqe.action_size, fqe.discrete_action) == (None, None, None, known)


def test_an_environment_needs_every_action_of_the_policy_and_data_do_not() -> None:
    fqe = ope.FQE(categorical(3), config())
    with pytest.raises(ValueError, match="algo has 3 discrete actions, but the environment has 2"):
        fqe.build_with_env(Noise(DISCRETE))
    fqe.build_with_dataset(data())
    assert fqe.action_size == 3
    fqe.build_with_env(Noise(gymnasium.spaces.Discrete(3)))


def test_the_actions_of_a_distribution_of_torch_are_counted() -> None:
    fqe = ope.FQE(of_torch(4), config())
    fqe.build_with_dataset(data())
    assert fqe.action_size == 4


ESTIMATORS = {
    "an estimator of indices": (lambda: built(algos.DiscreteBCQ()), False, TypeError, DISCRETE_ONES),
    "an estimator of vectors": (lambda: built(algos.BCQ()), True, TypeError, CONTINUOUS_ONES),
}


@pytest.mark.parametrize("estimators", [["fqe"], ["wis"]], ids="-".join)
@pytest.mark.parametrize("name", MISFITS | ESTIMATORS)
def test_no_estimate_is_made_of_an_algorithm_of_other_actions(
    name: str, estimators: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make, discrete, error, message = (MISFITS | ESTIMATORS)[name]
    monkeypatch.setattr(ope.FQE, "fit", lambda *_, **__: pytest.fail("it is too late"))
    options: dict[str, Any] = {"estimators": estimators, "behavior": np.full(N, -1.0), "config": config()}
    with pytest.raises(error, match=message.format("data are")):
        ope.evaluate_offline(make(), data(discrete), **options)


@pytest.mark.parametrize(
    ("behavior", "discrete", "error", "message"),
    [
        (gaussians(3), False, ValueError, "behavior has 3 action dimensions, but the data have 2"),
        (gaussians(2), True, TypeError, "behavior has continuous actions"),
        (categorical(2), False, TypeError, "behavior has discrete actions"),
        (categorical(1), True, ValueError, "behavior has 1 discrete actions, but the data have 2"),
        (categorical(2, 3), True, ValueError, "obs does not fit behavior"),
        (nn.Linear(OBS, 2), True, TypeError, "behavior returns Tensor, expected distributions"),
        (3, True, TypeError, "behavior is int, expected an agent, or an object with predict"),
        (algos.DiscreteBC(), True, ValueError, "behavior is DiscreteBC, not built yet"),
        (["a"] * N, True, TypeError, "behavior: expected numbers"),
    ],
    ids=["longer", "continuous", "discrete", "fewer", "observations", "no policy", "number", "unbuilt", "texts"],
)
def test_a_behavior_of_other_actions_is_refused_by_its_name(
    behavior: Any, discrete: bool, error: type[Exception], message: str
) -> None:
    algo = categorical(2) if discrete else gaussians(2)
    with pytest.raises(error, match=message):
        ope.evaluate_offline(algo, data(discrete), behavior=behavior, estimators=["wis"])


def test_log_probabilities_with_a_gradient_are_taken() -> None:
    told = torch.full((N,), -1.0, requires_grad=True)
    assert "wis" in ope.evaluate_offline(categorical(2), data(), behavior=told, estimators=["wis"])


@pytest.mark.parametrize(
    ("obs", "action", "options", "error", "message"),
    [
        (np.zeros((3, OBS), np.float32), np.zeros(2, int), {}, ValueError, "action has 2 rows, but obs has 3"),
        (np.zeros((3, OBS), np.float32), [0, 7, 0], {}, ValueError, "policy has 2 discrete actions, but the data have"),
        (np.zeros((3, OBS)), [0, 1, 0], {}, ValueError, "obs does not fit policy.*float64.*float32"),
        (np.zeros((3, OBS), np.float32), np.zeros((3, 2)), {"modes": True}, ValueError, "modes is True"),
    ],
)
def test_log_probs_refuses_data_that_do_not_fit(
    obs: Any, action: Any, options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ope.log_probs(categorical(2), obs, action, **options)


def test_log_probs_of_no_transition_are_none() -> None:
    assert ope.log_probs(categorical(2), np.zeros((0, OBS), np.float32), np.zeros(0, int)).shape == (0,)


def test_trying_a_policy_leaves_the_random_streams() -> None:
    algo = built(algos.BCQ())  # which draws candidates
    fqe = ope.FQE(algo, config())
    fqe.create_impl((OBS,), 2)
    before = torch.get_rng_state(), np.random.get_state()[1]
    fqe.build_with_dataset(data(False))
    assert torch.equal(before[0], torch.get_rng_state()) and np.array_equal(before[1], np.random.get_state()[1])


def test_imitators_have_every_action_that_occurs() -> None:
    for options, message in (({"n_actions": 1}, "n_actions is 1, .* an integer from 2"), ({"n_steps": 0}, "n_steps")):
        with pytest.raises(ValueError, match=message):
            ope.fitted_behavior(data(), **{"n_steps": 1, **options})
    assert ope.fitted_behavior(data(), 1, 3).policy(torch.zeros(1, OBS)).probs.shape == (1, 3)


def test_the_random_actions_of_a_greedy_policy_have_a_probability() -> None:
    with pytest.raises(ValueError, match=r"epsilon is 3.0, expected a number from 0 to 1"):
        ope.GreedyPolicy(nn.Identity(), epsilon=3.0)
