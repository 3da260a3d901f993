"""All estimates of an algorithm from a dataset, where its return is known."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like import agents, algos, ope
from pfrl_like.dataset import MDPDataset
from pfrl_like.explorers import Greedy
from pfrl_like.loggers import NoopAdapterFactory
from pfrl_like.nn import ConcatObsAndAction
from pfrl_like.policies import DeterministicHead, GaussianHeadWithFixedCovariance, SoftmaxCategoricalHead
from pfrl_like.replay_buffers import ReplayBuffer

# Two steps in states that are told by their number; action 1 brings 1, action 0 nothing, and the episode ends. The
# behaviour takes action 1 with probability 1/2, the policy with 0.8: its return is 0.8 (1 + gamma).
GAMMA, N = 0.5, 400
TRUTH = 0.8 * (1 + GAMMA)
SETTINGS = ope.Bootstrap(n_resamples=200, rng=np.random.default_rng(0))
SMALL = ope.FQEConfig(gamma=GAMMA, learning_rate=0.02, batch_size=32, target_update_interval=20,
                      encoder_params={"hidden_units": (16,)})  # fmt: skip


def recorded(discrete: bool = True) -> MDPDataset:
    rng = np.random.default_rng(0)
    obs = np.tile(np.eye(2, dtype=np.float32), (N, 1))
    action: Any = rng.integers(0, 2, 2 * N) if discrete else rng.normal(0.0, 1.0, (2 * N, 1))
    reward = action if discrete else -((action[:, 0] - 0.5) ** 2)
    end = np.arange(2 * N) % 2 == 1
    later = np.roll(obs, -1, 0)
    return MDPDataset.from_arrays(obs, action, reward, end, discrete_action=discrete, next_observations=later)


#: Log-probabilities of the recorded actions.
CHANCE = np.full(2 * N, np.log(0.5))


def of_probability(p: float) -> nn.Module:
    layer = nn.Linear(2, 2, bias=False)
    layer.weight.data = torch.tensor([[np.log(1 - p)] * 2, [np.log(p)] * 2], dtype=torch.float32)
    return nn.Sequential(layer, SoftmaxCategoricalHead())


def evaluated(algo: Any = None, data: Any = None, **options: Any) -> dict[str, ope.Estimate]:
    """The estimates of an algorithm, or of a random policy, by as little work as can be."""
    small = {"gamma": GAMMA, "n_steps": 1, "config": SMALL, "interval": SETTINGS, "show_progress": False}
    data = recorded() if data is None else data
    return ope.evaluate_offline(of_probability(0.8) if algo is None else algo, data, **small | options)


def model_of(algo: Any, data: Any = None, modes: bool = True) -> Any:
    """A fitted Q evaluation that has learnt nothing yet."""
    fqe = ope.FQE(algo, SMALL)
    fqe.build_with_dataset(recorded() if data is None else data)
    fqe.agent.act_deterministically = modes
    return fqe


ALL = ("fqe", "is", "wis", "pdis", "wpdis", "dr", "wdr", "magic")


@pytest.mark.parametrize(
    "behavior", [pytest.param(CHANCE, marks=pytest.mark.slow), of_probability(0.5), None],
    ids=["recorded", "policy", "fitted"],
)  # fmt: skip
def test_every_estimate_of_a_random_policy_holds_the_truth(behavior: Any) -> None:
    found = evaluated(behavior=behavior, deterministic=False, n_steps=150)
    assert tuple(found) == ALL
    for name, each in found.items():
        assert abs(each.value - TRUTH) < 0.05 + (0.05 if name == "fqe" else 4 * each.standard_error), name
        assert each.n_episodes == N and each.n_truncated == 0
    assert found["wis"].interval[0] < TRUTH < found["wis"].interval[1]
    assert np.isnan(found["fqe"].effective_sample_size) and found["is"].effective_sample_size > 100


def test_observations_of_float64_are_evaluated_as_they_are_learnt_from() -> None:
    single, columns = recorded(), recorded().to_arrays()
    columns["observations"] = columns["observations"].astype(np.float64)
    columns["next_observations"] = columns["next_observations"].astype(np.float64)
    double = MDPDataset.from_arrays(**columns)
    assert double.observations.dtype == np.float64
    names = ["fqe", "wis"]
    found, wanted = (evaluated(data=data, behavior=CHANCE, estimators=names) for data in (double, single))
    assert found["wis"].value == wanted["wis"].value and np.isfinite(found["fqe"].value)


def test_recorded_probabilities_take_the_place_of_a_behaviour_policy() -> None:
    told = MDPDataset.from_arrays(**recorded().to_arrays(), log_probs=CHANCE)
    by_data, given = evaluated(data=told, deterministic=False), evaluated(behavior=CHANCE, deterministic=False)
    assert by_data["wis"].value == given["wis"].value
    assert evaluated(data=told, behavior=CHANCE * 2, deterministic=False)["is"].value != given["is"].value


def test_modes_of_a_discrete_policy_are_probabilities_too() -> None:
    algo = algos.DiscreteBC()
    algo.create_impl((2,), 2)
    algo.impl.policy = of_probability(0.9)
    found = evaluated(algo, behavior=CHANCE, n_steps=150)
    # It always takes action 1; a quarter of the episodes do.
    assert found["wis"].value == pytest.approx(1 + GAMMA) and found["fqe"].value == pytest.approx(1 + GAMMA, abs=0.1)
    assert found["wis"].effective_sample_size == (recorded().actions.reshape(N, 3)[:, :2].sum(1) == 2).sum()


@pytest.mark.parametrize(
    ("fits", "n_steps"), [(False, 150), pytest.param(True, 600, marks=pytest.mark.slow)], ids=["policy", "fitted"]
)
def test_densities_weigh_the_samples_of_a_continuous_policy(fits: bool, n_steps: int) -> None:
    target = nn.Sequential(Constant(0.5), GaussianHeadWithFixedCovariance(0.8))
    behavior = None if fits else nn.Sequential(Constant(0.0), GaussianHeadWithFixedCovariance(1.0))
    found = evaluated(target, recorded(False), deterministic=False, n_steps=n_steps, behavior=behavior)
    for name in ALL:  # the reward is minus the variance of the policy
        assert found[name].value == pytest.approx(-0.64 * (1 + GAMMA), abs=0.25), name


class Constant(nn.Module):
    """The same number for every observation."""

    def __init__(self, number: float) -> None:
        super().__init__()
        self.number = number

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.full_like(obs[:, :1], self.number)


def test_a_fitted_evaluation_is_used_as_it_is() -> None:
    fqe = model_of(of_probability(0.8), modes=False)
    found = evaluated(fqe.algo, behavior=CHANCE, deterministic=False, fqe=fqe)
    assert fqe.grad_step == 0
    start = recorded().observations[::3][:1]
    assert found["fqe"].value == pytest.approx(float(fqe.predict_state_value(start)[0]), rel=1e-4)


def test_episodes_that_were_cut_off_go_on_in_the_model() -> None:
    rows = recorded().to_arrays()
    ends, next_observations = rows["terminals"], np.roll(rows["observations"], -1, 0)
    columns = {"terminals": 0 * ends, "timeouts": ends, "next_observations": next_observations}
    cut = MDPDataset.from_arrays(**rows | columns, discrete_action=True)
    fqe = model_of(of_probability(0.8), modes=False)
    options: dict[str, Any] = {"behavior": CHANCE, "deterministic": False, "fqe": fqe}
    ended, going_on = (evaluated(fqe.algo, each, **options) for each in (recorded(), cut))
    assert (ended["dr"].n_truncated, going_on["dr"].n_truncated) == (0, N)
    assert going_on["wis"].value == ended["wis"].value and going_on["dr"].value != ended["dr"].value


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"behavior": np.full(2 * N, 0.5)}, ValueError, "behavior has numbers up to 0.5, expected logarithms"),
        ({"behavior": np.zeros(3)}, ValueError, r"behavior: got shape \(3,\)"),
        ({"behavior": "uniform"}, TypeError, "got str, expected log-probabilities"),
        ({"estimators": ["mean"]}, ValueError, r"estimators is \['mean'\], expected a list with some of fqe, is, wis"),
        ({"estimators": "fqe"}, ValueError, "expected a list with some of"),
        ({"interval": 0.95}, TypeError, r"interval is 0.95 \(float\), expected a Bootstrap"),
        ({"estimators": []}, ValueError, r"estimators is \[\], expected a list with some of fqe, is, wis"),
        ({"estimators": 3}, ValueError, "estimators is 3, expected a list with some of fqe, is, wis"),
        ({"config": {"gamma": GAMMA}}, TypeError, r"config is .* \(dict\), expected an FQEConfig, or None"),
        ({"fqe": "fqe"}, TypeError, r"fqe is 'fqe' \(str\), expected an FQE, or None"),
        ({"gamma": 2.0, "config": None}, ValueError, r"gamma is 2.0, expected a number from 0 to 1"),
        ({"n_steps": 0, "estimators": ["wis"]}, ValueError, "n_steps is 0, expected an integer from 1"),
        ({"deterministic": "yes"}, TypeError, r"deterministic is 'yes' \(str\), expected True or False"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_fitted(
    options: dict[str, Any], error: type[Exception], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ope.FQE, "fit", lambda *_, **__: pytest.fail("it is too late"))
    with pytest.raises(error, match=text):
        evaluated(**options)


def test_observations_that_an_agent_cannot_take_are_refused() -> None:
    bc = algos.DiscreteBC()
    bc.create_impl((3,), 2)
    text = r"observations of shape \(2,\) and actions of size 2, but DiscreteBC .* for shape \(3,\)"
    with pytest.raises(ValueError, match=text):
        evaluated(bc)
    with pytest.raises(ValueError, match="obs does not fit"):
        evaluated(bc.impl)


def test_a_class_is_no_algorithm() -> None:
    for use in (model_of, evaluated):
        with pytest.raises(TypeError, match="algo is the class DiscreteBC, expected an instance"):
            use(algos.DiscreteBC)


def test_a_model_that_evaluates_another_algorithm_is_refused() -> None:
    one, other = (algos.DiscreteBC() for _ in range(2))
    for each in (one, other):
        each.create_impl((2,), 2)
    fqe = model_of(one)
    with pytest.raises(ValueError, match="fqe evaluates another policy than algo"):
        evaluated(other, fqe=fqe, estimators=["fqe"])
    other.copy_policy_from(one)
    for same in (one, one.impl, other):
        assert "fqe" in evaluated(same, fqe=fqe, estimators=["fqe"])


@pytest.mark.parametrize(
    "estimators", [["fqe"], ["wis", "fqe"], ["dr"], ["wdr"], ["magic"], ["wis"], ["wpdis", "is", "pdis"]], ids="-".join
)
def test_only_what_the_wanted_estimates_need_is_fitted(estimators: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(name: str, function: Any) -> Any:
        return lambda *args, **options: [seen.append(name), function(*args, **options)][1]

    monkeypatch.setattr(ope.FQE, "create_impl", watched("built", ope.FQE.create_impl))
    monkeypatch.setattr(ope.FQE, "fit", watched("fitted", ope.FQE.fit))
    monkeypatch.setattr("pfrl_like.ope.evaluate.fitted_behavior", watched("imitated", ope.fitted_behavior))
    assert set(evaluated(estimators=estimators)) == set(estimators)
    by_model = ["built", "fitted"] if {"fqe", "dr", "wdr", "magic"} & {*estimators} else []
    assert seen == by_model + ["imitated"] * (estimators != ["fqe"])


@pytest.mark.parametrize("estimators", [["is"], ["fqe", "wdr"]], ids="-".join)
@pytest.mark.parametrize(
    ("policy", "options", "why"),
    [
        (DeterministicHead(), {}, "the policy returns DeltaVector, which has no"),
        (GaussianHeadWithFixedCovariance(0.8), {"deterministic": True}, "modes of .* set deterministic=False"),
    ],
    ids=["certain", "modes"],
)
def test_an_estimate_that_a_policy_does_not_have_is_refused_by_name(
    policy: nn.Module, options: Any, why: str, estimators: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    algo = nn.Sequential(Constant(0.5), policy)
    text = rf"estimators is .*, but {estimators[-1]} need probabilities, and {why}"
    with monkeypatch.context() as patched, pytest.raises(ValueError, match=text):
        patched.setattr(ope.FQE, "fit", lambda *_, **__: pytest.fail("it is too late"))
        evaluated(algo, recorded(False), estimators=estimators, **options)
    for given in (None, ["fqe"]):  # without a name it is left out
        assert tuple(evaluated(algo, recorded(False), estimators=given, **options)) == ("fqe",)


def test_one_warning_speaks_of_all_estimates() -> None:
    rare = np.where(np.arange(2 * N) < 2, -12.0, CHANCE)  # so that the first episode outweighs all others
    with pytest.warns(ope.UnreliableEstimateWarning, match="is, wis, pdis, wpdis, dr, wdr, magic: ") as told:
        found = evaluated(behavior=rare)
    of_model, of_weights = told
    assert "coverage is unknown" in str(of_model.message) and found["fqe"].warning and found["wis"].warning
    assert of_model.filename == of_weights.filename == __file__


def test_the_warning_of_an_estimators_score_comes_from_the_line_that_asked() -> None:
    estimator = algos.DQN(encoder_params={"hidden_units": (4,)})
    estimator.create_impl((2,), 2)
    with pytest.warns(ope.UnreliableEstimateWarning) as told:
        estimator.score(recorded(), n_steps=1, deterministic=True)
    assert [each.filename for each in told if each.category is ope.UnreliableEstimateWarning] == [__file__]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"config": ope.FQEConfig(gamma=0.9)}, "gamma is 0.5, but gamma of config is 0.9"),
        ({"config": ope.FQEConfig(gamma=GAMMA, reward_scaler="standard")}, "config has the reward_scaler 'standard'"),
        ({"fqe": ope.DiscreteFQE(of_probability(0.5))}, "gamma is 0.5, but gamma of fqe is 0.99"),
    ],
)
def test_a_model_of_other_returns_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        evaluated(**options)


def test_a_model_of_another_policy_is_refused() -> None:
    policy, data = of_probability(0.8), recorded()
    fqe = model_of(policy)
    with pytest.raises(ValueError, match="fqe evaluates modes of the policy, expected samples"):
        evaluated(policy, deterministic=False, fqe=fqe)
    fqe.agent.act_deterministically = False
    fqe.fit(data, 150, logger_adapter=NoopAdapterFactory(), show_progress=False)
    for given in ({"fqe": fqe}, {"n_steps": 150}):
        found = evaluated(policy, behavior=CHANCE, **given)  # a policy alone gives samples
        for name in ("fqe", "dr", "wdr"):
            assert found[name].value == pytest.approx(TRUTH, abs=0.1), name


def test_a_policy_without_densities_is_evaluated_as_it_acts() -> None:
    data, policy = recorded(discrete=False), nn.Sequential(nn.Linear(2, 1), DeterministicHead())
    critics = [nn.Sequential(ConcatObsAndAction(), nn.Linear(3, 1)) for _ in range(2)]
    optimizers = [torch.optim.Adam(part.parameters()) for part in (policy, *critics)]
    agent = agents.TD3PlusBC(policy, *critics, *optimizers, ReplayBuffer(), GAMMA, Greedy())
    assert not agent.act_deterministically
    for fqe in (None, model_of(agent, data, modes=False)):
        assert tuple(evaluated(agent, data, fqe=fqe)) == ("fqe",)
    with pytest.raises(TypeError, match="which has no density"):
        evaluated(agent, data, deterministic=False)
