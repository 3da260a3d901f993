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
SMALL = ope.FQEConfig(gamma=GAMMA, learning_rate=0.01, batch_size=64, target_update_interval=25,
                      encoder_params={"hidden_units": (16,)})  # fmt: skip


def recorded(discrete: bool = True) -> MDPDataset:
    rng = np.random.default_rng(0)
    obs = np.tile(np.eye(2, dtype=np.float32), (N, 1))
    action: Any = rng.integers(0, 2, 2 * N) if discrete else rng.normal(0.0, 1.0, (2 * N, 1))
    reward = action if discrete else -((action[:, 0] - 0.5) ** 2)
    end = np.arange(2 * N) % 2 == 1
    return MDPDataset.from_arrays(
        obs, action, reward, end, discrete_action=discrete, next_observations=np.roll(obs, -1, 0)
    )


def first_outweighs() -> np.ndarray:
    """Log-probabilities of recorded actions by which the first episode outweighs all others."""
    rare = np.full(2 * N, np.log(0.5))
    rare[:2] = -12.0
    return rare


def of_probability(p: float) -> nn.Module:
    layer = nn.Linear(2, 2, bias=False)
    layer.weight.data = torch.tensor([[np.log(1 - p)] * 2, [np.log(p)] * 2], dtype=torch.float32)
    return nn.Sequential(layer, SoftmaxCategoricalHead())


ALL = ("fqe", "is", "wis", "pdis", "wpdis", "dr", "wdr", "magic")


@pytest.mark.parametrize(
    "behavior", [np.full(2 * N, np.log(0.5)), of_probability(0.5), None], ids=["recorded", "policy", "fitted"]
)
def test_every_estimate_of_a_random_policy_holds_the_truth(behavior: Any) -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    found = ope.evaluate_offline(
        of_probability(0.8), recorded(), gamma=GAMMA, behavior=behavior, deterministic=False, n_steps=400,
        config=SMALL, interval=SETTINGS,
    )  # fmt: skip
    assert tuple(found) == ALL
    for name, each in found.items():
        assert abs(each.value - TRUTH) < 0.05 + (0.05 if name == "fqe" else 4 * each.standard_error), name
        assert each.n_episodes == N and each.n_truncated == 0
    assert found["wis"].interval[0] < TRUTH < found["wis"].interval[1]
    assert np.isnan(found["fqe"].effective_sample_size) and found["is"].effective_sample_size > 100


def test_recorded_probabilities_take_the_place_of_a_behaviour_policy() -> None:
    policy, data, chance = of_probability(0.8), recorded(), np.full(2 * N, np.log(0.5))
    told = MDPDataset.from_arrays(**data.to_arrays(), log_probs=chance)
    options: Any = {"gamma": GAMMA, "deterministic": False, "n_steps": 1, "config": SMALL, "interval": SETTINGS}
    for_all = [
        ope.evaluate_offline(policy, told, **options),
        ope.evaluate_offline(policy, data, behavior=chance, **options),
    ]
    assert len({each["wis"].value for each in for_all}) == 1
    assert ope.evaluate_offline(policy, told, behavior=chance * 2, **options)["is"].value != for_all[0]["is"].value


def test_modes_of_a_discrete_policy_are_probabilities_too() -> None:
    torch.manual_seed(0)
    algo = algos.DiscreteBC()
    algo.create_impl((2,), 2)
    algo.impl.policy = of_probability(0.9)
    found = ope.evaluate_offline(
        algo, recorded(), gamma=GAMMA, behavior=np.full(2 * N, np.log(0.5)), n_steps=400, config=SMALL,
        interval=SETTINGS,
    )  # fmt: skip
    # It always takes action 1; a quarter of the episodes do.
    assert found["wis"].value == pytest.approx(1 + GAMMA) and found["fqe"].value == pytest.approx(1 + GAMMA, abs=0.1)
    assert found["wis"].effective_sample_size == (recorded().actions.reshape(N, 3)[:, :2].sum(1) == 2).sum()


def test_a_continuous_policy_without_densities_has_fitted_q_evaluation_alone() -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    policy = nn.Sequential(Constant(0.5), DeterministicHead())
    found = ope.evaluate_offline(
        policy, recorded(False), gamma=GAMMA, n_steps=600, config=SMALL, interval=SETTINGS
    )  # fmt: skip
    assert tuple(found) == ("fqe",) and found["fqe"].value == pytest.approx(0.0, abs=0.2)


def test_densities_weigh_the_samples_of_a_continuous_policy() -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    target = nn.Sequential(Constant(0.5), GaussianHeadWithFixedCovariance(0.8))
    found = ope.evaluate_offline(
        target, recorded(False), gamma=GAMMA, deterministic=False, n_steps=600, config=SMALL, interval=SETTINGS
    )  # fmt: skip
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
    torch.manual_seed(0)
    fqe = ope.DiscreteFQE(of_probability(0.8), SMALL)
    fqe.build_with_dataset(recorded())
    fqe.agent.act_deterministically = False
    found = ope.evaluate_offline(
        fqe.algo, recorded(), gamma=GAMMA, behavior=np.full(2 * N, np.log(0.5)), deterministic=False, fqe=fqe
    )  # fmt: skip
    assert fqe.grad_step == 0
    start = recorded().observations[::3][:1]
    assert found["fqe"].value == pytest.approx(float(fqe.predict_state_value(start)[0]), rel=1e-4)


def test_episodes_that_were_cut_off_go_on_in_the_model() -> None:
    rows = recorded()
    arrays = rows.to_arrays()
    cut = MDPDataset.from_arrays(
        arrays["observations"], arrays["actions"], arrays["rewards"], np.zeros(2 * N), arrays["terminals"],
        discrete_action=True, next_observations=np.roll(arrays["observations"], -1, 0),
    )  # fmt: skip
    torch.manual_seed(0)
    fqe = ope.DiscreteFQE(of_probability(0.8), SMALL)
    fqe.build_with_dataset(rows)
    fqe.agent.act_deterministically = False
    options: dict[str, Any] = {"gamma": GAMMA, "behavior": np.full(2 * N, np.log(0.5)), "deterministic": False}
    ended, going_on = (ope.evaluate_offline(fqe.algo, each, fqe=fqe, **options) for each in (rows, cut))
    assert (ended["dr"].n_truncated, going_on["dr"].n_truncated) == (0, N)
    assert going_on["wis"].value == ended["wis"].value and going_on["dr"].value != ended["dr"].value


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"behavior": np.full(2 * N, 0.5)}, ValueError, "behavior has numbers up to 0.5, expected logarithms"),
        ({"behavior": np.zeros(3)}, ValueError, r"behavior: got shape \(3,\)"),
        ({"behavior": "uniform"}, TypeError, "got a str, expected log-probabilities"),
        ({"estimators": ["mean"]}, ValueError, r"estimators is \['mean'\], expected some of fqe, is, wis"),
        ({"estimators": "fqe"}, ValueError, "in a list"),
        ({"interval": 0.95}, TypeError, r"interval is 0.95 \(float\), expected a Bootstrap"),
        ({"estimators": []}, ValueError, r"estimators is \[\], expected some of fqe, is, wis"),
        ({"estimators": 3}, ValueError, "estimators is 3, expected some of fqe, is, wis"),
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
        ope.evaluate_offline(
            of_probability(0.8), recorded(), **{"n_steps": 1, "gamma": GAMMA, "config": SMALL, **options}
        )


def test_observations_that_an_agent_cannot_take_are_refused() -> None:
    bc = algos.DiscreteBC()
    bc.create_impl((3,), 2)
    with pytest.raises(
        ValueError, match=r"observations \(2,\) and actions of size 2 came, but DiscreteBC .* for \(3,\)"
    ):
        ope.evaluate_offline(bc, recorded(), n_steps=1, gamma=GAMMA, config=SMALL)
    with pytest.raises(ValueError, match="obs does not fit"):
        ope.evaluate_offline(bc.impl, recorded(), n_steps=1, gamma=GAMMA, config=SMALL)


def test_a_class_is_no_algorithm() -> None:
    with pytest.raises(TypeError, match="algo is the class DiscreteBC, expected one that is made of it"):
        ope.FQE(algos.DiscreteBC, SMALL).fit(recorded(), 1)
    with pytest.raises(TypeError, match="algo is the class DiscreteBC, expected one that is made of it"):
        ope.evaluate_offline(algos.DiscreteBC, recorded())


def test_a_model_that_evaluates_another_algorithm_is_refused() -> None:
    one, other = (algos.DiscreteBC() for _ in range(2))
    for each in (one, other):
        each.create_impl((2,), 2)
    fqe = ope.FQE(one, SMALL)
    fqe.build_with_dataset(recorded())
    options = {"gamma": GAMMA, "fqe": fqe, "estimators": ["fqe"]}
    with pytest.raises(ValueError, match="fqe evaluates another policy than that of algo"):
        ope.evaluate_offline(other, recorded(), **options)
    other.copy_policy_from(one)
    for same in (one, one.impl, other):
        assert "fqe" in ope.evaluate_offline(same, recorded(), **options)


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
    found = ope.evaluate_offline(
        of_probability(0.8), recorded(), gamma=GAMMA, config=SMALL, interval=SETTINGS, estimators=estimators, n_steps=1,
        show_progress=False,
    )  # fmt: skip
    assert set(found) == set(estimators)
    by_model = ["built", "fitted"] if {"fqe", "dr", "wdr", "magic"} & {*estimators} else []
    assert seen == by_model + ["imitated"] * (estimators != ["fqe"])


@pytest.mark.parametrize("estimators", [["is"], ["fqe", "wdr"]], ids="-".join)
@pytest.mark.parametrize(
    ("policy", "options", "why"),
    [
        (DeterministicHead(), {}, "the policy gives DeltaVector, which has none"),
        (GaussianHeadWithFixedCovariance(0.8), {"deterministic": True}, "modes of .* give deterministic=False"),
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
        ope.evaluate_offline(algo, recorded(False), gamma=GAMMA, config=SMALL, estimators=estimators, **options)
    for given in (None, ["fqe"]):  # without a name it is left out
        found = ope.evaluate_offline(
            algo, recorded(False), gamma=GAMMA, config=SMALL, estimators=given, n_steps=1, interval=SETTINGS, **options
        )
        assert tuple(found) == ("fqe",)


def test_one_warning_speaks_of_all_estimates() -> None:
    options: Any = {"n_steps": 1, "gamma": GAMMA, "config": SMALL, "interval": SETTINGS}
    with pytest.warns(ope.UnreliableEstimateWarning, match="is, wis, pdis, wpdis, dr, wdr, magic: ") as told:
        found = ope.evaluate_offline(of_probability(0.8), recorded(), behavior=first_outweighs(), **options)
    of_model, of_weights = told
    assert "not judged" in str(of_model.message) and found["fqe"].warning and found["wis"].warning
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
        ({"config": ope.FQEConfig(gamma=0.9)}, "gamma is 0.5, but config has 0.9"),
        ({"config": ope.FQEConfig(gamma=GAMMA, reward_scaler="standard")}, "config has the reward_scaler 'standard'"),
        ({"fqe": ope.DiscreteFQE(of_probability(0.5))}, "gamma is 0.5, but fqe has 0.99"),
    ],
)
def test_a_model_of_other_returns_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ope.evaluate_offline(of_probability(0.8), recorded(), gamma=GAMMA, n_steps=1, **options)


def test_a_model_of_another_policy_is_refused() -> None:
    policy, data = of_probability(0.8), recorded()
    fqe = ope.DiscreteFQE(policy, SMALL)
    fqe.build_with_dataset(data)
    options: Any = {"gamma": GAMMA, "behavior": np.full(2 * N, np.log(0.5)), "interval": SETTINGS}
    with pytest.raises(ValueError, match="fqe evaluates modes of the policy, and deterministic=False"):
        ope.evaluate_offline(policy, data, deterministic=False, fqe=fqe, **options)
    fqe.agent.act_deterministically = False
    fqe.fit(data, 400, 400, logger_adapter=NoopAdapterFactory(), show_progress=False)
    for given in ({"deterministic": False, "fqe": fqe}, {"fqe": fqe}, {"n_steps": 400, "config": SMALL}):
        found = ope.evaluate_offline(policy, data, **given, **options)  # a policy alone gives samples
        for name in ("fqe", "dr", "wdr"):
            assert found[name].value == pytest.approx(TRUTH, abs=0.1), name


def test_a_policy_without_densities_is_evaluated_as_it_acts() -> None:
    env_data = recorded(discrete=False)
    policy = nn.Sequential(nn.Linear(2, 1), DeterministicHead())
    critics = [nn.Sequential(ConcatObsAndAction(), nn.Linear(3, 1)) for _ in range(2)]
    optimizers = [torch.optim.Adam(part.parameters()) for part in (policy, *critics)]
    agent = agents.TD3PlusBC(policy, *critics, *optimizers, ReplayBuffer(), GAMMA, Greedy())
    found = ope.evaluate_offline(agent, env_data, gamma=GAMMA, n_steps=3, config=SMALL, interval=SETTINGS)
    assert not agent.act_deterministically and tuple(found) == ("fqe",)
    fqe = ope.FQE(agent, SMALL)
    fqe.build_with_dataset(env_data)
    assert tuple(ope.evaluate_offline(agent, env_data, gamma=GAMMA, fqe=fqe, interval=SETTINGS)) == ("fqe",)
    with pytest.raises(TypeError, match="which has no density"):
        ope.evaluate_offline(agent, env_data, gamma=GAMMA, n_steps=3, config=SMALL, deterministic=False)
